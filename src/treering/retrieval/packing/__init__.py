"""Choose the content of a context pack from what a task's searches found. Pure: `verbs.query.context` reads."""

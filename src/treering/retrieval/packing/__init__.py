"""Choose the content of a context pack from the results of a task's searches. Pure: `verbs.query.context` reads."""

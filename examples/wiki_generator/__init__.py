"""A generator of wikis: LangGraph agents plan and write pages, with a memory in MongoDB."""

"""The memory of wiki agents as a middleware of LangChain's agents."""

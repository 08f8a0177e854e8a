"""LangChain: documents and chats over a space (`langchain_core`), and the memory of wiki agents (`langchain`)."""

"""Treering for LangChain: a vector store, a retriever, the history of a chat, and the memory of wiki agents.

from treering.client import MemorySystemClient
from treering.langchain import TreeringRetriever, WikiMemoryMiddleware

chain = TreeringRetriever(client=MemorySystemClient(), k=5) | prompt | model
agent = create_agent(model, tools, middleware=[WikiMemoryMiddleware("page_agent")])
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="langchain")

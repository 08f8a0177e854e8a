"""Treering for Haystack: a document store, and a retriever that searches it.

from treering.client import BlockingMemoryClient
from treering.haystack import TreeringDocumentRetriever, TreeringDocumentStore

store = TreeringDocumentStore(BlockingMemoryClient())
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__, framework="haystack")

"""Clients of spaces for the suites of others: embedding by hashing words, nothing in the background."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treering.client import BlockingMemoryClient, MemoryConfig
from treering.testing import HashingEmbedder


@dataclass(frozen=True)
class GivenEmbedder:
    """The embeddings of a framework as an embedder of a space."""

    embeddings: Any
    dimension: int
    model_id: str = "given"
    unrelated_below: float = 0.0

    def embed_documents(self, texts):
        return np.array(self.embeddings.embed_documents([*texts]), np.float32).reshape(len(texts), self.dimension)

    def embed_query(self, text):
        return np.array(self.embeddings.embed_query(text), np.float32)


def client(file=":memory:", embedder=None):
    """Return a client of a space in memory, or in the folder of a file that a suite names."""
    place = {"backend": "in_memory"}
    if str(file) != ":memory:":
        place = {"backend": "sqlite", "sqlite": {"path": str(Path(f"{file}.treering"))}}
    parts = {"background": False, "embedder": embedder or HashingEmbedder()}
    return BlockingMemoryClient(MemoryConfig.read(place), channel="user", **parts)

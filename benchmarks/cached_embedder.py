"""The built-in embedder, remembering its vectors in a file from run to run."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import apsw
import numpy as np

from treering.extensions.encoder.onnx import BgeSmall
from treering.ports.models import Vector

_FEW = 32  # texts kept at once: an interrupted run loses no more


class CachedEmbedder:
    """`BgeSmall` with a cache by model and text. The same vectors; only their time is saved."""

    def __init__(self, file: Path) -> None:
        self._inner = BgeSmall()
        self._rows = apsw.Connection(str(file))
        self._rows.set_busy_timeout(60_000)
        self._rows.execute("CREATE TABLE IF NOT EXISTS vectors(key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")

    @property
    def model_id(self) -> str:
        """Name what made the vectors."""
        return self._inner.model_id

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._inner.dimension

    @property
    def unrelated_below(self) -> float:
        """The cosine below which a text says nothing about a question."""
        return self._inner.unrelated_below

    def knows(self, text: str) -> bool:
        """Return whether the model knows most of the words of a text."""
        return self._inner.knows(text)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length."""
        unknown = [text for text in dict.fromkeys(texts) if self._find("document", text) is None]
        for start in range(0, len(unknown), _FEW):
            batch = unknown[start : start + _FEW]
            self._keep("document", batch, self._inner.embed_documents(batch))
        return np.array([self._find("document", text) for text in texts], np.float32).reshape(-1, self.dimension)

    def embed_query(self, text: str) -> Vector:
        """Embed a question: `float32[dim]`, unit length."""
        found = self._find("query", text)
        if found is None:
            found = self._inner.embed_query(text)
            self._keep("query", [text], found[np.newaxis])
        return found

    def _find(self, role: str, text: str) -> Vector | None:
        row = next(self._rows.execute("SELECT vector FROM vectors WHERE key = ?", (self._key(role, text),)), None)
        return np.frombuffer(row[0], np.float32) if row else None

    def _keep(self, role: str, texts: Sequence[str], vectors: Vector) -> None:
        rows = [(self._key(role, text), vector.tobytes()) for text, vector in zip(texts, vectors, strict=True)]
        with self._rows:
            self._rows.executemany("INSERT OR REPLACE INTO vectors(key, vector) VALUES(?, ?)", rows)

    def _key(self, role: str, text: str) -> bytes:
        return blake2b("\0".join((self.model_id, role, text)).encode(), digest_size=20).digest()

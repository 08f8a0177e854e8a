"""Full text and vectors in one script, as a baseline: it loads nothing of Treering but how vectors are kept."""

import re
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np

from treering.ports.models import Vector
from treering.retrieval.index.tables import restored, stored_form

DIMENSION = 384
_POOL = 50

Paragraph = tuple[str, str]
"""Title and text."""


class Script:
    """What somebody would write in an afternoon: FTS5, vectors as blobs and in a matrix, ranks added up."""

    def __init__(self, path: Path, *, dimension: int = DIMENSION) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS notes USING fts5(title, body, tokenize='porter unicode61')"
        )
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors(key INTEGER PRIMARY KEY, vector BLOB)")
        self._matrix = np.zeros((0, dimension), np.float32)

    @classmethod
    def opened(cls, path: Path, *, dimension: int = DIMENSION) -> "Script":
        """Open what was made before."""
        script = cls(path, dimension=dimension)
        blobs = [blob for (blob,) in script._connection.execute("SELECT vector FROM vectors ORDER BY key")]
        script._matrix = restored(np.frombuffer(b"".join(blobs), np.int16).reshape(-1, dimension))
        return script

    def add(self, paragraphs: Sequence[Paragraph], vectors: Vector) -> None:
        """Keep paragraphs with their vectors."""
        with self._connection:
            self._connection.executemany("INSERT INTO notes(title, body) VALUES(?, ?)", paragraphs)
            rows = ((row.tobytes(),) for row in stored_form(vectors))
            self._connection.executemany("INSERT INTO vectors(vector) VALUES(?)", rows)
        self._matrix = np.concatenate([self._matrix, vectors])

    def ask(self, question: str, vector: Vector) -> list[str]:
        """Return the ten best paragraphs."""
        return list(self.bodies(self.best(question, vector)).values())

    def bodies(self, keys: Sequence[int]) -> dict[int, str]:
        """Read paragraphs by key."""
        sql = f"SELECT rowid, body FROM notes WHERE rowid IN ({','.join('?' * len(keys))})"
        return dict(self._connection.execute(sql, keys))

    def best(self, question: str, vector: Vector) -> list[int]:
        """Return the keys of the ten best paragraphs, counted from 1 in the order in which they came."""
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        sql = "SELECT rowid FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT ?"
        worded = [key for (key,) in self._connection.execute(sql, (words, _POOL))]
        near = (1 + np.argsort(-(self._matrix @ vector))[:_POOL]).tolist()
        scores: dict[int, float] = {}
        for ranked in (worded, near):
            for place, key in enumerate(ranked):
                scores[key] = scores.get(key, 0.0) + 1 / (60 + place)
        return sorted(scores, key=lambda key: -scores[key])[:10]

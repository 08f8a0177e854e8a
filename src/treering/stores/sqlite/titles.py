"""The titles of a space, read without opening it: for completion in shells."""

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

MAX_TITLES = 1_000
"""The maximal number of titles; those changed last are read."""
_BUSY_SECONDS = 0.05


class Titled(NamedTuple):
    """An object with its title."""

    id: str
    kind: str
    status: str
    title: str


def titles(file: Path, types: Collection[str]) -> Sequence[Titled]:
    """Return the objects of some types, the last changed first; none if the file cannot be read at once."""
    marks = ", ".join("?" * len(types))
    query = (
        f"SELECT id, kind, status, title FROM objects WHERE type IN ({marks}) "  # noqa: S608 - only question marks
        "AND status NOT IN ('archived', 'superseded', 'merged') ORDER BY updated_at DESC LIMIT ?"
    )
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as space:
            return [Titled(*row) for row in space.execute(query, (*types, MAX_TITLES))]
    except sqlite3.Error:
        return []

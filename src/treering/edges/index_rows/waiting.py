"""Texts that wait for a vector: in which order, and what is embedded."""

from collections.abc import Iterable

from treering.core.objects import Object
from treering.derived.passages import gist_hash, passages_of
from treering.derived.projection import PRIORITIES

# Not `CASE role WHEN`: Citus writes that down wrongly for its workers.
_RANKS = " ".join(f"WHEN role = '{role}' THEN {rank}" for role, rank in PRIORITIES.items())

PRIORITY = f"min(CASE {_RANKS} ELSE 0 END)"
"""How early a text is embedded, as SQL over the passages that have it: lower numbers come first."""


def gists_of(objects: Iterable[Object]) -> dict[str, str]:
    """Return the texts to embed of some objects, by content hash."""
    return {gist_hash(passage): passage.gist for item in objects for passage in passages_of(item)}

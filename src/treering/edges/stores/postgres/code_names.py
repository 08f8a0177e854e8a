"""Finding passages of code by the names they vouch for: what they define, import and use."""

from collections.abc import Mapping, Sequence

from treering.edges.stores.postgres.reach import Sight
from treering.edges.stores.postgres.transactions import Transaction


def settle_names(
    transaction: Transaction, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Forget names that passages vouched for, then keep those that they vouch for now, both by key."""


def purge_names(transaction: Transaction, keys: Sequence[int]) -> None:
    """Forget all names of passages of which nothing else is known any more."""


def passages_named(transaction: Transaction, names: Sequence[str], seen: Sight) -> dict[str, list[int]]:
    """Return the current passages that vouch for each name and that are seen, by key: `MOST_NAMED` of each."""
    return {}

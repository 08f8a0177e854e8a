"""The graph in the ledger's database: one record per current passage, and the names it takes, counted."""

from collections.abc import Iterator, Mapping, Sequence

from treering.derived.ties import Ties
from treering.edges.stores.postgres.transactions import Transaction


def settle_ties(transaction: Transaction, ties: Mapping[int, Ties | None]) -> None:
    """Bring what the graph holds of passages to what they tie together now; `None` for those that are gone from it."""


def clear_ties(transaction: Transaction) -> None:
    """Throw the records and names away; numbers of names are not given again."""


def records_of(transaction: Transaction, object_ids: Sequence[str]) -> int:
    """Count the records of objects, by what the records say."""
    return 0


def graph_contents(transaction: Transaction) -> dict[int, int]:
    """Give, by passage key, a hash of its ties by name; of what is damaged another than any."""
    return {}


def ties_contents(ties: Mapping[int, Ties | None]) -> dict[int, int]:
    """Give, by passage key, the hash that `graph_contents` gives of a passage with these ties."""
    return {}


def graph_damage(transaction: Transaction) -> Iterator[str]:
    """Say what is wrong with the graph in itself."""
    return iter(())

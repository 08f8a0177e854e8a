"""Which texts wait for a vector, and whose vectors changed."""

from collections.abc import Iterable, Sequence

from treering.edges.stores.postgres.transactions import Transaction


def settle_texts(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Queue texts that current passages have and no vector; forget texts that no passage has any more."""


def forget_unused(transaction: Transaction, text_ids: Sequence[int]) -> None:
    """Forget those of the texts that no passage has, and no object whose passages are still to be made."""


def queue_differences(transaction: Transaction) -> dict[str, int]:
    """Count, by model, the entries that are in the queue and should not be, or the other way round."""
    return {}


def log_passages(transaction: Transaction, keys: Iterable[int]) -> None:
    """Note that these passages came, went, or got a vector."""

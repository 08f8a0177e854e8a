"""Full text of passages: for each what it is found by, packed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.derived.projection import names_of, words_of
from treering.edges.index_rows.place_terms import place_terms
from treering.edges.stores.postgres.columns import packed
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.passages import Passage


@dataclass(frozen=True, slots=True)
class PassageWords:
    """What a passage is found by in full text, and how long it is for the ranking by words and by names."""

    words: str
    names: str
    terms: int
    trigrams: int

    @classmethod
    def of(cls, passage: Passage) -> "PassageWords":
        """Analyse a passage."""
        found = words_of(passage)
        fields, names = (found.title, found.heading, found.body), names_of(passage)
        terms = sum(len(text.split()) for text in fields) + len(place_terms(passage))
        return cls("\n".join(fields), names, terms, max(0, len(names) - 2))


def settle_words(transaction: Transaction, come: Mapping[int, PassageWords], *, erased: Sequence[int]) -> None:
    """Keep what new passages are found by, and forget what erased ones were found by, both by key."""
    if erased:
        sql = "DELETE FROM passage_words WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(erased))
    rows = [(key, packed(each.words), packed(each.names)) for key, each in come.items()]
    transaction.insert("passage_words", ("key bigint", "words bytea", "names bytea"), rows)


def clear_words(transaction: Transaction) -> None:
    """Forget what all passages are found by."""
    for table in ("passage_words", "posting_runs", "postings"):
        transaction.later(f"DELETE FROM {table} WHERE space = %(space)s")  # noqa: S608 - our tables

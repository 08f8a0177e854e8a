"""Lookups by words and names for writes, which need no ranked search."""

from collections.abc import Sequence
from typing import Protocol

from treering.core.objects import Object, Source
from treering.ports.ledger import Ledger
from treering.ports.passages import PassageHead, Reach


class Lookup(Protocol):
    """Finds duplicates of a statement, the source of a quote, and the files of a module or symbol; analyses text."""

    def text_of(self, item: Object) -> str:
        """Return the indexed text of an object that is no source."""
        ...

    def content_words(self, text: str) -> Sequence[str]:
        """Return the words of a text in order, in lower case, without stop words."""
        ...

    def passages_with(self, text: str, reach: Reach, *, limit: int) -> Sequence[PassageHead]:
        """Return at most `limit` passages in reach that share words with a text, those with most in common first."""
        ...

    def modules(self, name: str, reach: Reach, ledger: Ledger) -> Sequence[Source]:
        """Return the files of code in reach that are the module of a name, with dots, `::` or slashes in it."""
        ...

    def definitions(self, name: str, reach: Reach, ledger: Ledger) -> Sequence[Source]:
        """Return the files of code in reach that define a symbol, by its qualified name or the end of one.

        A name with a dot in front is only the end of one, such as a method's. Tests are returned only if no other file
        defines it.
        """
        ...

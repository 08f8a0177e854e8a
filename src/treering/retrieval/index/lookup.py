"""Lookups by words and names for writes (`ports.lookup`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.objects import Object, Source
from treering.ports.index import Index
from treering.ports.ledger import Ledger, ObjectRequest
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.code_names import CODE_FAMILIES, defined_in, last_name, module_name
from treering.retrieval.index.code_places import file_of, is_test_path
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import look_up
from treering.retrieval.text.analysis import content_words, query_terms

_MAX_FILES = 60
"""Files that are read for the name of a module or symbol."""


@dataclass(frozen=True, slots=True)
class IndexLookup:
    """Lookups in the index of a space."""

    index: Index

    def text_of(self, item: Object) -> str:
        """Return the indexed text of an object that is no source."""
        return passages_of(item)[0].text

    def content_words(self, text: str) -> Sequence[str]:
        """Return the words of a text in order, in lower case, without stop words."""
        return content_words(text)

    def passages_with(self, text: str, reach: Reach, *, limit: int) -> Sequence[PassageHead]:
        """Return at most `limit` passages in reach that share words with a text, those with most in common first."""
        terms = query_terms(text)
        return look_up(self.index, TextRequest(reach, limit, words=(*terms.words, *terms.phrases)))

    def modules(self, name: str, reach: Reach, ledger: Ledger) -> Sequence[Source]:
        """Return the files of code in reach that are the module of a name, with dots, `::` or slashes in it."""
        path = name.strip().replace("::", "/").strip("/")
        if not path or any(character.isspace() for character in path):
            return []
        spelled = dict.fromkeys((path, path.replace(".", "/")))
        names = tuple(module_name(family, one) for family in CODE_FAMILIES for one in spelled)
        sources = self._named(names, reach, ledger)
        return [one for one in sources if (file := file_of(one)) and not spelled.keys().isdisjoint(file[0].modules)]

    def definitions(self, name: str, reach: Reach, ledger: Ledger) -> Sequence[Source]:
        """Return the files of code in reach that define a symbol, by its qualified name or the end of one.

        A name with a dot in front is only the end of one, such as a method's.
        Tests are returned only if no other file defines it.
        """
        names = tuple(last_name(family, name) for family in CODE_FAMILIES)
        sources = self._named(names, reach, ledger)
        defined = {one.id: {name for part in passages_of(one) for name in defined_in(part)} for one in sources}
        exact = [one for one in sources if name in defined[one.id]]
        found = exact or [
            one for one in sources if any(full.endswith(f".{name.removeprefix('.')}") for full in defined[one.id])
        ]
        return [one for one in found if not is_test_path(one.title)] or found

    def _named(self, names: tuple[str, ...], reach: Reach, ledger: Ledger) -> list[Source]:
        """Return the first sources of passages with some names."""
        (passages,) = self.index.passages.read([PassageRequest((), reach, named=names)])
        ids = tuple(dict.fromkeys(head.object_id for head in passages.heads.values()))[:_MAX_FILES]
        (read,) = ledger.read([ObjectRequest(objects=ids)])
        return [item for one in ids if isinstance(item := read.objects.get(one), Source)]

"""What one passage ties together in the entity graph: what it mentions, states, belongs to and links."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from zlib import crc32

from treering.core.evidence import Triple
from treering.derived.analysis import terms_by_token
from treering.derived.extraction.forms import plain_form
from treering.derived.extraction.names import bare_title, entity_key
from treering.ports.extractor import Entity, Excerpt, Extraction, Form
from treering.ports.graph import EdgeType
from treering.ports.passages import Passage, PassageHead

DIALOGUE_KINDS = frozenset({"conversation", "meeting_record"})
MAX_TIES = 400
"""Entities and statements kept of one passage: a passage of nothing but names is a list, and says little of each."""

_FORMS: dict[str, Form] = {"symbol": "code", "code": "code", "data": "data"}
_WORDS = 24
_TITLE_WORDS = 8


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entities or objects tied by a passage. `words` are codes of what the statement says, for facts."""

    one: str
    other: str
    tie: EdgeType
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ties:
    """The part of the graph that one passage vouches for, by entity key or object id; nothing twice.

    Nodes are sorted; facts stand in the order of the text, which says first what it is most about.

    `nodes` holds what the passage itself is tied to. Ends of pairs need not be among them.
    """

    nodes: tuple[tuple[str, EdgeType], ...]
    pairs: tuple[Pair, ...]


def excerpt_of(passage: Passage) -> Excerpt:
    """Return a passage as an extractor reads it."""
    if is_turn(passage):
        speaker, _, _ = passage.heading.partition(" (")
        return Excerpt(passage.text, speaker=speaker, form="dialogue")
    return Excerpt(passage.text, _called(passage), passage.heading, _FORMS.get(passage.role, "prose"))


def ties_of(passage: Passage, extraction: Extraction, links: Iterable[str] = ()) -> Ties:
    """Write down what a passage ties together. `links` are the objects that its own object refers to.

    Triples that the passage carries come before those that were read from its text: together they find more than
    either (MuSiQue, `docs/decisions`).
    """
    title = entity_key(bare_title(_called(passage))) if passage.kind not in DIALOGUE_KINDS else ""
    given = _stated(passage.triples)
    facts = _facts(given, _stated(extraction.triples))
    mentioned = sorted(_mentioned(given, extraction.entities) - {title, ""})[:MAX_TIES]
    nodes = [*((key, EdgeType.MENTION) for key in mentioned), *([(title, EdgeType.TITLE)] if title else [])]
    named = sorted({key for key, _ in nodes} | {end for fact in facts for end in (fact.one, fact.other)})
    forms = (Pair(key, form, EdgeType.FORM) for key in named if (form := plain_form(key)) not in {key, ""})
    own = passage.object_id
    linked = (Pair(own, other, EdgeType.LINK) for other in sorted(set(links)) if other != own)
    return Ties(
        (*nodes, (own, EdgeType.PART)),
        (*facts[:MAX_TIES], *list(forms)[:MAX_TIES], *linked),
    )


def is_turn(passage: Passage | PassageHead) -> bool:
    """Tell whether a passage is a turn of a conversation."""
    return bool(passage.part) and passage.kind in DIALOGUE_KINDS


def word_code(word: str) -> int:
    """Return the code of a (stemmed) word: 16 bits of CRC-32. Words may share one; it costs a little sharpness."""
    return crc32(word.encode(errors="surrogatepass")) & 0xFFFF


def _called(passage: Passage) -> str:
    """Return a passage's title, unless it is only how its text begins: a sentence is not a name."""
    title = passage.title.removesuffix("…").strip()
    begins = passage.text.lstrip("# \t\n").startswith(title)
    is_sentence = title != passage.title or len(title.split()) > _TITLE_WORDS or title[-1:] in ".!?"
    return "" if begins and is_sentence else title


_Ends = tuple[str, str]


def _stated(triples: Iterable[Triple]) -> dict[_Ends, set[int]]:
    """Return the codes of what is said of each two entities, in the order of the triples."""
    stated: dict[_Ends, set[int]] = {}
    known: dict[str, tuple[int, ...]] = {}  # a passage states most of what it says of one thing
    for triple in triples:
        ends = (entity_key(triple.subject), entity_key(triple.object))
        if all(ends) and ends[0] != ends[1]:  # a name of spaces alone has no key
            said = stated.setdefault(ends, set())
            for part in (triple.subject, triple.relation, triple.object):
                if part not in known:
                    known[part] = _codes_of(part)
                said.update(known[part])
    return stated


def _mentioned(given: Iterable[_Ends], entities: Iterable[Entity]) -> set[str]:
    return {*(end for ends in given for end in ends), *(entity_key(entity.name) for entity in entities)}


def _facts(*statements: Mapping[_Ends, set[int]]) -> list[Pair]:
    words: dict[_Ends, set[int]] = {}
    for stated in statements:
        for ends, codes in stated.items():
            words[ends] = words[ends] | codes if ends in words else codes
    return [Pair(one, other, EdgeType.FACT, tuple(sorted(codes)[:_WORDS])) for (one, other), codes in words.items()]


def _codes_of(part: str) -> tuple[int, ...]:
    """Return the codes of the words of one part."""
    return tuple(chain.from_iterable(map(_CODES.__getitem__, terms_by_token(part))))


class _Codes(dict[str, tuple[int, ...]]):
    """The codes of the terms of tokens seen before: parts differ, their words repeat."""

    def __missing__(self, terms: str) -> tuple[int, ...]:
        codes = tuple(map(word_code, terms.split()))
        if len(self) >= _REMEMBERED:
            self.clear()
        self[terms] = codes
        return codes


_CODES = _Codes()
_REMEMBERED = 1 << 16  # tokens

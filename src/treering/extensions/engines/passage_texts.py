"""Describe passages for external engines: texts, places, and their entities in the graph."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from treering.core.objects import Object
from treering.core.writing.integrity import named_references
from treering.ports.index import Index
from treering.ports.ledger import Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, Passages, Reach
from treering.ports.search import EdgeType, GraphView
from treering.ports.vector_engine import DescribedPassage
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.projection import tied_to

_EVERYTHING = Reach("/", descend=True)
_WITHOUT_REFERENCES = frozenset({"source"})


@dataclass(frozen=True, slots=True)
class PassageText:
    """The text of a passage, and its object."""

    object_id: str
    title: str
    text: str


class PassageTexts:
    """Read the texts of passages from a space. Passages that no longer exist are left out."""

    def __init__(self, passages: Passages, ledger: Ledger) -> None:
        self._passages = passages
        self._ledger = ledger

    def __call__(self, keys: Sequence[int]) -> Mapping[int, PassageText]:
        """Return the texts of passages, by key."""
        if not keys:
            return {}
        (passages,) = self._passages.read([PassageRequest(keys=tuple(keys))])
        heads = [passages.heads[key] for key in keys if key in passages.heads]
        request = ObjectRequest(
            objects=tuple(dict.fromkeys(head.object_id for head in heads if not head.part)),
            segments=tuple((head.object_id, head.part) for head in heads if head.part),
        )
        (objects,) = self._ledger.read([request])
        texts = ((head, _text(head, objects)) for head in heads)
        return {head.key: PassageText(head.object_id, head.title, text) for head, text in texts if text is not None}


def _text(head: PassageHead, read: ObjectsFound) -> str | None:
    if head.part:
        segment = read.segments.get((head.object_id, head.part))
        return segment.excerpt if segment else None
    item = read.objects.get(head.object_id)
    return passages_of(item)[0].text if item else None


@dataclass(slots=True)
class _Ties:
    mentions: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    statements: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Named:
    references: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]


class PassageDescriber:
    """Describe passages of a space from its index and ledger, in all scopes."""

    def __init__(self, index: Index, ledger: Ledger) -> None:
        self._index = index
        self._ledger = ledger
        self._texts = PassageTexts(index.passages, ledger)

    def __call__(self, keys: Sequence[int]) -> Mapping[int, DescribedPassage]:
        """Describe the passages that still exist, by key."""
        [passages] = self._index.passages.read([PassageRequest(tuple(keys))])
        heads = {key: passages.heads[key] for key in keys if key in passages.heads}
        ties = _ties_of(list(heads), self._index.graph.view(_EVERYTHING))
        named = self._named(heads.values())
        texts = self._texts(list(heads))
        return {
            key: _described(head, ties[key], named[head.object_id], texts[key].text if key in texts else "")
            for key, head in heads.items()
        }

    def _named(self, heads: Iterable[PassageHead]) -> dict[str, _Named]:
        """Return the references and links of the objects, by id."""
        types = {head.object_id: head.type for head in heads}
        referring = tuple(identity for identity, name in types.items() if name not in _WITHOUT_REFERENCES)
        [read] = self._ledger.read([ObjectRequest(objects=referring, links=tuple(types))])
        return {
            identity: _Named(
                _references(read.objects[identity]) if identity in read.objects else (),
                tuple((link.type, link.target) for link in read.links.get(identity, ()) if link.source == identity),
            )
            for identity in types
        }


def _references(item: Object) -> tuple[tuple[str, str], ...]:
    """Return the references that the index follows, with their fields. Changes of other references reach no passage."""
    followed = frozenset(tied_to(item))
    return tuple(dict.fromkeys((field, ref) for field, ref in named_references(item) if ref in followed))


def _ties_of(keys: Sequence[int], view: GraphView) -> Mapping[int, _Ties]:
    """Return the names of the entities of passages in the graph, by passage key."""
    edges = view.edges(view.of_passages(np.array(keys, np.int64)))
    stated = view.statements(keys)
    ends = np.unique(np.concatenate([edges.target, stated.subject, stated.object]))
    names = view.names(ends.tolist())
    ties: dict[int, _Ties] = defaultdict(_Ties)
    for place, target, tie in zip(edges.source.tolist(), edges.target.tolist(), edges.tie.tolist(), strict=True):
        if target in names and tie == EdgeType.MENTION:
            ties[keys[place]].mentions.append(names[target])
        elif target in names and tie == EdgeType.TITLE:
            ties[keys[place]].titles.append(names[target])
    pairs = zip(stated.passage.tolist(), stated.subject.tolist(), stated.object.tolist(), strict=True)
    for place, subject, other in pairs:
        if subject in names and other in names:
            ties[keys[place]].statements.append((names[subject], names[other]))
    return ties


def _described(head: PassageHead, ties: _Ties, named: _Named, text: str) -> DescribedPassage:
    return DescribedPassage(
        head.object_id,
        head.part,
        head.type,
        head.kind,
        head.role,
        head.scope,
        head.title,
        head.heading,
        head.origin,
        mentions=tuple(dict.fromkeys(ties.mentions)),
        titles=tuple(dict.fromkeys(ties.titles)),
        statements=tuple(dict.fromkeys(ties.statements)),
        references=named.references,
        links=named.links,
        text=text,
    )

"""Bringing an engine beside the space up to date, a moment's work at a time, with a durable cursor."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from treering.core.objects import Object
from treering.core.writing.integrity import named_references
from treering.ports.index import Index
from treering.ports.ledger import Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, Passages, Reach
from treering.ports.search import EdgeType, GraphView
from treering.ports.vector_engine import (
    Describe,
    DescribedPassage,
    EngineState,
    VectorChanges,
    VectorEngine,
    VectorFeed,
)
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.projection import tied_to

_PAGE = 2_000  # vectors that one step takes over


class EngineFollower:
    """Follows the feed of a space with one engine. One process at a time may, which holds the lease `ENGINE`.

    `mark` names the space, the model and the dimension whose vectors it has to keep. With `describe` the engine is told
    what the passages are, besides their vectors.
    """

    def __init__(
        self,
        engine: VectorEngine,
        feed: VectorFeed,
        mark: str,
        *,
        page: int = _PAGE,
        describe: Describe | None = None,
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._mark = mark
        self._page = page
        self._describe = describe

    def is_due(self) -> bool:
        """Tell whether there is something to do that is worth it now. What another model made is left to it."""
        state = self._engine.state()
        if state is None:
            return True
        if not self.is_its_own(state):
            return False
        if state.loaded is not None:
            return True
        changes = self._feed.since(state.moment, 1)
        if changes is None:
            return True
        waiting = len(changes.keys) + changes.left
        if waiting and self._engine.is_worth_writing(waiting, state.count):
            return True
        return bool(self.to_forget())

    def to_forget(self) -> int:
        """Count what was erased and may still be in the engine; 1 where nobody can say."""
        state = self._engine.state()
        if state is None:
            return 0
        count = self._feed.forgotten_since(state.moment) if state.mark == self._mark else None
        return 1 if count is None else count

    def is_its_own(self, state: EngineState) -> bool:
        """Tell whether an engine in such a state keeps vectors of this space and model."""
        return state.mark == self._mark

    def advance(self) -> bool:
        """Take over a page of what waits, durably; tell whether more waits."""
        state = self._known()
        if state is None:
            self.begin()
            return True
        return self._follow(state) if state.loaded is None else self._load(state, state.loaded)

    def begin(self) -> None:
        """Forget what the engine keeps, and begin to take all vectors over."""
        # Taken over from here on: what changes meanwhile is in the feed behind this moment.
        self._engine.begin(EngineState(self._mark, self._feed.moment(), loaded=-1))

    def _known(self) -> EngineState | None:
        """Return the state from which the feed leads on; `None` where the engine has to begin anew."""
        state = self._engine.state()
        if state is None or not self.is_its_own(state) or self._feed.since(state.moment, 1) is None:
            return None
        return state

    def _load(self, state: EngineState, loaded: int) -> bool:
        page = self._feed.page(loaded, self._page)
        greatest = max(page.keys, default=None)
        self._engine.apply(self._described(page), replace(state, loaded=greatest))
        if greatest is None:
            self._engine.flush()
        return True

    def _follow(self, state: EngineState) -> bool:
        changes = self._feed.since(state.moment, self._page)
        if changes is None:
            self.begin()
            return True
        if changes.moment != state.moment:
            self._engine.apply(self._described(changes), replace(state, moment=changes.moment))
        if not changes.left:
            self._engine.flush()
        return bool(changes.left)

    def _described(self, changes: VectorChanges) -> VectorChanges:
        # What is read here may be newer than the changes: then the feed tells of the passage again.
        if self._describe is None or not changes.vectors:
            return changes
        return replace(changes, described=self._describe(list(changes.vectors)))


# What an engine may show people of passages: where each stands, and what the graph ties it to.


_EVERYTHING = Reach("/", descend=True)
_WITHOUT_REFERENCES = frozenset({"source"})


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
    """Describes passages of a space from its own index and ledger. Scopes hide nothing from it."""

    def __init__(self, index: Index, ledger: Ledger) -> None:
        self._index = index
        self._ledger = ledger
        self._texts = PassageTexts(index.passages, ledger)

    def __call__(self, keys: Sequence[int]) -> Mapping[int, DescribedPassage]:
        """Describe those of the passages that are still there, by key."""
        [found] = self._index.passages.read([PassageRequest(tuple(keys))])
        heads = {key: found.heads[key] for key in keys if key in found.heads}
        ties = _ties_of(list(heads), self._index.graph.view(_EVERYTHING))
        named = self._named(heads.values())
        texts = self._texts(list(heads))
        return {
            key: _described(head, ties[key], named[head.object_id], texts[key].text if key in texts else "")
            for key, head in heads.items()
        }

    def _named(self, heads: Iterable[PassageHead]) -> dict[str, _Named]:
        """Return by id which others the objects name in a field, and which they are linked to."""
        types = {head.object_id: head.type for head in heads}
        asked = tuple(identity for identity, name in types.items() if name not in _WITHOUT_REFERENCES)
        [found] = self._ledger.read([ObjectRequest(objects=asked, links=tuple(types))])
        return {
            identity: _Named(
                _references(found.objects[identity]) if identity in found.objects else (),
                tuple((link.type, link.target) for link in found.links.get(identity, ()) if link.source == identity),
            )
            for identity in types
        }


def _references(item: Object) -> tuple[tuple[str, str], ...]:
    """Return the references that the index follows, with their fields: of others no passage tells when they change."""
    followed = frozenset(tied_to(item))
    return tuple(dict.fromkeys((field, ref) for field, ref in named_references(item) if ref in followed))


def _ties_of(keys: Sequence[int], view: GraphView) -> Mapping[int, _Ties]:
    """Return by passage key what the graph ties passages to, by name."""
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


# The texts of passages by key, for engines that search texts instead of vectors.


@dataclass(frozen=True, slots=True)
class PassageText:
    """The text of a passage, and which object it is of."""

    object_id: str
    title: str
    text: str


class PassageTexts:
    """Reads the texts of passages from a space. What is gone meanwhile is left out."""

    def __init__(self, passages: Passages, ledger: Ledger) -> None:
        self._passages = passages
        self._ledger = ledger

    def __call__(self, keys: Sequence[int]) -> Mapping[int, PassageText]:
        """Return the texts of passages, by key."""
        if not keys:
            return {}
        (found,) = self._passages.read([PassageRequest(keys=tuple(keys))])
        heads = [found.heads[key] for key in keys if key in found.heads]
        asked = ObjectRequest(
            objects=tuple(dict.fromkeys(head.object_id for head in heads if not head.part)),
            segments=tuple((head.object_id, head.part) for head in heads if head.part),
        )
        (read,) = self._ledger.read([asked])
        texts = ((head, _text(head, read)) for head in heads)
        return {head.key: PassageText(head.object_id, head.title, text) for head, text in texts if text is not None}


def _text(head: PassageHead, read: ObjectsFound) -> str | None:
    if head.part:
        segment = read.segments.get((head.object_id, head.part))
        return segment.excerpt if segment else None
    item = read.objects.get(head.object_id)
    return passages_of(item)[0].text if item else None

"""Bringing an engine beside the space up to date, a moment's work at a time, with a durable cursor.

And what changed since then, which is searched beside it.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from treering.core.objects import Object
from treering.core.writing.integrity import named_references
from treering.ports.index import Behind, Index, Upkeep
from treering.ports.ledger import Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, Passages, Reach
from treering.ports.search import (
    EdgeType,
    GraphView,
    Vector,
)
from treering.ports.vector_engine import (
    Describe,
    DescribedPassage,
    EngineState,
    Keys,
    VectorChanges,
    VectorEngine,
    VectorFeed,
)
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.projection import tied_to
from treering.retrieval.index.tables import VectorTable, stored_form

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


# What changed since the moment that an engine's searches answer for: kept in memory, and searched exactly.


_BATCH = 2_000

MOST_CHANGED = 20_000
"""Passages that a tail may hold. Beyond, the built-in vectors are no dearer."""


class EngineTail:
    """The passages whose vectors came or went since a moment. Safe to use from many threads."""

    def __init__(self, feed: VectorFeed, dimension: int, *, most: int = MOST_CHANGED) -> None:
        self._feed = feed
        self._dimension = dimension
        self._most = most
        self._lock = threading.Lock()
        self._begin = ""
        self._reached = ""
        self._changed: set[int] = set()
        self._table = VectorTable(dimension)

    def follow(self, moment: str) -> bool:
        """Hold what changed since a moment; tell whether that was to be had, and is not too much."""
        with self._lock:
            if self._begin != moment:
                self._start(moment)
            while (changes := self._feed.since(self._reached, _BATCH)) is not None:
                self._take(changes)
                if not changes.left or len(self._changed) > self._most:
                    return len(self._changed) <= self._most
            self._begin = ""
            return False

    def __len__(self) -> int:
        return len(self._changed)

    def merged(self, engine: Keys, vector: Vector, limit: int, allowed: Keys | None) -> list[int]:
        """Put what an engine found together with the nearest of those that changed since."""
        kept = self.unchanged(engine)
        with self._lock:
            nearest, _ = self._table.search(vector, limit=limit, allowed=allowed)
        return [*kept, *nearest.tolist()]

    def unchanged(self, keys: Keys) -> list[int]:
        """Return those of some passages that did not change since."""
        with self._lock:
            return [key for key in keys.tolist() if key not in self._changed]

    def _start(self, moment: str) -> None:
        self._begin = self._reached = moment
        self._changed = set()
        self._table = VectorTable(self._dimension)

    def _take(self, changes: VectorChanges) -> None:
        self._reached = changes.moment
        if not changes.keys:
            return
        self._changed.update(changes.keys)
        gone = [key for key in changes.keys if key not in changes.vectors]
        self._table.discard(np.array(gone, np.int64))
        if changes.vectors:
            keys = np.array(list(changes.vectors), np.int64)
            self._table.add_stored(keys, stored_form(np.stack(list(changes.vectors.values()))))


@dataclass(frozen=True, slots=True)
class EngineInUse:
    """An engine, and what changed since its moment."""

    engine: VectorEngine
    tail: EngineTail


# The upkeep of an index whose vectors an engine beside the space searches.


class EngineKeeping(Protocol):
    """What the upkeep of an index needs of the engine in use. None of these raises where it cannot be reached."""

    def to_forget(self) -> int:
        """Count what was erased and may still be in the engine."""
        ...

    def forget(self) -> bool:
        """Let the engine forget what was erased; tell whether it could."""
        ...

    def begin_anew(self) -> None:
        """Throw away what the engine keeps. It takes all vectors over again."""
        ...

    def differences(self) -> Sequence[str]:
        """Say how what it keeps differs from what it should keep, where it knows everything."""
        ...


class EngineUpkeep:
    """`ports.index.Upkeep` of both. An engine that is merely late is not behind: what it lacks is searched besides."""

    def __init__(self, own: Upkeep, keeping: EngineKeeping) -> None:
        self._own = own
        self._keeping = keeping
        self._unreachable = False

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the space's index holds of objects, and what the engine has still to forget."""
        return self._own.remains(object_ids) + self._keeping.to_forget()

    def rebuild(self) -> int:
        """Make the passages anew, and throw away what the engine keeps."""
        made = self._own.rebuild()
        self._keeping.begin_anew()
        return made

    def behind(self) -> Behind:
        """Tell how far the space's own index is, else how much the engine has to forget."""
        own = self._own.behind()
        return own if own.total or self._unreachable else Behind(0, self._keeping.to_forget())

    def advance(self) -> Behind:
        """Go on with the space's own index, else have the engine forget what was erased."""
        own = self._own.advance()
        if own.total:
            return own
        if self._keeping.to_forget():
            self._unreachable = not self._keeping.forget()
        return self.behind()

    def differences(self) -> Sequence[str]:
        """Compare both with what they should hold."""
        return [*self._own.differences(), *self._keeping.differences()]

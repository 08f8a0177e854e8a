"""Mirror the vectors of a space in an engine, page by page, and search it."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treering.ports.search import Vector
from treering.ports.vector_engine import (
    Describe,
    EngineState,
    Keys,
    VectorChanges,
    VectorEngine,
    VectorFeed,
)
from treering.retrieval.index.tables import VectorTable, stored_form

PAGE = 2_000
"""Vectors copied in one step."""

MAX_CHANGED = 20_000
"""Changes that are searched in addition to an engine. Beyond, the space's own vectors are as cheap."""

WIDER = 4
"""The factor for the limit of an engine that cannot search with a filter."""

MAX_COMPARED = 4_000
"""Passages that pass a filter and are compared one by one if an engine cannot search them exactly."""

_MIN_COLLECTED, _MAX_COLLECTED, _COLLECTED_SHARE = 256, 10_000, 20
"""Engines that rewrite all vectors get changes once there is one for every twenty vectors, within these bounds."""


class EngineMirror:
    """The vectors of a space in an engine. Thread-safe.

    `mark` identifies the space, the model and the dimension of the vectors. With `describe` the engine also gets
    descriptions of the passages. With `collects` changes are collected until it is worth rewriting all vectors.

    Only the process with the lease `ENGINE` may call `advance` and `begin`. The engine may lag behind: passages that
    changed since its state are read from the feed and searched here.
    """

    def __init__(
        self,
        engine: VectorEngine,
        feed: VectorFeed,
        mark: str,
        dimension: int,
        *,
        describe: Describe | None = None,
        collects: bool = False,
        page: int = PAGE,
    ) -> None:
        self.engine = engine
        self._feed = feed
        self._mark = mark
        self._describe = describe
        self._collects = collects
        self._page = page
        self._changed = _Changed(feed, dimension)

    def is_its_own(self, state: EngineState) -> bool:
        """Return whether an engine with this state has vectors of this space and model."""
        return state.mark == self._mark

    def is_due(self) -> bool:
        """Return whether an update is worthwhile now. Vectors of another model are not touched."""
        state = self.engine.state()
        if state is None:
            return True
        if not self.is_its_own(state):
            return False
        changes = self._feed.since(state.moment, 1)
        if state.loaded is not None or changes is None:
            return True
        waiting = len(changes.keys) + changes.left
        return waiting >= self._worth_writing(state.count) or bool(self.to_forget())

    def to_forget(self) -> int:
        """Count erased passages that may still be in the engine; 1 if that is unknown."""
        state = self.engine.state()
        if state is None:
            return 0
        count = self._feed.forgotten_since(state.moment) if self.is_its_own(state) else None
        return 1 if count is None else count

    def advance(self) -> bool:
        """Apply one page of changes durably; return whether there are more."""
        state = self.engine.state()
        if state is None or not self.is_its_own(state):
            self.begin()
            return True
        if state.loaded is not None and self._feed.since(state.moment, 1) is not None:
            return self._load(state, state.loaded)
        changes = self._feed.since(state.moment, self._page)
        if changes is None:
            self.begin()
            return True
        if changes.moment != state.moment:
            self.engine.apply(self._described(changes), replace(state, moment=changes.moment))
        return bool(changes.left)

    def begin(self) -> None:
        """Clear the engine, and begin to copy all vectors."""
        # Later changes are in the feed after this moment.
        self.engine.begin(EngineState(self._mark, self._feed.moment(), loaded=-1))

    def nearest(self, vector: Vector, limit: int, allowed: Keys | None, *, compared: int) -> list[int] | None:
        """Return candidates for the nearest passages; `None` if the engine cannot search. Call `sees` first.

        If the engine cannot search among the allowed passages, up to `compared` of them are all returned.
        """
        # Changed passages may be among the engine's nearest and are removed from them.
        keys = self.engine.search(vector, limit + len(self._changed), allowed)
        if keys is None and allowed is not None:
            if len(allowed) <= compared:
                return [int(key) for key in allowed.tolist()]
            keys = self._passing(vector, limit, allowed)
            if keys is None and len(allowed) <= MAX_COMPARED:
                return [int(key) for key in allowed.tolist()]
        return None if keys is None else self._changed.merged(keys, vector, limit, allowed)

    def sees(self) -> bool:
        """Read the changes since the state of the engine; return whether searches are then complete."""
        if not self.engine.searches:
            return False
        state = self.engine.state()
        if state is None or state.loaded is not None or not self.is_its_own(state):
            return False
        return self._changed.follow(state.moment)

    def _worth_writing(self, count: int) -> int:
        if not self._collects:
            return 1
        return min(max(_MIN_COLLECTED, count // _COLLECTED_SHARE), _MAX_COLLECTED)

    def _load(self, state: EngineState, loaded: int) -> bool:
        page = self._feed.page(loaded, self._page)
        self.engine.apply(self._described(page), replace(state, loaded=max(page.keys, default=None)))
        return True

    def _described(self, changes: VectorChanges) -> VectorChanges:
        # The descriptions may be newer than the changes; then the feed has another change of the passage.
        if self._describe is None or not changes.vectors:
            return changes
        return replace(changes, described=self._describe(list(changes.vectors)))

    def _passing(self, vector: Vector, limit: int, allowed: Keys) -> Keys | None:
        """Return the allowed passages among the nearest of all; `None` if they are too few.

        If a filter allows most passages, a slightly larger search finds enough of them.
        """
        keys = self.engine.search(vector, WIDER * limit + len(self._changed), None)
        if keys is None:
            return None
        passing = keys[np.isin(keys, allowed)]
        enough = min(limit, len(self._changed.unchanged(allowed)))
        return passing if len(self._changed.unchanged(passing)) >= enough else None


class _Changed:
    """The passages whose vectors were added or removed since a moment, with an exact search."""

    def __init__(self, feed: VectorFeed, dimension: int) -> None:
        self._feed = feed
        self._dimension = dimension
        self._lock = threading.Lock()
        self._start("")

    def follow(self, moment: str) -> bool:
        """Read the changes since a moment; return whether the feed has them and they are not too many."""
        with self._lock:
            if self._begin != moment:
                self._start(moment)
            while (changes := self._feed.since(self._reached, PAGE)) is not None:
                self._take(changes)
                if not changes.left or len(self._keys) > MAX_CHANGED:
                    return len(self._keys) <= MAX_CHANGED
            self._start("")
            return False

    def __len__(self) -> int:
        return len(self._keys)

    def merged(self, engine: Keys, vector: Vector, limit: int, allowed: Keys | None) -> list[int]:
        """Return the unchanged passages from the engine, and the nearest of the changed passages."""
        unchanged = self.unchanged(engine)
        with self._lock:
            nearest, _ = self._table.search(vector, limit=limit, allowed=allowed)
        return [*unchanged, *nearest.tolist()]

    def unchanged(self, keys: Keys) -> Sequence[int]:
        """Return the passages that did not change."""
        with self._lock:
            return [key for key in keys.tolist() if key not in self._keys]

    def _start(self, moment: str) -> None:
        self._begin = self._reached = moment
        self._keys = set[int]()
        self._table = VectorTable(self._dimension)

    def _take(self, changes: VectorChanges) -> None:
        self._reached = changes.moment
        if not changes.keys:
            return
        self._keys.update(changes.keys)
        gone = [key for key in changes.keys if key not in changes.vectors]
        self._table.discard(np.array(gone, np.int64))
        if changes.vectors:
            keys = np.array(list(changes.vectors), np.int64)
            self._table.add_stored(keys, stored_form(np.stack(list(changes.vectors.values()))))

"""A mirror of the vectors of a space in an engine: brought up to date page by page, and searched."""

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
"""Vectors that one step takes over."""

MAX_CHANGED = 20_000
"""Changes that are searched beside an engine. Beyond, the space's own vectors are no dearer."""

WIDER = 4
"""How many times the limit is asked of an engine that cannot search with a filter."""

MAX_COMPARED = 4_000
"""Passages that pass a filter and are compared one by one where an engine cannot search them exactly."""

_MIN_COLLECTED, _MAX_COLLECTED, _COLLECTED_SHARE = 256, 10_000, 20
"""Engines that write all vectors each time get changes once there is one for twenty vectors, within these bounds."""


class EngineMirror:
    """The vectors of a space in an engine. Safe to use from many threads.

    `mark` names the space, the model and the dimension whose vectors the engine has to keep. With `describe` the engine
    also gets descriptions of the passages. With `collects` changes wait until they are worth writing all vectors.

    One process at a time may call `advance` and `begin`: the one with the lease `ENGINE`. The engine may be late:
    passages that changed since its state are read from the feed and searched here.
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
        """Return whether there is work that is worth doing now. Vectors of another model are left alone."""
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
        """Take over one page of changes, durably; return whether more wait."""
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
        """Remove what the engine has, and begin to take all vectors over."""
        # What changes meanwhile is in the feed behind this moment.
        self.engine.begin(EngineState(self._mark, self._feed.moment(), loaded=-1))

    def nearest(self, vector: Vector, limit: int, allowed: Keys | None, *, compared: int) -> list[int] | None:
        """Return passages among which the nearest are; `None` if the engine cannot tell. Follow up to now with `sees`.

        Up to `compared` allowed passages are all returned, to be compared, if the engine cannot search among them.
        """
        # What changed since may be among the nearest of the engine, and is left out of them.
        keys = self.engine.search(vector, limit + len(self._changed), allowed)
        if keys is None and allowed is not None:
            if len(allowed) <= compared:
                return [int(key) for key in allowed.tolist()]
            keys = self._passing(vector, limit, allowed)
            if keys is None and len(allowed) <= MAX_COMPARED:
                return [int(key) for key in allowed.tolist()]
        return None if keys is None else self._changed.merged(keys, vector, limit, allowed)

    def sees(self) -> bool:
        """Read what changed since the state of the engine; return whether searches then miss nothing."""
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
        # What is read here may be newer than the changes: then the feed has another change of the passage.
        if self._describe is None or not changes.vectors:
            return changes
        return replace(changes, described=self._describe(list(changes.vectors)))

    def _passing(self, vector: Vector, limit: int, allowed: Keys) -> Keys | None:
        """Return the nearest that are allowed among the nearest of all; `None` if these are fewer than there are.

        If a filter lets most passages pass, a few more of the nearest contain enough that pass.
        """
        keys = self.engine.search(vector, WIDER * limit + len(self._changed), None)
        if keys is None:
            return None
        passing = keys[np.isin(keys, allowed)]
        enough = min(limit, len(self._changed.unchanged(allowed)))
        return passing if len(self._changed.unchanged(passing)) >= enough else None


class _Changed:
    """The passages whose vectors came or went since a moment, with an exact search among them."""

    def __init__(self, feed: VectorFeed, dimension: int) -> None:
        self._feed = feed
        self._dimension = dimension
        self._lock = threading.Lock()
        self._start("")

    def follow(self, moment: str) -> bool:
        """Read what changed since a moment; return whether the feed has it, and it is not too much."""
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
        """Return the passages that the engine found and that did not change, with the nearest of those that did."""
        unchanged = self.unchanged(engine)
        with self._lock:
            nearest, _ = self._table.search(vector, limit=limit, allowed=allowed)
        return [*unchanged, *nearest.tolist()]

    def unchanged(self, keys: Keys) -> Sequence[int]:
        """Return those of some passages that did not change since."""
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

"""Bringing an engine beside the space up to date, a moment's work at a time, with a durable cursor."""

from dataclasses import replace

from treering.ports.vector_engine import Describe, EngineState, VectorChanges, VectorEngine, VectorFeed

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

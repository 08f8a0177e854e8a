"""Background work for the spaces of a database: one space after the other, in any number of processes."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace

from treering.core.errors import TreeringError
from treering.ports.models import Embedder
from treering.spaces.wiring import Opening, author, open_embedder, open_engine, spaces_with_work
from treering.system.address import SPACE, Address
from treering.system.settings import Settings

STEPS = 8
"""Steps of one turn: batches of 32 texts, or steps of an index that is being made anew."""
_IDLE_SECONDS = 2.0

TakeTurn = Callable[[int], None]
Waits = Callable[[float], bool]
"""Waits for so many seconds, or until the work is to end; tells whether it is."""

_LOG = logging.getLogger(__name__)


class SpaceWorker:
    """Goes round the spaces that have work, each getting one turn: a busy one never keeps the others waiting for long.

    `waiting` lists them in an order that stays the same. `lend` opens a space for a turn.
    """

    def __init__(
        self,
        waiting: Callable[[], Sequence[str]],
        lend: Callable[[str], AbstractContextManager[TakeTurn]],
        *,
        steps: int = STEPS,
    ) -> None:
        self._waiting = waiting
        self._lend = lend
        self._steps = steps
        self._failed: dict[str, str] = {}

    def go_round(self, is_over: Callable[[], bool] = lambda: False) -> int:
        """Give each space that has work one turn; return how many turns went well. Raises `Unavailable`."""
        names = self._waiting()
        self._failed = {name: why for name, why in self._failed.items() if name in names}
        return sum(self._gave_turn(name) for name in names if not is_over())

    def work(self, wait: Waits) -> None:
        """Go round until `wait` says that it is over, with a pause where nothing waits, or nothing can be done."""
        while not wait(0):
            try:
                turns = self.go_round(lambda: wait(0))
            except TreeringError as error:  # such as a server that is being restarted
                _LOG.warning("No work can be looked for: %s", error)
                turns = 0
            if not turns and wait(_IDLE_SECONDS):
                return

    def _gave_turn(self, name: str) -> bool:
        """Give a space its turn. One that cannot be worked on is told of once, and keeps no other from its turn."""
        try:
            with self._lend(name) as take_turn:
                take_turn(self._steps)
        except TreeringError as error:
            if self._failed.get(name) != str(error):
                self._failed[name] = str(error)
                _LOG.warning("No work can be done for the space %r: %s", name, error)
            return False
        self._failed.pop(name, None)
        return True


def work_for_spaces(address: Address, *, wait: Waits, embedder: Embedder | None = None) -> None:
    """Do the background work of all spaces of the database an address names, until `wait` says that it is over.

    Raises `InvalidInput` for an address of another kind, `Unavailable` where the database cannot be reached at first.
    """
    settings = Settings.read()
    shared = embedder or open_embedder(settings)

    @contextmanager
    def lend(name: str) -> Iterator[TakeTurn]:
        with closing(open_engine(_opening(address, name, settings, shared))) as opened:
            yield opened.take_turn

    with closing(spaces_with_work(address)) as waiting:
        waiting.names()
        SpaceWorker(waiting.names, lend).work(wait)


def _opening(address: Address, name: str, settings: Settings, embedder: Embedder) -> Opening:
    options = tuple({**dict(address.options), SPACE: name}.items())
    return Opening(
        address=replace(address, options=options),
        # Policies and anchors are of one space each: what the environment names is not of all of them.
        settings=replace(settings, policy="", anchor="", reranker=""),
        author=author(None, "agent", settings),
        create=False,
        background=False,
        whole=False,
        embedder=embedder,
    )

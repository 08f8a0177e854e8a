"""Background work for all spaces of a database: one space after the other, in any number of processes."""

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
"""Steps of one turn: batches of 32 texts, or steps of an index rebuild."""
_IDLE_SECONDS = 2.0

TakeTurn = Callable[[int], None]
Wait = Callable[[float], bool]
"""Wait for a number of seconds or until a request to stop; return whether to stop."""

_LOG = logging.getLogger(__name__)


class SpaceWorker:
    """Works on all spaces with pending work in turns, so that a busy space does not delay the others for long.

    `waiting` lists their names, always in the same order. `lend` opens a space for a turn.
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
        """Give each space with pending work one turn; return how many turns succeeded. Raises `Unavailable`."""
        names = self._waiting()
        self._failed = {name: why for name, why in self._failed.items() if name in names}
        return sum(self._give_turn(name) for name in names if not is_over())

    def work(self, wait: Wait) -> None:
        """Give turns until `wait` returns true, with a pause if there is no work or none of it succeeds."""
        while not wait(0):
            try:
                turns = self.go_round(lambda: wait(0))
            except TreeringError as error:  # such as a server that restarts
                _LOG.warning("Cannot look for work: %s", error)
                turns = 0
            if not turns and wait(_IDLE_SECONDS):
                return

    def _give_turn(self, name: str) -> bool:
        """Return whether the turn of a space succeeded. An error is logged once and does not affect other spaces."""
        try:
            with self._lend(name) as take_turn:
                take_turn(self._steps)
        except TreeringError as error:
            if self._failed.get(name) != str(error):
                self._failed[name] = str(error)
                _LOG.warning("Cannot work on the space %r: %s", name, error)
            return False
        self._failed.pop(name, None)
        return True


def work_for_spaces(address: Address, *, wait: Wait) -> None:
    """Do the background work of all spaces of the database at `address`, until `wait` returns true.

    Raises `InvalidInput` if the address is not a database, `Unavailable` if the database cannot be reached at first.
    """
    settings = Settings.read()
    embedder = open_embedder(settings)

    @contextmanager
    def lend(name: str) -> Iterator[TakeTurn]:
        with closing(open_engine(_opening(address, name, settings, embedder))) as opened:
            yield opened.take_turn

    with closing(spaces_with_work(address)) as waiting:
        waiting.names()
        SpaceWorker(waiting.names, lend).work(wait)


def _opening(address: Address, name: str, settings: Settings, embedder: Embedder) -> Opening:
    options = tuple({**dict(address.options), SPACE: name}.items())
    return Opening(
        address=replace(address, options=options),
        # Policy and anchor of the environment belong to one space, not to all spaces of the database.
        settings=replace(settings, policy="", anchor="", reranker=""),
        author=author(None, "agent", settings),
        create=False,
        background=False,
        whole=False,
        embedder=embedder,
    )

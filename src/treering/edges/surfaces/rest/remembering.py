"""Memory beside the chat endpoint: recalled and stored within a time, worked up behind the answers."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError
from treering.core.scope import ROOT, is_within, parse_scope
from treering.edges.surfaces.deadline import Deadline
from treering.edges.surfaces.rest.served import ServedSpace, Stop
from treering.memories.discussion.companion import NOTHING, RECALLED_TOKENS, Companion, Reminder
from treering.memories.discussion.generating import Generator
from treering.memories.discussion.identity import Place
from treering.memories.discussion.log import Recorded
from treering.ports.embedder import Embedder
from treering.ports.interrupt import interruptible
from treering.tools.engine import Engine
from treering.tools.turns import Message

_LOG = logging.getLogger(__name__)
_RECALLS_AT_ONCE = 4
_MOST_WAITING = 1_000
"""Exchanges that may wait to be stored; of a memory that stands still no more are held."""
_LONGEST_RECALL = 30.0
"""Seconds after which a recall ends that nobody waits for any more. What it has loaded serves the next one."""
_WARMING = Place("warming")
_LATE, _UNSTORED, _APART = "; stored=late", "; stored=no", "; conversation=new"


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What memory may cost a chat. Raises `InvalidInput` for numbers and scopes that make no sense."""

    within: str = ROOT
    """The scope below which discussions are kept; a request may name one below it."""
    tokens: int = RECALLED_TOKENS
    """At most so much is recalled, in estimated tokens."""
    wait_seconds: float = 0.3
    """An answer waits at most so long for what is recalled; after that it goes without."""
    tags: bool = False
    """Whether a tag in the client's first system message, or in the last one of the user, may name the discussion."""
    store_seconds: float = 2.0
    """An answer's end waits at most so long until it is stored; after that it is stored behind it."""

    def __post_init__(self) -> None:
        parse_scope(self.within)
        if self.tokens < 1 or not all(0 < each < float("inf") for each in (self.wait_seconds, self.store_seconds)):
            raise InvalidInput(
                "--memory-tokens, --memory-wait and --memory-store-wait must be numbers above 0.",
                hint="Leave them out for the defaults, or correct them.",
            )

    def scope(self, asked: str | None) -> str:
        """Return the scope a request names, or the common one. Raises `InvalidInput`, and `Denied` for one outside."""
        scope = parse_scope(asked) if asked is not None else self.within
        if not is_within(scope, self.within):
            raise Denied(
                f"The scope {scope} is not below {self.within}, the scope of this server's discussions.",
                hint="Name a scope below it, or none.",
            )
        return scope


@dataclass(frozen=True, slots=True)
class Recall:
    """What came of asking memory: a reminder, and how it went."""

    reminder: Reminder
    told: str


class Remembering:
    """Memory for many conversations at once. However memory fares, a caller waits no longer than the settings say."""

    def __init__(
        self,
        space: ServedSpace,
        settings: MemorySettings,
        *,
        stop: Stop,
        embedder: Embedder | None = None,
        generator: Generator | None = None,
    ) -> None:
        self._space = space
        self._settings = settings
        self._stop = stop
        self._embedder = embedder
        self._generator = generator
        self._recalling = ThreadPoolExecutor(_RECALLS_AT_ONCE, "recalling")
        # One thread each: exchanges are stored in their order, and never wait for a generator.
        self._keeping = ThreadPoolExecutor(1, "keeping")
        self._making = ThreadPoolExecutor(1, "making")
        self._lock = Lock()
        self._waiting = 0
        self._unkept = 0
        self._is_behind = False
        self._due: set[Place] = set()

    @property
    def settings(self) -> MemorySettings:
        """What memory may cost."""
        return self._settings

    def warm(self) -> None:
        """Have what the first recall needs loaded. Returns at once."""
        self._making.submit(self._warm).add_done_callback(self._made)

    async def recall(self, place: Place, messages: Sequence[Message]) -> Recall:
        """Recall what belongs to a conversation, if that is done in time."""
        began = monotonic()
        await self._stored(self._settings.wait_seconds / 2)
        asked = asyncio.wrap_future(self._recalling.submit(self._remind, place, messages))
        try:
            await asyncio.wait({asked}, timeout=self._settings.wait_seconds - (monotonic() - began))
        finally:
            asked.cancel()  # where it is not done: what has not begun never will, what has ends by itself
        if asked.cancelled():
            return Recall(NOTHING, self._told("skipped; reason=timeout"))
        error = asked.exception()
        if error:
            _log("recalled", error)
            code = error.code if isinstance(error, TreeringError) else TreeringError.code
            return Recall(NOTHING, self._told(f"failed; reason={code}"))
        milliseconds = round((monotonic() - began) * 1_000)
        found = asked.result()
        return Recall(found, self._told(f"recalled; hits={found.hits}; ms={milliseconds}"))

    async def keep(self, place: Place, messages: Sequence[Message], answer: str) -> str:
        """Store an exchange, and work up what it adds. Return what is to be told of it, if anything.

        It is stored before this returns, unless that takes too long or fails. It is stored, too, where the caller is
        cancelled while it waits.
        """
        with self._lock:
            full = self._waiting >= _MOST_WAITING
            self._unkept += full
            self._waiting += not full
        if full:
            _LOG.warning("An exchange is not stored: %d others wait already.", _MOST_WAITING)
            return _UNSTORED
        keeping = self._keeping.submit(self._keep, place, messages, answer)
        keeping.add_done_callback(self._count)
        return await self._told_of(asyncio.wrap_future(keeping))

    async def _told_of(self, keeping: "asyncio.Future[Recorded]") -> str:
        # Who waits may give up, and the exchange is stored all the same. Then nobody else asks how that went.
        keeping.add_done_callback(lambda kept: kept.cancelled() or kept.exception())
        # Where the store stands still, the first to wait for it has waited for all.
        await asyncio.wait({keeping}, timeout=0 if self._is_behind else self._settings.store_seconds)
        if not keeping.done():
            self._is_behind = True
            return _LATE
        if keeping.exception():
            return _UNSTORED
        return _APART if keeping.result().is_apart else ""

    def close(self) -> None:
        """Store what waits, end what works, and let go of the space. Memories that wait are made another time."""
        self._recalling.shutdown(cancel_futures=True)
        self._keeping.shutdown()
        self._making.shutdown(cancel_futures=True)

    async def _stored(self, seconds: float) -> None:
        """Wait a while for what was said before, so that who asks one thing after the other is reminded of it."""
        if self._waiting:
            behind_them = asyncio.wrap_future(self._keeping.submit(_do_nothing))
            with suppress(TimeoutError):
                await asyncio.wait_for(behind_them, seconds)

    def _remind(self, place: Place, messages: Sequence[Message]) -> Reminder:
        try:
            with interruptible(Deadline(_LONGEST_RECALL).check):
                return self._companion(self._space.engine(create=False), place).remind(messages)
        except NotFound:
            return NOTHING  # no space yet

    def _keep(self, place: Place, messages: Sequence[Message], answer: str) -> Recorded:
        recorded = self._companion(self._space.engine(create=True), place).keep(messages, answer)
        with self._lock:
            new = place not in self._due
            self._due.add(place)
        if new:
            self._making.submit(self._make, place).add_done_callback(self._made)
        return recorded

    def _make(self, place: Place) -> None:
        with self._lock:
            self._due.discard(place)
        engine = self._space.engine(create=False).with_progress(self._stop.check)
        self._companion(engine, place).make_memories()

    def _warm(self) -> None:
        if self._embedder:
            self._embedder.embed_query(_WARMING.id)
        self._remind(_WARMING, (Message(role="user", content=_WARMING.id),))

    def _companion(self, engine: Engine, place: Place) -> Companion:
        return Companion(engine, place, generator=self._generator, tokens=self._settings.tokens)

    def _count(self, kept: Future[Recorded]) -> None:
        error = kept.exception()
        if error:
            _log("stored", error)
        with self._lock:
            self._waiting -= 1
            self._unkept += error is not None
            self._is_behind &= self._waiting > 0

    def _made(self, made: Future[None]) -> None:
        error = None if made.cancelled() else made.exception()
        # What a stop cuts short goes on with the next exchange.
        if error and not self._stop.said:
            _log("worked up", error)

    def _told(self, what: str) -> str:
        return f"{what}; unstored={self._unkept}" if self._unkept else what


def _do_nothing() -> None:
    """Be done."""


def _log(what: str, error: BaseException) -> None:
    expected = isinstance(error, TreeringError)
    _LOG.warning("A conversation was not %s: %s", what, error, exc_info=None if expected else error)

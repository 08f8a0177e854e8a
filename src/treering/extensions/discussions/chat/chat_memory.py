"""Memory for chats: recall in time before a model answers, and store its answer afterwards.

For code between a client and a model, such as the chat endpoint or a framework. It handles conversations and messages,
independent of their transport. Work runs in its own threads; callers get a `Future` that completes within the time
limits even if memory is slow: `future.result()` in a thread, `await asyncio.wrap_future(future)` in an event loop.
"""

import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import monotonic
from typing import Literal, Protocol, TypeVar
from uuid import uuid4

from treering.core.errors import InvalidInput, NotFound, TimedOut, TreeringError, Unavailable
from treering.core.patch import Author
from treering.extensions.discussions.chat.companion import NOTHING, RECALLED_TOKENS, Companion, Reminder
from treering.extensions.discussions.chat.timers import Timers
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator
from treering.extensions.discussions.identity import DiscussionRef, discussion_ref
from treering.extensions.discussions.log.message_log import Recorded
from treering.extensions.discussions.memory import Discussion
from treering.ports.models import Embedder
from treering.ports.runtime import MEMORIES, Check, Claim, interruptible
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import Message

MAX_WAITING = 1_000
"""The maximum number of exchanges that wait to be stored; further ones are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBounds:
    """Limits on the cost of memory for a chat. Raises `InvalidInput` for invalid numbers."""

    tokens: int = RECALLED_TOKENS
    """The maximum recalled text, in estimated tokens."""
    wait_seconds: float = 0.3
    """The maximum wait for recall before an answer; then the answer starts without it."""
    store_seconds: float = 2.0
    """The maximum wait for storing at the end of an answer; then it is stored in the background."""

    def __post_init__(self) -> None:
        if self.tokens < 1 or not all(0 < each < float("inf") for each in (self.wait_seconds, self.store_seconds)):
            raise InvalidInput(
                f"The token budget and timeouts of a chat's memory must be above 0, not {self.tokens} "
                f"tokens, {self.wait_seconds:g} and {self.store_seconds:g} seconds.",
                hint="Correct --memory-tokens, --memory-wait and --memory-store-wait.",
            )


@dataclass(frozen=True, slots=True)
class Recall:
    """The result of a recall. `reason`: why nothing was recalled, `timeout` or the code of an error."""

    how: Literal["recalled", "skipped", "failed"]
    reminder: Reminder = NOTHING
    reason: str = ""
    milliseconds: int = 0
    unstored: int = 0
    """The number of exchanges that could not be stored so far."""


@dataclass(frozen=True, slots=True)
class Storing:
    """The result of storing an exchange: stored, pending (`late`), or failed (`lost`)."""

    how: Literal["stored", "late", "lost"]
    is_apart: bool = False
    """Whether it is a separate conversation that continues no stored one."""


class OpenEngine(Protocol):
    """Opens the engine of the space with the discussions."""

    def __call__(self, *, create: bool) -> Engine:
        """Return the engine. Raises `NotFound` if the space does not exist and `create` is false."""
        ...


class ChatMemory:
    """Memory for many conversations at once.

    `ending` returns whether the program is ending: pending memories are then left for later. `embedder` is loaded by
    `warm`. `generator` and `settings` determine how memories are made. `close` releases everything.
    """

    def __init__(
        self,
        open_engine: OpenEngine,
        bounds: ChatBounds,
        *,
        ending: Callable[[], bool] = lambda: False,
        embedder: Embedder | None = None,
        generator: Generator | None = None,
        settings: DiscussionSettings | None = None,
    ) -> None:
        self._open_engine = open_engine
        self._bounds = bounds
        self._ending = ending
        self._embedder = embedder
        self._generator = generator or BuiltInGenerator()
        self._settings = settings or DiscussionSettings()
        self._recalling = ThreadPoolExecutor(_RECALLS_AT_ONCE, "recalling")
        # One thread each: exchanges are stored in order, and never wait for a generator.
        self._storing = ThreadPoolExecutor(1, "storing")
        self._making = ThreadPoolExecutor(1, "making")
        self._timers = Timers()
        self._lock = Lock()
        self._waiting = 0
        self._unstored = 0
        self._is_behind = False
        self._is_closed = False
        self._due: dict[DiscussionRef, Claim | None] = {}
        self._owner = uuid4().hex

    def warm(self) -> None:
        """Load the models for the first recall in the background. Returns at once."""
        self._making.submit(self._warm).add_done_callback(self._report_making)

    def take_over(self) -> None:
        """Make memories promised by processes that have ended, in the background. Returns at once."""
        if not self._is_closed:
            self._making.submit(self._take_over).add_done_callback(self._report_making)

    def recall(self, place: DiscussionRef, messages: Sequence[Message], *, alone: bool = False) -> Future[Recall]:
        """Recall memories for a conversation within the time limit. Canceling the future saves the work.

        `alone`: only from this discussion, not from the others of its scope.
        Earlier exchanges are stored first, for at most half of the time, so that consecutive questions can recall them.
        """
        recall: Future[Recall] = Future()
        self._timers.after(self._bounds.wait_seconds, lambda: self._skip(recall))
        began, ready = monotonic(), self._earlier_stored()
        ready.add_done_callback(
            lambda _: self._search(recall, partial(self._remind, place, messages, alone=alone), began)
        )
        return recall

    def keep(
        self, place: DiscussionRef, messages: Sequence[Message], answer: str, *, author: Author | None = None
    ) -> Future[Storing]:
        """Store an exchange and make its memories; `author` is its author, by default the author of the space.

        The future completes when it is stored, on timeout or on failure. The exchange is stored even if the future is
        canceled.
        """
        storing: Future[Storing] = Future()
        with self._lock:
            full = self._waiting >= MAX_WAITING
            self._unstored += full
            self._waiting += not full
        if full:
            _LOG.warning("An exchange was not stored: %d others are already waiting.", MAX_WAITING)
            _settle(storing, Storing("lost"))
            return storing
        task = self._storing.submit(self._store, place, messages, answer, author)
        task.add_done_callback(lambda done: self._report_storing(done, storing))
        if self._is_behind:  # an earlier exchange has already waited for the full time
            self._report_late(storing)
        else:
            self._timers.after(self._bounds.store_seconds, lambda: self._report_late(storing))
        return storing

    def close(self) -> None:
        """Store pending exchanges, stop work, and close the space. Pending memories are made later."""
        self._is_closed = True
        self._recalling.shutdown(cancel_futures=True)
        self._storing.shutdown()
        self._making.shutdown(cancel_futures=True)
        self._timers.stop()

    def _earlier_stored(self) -> "Future[None]":
        """Return a future that completes when all earlier exchanges are stored, or half of the time is over."""
        ready: Future[None] = Future()
        if self._waiting:
            self._storing.submit(lambda: _settle(ready, None))
            self._timers.after(self._bounds.wait_seconds / 2, lambda: _settle(ready, None))
        else:
            ready.set_result(None)
        return ready

    def _search(self, recall: Future[Recall], remind: Callable[[], Reminder], began: float) -> None:
        if recall.done() or self._is_closed:
            self._skip(recall)
            return
        search = self._recalling.submit(remind)
        # If the recall is canceled, a waiting search is canceled too; a running one ends by its own limit.
        recall.add_done_callback(lambda _: search.cancel())
        search.add_done_callback(lambda done: self._report_recall(recall, done, began))

    def _report_recall(self, recall: Future[Recall], search: Future[Reminder], began: float) -> None:
        if search.cancelled():
            self._skip(recall)
            return
        error = search.exception()
        if error is None:
            milliseconds = round((monotonic() - began) * 1_000)
            _settle(recall, Recall("recalled", search.result(), "", milliseconds, self._unstored))
            return
        code = error.code if isinstance(error, TreeringError) else TreeringError.code
        if _settle(recall, Recall("failed", reason=code, unstored=self._unstored)):
            _log("recalled", error)

    def _skip(self, recall: Future[Recall]) -> None:
        _settle(recall, Recall("skipped", reason="timeout", unstored=self._unstored))

    def _report_late(self, storing: Future[Storing]) -> None:
        if _settle(storing, Storing("late")):
            with self._lock:
                self._is_behind = self._waiting > 0

    def _remind(self, place: DiscussionRef, messages: Sequence[Message], *, alone: bool = False) -> Reminder:
        try:
            with interruptible(_ends_after(_MAX_RECALL_SECONDS)):
                return self._companion(self._open_engine(create=False), place).remind(messages, alone=alone)
        except NotFound:
            return NOTHING  # no space yet

    def _store(self, place: DiscussionRef, messages: Sequence[Message], answer: str, author: Author | None) -> Recorded:
        engine = self._open_engine(create=True)
        engine = engine.with_author(author) if author else engine
        # Promised before storing: if this process ends, another one makes the memories.
        key = json.dumps([place.within, place.id])
        promise = engine.backlog.promise if engine.backlog else None
        claim = promise(MEMORIES, key, self._owner, seconds=_CLAIM_SECONDS) if promise else None
        recorded = self._companion(engine, place).keep(messages, answer)
        with self._lock:
            new = place not in self._due
            self._due[place] = claim
        if new:
            self._making.submit(self._make, place).add_done_callback(self._report_making)
        return recorded

    def _make(self, place: DiscussionRef) -> None:
        with self._lock:
            claim = self._due.pop(place)
        self._make_memories(place, claim)

    def _make_memories(self, place: DiscussionRef, claim: Claim | None) -> None:
        engine = self._open_engine(create=False).with_progress(self._check_ending)
        report = self._discussion(engine, place).update()
        if claim and engine.backlog:
            if report.busy:  # another process is making them, and may have missed the last exchange
                engine.backlog.postpone(claim, seconds=_RETRY_SECONDS)
            else:
                engine.backlog.done(claim)

    def _take_over(self) -> None:
        try:
            engine = self._open_engine(create=False)
        except NotFound:
            return  # no space yet
        backlog = engine.backlog
        while backlog and not self._ends and (claim := backlog.claim(MEMORIES, self._owner, seconds=_CLAIM_SECONDS)):
            within, name = json.loads(claim.key)
            self._make_memories(discussion_ref(name, within=within), claim)

    def _warm(self) -> None:
        if self._embedder:
            self._embedder.embed_query(_WARMING.id)
        self._remind(_WARMING, (Message(role="user", content=_WARMING.id),))

    def _companion(self, engine: Engine, place: DiscussionRef) -> Companion:
        return Companion(self._discussion(engine, place), tokens=self._bounds.tokens)

    def _discussion(self, engine: Engine, place: DiscussionRef) -> Discussion:
        return Discussion(engine, place, settings=self._settings, generator=self._generator)

    def _report_storing(self, task: Future[Recorded], storing: Future[Storing]) -> None:
        error = task.exception()
        if error:
            _log("stored", error)
        with self._lock:
            self._waiting -= 1
            self._unstored += error is not None
            self._is_behind &= self._waiting > 0
        _settle(storing, Storing("lost") if error else Storing("stored", task.result().is_apart))

    def _report_making(self, task: Future[None]) -> None:
        error = None if task.cancelled() else task.exception()
        # Interrupted work continues with the next exchange.
        if error and not self._ends:
            _log("worked up", error)

    @property
    def _ends(self) -> bool:
        return self._is_closed or self._ending()

    def _check_ending(self, _what: str, _done: int, _total: int | None) -> None:
        if self._ends:
            raise Unavailable("The program is shutting down.", hint="Pending memories are made with the next exchange.")


_LOG = logging.getLogger(__name__)
_RECALLS_AT_ONCE = 4
_MAX_RECALL_SECONDS = 30.0
"""The limit of a recall after its caller stopped waiting. The loaded data serves the next recall."""
_WARMING = DiscussionRef("warming")
_CLAIM_SECONDS = 120.0
"""The time after which other processes take over the memories promised by a process that has ended."""
_RETRY_SECONDS = 5.0

_T = TypeVar("_T")


def _settle(future: Future[_T], value: _T) -> bool:
    """Set the result of a future, unless it is done or canceled; return whether it was set."""
    try:
        future.set_result(value)
    except InvalidStateError:
        return False
    return True


def _ends_after(seconds: float) -> Check:
    until = monotonic() + seconds

    def check() -> None:
        if monotonic() >= until:
            raise TimedOut(f"The recall took longer than {seconds:g} seconds.", hint="Ask again.")

    return check


def _log(what: str, error: BaseException) -> None:
    expected = isinstance(error, TreeringError)
    _LOG.warning("A conversation was not %s: %s", what, error, exc_info=None if expected else error)

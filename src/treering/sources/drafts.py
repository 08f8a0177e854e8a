"""Draft many files: the first ones here, the others in a child process while the caller stores the drafts.

Drafting takes about as much CPU time as storing, so one child is enough. It runs the code that runs here for fewer
files, and the results are equal.
"""

import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

from treering.ports.adapter import Failed, Reading, ReadLimits, Skipped, SourceDraft
from treering.ports.format import Formats
from treering.ports.runtime import collecting_seldom
from treering.retrieval.index.projection import TextTerms, have_ready, terms_in_text
from treering.sources.formats import draft_file, formats_here
from treering.sources.reading.bounded_process import BoundedProcess, answer_questions, expendable

_FEW_FILES = 200
"""Drafting them takes as long as a child takes to start (0.5 s of CPU). It is started after half of them, or before."""
_GROUPS_READ_HERE = 3
"""The first groups, while the child starts and drafts those after them."""
_GROUP_FILES = 64
_GROUP_BYTES = 1_000_000
"""Enough that a question costs little, and few enough that only some megabytes are held."""
_MAX_ANSWERS = 200
"""Groups, after which the child is replaced: parsers leak memory, 0.3 MiB a group. A new child takes 0.6 s of CPU."""
_GROUPS_AHEAD = 8
"""About as many files as ingest stores in one batch: the child drafts them while the caller stores those before."""
_CPU_SECONDS = 60
"""For a group of files, which takes less than a second unless a format loops."""
_WALL_SECONDS = 600.0
_CHILD = BoundedProcess(__name__, _WALL_SECONDS)


@dataclass(frozen=True, slots=True)
class FileToDraft:
    """The contents of a file, and the arguments of `draft_file`."""

    data: bytes
    path: str
    origin: str
    fingerprint: str
    commit: str | None = None
    about: str | None = None
    """The subject of its knowledge that names none, as `kind:slug`."""


@dataclass(frozen=True, slots=True)
class _Drafted:
    """The draft of a file, and for each of its texts, in order, the terms and the names."""

    draft: SourceDraft
    terms: list[str]
    """A flat list, because an object for each text would take most of the time of parsing an answer."""


@dataclass(frozen=True, slots=True)
class _Skipped:
    skipped: Skipped


@dataclass(frozen=True, slots=True)
class _Failed:
    failed: Failed


# `Skipped` and `Failed` have the same fields, so in JSON each is in an object with its own key.
# From left to right, because Pydantic otherwise parses each draft twice to find the best match.
_Outcome = Annotated[_Drafted | _Skipped | _Failed, Field(union_mode="left_to_right")]


# Built on first use: readings of few files start no child.
_JSON = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", defer_build=True)
Question = tuple[ReadLimits, bool, list[FileToDraft]]
QUESTION: TypeAdapter[Question] = TypeAdapter(Question, config=_JSON)
ANSWER: TypeAdapter[list[_Outcome]] = TypeAdapter(list[_Outcome], config=_JSON)


@dataclass(frozen=True, slots=True)
class Drafting:
    """Drafts files by the same settings."""

    limits: ReadLimits
    redact_secrets: bool
    formats: Formats
    expected: int = 0
    """The number of files, if it is known before they are read."""

    def prepare(self) -> None:
        """Start the child if many files are expected, so that it is ready when they are read."""
        if self._is_child_due(0):
            _CHILD.start()

    def readings(self, items: Iterable[Reading | FileToDraft]) -> Iterator[Reading]:
        """Yield readings as they are, and for each file its draft, in the order of `items`.

        A file that ends the child twice is `Failed`.
        """
        left, count = iter(items), 0
        asking = ThreadPoolExecutor(1)
        try:
            for item in left:
                if isinstance(item, FileToDraft) and self._is_child_due(count):
                    yield from self._read_ahead(chain([item], left), asking)
                else:
                    count += isinstance(item, FileToDraft)
                    yield self.reading(item)
        except BaseException:  # Ctrl-C, an error of the caller, or the caller needs no more
            asking.shutdown(wait=False, cancel_futures=True)
            if self._is_child_due(count):
                _CHILD.interrupt()
            raise
        finally:
            asking.shutdown()

    def _is_child_due(self, count: int) -> bool:
        are_many = self.expected > _FEW_FILES or count > _FEW_FILES // 2
        return are_many and self.limits.in_child and self.formats is formats_here()

    def reading(self, item: Reading | FileToDraft) -> Reading:
        """Return the draft of a file, or another reading as it is."""
        if not isinstance(item, FileToDraft):
            return item
        reading = draft_file(
            item.data,
            path=item.path,
            origin=item.origin,
            commit=item.commit,
            limits=self.limits,
            redact_secrets=self.redact_secrets,
            fingerprint=item.fingerprint,
            formats=self.formats,
        )
        if not isinstance(reading, SourceDraft) or not item.about:
            return reading
        stated = [known if known.about else replace(known, about=item.about) for known in reading.knowledge]
        return replace(reading, knowledge=stated)

    def _read_ahead(self, items: Iterable[Reading | FileToDraft], asking: Executor) -> Iterator[Reading]:
        """Yield readings while the child drafts the next groups of files; all are read here if it does not start."""
        starting = self._ask([], asking)
        ahead: deque[tuple[Sequence[Reading | FileToDraft], Future[bytes | None] | None]] = deque()
        for number, group in enumerate(_groups(items)):
            is_missing = starting.done() and starting.result() is None
            files = [] if is_missing or number < _GROUPS_READ_HERE else _files_of(group)
            ahead.append((group, self._ask(files, asking) if files else None))
            if len(ahead) > _GROUPS_AHEAD:
                yield from self._in_order(*ahead.popleft(), starting)
        while ahead:
            yield from self._in_order(*ahead.popleft(), starting)

    def _in_order(
        self,
        group: Sequence[Reading | FileToDraft],
        answer: Future[bytes | None] | None,
        starting: Future[bytes | None],
    ) -> Iterator[Reading]:
        if answer is None or starting.result() is None:
            yield from map(self.reading, group)
            return
        drafted = answer.result()
        outcomes = map(self._alone, _files_of(group)) if drafted is None else iter(ANSWER.validate_json(drafted))
        for item in group:
            yield _reading_of(next(outcomes)) if isinstance(item, FileToDraft) else item

    def _alone(self, file: FileToDraft) -> _Outcome:
        answer = _CHILD.ask(self._question([file]), seconds=_CPU_SECONDS)
        if answer is None:
            return _Failed(Failed(file.origin, "reading it ended or blocked the process that reads files"))
        return ANSWER.validate_json(answer)[0]

    def _ask(self, files: Sequence[FileToDraft], asking: Executor) -> Future[bytes | None]:
        # The thread only passes bytes on, so that the child waits little for its next question.
        return asking.submit(_CHILD.ask, self._question(files), seconds=_CPU_SECONDS)

    def _question(self, files: Sequence[FileToDraft]) -> bytes:
        return QUESTION.dump_json((self.limits, self.redact_secrets, list(files)))


def _files_of(group: Sequence[Reading | FileToDraft]) -> list[FileToDraft]:
    return [one for one in group if isinstance(one, FileToDraft)]


def _reading_of(outcome: _Outcome) -> Reading:
    match outcome:
        case _Drafted(draft, terms):
            have_ready(dict(zip(_texts(draft), map(TextTerms, terms[::2], terms[1::2]), strict=True)))
            return draft
        case _Skipped(reading) | _Failed(reading):
            return reading


def serve() -> None:
    """Draft the files requested on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    answer_questions(answered, max_answers=_MAX_ANSWERS)


def answered(question: bytes) -> bytes:
    """Return the drafts of the files in a question, and the terms of their texts.

    If the worker process dies, the files are read one by one.
    """
    limits, redact_secrets, files = QUESTION.validate_json(question)
    drafting = Drafting(limits, redact_secrets, formats_here())
    with expendable(len(files) > 1), collecting_seldom():
        return ANSWER.dump_json([_drafted(drafting.reading(file)) for file in files])


def _drafted(reading: Reading) -> _Outcome:
    match reading:
        case SourceDraft():
            return _Drafted(reading, list(chain.from_iterable(terms_in_text(*text) for text in _texts(reading))))
        case Skipped():
            return _Skipped(reading)
        case Failed():
            return _Failed(reading)
        case _:
            raise AssertionError(f"{type(reading).__name__} is not the reading of a file")


def _texts(draft: SourceDraft) -> list[tuple[str, bool]]:
    """Return the indexed texts of a draft, each with whether it is read as a name."""
    return [(text, part.role == "symbol") for part in draft.segments for text in (part.heading, part.text)]


def _groups(items: Iterable[Reading | FileToDraft]) -> Iterator[list[Reading | FileToDraft]]:
    """Group files, with the readings between them. Other readings are passed on at once."""
    group: list[Reading | FileToDraft] = []
    size = 0
    for item in items:
        group.append(item)
        size += len(item.data) if isinstance(item, FileToDraft) else 0
        if not size or size >= _GROUP_BYTES or len(group) >= _GROUP_FILES:
            yield group
            group, size = [], 0
    if group:
        yield group

"""Feedback of people and agents on answers: which hits were right, wrong or used, and how that changes later scores.

Feedback counts only for questions that share most of their words, only at the scope where it was given, and less with
time. It changes no trust: it adds less than one level of trust is worth. Feedback of an agent never moves a hit above
one that a person marked right. It is stored in the job log next to the ledger, from which an erasure removes the rows
of erased objects; a question is stored as hashes of its words.
"""

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from treering.core.canonical import Instant
from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, Unavailable
from treering.core.objects import Channel
from treering.core.policy import PERSONS
from treering.core.scope import ROOT, ScopeGiven, is_within
from treering.ports.runtime import JobLog
from treering.retrieval.search.adjustment import Adjustment
from treering.retrieval.text.analysis import query_terms
from treering.verbs.engine import Engine
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Mode, Nothing, Operation, Report, Value
from treering.verbs.leases import held
from treering.verbs.naming import place_named

Verdict = Literal["right", "wrong", "used"]

OF_PERSONS, OF_OTHERS = 0.10, 0.03
"""The most that the feedback of persons, and of all others together, adds to a score or subtracts from it."""
_VERDICTS: Mapping[Verdict, float] = {"right": 1.0, "wrong": -1.0, "used": 0.25}
_CHANNELS: Mapping[Channel, float] = {"user": 1.0, "system": 1.0, "adapter": 0.5, "agent": 0.3, "import": 0.1}
"""The weight of one verdict by its channel; other channels have none."""
_HALF_LIFE = timedelta(days=90)
_MIN_LIKENESS = 0.5
"""The Jaccard similarity of the words of two questions from which feedback on one counts for the other."""
_MAX_REPETITIONS = 8
_MAX_STORED = 500
"""Verdicts of persons, and of all others, that are stored for a scope: those with the highest weights."""
_MAX_TERMS = 16
_PREFIX = "ans:"
_DIGEST_BYTES = 3
_SCOPES = "feedback"
"""The id of the row that lists the scopes with feedback."""


def answer_name(scope: str, question: str) -> str:
    """Return the name of an answer in feedback: hashes of the question's words; empty without words."""
    terms = _terms(question)
    return _PREFIX + urlsafe_b64encode(_digest(scope, 4) + b"".join(sorted(terms))).decode() if terms else ""


@lru_cache(maxsize=1)
def _terms(question: str) -> frozenset[bytes]:
    words = query_terms(question).words[:_MAX_TERMS]
    return frozenset(_digest(word, _DIGEST_BYTES) for word in words)


def _terms_in_name(scope: str, name: str) -> frozenset[bytes]:
    """Return the hashed words in the name of an answer. Raises `InvalidInput` if it is not of this scope."""
    try:
        read = urlsafe_b64decode(name.removeprefix(_PREFIX))
    except ValueError:
        read = b""
    terms = read[4:]
    is_name = (
        name.startswith(_PREFIX)
        and terms
        and not len(terms) % _DIGEST_BYTES
        and len(terms) <= _MAX_TERMS * _DIGEST_BYTES
    )
    if not is_name or read[:4] != _digest(scope, 4):
        raise InvalidInput(
            f"{name[:100]!r} names no answer of the scope {scope}.",
            hint="Take it from the field `answer` of a query, and give feedback at the scope of the query.",
        )
    return frozenset(terms[start : start + _DIGEST_BYTES] for start in range(0, len(terms), _DIGEST_BYTES))


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()


class _StoredVerdict(Value):
    """A verdict of a channel on an object for a question, and how often it was given."""

    object_id: str
    segment_id: str = ""
    terms: tuple[str, ...]
    """Hashes of the words of the question, in hexadecimal digits."""
    verdict: Verdict
    channel: Channel
    times: int = Field(ge=1)
    at: Instant

    def weight(self, now: datetime) -> float:
        """Return its weight now, above 0 for the better."""
        faded = math.pow(0.5, max(timedelta(0), now - self.at) / _HALF_LIFE)
        return _VERDICTS[self.verdict] * _CHANNELS.get(self.channel, 0.0) * self.times * faded


class _Row(Value):
    """The stored feedback of a scope. Its `scope` is null: it is no job (`ports.runtime.JobLog`)."""

    scope: None = None
    off: bool = False
    items: tuple[_StoredVerdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback of a scope as it counts for one question."""

    verdicts: tuple[_StoredVerdict, ...]
    now: datetime

    def adjust(self, object_id: str, segment_id: str) -> Adjustment | None:
        """Return how it changes the score of a passage, as shares of the score; `None` without a verdict on it."""
        verdicts = [one for one in self.verdicts if one.object_id == object_id and one.segment_id in ("", segment_id)]
        if not verdicts:
            return None
        persons = sum(one.weight(self.now) for one in verdicts if one.channel in PERSONS)
        others = sum(one.weight(self.now) for one in verdicts if one.channel not in PERSONS)
        counts: dict[str, int] = defaultdict(int)
        for one in verdicts:
            counts[f"{one.verdict} by {one.channel}"] += one.times
        return Adjustment(OF_PERSONS * math.tanh(persons), OF_OTHERS * math.tanh(others), counts)


def feedback_for(call: Call, question: str) -> Callable[[str, str], Adjustment | None] | None:
    """Return a function that adjusts the hits of a question; `None` if no feedback counts for it."""
    jobs = call.engine.feedback
    if jobs is None:
        return None
    terms = frozenset(term.hex() for term in _terms(question))
    row = _row(jobs, call.scope, terms=terms)
    if not row.items or not _counts(row, jobs, call.scope):
        return None
    return Feedback(row.items, call.engine.clock.now()).adjust


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def uses(jobs: JobLog | None, now: datetime) -> Mapping[str, float]:
    """Return by id how much objects were used or marked right, for consolidation."""
    weights: dict[str, float] = defaultdict(float)
    for scope in scopes_with_feedback(jobs) if jobs else ():
        for one in _row(jobs, scope).items if jobs else ():
            weights[one.object_id] += max(0.0, one.weight(now))
    return weights


def is_on(engine: Engine, scope: str) -> bool:
    """Return whether feedback at a scope counts: it is stored and not switched off."""
    return engine.feedback is not None and _counts(
        _row(engine.feedback, scope, terms=frozenset()), engine.feedback, scope
    )


def _counts(row: _Row, jobs: JobLog, scope: str) -> bool:
    """Return whether feedback is switched on for a row's scope and at the root."""
    return not row.off and (scope == ROOT or not _row(jobs, ROOT, terms=frozenset()).off)


def _row(jobs: JobLog, scope: str, *, terms: frozenset[str] | None = None) -> _Row:
    """Return the feedback of a scope: all of it, or the verdicts on questions similar to one with these terms."""
    row = jobs.find(f"feedback:{scope}")
    try:
        if row and terms is not None:
            # Parsing the others, up to a thousand, would take as long as half a search.
            items = [one for one in row["items"] if _likeness(terms, frozenset(one["terms"])) >= _MIN_LIKENESS]
            row = {**row, "items": items}
        return _Row.model_validate(row) if row else _Row()
    except (ValidationError, LookupError, TypeError) as error:
        raise Corrupt(
            f"The feedback of the scope {scope} cannot be read.", hint="Run: treering feedback erase."
        ) from error


def _changed(call: Call, scope: str, change: Callable[[_Row], _Row]) -> _Row:
    """Change the feedback of a scope while holding a lease. Raises `Unavailable` if another process holds it."""
    jobs = _jobs(call)
    owner = call.engine.clock.random_bytes(8).hex()
    with held(call.engine.leases, "feedback", owner, 10.0, wait_seconds=5.0) as lease:
        if lease is None:
            raise Unavailable("Another process is writing feedback.", hint="Try again.")
        row = change(_row(jobs, scope))
        known = scopes_with_feedback(jobs)
        if scope not in known:
            jobs.save(_SCOPES, {"scope": None, "scopes": [*known, scope]})
        jobs.save(f"feedback:{scope}", row.model_dump(mode="json"))
    return row


def scopes_with_feedback(jobs: JobLog) -> tuple[str, ...]:
    """Return the scopes at which feedback was given or switched."""
    return tuple(map(str, (jobs.find(_SCOPES) or {}).get("scopes", ())))


def _jobs(call: Call) -> JobLog:
    if call.engine.feedback is None:
        raise InvalidInput("This space does not store feedback.", hint="Open it for writing.")
    return call.engine.feedback


class FeedbackInput(Value):
    """An answer, and its right, wrong or used hits: ids, numbers or titles; or a source id and a segment id."""

    question: str = Field(
        min_length=1, max_length=10_000, description="The question, or the field `answer` of the query."
    )
    right: tuple[str, ...] = Field(default=(), max_length=50, description="Ids of hits that answer the question.")
    wrong: tuple[str, ...] = Field(default=(), max_length=50, description="Ids of hits that do not.")
    used: tuple[str, ...] = Field(
        default=(), max_length=50, description="Ids of hits that were cited, opened or edited."
    )
    neither: tuple[str, ...] = Field(
        default=(), max_length=50, description="Ids whose mark right or wrong this channel removes."
    )

    @model_validator(mode="after")
    def _has_hits(self) -> "FeedbackInput":
        if not (self.right or self.wrong or self.used or self.neither):
            raise ValueError("give hits as right, wrong, used or neither")
        return self


class FeedbackReport(Report):
    """The recorded feedback, and whether it counts."""

    noted: int
    counts: bool
    """Whether feedback is switched on here."""
    taken_back: int = 0


def give_feedback(call: Call, given: FeedbackInput, _options: Nothing) -> FeedbackReport:
    """Record hits as right, wrong or used, or remove such marks.

    Raises `NotFound` for an object out of sight, `Denied` for a channel whose writes are reviewed.
    """
    engine = call.engine
    channel = engine.author.channel
    if channel not in engine.ledger.policy.direct_channels:
        raise Denied(
            f"What comes through the channel {channel!r} is reviewed here, and feedback cannot be.",
            hint="Let a person give it.",
        )
    words = _words_asked(call.scope, given.question)
    if not words:
        raise InvalidInput("The question has no significant words.", hint="Give the question as asked.")
    now = engine.clock.now()
    verdicts: Mapping[Verdict, Sequence[str]] = {"right": given.right, "wrong": given.wrong, "used": given.used}
    fresh = [
        _StoredVerdict(object_id=one, segment_id=part, terms=words, verdict=verdict, channel=channel, times=1, at=now)
        for verdict, names in verdicts.items()
        for one, part in dict.fromkeys(_places(call, names))
    ]
    ended = {(one, part, words, channel) for one, part in _places(call, given.neither)}
    taken_back = 0

    def change(row: _Row) -> _Row:
        nonlocal taken_back
        left = _without(row, ended)
        taken_back = len(row.items) - len(left.items)
        return _with(left, fresh, now)

    on = _counts(_changed(call, call.scope, change), _jobs(call), call.scope)
    return FeedbackReport(
        verb="crystallize",
        mode="feedback",
        scope=call.scope,
        ids=tuple(dict.fromkeys([*(one.object_id for one in fresh), *(one for one, *_ in ended)])),
        noted=len(fresh),
        counts=on,
        taken_back=taken_back,
        warnings=() if on else ("Feedback is off here: it is stored but does not count.",),
    )


def _words_asked(scope: str, question: str) -> tuple[str, ...]:
    """Return the hashed words of a question or of an answer's name, in hexadecimal digits."""
    terms = _terms_in_name(scope, question) if question.startswith(_PREFIX) else _terms(question)
    return tuple(sorted(term.hex() for term in terms))


def _places(call: Call, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the object and segment of each named place. Raises if one is out of sight."""
    for name in names:
        try:
            identity, segment = place_named(call.engine, name)
        except NotFound as error:  # reported as invalid input since the first version
            raise InvalidInput(error.message, hint=error.hint) from error
        call.engine.ledger.get(identity)
        if segment:
            call.engine.ledger.segment(identity, segment)
        yield identity, segment


def _with(row: _Row, fresh: Sequence[_StoredVerdict], now: datetime) -> _Row:
    """Add verdicts: a repeated verdict increases the count, and the opposite one replaces it."""
    verdicts = {_key(one): one for one in row.items}
    for one in fresh:
        opposite = {"right": "wrong", "wrong": "right"}.get(one.verdict)
        if opposite:
            verdicts.pop((*_key(one)[:-1], opposite), None)
        before = verdicts.get(_key(one))
        times = min(_MAX_REPETITIONS, before.times + 1) if before else 1
        verdicts[_key(one)] = one.model_copy(update={"times": times})
    ranked = sorted(
        verdicts.values(), key=lambda one: (-abs(one.weight(now)), one.object_id, one.segment_id, one.terms)
    )
    persons = [one for one in ranked if one.channel in PERSONS][:_MAX_STORED]
    others = [one for one in ranked if one.channel not in PERSONS][:_MAX_STORED]
    return row.model_copy(update={"items": (*persons, *others)})


def _without(row: _Row, ended: Collection[tuple[Any, ...]]) -> _Row:
    """Remove the marks right and wrong of some places by one channel for one question."""
    left = (one for one in row.items if one.verdict == "used" or _key(one)[:-1] not in ended)
    return row.model_copy(update={"items": tuple(left)})


def _key(one: _StoredVerdict) -> tuple[Any, ...]:
    return one.object_id, one.segment_id, one.terms, one.channel, one.verdict


FEEDBACK = Mode.of("feedback", "Mark hits right, wrong, used.", give_feedback, rights=WRITES)
GIVEN_BY_PERSON = replace(FEEDBACK, rights=DECIDES)
"""The same, for a surface whose callers may give feedback as a person."""


class AnswerInput(Value):
    """An answer, for a page that shows its marks."""

    question: str = Field(min_length=1, max_length=10_000)
    scope: ScopeGiven
    by_person: bool = False
    """Return the marks of persons instead of the caller's channel."""


class AnswerMarks(Value):
    """The marks of one channel on an answer."""

    channel: Channel
    accepted: bool
    """Whether feedback may come through this channel."""
    counts: bool
    """Whether feedback is switched on here."""
    marks: Mapping[str, Verdict]
    """By place, as `FeedbackInput` names it."""


def marks(call: Call, given: AnswerInput, _options: Nothing) -> AnswerMarks:
    """Return the marks of a channel on an answer. Raises `Denied` for a scope out of sight."""
    if not is_within(given.scope, call.scope):
        raise Denied(f"{given.scope} is outside of {call.scope}.", hint=f"Ask at {call.scope} or below it.")
    jobs, words = _jobs(call), _words_asked(given.scope, given.question)
    row, channel = _row(jobs, given.scope), "user" if given.by_person else call.engine.author.channel
    marked = [one for one in row.items if (one.terms, one.channel) == (words, channel) and one.verdict != "used"]
    return AnswerMarks(
        channel=channel,
        accepted=channel in call.engine.ledger.policy.direct_channels,
        counts=_counts(row, jobs, given.scope),
        marks={f"{one.object_id} {one.segment_id}".strip(): one.verdict for one in marked},
    )


MARKS = Operation.of("feedback marks", "List the hits of an answer marked right or wrong.", marks, rights=READS)


class FeedbackStatus(Value):
    """The stored feedback of a scope."""

    scope: str
    on: bool
    verdicts: Mapping[str, int]
    """Number of verdicts by verdict and channel, such as `right by user`."""
    objects: int
    """Number of objects with verdicts."""


def status(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Return the stored feedback of a scope, and whether it counts."""
    return _status_of(call, _row(_jobs(call), call.scope))


def switch_off(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Ignore feedback at a scope; at the root, everywhere."""
    return _status_of(call, _changed(call, call.scope, lambda row: row.model_copy(update={"off": True})))


def switch_on(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Use feedback again."""
    return _status_of(call, _changed(call, call.scope, lambda row: row.model_copy(update={"off": False})))


def erase_feedback(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Erase the feedback of a scope and of those below it."""
    jobs = _jobs(call)
    erase_below(jobs, call.scope)
    return _status_of(call, _row(jobs, call.scope))


def erase_below(jobs: JobLog, ancestor: str) -> None:
    """Erase the feedback of a scope and of those below it, but not whether it is switched off."""
    for scope in scopes_with_feedback(jobs):
        if is_within(scope, ancestor):
            jobs.save(f"feedback:{scope}", _Row(off=_is_off(jobs, scope)).model_dump(mode="json"))


def _is_off(jobs: JobLog, scope: str) -> bool:
    try:
        return _row(jobs, scope).off
    except Corrupt:
        return False


def _status_of(call: Call, row: _Row) -> FeedbackStatus:
    counts: dict[str, int] = defaultdict(int)
    for one in row.items:
        counts[f"{one.verdict} by {one.channel}"] += one.times
    return FeedbackStatus(
        scope=call.scope,
        on=_counts(row, _jobs(call), call.scope),
        verdicts=dict(counts),
        objects=len({one.object_id for one in row.items}),
    )


STATUS = Operation.of("feedback status", "Show the stored feedback and whether it counts.", status, rights=READS)
OFF = Operation.of("feedback off", "Ignore feedback; it stays stored.", switch_off, rights=DECIDES, repeatable=True)
ON = Operation.of("feedback on", "Use feedback again.", switch_on, rights=DECIDES, repeatable=True)
ERASE = Operation.of(
    "feedback erase",
    "Erase all feedback of a scope and the scopes below it.",
    erase_feedback,
    rights=DECIDES,
    repeatable=True,
)
ON_SCOPES: Mapping[str, Operation[FeedbackStatus]] = {"status": STATUS, "off": OFF, "on": ON, "erase": ERASE}
OPERATIONS = tuple(ON_SCOPES.values())

"""What people and agents say of answers: which hits were right, wrong or used, and what that counts for afterwards.

It counts a little, only for questions that share most of their words with the one it was given for, only at the scope
where it was given, and less with time. It changes no trust: the most it adds is less than one level of trust is worth.
What an agent says never moves anything above what a person marked right (`weighed`). It is kept beside the ledger, in
the log of jobs, from which an erasure takes what it tells of erased objects; a question is kept as hashes of its words.
"""

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from treering.core.canonical import Instant
from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, Unavailable
from treering.core.objects import Channel
from treering.core.policy import PERSONS
from treering.core.scope import ROOT, ScopeGiven, is_within
from treering.ports.runtime import JobLog
from treering.retrieval.search.retrieval import Adjustment
from treering.retrieval.text.analysis import query_terms
from treering.verbs.engine import Engine, held
from treering.verbs.envelope import DECIDES, READS, WRITES, Call, Mode, Nothing, Operation, Report, Value
from treering.verbs.naming import place_named

Verdict = Literal["right", "wrong", "used"]

OF_PERSONS, OF_OTHERS = 0.10, 0.03
"""The most that feedback adds to a score, or takes from it: that of persons, and that of all others together."""
_VERDICTS: Mapping[Verdict, float] = {"right": 1.0, "wrong": -1.0, "used": 0.25}
_CHANNELS: Mapping[Channel, float] = {"user": 1.0, "system": 1.0, "adapter": 0.5, "agent": 0.3, "import": 0.1}
"""What one verdict counts for, by the channel it came through; one that is not named counts for nothing."""
_HALF_LIFE = timedelta(days=90)
_ALIKE = 0.5
"""Part of all their words that two questions share (Jaccard) for feedback on one to count for the other."""
_MOST_REPEATED = 8
_MOST_KEPT = 500
"""Verdicts of persons, and of all others, that a scope keeps: those that count for most."""
_MOST_TERMS = 16
_PREFIX = "ans:"
_BYTES = 3


# The name of an answer: hashes of the words that were asked. Nothing is kept for an answer that nobody speaks of.


def answer_name(scope: str, question: str) -> str:
    """Return what an answer is called in feedback; empty for a question without words."""
    terms = _terms(question)
    return _PREFIX + urlsafe_b64encode(_digest(scope, 4) + b"".join(sorted(terms))).decode() if terms else ""


def _terms(question: str) -> frozenset[bytes]:
    words = query_terms(question).words[:_MOST_TERMS]
    return frozenset(_digest(word, _BYTES) for word in words)


def _asked(scope: str, name: str) -> frozenset[bytes]:
    """Return the hashed words of an answer. Raises `InvalidInput` for a name of another scope, or of nothing."""
    try:
        read = urlsafe_b64decode(name.removeprefix(_PREFIX))
    except ValueError:
        read = b""
    terms = read[4:]
    whole = name.startswith(_PREFIX) and terms and not len(terms) % _BYTES and len(terms) <= _MOST_TERMS * _BYTES
    if not whole or read[:4] != _digest(scope, 4):
        raise InvalidInput(
            f"{name[:100]!r} names no answer of the scope {scope}.",
            hint="Take it from the field `answer` of a query, and give feedback at the scope of the query.",
        )
    return frozenset(terms[start : start + _BYTES] for start in range(0, len(terms), _BYTES))


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()


# What is kept: per scope one row, with a verdict for each object, question, channel and kind.


class _Kept(Value):
    """One verdict, as often as it was given."""

    object_id: str
    segment_id: str = ""
    terms: tuple[str, ...]
    """Hashes of the words that were asked, in hexadecimal digits."""
    verdict: Verdict
    channel: Channel
    times: int = Field(ge=1)
    at: Instant

    def weight(self, now: datetime) -> float:
        """Return what it counts for now, above 0 for the better."""
        faded = math.pow(0.5, max(timedelta(0), now - self.at) / _HALF_LIFE)
        return _VERDICTS[self.verdict] * _CHANNELS.get(self.channel, 0.0) * self.times * faded


class _Row(Value):
    """What a scope keeps. Its `scope` is null: it is no job (`ports.runtime.JobLog`)."""

    scope: None = None
    off: bool = False
    items: tuple[_Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback of a scope as it counts for one question."""

    kept: tuple[_Kept, ...]
    now: datetime

    def adjust(self, object_id: str, segment_id: str) -> Adjustment | None:
        """Return what it adds to the score of a passage, as parts of it; `None` where nothing was said of it."""
        told = [one for one in self.kept if one.object_id == object_id and one.segment_id in ("", segment_id)]
        if not told:
            return None
        persons = sum(one.weight(self.now) for one in told if one.channel in PERSONS)
        others = sum(one.weight(self.now) for one in told if one.channel not in PERSONS)
        counts: dict[str, int] = defaultdict(int)
        for one in told:
            counts[f"{one.verdict} by {one.channel}"] += one.times
        return Adjustment(OF_PERSONS * math.tanh(persons), OF_OTHERS * math.tanh(others), counts)


def feedback_for(call: Call, question: str) -> Callable[[str, str], Adjustment | None] | None:
    """Return what adjusts the hits of a question, `None` where no feedback counts for it."""
    jobs = call.engine.feedback
    if jobs is None:
        return None
    asked = frozenset(term.hex() for term in _terms(question))
    row = _row(jobs, call.scope, asked=asked)
    if not row.items or not _counts(row, jobs, call.scope):
        return None
    return Feedback(row.items, call.engine.clock.now()).adjust


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


def uses(jobs: JobLog | None, now: datetime) -> Mapping[str, float]:
    """Return how much objects were used or found right, by id: for whoever decides what is kept."""
    found: dict[str, float] = defaultdict(float)
    for scope in scopes_with_feedback(jobs) if jobs else ():
        for one in _row(jobs, scope).items if jobs else ():
            found[one.object_id] += max(0.0, one.weight(now))
    return found


def is_on(engine: Engine, scope: str) -> bool:
    """Tell whether feedback that is given at a scope counts: it is kept, and not switched off."""
    return engine.feedback is not None and _counts(
        _row(engine.feedback, scope, asked=frozenset()), engine.feedback, scope
    )


def _counts(row: _Row, jobs: JobLog, scope: str) -> bool:
    """Tell whether the row of a scope counts: it does not where feedback is switched off there, or at the root."""
    return not row.off and (scope == ROOT or not _row(jobs, ROOT, asked=frozenset()).off)


def _row(jobs: JobLog, scope: str, *, asked: frozenset[str] | None = None) -> _Row:
    """Return what a scope keeps: all of it, or the verdicts on questions like the one that is asked."""
    found = jobs.find(f"feedback:{scope}")
    try:
        if found and asked is not None:
            # The others, up to a thousand, are not parsed: that would take as long as half a search.
            items = [one for one in found["items"] if _likeness(asked, frozenset(one["terms"])) >= _ALIKE]
            found = {**found, "items": items}
        return _Row.model_validate(found) if found else _Row()
    except (ValidationError, LookupError, TypeError) as error:
        raise Corrupt(
            f"The feedback of the scope {scope} cannot be read.", hint="Run: treering feedback erase."
        ) from error


def _changed(call: Call, scope: str, change: Callable[[_Row], _Row]) -> _Row:
    """Change the row of a scope, in turn with other processes. Raises `Unavailable` after a bounded wait."""
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


_SCOPES = "feedback"


def scopes_with_feedback(jobs: JobLog) -> tuple[str, ...]:
    """Return the scopes at which feedback was given or switched."""
    return tuple(map(str, (jobs.find(_SCOPES) or {}).get("scopes", ())))


def _jobs(call: Call) -> JobLog:
    if call.engine.feedback is None:
        raise InvalidInput("This space does not store feedback.", hint="Open it for writing.")
    return call.engine.feedback


# `crystallize` in mode `feedback`.


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
    def _says_something(self) -> "FeedbackInput":
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
    """Note what was right, wrong or used, or take that back.

    Raises `NotFound` for what is not seen here, `Denied` for a channel that is reviewed.
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
        _Kept(object_id=one, segment_id=part, terms=words, verdict=verdict, channel=channel, times=1, at=now)
        for verdict, told in verdicts.items()
        for one, part in dict.fromkeys(_places(call, told))
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
    """Return the hashed words of a question, or of an answer's name, in hexadecimal digits. Raises as `_asked`."""
    terms = _asked(scope, question) if question.startswith(_PREFIX) else _terms(question)
    return tuple(sorted(term.hex() for term in terms))


def _places(call: Call, told: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield object and segment of each place that feedback names, which have to be seen from here."""
    for place in told:
        try:
            identity, segment = place_named(call.engine, place)
        except NotFound as error:  # what is no id was always an invalid input
            raise InvalidInput(error.message, hint=error.hint) from error
        call.engine.ledger.get(identity)
        if segment:
            call.engine.ledger.segment(identity, segment)
        yield identity, segment


def _with(row: _Row, fresh: Sequence[_Kept], now: datetime) -> _Row:
    """Add verdicts: the same again counts once more, and a person who says otherwise is believed now."""
    kept = {_key(one): one for one in row.items}
    for one in fresh:
        opposite = {"right": "wrong", "wrong": "right"}.get(one.verdict)
        if opposite:
            kept.pop((*_key(one)[:-1], opposite), None)
        before = kept.get(_key(one))
        times = min(_MOST_REPEATED, before.times + 1) if before else 1
        kept[_key(one)] = one.model_copy(update={"times": times})
    ranked = sorted(kept.values(), key=lambda one: (-abs(one.weight(now)), one.object_id, one.segment_id, one.terms))
    persons = [one for one in ranked if one.channel in PERSONS][:_MOST_KEPT]
    others = [one for one in ranked if one.channel not in PERSONS][:_MOST_KEPT]
    return row.model_copy(update={"items": (*persons, *others)})


def _without(row: _Row, ended: Collection[tuple[Any, ...]]) -> _Row:
    """Leave out what was called right or wrong of places, as one channel said it of one question."""
    kept = (one for one in row.items if one.verdict == "used" or _key(one)[:-1] not in ended)
    return row.model_copy(update={"items": tuple(kept)})


def _key(one: _Kept) -> tuple[Any, ...]:
    return one.object_id, one.segment_id, one.terms, one.channel, one.verdict


FEEDBACK = Mode(
    "feedback",
    "Mark hits right, wrong, used.",
    FeedbackInput,
    Nothing,
    FeedbackReport,
    give_feedback,
    rights=WRITES,
)
GIVEN_BY_PERSON = replace(FEEDBACK, rights=DECIDES)
"""The same, for a surface that lets its callers say it as a person."""


# What was said of one answer, for a page that shows it.


class AnswerInput(Value):
    """Which answer."""

    question: str = Field(min_length=1, max_length=10_000)
    scope: ScopeGiven
    by_person: bool = False
    """What persons said of it; else what was said through the channel of whoever asks."""


class AnswerMarks(Value):
    """What one channel called right or wrong of an answer."""

    channel: Channel
    accepted: bool
    """Whether feedback may come through this channel."""
    counts: bool
    """Whether feedback is switched on here."""
    marks: Mapping[str, Verdict]
    """By the place it was said of, as `FeedbackInput` names it."""


def marks(call: Call, given: AnswerInput, _options: Nothing) -> AnswerMarks:
    """Tell what a channel called right or wrong of an answer. Raises `Denied` for a scope that is not seen."""
    if not is_within(given.scope, call.scope):
        raise Denied(f"{given.scope} is outside of {call.scope}.", hint=f"Ask at {call.scope} or below it.")
    jobs, words = _jobs(call), _words_asked(given.scope, given.question)
    row, channel = _row(jobs, given.scope), "user" if given.by_person else call.engine.author.channel
    found = [one for one in row.items if (one.terms, one.channel) == (words, channel) and one.verdict != "used"]
    return AnswerMarks(
        channel=channel,
        accepted=channel in call.engine.ledger.policy.direct_channels,
        counts=_counts(row, jobs, given.scope),
        marks={f"{one.object_id} {one.segment_id}".strip(): one.verdict for one in found},
    )


MARKS = Operation(
    "feedback marks",
    "List the hits of an answer marked right or wrong.",
    AnswerInput,
    Nothing,
    AnswerMarks,
    marks,
    rights=READS,
)


# Looking at it, switching it off, erasing it: at a scope, and for all scopes at the root.


class FeedbackStatus(Value):
    """The stored feedback of a scope."""

    scope: str
    on: bool
    verdicts: Mapping[str, int]
    """How many there are, such as `right by user`."""
    objects: int
    """Of how many objects."""


def status(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Tell what feedback a scope keeps, and whether it counts."""
    row = _row(_jobs(call), call.scope)
    return _told(call, row)


def switch_off(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Let feedback count for nothing at a scope; at the root, at none."""
    return _told(call, _changed(call, call.scope, lambda row: row.model_copy(update={"off": True})))


def switch_on(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Use feedback again."""
    return _told(call, _changed(call, call.scope, lambda row: row.model_copy(update={"off": False})))


def erase_feedback(call: Call, _given: Nothing, _options: Nothing) -> FeedbackStatus:
    """Erase the feedback of a scope and of those below it."""
    jobs = _jobs(call)
    for scope in scopes_with_feedback(jobs):
        if is_within(scope, call.scope):
            jobs.save(f"feedback:{scope}", _Row(off=_is_off(jobs, scope)).model_dump(mode="json"))
    return _told(call, _row(jobs, call.scope))


def _is_off(jobs: JobLog, scope: str) -> bool:
    try:
        return _row(jobs, scope).off
    except Corrupt:
        return False


def _told(call: Call, row: _Row) -> FeedbackStatus:
    counts: dict[str, int] = defaultdict(int)
    for one in row.items:
        counts[f"{one.verdict} by {one.channel}"] += one.times
    return FeedbackStatus(
        scope=call.scope,
        on=_counts(row, _jobs(call), call.scope),
        verdicts=dict(counts),
        objects=len({one.object_id for one in row.items}),
    )


STATUS = Operation(
    "feedback status",
    "Show the stored feedback and whether it counts.",
    Nothing,
    Nothing,
    FeedbackStatus,
    status,
    rights=READS,
)
OFF = Operation(
    "feedback off",
    "Ignore feedback; it stays stored.",
    Nothing,
    Nothing,
    FeedbackStatus,
    switch_off,
    rights=DECIDES,
    repeatable=True,
)
ON = Operation(
    "feedback on",
    "Use feedback again.",
    Nothing,
    Nothing,
    FeedbackStatus,
    switch_on,
    rights=DECIDES,
    repeatable=True,
)
ERASE = Operation(
    "feedback erase",
    "Erase all feedback of a scope and the scopes below it.",
    Nothing,
    Nothing,
    FeedbackStatus,
    erase_feedback,
    rights=DECIDES,
    repeatable=True,
)
ON_SCOPES: Mapping[str, Operation[FeedbackStatus]] = {"status": STATUS, "off": OFF, "on": ON, "erase": ERASE}
OPERATIONS = tuple(ON_SCOPES.values())

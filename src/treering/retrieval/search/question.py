"""A question prepared for the arms, and its clues: who said something, when, and in which role."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from treering.core.evidence import Locator, Segment, Turn
from treering.ports.models import (
    Embedder,
    Rarity,
    equally_rare,
    expected_of,
    has_meaning_to,
    prose_share_of,
    query_vector,
)
from treering.ports.passages import AskedDays, PassageHead, Reach
from treering.ports.search import Lag, Near, NearRequest, TextQuery, Vector
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import Fused
from treering.retrieval.text import periods
from treering.retrieval.text.analysis import LONGEST_QUERY, MAX_WORDS, query_terms, telling_terms, terms_in
from treering.retrieval.text.dates import DateRange, asked_ranges, date_ranges
from treering.retrieval.text.languages import compound_splits, language_of
from treering.retrieval.text.misspelling import MAX_DOUBTFUL, spellings_of
from treering.retrieval.text.periods import Period
from treering.retrieval.text.time_zones import UTC_ZONE, TimeZone
from treering.retrieval.text.typed_words import TypedWords
from treering.retrieval.tuning import TUNING

_NO_LAG = Lag(0, 0)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a question means, as a vector; in deep search with `leads`: the question together with what it led to.

    Adding what was found first to the question and asking again is what finds the second hop of a chain
    (pseudo-relevance feedback, Rocchio 1971). `unrelated_below`, `prose_share` and `expected` are what the embedder
    says of its cosines. `quick`: what it means to the quick model, for passages that have a vector of that one alone;
    `own` is `None` where all of them are such.
    """

    own: Vector | None
    unrelated_below: float
    prose_share: float = 1.0
    expected: tuple[float, float] = (1.0, 0.0)
    leads: tuple[Vector, ...] = ()
    quick: "Meaning | None" = None

    @classmethod
    def of(cls, text: str, embedder: Embedder, *, encode: bool = True) -> "Meaning":
        """Embed a text; without `encode` only what the embedder says of its cosines is taken."""
        own = query_vector(embedder, text) if encode else None
        return cls(own, embedder.unrelated_below, prose_share_of(embedder), expected_of(embedder))

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of the question and of each lead."""
        return () if self.own is None else (self.own, *self.leads)

    def is_related(self, cosine: float) -> bool:
        """Tell whether a text this near to the question may say something about it, by its meaning alone."""
        return cosine >= self.unrelated_below

    def request(self, *, reach: Reach, limit: int, keys: Iterable[int] = ()) -> NearRequest:
        """Return what asks for the passages nearest to the question and to each lead, and compares others with them.

        With `limit` 0 nothing is looked for.
        """
        quick = self.quick.vectors if self.quick else ()
        limits = (limit, *(min(limit, TUNING.question.lead_pool) for _ in max(self.leads, quick[1:], key=len)))
        return NearRequest(reach, self.vectors, limits, tuple(sorted(keys)), quick)

    def cosines(self, near: Near) -> dict[int, float]:
        """Return the cosines of what was compared: half of each is that of the best lead, if there are any.

        One of the quick model is told on the scale of the other: as far above what is unrelated.
        """
        told = self.quick.unrelated_below if self.quick else 0.0
        return _with_leads(near.cosines) | {
            key: self._at((cosine - told) / (1 - told)) for key, cosine in _with_leads(near.quick).items()
        }

    def expected_of(self, near: Near) -> dict[int, float]:
        """Return the cosines to be expected of what has a vector of the quick model alone."""
        if self.quick is None:
            return {}
        told, (slope, offset) = self.quick.unrelated_below, self.quick.expected
        return {
            key: self._at(slope * (cosine - told) / (1 - told) + offset)
            for key, cosine in _with_leads(near.quick).items()
        }

    def _at(self, above: float) -> float:
        return self.unrelated_below + above * (1 - self.unrelated_below)


def _with_leads(cosines: Sequence[Mapping[int, float]]) -> dict[int, float]:
    if not cosines:
        return {}
    own, *led = cosines
    if not led:
        return dict(own)
    share = TUNING.question.lead_share
    return {key: (1 - share) * of + share * max(one[key] for one in led) for key, of in own.items()}


@dataclass(frozen=True, slots=True)
class Compound:
    """The terms of a word of a question, and of the two words it may be made of."""

    whole: tuple[str, ...]
    first: tuple[str, ...]
    end: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The terms of the two."""
        return (*self.first, *self.end)

    def likeliness(self, counts: Mapping[str, int]) -> tuple[int, int]:
        """Return how many of the two are words of a space, and how surely it is made of them; (0, 0) where it is not.

        Chance parts are rare; and where only one of the two is a word, it is short, or the whole is a word there, too.
        """
        first, end = (max((counts.get(term, 0) for term in part), default=0) for part in (self.first, self.end))
        if first and end:
            return 2, min(first, end)
        known = self.first if first else self.end if end else ()
        alone = known and len(known[0]) >= TUNING.question.min_letters_alone and counts.keys().isdisjoint(self.whole)
        return (1, len(known[0])) if alone else (0, 0)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: its text, its terms, what it means where the embedder could tell, and the days it is about.

    Of a long text only the beginning is read (`LONGEST_QUERY`), so that no question costs more than a long one;
    `unread` counts the characters behind it.
    """

    text: str
    terms: TextQuery
    meaning: Meaning | None
    embedder: Embedder | None = None
    quick: Embedder | None = None
    days: tuple[AskedDays, ...] = ()
    unread: int = 0
    lag: Lag = _NO_LAG
    """How far the vectors lagged behind when it was asked."""
    understood: tuple[DateRange, ...] = ()
    """What words such as "yesterday" were taken for, in its time zone."""
    zone: TimeZone = UTC_ZONE
    is_known: bool = True
    """Whether the embedder knows most of its words; else it is asked by words and names alone."""
    rarity: Rarity = equally_rare
    """How rare its words are in texts of any kind."""

    def is_of_other_day(self, text: str, said: datetime | None) -> bool:
        """Return whether a turn was said on another day than the one asked for, and does not mention that one.

        Only a single day that is named from the day of the question, such as "yesterday", is taken so exactly.
        """
        days = {found.first for found in self.understood}
        if said is None or len(days) != 1 or any(found.first != found.last for found in self.understood):
            return False
        (day,), local = days, self.zone.local(said)
        return local.date() != day and not any(
            found.first <= day <= found.last for found in date_ranges(text, said=local)
        )

    @classmethod
    def of(
        cls,
        text: str,
        *,
        embedder: Embedder | None,
        quick: Embedder | None = None,
        now: datetime | None = None,
        zone: TimeZone = UTC_ZONE,
        lag: Lag = _NO_LAG,
        rarity: Rarity = equally_rare,
    ) -> "Question":
        """Prepare a question asked `now`; without a time "last Friday" and "in May" name no days.

        `zone`: the time zone of whoever asks, whose days such words mean.
        `quick`: the quick model, where passages have vectors of that alone. What no passage has a vector of is not
        asked: `lag` tells.
        """
        read = text[:LONGEST_QUERY]
        told = essence_of(read) if is_long(read) else read
        meaning, is_known = None, embedder is None or has_meaning_to(embedder, told)
        if embedder and is_known:
            meaning = Meaning.of(told, embedder, encode=quick is None or lag.pending < lag.total)
            quick = quick if quick and has_meaning_to(quick, told) else None
            meaning = replace(meaning, quick=Meaning.of(told, quick)) if quick else meaning
        local = zone.local(now) if now else None
        days = tuple(days_asked(read, local, zone))
        understood = tuple(_understood(read, local)) if local else ()
        unread = len(text) - len(read)
        return cls(
            read, terms_of(read), meaning, embedder, quick, days, unread, lag, understood, zone, is_known, rarity
        )

    def compounds(self) -> tuple[Compound, ...]:
        """Return how its long words may be made of two others, where its language writes compounds as one word."""
        if (language := language_of(self.text)) is None:
            return ()
        return tuple(
            Compound(*(terms_in(language, word) for word in split)) for split in compound_splits(language, self.text)
        )

    def with_parts(self, compounds: Iterable[Compound], counts: Mapping[str, int]) -> "Question":
        """Look for the parts of each compound as well that are words of a space; `counts` are of passages, by term."""
        best: dict[tuple[str, ...], Compound] = {}
        for one in compounds:
            other = best.get(one.whole)
            if one.likeliness(counts) > (other.likeliness(counts) if other else (0, 0)):
                best[one.whole] = one
        parts = (term for one in best.values() for term in one.parts if term in counts)
        words = tuple(dict.fromkeys((*self.terms.words, *parts)))[:MAX_WORDS]
        return replace(self, terms=replace(self.terms, words=words)) if best else self

    def doubtful(self) -> frozenset[str]:
        """Return the terms of its words that no vocabulary has: they are misspelt, if no passage has them, either."""
        if is_long(self.text):
            return frozenset()
        terms = (
            parts[0]
            for _, word, parts in TypedWords.of(self.text).words
            if len(parts) == 1 and word.isalpha() and word.isascii() and self.rarity(word) == 1
        )
        long = (term for term in terms if len(term) >= TUNING.question.min_doubtful_letters)
        return frozenset(islice(long, MAX_DOUBTFUL))

    def corrected(self, misspelt: Iterable[str], counts: Mapping[str, int]) -> "Question":
        """Look for the term that most passages have of those next to a misspelt one, if there is any."""
        meant = {
            term: max(known, key=lambda other: (counts[other], other))
            for term in misspelt
            if (known := spellings_of(term) & counts.keys())
        }
        words, emphasis = (
            tuple(dict.fromkeys(meant.get(term, term) for term in terms))
            for terms in (self.terms.words, self.terms.emphasis)
        )
        return replace(self, terms=replace(self.terms, words=words, emphasis=emphasis))

    def led_by(self, leads: Sequence[str]) -> "Question":
        """Return the question asked together with each of some texts. Costs an encoding for each."""
        if self.meaning is None or self.embedder is None:
            return self
        meaning = _led(self.meaning, self.embedder, asked := [f"{self.text} {lead}" for lead in leads])
        if meaning.quick and self.quick:
            meaning = replace(meaning, quick=_led(meaning.quick, self.quick, asked))
        return replace(self, meaning=meaning)


def _led(meaning: Meaning, embedder: Embedder, asked: Sequence[str]) -> Meaning:
    if meaning.own is None:
        return meaning
    return replace(meaning, leads=tuple(query_vector(embedder, text) for text in asked))


def _understood(text: str, now: datetime) -> Iterator[DateRange]:
    """Return the periods that a question names from the day it is asked, such as "yesterday" and "last week"."""
    absolute = {(found.start, found.end) for found in asked_ranges(text, None)}
    ranges = asked_ranges(text, now)[:_MOST_RANGES]
    spans = Counter((found.start, found.end) for found in ranges)
    # A month without a year is meant in every year: that is several periods.
    yield from (one for one in ranges if spans[(one.start, one.end)] == 1 and (one.start, one.end) not in absolute)


def days_asked(text: str, now: datetime | None, zone: TimeZone = UTC_ZONE) -> Iterator[AskedDays]:
    """Return the days a question is about: short periods with the day before and after, days with their month too.

    What people remember as a day may be the next one, or some day of that month: half of it counts. Turns are found by
    days in UTC, which those of a zone overlap: the slack covers that, a long period is widened to the days it touches.
    """
    for found in asked_ranges(text, now)[:_MOST_RANGES]:
        slack = timedelta((found.last - found.first).days < TUNING.clues.short_period_days)
        with suppress(OverflowError):
            first, last = (found.first, found.last) if slack else _in_utc(found.period, zone)
            yield AskedDays(first - slack, last + slack)
        if found.first == found.last:
            yield AskedDays(*periods.month(found.first.year, found.first.month), weight=TUNING.clues.same_month_weight)


def _in_utc(period: Period, zone: TimeZone) -> Period:
    try:
        return zone.begin(period[0]).date(), zone.end(period[1]).date()
    except OverflowError:  # the first and last days of the calendar
        return period


_MOST_RANGES = 100

Arms = Mapping[str, Mapping[int, float]]
"""Raw scores of passages, by arm and key; higher is better."""


# A long question read for what it is: the text of an issue, with a title, prose, code, a traceback and a template.


def is_long(text: str) -> bool:
    """Tell whether a question has parts: several lines, or more than a few sentences."""
    return len(text) > TUNING.question.max_short_chars or "\n" in text.strip()


def question_title(text: str) -> str:
    """Return the first line of a question; of a short one all of it."""
    return text.strip().partition("\n")[0][: TUNING.question.max_short_chars]


def terms_of(text: str) -> TextQuery:
    """Return what to look for when somebody asks `text`, short or long.

    Of a long one the terms of the title and those that are said often count twice.
    """
    if not is_long(text):
        return query_terms(text)
    told = essence_of(text)
    query = query_terms(told, most=TUNING.question.max_long_words)
    said, title = Counter(telling_terms(told)), set(telling_terms(question_title(text)))
    emphasis = [term for term in query.words if term in title or said[term] >= TUNING.question.min_emphasis_mentions]
    # Paths are places (`retrieval.search.fusion`); their stretches and those of versions have many postings.
    names = tuple(name for name in query.identifiers if "/" not in name and not name[0].isdigit())
    return replace(query, identifiers=names, emphasis=tuple(emphasis[: MAX_WORDS - len(query.words)]))


def essence_of(text: str) -> str:
    """Return a text without comments, check-lists and headings of a template, and without lists of versions.

    A text that is nothing else is returned as it is.
    """
    lines = [line for line in _without_comments(text).split("\n") if not _is_boilerplate(line.strip()[:_LONGEST_LINE])]
    told = "\n".join(lines)
    return told if told.strip() else text


_LONGEST_LINE = 300  # boilerplate is short

_CHECK_BOX = re.compile(r"[-*+]\s*\[[ xX]?\]")
_VERSION = re.compile(r"[\w.\-\[\]]+(?:\s*(?:==|[:|=])\s*|\s+)v?\d+[\w.+!-]*(?:\s+\S+)?\s*\|?")
_ENVIRONMENT = re.compile(
    r"(?:[-*]\s*)?(?:\*\*)?(?:os|operating system|platform|[\w.]+ version|python|extra tools|[\w.]+ extensions|browser"
    r"|cachedir|rootdir|plugins|collected|asyncio|hardware|architecture|node|npm)\b(?:\*\*)?\s*[:=]?(?=\s|$)",
    re.IGNORECASE,
)
_OF_TOOLS = re.compile(
    r"(?:\$\s*)?(?:(?:python\S*\s+-m\s+)?pip3?\s+(?:list|freeze)|conda\s+list|npm\s+ls)\b|[-=+_\s|:]{4,}"
)
_HEADING = re.compile(
    r"(?:#+\s*|\*\*)?(?:describe the (?:bug|issue|problem)|(?:steps )?(?:to|how to) reproduce(?: the \w+)?|reproduction"
    r"|(?:expected|actual|current|observed) (?:behaviou?rs?|results?|outcome|output)|your project|screenshots?"
    r"|environment(?: info(?:rmation)?)?|additional (?:context|information|info)|versions?|system info(?:rmation)?"
    r"|description|(?:bug )?report|bug summary|summary|problem|proposed (?:solution|fix)|code for reproduction"
    r"|minimal (?:complete verifiable )?example|what happened|what did you expect(?: to happen)?|checklist"
    r"|(?:relevant )?log output|anything else(?: we need to know)?)\s*[:?]?\s*(?:\*\*)?[:?]?",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"(?:no|none|n/?a|_no response_|</?details>|</?summary>.*|```\w*)\.?", re.IGNORECASE)
_WHOLE_LINES = (_VERSION, _OF_TOOLS, _HEADING, _NOTHING)


def _is_boilerplate(line: str) -> bool:
    if _CHECK_BOX.match(line) or (_ENVIRONMENT.match(line) and _has_version(line)):
        return True
    return any(pattern.fullmatch(line) for pattern in _WHOLE_LINES)


def _has_version(line: str) -> bool:
    return any(char.isdigit() for char in line) or line.endswith(":")


def _without_comments(text: str) -> str:
    """Leave out HTML comments; what follows one that does not end is kept."""
    return "".join(_outside_comments(text))


def _outside_comments(text: str) -> Iterator[str]:
    at = 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        yield text[at:begin]
        at = end + len("-->")
    yield text[at:]


# What a question says of who said something and when: clues to the turns of a conversation.


SPEAKER = "speaker"
DATE = "date"
ROLE = "role"
THREAD = "thread"


_OF_THE_ASSISTANT = re.compile(
    r"\byou (?:told|mention|suggest|recommend|provid|gave|said|list|describ|explain|creat|wrote|shar)\w*"
    r"|\bremind me\b|\b(?:our|the) (?:previous|last|earlier|past) (?:conversation|chat|discussion)"
    r"|\bprevious (?:conversation|chat)|\bwe (?:talked|discussed)",
    re.IGNORECASE,
)
_OF_THE_USER = re.compile(r"\b(?:i|my|me|mine|i'm|i've|we|our|us)\b", re.IGNORECASE)
_TURN = re.compile(r"(?P<speaker>.*?)(?: \(\d{4}-\d{2}-\d{2}\))?")
_ROLES = frozenset({"user", "assistant", "system", "tool"})


def clues_of(
    question: str, heads: Mapping[int, PassageHead], dated: Mapping[int, float]
) -> dict[str, dict[int, float]]:
    """Give, by clue, the turns among some passages that a question points at, each with a score from 0 to 1.

    `speaker`: who spoke is named in the question, and not everybody who speaks there is. `date`: it was said at a time
    that is named, or speaks of that time (`dated`, as `Index.on_days` gives it). `role`: the question asks what an
    assistant said ("you told me"), or else what a user said of themselves ("my").
    """
    turns = {key: speaker_of(head) for key, head in heads.items() if is_turn(head)}
    clues = {
        SPEAKER: _spoken_by(question, turns, heads),
        DATE: {key: score for key, score in dated.items() if key in turns},
        ROLE: _in_role(question, turns),
    }
    return {name: scores for name, scores in clues.items() if scores}


def thread_clue(ranked: Sequence[Fused], heads: Mapping[int, PassageHead]) -> dict[str, dict[int, float]]:
    """Return each turn the score of the best turn of its conversation: where one was found there may be more."""
    best: dict[str, float] = {}
    turns = [(hit, heads[hit.key].object_id) for hit in ranked if hit.key in heads and is_turn(heads[hit.key])]
    for hit, thread in turns:
        best[thread] = max(best.get(thread, 0.0), hit.score)
    return {THREAD: {hit.key: best[thread] for hit, thread in turns}} if turns else {}


def speaker_of(head: PassageHead) -> str:
    """Return who spoke: a turn is headed "Ann (2023-05-08)", or "Ann" where nobody knows when."""
    found = _TURN.fullmatch(head.heading)
    return found["speaker"] if found else head.heading


def _spoken_by(question: str, turns: Mapping[int, str], heads: Mapping[int, PassageHead]) -> dict[int, float]:
    speakers: dict[str, set[str]] = {}
    for key, speaker in turns.items():
        speakers.setdefault(heads[key].object_id, set()).add(speaker)
    everybody = set().union(*speakers.values()) - _ROLES
    named = {name for name in everybody if name.strip() and _says(question, name)}
    telling = {identity: those & named for identity, those in speakers.items() if not those <= named}
    return {key: 1.0 for key, speaker in turns.items() if speaker in telling.get(heads[key].object_id, ())}


def _says(question: str, name: str) -> bool:
    first = name.split()[0]
    return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", question, re.IGNORECASE) for part in {name, first})


def _in_role(question: str, turns: Mapping[int, str]) -> dict[int, float]:
    if _OF_THE_ASSISTANT.search(question):
        wanted = "assistant"
    elif _OF_THE_USER.search(question):
        wanted = "user"
    else:
        return {}
    return {key: 1.0 for key, speaker in turns.items() if speaker == wanted}


# The turn after a question: in a conversation the answer stands there, and belongs to the question that was found.


_ASIDE = re.compile(r"\s*\[[^\[\]]{0,400}\]\s*\Z")
_QUESTION_SIGNS = "?？؟"
_END_CHARS = 40
_LONGEST_ENDING = 500
_SENTENCE_END = re.compile(r"[.!?:;]\s+|\n")
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had|'s)"
_REQUEST = re.compile(
    r"(?:(?:please|ok(?:ay)?|so|now|and|then|hey|hi|can you|could you|would you),? +){0,3}"
    rf"(?:(?:tell|show|give|remind) (?:me|us)\b|(?:explain|describe|list|summari[sz]e)\b(?!,)"
    rf"|(?:what|which|who|whose|where|why|how)(?: \w+){{0,2}} ?{_AUXILIARY}\b(?!.*,))",
    re.IGNORECASE,
)
"""How a request begins, and a question whose mark was left out; a comma behind makes it a clause of something else."""


def asks(text: str) -> bool:
    """Tell whether the last sentence of a text is a question, or asks to be told something, as chats without signs do.

    Behind a question mark may stand what is not a sentence: quotes, brackets, emoji, an aside such as `[image: a dog]`.
    Questions without a mark and requests are known in English alone.
    """
    said = _ASIDE.sub("", text[-_LONGEST_ENDING:]).rstrip()
    told = next((char for char in reversed(said[-_END_CHARS:]) if char.isalnum() or char in _QUESTION_SIGNS), "")
    if told in _QUESTION_SIGNS:
        return bool(told)
    return _REQUEST.match(_SENTENCE_END.split(said.rstrip(".! "))[-1].strip()) is not None


def reply_among(asked: Segment, others: Iterable[Segment]) -> Segment | None:
    """Return the first of other turns of the conversation that comes after a question and is somebody else's.

    Of a long turn it is the first piece.
    """
    if not asks(asked.excerpt):
        return None
    later = [other for other in others if other.position > asked.position]
    reply = min(later, key=lambda other: other.position, default=None)
    return reply if reply and _is_answered(asked.locator, reply.locator) else None


def _is_answered(asked: Locator, reply: Locator) -> bool:
    """Tell whether two places are turns, one after the other, of two who speak."""
    match asked, reply:
        case Turn(), Turn():
            return reply.turn > asked.turn and reply.speaker != asked.speaker
        case _:
            return False

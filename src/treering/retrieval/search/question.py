"""Prepare a question for the arms of a search, and find its clues to turns of a conversation."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice

from treering.core.canonical import is_object
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
from treering.retrieval import limits
from treering.retrieval.index.ties import is_turn
from treering.retrieval.text.analysis import LONGEST_QUERY, MAX_WORDS, query_terms, telling_terms, terms_in
from treering.retrieval.text.dates import DateRange, asked_ranges, date_ranges
from treering.retrieval.text.languages import compound_splits, language_of
from treering.retrieval.text.misspelling import MAX_DOUBTFUL
from treering.retrieval.text.periods import Period
from treering.retrieval.text.time_zones import UTC_ZONE, TimeZone
from treering.retrieval.text.typed_words import TypedWords, begins_sentence
from treering.retrieval.tuning import TUNING

_NO_LAG = Lag(0, 0)


@dataclass(frozen=True, slots=True)
class Meaning:
    """The vector of a question; in a deep search also `leads`, the vectors of the question with its first hits.

    Searching again with the first hits added finds the second hop of a chain (pseudo-relevance feedback, Rocchio 1971).
    `unrelated_below`, `prose_share` and `expected` describe the cosines of the embedder. `quick` is the meaning for the
    quick model, for passages that only have its vector; `own` is `None` if all passages have only that vector.
    """

    own: Vector | None
    unrelated_below: float
    prose_share: float = 1.0
    expected: tuple[float, float] = (1.0, 0.0)
    leads: tuple[Vector, ...] = ()
    quick: "Meaning | None" = None

    @classmethod
    def of(cls, text: str, embedder: Embedder, *, encode: bool = True) -> "Meaning":
        """Embed a text; without `encode` only take the properties of the embedder."""
        own = query_vector(embedder, text) if encode else None
        return cls(own, embedder.unrelated_below, prose_share_of(embedder), expected_of(embedder))

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """The vectors of the question and its leads."""
        return () if self.own is None else (self.own, *self.leads)

    def is_related(self, cosine: float) -> bool:
        """Return whether a text with this cosine may be about the question."""
        return cosine >= self.unrelated_below

    def request(self, *, reach: Reach, limit: int, keys: Iterable[int] = ()) -> NearRequest:
        """Return a request for the passages nearest to the question and each lead, and for the cosines of `keys`.

        With `limit` 0 only the cosines are requested.
        """
        quick = self.quick.vectors if self.quick else ()
        per_lead = min(limit, limits.MAX_CANDIDATES_PER_LEAD)
        sizes = (limit, *(per_lead for _ in max(self.leads, quick[1:], key=len)))
        return NearRequest(reach, self.vectors, sizes, tuple(sorted(keys)), quick)

    def cosines(self, near: Near) -> dict[int, float]:
        """Return the cosines of passages, combined with the best lead if there are leads.

        Cosines of the quick model are converted to the scale of the embedder.
        """
        unrelated = self.quick.unrelated_below if self.quick else 0.0
        return _with_leads(near.cosines) | {
            key: self._at((cosine - unrelated) / (1 - unrelated)) for key, cosine in _with_leads(near.quick).items()
        }

    def expected_of(self, near: Near) -> dict[int, float]:
        """Return the expected cosines of passages that only have a vector of the quick model."""
        if self.quick is None:
            return {}
        unrelated, (slope, offset) = self.quick.unrelated_below, self.quick.expected
        return {
            key: self._at(slope * (cosine - unrelated) / (1 - unrelated) + offset)
            for key, cosine in _with_leads(near.quick).items()
        }

    def _at(self, above: float) -> float:
        return self.unrelated_below + above * (1 - self.unrelated_below)


def _with_leads(cosines: Sequence[Mapping[int, float]]) -> dict[int, float]:
    if not cosines:
        return {}
    own, *leads = cosines
    if not leads:
        return dict(own)
    return {key: (cosine + max(lead[key] for lead in leads)) / 2 for key, cosine in own.items()}


@dataclass(frozen=True, slots=True)
class Compound:
    """The terms of a word of a question, and of its two possible parts."""

    whole: tuple[str, ...]
    first: tuple[str, ...]
    end: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The terms of both parts."""
        return (*self.first, *self.end)

    def likeliness(self, counts: Mapping[str, int]) -> tuple[int, int]:
        """Return how many parts are words of the space, and a likelihood for ties; (0, 0) if it is no compound.

        If both parts are words, the likelihood is the frequency of the rarer one. A single known part must be long, and
        the whole word unknown.
        """
        first, end = (max((counts.get(term, 0) for term in part), default=0) for part in (self.first, self.end))
        if first and end:
            return 2, min(first, end)
        known = self.first if first else self.end if end else ()
        alone = known and len(known[0]) >= TUNING.question.min_distinct_letters and counts.keys().isdisjoint(self.whole)
        return (1, len(known[0])) if alone else (0, 0)


@dataclass(frozen=True)
class Question:
    """A question: its text, terms, meaning, and days.

    Only the first `LONGEST_QUERY` characters are read, which bounds the cost; `unread` counts the others.
    """

    text: str
    terms: TextQuery
    meaning: Meaning | None = None
    embedder: Embedder | None = None
    quick: Embedder | None = None
    likeness: Embedder | None = None
    """The quick model, which compares the passages found with each other."""
    days: tuple[AskedDays, ...] = ()
    unread: int = 0
    lag: Lag = _NO_LAG
    """The embedding backlog when the question was asked."""
    understood: tuple[DateRange, ...] = ()
    """The days of relative dates such as "yesterday", in its time zone."""
    zone: TimeZone = UTC_ZONE
    is_known: bool = True
    """Whether the embedder knows most of its words; otherwise the search uses only words and names."""
    rarity: Rarity = equally_rare
    """The rarity of words in general texts."""
    misspelt: frozenset[str] = frozenset()
    """Terms that were replaced by another spelling."""

    @cached_property
    def typed(self) -> TypedWords:
        """Its words as typed."""
        return TypedWords.of(self.text)

    def is_of_other_day(self, text: str, said: datetime | None) -> bool:
        """Return whether a turn is from another day than the question asks for and does not mention that day.

        This applies only to a single relative day, such as "yesterday".
        """
        days = {dates.first for dates in self.understood}
        if said is None or len(days) != 1 or any(dates.first != dates.last for dates in self.understood):
            return False
        (day,), local = days, self.zone.local(said)
        return local.date() != day and not any(
            dates.first <= day <= dates.last for dates in date_ranges(text, said=local)
        )

    @classmethod
    def of(
        cls,
        text: str,
        *,
        embedder: Embedder | None,
        now: datetime | None = None,
        zone: TimeZone = UTC_ZONE,
        lag: Lag = _NO_LAG,
        rarity: Rarity = equally_rare,
    ) -> "Question":
        """Prepare a question asked at `now`, in the time zone `zone`; without a time, relative dates are ignored."""
        read = text[:LONGEST_QUERY]
        local = zone.local(now) if now else None
        ranges = asked_ranges(read, local)[:_MOST_RANGES]
        question = cls(
            read,
            terms_of(read),
            days=tuple(days_asked(ranges, zone)),
            unread=len(text) - len(read),
            lag=lag,
            understood=tuple(_understood(read, ranges)) if local and ranges else (),
            zone=zone,
            rarity=rarity,
        )
        return question.embedded(embedder) if embedder else question

    def embedded(self, embedder: Embedder | None, *, quick: Embedder | None = None) -> "Question":
        """Add the meaning. `quick` is the quick model, if some passages only have its vectors.

        The embedder is not called if no passage has its vectors, according to `lag`.
        """
        if embedder is None:
            return self
        essence = essence_of(self.text) if is_long(self.text) else self.text
        if not has_meaning_to(embedder, essence):
            return replace(self, embedder=embedder, quick=quick, is_known=False)
        meaning = Meaning.of(essence, embedder, encode=quick is None or self.lag.pending < self.lag.total)
        quick = quick if quick and has_meaning_to(quick, essence) else None
        meaning = replace(meaning, quick=Meaning.of(essence, quick)) if quick else meaning
        return replace(self, meaning=meaning, embedder=embedder, quick=quick)

    def compounds(self) -> tuple[Compound, ...]:
        """Return the possible splits of its long words, if its language writes compounds as one word."""
        if (language := language_of(self.text)) is None:
            return ()
        return tuple(
            Compound(*(terms_in(language, word) for word in split)) for split in compound_splits(language, self.text)
        )

    def with_parts(self, compounds: Iterable[Compound], counts: Mapping[str, int]) -> "Question":
        """Add the parts of compounds that occur in the space to its terms; `counts` are of passages, by term."""
        best: dict[tuple[str, ...], Compound] = {}
        for one in compounds:
            other = best.get(one.whole)
            if one.likeliness(counts) > (other.likeliness(counts) if other else (0, 0)):
                best[one.whole] = one
        parts = (term for one in best.values() for term in one.parts if term in counts)
        words = tuple(dict.fromkeys((*self.terms.words, *parts)))[:MAX_WORDS]
        return replace(self, terms=replace(self.terms, words=words)) if best else self

    def doubtful(self) -> frozenset[str]:
        """Return the terms of words that are in no vocabulary. They are misspelt if no passage has them either.

        A word with a capital inside a sentence is a name, and another word that differs by a letter is no answer.
        """
        if is_long(self.text):
            return frozenset()
        terms = (
            parts[0]
            for at, word, parts in self.typed.words
            if len(parts) == 1 and word.isalpha() and word.isascii() and self.rarity(word) == 1
            if word.islower() or begins_sentence(self.text, at)
        )
        long = (term for term in terms if len(term) >= TUNING.question.min_distinct_letters)
        return frozenset(islice(long, MAX_DOUBTFUL))

    def corrected(self, spellings: Mapping[str, Set[str]], counts: Mapping[str, int]) -> "Question":
        """Replace each misspelt term by its most frequent alternative spelling, if there is any."""
        meant = {
            term: max(known, key=lambda other: (counts[other], other))
            for term, others in spellings.items()
            if (known := others & counts.keys())
        }
        words, emphasis = (
            tuple(dict.fromkeys(meant.get(term, term) for term in terms))
            for terms in (self.terms.words, self.terms.emphasis)
        )
        terms = replace(self.terms, words=words, emphasis=emphasis)
        return replace(self, terms=terms, misspelt=frozenset(meant))

    def led_by(self, leads: Sequence[str]) -> "Question":
        """Return the question with the vectors of its text followed by each lead. Costs one embedding per lead."""
        if self.meaning is None or self.embedder is None:
            return self
        texts = [f"{self.text} {lead}" for lead in leads]
        meaning = _with_lead_vectors(self.meaning, self.embedder, texts)
        if meaning.quick and self.quick:
            meaning = replace(meaning, quick=_with_lead_vectors(meaning.quick, self.quick, texts))
        return replace(self, meaning=meaning)


def _with_lead_vectors(meaning: Meaning, embedder: Embedder, texts: Sequence[str]) -> Meaning:
    if meaning.own is None:
        return meaning
    return replace(meaning, leads=tuple(query_vector(embedder, text) for text in texts))


def _understood(text: str, ranges: Sequence[DateRange]) -> Iterator[DateRange]:
    """Yield the relative periods among those in a question, such as "yesterday" and "last week"."""
    absolute = {(dates.start, dates.end) for dates in asked_ranges(text, None)}
    spans = Counter((dates.start, dates.end) for dates in ranges)
    # A month without a year means every year, which is several periods.
    yield from (one for one in ranges if spans[(one.start, one.end)] == 1 and (one.start, one.end) not in absolute)


def days_asked(ranges: Iterable[DateRange], zone: TimeZone = UTC_ZONE) -> Iterator[AskedDays]:
    """Yield the days in UTC of the periods in a question; a single day with the day before and after."""
    for dates in ranges:
        slack = timedelta(dates.first == dates.last)
        with suppress(OverflowError):
            first, last = dates.period if slack else _in_utc(dates.period, zone)
            yield AskedDays(first - slack, last + slack)


def _in_utc(period: Period, zone: TimeZone) -> Period:
    try:
        return zone.begin(period[0]).date(), zone.end(period[1]).date()
    except OverflowError:  # the first and last days of the calendar
        return period


_MOST_RANGES = 100

Arms = Mapping[str, Mapping[int, float]]
"""Raw scores of passages, by arm and key; higher is better."""


def is_long(text: str) -> bool:
    """Return whether a question has several lines or many sentences, such as the text of an issue."""
    return len(text) > TUNING.question.max_short_chars or "\n" in text.strip()


def question_title(text: str) -> str:
    """Return the first line of a question."""
    return text.strip().partition("\n")[0][: TUNING.question.max_short_chars]


def terms_of(text: str) -> TextQuery:
    """Return the terms to search for a question. In a long one, frequent terms and terms of the title count twice."""
    if is_object(text.strip()):  # its prefix is a word of many texts
        return TextQuery((text.strip().partition(":")[2],), (text.strip(),))
    if not is_long(text):
        return query_terms(text)
    essence = essence_of(text)
    query = query_terms(essence, most=limits.MAX_LONG_QUESTION_WORDS)
    counts, title = Counter(telling_terms(essence)), set(telling_terms(question_title(text)))
    emphasis = [term for term in query.words if term in title or counts[term] >= TUNING.question.min_emphasis_mentions]
    # Paths are places (`retrieval.search.fusion`); the trigrams of paths and versions have many postings.
    names = tuple(name for name in query.identifiers if "/" not in name and not name[0].isdigit())
    return replace(query, identifiers=names, emphasis=tuple(emphasis[: MAX_WORDS - len(query.words)]))


def essence_of(text: str) -> str:
    """Return a text without the comments, checklists and headings of a template, and without lists of versions.

    A text without anything else is returned unchanged.
    """
    lines = [line for line in _without_comments(text).split("\n") if not _is_boilerplate(line.strip()[:_LONGEST_LINE])]
    essence = "\n".join(lines)
    return essence if essence.strip() else text


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
    """Remove HTML comments that have an end."""
    return "".join(_outside_comments(text))


def _outside_comments(text: str) -> Iterator[str]:
    at = 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        yield text[at:begin]
        at = end + len("-->")
    yield text[at:]


SPEAKER = "speaker"
DATE = "date"
ROLE = "role"


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
    """Return, by clue, the turns among some passages that a question hints at, each with a score from 0 to 1.

    `speaker`: the question names the speaker, but not all speakers of the conversation. `date`: the turn is from a day
    in the question, or mentions it; `dated` are these scores from the index. `role`: the question asks what an
    assistant said ("you told me"), or what the user said ("my").
    """
    turns = {key: speaker_of(head) for key, head in heads.items() if is_turn(head)}
    clues = {
        SPEAKER: _spoken_by(question, turns, heads),
        DATE: {key: score for key, score in dated.items() if key in turns},
        ROLE: _in_role(question, turns),
    }
    return {name: scores for name, scores in clues.items() if scores}


def speaker_of(head: PassageHead) -> str:
    """Return the speaker of a turn, whose heading is "Ann (2023-05-08)", or "Ann" if its day is unknown."""
    match = _TURN.fullmatch(head.heading)
    return match["speaker"] if match else head.heading


def _spoken_by(question: str, turns: Mapping[int, str], heads: Mapping[int, PassageHead]) -> dict[int, float]:
    speakers: dict[str, set[str]] = {}
    for key, speaker in turns.items():
        speakers.setdefault(heads[key].object_id, set()).add(speaker)
    everybody = set().union(*speakers.values()) - _ROLES
    named = {name for name in everybody if name.strip() and _contains_name(question, name)}
    hinted = {identity: those & named for identity, those in speakers.items() if not those <= named}
    return {key: 1.0 for key, speaker in turns.items() if speaker in hinted.get(heads[key].object_id, ())}


def _contains_name(question: str, name: str) -> bool:
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
"""The beginning of a request, or of a question without a question mark. A later comma makes it a subordinate clause."""


def asks(text: str) -> bool:
    """Return whether the last sentence of a text is a question or a request for information.

    Quotes, brackets, emoji, and asides such as `[image: a dog]` may follow a question mark. Requests and questions
    without a mark are recognized only in English.
    """
    ending = _ASIDE.sub("", text[-_LONGEST_ENDING:]).rstrip()
    last = next((char for char in reversed(ending[-_END_CHARS:]) if char.isalnum() or char in _QUESTION_SIGNS), "")
    if last in _QUESTION_SIGNS:
        return bool(last)
    return _REQUEST.match(_SENTENCE_END.split(ending.rstrip(".! "))[-1].strip()) is not None


_PAST = re.compile(
    r"\b(?:used to|previous(?:ly)?|former(?:ly)?|original(?:ly)?|at first|initial(?:ly)?|back then|in the past|"
    r"at the time|before\W*$|until (?:then|now)|no longer|anymore|früher|davor|vorher|ursprünglich|damals|antes|"
    r"anteriormente|originalmente)\b|^(?!.*\b(?:does|do|will)\b).*\b(?<!how )old\b|"
    r"\b(?:was|were|did|had)\b.*\b(?:before|earlier|first|once)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Words of a question about an earlier state. `Before the inspection` is one only in a question in the past tense."""


def asks_about_past(question: str) -> bool:
    """Return whether a question is about an earlier state, so that what was replaced answers it."""
    return _PAST.search(question) is not None


_PAST_TENSE = re.compile(r"\b(?:was|were|did|had)\b", re.IGNORECASE)


def asks_for_state(question: str) -> bool:
    """Return whether a question may be about what holds now, and not about an event, which has its own day."""
    return not asks_about_past(question) and _PAST_TENSE.search(question) is None


_HOW_TO = re.compile(
    r"\bwhy (?:was|were|did|has|have)\b|"
    r"\bhow (?:do|can|should|would) (?:i|we|you|one)\b|\bhow to\b|\b(?:should|must|can|may|do) (?:i|we)\b|"
    r"^\W*(?:run|build|install|deploy|release|publish|lint|format|test)(?: [\w.-]+){1,4}\W*$",
    re.IGNORECASE,
)
"""Questions for the reason of a decision, for a duty, and for a job such as `run the tests`."""


def asks_how_to(text: str) -> bool:
    """Return whether documentation answers a question more often than code: duties and past decisions.

    The text of an issue is about code, also if it mentions how to do something.
    """
    return not is_long(text) and _HOW_TO.search(text) is not None


_CHORE = re.compile(
    r"\b(?:run|execute|build|lint|format)\b.{0,30}\b(?:tests?|test suite|linters?|linting|checks|docs|documentation"
    r"|benchmarks|website|project|source)\b"
    r"|\bhow (?:do|can|should) (?:i|we|you) (?:build|compile|lint|format|release|deploy)(?: it| this)?\W*$"
    r"|\b(?:release|publish|deploy)\b.{0,20}\b(?:versions?|releases?)\b"
    r"|\bhow (?:is|are)\b.{0,40}\b(?:built|deployed|published|released|tested|made)\W*$"
    r"|\bset ?up\b.*\bdev(?:elop\w*)?\b|\blocal development\b"
    r"|\bcontribut\w+|\bpull requests?\b|\bsubmit\w* (?:an? )?(?:patch|change)"
    r"|\bbefore (?:submitting|committing|pushing)"
    r"|\b(?:supported|minimum|oldest|lowest|required)\b.*\b(?:versions?|compilers?)\b|\bversions?\b.*\bsupported\b"
    r"|\bwhich\b.*\bversions?\b.*\b(?:support|need|require|work|run)\w*",
    re.IGNORECASE,
)


def asks_about_chore(text: str) -> bool:
    """Return whether a question is about a chore of a project, such as a release, or the versions that it needs."""
    return not is_long(text) and _CHORE.search(text) is not None


_CHANGES = frozenset({"change", "changed", "changes", "commit", "commits", "happened", "new", "updates", "updated"})
_LATELY = frozenset({"lately", "recent", "recently", "latest", "last", "newest", "new"})
_BESIDE_CHANGES = frozenset(
    {"what", "which", "show", "list", "the", "are", "is", "were", "has", "have", "been", "was", "most", "me", "any"}
    | {"in", "of", "to", "this", "here", "project", "repo", "repository", "code", "s", "there", "did", "we", "things"}
)


def asks_what_changed(text: str) -> bool:
    """Return whether a question asks only for the latest changes, as in `what changed lately`."""
    words = frozenset(re.findall(r"[^\W\d_]+", text.casefold()))
    is_about_both = not (words.isdisjoint(_CHANGES) or words.isdisjoint(_LATELY))
    return is_about_both and words <= _CHANGES | _LATELY | _BESIDE_CHANGES


def reply_among(asked: Segment, others: Iterable[Segment]) -> Segment | None:
    """Return the next turn after a question, if another speaker has it; of a long turn its first segment."""
    if not asks(asked.excerpt):
        return None
    later = [other for other in others if other.position > asked.position]
    reply = min(later, key=lambda other: other.position, default=None)
    return reply if reply and _is_answered(asked.locator, reply.locator) else None


def _is_answered(asked: Locator, reply: Locator) -> bool:
    """Return whether two places are turns of different speakers, in this order."""
    match asked, reply:
        case Turn(), Turn():
            return reply.turn > asked.turn and reply.speaker != asked.speaker
        case _:
            return False

"""Find statements that repeat others: with the same text, the same words, or as a clause of a longer one.

Similarity proves nothing: "deploys on Monday" and "deploys on Sunday" are similar. So a statement is contained in
another only if all its words follow each other there as a separate clause, and no words around them negate or limit it.
Doubtful pairs are left alone.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from treering.core.canonical import canonical_json, normalise_text
from treering.core.declarations import is_declaration
from treering.core.objects import Constraint, Decision, Fact, Knowledge, Preference, Procedure, Source, Summary
from treering.core.screening import without_disguise
from treering.retrieval.text.analysis import spelled
from treering.retrieval.text.dates import date_ranges

Sameness = Literal["exact", "normalised", "contained"]

_FILLERS = frozenset("a an the please also just so too really very actually kindly indeed hereby then ok okay".split())
"""Words that do not change a statement. All others count, above all `not` and `only`."""
_CONTRACTIONS = {"can't": "can not", "won't": "will not", "'m": " am", "'re": " are", "'ll": " will", "'ve": " have"}
_NUMBERS = dict(zip("two three four five six seven eight nine ten".split(), map(str, range(2, 11)), strict=True))
_CLAUSE_BEGINS = frozenset({"and", ";", ":", ","})
_CLAUSE_ENDS = frozenset({"and", ";", ":", ",", "(", "because", "which", "that", "who", "including"})
_GOVERNING = frozenset(
    "not no never nor neither cannot without if unless whether when until only rather instead than but would could "
    "should might may maybe perhaps probably possibly think thinks thought believe believes assume assumes guess hope "
    "hopes want wants wish plan plans try tries tried fail fails failed say says said tell tells told claim claims "
    "claimed suggest suggests suggested propose proposed ask asks asked consider pretend used formerly previously "
    "once former ex almost nearly hardly few some stop stopped avoid before after as though although while suppose "
    "imagine deny denies denied doubt doubts unlikely false wrong".split()
)
"""Words after which a clause is not stated, or only under a condition."""
_RETRACTING = frozenset(
    "not never if unless until only except but when while before instead anymore longer or formerly once wrong "
    "false no though although however".split()
)
"""Words that retract the clause before them, or make it conditional."""
_DEICTIC = frozenset(
    "today yesterday tomorrow tonight currently recently lately ago now this last next morning afternoon evening "
    "earlier later soon already still again".split()
)
"""Words that mean another time on another day."""

_BULLET = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]*]*\s+|\n+")
_TOKEN = re.compile(r"https?://[^\s)>\]]+|(?<![\w.])-{1,2}(?=\w)\w+(?:[./:@#'_-]+\w+)*|\w+(?:[./:@#'_-]+\w+)*|[^\w\s]")
_SIGNS = frozenset(";:,()[]{}.!。！…\"'“”„‘’`*>#")
"""Punctuation that does not distinguish statements, unlike `<`, `%` and `?`."""
_UNREAD = _SIGNS - frozenset(";:,(")
_MIN_CONTAINED_WORDS = 3
"""Shorter sentences occur everywhere as parts of others."""
_CHANGING = frozenset({"created_at", "updated_at", "timestamp", "hash", "id", "memory_id", "flags"})
"""Fields of metadata that differ between copies of a note."""


@dataclass(frozen=True)
class ComparedStatement:
    """The comparable statement of an object.

    `about` contains the fields that must be equal, such as scope, kind, subject and time.
    """

    id: str
    about: str
    texts: tuple[str, ...]

    @cached_property
    def exact(self) -> str:
        """The text without differences of case and white space."""
        return "\n".join(map(normalise_text, self.texts))

    @cached_property
    def sentences(self) -> tuple[tuple[str, ...], ...]:
        """The tokens of each sentence: its words without fillers, and the punctuation between clauses."""
        parts = (part for text in self.texts for part in _SENTENCE.split(text))
        return tuple(tokens for part in parts if any(map(_is_word, tokens := tokens_of(part))))

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The words of each sentence, without punctuation."""
        return tuple(tuple(token for token in one if _is_word(token)) for one in self.sentences)


def statement_of(item: Knowledge | Source) -> ComparedStatement | None:
    """Return the statement of knowledge or a note; `None` if it has none that could be repeated.

    Summaries have none: they repeat other objects on purpose.
    """
    if isinstance(item, Source):
        return _of_note(item)
    stated = _stated(item)
    if stated is None:
        return None
    subject, texts = stated
    time = [str(item.valid_from), str(item.valid_until)]
    about = canonical_json([item.scope, item.kind, subject, sorted(item.subject_refs), time])
    return ComparedStatement(item.id, about, tuple(filter(None, (*texts, item.summary))))


def _stated(item: Knowledge) -> tuple[str, tuple[str, ...]] | None:
    match item.payload:
        case Fact(subject=subject, object=target, value=value):
            what = target if target is not None else value if isinstance(value, str) else canonical_json(value)
            return f"{normalise_text(subject)} {item.payload.relation}", (what,)
        case Decision(outcome=outcome, rationale=why, alternatives=others):
            return item.payload.asked, (outcome, why, *others)
        case Procedure(steps=steps, preconditions=before, expected_outcome=expected):
            # Steps are in an order: all of them are one text.
            return "", (" ; ".join(steps), *before, expected)
        case Constraint(rule=rule, scope=where, violation_impact=impact):
            return normalise_text(where), (rule, impact)
        case Preference(statement=stated, scope=where):
            return normalise_text(where), (stated,)
        case Summary():
            return None


def _of_note(item: Source) -> ComparedStatement | None:
    if item.kind != "note" or is_declaration(item.origin):
        return None
    texts = tuple(part.excerpt for part in item.segments if part.excerpt.strip())
    if not texts:
        return None
    metadata = {name: value for name, value in item.metadata.items() if name not in _CHANGING}
    words = {token for text in texts for token in tokens_of(text)}
    days = [str(found.period) for text in texts for found in date_ranges(text, said=item.captured_at)]
    # "I ran today" means different things on two days.
    day = str(item.captured_at.date()) if words & _DEICTIC or days else ""
    return ComparedStatement(item.id, canonical_json([item.scope, "note", metadata, day, sorted(days)]), texts)


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a sentence: its words in lower case, and the punctuation between clauses.

    Words are not stemmed: "add a test" is a request, "added a test" a report.
    """
    plain = without_disguise(_BULLET.sub("", text)).replace("’", "'")
    for contraction, words in _CONTRACTIONS.items():
        plain = plain.replace(contraction, words)
    spellings = (spelled(token.removesuffix("'s")) for token in _TOKEN.findall(plain.replace("n't", " not")))
    tokens = [_NUMBERS.get(token, token) for token in spellings if token not in _FILLERS and token not in _UNREAD]
    while tokens and not _is_word(tokens[-1]):
        tokens.pop()
    return tuple(tokens)


def _is_word(token: str) -> bool:
    return token not in _SIGNS


def sameness(one: ComparedStatement, other: ComparedStatement) -> Sameness | None:
    """Return how `other` repeats `one`; `None` if it does not, or if that is uncertain."""
    if one.about != other.about or not one.words:
        return None
    if one.exact == other.exact:
        return "exact"
    if one.words == other.words:
        return "normalised"
    if all(any(_is_contained(part, whole) for whole in other.sentences) for part in one.sentences):
        return "contained"
    return None


def _is_contained(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Return whether a sentence is a clause of another that is neither retracted nor limited there."""
    if part == whole:
        return True
    if sum(map(_is_word, part)) < _MIN_CONTAINED_WORDS or len(part) > len(whole):
        return False
    for start in range(len(whole) - len(part) + 1):
        if tuple(whole[start : start + len(part)]) == tuple(part):
            before, behind = whole[:start], whole[start + len(part) :]
            begins = not before or before[-1] in _CLAUSE_BEGINS
            ends = not behind or behind[0] in _CLAUSE_ENDS or _goes_on(behind)
            if begins and ends and _GOVERNING.isdisjoint(before) and _RETRACTING.isdisjoint(behind):
                return True
    return False


def _goes_on(behind: Sequence[str]) -> bool:
    """Return whether the words after a clause only add to it: `… properly`, `… by updating the logic`."""
    one_adverb = len(behind) == 1 and behind[0].endswith("ly")
    return one_adverb or (len(behind) > 1 and behind[0] == "by" and behind[1].endswith("ing"))


@dataclass(frozen=True, slots=True)
class Repetition:
    """A statement, `gone`, that another one, `kept`, repeats."""

    gone: ComparedStatement
    kept: ComparedStatement
    how: Sameness


def repetitions(statements: Sequence[ComparedStatement]) -> Iterator[Repetition]:
    """Yield each pair of statements of which one repeats the other.

    Equal statements are yielded in both orders: the caller decides which one stays.
    """
    for group in _about(statements).values():
        holders = _holders(group)
        for one in group:
            # A statement that repeats it contains its rarest word.
            rarest = min((holders[word] for word in {*_flat(one)}), key=len, default=())
            for place in rarest:
                other = group[place]
                if other is not one and (how := sameness(one, other)):
                    yield Repetition(one, other, how)


def _about(statements: Sequence[ComparedStatement]) -> Mapping[str, list[ComparedStatement]]:
    groups: dict[str, list[ComparedStatement]] = defaultdict(list)
    for one in statements:
        if one.words:
            groups[one.about].append(one)
    return groups


def _holders(group: Sequence[ComparedStatement]) -> Mapping[str, list[int]]:
    """Return by word the positions of the statements that contain it."""
    holders: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(group):
        for word in dict.fromkeys(_flat(one)):
            holders[word].append(place)
    return holders


def _flat(one: ComparedStatement) -> Iterator[str]:
    return (word for sentence in one.words for word in sentence)

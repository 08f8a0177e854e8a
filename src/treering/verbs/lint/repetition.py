"""Which statements say again what another one says: word for word, in the same words, or as a part of it.

Likeness proves nothing: "deploys on Monday" and "deploys on Sunday" are alike. So one statement counts as said by
another only where all its words stand there, one behind the other, as a clause of its own, and nothing before or
behind them takes it back or narrows it down. What is not decided so is left alone.
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
"""Words that change nothing of what is stated. All others count, `not` and `only` above all."""
_WRITTEN = {"can't": "can not", "won't": "will not", "'m": " am", "'re": " are", "'ll": " will", "'ve": " have"}
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
"""Words by which a clause behind them is not stated, or not without a condition."""
_TAKING_BACK = frozenset(
    "not never if unless until only except but when while before instead anymore longer or formerly once wrong "
    "false no though although however".split()
)
"""Words by which what stands before them is taken back, or held to a condition."""
_DEICTIC = frozenset(
    "today yesterday tomorrow tonight currently recently lately ago now this last next morning afternoon evening "
    "earlier later soon already still again".split()
)
"""Words that mean another time on another day."""

_BULLET = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?。！？])[\"')\]*]*\s+|\n+")
_TOKEN = re.compile(r"https?://[^\s)>\]]+|(?<![\w.])-{1,2}(?=\w)\w+(?:[./:@#'_-]+\w+)*|\w+(?:[./:@#'_-]+\w+)*|[^\w\s]")
_SIGNS = frozenset(";:,()[]{}.!。！…\"'“”„‘’`*>#")
"""Signs that words may be written with or without. `<`, `%` and `?` are none of them."""
_SAID_LEAST = 3
"""Words of a sentence that may be found as a part of another: shorter ones stand everywhere."""


@dataclass(frozen=True)
class Statement:
    """What an object states, as far as that can be compared.

    `about` is what has to be the same: scope, kind, subject, time, and whatever else tells two of them apart.
    """

    id: str
    about: str
    texts: tuple[str, ...]

    @cached_property
    def exact(self) -> str:
        """The words as they stand, but for case and white space."""
        return "\n".join(map(normalise_text, self.texts))

    @cached_property
    def sentences(self) -> tuple[tuple[str, ...], ...]:
        """The tokens of each sentence: its words without fillers, and the signs that part it."""
        parts = (part for text in self.texts for part in _SENTENCE.split(text))
        return tuple(tokens for part in parts if any(map(_is_word, tokens := tokens_of(part))))

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The words of each sentence, without its signs."""
        return tuple(tuple(token for token in one if _is_word(token)) for one in self.sentences)


def statement_of(item: Knowledge | Source) -> Statement | None:
    """Return what knowledge or a note states; `None` for what states nothing that could be said twice.

    Summaries say again what others say, and hold only as long as that does.
    """
    if isinstance(item, Source):
        return _of_note(item)
    said = _stated(item)
    if said is None:
        return None
    subject, texts = said
    time = [str(item.valid_from), str(item.valid_until)]
    about = canonical_json([item.scope, item.kind, subject, sorted(item.subject_refs), time])
    return Statement(item.id, about, tuple(filter(None, (*texts, item.summary))))


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


_CHANGING = frozenset({"created_at", "updated_at", "timestamp", "hash", "id", "memory_id", "flags"})


def _of_note(item: Source) -> Statement | None:
    if item.kind != "note" or is_declaration(item.origin):
        return None
    texts = tuple(part.excerpt for part in item.segments if part.excerpt.strip())
    if not texts:
        return None
    told = {name: value for name, value in item.metadata.items() if name not in _CHANGING}
    words = {token for text in texts for token in tokens_of(text)}
    days = [str(found.period) for text in texts for found in date_ranges(text, said=item.captured_at)]
    # "I ran today" of two days are two things, whatever the words are.
    day = str(item.captured_at.date()) if words & _DEICTIC or days else ""
    return Statement(item.id, canonical_json([item.scope, "note", told, day, sorted(days)]), texts)


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the tokens of a sentence: its words in small letters as they are inflected, and the signs that part it.

    Stems would not do: "add a test" asks for what "added a test" tells of.
    """
    plain = without_disguise(_BULLET.sub("", text)).replace("’", "'")
    for short, written in _WRITTEN.items():
        plain = plain.replace(short, written)
    found = (spelled(token.removesuffix("'s")) for token in _TOKEN.findall(plain.replace("n't", " not")))
    tokens = [_NUMBERS.get(token, token) for token in found if token not in _FILLERS and token not in _UNREAD]
    while tokens and not _is_word(tokens[-1]):
        tokens.pop()
    return tuple(tokens)


_UNREAD = _SIGNS - frozenset(";:,(")


def _is_word(token: str) -> bool:
    return token not in _SIGNS


def sameness(one: Statement, other: Statement) -> Sameness | None:
    """Tell how `other` says what `one` says; `None` where it does not, or where that is not certain."""
    if one.about != other.about or not one.words:
        return None
    if one.exact == other.exact:
        return "exact"
    if one.words == other.words:
        return "normalised"
    if all(any(_is_said_in(part, whole) for whole in other.sentences) for part in one.sentences):
        return "contained"
    return None


def _is_said_in(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Tell whether a sentence stands in another as a clause of its own, neither taken back nor narrowed down there."""
    if part == whole:
        return True
    if sum(map(_is_word, part)) < _SAID_LEAST or len(part) > len(whole):
        return False
    for start in range(len(whole) - len(part) + 1):
        if tuple(whole[start : start + len(part)]) == tuple(part):
            before, behind = whole[:start], whole[start + len(part) :]
            begins = not before or before[-1] in _CLAUSE_BEGINS
            ends = not behind or behind[0] in _CLAUSE_ENDS or _goes_on(behind)
            if begins and ends and _GOVERNING.isdisjoint(before) and _TAKING_BACK.isdisjoint(behind):
                return True
    return False


def _goes_on(behind: Sequence[str]) -> bool:
    """Tell whether what stands behind a clause only adds to it: `… properly`, `… by updating the logic`."""
    one_adverb = len(behind) == 1 and behind[0].endswith("ly")
    return one_adverb or (len(behind) > 1 and behind[0] == "by" and behind[1].endswith("ing"))


@dataclass(frozen=True, slots=True)
class Repetition:
    """Two statements of which the second says what the first does."""

    gone: Statement
    kept: Statement
    how: Sameness


def repetitions(statements: Sequence[Statement]) -> Iterator[Repetition]:
    """Yield, for each two statements where one says what the other does, the one that says no more and how.

    Of two that say the same both orders come: who decides which of them is kept knows more of them.
    """
    for group in _about(statements).values():
        holders = _holders(group)
        for one in group:
            # What it is compared with holds the rarest of its words.
            rarest = min((holders[word] for word in {*_flat(one)}), key=len, default=())
            for place in rarest:
                other = group[place]
                if other is not one and (how := sameness(one, other)):
                    yield Repetition(one, other, how)


def _about(statements: Sequence[Statement]) -> Mapping[str, list[Statement]]:
    groups: dict[str, list[Statement]] = defaultdict(list)
    for one in statements:
        if one.words:
            groups[one.about].append(one)
    return groups


def _holders(group: Sequence[Statement]) -> Mapping[str, list[int]]:
    """Return the places of the statements that have a word."""
    holders: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(group):
        for word in dict.fromkeys(_flat(one)):
            holders[word].append(place)
    return holders


def _flat(one: Statement) -> Iterator[str]:
    return (word for sentence in one.words for word in sentence)

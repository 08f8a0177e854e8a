"""How likely a new statement ends or replaces an earlier one: a logistic regression on signs that both show.

The weights are in `pairs.json`, with the command that fits them. They come from labelled conversations.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from treering.extensions.statements.statement import Statement, ValueKind
from treering.models.static_model import StaticEmbedder
from treering.ports.models import Vector

WEIGHTS = Path(__file__).with_name("pairs.json")

_NEAR = (0.15, 0.25, 0.35, 0.45, 0.6)
"""The steps of a cosine."""
_DAYS = (0.3, 2, 8, 40)
_MESSAGES = (1, 2, 3, 5, 7, 13, 41)
_TURNS = (1, 2, 4, 8)
_STATEMENTS = (4, 8, 16, 40, 120)
_WORDS = (2, 4, 7, 12, 20)
"""The steps of counts: a sign says between which two of them a count is."""
_MOST = 3
"""Counts of topics and ranks from here on are one sign."""
_SECONDS_A_DAY = 86_400
TELLING = frozenset({"change", "correct", "end", "done", "hint", "refuses", "objects", "negative", "leads"})
"""Cues that announce a change."""
POINTING = TELLING - {"done", "hint"}
"""Cues of statements that may change another with which they share neither a topic nor a kind of value."""
MAX_OWN_TOPICS = 1
"""Topics of its own up to which such a statement only points at another."""
NEAR_MESSAGES = 6
"""Messages back in which it may find the other."""

_EMBEDDER = StaticEmbedder()


@lru_cache(maxsize=4_096)
def _vector(text: str) -> Vector:
    return _EMBEDDER.embed_query(text)


def forget() -> None:
    """Drop the texts of compared statements from memory."""
    _vector.cache_clear()


@dataclass(frozen=True)
class Comparison:
    """A new statement, and the earlier ones that hold and that it may change, oldest first."""

    new: Statement
    candidates: Sequence[Statement]
    recent: Sequence[Statement]
    """The last statements, whatever became of them."""
    count: int
    """The statements of the conversation so far."""

    @cached_property
    def chances(self) -> Sequence[tuple[Statement, float]]:
        """The candidates, each with the probability that it no longer holds."""
        weights = weights_of(WEIGHTS)
        sums = ((old, sum(weights.get(sign, 0.0) for sign in signs)) for old, signs in self.signs())
        return [(old, 1 / (1 + math.exp(-total))) for old, total in sums]

    def signs(self) -> Iterator[tuple[Statement, list[str]]]:
        """Return the candidates, each with the signs of the pair."""
        new, candidates = self.new, self.candidates
        own = [*self._of_new()]
        vector = _vector(new.text)
        cosines = [float(vector @ _vector(old.text)) for old in candidates]
        shared = [len(new.things & old.things) for old in candidates]
        earlier = [old.message for old in candidates if old.message < new.message]
        turns = sorted({old.message for old in candidates if old.author == new.author and old.message < new.message})
        valued = [old for old in candidates if old.message < new.message and _kinds(new) & _kinds(old)]
        for old, cosine, common in zip(candidates, cosines, shared, strict=True):
            yield (
                old,
                [
                    *own,
                    *_of_old(old),
                    *_of_both(new, old),
                    f"shared {min(_MOST, common)}",
                    f"more shared {min(_MOST, sum(one > common for one in shared))}",
                    f"near {bisect_right(_NEAR, cosine)}",
                    f"nearer {min(_MOST, sum(one > cosine for one in cosines))}",
                    f"turns {bisect_right(_TURNS, len(turns) - bisect_right(turns, old.message))}",
                    *(["last message"] if earlier and old.message == earlier[-1] else ()),
                    *(["only value"] if valued == [old] else ()),
                ],
            )

    def _of_new(self) -> Iterator[str]:
        new = self.new
        yield "bias"
        yield f"new {new.force}"
        yield f"statements {bisect_right(_STATEMENTS, self.count)}"
        yield f"words {bisect_right(_WORDS, len(new.text.split()))}"
        for cue in sorted(new.cues):
            yield f"cue {cue}"
        before = {cue for one in self.recent if one.message == new.message for cue in one.cues}
        for cue in sorted(before - new.cues):
            yield f"before {cue}"
        for name in ("refers", "begins", "answers", "single"):
            if getattr(new, name):
                yield name
        if not new.values:
            yield "no value"


def _of_old(old: Statement) -> Iterator[str]:
    yield f"old {old.force}"
    yield f"old words {bisect_right(_WORDS, len(old.text.split()))}"
    for cue in sorted(old.cues):
        yield f"old cue {cue}"
    if old.values:
        yield "old value"
    if not old.has_substance:
        yield "old empty"


def _of_both(new: Statement, old: Statement) -> Iterator[str]:
    yield f"messages {bisect_right(_MESSAGES, new.message - old.message)}"
    if new.at and old.at:
        yield f"days {bisect_right(_DAYS, (new.at - old.at).total_seconds() / _SECONDS_A_DAY)}"
        ends = [value.last for value in old.values if value.last]
        if ends and max(ends) >= new.at.date():
            yield "ahead"
    yield "same author" if new.author == old.author else "other author"
    yield "same owner" if new.owner == old.owner else "other owner"
    yield from _of_contents(new, old)


def _of_contents(new: Statement, old: Statement) -> Iterator[str]:
    changed = differing(new, old)
    for kind in changed:
        yield f"other {kind}"
    if set(changed) - {"name"}:
        yield "other value"
    if _has_equal(new, old):
        yield "equal value"
    if is_other_subject(new, old):
        yield "other subject"
    if have_same_attribute(new, old):
        yield "single both"
    if new.things & new.subject & old.subject:
        yield "same subject"
    if new.positive != old.positive:
        yield "denied"
    if have_other_modifiers(new, old):
        yield "other modifiers"


def differing(new: Statement, old: Statement) -> list[ValueKind]:
    """Return the kinds of values that both have, and none in common."""
    return [kind for kind in new.keys if kind in old.keys and new.keys[kind].isdisjoint(old.keys[kind])]


def have_other_modifiers(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different things of one kind: the work phone and the private one."""
    return bool(new.modifiers and old.modifiers) and new.modifiers.isdisjoint(old.modifiers)


def is_other_subject(new: Statement, old: Statement) -> bool:
    """Return whether two statements name their subjects, and neither names the subject of the other."""
    subject, earlier = new.subject - new.verbs or new.subject, old.subject - old.verbs or old.subject
    return bool(subject and earlier) and not (subject & old.topics or earlier & new.topics)


def have_common(new: Statement, old: Statement) -> bool:
    """Return whether two statements may be about the same: by a topic, a single attribute, or words that only point.

    `Make it 8` and `that's off` have nothing to say but the change, and are about something that was said just before.
    """
    if new.things & old.things or have_same_attribute(new, old):
        return True
    if (differing(new, old) or _has_equal(new, old)) and new.cues & TELLING:
        return True
    is_pointing = bool(new.cues & POINTING) and len(new.things - new.inherited) <= MAX_OWN_TOPICS
    return is_pointing and new.message - old.message <= NEAR_MESSAGES


def have_same_attribute(new: Statement, old: Statement) -> bool:
    """Return whether both state the same attribute of which a person has one, such as a home."""
    return new.single and old.single and not new.attributes.isdisjoint(old.attributes)


def have_other_kinds(new: Statement, old: Statement) -> bool:
    """Return whether both have values of different kinds only: what the lamp costs, and when it is launched."""
    kinds, earlier = _kinds(new), _kinds(old)
    return bool(kinds and earlier) and not kinds & earlier


def _has_equal(new: Statement, old: Statement) -> bool:
    return any(not keys.isdisjoint(old.keys.get(kind, ())) for kind, keys in new.keys.items())


def _kinds(one: Statement) -> set[ValueKind]:
    return set(one.keys) - {"name"}


@cache
def weights_of(path: Path) -> Mapping[str, float]:
    """Return the weights of signs in a file."""
    weights: Mapping[str, float] = json.loads(path.read_text("utf-8"))["weights"]
    return weights

"""Compare a new statement with earlier ones: features of each pair, and the probability of a change."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from treering.extensions.statements.likeness import cosine, same_words, word_signs
from treering.extensions.statements.pairs import (
    announces_change,
    differing,
    has_own_thing,
    have_common,
    have_equal_value,
    is_certain,
    kinds_of,
    may_change,
    says_something_else,
)
from treering.extensions.statements.statement import Statement
from treering.extensions.statements.trees import TREES, trees_in

CERTAIN = 0.9
"""The chance that a statement changes one that it can only be about, at least."""
MIN_COSINE = 0.2
"""The cosine from which on statements are compared that have nothing else in common."""
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class Comparison:
    """A new statement, and the earlier ones that hold, oldest first."""

    new: Statement
    candidates: Sequence[Statement]
    recent: Sequence[Statement]
    """The last statements, whatever became of them."""
    count: int
    """The statements of the conversation so far."""

    @cached_property
    def chances(self) -> Sequence[tuple[Statement, float]]:
        """The candidates that the new statement may change, each with the probability that it no longer holds."""
        return self._chances_of(self._changeable)

    def signs(self) -> Iterator[tuple[Statement, dict[str, float]]]:
        """Return the candidates that the new statement may change, each with the features of the pair."""
        return self._signs(self._changeable)

    def _chances_of(self, candidates: Sequence[Statement]) -> list[tuple[Statement, float]]:
        rows = [signs for _, signs in self._signs(candidates)]
        chances = trees_in(TREES).chances(rows) if rows else ()
        return [
            (old, max(chance, CERTAIN) if is_certain(self.new, old) else chance)
            for old, chance in zip(candidates, chances, strict=True)
        ]

    @cached_property
    def _changeable(self) -> list[Statement]:
        return [old for old in self.candidates if may_change(self.new, old) and self._is_near(old)]

    def _is_near(self, old: Statement) -> bool:
        return have_common(self.new, old) or cosine(self.new.text, old.text) >= MIN_COSINE

    def _signs(self, candidates: Sequence[Statement]) -> Iterator[tuple[Statement, dict[str, float]]]:
        new = self.new
        cosines = [cosine(new.text, old.text) for old in candidates]
        shared = [len(new.things & old.things) for old in candidates]
        by_cosine, by_shared = sorted(cosines), sorted(shared)
        before = [old for old in candidates if old.message < new.message]
        turns = sorted({old.message for old in before if old.author == new.author})
        kinds = kinds_of(new)
        valued = [old.id for old in before if not kinds.isdisjoint(old.keys)]
        of_words = word_signs(new.text, [old.text for old in candidates])
        for old, likeness, common, words in zip(candidates, cosines, shared, of_words, strict=True):
            signs = self._of_new | dict.fromkeys((*_of_old(old), *_of_both(new, old)), 1.0)
            signs |= _amounts_of(new, old, common)
            signs |= words
            signs["cosine"] = likeness
            signs["nearer"] = len(cosines) - bisect_right(by_cosine, likeness)
            signs["more shared"] = len(shared) - bisect_right(by_shared, common)
            signs["turns"] = len(turns) - bisect_right(turns, old.message)
            signs["only value"] = valued == [old.id]
            yield old, signs

    @cached_property
    def _of_new(self) -> dict[str, float]:
        """The features of the new statement alone."""
        new = self.new
        before = {cue for one in self.recent if one.message == new.message for cue in one.cues}
        names = [
            f"new {new.force}",
            *(f"cue {cue}" for cue in new.cues),
            *(f"before {cue}" for cue in before - new.cues),
            *(["begins"] if new.begins else ()),
            *(["tells"] if announces_change(new) else ()),
        ]
        return dict.fromkeys(names, 1.0) | {
            "statements": self.count,
            "words": len(new.text.split()),
            "things": len(new.things),
            "own things": len(new.things - new.inherited),
            "values": len(new.values),
        }


def _of_old(old: Statement) -> Iterator[str]:
    yield f"old {old.force}"
    yield from (f"old cue {cue}" for cue in old.cues)
    if not old.has_substance:
        yield "old empty"
    if old.is_own:
        yield "old own"


def _amounts_of(new: Statement, old: Statement, common: int) -> dict[str, float]:
    """Return the amounts in which a pair differs; `common`: the number of things that both are about."""
    return {
        "overlap": common / max(1, min(len(new.things), len(old.things))),
        "likeness": common / max(1, len(new.things) + len(old.things) - common),
        "only new": len(new.things - new.inherited - old.things),
        "only old": len(old.things - new.things),
        "old words": len(old.text.split()),
        "old things": len(old.things),
        "old values": len(old.values),
        "same words": same_words(new.text, old.text),
        "messages": new.message - old.message,
        "days": (new.at - old.at).total_seconds() / _SECONDS_A_DAY if new.at and old.at else 0,
    }


def _of_both(new: Statement, old: Statement) -> Iterator[str]:
    flags = {
        "same author": new.author == old.author,
        "denied": new.positive != old.positive,
        "same attribute": not new.attributes.isdisjoint(old.attributes),
        "same kinds": not kinds_of(new).isdisjoint(kinds_of(old)),
        "own thing": has_own_thing(new, old),
        "something else": says_something_else(new, old),
        "equal value": have_equal_value(new, old),
    }
    yield from (f"other {kind}" for kind in differing(new, old))
    yield from (name for name, holds in flags.items() if holds)

"""`python -m benchmarks.truth.fitting`: fit the weights of pairs of statements on the labelled conversations.

A label names a statement that no longer holds, and seldom the one that ended it. Of the later statements that may have,
each counts as much as the weights of the round before find it likely. It prints what each hand's conversations get from
the weights of the others; the weights that are stored are fitted on all of them.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

import numpy as np
import numpy.typing as npt

from benchmarks.data import load
from benchmarks.truth.conversations import Conversation, Labelled, Labels
from benchmarks.truth.scoring import ShownLine, contains, folded, shows_ended, shows_now
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.pairs import WEIGHTS
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.relations import may_change
from treering.extensions.statements.statement import SaidMessage, Statement

SET = "dev"
COMMENT = (
    "Weights of signs of a new and an earlier statement (pairs.py), fitted by `python -m benchmarks.truth.fitting` on "
    "the conversations of benchmarks/truth/dev, and on talks of LoCoMo as examples of statements that hold."
)
ROUNDS = 4
STRENGTH = 20.0
"""The weight of the squares of the weights."""
UNLABELLED = 0.2
"""The weight of a pair whose earlier statement has no label: it mostly holds."""
TALKS = 0.6
"""The weight of a pair of a talk of LoCoMo, in which nearly everything holds: with 0.05, 9 % of the statements of talks
that were left out are retired, with 0.6 one percent, and as many of the labelled conversations are right."""
EVERY = 8
"""Of the statements of a talk, one in so many is compared."""
FIRST_TALK = 2
"""The talks before it are left out: they show how much the weights retire in such talks."""
MIN_COUNT = 8
"""Pairs that have a sign, below which it gets no weight."""
MIN_WEIGHT = 0.02
_STEPS = 8

_Array = npt.NDArray[np.float64]
_Id = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of a conversation, and what the labels say of the earlier statement."""

    place: tuple[str, _Id]
    """The conversation, and the earlier statement in it."""
    signs: frozenset[str]
    is_over: bool
    holds: bool
    importance: float
    may_end: bool = False
    """Whether the new statement is in a message that may have ended the earlier one."""


def examples_of(conversation: Conversation) -> list[Example]:
    """Return the pairs of a conversation."""
    ledger = StatementLedger()
    pairs: list[tuple[Statement, Statement, frozenset[str]]] = []
    for one in _statements(conversation):
        comparison = ledger.compare(one)
        ledger.append(comparison.new)
        if one.is_stated:
            pairs += [
                (one, old, frozenset(signs)) for old, signs in comparison.signs() if may_change(comparison.new, old)
            ]
    verdicts = {one.id: _verdict(conversation, one, ledger) for one in ledger.statements.values()}
    return [Example((conversation.id, old.id), signs, *_judged(new, *verdicts[old.id])) for new, old, signs in pairs]


def _statements(conversation: Conversation) -> Iterator[Statement]:
    for at, message in enumerate(conversation.messages):
        machine = message.role == "assistant"
        yield from statements_of(SaidMessage(at, message.speaker, message.text, message.at.astimezone(UTC), machine))


def talks() -> Iterator[Example]:
    """Return pairs of long talks."""
    for talk in load("locomo").collections[FIRST_TALK:]:
        ledger = StatementLedger()
        said = (SaidMessage(at, one.speaker, one.text, one.said_at) for at, one in enumerate(talk.passages))
        for number, one in enumerate(statement for message in said for statement in statements_of(message)):
            comparison = ledger.compare(one)
            ledger.append(comparison.new)
            if number % EVERY == 0 and one.is_stated:
                yield from (
                    Example((talk.name, old.id), frozenset(signs), False, False, TALKS)
                    for old, signs in comparison.signs()
                    if may_change(comparison.new, old)
                )


def _verdict(conversation: Conversation, one: Statement, ledger: StatementLedger) -> tuple[bool, bool, set[int]]:
    """Return whether a statement is over at the end, whether it holds, and the messages that may have ended it."""
    line = _line(one)
    over = [label for label in conversation.ended if shows_ended(line, label, conversation)]
    holds = any(shows_now(line, label) for label in conversation.holds)
    if not over and not holds:
        siblings = [_line(other) for other in ledger.statements.values() if other.message == one.message]
        labels = (label for label in conversation.ended if label.message == one.message and _has_half(one, label))
        over = [label for label in labels if not any(shows_ended(other, label, conversation) for other in siblings)]
    enders = {message for label in over for message in _enders(conversation, label)}
    return bool(over) and not holds, holds and not over, enders


def _judged(new: Statement, is_over: bool, holds: bool, enders: set[int]) -> tuple[bool, bool, float, bool]:
    return is_over, holds, 1.0 if holds else UNLABELLED, not enders or new.message in enders


def _line(one: Statement) -> ShownLine:
    return ShownLine(f"{one.author}: {one.text}", one.author)


def _has_half(one: Statement, label: Labelled) -> bool:
    """Return whether a clause has half of the tokens of a label of its message."""
    text = folded(one.text)
    return 2 * sum(any(contains(text, spelling) for spelling in token) for token in label.tokens) >= len(label.tokens)


def _enders(conversation: Conversation, label: Labelled) -> set[int]:
    """Return the messages that ended a statement: the answers to questions, or what holds with a token in common."""
    asked = (one for one in conversation.questions if not one.past and label.message in one.stale)
    if answers := {one.answer for one in asked if one.answer > label.message}:
        return answers
    spellings = {folded(spelling) for token in label.tokens for spelling in token}
    later = (one for one in conversation.holds if one.message > label.message)
    return {one.message for one in later if any(folded(form) in spellings for token in one.tokens for form in token)}


def fit(examples: Sequence[Example]) -> dict[str, float]:
    """Return the weights of signs."""
    counts = Counter(sign for one in examples for sign in one.signs)
    signs = sorted(sign for sign, count in counts.items() if count >= MIN_COUNT)
    matrix = _matrix(examples, signs)
    over = np.array([one.is_over and one.may_end for one in examples], float)
    importance = np.array([one.importance for one in examples])
    groups: dict[tuple[str, _Id], list[int]] = defaultdict(list)
    for place, one in enumerate(examples):
        if one.is_over and one.may_end:
            groups[one.place].append(place)
    weights = np.zeros(len(signs))
    for _ in range(ROUNDS):
        chances = _chances(matrix, weights)
        for group in groups.values():
            squares = chances[group] ** 2
            importance[group] = squares / squares.sum()
        weights = _fitted(matrix, over, importance, signs.index("bias"))
    return {sign: round(float(weight), 2) for sign, weight in zip(signs, weights, strict=True) if _counts(weight)}


def _counts(weight: float) -> bool:
    return abs(weight) >= MIN_WEIGHT


def _matrix(examples: Sequence[Example], signs: Sequence[str]) -> _Array:
    column = {sign: place for place, sign in enumerate(signs)}
    matrix = np.zeros((len(examples), len(signs)))
    for row, one in enumerate(examples):
        matrix[row, [column[sign] for sign in one.signs if sign in column]] = 1.0
    return matrix


def _chances(matrix: _Array, weights: _Array) -> _Array:
    chances: _Array = 1 / (1 + np.exp(-matrix @ weights))
    return chances


def _fitted(matrix: _Array, over: _Array, importance: _Array, bias: int) -> _Array:
    """Return the weights of a logistic regression, by Newton's method."""
    penalty = np.full(matrix.shape[1], STRENGTH)
    penalty[bias] = 0.01
    weights = np.zeros(matrix.shape[1])
    for _ in range(_STEPS):
        chances = _chances(matrix, weights)
        slope = matrix.T @ (importance * (chances - over)) + penalty * weights
        curve = (matrix * (importance * chances * (1 - chances))[:, np.newaxis]).T @ matrix
        weights = weights - np.linalg.solve(curve + np.diag(penalty), slope)
    return weights


def found(weights: Mapping[str, float], examples: Sequence[Example], *, over: bool) -> list[float]:
    """Return how sure the weights are at most, for each statement with a label, that it is over."""
    most: dict[tuple[str, _Id], float] = defaultdict(float)
    for one in examples:
        if one.is_over if over else one.holds:
            chance = 1 / (1 + np.exp(-sum(weights.get(sign, 0.0) for sign in one.signs)))
            most[one.place] = max(most[one.place], float(chance))
    return sorted(most.values())


def main() -> int:
    """Print what the hands get from each other, and store the weights of all."""
    long = list(talks())
    hands: dict[str, list[Example]] = defaultdict(list)
    for one in Labels.of(SET).conversations:
        hands[one.id.split("-")[1]] += examples_of(one)
    for hand, examples in hands.items():
        weights = fit([*long, *(one for other, rest in hands.items() if other != hand for one in rest)])
        over, holds = found(weights, examples, over=True), found(weights, examples, over=False)
        limits = {share: holds[int((1 - share) * len(holds))] for share in (0.05, 0.1, 0.15, 0.2)}
        shares = (
            f"{sum(one > limit for one in over) / max(1, len(over)):.2f}/{limit:.2f}" for limit in limits.values()
        )
        print(hand, len(over), len(holds), *shares)
    weights = fit([*long, *(one for examples in hands.values() for one in examples)])
    WEIGHTS.write_text(json.dumps({"comment": COMMENT, "weights": weights}, indent=1) + "\n", "utf-8")
    print(len(weights), "weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())

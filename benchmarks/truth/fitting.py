"""`python -m benchmarks.truth.fitting`: fit trees for pairs of statements on the labelled conversations.

A label names a statement that no longer holds, and seldom the one that ended it. Of the later statements that may have,
each counts as much as the trees of the round before find it likely. It prints how many ended statements of some hands
are found with trees fitted on the others; the trees that are stored are fitted on all of them.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from itertools import chain, islice, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.data import load
from benchmarks.truth.conversations import Conversation, Labelled, Labels, Spoken
from benchmarks.truth.marks import messages_that_ended, spoken_statements
from benchmarks.truth.scoring import ShownLine, contains, folded, shows_ended, shows_now
from treering.extensions.statements.ledger import StatementLedger, by_message
from treering.extensions.statements.pairs import differing, have_same_attribute
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage, Statement
from treering.extensions.statements.trees import TREES, Trees
from treering.models.static_model import StaticEmbedder

SETS = ("dev",)
COMMENT = (
    "Trees over signs of a new and an earlier statement (comparison.py), fitted by `python -m "
    "benchmarks.truth.fitting` on the conversations of benchmarks/truth/dev, and on talks of LoCoMo as examples of "
    "statements that hold."
)
GROUPS = 6
"""Groups of hands; each is left out once."""
FITS = 3
"""Fits with other draws of questions, whose average is stored: a single one moves each figure by two points."""
ROUNDS = 2
TREES_GROWN = 120
DEPTH = 3
"""Questions of a tree. Chosen, as the numbers below, on hands that were left out."""
RATE = 0.1
"""The share of its values that a tree counts."""
STRENGTH = 5.0
"""The weight of the squares of the values of leaves."""
SHARE_ASKED = 0.4
"""The share of the questions, drawn for each tree, of which it may ask some."""
STEPS = 8
"""Thresholds for a sign that is an amount."""
SEED = 1
UNLABELLED = 0.2
"""The weight of a pair whose earlier statement has no label: it mostly holds."""
TALKS = 0.4
"""The weight of a pair of a talk of LoCoMo, in which nearly everything holds."""
EVERY = 24
"""Of the statements of a talk, one in so many is compared."""
FIRST_TALK = 2
"""The talks before it are left out: they show how much is retired in such talks."""
MIXED = 0.4
"""The weight of a pair of messages of different conversations: the new one leaves the other as it is."""
MIXED_MESSAGES = 9
MIXED_EVERY = 2
"""Of the mixtures that the messages make, one in so many is used."""
MAX_EXCERPTED = 20
"""Messages of a conversation that is also read as pairs of messages: hardly anything changes in a second message."""
ENDED_EXCERPTS, OTHER_EXCERPTS = 0.5, 0.2
"""The weights of pairs of two messages: one ended the other, or not. Chosen on 100 pairs of our own."""
STRANGERS_EVERY, NEAR, ANY = 8, 2, 4
"""Of the messages, one in so many makes talks of two with so many of the nearest messages of other conversations, and
with so many of any others, and of others with a value of the same kind (`rent is 900`, `the sofa was 650`)."""
NEAR_WEIGHT, ANY_WEIGHT = 0.08, 0.3
"""The weights of a pair of such a talk. With less, unrelated statements are retired (`I moved to Turin`, `The deadline
was moved`); with more, changes are missed. Chosen on 150 pairs of our own and on hands that were left out."""
MIN_COUNT = 8
"""Pairs that have a sign, below which no tree asks for it."""
_BELOW = 0.005
"""A threshold is so much below the value that exceeds it."""

_Array = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.float32]
_Id = tuple[int, int]
_Tree = tuple[list[int], list[float]]
_Pair = tuple[Statement, Statement, Mapping[str, float]]
"""A new statement, an earlier one, and the signs of both."""
_Verdict = tuple[bool, bool, set[int]]
"""Whether a statement is over, whether it holds, and the messages that may have ended it."""


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of a conversation, and what the labels say of the earlier statement."""

    place: tuple[str, _Id]
    """The conversation, and the earlier statement in it."""
    signs: Mapping[str, float]
    is_over: bool
    holds: bool
    importance: float
    may_end: bool = False
    """Whether the new statement is in a message that may have ended the earlier one."""
    share: float = 1.0
    """What all pairs of a statement that is over count together."""


def examples_of(conversation: Conversation) -> list[Example]:
    """Return the pairs of a conversation."""
    ledger = StatementLedger()
    pairs: list[_Pair] = []
    for one in spoken_statements(conversation):
        comparison = ledger.compare(one)
        ledger.append(comparison.new)
        if one.is_stated:
            pairs += [(one, old, signs) for old, signs in comparison.signs()]
    verdicts = {one.id: _verdict(conversation, one, ledger) for one in ledger.statements.values()}
    return [
        *(_example(conversation, new, old, signs, verdicts[old.id]) for new, old, signs in pairs),
        *(_excerpts(conversation, verdicts) if len(conversation.messages) <= MAX_EXCERPTED else ()),
    ]


def _example(
    conversation: Conversation, new: Statement, old: Statement, signs: Mapping[str, float], verdict: _Verdict
) -> Example:
    is_over, holds, importance, may_end = _judged(new, *verdict)
    named = {*conversation.changes, *conversation.possible}
    if named and (old.message, new.message) not in named:
        importance = 1.0  # the labels name all changes of this conversation
    return Example((conversation.id, old.id), signs, is_over, holds, importance, may_end)


def _excerpts(conversation: Conversation, verdicts: Mapping[_Id, _Verdict]) -> Iterator[Example]:
    """Return the pairs of a message with a label and a later one, as if the two were a whole conversation.

    In the conversations themselves, hardly anything changes in the second message.
    """
    said = by_message(spoken_statements(conversation))
    for first, earlier in said.items():
        judged = [verdicts[old.id] for old in earlier if old.id in verdicts]
        enders, has_lasting = {one for *_, ending in judged for one in ending}, any(holds for _, holds, _ in judged)
        for second in (one for one in said if one > first and (has_lasting or one in enders)):
            place = f"{conversation.id} {first} {second}"
            for new, old, signs in _pairs_of_two(earlier, said[second]):
                is_over, holds, importance, may_end = _judged(new, *verdicts[old.id])
                importance *= ENDED_EXCERPTS if is_over and may_end else OTHER_EXCERPTS
                yield Example((place, old.id), signs, is_over, holds, importance, may_end, ENDED_EXCERPTS)


def _pairs_of_two(earlier: Sequence[Statement], later: Sequence[Statement]) -> Iterator[_Pair]:
    """Return the pairs of the statements of two messages that are compared."""
    ledger = StatementLedger()
    for one in earlier:
        ledger.append(ledger.compare(one).new)
    for one in later:
        comparison = ledger.compare(one)
        ledger.append(comparison.new)
        if one.is_stated:
            yield from ((one, old, signs) for old, signs in comparison.signs() if old.message < one.message)


def mixtures(conversations: Sequence[Conversation]) -> Iterator[Example]:
    """Return pairs of messages of different conversations, as if two people had said all of them day by day."""
    messages = [message for one in conversations for message in one.messages if message.role == "user"]
    for first in range(0, len(messages) // MIXED_MESSAGES, MIXED_EVERY):
        ledger = StatementLedger()
        for at, message in enumerate(messages[first :: len(messages) // MIXED_MESSAGES]):
            time = messages[first].at.astimezone(UTC) + timedelta(days=at * (1 + first % 3))
            for new in statements_of(SaidMessage(at, "Ada" if first % 2 or at % 2 else "Ben", message.text, time)):
                comparison = ledger.compare(new)
                ledger.append(comparison.new)
                if new.is_stated:
                    yield from (
                        Example((f"mixture {first}", old.id), signs, False, False, MIXED)
                        for old, signs in comparison.signs()
                        if old.message < new.message and not _may_contradict(comparison.new, old)
                    )


def strangers(conversations: Sequence[Conversation]) -> Iterator[Example]:
    """Return pairs of messages of different conversations, some of them about something similar, as talks of two."""
    messages = [(one.id, message) for one in conversations for message in one.messages if message.role == "user"]
    vectors = StaticEmbedder().embed_documents([message.text for _, message in messages])
    chance = np.random.default_rng(SEED)
    kinds = [_kinds_in(message) for _, message in messages]
    for place in range(0, len(messages), STRANGERS_EVERY):
        conversation, second = messages[place]
        near = (other for other in np.argsort(-(vectors @ vectors[place])) if messages[other][0] != conversation)
        others = (other for other in chance.permutation(len(messages)) if messages[other][0] != conversation)
        valued = (
            other
            for other in chance.permutation(len(messages))
            if messages[other][0] != conversation and kinds[other] & kinds[place]
        )
        chosen = chain(
            zip(islice(near, NEAR), repeat(NEAR_WEIGHT)),
            zip(islice(others, ANY), repeat(ANY_WEIGHT)),
            zip(islice(valued, ANY), repeat(ANY_WEIGHT)),
        )
        for other, weight in chosen:
            first = messages[other][1]
            time = first.at.astimezone(UTC)
            speaker = "Ada" if place // STRANGERS_EVERY % 2 else "Ben"
            earlier = statements_of(SaidMessage(0, "Ada", first.text, time))
            later = statements_of(SaidMessage(1, speaker, second.text, time + timedelta(days=1)))
            for new, old, signs in _pairs_of_two(earlier, later):
                if not _may_contradict(new, old):
                    yield Example((f"strangers {place} {other}", old.id), signs, False, False, weight)


def _kinds_in(message: Spoken) -> frozenset[str]:
    """Return the kinds of values in a message, without names."""
    said = SaidMessage(0, "Ada", message.text, message.at.astimezone(UTC))
    return frozenset(kind for one in statements_of(said) for kind in one.keys if kind != "name")


def _may_contradict(new: Statement, old: Statement) -> bool:
    """Return whether two statements contradict each other, wherever they come from."""
    has_other_value = bool(set(differing(new, old)) - {"name"})
    return have_same_attribute(new, old) or (has_other_value and not new.things.isdisjoint(old.things))


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
                    Example((talk.name, old.id), signs, False, False, TALKS) for old, signs in comparison.signs()
                )


def _verdict(conversation: Conversation, one: Statement, ledger: StatementLedger) -> _Verdict:
    """Return whether a statement is over at the end, whether it holds, and the messages that may have ended it."""
    line = _line(one)
    over = [label for label in conversation.ended if shows_ended(line, label, conversation)]
    holds = any(shows_now(line, label) for label in conversation.holds)
    if not over and not holds:
        siblings = [_line(other) for other in ledger.statements.values() if other.message == one.message]
        labels = (label for label in conversation.ended if label.message == one.message and _has_half(one, label))
        over = [label for label in labels if not any(shows_ended(other, label, conversation) for other in siblings)]
    enders = {message for label in over for message in messages_that_ended(conversation, label)}
    return bool(over) and not holds, holds and not over, enders


def _judged(new: Statement, is_over: bool, holds: bool, enders: set[int]) -> tuple[bool, bool, float, bool]:
    return is_over, holds, 1.0 if holds else UNLABELLED, not enders or new.message in enders


def _line(one: Statement) -> ShownLine:
    return ShownLine(f"{one.author}: {one.text}", one.author)


def _has_half(one: Statement, label: Labelled) -> bool:
    """Return whether a clause has half of the tokens of a label of its message."""
    text = folded(one.text)
    return 2 * sum(any(contains(text, spelling) for spelling in token) for token in label.tokens) >= len(label.tokens)


def fit(examples: Sequence[Example]) -> dict[str, Any]:
    """Return the trees of several fits as they are stored: their average."""
    questions, answers = _asked(examples)
    fits = [_fitted(examples, answers, seed) for seed in range(FITS)]
    asked = [
        {"questions": [questions[one] for one in tree], "leaves": [round(leaf / FITS, 4) for leaf in leaves]}
        for _, trees in fits
        for tree, leaves in trees
    ]
    return {"start": round(sum(start for start, _ in fits) / FITS, 3), "trees": asked}


def _fitted(examples: Sequence[Example], answers: _Floats, seed: int) -> tuple[float, list[_Tree]]:
    """Return the logarithm of the first odds, and trees."""
    over = np.array([one.is_over and one.may_end for one in examples], float)
    importance = np.array([one.importance for one in examples])
    groups: dict[tuple[str, _Id], list[int]] = defaultdict(list)
    for place, one in enumerate(examples):
        if one.is_over and one.may_end:
            groups[one.place].append(place)
            importance[place] = 1.0
    chances = np.full(len(examples), 0.5)
    for _ in range(ROUNDS):
        for group in groups.values():
            squares = chances[group] ** 2
            importance[group] = examples[group[0]].share * squares / squares.sum()
        start, trees, chances = _boosted(answers, over, importance, seed)
    return start, trees


def _asked(examples: Sequence[Example]) -> tuple[list[tuple[str, float]], _Floats]:
    """Return questions, whether a sign exceeds a threshold, and their answers for each example."""
    counts = Counter(sign for one in examples for sign, value in one.signs.items() if value)
    questions: list[tuple[str, float]] = []
    columns: list[npt.NDArray[np.float32]] = []
    for sign in sorted(sign for sign, count in counts.items() if count >= MIN_COUNT):
        values = np.array([one.signs.get(sign, 0.0) for one in examples])
        is_amount = np.unique(values).size > 2
        steps = np.quantile(values[values > 0], np.arange(STEPS) / STEPS) if is_amount else np.ones(1)
        for threshold in sorted({round(float(step) - _BELOW, 3) for step in steps}):
            questions.append((sign, threshold))
            columns.append((values > threshold).astype(np.float32))
    return questions, np.stack(columns)


def _boosted(answers: _Floats, over: _Array, importance: _Array, seed: int) -> tuple[float, list[_Tree], _Array]:
    """Return the logarithm of the first odds, trees with their leaves, and the chances of the examples."""
    random = np.random.default_rng(seed)
    share = float((importance * over).sum() / importance.sum())
    start = round(float(np.log(share / (1 - share))), 3)
    sums = np.full(len(over), start)
    trees: list[_Tree] = []
    for _ in range(TREES_GROWN):
        chances = 1 / (1 + np.exp(-sums))
        slopes = np.stack([importance * (over - chances), importance * chances * (1 - chances)])
        drawn = np.sort(random.choice(len(answers), int(SHARE_ASKED * len(answers)), replace=False))
        tree, leaf = _grown(answers[drawn], slopes)
        totals = np.stack([np.bincount(leaf, slope, minlength=2**DEPTH) for slope in slopes])
        leaves = np.round(RATE * totals[0] / (totals[1] + STRENGTH), 4)
        sums += leaves[leaf]
        trees.append(([int(drawn[one]) for one in tree], leaves.tolist()))
    return start, trees, 1 / (1 + np.exp(-sums))


def _grown(answers: _Floats, slopes: _Array) -> tuple[list[int], npt.NDArray[np.intp]]:
    """Return the questions of a tree, each the best for all nodes of its level, and the leaf of each example."""
    tree: list[int] = []
    leaf = np.zeros(answers.shape[1], np.intp)
    for level in range(DEPTH):
        nodes = np.eye(2**level, dtype=np.float32)[leaf]
        (slope, slopes_yes), (curve, curves_yes) = (_split(nodes, one, answers) for one in slopes)
        gain = slopes_yes**2 / (curves_yes + STRENGTH)
        gain += (slope - slopes_yes) ** 2 / (curve - curves_yes + STRENGTH)
        best = int(gain.sum(axis=1).argmax())
        tree.append(best)
        leaf += (answers[best] > 0).astype(np.intp) << level
    return tree, leaf


def _split(nodes: _Floats, values: _Array, answers: _Floats) -> tuple[_Floats, _Floats]:
    """Return the sums of values for each node: all, and those whose answer to each question is yes."""
    weighted = nodes * values[:, np.newaxis].astype(np.float32)
    return weighted.sum(axis=0), answers @ weighted


def found(trees: Trees, examples: Sequence[Example], *, over: bool) -> list[float]:
    """Return how sure the trees are at most, for each statement with a label, that it is over."""
    most: dict[tuple[str, _Id], float] = defaultdict(float)
    counted = [one for one in examples if (one.is_over if over else one.holds)]
    for one, chance in zip(counted, trees.chances([one.signs for one in counted]), strict=True):
        most[one.place] = max(most[one.place], chance)
    return sorted(most.values())


def main() -> int:
    """Print what the hands get from each other, and store the trees of all."""
    long = list(talks())
    hands: dict[str, list[Conversation]] = defaultdict(list)
    for one in chain.from_iterable(Labels.of(name).conversations for name in SETS):
        hands[one.id.split("-")[1]].append(one)
    read = {hand: [pair for one in conversations for pair in examples_of(one)] for hand, conversations in hands.items()}
    names = sorted(hands)
    for left_out in (names[first::GROUPS] for first in range(GROUPS)):
        others = [one for hand in names if hand not in left_out for one in hands[hand]]
        learned = (one for hand in names if hand not in left_out for one in read[hand])
        examples = [one for hand in left_out for one in read[hand]]
        trees = Trees.of(fit([*long, *mixtures(others), *strangers(others), *learned]))
        over, holds = found(trees, examples, over=True), found(trees, examples, over=False)
        limits = {share: holds[int((1 - share) * len(holds))] for share in (0.05, 0.1, 0.15, 0.2)}
        shares = (
            f"{sum(one > limit for one in over) / max(1, len(over)):.2f}/{limit:.2f}" for limit in limits.values()
        )
        print(*left_out, len(over), len(holds), *shares)
    everything = [one for conversations in hands.values() for one in conversations]
    fitted = fit(
        [*long, *mixtures(everything), *strangers(everything), *(one for examples in read.values() for one in examples)]
    )
    rows = ",\n".join(json.dumps(tree) for tree in fitted["trees"])
    head = json.dumps({"comment": COMMENT, "start": fitted["start"]}, indent=1).removesuffix("\n}")
    TREES.write_text(f'{head},\n "trees": [\n{rows}\n]}}\n', "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Which messages of labelled conversations are marked as replaced, and by which messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

from benchmarks.truth.conversations import Conversation, Labelled
from benchmarks.truth.scoring import folded
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage, Statement

Pair = tuple[int, int]
"""The positions of a message and of a later one that changed it."""


@dataclass(frozen=True, slots=True)
class Marks:
    """How the marks of a conversation agree with its labels."""

    stale: Sequence[bool]
    """For each message with an ended statement, whether it is marked."""
    current: Sequence[bool]
    """For each message of which all labelled statements hold, whether it is marked."""
    sources: Sequence[bool]
    """For each marked message with an ended statement whose replacement is known: whether another one is named."""
    found: Sequence[bool]
    """For each pair that the labels name as a change, whether it was found."""
    unrelated: Sequence[Pair]
    """Pairs that were taken for changes, and are none, in a conversation that names all its changes."""


def marks_of(conversation: Conversation) -> Marks:
    """Compare the marks of a conversation with its labels."""
    ledger = StatementLedger.of(spoken_statements(conversation))
    marked = {one for one in range(len(conversation.messages)) if ledger.replaced_message(one)}
    pairs = set(changed_pairs(ledger))
    ended = {one.message for one in conversation.ended}
    enders: dict[int, set[int]] = {}
    for label in conversation.ended:
        enders.setdefault(label.message, set()).update(messages_that_ended(conversation, label))
    possible = {*conversation.changes, *conversation.possible}
    return Marks(
        [one in marked for one in sorted(ended)],
        [one in marked for one in sorted(holding(conversation))],
        [new not in enders[old] for old, new in sorted(pairs) if enders.get(old)],
        [pair in pairs for pair in conversation.changes],
        sorted(pairs - possible) if possible else (),
    )


def changed_pairs(ledger: StatementLedger) -> Iterator[Pair]:
    """Return the messages that a later message changed, each with that one."""
    for relations in (ledger.retired, ledger.doubted):
        for target, relation in relations.items():
            if relation.kind != "repeats" and relation.source.message != target[0]:
                yield target[0], relation.source.message


def spoken_statements(conversation: Conversation) -> Iterator[Statement]:
    """Return the statements of a conversation."""
    for at, message in enumerate(conversation.messages):
        machine = message.role == "assistant"
        yield from statements_of(SaidMessage(at, message.speaker, message.text, message.at.astimezone(UTC), machine))


def holding(conversation: Conversation) -> frozenset[int]:
    """Return the messages of which all labelled statements hold at the end."""
    ended = {one.message for one in conversation.ended}
    stale = {place for one in conversation.questions for place in one.stale}
    changed = {old for old, _ in (*conversation.changes, *conversation.possible)}
    return frozenset(one.message for one in conversation.holds) - ended - stale - changed


def messages_that_ended(conversation: Conversation, label: Labelled) -> set[int]:
    """Return the messages that may have ended a statement; empty if unknown.

    They are named, or the answers to questions, or what holds with a token in common.
    """
    if named := {new for old, new in (*conversation.changes, *conversation.possible) if old == label.message}:
        return named
    asked = (one for one in conversation.questions if not one.past and label.message in one.stale)
    if answers := {one.answer for one in asked if one.answer > label.message}:
        return answers
    spellings = {folded(spelling) for token in label.tokens for spelling in token}
    later = (one for one in conversation.holds if one.message > label.message)
    return {one.message for one in later if any(folded(form) in spellings for token in one.tokens for form in token)}

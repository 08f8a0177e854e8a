"""Conversations in short, and what a ledger says of them."""

from datetime import UTC, datetime, timedelta

from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage

MONDAY = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def said(*lines, days=1):
    """Return messages from `Ada: text` lines, one a day; "Assistant" is a machine."""
    return [
        SaidMessage(at, speaker, text, MONDAY + timedelta(days=at * days), speaker == "Assistant")
        for at, (speaker, _, text) in enumerate(line.partition(": ") for line in lines)
    ]


def read(text, speaker="Ada"):
    """Return the statements of one message on a Monday."""
    return statements_of(SaidMessage(0, speaker, text, MONDAY))


def ledger_of(*lines):
    """Return the ledger of a conversation."""
    return StatementLedger.of(one for message in said(*lines) for one in statements_of(message))


def current(*lines):
    """Return the texts that hold at the end of a conversation."""
    return [one.text for one in ledger_of(*lines).current()]


def relations(*lines):
    """Return what happened to earlier statements: kind, target message, source message, and whether for sure."""
    ledger = ledger_of(*lines)
    found = [*ledger.retired.values(), *ledger.doubted.values()]
    return sorted((one.kind, one.target.message, one.source.message, one.sure) for one in found)

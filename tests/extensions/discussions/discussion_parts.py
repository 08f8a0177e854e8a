"""Messages in short, discussions of their own in a space, and what is left of words in its file."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create, Supersede
from treering.extensions.discussions.identity import apply_patch, discussion_ref
from treering.extensions.discussions.log.message_log import MessageLog
from treering.verbs.crystallize.drafting import make
from treering.verbs.envelope import Call
from treering.verbs.ingest.turns import Message

MORNING = datetime(2024, 5, 6, 8, 0, tzinfo=UTC)

_numbers = count()


def said(words, *, role="user"):
    """Return a message for each word."""
    return [Message(role=role, content=word) for word in words.split()]


def talk(first, end, *, words="and then some more was said about the garden"):
    """Return numbered turns of a user and an assistant."""
    return [Message(role=("user", "assistant")[at % 2], content=f"Turn {at}, {words}") for at in range(first, end)]


def at_hours(*hours):
    """Return messages said so many hours after the morning; `None`: nobody knows when."""
    return [
        Message(role="user", content=f"message {at}", at=None if hour is None else MORNING + timedelta(hours=hour))
        for at, hour in enumerate(hours)
    ]


def new_log(space, discussion_id=""):
    """Return the log of a discussion that nothing is kept of."""
    return MessageLog(space.engine, discussion_ref(discussion_id or f"talk {next(_numbers)}"))


def texts(log):
    """Return what is kept, in one line."""
    return " ".join(kept.text or "-" for kept in log.read())


def segment_ids(log):
    """Return the ids of each message's segments."""
    return [kept.segment_ids for kept in log.read()]


def remember(space, log, first, last, *, title="A memory", form="memory", parents=(), replaces=None):
    """Keep a summary of some messages, or of other summaries; return its id."""
    place = log.read(first, last)
    refs = [
        {"source_id": kept.source_id, "segment_id": segment_id} for kept in place for segment_id in kept.segment_ids
    ]
    item = make(
        Call(space.engine, log.ref.scope),
        Knowledge,
        {
            "kind": "summary",
            "title": title,
            "summary": title,
            "status": "active",
            "memory_source": "system_generated",
            "evidence_refs": [] if parents else refs,
            "derived_from": list(parents),
            "payload": Summary(form=form, key=f"{form} {next(_numbers)}", first=first, last=last),
        },
    )
    operations = [Create(object=item)]
    if replaces:
        before = space.engine.ledger.get(replaces)
        operations.append(Supersede(id=before.id, expected_revision=before.revision, by=item.id))
    apply_patch(space.engine, log.ref, operations, reason="A memory for a test")
    return item.id


def files_hold(path, word):
    """Tell whether a word stands in any file of a space."""
    found = [file for file in Path(path).parent.iterdir() if file.name.startswith(Path(path).name)]
    return any(word.encode() in file.read_bytes() for file in found)

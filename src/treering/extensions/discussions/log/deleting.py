"""Deleting and erasing messages of a discussion."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import Segment, Turn
from treering.core.objects import Source
from treering.core.patch import Transition
from treering.extensions.discussions.identity import DiscussionRef, apply_patch, ref_of
from treering.extensions.discussions.log.blocks import BLOCK_MESSAGES
from treering.extensions.discussions.log.rewriting import Rewriting, RewrittenStretch
from treering.extensions.discussions.log.snapshot import LogEntry, LogSnapshot, entries_of
from treering.verbs.engine import Engine
from treering.verbs.ingest.turns import TURNS_BEFORE
from treering.verbs.lint import erasure
from treering.verbs.lint.erasure import ErasureReceipt, check_may_erase


@dataclass(frozen=True, slots=True)
class DeletedMessages:
    """The result of deleting: the positions without text now, and the knowledge derived from them."""

    positions: tuple[int, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Withdrawn memories and other knowledge."""
    receipt: ErasureReceipt | None = None
    """The proof of an erasure."""
    lost_edits: int = 0
    """The number of lines that a person added to the state document and that were erased for their words."""


def delete_messages(engine: Engine, ref: DiscussionRef, positions: Collection[int]) -> DeletedMessages:
    """Delete the texts of messages, and archive the memories derived from them."""
    history = LogSnapshot.of(engine.ledger, ref)
    _check_positions(positions, count=history.count)
    stretch = _without_words(history, positions)
    operations = Rewriting(engine, ref, history, stretch).operations() if stretch else []
    if not operations:
        return DeletedMessages(tuple(sorted(positions)))
    receipt = apply_patch(engine, ref, operations, reason="Deleted messages")
    archived = (step.id for step in operations if isinstance(step, Transition))
    return DeletedMessages(tuple(sorted(positions)), tuple(dict.fromkeys([*archived, *receipt.staled])))


def erase_messages(
    engine: Engine, ref: DiscussionRef, positions: Collection[int], *, reason: str = ""
) -> DeletedMessages:
    """Erase messages, with everything of the discussion derived from them, in all versions.

    They are deleted in one patch; then the sources and memories with their texts are erased. If that is interrupted,
    the same call completes it. Raises `InvalidInput` and `Denied` before any change.
    """
    history = LogSnapshot.of(engine.ledger, ref)
    _check_positions(positions, count=history.count)
    stretch = _without_words(history, positions, erased=True)
    if stretch is None:
        return DeletedMessages()
    check_may_erase(engine, [engine.ledger.get(history.heads[0].source_id)])
    operations = Rewriting(engine, ref, history, stretch).operations()
    apply_patch(engine, ref, operations, reason="Deleted messages")
    sources = list(_past(LogSnapshot.of(engine.ledger, ref), positions))

    def is_meant(segment: Segment) -> bool:
        return isinstance(segment.locator, Turn) and segment.locator.turn in positions

    reason = reason or f"Erased messages of discussion {ref.id}"
    receipt = erasure.erase(engine, sources, reason=reason, is_meant=is_meant)
    memories = (identity for identity in receipt.ids if identity not in sources)
    return DeletedMessages(tuple(sorted(positions)), (*memories, *receipt.staled), receipt, receipt.lost_edits)


def erase_turns(
    engine: Engine, sources: Sequence[Source], positions: Collection[int], reason: str
) -> ErasureReceipt | None:
    """Erase the messages at some positions of the discussion with these sources; `None` if it is not a discussion.

    Raises the errors of `erase_messages`, and `NotFound` if the sources are earlier versions of the discussion.
    """
    ref = ref_of(sources[0])
    if ref is None:
        return None
    current = {head.source_id for head in LogSnapshot.of(engine.ledger, ref).heads}
    if not current.issuperset(source.id for source in sources):
        raise NotFound(f"The messages of discussion {ref.id} changed.", hint="Search again, and give the new hit.")
    return erase_messages(engine, ref, positions, reason=reason).receipt


def _check_positions(positions: Collection[int], *, count: int) -> None:
    """Raise `InvalidInput` for positions without a message."""
    beyond = sorted(position for position in positions if not 0 <= position < count)
    if beyond:
        raise InvalidInput(
            f"There is no message at {', '.join(map(str, beyond))}.",
            hint=f"Positions are 0 to {count - 1}." if count else "Nothing is stored for this discussion.",
            details={"positions": beyond, "count": count},
        )


def _without_words(
    history: LogSnapshot, positions: Collection[int], *, erased: bool = False
) -> RewrittenStretch | None:
    """Return the stretch without the texts of some messages; `None` if there are none.

    `erased`: their blocks, and blocks that are indexed with their texts, become new sources.
    """
    touched = set(_touched(history, positions))
    if not touched:
        return None
    heads = [head for head in history.heads if min(touched) <= head.first <= max(touched)]
    entries = [
        _silenced(entry, position, erased=erased) if position in positions else entry
        for head in heads
        for position, entry in enumerate(entries_of(history.block(head)), start=head.first)
    ]
    return RewrittenStretch(
        first=heads[0].first,
        entries=entries,
        sizes=[head.count for head in heads],
        is_end=heads[-1] == history.heads[-1],
        renewed=frozenset(touched) if erased else frozenset(),
    )


def _touched(history: LogSnapshot, positions: Collection[int]) -> Iterator[int]:
    """Yield the first positions of the blocks with the messages, and of blocks indexed with their texts."""
    continues = False
    for head in history.heads:
        here = [position for position in positions if head.first <= position < head.end]
        if here or continues:
            yield head.first
        # The last texts before a block are indexed with its first messages.
        live = [message for message in history.block(head).messages if not message.deleted] if here or continues else []
        after = sum(message.position > max(here, default=-1) for message in live)
        continues = bool(here or continues) and after < TURNS_BEFORE


def _silenced(entry: LogEntry, position: int, *, erased: bool) -> LogEntry:
    is_done = entry.deletion and (not erased or not entry.deletion.key)
    return entry if is_done else entry.without_words(position, erased=erased)


def _past(history: LogSnapshot, positions: Collection[int]) -> Iterator[str]:
    """Yield the withdrawn sources that may contain texts of the messages, or are indexed with them."""

    def near(first: int) -> bool:
        return any(abs(first - position) <= BLOCK_MESSAGES for position in positions)

    ids = [identity for head in history.heads if near(head.first) for identity in history.block(head).formerly]
    ids += [identity for first in history.withdrawn if near(first) for identity in history.formerly(first)]
    yield from history.ledger.heads(ids)

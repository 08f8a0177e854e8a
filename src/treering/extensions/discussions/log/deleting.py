"""Deleting and erasing messages of a discussion."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from treering.core.errors import InvalidInput
from treering.core.evidence import Segment, Turn
from treering.core.objects import Knowledge, Source
from treering.core.patch import Erase, Transition
from treering.core.policy import check_gate, check_trust
from treering.extensions.discussions.identity import DiscussionRef, apply_patch
from treering.extensions.discussions.log.blocks import BLOCK_MESSAGES, BlockHead
from treering.extensions.discussions.log.rewriting import Rewriting, RewrittenStretch
from treering.extensions.discussions.log.snapshot import LogEntry, LogSnapshot, entries_of
from treering.verbs.crystallize.submission import build_patch
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call
from treering.verbs.ingest.turns import TURNS_BEFORE
from treering.verbs.lint import erasure
from treering.verbs.lint.erasure import ErasureReceipt


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


KeepEdits = Callable[[Engine, DiscussionRef, Sequence[str], Collection[str]], int]
"""Stores edits again, given the texts of erased messages and the ids of erased summaries; returns the lines lost."""


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
    engine: Engine, ref: DiscussionRef, positions: Collection[int], *, reason: str = "", keep: KeepEdits | None = None
) -> DeletedMessages:
    """Erase messages, with everything of the discussion derived from them, in all versions.

    `keep` stores edits again that are in these versions.

    They are deleted in one patch; then the sources and memories with their texts are erased. If that is interrupted,
    the same call completes it. Raises `InvalidInput` and `Denied` before any change.
    """
    history = LogSnapshot.of(engine.ledger, ref)
    _check_positions(positions, count=history.count)
    stretch = _without_words(history, positions, erased=True)
    if stretch is None:
        return DeletedMessages()
    _check_may_erase(engine, ref, history.heads[0])
    operations = Rewriting(engine, ref, history, stretch).operations()
    apply_patch(engine, ref, operations, reason="Deleted messages")
    sources = list(_past(LogSnapshot.of(engine.ledger, ref), positions))
    memories = _summaries_on(engine, sources)

    def is_meant(segment: Segment) -> bool:
        return isinstance(segment.locator, Turn) and segment.locator.turn in positions

    revisions = (revision for source in sources for revision in engine.ledger.history(source))
    segments = (segment for revision in revisions if isinstance(revision, Source) for segment in revision.segments)
    lost = keep(engine, ref, [one.excerpt for one in segments if is_meant(one)], memories) if keep else 0
    receipt = erasure.erase(
        engine,
        [*sources, *memories],
        reason=reason or f"Erased messages of discussion {ref.id}",
        is_meant=is_meant,
    )
    return DeletedMessages(tuple(sorted(positions)), (*memories, *receipt.staled), receipt, lost)


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


def _check_may_erase(engine: Engine, ref: DiscussionRef, head: BlockHead) -> None:
    erase = Erase(id=head.source_id, expected_revision=head.revision)
    patch = build_patch(Call(engine, ref.scope), [erase], verb="ingest", reason="")
    policy = engine.ledger.policy
    check_trust(patch, policy)
    check_gate(patch, policy)


def _past(history: LogSnapshot, positions: Collection[int]) -> Iterator[str]:
    """Yield the withdrawn sources that may contain texts of the messages, or are indexed with them."""

    def near(first: int) -> bool:
        return any(abs(first - position) <= BLOCK_MESSAGES for position in positions)

    ids = [identity for head in history.heads if near(head.first) for identity in history.block(head).formerly]
    ids += [identity for first in history.withdrawn if near(first) for identity in history.formerly(first)]
    yield from history.ledger.heads(ids)


def _summaries_on(engine: Engine, sources: Collection[str]) -> list[str]:
    """Return the summaries derived from some sources, directly or indirectly."""
    summaries: dict[str, None] = {}
    queue = list(sources)
    while queue:
        for identity in engine.ledger.dependents(queue.pop()):
            item = engine.ledger.get(identity)
            if isinstance(item, Knowledge) and item.kind == "summary" and identity not in summaries:
                summaries[identity] = None
                queue.append(identity)
    return list(summaries)

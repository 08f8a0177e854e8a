"""Taking the words of messages away, so that what told of them goes too; where asked, out of the past as well."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from treering.core.errors import InvalidInput
from treering.core.locator import Turn
from treering.core.objects import Knowledge, Source
from treering.core.patch import Erase
from treering.core.policy import check_gate, check_trust
from treering.memories.discussion.blocks import BLOCK_MESSAGES, BlockHead
from treering.memories.discussion.entries import Entry, entries_of
from treering.memories.discussion.history import History
from treering.memories.discussion.identity import Place
from treering.memories.discussion.rewriting import Rewriting, Stretch
from treering.memories.discussion.submitting import apply_patch
from treering.tools import erasure
from treering.tools.engine import Engine
from treering.tools.envelope import Call
from treering.tools.erasure import ErasureReceipt
from treering.tools.submission import build_patch
from treering.tools.turns import TURNS_BEFORE


@dataclass(frozen=True, slots=True)
class Deleted:
    """What deleting did: the positions whose words are gone, and what rested on them."""

    positions: tuple[int, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Memories and other knowledge that told of them."""
    receipt: ErasureReceipt | None = None
    """The proof of an erasure."""


def check_positions(positions: Collection[int], *, count: int) -> None:
    """Raise `InvalidInput` for a position where no message is."""
    beyond = sorted(position for position in positions if not 0 <= position < count)
    if beyond:
        raise InvalidInput(
            f"There is no message at {', '.join(map(str, beyond))}.",
            hint=f"Positions go from 0 to {count - 1}." if count else "Nothing is kept of this discussion.",
            details={"positions": beyond, "count": count},
        )


def without_words(history: History, positions: Collection[int], *, erased: bool = False) -> Stretch | None:
    """Return what a discussion says without the words of some messages; `None` where none are named.

    `erased`: their blocks become new sources, and so do blocks that are found by these words.
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
    return Stretch(
        first=heads[0].first,
        entries=entries,
        sizes=[head.count for head in heads],
        is_end=heads[-1] == history.heads[-1],
        anew=frozenset(touched) if erased else frozenset(),
    )


def erase_messages(engine: Engine, place: Place, positions: Collection[int]) -> Deleted:
    """Erase messages, with everything of the discussion that told of them, in all versions.

    First they are deleted, in one patch; then the sources and memories that held their words are erased. Where that
    was cut short, the same call again completes it. Raises `InvalidInput` and `Denied`; nothing was changed then.
    """
    history = History.of(engine.ledger, place)
    check_positions(positions, count=history.count)
    stretch = without_words(history, positions, erased=True)
    if stretch is None:
        return Deleted()
    _check_may_erase(engine, place, history.heads[0])
    operations = Rewriting(engine, place, history, stretch).operations()
    apply_patch(engine, place, operations, reason="Deleted messages")
    sources = list(_past(History.of(engine.ledger, place), positions))
    memories, words = _tellings_of(engine, sources), _words(engine, sources, positions)
    receipt = erasure.erase(engine, [*sources, *memories], reason=f"Erased messages of discussion {place.id}")
    # What stays of a block stands in the new source too: that is no repetition of what was erased.
    repeated = tuple(identity for identity in receipt.repeated_in if words & _excerpts(engine, identity).keys())
    receipt = receipt.model_copy(update={"repeated_in": repeated})
    return Deleted(tuple(sorted(positions)), (*memories, *receipt.staled), receipt)


def _touched(history: History, positions: Collection[int]) -> Iterator[int]:
    """Return the first positions of the blocks with the messages, and of those that are found by them."""
    goes_on = False
    for head in history.heads:
        here = [position for position in positions if head.first <= position < head.end]
        if here or goes_on:
            yield head.first
        # The last words before a block are kept with its first messages.
        live_after = [kept for kept in history.block(head).messages if not kept.deleted] if here or goes_on else []
        goes_on = bool(here or goes_on) and _speaks_last(here, [kept.position for kept in live_after])


def _speaks_last(here: Collection[int], live: Collection[int]) -> bool:
    return sum(position > max(here, default=-1) for position in live) < TURNS_BEFORE


def _silenced(entry: Entry, position: int, *, erased: bool) -> Entry:
    done = entry.deletion and (not erased or not entry.deletion.key)
    return entry if done else entry.without_words(position, erased=erased)


def _check_may_erase(engine: Engine, place: Place, head: BlockHead) -> None:
    erase = Erase(id=head.source_id, expected_revision=head.revision)
    patch = build_patch(Call(engine, place.scope), [erase], verb="ingest", reason="")
    check_trust(patch, engine.ledger.policy)
    check_gate(patch, engine.ledger.policy)


def _past(history: History, positions: Collection[int]) -> Iterator[str]:
    """Return the withdrawn sources that may hold words of the messages, or are found by them."""

    def near(first: int) -> bool:
        return any(abs(first - position) <= BLOCK_MESSAGES for position in positions)

    found = [identity for head in history.heads if near(head.first) for identity in history.block(head).formerly]
    found += [identity for first in history.withdrawn if near(first) for identity in history.formerly(first)]
    yield from history.ledger.heads(found)


def _words(engine: Engine, sources: Collection[str], positions: Collection[int]) -> set[str]:
    """Return what was ever said at the positions, as far as the sources tell."""
    said = (excerpt for identity in sources for excerpt in _excerpts(engine, identity).items())
    return {words for words, places in said if not places.isdisjoint(positions)}


def _excerpts(engine: Engine, source_id: str) -> dict[str, set[int]]:
    """Return the words of all revisions of a source, and at which positions they stood."""
    found: dict[str, set[int]] = {}
    for revision in engine.ledger.history(source_id):
        for segment in revision.segments if isinstance(revision, Source) else ():
            place = segment.locator.turn if isinstance(segment.locator, Turn) else -1
            found.setdefault(segment.excerpt, set()).add(place)
    return found


def _tellings_of(engine: Engine, sources: Collection[str]) -> list[str]:
    """Return the summaries that rest on some sources, and those that rest on them in turn."""
    found: dict[str, None] = {}
    queue = list(sources)
    while queue:
        for identity in engine.ledger.dependents(queue.pop()):
            item = engine.ledger.get(identity)
            if isinstance(item, Knowledge) and item.kind == "summary" and identity not in found:
                found[identity] = None
                queue.append(identity)
    return list(found)

"""Warnings about conversations that two spaces continued: after a merge, only the newer version is current."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from treering.core.characters import named
from treering.core.counting import counted_things
from treering.core.objects import Object, Source
from treering.extensions.sharing.merge_rules.entries import MergeEntry
from treering.extensions.sharing.merge_rules.merge import Merged
from treering.extensions.sharing.merge_rules.notices import WITHHELD
from treering.ports.ledger import Head, Ledger

_KIND = "conversation"
_MOST_QUOTED = 3

Versions = Mapping[str, tuple[Source, ...]]
"""The two last versions of a source, by its id."""


def versions_of_both(ledger: Ledger, coming: Sequence[MergeEntry], touched: Collection[str]) -> Versions:
    """Return the last version here and the last of the other space, of conversations that both changed."""
    theirs = {
        one.target: one.after
        for one in sorted(coming, key=lambda one: one.order)
        if isinstance(one.after, Source) and one.after.kind == _KIND and one.target in touched and one.kind != WITHHELD
    }
    ours = {name: ledger.get(name) for name in ledger.heads(theirs)}  # the others were erased here
    return {name: (one, theirs[name]) for name, one in ours.items() if isinstance(one, Source)}


def hidden_messages(ledger: Ledger, before: Versions, merged: Merged) -> Iterator[str]:
    """Warn of messages that a merge left only in earlier revisions or archived sources."""
    heads = ledger.heads([*merged.created, *merged.changed])
    for head in sorted(heads.values(), key=lambda one: one.id):
        if head.kind != _KIND or not (head.status == "archived" or head.id in before):
            continue
        item = ledger.get(head.id)
        now = _replacement(ledger, head) if head.status == "archived" else item
        if not isinstance(item, Source) or not isinstance(now, Source):
            continue
        shown = {part.excerpt for part in now.segments}
        parts = (part for one in before.get(head.id, (item,)) for part in one.segments)
        hidden = dict.fromkeys(part.excerpt for part in parts if part.excerpt not in shown)
        if hidden:
            quotes = ", ".join(map(named, list(hidden)[:_MOST_QUOTED]))
            yield (
                f"{named(now.title or now.origin)} was continued in both spaces; only the newer version is current and "
                f"found by searches. The history of {head.id} has {counted_things(len(hidden), 'message')} "
                f"of the other one: {quotes}{', …' if len(hidden) > _MOST_QUOTED else ''}. Append what is still needed."
            )


def _replacement(ledger: Ledger, head: Head) -> Object | None:
    """Return the current source with the origin of an archived one."""
    state = ledger.sources_at(scope=head.scope, origins=[head.origin]).get(head.origin)
    return ledger.get(state.id) if state and state.status == "active" and state.id != head.id else None

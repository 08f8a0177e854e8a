"""Compare and merge two spaces that diverged."""

import heapq
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, islice, repeat
from typing import Any, Literal

from treering.core.audit import ERASED, GENESIS, Anchor, AuditEvent, verify_chain
from treering.core.canonical import PREFIXES
from treering.core.characters import named
from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Object, Source, title_of
from treering.core.patch import Author
from treering.core.versions import known_branches
from treering.core.writing.journal import MERGE, MERGED, POLICY
from treering.extensions.sharing.continued_twice import hidden_messages, versions_of_both
from treering.extensions.sharing.copying import head_of
from treering.extensions.sharing.merge_rules.entries import (
    MAP,
    LoggedReadings,
    MergeEntry,
    entry_of,
    root_of,
    same_words,
    with_bases,
)
from treering.extensions.sharing.merge_rules.merge import Incoming, Merged, Parent, merge_entries
from treering.extensions.sharing.withholding import Outgoing
from treering.ports.index import Change
from treering.ports.ledger import Ledger, Selection
from treering.ports.runtime import collecting_seldom
from treering.spaces import wiring
from treering.spaces.wiring import Opening, author
from treering.system.address import Address
from treering.system.settings import Settings
from treering.verbs.denials import contradicting
from treering.verbs.envelope import Value

TOOL = "merge"
_TRIES = 5
_BATCH = 500  # events whose objects are read together
_MOST_WAITING = 10_000
_MANY = 1_000
"""Events of another log after which a merge is recorded even if none was new; fewer are read again."""
_STATED = ("constraint", "decision")
Erasing = Callable[[Sequence[Source], Callable[[], Merged]], Merged]
"""Called with all revisions of the sources that a merge erases here, and the merge, which it makes."""


class Difference(Value):
    """An object that differs between two spaces."""

    id: str
    title: str
    type: str
    where: Literal["left", "right", "both"]
    """The space with the object; `both`: its versions differ."""
    left: str = ""
    """Its status."""
    right: str = ""


class DiffReport(Value):
    """The differences of two spaces, and the number of equal objects."""

    alike: int
    differences: tuple[Difference, ...]
    common: int
    """Changes that both know."""
    left_only: int
    """Changes that only the left one knows."""
    right_only: int


class MergeReport(Value):
    """The result of a merge, and the head of the log that covers both."""

    entries: int
    created: tuple[str, ...]
    changed: tuple[str, ...]
    contested: tuple[str, ...]
    staled: tuple[str, ...]
    erased: tuple[str, ...]
    withheld: int
    """Changes that were left out because their object was erased."""
    patch_id: str
    head: Anchor | None
    waiting: tuple[str, ...] = ()
    """Patches that wait for review in the other space; they are not merged."""
    warnings: tuple[str, ...] = ()


def diff(left: str | Address, right: str | Address) -> DiffReport:
    """Compare two spaces, which are only read; `treering.diff` is this function."""
    with ExitStack() as closing:
        one, other = (_opened(place, closing) for place in (left, right))
        return difference(one, other)


def merge(space: str | Address, other: str | Address) -> MergeReport:
    """Merge another space into one; the other is only read. `treering.merge` is this function.

    The spaces may be copies of one space or have nothing in common. Private scopes of the other space are not merged.
    Merging again, or in another order, has the same result. Raises `InvalidInput` if both are the same space,
    `Corrupt` if the other does not verify, and the errors of opening a space.
    """
    settings = Settings.read()
    address = settings.space_address(space)
    with ExitStack() as closing:
        return merge_into(_opened(address, closing), address, other, by=author(None, "user", settings))


def erase_only(_sources: Sequence[Source], merge: Callable[[], Merged]) -> Merged:
    """Merge without remembering the erased sources."""
    return merge()


def merge_into(
    target: Ledger, address: Address, other: str | Address, *, by: Author, erasing: Erasing = erase_only
) -> MergeReport:
    """Merge another space into a ledger that is open. Raises as `merge` does."""
    place = Settings.read().space_address(other)
    if place.url == address.url:
        raise InvalidInput(f"{place} is the space itself.", hint="Choose another space to merge.")
    with ExitStack() as closing, collecting_seldom():
        return merge_ledger(target, _opened(place, closing), by=by, name=str(place), erasing=erasing)


def merge_ledger(
    target: Ledger, source: Ledger, *, by: Author, name: str, erasing: Erasing = erase_only
) -> MergeReport:
    """Merge the contents of the ledger `source` into `target`. Raises `Corrupt` if the source does not verify.

    Of a source that was merged before, only later entries are verified and read.
    """
    log, shared = log_name(source), _shared(target, source)
    known = merged_up_to(target, source, shared)
    head = verify_chain(source.events(after=known.seq), after=known) if known else source.verify()
    after = known.seq if known else 0
    coming = list(entries(source, after=after, upto=head.seq, without=_merged_from(target, source)))
    parent = Parent(log, head, whole=True)
    told_anyway = head.seq - after >= _MANY
    report = receive(
        target,
        coming,
        (parent,),
        source=source,
        by=by,
        reason=f"Merged {name}",
        alike=_settled_alike(source, shared.seq),
        told_anyway=told_anyway,
        erasing=erasing,
    )
    return report.model_copy(update={"waiting": waiting_patches(source)})


def waiting_patches(ledger: Ledger) -> tuple[str, ...]:
    """Return the ids of the patches that wait for review in a ledger, the newest first."""
    return tuple(record.id for record in ledger.patches(status="proposed", limit=_MOST_WAITING))


def merged_up_to(target: Ledger, source: Ledger, shared: Anchor) -> Anchor | None:
    """Return the head of the source's log up to which the target has it all; `None`: from the beginning.

    It is the point where two copies of one log diverge, `shared`, or the head that the target's log recorded as merged,
    whichever is later. A recorded head counts only if the source's log still contains it: the log of a space restored
    from a backup is read again from the beginning. So is a log whose policy changed since, because scopes may not be
    private any more.
    """
    for event in reversed(target.events_of(MERGE)):
        for parent in (event.after or {}).get("parents", ()):
            if parent.get("whole") and parent["seq"] > shared.seq and _passes_through(source, parent):
                policies = source.events_of(POLICY)
                is_same = not policies or policies[-1].seq <= parent["seq"]
                return Anchor(seq=parent["seq"], hash=parent["hash"]) if is_same else shared if shared.seq else None
    return shared if shared.seq else None


def _shared(one: Ledger, other: Ledger) -> Anchor:
    """Return the last event that two logs have in common, as copies of one have."""
    if log_name(one) != log_name(other):
        return Anchor(seq=0, hash=GENESIS)
    both = range(1, min(one.sequence(), other.sequence()) + 1)
    # Once two logs differ, all their later heads differ.
    return head_of(other, bisect(both, False, key=lambda seq: head_of(one, seq) != head_of(other, seq)))


def _merged_from(target: Ledger, source: Ledger) -> frozenset[str]:
    """Return the patches in which the source merged the target: they contain nothing new for the target."""
    return frozenset(
        event.patch_id
        for event in source.events_of(MERGE)
        if all(_passes_through(target, parent) for parent in (event.after or {"parents": [{}]})["parents"])
    )


def _passes_through(ledger: Ledger, parent: Mapping[str, Any]) -> bool:
    """Return whether a log still contains the head that a merge recorded."""
    seq = parent.get("seq", 0)
    return parent.get("log") == log_name(ledger) and head_of(ledger, seq) == Anchor(seq=seq, hash=parent["hash"])


def receive(
    target: Ledger,
    coming: Sequence[MergeEntry],
    parents: tuple[Parent, ...],
    *,
    by: Author,
    reason: str,
    source: Ledger | None = None,
    alike: int = 0,
    told_anyway: bool = False,
    erasing: Erasing = erase_only,
) -> MergeReport:
    """Merge entries into a ledger, in one transaction. Raises `Conflict` where others do not stop writing.

    `source`: the ledger of the other space, if it is open. `alike`: the sequence number up to which the other space
    settled the same, as a copy has. `told_anyway`: record the heads of the parents even if nothing was new. `erasing`
    performs the merge and receives all revisions of the sources that it erases.
    """
    going = [entry.target for entry in coming if entry.kind == ERASED]
    erased = [one for name in target.heads(going) for one in target.history(name) if isinstance(one, Source)]
    for _ in range(_TRIES):
        begin, settled_from = _unsettled_from(target, alike)
        after, touched = _touched_since(target, begin)
        maps = maps_held(target)
        lost = _lost_maps(target, source, touched, begin)
        files, has_lost_map = _files_to_settle(target, coming, touched, maps, lost, settled=begin)
        incoming = Incoming(
            coming,
            parents,
            replace_tool(by),
            reason,
            touched=touched,
            settled_from=settled_from,
            unsettled=files,
            after=after,
            always_recorded=told_anyway,
            maps=maps,
            has_lost_map=has_lost_map,
        )
        before = versions_of_both(target, coming, touched)
        try:
            merged = erasing(erased, partial(target.transact, partial(merge_entries, incoming=incoming)))
        except Conflict:
            if target.sequence() == after.seq:
                raise
            continue
        warnings = target.compact() if merged.erased else ()
        return MergeReport(
            **asdict(merged),
            warnings=(*hidden_messages(target, before, merged), *_contradictions(target, merged), *warnings),
        )
    raise Conflict("Other processes write to the space continuously.", hint="Merge when fewer processes are writing.")


def _contradictions(ledger: Ledger, merged: Merged) -> Iterator[str]:
    """Warn of merged decisions and rules that may contradict others, which no subject or value connects."""
    new = {one.id for one in ledger.heads(merged.created).values() if one.kind in _STATED and one.status == "active"}
    if not new:
        return
    where = And((Compare("kind", "in", _STATED), Compare("status", "eq", "active")))
    items = ledger.select(Selection(descend=True, types=("knowledge",), where=where), altered={})
    opposites = contradicting(one for one in items if isinstance(one, Knowledge))
    pairs = {tuple(sorted((identity, opposites[identity].id))) for identity in new & opposites.keys()}
    for pair in sorted(pairs):
        titles = [named(item.title) for one in pair if isinstance(item := ledger.get(one), Knowledge)]
        yield f"{' and '.join(titles)} may contradict each other. Archive the wrong one, or replace it."


def _settled_alike(source: Ledger, shared: int) -> int:
    """Return the sequence number up to which this log and a copy, which diverged at `shared`, settled the same."""
    settled_from, settled_to = _settled(source)
    return min(shared, settled_from) if settled_to > shared else shared


def _unsettled_from(ledger: Ledger, alike: int) -> tuple[int, int]:
    """Return the sequence number after which a merge has to settle objects that changed here, and its `settled_from`.

    `alike`: the sequence number up to which the other space settled the same.
    """
    settled_from, settled_to = _settled(ledger)
    return (settled_to, settled_from) if settled_from <= alike <= settled_to else (alike, alike)


def _settled(ledger: Ledger) -> tuple[int, int]:
    """Return the sequence numbers between which the last merge had settled all changes."""
    merges = ledger.events_of(MERGE)
    return ((merges[-1].after or {}).get("settled_from", 0), merges[-1].seq) if merges else (0, 0)


def _touched_since(ledger: Ledger, after: int) -> tuple[Anchor, frozenset[str]]:
    """Return the head of a log, and the objects that were changed or erased after a sequence number.

    New sources that are not files of repositories are left out: only a source of the same origin can change them, and
    a merge that reads that source reads them, too.
    """
    head, touched = head_of(ledger, after), set()
    for event in ledger.events(after=after):
        head = Anchor(seq=event.seq, hash=event.hash)
        if event.event_type == ERASED or (event.after and ("revision" in event.after or "link" in event.after)):
            touched.add(event.target)
    new = (one for one in ledger.heads(touched).values() if one.type == "source" and one.revision == 1)
    return head, frozenset(touched.difference(one.id for one in new if not root_of(one)))


@dataclass(frozen=True, slots=True)
class _LostMaps:
    """Sources erased here since the last merge that were, or may have been, maps of repositories."""

    known: frozenset[str] = frozenset()
    """Maps that determined files which earlier merges settled."""
    new: frozenset[str] = frozenset()
    """Maps written after that: they only determined files written since."""


def _lost_maps(ledger: Ledger, source: Ledger | None, touched: Collection[str], settled: int) -> _LostMaps:
    """Return the lost maps among objects that were changed or erased after the event `settled`.

    A merge records the maps of its time. A source that no merge met may have been a map, unless `source` has it as
    something else.
    """
    names = set(filter(_is_source, touched))
    merges = ledger.events_of(MERGE)
    settled = max(settled, merges[-1].seq if merges else 0)
    known, new = set[str](), set[str]()
    for name in names - ledger.heads(names).keys():
        events = ledger.events_of(name)
        met = [one.after or {} for one in merges if events[0].seq <= one.seq < events[-1].seq]
        if met and "maps" in met[-1]:
            known.update([name] if name in met[-1]["maps"] else ())
        elif not (source and _is_known_without_map(name, ledger, source)):
            (known if events[0].seq <= settled else new).add(name)
    return _LostMaps(frozenset(known), frozenset(new))


def _is_known_without_map(name: str, ledger: Ledger, source: Ledger) -> bool:
    """Return whether another space has a source with all of its changes before its erasure, and none made it a map."""
    if name not in source.heads([name]):
        return False
    revisions = (one for one in ledger.events_of(name) if _is_change(one) and "revision" in (one.after or {}))
    known = {_change_of(one) for one in source.events_of(name)}
    return known.issuperset(map(_change_of, revisions)) and all(
        isinstance(one, Source) and one.kind != MAP for one in source.history(name)
    )


def _files_to_settle(
    ledger: Ledger,
    coming: Sequence[MergeEntry],
    touched: Collection[str],
    maps: Mapping[str, Sequence[str]],
    lost: _LostMaps,
    *,
    settled: int,
) -> tuple[frozenset[str], bool]:
    """Return the files of repositories that may be on other branches now, and whether a map was ever lost.

    `maps`: the maps here; `touched`: objects changed or erased here after the event `settled`. A reading that knew all
    others changes no file. But without a map, it is not known what a reading knew of the files that the map listed.
    """
    readings = LoggedReadings(maps, ledger.events_of)
    read = [one for one in coming if isinstance(one.after, Source) and one.after.kind == MAP]
    new = {one.event: one for one in with_bases(read, ())}
    gone = {one.target for one in coming if one.kind == ERASED}
    roots = {root for root, held in maps.items() if not gone.isdisjoint(held)}
    merges = ledger.events_of(MERGE)
    written = ledger.heads(filter(_is_source, touched)).values() if lost.new else ()
    files = {one.id for one in written if one.kind != MAP and root_of(one)}
    has_lost_map = (
        bool(roots or lost.known)
        or any(root_of(one) in maps for one in written)
        or any((one.after or {}).get("lost_map") for one in merges[-1:])
        or any(readings.lacks_past(one, new) for one in coming)
    )
    logged = set[str]().union(*map(readings.logged, maps))
    changes = [(one.before, one.after) for one in new.values() if one.event not in logged]
    changes += _changes_of_maps(ledger, touched, maps, after=settled)
    for before, after in changes:
        if isinstance(after, Source) and (
            before is None or _is_moved(before, after) or (has_lost_map and _alters_branches(before, after))
        ):
            roots.add(after.origin)
    if lost.known:
        ids = {one.target for one in ledger.events() if _is_source(one.target)}
        files |= {one.id for one in ledger.heads(ids).values() if root_of(one)}
    for root in roots:
        where = Compare("origin", "prefix", f"{root}#")
        below = {one.id for one in ledger.select(Selection(descend=True, types=("source",), where=where))}
        has_lost_map |= root not in maps and bool(below)
        files |= below
    unknown = {readings.first_unknown(one, new) for one in new.values() if _alters_branches(one.before, one.after)} - {
        0
    }
    if unknown:
        later = {one.target for one in ledger.events(after=min(unknown)) if _is_source(one.target)}
        files |= {one.id for one in ledger.heads(later).values() if root_of(one)}
    return frozenset(files), has_lost_map


def _changes_of_maps(
    ledger: Ledger, touched: Collection[str], maps: Mapping[str, Sequence[str]], *, after: int
) -> Iterator[tuple[Object | None, Object]]:
    """Yield the revisions of maps that were written here after an event, with those before them."""
    for identity in {one for held in maps.values() for one in held}.intersection(touched):
        events = (one for one in ledger.events_of(identity) if one.seq > after and "revision" in (one.after or {}))
        history = ledger.history(identity)
        since = len(history) - sum(1 for _ in events)
        yield from zip([None, *history][since:], history[since:], strict=False)


def _is_source(identity: str) -> bool:
    return identity.startswith(f"{PREFIXES['source']}:")


def _alters_branches(before: object, after: object) -> bool:
    names = [set(known_branches(one.payload) if isinstance(one, Source) else ()) for one in (before, after)]
    return names[0] != names[1]


def _is_moved(before: object, after: Source) -> bool:
    return isinstance(before, Source) and before.scope != after.scope


def log_name(ledger: Ledger) -> str:
    """Return the name of a log: the id of its first event. Diverged copies share it."""
    first = next(ledger.events(limit=1), None)
    return first.id if first else ""


def entries(
    ledger: Ledger,
    *,
    after: int = 0,
    upto: int | None = None,
    without: Collection[str] = (),
    outgoing: Outgoing | None = None,
) -> Iterator[MergeEntry]:
    """Yield the entries of a ledger's log behind `after` that leave it, and then notices of withheld sources.

    `without`: patches to leave out. `outgoing`: the selection of entries, by default all but private scopes.
    """
    selected = outgoing or Outgoing(ledger)
    events = ledger.events(after=after, limit=None if upto is None else max(upto - after, 0))
    readings = LoggedReadings(maps_held(ledger), ledger.events_of)
    while batch := [*islice((event for event in events if event.patch_id not in without), _BATCH)]:
        changes = ledger.changes(batch[0].seq - 1, batch[-1].seq - batch[0].seq + 1)
        yield from selected.shared(_told_by(batch, changes, ledger, readings))
    yield from selected.notices()


def maps_held(ledger: Ledger) -> Mapping[str, Sequence[str]]:
    """Return the ids of all maps of repositories in a ledger, by origin, whatever their scope and status."""
    ids: dict[str, list[str]] = {}
    where = Compare("kind", "eq", MAP)
    for item in ledger.select(Selection(descend=True, types=("source",), where=where)):
        if isinstance(item, Source):
            ids.setdefault(item.origin, []).append(item.id)
    return ids


def _told_by(
    events: Sequence[AuditEvent], changes: Sequence[Change], ledger: Ledger, readings: LoggedReadings
) -> Iterator[MergeEntry]:
    held: dict[tuple[str, int], Object] = {}
    for change in changes:
        held.update(((item.id, item.revision), item) for item in (change.before, change.after) if item)

    def revision(identity: str, number: int) -> Object | None:
        if (identity, number) not in held and any(key[0] == identity for key in held):
            # A merge may have based a change on a revision other than the previous one here.
            held.update(((item.id, item.revision), item) for item in ledger.history(identity))
        return held.get((identity, number))

    for event in events:
        is_change = event.event_type != MERGED and event.target not in (MERGE, POLICY)
        if is_change and (entry := entry_of(event, revision, readings)):
            yield entry


def difference(left: Ledger, right: Ledger) -> DiffReport:
    """Compare the contents of two ledgers."""
    alike, differences = 0, list[Difference]()
    everything = Selection(descend=True)
    sides = (zip(repeat(side), ledger.select(everything)) for side, ledger in enumerate((left, right)))
    for _, group in groupby(heapq.merge(*sides, key=_id_of), key=_id_of):
        items = dict(group)
        one, other = items.get(0), items.get(1)
        if one and other and same_words(_bare(one), _bare(other)):
            alike += 1
            continue
        shown = one or items[1]
        differences.append(
            Difference(
                id=shown.id,
                title=title_of(shown),
                type=shown.type,
                where="both" if one and other else "left" if one else "right",
                left=one.status if one else "",
                right=other.status if other else "",
            )
        )
    mine, yours = (_changes(ledger) for ledger in (left, right))
    return DiffReport(
        alike=alike,
        differences=tuple(differences),
        common=len(mine & yours),
        left_only=len(mine - yours),
        right_only=len(yours - mine),
    )


def _id_of(one: tuple[int, Object]) -> str:
    return one[1].id


def _changes(ledger: Ledger) -> set[str]:
    return {_change_of(event) for event in ledger.events() if event.target not in (MERGE, POLICY) and _is_change(event)}


def _is_change(event: AuditEvent) -> bool:
    """Return whether an event records a change, and not a state that a merge folded."""
    return event.merged is None or "event" in event.merged


def _change_of(event: AuditEvent) -> str:
    """Return the id of the event that first recorded a change, in any space."""
    return str((event.merged or {}).get("event", event.id))


def _bare(item: Object) -> Object:
    if not isinstance(item, Source):
        return item
    segments = tuple(segment.model_copy(update={"position": 0}) for segment in item.segments)
    return item.model_copy(update={"segments": segments})


def replace_tool(by: Author) -> Author:
    """Return the author of a merge."""
    return by.model_copy(update={"tool": by.tool or TOOL})


def _opened(place: str | Address, closing: ExitStack) -> Ledger:
    settings = replace(Settings.read(), anchor="", policy="")
    opening = Opening(settings.space_address(place), settings, author(None, "user", settings), create=False)
    stores = wiring.open_stores(opening)
    closing.callback(stores.close)
    return stores.ledger

"""The log in words: one line for each record, ingest or revert."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, cast

from treering.core.audit import ERASED, LINK_EVENTS, AuditEvent
from treering.core.canonical import parse_time
from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.declarations import is_declaration
from treering.core.errors import NotFound
from treering.core.fencing import code_label
from treering.core.objects import Source
from treering.core.versions import OTHER_PATH, known_branches
from treering.ports.ledger import Head, Ledger
from treering.surfaces.cli.printing import IndentedLine, line, local_time
from treering.surfaces.cli.receipts import change_in_words
from treering.surfaces.python.space import Space
from treering.verbs.catalog import TOOLS
from treering.verbs.envelope import EVERYTHING, Envelope, parse
from treering.verbs.query.recent import (
    JOINED,
    RECENT,
    RecentChange,
    RecentInput,
    RecentReport,
    changes_back,
    erasure_in_words,
    merge_in_words,
    written_change,
)
from treering.verbs.reading import DayOptions

LINES = 30
"""Lines of the log without --limit."""
_SAME_INGEST_SECONDS = 60
"""Batches of one ingest that are written within this time are one line."""
_TITLE_CHARS = 200
_COMMIT_CHARS = 7
_INGEST = "Ingest "
_NOTES = "inline content"
"""The target of an ingest of texts, which have no place."""
_FILES = {"created": "Read", "updated": "Updated", "moved": "Moved", "archived": "Removed"}


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One line of the log: a change of one object, the files of one ingest, or an erasure."""

    at: datetime
    actor: str
    what: str
    title: str
    place: str
    """The id that the line's number refers to."""
    patches: tuple[str, ...]
    reason: str


def recent(space: Space, given: Mapping[str, Any], scope: str) -> RecentReport:
    """Return changes at and below a scope, newest first."""
    return space.query("recent", scope=scope, input=given, options={"descend": True})


def events(space: Space, given: Mapping[str, Any], scope: str, *, until_enough: int) -> Sequence[LoggedEvent]:
    """Return the first events of the log, newest first."""
    return list(islice(_events(space.engine.ledger, _changes(space, given, scope)), until_enough))


def render_events(
    found: Sequence[LoggedEvent], *, fenced: bool, numbered: bool = False, verbose: bool = False
) -> Iterator[IndentedLine]:
    """Show events. `numbered`: with the numbers that work as ids in the next command."""
    if not found:
        yield line("No changes.")
    width = len(str(len(found))) if numbered else 0
    for number, one in enumerate(found, start=1):
        title = (code_label if fenced else one_line)(one.title, most=_TITLE_CHARS) if one.title else ""
        yield line(
            f"{number:>{width}}  " if numbered else "",
            (f"{local_time(one.at)}  ", "dim"),
            f"{one.what}: " if title else one.what,
            (title, "bold"),
            (f"  {one_line(one.actor)}", "dim"),
            hang=width + 2 if numbered else 0,
        )
        if verbose:
            why = f": {one_line(one.reason, most=_TITLE_CHARS)}" if one.reason else ""
            yield line((f"{one.place}  {', '.join(one.patches)}{why}", "dim"), indent=width + 2)


def _changes(space: Space, given: Mapping[str, Any], scope: str) -> Iterator[tuple[AuditEvent, Head]]:
    """Return all changes except changes of links, which come with the linked objects."""
    envelope = parse(Envelope, {"scope": scope, "input": given, "options": {"descend": True}}, where="call")
    call, checked, options = TOOLS["query"].prepare(space.engine, RECENT, envelope, granted=EVERYTHING)
    changes = changes_back(call, cast("RecentInput", checked), cast("DayOptions", options))
    return ((event, head) for event, head in changes if event.event_type not in LINK_EVENTS)


def _events(ledger: Ledger, changes: Iterator[tuple[AuditEvent, Head]]) -> Iterator[LoggedEvent]:
    """Yield events: one for the files of an ingest and for the objects of a merge or erasure, else one per change."""
    ingest: _Ingest | None = None
    patch: list[RecentChange] = []  # the entries that a patch merged or erased
    followed: set[str] = set()
    for change, head in changes:
        if patch and change.patch_id != patch[0].patch_id:
            yield from _of_patch(patch)
            patch = []
        if change.event_type in (JOINED, ERASED):
            patch.append(written_change(change, head))
            continue
        is_read = change.reason.startswith(_INGEST)
        if ingest and not (is_read and ingest.contains(change)):
            yield ingest.event(ledger)
            ingest = None
        if is_read:
            ingest = ingest or _Ingest(change, change.timestamp)
            ingest.add(change, head)
        if change.reason == OTHER_PATH:
            followed.add(head.id)
        is_moved = change.event_type == "evidence_lost" and head.id in followed
        if not is_moved and (not is_read or _is_of_confirmed(change, head)):
            yield from _of_object(change, head)
    yield from _of_patch(patch)
    if ingest:
        yield ingest.event(ledger)


def _is_of_confirmed(change: AuditEvent, head: Head) -> bool:
    """Return whether an ingest changed confirmed knowledge. Candidates are not listed in addition to their files."""
    status = next((str(one["status"]) for one in (change.before, change.after) if one and "status" in one), head.status)
    return head.type == "knowledge" and change.event_type != "created" and status != "candidate"


def _of_patch(changes: Sequence[RecentChange]) -> Iterator[LoggedEvent]:
    """Yield an event for the entries that a patch merged, and one for the objects that it erased."""
    for event, in_words in ((JOINED, merge_in_words), (ERASED, erasure_in_words)):
        entries = [one for one in changes if one.event == event]
        if entries:
            first, what = entries[0], in_words(entries)
            what = what[:1].upper() + what[1:]
            place = first.id if event == JOINED else first.patch_id  # no command can show an erased object
            yield LoggedEvent(parse_time(first.time), first.actor, what, "", place, (first.patch_id,), first.reason)


@dataclass(slots=True)
class _Ingest:
    """The changes of one ingest, newest first."""

    first: AuditEvent
    oldest: datetime
    files: dict[str, tuple[str, Head]] = field(default_factory=dict)
    """The first event of each file, by its id."""
    map: str = ""
    """The id of the map of a repository, which is no file."""
    patches: dict[str, None] = field(default_factory=dict)
    start: int = 0
    """The sequence number of its oldest change."""

    def contains(self, change: AuditEvent) -> bool:
        same = (change.reason, change.actor) == (self.first.reason, self.first.actor)
        return same and (self.oldest - change.timestamp).total_seconds() < _SAME_INGEST_SECONDS

    def add(self, change: AuditEvent, head: Head) -> None:
        self.oldest, self.start = change.timestamp, change.seq
        self.patches[change.patch_id] = None
        if head.type != "source":
            return
        if head.kind == "repo":
            self.map = head.id
        else:
            self.files[head.id] = (change.event_type, head)

    def event(self, ledger: Ledger) -> LoggedEvent:
        commit = _commit_read(ledger, self.map, after=self.start - 1, until=self.first.seq) if self.map else ""
        counts = Counter(event for event, _ in self.files.values())
        target = self.first.reason.removeprefix(_INGEST)
        thing, origin = ("text", "") if target == _NOTES else ("file", f" ({target})")
        did = ", ".join(
            f"{word.lower()} {counted_things(counts[event], thing)}" for event, word in _FILES.items() if counts[event]
        )
        what, title = f"{did or 'read'}{origin}", ""
        if commit and did:
            what = f"{did} {'at' if counts['created'] else 'to'} commit {commit[:_COMMIT_CHARS]}"
        if len(self.files) == 1:
            ((_, head),) = self.files.values()
            what = next((_FILES[one] for one in counts if one in _FILES), "Read")
            title = head.origin.rpartition("#")[2] if "#" in head.origin else head.title
        place = next(iter(self.files), self.first.target)
        what = what[:1].upper() + what[1:]
        first = self.first
        return LoggedEvent(first.timestamp, first.actor, what, title, place, tuple(self.patches), first.reason)


def _of_object(change: AuditEvent, head: Head) -> Iterator[LoggedEvent]:
    # The note of a declaration is not shown in addition to the declared objects.
    if not is_declaration(head.origin):
        status = str((change.after or {}).get("status") or head.status)
        is_proposal = change.event_type == "created" and status == "candidate"
        what = "Proposed" if is_proposal else change_in_words(change.event_type, head._replace(status=status))
        patches = (change.patch_id,)
        yield LoggedEvent(change.timestamp, change.actor, what, head.title, head.id, patches, change.reason)


def _commit_read(ledger: Ledger, identity: str, *, after: int, until: int) -> str:
    """Return the commit of the branch that was read between two events, by a repository's map; else of its first."""
    payloads: list[Mapping[str, Any]] = []
    for sequence in (after, until):
        with suppress(NotFound):
            item = ledger.get(identity, as_of=sequence)
            payloads += [item.payload] if isinstance(item, Source) else []
    if len(payloads) == 2:
        for name, commit in known_branches(payloads[1]).items():
            if commit != known_branches(payloads[0]).get(name):
                return commit
    return str(payloads[-1].get("commit") or "") if payloads else ""

"""The tree of a read: a branch, a commit, or the caller's work tree, and which objects are current in it.

Content of another branch is never shown as current: the ledger of a call is limited to the tree (`ScopedLedger`), and
an object of another branch that is named by id is shown with its branches. Lines that changed in the work tree since
they were read are flagged (`docs/decisions/0057`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from treering.core.characters import label
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import EvidenceRef, Lines, Segment, any_place_holds, find_lines
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Object, Source, title_of
from treering.core.patch import Link
from treering.core.policy import is_current
from treering.core.scope import ROOT, Boundary
from treering.core.screening import redact
from treering.core.versions import (
    DETACHED,
    HeldContents,
    TreeView,
    branches_with,
    contents_with,
    is_blob,
    known_branches,
    places_of_branches,
)
from treering.ports.adapter import CheckedOut, LyingFile, TreeLookup
from treering.ports.ledger import Altered, Head, Ledger, ObjectRequest, ObjectsFound, Selection
from treering.verbs.edited_lines import fate_of_lines
from treering.verbs.engine import Engine, no_trees
from treering.verbs.scoped_ledger import ReadingLedger, ScopedLedger, boundary_of, on_all_branches, whole

if TYPE_CHECKING:
    from treering.retrieval.search.retrieval import Hit

MAX_COMPARED = 50
"""Files of the work tree that are compared for one answer."""
_MIN_COMMIT_CHARS = 7
_COMMIT_CHARS = 12
"""Characters of a commit in messages."""
_MAX_BRANCHES_NAMED = 5
_ELSEWHERE, _NOWHERE = "not on this branch", "not in this tree"
CHANGED = "changed since: "
"""The beginning of a note about lines that changed in the work tree since they were read."""
RENAMED = "renamed to "
"""The beginning of a note about a passage whose file was renamed in the work tree, but has the same lines."""
REPLACED = "superseded by "
"""The beginning of a note about knowledge that other knowledge replaced in the tree."""
_MAP = "repo"
_MAX_EVENTS = 64
"""Events after which the maps are searched among all objects again."""
_LAST: WeakKeyDictionary[Any, tuple[tuple[Boundary, str] | None, int, Sequence[Source]]] = WeakKeyDictionary()
"""By index of an open space: the scope, the sequence number and the maps that were read last; each read needs them."""
_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class AskedTree:
    """The tree of a read. `here`: the caller's work tree, whose files are compared with the stored ones."""

    view: TreeView
    here: CheckedOut | None = None
    lookup: TreeLookup | None = None
    warnings: tuple[str, ...] = ()
    read_at: str = ""
    """The commit that the work tree is compared with to find renamed files."""
    _lying: dict[str, LyingFile | None] = field(default_factory=dict)
    _moved: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def segment_here(self, origin: str, segment: Segment, fingerprint: str = "") -> Segment:
        """Return a segment with the lines that its text has in the work tree, then without a commit.

        It is unchanged if the file does not contain its text, or has it at the same lines. If the `fingerprint` of its
        source is given, files that have not changed are not searched.
        """
        place = segment.locator
        if self.here is None or not isinstance(place, Lines) or not self.view.has(origin):
            return segment
        path = self.view.path(origin)
        lying = self._file(path)
        contents = self.view.contents(origin, fingerprint) if fingerprint else None
        if lying is None or lying.data is None or (contents and is_blob(contents, lying.contents)):
            return segment
        # Secrets are rare, and to look for them takes most of the time.
        lines = find_lines(segment.excerpt, _decoded(lying.data), near=place.start) or find_lines(
            segment.excerpt, self._text(path, lying), near=place.start
        )
        if lines is None or lines[0] == place.start:
            return segment
        here = place.model_copy(update={"start": lines[0], "end": lines[1], "commit": None})
        return segment.model_copy(update={"locator": here})

    def source_here(self, source: Source) -> Source:
        """Return a file with the lines that its segments have in the work tree, as `segment_here`."""
        segments = tuple(self.segment_here(source.origin, one, source.fingerprint) for one in source.segments)
        return source if segments == source.segments else source.model_copy(update={"segments": segments})

    def note_of_passage(self, head: Head, segment: Segment | None) -> str:
        """Return how a passage changed in the work tree since it was read; empty if it did not."""
        if segment is None or not self.view.has(head.origin):
            return ""
        return self._changed(head, segment, segment.excerpt) or self.note_of_place(head.origin)

    def note_of_place(self, origin: str) -> str:
        """Return what became of the path of a file in the work tree; empty if the file is there."""
        if self.here is None or origin == self.view.root or not self.view.has(origin):
            return ""
        path = self.view.path(origin)
        lying = self._file(path)
        if lying is None or lying.data is not None:
            return ""
        now = self._moved_to(path)
        return f"{RENAMED}{now}" if now else "no longer in the work tree"

    def note_of_text(self, source: Source) -> str:
        """Return as of which commit the stored text of a file is if the file differs in the work tree; else empty."""
        origin = source.origin
        contents = self.view.contents(origin, source.fingerprint) if self.view.has(origin) else None
        if self.here is None or origin == self.view.root or not contents:
            return ""
        lying = self._file(self.view.path(origin))
        if lying is None or is_blob(contents, lying.contents):
            return ""
        places = [place for one in source.segments if (there := one.in_contents(contents)) for place in [there.locator]]
        commit = next((one.commit for one in places if isinstance(one, Lines) and one.commit), "")
        known = f"as of commit {commit[:_COMMIT_CHARS]}" if commit else "as read before"
        if lying.data is not None:
            return f"{known}; the file has changed since"
        now = self._moved_to(self.view.path(origin))
        return f"{known}; the file {f'was renamed to {now}' if now else 'no longer exists'}"

    def path_now(self, path: str) -> str:
        """Return the path that a file was renamed to in the work tree; empty if it was not, or there is none."""
        return self.lookup.path_now(self.here, path) if self.here and self.lookup else ""

    def path_before(self, path: str) -> str:
        """Return the path at which a file of the work tree was read before it was renamed; empty if it was not."""
        lying = self._file(path)
        if lying is None or lying.data is None:
            return ""
        return next((old for old, now in self._renames().items() if now == path), "")

    def note_of_source(self, head: Head) -> str:
        """Return the note of a file that is only on other branches; empty if it is in the tree."""
        if self.view.stands(head.origin, head.fingerprint):
            return ""
        held = HeldContents.parse(head.fingerprint)
        return _elsewhere(held.branches_of(held.fingerprints) or ())

    def note_of_knowledge(
        self, item: Knowledge, heads: Mapping[str, Head], segments: Mapping[tuple[str, str], Segment]
    ) -> str:
        """Return the note of knowledge whose evidence is only on other branches, or has changed; else empty."""
        if item.status == "stale" and not any(ref.lost_on for ref in item.evidence_refs):
            return ""  # on every branch
        notes: dict[EvidenceRef, str] = {}

        def is_valid(ref: EvidenceRef) -> bool:
            head, segment = heads[ref.source_id], segments[ref.source_id, ref.segment_id]
            notes[ref] = self._note_of_evidence(ref, head, segment)
            return not notes[ref]

        known = [
            ref for ref in item.evidence_refs if ref.source_id in heads and (ref.source_id, ref.segment_id) in segments
        ]

        def words(ref: EvidenceRef) -> tuple[str, str]:
            return ref.source_id, ref.quote(segments[ref.source_id, ref.segment_id])

        if any_place_holds(known, is_valid):
            return ""
        # Each branch may have the words of a part of a place in another segment.
        here = {words(ref) for ref in known if is_valid(ref)}
        if any_place_holds(known, lambda ref: words(ref) in here):
            return ""
        if changed := next((note for note in notes.values() if note.startswith(CHANGED)), ""):
            return changed
        if _ELSEWHERE not in notes.values():
            return ""
        supporting = (ref for ref in known if ref.role == "supports")
        cited = ((heads[ref.source_id].fingerprint, segments[ref.source_id, ref.segment_id]) for ref in supporting)
        return _elsewhere(branches_with(cited) or ())

    def _note_of_evidence(self, ref: EvidenceRef, head: Head, segment: Segment) -> str:
        """Return what became of evidence in the tree; empty if it is valid, or of no file of the repository."""
        if not self.view.has(head.origin):
            return ""
        if self.view.lost(head.origin, head.fingerprint, ref.lost_on):
            return self._lost(head, segment, ref.quote(segment))
        if head.status != "active":
            return _NOWHERE
        contents = self.view.contents(head.origin, head.fingerprint)
        if segment.place_in_contents(contents):
            return self._changed(head, segment, ref.quote(segment))
        # Lines that the default branch lost are on no branch that begins there now.
        is_lost = self.view.leading in ref.lost_on
        return self._lost(head, segment, ref.quote(segment)) if is_lost else _ELSEWHERE

    def _lost(self, head: Head, segment: Segment, quote: str) -> str:
        """Return the note of lines that the tree lost: their replacement if they were edited and the file is here."""
        path, lying = self._current_file(head)
        text = self._text(path, lying) if lying else ""
        return f"{CHANGED}{fate_of_lines(path, segment.excerpt, quote, text)}"

    def _current_file(self, head: Head) -> tuple[str, LyingFile | None]:
        """Return the path that a file has in the work tree, and its contents there."""
        path = self.view.path(head.origin)
        lying = self._file(path)
        if lying and lying.data is None and (now := self._moved_to(path)):
            return now, self._file(now)
        return path, lying

    def _changed(self, head: Head, segment: Segment, quote: str) -> str:
        if self.here is None or head.origin == self.view.root:
            return ""
        path, lying = self._current_file(head)
        if lying is None:
            return ""
        if lying.data is None:
            return f"{CHANGED}{path} is no longer in the work tree"
        contents = self.view.contents(head.origin, head.fingerprint)
        if contents and is_blob(contents, lying.contents):
            return ""
        if isinstance(segment.locator, Lines):
            text = self._text(path, lying)
            if find_lines(quote, text) or self._is_only_older(path, lying):
                return ""
            return f"{CHANGED}{fate_of_lines(path, segment.excerpt, quote, text)}"
        return f"{CHANGED}{path} is a different file in the work tree now"

    def _is_only_older(self, path: str, lying: LyingFile) -> bool:
        """Return whether a file differs only because the work tree is behind the commit that was read."""
        blob = self.view.changed.get(path)
        if not (blob and self.here and self.lookup and is_blob(lying.contents, blob)):
            return False
        return path not in self.lookup.changed(self.here.place, self.here.commit, since=self.read_at)

    def _moved_to(self, path: str) -> str:
        """Return the path that a file was renamed to since its branch was read; empty if it was not."""
        return self._renames().get(path, "")

    def _renames(self) -> Mapping[str, str]:
        """Return by its old path the path of each file that was renamed since its branch was read."""
        if self.here and self.lookup and self.read_at and self.read_at not in self._moved:
            self._moved[self.read_at] = self.lookup.moved(self.here, since=self.read_at)
        return self._moved.get(self.read_at, {})

    def _text(self, path: str, lying: LyingFile) -> str:
        if path not in self._texts:
            self._texts[path] = text_of(lying.data or b"")
        return self._texts[path]

    def _file(self, path: str) -> LyingFile | None:
        if path not in self._lying and self.here and self.lookup and len(self._lying) < MAX_COMPARED:
            self._lying[path] = self.lookup.lying(self.here, path)
        return self._lying.get(path)


def tree_of(engine: Engine, scope: str, *, at: str = "", past: bool = False) -> AskedTree | None:
    """Return the tree of a read: the one that `at` names, or else the caller's work tree.

    `None` without either, if the space does not know the repository, and for a read of the `past`, which covers all
    branches. Raises `NotFound` for an unknown tree, `InvalidInput` for `at` together with the past.
    """
    if at and past:
        raise InvalidInput(
            "`at` and `as_of` cannot be given together.",
            hint="`at` asks what holds in a tree of the repository now, `as_of` what the space held at a time.",
        )
    if not at and (past or engine.trees is no_trees):
        return None
    maps = maps_of(engine, scope)
    if not maps and not at:
        return None  # without loading git
    lookup = engine.trees()
    here = lookup.here(engine.folder) if lookup else None
    if at:
        return AskedTree(_named(at, maps, here, lookup))
    if here and (found := _read_here(maps, here, lookup)):
        return _of_work_tree(found[0], here, lookup)
    return None


def unread_changes(engine: Engine, scope: str) -> tuple[str, ...]:
    """Return warnings if the caller's work tree has changed since it was read: its commit, and cited lines."""
    tree = tree_of(engine, scope)
    if tree is None:
        return ()
    current = And((Compare("kind", "ne", "fact"), Compare("status", "eq", "active")))
    selection = Selection(scope=scope, descend=True, types=("knowledge",), where=current)
    items = {item.id: item for item in engine.ledger.select(selection, altered={}) if isinstance(item, Knowledge)}
    ledger = on_all_branches(engine.ledger)
    notes = _notes_of_evidence(tree, ledger, items.values())[0] if items else {}
    differing = [items[one] for one, note in notes.items() if note.startswith(CHANGED)]
    # Statements that the branch had lost or replaced when it was read are no news.
    as_read = AskedTree(replace(tree.view, name=tree.view.branch, changed={}, is_later=False))
    known = _notes_of_knowledge(as_read, ledger, [item.id for item in differing], differing)
    changed = [notes[item.id] for item in differing if not known.get(item.id)]
    if not changed:
        return tree.warnings
    those = counted_things(len(changed), "statement")
    what = f"{those} cite{'s' if len(changed) == 1 else ''} lines that have changed since they were read"
    remedy = "treering add ." if tree.warnings else "treering add . --worktree"
    return (*tree.warnings, f"{what} ({changed[0].removeprefix(CHANGED)}). Run: `{remedy}`")


def branch_worked_on(engine: Engine, scope: str) -> str:
    """Return the branch of the work tree asked from, if its repository was read and it is not the default branch."""
    lookup = engine.trees()
    here = lookup.here(engine.folder) if lookup else None
    found = _read_here(maps_of(engine, scope), here, lookup) if here else []
    if here is None or not found or here.branch.startswith(DETACHED):
        return ""
    return "" if here.branch == found[0].payload.get("leading") else here.branch


def in_tree(engine: Engine, scope: str, *, at: str = "") -> Engine:
    """Return an engine that reads the tree of `tree_of`; the same engine if there is none."""
    tree = tree_of(engine, scope, at=at)
    if tree is None:
        return engine
    return replace(engine, ledger=ReadingLedger(engine.ledger, scope=ROOT, descend=True, tree=tree.view))


def hits_here(tree: AskedTree | None, hits: "Sequence[Hit]") -> "tuple[Hit, ...]":
    """Return hits with the lines that their passages have in the work tree, as `AskedTree.segment_here`."""
    if tree is None:
        return tuple(hits)
    return tuple(_hit_here(tree, hit, hit.segment) if hit.segment else hit for hit in hits)


def _hit_here(tree: AskedTree, hit: "Hit", segment: Segment) -> "Hit":
    here = tree.segment_here(hit.state.origin, segment, hit.state.fingerprint)
    return hit if here is segment else replace(hit, segment=here, locator=here.locator)


def notes_of(tree: AskedTree | None, ledger: Ledger, hits: "Sequence[Hit]") -> Mapping[int, str]:
    """Return by key of a hit why it is not current in the tree."""
    if tree is None:
        return {}
    objects = [hit for hit in hits if hit.item]
    items = [hit.item for hit in objects if hit.item]
    object_notes = notes_of_objects(tree, ledger, [hit.state for hit in objects], read=items)
    notes = {
        hit.head.key: object_notes.get(hit.item.id, "") if hit.item else tree.note_of_passage(hit.state, hit.segment)
        for hit in hits
    }
    return {key: note for key, note in notes.items() if note}


def notes_of_objects(
    tree: AskedTree | None, ledger: Ledger, heads: Iterable[Head], *, read: Iterable[Object] = ()
) -> Mapping[str, str]:
    """Return by id why files, nodes and knowledge are not current in the tree.

    `ledger`: the ledger of the call; other branches are looked up, too. `read`: the objects that were read already.
    """
    listed = list(heads)
    if tree is None or not listed:
        return {}
    everywhere = on_all_branches(ledger)
    notes = {one.id: tree.note_of_source(one) for one in listed if one.type == "source"}
    notes |= _notes_of_nodes(tree, everywhere, [one.id for one in listed if one.type == "node"])
    notes |= _notes_of_knowledge(tree, everywhere, [one.id for one in listed if one.type == "knowledge"], read)
    return {identity: note for identity, note in notes.items() if note}


def standing_knowledge(ledger: Ledger, items: Iterable[Knowledge]) -> list[Knowledge]:
    """Return the knowledge that is current in the tree of a ledger."""
    known = list(items)
    view = ledger.tree if isinstance(ledger, ScopedLedger) else None
    if view is None or not known:
        return known
    notes = _notes_of_knowledge(AskedTree(view), on_all_branches(ledger), [one.id for one in known], known)
    return [one for one in known if not notes.get(one.id)]


def _notes_of_nodes(tree: AskedTree, ledger: Ledger, ids: Sequence[str]) -> dict[str, str]:
    """Return the notes of nodes that are only about files of the repository which are not in the tree."""
    if not ids:
        return {}
    (linked,) = ledger.read([ObjectRequest(links=tuple(ids))])
    about = {
        one: [link.source for link in linked.links.get(one, ()) if link.type == "about" and link.target == one]
        for one in ids
    }
    # A node about more files is not specific to a branch.
    about = {one: sources for one, sources in about.items() if len(sources) <= MAX_COMPARED}
    files = ledger.heads(dict.fromkeys(source for sources in about.values() for source in sources))
    notes = dict[str, str]()
    for one, sources in about.items():
        heads = [files[source] for source in sources if source in files]
        of_files = [tree.note_of_source(head) for head in heads if head.status == "active"]
        notes[one] = of_files[0] if of_files and all(of_files) else ""
    return notes


def _notes_of_knowledge(tree: AskedTree, ledger: Ledger, ids: Sequence[str], read: Iterable[Object]) -> dict[str, str]:
    items = {item.id: item for item in read}
    if missing := tuple(one for one in ids if one not in items):
        (more,) = ledger.read([ObjectRequest(objects=missing)])
        items |= more.objects
    based = [item for one in ids if isinstance(item := items.get(one), Knowledge)]
    if not based:
        return {}
    links = tuple(item.id for item in based if item.status not in ("superseded", "archived"))
    notes, linked = _notes_of_evidence(tree, ledger, based, links)
    return notes | _notes_of_replaced(tree, ledger, linked)


def _notes_of_evidence(
    tree: AskedTree, ledger: Ledger, items: Collection[Knowledge], links: tuple[str, ...] = ()
) -> tuple[dict[str, str], Mapping[str, Sequence[Link]]]:
    """Return the notes of knowledge by its evidence, and the requested links, read together."""
    refs = dict.fromkeys((ref.source_id, ref.segment_id) for item in items for ref in item.evidence_refs)
    sources = tuple(dict.fromkeys(source for source, _ in refs))
    (found,) = ledger.read([ObjectRequest(heads=sources, segments=tuple(refs), vanished=True, links=links)])
    notes = {item.id: tree.note_of_knowledge(item, found.heads, found.segments) for item in items}
    absent = [item for item in items if notes[item.id] and _has_no_file(tree.view, item, found)]
    renamed = _under_other_paths(tree.view, ledger, absent, found) if absent else frozenset()
    return {one: "" if one in renamed else note for one, note in notes.items()}, found.links


def _has_no_file(view: TreeView, item: Knowledge, found: ObjectsFound) -> bool:
    heads = [found.heads[ref.source_id] for ref in item.evidence_refs if ref.source_id in found.heads]
    return not any(view.stands(head.origin, head.fingerprint) for head in heads)


def _under_other_paths(
    view: TreeView, ledger: Ledger, items: Sequence[Knowledge], found: ObjectsFound
) -> frozenset[str]:
    """Return the ids of knowledge whose file is in the tree under another path, with the same contents.

    Readings add evidence at that path, unless they ended early or may only propose, or an earlier version made them.
    """
    here: set[str | None] = set()
    for scope in {head.scope for head in found.heads.values() if view.has(head.origin)}:
        states = ledger.sources(scope=scope, root=view.root).items()
        here |= {view.contents(origin, one.fingerprint) for origin, one in states if one.status == "active"}
    return frozenset(
        item.id
        for item in items
        for ref in item.evidence_refs
        if ref.role == "supports"
        and (head := found.heads.get(ref.source_id))
        and (segment := found.segments.get((ref.source_id, ref.segment_id)))
        and not here.isdisjoint(contents_with(head.fingerprint, segment))
    )


def _notes_of_replaced(tree: AskedTree, ledger: Ledger, links: Mapping[str, Sequence[Link]]) -> dict[str, str]:
    """Return the notes of knowledge whose replacement applies in the tree, but not on the first branch.

    Otherwise the knowledge would be superseded, unless a person restored it.
    """
    by = {
        identity: [link.source for link in each if (link.type, link.target) == ("supersedes", identity)]
        for identity, each in links.items()
    }
    wanted = tuple(dict.fromkeys(chain.from_iterable(by.values())))
    if not wanted:
        return {}
    (read,) = ledger.read([ObjectRequest(objects=wanted)])
    new = {one.id: one for one in read.objects.values() if isinstance(one, Knowledge) and is_current(one)}
    first = AskedTree(replace(tree.view, branch=tree.view.leading, name=tree.view.leading, changed={}))
    here, on_first = (
        {one for one, note in _notes_of_evidence(each, ledger, new.values())[0].items() if not is_elsewhere(note)}
        for each in (tree, first)
    )
    here -= on_first
    applied = {old: one for old, each in by.items() for one in each if one in here}
    return {old: f"{REPLACED}{label(title_of(new[one]))}" for old, one in applied.items()}


def text_of(data: bytes) -> str:
    """Return the text of a file as readings store it: without secrets."""
    return redact(_decoded(data)).text


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def is_elsewhere(note: str) -> bool:
    """Return whether a note states that something is only on other branches, or in no tree."""
    return note.startswith((_ELSEWHERE, _NOWHERE))


def _elsewhere(branches: Iterable[str]) -> str:
    named = ", ".join(branches)
    return f"{_ELSEWHERE} ({named})" if named else _NOWHERE


def several_branches(engine: Engine, scope: str) -> tuple[str, ...]:
    """Return a note that an answer covers all branches, if a repository has several."""
    names = dict.fromkeys(
        name
        for one in maps_of(engine, scope)
        if len(known := known_branches(one.payload)) > 1
        for name in sorted(known, key=lambda name: name != one.payload.get("leading"))
    )
    if not names:
        return ()
    listed = ", ".join([*names][:_MAX_BRANCHES_NAMED]) + (" and more" if len(names) > _MAX_BRANCHES_NAMED else "")
    return (f"This covers all branches that were read ({listed}); options.at selects one.",)


def views_of(engine: Engine, scope: str) -> list[TreeView]:
    """Return one tree for each repository that was read: the branch of the caller's work tree, or the first branch."""
    tree = tree_of(engine, scope)
    others = [
        _view(one, _leading(one)) for one in maps_of(engine, scope) if not (tree and tree.view.root == one.origin)
    ]
    # Of a branch that was not read, the files are unknown.
    return [*([replace(tree.view, name=tree.view.branch, changed={})] if tree else []), *others]


def repository_maps(ledger: Ledger, scope: str, *, descend: bool, altered: Altered | None = None) -> Iterator[Source]:
    """Yield the maps of the repositories that were read at a scope, and with `descend` below it."""
    where = And((Compare("kind", "eq", _MAP), Compare("status", "eq", "active")))
    found = ledger.select(Selection(scope=scope, descend=descend, types=("source",), where=where), altered=altered)
    yield from (item for item in found if isinstance(item, Source))


def maps_of(engine: Engine, scope: str) -> Sequence[Source]:
    """Return the maps of the repositories at a scope and below, cached until one is written."""
    ledger = whole(engine.ledger)
    place, sequence = (boundary_of(ledger), scope), ledger.sequence()
    with _LOCK:
        known, after, maps = _LAST.get(engine.index, (None, 0, ()))
    if (known, after) == (place, sequence):
        return maps
    if known != place or _were_written(maps, ledger, after, sequence):
        maps = tuple(repository_maps(ledger, scope, descend=True))
    with _LOCK:
        _LAST[engine.index] = (place, sequence, maps)
    return maps


def _were_written(maps: Sequence[Source], ledger: Ledger, after: int, sequence: int) -> bool:
    """Return whether a map may have been added, changed or removed between two sequence numbers."""
    if not 0 <= sequence - after <= _MAX_EVENTS:
        return True
    targets = {event.target for event in ledger.events(after=after, limit=sequence - after)}
    heads = ledger.heads({*targets, *(one.id for one in maps)})
    return any(heads[one].kind == _MAP for one in targets & heads.keys()) or any(one.id not in heads for one in maps)


def _read_here(maps: Sequence[Source], here: CheckedOut, lookup: TreeLookup | None) -> list[Source]:
    """Return the repositories that were read from this work tree, or else those that it is a clone of.

    After a merge of spaces a repository may be recorded from another clone. All clones have the same first commit.
    """
    if same := [one for one in maps if here.place in places_of_branches(one.payload).values()]:
        return same
    roots = ((one, one.payload.get("root_commit")) for one in maps)
    return [one for one, root in roots if isinstance(root, str) and root and lookup and lookup.commit(here.place, root)]


def _behind(repository: Source, here: CheckedOut, read_at: str, lookup: TreeLookup | None) -> str:
    """Return the warning that a branch was read at another commit, maybe in another clone."""
    place = places_of_branches(repository.payload).get(here.branch, here.place)
    read, is_at = read_at[:_COMMIT_CHARS], here.commit[:_COMMIT_CHARS]
    if place == here.place:
        return f"{here.branch} was read at {read}, and is at {is_at} now: `treering add .`"
    # A path on another computer is of no use here.
    where = place if lookup and lookup.commit(place, read_at) else "another clone"
    return f"{here.branch} was read at {read} in {where}, and is at {is_at} here: git pull, or `treering add .`"


def _of_work_tree(repository: Source, here: CheckedOut, lookup: TreeLookup | None) -> AskedTree:
    known = known_branches(repository.payload)
    same = next((name for name, commit in known.items() if commit == here.commit), None)
    if here.branch in known and (known[here.branch] == here.commit or not same):
        ahead = known[here.branch] != here.commit
        differing = lookup.differing(here.place, known[here.branch], here.commit) if ahead and lookup else None
        later = replace(_view(repository, here.branch), changed=differing or {}, is_later=True)
        warnings = (_behind(repository, here, known[here.branch], lookup),) if ahead else ()
        return AskedTree(later, here, lookup, warnings, read_at=known[here.branch])
    if same:
        return AskedTree(_view(repository, same, here.branch), here, lookup, read_at=here.commit)
    view = _beside(repository, here.branch, here.commit, here.place, lookup)
    unread = f"{here.branch} was not read, so only its changes of cited lines are known. Run: `treering add .`"
    if view is None:
        view = _view(repository, _leading(repository), here.branch)
    elif view.changed and lookup:
        view = replace(view, own=lookup.changed(here.place, here.commit, since=known[view.branch]))
    return AskedTree(view, here, lookup, (unread,), read_at=known[view.branch])


def _beside(repository: Source, name: str, commit: str, place: str, lookup: TreeLookup | None) -> TreeView | None:
    """Return the tree of an unread commit as the difference from a branch that was read."""
    known = known_branches(repository.payload)
    for branch in sorted(known, key=lambda one: one != _leading(repository)):
        changed = lookup.differing(place, known[branch], commit) if lookup and known[branch] and commit else None
        if changed is not None:
            return replace(_view(repository, branch, name), changed=changed)
    return None


def _leading(repository: Source) -> str:
    return str(repository.payload.get("leading") or next(iter(known_branches(repository.payload)), ""))


def _view(repository: Source, branch: str, name: str = "") -> TreeView:
    """Return the tree of a branch that was read. `name`: how it is displayed, if not by its branch."""
    return TreeView(repository.origin, branch, name or branch, leading=_leading(repository))


def _named(at: str, maps: Sequence[Source], here: CheckedOut | None, lookup: TreeLookup | None) -> TreeView:
    """Return the tree of a branch or commit. Raises `NotFound`, or `InvalidInput` if several repositories have it."""
    among = (_read_here(maps, here, lookup) if here else []) or maps
    read = [(one, name) for one in among for name in _matching(at, known_branches(one.payload))]
    if len({one.id for one, _ in read}) > 1:
        raise InvalidInput(
            f"{at!r} is in {len(read)} repositories of this space.",
            hint="Ask from a work tree of one of them, or at a scope that holds one.",
        )
    if read:
        return _view(*read[0], at)
    for one in among:
        for place in places_of_branches(one.payload).values():
            with suppress(OSError):
                commit = lookup.commit(place, at) if lookup else ""
                view = _beside(one, at, commit, place, lookup) if commit else None
                if view:
                    return view
    names = [name for one in among for name in known_branches(one.payload)]
    raise NotFound(
        f"No branch or commit {at!r} is known here.",
        hint=f"Known: {', '.join(names)}. Others are read by `treering add .`." if names else "Ingest a repository.",
    )


def _matching(at: str, known: Mapping[str, str]) -> list[str]:
    if at in known:
        return [at]
    return [name for name, commit in known.items() if len(at) >= _MIN_COMMIT_CHARS and commit.startswith(at)][:1]

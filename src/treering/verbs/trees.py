"""What holds in the tree that a question is asked from, or about: a branch, a commit, or files as they lie now.

What stands on another branch is never shown as current: passages of it are left out by the ledger (`Reach.tree`), and
knowledge is shown with the branches its lines stand on. What was changed in the work tree since it was read is said at
the result (`docs/decisions/0057`).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import Lines, Segment, find_lines
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Object, Source
from treering.core.screening import redact
from treering.core.versions import HeldContents, TreeView, is_blob, known_branches
from treering.ports.adapter import CheckedOut, LyingFile, TreeLookup
from treering.ports.ledger import Head, Ledger, ObjectRequest, ObjectsFound, Selection
from treering.retrieval.search.retrieval import Hit
from treering.verbs.engine import Engine
from treering.verbs.scoped_ledger import whole

MOST_READ = 50
"""Files of the work tree that are compared for one answer."""
_SHORTEST = 7  # characters of a commit that name it
_SHOWN = 12
_ELSEWHERE = "not on this branch"


@dataclass(frozen=True, slots=True)
class AskedTree:
    """The tree of an answer. `here` is the work tree it is asked from, where its files are compared too."""

    view: TreeView
    here: CheckedOut | None = None
    lookup: TreeLookup | None = None
    warnings: tuple[str, ...] = ()
    _lying: dict[str, LyingFile | None] = field(default_factory=dict)

    def note_of_passage(self, head: Head, segment: Segment | None) -> str:
        """Say what has become of a passage in the work tree since it was read; empty where it stands."""
        if segment is None or not self.view.has(head.origin):
            return ""
        return self._changed(head, segment)

    def note_of_knowledge(
        self, item: Knowledge, heads: Mapping[str, Head], segments: Mapping[tuple[str, str], Segment]
    ) -> str:
        """Say where knowledge stands that does not stand in the tree, or what became of its lines; else empty."""
        elsewhere: dict[str, None] = {}
        changed = ""
        for ref in item.evidence_refs:
            head, segment = heads.get(ref.source_id), segments.get((ref.source_id, ref.segment_id))
            if ref.role != "supports" or head is None or segment is None:
                continue
            if not self.view.has(head.origin):
                return ""
            if head.status == "active" and segment.place_in_contents(self.view.contents(head.origin, head.fingerprint)):
                if not (note := self._changed(head, segment)):
                    return ""
                changed = changed or note
            elsewhere |= dict.fromkeys(_branches(head, segment))
        if changed:
            return changed
        return f"{_ELSEWHERE} ({', '.join(elsewhere)})" if elsewhere else ""

    def _changed(self, head: Head, segment: Segment) -> str:
        if self.here is None or head.origin == self.view.root:
            return ""
        path = self.view.path(head.origin)
        lying = self._file(path)
        if lying is None:
            return ""
        if lying.data is None:
            return f"changed since: {path} is not in the work tree any more"
        contents = self.view.contents(head.origin, head.fingerprint)
        if contents and is_blob(contents, lying.contents):
            return ""
        if isinstance(segment.locator, Lines):
            text = redact(lying.data.decode("utf-8", "replace").replace("\r\n", "\n")).text
            return "" if find_lines(segment.excerpt, text) else f"changed since: these lines of {path} are gone"
        return f"changed since: {path} is another file in the work tree now"

    def _file(self, path: str) -> LyingFile | None:
        if path not in self._lying and self.here and self.lookup and len(self._lying) < MOST_READ:
            self._lying[path] = self.lookup.lying(self.here, path)
        return self._lying.get(path)


def tree_of(engine: Engine, scope: str, *, at: str, past: bool) -> AskedTree | None:
    """Return the tree that a read is about: the one `at` names, else the work tree it is asked from.

    `None` where neither is told of, or the space does not know the repository, and for a read of the `past` of the
    space, which is shown as it stood. Raises `NotFound` for a tree that nobody knows, `InvalidInput` for `at` and the
    past together.
    """
    if at and past:
        raise InvalidInput(
            "`at` and `as_of` cannot be given together.",
            hint="`at` asks what holds in a tree of the repository now, `as_of` what the space held at a time.",
        )
    lookup = engine.trees()
    here = lookup.here() if lookup and not past else None
    if not at and here is None:
        return None
    maps = _maps(whole(engine.ledger), scope)
    if at:
        return AskedTree(_named(at, maps, here, lookup))
    if here and (found := _read_here(maps, here, lookup)):
        return _of_work_tree(found[0], here, lookup)
    return None


def notes_of(tree: AskedTree | None, ledger: Ledger, hits: Sequence[Hit]) -> Mapping[int, str]:
    """Return by the keys of hits what is to be said of those that do not hold in the tree as they are shown."""
    if tree is None:
        return {}
    told = notes_of_knowledge(tree, ledger, (hit.item for hit in hits if hit.item))
    notes = {
        hit.head.key: told.get(hit.item.id, "") if hit.item else tree.note_of_passage(hit.state, hit.segment)
        for hit in hits
    }
    return {key: note for key, note in notes.items() if note}


def notes_of_knowledge(tree: AskedTree, ledger: Ledger, items: Iterable[Object]) -> Mapping[str, str]:
    """Return by id what is to be said of knowledge that does not hold in the tree."""
    asked = [item for item in items if isinstance(item, Knowledge) and item.evidence_refs]
    refs = dict.fromkeys((ref.source_id, ref.segment_id) for item in asked for ref in item.evidence_refs)
    if not refs:
        return {}
    sources = tuple(dict.fromkeys(source for source, _ in refs))
    (found,) = ledger.read([ObjectRequest(heads=sources, segments=tuple(refs), vanished=True)])
    notes = {item.id: tree.note_of_knowledge(item, found.heads, found.segments) for item in asked}
    notes = {identity: note for identity, note in notes.items() if note}
    elsewhere = [item for item in asked if notes.get(item.id, "").startswith(_ELSEWHERE)]
    renamed = _under_other_paths(tree.view, ledger, elsewhere, found) if elsewhere else frozenset()
    return {identity: note for identity, note in notes.items() if identity not in renamed}


def _under_other_paths(
    view: TreeView, ledger: Ledger, items: Sequence[Knowledge], found: ObjectsFound
) -> frozenset[str]:
    """Return the ids of knowledge whose file stands in the tree under another path, with the same contents."""
    scopes = {head.scope for head in found.heads.values() if view.has(head.origin)}
    here: set[str | None] = set()
    for scope in scopes:
        states = ledger.sources(scope=scope, root=view.root).items()
        here |= {view.contents(origin, one.fingerprint) for origin, one in states if one.status == "active"}
    return frozenset(
        item.id
        for item in items
        for ref in item.evidence_refs
        if ref.role == "supports"
        and (head := found.heads.get(ref.source_id))
        and (segment := found.segments.get((ref.source_id, ref.segment_id)))
        and not here.isdisjoint(_contents(head, segment))
    )


def _contents(head: Head, segment: Segment) -> tuple[str, ...]:
    return tuple(one.contents for one in segment.places) or HeldContents.parse(head.fingerprint).fingerprints


def _branches(head: Head, segment: Segment) -> tuple[str, ...]:
    return HeldContents.parse(head.fingerprint).branches_of(_contents(head, segment)) or ()


def _maps(ledger: Ledger, scope: str) -> list[Source]:
    where = And((Compare("kind", "eq", "repo"), Compare("status", "eq", "active")))
    found = ledger.select(Selection(scope=scope, descend=True, types=("source",), where=where))
    return [item for item in found if isinstance(item, Source)]


def _places(repository: Source) -> dict[str, str]:
    """Return where the branches of a repository were read, by their names."""
    told = repository.payload.get("branches")
    named = told.items() if isinstance(told, Mapping) else ()
    return {one["place"]: name for name, one in named if isinstance(one, Mapping) and one.get("place")}


def _read_here(maps: Sequence[Source], here: CheckedOut, lookup: TreeLookup | None) -> list[Source]:
    """Return the repositories that were read where the work tree lies, else those it is another clone of.

    After a merge of spaces a repository may be told of as somebody else's clone. All have one first commit.
    """
    if found := [one for one in maps if here.place in _places(one)]:
        return found
    roots = ((one, one.payload.get("root_commit")) for one in maps)
    return [one for one, root in roots if isinstance(root, str) and root and lookup and lookup.commit(here.place, root)]


def _of_work_tree(repository: Source, here: CheckedOut, lookup: TreeLookup | None) -> AskedTree:
    known = known_branches(repository.payload)
    same = next((name for name, commit in known.items() if commit == here.commit), None)
    if here.branch in known:
        ahead = known[here.branch] != here.commit
        told = f"{here.branch} was read at {known[here.branch][:_SHOWN]}, and is at {here.commit[:_SHOWN]} now"
        return AskedTree(
            TreeView(repository.origin, here.branch, here.branch),
            here,
            lookup,
            (f"{told}: treering ingest.",) if ahead else (),
        )
    if same:
        return AskedTree(TreeView(repository.origin, same, here.branch), here, lookup)
    view = _beside(repository, here.branch, here.commit, here.place, lookup)
    unread = f"{here.branch} was not read: what it alone has is not known. treering ingest reads what differs."
    if view is None:
        leading = str(repository.payload.get("leading") or next(iter(known)))
        view = TreeView(repository.origin, leading, here.branch)
    return AskedTree(view, here, lookup, (unread,))


def _beside(repository: Source, name: str, commit: str, place: str, lookup: TreeLookup | None) -> TreeView | None:
    """Return the tree of a commit that was not read, by what differs from a branch that was."""
    known = known_branches(repository.payload)
    leading = repository.payload.get("leading")
    for branch in sorted(known, key=lambda one: one != leading):
        changed = lookup.differing(place, known[branch], commit) if lookup and known[branch] and commit else None
        if changed is not None:
            return TreeView(repository.origin, branch, name, changed)
    return None


def _named(at: str, maps: Sequence[Source], here: CheckedOut | None, lookup: TreeLookup | None) -> TreeView:
    """Return the tree that a branch or a commit names. Raises `NotFound`, `InvalidInput` where several have it."""
    among = (_read_here(maps, here, lookup) if here else []) or maps
    read = [(one, name) for one in among for name in _matching(at, known_branches(one.payload))]
    if len({one.id for one, _ in read}) > 1:
        raise InvalidInput(
            f"{at!r} is in {len(read)} repositories of this space.",
            hint="Ask from a work tree of one of them, or at a scope that holds one.",
        )
    if read:
        return TreeView(read[0][0].origin, read[0][1], at)
    for one in among:
        for place in _places(one):
            with suppress(OSError):
                commit = lookup.commit(place, at) if lookup else ""
                view = _beside(one, at, commit, place, lookup) if commit else None
                if view:
                    return view
    names = [name for one in among for name in known_branches(one.payload)]
    raise NotFound(
        f"No branch or commit {at!r} is known here.",
        hint=f"Known: {', '.join(names)}. Others are read by `treering ingest`." if names else "Ingest a repository.",
    )


def _matching(at: str, known: Mapping[str, str]) -> list[str]:
    if at in known:
        return [at]
    return [name for name, commit in known.items() if len(at) >= _SHORTEST and commit.startswith(at)][:1]

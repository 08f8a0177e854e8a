"""The adapter for git repositories: reads the files of one commit, or of the work tree."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, TreeringError
from treering.core.evidence import moves_by_contents
from treering.core.secrets.redaction import redact
from treering.core.versions import GIT_BLOB, SEVERAL, HeldContents, known_branches, places_of_branches
from treering.extensions.code.repository.change_statistics import changed_together, often_changed, telling_commits
from treering.extensions.code.repository.contents import RepositoryContents, TreeEntry
from treering.extensions.code.repository.git_objects import CommitFiles
from treering.extensions.code.repository.repo_map import RepoFacts, RepoHistory, draw_map, key_files
from treering.extensions.code.repository.repo_selection import (
    Attributes,
    FileReader,
    RepoItem,
    RepoSelection,
    RepoTerrain,
    parse_attributes,
    parse_selection,
    snapshot,
)
from treering.extensions.code.repository.work_trees import read_lying
from treering.ports.adapter import (
    AlreadyRead,
    BranchRead,
    Failed,
    FileAccess,
    Reading,
    ReadLimits,
    Renamed,
    RootNodes,
    RootRead,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)
from treering.ports.format import Formats
from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import is_test_path
from treering.sources.drafts import Drafting, FileToDraft
from treering.sources.formats import built_in_formats, over_limit
from treering.sources.git.identity import (
    CommitRelation,
    RepositoryIdentity,
    SettledRepository,
    detached_trees,
    git_fingerprint,
    known_by_path,
    names_below,
    renames,
)
from treering.sources.git.repository import blob_id
from treering.sources.reading.access import AnyFile
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import (
    OwnFilesBelow,
    own_files_below,
    own_manifests,
    place_in,
)

_MAP_VERSION = 8
_LATEST_COMMITS = 500
"""Commits used for the statistics of changed files."""
_TELLING_COMMITS = 2_000
"""Commits whose subjects describe files; chosen among half and twice the number."""
_MAX_ATTRIBUTES = 100_000
_MAX_COMPARED_BYTES = 20_000_000
_LFS = b"version https://git-lfs.github.com/spec/"
_KINDS = {
    "symlink": "a symbolic link; links are not followed",
    "submodule": "another repository (a submodule); read it by itself",
}


class RepoAdapter:
    """Reads a git repository: first its map, then gone files, then a result per file.

    The map comes first, because files belong to its modules, and because it shows first what the repository is.
    Options: `commit` (default HEAD), `worktree` (read the current files; changed ones have no commit), `subfolder`,
    `include`, `exclude` (globs as in `.gitignore`), `redact_secrets`. A file whose git object is known is not read
    again. A narrower selection does not affect other files. Every opened file, including git objects, must be allowed
    by `access` (default: all).
    """

    def __init__(self, formats: Formats | None = None, *, access: FileAccess | None = None) -> None:
        self._formats = formats or built_in_formats()
        self._access = access or AnyFile()

    @classmethod
    def for_space(cls, formats: Formats, access: FileAccess) -> "RepoAdapter":
        """Return the adapter of a space."""
        return cls(formats, access=access)

    def origin(self, target: str) -> str:
        """Return `repo:` and the remote's address without credentials, or the absolute path without a remote.

        A repository that a space knows by another origin, from its earlier location, retains that one or is renamed.
        """
        return RepositoryIdentity(self._open(target), self._access).origin

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Count the files `read` will report, and the map."""
        return 1 + len(self._plan(target, AlreadyRead(), ReadLimits(), options).selected)

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield the map, gone files, and one result per selected file.

        Raises `InvalidInput` for a folder in no repository, a subfolder without files or a bad option, `NotFound` for
        an unknown commit, `Denied` if a part of the repository may not be read, `Unavailable` if git fails.
        """
        return _readings(self._plan(target, known, limits, options))

    def _plan(self, target: str, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]) -> "_Plan":
        reader = FileReader(self._formats, limits)
        return _Plan.make(self._open(target), self._access, known, reader, options)

    def _open(self, target: str) -> RepositoryContents:
        try:
            return RepositoryContents.open(target, self._access)
        except InvalidInput as error:
            hint = 'Use mode "path" to read a folder without git, or run `git init` there.'
            raise InvalidInput(error.message, hint=hint, details=error.details) from error


@dataclass(frozen=True)
class _Plan:
    """The input of one reading."""

    repository: RepositoryContents
    identity: RepositoryIdentity
    settled: SettledRepository
    commit: str | None
    items: Sequence[RepoItem]
    selection: RepoSelection
    known: AlreadyRead
    renamed: Mapping[str, str]
    reader: FileReader
    branch: BranchRead
    held: Mapping[str, frozenset[str]]
    """By origin, all contents of a file in the ledger, if there are several."""

    @classmethod
    def make(
        cls,
        repository: RepositoryContents,
        access: FileAccess,
        known: AlreadyRead,
        reader: FileReader,
        options: Mapping[str, Any],
    ) -> "_Plan":
        identity = RepositoryIdentity(repository, access)
        selection = parse_selection(options, prefix=repository.prefix)
        commit = repository.resolve(selection.commit) if selection.commit else repository.head()
        entries = list(repository.entries(commit)) if commit else []
        items = snapshot(repository, commit, entries, selection, reader)
        settled = identity.settle(known.repositories())
        known, renamed = _by_todays_origins(known, identity, settled, items)
        branch = _branch_read(repository, identity, settled, commit, selection, entries)
        known, held = _on_branch(known, branch)
        plan = cls(repository, identity, settled, commit, items, selection, known, renamed, reader, branch, held)
        if selection.folder and not plan.selected and not plan.knows_folder():
            raise InvalidInput(
                f"The folder {selection.folder!r} has no selected files{(f' at {commit[:12]}' if commit else '')}.",
                hint="If its files are not committed, read the work tree: mode path (`treering ingest FOLDER --mode "
                "path`). Otherwise check `subfolder`, `include` and `exclude`, which are relative to the "
                "target.",
            )
        return plan

    @property
    def root(self) -> str:
        return self.settled.root

    @cached_property
    def read_elsewhere(self) -> tuple[CommitRelation, str, str] | None:
        """The relation of the branch to the commit at which another clone read it, that commit, and the clone's path.

        `None` if no other clone read it, and if the caller requested a commit.
        """
        branch, here = self.branch.branch, self.branch.commit
        known = known_branches(self.branch.known).get(branch)
        place = places_of_branches(self.branch.known).get(branch)
        is_named = self.selection.commit not in (None, branch)
        if is_named or branch not in self.branch.heads or not known or place in (None, self.branch.place):
            return None
        return None if known == here else (self.identity.relation(here, known, str(place)), known, str(place))

    @cached_property
    def selected(self) -> list[RepoItem]:
        return [item for item in self.items if self.selection.takes(item.entry.path)]

    @cached_property
    def attributes(self) -> Attributes:
        marked = [item for item in self.items if _is_attributes(item.entry)]
        text = next((data for _, data in self.contents(marked) if data), b"")
        return parse_attributes(text.decode("utf-8", "replace"))

    @cached_property
    def written(self) -> OwnFilesBelow:
        """The pages among its files that Treering wrote."""
        manifests = own_manifests(item.entry.path for item in self.items)
        files = [item for item in self.items if item.entry.path in manifests and item.entry.kind == "file"]
        return own_files_below({item.entry.path: data for item, data in self.contents(files) if data} if files else {})

    @cached_property
    def committed_before(self) -> frozenset[str]:
        """The paths of the commit read last, if the repository still has it."""
        try:
            commit = self.repository.resolve(self.known.commit or "")
            return frozenset(entry.path for entry in self.repository.entries(commit))
        except TreeringError:
            return frozenset()

    @cached_property
    def own(self) -> list[RepoItem]:
        """The files in the map: all that are neither generated nor foreign."""
        return [item for item in self.items if item.entry.kind == "file" and not _aside(self, item)]

    @cached_property
    def slug(self) -> str:
        """The identifier in its nodes, which stays the same if the repository is renamed or moved."""
        known = self.settled.known
        name = known.title if known else _repo_name(self.repository, self.repository.remote())
        slug: str = (known.payload if known else {}).get("slug") or name.lower().replace("/", "-")
        return slug

    @cached_property
    def terrain(self) -> RepoTerrain:
        return RepoTerrain(self.slug, [item.entry for item in self.own])

    @cached_property
    def moves(self) -> Mapping[str, str | None]:
        """The new origin of each origin that was removed from the branch, if it is known."""
        present = {self.origin(item.entry.path) for item in self.items}
        below = (origin for origin in self.known.fingerprints if origin.startswith(self.origin("")))
        gone = [origin for origin in below if origin not in present and not _is_uncommitted(self, origin)]
        moves = _moves(self, gone) if gone else {}
        return {origin: moves.get(origin) for origin in gone}

    @cached_property
    def arrivals(self) -> frozenset[str]:
        """The origins that files moved to, which are read even if they are known."""
        return frozenset(filter(None, self.moves.values()))

    def is_known(self, origin: str, fingerprint: str) -> bool:
        """Return whether the ledger has these contents of a file, for any branch."""
        is_stored = self.known.fingerprints.get(origin) == fingerprint or fingerprint in self.held.get(origin, ())
        return is_stored and origin not in self.arrivals

    def knows_folder(self) -> bool:
        start = self.origin(f"{self.selection.folder}/")
        return any(origin.startswith(start) for origin in self.known.fingerprints)

    def origin(self, path: str) -> str:
        return f"{self.root}#{path}"

    def path(self, origin: str) -> str:
        """Return the path of the file with an origin, also for the origin of a part of it."""
        return origin.removeprefix(self.origin("")).partition("#")[0]

    def fingerprint(self, entry: TreeEntry) -> str:
        return git_fingerprint(entry.blob, redact=self.selection.redact)

    def contents(self, items: Iterable[RepoItem]) -> Iterator[tuple[RepoItem, bytes | None]]:
        """Read items, a few in memory at a time, those on disk first; `None` for an unreadable one."""
        stored: list[RepoItem] = []
        for item in items:
            if item.file is None:
                stored.append(item)
            else:
                yield item, read_lying(item.file, self.reader.max_bytes(item.entry.path, item.entry.size))
        blobs = self.repository.blobs(item.entry for item in stored)
        yield from ((item, data) for item, (_, data) in zip(stored, blobs, strict=True))


def _branch_read(
    repository: RepositoryContents,
    identity: RepositoryIdentity,
    settled: SettledRepository,
    commit: str | None,
    selection: RepoSelection,
    entries: Sequence[TreeEntry],
) -> BranchRead:
    """Return the branch being read: the one checked out, or the one of the requested commit."""
    branches = repository.branches() if commit else {}
    current = repository.branch()
    branch = current or identity.detached
    if selection.commit in branches:
        branch = str(selection.commit)
    elif selection.commit and commit and not (current and repository.is_ancestor(commit, "HEAD")):
        branch = identity.detached
    payload = settled.known.payload if settled.known else {}
    existing = frozenset({*branches, branch, *filter(None, [current]), *detached_trees(repository, identity.access)})
    deleted = {name: at for name, at in known_branches(payload).items() if at and name not in existing}
    merged = frozenset(name for name, at in deleted.items() if commit and repository.is_ancestor(at, commit))
    # The commits of a renamed branch exist under the new name, which may not have been read yet.
    renamed = {name for name, at in deleted.items() if name not in merged and repository.has_ref_to(at)}
    return BranchRead(
        settled.root,
        branch,
        commit or "",
        known=payload,
        existing=existing | renamed,
        merged=merged,
        newly_merged=_newly_merged(repository, known_branches(payload), branch, commit),
        heads=_with_unpushed(repository, branches, settled, branch, commit),
        place=str(repository.common),
        fork=_at_fork(repository, settled, branch, commit, selection, entries),
    )


def _newly_merged(
    repository: RepositoryContents, known: Mapping[str, str], branch: str, commit: str | None
) -> frozenset[str]:
    """Return the other known branches that were merged into a branch after the commit read last."""
    since = known.get(branch)
    if not since or not commit or since == commit or len(known) == 1:
        return frozenset()
    try:
        new = repository.commits_since(repository.resolve(since), commit)
    except TreeringError:  # this clone does not have the commit
        return frozenset()
    return frozenset(name for name, at in known.items() if name != branch and at in new)


def _with_unpushed(
    repository: RepositoryContents,
    branches: Mapping[str, str],
    settled: SettledRepository,
    branch: str,
    commit: str | None,
) -> Mapping[str, str]:
    """Return the newest commits of branches: the first branch is often ahead of the remote."""
    payload = settled.known.payload if settled.known else {}
    first = str(payload.get("leading") or branch)
    read = commit if first == branch else known_branches(payload).get(first)
    if read and first in branches and branches[first] != read and repository.is_ancestor(branches[first], read):
        return {**branches, first: read}
    return branches


def _at_fork(
    repository: RepositoryContents,
    settled: SettledRepository,
    branch: str,
    commit: str | None,
    selection: RepoSelection,
    entries: Sequence[TreeEntry],
) -> Mapping[str, str] | None:
    """Return the contents of files, by origin, at the commit at which a branch left the commit read last.

    A new branch left the first branch. `None` if the branch continues from the commit read last. `entries`: the files
    of `commit`.
    """
    payload = settled.known.payload if settled.known else {}
    known = known_branches(payload)
    since = known.get(branch) or known.get(str(payload.get("leading")))
    if not since or not commit or (branch in known and since == commit):
        return None
    try:
        fork = repository.merge_base(repository.resolve(since), commit)
        if fork == since and branch in known:
            return None
        differing = repository.differing(commit, fork) if fork else {}
    except TreeringError:  # this clone does not have the commit
        return None if branch in known else {}
    here = {one.path: one.blob for one in entries if one.kind == "file"} if fork else {}
    blobs = {path: blob for path, blob in (here | differing).items() if blob}
    return {f"{settled.root}#{path}": git_fingerprint(blob, redact=selection.redact) for path, blob in blobs.items()}


def _on_branch(known: AlreadyRead, read: BranchRead) -> tuple[AlreadyRead, Mapping[str, frozenset[str]]]:
    """Return the stored state on a branch, and all contents of the files that have several.

    A new branch has the contents with which it left the first branch.
    """
    before = known_branches(read.known).get(read.branch)
    fork = (read.fork or {}) if before is None else {}
    here: dict[str, str] = {}
    held: dict[str, frozenset[str]] = {}
    for origin, fingerprint in known.fingerprints.items():
        if not fingerprint.startswith(SEVERAL):
            here[origin] = fingerprint
            continue
        versions = HeldContents.parse(fingerprint)
        held[origin] = frozenset(versions.fingerprints)
        contents_here = versions.on(read.branch)
        if contents_here is None and fork.get(origin) in versions.fingerprints:
            contents_here = fork[origin]
        if contents_here is not None:
            here[origin] = contents_here
    return replace(known, fingerprints=here, commit=before or known.commit), held


def _by_todays_origins(
    known: AlreadyRead, identity: RepositoryIdentity, settled: SettledRepository, items: Sequence[RepoItem]
) -> tuple[AlreadyRead, Mapping[str, str]]:
    """Return the stored state by current origins, and the current origins by earlier ones."""
    root, fingerprints = settled.root, dict(known.fingerprints)
    if root != identity.origin:
        fingerprints = dict(known.below(root))
    before: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for other in settled.others:
        stored = known.below(other)
        before |= stored
        renamed |= {origin: root + origin.removeprefix(other) for origin in names_below(list(stored), other)}
    top = identity.repository.top
    if top is not None:
        by_path = known_by_path(top.resolve(), known)
        places = (
            {place_in(top.resolve(), item.entry.path): f"{root}#{item.entry.path}" for item in items} if by_path else {}
        )
        before |= by_path
        renamed |= renames(places, by_path)
    for origin, current in renamed.items():
        fingerprints.setdefault(current, before[origin])
    commit = settled.known.payload.get("commit") if settled.known else None
    return replace(known, fingerprints=fingerprints, commit=known.commit or (commit and str(commit))), renamed


def _readings(plan: _Plan) -> Iterator[Reading]:
    if plan.read_elsewhere and plan.read_elsewhere[0] == "behind":
        _, known, other = plan.read_elsewhere
        behind = f"{plan.branch.branch} was read at {known[:12]} in {other}, but is behind that commit here"
        yield Skipped(
            plan.root,
            f"{behind}, at {plan.branch.commit[:12]}: run `git pull`, or read it anyway with --option commit=HEAD",
        )
        return
    settled = [(item, _settled(plan, item, place)) for place, item in enumerate(plan.selected)]
    unread = [item for item, reading in settled if reading is None]
    drafting = Drafting(plan.reader.limits, plan.selection.redact, plan.reader.formats, len(unread))
    drafting.prepare()
    yield plan.branch
    yield from (Renamed(before, origin) for before, origin in plan.renamed.items())
    if plan.commit is None and not plan.selection.worktree:
        yield Skipped(
            plan.root, "the repository has no commit yet; the option `worktree` (--worktree) reads uncommitted files"
        )
    else:
        yield _map(plan)
    for origin, moved_to in plan.moves.items():
        yield Vanished(origin, moved_to, was_committed=moved_to is not None or _was_committed(plan, origin))
    yield from (reading for _, reading in settled if reading)
    files = (_to_draft(plan, item, data) for item, data in plan.contents(unread))
    yield from drafting.readings(files)
    yield RootRead(plan.root, f"repo:{plan.slug}", lambda: _ground(plan))


def _settled(plan: _Plan, item: RepoItem, place: int) -> Skipped | Unchanged | None:
    """Return the result of an item if it does not depend on the contents."""
    entry, origin = item.entry, plan.origin(item.entry.path)
    if entry.kind in _KINDS:
        return Skipped(origin, _KINDS[entry.kind])
    limits, most = plan.reader.limits, plan.reader.max_bytes(entry.path, entry.size)
    if entry.size > most:
        return Skipped(origin, over_limit(entry.size, most, limits))
    if place >= limits.max_items:
        return Skipped(origin, f"it exceeds the limit max_items of {limits.max_items:,}")
    mark = plan.attributes.sets_aside(entry.path)
    if mark:
        return Skipped(origin, f"marked {mark} in .gitattributes")
    fingerprint = plan.fingerprint(entry)
    if plan.is_known(origin, fingerprint):
        return Unchanged(origin, fingerprint)
    known = plan.known.fingerprints.get(origin, "")
    return Unchanged(origin, known) if _is_as_stored(plan, origin, known) else None


def _to_draft(plan: _Plan, item: RepoItem, data: bytes | None) -> Reading | FileToDraft:
    entry, origin = item.entry, plan.origin(item.entry.path)
    if data is None:
        return Failed(origin, "it could not be read: damaged, missing or not accessible")
    if data.startswith(_LFS):
        return Skipped(origin, "a Git LFS pointer; its content is on the server")
    page = plan.written.reading(data, path=entry.path, origin=origin, commit=item.commit)
    if page is not None:
        return _about_what_it_cites(plan, page, entry.path) if isinstance(page, SourceDraft) else page
    subject = plan.terrain.subject(entry.path)
    return FileToDraft(data, entry.path, origin, plan.fingerprint(entry), item.commit, subject)


def _about_what_it_cites(plan: _Plan, page: SourceDraft, path: str) -> SourceDraft:
    """Set the subject of knowledge from a page to the part of the repository that the page cites."""
    cited = plan.written.cited_by(path)
    subject = next(filter(None, map(plan.terrain.subject, cited)), None)
    return replace(page, knowledge=[replace(known, about=subject) for known in page.knowledge])


def _ground(plan: _Plan) -> RootNodes:
    ties = {key: [plan.origin(path) for path in paths] for key, paths in plan.terrain.ties().items()}
    return RootNodes(f"repo:{plan.slug}", f"{plan.slug}/", plan.terrain.present(), ties)


def _is_uncommitted(plan: _Plan, origin: str) -> bool:
    """Return whether a file exists in the work tree, but not in the commit read last."""
    top = plan.repository.top
    if top is None or plan.selection.commit is not None:
        return False
    path = plan.path(origin)
    file = place_in(top, path)
    exists = file.is_file() and not file.is_symlink() and file.resolve().is_relative_to(top.resolve())
    return exists and path not in plan.committed_before


def _was_committed(plan: _Plan, origin: str) -> bool:
    """Return whether a file was in the commit read last, or that commit is unknown."""
    path = plan.path(origin)
    return not plan.committed_before or path in plan.committed_before


def _is_as_stored(plan: _Plan, origin: str, known: str) -> bool:
    """Return whether the ledger has a file in its current uncommitted state.

    Knowledge may cite its lines, which reading a commit must not remove while they exist.
    """
    top = plan.repository.top
    if not known.startswith(GIT_BLOB) or top is None or plan.selection.commit or plan.selection.worktree:
        return False
    file = place_in(top, plan.path(origin))
    if file.is_symlink() or not file.is_file() or not file.resolve().is_relative_to(top.resolve()):
        return False
    data = read_lying(file, _MAX_COMPARED_BYTES)
    blob = blob_id(data, like=known.removeprefix(GIT_BLOB).partition("+")[0]) if data is not None else ""
    return known == git_fingerprint(blob, redact=plan.selection.redact)


def _moves(plan: _Plan, gone: Sequence[str]) -> dict[str, str]:
    """Match gone files to new files with the same contents, or to renames found by git."""
    known = plan.known.fingerprints
    items = {plan.origin(item.entry.path): item.entry for item in plan.selected if item.entry.size}
    arrived = {origin: plan.fingerprint(entry) for origin, entry in items.items() if origin not in known}
    moves = moves_by_contents({origin: known[origin] for origin in gone}, arrived)
    free = arrived.keys() - moves.values()
    edited = _git_renames(plan) if free and len(moves) < len(gone) else {}
    return {before: after for before, after in edited.items() if after in free} | moves


def _git_renames(plan: _Plan) -> dict[str, str]:
    """Return the files that git sees as moved and edited since the last reading, if it still has that commit."""
    if plan.known.commit is None or plan.commit is None:
        return {}
    try:
        before = plan.repository.resolve(plan.known.commit)
        if plan.selection.worktree:
            moved = plan.repository.renames_in_work_tree(before)
        else:
            changes = plan.repository.diff(before, plan.commit)
            moved = {one.before: one.path for one in changes if one.kind == "renamed"}
    except TreeringError:  # without renames, the file is gone and another one is new
        return {}
    return {plan.origin(before): plan.origin(path) for before, path in moved.items()}


def _is_attributes(entry: TreeEntry) -> bool:
    return entry.path == ".gitattributes" and entry.kind == "file" and entry.size <= _MAX_ATTRIBUTES


def _map(plan: _Plan) -> SourceDraft | Unchanged:
    branch = plan.repository.branch() if plan.selection.commit is None else None
    changed_files = [item.entry for item in plan.items if item.file is not None]
    changed = [(entry.path, entry.blob) for entry in changed_files if not plan.written.wrote(entry.path)]
    # A requested branch is named, even if it is at the same commit as another one.
    named = branch if plan.selection.commit is None else plan.branch.branch
    state = sha256(repr((_MAP_VERSION, named, plan.selection.redact, changed)).encode()).hexdigest()
    fingerprint = f"repo-map:{plan.commit or 'none'}:{state[:16]}"
    if plan.known.fingerprints.get(plan.root) == fingerprint:
        return Unchanged(plan.root, fingerprint, _left_out(plan))
    draft = draw_map(
        _facts(plan, branch, len(changed)),
        [item.entry for item in plan.own],
        _texts(plan, plan.own),
        fingerprint=fingerprint,
    )
    return replace(draft, warnings=_left_out(plan))


def _aside(plan: _Plan, item: RepoItem) -> bool:
    path = item.entry.path
    return plan.attributes.sets_aside(path) is not None or plan.written.wrote(path)


def _left_out(plan: _Plan) -> tuple[str, ...]:
    reads_head = plan.selection.commit is None and not plan.selection.worktree
    notes = [_read_last(plan)] if plan.read_elsewhere else []
    if reads_head and plan.repository.is_dirty() and _has_unread_changes(plan):
        notes.append("Uncommitted or untracked files were not read; the option `worktree` (--worktree) reads them.")
    return tuple(filter(None, notes))


def _has_unread_changes(plan: _Plan) -> bool:
    """Return whether the work tree differs from HEAD in files that Treering did not write, such as a wiki."""
    changes = plan.repository.work_changes()
    files = {change.path: change.file for change in changes if not change.deleted}
    manifests = {path: read_lying(files[path], plan.reader.max_bytes(path, 0)) for path in own_manifests(files)}
    # The committed manifests list the pages that were deleted since.
    entries = plan.repository.entries(plan.commit) if manifests and plan.commit else ()
    committed = plan.repository.blobs(entry for entry in entries if entry.path in manifests)
    before = own_files_below({entry.path: data for entry, data in committed if data})
    now = own_files_below({path: data for path, data in manifests.items() if data})
    return not all(any(own.wrote(one.path) for own in (plan.written, now, before)) for one in changes)


def _read_last(plan: _Plan) -> str:
    """Return a note about a branch read by another clone at a commit that is not an ancestor of the local one."""
    relation, known, place = plan.read_elsewhere or ("ahead", "", "")
    branch = plan.branch.branch
    if relation == "ahead":
        return ""
    why = "has parted from it" if relation == "parted" else "may be older or newer: that commit is not in this clone"
    was = f"{branch} was read at {known[:12]} in {place} before"
    return f"{was}; {branch} here {why}. The last read counts: {plan.branch.commit[:12]}."


def _history(plan: _Plan) -> RepoHistory:
    """Return the statistics of the last commits for the existing paths.

    Commits that only touched pages written by Treering are ignored.
    """
    read = plan.repository.history(plan.commit, last=_TELLING_COMMITS) if plan.commit else []
    all_of_them = [one for one in read if not one.paths or not all(map(plan.written.wrote, one.paths))]
    commits = all_of_them[:_LATEST_COMMITS]
    present = {item.entry.path for item in plan.items if not plan.written.wrote(item.entry.path)}
    spots = [one for one in often_changed(commits) if one.path in present and one.changes > 1]
    code = {path for path in present if file_at(path) and not is_test_path(path)}
    subjects = [_redacted(one) if plan.selection.redact else one for one in telling_commits(all_of_them, code)]
    return RepoHistory(len(commits), spots, changed_together(commits, present), commits, subjects)


def _redacted(commit: CommitFiles) -> CommitFiles:
    return replace(commit, subject=redact(commit.subject).text)


def _texts(plan: _Plan, items: Sequence[RepoItem]) -> dict[str, str]:
    by_path = {item.entry.path: item for item in items if item.entry.size <= plan.reader.limits.max_file_bytes}
    chosen = key_files([item.entry for item in by_path.values()])
    read = plan.contents(by_path[entry.path] for entry in chosen)
    texts = {item.entry.path: decoded.text for item, data in read if data and (decoded := decode(data))}
    return {path: redact(text).text for path, text in texts.items()} if plan.selection.redact else texts


def _facts(plan: _Plan, branch: str | None, changed: int) -> RepoFacts:
    repository, remote = plan.repository, plan.repository.remote()
    known = plan.settled.known
    return RepoFacts(
        origin=plan.root,
        name=_repo_name(repository, remote),
        slug=plan.slug,
        root_commit=plan.identity.root_commit or (known.payload if known else {}).get("root_commit"),
        commit=plan.commit,
        committed_at=repository.committed_at(plan.commit) if plan.commit else None,
        branch=branch,
        remote=remote,
        bare=repository.top is None,
        shallow=repository.shallow,
        uncommitted=changed,
        history=_history(plan),
    )


def _repo_name(repository: RepositoryContents, remote: str | None) -> str:
    """Return owner and name of the remote, else the folder's name."""
    if remote and not remote.startswith(("/", "file:")):
        parts = remote.rpartition("://")[2].replace(":", "/").strip("/").split("/")[1:]
        return "/".join(parts[-2:]).removesuffix(".git") or remote
    # A linked work tree has its own name, and the repository the name of the main one.
    shared = repository.linked and repository.common.name == ".git"
    home = repository.common.parent if shared else repository.home
    return Path(remote or home).name.removesuffix(".git") or "repository"

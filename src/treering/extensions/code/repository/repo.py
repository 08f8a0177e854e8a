"""The adapter for git repositories: the files of one commit, or of the work tree as it lies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, TreeringError
from treering.core.evidence import moves_by_contents
from treering.core.secrets.redaction import redact
from treering.core.versions import GIT_BLOB, HeldContents, known_branches, places_of_branches
from treering.extensions.code.repository.repo_map import RepoFacts, RepoHistory, draw_map, key_files
from treering.extensions.code.repository.repo_selection import (
    Attributes,
    FileReader,
    RepoItem,
    RepoSelection,
    RepoTerrain,
    parse_attributes,
    parse_selection,
    read_lying,
    snapshot,
)
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
from treering.sources.formats import built_in_formats, draft_file, over_limit
from treering.sources.git.blobs import (
    CommitFiles,
    blob_id,
    changed_together,
    often_changed,
    telling_commits,
)
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
from treering.sources.git.repository import GitRepository, TreeEntry, open_repository
from treering.sources.reading.access import AnyFile
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import (
    OwnFilesBelow,
    own_files_below,
    own_manifests,
    place_in,
)

_MAP_VERSION = 6
_LATEST_COMMITS = 500
"""Commits by which files change often, and change together."""
_TELLING_COMMITS = 2_000
"""Commits whose subjects tell what files are about: so many found more than half or twice as many."""
_MAX_ATTRIBUTES = 100_000
_LFS = b"version https://git-lfs.github.com/spec/"
_KINDS = {
    "symlink": "a symbolic link; links are not followed",
    "submodule": "another repository (a submodule); read it by itself",
}


class RepoAdapter:
    """Reads a git repository: first its map, then what is gone, then a result per file.

    The map comes first, because files belong to the modules it names, and because whoever waits sees first
    what the repository is. Options: `commit` (default HEAD), `worktree` (read the files as they lie;
    changed ones carry no commit), `subfolder`, `include`, `exclude` (globs as in `.gitignore`),
    `redact_secrets`. A file whose git object is known is not read again. A narrower selection says nothing
    about the files outside it. All that is opened, objects included, lies where `access` allows (without it anywhere).
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

        A repository that a space knows by another origin, from where it lay before, keeps to that one or is renamed.
        """
        return self._open(target).origin

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Count the files `read` will report on, and the map."""
        return 1 + len(
            _Plan.make(self._open(target), AlreadyRead(), FileReader(self._formats, ReadLimits()), options).selected
        )

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield the map, what is gone, and one result per file selected.

        Raises `InvalidInput` for a folder in no repository, a subfolder without files or a bad option,
        `NotFound` for an unknown commit, `Denied` where the repository reaches out of what may be read,
        `Unavailable` where git cannot answer.
        """
        return _readings(_Plan.make(self._open(target), known, FileReader(self._formats, limits), options))

    def _open(self, target: str) -> RepositoryIdentity:
        return RepositoryIdentity(open_repository(target, self._access), self._access)


@dataclass(frozen=True)
class _Plan:
    """Everything one reading rests on."""

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
    """By origin, all contents that the ledger holds of a file, where these are several."""

    @classmethod
    def make(
        cls, identity: RepositoryIdentity, known: AlreadyRead, reader: FileReader, options: Mapping[str, Any]
    ) -> "_Plan":
        repository = identity.repository
        selection = parse_selection(options, prefix=repository.prefix)
        commit = repository.resolve(selection.commit) if selection.commit else repository.head()
        items = snapshot(repository, commit, selection, reader)
        settled = identity.settle(known.repositories())
        known, renamed = _by_todays_origins(known, identity, settled, items)
        branch = _branch_read(identity, settled, commit, selection)
        known, held = _on_branch(known, settled, branch.branch)
        plan = cls(identity, settled, commit, items, selection, known, renamed, reader, branch, held)
        if selection.folder and not plan.selected and not plan.knows_folder():
            raise InvalidInput(
                f"The folder {selection.folder!r} has no selected files{(f' at {commit[:12]}' if commit else '')}.",
                hint="If its files are not committed, read the work tree: mode path (`treering ingest FOLDER --mode "
                "path`). Otherwise check `subfolder`, `include` and `exclude`, which are relative to the "
                "target.",
            )
        return plan

    @property
    def repository(self) -> GitRepository:
        return self.identity.repository

    @property
    def root(self) -> str:
        return self.settled.root

    @cached_property
    def read_elsewhere(self) -> tuple[CommitRelation, str, str] | None:
        """How the branch here stands to the commit at which another clone read it, that commit, and the clone's place.

        `None` where no other did, and for a commit that is named: whoever names one wants it.
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
        kept = [item for item in self.items if item.entry.path in manifests and item.entry.kind == "file"]
        return own_files_below({item.entry.path: data for item, data in self.contents(kept) if data} if kept else {})

    @cached_property
    def committed_before(self) -> frozenset[str]:
        """The paths of the commit read last, as far as the repository has it still."""
        try:
            commit = self.repository.resolve(self.known.commit or "")
            return frozenset(entry.path for entry in self.repository.entries(commit))
        except TreeringError:
            return frozenset()

    @cached_property
    def own(self) -> list[RepoItem]:
        """The files that the map tells of: those that are not generated or foreign."""
        return [item for item in self.items if item.entry.kind == "file" and not _aside(self, item)]

    @cached_property
    def slug(self) -> str:
        """What its nodes go by: it stays, whatever the repository is called or wherever it lies later."""
        known = self.settled.known
        told = known.payload if known else {}
        name = known.title if known else _repo_name(self.repository, self.repository.remote())
        slug: str = told.get("slug") or _slug(name)
        return slug

    @cached_property
    def terrain(self) -> RepoTerrain:
        return RepoTerrain(self.slug, [item.entry for item in self.own])

    @cached_property
    def moves(self) -> Mapping[str, str | None]:
        """The new origin of each origin that was removed from the branch, if it is known."""
        present = {self.origin(item.entry.path) for item in self.items}
        below = (origin for origin in self.known.fingerprints if origin.startswith(self.origin("")))
        gone = [origin for origin in below if origin not in present and not _lies_uncommitted(self, origin)]
        moves = _moves(self, gone) if gone else {}
        return {origin: moves.get(origin) for origin in gone}

    @cached_property
    def arrivals(self) -> frozenset[str]:
        """The origins that files moved to: these are read, whatever is known of them."""
        return frozenset(filter(None, self.moves.values()))

    def is_known(self, origin: str, fingerprint: str) -> bool:
        """Tell whether the ledger holds these contents of a file, be it for another branch."""
        there = self.known.fingerprints.get(origin) == fingerprint or fingerprint in self.held.get(origin, ())
        return there and origin not in self.arrivals

    def knows_folder(self) -> bool:
        start = self.origin(f"{self.selection.folder}/")
        return any(origin.startswith(start) for origin in self.known.fingerprints)

    def origin(self, path: str) -> str:
        return f"{self.root}#{path}"

    def fingerprint(self, entry: TreeEntry) -> str:
        return git_fingerprint(entry.blob, redact=self.selection.redact)

    def contents(self, items: Iterable[RepoItem]) -> Iterator[tuple[RepoItem, bytes | None]]:
        """Read items, a few in memory at a time, those on disk first; `None` where one cannot be read."""
        stored: list[RepoItem] = []
        for item in items:
            if item.file is None:
                stored.append(item)
            else:
                yield item, read_lying(item.file, self.reader.max_bytes(item.entry.path, item.entry.size))
        blobs = self.repository.blobs(item.entry for item in stored)
        yield from ((item, data) for item, (_, data) in zip(stored, blobs, strict=True))


def _branch_read(
    identity: RepositoryIdentity, settled: SettledRepository, commit: str | None, selection: RepoSelection
) -> BranchRead:
    """Tell which branch is read: the one checked out, or the one that a commit was asked for by or lies on."""
    repository = identity.repository
    branches = repository.branches() if commit else {}
    current = repository.branch()
    branch = current or identity.detached
    if selection.commit in branches:
        branch = str(selection.commit)
    elif selection.commit and commit and not (current and repository.is_ancestor(commit, "HEAD")):
        branch = identity.detached
    return BranchRead(
        settled.root,
        branch,
        commit or "",
        known=settled.known.payload if settled.known else {},
        existing=frozenset({*branches, branch, *filter(None, [current]), *detached_trees(repository, identity.access)}),
        heads=branches,
        place=str(repository.common),
    )


def _on_branch(
    known: AlreadyRead, settled: SettledRepository, branch: str
) -> tuple[AlreadyRead, Mapping[str, frozenset[str]]]:
    """Return what is known as it stands on a branch, and all contents of the files that have several."""
    here: dict[str, str] = {}
    held: dict[str, frozenset[str]] = {}
    for origin, fingerprint in known.fingerprints.items():
        versions = HeldContents.parse(fingerprint)
        if not versions.is_everywhere:
            held[origin] = frozenset(versions.fingerprints)
        if (stands := versions.on(branch)) is not None:
            here[origin] = stands
    before = known_branches(settled.known.payload).get(branch) if settled.known else None
    return replace(known, fingerprints=here, commit=before or known.commit), held


def _by_todays_origins(
    known: AlreadyRead, identity: RepositoryIdentity, settled: SettledRepository, items: Sequence[RepoItem]
) -> tuple[AlreadyRead, Mapping[str, str]]:
    """Return what is known of the repository by today's origins, and those that were others, by what they were."""
    root, fingerprints = settled.root, dict(known.fingerprints)
    if root != identity.origin:
        fingerprints = dict(known.below(root))
    before: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for other in settled.others:
        told = known.below(other)
        before |= told
        renamed |= {origin: root + origin.removeprefix(other) for origin in names_below(list(told), other)}
    top = identity.repository.top
    if top is not None:
        lying = known_by_path(top.resolve(), known)
        places = (
            {place_in(top.resolve(), item.entry.path): f"{root}#{item.entry.path}" for item in items} if lying else {}
        )
        before |= lying
        renamed |= renames(places, lying)
    for origin, today in renamed.items():
        fingerprints.setdefault(today, before[origin])
    commit = settled.known.payload.get("commit") if settled.known else None
    return replace(known, fingerprints=fingerprints, commit=known.commit or (commit and str(commit))), renamed


def _readings(plan: _Plan) -> Iterator[Reading]:
    if plan.read_elsewhere and plan.read_elsewhere[0] == "behind":
        _, known, other = plan.read_elsewhere
        behind = f"{plan.branch.branch} was read at {known[:12]} in {other}, but is behind that commit here"
        yield Skipped(
            plan.root,
            f"{behind}, at {plan.branch.commit[:12]}: run `git pull`, or read it anyway with the option commit",
        )
        return
    yield plan.branch
    yield from (Renamed(before, origin) for before, origin in plan.renamed.items())
    if plan.commit is None and not plan.selection.worktree:
        yield Skipped(plan.root, "the repository has no commit yet; the option worktree reads uncommitted files")
    else:
        yield _map(plan)
    yield from _vanished(plan)
    unread: list[RepoItem] = []
    for place, item in enumerate(plan.selected):
        settled = _settled(plan, item, place)
        if settled is None:
            unread.append(item)
        else:
            yield settled
    yield from (_drafted(plan, item, data) for item, data in plan.contents(unread))
    yield RootRead(plan.root, f"repo:{plan.slug}", lambda: _ground(plan))


def _settled(plan: _Plan, item: RepoItem, place: int) -> Skipped | Unchanged | None:
    """Decide what can be decided without the contents."""
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
    return Unchanged(origin, known) if _lies_as_known(plan, origin, known) else None


def _drafted(plan: _Plan, item: RepoItem, data: bytes | None) -> Reading:
    entry, origin = item.entry, plan.origin(item.entry.path)
    if data is None:
        return Failed(origin, "it could not be read: damaged, missing or not accessible")
    if data.startswith(_LFS):
        return Skipped(origin, "a Git LFS pointer; its content is on the server")
    page = plan.written.reading(data, path=entry.path, origin=origin, commit=item.commit)
    if page is not None:
        return _about_what_it_cites(plan, page, entry.path) if isinstance(page, SourceDraft) else page
    reading = draft_file(
        data,
        path=entry.path,
        origin=origin,
        commit=item.commit,
        limits=plan.reader.limits,
        redact_secrets=plan.selection.redact,
        fingerprint=plan.fingerprint(entry),
        formats=plan.reader.formats,
    )
    if not isinstance(reading, SourceDraft):
        return reading
    subject = plan.terrain.subject(entry.path) if reading.knowledge else None
    stated = [known if known.about else replace(known, about=subject) for known in reading.knowledge]
    return replace(reading, knowledge=stated)


def _about_what_it_cites(plan: _Plan, page: SourceDraft, path: str) -> SourceDraft:
    """Make what a person wrote into a page knowledge about the part of the repository that the page tells of."""
    cited = plan.written.cited_by(path)
    subject = next(filter(None, map(plan.terrain.subject, cited)), None)
    return replace(page, knowledge=[replace(known, about=subject) for known in page.knowledge])


def _ground(plan: _Plan) -> RootNodes:
    ties = {key: [plan.origin(path) for path in paths] for key, paths in plan.terrain.ties().items()}
    return RootNodes(f"repo:{plan.slug}", f"{plan.slug}/", plan.terrain.present(), ties)


def _vanished(plan: _Plan) -> Iterator[Vanished]:
    yield from (Vanished(origin, moved_to) for origin, moved_to in plan.moves.items())


def _lies_uncommitted(plan: _Plan, origin: str) -> bool:
    """Tell whether a file that was read by itself lies in the work tree, though no commit read so far has it."""
    top = plan.repository.top
    if top is None or plan.selection.commit is not None:
        return False
    path = origin.removeprefix(plan.origin("")).partition("#")[0]
    file = place_in(top, path)
    lies = file.is_file() and not file.is_symlink() and file.resolve().is_relative_to(top.resolve())
    return lies and path not in plan.committed_before


def _lies_as_known(plan: _Plan, origin: str, known: str) -> bool:
    """Return whether the ledger holds a file as it is in the work tree, changed and not committed.

    Knowledge may rest on these lines: reading the commit must not take them away while they are there.
    """
    top = plan.repository.top
    if not known.startswith(GIT_BLOB) or top is None or plan.selection.commit or plan.selection.worktree:
        return False
    file = place_in(top, origin.removeprefix(plan.origin("")).partition("#")[0])
    if file.is_symlink() or not file.is_file() or not file.resolve().is_relative_to(top.resolve()):
        return False
    data = read_lying(file, _MAX_COMPARED_BYTES)
    blob = blob_id(data, like=known.removeprefix(GIT_BLOB).partition("+")[0]) if data is not None else ""
    return known == git_fingerprint(blob, redact=plan.selection.redact)


_MAX_COMPARED_BYTES = 20_000_000


def _moves(plan: _Plan, gone: Sequence[str]) -> dict[str, str]:
    """Find where vanished files went: the same contents under a new name, else what git calls a rename."""
    known = plan.known.fingerprints
    items = {plan.origin(item.entry.path): item.entry for item in plan.selected if item.entry.size}
    arrived = {origin: plan.fingerprint(entry) for origin, entry in items.items() if origin not in known}
    moves = moves_by_contents({origin: known[origin] for origin in gone}, arrived)
    free = arrived.keys() - moves.values()
    edited = _git_renames(plan) if free and len(moves) < len(gone) else {}
    return {before: after for before, after in edited.items() if after in free} | moves


def _git_renames(plan: _Plan) -> dict[str, str]:
    """Ask git for files both moved and edited since the last reading, if it still has that commit."""
    if plan.known.commit is None or plan.commit is None:
        return {}
    try:
        changes = plan.repository.diff(plan.repository.resolve(plan.known.commit), plan.commit)
    except TreeringError:  # a rename is a bonus: without it, the file is gone and another one is new
        return {}
    return {plan.origin(one.before): plan.origin(one.path) for one in changes if one.kind == "renamed"}


def _is_attributes(entry: TreeEntry) -> bool:
    return entry.path == ".gitattributes" and entry.kind == "file" and entry.size <= _MAX_ATTRIBUTES


def _map(plan: _Plan) -> SourceDraft | Unchanged:
    branch = plan.repository.branch() if plan.selection.commit is None else None
    lying = [item.entry for item in plan.items if item.file is not None]
    changed = [(entry.path, entry.blob) for entry in lying if not plan.written.wrote(entry.path)]
    # A branch that is read by its name is told of too, be it at the commit of another.
    told = branch if plan.selection.commit is None else plan.branch.branch
    state = sha256(repr((_MAP_VERSION, told, plan.selection.redact, changed)).encode()).hexdigest()
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
    told = [_read_last(plan)] if plan.read_elsewhere else []
    if reads_head and plan.repository.is_dirty():
        told.append("Uncommitted changes were not read; the option worktree reads them.")
    return tuple(filter(None, told))


def _read_last(plan: _Plan) -> str:
    """Say which reading counts of a branch that another clone has at a commit which is not before the one here."""
    relation, known, place = plan.read_elsewhere or ("ahead", "", "")
    branch = plan.branch.branch
    if relation == "ahead":
        return ""
    why = "has parted from it" if relation == "parted" else "may be older or newer: that commit is not in this clone"
    was = f"{branch} was read at {known[:12]} in {place} before"
    return f"{was}; {branch} here {why}. The last read counts: {plan.branch.commit[:12]}."


def _history(plan: _Plan) -> RepoHistory:
    """Return what the last commits say of the paths that are still there.

    Those that touched nothing but pages which Treering wrote are no changes of the repository.
    """
    read = plan.repository.history(plan.commit, last=_TELLING_COMMITS) if plan.commit else []
    all_of_them = [one for one in read if not one.paths or not all(map(plan.written.wrote, one.paths))]
    commits = all_of_them[:_LATEST_COMMITS]
    present = {item.entry.path for item in plan.items if not plan.written.wrote(item.entry.path)}
    spots = [one for one in often_changed(commits) if one.path in present and one.changes > 1]
    code = {path for path in present if file_at(path) and not is_test_path(path)}
    told = [_redacted(one) if plan.selection.redact else one for one in telling_commits(all_of_them, code)]
    return RepoHistory(len(commits), spots, changed_together(commits, present), commits, told)


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
    told = known.payload if known else {}
    return RepoFacts(
        origin=plan.root,
        name=_repo_name(repository, remote),
        slug=plan.slug,
        root_commit=plan.identity.root_commit or told.get("root_commit"),
        commit=plan.commit,
        committed_at=repository.committed_at(plan.commit) if plan.commit else None,
        branch=branch,
        remote=remote,
        bare=repository.top is None,
        shallow=repository.shallow,
        uncommitted=changed,
        history=_history(plan),
    )


def _slug(name: str) -> str:
    return name.lower().replace("/", "-")


def _repo_name(repository: GitRepository, remote: str | None) -> str:
    """Return owner and name as a forge shows them, else the folder's name."""
    if remote and not remote.startswith(("/", "file:")):
        parts = remote.rpartition("://")[2].replace(":", "/").strip("/").split("/")[1:]
        return "/".join(parts[-2:]).removesuffix(".git") or remote
    # A linked work tree has a name of its own, and the repository that of its first one.
    shared = repository.linked and repository.common.name == ".git"
    home = repository.common.parent if shared else repository.home
    return Path(remote or home).name.removesuffix(".git") or "repository"

"""A change of a repository, and the beliefs of its own records and of a space before it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from treering.core.errors import InvalidInput, NotFound, TreeringError
from treering.core.evidence import EvidenceRef, Segment, changed_stretches, find_lines
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Source, WorkItem
from treering.core.policy import is_current
from treering.core.scope import ROOT
from treering.extensions.code.manifest_format import is_manifest
from treering.extensions.code.repository.contents import (
    ChangeKind,
    RepositoryContents,
    TouchedFile,
    TreeChange,
    TreeEntry,
)
from treering.extensions.code.repository.git_objects import CommitMessage, TouchedLines
from treering.extensions.records.statements import states_by_name
from treering.ports.adapter import KnownRepository, ReadLimits, SourceDraft
from treering.ports.ledger import Altered, Ledger, ObjectRequest, Selection
from treering.ports.runtime import fresh_id, fresh_salt
from treering.sources.formats import draft_file
from treering.sources.git.identity import RepositoryIdentity, earlier_origins, path_origin
from treering.sources.git.repository import blob_id
from treering.sources.reading.access import AnyFile
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_bytes
from treering.system.machine import SystemClock
from treering.verbs.ingest.segments import first_segments

_LIMITS = ReadLimits()
_MOST_BYTES = 256_000_000
"""The maximum size of all texts of a change in memory."""
_NO_TEXT = b"\0"
_RENAMED_SHARE = 0.5
"""The share of an uncommitted file that must be in a deleted file, if that was renamed; the default of git."""
_MAX_PAIRS = 10_000
"""The most pairs of deleted and added files that are compared by lines; of more, only equal files are renamed."""
_BELIEVED = ("candidate", "active", "contested", "stale")


@dataclass(frozen=True, slots=True)
class Drafted:
    """The statements and segments of one text."""

    stated: tuple[tuple[Knowledge, Segment], ...] = ()
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class RestingLines:
    """Evidence of a belief: the path of the file before the change, and the segment, or its cited lines."""

    path: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class Belief:
    """A belief with its evidence in touched files.

    `others`: the number of pieces of evidence in untouched files. `record`: the decision record or file of rules that
    states it before the change, or "". `held`: whether it is in a space.
    """

    item: Knowledge
    proofs: tuple[RestingLines, ...] = ()
    others: int = 0
    record: str = ""
    held: bool = False

    @property
    def id(self) -> str:
        """Its id in the space, or "" if only a file of the repository states it."""
        return self.item.id if self.held else ""


@dataclass(frozen=True)
class BranchChange:
    """The difference between two commits, or between a commit and the work tree."""

    repository: RepositoryContents
    base: str
    head: str
    files: tuple[TouchedFile, ...]
    messages: tuple[CommitMessage, ...] = ()
    target: str = ""
    """The commit that the change goes to, now."""
    uncommitted: Mapping[str, bytes] = field(default_factory=dict)
    """The content of uncommitted files of the work tree, by object id."""
    _texts: dict[str, str | None] = field(default_factory=dict)
    _drafts: dict[tuple[str, str], Drafted] = field(default_factory=dict)
    _trees: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def between(cls, repository: RepositoryContents, base: str, head: str, *, worktree: bool) -> "BranchChange":
        """Compare `head` with its merge base with `base`. Raises `NotFound` for an unknown commit, `InvalidInput`."""
        tip = repository.resolve(head)
        target = _resolve(repository, base)
        fork = repository.merge_base(target, tip)
        if fork is None:
            raise InvalidInput(
                f"{base} and {head} have no common commit in this clone.",
                hint="Fetch the whole history: `git fetch --unshallow`, or fetch-depth: 0 in a workflow.",
            )
        change = cls(repository, fork, tip, tuple(repository.touched(fork, tip)), target=target)
        messages = tuple(repository.messages(fork, tip))
        return replace(change._with_work_tree() if worktree else change, messages=messages)

    @cached_property
    def before(self) -> Mapping[str, TreeEntry]:
        """The files of the base, by path."""
        return {one.path: one for one in self.repository.entries(self.base) if one.kind == "file"}

    @cached_property
    def after(self) -> Mapping[str, str]:
        """The object ids of the files after the change, by path."""
        blobs = {one.path: one.blob for one in self.repository.entries(self.head) if one.kind == "file"}
        for one in self.files:
            blobs.pop(one.change.before, None)
        return blobs | {one.change.path: one.new for one in self.files if one.new}

    @cached_property
    def by_old_path(self) -> Mapping[str, TouchedFile]:
        """The touched files that existed before, by their old path."""
        return {one.change.before: one for one in self.files if one.old}

    def read(self, blobs: Iterable[str]) -> None:
        """Read texts by object id in one batch; large and binary files are skipped."""
        sizes = self._sizes
        wanted = [one for one in dict.fromkeys(blobs) if one and one not in self._texts]
        total = 0
        entries: list[TreeEntry] = []
        for blob in sorted(wanted, key=lambda one: sizes.get(one, 0)):
            total += sizes.get(blob, 0)
            if blob in self.uncommitted:
                self._texts[blob] = _text(self.uncommitted[blob])
            elif sizes.get(blob, 0) <= _LIMITS.max_file_bytes and total <= _MOST_BYTES:
                entries.append(TreeEntry("", "file", blob, sizes.get(blob, 0)))
            else:
                self._texts[blob] = None
        for entry, data in self.repository.blobs(entries):
            self._texts[entry.blob] = None if data is None else _text(data)

    def text_at_target(self, path: str) -> str | None:
        """Return a file at the target of the change; `None` if it is the same as before the change, or unreadable."""
        blob = self.blob_at(self.target, path)
        if not blob or self.target == self.base or blob == self.by_old_path[path].old:
            return None
        for _, data in self.repository.blobs([TreeEntry("", "file", blob, 0)]):
            return None if data is None else _text(data)
        return None

    def text(self, blob: str) -> str | None:
        """Return a text by its object id, or `None` if it cannot be read."""
        if blob and blob not in self._texts:
            self.read([blob])
        return self._texts.get(blob)

    def blob_at(self, commit: str, path: str) -> str:
        """Return the object id of a file at a commit, or "" if the file or commit does not exist."""
        if commit not in self._trees:
            try:
                entries = self.repository.entries(self.repository.resolve(commit)) if commit else ()
            except TreeringError:
                entries = ()
            small = (one for one in entries if one.kind == "file" and one.size <= _LIMITS.max_file_bytes)
            self._trees[commit] = {one.path: one.blob for one in small}
        return self._trees[commit].get(path, "")

    def place_now(self, path: str) -> tuple[str, str]:
        """Return the path and object id of a file after the change, or two "" if it was deleted."""
        file = self.by_old_path.get(path)
        now = file.change.path if file and file.new else path
        return (now, self.after[now]) if now in self.after else ("", "")

    def drafted(self, path: str, blob: str) -> Drafted:
        """Return the statements and segments of a file, as `ingest` reads it."""
        if (path, blob) not in self._drafts:
            text = self.text(blob) if blob else None
            self._drafts[path, blob] = Drafted() if text is None else _draft(path, text)
        return self._drafts[path, blob]

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        entries = (*self.repository.entries(self.base), *self.repository.entries(self.head))
        return {one.blob: one.size for one in entries} | {blob: len(data) for blob, data in self.uncommitted.items()}

    def _with_work_tree(self) -> "BranchChange":
        """Return the change with the uncommitted files of the work tree added."""
        paths = {one.change.path: one for one in self.files}
        uncommitted: dict[str, bytes] = {}
        for work in self.repository.work_changes():
            earlier = paths.pop(work.path, None)
            before = earlier.change.before if earlier else work.path
            old = self.before[before].blob if before in self.before else ""
            data = None if work.deleted else read_bytes(work.file, _LIMITS.max_file_bytes)
            new = blob_id(data, like=self.head) if data is not None else ""
            if data is not None:
                uncommitted[new] = data if len(data) <= _LIMITS.max_file_bytes else _NO_TEXT
            if old != new:
                kind: ChangeKind = "modified" if old and new else "added" if new else "deleted"
                moved = TreeChange("renamed" if old and new and before != work.path else kind, work.path, before)
                paths[work.path] = TouchedFile(moved, old, new, ())
        files = replace(self, uncommitted=uncommitted)._with_renames([paths[path] for path in sorted(paths)])
        return replace(self, files=tuple(files), uncommitted=uncommitted)

    def _with_renames(self, files: Sequence[TouchedFile]) -> Iterator[TouchedFile]:
        """Yield files with their changed lines; a deleted and an added file with the same lines are a renamed file."""
        self.read(blob for one in files for blob in (one.old, one.new))
        deleted, added = [one for one in files if not one.new], [one for one in files if not one.old]
        is_many = len(deleted) * len(added) > _MAX_PAIRS
        parts = {blob: self._parts(blob, whole=is_many) for one in (*deleted, *added) if (blob := one.old or one.new)}
        pairs = [(_shared(parts[gone.old], parts[one.new]), gone, one) for gone in deleted for one in added]
        moved: dict[str, TouchedFile] = {}
        for share, gone, one in sorted(pairs, key=lambda pair: -pair[0]):
            if share >= _RENAMED_SHARE and gone.change.path not in moved and one.change.path not in moved:
                change = TreeChange("renamed", one.change.path, gone.change.before)
                moved[gone.change.path] = moved[one.change.path] = TouchedFile(change, gone.old, one.new, ())
        for one in files:
            now = moved.get(one.change.path, one)
            if now.change.path == one.change.path:
                yield replace(now, lines=now.lines or self._lines(now.old, now.new))

    def _parts(self, blob: str, *, whole: bool) -> Counter[str]:
        """Return the lines of a text; its object id if it is compared as a whole, empty or unreadable."""
        return Counter(([] if whole else (self.text(blob) or "").splitlines(keepends=True)) or [blob])

    def _lines(self, old: str, new: str) -> tuple[TouchedLines, ...]:
        before, after = ((self.text(blob) or "").splitlines() for blob in (old, new))
        return tuple(
            TouchedLines(first + (end > first), end - first, start + (stop > start), stop - start)
            for first, end, start, stop in changed_stretches(before, after)
            if end > first or stop > start
        )


def _shared(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of the larger of two texts that both contain."""
    common, *sizes = (sum(map(len, lines.elements())) for lines in (one & other, one, other))
    return common / max(sizes)


def _resolve(repository: RepositoryContents, base: str) -> str:
    """Return the commit of a branch, local or at the remote; a clone in CI may have only the latter."""
    try:
        return repository.resolve(base)
    except NotFound:
        for name in (f"origin/{base}", *(("master", "origin/master", "origin/HEAD") if base == "main" else ())):
            try:
                return repository.resolve(name)
            except NotFound:
                continue
        raise


def _text(data: bytes) -> str | None:
    decoded = decode(data)
    return decoded.text.replace("\r\n", "\n") if decoded else None


def _draft(path: str, text: str) -> Drafted:
    data = text.encode()
    draft = draft_file(data, path=path, origin=path, commit=None, limits=_LIMITS)
    if not isinstance(draft, SourceDraft):
        return Drafted()
    numbers = count()
    segments = first_segments(draft.segments, salt="", new_id=lambda: f"{next(numbers)}")
    clock = SystemClock()
    now = clock.now()
    stated = []
    for one in draft.knowledge:
        fields = {"kind": one.kind, "payload": dict(one.payload), "title": one.title, "summary": one.summary}
        item = Knowledge.model_validate(
            {
                "id": fresh_id("knowledge", clock),
                "salt": fresh_salt(clock),
                "scope": ROOT,
                "created_at": now,
                "updated_at": now,
                **fields,
            }
        )
        stated.append((item, segments[one.segment]))
    return Drafted(tuple(stated), segments)


def own_beliefs(change: BranchChange) -> list[Belief]:
    """Return the statements of the repository's decision records and rules before the change."""
    paths = [path for path in change.before if states_by_name(path)]
    change.read(change.before[path].blob for path in paths)
    return [
        Belief(item, (RestingLines(path, segment),), record=path)
        for path in paths
        for item, segment in change.drafted(path, change.before[path].blob).stated
    ]


def held_beliefs(ledger: Ledger, paths: Mapping[str, str], change: BranchChange) -> list[Belief]:
    """Return the beliefs of a space with their evidence in touched files. The space may have read any commit last.

    Beliefs that the change replaces are left out. `paths`: the paths of the touched files, by source id.
    """
    where = And((Compare("status", "in", _BELIEVED), Compare("kind", "ne", "summary")))
    altered: Altered = {}
    items = ledger.select(Selection(scope=ROOT, descend=True, types=("knowledge",), where=where), altered=altered)
    beliefs = []
    for item in items:
        if not isinstance(item, Knowledge):
            continue
        proofs, others = _proofs(ledger, item, paths, change)
        if not (proofs and _is_replaced(ledger, item, paths, change)):
            beliefs.append(Belief(item, proofs, others, held=True))
    return beliefs


def _proofs(
    ledger: Ledger, item: Knowledge, paths: Mapping[str, str], change: BranchChange
) -> tuple[tuple[RestingLines, ...], int]:
    """Return the evidence of knowledge in touched files, and the number of other pieces of evidence.

    The same words at several paths of a file that was renamed are one piece. Other branches may have other paths.
    """
    refs = [ref for ref in item.evidence_refs if ref.role == "supports"]
    places = {one: head.origin.partition("#") for one, head in ledger.heads({ref.source_id for ref in refs}).items()}
    roots = {places[one][0] for one in places if one in paths}
    proofs: dict[tuple[str, str], RestingLines] = {}
    others = 0
    for ref in refs:
        path = paths.get(ref.source_id)
        try:
            segment = ledger.segment(ref.source_id, ref.segment_id) if path else None
        except NotFound:  # erased
            continue
        root, _, elsewhere = places.get(ref.source_id, ("", "", ""))
        if path and segment:
            lines = _cited_lines(ref, segment)
            proofs.setdefault((path, lines.excerpt), RestingLines(path, lines))
        elif root not in roots or elsewhere in change.before:
            others += 1
    return tuple(proofs.values()), others


def _is_replaced(ledger: Ledger, item: Knowledge, paths: Mapping[str, str], change: BranchChange) -> bool:
    """Return whether the change contains the lines of knowledge that replaces an item."""
    links = [one for one in ledger.links(item.id) if (one.type, one.target) == ("supersedes", item.id)]
    replacements = (ledger.get(one.source) for one in links)
    lines = [
        proof
        for one in replacements
        if isinstance(one, Knowledge) and is_current(one)
        for proof in _proofs(ledger, one, paths, change)[0]
    ]
    texts = ((change.text(change.place_now(one.path)[1]) or "", one.segment.excerpt) for one in lines)
    return any(find_lines(words, text) for text, words in texts)


def _cited_lines(ref: EvidenceRef, segment: Segment) -> Segment:
    """Return the cited lines of a segment as a segment of their own; all of it if no lines are named."""
    if ref.lines is None:
        return segment
    cited = {"excerpt": ref.quote(segment), "locator": ref.locator(segment), "definitions": ()}
    return segment.model_copy(update=cited)


def together(own: Sequence[Belief], held: Sequence[Belief]) -> list[Belief]:
    """Merge beliefs of records and of the space with the same meaning."""
    stated_by_meaning = {_meaning(one.item): one for one in own}
    joined = []
    for one in held:
        stated = stated_by_meaning.pop(_meaning(one.item), None)
        joined.append(replace(one, record=stated.record, proofs=one.proofs or stated.proofs) if stated else one)
    return [*joined, *stated_by_meaning.values()]


def _meaning(item: Knowledge) -> str:
    return (item if item.scope == ROOT else item.model_copy(update={"scope": ROOT})).duplicate_key()


def open_work(ledger: Ledger) -> Iterator[tuple[WorkItem, list[str]]]:
    """Yield the open work items with the origins of their sources."""
    where = Compare("status", "in", ("open", "in_progress", "blocked"))
    altered: Altered = {}
    items = ledger.select(Selection(scope=ROOT, descend=True, types=("work_item",), where=where), altered=altered)
    for item in items:
        if isinstance(item, WorkItem):
            (read,) = ledger.read([ObjectRequest(objects=item.source_refs)])
            yield item, [one.origin for one in read.objects.values() if isinstance(one, Source)]


def paths_of_sources(ledger: Ledger, change: BranchChange) -> Mapping[str, str]:
    """Return the paths of the touched files by the ids of their sources in a space."""
    # A space that has already read the change has a renamed file under its new path.
    paths = change.by_old_path.keys() | {one.change.path for one in change.files}
    roots, top = _roots(ledger, change.repository), change.repository.top
    origins = {f"{root}#{path}": path for root in roots for path in paths}
    sources: dict[str, str] = {}
    for scope in (ROOT, *ledger.scopes(ROOT)) if origins else ():
        states = ledger.sources_at(scope=scope, origins=[*origins])
        sources |= {state.id: origins[origin] for origin, state in states.items()}
        if top and (below := ledger.sources(scope=scope, root=path_origin(top.resolve()))):
            # The folder was read before it became a repository.
            names = {name: path for path in paths for name in earlier_origins(top.resolve() / path)}
            sources |= {state.id: names[origin] for origin, state in below.items() if origin in names}
    renamed = {one.change.path: one.change.before for one in change.files if one.old}
    return {source: renamed.get(path, path) for source, path in sources.items()}


def _roots(ledger: Ledger, repository: RepositoryContents) -> list[str]:
    """Return the origins of the repository in a space, and its own, which are used for files read from the folder."""
    where = And((Compare("kind", "eq", "repo"), Compare("status", "ne", "archived")))
    altered: Altered = {}
    maps = ledger.select(Selection(scope=ROOT, descend=True, types=("source",), where=where), altered=altered)
    known = [KnownRepository(one.origin, one.title, one.payload) for one in maps if isinstance(one, Source)]
    identity = RepositoryIdentity(repository, AnyFile())
    settled = identity.settle(known)
    return list(dict.fromkeys([settled.root, *settled.others, identity.origin, identity.place_origin]))


def states(path: str) -> bool:
    """Return whether the statements of a file at a path are compared with beliefs."""
    return states_by_name(path) or is_manifest(path)

"""A change of a repository: both sides, what a space and its own records believe, and the names it takes away."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import PurePosixPath
from posixpath import normpath

from treering.core.characters import named
from treering.core.errors import InvalidInput, NotFound, TreeringError
from treering.core.evidence import Segment, changed_stretches
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Source, WorkItem
from treering.core.scope import ROOT
from treering.ports.adapter import KnownRepository, ReadLimits, SourceDraft
from treering.ports.ledger import Altered, Ledger, ObjectRequest, Selection
from treering.ports.runtime import fresh_id, fresh_salt
from treering.sources.formats import draft_file
from treering.sources.git.blobs import CommitMessage, TouchedLines, blob_id
from treering.sources.git.identity import RepositoryIdentity, earlier_origins, path_origin
from treering.sources.git.repository import ChangeKind, GitRepository, TouchedFile, TreeChange, TreeEntry
from treering.sources.reading.access import AnyFile
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_bytes
from treering.sources.reading.text import is_markdown
from treering.sources.statements import is_manifest, states_by_name
from treering.system.machine import SystemClock
from treering.verbs.ingest.segments import first_segments

_LIMITS = ReadLimits()
_MOST_BYTES = 256_000_000
"""Of the texts of a change that are held at once."""
_NO_TEXT = b"\0"
_BELIEVED = ("candidate", "active", "contested", "stale")


@dataclass(frozen=True, slots=True)
class Drafted:
    """What one text states, and its segments."""

    stated: tuple[tuple[Knowledge, Segment], ...] = ()
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class RestingLines:
    """Lines that something believed rests on: the path of their file before the change, and their segment."""

    path: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class Belief:
    """Something believed, with the lines of touched files that it rests on.

    `others`: how many pieces of evidence it has besides, in files that the change leaves alone. `record`: the decision
    record or the file of rules that states it before the change; empty where none does. `held`: a space holds it.
    """

    item: Knowledge
    proofs: tuple[RestingLines, ...] = ()
    others: int = 0
    record: str = ""
    held: bool = False

    @property
    def id(self) -> str:
        """Its id in the space; empty where only a file of the repository states it."""
        return self.item.id if self.held else ""


@dataclass(frozen=True)
class BranchChange:
    """What differs between two commits, or between a commit and the files as they lie."""

    repository: GitRepository
    base: str
    head: str
    files: tuple[TouchedFile, ...]
    messages: tuple[CommitMessage, ...] = ()
    lying: Mapping[str, bytes] = field(default_factory=dict)
    """The contents of files that lie in the work tree and not in `head`, by their object id."""
    _texts: dict[str, str | None] = field(default_factory=dict)
    _drafts: dict[tuple[str, str], Drafted] = field(default_factory=dict)
    _trees: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def between(cls, repository: GitRepository, base: str, head: str, *, worktree: bool) -> "BranchChange":
        """Compare `head` with where it left `base`. Raises `NotFound` for an unknown commit, `InvalidInput`."""
        tip = repository.resolve(head)
        fork = repository.merge_base(_resolve(repository, base), tip)
        if fork is None:
            raise InvalidInput(
                f"{base} and {head} have no common commit in this clone.",
                hint="Fetch the whole history: `git fetch --unshallow`, or fetch-depth: 0 in a workflow.",
            )
        change = cls(repository, fork, tip, tuple(repository.touched(fork, tip)))
        messages = tuple(repository.messages(fork, tip))
        found = change._with_work_tree() if worktree else change
        return replace(found, messages=messages)

    @cached_property
    def before(self) -> Mapping[str, TreeEntry]:
        """The files of the base, by path."""
        return {one.path: one for one in self.repository.entries(self.base) if one.kind == "file"}

    @cached_property
    def after(self) -> Mapping[str, str]:
        """The object ids of the files after the change, by path."""
        found = {one.path: one.blob for one in self.repository.entries(self.head) if one.kind == "file"}
        for one in self.files:
            found.pop(one.change.before, None)
        return found | {one.change.path: one.new for one in self.files if one.new}

    @cached_property
    def by_old_path(self) -> Mapping[str, TouchedFile]:
        """The touched files that were there before, by the path that they had."""
        return {one.change.before: one for one in self.files if one.old}

    def read(self, blobs: Iterable[str]) -> None:
        """Read texts at once, by their object ids; one that is too large, or no text, is passed over."""
        sizes = self._sizes
        wanted = [one for one in dict.fromkeys(blobs) if one and one not in self._texts]
        held = 0
        asked: list[TreeEntry] = []
        for blob in sorted(wanted, key=lambda one: sizes.get(one, 0)):
            held += sizes.get(blob, 0)
            if blob in self.lying:
                self._texts[blob] = _text(self.lying[blob])
            elif sizes.get(blob, 0) <= _LIMITS.max_file_bytes and held <= _MOST_BYTES:
                asked.append(TreeEntry("", "file", blob, sizes.get(blob, 0)))
            else:
                self._texts[blob] = None
        for entry, data in self.repository.blobs(asked):
            self._texts[entry.blob] = None if data is None else _text(data)

    def text(self, blob: str) -> str | None:
        """Return a text by its object id; `None` where it cannot be read."""
        if blob and blob not in self._texts:
            self.read([blob])
        return self._texts.get(blob)

    def blob_at(self, commit: str, path: str) -> str:
        """Return the object id that a file had at any commit; empty where it was not there, or the commit is not."""
        if commit not in self._trees:
            try:
                entries = self.repository.entries(self.repository.resolve(commit)) if commit else ()
            except TreeringError:
                entries = ()
            small = (one for one in entries if one.kind == "file" and one.size <= _LIMITS.max_file_bytes)
            self._trees[commit] = {one.path: one.blob for one in small}
        return self._trees[commit].get(path, "")

    def place_now(self, path: str) -> tuple[str, str]:
        """Return the path and the object id that a file has after the change; both empty where it is gone."""
        file = self.by_old_path.get(path)
        now = file.change.path if file and file.new else path
        return (now, self.after[now]) if now in self.after else ("", "")

    def drafted(self, path: str, blob: str) -> Drafted:
        """Return what a file states and its segments, as `ingest` would read it."""
        if (path, blob) not in self._drafts:
            text = self.text(blob) if blob else None
            self._drafts[path, blob] = Drafted() if text is None else _draft(path, text)
        return self._drafts[path, blob]

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        entries = (*self.repository.entries(self.base), *self.repository.entries(self.head))
        return {one.blob: one.size for one in entries} | {blob: len(data) for blob, data in self.lying.items()}

    def _with_work_tree(self) -> "BranchChange":
        """Return the change with what lies uncommitted in the work tree put on top."""
        paths = {one.change.path: one for one in self.files}
        lying: dict[str, bytes] = {}
        for work in self.repository.work_changes():
            earlier = paths.pop(work.path, None)
            before = earlier.change.before if earlier else work.path
            old = self.before[before].blob if before in self.before else ""
            data = None if work.deleted else read_bytes(work.file, _LIMITS.max_file_bytes)
            new = blob_id(data, like=self.head) if data is not None else ""
            if data is not None:
                lying[new] = data if len(data) <= _LIMITS.max_file_bytes else _NO_TEXT
            if old != new:
                kind: ChangeKind = "modified" if old and new else "added" if new else "deleted"
                moved = TreeChange("renamed" if old and new and before != work.path else kind, work.path, before)
                paths[work.path] = TouchedFile(moved, old, new, self._lines(old, data))
        return replace(self, files=tuple(paths[path] for path in sorted(paths)), lying=lying)

    def _lines(self, old: str, data: bytes | None) -> tuple[TouchedLines, ...]:
        one, other = (self.text(old) or "").splitlines(), (_text(data or b"") or "").splitlines()
        return tuple(
            TouchedLines(first + (end > first), end - first, start + (stop > start), stop - start)
            for first, end, start, stop in changed_stretches(one, other)
            if end > first or stop > start
        )


def _resolve(repository: GitRepository, base: str) -> str:
    """Return the commit that a branch names: here, else as it stands at the remote, which is all that CI may have."""
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
    """Return what the repository's own decision records and rules said before the change."""
    paths = [path for path in change.before if states_by_name(path)]
    change.read(change.before[path].blob for path in paths)
    return [
        Belief(item, (RestingLines(path, segment),), record=path)
        for path in paths
        for item, segment in change.drafted(path, change.before[path].blob).stated
    ]


def held_beliefs(ledger: Ledger, paths: Mapping[str, str]) -> list[Belief]:
    """Return what a space believes, with the lines of touched files that it rests on. Any commit may be read last.

    `paths`: those of the touched files, by the ids of their sources.
    """
    where = And((Compare("status", "in", _BELIEVED), Compare("kind", "ne", "summary")))
    altered: Altered = {}
    found = ledger.select(Selection(scope=ROOT, descend=True, types=("knowledge",), where=where), altered=altered)
    beliefs = []
    for item in found:
        if not isinstance(item, Knowledge):
            continue
        proofs, others = [], 0
        for ref in item.evidence_refs:
            if ref.role != "supports":
                continue
            path = paths.get(ref.source_id)
            try:
                segment = ledger.segment(ref.source_id, ref.segment_id) if path else None
            except NotFound:  # erased
                continue
            if path and segment:
                proofs.append(RestingLines(path, segment))
            else:
                others += 1
        beliefs.append(Belief(item, tuple(proofs), others, held=True))
    return beliefs


def together(own: Sequence[Belief], held: Sequence[Belief]) -> list[Belief]:
    """Return all that is believed, each once: what a record states and the space holds is one."""
    said = {_meaning(one.item): one for one in own}
    joined = []
    for one in held:
        stated = said.pop(_meaning(one.item), None)
        joined.append(replace(one, record=stated.record, proofs=one.proofs or stated.proofs) if stated else one)
    return [*joined, *said.values()]


def _meaning(item: Knowledge) -> str:
    return (item if item.scope == ROOT else item.model_copy(update={"scope": ROOT})).duplicate_key()


def open_work(ledger: Ledger) -> Iterator[tuple[WorkItem, list[str]]]:
    """Return the work items that are not done, each with the origins of what they were told by."""
    where = Compare("status", "in", ("open", "in_progress", "blocked"))
    altered: Altered = {}
    found = ledger.select(Selection(scope=ROOT, descend=True, types=("work_item",), where=where), altered=altered)
    for item in found:
        if isinstance(item, WorkItem):
            (read,) = ledger.read([ObjectRequest(objects=item.source_refs)])
            yield item, [one.origin for one in read.objects.values() if isinstance(one, Source)]


def paths_of_sources(ledger: Ledger, change: BranchChange) -> Mapping[str, str]:
    """Return the paths of the touched files by the ids of the sources that a space keeps them as."""
    # A space that has read the change already knows a renamed file by its new path.
    paths = change.by_old_path.keys() | {one.change.path for one in change.files}
    roots, top = _roots(ledger, change.repository), change.repository.top
    origins = {f"{root}#{path}": path for root in roots for path in paths}
    found: dict[str, str] = {}
    for scope in (ROOT, *ledger.scopes(ROOT)) if origins else ():
        states = ledger.sources_at(scope=scope, origins=[*origins])
        found |= {state.id: origins[origin] for origin, state in states.items()}
        if top and (below := ledger.sources(scope=scope, root=path_origin(top.resolve()))):
            # Its folder was read before it was a repository.
            names = {name: path for path in paths for name in earlier_origins(top.resolve() / path)}
            found |= {state.id: names[origin] for origin, state in below.items() if origin in names}
    renamed = {one.change.path: one.change.before for one in change.files if one.old}
    return {source: renamed.get(path, path) for source, path in found.items()}


def _roots(ledger: Ledger, repository: GitRepository) -> list[str]:
    """Return the origins that a space knows the repository by, and its own: by these go files read by their folder."""
    where = And((Compare("kind", "eq", "repo"), Compare("status", "ne", "archived")))
    altered: Altered = {}
    maps = ledger.select(Selection(scope=ROOT, descend=True, types=("source",), where=where), altered=altered)
    known = [KnownRepository(one.origin, one.title, one.payload) for one in maps if isinstance(one, Source)]
    identity = RepositoryIdentity(repository, AnyFile())
    settled = identity.settle(known)
    return list(dict.fromkeys([settled.root, *settled.others, identity.origin, identity.place_origin]))


def states(path: str) -> bool:
    """Tell by a path whether what a file says is compared with what is believed."""
    return states_by_name(path) or is_manifest(path)


# What a text names that a change takes away: files and definitions.


DOCUMENTS = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".txt", ".mdc")
HISTORY = re.compile(r"(?:^|/)(?:change|news|history|release)[^/]*(?:/[^/]*)?$", re.IGNORECASE)
"""Documents that tell of what was: they may name what is gone."""
NAMED_PATH = re.compile(r"(?<![\w@:/.-])(?:\.{0,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*\.\w{1,12}(?![\w/])")
NAMED_CODE = re.compile(r"`([^`\n]{3,120})`")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")
_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([^)]*\))?|unsafe)"
    r"\s+)*(?:def|class|func|fn|function|interface|struct|enum|trait|type)\s+(?:\([^)]*\)\s*)?(\w{3,})"
)
_MOST_NAMES = 200


def by_name(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return paths by the names of their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[PurePosixPath(path).name].append(path)
    return found


def mentions(
    path: str,
    text: str,
    places: Mapping[str, Sequence[str]],
    lasting: Iterable[str],
    gone: Mapping[str, str],
    names: Mapping[str, str],
) -> Iterator[tuple[str, int, str]]:
    """Yield what is gone that a text names: what, at which line of the text, and how to say it."""
    told: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        for token in NAMED_PATH.findall(line) if places else ():
            what = _gone_path(path, token, places, lasting)
            if what and what not in told:
                told.add(what)
                now = f"moves to {named(gone[what])}" if gone[what] else "deletes"
                yield what, number, f"It mentions {named(token)}, which the change {now}."
        for code in NAMED_CODE.findall(line) if names else ():
            for word in _IDENTIFIER.findall(code):
                if word in names and word not in told:
                    told.add(word)
                    yield (
                        word,
                        number,
                        f"It mentions {named(word)}, which the change removes from {named(names[word])}.",
                    )


def _gone_path(path: str, token: str, places: Mapping[str, Sequence[str]], lasting: Iterable[str]) -> str:
    """Return which of the paths that are gone a document means; empty where it means none."""
    name = PurePosixPath(token).name
    if name not in places:
        return ""
    plain = token.removeprefix("./").removeprefix("/")
    beside = normpath(f"{PurePosixPath(path).parent}/{token}") if path else plain
    for one in places[name]:
        if one in (beside, plain) or ("/" in plain and one.endswith(f"/{plain}")):
            return one
    only = len(places[name]) == 1 and "/" not in plain and name not in lasting
    return places[name][0] if only else ""


def removed_names(change: BranchChange) -> Mapping[str, str]:
    """Return the names of definitions that the change takes away, each with the file it was in.

    Words such as `run` are said of much else: a name counts that no word of a language is.
    """
    code = [one for one in change.files if one.old and not is_markdown(one.change.before)]
    change.read(blob for one in code for blob in (one.old, one.new) if blob)
    removed: dict[str, str] = {}
    added: set[str] = set()
    for one in code:
        old, new = (change.text(one.old) or "").split("\n"), (change.text(one.new) or "").split("\n") if one.new else []
        for hunk in one.lines:
            for line in old[hunk.old_first - 1 : hunk.old_first - 1 + hunk.old_count] if hunk.old_count else ():
                if (found := _DEFINITION.match(line)) and _is_no_word(found[1]):
                    removed.setdefault(found[1], one.change.path)
            lines = new[hunk.new_first - 1 : hunk.new_first - 1 + hunk.new_count] if hunk.new_count else ()
            added.update(found[1] for line in lines if (found := _DEFINITION.match(line)))
    kept = [name for name in removed if name not in added]
    return {name: removed[name] for name in kept[:_MOST_NAMES]}


def _is_no_word(name: str) -> bool:
    return "_" in name.strip("_") or not (name.islower() or name.istitle())


def still_there(change: BranchChange, names: Sequence[str]) -> set[str]:
    """Return those of the names that other files still say: they may be defined there as well."""
    if not names:
        return set()
    documents = tuple(DOCUMENTS)
    code = {path: blob for path, blob in change.after.items() if PurePosixPath(path).suffix.lower() not in documents}
    change.read(code.values())
    found: set[str] = set()
    for blob in code.values():
        text = change.text(blob) or ""
        found.update(name for name in names if name in text and re.search(rf"(?<!\w){name}(?!\w)", text))
    return found

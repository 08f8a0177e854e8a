"""The port for reading outside material. An adapter finds it; a format reads it. It never decides, never writes."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from treering.core.errors import Denied
from treering.core.evidence import Definition, Locator, Triple

Role = Literal["prose", "symbol", "code", "data"]
ContentType = Literal["text", "markdown", "structured", "repo_map", "binary_stub"]


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """One passage of a source.

    `text` is stored word for word and searched by words; `heading` is its name for people (a heading path such as
    `Install > Linux`, a symbol such as `Ledger.commit`); `gist` is the text to embed (`None`: heading and text); `role`
    orders the embedding: prose and symbols first, bodies of code and data last.
    """

    locator: Locator
    text: str
    heading: str = ""
    role: Role = "prose"
    gist: str | None = None
    triples: tuple[Triple, ...] = ()
    """The statements of the text, if known; the entity graph also extracts statements from the text."""
    definitions: tuple[Definition, ...] = ()
    """The definitions that fill a part of code: knowledge about one of them outlives a change of the rest."""
    uses: tuple[str, ...] = ()
    """The other code that it imports, calls and uses, in the format of `retrieval.index.code_names.CodeUse`."""


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """An entity that the source mentions or defines. `slug` is unique within a scope and kind."""

    kind: str
    name: str
    slug: str
    summary: str = ""
    aliases: tuple[str, ...] = ()
    part_of: str | None = None
    """Slug of the node it belongs to, as `kind:slug`."""


@dataclass(frozen=True, slots=True)
class KnowledgeDraft:
    """A statement of the text, as a candidate. `segment` indexes the draft's segments."""

    kind: str
    title: str
    payload: Mapping[str, Any]
    segment: int
    summary: str = ""
    confidence: float = 0.6
    about: str | None = None
    """Node it is about, as `kind:slug`."""
    imported: bool = False
    """Whether it comes from another memory, so that the source is its only evidence."""


@dataclass(frozen=True, slots=True)
class SourceDraft:
    """One source as read. `origin` is stable across readings; a change of `fingerprint` means a change of content."""

    kind: str
    origin: str
    title: str
    fingerprint: str
    content_type: ContentType
    segments: Sequence[SegmentDraft] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[NodeDraft] = ()
    knowledge: Sequence[KnowledgeDraft] = ()
    captured_at: datetime | None = None
    warnings: Sequence[str] = ()
    """Warnings for people about this item, such as a redacted secret (kind and line, never the secret)."""
    cleaned: bool = False
    """Whether its segments come from a format, which redacts every text before it cuts it (`ports.format`)."""
    awaits_review: bool = False
    """Whether a person must review it, even if the policy lets an adapter write."""
    screened: bool = False
    """Whether its texts were already searched for secrets (`core.screening`), so that they are not searched again."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An item whose fingerprint is already in the ledger; it was not read.

    `fingerprint`: the one on the branch being read, if other branches may have other contents.
    """

    origin: str
    fingerprint: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Vanished:
    """An origin that existed at the last reading and is gone. `moved_to` is its new origin, if known."""

    origin: str
    moved_to: str | None = None
    was_committed: bool = True
    """Whether it was committed. A rename that is only in a work tree can be undone."""


@dataclass(frozen=True, slots=True)
class BranchRead:
    """The branch of a repository being read. It precedes the items of its files.

    `root` is the origin of the repository. `existing` are all branches, also renamed ones by their earlier name, or
    `None` if unknown; then no branch counts as deleted. `place` is the clone, because another clone has its own
    branches.
    """

    root: str
    branch: str
    commit: str
    known: Mapping[str, Any] = field(default_factory=dict)
    """The previous payload of the repository's map; empty if there is none."""
    existing: frozenset[str] | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    """The newest commit of each existing branch."""
    place: str = ""
    fork: Mapping[str, str] | None = None
    """The contents of files, by origin, at the commit at which a branch left the commit read last.

    A new branch left the first branch. `None` if the branch continues from the commit read last.
    """
    merged: frozenset[str] = frozenset()
    """The known branches that no longer exist and whose commit is an ancestor of the commit read now."""
    newly_merged: frozenset[str] = frozenset()
    """The known branches whose commit is an ancestor of the commit read now, but not of the one read last."""

    @property
    def origin(self) -> str:
        """The origin of the repository."""
        return self.root


@dataclass(frozen=True, slots=True)
class Renamed:
    """A source stored under an earlier origin: the same file or repository, whatever its content.

    It precedes the item of `origin`.
    """

    before: str
    origin: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item left out on purpose, and why."""

    origin: str
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An item that could not be read, and why."""

    origin: str
    why: str


@dataclass(frozen=True, slots=True)
class RootNodes:
    """The current relations between the nodes of a root and its sources."""

    whole: str
    """The node of the root itself, as `kind:slug`; it is linked to the source at the root's origin."""
    prefix: str
    """The prefix of the slugs of all other nodes of the root."""
    present: Mapping[str, frozenset[str]]
    """By kind: the slugs of nodes that still exist. A node with another slug has lost its subject."""
    ties: Mapping[str, Sequence[str]]
    """By `kind:slug` of a node: the origins of its sources."""


@dataclass(frozen=True, slots=True)
class RootRead:
    """The latest reading of a root. `survey` returns its nodes and their sources, on request."""

    origin: str
    whole: str
    """The node of the root itself, as `kind:slug`."""
    survey: Callable[[], RootNodes]


Reading = SourceDraft | Unchanged | Vanished | Renamed | Skipped | Failed | RootRead | BranchRead


@dataclass(frozen=True, slots=True)
class KnownRepository:
    """A repository whose map is in the ledger: the origin, title and payload of the map."""

    origin: str
    title: str
    payload: Mapping[str, Any]


def _nothing(_root: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class AlreadyRead:
    """The stored state below one root: fingerprint by origin, and the last commit read.

    The same file may be stored under other origins: `below` returns the fingerprints of another root (its own, and
    those that follow it with `#` or `/`), `repositories` the known repositories. Both cover only the scope of the call.
    """

    fingerprints: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    below: Callable[[str], Mapping[str, str]] = field(default=_nothing, compare=False)
    repositories: Callable[[], Sequence[KnownRepository]] = field(default=tuple, compare=False)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds for reading. Sizes in bytes."""

    max_file_bytes: int = 2_000_000
    max_items: int = 200_000
    max_segment_chars: int = 4_000
    in_child: bool = False
    """Whether many files are read in a child process, while this one stores them."""


class Adapter(Protocol):
    """Reads one kind of material. `read` yields a result per item and never raises for a single item."""

    def origin(self, target: str) -> str:
        """Return the stable root origin of `target`.

        Every item's origin is this origin, or this origin with `#` or `/` and more, or a location-independent name.
        """
        ...

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Estimate how many items `read` will yield, for progress; `None` if unknown."""
        ...

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield one result per item. Raises `InvalidInput` if `target` cannot be read."""
        ...


@runtime_checkable
class FileLookup(Protocol):
    """An adapter that can find the current location of files read before, without reading them."""

    def origins_today(self, origins: Iterable[str], repositories: Sequence[KnownRepository]) -> Mapping[str, str]:
        """Return the current origin of each file by its stored origin; empty if the file is gone.

        Omits origins that are not files or may not be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A work tree: its folder, the git folder shared by all work trees of its repository, and its checkout."""

    top: Path
    place: str
    branch: str
    """The branch, or its substitute in a detached checkout (`core.versions.DETACHED`)."""
    commit: str


@dataclass(frozen=True, slots=True)
class LyingFile:
    """The current state of a file: the git name of its contents (`core.versions.GIT_BLOB`), and its bytes if UTF-8.

    `data` is `None` without a file.
    """

    contents: str
    data: bytes | None


class TreeLookup(Protocol):
    """Looks up trees of the repositories whose files a space knows. Nothing is written, and nothing is run there."""

    def here(self, folder: Path | None) -> CheckedOut | None:
        """Return the work tree of a folder; without a folder, the caller's work tree, if any."""
        ...

    def commit(self, place: str, revision: str) -> str:
        """Return the commit of a revision in the repository at a place; empty if there is none."""
        ...

    def differing(self, place: str, before: str, after: str) -> Mapping[str, str | None] | None:
        """Return, by path, the blob in the second commit if it differs from the first; `None` as value means no file.

        Returns `None` if the repository cannot be read there.
        """
        ...

    def changed(self, place: str, commit: str, *, since: str) -> Collection[str]:
        """Return the paths that a commit changes since its history left another one; none if unknown."""
        ...

    def texts_before(self, tree: CheckedOut, path: str, *, since: str) -> tuple[str, str] | None:
        """Return the text of a file at the fork of a work tree and a commit, and at this commit.

        The fork is the last commit that both histories have. `None` if the file is not text at both.
        """
        ...

    def moved(self, tree: CheckedOut, *, since: str) -> Mapping[str, str]:
        """Return by its path at a commit the path of each file that was renamed since; none if unknown.

        Files renamed and edited are found as git finds them, also before they are committed.
        """
        ...

    def path_now(self, tree: CheckedOut, path: str) -> str:
        """Return the path that a file of an earlier commit was renamed to; empty if it was not."""
        ...

    def lying(self, tree: CheckedOut, path: str) -> LyingFile | None:
        """Read the current contents of a file in a work tree; `None` if it is too large or may not be read."""
        ...


class FileAccess(Protocol):
    """Decides on every path before anything opens it."""

    @property
    def root(self) -> Path | None:
        """The folder from which files may be read; `None` if there is no limit."""
        ...

    def place(self, target: str) -> Path:
        """Return the absolute path of a target, with links resolved.

        Raises `Denied` if it may not be read, `InvalidInput` if it is not a valid path.
        """
        ...

    def check(self, path: Path, what: str) -> Path:
        """Return a path with its links resolved. `what` describes its origin in errors. Raises `Denied`."""
        ...

    def holds(self, path: Path) -> bool:
        """Return whether a resolved path may be read."""
        ...

    def text(self, path: Path) -> str | None:
        """Return the text of a file at a resolved path; `None` if it is no regular file, too large or not text.

        Raises `Denied` for a file that may not be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoFiles:
    """Access to no files."""

    @property
    def root(self) -> None:
        """No folder."""

    def place(self, target: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def check(self, path: Path, what: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def holds(self, path: Path) -> bool:  # noqa: ARG002 - one shape for all kinds of access
        """Return `False`."""
        return False

    def text(self, path: Path) -> str | None:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()


def _no_files() -> Denied:
    return Denied(
        "This server may not read files.",
        hint="Start it with --files FOLDER, or give the text itself with mode 'source'.",
    )


class WrittenFiles(Protocol):
    """The files that a part wrote below one root."""

    def reading(
        self, data: bytes, *, path: str, origin: str, commit: str | None = None
    ) -> SourceDraft | Skipped | None:
        """Read a file that the part may have written; `None` if it did not."""
        ...

    def wrote(self, path: str) -> bool:
        """Return whether the part wrote a file, which is then no evidence about the repository."""
        ...

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a file of the part cites, each once."""
        ...


class FilesAround(Protocol):
    """The same for files anywhere: written files are looked up in the folders above each file."""

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that the part may have written; `path` is its path in citations. `None` if it did not."""
        ...


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Recognition of files written by a part, for adapters.

    `is_manifest` returns whether a file is a manifest of written files, by its name. `below` returns the files listed
    in manifests, given by path. `around` looks them up in the folders above each file. `as_they_lie` returns for a work
    tree, the manifests and the paths of a commit the files missing from the work tree, and the files to read from it.
    """

    is_manifest: Callable[[str], bool]
    below: Callable[[Mapping[str, bytes]], WrittenFiles]
    around: Callable[[FileAccess], FilesAround]
    as_they_lie: Callable[[Path, Mapping[str, bytes], Container[str]], tuple[list[str], list[str]]]

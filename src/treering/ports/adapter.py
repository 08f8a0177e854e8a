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
    """One stretch of a source.

    `text` is kept word for word and searched by words; `heading` is what people call it (a heading path
    such as `Install > Linux`, a symbol such as `Ledger.commit`); `gist` is what is embedded (`None`: heading
    and text); `role` orders the embedding: prose and symbols first, bodies of code and data last.
    """

    locator: Locator
    text: str
    heading: str = ""
    role: Role = "prose"
    gist: str | None = None
    triples: tuple[Triple, ...] = ()
    """What the text states, where somebody said so; the entity graph reads the text besides."""
    definitions: tuple[Definition, ...] = ()
    """The definitions that fill a part of code: knowledge about one of them outlives a change of the rest."""
    uses: tuple[str, ...] = ()
    """What it imports, calls and uses of other code, as `retrieval.index.code_names.CodeUse` writes it."""


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A stable thing the source shows to exist. `slug` is unique within a scope and kind."""

    kind: str
    name: str
    slug: str
    summary: str = ""
    aliases: tuple[str, ...] = ()
    part_of: str | None = None
    """Slug of the node it belongs to, as `kind:slug`."""


@dataclass(frozen=True, slots=True)
class KnowledgeDraft:
    """Something the text itself states, as a candidate. `segment` indexes the draft's segments."""

    kind: str
    title: str
    payload: Mapping[str, Any]
    segment: int
    summary: str = ""
    confidence: float = 0.6
    about: str | None = None
    """Node it is about, as `kind:slug`."""
    imported: bool = False
    """Another memory held it to be true, and the source is all that it shows."""


@dataclass(frozen=True, slots=True)
class SourceDraft:
    """One source as read. `origin` is stable across re-reading; `fingerprint` tells whether it changed."""

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
    """What a person should know of this item, such as a redacted secret (kind and line, never the secret)."""
    cleaned: bool = False
    """Its segments come from a format, which takes secrets out of every text before it cuts it (`ports.format`)."""
    awaits_review: bool = False
    """It is proposed, whatever the policy lets an adapter write: a person decides what becomes of it."""
    screened: bool = False
    """All its texts were made of what had been searched for secrets (`core.screening`): they are not searched again."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An item whose fingerprint the ledger already holds; it was not read.

    `fingerprint`: what it has on the branch that is read, where other branches may have other contents.
    """

    origin: str
    fingerprint: str = ""
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Vanished:
    """An origin that was there at the last reading and is gone. `moved_to` names its new origin, if known."""

    origin: str
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class BranchRead:
    """Which branch of a repository is read. It comes before what is said of its files.

    `root` is the origin of the repository. `existing` are the branches that there are, `None` where that is not known;
    then none is taken for deleted. `place` says where: another clone has branches of its own.
    """

    root: str
    branch: str
    commit: str
    known: Mapping[str, Any] = field(default_factory=dict)
    """The payload of the repository's map as it was until now; empty where there is none."""
    existing: frozenset[str] | None = None
    heads: Mapping[str, str] = field(default_factory=dict)
    """The newest commit of each of the branches that there are."""
    place: str = ""

    @property
    def origin(self) -> str:
        """The origin of the repository."""
        return self.root


@dataclass(frozen=True, slots=True)
class Renamed:
    """A source known by another origin than the one it has today: the same file or repository, whatever it says now.

    It comes before what is said of `origin` itself.
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
    """How the nodes of a root and its sources belong together, of everything that is there now."""

    whole: str
    """The node of the root itself, as `kind:slug`; it is tied to the source at the root's origin."""
    prefix: str
    """What the slugs of all other nodes of the root begin with."""
    present: Mapping[str, frozenset[str]]
    """By kind: the slugs that nodes of what is there may have. A node with another one has lost what it stood for."""
    ties: Mapping[str, Sequence[str]]
    """By `kind:slug` of a node: the origins of its sources."""


@dataclass(frozen=True, slots=True)
class RootRead:
    """The last reading of a root. `survey` tells how its nodes and sources belong together, if anybody asks."""

    origin: str
    whole: str
    """The node of the root itself, as `kind:slug`."""
    survey: Callable[[], RootNodes]


Reading = SourceDraft | Unchanged | Vanished | Renamed | Skipped | Failed | RootRead | BranchRead


@dataclass(frozen=True, slots=True)
class KnownRepository:
    """A repository the ledger holds the map of: the origin, title and payload of its map."""

    origin: str
    title: str
    payload: Mapping[str, Any]


def _nothing(_root: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class AlreadyRead:
    """What the ledger already holds below one root: fingerprint by origin, and the last commit read.

    The same file may be known by other origins: `below` gives the fingerprints of another root (its own, and those
    that follow it with `#` or `/`), `repositories` the repositories known. Both tell of the scope of the call alone.
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


class Adapter(Protocol):
    """Reads one kind of material. `read` yields a result per item and never raises for a single item."""

    def origin(self, target: str) -> str:
        """Return the stable root origin of `target`.

        Every item's origin is it, or starts with it and `#` or `/`, or is a name that the item has wherever it lies.
        """
        ...

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Estimate how many items `read` will yield, for progress; `None` where unknown."""
        ...

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield one result per item. Raises `InvalidInput` where `target` itself cannot be read."""
        ...


@runtime_checkable
class FileLookup(Protocol):
    """An adapter that can look where files lie that were read before, without reading them."""

    def origins_today(self, origins: Iterable[str], repositories: Sequence[KnownRepository]) -> Mapping[str, str]:
        """Return by origin the one that its file has today, empty where the file is gone.

        What is not a file, or lies where nobody may look, is left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A work tree: its folder, the git folder that all work trees of its repository share, and what is checked out."""

    top: Path
    place: str
    branch: str
    """The branch, or what stands in its place where none is checked out (`core.versions.DETACHED`)."""
    commit: str


@dataclass(frozen=True, slots=True)
class LyingFile:
    """A file as it lies: what its contents are called (`core.versions.GIT_BLOB`), and its bytes, of a text in UTF-8.

    `data` is `None` without a file.
    """

    contents: str
    data: bytes | None


class TreeLookup(Protocol):
    """Looks up trees of the repositories whose files a space knows. Nothing is written, and nothing is run there."""

    def here(self, folder: Path | None) -> CheckedOut | None:
        """Return the work tree that a folder lies in; without a folder the one that is asked from, if any."""
        ...

    def commit(self, place: str, revision: str) -> str:
        """Return the commit that a revision names in the repository at a place; empty where there is none."""
        ...

    def differing(self, place: str, before: str, after: str) -> Mapping[str, str | None] | None:
        """Return by path the blob that the second commit has where the first has another one, `None` for no file.

        `None` in all where the repository cannot be read there.
        """
        ...

    def changed(self, place: str, commit: str, *, since: str) -> Collection[str]:
        """Return the paths that a commit changes since its history left another one; none if unknown."""
        ...

    def lying(self, tree: CheckedOut, path: str) -> LyingFile | None:
        """Read a file of a work tree as it lies; `None` where it may not be read or is too large to be compared."""
        ...


# The port of file access: which of the files that a caller names may be read.


class FileAccess(Protocol):
    """Decides on every path before anything opens it."""

    @property
    def root(self) -> Path | None:
        """The folder below which files may be read; `None` where none is set."""
        ...

    def place(self, target: str) -> Path:
        """Return the absolute path a target names, links resolved.

        Raises `Denied` where it may not be read, `InvalidInput` for what cannot be a path.
        """
        ...

    def check(self, path: Path, what: str) -> Path:
        """Return a path with its links resolved. `what` names what leads there. Raises `Denied`."""
        ...

    def holds(self, path: Path) -> bool:
        """Tell whether a resolved path may be read."""
        ...

    def text(self, path: Path) -> str | None:
        """Return the text of a file at a resolved path; `None` if it is no regular file, too large or not text.

        Raises `Denied` for a file that may not be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoFiles:
    """No file at all."""

    @property
    def root(self) -> None:
        """The folder below which files may be read: there is none."""

    def place(self, target: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def check(self, path: Path, what: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def holds(self, path: Path) -> bool:  # noqa: ARG002 - one shape for all kinds of access
        """Return false."""
        return False

    def text(self, path: Path) -> str | None:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()


def _no_files() -> Denied:
    return Denied(
        "This server may not read files.",
        hint="Start it with --files FOLDER, or give the text itself with mode 'source'.",
    )


# Files that Treering wrote itself: nothing is evidence of itself.


class WrittenFiles(Protocol):
    """The files that a part wrote below one root."""

    def reading(
        self, data: bytes, *, path: str, origin: str, commit: str | None = None
    ) -> SourceDraft | Skipped | None:
        """Read a file that the part may have written; `None` where it did not."""
        ...

    def wrote(self, path: str) -> bool:
        """Tell whether the part wrote a file: it tells nothing of the repository."""
        ...

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a file of the part rests on, each once."""
        ...


class FilesAround(Protocol):
    """The same for files that lie anywhere: what the part wrote is looked for in the folders above each."""

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that the part may have written; `path` is what it is cited by. `None` where it did not."""
        ...


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """How adapters recognize the files that a part wrote.

    `is_manifest`: whether a path names a list of files that the part wrote. `below`: the files in such lists, given by
    path. `around`: files recognized by the lists in the folders above them. `as_they_lie`: of a work tree, the
    lists and the paths of a commit, the files that are gone from the work tree, and those to read from it.
    """

    is_manifest: Callable[[str], bool]
    below: Callable[[Mapping[str, bytes]], WrittenFiles]
    around: Callable[[FileAccess], FilesAround]
    as_they_lie: Callable[[Path, Mapping[str, bytes], Container[str]], tuple[list[str], list[str]]]

"""The port for file formats: bytes in, segments out. An adapter finds files and walks; a format reads them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from treering.core.errors import InvalidInput
from treering.ports.adapter import (
    ContentType,
    Failed,
    KnowledgeDraft,
    NodeDraft,
    ReadLimits,
    SegmentDraft,
    Skipped,
    SourceDraft,
)

if TYPE_CHECKING:
    from treering.core.secrets.redaction import Redacted


class Segmenter(Protocol):
    """Cuts a text that is not a file, such as a note, into segments that together contain every line with text."""

    def __call__(self, text: str, *, max_chars: int) -> Sequence[SegmentDraft]:
        """Return the segments in order, each of at most `max_chars`, with heading path and offset."""
        ...


HEAD_BYTES = 4_096
"""The number of bytes at the beginning of a file that a format sees to decide whether it can read the file."""

ONLY_FIRST_LINES = "only its first lines are indexed"
"""End of the warning about a file, such as a lock file, of which only the first lines are stored."""


@dataclass(frozen=True, slots=True)
class FormatLimits:
    """How much of one file a format reads, as the format declares it."""

    max_bytes: int | None = None
    """Longer files are left to other formats. `None`: the limit of any file (`ReadLimits.max_file_bytes`)."""
    max_segments: int | None = None
    """The maximum number of segments; the rest is omitted with a warning. `None`: no limit."""


PROSE_SUFFIX = r"\.(?:md|markdown|mdown|mkd|mdx|mdc|rst|rest|txt|adoc|asciidoc)"
"""A regular expression for the suffixes of files that consist of prose, in lower case."""
_PROSE_FILE = re.compile(rf"{PROSE_SUFFIX}$", re.IGNORECASE)
_RECORD = re.compile(
    r"(?:^|/)(?:(?:adrs?|(?:architecture[-_])?decisions?(?:-records?)?|rfcs?|peps?|proposals)/[^/]+|adr[-_]?\d[^/]*)"
    rf"{PROSE_SUFFIX}$",
    re.IGNORECASE,
)
_AMONG_RECORDS = re.compile(
    r"(?:^|/)(?:adr[-_])?(?:(?:readme|index)\.|(?:0+[-_])?(?:[a-z]+[-_])?template)[^/]*$", re.IGNORECASE
)


def is_prose_file(path: str) -> bool:
    """Return by a file's suffix whether it consists of prose."""
    return _PROSE_FILE.search(path) is not None


def is_decision_record(path: str) -> bool:
    """Return by its path whether a file records a decision."""
    return _RECORD.search(path) is not None and not is_record_template(path)


def is_record_template(path: str) -> bool:
    """Return by its name whether a file is a template or an index of decision records, and records no decision."""
    return _AMONG_RECORDS.search(path) is not None


@lru_cache(maxsize=256)
def posix_path(path: str) -> PurePosixPath:
    """Parse a path, with a cache, because each format checks its name or suffix."""
    return PurePosixPath(path)


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file's properties apart from its bytes, and how to read it."""

    path: str
    """The POSIX path, which its segments cite and formats recognize it by."""
    limits: ReadLimits
    commit: str | None = None
    redact_secrets: bool = True
    address: str = ""
    """The web address it was fetched from; empty for other files."""

    @property
    def suffix(self) -> str:
        """Return the suffix of its name in lower case, with the dot."""
        return posix_path(self.path).suffix.lower()

    def cleaned(self, text: str) -> "Redacted":
        """Redact the secrets in a text of the file, unless that is disabled.

        A format calls it on every text before it cuts it, because no segment may contain a secret.
        """
        # Imported here: most processes read no files, and compiling the patterns of secrets is slow.
        from treering.core.secrets.redaction import Redacted, redact

        return redact(text) if self.redact_secrets else Redacted(text)


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """The document in one file. The adapter adds location and fingerprint."""

    content_type: ContentType
    segments: Sequence[SegmentDraft] = ()
    title: str = ""
    """The title in the file; if empty, the path is used."""
    kind: str = "file"
    payload: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    knowledge: Sequence[KnowledgeDraft] = ()
    nodes: Sequence[NodeDraft] = ()
    """Entities that it mentions or defines; their names contain no secrets."""
    captured_at: datetime | None = None
    missing_extra: str = ""
    """The missing extra that could read more of it; the file is read again, in case it was installed meanwhile."""
    warnings: Sequence[str] = ()
    """Warnings for people, such as a redacted secret (kind and line, never the secret)."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file of the format that is too damaged or hostile to store, with the reason."""

    why: str


class Format(Protocol):
    """Read files with one source each. The same bytes under the same path always return the same document.

    Never raises because of content: damaged bytes are not of the format, are `Unreadable`, or return a document whose
    warnings name the missing parts. The contract suite is `treering.testing.format_contract`.
    """

    @property
    def name(self) -> str:
        """The name of the format, in one word."""
        ...

    @property
    def limits(self) -> FormatLimits:
        """How much of a file it reads."""
        ...

    def claims(self, path: str, head: bytes, /) -> bool:
        """Return whether a file may be of this format, by its path and first `HEAD_BYTES`, without reading it.

        `head` is empty if only the path is known, as before reading a large file.
        """
        ...

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a file. `None`: it is not of this format after all, and the next one is asked.

        Flags of text that looks like instructions are in `metadata["flags"]`.
        """
        ...


class Collection(Protocol):
    """A format whose files contain many sources, such as an export of conversations. It limits its own reading."""

    @property
    def name(self) -> str:
        """The name of the format, in one word."""
        ...

    def claims(self, path: str, /) -> bool:
        """Return whether to open a file, by its path."""
        ...

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return one result per source, or `None` for another format. `stream` is seekable; its errors propagate.

        `origin` is the origin of the file. A source's origin is this origin with `#` and a name, or its own global
        name.
        """
        ...


@dataclass(frozen=True, slots=True)
class Formats:
    """The known formats, in the order in which they are tried. Raises `InvalidInput` for duplicate names."""

    documents: tuple[Format, ...]
    collections: tuple[Collection, ...] = ()

    def __post_init__(self) -> None:
        names = Counter([*(one.name for one in self.documents), *(one.name for one in self.collections)])
        duplicates = [name for name, count in names.items() if count > 1]
        if duplicates:
            raise InvalidInput(f"Two formats are named {duplicates[0]!r}.", hint="Give each a unique name.")

    def claiming(self, path: str, head: bytes) -> Iterator[Format]:
        """Return the formats that may read a file, in the order in which they are tried."""
        return (one for one in self.documents if one.claims(path, head))

    def collections_of(self, path: str) -> Iterator[Collection]:
        """Return the collection formats that may read a file, by its path."""
        return (one for one in self.collections if one.claims(path))

    def max_bytes(self, path: str, limits: ReadLimits) -> int:
        """Return the maximum size of a file to be read as one source, by its path."""
        return max((allowed_bytes(one, limits) for one in self.claiming(path, b"")), default=limits.max_file_bytes)

    @property
    def segmenters(self) -> Mapping[str, Segmenter]:
        """Return the functions that split inline texts, by the name of the format: the content type of inline items.

        A format that splits texts that are not files, such as notes, has the attribute `segmenter`.
        """
        return {one.name: segmenter for one in self.documents if (segmenter := getattr(one, "segmenter", None))}


def allowed_bytes(one: Format, limits: ReadLimits) -> int:
    """Return the maximum size of a file that a format reads."""
    return limits.max_file_bytes if one.limits.max_bytes is None else one.limits.max_bytes

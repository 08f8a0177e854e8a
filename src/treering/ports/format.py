"""The port for file formats: bytes in, segments out. An adapter finds files and walks; a format reads them."""

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

# The port for cutting an inline text into segments.


class Segmenter(Protocol):
    """Cuts a text that is not a file, such as a note; every line that shows something is in some segment."""

    def __call__(self, text: str, *, max_chars: int) -> Sequence[SegmentDraft]:
        """Return the segments in order, none longer than `max_chars`, placed by heading path and offset."""
        ...


HEAD_BYTES = 4_096
"""How much of a file's beginning a format is shown when it is asked whether a file is its own."""

ONLY_FIRST_LINES = "only its first lines are indexed"
"""End of the warning about a file, such as a lock file, of which no more is stored."""


@dataclass(frozen=True, slots=True)
class FormatLimits:
    """How much of one file a format reads, as the format declares it."""

    max_bytes: int | None = None
    """A longer file is left to other formats. `None`: as many bytes as of any file (`ReadLimits.max_file_bytes`)."""
    max_segments: int | None = None
    """The segments after so many are left out, and the source says so. `None`: as many as there are."""


posix_path = lru_cache(maxsize=256)(PurePosixPath)
"""Gives a path, taken apart once: each format asks a file for its name or its ending."""


@dataclass(frozen=True, slots=True)
class FileToRead:
    """What is known of a file besides its bytes, and how it is to be read."""

    path: str
    """POSIX. Its segments cite it, and formats recognise the file by it."""
    limits: ReadLimits
    commit: str | None = None
    redact_secrets: bool = True
    address: str = ""
    """Where on the web it was fetched from; empty for others."""

    @property
    def suffix(self) -> str:
        """Return the ending of its name in small letters, with the dot."""
        return posix_path(self.path).suffix.lower()

    def cleaned(self, text: str) -> "Redacted":
        """Return a text of the file with its secrets replaced, unless they are to stay.

        A format calls it on every text before it cuts it: no segment may hold a secret.
        """
        # Imported here: who asks a space reads no files, and the patterns of secrets take long to make.
        from treering.core.secrets.redaction import Redacted, redact

        return redact(text) if self.redact_secrets else Redacted(text)


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """What a format read in one file. Where the file lies and what its fingerprint is, the adapter knows."""

    content_type: ContentType
    segments: Sequence[SegmentDraft] = ()
    title: str = ""
    """What the file calls itself; where it does not, it is called by its path."""
    kind: str = "file"
    payload: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    knowledge: Sequence[KnowledgeDraft] = ()
    nodes: Sequence[NodeDraft] = ()
    """Things in the world that it shows to exist, with names without secrets."""
    captured_at: datetime | None = None
    missing_extra: str = ""
    """The extra that is not installed and would read more of it: the file is read again, in case it is by then."""
    warnings: Sequence[str] = ()
    """What a person should know, such as a redacted secret (kind and line, never the secret)."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that is of the format, and so damaged or hostile that nothing of it is kept; and why."""

    why: str


class Format(Protocol):
    """Reads files that are one source each. The same bytes under the same path always give the same document.

    It raises for no content: damaged bytes are not of the format, are `Unreadable`, or give a document that says in its
    warnings what is missing. The contract suite is `treering.testing.format_contract`.
    """

    @property
    def name(self) -> str:
        """Name the format in one word."""
        ...

    @property
    def limits(self) -> FormatLimits:
        """How much of a file it reads."""
        ...

    def claims(self, path: str, head: bytes, /) -> bool:
        """Tell by its path and its first `HEAD_BYTES` whether a file may be of this format; without reading it.

        `head` is empty where only the path is known yet, as before a large file is read.
        """
        ...

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a file. `None`: it is not of this format after all, and the next one is asked.

        Text shaped like instructions is named in `metadata["flags"]`.
        """
        ...


class Collection(Protocol):
    """A format whose files hold many sources, such as an export of conversations. It bounds itself what it reads."""

    @property
    def name(self) -> str:
        """Name the format in one word."""
        ...

    def claims(self, path: str, /) -> bool:
        """Tell by its path whether a file is worth opening."""
        ...

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per source; `None`: it is no such file. `stream` can seek. Raises what reading it raises.

        `origin` is the file's. A source's is it with `#` and a name, or a name that it bears wherever it lies.
        """
        ...


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats known, in the order in which they are asked. Raises `InvalidInput` for two of one name."""

    documents: tuple[Format, ...]
    collections: tuple[Collection, ...] = ()

    def __post_init__(self) -> None:
        names = Counter([*(one.name for one in self.documents), *(one.name for one in self.collections)])
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise InvalidInput(f"Two formats are named {twice[0]!r}.", hint="Give each a unique name.")

    def claiming(self, path: str, head: bytes) -> Iterator[Format]:
        """Return the formats that may read a file, the first to be asked first."""
        return (one for one in self.documents if one.claims(path, head))

    def collections_of(self, path: str) -> Iterator[Collection]:
        """Return the formats of many sources that a file may be of, by its path."""
        return (one for one in self.collections if one.claims(path))

    def max_bytes(self, path: str, limits: ReadLimits) -> int:
        """Return how long a file may be, by its path, to be read as one source."""
        return max((allowed_bytes(one, limits) for one in self.claiming(path, b"")), default=limits.max_file_bytes)

    @property
    def segmenters(self) -> Mapping[str, Segmenter]:
        """Return what cuts inline texts, such as notes, by the name of its format: the content type of an inline item.

        A format that does has the attribute `segmenter`.
        """
        return {one.name: segmenter for one in self.documents if (segmenter := getattr(one, "segmenter", None))}


def allowed_bytes(one: Format, limits: ReadLimits) -> int:
    """Return how long a file may be that a format reads."""
    return limits.max_file_bytes if one.limits.max_bytes is None else one.limits.max_bytes

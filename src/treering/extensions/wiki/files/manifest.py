"""What was written into a folder of pages, and what of it is a person's by now.

The manifest is kept in the folder, so that a person's edits are seen and gone pages are known.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from treering.core.errors import Corrupt, InvalidInput
from treering.extensions.wiki.files.links import fenced_lines
from treering.verbs.envelope import Value

# Which paths pages may have below the root of a wiki.


INDEX = "index.md"
LOG = "log.md"
RESERVED = frozenset({INDEX, LOG})
"""Files that every wiki has besides its pages."""

_LONGEST_NAME = 200  # bytes, below what file systems take
_LONGEST_PATH = 1_000
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|#%\u2028\u2029\ud800-\udfff]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def check_page_paths(paths: Iterable[str]) -> None:
    """Raise `InvalidInput` for a path that no page may have, and for two that a file system may take for one."""
    taken: dict[str, str] = {folded: folded for folded in RESERVED}
    for path in paths:
        if not is_page_path(path):
            raise InvalidInput(
                f"{path[:200]!r} is not a valid path of a wiki page.",
                hint="A path is relative, ends in .md, and has no '..', hidden or reserved names.",
            )
        if path.casefold() in taken:
            raise InvalidInput(
                f"Two pages would have the path {path!r}.",
                hint=f"Paths are case-insensitive; {' and '.join(sorted(RESERVED))} are created by the wiki itself.",
            )
        taken[path.casefold()] = path
    _refuse_page_as_folder(taken)


def is_page_path(path: str) -> bool:
    """Tell whether a path stays below its root on every file system, and names a Markdown file."""
    return path.endswith(".md") and len(path) <= _LONGEST_PATH and all(map(_is_name, path.split("/")))


def _is_name(name: str) -> bool:
    return (
        bool(name)
        and not name.startswith((".", " ", "-"))
        and not name.endswith((".", " "))
        and name != ".md"
        and not _NOT_IN_NAMES.search(name)
        and not _DEVICE.fullmatch(name)
        and len(name.encode()) <= _LONGEST_NAME
    )


def _refuse_page_as_folder(taken: Iterable[str]) -> None:
    pages = set(taken)
    for path in pages:
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if above in pages:
                raise InvalidInput(f"{above!r} would be both a page and a folder of pages.", hint="Rename one of them.")


MANIFEST = ".treering-wiki.json"

VERSION = 1
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


def _page_path(path: str) -> str:
    if not is_page_path(path):
        raise ValueError("this is not the path of a page")
    return path


_Path = Annotated[str, AfterValidator(_page_path)]


class WrittenCitation(Value):
    """Lines that a page rests on, as they stood when it was written."""

    path: str
    first: int
    last: int
    commit: str = ""
    digest: str = ""
    """Of their text; empty where it was not known."""

    def __str__(self) -> str:
        at = f" @ {self.commit[:12]}" if self.commit else ""
        return f"{self.path}#L{self.first}-L{self.last}{at}"


class WrittenFile(Value):
    """A file as Treering wrote it, before any region of a person."""

    digest: _Digest
    """Of its text."""
    blocks: tuple[_Digest, ...]
    """Of each of its blocks."""
    title: str = ""
    cited: tuple[WrittenCitation, ...] = ()
    unresolved: tuple[str, ...] = ()
    """Links of its body that lead nowhere; they were written as plain text."""


class WikiLogEntry(Value):
    """One time the wiki changed."""

    date: str = ""
    """Of the commit, as YYYY-MM-DD."""
    commit: str = ""
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class WikiManifest(Value):
    """All that was written into a folder."""

    version: Literal[1] = 1
    title: str = ""
    files: Mapping[_Path, WrittenFile] = Field(default={})
    log: tuple[WikiLogEntry, ...] = ()
    """Newest first."""


def manifest_text(manifest: WikiManifest) -> str:
    """Write a manifest as JSON, a line per file, so that it is read well in a comparison of versions."""
    files = [f"  {_json(path)}: {_json(_data(one))}" for path, one in sorted(manifest.files.items())]
    log = [f"  {_json(_data(entry))}" for entry in manifest.log]
    return (
        f'{{"version": {VERSION}, "title": {_json(manifest.title)},\n"files": {{\n'
        + ",\n".join(files)
        + '\n},\n"log": [\n'
        + ",\n".join(log)
        + "\n]}\n"
    )


def read_manifest(data: bytes, *, place: str) -> WikiManifest:
    """Read a manifest. Raises `InvalidInput` for one of a later version, `Corrupt` for what is not a manifest."""
    try:
        found = json.loads(data)
        if isinstance(found, Mapping) and isinstance(found.get("version"), int) and found["version"] > VERSION:
            raise InvalidInput(
                f"{place} was written by a later version of Treering (version {found['version']}).",
                hint="Upgrade Treering.",
            )
        return WikiManifest.model_validate(found)
    except (ValueError, RecursionError, ValidationError) as error:
        raise Corrupt(
            f"{place} cannot be read.",
            hint="Restore it, for example from version control. Without it, all pages there count "
            "as written by a person.",
        ) from error


def _data(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_defaults=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)


# What of a page is a person's: regions between marker comments, and entries of the front matter.
#
# A region begins with a line `<!-- treering:keep -->` and ends with `<!-- treering:end -->`. It stays in its section
# when the page is written anew: after the line it followed, else at the section's end, else at the end of the page.


KEEP = "<!-- treering:keep -->"
END = "<!-- treering:end -->"

_MARKER = re.compile(r" {0,3}<!--\s*treering:(?P<which>keep|end)\s*-->\s*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t].*)?")
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Region:
    """A person's region, with its markers, and where it stood."""

    text: str
    heading: str
    """The line of the heading above it; empty above the first."""
    after: str
    """The last line of text before it."""


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as it lies, parted into what Treering wrote and what is a person's."""

    written: str
    regions: tuple[Region, ...]
    entries: str
    """Of the front matter."""
    open_region: bool = False
    """Whether a region is begun and never ended, or ended and never begun: then all of the page counts as written."""


def part(text: str) -> PageText:
    """Part the text of a page."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    written, regions, region = list[str](), list[Region](), list[str]()
    heading = after = ""
    for line, code in fenced_lines(text):
        marker = None if code else _MARKER.fullmatch(line)
        if marker and (marker["which"] == "keep") == bool(region):
            return PageText(text, (), "", open_region=True)
        if marker or region:
            region.append(line)
            if marker and marker["which"] == "end":
                regions.append(Region("\n".join(region), heading, after))
                region = []
            continue
        written.append(line)
        if not code and _HEADING.fullmatch(line):
            heading = line.strip()
        after = line.strip() or after
    if region:
        return PageText(text, (), "", open_region=True)
    whole, entries = own_entries("\n".join(written))
    return PageText(whole, tuple(regions), entries)


def merged(written: str, before: PageText) -> str:
    """Put a person's regions and entries into a page that was written anew."""
    lines = list(fenced_lines(written))
    places: dict[int, list[str]] = {}
    for region in before.regions:
        places.setdefault(_place(lines, region), []).append(region.text)
    made = list[str]()
    for number in range(len(lines) + 1):
        for text in places.get(number, ()):
            made += ([""] if made and made[-1].strip() else []) + [text, ""]
        if number < len(lines) and not (number in places and not lines[number][0].strip()):
            made.append(lines[number][0])
    text = "\n".join(made).rstrip("\n") + "\n"
    return with_own_entries(text, before.entries)


def without_markers(body: str) -> str:
    """Return a body in which no line begins or ends a region: what is written is never a person's."""
    return "\n".join(
        line.replace("<!--", "&lt;!--", 1) if not code and _MARKER.fullmatch(line) else line
        for line, code in fenced_lines(body)
    )


def blocks(text: str) -> list[str]:
    """Cut a text at its blank lines."""
    found, block = list[str](), list[str]()
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            found.append("\n".join(block))
            block = []
    return found


def block_digests(text: str) -> tuple[str, ...]:
    """Return a short digest of each block: by these it is seen later what a person changed."""
    return tuple(map(short_digest, blocks(text)))


def short_digest(text: str) -> str:
    """Return the first 64 bits of the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _place(lines: list[tuple[str, bool]], region: Region) -> int:
    """Return before which line a region goes."""
    start, end = _section(lines, region.heading)
    for number in range(start, end):
        line, code = lines[number]
        ends_block = number + 1 >= end or not lines[number + 1][0].strip()
        inside = code and number + 1 < end and lines[number + 1][1]
        if line.strip() == region.after and ends_block and not inside:
            return number + 1
    return _without_blanks(lines, start, end)


def _section(lines: list[tuple[str, bool]], heading: str) -> tuple[int, int]:
    headings = [n for n, (line, code) in enumerate(lines) if not code and _HEADING.fullmatch(line)]
    start = next((n for n in headings if lines[n][0].strip() == heading), None)
    if start is None:
        return (0, headings[0]) if not heading and headings else (len(lines), len(lines))
    return start, next((n for n in headings if n > start), len(lines))


def _without_blanks(lines: Iterable[tuple[str, bool]], start: int, end: int) -> int:
    rows = list(lines)
    while end > start and not rows[end - 1][0].strip():
        end -= 1
    return end


# The front matter of a page: written as YAML that every reader takes, and the lines in it that are a person's.


OURS = frozenset("okf_version type title description aliases status generated sources verified stale_after".split())
"""The keys that Treering writes; all others are a person's own and stay."""

_RULE = "---"
_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s:#"'][^:"']*?)(?P=quote)\s*:(?:\s|$)""")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_AMBIGUOUS = frozenset("y n yes no on off true false null none".split())
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Scalar = str | bool
MatterField = Scalar | Sequence[str]


def front_matter(fields: Mapping[str, MatterField]) -> str:
    """Write front matter with its rules, ending in a line feed."""
    lines = [line for key, value in fields.items() for line in _lines(key, value)]
    return "\n".join([_RULE, *lines, _RULE, ""])


def without_matter(text: str) -> str:
    """Return a page without its front matter."""
    return _MATTER.sub("", text.removeprefix("\ufeff").replace("\r\n", "\n"), count=1)


def own_entries(text: str) -> tuple[str, str]:
    """Part a text into itself without the entries of its front matter that are not ours, and these entries."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return text, ""
    kept, own = list[str](), list[str]()
    into = kept
    for line in lines[1:end]:
        found = _KEY.match(line)
        if found:
            into = kept if found["key"] in OURS else own
        into.append(line)
    return "\n".join([lines[0], *kept, *lines[end:]]), "\n".join(own)


def with_own_entries(text: str, own: str) -> str:
    """Put a person's entries at the end of the front matter of a text."""
    if not own:
        return text
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return "\n".join([_RULE, own, _RULE, "", text])
    return "\n".join([*lines[:end], own, *lines[end:]])


def _lines(key: str, value: MatterField) -> Iterator[str]:
    if isinstance(value, bool | str):
        yield f"{key}: {_scalar(value)}"
    elif not value:
        yield f"{key}: []"
    else:
        yield f"{key}:"
        yield from (f"  - {_scalar(each)}" for each in value)


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
        return value
    return '"' + "".join(map(_character, value)) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    # What YAML does not let stand in a text, and what would end a line in it.
    if code < 0x20 or 0x7F <= code <= 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else char

"""The links of a page's body: found outside of code, and written anew as addresses that work where it is read."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from treering.parts.wiki.pages import LineCitation

_OPENS = re.compile(r"\]\((?P<angle><)?(?P<scheme>page|source):")
_TICKS = re.compile(r"`+")
_LINES = re.compile(r"L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~#&!]")
_ENTITIES = {"<": "&lt;", "&": "&amp;", "|": "&#124;", "~": "&#126;"}
_NOT_IN_ADDRESSES = re.compile(r"[^A-Za-z0-9/\-._~!$'*+,;=@]+")
_PRINTED_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")
"""A byte of a file's name that is not UTF-8, as `printable` writes it."""
_QUOTED = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class BodyLink:
    """A link of a body by one of its two schemes, unquoted: `page:PATH#FRAGMENT`, `source:PATH#L10-L20`."""

    scheme: Literal["page", "source"]
    path: str
    fragment: str

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and the last line that the fragment names."""
        found = _LINES.fullmatch(self.fragment)
        return (int(found["first"]), int(found["last"] or found["first"])) if found else None


Address = Callable[[BodyLink], str | None]
"""Returns where a link leads from the page it stands on; `None` where it can lead nowhere."""


def with_addresses(body: str, address: Address) -> str:
    """Return a body whose links by `page:` and `source:` lead where `address` says; without one, their text stays."""
    return "\n".join(line if code else _rewritten(line, address) for line, code in fenced_lines(body))


def body_links(body: str) -> Iterator[BodyLink]:
    """Yield the links by `page:` and `source:`, in their order."""
    found: list[BodyLink] = []

    def note(link: BodyLink) -> None:
        found.append(link)

    with_addresses(body, note)
    yield from found


def quoted_path(path: str) -> str:
    """Write a path for an address. A byte that is not UTF-8 is `%` and its digits, as in the name of the file."""
    raw = _PRINTED_BYTE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), path)
    return _NOT_IN_ADDRESSES.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape")), raw
    )


def unquoted(text: str) -> str:
    """Read a path of an address, as `printable` would write it."""
    return _QUOTED.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "backslashreplace"), text)


def target_of(link: BodyLink) -> str:
    """Return the target of a link as written in a body."""
    fragment = f"#{quoted_path(link.fragment)}" if link.fragment else ""
    return f"{link.scheme}:{quoted_path(link.path)}{fragment}"


def source_target(citation: LineCitation) -> str:
    """Return the target of a link to cited lines, as written in a body."""
    return f"source:{quoted_path(citation.path)}#L{citation.first_line}-L{citation.last_line}"


def escaped(text: str) -> str:
    """Write a text so that Markdown shows it as it is, in one line."""
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(text.split()))


def relative_path(page: str, target: str) -> str:
    """Return the way from the folder of one page to a path below the same root, neither of them quoted."""
    here, there = page.split("/")[:-1], target.split("/")
    same = 0
    while same < min(len(here), len(there) - 1) and here[same] == there[same]:
        same += 1
    return "/".join([".."] * (len(here) - same) + there[same:])


def _rewritten(line: str, address: Address) -> str:
    if "](page:" not in line and "](source:" not in line and "](<" not in line:
        return line
    code = _code_spans(line)
    parts, at = list[str](), 0
    for found in _OPENS.finditer(line):
        if found.start() < at or any(start <= found.start() < end for start, end in code):
            continue
        closes = line.find(">)" if found["angle"] else ")", found.end())
        opens = _opening_bracket(line, found.start(), at)
        if closes < 0 or opens < 0:
            continue
        where = address(_link(found["scheme"], line[found.end() : closes]))
        text = line[opens + 1 : found.start()]
        parts.append(line[at:opens] + (text if where is None else f"[{text}]({where})"))
        at = closes + (2 if found["angle"] else 1)
    return "".join(parts) + line[at:]


def _link(scheme: str, target: str) -> BodyLink:
    path, _, fragment = target.partition("#")
    return BodyLink("page" if scheme == "page" else "source", unquoted(path), unquoted(fragment))


def _code_spans(line: str) -> list[tuple[int, int]]:
    """Find the code in a line. A backslash keeps a tick from opening a span; in a span it is a character."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(line)]
    spans, at = list[tuple[int, int]](), 0
    while at < len(runs):
        start = runs[at][0] + _is_escaped(line, runs[at][0])
        size = runs[at][1] - start
        same = next((n for n in range(at + 1, len(runs)) if runs[n][1] - runs[n][0] == size), None)
        if same is None:
            at += 1
        else:
            spans.append((start, runs[same][1]))
            at = same + 1
    return spans


def _opening_bracket(line: str, closing: int, least: int) -> int:
    """Find the bracket that the one at `closing` closes, at `least` or later; -1 where there is none."""
    depth = 0
    for at in range(closing, least - 1, -1):
        if line[at] not in "[]" or _is_escaped(line, at):
            continue
        depth += 1 if line[at] == "]" else -1
        if depth == 0:
            return at
    return -1


def _is_escaped(line: str, at: int) -> bool:
    before = at
    while before and line[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1


# Lines of Markdown, and which of them stand in fenced code.


_FENCE = re.compile(r"[ \t>]*(?:[-*+] +|\d+[.)] +)?(?P<mark>`{3,}|~{3,})(?P<rest>.*)")


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line without its end, and whether it belongs to fenced code, the fences included."""
    open_mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if open_mark:
            yield line, True
            if found and found["mark"].startswith(open_mark) and not found["rest"].strip():
                open_mark = ""
        elif found and not (found["mark"].startswith("`") and "`" in found["rest"]):
            open_mark = found["mark"]
            yield line, True
        else:
            yield line, False


# The anchors of headings: what a forge makes of them, and what MkDocs and Zensical make.


_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<text>.*?)(?:[ \t]+#+)?[ \t]*")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_TAG = re.compile(r"</?[a-zA-Z][^>\n]*>")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class HeadingAnchor:
    """A heading: its line in the text (from 0), what a forge calls it in addresses, and what site builders do."""

    line: int
    forge: str
    site: str


def heading_anchors(body: str) -> Iterator[HeadingAnchor]:
    """Yield the headings of a body, in their order."""
    forge, site = _Counted("-"), _Counted("_")
    for number, (line, code) in enumerate(fenced_lines(body)):
        found = None if code else _HEADING.fullmatch(line)
        if found:
            text = _ESCAPE.sub(r"\1", _TAG.sub("", _LINK.sub(r"\1", found["text"])))
            yield HeadingAnchor(number, forge.name(_forge_slug(text)), site.name(_site_slug(text)))


class _Counted:
    """Tells headings of the same name apart, as they come."""

    def __init__(self, joint: str) -> None:
        self._joint = joint
        self._taken: set[str] = set()

    def name(self, slug: str) -> str:
        name, number = slug, 0
        while name in self._taken or (not name and self._joint == "_"):
            number += 1
            name = f"{slug}{self._joint}{number}"
        self._taken.add(name)
        return name


def _forge_slug(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def _site_slug(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_text).strip().lower())


# Where lines of source files can be read: on a forge, in the work tree, or nowhere.


LinkForm = Literal["auto", "forge", "files", "text"]
"""How citations are linked: at the forge, into the work tree, or not at all; `auto` takes the first that is known."""

_REMOTE = re.compile(
    r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]*@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+(?=/))?[:/]"
    r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)/?",
    re.ASCII,
)
_FORMS = {
    "github": ("/blob/", "#L{first}-L{last}"),
    "gitlab": ("/-/blob/", "#L{first}-{last}"),
    "gitea": ("/src/commit/", "#L{first}-L{last}"),
}
_GITEA_HOSTS = frozenset({"codeberg.org"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class SourceAddresses(Protocol):
    """Says where the lines of a citation can be read from a page."""

    def address(self, page: str, citation: LineCitation) -> str | None:
        """Return the address; `None` where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoAddresses:
    """Citations stay text."""

    def address(self, page: str, citation: LineCitation) -> None:  # noqa: ARG002 - one shape for all
        """Return nothing."""
        return


@dataclass(frozen=True, slots=True)
class ForgeAddresses:
    """Citations lead to a forge, at the commit at which they were read."""

    repository: str
    """Such as `https://github.com/pallets/flask`."""
    form: Literal["github", "gitlab", "gitea"]

    def address(self, page: str, citation: LineCitation) -> str | None:  # noqa: ARG002 - one shape for all
        """Return the address of the lines; `None` for what is in no commit."""
        if citation.commit is None or not _COMMIT.fullmatch(citation.commit):
            return None
        blob, lines = _FORMS[self.form]
        at = lines.format(first=citation.first_line, last=citation.last_line)
        return f"{self.repository}{blob}{citation.commit}/{quoted_path(citation.path)}{at}"


@dataclass(frozen=True, slots=True)
class FileAddresses:
    """Citations lead to files of the work tree in which the wiki lies."""

    wiki: str
    """Where the wiki lies below the root of the work tree, with `/`; empty where it is the root."""

    def address(self, page: str, citation: LineCitation) -> str:
        """Return the way to the file, with the lines as forges write them."""
        here = f"{self.wiki}/{page}" if self.wiki else page
        lines = f"#L{citation.first_line}-L{citation.last_line}"
        return quoted_path(relative_path(here, citation.path)) + lines


def forge_of(remote: str) -> ForgeAddresses | None:
    """Return the addresses at the forge that a git remote names; `None` where its form is not known."""
    found = _REMOTE.fullmatch(remote.strip())
    form = _form_of(found["host"].lower()) if found else None
    if found is None or form is None:
        return None
    return ForgeAddresses(f"https://{found['host'].lower()}/{found['path'].removesuffix('.git')}", form)


def _form_of(host: str) -> Literal["github", "gitlab", "gitea"] | None:
    for form in ("github", "gitlab", "gitea"):
        if host == f"{form}.com" or host.startswith(f"{form}."):
            return form
    return "gitea" if host in _GITEA_HOSTS else None

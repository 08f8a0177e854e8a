"""`treering try`: what Treering is for, on the folder one is in, in spaces that are gone afterwards."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from treering.core.errors import InvalidInput, Unavailable
from treering.sources.reading.folder import read_bytes
from treering.surfaces.cli.printing import IndentedLine, line, show, terminal
from treering.surfaces.cli.rendering import render_warnings
from treering.surfaces.cli.session import opened, watched
from treering.surfaces.python.space import Space
from treering.system.address import file_address
from treering.verbs.envelope import Report
from treering.verbs.ingest.report import IngestReport
from treering.verbs.lint.lint import LintReport
from treering.verbs.reading import ShownHit

_BEST = 3
_MOST_BYTES = 2_000_000
_CHARS = 92
_LOOKED_AT = 20
_AFTER = 30  # characters shown after the beginning of a difference
_HEADING = re.compile(r"^#{2,4}[ \t]+(?P<name>[^#\n]{3,60}?)[ \t#]*$", re.MULTILINE)
_EVERYWHERE = re.compile(
    r"(?:table of )?contents|install(?:ation|ing)?|(?:quick ?)?start(?:ed)?|getting started|usage|licen[cs]e|features|"
    r"contribut(?:ing|ors?)|changelog|(?:change|release) ?(?:log|notes)|documentation|docs|support|faq|credits|about|"
    r"requirements|examples?|links|authors?|acknowledge?ments|badges|sponsors?|resources|help|overview|introduction",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"^[*_`]{0,3}(?P<words>[A-Z][\w'-]*[`*]{0,2}(?: [\w'`*/-]+){4,})", re.MULTILINE)
_MOST_WORDS = 12
_WITHOUT_WORDS = "what is this about"
_DEFAULT = re.compile(
    r"\b[Tt]he (?P<what>default [\w `'-]{3,40}?) (?:is|are)\b|"
    r"`(?P<name>[\w.-]{3,40})`[^.`\n]{0,60}\b(?:defaults? to|by default|\(default)"
)
_DOING = re.compile(
    r"(?:add|ask|avoid|bring|build|call|change|choose|configure|connect|create|customi[sz]e|debug|define|deploy|extend|"
    r"find|get|give|handle|import|inspect|keep|load|make|manage|migrate|move|open|pass|publish|read|register|release|remove|"
    r"render|run|send|serve|set|share|stream|test|update|upgrade|use|validate|watch|work|write)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(r"(?:how|what|when|where|which|who|why|can|does|is|are)\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<=[A-Za-z,`] |\w[=(])(?!(?:19|20)\d\d\b)(?P<value>\d{1,6})(?=(?:ms|s|m|h|d|kB|MB|GB|%)?[.,;:)`\"']*(?:\s|$))"
)
_OPPOSITES = {
    one: other
    for pair in (
        *(("true", "false"), ("True", "False"), ("enabled", "disabled"), ("on by default", "off by default")),
        *(("required", "optional"), ("always", "never"), ("before", "after"), ("newest", "oldest")),
        *(("at most", "at least"), ("included", "excluded"), ("read-only", "writable"), ("allowed", "refused")),
    )
    for one, other in (pair, pair[::-1])
}
_OPPOSITE = re.compile(rf"\b(?:{'|'.join(sorted(_OPPOSITES, key=len, reverse=True))})\b")
_NAME = re.compile(r"`(?P<name>-{0,2}[A-Za-z_][\w-]{2,30})`")


def try_here(question: str, *, wait: bool) -> None:
    """Ask the folder one is in, record a decision with its evidence, and see it noticed when a copy of that changes."""
    console = terminal()
    with TemporaryDirectory(prefix="treering-") as folder:
        place = Path(folder)
        with opened(file_address(place / "try.db"), create=True) as space:
            for lines in _steps(space, place, question, wait=wait):
                show(console, lines)


def _steps(space: Space, place: Path, question: str, *, wait: bool) -> Iterator[list[IndentedLine]]:
    begun = time.monotonic()
    read = _ingest(space, wait=wait)
    kept = read.counts.get("created", 0) if isinstance(read, IngestReport) else 0
    yield [
        _heading("1. Read this folder, into a space that is gone afterwards"),
        line(f"{kept:,} sources in {time.monotonic() - begun:.1f} s", indent=3),
        *_indented(render_warnings(read.warnings[:1])),
    ]
    asked = question or _question(Path.cwd())
    hits = space.query("search", input={"text": asked}, options={"limit": _BEST, "group": "source"}).hits
    found = [line(one.place, f"\n{_gist(one.text)}", indent=3) for one in hits]
    yield [
        _heading(f"2. Ask it: {asked}"),
        *(found or [line("Nothing here speaks of that.", indent=3)]),
    ]
    changes = [change for hit in hits for change in _changes_of(hit)]
    if not changes:
        yield [line("Ask something that stands in a text file here: treering try QUESTION")]
        return
    with opened(file_address(place / "copy.db"), create=True) as copies:
        yield from _drift(copies, place, min(changes, key=lambda change: change.rank))
    yield [line("Nothing was kept. For a memory of your own: treering init && treering ingest .")]


@dataclass(frozen=True, slots=True)
class _Change:
    """How somebody might change a line of a file. `after` is empty where they take it out."""

    file: Path
    before: str
    after: str
    rank: int
    """How telling that is, the best first: a number, the opposite, another name, a line less."""


def _drift(space: Space, place: Path, change: _Change) -> Iterator[list[IndentedLine]]:
    """Record a decision that rests on a line of a copied file, change the line, and let that be noticed."""
    file, words = change.file, change.before
    copy = place / "copy" / file.name
    copy.parent.mkdir()
    text = file.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    space.ingest("path", input={"path": str(copy)})
    found = space.query("search", input={"text": words}, options={"limit": _LOOKED_AT, "filter": {"type": "source"}})
    evidence = next((hit for hit in found.hits if words in hit.text), found.hits[0])
    space.crystallize(
        "knowledge",
        input={
            "kind": "decision",
            "title": f"What {file.name} says of this holds",
            "payload": {"question": f"What does {file.name} say?", "outcome": words[:_CHARS]},
            "evidence_refs": [{"source_id": evidence.source_id, "segment_id": evidence.segment_id}],
            "status": "active",
        },
    )
    yield [
        _heading("3. Record a decision, with the line that it rests on"),
        line(f"{_here(file)}: {_gist(words)}", indent=3),
    ]
    copy.write_text(text.replace(words, change.after), encoding="utf-8")
    report = space.ingest("path", input={"path": str(copy)})
    at = _first_difference(words, change.after)
    yield [
        _heading("4. Somebody changes that line, in a copy, and knows nothing of the decision"),
        line(("- ", "red"), _around(words, at), indent=3),
        *([line(("+ ", "green"), _around(change.after, at), indent=3)] if change.after else []),
    ]
    is_noticed = isinstance(report, IngestReport) and report.staled
    noticed = "The decision is stale: its evidence is gone." if is_noticed else "The words still stand elsewhere."
    linted = space.lint("semantic", options={"limit": 1})
    told = [one.explanation for one in linted.findings] if isinstance(linted, LintReport) else []
    yield [_heading(f"5. {noticed}"), *(line(one, indent=3) for one in told), line("")]


def _ingest(space: Space, *, wait: bool) -> Report:
    here = {"path": str(Path.cwd())}
    with watched(space) as busy:
        try:
            return busy.ingest("repo", input=here, options={"wait": wait})
        except (InvalidInput, Unavailable):
            return busy.ingest("path", input=here, options={"wait": wait})  # no repository, or no git


def _question(folder: Path) -> str:
    """Make a question that a developer asks, of the README or of the first page with something to ask for.

    It asks for a default that a page names, else for a heading that other projects do not have. Where there is none,
    as in reStructuredText, it is the beginning of the first sentence.
    """
    pages = [*sorted(folder.glob("README*")), *sorted((folder / "docs").glob("*.md"))]
    texts = [_text(page) for page in pages]
    for text in texts:
        if found := _DEFAULT.search(text):
            what = found["what"] or f"default of {found['name']}"
            return f"what is the {what.replace('`', '')}?"
    for text in texts:
        for found in _HEADING.finditer(text):
            name = " ".join(re.sub(r"[^\w\s'/-]", " ", found["name"]).split())
            if name and not _EVERYWHERE.fullmatch(name) and len(name.split()) <= 6:
                return _asked(name.casefold())
    sentences = filter(None, map(_SENTENCE.search, texts))
    words = next((found["words"].split()[:_MOST_WORDS] for found in sentences), None)
    return re.sub(r"[`*]", "", " ".join(words)) if words else _WITHOUT_WORDS


def _asked(heading: str) -> str:
    """Turn a heading into a question."""
    if heading.startswith("how to "):
        return f"how do I {heading.removeprefix('how to ')}?"
    if _ASKING.match(heading):
        return f"{heading}?"
    if _DOING.match(heading):
        return f"how do I {heading}?"
    several = heading.endswith("s") and not heading.endswith("ss")
    return f"how {'do' if several else 'does'} {heading} work?"


def _changes_of(hit: ShownHit) -> Iterator[_Change]:
    """Give how somebody might change the lines of a hit; nothing where the file is not as it was read."""
    path = hit.place.partition("#L")[0]
    file = Path.cwd() / path
    text = _text(file) if path and not Path(path).is_absolute() else ""
    lines = [one.strip() for one in hit.text.splitlines()]
    telling = [
        one
        for one in lines
        if len(one.split()) > 3 and text.count(one) == 1 and not one.startswith(("#", "|", "$", ">"))
    ]
    ways: Sequence[Callable[[str], str | None]] = (_other_number, _opposite, partial(_other_name, text=text), _nothing)
    for words in sorted(telling, key=_tells, reverse=True):
        for rank, change in enumerate(ways):
            after = change(words)
            if after is not None:
                yield _Change(file, words, after, rank)
                break


def _other_number(words: str) -> str | None:
    found = _NUMBER.search(words)
    if found is None:
        return None
    return f"{words[: found.start()]}{2 * int(found['value']) or 1}{words[found.end() :]}"


def _opposite(words: str) -> str | None:
    found = _OPPOSITE.search(words)
    return f"{words[: found.start()]}{_OPPOSITES[found[0]]}{words[found.end() :]}" if found else None


def _other_name(words: str, *, text: str) -> str | None:
    """Put another name of the page in the place of one."""
    found = _NAME.search(words)
    if found is None:
        return None
    name = found["name"]
    alike = (one["name"] for one in _NAME.finditer(text) if _shape(one["name"]) == _shape(name))
    other = next((one for one in alike if f"`{one}`" not in words), None)
    return f"{words[: found.start()]}`{other}`{words[found.end() :]}" if other else None


def _shape(name: str) -> tuple[bool, bool, bool]:
    """Tell options, classes and functions apart."""
    return name.startswith("-"), name[:1].isupper(), "_" in name


def _nothing(_words: str) -> str:
    return ""


def _tells(text: str) -> int:
    """Return how much a line says to a person: its plain words."""
    return sum(word.strip(".,;:()").isalpha() for word in text.split())


def _text(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        data = read_bytes(file, _MOST_BYTES)
        return data.decode() if data and len(data) <= _MOST_BYTES else ""
    return ""


def _gist(text: str) -> str:
    lines = [one.strip() for one in text.splitlines() if one.strip(" #=-*`")]
    told = next((one for one in lines if len(one.split()) > 3), lines[0] if lines else "")
    return told if len(told) <= _CHARS else f"{told[: _CHARS - 1]}…"


def _first_difference(one: str, other: str) -> int:
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), 0)


def _around(text: str, at: int) -> str:
    """Return the part of a line that a difference is in."""
    begin = 0 if at < _CHARS - _AFTER else at - (_CHARS - _AFTER)
    return f"{'…' if begin else ''}{_gist(text[begin:])}"


def _here(file: Path) -> str:
    return str(file.relative_to(Path.cwd()))


def _heading(text: str) -> IndentedLine:
    return line((text, "bold"))


def _indented(lines: Iterator[IndentedLine]) -> Iterator[IndentedLine]:
    return (IndentedLine(one.text, one.indent + 3) for one in lines)

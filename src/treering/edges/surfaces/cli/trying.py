"""`treering try`: what Treering is for, on the folder one is in, in spaces that are gone afterwards."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from treering.core.errors import InvalidInput, Unavailable
from treering.edges.address import file_address
from treering.edges.sources.folder import read_bytes
from treering.edges.surfaces.cli.rendering import render_warnings
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line, show, terminal
from treering.edges.surfaces.cli.session import opened, watched
from treering.edges.surfaces.space import Space
from treering.tools.envelope import Report
from treering.tools.ingest_report import IngestReport
from treering.tools.lint import LintReport
from treering.tools.reading import ShownHit

_BEST = 3
_MOST_BYTES = 2_000_000
_CHARS = 92
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
    shown = next(filter(None, map(_line_of, hits)), None)
    if shown is None:
        yield [line("Ask something that stands in a text file here: treering try QUESTION")]
        return
    with opened(file_address(place / "copy.db"), create=True) as copies:
        yield from _drift(copies, place, *shown)
    yield [line("Nothing was kept. For a memory of your own: treering init && treering ingest .")]


def _drift(space: Space, place: Path, file: Path, words: str) -> Iterator[list[IndentedLine]]:
    """Record a decision that rests on a line of a copied file, change the line, and let that be noticed."""
    copy = place / "copy" / file.name
    copy.parent.mkdir()
    text = file.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    space.ingest("path", input={"path": str(copy)})
    (evidence,) = space.query("search", input={"text": words}, options={"limit": 1, "filter": {"type": "source"}}).hits
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
    copy.write_text(text.replace(words, "Somebody wrote something else here."), encoding="utf-8")
    report = space.ingest("path", input={"path": str(copy)})
    yield [
        _heading("4. Somebody changes that line, in a copy, and knows nothing of the decision"),
        line(("- ", "red"), _gist(words), indent=3),
        line(("+ ", "green"), "Somebody wrote something else here.", indent=3),
    ]
    is_noticed = isinstance(report, IngestReport) and report.staled
    noticed = "The decision is stale: its evidence is gone." if is_noticed else "The words still stand elsewhere."
    found = space.lint("semantic", options={"limit": 1})
    told = [one.explanation for one in found.findings] if isinstance(found, LintReport) else []
    yield [_heading(f"5. {noticed}"), *(line(one, indent=3) for one in told), line("")]


def _ingest(space: Space, *, wait: bool) -> Report:
    here = {"path": str(Path.cwd())}
    with watched(space) as busy:
        try:
            return busy.ingest("repo", input=here, options={"wait": wait})
        except (InvalidInput, Unavailable):
            return busy.ingest("path", input=here, options={"wait": wait})  # no repository, or no git


def _question(folder: Path) -> str:
    """Make a question of a heading of the README that other projects do not have; of the first page with one.

    Where there is none, as in reStructuredText, it is the beginning of the first sentence.
    """
    pages = [*sorted(folder.glob("README*")), *sorted((folder / "docs").glob("*.md"))]
    for page in pages:
        for found in _HEADING.finditer(_text(page)):
            name = re.sub(r"[^\w\s'/-]", " ", found["name"]).strip()
            if name and not _EVERYWHERE.fullmatch(name) and len(name.split()) <= 6:
                return " ".join(name.split()).casefold()
    sentences = filter(None, (_SENTENCE.search(_text(page)) for page in pages))
    words = next((found["words"].split()[:_MOST_WORDS] for found in sentences), None)
    return re.sub(r"[`*]", "", " ".join(words)) if words else _WITHOUT_WORDS


def _line_of(hit: ShownHit) -> tuple[Path, str] | None:
    """Return the file of a hit and the line of it that says most; `None` where the file is not as it was read."""
    path = hit.place.partition("#L")[0]
    file = Path.cwd() / path
    text = _text(file) if path and not Path(path).is_absolute() else ""
    lines = [one.strip() for one in hit.text.splitlines()]
    telling = [one for one in lines if len(one.split()) > 3 and text.count(one) == 1 and not one.startswith(("#", "|"))]
    return (file, max(telling, key=_tells)) if telling else None


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


def _here(file: Path) -> str:
    return str(file.relative_to(Path.cwd()))


def _heading(text: str) -> IndentedLine:
    return line((text, "bold"))


def _indented(lines: Iterator[IndentedLine]) -> Iterator[IndentedLine]:
    return (IndentedLine(one.text, one.indent + 3) for one in lines)

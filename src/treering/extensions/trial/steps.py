"""`treering try`: demonstrate Treering on the working folder, in temporary spaces."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from treering.core.characters import label
from treering.core.errors import InvalidInput, Unavailable
from treering.ports.format import is_prose_file
from treering.sources.reading.folder import read_bytes
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.rendering import render
from treering.surfaces.cli.session import opened, watched
from treering.surfaces.ingest_words import ingest_in_words
from treering.surfaces.python.space import Space
from treering.system.address import file_address
from treering.verbs.ingest.report import IngestReport
from treering.verbs.shown_hits import ShownHit

_BEST = 3
_MAX_BYTES = 2_000_000
_CHARS = 92
_LOOKED_AT = 20
_PLAIN_WORDS = 6  # a line of a document with as many is considered a sentence
_AFTER = 30  # characters shown after the beginning of a difference
_TITLE = re.compile(r"^#[ \t]+(?P<name>[\w.-]{2,40})[ \t#]*$", re.MULTILINE)
_HEADING = re.compile(r"^#{2,4}[ \t]+(?P<name>[^#\n]{3,60}?)[ \t#]*$", re.MULTILINE)
_EVERYWHERE = re.compile(
    r"(?:table of )?contents|install(?:ation|ing)?|(?:quick ?)?start(?:ed)?|getting started|usage|licen[cs]e|features|"
    r"contribut(?:ing|ors?)|changelog|(?:change|release) ?(?:log|notes)|documentation|docs|support|faq|credits|about|"
    r"requirements|(?:an? )?(?:simple )?examples?|demo|configuration|benchmarks?|donate|how to use|.*links|why .*|"
    r"links|authors?|acknowledge?ments|badges|sponsors?|resources|(?:getting )?help.*|overview|introduction|"
    r"menu|screenshots?.*|quick ?start.*|"
    r"community.*|security.*|test(?:ing|s)|develop(?:ment|ing)|running .*tests.*|pull requests|code of conduct",
    re.IGNORECASE,
)
_OF_RELEASES = re.compile(r"change|history|news|release", re.IGNORECASE)
_MAX_FACTS = 50
"""Sentences among which the first is chosen that fits on a line."""
_NEXT_BLOCK = re.compile(r"\n\s*(?:\n|[-*+] |\d+\. |#)")
_MARKUP = re.compile(r"^(?:[-*+]|\d+\.)\s+|\[(?P<link>[^\]]*)\]\([^)]*\)|[*`]|<[^>]*>")
_TO_ITS_END = re.compile(r"(?P<words>.+?)(?:[.!](?=\s|$)|[?:])")
_READS_WELL = re.compile(
    r"(?!(?:And|Also|Another|Both|But|Here|However|If|Instead|Its|Note|Or|Otherwise|Please|See|So|Such|Their|Then|There"
    r"|These|Those|Thus|Your)\b|.*\b(?:above|also|below|following)\b)(?=(?-i:[A-Z]))"
    r"(?:(?!(?:I|it|that|there|these|they|this|we|you)\b)[\w'’/.-]+(?<!_),? ){1,8}?"
    r"(?:is|are|has|have|can|cannot|must|should|will|does|may|allows|contains|creates|defaults|includes|lets|makes|needs"
    r"|provides|reads|requires|returns|runs|sends|starts|stores|supports|takes|uses|writes)(?:,? [\w'’/.-]+(?<!_)){2,}",
    re.IGNORECASE,
)
"""A statement with a subject and a verb that refers to no other sentence."""
_ITEM = re.compile(r"[-*+] |\d+\. ")
_SENTENCE = re.compile(r"^[*_`]{0,3}(?P<words>[A-Z][\w'-]*[`*]{0,2}(?: [\w'`*/-]+){4,})", re.MULTILINE)
_FACT = re.compile(
    r"(?:[-*] |\d\. )?[`*_]{0,3}[A-Z][\w'`*,-]* (?=.*\b(?:default|at (?:most|least)|up to|limit(?:ed)?)\b)"
)
"""A line that begins a sentence and states a limit or a default."""
_MAX_HEADING_WORDS = 6
_CODE = re.compile(r"[`=(){}<>_:,!]")
"""Signs of code or of a list in a heading, which does not fit into a question."""
_MAX_WORDS = 12
_WITHOUT_WORDS = "what is {}"
_DEFAULT = re.compile(
    r"\b[Tt]he (?P<what>default(?: (?!if\b|remains\b|is\b|are\b)[\w`'-]+){1,5}) (?:is|are)\b|"
    r"`(?P<name>-{0,2}(?!(?:True|False|None)`)[A-Za-z][\w-]{2,40})`[^.`\n]{0,60}\bdefaults to\b(?! \w+ing\b)"
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
        ("does not", "does"),
        *(("at most", "at least"), ("included", "excluded"), ("read-only", "writable"), ("allowed", "refused")),
    )
    for one, other in (pair, pair[::-1])
}
_OPPOSITE = re.compile(rf"\b(?:{'|'.join(sorted(_OPPOSITES, key=len, reverse=True))})\b")
_NAME = re.compile(r"`(?P<name>-{0,2}[A-Za-z_][\w-]{2,30})`")


def steps(space: Space, folder: Path, question: str, *, wait: bool) -> Iterator[list[IndentedLine]]:
    """Ask the working folder a question, record a decision about a line, and change that line in a copy.

    Yields the lines to show after each step. `space` and `folder` are new, empty and temporary.
    """
    begun = time.monotonic()
    read = _ingest(space, wait=wait)
    yield [_typed("add ."), line(ingest_in_words(read, time.monotonic() - begun)), line("")]
    facts = iter(()) if question else islice(_facts(Path.cwd()), _MAX_FACTS)
    fact = next((one for one in facts if one.change.statement), None)
    query = question or (fact.question if fact else _question(Path.cwd()))
    report = space.query("search", input={"text": query}, options={"limit": _BEST, "group": "source"})
    hits = tuple(hit.model_copy(update={"more": (), "flags": ()}) for hit in report.hits)
    yield [_typed(f'search "{query}"'), *render(report.model_copy(update={"hits": hits})), line("")]
    changes = [fact.change] if fact else [change for hit in report.hits for change in _changes_of(hit)]
    changes += [
        change for page in sorted(Path.cwd().glob("README*"), key=_by_name) for change in _changes_in(page, _text(page))
    ]
    if not changes:
        yield [line('Ask about something that a text file of this folder contains: treering try "QUESTION"')]
        return
    with opened(file_address(folder / "copy.db"), create=True) as copies:
        yield from _drift(copies, folder, min(changes, key=lambda change: (not change.statement, change.rank)))
    yield [line("Nothing was stored. Start with: treering init && treering add .")]


@dataclass(frozen=True)
class _Change:
    """A plausible change of a line in a file. `after` is empty if the line is removed."""

    file: Path
    before: str
    after: str
    rank: int
    """How instructive the change is, the best first: a number, the opposite, another name, a removed line."""

    @cached_property
    def statement(self) -> str:
        """The sentence that begins with the line, without Markdown; empty if it does not make sense alone."""
        text = _text(self.file)
        above, _, below = text.partition(self.before)
        line_above = "".join(above.splitlines()[-1:]).strip()
        begins = not line_above or line_above.endswith((".", "!", "?", ":")) or _ITEM.match(self.before)
        block = _NEXT_BLOCK.split(self.before + below, maxsplit=1)[0]
        plain = _MARKUP.sub(lambda match: match["link"] or "", " ".join(block.split()))
        match = _TO_ITS_END.match(plain)
        sentence = match["words"] if match and is_prose_file(self.file.name) and begins else ""
        changes = _first_difference(self.before, self.after) < len(sentence) <= _CHARS
        return sentence if changes and match and match[0][-1] in ".!" and _READS_WELL.fullmatch(sentence) else ""


def _drift(space: Space, temporary: Path, change: _Change) -> Iterator[list[IndentedLine]]:
    """Record a decision based on a line of a copied file, change the line, and show that this is detected."""
    file, words = change.file, change.before
    path = file.relative_to(Path.cwd())
    folder = temporary / "copy"
    copy = folder / path
    copy.parent.mkdir(parents=True)
    text = file.read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    space.ingest("path", input={"path": str(folder)})
    matches = space.query("search", input={"text": words}, options={"limit": _LOOKED_AT, "filter": {"type": "source"}})
    evidence = next((hit for hit in matches.hits if words in hit.text), matches.hits[0])
    title = change.statement or f"We rely on this line of {path.as_posix()}"
    where = f"{path}:{text[: text.index(words)].count(chr(10)) + 1}"
    space.crystallize(
        "knowledge",
        input={
            "kind": "decision",
            "title": title,
            "payload": {"question": title, "outcome": words[:_CHARS]},
            "evidence_refs": [{"source_id": evidence.source_id, "segment_id": evidence.segment_id}],
            "status": "active",
        },
    )
    yield [
        _typed(f'decide "{title}" --because {where}'),
        line(("Decided: ", "bold"), f"{title} ({where})."),
        line(""),
    ]
    copy.write_text(text.replace(words, change.after), encoding="utf-8")
    report = space.ingest("path", input={"path": str(folder)})
    at = _first_difference(words, change.after)
    does = "changes" if change.after else "removes"
    yield [
        line((f"Later, a colleague who does not know the decision {does} that line (here in a copy):", "italic")),
        line(("- ", "red"), _around(words, at), indent=3),
        *([line(("+ ", "green"), _around(change.after, at), indent=3)] if change.after else []),
        line(""),
    ]
    is_noticed = isinstance(report, IngestReport) and report.staled
    noticed = f"{label(title, most=2 * _CHARS)} ({where} changed). See: treering lint"
    yield [
        _typed(f"add {path}"),
        line(("Now stale: ", "yellow"), noticed) if is_noticed else line("The same words are elsewhere in the file."),
        line(""),
    ]


def _ingest(space: Space, *, wait: bool) -> IngestReport:
    here = {"path": str(Path.cwd())}
    with watched(space) as busy:
        try:
            report = busy.ingest("repo", input=here, options={"wait": wait})
        except (InvalidInput, Unavailable):
            report = busy.ingest("path", input=here, options={"wait": wait})  # no repository, or no git
    if not isinstance(report, IngestReport):
        raise TypeError(f"ingest answered with {type(report).__name__}")
    return report


@dataclass(frozen=True, slots=True)
class _Fact:
    """A sentence of a document for a decision, and a question that it answers."""

    question: str
    change: _Change


def _facts(folder: Path) -> Iterator[_Fact]:
    """Yield the sentences of the README and the docs that state a limit or a default, if they are below a heading."""
    project = _project_name(folder)
    for page in _pages(folder):
        text, heading = _text(page), ""
        for row in text.splitlines():
            if match := _HEADING.match(row):
                heading = _plain_heading(match)
                continue
            words = row.strip()
            after = (_other_number(words) or _opposite(words)) if heading and _FACT.match(words) else None
            if after and text.count(words) == 1 and _plain_words(words) >= _PLAIN_WORDS:
                yield _Fact(_asked_for_default(words, project) or _asked(heading), _Change(page, words, after, 0))


def _pages(folder: Path) -> list[Path]:
    docs = (one for one in sorted((folder / "docs").glob("*.md")) if not _OF_RELEASES.match(one.name))
    pages = (*sorted(folder.glob("README*"), key=_by_name), *docs)
    real = (page.resolve() for page in pages)  # a README may link to the README of a package
    return [page for page in real if page.is_relative_to(folder.resolve())]


def _by_name(page: Path) -> tuple[int, str]:
    return len(page.name), page.name  # README.md before README-VIM.md


def _plain_heading(found: re.Match[str]) -> str:
    """Return a heading for a question; empty for one with code, or one that every project has."""
    name = " ".join(re.sub(r"[^\w\s'/-]", " ", found["name"]).split())
    fits = (
        name
        and not _CODE.search(found["name"])
        and not _EVERYWHERE.fullmatch(name)
        and len(name.split()) <= _MAX_HEADING_WORDS
    )
    return name.casefold() if fits else ""


def _question(folder: Path) -> str:
    """Return a question of a developer, made from the README or the docs.

    It asks for a default that a page names, else about a heading that other projects do not have. If there is none, as
    in reStructuredText, it is the beginning of the first sentence, or it asks what the project is.
    """
    texts = list(map(_text, _pages(folder)))
    for text in texts:
        if asked := _asked_for_default(text, _project_name(folder)):
            return asked
    if heading := next(filter(None, (_plain_heading(one) for text in texts for one in _HEADING.finditer(text))), ""):
        return _asked(heading)
    sentences = filter(None, map(_SENTENCE.search, texts))
    words = next((found["words"].split()[:_MAX_WORDS] for found in sentences), None)
    if words:
        return re.sub(r"[`*]", "", " ".join(words))
    return _WITHOUT_WORDS.format(_project_name(folder))


def _project_name(folder: Path) -> str:
    """Return the first title of one word in the README and the docs, else the name of the folder."""
    title = next(filter(None, map(_TITLE.search, map(_text, _pages(folder)))), None)
    return title["name"] if title else folder.name


def _asked_for_default(text: str, project: str) -> str:
    """Return a question about the first default in a text, other than of the project itself; empty if there is none."""
    match = next((one for one in _DEFAULT.finditer(text) if one["name"] != project), None)
    what = (match["what"] or f"default of {match['name']}") if match else ""
    return f"what is the {what.replace('`', '')}?" if what else ""


def _asked(heading: str) -> str:
    """Turn a heading into a question."""
    if heading.startswith("how to "):
        return f"how do I {heading.removeprefix('how to ')}?"
    if heading.startswith("using "):
        return f"how do I use {heading.removeprefix('using ')}?"
    if _ASKING.match(heading):
        return f"{heading}?"
    if heading.split()[0].endswith("ing"):
        return heading
    if _DOING.match(heading):
        return f"how do I {heading}?"
    several = heading.endswith("s") and not heading.endswith("ss")
    return f"how {'do' if several else 'does'} {heading} work?"


def _changes_of(hit: ShownHit) -> Iterator[_Change]:
    """Yield plausible changes of the lines of a hit; nothing if its file changed since."""
    path = hit.place.partition("#L")[0]
    if path and not Path(path).is_absolute():
        yield from _changes_in(Path.cwd() / path, hit.text)


def _changes_in(file: Path, shown: str) -> Iterator[_Change]:
    """Yield plausible changes of lines in a file, sentences of documents before lines of code."""
    text = _text(file)
    is_prose = is_prose_file(file.name)
    lines = [one.strip() for one in shown.splitlines()]
    telling = [
        one
        for one in lines
        if len(one.split()) > 3 and text.count(one) == 1 and not one.startswith(("#", "|", "$", ">", "!", "["))
    ]
    ways: Sequence[Callable[[str], str | None]] = (_other_number, _opposite, partial(_other_name, text=text), _nothing)
    for words in sorted(telling, key=_plain_words, reverse=True):
        is_sentence = is_prose and _plain_words(words) >= _PLAIN_WORDS
        for rank, change in enumerate(ways):
            after = change(words)
            if after is not None:
                yield _Change(file, words, after, rank if is_sentence else rank + len(ways))
                break


def _other_number(words: str) -> str | None:
    match = _NUMBER.search(words)
    if match is None:
        return None
    return f"{words[: match.start()]}{2 * int(match['value']) or 1}{words[match.end() :]}"


def _opposite(words: str) -> str | None:
    match = _OPPOSITE.search(words)
    return f"{words[: match.start()]}{_OPPOSITES[match[0]]}{words[match.end() :]}" if match else None


def _other_name(words: str, *, text: str) -> str | None:
    """Replace a name by another name of the page."""
    match = _NAME.search(words)
    if match is None:
        return None
    name = match["name"]
    alike = (one["name"] for one in _NAME.finditer(text) if _shape(one["name"]) == _shape(name))
    other = next((one for one in alike if f"`{one}`" not in words), None)
    return f"{words[: match.start()]}`{other}`{words[match.end() :]}" if other else None


def _shape(name: str) -> tuple[bool, bool, bool]:
    """Return whether a name is an option, a class or a function."""
    return name.startswith("-"), name[:1].isupper(), "_" in name


def _nothing(_words: str) -> str:
    return ""


def _plain_words(text: str) -> int:
    """Return the number of plain words in a line."""
    return sum(word.strip(".,;:()").isalpha() for word in text.split())


def _text(file: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        data = read_bytes(file, _MAX_BYTES)
        return data.decode() if data and len(data) <= _MAX_BYTES else ""
    return ""


def _gist(text: str) -> str:
    lines = [one.strip() for one in text.splitlines() if one.strip(" #=-*`")]
    sentence = next((one for one in lines if len(one.split()) > 3), lines[0] if lines else "")
    return sentence if len(sentence) <= _CHARS else f"{sentence[: _CHARS - 1].rpartition(' ')[0]} …"


def _first_difference(one: str, other: str) -> int:
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), 0)


def _around(text: str, at: int) -> str:
    """Return the part of a line with a difference."""
    begin = 0 if at < _CHARS - _AFTER else at - (_CHARS - _AFTER)
    return f"{'…' if begin else ''}{_gist(text[begin:])}"


def _typed(command: str) -> IndentedLine:
    return line(("$ ", "dim"), (f"treering {command}", "bold"))

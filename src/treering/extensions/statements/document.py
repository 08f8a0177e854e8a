"""Current statements as lines under headings, each with its message and the statement that it replaced."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from treering.core.characters import one_line
from treering.extensions.statements.contested import contested
from treering.extensions.statements.ledger import StatementLedger
from treering.extensions.statements.statement import Statement
from treering.retrieval.extraction.extractive import Sort, sort_of, weight_of
from treering.retrieval.text.analysis import estimate_tokens

Section = Literal[
    "Decisions",
    "Facts",
    "Preferences",
    "Ahead",
    "Open",
    "Done or dropped",
    "Before",
    "Said, not settled",
    "Unsure",
]

SECTIONS: tuple[Section, ...] = get_args(Section)
NOT_CURRENT = frozenset({"Before", "Said, not settled", "Unsure"})
"""Sections of what does not hold, or not for sure."""

_SORTS: Mapping[Sort, Section] = {"decision": "Decisions", "preference": "Preferences"}
MAX_WEIGHED = 1_500
"""The newest lines, which compete for the budget of a document."""
_CHANGED = 0.5
_VALUED = 0.5
"""What a line is worth more because it replaced something, or gives a value; a decision is worth 3 (`weight_of`)."""
MAX_EARLIER = 3
"""Earlier statements that a line names as replaced."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the document. `speaker`: who said it; `quoted_by`: who quoted them."""

    section: Section
    statement: Statement
    earlier: tuple[Statement, ...] = ()
    """What it replaced, oldest first."""
    doubt: Statement | None = None
    """What may have replaced it."""
    context: str = ""
    """What it goes on from: words of its message, or of what it replaced."""
    contested: Statement | None = None
    """What another person states instead."""

    @property
    def is_current(self) -> bool:
        """Whether it is shown as holding now."""
        return self.section not in NOT_CURRENT

    @property
    def words(self) -> str:
        """Who says what."""
        said = self.statement
        speaker = f"{said.author} (quoted by {said.quoted_by})" if said.quoted_by else said.author
        answer = f" – in answer to: {one_line(said.answers)}" if said.answers else ""
        context = f" – about: {one_line(self.context).rstrip(' .')}" if self.context else ""
        return f"{speaker}: {_bare(said)}{answer}{context}"

    @property
    def was(self) -> str:
        """What it replaced; empty if nothing."""
        return " → ".join(map(_bare, self.earlier))

    def __str__(self) -> str:
        return self.cited(f"message {self.statement.message}")

    def cited(self, place: str) -> str:
        """Return the line with the place of its message."""
        day = f"{self.statement.at:%Y-%m-%d}, " if self.statement.at else ""
        was = f" (was: {self.was})" if self.earlier else ""
        doubt = f" (may have been replaced: {_bare(self.doubt)})" if self.doubt else ""
        other = f" (contested by {self.contested.author}: {_bare(self.contested)})" if self.contested else ""
        return f"- {self.words}{was}{doubt}{other} [{day}{place}]"


def _bare(statement: Statement) -> str:
    return one_line(statement.text).rstrip(" .")


def lines_of(ledger: StatementLedger) -> list[Line]:
    """Return the lines of the document, section by section, oldest first."""
    others = contested(ledger)
    lines = [line for one in ledger.standing() if (line := _line(ledger, one, others.get(one.id)))]
    return sorted(lines, key=lambda line: (SECTIONS.index(line.section), line.statement.id))


def about(lines: Iterable[Line], names: Collection[str]) -> list[Line]:
    """Return the lines about a person with some names: what they own, say of themselves, or are named in."""
    wanted = {name.casefold() for name in names}
    named = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(wanted)))})(?!\w)")
    return [
        line
        for line in lines
        if line.statement.owner.casefold() in wanted or named.search(f"{line.statement.text} {line.context}".casefold())
    ]


def within(lines: Sequence[Line], tokens: int) -> list[Line]:
    """Return the lines that fit into a budget; those that tell the least give way, the oldest first."""
    sizes = {line.statement.id: estimate_tokens(str(line)) + 1 for line in lines}
    over = sum(sizes.values()) - tokens
    if over <= 0:
        return list(lines)
    newest = sorted(lines, key=lambda line: line.statement.id)[-MAX_WEIGHED:]
    over -= sum(sizes.values()) - sum(sizes[line.statement.id] for line in newest)
    gone = set(sizes) - {line.statement.id for line in newest}
    for line in sorted(newest, key=lambda line: (_weight(line), line.statement.id)):
        if over <= 0:
            break
        gone.add(line.statement.id)
        over -= sizes[line.statement.id]
    return [line for line in lines if line.statement.id not in gone]


def _weight(line: Line) -> float:
    changed = _CHANGED if line.earlier else 0.0
    return weight_of(line.statement.text) + changed + _VALUED * bool(line.statement.values)


def document_of(lines: Sequence[Line]) -> str:
    """Return the document as Markdown."""
    return "\n".join(_rows(lines)).strip()


def _rows(lines: Sequence[Line]) -> Iterator[str]:
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            yield from ("", f"## {section}")
        yield str(line)


def _line(ledger: StatementLedger, one: Statement, other: Statement | None) -> Line | None:
    earlier = tuple(ledger.chain(one)[-MAX_EARLIER:])
    doubt = None if other else ledger.doubted.get(one.id)
    section = "Unsure" if doubt else _section(one)
    if section is None or not (earlier or one.answers or one.has_substance):
        return None
    return Line(section, one, earlier, doubt.source if doubt else None, _context(ledger, one), other)


def _context(ledger: StatementLedger, one: Statement) -> str:
    about = ledger.statements[one.about].text if one.about and one.about not in ledger.retired else ""
    return " / ".join(filter(None, (about, ledger.contexts.get(one.id, ""))))


def _section(one: Statement) -> Section | None:
    match one.force:
        case "suggested":
            return None if one.machine else "Said, not settled"
        case "planned":
            return "Ahead" if any(value.kind == "date" for value in one.values) else "Open"
        case "past":
            return "Before"
        case "done" | "ended":
            return "Done or dropped"
        case "asserted" | "reported":
            return _SORTS.get(sort_of(one.text), "Facts")
        case _:
            return None

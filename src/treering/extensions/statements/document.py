"""Current statements as lines under headings, each with its message and the statement that it replaced."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

from treering.core.characters import one_line
from treering.extensions.statements.ledger import StatementLedger, by_message
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

_PRECEDENCE = (*NOT_CURRENT, "Decisions", "Ahead", "Open", "Preferences", "Facts", "Done or dropped")
"""The section of a line is the first of those of its statements: what is planned matters more than what is."""
_YOU = re.compile(r"(?<!\w)(?:you|your|yours|du|dein\w*|tú|tu)(?!\w)")
_BEGINS = re.compile(r"\b(?:from|since|starts?|starting|begins?|joins?|moves?|moving|every|birthday|born|ab|seit|desde)\b")
_LASTING = frozenset({"home", "job", "birthday"})
"""`From Thursday on` and `I start at Helio on Monday` go on after their day."""
_ENDS = ".!?…,;:"
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
    """One line of the document: what is left of a message under one heading."""

    section: Section
    statements: tuple[Statement, ...]
    earlier: tuple[Statement, ...] = ()
    """What they replaced, oldest first."""
    doubt: Statement | None = None
    """What may have replaced them."""
    addressee: str = ""
    """Whom `you` means."""
    question: str = ""
    """The question that they answer, with the name of who asked."""
    context: str = ""
    """What they go on from: words of their message, or of what they replaced."""

    @property
    def first(self) -> Statement:
        """The first statement of the line."""
        return self.statements[0]

    @property
    def is_current(self) -> bool:
        """Whether it is shown as holding now."""
        return self.section not in NOT_CURRENT

    @property
    def words(self) -> str:
        """Who says what, to whom, and about what."""
        said = self.first
        notes = [f"quoted by {said.quoted_by}"] * bool(said.quoted_by) + [f"to {self.addressee}"] * bool(self.addressee)
        speaker = f"{said.author} ({', '.join(notes)})" if notes else said.author
        answer = f" – in answer to {self.question}" if self.question else ""
        context = f" – about: {self.context}" if self.context else ""
        return f"{speaker}: {self.text}{answer}{context}"

    @property
    def text(self) -> str:
        """The statements, as sentences."""
        *before, last = map(_bare, self.statements)
        return " ".join([*(one if one[-1:] in _ENDS else f"{one}." for one in before), last])

    @property
    def was(self) -> str:
        """What they replaced; empty if nothing."""
        return " → ".join(map(_bare, self.earlier))

    def __str__(self) -> str:
        day = f"{self.first.at:%Y-%m-%d}, " if self.first.at else ""
        was = f" (was: {self.was})" if self.earlier else ""
        doubt = f" (may have been replaced: {_bare(self.doubt)})" if self.doubt else ""
        return f"- {self.words}{was}{doubt} [{day}message {self.first.message}]"


def _bare(statement: Statement) -> str:
    return one_line(statement.text).rstrip(" .")


def lines_of(ledger: StatementLedger) -> list[Line]:
    """Return the lines of the document, section by section, oldest first."""
    about = _Conversation.of(ledger)
    lines = [line for stated in by_message(ledger.standing()).values() for line in _lines(ledger, stated, about)]
    return sorted(lines, key=lambda line: (SECTIONS.index(line.section), line.first.id))


def about(lines: Iterable[Line], name: str) -> list[Line]:
    """Return the lines about one person: what they own, say of themselves, or are named in."""
    wanted = name.casefold()
    return [line for line in lines if any(_concerns(one, wanted) for one in line.statements)]


def _concerns(statement: Statement, name: str) -> bool:
    is_named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement.text.casefold()) is not None
    return is_named or statement.owner.casefold() == name


def within(lines: Sequence[Line], tokens: int) -> list[Line]:
    """Return the lines that fit into a budget; those that tell the least give way, the oldest first."""
    sizes = {id(line): estimate_tokens(str(line)) + 1 for line in lines}
    over = sum(sizes.values()) - tokens
    if over <= 0:
        return list(lines)
    newest = sorted(lines, key=lambda line: line.first.id)[-MAX_WEIGHED:]
    over -= sum(sizes.values()) - sum(sizes[id(line)] for line in newest)
    left = {id(line) for line in newest}
    for line in sorted(newest, key=lambda line: (_weight(line), line.first.id)):
        if over <= 0:
            break
        left.remove(id(line))
        over -= sizes[id(line)]
    return [line for line in lines if id(line) in left]


def _weight(line: Line) -> float:
    changed = _CHANGED if line.earlier else 0.0
    return max(weight_of(one.text) + _VALUED * bool(one.values) for one in line.statements) + changed


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


def _lines(ledger: StatementLedger, stated: Sequence[Statement], about: "_Conversation") -> Iterator[Line]:
    """Return the lines of a message: for each speaker one of what holds, and one for each section of what does not."""
    grouped: dict[tuple[str, str], list[tuple[Section, Statement]]] = {}
    for one in stated:
        section = "Unsure" if one.id in ledger.doubted else _section(one, about)
        if section:
            key = (one.author if one.quoted_by else "", section if section in NOT_CURRENT else "")
            grouped.setdefault(key, []).append((section, one))
    for pairs in grouped.values():
        statements = tuple(one for _, one in pairs)
        if any(one.has_substance or one.answers or ledger.chain(one) for one in statements):
            yield _line(ledger, min((section for section, _ in pairs), key=_PRECEDENCE.index), statements, about)


def _line(
    ledger: StatementLedger, section: Section, statements: tuple[Statement, ...], about: "_Conversation"
) -> Line:
    earlier = sorted((old for one in statements for old in ledger.chain(one)), key=lambda one: one.id)
    doubts = [ledger.doubted[one.id].source for one in statements if one.id in ledger.doubted]
    question = next((one.answers for one in statements if one.answers), "")
    first = statements[0]
    partner = about.partners.get(first.message, "")
    return Line(
        section,
        statements,
        tuple(earlier[-MAX_EARLIER:]),
        doubts[0] if doubts else None,
        partner if any(_YOU.search(one.text.casefold()) for one in statements) else "",
        f"{partner}: {one_line(question)}" if question else "",
        _context(ledger, statements),
    )


@dataclass(frozen=True, slots=True)
class _Conversation:
    """What a line needs to know of the conversation around it."""

    last: date | None
    """The day of the last message."""
    partners: Mapping[int, str]
    """For each message, the person who spoke before its author."""
    is_alone: bool
    """Whether only one person talks, with a machine."""

    @classmethod
    def of(cls, ledger: StatementLedger) -> "_Conversation":
        """Return it for a ledger."""
        partners: dict[int, str] = {}
        recent: list[str] = []
        people = {one.author for one in ledger.statements.values() if not one.machine and not one.quoted_by}
        for one in ledger.statements.values():
            said_by = one.quoted_by or one.author
            if not recent or recent[-1] != said_by:
                recent.append(said_by)
            if one.message not in partners:
                partners[one.message] = recent[-2] if len(recent) > 1 else ""
        days = [one.at.date() for one in ledger.statements.values() if one.at]
        return cls(max(days, default=None), partners, len(people) == 1)


def _is_over(one: Statement, last: date | None) -> bool:
    """Return whether a statement was about days that have passed since."""
    if not last or not one.at or "did" in one.cues or one.attributes & _LASTING or _BEGINS.search(one.text.casefold()):
        return False
    days = [value.last for value in one.values if value.last]
    said = one.at.date()
    return bool(days) and all(said <= day < last for day in days) and not (one.force == "done" and min(days) <= said)


def _context(ledger: StatementLedger, shown: Sequence[Statement]) -> str:
    """Return what statements go on from, unless it is shown with them or no longer holds."""
    ids = {one.id for one in shown}
    befores = [one.about for one in shown if one.about and one.about not in ids and one.about not in ledger.retired]
    parts = [ledger.statements[one].text for one in befores] + [ledger.contexts.get(one.id, "") for one in shown]
    return " / ".join(dict.fromkeys(one_line(part).rstrip(" .") for part in parts if part))


def _section(one: Statement, about: _Conversation) -> Section | None:
    if one.is_stated and _is_over(one, about.last):
        return "Before"
    match one.force:
        case "suggested":
            return None if one.machine else "Open" if about.is_alone else "Said, not settled"
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

"""Current statements as lines under headings, each with its message and the statement that it replaced."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Literal, get_args

from treering.core.characters import one_line
from treering.extensions.statements.contested import contested
from treering.extensions.statements.extractive import Sort, adds_words, sort_of, weight_of
from treering.extensions.statements.ledger import StatementLedger, by_message
from treering.extensions.statements.names import people_in
from treering.extensions.statements.statement import MIN_WORDS, Statement
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
"""Sections of statements that are not valid, or not certainly."""
_PLANS = frozenset({"Decisions", "Ahead", "Open"})

_PRECEDENCE = (*sorted(NOT_CURRENT), "Decisions", "Ahead", "Open", "Preferences", "Facts", "Done or dropped")
"""The order in which sections of statements decide the section of their line: plans come before facts."""
_POINTS = 2.5
"""The penalty of a line that only refers to something: `I love how it shows that`, `your art is great`."""
_OTHERS = 0.75
"""Subtracted for statements about no person, value or name, and for statements that are not current."""
_VAGUE = re.compile(
    r"\b(?:love|like|enjoy|hate|glad|happy|proud) (?:how|that|it|this|your|the way|you)\b|"
    r"\bso (?:glad|happy|proud|much)\b|\b(?:we|i)['’]ll (?:keep|always|never|make (?:it|this))\b|"
    r"(?:let['’]s|lets|keep|take care|good luck|enjoy|hope)\b"
)
_JUDGES = re.compile(r"(?:(?:and|but|so) )?(?:he|she|it|that|this|they)(?:['’]s|['’]re| is| are| was| were) [\w'’-]+")
"""A judgment of something mentioned before: `she is wrong`."""
_FIRST_PERSON = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|mine|we|we['’]\w+|our|ich|mein\w*|wir|yo|mi|mis)(?!\w)")
_OWN_TOPICS = 2
"""Topics of its own with which an answer is shown without the question."""
_YOU = re.compile(r"(?<!\w)(?:you|your|yours|du|dein\w*|tú|tu)(?!\w)")
_BEGINS = re.compile(
    r"^(?!.*\b(?:until|till)\b).*\b(?:from|since|starts?|starting|begins?|joins?|moves?|moving|every|ab|seit|desde)\b"
)
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_RECURS = re.compile(
    rf"\b(?:weekly|each (?:day|week|month|{_DAY}))\b|\b{_DAY}s\b|\b{_DAY} ?(?:to|through|and|&|[+–-]) ?{_DAY}\b"
)
"""`Thursdays`, and `Monday to Thursday`: days of each week."""
_REQUESTS = re.compile(r"(?:(?:and|also|so|then|ok|oh|hi|hey),? )*please\b")
_STARTS = re.compile(r"\b(?:from|as of|starting|beginning|ab|desde) [^,.]{1,20}$")
_LASTING = frozenset({"home", "job", "birthday"})
"""`From Thursday on` and `I start at Helio on Monday` go on after their day."""
_ENDS = ".!?…,;:"
_SORTS: Mapping[Sort, Section] = {"decision": "Decisions", "preference": "Preferences"}
_NOTE = re.compile(r" (?:– (?:about|in answer to)|\((?:was|until then|may have been replaced|contested by))\b")
_MESSAGE = re.compile(r"(?:\d{4}-\d\d-\d\d, )?message \d+\]")
MAX_WEIGHED = 1_500
"""The newest lines, which compete for the budget of a document."""
_CHANGED = 0.5
_VALUED = 0.5
"""The bonus of a line that replaced something, or states a value; a decision is worth 3 (`weight_of`)."""
NEWEST_LINES = 25
"""The newest lines, which are shown completely if they fit."""
TELLING = 2.0
"""The minimum weight of the most important statement in an older line: more than a name and a number add."""
MAX_STATEMENTS = 5
"""Maximal number of statements in a line: the ones with the highest weights."""
MAX_EARLIER = 3
"""Earlier statements that a line names as replaced."""


@dataclass(frozen=True, slots=True)
class Part:
    """A statement in a line."""

    section: Section
    statement: Statement
    earlier: tuple[Statement, ...] = ()
    """The statements that it replaced, oldest first."""
    doubt: Statement | None = None
    """Its possible replacement."""
    context: str = ""
    """Words that it needs: of its message, or of the statement that it replaced."""
    contested: Statement | None = None
    """The conflicting statement of another person."""
    is_ahead: bool = False
    """Whether it begins to hold after the last message: the statement that it replaced holds until then."""

    @property
    def weight(self) -> float:
        """The importance; a decision has 3 (`weight_of`)."""
        one, plain = self.statement, self.statement.text.casefold()
        weight = weight_of(one.text) + _CHANGED * bool(self.earlier) + _VALUED * bool(one.values)
        weight -= _OTHERS if self.section in NOT_CURRENT else 0.0
        is_own = _FIRST_PERSON.search(plain) or one.owner != one.author
        if one.refers or _VAGUE.search(plain) or (_YOU.search(plain) and not is_own):
            return weight - _POINTS
        return weight if is_own or one.values else weight - _OTHERS


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the document: the current or the former statements of a person in one message."""

    parts: tuple[Part, ...]
    partner: str = ""
    """The person who spoke before: whom `you` means, and whose question is answered."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Its statements."""
        return tuple(part.statement for part in self.parts)

    @property
    def first(self) -> Statement:
        """The first statement of the line."""
        return self.parts[0].statement

    @property
    def section(self) -> Section:
        """The section of its statements that comes first in `_PRECEDENCE`."""
        return min((part.section for part in self.parts), key=_PRECEDENCE.index)

    @property
    def is_current(self) -> bool:
        """Whether it is shown as holding now."""
        return self.section not in NOT_CURRENT

    @property
    def words(self) -> str:
        """The line without its date and the statements that it replaced."""
        first = self.first
        notes = [f"quoted by {first.quoted_by}"] if first.quoted_by else []
        if self.partner and any(_YOU.search(one.text.casefold()) for one in self.statements):
            notes.append(f"to {self.partner}")
        speaker = f"{first.author} ({', '.join(notes)})" if notes else first.author
        own = sum(len(one.things - one.inherited) for one in self.statements)
        answers = next((one.answers for one in self.statements if one.answers and own < _OWN_TOPICS), "")
        answer = f" – in answer to {self.partner}: {one_line(answers)}" if answers else ""
        contexts = dict.fromkeys(
            one_line(part.context).rstrip(" .") for part in self.parts if adds_words(part.context, self.text)
        )
        context = f" – about: {' / '.join(contexts)}" if contexts else ""
        return f"{speaker}: {self.text}{answer}{context}"

    @property
    def text(self) -> str:
        """The statements, as sentences."""
        texts = [*map(_bare, self.statements)]
        joints = (";" if after[0].islower() else "." for after in texts[1:])  # clauses of one sentence
        before = (one if one[-1:] in _ENDS else f"{one}{joint}" for one, joint in zip(texts, joints, strict=False))
        return " ".join([*before, texts[-1]])

    @property
    def was(self) -> str:
        """The texts of replaced statements; empty if there are none."""
        earlier = sorted((one for part in self.parts for one in part.earlier), key=lambda one: one.id)
        return " → ".join(map(_bare, earlier[-MAX_EARLIER:]))

    def __str__(self) -> str:
        return self.cited(f"message {self.first.message}")

    def cited(self, place: str) -> str:
        """Return the line with the place of its message."""
        day = f"{self.first.at:%Y-%m-%d}, " if self.first.at else ""
        label = "until then" if any(part.is_ahead for part in self.parts) else "was"
        was = f" ({label}: {self.was})" if self.was else ""
        doubts = [part.doubt for part in self.parts if part.doubt]
        doubt = f" (may have been replaced: {_bare(doubts[0])})" if doubts else ""
        others = [part.contested for part in self.parts if part.contested]
        other = f" (contested by {others[0].author}: {_bare(others[0])})" if others else ""
        return f"- {self.words}{was}{doubt}{other} [{day}{place}]"


def without_notes(line: str) -> tuple[str, str]:
    """Return the statements of a line of the document and its place, without notes such as `(was: …)`.

    Notes change with later messages. The place is empty if the line does not end with a message.
    """
    before, _, place = line.rpartition(" [")
    if not _MESSAGE.fullmatch(place):
        return line, ""
    return _NOTE.split(before, maxsplit=1)[0], f" [{place}"


def _bare(statement: Statement) -> str:
    return one_line(statement.text).rstrip(" .")


def lines_of(ledger: StatementLedger) -> list[Line]:
    """Return the lines of the document, section by section, oldest first."""
    around = _Conversation.of(ledger)
    others = contested(ledger)
    lines = [
        line for stated in by_message(ledger.standing()).values() for line in _lines(ledger, stated, around, others)
    ]
    return sorted(lines, key=_place)


_GREETING = "(?:hi|hey|hello|hiya|dear|morning|thanks|thank you|sorry|ok|okay|oh|yes|no)"


def about(lines: Iterable[Line], names: Collection[str]) -> list[Line]:
    """Return the lines about a person with these names: as the owner, as a member of a group, or by name."""
    wanted = {name.casefold() for name in names}
    name = rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(wanted)))})(?!\w)"
    named, addressed = (
        re.compile(name),
        re.compile(rf"^(?:{_GREETING},? )?{name}!|^{_GREETING},? {name}|, {name}[.!?]*$"),
    )
    return [
        line for line in lines if any(_concerns(part, line.partner, wanted, named, addressed) for part in line.parts)
    ]


def _concerns(
    part: Part, partner: str, names: Collection[str], named: re.Pattern[str], addressed: re.Pattern[str]
) -> bool:
    """Return whether a statement, or one that it replaced, is about a person, who is not only `addressed` in it.

    A plan of a group concerns its author and who agreed or asked.
    """
    one = part.statement
    others = [one.agreed_by or partner] if part.section in _PLANS else []
    people = [each.owner or each.author for each in (one, *part.earlier)] + ([] if one.owner else others)
    text = f"{addressed.sub('', one.text.casefold())} {part.context.casefold()}"
    if any(person.casefold() in names for person in people) or named.search(text):
        return True
    return named.search(one.text.casefold()) is not None and any(
        person.casefold() in names for person in people_in(one.text)
    )


def within(lines: Sequence[Line], tokens: int) -> list[Line]:
    """Return the lines that fit into a budget; statements that tell the least give way, the oldest first.

    An older line without an important statement is left out: many of these no longer hold.
    """
    left = {line.first.id: line for line in lines}
    sizes = {key: _size(line) for key, line in left.items()}
    over = sum(sizes.values()) - tokens
    parts = [(part, line.first.id) for line in lines for part in line.parts]
    parts.sort(key=lambda pair: pair[0].statement.id)
    old, parts = parts[:-MAX_WEIGHED], parts[-MAX_WEIGHED:]
    weights = {part.statement.id: part.weight for part, _ in parts}
    important = {key for part, key in parts if weights[part.statement.id] >= TELLING}
    important.update(sorted(left)[-NEWEST_LINES:], (key for _, key in old))
    parts.sort(key=lambda pair: (pair[1] in important, weights[pair[0].statement.id], pair[0].statement.id))
    for part, key in [*old, *parts]:
        if over <= 0 and key in important:
            continue
        line = left.pop(key)
        rest = tuple(one for one in line.parts if one is not part)
        if rest:
            left[key] = replace(line, parts=rest)
        size = _size(left[key]) if rest else 0
        over -= sizes[key] - size
        sizes[key] = size
    return sorted(left.values(), key=_place)


def _size(line: Line) -> int:
    return estimate_tokens(str(line)) + 1


def _place(line: Line) -> tuple[int, tuple[int, int]]:
    return SECTIONS.index(line.section), line.first.id


def document_of(lines: Sequence[Line]) -> str:
    """Return the document as Markdown."""
    return by_section((line.section, str(line)) for line in lines)


def by_section(lines: Iterable[tuple[str, str]]) -> str:
    """Return lines, each with its section, as Markdown with a heading for each section."""
    sections = groupby(lines, key=itemgetter(0))
    return "\n\n".join("\n".join((f"## {name}", *(text for _, text in group))) for name, group in sections)


def _lines(
    ledger: StatementLedger,
    stated: Sequence[Statement],
    around: "_Conversation",
    others: Mapping[tuple[int, int], Statement],
) -> Iterator[Line]:
    """Return the lines of a message: for each speaker one of the valid statements, and one for each other section."""
    grouped: dict[tuple[str, str], list[Part]] = {}
    ids = {one.id for one in stated}
    for one in stated:
        other = others.get(one.id)
        doubted = None if other else ledger.doubted.get(one.id)
        chain = ledger.chain(one)
        section = "Unsure" if doubted else _section(one, chain, around)
        if section:
            doubt = doubted.source if doubted else None
            is_ahead = _starts_later(one, around.last)
            part = Part(section, one, tuple(chain), doubt, _context(ledger, one, ids), other, is_ahead)
            key = (one.author if one.quoted_by else "", section if section in NOT_CURRENT else "")
            grouped.setdefault(key, []).append(part)
    for group in grouped.values():
        telling = [part for part in group if not _is_reaction(part)]
        over = sorted(telling, key=lambda part: -part.weight)[MAX_STATEMENTS:] if len(telling) > MAX_STATEMENTS else ()
        parts = [part for part in telling if part not in over]
        if any(part.statement.has_substance or part.statement.answers or part.earlier for part in parts):
            yield Line(tuple(parts), around.partners.get(parts[0].statement.message, ""))


def _is_reaction(part: Part) -> bool:
    """Return whether a statement has no content of its own: `Right.`, `yes boss`."""
    one = part.statement
    has_content = one.values or one.topics - one.inherited or one.answers or part.earlier
    return (
        one.force == "asserted"
        and not has_content
        and (len(one.text.split()) < MIN_WORDS or _JUDGES.fullmatch(one.text.casefold().strip(" .!")) is not None)
    )


def _context(ledger: StatementLedger, one: Statement, shown: Collection[tuple[int, int]]) -> str:
    """Return the statement that this one continues, unless it is shown with it or no longer valid."""
    is_hidden = one.about and one.about not in shown and one.about not in ledger.retired
    before = ledger.statements[one.about].text if one.about and is_hidden else ""
    is_own = all(old.quoted_by == one.quoted_by for old in ledger.chain(one))
    return " / ".join(filter(None, (before, ledger.contexts.get(one.id, "") if is_own else "")))


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The context that a line needs from the conversation."""

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
        people = {one.author for one in ledger.statements.values() if not one.quoted_by}
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
    plain = one.text.casefold()
    if not last or not one.at or "did" in one.cues or one.attributes & _LASTING:
        return False
    if _BEGINS.search(plain) or _RECURS.search(plain):
        return False
    days = [value.last for value in one.values if value.last]
    start = one.at.date()
    return bool(days) and all(start <= day < last for day in days) and not (one.force == "done" and min(days) <= start)


def _starts_later(one: Statement, last: date | None) -> bool:
    """Return whether a statement holds only from a later day on: `rent is 850 from January`."""
    later = [value.text for value in one.values if last and value.first and value.first > last]
    return any(_STARTS.search(one.text[: one.text.find(text) + len(text)].casefold()) for text in later)


def _section(one: Statement, earlier: Iterable[Statement], around: _Conversation) -> Section | None:
    if one.is_stated and _is_over(one, around.last):
        return "Before"
    match one.force:
        case "suggested":
            return "Open" if around.is_alone else "Said, not settled"
        case "planned":
            return "Ahead" if any(value.kind == "date" for value in one.values) else "Open"
        case "past":
            return "Before"
        case "ended" if _REQUESTS.match(one.text.casefold()) and any(
            sort_of(old.text) == "preference" for old in earlier
        ):
            return "Preferences"
        case "done" | "ended":
            return "Done or dropped"
        case "asserted" if _REQUESTS.match(one.text.casefold()) and sort_of(one.text) == "fact":
            return "Ahead" if any(value.kind == "date" for value in one.values) else "Open"
        case "asserted" | "reported":
            return _SORTS.get(sort_of(one.text), "Facts")
        case _:
            return None

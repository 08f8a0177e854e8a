"""The ledger of a conversation: current statements, and the later statements that replaced others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile, zip_longest
from typing import Literal, NamedTuple

from treering.extensions.statements.comparison import Comparison
from treering.extensions.statements.pairs import changed_values, has_own_thing
from treering.extensions.statements.relations import relations_of, with_context
from treering.extensions.statements.statement import Relation, RelationKind, StatedValue, Statement
from treering.extensions.statements.words import words_in

_Id = tuple[int, int]


Degree = Literal["", "in part", "perhaps"]
"""How much of a message was replaced: all of it if nothing is said."""


@dataclass(frozen=True, slots=True)
class ReplacedMessage:
    """What later messages changed in a message."""

    degree: Degree
    changes: Sequence[tuple[Statement, Statement]]
    """The replaced statements, each with its current replacement."""
    lasting: Sequence[Statement]
    """The other statements, which still hold."""


class StatementLink(NamedTuple):
    """A relation of a new statement, without its words: `other` is the earlier statement."""

    kind: RelationKind
    other: _Id
    sure: bool
    from_new: bool
    """Whether the new statement is the source of the relation, and not its target."""

    @classmethod
    def of(cls, relation: Relation, new: Statement) -> "StatementLink":
        """Return a relation of a new statement as a link."""
        from_new = relation.source is new
        other = relation.target if from_new else relation.source
        return cls(relation.kind, other.id, relation.sure, from_new)


StatementLinks = tuple[StatementLink, ...]
"""The relations of one new statement."""

MAX_CANDIDATES = 12
"""The latest statements with a topic in common that a new one is compared with, for each of its topics."""
RECENT_STATEMENTS = 24
"""The latest statements that a new one is compared with whatever they are about."""


@dataclass(slots=True)
class StatementLedger:
    """Statements in the order in which they were made. A statement is current until a later one retires it."""

    statements: dict[_Id, Statement] = field(default_factory=dict)
    retired: dict[_Id, Relation] = field(default_factory=dict)
    """The statement that certainly retired this one."""
    doubted: dict[_Id, Relation] = field(default_factory=dict)
    """The possible replacements of a statement."""
    contexts: dict[_Id, str] = field(default_factory=dict)
    """For a statement that is too short alone, the remaining part of the replaced one: `dinner at … at Luigi's`."""
    _speakers: set[str] = field(default_factory=set)
    _order: list[_Id] = field(default_factory=list)
    _by_topic: dict[str, list[_Id]] = field(default_factory=dict)
    _sources: dict[_Id, list[_Id]] = field(default_factory=dict)
    """The statements that each statement retired."""

    @classmethod
    def of(cls, statements: Iterable[Statement]) -> "StatementLedger":
        """Read the statements of a conversation in their order."""
        ledger = cls()
        ledger.extend(statements)
        return ledger

    def extend(self, statements: Iterable[Statement], known: Sequence[StatementLinks] = ()) -> list[StatementLinks]:
        """Add further statements in their order; return the links of each.

        `known`: the links of the first ones, as an equal ledger returned them. They are not compared.
        """
        return [self.add(one, links) for one, links in zip_longest(statements, known)]

    def copy(self) -> "StatementLedger":
        """Return a ledger that grows by itself."""
        return StatementLedger(
            dict(self.statements),
            dict(self.retired),
            dict(self.doubted),
            dict(self.contexts),
            set(self._speakers),
            list(self._order),
            {topic: list(ids) for topic, ids in self._by_topic.items()},
            {source: list(ids) for source, ids in self._sources.items()},
        )

    def add(self, statement: Statement, known: StatementLinks | None = None) -> StatementLinks:
        """Add the next statement, and relate it to those that hold; return its links, or the known ones.

        The cost does not grow with the ledger.
        """
        comparison = self.compare(statement)
        new = comparison.new
        relations = relations_of(comparison) if known is None else [self._relation(new, link) for link in known]
        for relation in relations:
            self._relate(relation)
        self.append(new)
        return tuple(StatementLink.of(relation, new) for relation in relations) if known is None else known

    def compare(self, statement: Statement) -> Comparison:
        """Return the next statement with its context, and those that hold and that it may change."""
        self._speakers.update(words_in(statement.author))
        recent = [self.statements[one] for one in self._order[-RECENT_STATEMENTS:]]
        read = with_context(_without_names(statement, self._speakers), recent)
        return Comparison(read, self._candidates(read), recent, len(self._order))

    def append(self, read: Statement) -> None:
        """Add a statement that was compared, whatever it changes."""
        identity = read.id
        self.statements[identity] = read
        self._order.append(identity)
        for topic in (*read.things, *(f"@{name}" for name in read.attributes)):
            self._by_topic.setdefault(topic, []).append(identity)

    def about(self, topic: str) -> Sequence[_Id]:
        """Return the statements about a topic, including retired ones, oldest first."""
        return self._by_topic.get(topic, ())

    def standing(self) -> list[Statement]:
        """Return the statements that nothing retired, oldest first, whatever their force."""
        return [self.statements[one] for one in self._order if one not in self.retired]

    def _candidates(self, new: Statement) -> list[Statement]:
        """Return the statements that a new one may change, oldest first."""
        topics = (*new.things, *(f"@{name}" for name in new.attributes))
        ids = {one for topic in topics for one in self._by_topic.get(topic, ())[-MAX_CANDIDATES:]}
        ids.update(self._order[-RECENT_STATEMENTS:])
        found = (self.statements[one] for one in sorted(ids) if one not in self.retired)
        return [one for one in found if one.is_stated]

    def current(self) -> list[Statement]:
        """Return the valid statements, oldest first, without possibly replaced ones."""
        return [one for one in self.standing() if one.is_stated and one.id not in self.doubted]

    def chain(self, statement: Statement) -> list[Statement]:
        """Return the statements that a statement replaced, directly or through others, oldest first."""
        before = [self.statements[one] for one in self._sources.get(statement.id, ())]
        return sorted((one for target in before for one in [*self.chain(target), target]), key=lambda one: one.id)

    def stated_in(self, message: int) -> list[Statement]:
        """Return the statements of a message."""
        numbers = takewhile(lambda number: (message, number) in self.statements, count())
        return [self.statements[message, number] for number in numbers]

    def replaced_message(self, message: int) -> ReplacedMessage | None:
        """Return the changes of a message, if other messages replaced at least one of its statements."""
        stated = self.stated_in(message)
        changes = [(one, relation.source) for one in stated if (relation := self._change(one))]
        if not changes:
            return None
        changed = [one.id for one, _ in changes]
        left = [one for one in stated if one.is_stated and one.has_substance and one.id not in self.retired]
        lasting = [one for one in left if one.id not in changed]
        is_sure = any(one in self.retired for one in changed)
        return ReplacedMessage("in part" if is_sure and left else "" if is_sure else "perhaps", changes, lasting)

    def _change(self, statement: Statement) -> Relation | None:
        """Return the last of the relations that changed a statement, if another message did more than repeat it."""
        changed = self.retired.get(statement.id) or self.doubted.get(statement.id)
        relation, is_repeated = changed, True
        while changed:
            relation, is_repeated = changed, is_repeated and changed.kind == "repeats"
            changed = self.retired.get(changed.source.id)
        return relation if relation and not is_repeated and relation.source.message != statement.message else None

    def _relation(self, new: Statement, link: StatementLink) -> Relation:
        other = self.statements[link.other]
        source, target = (new, other) if link.from_new else (other, new)
        return Relation(link.kind, source, target, link.sure)

    def _context(self, relation: Relation) -> str:
        new, old = relation.source, relation.target
        gone = changed_values(new, old)
        if relation.kind not in ("corrects", "replaces") or not gone or has_own_thing(new, old):
            return ""
        is_named = old.things <= new.things - new.inherited
        return " ".join(filter(None, ("" if is_named else _without(old.text, gone), self.contexts.get(old.id, ""))))

    def _relate(self, relation: Relation) -> None:
        target = relation.target.id
        if relation.kind == "settles":
            self.statements[target] = replace(
                self.statements[target], force="planned", owner="", agreed_by=relation.source.author
            )
        elif relation.sure:
            self.retired[target] = relation
            if context := self._context(relation):
                self.contexts[relation.source.id] = context
            if relation.kind != "repeats":
                self._sources.setdefault(relation.source.id, []).append(target)
            self.doubted.pop(target, None)
        else:
            self.doubted[target] = relation


def _without_names(statement: Statement, speakers: set[str]) -> Statement:
    """Return a statement without the names of speakers among its topics: `thanks, Ben` is not about Ben."""
    names = {topic for topic in statement.topics if topic in speakers}
    if not names:
        return statement
    return replace(statement, topics=statement.topics - names, subject=statement.subject - names)


def _without(text: str, values: Iterable[StatedValue]) -> str:
    for value in values:
        text = text.replace(value.text, "…")
    return text


def by_message(statements: Iterable[Statement]) -> dict[int, list[Statement]]:
    """Return statements by the message they were made in."""
    found: dict[int, list[Statement]] = {}
    for one in statements:
        found.setdefault(one.message, []).append(one)
    return found

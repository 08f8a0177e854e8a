"""The ledger of a conversation: what holds now, and which later statement changed what held before."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from treering.parts.statements.relations import changed_values, relations_of, with_context
from treering.parts.statements.statement import Relation, Statement, Value

_Id = tuple[int, int]


MAX_CANDIDATES = 40
"""The latest statements with a topic in common that a new one is compared with, for each of its topics."""
RECENT_STATEMENTS = 40
"""The latest statements that a new one is compared with whatever they are about."""


@dataclass(slots=True)
class Ledger:
    """Statements in the order in which they were made. A statement is current until a later one retires it."""

    statements: dict[_Id, Statement] = field(default_factory=dict)
    retired: dict[_Id, Relation] = field(default_factory=dict)
    """What retired a statement, for sure."""
    doubted: dict[_Id, Relation] = field(default_factory=dict)
    """What may have replaced a statement."""
    contexts: dict[_Id, str] = field(default_factory=dict)
    """For a statement that says little alone, what it leaves of the one that it replaced: `dinner at … at Luigi's`."""
    _order: list[_Id] = field(default_factory=list)
    _by_topic: dict[str, list[_Id]] = field(default_factory=dict)
    _sources: dict[_Id, list[_Id]] = field(default_factory=dict)
    """What each statement retired."""

    @classmethod
    def of(cls, statements: Iterable[Statement]) -> "Ledger":
        """Read the statements of a conversation in their order."""
        ledger = cls()
        for statement in statements:
            ledger.add(statement)
        return ledger

    def add(self, statement: Statement) -> None:
        """Add the next statement, and relate it to those that hold. What that costs does not grow with the ledger."""
        recent = [self.statements[one] for one in self._order[-RECENT_STATEMENTS:]]
        read = with_context(statement, recent)
        for relation in relations_of(read, self._candidates(read), recent):
            self._relate(relation)
        self.statements[read.id] = read
        self._order.append(read.id)
        for topic in (*read.things, *(f"@{name}" for name in read.attributes)):
            self._by_topic.setdefault(topic, []).append(read.id)

    def standing(self) -> list[Statement]:
        """Return the statements that nothing retired, oldest first, whatever their force."""
        return [self.statements[one] for one in self._order if one not in self.retired]

    def _candidates(self, new: Statement) -> list[Statement]:
        """Return the statements that a new one may change, oldest first."""
        topics = (*new.things, *(f"@{name}" for name in new.attributes))
        ids = {one for topic in topics for one in self._by_topic.get(topic, ())[-MAX_CANDIDATES:]}
        ids.update(self._order[-RECENT_STATEMENTS:])
        return [self.statements[one] for one in sorted(ids) if one not in self.retired]

    def current(self) -> list[Statement]:
        """Return what holds, oldest first, without what may have been replaced."""
        return [one for one in self.standing() if one.is_stated and one.id not in self.doubted]

    def chain(self, statement: Statement) -> list[Statement]:
        """Return what a statement replaced, directly or through others, oldest first."""
        before = [self.statements[one] for one in self._sources.get(statement.id, ())]
        return sorted((one for target in before for one in [*self.chain(target), target]), key=lambda one: one.id)

    def replacement(self, statement_id: _Id) -> Relation | None:
        """Return the relation at the end of the chain that retired a statement."""
        relation = self.retired.get(statement_id)
        while relation and (later := self.retired.get(relation.source.id)):
            relation = later
        return relation

    def replaced_messages(self) -> Mapping[int, Relation]:
        """Return the messages of which everything stated was retired, with what retired the last of it."""
        stated: dict[int, list[Statement]] = {}
        for one in self.statements.values():
            if one.id in self.retired or (one.is_stated and one.has_substance):
                stated.setdefault(one.message, []).append(one)
        return {
            message: relation
            for message, held in stated.items()
            if all(one.id in self.retired for one in held) and (relation := self.replacement(held[-1].id))
        }

    def _context(self, relation: Relation) -> str:
        new, old = relation.source, relation.target
        gone = changed_values(new, old)
        if relation.kind not in ("corrects", "replaces") or not gone:
            return ""
        is_named = old.things <= new.things - new.inherited
        return " ".join(filter(None, ("" if is_named else _without(old.text, gone), self.contexts.get(old.id, ""))))

    def _relate(self, relation: Relation) -> None:
        target = relation.target.id
        if relation.kind == "settles":
            self.statements[target] = replace(self.statements[target], force="planned", owner="")
        elif relation.sure:
            self.retired[target] = relation
            if context := self._context(relation):
                self.contexts[relation.source.id] = context
            self._sources.setdefault(relation.source.id, []).append(target)
            self.doubted.pop(target, None)
        else:
            self.doubted[target] = relation


def _without(text: str, values: Iterable[Value]) -> str:
    for value in values:
        text = text.replace(value.text, "…")
    return text


def by_message(statements: Sequence[Statement]) -> dict[int, list[Statement]]:
    """Return statements by the message they were made in."""
    found: dict[int, list[Statement]] = {}
    for one in statements:
        found.setdefault(one.message, []).append(one)
    return found

"""Which earlier statements a new one changes, and how: learned chances find them, and words name the relation."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from treering.extensions.statements.pairs import (
    TELLING,
    Comparison,
    differing,
    have_common,
    have_other_kinds,
    have_same_attribute,
    is_other_subject,
)
from treering.extensions.statements.statement import Relation, RelationKind, StatedValue, Statement
from treering.extensions.statements.words import KIN

LIKELY = 0.18
"""The chance from which on an earlier statement no longer holds, chosen on hands that were left out of the fit: lower,
more statements that hold are lost in talk in which nothing changes (`steady`) than are found elsewhere."""
REPLY_MESSAGES = 2
"""Messages back in which a suggestion or a question is answered."""
_HOURS = 24
_OWN = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|mine|ich|mein\w*|yo|mi|mis)(?!\w)", re.IGNORECASE)
_MIN_REPEATED = 2
"""Topics of a statement without values that a later one repeats."""


def with_context(new: Statement, earlier: Sequence[Statement]) -> Statement:
    """Return a statement with the topics of what it goes on from: its message, or the question that it answers."""
    if not earlier or not new.is_stated:
        return new
    before = earlier[-1]
    if before.message == new.message:
        if new.things and not new.refers:
            return new
        about = before.id if before.is_stated and before.things else None
        topics, attributes = new.topics | before.topics, new.attributes | before.attributes
        inherited = before.topics - new.topics
        return replace(new, topics=topics, attributes=attributes, inherited=inherited, about=about)
    is_question = before.force == "asked" and before.author != new.author and before.message == new.message - 1
    if not is_question or not new.begins or not ("answers" in new.cues or len(new.topics) <= 1):
        return new
    topics, attributes = new.topics | before.topics, new.attributes | before.attributes
    cues = new.cues - {"objects"}  # `no, …` says no to the question
    if any(not keys.isdisjoint(before.keys.get(kind, ())) for kind, keys in new.keys.items()):
        cues |= {"change"}  # `10 is fine` accepts what was asked for
    inherited = before.topics - new.topics
    return replace(new, topics=topics, attributes=attributes, cues=cues, inherited=inherited, answers=before.text)


def relations_of(comparison: Comparison) -> list[Relation]:
    """Return what a new statement does to earlier ones: to those of one message, where it is likeliest."""
    new = comparison.new
    if "agrees" in new.cues and (settled := _settled(new, comparison.recent)):
        return [Relation("settles", new, settled)]
    if not new.is_stated:
        return []
    if repeated := list(_repeated(new, comparison.candidates)):
        return repeated
    changeable = {old.id for old in comparison.candidates if may_change(new, old)}
    likely = [
        (chance, old)
        for old, chance in (comparison.chances if changeable else ())
        if old.id in changeable and (chance >= LIKELY or _takes_over(new, old))
    ]
    best = max(((chance, old.id) for chance, old in likely), default=(0.0, (-1, -1)))[1][0]
    return [Relation(_kind(new, old), new, old, _is_sure(new, old)) for _, old in likely if old.message == best]


def _settled(new: Statement, earlier: Sequence[Statement]) -> Statement | None:
    """Return the suggestion of another person that a statement accepts."""
    for one in reversed(earlier):
        if one.message < new.message - REPLY_MESSAGES:
            return None
        if one.force == "suggested" and one.author != new.author:
            return one
    return None


def may_change(new: Statement, old: Statement) -> bool:
    """Return whether nothing rules out that a statement changes an earlier one, however likely it is."""
    is_correction = "correct" in new.cues
    if not have_common(new, old) or (old.message == new.message and not is_correction):
        return False
    for one, other in ((new.modifiers - KIN, old.modifiers - KIN), (new.modifiers & KIN, old.modifiers & KIN)):
        if one and other and one.isdisjoint(other):
            return False
    if is_correction or new.force == "ended":
        return True
    if new.cues & {"past", "add"} or ("same" in new.cues and not new.cues & {"change", "negative"}):
        return False
    return "change" in new.cues or not _is_apart(new, old)


def _is_of_other_kin(new: Statement, old: Statement) -> bool:
    """Return whether one statement is about a relative, and the other about the speaker: `my sister lives in Ghent`."""
    relatives, earlier = new.modifiers & KIN, old.modifiers & KIN
    return bool(relatives and not earlier) or bool(earlier and not relatives and _OWN.search(new.text))


def _is_apart(new: Statement, old: Statement) -> bool:
    """Return whether two statements without a word for a change are about different things, persons or events."""
    if new.author != old.author and _OWN.search(new.text) and _OWN.search(old.text) and "handover" not in new.cues:
        return True
    if _is_of_other_kin(new, old) or _is_another(new, old):
        return True
    if not new.cues & TELLING and have_other_kinds(new, old):
        return True
    if "label" in differing(new, old) or ("did" in new.cues and "did" in old.cues):
        return True
    return is_other_subject(new, old)


def _is_another(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different things of one kind: `the bike key` and `the shed key`."""
    subject, earlier = new.subject - new.verbs, old.subject - old.verbs
    return bool(subject & earlier and subject - earlier and earlier - subject)


def _is_sure(new: Statement, old: Statement) -> bool:
    """Return whether a statement retires another; else the other stays, and is marked.

    A word announces the change, or the statements cannot both be true. People who disagree leave it open.
    """
    if new.cues & TELLING or new.force != "asserted" or _kind(new, old) != "replaces":
        return True
    is_exclusive = have_same_attribute(new, old) or bool(differing(new, old)) or new.positive != old.positive
    return new.author == old.author and is_exclusive


def _kind(new: Statement, old: Statement) -> RelationKind:
    if new.force == "ended":
        return "ends"
    if new.cues & {"correct", "objects"}:
        return "corrects"
    if _takes_over(new, old):
        return "reassigns"
    is_done = old.force == "planned" and new.cues & {"did", "done"} and new.force != "planned"
    return "completes" if is_done else "replaces"


def _takes_over(new: Statement, old: Statement) -> bool:
    """Return whether a person takes over the plan of another."""
    is_other = new.owner and old.owner and new.owner != old.owner
    return bool(is_other and old.force == "planned" and "handover" in new.cues and new.things & old.things)


def _repeated(new: Statement, candidates: Sequence[Statement]) -> Iterator[Relation]:
    for old in candidates:
        things = new.things & old.things
        is_about = things and new.positive == old.positive and _same_owner(new, old) and old.message < new.message
        if not is_about or differing(new, old) or new.force != old.force:
            continue
        if not (new.values or old.values) and (len(things) < _MIN_REPEATED or new.things != old.things):
            continue
        if old.things <= new.things and _values_within(old, new):
            yield Relation("repeats", new, old)
        elif new.things < old.things and new.values and _values_within(new, old):
            yield Relation("repeats", old, new)
            return


def _values_within(part: Statement, whole: Statement) -> bool:
    return all(keys <= whole.keys.get(kind, frozenset()) for kind, keys in part.keys.items())


def _same_owner(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about the same person or group, or one names the person of the other."""
    if new.owner == old.owner or "" in (new.owner, old.owner):
        return True
    return new.author == old.author and (old.owner == old.author or new.owner in old.text or old.owner in new.text)


def changed_values(new: Statement, old: Statement) -> list[StatedValue]:
    """Return the values of an earlier statement that a new one has others for."""
    kinds = differing(new, old)
    if not kinds and _may_be_time(new, old):
        kinds = ["time"]
    return [value for value in old.values if value.kind in kinds]


def _may_be_time(new: Statement, old: Statement) -> bool:
    """Return whether `make it 8` may be about `dinner at 7`."""
    hours = [key for key in new.keys.get("amount", ()) if key.isdigit() and int(key) <= _HOURS]
    return len(hours) == 1 and "time" in old.keys and old.keys["time"].isdisjoint({f"{hours[0]}:00"})

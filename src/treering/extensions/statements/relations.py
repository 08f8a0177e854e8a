"""Which earlier statements a new one changes, and how: learned chances find them, and words name the relation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from treering.extensions.statements.comparison import Comparison
from treering.extensions.statements.pairs import (
    REPLY_MESSAGES,
    announces_change,
    changed_values,
    differing,
    have_little_in_common,
    have_other_kinds,
    have_same_attribute,
    is_done,
    objections,
    takes_over,
)
from treering.extensions.statements.statement import Relation, RelationKind, Statement

LIKELY = 0.14
"""The chance from which on an earlier statement no longer holds, chosen on hands that were left out of the fit: lower,
more statements that hold are lost in talk in which nothing changes (`steady`) than are found elsewhere."""
LIKELY_ANYWAY = 0.62
"""The same for a pair of statements with an objection; chosen on the same hands, and on unrelated pairs of our own."""
LIKELY_LATER = 0.16
"""The same as `LIKELY` in a long talk, in which more pairs are compared by chance."""
MAX_SHORT_TALK = 48
"""Statements up to which a talk is short; chosen on `talks` and `chats` of `benchmarks truth`."""
_MIN_REPEATED = 2
"""Topics of a statement without values that a later one repeats."""


def with_context(new: Statement, earlier: Sequence[Statement]) -> Statement:
    """Return a statement with the topics of its context: its message, or the question that it answers."""
    if not earlier or not new.is_stated:
        return new
    before = earlier[-1]
    if before.message == new.message:
        if new.things and not new.refers:
            return new
        about = before.id if before.is_stated and before.things else None
        topics, attributes = new.topics | before.topics, new.attributes | before.attributes
        inherited = before.topics - new.topics
        names = new.names | before.names
        return replace(new, topics=topics, attributes=attributes, inherited=inherited, names=names, about=about)
    is_question = before.force == "asked" and before.author != new.author and before.message == new.message - 1
    if not is_question or not new.begins or not ("answers" in new.cues or len(new.topics) <= 1):
        return new
    topics, attributes = new.topics | before.topics, new.attributes | before.attributes
    cues = new.cues - {"objects"}  # `no, …` says no to the question
    if any(not keys.isdisjoint(before.keys.get(kind, ())) for kind, keys in new.keys.items()):
        cues |= {"change"}  # `10 is fine` accepts what was asked for
    inherited = before.topics - new.topics
    names = new.names | before.names
    return replace(
        new, topics=topics, attributes=attributes, cues=cues, inherited=inherited, names=names, answers=before.text
    )


def relations_of(comparison: Comparison) -> list[Relation]:
    """Return the effects of a new statement on earlier ones, in the one message that it most likely changes."""
    new = comparison.new
    if "agrees" in new.cues and (settled := _settled(new, comparison.recent)):
        return [Relation("settles", new, settled)]
    if not new.is_stated:
        return []
    if repeated := list(_repeated(new, comparison.candidates)):
        return repeated
    is_short = comparison.count <= MAX_SHORT_TALK
    least = LIKELY if is_short else LIKELY_LATER
    likely = [
        (chance, old)
        for old, chance in comparison.chances
        if chance >= LIKELY_ANYWAY
        or (chance >= least and not objections(new, old) and (is_short or not have_little_in_common(new, old)))
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


def _is_sure(new: Statement, old: Statement) -> bool:
    """Return whether a statement retires another; else the other stays, and is marked.

    A word announces the change, or the statements cannot both be true. People who disagree leave it open.
    """
    if have_other_kinds(new, old) and new.force == "asserted" and not changed_values(new, old):
        return False
    if announces_change(new) or "succeeds" in new.cues or new.force != "asserted" or _kind(new, old) != "replaces":
        return True
    has_other_value = bool(set(differing(new, old)) - (set() if new.things & old.things else {"name"}))
    is_exclusive = have_same_attribute(new, old) or has_other_value or new.positive != old.positive
    return new.author == old.author and is_exclusive


def _kind(new: Statement, old: Statement) -> RelationKind:
    if new.force == "ended":
        return "ends"
    if new.cues & {"correct", "objects", "disowns"}:
        return "corrects"
    if takes_over(new, old):
        return "reassigns"
    return "completes" if is_done(new, old) else "replaces"


def _repeated(new: Statement, candidates: Sequence[Statement]) -> Iterator[Relation]:
    for old in candidates:
        things = new.things & old.things
        is_about = things and new.positive == old.positive and _same_owner(new, old) and old.message < new.message
        if not is_about or differing(new, old) or new.force != old.force:
            continue
        if not (new.values or old.values) and (len(things) < _MIN_REPEATED or new.things != old.things):
            continue
        is_more = new.cues & {"change", "succeeds"} and (new.things, new.keys) != (old.things, old.keys)
        if old.things <= new.things and _values_within(old, new) and not is_more:
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

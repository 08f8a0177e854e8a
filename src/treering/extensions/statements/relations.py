"""Which earlier statements a new one changes, and how. Rules alone: cues name the relation, keys find the target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treering.extensions.statements.statement import Relation, StatedValue, Statement, ValueKind
from treering.extensions.statements.words import KIN

NEAR_MESSAGES = 6
"""Messages back in which `make it Friday` may find what it is about, chosen on `benchmarks truth` (dev)."""
_HOURS = 24
_MIN_REPEATED = 2
REPLY_MESSAGES = 3
"""Messages back in which a suggestion or a question is answered."""
MIN_OVERLAP_WITH_CUE = 0.34
"""Share of the smaller statement's topics that both have, if a word such as `now` says that something changed."""
MIN_OVERLAP_WITH_HINT = 0.5
"""The same with a weaker word, such as `new` or `since`."""
MIN_OVERLAP = 0.67
"""The same without such a word."""
MIN_OVERLAP_UNSURE = 0.34
"""From this share on, without such a word, a statement may have been replaced."""
MIN_OVERLAP_SAME = 0.5
"""From this share on a statement may be denied, or a plan done."""


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


def relations_of(new: Statement, candidates: Sequence[Statement], recent: Sequence[Statement]) -> list[Relation]:
    """Return what a new statement does to earlier ones. `recent`: the last statements, whatever became of them."""
    if "agrees" in new.cues and (settled := _settled(new, recent)):
        return [Relation("settles", new, settled)]
    if not new.is_stated:
        return []
    matches = [_match(new, one) for one in candidates if one.is_stated]
    if found := list(_corrected(new, matches)):
        return found
    matches = [match for match in matches if match.target.message < new.message]
    for rule in (_ended, _completed, _reassigned, _replaced, _repeated):
        if found := list(rule(new, matches, recent)):
            return found
    return []


def _settled(new: Statement, earlier: Sequence[Statement]) -> Statement | None:
    """Return the suggestion of another person that a statement accepts."""
    for one in reversed(earlier):
        if one.message < new.message - REPLY_MESSAGES:
            return None
        if one.force == "suggested" and one.author != new.author and not one.machine:
            return one
    return None


def _ended(new: Statement, matches: Sequence["_Match"], recent: Sequence[Statement]) -> Iterator[Relation]:  # noqa: ARG001
    if new.force != "ended":
        return
    about = [
        match
        for match in matches
        if match.things
        and _may_end(new, match.target)
        and (match.things & new.subject or max(match.share, match.cover) >= MIN_OVERLAP_SAME)
        and not _is_other(new, match.target)
        and not _differs(new, match.target, "date")
    ]
    most = max((match.size for match in about), default=0)
    if about:
        yield from (Relation("ends", new, match.target) for match in about if match.size == most)
    elif same_day := [match.target for match in matches if match.equal and _is_near(new, match.target)]:
        yield Relation("ends", new, same_day[-1])
    elif not new.things and (last := _last(new, matches)):
        yield Relation("ends", new, last)


def _is_near(new: Statement, old: Statement) -> bool:
    return old.message >= new.message - NEAR_MESSAGES and _may_end(new, old)


def _may_end(new: Statement, old: Statement) -> bool:
    return old.force != "ended" and (_same_owner(new, old) or old.owner in new.text or new.author == old.author)


def _completed(new: Statement, matches: Sequence["_Match"], recent: Sequence[Statement]) -> Iterator[Relation]:  # noqa: ARG001
    if new.force == "planned" or not new.cues & {"did", "done"}:
        return
    for match in matches:
        old = match.target
        overlap = max(match.share, match.cover) if "done" in new.cues else match.cover
        is_about = match.things and overlap >= MIN_OVERLAP_SAME and _is_ahead(old)
        if is_about and not _is_other(new, old) and not _differs(new, old, "date", "time"):
            yield Relation("completes", new, old)


def _is_ahead(old: Statement) -> bool:
    """Return whether a statement was about the future when it was made."""
    dates = (value.first for value in old.values)
    return old.force == "planned" or any(day and old.at and day >= old.at.date() for day in dates)


def _corrected(new: Statement, matches: Sequence["_Match"]) -> Iterator[Relation]:
    if not new.cues & {"correct", "objects"}:
        yield from _put_right(new, matches)
        return
    near = [match for match in matches if match.target.message >= new.message - NEAR_MESSAGES]
    near = [match for match in near if not _is_other(new, match.target)]
    about = [match for match in near if match.things and match.changed]
    if about:
        yield Relation("corrects", new, _best(about))
        return
    same_kind = [match.target for match in near if match.changed]
    own = [one for one in same_kind if one.author == new.author] or same_kind
    if own:
        yield Relation("corrects", new, own[-1])
    elif not new.things and not new.values and (last := _last(new, matches)):
        yield Relation("corrects", new, last)


def _put_right(new: Statement, matches: Sequence["_Match"]) -> Iterator[Relation]:
    """Let a message that begins with a value correct the one before it: `1932, it's on the stone`."""
    if "leads" in new.cues and new.begins and not new.answers and not new.things & new.subject:
        before = [match.target for match in matches if match.target.message == new.message - 1 and match.changed]
        if before:
            yield Relation("corrects", new, before[-1], sure=before[-1].author == new.author)


def _reassigned(new: Statement, matches: Sequence["_Match"], recent: Sequence[Statement]) -> Iterator[Relation]:
    if not new.owner or not (new.force == "planned" or "handover" in new.cues):
        return
    for match in matches:
        old = match.target
        if old.force != "planned" or old.owner in ("", new.owner) or not match.things:
            continue
        released = any("release" in one.cues and _concerns(one, old) for one in recent if one.id > old.id)
        if released or "handover" in new.cues:
            yield Relation("reassigns", new, old, sure=released)


def _concerns(one: Statement, old: Statement) -> bool:
    return old.owner in (one.author, one.owner) or bool(_match(one, old).things)


def _replaced(new: Statement, matches: Sequence["_Match"], recent: Sequence[Statement]) -> Iterator[Relation]:  # noqa: ARG001
    if new.cues & {"past", "add"} or (new.force == "done" and not new.values):
        return
    mine = [
        match
        for match in matches
        if match.target.force != "ended" and _same_owner(new, match.target) and not _is_other(new, match.target)
    ]
    changed = "change" in new.cues
    found = [(match, _certainty(new, match)) for match in mine]
    sure = [match for match, certainty in found if certainty == "sure"]
    unsure = [match for match, certainty in found if certainty == "unsure"]
    if sure:
        yield Relation("replaces", new, _best(sure))
    elif changed and len(new.things) <= 1 and new.values and (near := _near_value(new, mine)):
        yield Relation("replaces", new, near)
    elif unsure:
        yield Relation("replaces", new, _best(unsure), sure=False)


def _best(matches: Sequence["_Match"]) -> Statement:
    return max(matches, key=lambda match: (match.size, match.target.id)).target


def _certainty(new: Statement, match: "_Match") -> str:
    old = match.target
    changed, hinted = "change" in new.cues, "hint" in new.cues
    if new.author != old.author and not changed and new.owner != old.owner:
        return ""
    is_own = new.owner == old.owner or new.author == old.author
    if new.single and old.single and new.attributes & old.attributes and is_own:
        is_same = not (new.modifiers ^ old.modifiers) & KIN
        return "sure" if is_same and (new.things != old.things or match.changed) else ""
    is_event = "did" in new.cues  # what happened once more is no change
    is_vague = new.inherited and not match.changed
    if not match.things or (not (changed or hinted) and is_event) or (not changed and is_vague):
        return ""
    least = MIN_OVERLAP_WITH_CUE if changed else MIN_OVERLAP_WITH_HINT if hinted else MIN_OVERLAP
    if _has_other_value(new, match) or _is_denied(new, match):
        is_sure = match.share >= least and (changed or new.author == old.author)
        return "sure" if is_sure else "unsure" if match.share >= MIN_OVERLAP_UNSURE else ""
    is_own = new.author == old.author
    is_specific = min(len(new.things), len(old.things)) >= _MIN_REPEATED
    is_other_thing = changed and is_own and is_specific and not match.equal and bool(new.things - old.things)
    return "sure" if is_other_thing and match.share >= MIN_OVERLAP_SAME else ""


def _has_other_value(new: Statement, match: "_Match") -> bool:
    """Return whether a value changed. Another name counts only where a word or the same subject says so."""
    if not match.changed:
        return False
    kinds = [kind for kind in new.keys if _differs(new, match.target, kind)]
    if kinds != ["name"]:
        return True
    is_marked = "change" in new.cues or bool(new.subject & match.target.subject - new.verbs)
    return is_marked and new.author == match.target.author


def _is_denied(new: Statement, match: "_Match") -> bool:
    """Return whether one of two statements denies what the other says, with the same verb or a word for a change."""
    old = match.target
    if new.positive == old.positive or match.share < MIN_OVERLAP_SAME:
        return False
    return bool(new.cues & {"change", "hint"}) or not new.positive or bool(new.topics & old.topics & new.verbs)


def _near_value(new: Statement, matches: Sequence["_Match"]) -> Statement | None:
    """Return the latest statement nearby that has another value of the same kind, or a time for a bare number."""
    near = [
        match.target
        for match in matches
        if match.target.message >= new.message - NEAR_MESSAGES and (match.changed or _may_be_time(new, match.target))
    ]
    return near[-1] if near else None


def _repeated(new: Statement, matches: Sequence["_Match"], recent: Sequence[Statement]) -> Iterator[Relation]:  # noqa: ARG001
    for match in matches:
        old = match.target
        if not match.things or match.changed or new.positive != old.positive or not _same_owner(new, old):
            continue
        if not (new.values or old.values) and (match.size < _MIN_REPEATED or new.things != old.things):
            continue
        if old.things <= new.things and _values_within(old, new):
            yield Relation("repeats", new, old)
        elif new.things < old.things and new.values and _values_within(new, old):
            yield Relation("repeats", old, new)
            return


@dataclass(frozen=True, slots=True)
class _Match:
    """How a new statement and an earlier one agree: `things` both are about, and kinds of values that differ."""

    target: Statement
    things: frozenset[str]
    share: float
    """Of the topics of the smaller one."""
    cover: float
    """Of the topics of the earlier one."""
    changed: bool
    equal: bool

    @property
    def size(self) -> int:
        return len(self.things)


def _match(new: Statement, old: Statement) -> _Match:
    things = new.things & old.things
    least = min(len(new.things), len(old.things))
    equal = any(not keys.isdisjoint(old.keys.get(kind, ())) for kind, keys in new.keys.items())
    return _Match(
        old,
        things,
        share=len(things) / least if least else 0.0,
        cover=len(things) / len(old.things) if old.things else 0.0,
        changed=_differs(new, old, *new.keys),
        equal=equal,
    )


def _differs(new: Statement, old: Statement, *kinds: ValueKind) -> bool:
    """Return whether both have values of one of some kinds, and none in common."""
    both = (kind for kind in kinds if kind in new.keys and kind in old.keys)
    return any(new.keys[kind].isdisjoint(old.keys[kind]) for kind in both)


def _may_be_time(new: Statement, old: Statement) -> bool:
    """Return whether `make it 8` may be about `dinner at 7`."""
    hours = [key for key in new.keys.get("amount", ()) if key.isdigit() and int(key) <= _HOURS]
    return len(hours) == 1 and "time" in old.keys and old.keys["time"].isdisjoint({f"{hours[0]}:00"})


def changed_values(new: Statement, old: Statement) -> list[StatedValue]:
    """Return the values of an earlier statement that a new one has others for."""
    kinds = [kind for kind in new.keys if _differs(new, old, kind)]
    if not kinds and _may_be_time(new, old):
        kinds = ["time"]
    return [value for value in old.values if value.kind in kinds]


def _values_within(part: Statement, whole: Statement) -> bool:
    return all(keys <= whole.keys.get(kind, frozenset()) for kind, keys in part.keys.items())


def _same_owner(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about the same person or group, or one names the person of the other."""
    if new.owner == old.owner or "" in (new.owner, old.owner):
        return True
    return new.author == old.author and (old.owner == old.author or new.owner in old.text or old.owner in new.text)


def _is_other(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different things, whatever else they share."""
    different = new.modifiers ^ old.modifiers
    for one, other in ((new.modifiers - KIN, old.modifiers - KIN), (new.modifiers & KIN, old.modifiers & KIN)):
        if one and other and one.isdisjoint(other):
            return True
    if _differs(new, old, "label") and not new.cues & {"change", "correct"}:
        return True
    if different & KIN and not (new.things & old.things):
        return True
    subjects = new.subject - new.verbs, old.subject - old.verbs
    return (
        all(subjects)
        and subjects[0].isdisjoint(old.topics)
        and subjects[1].isdisjoint(new.topics)
        and "correct" not in new.cues
        and not (new.single and old.single)
    )


def _last(new: Statement, matches: Sequence["_Match"]) -> Statement | None:
    """Return what `it` means: the last statement of the same author nearby, or else of anyone."""
    near = [match.target for match in matches if match.target.message >= new.message - NEAR_MESSAGES]
    own = [one for one in near if one.author == new.author]
    found = own or near
    return found[-1] if found else None

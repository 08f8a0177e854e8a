"""What a context pack says besides its items: a summary, conflicts, what is missing, what to read next."""

from collections.abc import Sequence

from treering.core.filters import Compare
from treering.core.objects import Knowledge
from treering.core.pack import ConflictNote
from treering.derived.gaps import listed
from treering.derived.packing import Packed, quoted
from treering.derived.showing import is_withheld
from treering.ports.ledger import Altered, Selection
from treering.ports.reach import Reach
from treering.tools.attached import Attached
from treering.tools.context_search import FoundForTask
from treering.tools.envelope import Call
from treering.tools.reading import lag_warning

_READS = 8


def summary_of(packed: Packed, conflicts: Sequence[ConflictNote], found: FoundForTask) -> str:
    """Say in one sentence what the pack holds, or that nothing here speaks of the task."""
    if not found.answers:
        words = found.known.words
        missing = listed(words.unknown) or "this: its words occur, but nowhere together"
        rest = f" Known here: {listed(words.known)}." if words.known and words.unknown else ""
        return f"Nothing here speaks of {missing}.{rest} The nearest passages are named below, and not quoted."
    if not packed.items:
        return "Nothing is known here for this task."
    counts: dict[str, int] = {}
    for item in packed.items:
        counts[item.section] = counts.get(item.section, 0) + 1
    parts = [f"{count} {section if count > 1 else _singular(section)}" for section, count in counts.items()]
    more = f"; {len(packed.left_out)} more did not fit" if packed.left_out else ""
    warning = f"; {len(conflicts)} unresolved" if conflicts else ""
    return f"Known for this task: {', '.join(parts)}{warning}{more}."


def _singular(section: str) -> str:
    return {"work": "work item", "activities": "activity"}.get(section, section.removesuffix("s"))


def conflicts_of(call: Call, packed: Packed, reach: Reach, altered: Altered) -> tuple[ConflictNote, ...]:
    """Name everything contested in the pack, together with the claims it contradicts, where these are not over."""
    contested = [item.object_id for item in packed.items if item.status == "contested"]
    if not contested:
        return ()
    everything = Selection(
        scope=reach.scope,
        descend=reach.descend,
        types=("knowledge",),
        where=Compare("status", "eq", "contested"),
        as_of=reach.at,
    )
    groups: dict[str, list[Knowledge]] = {}
    for item in call.engine.ledger.select(everything, altered=altered):
        if isinstance(item, Knowledge):
            groups.setdefault(item.claim_key() or item.id, []).append(item)
    shown = (group for group in groups.values() if any(item.id in contested for item in group))
    standing = ((group, [item for item in group if not is_withheld(item, reach)]) for group in shown)
    # One that stands alone is contested by a person, unless what contradicted it is over.
    return tuple(_note(left) for group, left in standing if len(left) > 1 or (left and len(group) == 1))


def _note(group: Sequence[Knowledge]) -> ConflictNote:
    return ConflictNote(
        ids=tuple(item.id for item in group),
        summary="Contested: " + " ↔ ".join(f"{quoted(item.title)} (`{item.id}`)" for item in group),
    )


def missing_of(packed: Packed, found: FoundForTask) -> tuple[str, ...]:
    """Say what the task speaks of that the space does not know, and what it knew but had to withdraw."""
    unknown = listed(found.known.missing)
    gaps = [f"Nothing here mentions {unknown}."] if unknown and found.answers else []
    gaps += [
        f"`{identity}` ({quoted(title)}) is {status}: do not rely on it." for identity, title, status in found.withdrawn
    ]
    sections = {item.section for item in packed.items}
    if packed.items and not sections & {"decisions", "constraints"}:
        gaps.append("No decision or constraint is recorded for this; crystallize what you decide.")
    return (*gaps, *lag_warning(found.question.lag))


def next_reads_of(packed: Packed, attached: Sequence[Attached]) -> tuple[str, ...]:
    """Name what did not fit, best first, and the wholes of which only parts are in the pack."""
    more = [
        f"{one.left_out} more that belong to {quoted(one.node.name)} (`{one.node.id}`, mode related)"
        for one in attached
        if one.left_out
    ]
    left = [
        f"{quoted(item.title)} (`{item.object_id}` {item.segment_id})" for item in packed.left_out if item.segment_id
    ]
    cut = [
        f"{quoted(item.title)}, the rest of it (`{item.object_id}` {item.segment_id})"
        for item in packed.items
        if "cut" in item.flags
    ]
    return tuple(dict.fromkeys([*more, *cut, *left]))[:_READS]

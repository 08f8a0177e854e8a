"""What a context pack states besides its items: a summary, rules, conflicts, what is missing, what to read next."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from treering.core.characters import label
from treering.core.evidence import Lines
from treering.core.filters import And, Compare
from treering.core.objects import Constraint, Knowledge
from treering.core.policy import is_over
from treering.ports.ledger import Altered, Selection, head_of
from treering.ports.passages import Reach
from treering.retrieval import limits
from treering.retrieval.index.code_places import CODE
from treering.retrieval.index.passages import is_withheld
from treering.retrieval.search.commit_history import CommitHistory, companions_of
from treering.retrieval.search.pack_budget import Packed
from treering.retrieval.search.packing import ConflictNote, named_item, quoted
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.text.typed_words import listed
from treering.retrieval.tuning import TUNING
from treering.verbs.envelope import Call
from treering.verbs.query.attached import Attached
from treering.verbs.query.context_parts import FoundForTask
from treering.verbs.reading import lag_warning
from treering.verbs.trees import notes_of_objects

_EVERYWHERE = ("", "repository")
"""Scopes of a constraint that do not narrow it to a part of a project."""
_WORD = re.compile(r"\w+")


def summary_of(packed: Packed, conflicts: Sequence[ConflictNote], found: FoundForTask) -> str:
    """Say in one sentence what the pack holds, or that nothing here is relevant to the task."""
    if not found.answers:
        words = found.known.words
        missing = listed(words.unknown) or "this: its words occur, but nowhere together"
        rest = f" Known here: {listed(words.known)}." if words.known and words.unknown else ""
        return f"No indexed text mentions {missing}.{rest} The closest passages are listed below, without quotes."
    if not packed.unnumbered:
        return "Nothing is stored here for this task."
    counts: dict[str, int] = {}
    for item in packed.unnumbered:
        counts[item.section] = counts.get(item.section, 0) + 1
    parts = [f"{count} {section if count > 1 else _singular(section)}" for section, count in counts.items()]
    more = f"; {len(packed.left_out)} more did not fit" if packed.left_out else ""
    warning = f"; {len(conflicts)} unresolved" if conflicts else ""
    return f"Known for this task: {', '.join(parts)}{warning}{more}."


def _singular(section: str) -> str:
    return {"work": "work item", "activities": "activity"}.get(section, section.removesuffix("s"))


def rules_of(call: Call, reach: Reach, altered: Altered) -> list[tuple[str, str]]:
    """Return active constraints that apply to every task, newest first, each as its id and a line."""
    where = And((Compare("kind", "eq", "constraint"), Compare("status", "eq", "active")))
    selection = Selection(scope=reach.scope, types=("knowledge",), where=where, as_of=reach.at)
    items = [item for item in call.engine.ledger.select(selection, altered=altered) if isinstance(item, Knowledge)]
    elsewhere = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
    return [
        (item.id, f"{label(item.payload.rule, most=limits.MAX_RULE_CHARS)} (`{item.id}`)")
        for item in sorted(items, key=lambda item: item.updated_at, reverse=True)
        if isinstance(item.payload, Constraint)
        and item.payload.scope in _EVERYWHERE
        and item.id not in elsewhere
        and not (reach.now and is_over(item, now=reach.now))
    ]


def conflicts_of(call: Call, packed: Packed, reach: Reach, altered: Altered) -> tuple[ConflictNote, ...]:
    """Name everything contested in the pack, together with the claims it contradicts, where these are not over."""
    contested = [item.object_id for item in packed.unnumbered if item.status == "contested"]
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
    """State what the task mentions and the space does not know, and what it knew and has withdrawn.

    Superseded statements are named with the statement that replaced them, if that is shown.
    """
    unknown = listed(found.known.missing)
    gaps = [f"Nothing here mentions {unknown}."] if unknown and found.answers else []
    gaps += [
        f"`{one.id}` ({quoted(one.title)}) is {one.status}: do not rely on it."
        for one in found.withdrawn
        if not one.successor
    ]
    return (*gaps, *_superseded(packed, found), *lag_warning(found.question.lag))


def _superseded(packed: Packed, found: FoundForTask) -> Iterator[str]:
    for item in packed.unnumbered:
        if older := [one for one in found.withdrawn if one.successor == item.object_id]:
            titles = ", ".join(f"{quoted(one.title)} (`{one.id}`)" for one in older)
            yield f"{titles}: superseded by {quoted(item.title)}."


def next_reads_of(
    packed: Packed, attached: Sequence[Attached], files: Sequence[Hit], found: FoundForTask
) -> tuple[str, ...]:
    """Name at most five things to read next, each with the reason.

    If code was found (`files`), files of it that are not shown come before more passages of files that are: a change
    often concerns several files. Last come files without code that changed together with those shown.
    """
    beside = _companions(packed, files, found.histories)
    belonging = (
        f"{one.left_out} more belong to {quoted(one.node.name)} (`{one.node.id}`, mode related)"
        for one in attached
        if one.left_out
    )
    code = _files_not_shown(packed, files, found.question.text)
    others = chain(belonging, code or _passages_left_out(packed, found))
    return (*islice(dict.fromkeys(others), TUNING.packing.max_entries - len(beside)), *beside)


def _passages_left_out(packed: Packed, found: FoundForTask) -> Iterator[str]:
    for draft in packed.drafts:
        if "cut" in draft.item.flags:
            yield f"{named_item(draft.item, draft.places)}: the rest"
    for draft in packed.left_out:
        if draft.item.segment_id:
            why = "did not fit" if found.answers else "among the nearest"
            yield f"{named_item(draft.item, draft.places)}: {why}"


def _companions(packed: Packed, files: Sequence[Hit], histories: Sequence[CommitHistory]) -> list[str]:
    """Name files without code that changed most often with the first files of code shown, such as a changelog."""
    code = {hit.head.object_id: hit.head.origin for hit in files if hit.head.place_role == CODE}
    shown = dict.fromkeys(code[item.object_id] for item in packed.unnumbered if item.object_id in code)
    packed_ids = {item.object_id for item in packed.unnumbered}
    paths = {hit.locator.path for hit in files if isinstance(hit.locator, Lines) and hit.head.object_id in packed_ids}
    companions = companions_of([*shown][: TUNING.context.files_with_companions], histories)
    named = [(path, commits) for path, commits in companions if path not in paths][: TUNING.context.max_companions]
    return [f"{quoted(path)}, changed with it in {commits} commits" for path, commits in named]


def _files_not_shown(packed: Packed, files: Sequence[Hit], query: str) -> list[str]:
    """Name the best place of each file of code of which the pack shows nothing, with the words of the task in it.

    If the pack shows nothing at all, files of a project that are no code are named as well.
    """
    shown = {item.object_id for item in packed.unnumbered}
    best: dict[str, str] = {}
    for hit in files:
        identity, is_code = hit.head.object_id, hit.head.place_role == CODE
        if isinstance(hit.locator, Lines) and (is_code or not shown) and identity not in {*shown, *best}:
            best[identity] = f"{_place_of_code(hit.locator, hit.head.heading)}: {_reason(query, hit)}"
        if len(best) == TUNING.packing.max_entries:
            break
    return [*best.values()]


def _place_of_code(lines: Lines, heading: str) -> str:
    named = "" if heading == lines.path.rpartition("/")[2] else f" {heading}"
    return quoted(f"{lines.path}#L{lines.start}-L{lines.end}{named}")


def _reason(query: str, hit: Hit) -> str:
    terms = frozenset(telling_terms(f"{hit.head.heading}\n{hit.text}"))
    words = dict.fromkeys(word for word in _WORD.findall(query) if not terms.isdisjoint(telling_terms(word)))
    named = ", ".join(label(word) for word in islice(words, TUNING.context.reason_words))
    return f"mentions {named}" if named else "similar meaning"

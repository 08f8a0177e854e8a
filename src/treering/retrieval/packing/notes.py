"""The notes around the items of a context pack: a summary, rules, conflicts, gaps, and further reading."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice

from treering.core.characters import label
from treering.core.counting import counted_things
from treering.core.evidence import Lines
from treering.core.objects import Constraint, Knowledge, title_of
from treering.core.policy import is_over
from treering.ports.passages import Reach
from treering.retrieval import limits
from treering.retrieval.index.code_names import is_distinctive
from treering.retrieval.index.code_places import CODE
from treering.retrieval.index.passages import is_withheld
from treering.retrieval.packing.task_results import TaskResults
from treering.retrieval.search.commit_history import CommitHistory, companions_of
from treering.retrieval.search.pack_budget import Packed
from treering.retrieval.search.packing import HEADINGS, ConflictNote, named_item, quoted
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.text.typed_words import listed
from treering.retrieval.tuning import TUNING

_EVERYWHERE = ("", "repository")
"""Scopes of a constraint that do not narrow it to a part of a project."""
_SINGULARS = {"work": "work item", "activities": "activity", "summaries": "summary"}
_WORD = re.compile(r"\w+")
_NEAREST = "among the nearest"


@dataclass(frozen=True, slots=True)
class PackNotes:
    """The notes that a pack may contain; its items decide which of them it does."""

    results: TaskResults
    files: Sequence[Hit] = ()
    """The passages found that are current in the caller's work tree."""
    rules: Sequence[tuple[str, str]] = ()
    """Constraints that apply to every task, each as its id and a line."""
    warnings: tuple[str, ...] = ()
    """The passages that the index lacks."""
    conflicts: Sequence[ConflictNote] = ()
    commands: Sequence[str] = ()
    """The commands of the project that the task asks for."""
    users: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """By object and segment of code: lines about its callers and tests."""
    projects: Set[str] = frozenset()
    """The names of the projects in reach, in lower case. Most files of a project mention its name."""

    def of(self, packed: Packed) -> dict[str, object]:
        """Return the fields of a `ContextPack` with the notes for these items."""
        ids = {item.object_id for item in packed.unnumbered}
        places = {(item.object_id, item.segment_id) for item in packed.unnumbered}
        conflicts = tuple(note for note in self.conflicts if not ids.isdisjoint(note.ids))
        return {
            "summary": _summary(packed, conflicts, self.results),
            "commands": tuple(self.commands),
            "rules": tuple(line for identity, line in self.rules if identity not in ids)[: TUNING.packing.max_entries],
            "conflicts": conflicts,
            "may_break": tuple(line for place, lines in self.users.items() if place in places for line in lines),
            "missing_context": _missing(packed, self.results, self.warnings),
            "recommended_next_reads": _next_reads(packed, self),
        }


def rule_lines(constraints: Iterable[Knowledge], reach: Reach) -> list[tuple[str, str]]:
    """Return the constraints that apply to every task, newest first, each as its id and a line."""
    return [
        (item.id, f"{label(item.payload.rule, most=limits.MAX_RULE_CHARS)} (`{item.id}`)")
        for item in sorted(constraints, key=lambda item: item.updated_at, reverse=True)
        if isinstance(item.payload, Constraint)
        and item.payload.scope in _EVERYWHERE
        and not (reach.now and is_over(item, now=reach.now))
    ]


def conflict_notes(contested: Iterable[Knowledge], shown: Set[str], reach: Reach) -> tuple[ConflictNote, ...]:
    """Return a note for each group of contested claims of which one is `shown`, without expired claims."""
    groups: dict[str, list[Knowledge]] = {}
    for item in contested:
        groups.setdefault(item.claim_key() or item.id, []).append(item)
    current = (
        (group, [item for item in group if not is_withheld(item, reach)])
        for group in groups.values()
        if not shown.isdisjoint(item.id for item in group)
    )
    # A claim without an opponent is contested by a person, unless the opponent expired.
    return tuple(_conflict(left) for group, left in current if len(left) > 1 or (left and len(group) == 1))


def _summary(packed: Packed, conflicts: Sequence[ConflictNote], results: TaskResults) -> str:
    if not results.answers:
        words = results.known.words
        closest = " The closest passages are listed below, without quotes." if packed.left_out else ""
        if words.below or words.elsewhere:
            return f"{words.told()}{closest}"
        missing = listed(words.unknown) or "this: its words occur, but nowhere together"
        rest = f" Known here: {listed(words.known)}." if words.known and words.unknown else ""
        return f"No indexed text mentions {missing}.{rest}{closest}"
    if not packed.unnumbered:
        return "Nothing is stored here for this task."
    counts: dict[str, int] = {}
    for item in packed.unnumbered:
        counts[item.section] = counts.get(item.section, 0) + 1
    parts = [counted_things(count, _singular(HEADINGS[section].lower())) for section, count in counts.items()]
    more = f"; {len(packed.left_out)} more did not fit" if packed.left_out else ""
    warning = f"; {counted_things(len(conflicts), 'unresolved conflict')}" if conflicts else ""
    return f"Known for this task: {', '.join(parts)}{warning}{more}."


def _singular(section: str) -> str:
    return _SINGULARS.get(section, section.removesuffix("s"))


def _conflict(group: Sequence[Knowledge]) -> ConflictNote:
    return ConflictNote(
        ids=tuple(item.id for item in group),
        summary="Contested: " + " ↔ ".join(f"{quoted(item.title)} (`{item.id}`)" for item in group),
    )


def _missing(packed: Packed, results: TaskResults, warnings: tuple[str, ...]) -> tuple[str, ...]:
    """Name the unknown names in the task, and withdrawn and superseded statements about it.

    Superseded statements are named together with their replacement, if that is shown.
    """
    gaps = [gap] if (gap := results.known.gap()) and results.answers else []
    gaps += [
        f"`{one.id}` ({quoted(one.title)}) is {one.status}: do not rely on it."
        for one in results.withdrawn
        if not one.successor
    ]
    return (*gaps, *_superseded(packed, results), *warnings)


def _superseded(packed: Packed, results: TaskResults) -> Iterator[str]:
    for item in packed.unnumbered:
        if older := [one for one in results.withdrawn if one.successor == item.object_id]:
            titles = ", ".join(f"{quoted(one.title)} (`{one.id}`)" for one in older)
            yield f"{titles}: superseded by {quoted(item.title)}."


def _next_reads(packed: Packed, notes: PackNotes) -> tuple[str, ...]:
    """Name at most five things to read next, each with the reason.

    Files of code that are not shown come before more passages of shown files: a change often concerns several files.
    Files without code that changed together with the shown ones come last.
    """
    results = notes.results
    companions = _companions(packed, notes.files, results.histories)
    belonging = (
        f"{one.left_out} more belong to {quoted(title_of(one.named))} (`{one.named.id}`, mode related)"
        for one in results.attached
        if one.left_out
    )
    code = _files_not_shown(packed, notes)
    others = chain(belonging, code or _passages_left_out(packed, results))
    return (*islice(dict.fromkeys(others), TUNING.packing.max_entries - len(companions)), *companions)


def _passages_left_out(packed: Packed, results: TaskResults) -> Iterator[str]:
    for draft in packed.drafts:
        if "cut" in draft.item.flags:
            yield f"{named_item(draft.item, draft.places)}: the rest"
    for draft in packed.left_out:
        if draft.item.segment_id:
            why = "did not fit" if results.answers else _NEAREST
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


def _files_not_shown(packed: Packed, notes: PackNotes) -> list[str]:
    """Name the best place of each file of code that the pack does not show, with the words of the task in it.

    If the task has names of code, a place must contain one. If the pack is empty, other files of a project are named
    as well.
    """
    shown = {item.object_id for item in packed.unnumbered}
    query = notes.results.question.text
    omitted = {word.casefold() for word in (*notes.projects, *notes.results.known.words.unknown)}
    words = [word for word in dict.fromkeys(_WORD.findall(query)) if word.casefold() not in omitted]
    names = [word.casefold() for word in words if is_distinctive(word)]
    unrelated = notes.results.sources.unrelated
    best: dict[str, str] = {}
    for hit in notes.files:
        identity, is_code = hit.head.object_id, hit.head.place_role == CODE
        if names and not any(map(_text_of(hit).casefold().__contains__, names)):
            continue
        if isinstance(hit.locator, Lines) and (is_code or not shown) and identity not in {*shown, *best}:
            reason = _reason(words, hit, unrelated=unrelated)
            best[identity] = f"{_place_of_code(hit.locator, hit.head.heading)}: {reason}"
        if len(best) == TUNING.packing.max_entries:
            break
    return [*best.values()]


def _place_of_code(lines: Lines, heading: str) -> str:
    named = "" if heading == lines.path.rpartition("/")[2] else f" {heading}"
    return quoted(f"{lines.path}#L{lines.start}-L{lines.end}{named}")


def _text_of(hit: Hit) -> str:
    return f"{hit.head.heading}\n{hit.text}"


def _reason(words: Iterable[str], hit: Hit, *, unrelated: bool) -> str:
    text = _text_of(hit)
    terms, lower = frozenset(telling_terms(text)), text.casefold()
    mentioned = (
        word
        for word in words
        if (word.casefold() in lower if is_distinctive(word) else not terms.isdisjoint(telling_terms(word)))
    )
    named = ", ".join(label(word) for word in islice(mentioned, limits.MAX_REASON_WORDS))
    if named:
        return f"mentions {named}"
    return _NEAREST if unrelated else "similar meaning"

"""The rules and decisions that are valid in a work tree, for the hooks that show them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from treering.core.characters import one_line
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Source, kind_in_words
from treering.core.policy import is_over
from treering.core.scope import ROOT
from treering.extensions.coding_agents.named_places import NamedPlace
from treering.extensions.coding_agents.shown_lines import HookLine
from treering.ports.ledger import Selection, head_of
from treering.retrieval import limits
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Call
from treering.verbs.evidence.cited import first_places, lost_places
from treering.verbs.query.authorship import agent_note
from treering.verbs.query.branch_edits import edited_on_branch, reason_of
from treering.verbs.query.brief import repository_of, statement_of, with_note
from treering.verbs.query.unconfirmed import by_author, is_shown, is_unconfirmed, repeated, stale_in_words
from treering.verbs.reading import time_of
from treering.verbs.scoped_ledger import ReadingLedger, on_all_branches
from treering.verbs.trees import CHANGED, notes_of_objects, tree_of

_HOOKS = TUNING.hooks

_KINDS = ("constraint", "preference", "decision", "procedure")
_STATED_IN_FILES = ("constraint", "decision")
"""Kinds of which candidates are shown, too, if a file of the repository states them."""
_MAX_KNOWLEDGE = 2_000
_MAX_RENAMED = 8
"""Files that are not here any more of which git is asked for their new path."""
_MAX_LOST = 2
"""Places of a stale rule that are shown."""


@dataclass(frozen=True, slots=True)
class HeldRule:
    """A rule or decision that is valid here. `note`: the state of its lines in the work tree, or who stated it."""

    item: Knowledge
    note: str
    place: str = ""
    """The first lines of a file that it cites."""

    @property
    def is_only_in_files(self) -> bool:
        """Whether it is a candidate that a file states."""
        return self.item.status == "candidate" and not is_unconfirmed(self.item)

    def line_for(self, occasion: str) -> HookLine:
        """Return it in one line with its reason, shown once per `occasion`, such as a file."""
        kind = kind_in_words(self.item.kind).capitalize()
        is_stale = self.item.status == "stale"
        status = stale_in_words(self.item) if is_stale else self.item.status
        status = "" if status == "active" or is_unconfirmed(self.item) else status
        notes = [one for one in (status, self.note, self.place, agent_note(self.item)) if one]
        statement = with_note(one_line(statement_of(self.item), most=limits.MAX_RULE_CHARS), "; ".join(notes))
        why = f" – why: {one_line(reason, most=limits.MAX_REASON_CHARS)}" if (reason := reason_of(self.item)) else ""
        return HookLine(f"{self.item.id}@{occasion}", f"{kind}: {statement}{why}  {self.item.id}")

    def rests_on(self, places: Mapping[str, frozenset[str]]) -> bool:
        """Return whether its evidence is in some sources, given by id with segments; none: in any of the source."""
        return any(_is_in(ref, places) for ref in self.item.evidence_refs)


def _is_in(ref: EvidenceRef, places: Mapping[str, frozenset[str]]) -> bool:
    """Return whether evidence is in some sources, given by id with segments; none: in any of the source."""
    return ref.source_id in places and (not (parts := places[ref.source_id]) or ref.segment_id in parts)


def call_on(space: Space) -> Call:
    """Return a call that reads a space as it is in the work tree that it is asked from."""
    tree = tree_of(space.engine, ROOT)
    ledger = ReadingLedger(space.engine.ledger, scope=ROOT, descend=False, tree=tree.view if tree else None)
    return Call(replace(space.engine, ledger=ledger), ROOT, tree=tree)


def file_at(call: Call, repository: Source | None, path: str) -> Source | None:
    """Return the file of a repository with a path from its top; `None` if it was not read.

    A file that was renamed since is the one that was read at its old path.
    """
    if repository is None:
        return None
    found = _read_at(call, repository, path)
    old = call.tree.path_before(path) if call.tree and not found else ""
    return _read_at(call, repository, old) if old else found


def _read_at(call: Call, repository: Source, path: str) -> Source | None:
    where = And((Compare("origin", "eq", f"{repository.origin}#{path}"), Compare("status", "eq", "active")))
    found = call.engine.ledger.select(Selection(scope=ROOT, types=("source",), where=where), altered={})
    return next((one for one in found if isinstance(one, Source)), None)


def held_rules(call: Call) -> list[HeldRule]:
    """Return the rules and decisions that are valid in the work tree, or stale.

    Active ones come first, then statements of people to confirm, then statements of agents; each with the newest first.
    """
    where = And((Compare("kind", "in", _KINDS), Compare("status", "in", ("active", "contested", "candidate", "stale"))))
    selection = Selection(scope=ROOT, types=("knowledge",), where=where, newest=_MAX_KNOWLEDGE)
    now = time_of(call, None)
    found = [
        item
        for item in call.engine.ledger.select(selection, altered={})
        if isinstance(item, Knowledge) and _is_shown(item) and not is_over(item, now=now)
    ]
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, found), read=found)
    edited = edited_on_branch(call, repository_of(call, {}), found, notes)
    notes = {**notes, **edited}
    held = [one for one in found if one.id in edited or notes.get(one.id, CHANGED).startswith(CHANGED)]
    held.sort(key=lambda one: -one.updated_at.timestamp())
    stated = by_author(call.engine.ledger, (one for one in held if is_unconfirmed(one) and one.id not in notes))
    others = [HeldRule(one, "" if one.status == "stale" else notes.get(one.id, "")) for one in held]
    believed = [rule for rule in others if rule.item.status in ("active", "contested")]
    doubtful = [rule for rule in others if rule.item.status == "stale" or rule.is_only_in_files]
    return [*believed, *(HeldRule(one, author) for one, author in stated), *doubtful]


def rules_citing(call: Call, places: Iterable[NamedPlace]) -> list[HeldRule]:
    """Return the first rules and decisions that cite the lines of places; files named as a whole have no lines."""
    segments: dict[str, frozenset[str]] = {}
    for one in places:
        if one.is_exact:
            segments[one.source.id] = segments.get(one.source.id, frozenset()) | one.segment_ids
    rules = held_rules(call) if segments else []
    cited = [rule for rule in rules if not rule.is_only_in_files and rule.rests_on(segments)]
    return with_places(call, each_once(cited)[: _HOOKS.max_entries], lambda ref: not _is_in(ref, segments))


def with_places(
    call: Call, rules: Sequence[HeldRule], distance: Callable[[EvidenceRef], int] = lambda _: 0
) -> list[HeldRule]:
    """Return rules with the first place that each of them cites, in the order of `distance`."""
    places = first_places(call.engine.ledger, (rule.item for rule in rules), distance)
    unnamed = {rule.item.id: place for rule in rules if (place := places.get(rule.item.id, "")) not in rule.note}
    return [replace(rule, place=unnamed.get(rule.item.id, "")) for rule in rules]


def with_lost_lines(call: Call, rule: HeldRule) -> HeldRule:
    """Return a stale rule with the places that it was based on and their state; any other rule as it is."""
    if rule.item.status != "stale":
        return rule
    tree = call.tree
    ledger = on_all_branches(call.engine.ledger)
    lost = lost_places(ledger, rule.item, tree.view if tree else None, tree.path_now if tree else None)
    return replace(rule, note=", ".join(lost[:_MAX_LOST]), place="" if lost else rule.place)


def about_renamed(call: Call, rules: Sequence[HeldRule], path: str) -> set[str]:
    """Return the ids of the stale rules that cite a file which was renamed to a path and edited."""
    tree = call.tree
    if tree is None:
        return set()
    stale = [one.item for one in rules if one.item.status == "stale" or one.note.startswith(CHANGED)]
    cited = {ref.source_id for item in stale for ref in item.evidence_refs}
    heads = on_all_branches(call.engine.ledger).heads(cited) if cited else {}
    paths = {head.id: tree.view.path(head.origin) for head in heads.values() if tree.view.has(head.origin)}
    gone = [one for one, old in paths.items() if heads[one].status != "active" or tree.note_of_source(heads[one])]
    renamed = {one for one in gone[:_MAX_RENAMED] if paths[one] != path and tree.path_now(paths[one]) == path}
    return {item.id for item in stale if any(ref.source_id in renamed for ref in item.evidence_refs)}


def each_once(rules: Sequence[HeldRule]) -> list[HeldRule]:
    """Leave out unconfirmed statements that an earlier one of the rules states already."""
    again = repeated(rule.item for rule in rules)
    return [rule for rule in rules if rule.item.id not in again]


def _is_shown(item: Knowledge) -> bool:
    is_from_file = item.origin_channel == "adapter" and item.kind in _STATED_IN_FILES
    return is_shown(item) or (is_from_file and item.status != "stale")

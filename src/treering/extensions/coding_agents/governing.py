"""What an agent should know before it edits a file: rules, decisions, callers, tests, companions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from treering.core.characters import one_line
from treering.core.filters import And, Compare
from treering.core.objects import Constraint, Decision, Knowledge, Preference, Source
from treering.core.policy import is_over
from treering.core.scope import ROOT
from treering.extensions.code.links.changed_together import partners_of
from treering.extensions.code.links.neighbours import code_links
from treering.extensions.code.links.starts import start_defining
from treering.extensions.coding_agents.edits import FileEdit, TouchedSymbols, touched_by
from treering.extensions.coding_agents.named_places import NamedPlace
from treering.extensions.coding_agents.shown_lines import HookLine
from treering.ports.ledger import Selection, head_of
from treering.ports.passages import Reach
from treering.retrieval import limits
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.passages import passages_of
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Call
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of, statement_of
from treering.verbs.query.code_links import CodeNeighbour, CodeStart
from treering.verbs.reading import time_of
from treering.verbs.scoped_ledger import ReadingLedger
from treering.verbs.trees import CHANGED, notes_of_objects, tree_of

_HOOKS = TUNING.hooks
_MAX_EDITED_FILES = 3

_KINDS = ("constraint", "preference", "decision", "procedure")
_STATED_IN_FILES = ("constraint", "decision")
"""Kinds of which candidates are shown, too, if a file of the repository states them."""
_MAX_KNOWLEDGE = 2_000
_REACH = Reach(ROOT)
_PATH = re.compile(r"(?<![\w@:/.-])[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,12}(?![\w/])")
_LINE = re.compile(r"#L(\d+)")


@dataclass(frozen=True, slots=True)
class HeldRule:
    """A rule or decision that is valid here. `note`: the state of its lines in the work tree."""

    item: Knowledge
    note: str

    def line_for(self, occasion: str) -> HookLine:
        """Return it in one line with its reason, shown once per `occasion`, such as a file."""
        kind = self.item.kind.capitalize()
        notes = [*([self.item.status] if self.item.status != "active" else []), *([self.note] if self.note else [])]
        state = f" ({'; '.join(notes)})" if notes else ""
        statement = one_line(statement_of(self.item), most=limits.MAX_RULE_CHARS)
        why = f" – why: {one_line(reason, most=limits.MAX_REASON_CHARS)}" if (reason := _reason(self.item)) else ""
        return HookLine(f"{self.item.id}@{occasion}", f"{kind}: {statement}{state}{why}  {self.item.id}")

    def rests_on(self, places: Mapping[str, frozenset[str]]) -> bool:
        """Return whether its evidence is in some sources, given by id with segments; none: in any of the source."""
        return any(
            ref.source_id in places and (not (parts := places[ref.source_id]) or ref.segment_id in parts)
            for ref in self.item.evidence_refs
        )


def lines_before_edit(space: Space, edits: Sequence[FileEdit], top: Path) -> list[HookLine]:
    """Return the knowledge that governs some files and their edited symbols, the most specific and urgent first.

    `top`: the folder that the paths of the edits start from.
    """
    call = call_on(space)
    rules, repository = held_rules(call), repository_of(call, {})
    lines: list[HookLine] = []
    for edit in edits[:_MAX_EDITED_FILES]:
        source = file_at(call, repository, edit.path)
        touched = touched_by(edit, top)
        lines += _governing(rules, edit.path, source, touched)
        if source:
            lines += _code_lines(call, edit.path, source, touched, repository.payload if repository else {})
    everywhere = islice(filter(_is_everywhere, rules), _HOOKS.max_entries)
    return lines + [HookLine(one.item.id, one.line_for("").text) for one in everywhere]  # not after the brief


def call_on(space: Space) -> Call:
    """Return a call that reads a space as it is in the work tree that it is asked from."""
    tree = tree_of(space.engine, ROOT, at="", past=False)
    ledger = ReadingLedger(space.engine.ledger, scope=ROOT, descend=False, tree=tree.view if tree else None)
    return Call(replace(space.engine, ledger=ledger), ROOT, tree=tree)


def file_at(call: Call, repository: Source | None, path: str) -> Source | None:
    """Return the file of a repository with a path from its top; `None` if it was not read."""
    if repository is None:
        return None
    where = And((Compare("origin", "eq", f"{repository.origin}#{path}"), Compare("status", "eq", "active")))
    found = call.engine.ledger.select(Selection(scope=ROOT, types=("source",), where=where), altered={})
    return next((one for one in found if isinstance(one, Source)), None)


def held_rules(call: Call) -> list[HeldRule]:
    """Return the rules and decisions that are valid in the work tree, or stale; active ones first, then the newest."""
    where = And((Compare("kind", "in", _KINDS), Compare("status", "in", ("active", "contested", "candidate", "stale"))))
    selection = Selection(scope=ROOT, types=("knowledge",), where=where, newest=_MAX_KNOWLEDGE)
    now = time_of(call, None)
    found = [
        item
        for item in call.engine.ledger.select(selection, altered={})
        if isinstance(item, Knowledge) and _is_shown(item) and not is_over(item, now=now)
    ]
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, found), read=found)
    held = [one for one in found if notes.get(one.id, CHANGED).startswith(CHANGED)]
    held.sort(key=lambda one: (one.status in ("candidate", "stale"), -one.updated_at.timestamp()))
    return [HeldRule(one, "" if one.status == "stale" else notes.get(one.id, "")) for one in held]


def rules_citing(call: Call, places: Iterable[NamedPlace]) -> list[HeldRule]:
    """Return the first rules and decisions that cite the lines of places; files named as a whole have no lines."""
    segments: dict[str, frozenset[str]] = {}
    for one in places:
        if one.is_exact:
            segments[one.source.id] = segments.get(one.source.id, frozenset()) | one.segment_ids
    rules = held_rules(call) if segments else []
    cited = (rule for rule in rules if rule.item.status != "candidate" and rule.rests_on(segments))
    return [*islice(cited, _HOOKS.max_entries)]


def _is_shown(item: Knowledge) -> bool:
    is_from_file = item.origin_channel == "adapter" and item.kind in _STATED_IN_FILES
    return item.was_active or (is_from_file and item.status != "stale")


def _governing(rules: Sequence[HeldRule], path: str, source: Source | None, touched: TouchedSymbols) -> list[HookLine]:
    """Return knowledge about the edited symbols, then about the file, then rules of its folders."""
    parts = frozenset(part for start in _starts(source, touched.symbols) for part in start.segments)
    identity = source.id if source else ""
    of_symbols = [one for one in rules if parts and one.rests_on({identity: parts})]
    of_file = [one for one in rules if one.rests_on({identity: frozenset()}) or _is_named(path, one.item)]
    of_folders = [one for one in rules if applies_to(scope_of(one.item), path)]
    lines = {one.item.id: one.line_for("edit") for one in (*of_symbols, *of_file, *of_folders)}
    lines |= {one.item.id: one.line_for(path) for one in (*of_symbols, *of_file)}
    return [*lines.values()][: _HOOKS.max_entries]


def _reason(item: Knowledge) -> str:
    """Return the recorded reason of a decision or rule."""
    match item.payload:
        case Decision(rationale=reason) | Constraint(violation_impact=reason):
            return reason
    return ""


def _starts(source: Source | None, symbols: Iterable[str]) -> list[CodeStart]:
    found = (start_defining(source, name) for name in symbols) if source else ()
    return [start for start in found if start]


def _is_named(path: str, item: Knowledge) -> bool:
    named = _PATH.findall(f"{item.title}\n{passages_of(item)[0].text}")
    return any(path == one or path.endswith(f"/{one}") for one in named)


def _is_everywhere(rule: HeldRule) -> bool:
    is_rule = isinstance(rule.item.payload, Constraint | Preference)
    return is_rule and rule.item.status == "active" and not scope_of(rule.item)


def _code_lines(
    call: Call, path: str, source: Source, touched: TouchedSymbols, repository: Mapping[str, Any]
) -> Iterator[HookLine]:
    yield from _callers(call, source, touched)
    partners = {other: count for other, count, _ in partners_of(repository.get("changed_together", {}), {path})}
    tests = [] if is_test_path(path) else _tests(call, source, touched, partners)
    if tests:
        more = f" and {len(tests) - _HOOKS.max_entries} more" if len(tests) > _HOOKS.max_entries else ""
        run = f" (run `{command}`)" if (command := _test_command(repository)) else ""
        yield HookLine(f"tests:{path}", f"Tests of {path}: {', '.join(tests[: _HOOKS.max_entries])}{more}{run}")
    usual = [f"{other} ({count} commits)" for other, count in partners.items() if count >= TUNING.commits.min_together]
    if usual:
        yield HookLine(
            f"together:{path}", f"Often changed together with {path}: {', '.join(usual[: _HOOKS.max_entries])}"
        )


def _callers(call: Call, source: Source, touched: TouchedSymbols) -> Iterator[HookLine]:
    """Yield the places outside the file that use a symbol whose signature the edit changes."""
    for start in _starts(source, touched.signatures[: _HOOKS.max_entries]):
        name = start.names[0]
        users = [one for one in code_links(call, [start], _REACH, direction="in") if one.relation != "imports"]
        places = list(dict.fromkeys(_place(one) for one in users if one.id != source.id))
        if places:
            more = f" and {len(places) - _HOOKS.max_entries} more" if len(places) > _HOOKS.max_entries else ""
            named = ", ".join(places[: _HOOKS.max_entries])
            text = f"This edit changes the signature of {name}; it is used at {named}{more}"
            yield HookLine(f"callers:{source.id}:{name}", text)


def _place(user: CodeNeighbour) -> str:
    line = _LINE.search(user.place)
    return f"{user.title}:{line[1]}" if line else user.title


def _tests(call: Call, source: Source, touched: TouchedSymbols, partners: Mapping[str, int]) -> list[str]:
    """Return the files of tests that exercise the edited symbols, then the others of the file, the closest first."""

    def found(starts: Sequence[CodeStart]) -> list[str]:
        links = code_links(call, starts, _REACH, direction="in") if starts else []
        tests = [one for one in links if one.relation == "tests"]
        tests.sort(key=lambda one: -(1 + one.more + partners.get(one.title, 0)))
        return [one.title for one in tests]

    return list(dict.fromkeys([*found(_starts(source, touched.symbols)), *found([CodeStart(source)])]))


def _test_command(repository: Mapping[str, Any]) -> str:
    commands: Sequence[Mapping[str, str]] = repository.get("card", {}).get("commands", ())
    return next((one["run"] for one in commands if one["job"] == "test"), "")

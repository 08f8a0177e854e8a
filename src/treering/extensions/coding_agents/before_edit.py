"""The lines before an edit: rules and decisions that govern the file, users of what changes, tests, companions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.counting import listed_up_to
from treering.core.objects import Constraint, Knowledge, Preference, Source
from treering.core.scope import ROOT
from treering.extensions.code.links.changed_together import partners_of
from treering.extensions.code.links.neighbours import code_links
from treering.extensions.code.links.starts import start_defining
from treering.extensions.coding_agents.edits import FileEdit, TouchedSymbols, touched_by
from treering.extensions.coding_agents.governing import HeldRule, call_on, file_at, held_rules
from treering.extensions.coding_agents.shown_lines import HookLine
from treering.ports.passages import Reach
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.passages import passages_of
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Call
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of
from treering.verbs.query.code_links import CodeNeighbour, CodeStart

_HOOKS = TUNING.hooks
_MAX_EDITED_FILES = 3
_REACH = Reach(ROOT)
_PATH = re.compile(r"(?<![\w@:/.-])[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,12}(?![\w/])")
_LINE = re.compile(r"#L(\d+)")
_TEST_AFFIX = re.compile(r"^tests?[_-]|[._-](?:tests?|specs?)$|(?:Tests?|Specs?)$")
"""The part of a test's name that marks it as one: `test_upload`, `upload_test`, `upload.spec`, `UploadTests`."""


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
        run = f" (run `{command}`)" if (command := _test_command(repository)) else ""
        yield HookLine(f"tests:{path}", f"Tests of {path}: {_listed(tests)}{run}")
    usual = [f"{other} ({count} commits)" for other, count in partners.items() if count >= TUNING.commits.min_together]
    if usual:
        yield HookLine(
            f"together:{path}", f"Often changed together with {path}: {', '.join(usual[: _HOOKS.max_entries])}"
        )


def _callers(call: Call, source: Source, touched: TouchedSymbols) -> Iterator[HookLine]:
    """Yield the places that use a symbol whose signature the edit changes, those in other files first."""
    for start in _starts(source, touched.signatures[: _HOOKS.max_entries]):
        name = start.names[0]
        users = [one for one in code_links(call, [start], _REACH, direction="in") if one.relation != "imports"]
        places = list(dict.fromkeys(_place(one) for one in users if one.id != source.id))
        own = [str(line) for line in touched.lines.get(name, ())]
        parts = [f"at {_listed(places)}"] if places else []
        parts += [f"in this file at line{'s' if own[1:] else ''} {_listed(own)}"] if own else []
        if parts:
            text = f"This edit changes the signature of {name}; it is used {', and '.join(parts)}"
            yield HookLine(f"callers:{source.id}:{name}", text)


def _listed(names: Sequence[str]) -> str:
    return listed_up_to(_HOOKS.max_entries, names)


def _place(user: CodeNeighbour) -> str:
    line = _LINE.search(user.place)
    return f"{user.title}:{line[1]}" if line else user.title


def _tests(call: Call, source: Source, touched: TouchedSymbols, partners: Mapping[str, int]) -> list[str]:
    """Return the tests with the name of the file, then tests of the edited symbols, then other tests of the file."""

    def found(starts: Sequence[CodeStart]) -> list[str]:
        links = code_links(call, starts, _REACH, direction="in") if starts else []
        tests = [one for one in links if one.relation == "tests"]
        tests.sort(key=lambda one: -(1 + one.more + partners.get(one.title, 0)))
        return [one.title for one in tests]

    tests = dict.fromkeys([*found(_starts(source, touched.symbols)), *found([CodeStart(source)])])
    name = PurePosixPath(source.title).stem
    return sorted(tests, key=lambda path: _TEST_AFFIX.sub("", PurePosixPath(path).stem) != name)


def _test_command(repository: Mapping[str, Any]) -> str:
    commands: Sequence[Mapping[str, str]] = repository.get("card", {}).get("commands", ())
    return next((one["run"] for one in commands if one["job"] == "test"), "")

"""The lines before an edit: rules and decisions that govern the file, users of what changes, tests, companions."""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.characters import one_line
from treering.core.counting import counted_things, listed_up_to
from treering.core.errors import TreeringError
from treering.core.evidence import EvidenceRef, Lines
from treering.core.objects import Constraint, Knowledge, Preference, Source
from treering.core.scope import ROOT
from treering.extensions.code.links.changed_together import partners_of
from treering.extensions.code.links.neighbours import code_links
from treering.extensions.code.links.starts import start_defining
from treering.extensions.code.repository.contents import RepositoryContents
from treering.extensions.coding_agents.edits import (
    ChangedLines,
    FileEdit,
    TouchedSymbols,
    name_in_calls,
    touched_by,
    whole_changes_of,
)
from treering.extensions.coding_agents.governing import (
    HeldRule,
    about_renamed,
    call_on,
    each_once,
    file_at,
    held_rules,
    with_lost_lines,
    with_places,
)
from treering.extensions.coding_agents.named_places import names_in
from treering.extensions.coding_agents.related_methods import related_methods
from treering.extensions.coding_agents.shown_lines import HookLine
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import Reach
from treering.retrieval.index.code_names import is_distinctive
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.passages import passages_of
from treering.retrieval.text.analysis import telling_terms
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Call
from treering.verbs.file_names import passages_called
from treering.verbs.forbidden_code import forbidden_by, is_forbidden_elsewhere
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of
from treering.verbs.query.code_links import CodeStart
from treering.verbs.rule_places import is_for_other_places, rule_of

_HOOKS = TUNING.hooks
_MAX_EDITED_FILES = 3
_MAX_LINES = 10
"""Lines of a file that use a symbol; more are counted."""
_OF_LINES, _OF_SYMBOLS, _OF_FILE, _UNRELATED = 0, 1, 2, 5
"""Distances of a rule from an edit."""
_MAX_SUBJECT_CHARS = 20_000
"""Of a file that is only read, for its terms."""
_REACH = Reach(ROOT)
_PATH = re.compile(r"(?<![\w@:/.-])[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,12}(?![\w/])")
_OF_PACKAGE = re.compile(
    r"(?:^|/)(?:package\.json|go\.mod|Cargo\.toml|pyproject\.toml|pom\.xml|composer\.json|Gemfile|[\w.-]+\.lock"
    r"|[\w.-]+-lock\.\w+|go\.sum|npm-shrinkwrap\.json)$"
)
"""Manifests and lock files, which change with every part of a project."""
_TEST_AFFIX = re.compile(r"^tests?[_-]|[._-](?:tests?|specs?)$|(?:Tests?|Specs?)$")
"""The part of a test's name that marks it as one: `test_upload`, `upload_test`, `upload.spec`, `UploadTests`."""
_TEST_FORMS = ("test_{}", "{}_test", "{}.test", "{}.spec", "{}Test", "{}Tests", "{}Spec")


def lines_before_edit(space: Space, edits: Sequence[FileEdit], top: Path) -> list[HookLine]:
    """Return the knowledge that governs some files and their edited symbols, the most specific and urgent first.

    `top`: the folder that the paths of the edits start from.
    """
    call = call_on(space)
    rules, repository = held_rules(call), repository_of(call, {})
    paths = _Paths(top)
    broken = _broken(rules, edits[:_MAX_EDITED_FILES], paths)
    lines = _lines_about_broken(broken)
    most = max(_HOOKS.max_entries - len(broken), 0)
    rules = [one for one in rules if one.item.id not in broken]
    here: dict[str, HeldRule] = {}
    read: dict[str, HookLine] = {}
    files = [(edit, file_at(call, repository, edit.path)) for edit in edits[:_MAX_EDITED_FILES]]
    edited = {source.id for _, source in files if source}
    for edit, source in files:
        touched = touched_by(edit, top)
        applying = [one for one in rules if not _is_for_others(one.item, edit, paths)]
        here |= {one.item.id: one for one in applying}
        governing = _governing(call, applying, edit, source, touched, edited, ChangedLines.of(edit, top))
        lines += [line for rule, line in governing if not rule.is_only_in_files][: max(most, 1)]
        read |= {line.key: line for rule, line in governing if rule.is_only_in_files}
        if source:
            lines += _code_lines(call, edit.path, source, touched, repository.payload if repository else {}, top)
    everywhere = with_places(call, each_once([*filter(_is_everywhere, here.values())])[:most])
    lines += [HookLine(one.item.id, one.line_for("").text) for one in everywhere]  # not after the brief
    return [*lines, *islice(read.values(), 1)]


def lines_about_broken_rules(space: Space, edits: Sequence[FileEdit], top: Path) -> list[HookLine]:
    """Return the rules that forbid a name which an edit adds."""
    return _lines_about_broken(_broken(held_rules(call_on(space)), edits[:_MAX_EDITED_FILES], _Paths(top)))


def _lines_about_broken(broken: Mapping[str, tuple[HeldRule, str]]) -> list[HookLine]:
    """Return a line for each broken rule, even if the session was shown it before; first all names if they are many.

    The last of many lines may not fit into the budget.
    """
    names = ", ".join(dict.fromkeys(name for _, name in broken.values()))
    summary = [HookLine("", f"This edit breaks {len(broken)} rules. It adds {one_line(names)}.")]
    lines = [HookLine("", f"This edit adds {name}. {rule.line_for('').text}") for rule, name in broken.values()]
    return [*(summary if len(broken) > _HOOKS.max_entries else ()), *lines]


def _broken(
    rules: Sequence[HeldRule], edits: Sequence[FileEdit], paths: "_Paths"
) -> Mapping[str, tuple[HeldRule, str]]:
    """Return by id the rules that forbid a name which an edit adds, with the name."""
    broken: dict[str, tuple[HeldRule, str]] = {}
    changes = [(edit, whole_changes_of(edit, paths.top)) for edit in edits]
    for rule in (one for one in rules if one.item.status != "stale"):
        scope = scope_of(rule.item)
        for forbidden, (edit, replacements) in product(forbidden_by(rule_of(rule.item)), changes):
            added = [one for one in replacements if forbidden.may_be_in(one.after)]
            here = forbidden.among(paths) if added and (not scope or applies_to(scope, edit.path)) else None
            if here and any(
                len(here.lines_in(edit.path, one.after)) > len(here.lines_in(edit.path, one.before)) for one in added
            ):
                broken.setdefault(rule.item.id, (rule, one_line(forbidden.name)))
    return broken


@dataclass(frozen=True)
class _Paths(Iterable[str]):
    """The paths of the last commit, read when they are needed; none outside of a repository."""

    top: Path

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    @cached_property
    def _read(self) -> Sequence[str]:
        with suppress(TreeringError):
            repository = RepositoryContents.open(self.top)
            return [one.path for one in repository.entries(repository.resolve("HEAD"))]
        return ()


def _is_for_others(item: Knowledge, edit: FileEdit, paths: Iterable[str]) -> bool:
    """Return whether a rule is for other files."""
    text = "\n".join([edit.content or "", *(one.after for one in edit.changes)])
    is_banned_elsewhere = not scope_of(item) and is_forbidden_elsewhere(rule_of(item), edit.path, text, paths)
    return is_banned_elsewhere or is_for_other_places(item, edit.path, paths)


def _governing(
    call: Call,
    rules: Sequence[HeldRule],
    edit: FileEdit,
    source: Source | None,
    touched: TouchedSymbols,
    edited: Container[str],
    changed: ChangedLines,
) -> list[tuple[HeldRule, HookLine]]:
    """Return knowledge with its lines: on the changed lines, the edited symbols, then confirmed, unconfirmed, in files.

    Of each: about the file, then rules of its folders and rules about its subject.
    """
    cited = _changed_evidence(rules, source, changed)
    parts = frozenset(part for start in _starts(source, touched.symbols) for part in start.segments)
    places = [{source.id: parts}] if source and parts else []
    whole_file = {source.id if source else "": frozenset[str]()}
    subject, renamed = _Subject.of(edit, source), about_renamed(call, rules, edit.path)

    def distance(rule: HeldRule) -> int:
        """Return 0 for knowledge that cites the changed lines, and more for the symbols, the file and so on."""
        is_near = (
            rule.item.id in cited,
            any(rule.rests_on(one) for one in places),
            rule.rests_on(whole_file) or rule.item.id in renamed or _is_named(edit.path, rule.item),
            applies_to(scope_of(rule.item), edit.path) and not (rule.is_only_in_files and not subject.has(rule.item)),
            not scope_of(rule.item) and not rule.is_only_in_files and subject.has(rule.item),
        )
        return is_near.index(True) if True in is_near else _UNRELATED

    far_of = {rule.item.id: far for rule in rules if (far := distance(rule)) < _UNRELATED}
    near = [rule for rule in rules if rule.item.id in far_of]
    near.sort(key=lambda rule: _rank(rule, far_of[rule.item.id]))
    refs = {ref for one in cited.values() for ref in one}
    placed = with_places(call, each_once(near), lambda ref: 0 if ref in refs else 1 + (ref.source_id not in edited))
    shown = [with_lost_lines(call, rule) for rule in placed]
    if source and source.title != edit.path:  # renamed since it was read
        shown = [replace(one, place=_moved(one.place, source.title, edit.path)) for one in shown]
    return [(rule, _line_at(far_of[rule.item.id], rule, edit.path)) for rule in shown]


def _line_at(far: int, rule: HeldRule, path: str) -> HookLine:
    """Return the line of a rule at a distance from an edit."""
    if far > _OF_LINES:
        return rule.line_for(path if far <= _OF_FILE else "edit")
    line = rule.line_for(f"{path}:changed")
    return HookLine(line.key, f"This edit changes the lines that it cites. {line.text}")


def _changed_evidence(
    rules: Sequence[HeldRule], source: Source | None, changed: ChangedLines
) -> Mapping[str, Collection[EvidenceRef]]:
    """Return by id the rules that cite lines which an edit changes, with this evidence.

    Rules that cite a whole file of several passages are left out.
    """
    segments = {one.segment_id: one for one in source.segments} if source and changed.ranges else {}

    def is_changed(ref: EvidenceRef) -> bool:
        segment = segments[ref.segment_id]
        place = ref.locator(segment)
        return isinstance(place, Lines) and changed.include(ref.quote(segment).split("\n"), place.start)

    cited: dict[str, list[EvidenceRef]] = {}
    for rule in rules:
        refs = [ref for ref in rule.item.evidence_refs if source and ref.source_id == source.id]
        refs = [ref for ref in refs if ref.segment_id in segments]
        is_whole_file = len(refs) == len(segments) > 1 and all(ref.lines is None for ref in refs)
        if refs and not is_whole_file and (here := [*filter(is_changed, refs)]):
            cited[rule.item.id] = here
    return cited


def _moved(place: str, old: str, path: str) -> str:
    """Return a place such as `old.py:5-11` with the new path of its file."""
    return f"{path}{place.removeprefix(old)}" if place.startswith(f"{old}:") else place


def _rank(rule: HeldRule, far: int) -> tuple[bool, int, bool, int]:
    return rule.is_only_in_files, min(far, _OF_FILE), not rule.item.was_active, far


@dataclass(frozen=True, slots=True)
class _Subject:
    """The words by which a rule that names no place is about an edited file."""

    terms: frozenset[str]
    """Terms of the names of the file and its folder."""
    text: str
    """The edit and the file."""
    terms_of_edit: frozenset[str]
    """Terms of the edit, or of the file if only it is known."""

    @classmethod
    def of(cls, edit: FileEdit, source: Source | None) -> "_Subject":
        """Return the subject of an edit."""
        names = [*PurePosixPath(edit.path).parts[-2:], *(["tests"] if is_test_path(edit.path) else [])]
        changes = [edit.content or "", *(text for one in edit.changes for text in (one.before, one.after))]
        file = "\n".join(segment.excerpt for segment in source.segments) if source else ""
        change = "\n".join(changes)
        changed = (change if change.strip() else file)[:_MAX_SUBJECT_CHARS]
        terms = frozenset(telling_terms(" ".join(names)))
        return cls(terms, f"{change}\n{file}", frozenset(telling_terms(changed)))

    def has(self, item: Knowledge) -> bool:
        """Return whether a rule names the file, its folder or something in it, or shares terms with the edit."""
        terms = frozenset(telling_terms(item.title))
        is_about_edit = len(terms & self.terms_of_edit) >= _HOOKS.min_shared_terms
        return is_about_edit or bool(terms & self.terms) or any(name in self.text for name in names_in(item.title))


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
    call: Call, path: str, source: Source, touched: TouchedSymbols, repository: Mapping[str, Any], top: Path
) -> Iterator[HookLine]:
    yield from _callers(call, path, source, touched, top)
    partners = {
        other: count for other, count, _ in partners_of(repository.get("changed_together", {}), {path, source.title})
    }
    tests = (
        [] if is_test_path(path) else [one for one in _tests(call, source, touched, partners) if (top / one).exists()]
    )
    if tests:
        run = f" (run `{command}`)" if (command := _test_command(repository)) else ""
        yield HookLine(f"tests:{path}", f"Tests of {path}: {_listed(tests)}{run}")
    usual = [
        f"{other} ({count} commits)"
        for other, count in partners.items()
        if count >= TUNING.commits.min_together and not _OF_PACKAGE.search(other)
    ]
    if usual:
        yield HookLine(
            f"together:{path}", f"Often changed together with {path}: {', '.join(usual[: _HOOKS.max_entries])}"
        )


def _callers(call: Call, path: str, source: Source, touched: TouchedSymbols, top: Path) -> Iterator[HookLine]:
    """Yield the places that use a symbol whose signature the edit changes, those in other files first.

    Calls of a method with a common name are not indexed unless the type of the object is known, which is stated.
    """
    most = _HOOKS.max_entries
    for name in touched.signatures[:most]:
        called = name_in_calls(name)
        starts = _starts(source, [called])
        users = [one for one in code_links(call, starts, _REACH, direction="in") if one.relation != "imports"]
        lines: dict[str, set[int]] = {}
        for one in users:
            if one.id != source.id and one.lines:
                lines.setdefault(one.title, set()).update(one.lines)
        places = _listed_places(lines)
        own = touched.lines.get(name, ())
        more = f" and in {counted_things(len(places) - most, 'more file')}" if len(places) > most else ""
        used = [f"at {', '.join(places[:most])}{more}"] if places else []
        used += [f"in this file at line{'s' if own[1:] else ''} {_listed_lines(own, ', ')}"] if own else []
        parts = [f"it is used {', and '.join(used)}"] if used else []
        owner, _, member = called.rpartition(".")
        if owner and called == name and touched.file:
            related = related_methods(call, path, touched.file, name, top)
            how = "implemented" if related.is_interface else "overridden"
            others = listed_up_to(_MAX_LINES, _listed_places(related.implementations))
            parts += [f"it is {how} at {others}"] if others else []
            declare = "declares" if len(related.interfaces) == 1 else "declare"
            parts += [f"{_listed(related.interfaces)} {declare} it, too"] if related.interfaces else []
            unknown = "calls of a method with so common a name are not tracked if the type of the object is unknown"
            parts += [] if is_distinctive(member) else [f"search for .{member}( as well: {unknown}"]
        if parts:
            text = f"This edit changes the signature of {name}; {'; '.join(parts)}"
            yield HookLine(f"callers:{source.id}:{name}", text)


def _listed(names: Sequence[str]) -> str:
    return listed_up_to(_HOOKS.max_entries, names)


def _listed_places(lines: Mapping[str, Collection[int]]) -> list[str]:
    return [f"{path}:{_listed_lines(sorted(here), ',')}" for path, here in lines.items()]


def _listed_lines(lines: Sequence[int], separator: str) -> str:
    more = f" (+{len(lines) - _MAX_LINES})" if len(lines) > _MAX_LINES else ""
    return separator.join(map(str, lines[:_MAX_LINES])) + more


def _tests(call: Call, source: Source, touched: TouchedSymbols, partners: Mapping[str, int]) -> list[str]:
    """Return the tests with the name of the file, then tests of the edited symbols, then other tests of the file."""

    def found(starts: Sequence[CodeStart]) -> list[str]:
        links = code_links(call, starts, _REACH, direction="in") if starts else []
        tests = [one for one in links if one.relation == "tests"]
        tests.sort(key=lambda one: -(1 + one.more + partners.get(one.title, 0)))
        return [one.title for one in tests]

    linked = dict.fromkeys([*found(_starts(source, touched.symbols)), *found([CodeStart(source)])])
    own = [path for path in linked if _bare(path) == _bare(source.title)] or _test_named_after(call, source)
    return list(dict.fromkeys([*own, *linked]))


def _bare(path: str) -> str:
    """Return the name of a file or of its test: `decoders` of `_decoders.py` and `test_decoders.py`."""
    return _TEST_AFFIX.sub("", PurePosixPath(path).stem).strip("_")


def _test_named_after(call: Call, source: Source) -> list[str]:
    """Return the test with the name of a file, linked or not; none if several files or tests have that name.

    Tests that use a package through its top module have no link to the files behind it.
    """
    root, name, suffix = source.origin.partition("#")[0], _bare(source.title), PurePosixPath(source.title).suffix

    def called(file: str) -> dict[str, str]:
        heads = [one for one in passages_called(call, file, _REACH) if one.origin.startswith(f"{root}#")]
        return {one.object_id: one.title for one in heads if PurePosixPath(one.title).name == file}

    tests = {key: path for form in _TEST_FORMS for key, path in called(f"{form.format(name)}{suffix}").items()}
    (read,) = call.engine.ledger.read([ObjectRequest(heads=tuple(tests))])
    current = [path for key, path in tests.items() if key in read.heads and is_test_path(path)]
    is_only_one = len(current) == 1 and len(called(PurePosixPath(source.title).name)) == 1
    return current if name and is_only_one else []


def _test_command(repository: Mapping[str, Any]) -> str:
    commands: Sequence[Mapping[str, str]] = repository.get("card", {}).get("commands", ())
    return next((one["run"] for one in commands if one["job"] == "test"), "")

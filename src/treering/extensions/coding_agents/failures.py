"""The lines shown to an agent after a failure: knowledge about it, its lines, and what a failing test protects."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from treering.core.characters import one_line
from treering.core.evidence import Definition, EvidenceRef, Lines, Segment
from treering.core.filters import Compare
from treering.core.objects import Activity, Constraint, Knowledge, Preference, Source, kind_in_words, title_of
from treering.core.scope import ROOT
from treering.extensions.code.links.neighbours import code_links
from treering.extensions.code.links.starts import start_defining
from treering.extensions.coding_agents.governing import call_on, file_at, held_rules, rules_citing, with_places
from treering.extensions.coding_agents.named_places import places_named, values_in
from treering.extensions.coding_agents.pointers import subject_of
from treering.extensions.coding_agents.shown_lines import HookLine
from treering.ports.ledger import ObjectRequest, Selection, head_of
from treering.ports.passages import Reach
from treering.retrieval import limits
from treering.retrieval.index.code_names import file_at as code_file_at
from treering.retrieval.index.code_names import names_in_heading
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.passages import passages_of, told_once
from treering.retrieval.text.languages import stem_in
from treering.retrieval.tuning import TUNING
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Call
from treering.verbs.file_names import read_sources
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of, statement_of
from treering.verbs.query.code_links import CodeStart
from treering.verbs.rule_places import is_in, rule_of
from treering.verbs.scoped_ledger import on_all_branches
from treering.verbs.trees import notes_of_objects

_HOOKS = TUNING.hooks
_MAX_FAILED_TESTS = 3

_MAX_ENTRIES = 2_000
_LEARNING = ("debug", "implementation")
_FAILURE = re.compile(
    r"\b(?:fail\w*|errors?|exception|crash\w*|broke\w*|panic\w*|timed? ?out|deadlock\w*)\b|Error\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_][\w']{2,}", re.UNICODE)
_NAME = re.compile(r"\b(?:[A-Za-z]+[A-Z][A-Za-z]*|\w+_\w+|[A-Z]+\d+|[A-Za-z_]\w*(?:\.\w+)+)\b")
"""Names that no plain word is: `OperationalError`, `test_retries`, `E501`, `sqlite3.connect`."""
_IN_EACH_FAILURE = re.compile(r"AssertionError|\w+(?:\.\w+)*\.(?:com|org)", re.IGNORECASE)
"""Names that are in failures of any kind: the hosts of modules, and the error of a failed test."""
_PATH = re.compile(r"(?<![\w.-])@?[\w.-]*\w(?:/@?[\w.-]*\w)+")
"""A file or module with its folders: `src/app.py`, `github.com/pkg/errors`, `@hono/zod-validator`."""
_NAMED_FILE = re.compile(rf"{_PATH.pattern}|(?<=\bin )[\w.-]+\.\w+|(?<=\bin `)[\w.-]+\.\w+")
_COMMON = frozenset(
    "the and for are was were that this with from have has had not but you your can could will would should into our"
    " its it's all any what when where which who how why please let's make made use used using get got also then than"
    " them they there here about some only just more most very does did done now new one two file files code line"
    " lines add run".split()
)
_FAILED_AT = re.compile(r"([\w./@+-]+\.\w{1,5})(?:::([\w:.]+))?(?::(\d+))?")
"""A file as tools name it in a failure, with a test or a line in it: `t/test_a.py::TestA::test_b`, `a.test.ts:12`."""


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A file of tests that a failure names, and the words of the tests in it that failed; none if only the file is."""

    source: Source
    words: frozenset[str]


def lines_after_failure(space: Space, failure: str, output: str = "") -> list[HookLine]:
    """Return decisions about the named lines or values, knowledge about the same failure, and what tests protect.

    `output`: the output of the tool with the lines of a traceback; by default `failure` itself.
    """
    call = call_on(space)
    learned = [*islice(_learned(call, failure, output or failure), _HOOKS.max_places)]
    of_values = islice(_of_values(call, output or failure), _HOOKS.max_entries)
    cited = {line.key: line for line in [*_cited(call, output or failure), *learned, *of_values]}
    protected = _protected(call, list(islice(_failed_tests(call, failure), _MAX_FAILED_TESTS)))
    return [*cited.values(), *protected]


def _cited(call: Call, output: str) -> list[HookLine]:
    """Return the rules and decisions that cite a line that the output of a failed tool names."""
    return [rule.line_for("failure") for rule in rules_citing(call, places_named(call, output).places)]


def _of_values(call: Call, output: str) -> Iterator[HookLine]:
    """Yield the rules and decisions with a number and a telling term of the output: an expected status, a limit."""
    values = values_in(output)
    terms = subject_of(_without_folders(output)) if values else frozenset()
    paths = [one.path for one in places_named(call, output).places] if terms else []
    for rule in held_rules(call) if terms else ():
        text = f"{rule.item.title}\n{statement_of(rule.item)}"
        if rule.is_only_in_files or not (values & values_in(text) and terms & subject_of(_without_folders(text))):
            continue
        if not _is_for_other_files(rule.item, paths):
            yield rule.line_for("failure")


def _learned(call: Call, failure: str, output: str) -> Iterator[HookLine]:
    """Yield hits that share many words with a failure, or a name and some words; rules only with a name."""
    names, words = _names(failure), _words(failure)
    places: Sequence[str] | None = None
    found = []
    for item, text in _entries(call):
        own = _names(text) & names
        shared = (_words(text) & words) | _words(" ".join(one.replace("/", " ") for one in own))
        alone = max(2 * _HOOKS.min_failure_words, len(_words(text)) / 2)
        is_rule = isinstance(item, Knowledge) and isinstance(item.payload, Constraint | Preference)
        if (own or not is_rule) and len(shared) >= (_HOOKS.min_failure_words if own else alone):
            if places is None:
                places = [one.path for one in places_named(call, output).places]
            if not (isinstance(item, Knowledge) and _is_for_other_files(item, places)):
                found.append((-len(own), -len(shared), item.id, text))
    for *_, identity, text in sorted(found):
        shown = one_line(" · ".join(text.splitlines()), most=limits.MAX_FAILURE_CHARS)
        yield HookLine(f"{identity}@failure", f"{shown}  {identity}")


def _is_for_other_files(item: Knowledge, paths: Sequence[str]) -> bool:
    """Return whether a rule is limited to files, by its scope or its text, and none of some paths is one of them."""
    scope = scope_of(item)
    if scope:
        return not any(applies_to(scope, path) for path in paths)
    named = [one for one in _NAMED_FILE.findall(rule_of(item)) if code_file_at(one)]
    return bool(named) and not any(is_in(one, path) for one in named for path in paths)


def _entries(call: Call) -> Iterator[tuple[Knowledge | Activity, str]]:
    """Yield records of work that ended, and knowledge about a failure, valid in the work tree, each with its text."""
    where = Compare("status", "in", ("active", "contested", "finalized"))
    selection = Selection(scope=ROOT, types=("knowledge", "activity"), where=where, newest=_MAX_ENTRIES)
    items = [one for one in call.engine.ledger.select(selection, altered={}) if isinstance(one, Knowledge | Activity)]
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
    for item in items:
        title, rest = title_of(item), told_once(title_of(item), passages_of(item)[0].text)
        text = f"{kind_in_words(item.kind).capitalize()}: {rest if rest.startswith(title) else f'{title}. {rest}'}"
        is_learning = item.kind in _LEARNING if isinstance(item, Activity) else bool(_FAILURE.search(text))
        if is_learning and item.kind != "summary" and not notes.get(item.id):
            yield item, text


def _protected(call: Call, tests: Sequence[FailedTest]) -> Iterator[HookLine]:
    """Yield the rules and decisions whose evidence is in a failing test, or in code that the test exercises."""
    rules = held_rules(call) if tests else []
    call = _on_all_branches(call)
    refs = [ref for rule in rules for ref in rule.item.evidence_refs]
    segments = tuple(dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs))
    (cited,) = call.engine.ledger.read([ObjectRequest(segments=segments, vanished=True)])
    for test in tests:
        words = _exercised_words(call, test, {ref.source_id for ref in refs})
        found = [rule for rule in rules if _is_exercised(rule.item, test, words, cited.segments)]
        for line in [rule.line_for(test.source.title) for rule in with_places(call, found[: _HOOKS.max_entries])]:
            yield HookLine(line.key, f"{test.source.title} protects: {line.text}")


def _on_all_branches(call: Call) -> Call:
    """Return a call that also reads lines which a commit changed; the commit may not have been read."""
    return replace(call, engine=replace(call.engine, ledger=on_all_branches(call.engine.ledger)), tree=None)


def _exercised_words(call: Call, test: FailedTest, cited: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return by cited file that the file of a test uses: the words of the test and of the definitions that it names.

    A method call names no file, so only its name and the files that the tests use are compared.
    """
    used = {one.id for one in code_links(call, [CodeStart(test.source)], Reach(ROOT), direction="out")}
    found: dict[str, frozenset[str]] = {}
    for source in read_sources(call, sorted(used.intersection(cited))):
        words = set(test.words)
        for segment in source.segments:
            lines = segment.excerpt.splitlines()
            for one in _definitions(segment):
                if _last_part(one.name) in test.words:
                    words.update(re.findall(r"\w+", "\n".join(lines[one.first - 1 : one.last])))
        found[source.id] = frozenset(words)
    return found


def _is_exercised(
    item: Knowledge,
    test: FailedTest,
    words: Mapping[str, frozenset[str]],
    segments: Mapping[tuple[str, str], Segment],
) -> bool:
    """Return whether knowledge cites the file of a test, or lines of a definition that the test exercises."""
    for ref in item.evidence_refs:
        segment = segments.get((ref.source_id, ref.segment_id))
        names = _cited_names(ref, segment) if segment and ref.source_id in words else ()
        if ref.source_id == test.source.id or any(_last_part(name) in words[ref.source_id] for name in names):
            return True
    return False


def _cited_names(ref: EvidenceRef, segment: Segment) -> Sequence[str]:
    """Return the names of the definitions that cited lines are in; of the whole segment if they are in none."""
    first, last = ref.lines or (1, segment.excerpt.count("\n") + 1)
    cited = [one.name for one in _definitions(segment) if one.first <= last and first <= one.last]
    return cited or _names_of(segment)


def _definitions(segment: Segment) -> Sequence[Definition]:
    whole = max(len(segment.excerpt.splitlines()), 1)
    return segment.definitions or [Definition(name=name, first=1, last=whole) for name in _names_of(segment)]


def _names_of(segment: Segment) -> Sequence[str]:
    return names_in_heading(segment.heading, getattr(segment.locator, "path", ""))


def _last_part(name: str) -> str:
    return name.replace("::", ".").rpartition(".")[2]


def _failed_tests(call: Call, failure: str) -> Iterator[FailedTest]:
    repository = repository_of(call, {})
    named: dict[str, dict[tuple[str, str], None]] = {}
    for path, test, line in _FAILED_AT.findall(failure):
        named.setdefault(path.removeprefix("./"), {})[test.replace("::", "."), line] = None
    for path, places in named.items():
        if not is_test_path(path):
            continue
        source = file_at(call, repository, path) or file_at(_on_all_branches(call), repository, path)
        if source:
            texts = (segment.excerpt for place in places for segment in _segments(source, *place))
            yield FailedTest(source, frozenset(word for text in texts for word in re.findall(r"\w+", text)))


def _segments(source: Source, test: str, line: str) -> Iterator[Segment]:
    """Yield the segments of a file that hold a test by its name or a line."""
    start = start_defining(source, test) if test else None
    for segment in source.segments:
        at = segment.locator
        is_at_line = bool(line) and isinstance(at, Lines) and at.start <= int(line) <= at.end
        if is_at_line or (start and segment.segment_id in start.segments):
            yield segment


def _names(text: str) -> frozenset[str]:
    """Return the names in a text; of one with dots also the last part if that is such a name.

    So `sqlite3.OperationalError` and `OperationalError` are the same failure, and two files `….py` are not. A path is
    a name as a whole, and by its file: two modules of `github.com` share none.
    """
    paths = _PATH.findall(text)
    names = [*_NAME.findall(_without_folders(text)), *paths]
    names += [last for name in names if "." in name and _NAME.fullmatch(last := name.rpartition(".")[2])]
    return frozenset(name.lower() for name in names if not _IN_EACH_FAILURE.fullmatch(name))


def _words(text: str) -> frozenset[str]:
    """Return the English stems of the telling words of a text, without folders."""
    written = _WORD.findall(_without_folders(text))
    found = (one.lower().strip("'_") for name in written for one in {name, *name.split("_")})
    return frozenset(stem_in("english", one) for one in found if len(one) > 2 and one not in _COMMON)


def _without_folders(text: str) -> str:
    """Return a text with only the names of the files that its paths name; nothing of the paths of modules."""
    return _PATH.sub(lambda path: name if "." in (name := path[0].rpartition("/")[2]) else " ", text)

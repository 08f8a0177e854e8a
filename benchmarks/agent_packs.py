"""Context packs for a coding agent: which files and which decisions a task gets, and what the frame costs.

The tasks are those of `benchmarks.agent_context`: commits that the space does not know. Decisions are made by rule:
one for each of the commits before, resting on the passages of the files it changed that share most words with its
subject. A decision is relevant to a task that changes one of its files. Releases, updates and merges are neither tasks
nor decisions. A file that more than a tenth of the decisions rest on, such as a changelog, relates nothing: what has
only such files in common with a task counts neither as right nor as wrong.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import treering
from benchmarks.code_files import database_at
from benchmarks.figures import Figure, Row, at_least
from benchmarks.plan import workplace
from benchmarks.source_tree import git
from treering import Space
from treering.core.objects import Source
from treering.ports.ledger import Selection
from treering.retrieval.search.packing import ContextPack, PackItem
from treering.retrieval.text.analysis import estimate_tokens, telling_terms
from treering.verbs.query.context import ContextReport
from treering.verbs.query.search import SearchReport

_FIRST = 3
_DECISIONS = 60
_COMMITS_READ = 400
_MAX_FILES = 3
"""Files of a commit that a decision is made of: one that changes more decides nothing of each."""
_MAX_SHARE_OF_FILE = 0.1
"""Share of the decisions that may rest on a file that relates them to tasks."""
_DECIDES_NOTHING = re.compile(
    r"^(?:bump|chore|build\(deps|merge|\[pre-commit)|\bv?\d+(?:\.\d+)+(?:\s*\(#\d+\))?$", re.IGNORECASE
)
"""Subjects of merges, of updates, and of releases, which end with a version."""


AgentTask = tuple[str, frozenset[str]]
"""What an agent is asked to do, and the files that it has to change."""


@dataclass(frozen=True, slots=True)
class _Packed:
    """What a pack for a task holds."""

    first: bool
    """Whether a changed file is among its first items."""
    first_in_search: bool
    named: float
    """The share of the changed files that its text names."""
    all_named: bool
    recalled: float
    """The share of its tokens that are recalled text."""
    content: float
    """The same with the notes about it: rules, conflicts, gaps, callers and tests of code, what to read next."""


def rows(repository: str, clone: Path, commit: str, cache: Path, tasks: Sequence[AgentTask]) -> Iterator[Row]:
    """Ask for packs in a space without knowledge, and once more in one with decisions."""
    with workplace() as folder:
        copy = shutil.copy(database_at(clone, commit, cache), folder / "space.db")
        with treering.open(f"sqlite:{copy}", background=False) as space:
            paths = _paths(space)
            packed = [_packed(space, prompt, changed, paths) for prompt, changed in tasks]
            decisions = _decide(space, clone, commit, {path: identity for identity, path in paths.items()})
            asked = [(prompt, changed) for prompt, changed in tasks if not _DECIDES_NOTHING.search(prompt)]
            shown = [_decisions_in(_pack(space, prompt).pack) for prompt, _ in asked]
    beside = 100 * _mean([one.first_in_search for one in packed])
    yield Figure(
        f"{repository}: pack, a changed file in the first {_FIRST} items",
        100 * _mean([one.first for one in packed]),
        "%",
        at_least(beside),
        "target: search with group: source",
    )
    yield Figure(f"{repository}: pack, changed files named", 100 * _mean([one.named for one in packed]), "%")
    yield Figure(f"{repository}: pack, all changed files named", 100 * _mean([one.all_named for one in packed]), "%")
    filled = [one for one in packed if one.recalled]
    note = f"of {len(filled)} packs with items"
    yield Figure(
        f"{repository}: pack, tokens of recalled text", 100 * _mean([one.recalled for one in filled]), "%", None, note
    )
    yield Figure(
        f"{repository}: pack, tokens of text and notes",
        100 * _mean([one.content for one in filled]),
        "%",
        at_least(85),
        note,
    )
    judged = [_judged(one, changed, decisions) for one, (_, changed) in zip(shown, asked, strict=True)]
    right = sum(one.right for one in judged)
    number = f"{len(decisions)} decisions, {len(asked)} tasks"
    yield Figure(
        f"{repository}: pack, precision of decisions",
        _share(right, right + sum(one.wrong for one in judged)),
        "%",
        at_least(80),
        number,
    )
    yield Figure(
        f"{repository}: pack, recall of decisions",
        _share(right, sum(one.relevant for one in judged)),
        "%",
        at_least(90),
        number,
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """How many of the decisions in a pack are right and wrong, and how many are relevant to its task."""

    right: int
    wrong: int
    relevant: int


def _judged(shown: set[str], changed: frozenset[str], decisions: Mapping[str, set[str]]) -> _Judged:
    uses = Counter(path for files in decisions.values() for path in files)
    common = {path for path, count in uses.items() if count > _MAX_SHARE_OF_FILE * len(decisions)}
    relevant = {one for one, files in decisions.items() if files & (changed - common)}
    unclear = {one for one, files in decisions.items() if files & changed} - relevant
    return _Judged(len(shown & relevant), len(shown - relevant - unclear), len(relevant))


def _packed(space: Space, prompt: str, changed: frozenset[str], paths: Mapping[str, str]) -> _Packed:
    report = _pack(space, prompt)
    found = space.query("search", input={"text": prompt}, options={"group": "source"})
    assert isinstance(found, SearchReport)
    named = changed & set(re.findall(r"[\w./+-]+", report.text.replace("\\", "")))
    tokens = estimate_tokens(report.text)
    recalled = sum(estimate_tokens(item.text) for item in report.pack.items)
    notes = sum(estimate_tokens(line) for line in _notes(report.pack))
    return _Packed(
        any(_files_of(item, report.pack, paths) & changed for item in report.pack.items[:_FIRST]),
        any(paths.get(hit.object_id) in changed for hit in found.hits[:_FIRST]),
        len(named) / len(changed),
        named == changed,
        recalled / tokens,
        (recalled + notes) / tokens,
    )


def _notes(pack: ContextPack) -> list[str]:
    conflicts = [note.summary for note in pack.conflicts]
    return [*conflicts, *pack.may_break, *pack.missing_context, *pack.recommended_next_reads, *pack.rules]


def _pack(space: Space, task: str) -> ContextReport:
    report = space.query("context", input={"task": task})
    assert isinstance(report, ContextReport)
    return report


def _files_of(item: PackItem, pack: ContextPack, paths: Mapping[str, str]) -> set[str]:
    """Return the files that an item quotes or cites."""
    cited = {one.object_id for one in pack.citations if one.mark in item.citations}
    return {paths[identity] for identity in (item.object_id, *cited) if identity in paths}


def _paths(space: Space) -> dict[str, str]:
    """Return the paths of the files of a space, by the ids of their sources."""
    everything = Selection(scope="/", descend=True, types=("source",))
    sources = (item for item in space.engine.ledger.select(everything) if isinstance(item, Source))
    return {item.id: item.origin.rpartition("#")[2] for item in sources if "#" in item.origin and item.segments}


def _decide(space: Space, clone: Path, commit: str, sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Record a decision for each of the last commits before one; return by its id the files it rests on."""
    log = git(clone, "log", commit, "--no-merges", f"-n{_COMMITS_READ}", "--format=%x1e%s", "--name-only")
    decided: dict[str, set[str]] = {}
    for record in log.split("\x1e")[1:]:
        subject, *paths = record.strip().split("\n")
        files = {path for path in paths if path in sources}
        if _DECIDES_NOTHING.search(subject) or not 0 < len(files) <= _MAX_FILES or len(decided) == _DECISIONS:
            continue
        given = {
            "kind": "decision",
            "title": subject,
            "payload": {"question": f"What about: {subject}?", "outcome": subject},
            "evidence_refs": [_evidence(space, sources[path], subject) for path in sorted(files)],
            "status": "active",
        }
        report = space.crystallize("knowledge", input=given)
        decided[next(identity for identity in report.ids if identity.startswith("know:"))] = files
    return decided


def _evidence(space: Space, source_id: str, subject: str) -> dict[str, str]:
    source = space.engine.ledger.get(source_id)
    assert isinstance(source, Source)
    words = frozenset(telling_terms(subject))
    best = max(source.segments, key=lambda one: len(words.intersection(telling_terms(one.excerpt))))
    return {"source_id": source_id, "segment_id": best.segment_id}


def _decisions_in(pack: ContextPack) -> set[str]:
    return {item.object_id for item in pack.items if item.kind == "decision"}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0

"""What the brief shows of a full memory: 60 entries per repository, on a branch made of its newest commits.

The entries are worded by the repository itself: titles of its decision records, lines of its changelog, subjects of its
commits, by their authors. What each entry is (a rule for all files, superseded, of another branch, …) is fixed by rule,
so what a brief must and must not show is known without reading it.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import treering
from benchmarks.code_data import clone_of
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.source_tree import git
from treering import Space
from treering.core.filters import Compare
from treering.core.objects import Source
from treering.ports.ledger import Selection
from treering.retrieval.text.analysis import estimate_tokens
from treering.verbs.query.brief import BriefReport

TUNED_ON = ("celery/celery", "honojs/hono")
REPORTED_ON = ("pallets/flask", "google/gson", "spf13/cobra")
_ENTRIES: Mapping[str, int] = {
    "rule": 6,
    "rule for other files": 6,
    "rule for changed files": 4,
    "preference": 4,
    "decision": 8,
    "decision about changed files": 4,
    "decision of another branch": 4,
    "candidate": 4,
    "stale decision": 4,
    "superseded decision": 4,
    "task": 4,
    "task of the branch": 4,
    "task of another branch": 2,
    "finished task": 2,
}
_WRONG = ("decision of another branch", "candidate", "superseded decision", "task of another branch", "finished task")
_MARKED = ("Stale", "Stated")
"""Sections whose lines state that an entry is not current, or not confirmed."""
_BRANCH_COMMITS = 10
_COMMITS_READ = 400
_MIN_CHARS, _MAX_CHARS = 25, 110
_BULLET = re.compile(r"^\s*[-*]\s+(.+)$", re.MULTILINE)
_DECISION_RECORD = re.compile(r"(?:^|/)(?:adr|adrs|decisions)/[^/]+\.(?:md|rst)$", re.IGNORECASE)
_CHANGELOG = re.compile(r"^(?:changelog|changes|history|release)[^/]*\.(?:md|rst|txt)$", re.IGNORECASE)
_IDENTITY = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.invalid")


@dataclass(slots=True)
class Memory:
    """A work tree with its space, and the ids of the entries in it, by what they are."""

    space: Space
    tree: Path
    ids: dict[str, list[str]] = field(default_factory=dict)

    def kind_of(self, identity: str) -> str:
        """Return what an entry is; empty for what the benchmark did not record."""
        return next((kind for kind, ids in self.ids.items() if identity in ids), "")


def measure(plan: Plan) -> list[Row]:
    """Record the entries in a space of each repository, and look at the brief of its branch."""
    rows: list[Row] = []
    for repository in TUNED_ON + REPORTED_ON:
        note = "tuned on" if repository in TUNED_ON else ""
        try:
            with workplace() as folder:
                rows += _rows(repository, clone_of(repository), folder, note)
        except MissingData as missing:
            rows.append(Missing(f"{repository}: brief: memory", str(missing)))
        if plan.quick:
            break
    return rows


def _rows(repository: str, clone: Path, folder: Path, note: str) -> Iterator[Row]:
    with treering.open(f"sqlite:{folder / 'space.db'}", background=False) as space:
        memory = filled(space, clone, folder / "tree")
        began = time.perf_counter()
        report = memory.space.asked_from(memory.tree).query("brief")
        seconds = time.perf_counter() - began
    printed = {one.split()[-1] for one in report.lines}
    shown = {
        section.name: [memory.kind_of(entry.id) for entry in section.entries if entry.id in printed]
        for section in report.sections
    }
    current = [kind for name, kinds in shown.items() if name not in _MARKED for kind in kinds]
    rules = sum(identity in printed for identity in memory.ids["rule"])
    yield Figure(f"{repository}: brief, rules for all files", _share(rules, 6), "%", at_least(100), note)
    wrong = sum(kind in (*_WRONG, "stale decision") for kind in current)
    yield Figure(
        f"{repository}: brief, stale or foreign entries as current", wrong, "", at_most(0), f"of {_wrong_entries()}"
    )
    for name, kind in (("Open", "task of the branch"), ("Decided", "decision about changed files")):
        first = shown.get(name, [])[: _ENTRIES[kind]]
        share = _share(first.count(kind), len(first)) if first else 0.0
        yield Figure(f"{repository}: brief, the branch first in {name!r}", share, "%", at_least(100))
    yield Figure(f"{repository}: brief, all of it", estimate_tokens(report.text), "tokens", at_most(500))
    yield Figure(f"{repository}: brief, time", 1000 * seconds, "ms", None, _lines_left_out(report))


def _wrong_entries() -> str:
    return f"{sum(_ENTRIES[kind] for kind in (*_WRONG, 'stale decision'))} entries that are not"


def _lines_left_out(report: BriefReport) -> str:
    entries = sum(len(section.entries) for section in report.sections)
    printed = sum(one.split()[-1].startswith(("know:", "work:")) for one in report.lines)
    return f"{printed} of {entries} chosen entries fit"


def _share(part: int, whole: int) -> float:
    return 100 * part / whole


# The space: `main` some commits back, the branch `work` with the newest commits, and a branch with a file of its own.


def filled(space: Space, clone: Path, tree: Path) -> Memory:
    """Read three branches of a repository and record the entries. Raises `MissingData` if it has too few texts."""
    git(clone, "clone", "--quiet", "--shared", str(clone), str(tree))
    commits = git(tree, "rev-list", "--first-parent", f"-n{_BRANCH_COMMITS + 1}", "HEAD").split()
    head, base = commits[0], commits[-1]
    changed = git(tree, "diff", "--name-only", "--diff-filter=M", base, head).split("\n")
    git(tree, "checkout", "--quiet", "-B", "main", base)
    others = [path for path in git(tree, "ls-files").split("\n") if path not in changed]
    read = [path for path in (*changed, *others) if path.endswith((".py", ".ts", ".go", ".java", ".md", ".rst"))][:60]
    texts, authors = statements(tree), cycle(_authors(tree))
    known = [path for path in changed if path in read]
    if len(texts) < sum(_ENTRIES.values()) or not known:
        raise MissingData(f"{clone} has too few texts for entries, or no file that its last commits change.")
    memory = Memory(space, tree)
    given = {kind: [texts.pop(0) for _ in range(count)] for kind, count in _ENTRIES.items()}
    _read(memory, read)
    for kind in ("task", "finished task"):
        memory.ids[kind] = [_task(memory, text, next(authors)) for text in given[kind]]
    git(tree, "checkout", "--quiet", "-b", "elsewhere")
    (tree / "ELSEWHERE.md").write_text(
        "".join(f"# {text}\n\n{text}.\n\n" for text in given["decision of another branch"])
    )
    git(tree, "add", "ELSEWHERE.md")
    git(tree, *_IDENTITY, "commit", "--quiet", "-m", "Elsewhere")
    _read(memory, [*read, "ELSEWHERE.md"])
    memory.ids["task of another branch"] = [
        _task(memory, text, next(authors)) for text in given["task of another branch"]
    ]
    memory.ids["decision of another branch"] = [
        _decision(memory, text, _cited(memory, "ELSEWHERE.md"), next(authors))
        for text in given["decision of another branch"]
    ]
    git(tree, "checkout", "--quiet", "-b", "work", head)
    _read(memory, read)
    _record(memory, given, known, [path for path in read if path not in changed], authors)
    return memory


def statements(tree: Path) -> list[str]:
    """Return texts that word entries: titles of decision records, lines of the changelog, subjects of commits."""
    paths = git(tree, "ls-files").split("\n")
    texts: list[str] = []
    for path in paths:
        if _DECISION_RECORD.search(path):
            texts += (tree / path).read_text("utf-8", "replace").splitlines()[:1]
        elif _CHANGELOG.match(path):
            texts += _BULLET.findall((tree / path).read_text("utf-8", "replace"))[:20]
    texts += git(tree, "log", "--no-merges", f"-n{_COMMITS_READ}", "--format=%s").splitlines()
    plain = (re.sub(r"[#*`\[\]]|\(#?\d+\)", "", text).strip() for text in texts)
    return list(dict.fromkeys(text for text in plain if _MIN_CHARS <= len(text) <= _MAX_CHARS))


def _record(
    memory: Memory,
    given: Mapping[str, Sequence[str]],
    changed: Sequence[str],
    others: Sequence[str],
    authors: Iterator[str],
) -> None:
    for kind, scopes in {"rule": [""], "rule for other files": others, "rule for changed files": changed}.items():
        memory.ids[kind] = [
            _knowledge(memory, text, next(authors), kind="constraint", payload={"rule": text, "scope": scope})
            for text, scope in zip(given[kind], cycle(scopes), strict=False)
        ]
    memory.ids["preference"] = [
        _knowledge(memory, text, next(authors), kind="preference", payload={"statement": text})
        for text in given["preference"]
    ]
    for kind, paths in {"decision about changed files": changed, "decision": others}.items():
        memory.ids[kind] = [
            _decision(memory, text, _cited(memory, path), next(authors))
            for text, path in zip(given[kind], cycle(paths), strict=False)
        ]
    memory.ids["candidate"] = [
        _decision(memory, text, _note(memory, text), next(authors), status="candidate") for text in given["candidate"]
    ]
    memory.ids["superseded decision"] = [
        _superseded(memory, text, next(authors)) for text in given["superseded decision"]
    ]
    memory.ids["stale decision"] = [_stale(memory, text, next(authors)) for text in given["stale decision"]]
    memory.ids["task of the branch"] = [_task(memory, text, next(authors)) for text in given["task of the branch"]]
    for identity in memory.ids["finished task"]:
        memory.space.crystallize("work_item", input={"id": identity, "status": "resolved", "resolution": "Done"})


def _authors(tree: Path) -> list[str]:
    return list(dict.fromkeys(git(tree, "log", "-n50", "--format=%an").splitlines()))


def _read(memory: Memory, paths: Iterable[str]) -> None:
    space = memory.space.asked_from(memory.tree)
    # The manifests make the card, which has its part of the budget.
    include = (*paths, "pyproject.toml", "setup.py", "package.json", "go.mod", "pom.xml", "Makefile", "tox.ini")
    space.ingest("repo", input={"path": str(memory.tree)}, options={"include": include})


def _cited(memory: Memory, path: str) -> Mapping[str, str]:
    """Return the last lines of a file as evidence."""
    selection = Selection(scope="/", types=("source",), where=Compare("kind", "in", ("file", "markdown")))
    found = memory.space.engine.ledger.select(selection, altered={})
    return _evidence(next(one for one in found if isinstance(one, Source) and one.origin.endswith(f"#{path}")))


def _note(memory: Memory, text: str, origin: str = "") -> Mapping[str, str]:
    """Return a note with a text as evidence."""
    item = {"text": f"{text}.", "origin": origin or f"note of {text}"}
    report = memory.space.ingest("source", input={"items": [item]})
    (identity,) = (one for one in report.ids if one.startswith("src:"))
    source = memory.space.engine.ledger.get(identity)
    assert isinstance(source, Source)
    return _evidence(source)


def _evidence(source: Source) -> Mapping[str, str]:
    return {"source_id": source.id, "segment_id": source.segments[-1].segment_id}


def _task(memory: Memory, text: str, author: str) -> str:
    space = memory.space.asked_from(memory.tree).with_actor(author, channel="user")
    return next(one for one in space.crystallize("work_item", input={"title": text}).ids if one.startswith("work:"))


def _knowledge(memory: Memory, text: str, author: str, **fields: Any) -> str:
    evidence = fields.pop("evidence_refs", None) or [_note(memory, text)]
    fields = {"evidence_refs": evidence, "status": "active", **fields}
    report = memory.space.with_actor(author, channel="user").crystallize("knowledge", input={"title": text, **fields})
    return next(one for one in report.ids if one.startswith("know:"))


def _decision(memory: Memory, text: str, evidence: Mapping[str, str], author: str, **fields: Any) -> str:
    payload = {"question": f"{text}?", "outcome": ""}
    return _knowledge(memory, text, author, kind="decision", payload=payload, evidence_refs=[evidence], **fields)


def _superseded(memory: Memory, text: str, author: str) -> str:
    identity = _decision(memory, text, _note(memory, text), author)
    title = f"No longer: {text}"[:_MAX_CHARS]
    payload = {"question": f"{text}?", "outcome": "No"}
    newer = {"kind": "decision", "title": title, "payload": payload, "evidence_refs": [_note(memory, title)]}
    space = memory.space.with_actor(author, channel="user")
    report = space.crystallize("supersede", input={"id": identity, "knowledge": {**newer, "status": "active"}})
    memory.ids["decision"] += [one for one in report.ids if one.startswith("know:") and one != identity]
    return identity


def _stale(memory: Memory, text: str, author: str) -> str:
    origin = f"stale note of {text}"
    identity = _decision(memory, text, _note(memory, text, origin), author)
    _note(memory, "Nothing of this is left here, and other words stand in its place", origin)
    return identity

"""Which file answers: issues and questions about code, against BM25 over whole files.

Each commit is read into a space of its own by `ingest repo` and searched by words, as right after ingest. The spaces
are kept in the cache from run to run; a change of how files are read or indexed makes new ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from pathlib import Path, PurePosixPath

import numpy as np

import treering
from benchmarks.bm25 import WholeTexts
from benchmarks.code_data import SETS, CodeQuestion, clone_of, files_at, load_questions
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.paired import Found, Recall, compared, gains, keep
from benchmarks.plan import Plan
from treering import Space
from treering.stores.sqlite.index.tables import PROJECTION_VERSION
from treering.verbs.query.search import SearchReport

CUTOFFS = (1, 5, 10, 20)

GROUPED = "search, grouped by source"
SEARCH = "search, files by their best hit"
SEARCH_CODE = "the same, only .py files that are no tests"
WHOLE = "BM25 over whole files"
WHOLE_CODE = "BM25 over whole .py files that are no tests"

TARGETS: Mapping[int, float] = {5: 85, 10: 92}
"""Percent of questions with a file that answers among the first k, by cut-off."""

_QUICK_QUESTIONS = 4
_PASSAGES = 60
_MANY = 10_000
_WHOLE = 100 - 1e-9

FileSearcher = Callable[[str], Sequence[str]]
"""Given a question, the paths of files, best first, each once."""


def measure(plan: Plan) -> list[Row]:
    """Measure every set that is there. `quick`: the first questions of each."""
    return [row for name in SETS for row in _measured(name, plan)]


def searchers_at(repository: str, commit: str, cache: Path) -> Mapping[str, FileSearcher]:
    """Return every way to search one commit, by name. Raises `MissingData` where there is no clone."""
    clone = clone_of(repository)
    texts = files_at(clone, commit)
    space = space_at(clone, commit, cache)
    whole = WholeTexts.of(texts)
    whole_code = WholeTexts.of({path: text for path, text in texts.items() if is_plain_code(path)})

    def by_best_hit(question: str) -> Sequence[str]:
        options = {"limit": _PASSAGES, "semantic": False}
        report = space.query("search", input={"text": question}, options=options)
        assert isinstance(report, SearchReport)
        return list(dict.fromkeys(hit.origin.rpartition("#")[2] for hit in report.hits))

    def grouped(question: str) -> Sequence[str]:
        options = {"limit": max(CUTOFFS), "semantic": False, "group": "source"}
        report = space.query("search", input={"text": question}, options=options)
        assert isinstance(report, SearchReport)
        return [hit.origin.rpartition("#")[2] for hit in report.hits]

    return {
        GROUPED: grouped,
        SEARCH: by_best_hit,
        SEARCH_CODE: lambda question: list(filter(is_plain_code, by_best_hit(question))),
        WHOLE: lambda question: whole.rank(question, _MANY),
        WHOLE_CODE: lambda question: whole_code.rank(question, _MANY),
    }


def space_at(clone: Path, commit: str, cache: Path) -> Space:
    """Open the space of one commit, made where the cache does not have it."""
    return treering.open(f"sqlite:{database_at(clone, commit, cache)}", background=False)


def database_at(clone: Path, commit: str, cache: Path) -> Path:
    """Return the database of the space of one commit, made if the cache does not have it."""
    folder = cache / "code" / f"v{PROJECTION_VERSION}-{_reading_digest()}"
    folder.mkdir(parents=True, exist_ok=True)
    name = blake2b(f"{clone.resolve()} {commit}".encode(), digest_size=10).hexdigest()
    ready, half = folder / f"{name}.db", folder / f"{name}.part"
    if not ready.exists():
        half.unlink(missing_ok=True)
        with treering.open(f"sqlite:{half}", background=False) as space:
            space.ingest("repo", input={"path": str(clone)}, options={"commit": commit})
        half.rename(ready)
    return ready


def is_plain_code(path: str) -> bool:
    """Tell whether a path is that of a Python file that is not a test, as the baseline was first measured."""
    file = PurePosixPath(path)
    in_tests = any(part in {"test", "tests", "testing"} for part in file.parts[:-1])
    return file.suffix == ".py" and not in_tests and not file.name.startswith("test_")


def _measured(name: str, plan: Plan) -> list[Row]:
    try:
        questions = load_questions(name)[: _QUICK_QUESTIONS if plan.quick else None]
        ranked = _ranked(questions, plan.cache)
    except MissingData as missing:
        return [Missing(f"code, {name}", str(missing))]
    golds = [question.gold for question in questions]
    asked = tuple(question.id for question in questions)
    first = {way: Recall(f"{name} acc", CUTOFFS, _any_found(found, golds), asked) for way, found in ranked.items()}
    part = {way: Recall(f"{name} recall", CUTOFFS, _part_found(found, golds), asked) for way, found in ranked.items()}
    every = {
        way: replace(one, name=f"{name} all of them", found=100 * (one.found >= _WHOLE)) for way, one in part.items()
    }
    if plan.keep:
        keep(plan.keep, first)
    return [
        *(row for way in ranked for row in _figures(first[way], way)),
        *(row for way in ranked for row in _figures(part[way], way)),
        *(row for way in ranked for row in _figures(every[way], way)),
        *gains(first[GROUPED], first[WHOLE_CODE], f"grouping over {WHOLE_CODE}"),
        *gains(first[GROUPED], first[WHOLE], f"grouping over {WHOLE}"),
        *gains(first[SEARCH], first[WHOLE_CODE], f"search over {WHOLE_CODE}"),
        *(compared(first, plan.against) if plan.against else ()),
    ]


def _ranked(questions: Sequence[CodeQuestion], cache: Path) -> Mapping[str, list[Sequence[str]]]:
    """Ask every question in every way; the answers by way, in the order of the questions."""
    ranked: dict[str, list[Sequence[str]]] = {}
    for (repository, commit), asked in groupby(questions, key=lambda one: (one.repository, one.commit)):
        searchers = searchers_at(repository, commit, cache)
        for question in asked:
            for way, searcher in searchers.items():
                ranked.setdefault(way, []).append(searcher(question.text))
    return ranked


def _any_found(ranked: Sequence[Sequence[str]], golds: Sequence[frozenset[str]]) -> Found:
    rows = [[not gold.isdisjoint(files[:k]) for k in CUTOFFS] for files, gold in zip(ranked, golds, strict=True)]
    return 100 * np.array(rows, dtype=np.float64)


def _part_found(ranked: Sequence[Sequence[str]], golds: Sequence[frozenset[str]]) -> Found:
    rows = [
        [len(gold.intersection(files[:k])) / len(gold) for k in CUTOFFS]
        for files, gold in zip(ranked, golds, strict=True)
    ]
    return 100 * np.array(rows, dtype=np.float64)


def _figures(recall: Recall, way: str) -> Iterator[Figure]:
    for cutoff, estimate in recall.at().items():
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(recall.found)} questions"
        wanted = TARGETS.get(cutoff) if way == GROUPED and recall.name.endswith("acc") else None
        target = at_least(wanted) if wanted else None
        yield Figure(f"{recall.name} @{cutoff}, {way}", estimate.mean, "%", target, note)


def _reading_digest() -> str:
    """Hash the code that reads files, so that a change of it makes new spaces."""
    folder = Path(treering.__file__).parent / "sources"
    files = sorted(file for file in folder.rglob("*") if file.suffix in {".py", ".scm"})
    return blake2b(b"\0".join(file.read_bytes() for file in files), digest_size=6).hexdigest()

"""Contexts for issues: which files that the solution changed are named, and which of the changed places are shown.

A context is all that a model is given inside a budget of tokens: the pack as it is written over MCP, beside what is
made of the same files without an index. Tests are in none of the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks.bm25 import WholeTexts, words_of
from benchmarks.code_data import CodeQuestion, clone_of, files_at, load_questions
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row
from benchmarks.paired import Found, estimates
from benchmarks.plan import Plan
from treering import Space
from treering.extensions.mcp.answers import text_of
from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens

BUDGETS = (2_000, 4_000, 8_192)
"""Tokens of a whole context, with all that stands around what is quoted."""

OURS = "context pack"
MEASURES = (
    "a changed file named",
    "all changed files named",
    "all changed files quoted",
    "changed places shown",
    "all changed files named, of any kind",
)
"""Files are those of code that are no tests, but for the last."""

_LINES_OF_A_FILE = 5
_QUICK = 4
_CITED = re.compile(r'<<treering:cited \[\d+\] "(\S+?)#L\d+-L\d+"[^\n]*>>\n(.*?)(?=\n<<treering:)', re.DOTALL)
_SIGNATURE = re.compile(
    r"\s*(?:@\w|(?:(?:export|default|public|private|protected|static|abstract|final|async|pub(?:\(\w+\))?|unsafe)\s+)*"
    r"(?:def|class|func|function|fn|struct|enum|trait|impl|interface|type|mod)\b)"
)


@dataclass(frozen=True, slots=True)
class Context:
    """What is given for an issue: the paths that are named, and by path the lines that are quoted, stripped."""

    named: frozenset[str]
    quoted: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, parts: Iterable[tuple[str, str]], named: Iterable[str] = ()) -> "Context":
        """Make one of quotations, each with the path it stands in."""
        quoted: dict[str, frozenset[str]] = {}
        for path, text in parts:
            quoted[path] = quoted.get(path, frozenset()) | frozenset(map(str.strip, text.splitlines()))
        return cls(frozenset((*quoted, *named)), quoted)

    def found(self, question: CodeQuestion) -> list[float]:
        """Return each of `MEASURES` for a question, in percent."""
        gold = frozenset(filter(_is_code, question.gold))
        places = [(path, lines) for path, hunks in question.changed.items() for lines in hunks]
        shown = [not lines.isdisjoint(self.quoted.get(path, ())) for path, lines in places]
        return [
            100.0 * (not gold.isdisjoint(self.named)),
            100.0 * (gold <= self.named),
            100.0 * (gold <= self.quoted.keys()),
            100.0 * sum(shown) / max(1, len(shown)),
            100.0 * (question.gold <= self.named),
        ]


def measure(plan: Plan, name: str) -> list[Row]:
    """Measure contexts for a set of issues, beside each other and paired. `quick`: the first issues."""
    try:
        found = _found(load_questions(name)[: _QUICK if plan.quick else None], plan.cache)
    except MissingData as missing:
        return [Missing(f"contexts for {name}", str(missing))]
    return [row for budget in BUDGETS for row in _rows(name, budget, {way: of[budget] for way, of in found.items()})]


def contexts(space: Space, texts: Mapping[str, str], asked: str, budget: int) -> dict[str, Context]:
    """Make every context for an issue, by the name of how it is made."""
    code = {path: text for path, text in texts.items() if _is_code(path)}
    ranked = WholeTexts.of(code).rank(asked, len(code))
    words = {word for word in words_of(asked) if len(word) > 2}
    return {
        OURS: pack_context(space, texts, asked, budget),
        "whole files by BM25": Context.of(_within(((path, code[path]) for path in ranked), budget)),
        "map of files by BM25": Context.of(_within(((path, _signatures(code[path])) for path in ranked), budget)),
        f"grep -n, {_LINES_OF_A_FILE} lines a file": Context.of(_within(_grep(code, words), budget)),
    }


def pack_context(space: Space, paths: Iterable[str], asked: str, budget: int) -> Context:
    """Ask for a context pack as an agent does over MCP, by words alone as right after ingest."""
    report = space.query("context", input={"task": asked}, options={"max_tokens": budget, "semantic": False})
    text = text_of(report, max_tokens=budget)
    places = set(re.findall(r"[\w./+-]+", text.replace("\\", "")))
    return Context.of(_CITED.findall(text), places.intersection(paths))


def _found(questions: Sequence[CodeQuestion], cache: Path) -> dict[str, dict[int, Found]]:
    rows: dict[str, dict[int, list[list[float]]]] = {}
    for (repository, commit), asked in groupby(questions, key=lambda one: (one.repository, one.commit)):
        texts = files_at(clone_of(repository), commit)
        with space_at(clone_of(repository), commit, cache) as space:
            for question in asked:
                for budget in BUDGETS:
                    for way, context in contexts(space, texts, question.text, budget).items():
                        rows.setdefault(way, {}).setdefault(budget, []).append(context.found(question))
    return {way: {budget: np.array(of) for budget, of in by.items()} for way, by in rows.items()}


def _is_code(path: str) -> bool:
    return file_at(path) is not None and not is_test_path(path)


def _rows(name: str, budget: int, found: Mapping[str, Found]) -> Iterator[Figure]:
    for way, rows in found.items():
        against = estimates(found[OURS] - rows)
        for measured, estimate, gain in zip(MEASURES, estimates(rows), against, strict=True):
            note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(rows)} issues"
            beside = "" if way == OURS else f"; {OURS} {gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}], paired"
            yield Figure(f"{name}, {budget:,} tokens, {way}: {measured}", estimate.mean, "%", None, note + beside)


def _within(parts: Iterable[tuple[str, str]], budget: int) -> Iterator[tuple[str, str]]:
    """Yield quotations under their paths until the budget is used; the last one is cut."""
    left = budget
    for path, text in parts:
        left -= estimate_tokens(path) + 1
        if left <= 0:
            return
        fitting = cut_to_tokens(text, left)
        yield path, fitting
        left -= estimate_tokens(fitting)


def _signatures(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if _SIGNATURE.match(line))


def _grep(texts: Mapping[str, str], words: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the first lines of each file that have a word of the issue; files with the most of the words first."""
    counts = {path: len(words.intersection(words_of(text))) for path, text in texts.items()}
    for path in sorted(counts, key=lambda one: (-counts[one], one)):
        having = (line for line in texts[path].splitlines() if not words.isdisjoint(words_of(line)))
        yield path, "\n".join(line for line, _ in zip(having, range(_LINES_OF_A_FILE), strict=False))

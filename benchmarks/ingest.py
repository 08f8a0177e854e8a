"""IngestFlags in a large repository: at first, again with nothing changed, and again with one file edited."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tree_sitter import Parser

from benchmarks.costs import cost_of
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import disk_used, probe
from benchmarks.source_tree import NoTree, commit, make_repository, source_tree
from treering.extensions.code.parsing.languages import language_of, parsing_of

_QUICK_FILES = 200


def measure(plan: Plan) -> list[Row]:
    """Measure on the tree of `source_tree`, each step in a process of its own."""
    try:
        tree = source_tree(plan.cache)
    except NoTree as why:
        return [Missing("ingest of a repository", str(why))]
    with workplace() as folder:
        repository = folder / "repository"
        paths = make_repository(tree, repository, most=_QUICK_FILES if plan.quick else None)
        return [*_reading(folder / "space.db", repository, paths), _parsing(repository, paths)]


def _reading(path: Path, repository: Path, paths: Sequence[str]) -> Iterator[Figure]:
    given = {"address": f"sqlite:{path}", "path": str(repository)}
    first = probe("ingest_repo", **given)
    passages, count = first["passages"], len(paths)
    found = f"{count:,} files, {passages:,} passages; {_told(first)}"
    yield Figure("ingest, searchable by words and symbols", count / first["wall"], "files/s", at_least(150), found)
    yield Figure("— by CPU time", count / first["cpu"], "files per CPU second")
    yield Figure("— peak memory", first["memory"], "MiB")
    yield Figure("— disk per passage without vectors", disk_used(path) / passages / 1024, "KiB")
    again = probe("ingest_repo", **given)
    yield Figure(f"ingest again, nothing changed, {count:,} files", again["wall"], "s", at_most(2), _told(again))
    edited = _edit(repository, paths)
    third = probe("ingest_repo", **given)
    yield Figure("ingest again, one file edited", third["wall"], "s", None, f"{edited}; {_told(third)}")
    probe("embed_pending", address=given["address"])
    yield Figure("— disk per passage with vectors", disk_used(path) / passages / 1024, "KiB", at_most(6))


def _told(answer: Mapping[str, Any]) -> str:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in answer["counts"].items())
    return f"{answer['cpu']:.2f} s CPU, wall {answer['wall']:.2f} s; {outcomes}"


def _edit(repository: Path, paths: Sequence[str]) -> str:
    """Add a function to the Python file in the middle, and commit that."""
    modules = [path for path in paths if path.endswith(".py")]
    edited = modules[len(modules) // 2]
    with (repository / edited).open("a", encoding="utf-8") as file:
        file.write('\n\ndef added_by_benchmark():\n    """Say that this was added."""\n    return "added"\n')
    commit(repository, [edited])
    return edited


def _parsing(repository: Path, paths: Sequence[str]) -> Figure:
    """Parse the files of known languages and do nothing with them: the baseline."""
    known = [(path, language) for path in paths if (language := language_of(path))]
    contents = [((repository / path).read_bytes(), parsing_of(language).grammar) for path, language in known]
    cost = cost_of(lambda: [Parser(grammar).parse(content) for content, grammar in contents])
    return Figure(
        "— baseline: tree-sitter alone",
        len(known) / cost.cpu,
        "files per CPU second",
        None,
        f"{len(known):,} files of code",
    )

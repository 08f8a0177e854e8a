"""Questions about repositories at stated commits, with the files that answer them.

The questions are looked for where the labelled sets are (`benchmarks.data`), the clones in the folder named by
`TREERING_BENCH_CLONES`: as `OWNER+NAME/repo`, `OWNER/NAME` or `NAME`, bare or with a work tree.
"""

import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.data import MissingData, folder


@dataclass(frozen=True, slots=True)
class CodeQuestion:
    """What is asked of a repository at a commit, and the paths of the files that answer it (at least one).

    `changed`: of an issue, by path the places that its solution changed, each as the lines that were there.
    """

    id: str
    repository: str
    commit: str
    text: str
    gold: frozenset[str]
    changed: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)


def load_questions(name: str) -> list[CodeQuestion]:
    """Read the set `name` (a key of `SETS`). Raises `MissingData` where its file is absent."""
    file = folder() / "code" / f"{name}.jsonl"
    if not file.is_file():
        raise MissingData(f"{name}: no {file}; set TREERING_BENCH_DATA to the folder that has it.")
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    questions = [SETS[name](row) for row in rows]
    return sorted(questions, key=lambda one: (one.repository, one.commit))


def clone_of(repository: str) -> Path:
    """Return the clone of a repository, given as `OWNER/NAME`. Raises `MissingData` where there is none."""
    named = os.environ.get("TREERING_BENCH_CLONES", "")
    if not named:
        raise MissingData(f"no clone of {repository}: set TREERING_BENCH_CLONES to the folder that has clones.")
    owner, _, name = repository.partition("/")
    places = [Path(named) / f"{owner}+{name}" / "repo", Path(named) / owner / name, Path(named) / name]
    for place in places:
        if place.is_dir():
            return place
    raise MissingData(f"no clone of {repository}: looked for {', '.join(map(str, places))}.")


def files_at(clone: Path, commit: str) -> Mapping[str, str]:
    """Return the text of every file of a commit, by path; what holds a zero byte is not text."""
    command = ["git", "-C", str(clone), "archive", "--format=tar", commit]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        read = ((one.name, files.extractfile(one)) for one in files if one.isfile())
        contents = [(name, file.read()) for name, file in read if file]
    return {name: content.decode("utf-8", "replace") for name, content in contents if b"\0" not in content}


def _issue(row: Mapping[str, Any]) -> CodeQuestion:
    asked = _question(row["instance_id"], row["repo"], row["base_commit"], row["problem_statement"], row["gold_files"])
    places = dict(_changed(row.get("patch", "")))
    return replace(asked, changed={path: lines for path, lines in places.items() if path in asked.gold})


def _asked(row: Mapping[str, Any]) -> CodeQuestion:
    return _question(row["id"], row["repo"], row["commit"], row["question"], row["gold_files"])


def _question(identity: str, repository: str, commit: str, text: str, gold: Iterable[str]) -> CodeQuestion:
    return CodeQuestion(identity, repository, commit, text, frozenset(gold))


_FILE_OF_PATCH = re.compile(r"^diff --git a/(\S+) b/\S+$(.*?)(?=^diff --git |\Z)", re.MULTILINE | re.DOTALL)
_HUNK = re.compile(r"^@@.*?@@.*?\n(.*?)(?=^@@|\Z)", re.MULTILINE | re.DOTALL)
_TELLING = 8
"""Characters of a line that is told from others."""


def _changed(patch: str) -> Iterator[tuple[str, list[frozenset[str]]]]:
    """Return by path, for each hunk of a patch, the lines it takes out; those around where it only adds some."""
    for path, hunks in _FILE_OF_PATCH.findall(patch):
        places = [frozenset(_lines(hunk, "-")) or frozenset(_lines(hunk, " ")) for hunk in _HUNK.findall(hunks)]
        yield path, [lines for lines in places if lines]


def _lines(hunk: str, sign: str) -> Iterator[str]:
    lines = (line[1:].strip() for line in hunk.splitlines() if line.startswith(sign))
    return (line for line in lines if len(line) >= _TELLING and any(map(str.isalpha, line)))


SETS = {"issues": _issue, "questions": _asked, "issues-held-out": _issue}
"""Every set by name, with the function that reads one of its lines."""

"""The page of what coding agents get.

`python -m benchmarks agents --json FILE` measures, and `python -m benchmarks.agent_page FILE` writes the tables.
Times are left out: they depend on the machine.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.agent_context import TUNED_ON
from benchmarks.figures import Target, number
from benchmarks.source_tree import git

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/benchmarks/agents.md"
BEGINS, ENDS = "<!-- measured: written by `python -m benchmarks.agent_page` -->", "<!-- end of what was measured -->"
_POINTERS = ("prompt, tasks with pointers", "prompt, a changed file in the first 3")
_PACK = "pack, a changed file in the first 3 items"
_BEFORE: Mapping[str, tuple[int, int]] = {
    "celery/celery": (90, 67),
    "honojs/hono": (81, 85),
    "pallets/flask": (46, 72),
    "junegunn/fzf": (75, 78),
    "BurntSushi/ripgrep": (55, 80),
    "google/gson": (78, 85),
    "encode/httpx": (62, 78),
    "trpc/trpc": (77, 52),
    "spf13/cobra": (56, 84),
    "astral-sh/uv": (84, 35),
}
"""The same two figures of prompts with commit 4094993f, on the same tasks and day."""

_Row = Mapping[str, Any]


def page_with(text: str, rows: Sequence[_Row], commit: str) -> str:
    """Return the page with its tables written anew."""
    before, _, rest = text.partition(BEGINS)
    after = rest.partition(ENDS)[2]
    measured = [row for row in rows if "value" in row and row["unit"] not in ("ms", "s")]
    tables = "\n\n".join(["\n".join(_goals(measured)), "\n".join(_by_repository(measured))])
    return f"{before}{BEGINS}\n\n{tables}\n\nMeasured with commit {commit}.\n\n{ENDS}{after}"


def _goals(rows: Sequence[_Row]) -> Iterator[str]:
    """Write one line for each goal: the mean over the repositories tuned on, and over the others."""
    yield "| what | goal | tuned on | others, from worst to best |"
    yield "| --- | --- | --- | --- |"
    for what in dict.fromkeys(map(_what, rows)):
        tuned = [row for row in rows if _what(row) == what and _is_tuned_on(row)]
        others = [row for row in rows if _what(row) == what and not _is_tuned_on(row)]
        goals = {_goal(row) for row in (*tuned, *others)} - {""}
        goal = goals.pop() if len(goals) == 1 else "as search" if goals else ""
        yield f"| {what} | {goal} | {_mean(tuned)} | {_mean(others)} |"


def _by_repository(rows: Sequence[_Row]) -> Iterator[str]:
    """Write for each repository what prompts and packs find; `before` where it was measured on the same tasks."""
    yield "| repository | prompts with pointers, before | now | right, before | now | pack right | search right |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    figures = {row["name"]: row for row in rows}
    for repository in (name.rpartition(": ")[0] for name in figures if name.endswith(_POINTERS[0])):
        shown, right = (number(round(figures[f"{repository}: {what}"]["value"])) for what in _POINTERS)
        shown_before, right_before = _BEFORE.get(repository, ("", ""))
        pack = figures[f"{repository}: {_PACK}"]
        beside = f"{number(round(pack['value']))} | {number(round(pack['target']['bound']))}"
        name = f"{repository}, tuned on" if repository in TUNED_ON else repository
        yield f"| {name} | {shown_before} | {shown} | {right_before} | {right} | {beside} |"


def _what(row: _Row) -> str:
    name: str = row["name"].rpartition(": ")[2] if "/" in row["name"].partition(": ")[0] else row["name"]
    return name.replace(", tuned on", "").replace(", others", "").replace(", other repositories", "")


def _is_tuned_on(row: _Row) -> bool:
    return any(one in row["name"] for one in (*TUNED_ON, ", tuned on")) or "celery, hono" in row["note"]


def _goal(row: _Row) -> str:
    target = row["target"]
    return f"{Target(**target)} {row['unit']}".strip() if target else ""


def _mean(rows: Sequence[_Row]) -> str:
    if not rows:
        return ""
    values = sorted(row["value"] for row in rows)
    mean = f"{number(sum(values) / len(values))} {rows[0]['unit']}".strip()
    is_small_better = rows[0]["target"] and not rows[0]["target"]["at_least"]
    worst, best = (values[-1], values[0]) if is_small_better else (values[0], values[-1])
    return f"{mean} ({number(worst)} to {number(best)})" if len(values) > 2 and worst != best else mean


def main() -> None:
    """Write the page from a file of figures, with the commit checked out."""
    parser = argparse.ArgumentParser("python -m benchmarks.agent_page", description=main.__doc__)
    parser.add_argument("figures", type=Path, help="written by `python -m benchmarks agents --json FILE`")
    parser.add_argument("--commit", default="HEAD", help="the one that was measured")
    given = parser.parse_args()
    rows = json.loads(given.figures.read_text(encoding="utf-8"))["agents"]
    commit = git(ROOT, "rev-parse", "--short=12", given.commit).strip()
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), rows, commit), encoding="utf-8")


if __name__ == "__main__":
    main()

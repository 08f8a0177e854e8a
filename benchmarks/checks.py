"""`treering check` on a large change: what it costs with a space, and without one."""

from collections.abc import Iterator
from pathlib import Path

import treering
from benchmarks.costs import typical
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import run_alone
from benchmarks.source_tree import commit, git

_FILES, _TOUCHED, _RECORDS, _DECISIONS = 5_000, 1_000, 60, 300
_QUICK = 20
_ROUNDS = 3
_MOST_SECONDS = 10


def measure(plan: Plan) -> list[Row]:
    """Make a repository, a space that has read it and holds decisions on its lines, and a change of a fifth of it."""
    part = _QUICK if plan.quick else 1
    with workplace() as folder:
        repository = folder / "repository"
        touched = _write(repository, _FILES // part, _TOUCHED // part)
        space = folder / "space.db"
        _believe(repository, space, _DECISIONS // part)
        _change(repository, touched)
        return list(_checks(repository, space, len(touched), _FILES // part))


def _checks(repository: Path, space: Path, touched: int, files: int) -> Iterator[Figure]:
    asked = ("-m", "treering", "check", "--base", "main", "--format", "sarif", "--fail-on", "none")
    for name, arguments in (("with a space", ("--space", f"sqlite:{space}")), ("without a space", ("--no-space",))):
        cost = typical([run_alone((*asked, *arguments), folder=repository) for _ in range(_ROUNDS)])
        yield Figure(
            f"`treering check`, {touched:,} of {files:,} files changed, {name}",
            cost.cpu,
            "s CPU",
            at_most(_MOST_SECONDS),
            f"{cost.wall:.1f} s",
        )


def _write(repository: Path, files: int, touched: int) -> list[Path]:
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    for number in range(files):
        file = _file(repository, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_code(number) if number % 10 else _page(repository, number))
    records = repository / "docs/decisions"
    records.mkdir(parents=True)
    for number in range(min(_RECORDS, files // 20)):
        text = f"# {number}. Choice {number}\n\nStatus: accepted\n\n## Context\n\nHow is part {number} kept?\n\n"
        (records / f"{number:04}-choice.md").write_text(f"{text}## Decision\n\nPart {number} is kept in files.\n")
    (repository / "AGENTS.md").write_text("# Rules\n\n- Never call `time.sleep()` in a request.\n- Tests must pass.\n")
    commit(repository, [str(one.relative_to(repository)) for one in sorted(repository.rglob("*")) if _is_own(one)])
    return [_file(repository, number) for number in range(touched)]


def _is_own(file: Path) -> bool:
    return file.is_file() and ".git" not in file.parts


def _file(repository: Path, number: int) -> Path:
    ending = "py" if number % 10 else "md"
    return repository / f"code/part_{number // 200}/module_{number}.{ending}"


def _page(repository: Path, number: int) -> str:
    path = _file(repository, number + 1).relative_to(repository)
    return f"# Page {number}\n\nSee `{path}`.\n\nCall `handle_{number + 2}_3` with a number.\n"


def _code(number: int) -> str:
    parts = [
        f'def handle_{number}_{part}(value: int) -> int:\n    """Return step {part} of {number}."""\n'
        + "".join(f"    value = value * {line} + {number}\n" for line in range(12))
        + "    return value\n"
        for part in range(8)
    ]
    return f'"""Module {number}."""\n\nLIMIT = {number}\n\n\n' + "\n\n".join(parts)


def _believe(repository: Path, file: Path, decisions: int) -> None:
    with treering.open(f"sqlite:{file}", background=False, whole=False) as space:
        space.ingest("repo", input={"path": str(repository)})
        sources = list(space.engine.ledger.sources_at(scope="/", origins=_origins(repository)))
        for number, origin in enumerate(sources[:decisions]):
            state = space.engine.ledger.sources_at(scope="/", origins=[origin])[origin]
            source = space.engine.ledger.get(state.id)
            segment = source.segments[0]  # type: ignore[union-attr]
            space.crystallize(
                "knowledge",
                input={
                    "kind": "decision",
                    "title": f"The limit of {number}",
                    "payload": {"question": f"What limits {number}?", "outcome": f"LIMIT of {number}"},
                    "evidence_refs": [{"source_id": state.id, "segment_id": segment.segment_id}],
                    "status": "active",
                },
            )


def _origins(repository: Path) -> list[str]:
    root = f"repo:{repository.resolve().as_posix()}"
    return [f"{root}#{_file(repository, number).relative_to(repository)}" for number in range(_FILES)]


def _change(repository: Path, touched: list[Path]) -> None:
    git(repository, "checkout", "--quiet", "-b", "change")
    for number, file in enumerate(touched):
        if number % 50 == 1:
            file.unlink()
        else:
            file.write_text(file.read_text().replace(f"LIMIT = {number}", "LIMIT = 1").replace(f"_{number}_3", "_3_x"))
    git(repository, "add", "--all")
    commit(repository, [str(one.relative_to(repository)) for one in touched if one.exists()])

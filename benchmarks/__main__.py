"""`python -m benchmarks [NAME …]`: run benchmarks and print their figures beside the targets, as Markdown."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    agent_context,
    checks,
    clients,
    cluster,
    code_files,
    discussion,
    docs_or_code,
    embedding,
    files,
    graph,
    honest_notes,
    hooks,
    ingest,
    injections,
    latency,
    ledgers,
    memories,
    merging,
    nearest,
    packs,
    page,
    paragraphs,
    peers,
    poisoning,
    precision,
    projects,
    recall,
    repetitions,
    scale,
    spaces,
    start,
    text,
    walks,
    web,
    wiki_agents,
    wiki_pages,
    writes,
)
from benchmarks.figures import Figure, Row, as_data, table
from benchmarks.plan import Plan
from benchmarks.truth import measuring as truth
from treering import __version__

BENCHMARKS: Mapping[str, Callable[[Plan], list[Row]]] = {
    "start": start.measure,
    "writes": writes.measure,
    "ledgers": ledgers.measure,
    "spaces": spaces.measure,
    "cluster": cluster.measure,
    "ingest": ingest.measure,
    "checks": checks.measure,
    "agents": agent_context.measure,
    "hooks": hooks.measure,
    "latency": latency.measure,
    "paragraphs": paragraphs.measure,
    "cost": peers.measure,
    "scale": scale.measure,
    "text": text.measure,
    "embedding": embedding.measure,
    "files": files.measure,
    "nearest": nearest.measure,
    "graph": graph.measure,
    "walks": walks.measure,
    "web": web.measure,
    "clients": clients.measure,
    "projects": projects.measure,
    "memories": memories.measure,
    "merging": merging.measure,
    "wiki_agents": wiki_agents.measure,
    "wiki_pages": wiki_pages.measure,
    "discussion": discussion.measure,
    "truth": truth.measure,
    "recall": recall.measure,
    "recall_table": page.measure,
    "repetitions": repetitions.measure,
    "code": code_files.measure,
    "docs_or_code": docs_or_code.measure,
    "packs": packs.measure,
    "precision": precision.measure,
    "honest_notes": honest_notes.measure,
    "poisoning": poisoning.measure,
    "injections": injections.measure,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for."""
    given = _parse(arguments)
    plan = Plan.read(
        quick=given.quick, keep=given.keep, against=given.against, seconds=given.seconds, sizes=given.size or ()
    )
    found: dict[str, list[Row]] = {}
    for name in given.names or BENCHMARKS:
        began = time.perf_counter()
        print(f"{name} …", file=sys.stderr, flush=True)
        found[name] = [_free(row) if plan.quick else row for row in BENCHMARKS[name](plan)]
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        print(f"\n## {name}\n\n{table(found[name])}", flush=True)
    print(f"\n{_summary(found)}\n\n{_machine()}")
    if given.json:
        data = {name: [as_data(row) for row in rows] for name, rows in found.items()}
        given.json.write_text(json.dumps(data, indent=2, ensure_ascii=False), encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure Treering.")
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to a file")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write recall, question by question, to a file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare recall with a file written by --keep")
    parser.add_argument("--seconds", type=float, metavar="N", help="how long the clients of a server ask; default 60")
    parser.add_argument(
        "--size", type=int, action="append", metavar="N", help="texts for cost (2000) and scale; repeatable"
    )
    return parser.parse_args(arguments)


def _free(row: Row) -> Row:
    """Take the target away: those are not meant for small sizes."""
    return replace(row, target=None) if isinstance(row, Figure) else row


def _summary(found: Mapping[str, Sequence[Row]]) -> str:
    held = [row for rows in found.values() for row in rows if isinstance(row, Figure) and row.target]
    missed = [row.name for row in held if not row.met]
    return f"{len(held) - len(missed)} of {len(held)} targets met." + "".join(f"\n- missed: {name}" for name in missed)


def _machine() -> str:
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    return (
        f"Treering {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} CPUs, load {load}."
    )


if __name__ == "__main__":
    main()

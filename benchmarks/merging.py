"""Two spaces that grew apart: the CPU seconds of their merge, and the bytes of a bundle for each patch."""

import resource
from contextlib import closing
from pathlib import Path

import treering
from benchmarks.figures import Figure, Row
from benchmarks.plan import Plan, workplace
from treering.extensions.sharing.bundles import packed
from treering.extensions.sharing.merge_rules.entries import linked_by_id
from treering.extensions.sharing.merging import entries, merge_ledger
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, Builder
from treering.testing.fakes import START, SteppingClock

_PATCHES, _QUICK = 10_000, 200
_NEW = 100
_CLAIMS = 20  # one claim in so many is contradicted by the other side


def measure(plan: Plan) -> list[Row]:
    """Let two spaces grow apart from nothing in common, each by so many patches, and merge one into the other."""
    count = _QUICK if plan.quick else _PATCHES
    with workplace() as folder:
        ours, theirs = (_grown(folder / f"{name}.db", name, count) for name in ("ours", "theirs"))
        with closing(treering.open_ledger(str(ours))) as one, closing(treering.open_ledger(str(theirs))) as other:
            began = _cpu()
            bundle = packed(linked_by_id(entries(other)))
            packing = _cpu() - began
            first, report = _merged(one, other)
            again, _ = _merged(one, other)
            back, _ = _merged(other, one)
            _write(other, "later", _NEW)
            some, _ = _merged(one, other)
    what = f"{count:,} patches each side"
    return [
        Figure(f"merge, {what}", first, "s CPU", note=f"{len(report.contested):,} contested"),
        Figure(f"merge again, {what}", again, "s CPU", note="nothing new"),
        Figure(f"merge the other way, {what}", back, "s CPU"),
        Figure(f"merge {_NEW} new patches, {what} before", some, "s CPU"),
        Figure("memory at its most", _peak(), "MiB", note="of the process, with both spaces open"),
        Figure(f"packing a bundle of {count:,} patches", packing, "s CPU"),
        Figure("bundle bytes per patch", len(bundle) / count, "bytes", note="a source and a fact that rests on it"),
    ]


def _grown(file: Path, name: str, count: int) -> Path:
    with closing(treering.open_ledger(str(file))) as ledger:
        _write(ledger, name, count)
    return file


def _write(ledger: Ledger, name: str, count: int) -> None:
    make = Builder(SteppingClock(START, seed=name))
    for number in range(count):
        source = make.source(f"The port of service {number} is set by {name}.", origin=f"{name}/{number}.md")
        value = name if number % _CLAIMS == 0 else f"{number}"
        whose = "both" if number % _CLAIMS == 0 else name
        fact = make.fact(f"service {whose} {number}", "port", value, make.evidence(source))
        ledger.commit(make.patch(source, fact))


def _merged(one: Ledger, other: Ledger) -> tuple[float, "treering.MergeReport"]:
    began = _cpu()
    report = merge_ledger(one, other, by=ADA, name="the other")
    return _cpu() - began, report


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

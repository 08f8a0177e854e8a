"""The result of an ingest in words, for people and for models."""

from collections import Counter

from treering.core.characters import unmarked
from treering.core.counting import counted_things
from treering.verbs.ingest.report import IngestReport, ItemResult, JobRow, is_redaction

_KINDS = {"lock file": "lock files", "minified": "minified files", "generated": "generated files", "binary": "binaries"}
_THINGS = {"repo": "file", "path": "file", "url": "page", "source": "text"}
_SAVED = frozenset({"created", "updated", "moved", "removed", "proposed"})
"""Outcomes of items that an ingest wrote."""
_MAX_FILES = 3
_MAX_TENTHS = 10
_MAX_SECONDS = 120


def ingest_in_words(report: IngestReport, seconds: float | None = None) -> str:
    """Return a sentence such as "Read 487 files in 12 s: 431 indexed, 51 summarized (lock files), 5 skipped."."""
    counts = Counter(report.counts)
    if report.mode == "repo" and counts.total():
        counts[next((one.outcome for one in report.items if is_map(one)), "unchanged")] -= 1
    summarized = sum(report.summarized.values())
    parts = {
        "indexed": counts["created"] - summarized,
        f"summarized ({', '.join(_KINDS.get(why, why) for why in sorted(report.summarized))})": summarized,
        **{outcome: counts[outcome] for outcome in ("updated", "moved", "removed", "unchanged", "skipped", "failed")},
        "waiting for review": counts["proposed"],
    }
    total = counts.total() - counts["removed"]
    counted = ", ".join(f"{number:,} {what}" for what, number in parts.items() if number > 0) or "nothing new"
    if total and counts["unchanged"] == total == counts.total():
        counted = "nothing changed"
    # A file may contain several items, such as the tickets of an export.
    thing = "item" if any(map(_is_part, report.items)) else _THINGS.get(report.mode, "item")
    took = f" in {duration(seconds)}" if seconds is not None else ""
    return f"Read {counted_things(total, thing)}{took}: {counted}.{_redacted(report)}"


def saved_in_words(job: JobRow | None) -> str:
    """Return what an interrupted ingest saved. `job`: its job, or `None` if it wrote none."""
    if job is None or not (saved := job.counts.keys() & _SAVED):
        return "Nothing was saved."
    present = {*saved, "unchanged"} - {"removed"}  # the total counts no removed files
    number = sum(job.counts.get(outcome, 0) for outcome in present)
    number -= any(map(is_map, job.items))
    files = counted_things(job.total or number, _THINGS.get(job.mode, "item"))
    return f"Saved {f'{number:,} of ' if job.total else ''}{files}; run the command again to continue."


def _redacted(report: IngestReport) -> str:
    """Return a sentence such as " Redacted 3 secrets in a.env, b.env."; empty without secrets."""
    if not report.redacted:
        return ""
    origins = dict.fromkeys(warning.partition(": ")[0] for warning in report.warnings if is_redaction(warning))
    names = [unmarked(_path_of(origin)) for origin in origins]
    more = f" and {counted_things(len(names) - _MAX_FILES, 'more file')}" if len(names) > _MAX_FILES else ""
    places = f" in {', '.join(names[:_MAX_FILES])}{more}" if names else ""
    return f" Redacted {counted_things(report.redacted, 'secret')}{places}."


def is_map(item: ItemResult) -> bool:
    """Return whether an item is the map of a repository, which is an item of its own, and no file."""
    return item.origin.startswith("repo:") and "#" not in item.origin


def _is_part(item: ItemResult) -> bool:
    """Return whether an item is a part of a file, such as a ticket, a memory or a conversation."""
    return item.origin.startswith(("repo:", "file:")) and "#" in path_of_item(item)


def path_of_item(item: ItemResult) -> str:
    """Return the path of a file, in its repository if it has one; the origin of anything else."""
    return _path_of(item.origin)


def _path_of(origin: str) -> str:
    root, _, path = origin.partition("#")
    return path if root.startswith("repo:") and path else origin.removeprefix("file:")


def duration(seconds: float) -> str:
    """Return a duration as people say it: `0.4 s`, `12 s`, `4 minutes`."""
    if seconds < _MAX_SECONDS:
        return f"{seconds:.1f} s" if seconds < _MAX_TENTHS else f"{seconds:.0f} s"
    return counted_things(round(seconds / 60), "minute")


def searchable_now(pending: int) -> str:
    """Return the sentence about passages that are found by words already, but not by meaning yet."""
    return f"Searchable now; {counted_things(pending, 'passage')} still to be embedded."

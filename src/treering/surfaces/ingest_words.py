"""The result of an ingest in words, for people and for models."""

from collections import Counter

from treering.core.counting import counted_things
from treering.verbs.ingest.report import IngestReport, ItemResult

_KINDS = {"lock file": "lock files", "minified": "minified files", "generated": "generated files", "binary": "binaries"}
_THINGS = {"repo": "file", "path": "file", "url": "page", "source": "text"}
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
    redacted = f" Redacted {counted_things(report.redacted, 'secret')}." if report.redacted else ""
    return f"Read {counted_things(total, thing)}{took}: {counted}.{redacted}"


def is_map(item: ItemResult) -> bool:
    """Return whether an item is the map of a repository, which is an item of its own, and no file."""
    return item.origin.startswith("repo:") and "#" not in item.origin


def _is_part(item: ItemResult) -> bool:
    """Return whether an item is a part of a file, such as a ticket, a memory or a conversation."""
    return item.origin.startswith(("repo:", "file:")) and "#" in path_of_item(item)


def path_of_item(item: ItemResult) -> str:
    """Return the path of a file, in its repository if it has one; the origin of anything else."""
    root, _, path = item.origin.partition("#")
    return path if root.startswith("repo:") and path else item.origin.removeprefix("file:")


def duration(seconds: float) -> str:
    """Return a duration as people say it: `0.4 s`, `12 s`, `4 minutes`."""
    if seconds < _MAX_SECONDS:
        return f"{seconds:.1f} s" if seconds < _MAX_TENTHS else f"{seconds:.0f} s"
    return counted_things(round(seconds / 60), "minute")


def searchable_now(pending: int) -> str:
    """Return the sentence about passages that are found by words already, but not by meaning yet."""
    return f"Searchable now; {counted_things(pending, 'passage')} still to be embedded."

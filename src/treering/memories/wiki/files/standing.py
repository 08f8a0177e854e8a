"""Whether the pages of a written wiki still say what the sources say."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from treering.memories.wiki.files.manifest import WikiManifest, WrittenFile
from treering.memories.wiki.files.page_paths import RESERVED
from treering.tools.envelope import Value

PageState = Literal["fresh", "stale", "unresolved"]
"""`stale`: cited lines changed; `unresolved`: a cited file is gone, or a link of the page leads nowhere."""

_MOST_REASONS = 5


class PageStanding(Value):
    """A page, and whether it still stands."""

    path: str
    title: str
    state: PageState
    why: tuple[str, ...] = ()


def standings(manifest: WikiManifest, digests: Mapping[str, Collection[str]]) -> list[PageStanding]:
    """Return how the pages stand. `digests`: of the texts that each source file holds now, by its path."""
    return [_standing(path, record, digests) for path, record in sorted(manifest.files.items()) if path not in RESERVED]


def _standing(path: str, record: WrittenFile, digests: Mapping[str, Collection[str]]) -> PageStanding:
    missing = list(dict.fromkeys(_missing(record, digests)))
    changed = list(dict.fromkeys(_changed(record, digests)))
    state: PageState = "unresolved" if missing else "stale" if changed else "fresh"
    return PageStanding(path=path, title=record.title, state=state, why=_bounded([*missing, *changed]))


def _missing(record: WrittenFile, digests: Mapping[str, Collection[str]]) -> Iterator[str]:
    yield from (f"{one.path} is gone" for one in record.cited if one.path not in digests)
    yield from (f"its link {link} leads nowhere" for link in record.unresolved)


def _changed(record: WrittenFile, digests: Mapping[str, Collection[str]]) -> Iterator[str]:
    for one in record.cited:
        if one.path in digests and one.digest and one.digest not in digests[one.path]:
            yield f"{one.path}#L{one.first}-L{one.last} changed"


def _bounded(reasons: list[str]) -> tuple[str, ...]:
    more = len(reasons) - _MOST_REASONS
    return (*reasons[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else []))

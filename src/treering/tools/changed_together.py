"""Which files change together, as the map of their repository tells."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from treering.core.objects import Source
from treering.derived.code_places import root_and_path
from treering.ports.ledger import ObjectRequest
from treering.tools.code_related import CodeNeighbour, told_in_words
from treering.tools.envelope import Call


def changes_with(call: Call, sources: Sequence[Source]) -> list[CodeNeighbour]:
    """Return the files that changed together with some files of one repository, most often first."""
    placed = {path: root for source in sources if (place := root_and_path(source)) for root, path in [place]}
    roots = set(placed.values())
    if len(roots) != 1:
        return []
    root = roots.pop()
    states = call.engine.ledger.sources(scope=sources[0].scope, root=root.removesuffix("#"))
    live = {origin: state.id for origin, state in states.items() if state.status == "active"}
    history = _history(call, live.get(root.removesuffix("#"), ""))
    total = history.get("commits", 0)
    return [
        CodeNeighbour(
            id=live[origin],
            title=path,
            relation="changes_with",
            direction="any",
            told=f"{told_in_words('changes_with', 'any')} ({count} of the last {total} commits, last on {last})",
            place=path,
        )
        for path, count, last in _partners(history, placed.keys())
        if (origin := f"{root}{path}") in live
    ]


def _history(call: Call, identity: str) -> Mapping[str, Any]:
    if not identity:
        return {}
    (found,) = call.engine.ledger.read([ObjectRequest(objects=(identity,))])
    item = found.objects.get(identity)
    told: Any = item.payload.get("changed_together") if isinstance(item, Source) else None
    return told if isinstance(told, Mapping) else {}


def _partners(history: Mapping[str, Any], own: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Return the paths outside of some that changed together with one of these, each once, with how often and when."""
    paths, seen = history.get("paths", ()), set[str]()
    for one, other, count, last in history.get("pairs", ()):
        ends = paths[one], paths[other]
        for mine, theirs in (ends, ends[::-1]):
            if mine in own and theirs not in own and theirs not in seen:
                seen.add(theirs)
                yield theirs, count, last

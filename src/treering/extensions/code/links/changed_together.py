"""Files that changed together, by the map of their repository."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from treering.core.objects import Source
from treering.extensions.code.links.neighbours import relation_in_words
from treering.ports.ledger import ObjectRequest
from treering.retrieval.index.code_places import root_and_path
from treering.verbs.envelope import Call
from treering.verbs.query.code_links import CodeNeighbour


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
            told=f"{relation_in_words('changes_with', 'any')} ({count} of the last {total} commits, last on {last})",
            place=path,
        )
        for path, count, last in partners_of(history, placed.keys())
        if (origin := f"{root}{path}") in live
    ]


def _history(call: Call, identity: str) -> Mapping[str, Any]:
    if not identity:
        return {}
    (read,) = call.engine.ledger.read([ObjectRequest(objects=(identity,))])
    item = read.objects.get(identity)
    history: Any = item.payload.get("changed_together") if isinstance(item, Source) else None
    return history if isinstance(history, Mapping) else {}


def partners_of(history: Mapping[str, Any], own: Collection[str]) -> Iterator[tuple[str, int, str]]:
    """Yield other paths that changed together with one of some, each once, with the commits and the last day."""
    paths, seen = history.get("paths", ()), set[str]()
    for one, other, count, last in history.get("pairs", ()):
        ends = paths[one], paths[other]
        for mine, theirs in (ends, ends[::-1]):
            if mine in own and theirs not in own and theirs not in seen:
                seen.add(theirs)
                yield theirs, count, last

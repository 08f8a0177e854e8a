"""The lint rule about sources that are the same file, by the current places of files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from treering.core.characters import named
from treering.core.evidence import moved_files
from treering.core.filters import Compare
from treering.core.objects import Knowledge, Source
from treering.core.patch import Operation, Transition, Update
from treering.ports.ledger import Selection
from treering.verbs.ingest.known import repointed
from treering.verbs.lint.survey import Problem, Survey

SAME_FILE = "same-file"


def same_files(seen: Survey) -> Iterator[Problem]:
    """Report active sources that are the same file or repository, by current or new location."""
    for (scope, origin), sources in sorted(_by_file(seen).items()):
        group = sorted(sources, key=lambda source: (source.captured_at, source.id), reverse=True)
        newest, *older = group
        yield Problem(
            ids=tuple(source.id for source in group),
            explanation=f"{len(group)} active sources of {scope} are the same file: "
            f"{', '.join(named(source.origin) for source in group)}. The first one was read last.",
            fix=_folding(newest, older, origin, seen),
            fix_summary=f"Retain the one read last ({newest.id}), move valid evidence there, and archive the "
            f"{'other' if len(older) == 1 else 'others'}.",
        )


def _by_file(seen: Survey) -> Mapping[tuple[str, str], list[Source]]:
    """Return active sources that are the same file, by scope and the origin that the file has today.

    Active sources of a scope have different origins, so at least one of them is in another place now.
    """
    by_scope: dict[str, dict[str, str]] = defaultdict(dict)
    for (scope, origin), today in seen.elsewhere.items():
        by_scope[scope][origin] = today
    groups: dict[tuple[str, str], list[Source]] = {}
    for scope, elsewhere in by_scope.items():
        moved = {**elsewhere, **_moved(scope, elsewhere, seen)}
        by_place: dict[str, list[str]] = defaultdict(list)
        for origin, place in moved.items():
            by_place[place].append(origin)
        for place, origins in by_place.items():
            if place:
                holders = [] if moved.get(place) else [place]
                groups[scope, place] = _active(scope, [*origins, *holders], seen)
    return {file: sources for file, sources in groups.items() if len(sources) > 1}


def _active(scope: str, origins: Sequence[str], seen: Survey) -> list[Source]:
    states = seen.ledger.sources_at(scope=scope, origins=origins).values()
    ids = [state.id for state in states if state.status == "active"]
    return [item for item in map(seen.find, ids) if isinstance(item, Source)] if len(ids) > 1 else []


def _moved(scope: str, elsewhere: Mapping[str, str], seen: Survey) -> Mapping[str, str]:
    """Return the new origins of files that are gone from their place, by their old origins."""
    if all(elsewhere.values()):
        return {}
    selection = Selection(scope, types=("source",), where=Compare("status", "eq", "active"))
    sources = (item for item in seen.ledger.select(selection, altered=seen.altered) if item.scope == scope)
    fingerprints = {item.origin: item.fingerprint for item in sources if isinstance(item, Source)}
    gone = {origin: one for origin, one in fingerprints.items() if elsewhere.get(origin) == ""}
    present = {elsewhere.get(origin, origin): one for origin, one in fingerprints.items() if origin not in gone}
    return moved_files(gone, present)


def _folding(newest: Source, older: Sequence[Source], origin: str, seen: Survey) -> tuple[Operation, ...]:
    operations: list[Operation] = [
        Transition(id=one.id, expected_revision=one.revision, to="archived") for one in older
    ]
    if newest.origin != origin:
        operations.append(Update(id=newest.id, expected_revision=newest.revision, changes={"origin": origin}))
    return (*operations, *_evidence(newest, older, seen))


def _evidence(newest: Source, older: Sequence[Source], seen: Survey) -> Iterator[Operation]:
    """Yield the updates that point evidence to the same words in the newest source."""
    resting = {identity for one in older for identity in seen.ledger.dependents(one.id)}
    for identity in sorted(resting):
        item = seen.find(identity)
        if not isinstance(item, Knowledge):
            continue
        refs = item.evidence_refs
        for one in older:
            refs = repointed(refs, one, newest.id, newest.segments)
        if refs != item.evidence_refs:
            yield Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": refs})

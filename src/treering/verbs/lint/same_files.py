"""The lint rule about sources that are the same file. It needs the current places of files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from treering.core.characters import named
from treering.core.evidence import moved_files
from treering.core.objects import Knowledge, Source
from treering.core.patch import Operation, Transition, Update
from treering.verbs.ingest.known import repointed
from treering.verbs.lint.survey import Finding, Survey

SAME_FILE = "same-file"


def same_files(seen: Survey) -> Iterator[Finding]:
    """Report active sources that are the same file or repository, by current or new location."""
    for (scope, origin), group in sorted(_by_file(seen).items()):
        if len(group) > 1:
            group.sort(key=lambda source: (source.captured_at, source.id), reverse=True)
            newest, *older = group
            yield Finding(
                rule=SAME_FILE,
                severity="error",
                ids=tuple(source.id for source in group),
                explanation=f"{len(group)} active sources of {scope} are the same file: "
                f"{', '.join(named(source.origin) for source in group)}. The first one was read last.",
                fix=_folding(newest, older, origin, seen),
                fix_summary=f"Retain the one read last ({newest.id}), move valid evidence there, and archive the "
                f"{'other' if len(older) == 1 else 'others'}.",
            )


def _by_file(seen: Survey) -> Mapping[tuple[str, str], list[Source]]:
    """Group active sources by scope and the origin that their file has today."""
    by_scope: dict[str, list[Source]] = defaultdict(list)
    for source in seen.current(Source):
        by_scope[source.scope].append(source)
    groups: dict[tuple[str, str], list[Source]] = defaultdict(list)
    for scope, sources in by_scope.items():
        moved = _moved(sources, seen.origins_today)
        for source in sources:
            today = seen.origins_today.get(source.origin) or moved.get(source.origin) or source.origin
            groups[scope, today].append(source)
    return groups


def _moved(sources: Sequence[Source], today: Mapping[str, str]) -> Mapping[str, str]:
    """Return the new origins of files that are gone from their place, by their old origins."""
    gone = {one.origin: one.fingerprint for one in sources if today.get(one.origin) == ""}
    present = {today.get(one.origin, one.origin): one.fingerprint for one in sources if one.origin not in gone}
    return moved_files(gone, present) if gone else {}


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

"""The contents of files on the branches of a repository: what a source holds after one of the branches was read."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from treering.core.evidence import Locator, Segment, SegmentPlace
from treering.core.objects import Source
from treering.core.versions import HeldContents, known_branches, places_of_branches
from treering.ports.adapter import BranchRead
from treering.verbs.ingest.segments import Carried


def read_of(origin: str, reads: Iterable[BranchRead]) -> BranchRead | None:
    """Return the branch to read of the repository of an origin; `None` if none is given."""
    return next((one for one in reads if origin == one.root or origin.startswith(f"{one.root}#")), None)


def contents_here(fingerprint: str, read: BranchRead | None) -> str | None:
    """Return the contents that a source has on the branch that is read; `None` where it is not there."""
    return fingerprint if read is None else HeldContents.parse(fingerprint).on(read.branch)


def versions_after(fingerprint: str | None, read: BranchRead | None, contents: str | None) -> HeldContents:
    """Return what a source holds after reading: the branch has other `contents` of it now, or none.

    `fingerprint` is the one it had, `None` of one that is new.
    """
    if read is None:
        return HeldContents.parse(contents or "")
    before = HeldContents.parse(fingerprint) if fingerprint is not None else HeldContents(())
    after = before.moved(read.branch, contents, known=branches_now(read))
    return after.leading(after.on(leading_after(read)))


def with_branches_of(versions: HeldContents, folded: str, read: BranchRead) -> HeldContents:
    """Return what a source holds, with the branches on which another one, folded into it, has the same contents.

    Where that has others on a branch, they are read again with the branch.
    """
    known = branches_now(read)
    for one in HeldContents.parse(folded).each:
        for branch in one.branches or () if one.fingerprint in versions.fingerprints else ():
            versions = versions.moved(branch, one.fingerprint, known=known)
    return versions.leading(versions.on(leading_after(read)))


def versions_without(fingerprint: str, read: BranchRead, gone: Collection[str]) -> HeldContents:
    """Return what a source holds where branches are gone."""
    left = HeldContents.parse(fingerprint).without(gone, known=[one for one in branches_now(read) if one not in gone])
    return left.leading(left.on(leading_after(read, gone)))


def branches_now(read: BranchRead) -> tuple[str, ...]:
    """Return the branches that are known after a reading."""
    return tuple(dict.fromkeys((*known_branches(read.known), read.branch)))


def leading_after(read: BranchRead, gone: Collection[str] = ()) -> str:
    """Return the branch that a source tells of itself, where it has several contents: the one that was read first."""
    known = known_branches(read.known)
    told = read.known.get("leading")
    first = told if isinstance(told, str) and told in known else next(iter(known), read.branch)
    return read.branch if first in gone else first


def branches_gone(read: BranchRead) -> frozenset[str]:
    """Return the known branches that are no more. None is, as long as the leading one was not read to its end.

    Until then nobody knows whether it has taken up what stood on them. A branch of another clone is not judged here.
    """
    if read.existing is None:
        return frozenset()
    known, lead = known_branches(read.known), leading_after(read)
    commit = read.commit if lead == read.branch else known.get(lead, "")
    if lead in read.heads and read.heads[lead] != commit:
        return frozenset()
    places = places_of_branches(read.known)
    return frozenset(
        name for name in known if name not in read.existing and places.get(name, read.place) == read.place
    ) - {read.branch}


def told_of_branches(read: BranchRead, gone: Collection[str] = ()) -> dict[str, Any]:
    """Return what the map of a repository says of the branches that are known after a reading."""
    commits = {**known_branches(read.known), read.branch: read.commit}
    places = {**dict.fromkeys(commits, read.place), **places_of_branches(read.known), read.branch: read.place}
    told = {name: {"commit": commits[name], "place": places[name]} for name in commits if name not in gone}
    return {"branches": told, "leading": leading_after(read, gone)}


def standing(before: Source, versions: HeldContents) -> Carried:
    """Return the segments of a source that stand in some of its contents still, and the ids of the others."""
    kept = [part for segment in before.segments if (part := _restricted(segment, before, versions))]
    placed = tuple(part.model_copy(update={"position": at}) for at, part in enumerate(kept))
    return Carried(placed, frozenset(one.segment_id for one in before.segments) - {one.segment_id for one in placed})


def united(before: Source, carried: Carried, versions: HeldContents, contents: str) -> Carried:
    """Return the segments of all contents of a source, of which one was read just now: each once.

    `carried` are those of the contents that were read, and those found again in it. Those of the contents that the
    source itself tells of come first, in their order.
    """
    places = {one.segment_id: _places_of(one, before) for one in before.segments}
    now = {one.segment_id: {contents: one.locator} for one in carried.segments}
    old = {one.segment_id: one for one in before.segments}
    fresh = {one.segment_id: one for one in carried.segments}
    leads = versions.fingerprints[0] == contents
    order = dict.fromkeys((*fresh, *old) if leads else (*old, *fresh))
    found: list[Segment] = []
    for identity in order:
        stands = {**places.get(identity, {}), **now.get(identity, {})}
        if contents in stands and identity not in now:
            del stands[contents]
        shown = (fresh, old) if leads else (old, fresh)
        segment = shown[0].get(identity) or shown[1][identity]
        if part := _with_places(segment, stands, versions):
            found.append(part.model_copy(update={"position": len(found)}))
    return Carried(tuple(found), frozenset(old) - {one.segment_id for one in found})


def _places_of(segment: Segment, source: Source) -> dict[str, Locator]:
    if segment.places:
        return {one.contents: one.locator for one in segment.places}
    return dict.fromkeys(HeldContents.parse(source.fingerprint).fingerprints, segment.locator)


def _restricted(segment: Segment, source: Source, versions: HeldContents) -> Segment | None:
    return _with_places(segment, _places_of(segment, source), versions)


def _with_places(segment: Segment, places: Mapping[str, Locator], versions: HeldContents) -> Segment | None:
    """Return a segment as it stands in those of the contents that are left; `None` where it stands in none."""
    left = [SegmentPlace(contents=one, locator=places[one]) for one in versions.fingerprints if one in places]
    if not left:
        return None
    several = len(versions.each) > 1
    return segment.model_copy(update={"locator": left[0].locator, "places": tuple(left) if several else ()})

"""The contents of a source on the branches of a repository after one branch was read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from treering.core.cited_lines import lines_in_source, segments_on
from treering.core.evidence import EvidenceRef, Segment, SegmentPlace
from treering.core.objects import Source
from treering.core.versions import HeldContents, contents_with, known_branches, places_of_branches
from treering.ports.adapter import BranchRead
from treering.verbs.ingest.segments import Carried

_OF_BRANCH = ("card", "latest_commits")
"""Fields of a repository's map that are stored for each branch."""


def read_of(origin: str, reads: Iterable[BranchRead]) -> BranchRead | None:
    """Return the reading of the repository that an origin belongs to, or `None`."""
    return next((one for one in reads if origin == one.root or origin.startswith(f"{one.root}#")), None)


def contents_before(origin: str, fingerprint: str, read: BranchRead | None) -> str | None:
    """Return the contents of a source on a branch before its reading, or `None` if it had none.

    A new branch had the contents at the commit at which it left the first branch, and a branch whose history was
    rewritten those at the last commit that remained.
    """
    if read is None:
        return fingerprint
    held = HeldContents.parse(fingerprint)
    if read.fork is None:
        return held.on(read.branch)
    contents = read.fork.get(origin)
    return contents if contents in held.fingerprints else None


def with_losses(
    refs: Sequence[EvidenceRef], before: Source, after: Iterable[Segment], versions: HeldContents, read: BranchRead
) -> tuple[EvidenceRef, ...]:
    """Return evidence with the branches that lost its lines in a source, after one branch was read.

    `before`: the source before; `after`: its segments now, in these `versions` of its contents. Nothing is added if
    there are no other branches.
    """
    branches = branches_now(read)
    known = {one.segment_id: one for one in before.segments}
    contents = _contents_lost_from(before, read) if len(branches) > 1 else ()
    had = [segments_on(before.segments, one) for one in contents]
    now = {one.segment_id: one for one in after}

    def lost_on(ref: EvidenceRef) -> tuple[str, ...]:
        segment, cited = now.get(ref.segment_id), known.get(ref.segment_id)
        new = (read.branch,) if cited and any(lines_in_source(ref, cited, before.id, one) for one in had) else ()
        return tuple(
            name
            for name in dict.fromkeys((*ref.lost_on, *new))
            if name in branches and not (segment and segment.place_in_contents(versions.on(name)))
        )

    cited = {ref: lost_on(ref) for ref in refs if ref.source_id == before.id}
    return tuple(ref.model_copy(update={"lost_on": cited.get(ref, ref.lost_on)}) for ref in refs)


def _contents_lost_from(before: Source, read: BranchRead) -> list[str]:
    """Return the earlier contents of a source from which a branch can lose lines.

    They are its own contents, and the contents of the branches that were merged into it since its last reading.
    """
    held = HeldContents.parse(before.fingerprint)
    contents = (contents_before(before.origin, before.fingerprint, read), *map(held.on, read.newly_merged))
    return [one for one in dict.fromkeys(contents) if one is not None]


def cites_new_lines(refs: Iterable[EvidenceRef], before: Source, here: Iterable[Segment], read: BranchRead) -> bool:
    """Return whether a branch got cited lines of a source by its reading, such as after a merge.

    Its knowledge was recorded again with these lines on another branch. Lines that only moved there are not new.
    `here`: the segments on the branch that was read.
    """
    contents = contents_before(before.origin, before.fingerprint, read)
    had = {one.segment_id for one in segments_on(before.segments, contents)}
    segments = {one.segment_id: one for one in before.segments}
    cited = [ref for ref in refs if ref.source_id == before.id and ref.segment_id in segments]
    quotes = {ref.segment_id: ref.quote(segments[ref.segment_id]) for ref in cited}
    known = {quotes[one] for one in had & quotes.keys()}
    arrived = quotes.keys() & {one.segment_id for one in here} - had
    return any(quotes[one] not in known for one in arrived)


def contents_here(fingerprint: str, read: BranchRead | None) -> str | None:
    """Return the contents of a source on the branch being read, or `None`."""
    return fingerprint if read is None else HeldContents.parse(fingerprint).on(read.branch)


def versions_after(fingerprint: str | None, read: BranchRead | None, contents: str | None) -> HeldContents:
    """Return the contents of a source after its branch was read with these `contents`, or `None` if it is gone there.

    `fingerprint` is the previous one, `None` for a new source.
    """
    if read is None:
        return HeldContents.parse(contents or "")
    before = HeldContents.parse(fingerprint) if fingerprint is not None else HeldContents(())
    after = before.moved(read.branch, contents, known=branches_now(read))
    return after.leading(after.on(leading_after(read)))


def with_branches_of(versions: HeldContents, folded: str, read: BranchRead) -> HeldContents:
    """Add the branches on which another source, folded into this one, has the same contents.

    Branches on which it has other contents are read again later.
    """
    known = branches_now(read)
    for one in HeldContents.parse(folded).each:
        for branch in one.branches or () if one.fingerprint in versions.fingerprints else ():
            versions = versions.moved(branch, one.fingerprint, known=known)
    return versions.leading(versions.on(leading_after(read)))


def versions_without(fingerprint: str, read: BranchRead, gone: Collection[str]) -> HeldContents:
    """Return the contents of a source after branches were deleted."""
    rest = HeldContents.parse(fingerprint).without(gone, known=[one for one in branches_now(read) if one not in gone])
    return rest.leading(rest.on(leading_after(read, gone)))


def branches_now(read: BranchRead) -> tuple[str, ...]:
    """Return the known branches after a reading."""
    return tuple(dict.fromkeys((*known_branches(read.known), read.branch)))


def leading_after(read: BranchRead, gone: Collection[str] = ()) -> str:
    """Return the branch whose contents a source represents if it has several: the one read first."""
    known = known_branches(read.known)
    stored = read.known.get("leading")
    first = stored if isinstance(stored, str) and stored in known else next(iter(known), read.branch)
    return read.branch if first in gone else first


def branches_gone(read: BranchRead) -> frozenset[str]:
    """Return the known branches that were deleted; none until the leading branch is read up to its newest commit.

    Only then is it known whether their lines were merged into it. Branches of other clones are not considered.
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


def branch_payload(
    read: BranchRead, gone: Collection[str] = (), drawn: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the payload fields of a repository's map about the branches after a reading.

    `drawn`: the payload of the map just drawn. The fields of the map itself describe the leading branch, so some fields
    of another branch are stored with that branch.
    """
    commits = {**known_branches(read.known), read.branch: read.commit}
    places = {**dict.fromkeys(commits, read.place), **places_of_branches(read.known), read.branch: read.place}
    stored, leading = read.known.get("branches"), leading_after(read, gone)
    own = {**stored} if isinstance(stored, Mapping) else {}
    if drawn:
        fields = _OF_BRANCH if read.branch != leading else ()
        own[read.branch] = {field: drawn[field] for field in fields if field in drawn}
    branches = {
        name: {**own.get(name, {}), "commit": commits[name], "place": places[name]}
        for name in commits
        if name not in gone
    }
    return {"branches": branches, "leading": leading}


def restricted(before: Source, versions: HeldContents) -> Carried:
    """Return the segments of a source that are in these contents, and the ids of the others."""
    remaining = [part for one in before.segments if (part := _with_places(one, _places_of(one, before), versions))]
    placed = tuple(part.model_copy(update={"position": at}) for at, part in enumerate(remaining))
    return Carried(placed, frozenset(one.segment_id for one in before.segments) - {one.segment_id for one in placed})


def united(before: Source, carried: Carried, versions: HeldContents, contents: str) -> Carried:
    """Return the segments of all contents of a source, one of which was just read, each segment once.

    `carried` are the segments of the contents just read, and segments found again in them. Segments of the contents
    that the source represents come first, in their order.
    """
    places = {one.segment_id: _places_of(one, before) for one in before.segments}
    now = {
        one.segment_id: {contents: SegmentPlace(contents=contents, locator=one.locator, uses=one.uses)}
        for one in carried.segments
    }
    old = {one.segment_id: one for one in before.segments}
    fresh = {one.segment_id: one for one in carried.segments}
    leads = versions.fingerprints[0] == contents
    order = dict.fromkeys((*fresh, *old) if leads else (*old, *fresh))
    segments: list[Segment] = []
    for identity in order:
        known = {**places.get(identity, {}), **now.get(identity, {})}
        if contents in known and identity not in now:
            del known[contents]
        shown = (fresh, old) if leads else (old, fresh)
        segment = shown[0].get(identity) or shown[1][identity]
        if part := _with_places(segment, known, versions):
            segments.append(part.model_copy(update={"position": len(segments)}))
    return Carried(tuple(segments), frozenset(old) - {one.segment_id for one in segments})


def _places_of(segment: Segment, source: Source) -> dict[str, SegmentPlace]:
    """Return the places of a segment in the contents of its source, each with its uses."""
    named = contents_with(source.fingerprint, segment)
    return {one: place for one in named if (place := segment.version_in(one))}


def _with_places(segment: Segment, places: Mapping[str, SegmentPlace], versions: HeldContents) -> Segment | None:
    """Return a segment with its places in these contents; `None` if it is in none of them."""
    left = [places[one] for one in versions.fingerprints if one in places]
    return segment.at_places(left, several=len(versions.each) > 1) if left else None

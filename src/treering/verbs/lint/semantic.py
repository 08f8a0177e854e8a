"""Rules about meaning: contradictions, staleness, work that could move."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice

from treering.core.canonical import normalise_text
from treering.core.characters import named
from treering.core.errors import NotFound
from treering.core.evidence import EvidenceRef, Lines, Segment, find_lines, place_today
from treering.core.filters import Compare
from treering.core.objects import Decision, Knowledge, Source, WorkItem
from treering.core.patch import Operation, Transition, Update
from treering.core.policy import is_current
from treering.core.versions import HeldContents
from treering.core.writing.integrity import continues, contradict, is_functional
from treering.retrieval.index.passages import passages_of
from treering.verbs.evidence.cited import source_today
from treering.verbs.evidence.inherited import lines_now
from treering.verbs.evidence.resolving import stored_lines
from treering.verbs.lint.survey import ObjectRule, Problem, Rule, SpaceRule, Survey
from treering.verbs.work_order import FINISHED

_UNVERIFIED_AFTER = timedelta(days=180)
_MIN_LIKENESS = 0.8
"""The share of words in common from which two statements are near duplicates."""
_MAX_COMPARED = 2_000
_WITHDRAWN = {"superseded", "stale", "archived"}
_QUOTED_CHARS = 200
_ON_BRANCH = "It is current on other branches. Replace it with lines of this branch; archive it only after a merge."


def contradictions(seen: Survey) -> Iterator[Problem]:
    """Report contradicting claims without a winner, contested knowledge, and contradicting unsupported candidates."""
    claims: dict[str, list[Knowledge]] = defaultdict(list)
    for item in seen.each(Knowledge, where=Compare("status", "eq", "contested")):
        if key := item.claim_key():
            claims[key].append(item)
        if item.disputed:
            yield _dispute(item, seen)
    for contested in claims.values():
        if len(contested) > 1:
            values = " ↔ ".join(f"{named(_claim(item))} ({item.id})" for item in contested)
            yield Problem(
                ids=tuple(item.id for item in contested),
                explanation=f"These contradict each other: {values}. Supersede the losing ones, naming the winner.",
            )
    yield from _contradicting_proposals(seen)
    yield from _replaced_twice(seen)


def _claim(item: Knowledge) -> str:
    return item.payload.outcome if isinstance(item.payload, Decision) else passages_of(item)[0].text


def _replaced_twice(seen: Survey) -> Iterator[Problem]:
    """Report current statements that replaced the same one, as happens in two copies that are merged later."""
    for old in seen.each(Knowledge, where=Compare("status", "eq", "superseded")):
        links = [link for link in seen.links(old.id) if link.type == "supersedes" and link.target == old.id]
        items = [one for link in links if isinstance(one := seen.find(link.source), Knowledge) and is_current(one)]
        is_reported = any(one.status == "contested" for one in items)
        if len(items) > 1 and not is_reported and not _one_replaced_another(items, seen):
            yield Problem(
                ids=tuple(sorted(one.id for one in items)),
                explanation=f"All of these replaced {named(old.title)}: "
                f"{', '.join(named(one.title) for one in items)}. Replace the wrong ones by the right one.",
            )


def _one_replaced_another(items: Sequence[Knowledge], seen: Survey) -> bool:
    ids = {one.id for one in items}
    return any(
        link.type == "supersedes" and {link.source, link.target} <= ids for one in ids for link in seen.links(one)
    )


def _contradicting_proposals(seen: Survey) -> Iterator[Problem]:
    """Report candidates without evidence that contradict claims; they do not contest them."""
    candidates = seen.each(Knowledge, where=Compare("status", "eq", "candidate"))
    proposals = {key: item for item in candidates if not item.evidence_refs and (key := item.claim_key())}
    for claim in seen.current(Knowledge) if proposals else ():
        item = proposals.get(claim.claim_key() or "")
        if item and is_functional(item, seen.ledger.policy) and contradict(item, claim):
            yield Problem(
                ids=(item.id, claim.id),
                explanation=f"{named(item.title)} is a candidate without evidence and contradicts "
                f"{named(claim.title)}. Archive it, or replace the claim with it.",
            )


def _dispute(item: Knowledge, seen: Survey) -> Problem:
    against = [ref for ref in item.evidence_refs if ref.role == "contradicts"]
    opponent = f"evidence against it ({len(against)})" if against else "somebody"
    return Problem(
        ids=(item.id, *seen.told(ref.source_id for ref in against)),
        explanation=f"{named(item.title)} is contested by {opponent}. Make it active again if it is still "
        "true, or supersede or archive it.",
    )


def stale_knowledge(item: Knowledge, seen: Survey) -> Iterator[Problem]:
    """Report stale knowledge with its lost evidence, and whether the words exist elsewhere now."""
    if item.id in seen.stale:
        fix = _reverification(item, seen)
        tree = seen.stale[item.id]
        where = f" on {tree}" if tree else ""
        after_merge = bool(tree) and item.id not in seen.lost_by_first_branch
        advice = _ON_BRANCH if after_merge else "Replace it, by the same words if it is still true, or archive it."
        yield Problem(
            ids=(item.id, *seen.told(ref.source_id for ref in item.evidence_refs)),
            explanation=f"{named(item.title)} is stale{where}: {_why_stale(item, seen)} {advice}",
            fix=fix,
            fix_summary="Its quoted text is in the source again: point the evidence there and reactivate it."
            if fix
            else "",
            after_merge=after_merge,
        )


def partly_changed(item: Knowledge, seen: Survey) -> Iterator[Problem]:
    """Report knowledge that lost part of its evidence, which may state something else now."""
    if not _is_claimed(item) or item.is_only_read:
        return
    lost = [ref for ref in item.evidence_refs if not seen.holds(ref.source_id, ref.segment_id)]
    if lost and len(lost) < len(item.evidence_refs):
        fix = _repointed(item, seen)
        yield Problem(
            ids=(item.id, *seen.told(ref.source_id for ref in lost)),
            explanation=f"Part of the evidence for {named(item.title)} changed: "
            f"{' '.join(_loss(ref, seen) for ref in lost)} Replace it, by the same words if it is still true: "
            "they get the current lines as evidence.",
            fix=fix,
            fix_summary="Point the evidence to the new place of its text." if fix else "",
        )


def _repointed(item: Knowledge, seen: Survey) -> tuple[Operation, ...]:
    """Return the update that moves lost evidence to another place of the same words in the source, if there is one."""
    refs = tuple(
        ref if seen.holds(ref.source_id, ref.segment_id) else _found_again(ref, seen) or ref
        for ref in item.evidence_refs
    )
    changes = {"evidence_refs": refs}
    return (Update(id=item.id, expected_revision=item.revision, changes=changes),) if refs != item.evidence_refs else ()


def superseded_but_used(item: Knowledge | WorkItem, seen: Survey) -> Iterator[Problem]:
    """Report current knowledge derived from withdrawn knowledge."""
    if not is_current(item):
        return
    if isinstance(item, Knowledge):
        for parent_id in item.derived_from:
            parent = seen.find(parent_id)
            if not (isinstance(parent, Knowledge) and continues(item, parent)):
                yield from _based_on_withdrawn(item, parent_id, seen)
    elif item.status not in FINISHED:
        for knowledge_id in item.related_knowledge_refs:
            yield from _based_on_withdrawn(item, knowledge_id, seen)


def expired(item: Knowledge, seen: Survey) -> Iterator[Problem]:
    """Report active knowledge whose validity has ended."""
    if item.status == "active" and item.valid_until and _is_over(item, seen):
        yield Problem(
            ids=(item.id,),
            explanation=f"{named(item.title)} was valid until {item.valid_until:%Y-%m-%d}.",
            fix=(Transition(id=item.id, expected_revision=item.revision, to="stale"),),
            fix_summary="Mark it stale.",
        )


def long_unverified(item: Knowledge, seen: Survey) -> Iterator[Problem]:
    """Report active knowledge not verified for half a year."""
    verified = item.last_verified_at
    if item.status == "active" and _is_claimed(item) and verified and seen.now - verified > _UNVERIFIED_AFTER:
        yield Problem(
            ids=(item.id,),
            explanation=f"{named(item.title)} was last verified {verified:%Y-%m-%d}.",
        )


def undecided_decisions(item: Knowledge, _seen: Survey) -> Iterator[Problem]:
    """Report decisions without an outcome."""
    if is_current(item) and isinstance(item.payload, Decision) and not item.payload.outcome:
        yield Problem(
            ids=(item.id,),
            explanation=f"{named(item.title)} asks {named(item.payload.question)} and records no outcome.",
        )


def freed_work(work: WorkItem, seen: Survey) -> Iterator[Problem]:
    """Report blocked work whose blockers are all done."""
    if work.status != "blocked":
        return
    blockers = [seen.find(ref) for ref in (*work.blocked_by, *work.depends_on)]
    done = [one for one in blockers if isinstance(one, WorkItem) and one.status in FINISHED]
    if blockers and len(done) == len(blockers):
        yield Problem(
            ids=(work.id, *seen.told(one.id for one in done)),
            explanation=f"{named(work.title)} is blocked, although everything it waits for is done.",
            fix=(Transition(id=work.id, expected_revision=work.revision, to="open"),),
            fix_summary="Open it.",
        )


def near_duplicates(seen: Survey) -> Iterator[Problem]:
    """Report nearly identical knowledge. It is never merged automatically."""
    compared: dict[tuple[str, str], list[tuple[Knowledge, frozenset[str]]]] = {}
    for item in islice(filter(_is_claimed, seen.each(Knowledge)), _MAX_COMPARED):
        words = frozenset(normalise_text(passages_of(item)[0].text).split())
        group = compared.setdefault((item.scope, item.kind), [])
        for other, others in group:
            # Two values of one claim contradict each other: see `contradictions`.
            are_rivals = item.claim_key() is not None and item.claim_key() == other.claim_key()
            if len(words & others) >= _MIN_LIKENESS * len(words | others) and not are_rivals:
                yield Problem(
                    ids=(other.id, item.id),
                    explanation=f"{named(other.title)} and {named(item.title)} are nearly identical.",
                )
        group.append((item, words))


def _is_claimed(item: Knowledge) -> bool:
    """Return whether knowledge is current and no summary, which only repeats other objects."""
    return is_current(item) and item.kind != "summary"


def _why_stale(item: Knowledge, seen: Survey) -> str:
    lost = [
        _loss(ref, seen)
        for ref in _refs_here(item, seen)
        if seen.stale.get(item.id) or not seen.holds(ref.source_id, ref.segment_id)
    ]
    parents = [parent for parent in map(seen.find, item.derived_from) if isinstance(parent, Knowledge)]
    fallen = [parent for parent in parents if parent.status in _WITHDRAWN]
    lost += [f"{seen.named(parent)}, which it was derived from, is {_state(parent, seen)}." for parent in fallen]
    if lost:
        return " ".join(dict.fromkeys(lost))
    return f"it was valid until {item.valid_until:%Y-%m-%d}." if _is_over(item, seen) else "it was marked stale."


def _refs_here(item: Knowledge, seen: Survey) -> Sequence[EvidenceRef]:
    """Return the evidence in files that are in their trees; all of it if none is."""
    sources = {ref.source_id: seen.find(ref.source_id) for ref in item.evidence_refs}
    here = {one for one, source in sources.items() if isinstance(source, Source) and seen.here(source)}
    return [ref for ref in item.evidence_refs if ref.source_id in here] or item.evidence_refs


def _is_over(item: Knowledge, seen: Survey) -> bool:
    return item.valid_until is not None and item.valid_until < seen.now


def _loss(ref: EvidenceRef, seen: Survey) -> str:
    source = seen.find(ref.source_id)
    if not isinstance(source, Source):
        return f"Source {ref.source_id} was erased."
    if not seen.shows(source):
        return "A source in another scope no longer contains its evidence."
    source = source_today(seen.ledger, source)
    if source.status != "active":
        root, _, path = source.origin.partition("#")
        is_removed = source.status == "archived" and path and root.startswith("repo:")
        return f"{path} was removed." if is_removed else f"{source.origin} is {source.status}."
    try:
        segment = seen.ledger.segment(ref.source_id, ref.segment_id)
    except NotFound:
        return f"Segment {ref.segment_id} of {source.origin} is gone."
    evidence, here = ref.quote(segment), seen.here(source)
    place = place_today(ref.locator(segment), source.origin)
    if here is None:
        return f"{place} was removed."
    words = " ".join(_lost_lines(evidence, here) or evidence.split())
    quote = words if len(words) <= _QUOTED_CHARS else words[:_QUOTED_CHARS] + "…"
    now = " ".join(_new_lines(ref, segment, here))[:_QUOTED_CHARS]
    instead = f", but {named(now)}" if now else ""
    return f"{place} no longer contains {named(quote)}{instead}."


def _lost_lines(quote: str, source: Source) -> list[str]:
    """Return the lines of a quote that its source no longer contains."""
    lines = {line.strip() for part in source.segments for line in part.excerpt.splitlines()}
    return [line for line in map(str.strip, quote.splitlines()) if line and line not in lines]


def _new_lines(ref: EvidenceRef, segment: Segment, source: Source) -> list[str]:
    """Return the lines that a source has now in place of lost ones."""
    stored = stored_lines(source.segments)
    first, last = lines_now(ref, segment, stored) or (1, 0)
    before = set(map(str.strip, ref.quote(segment).splitlines()))
    now = [stored[number][1].strip() for number in range(first, last + 1) if number in stored]
    return [line for line in now if line and line not in before]


def _reverification(item: Knowledge, seen: Survey) -> tuple[Operation, ...]:
    """Return the operations that reactivate knowledge if its source contains every lost quote again."""
    refs = [_found_again(ref, seen) for ref in item.evidence_refs]
    valid = [ref for ref in refs if ref]
    lost = any(not seen.holds(ref.source_id, ref.segment_id) for ref in item.evidence_refs)
    # Evidence does not repair knowledge that is stale for another reason.
    if not valid or len(valid) != len(refs) or not lost or _is_over(item, seen):
        return ()
    update = Update(id=item.id, expected_revision=item.revision, changes={"evidence_refs": tuple(valid)})
    return (update, Transition(id=item.id, expected_revision=item.revision, to="active"))


def _found_again(ref: EvidenceRef, seen: Survey) -> EvidenceRef | None:
    source = seen.find(ref.source_id)
    if not isinstance(source, Source) or source.status != "active":
        return None
    try:
        words = ref.quote(seen.ledger.segment(ref.source_id, ref.segment_id))
    except NotFound:
        return None
    holder = next((part for part in source.segments if _contains(part, words)), None)
    if holder is None:
        return None
    is_part = isinstance(holder.locator, Lines) and words != holder.excerpt
    lines, held = find_lines(words, holder.excerpt) if is_part else None, HeldContents.parse(source.fingerprint)
    lost_on = tuple(name for name in ref.lost_on if not holder.place_in_contents(held.on(name)))
    moved = ref.moved(holder.segment_id, lines=lines, together=ref.together)
    return moved.model_copy(update={"lost_on": lost_on})


def _contains(part: Segment, words: str) -> bool:
    """Return whether a segment contains a quote as whole lines, or as whole words of a text without lines."""
    if isinstance(part.locator, Lines):
        return find_lines(words, part.excerpt) is not None
    sought, there = (" ".join(text.split()) for text in (words, part.excerpt))
    return f" {sought} " in f" {there} "


def _based_on_withdrawn(item: Knowledge | WorkItem, on: str, seen: Survey) -> Iterator[Problem]:
    parent = seen.find(on)
    if isinstance(parent, Knowledge) and parent.status in _WITHDRAWN:
        yield Problem(
            ids=(item.id, *seen.told([parent.id])),
            explanation=f"{named(item.title)} depends on {seen.named(parent)}, which is {_state(parent, seen)}.",
        )


def _state(parent: Knowledge, seen: Survey) -> str:
    return f"{parent.status}{_successor(parent, seen)}" if seen.shows(parent) else "withdrawn"


def _successor(parent: Knowledge, seen: Survey) -> str:
    links: Sequence[str] = [
        link.source for link in seen.ledger.links(parent.id) if link.type == "supersedes" and link.target == parent.id
    ]
    shown = seen.told(links)
    return f" (by {shown[0]})" if shown else ""


RULES: Mapping[str, Rule] = {
    "contradiction": SpaceRule("warning", contradictions),
    "stale": ObjectRule("warning", stale_knowledge, ("knowledge",)),
    "partly-changed": ObjectRule("warning", partly_changed, ("knowledge",)),
    "superseded-but-used": ObjectRule("warning", superseded_but_used, ("knowledge", "work_item")),
    "expired": ObjectRule("warning", expired, ("knowledge",)),
    "long-unverified": ObjectRule("info", long_unverified, ("knowledge",)),
    "decision-without-outcome": ObjectRule("warning", undecided_decisions, ("knowledge",)),
    "blocked-by-closed": ObjectRule("warning", freed_work, ("work_item",)),
    "near-duplicate": SpaceRule("info", near_duplicates),
}

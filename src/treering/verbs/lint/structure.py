"""Rules about form: references, evidence, states, secrets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from treering.core.characters import named
from treering.core.counting import counted_things
from treering.core.evidence import any_place_holds, place_in, segment_hash
from treering.core.objects import Knowledge, Node, Object, Source, WorkItem, title_of
from treering.core.patch import Merge, RemoveLink, Transition, Update
from treering.core.policy import is_current
from treering.core.scope import ROOT, is_within
from treering.core.screening import PIECE_GAP, instruction_flags
from treering.core.secrets.redaction import redact
from treering.core.writing.integrity import ACYCLIC_FIELDS, REFERENCE_FIELDS, cycle_of, references_of
from treering.retrieval.index.code_places import role_of
from treering.retrieval.index.passages import passages_of
from treering.verbs.lint.same_files import SAME_FILE, same_files
from treering.verbs.lint.survey import EVERY_TYPE, ObjectRule, Problem, Rule, SpaceRule, Survey


def dangling_references(item: Object, seen: Survey) -> Iterator[Problem]:
    """Report references and links to missing objects; the rule `stale` reports the lost evidence of stale knowledge."""
    settled = {ref.source_id for ref in item.evidence_refs} if _is_withdrawn(item) else set()
    missing = [ref for ref in references_of(item) if ref not in settled and not seen.exists(ref)]
    if missing:
        changes = {
            name: tuple(ref for ref in getattr(item, name) if ref not in missing)
            for name in REFERENCE_FIELDS[item.type]
            if set(getattr(item, name)) & set(missing)
        }
        fix = (Update(id=item.id, expected_revision=item.revision, changes=changes),) if changes else ()
        yield Problem(
            ids=(item.id, *missing),
            explanation=f"{named(title_of(item))} refers to {', '.join(missing)}, which is not in the space.",
            fix=fix,
            fix_summary="Remove the reference." if fix else "",
        )
    for link in seen.links(item.id):
        lost = [end for end in (link.source, link.target) if not seen.exists(end)]
        if lost:
            yield Problem(
                ids=(link.source, link.target),
                explanation=f"The link {link.type} points to {', '.join(lost)}, which is not in the space.",
                fix=(RemoveLink(link=link),),
                fix_summary="Remove the link.",
            )


def _is_withdrawn(item: Object) -> TypeGuard[Knowledge]:
    return isinstance(item, Knowledge) and not is_current(item)


def missing_evidence(item: Knowledge, seen: Survey) -> Iterator[Problem]:
    """Report active knowledge without valid evidence."""
    if item.status != "active" or item.derived_from or not item.evidence_refs:
        return
    if not any_place_holds(item.evidence_refs, lambda ref: seen.holds(ref.source_id, ref.segment_id)):
        yield Problem(
            ids=(item.id,),
            explanation=f"{named(item.title)} is active, but all segments it cites are gone.",
            fix=(Transition(id=item.id, expected_revision=item.revision, to="stale"),),
            fix_summary="Mark it stale.",
        )


def hash_mismatches(source: Source, _seen: Survey) -> Iterator[Problem]:
    """Report segments whose text does not match its hash."""
    for part in source.segments:
        if part.hash != segment_hash(part.excerpt, salt=source.salt):
            yield Problem(
                ids=(source.id,),
                explanation=f"Segment {part.segment_id} of {named(source.origin)} was changed outside Treering.",
            )


def altered_objects(seen: Survey) -> Iterator[Problem]:
    """Report objects changed outside Treering, which reads never show."""
    heads = seen.ledger.heads(seen.altered)
    for identity, what in sorted(seen.altered.items()):
        known = heads.get(identity)
        if is_within(known.scope if known else ROOT, seen.scope):
            yield Problem(
                ids=(identity,),
                explanation=f"{what} Restore the space from a backup or an export; no repair runs until then.",
            )


def impossible_states(item: Node | WorkItem, _seen: Survey) -> Iterator[Problem]:
    """Report objects whose fields contradict their status."""
    match item:
        case Node() if (item.status == "merged") != bool(item.merged_into):
            yield Problem((item.id,), f"{named(item.name)} is {item.status}, and merged_into is {item.merged_into!r}.")
        case WorkItem(status="resolved") if not item.resolution:
            yield Problem((item.id,), f"{named(item.title)} is resolved without a resolution.")


def cycles(seen: Survey) -> Iterator[Problem]:
    """Report work that waits for itself."""
    reported: set[frozenset[str]] = set()
    for work, field in ((work, field) for work in seen.each(WorkItem) for field in ACYCLIC_FIELDS):
        chain = cycle_of(work, field, seen.find)
        if chain and frozenset(chain) not in reported:
            reported.add(frozenset(chain))
            shown = seen.told(chain)
            steps = " -> ".join(step if step in shown else "…" for step in chain)
            explanation = f"Work waits for itself by {field}: {steps}. Remove one of these."
            yield Problem(ids=shown, explanation=explanation)


def orphan_nodes(node: Node, seen: Survey) -> Iterator[Problem]:
    """Report nodes without references. An owner of work may also be given by the name of a node."""
    if is_current(node) and not seen.is_named(node.id) and not _owns_work(node, seen):
        yield Problem(
            ids=(node.id,),
            explanation=f"Nothing refers to the {node.kind} {named(node.name)}.",
            fix=(Transition(id=node.id, expected_revision=node.revision, to="archived"),),
            fix_summary="Archive it.",
        )


def _owns_work(node: Node, seen: Survey) -> bool:
    names = (node.name, *node.aliases)
    return node.kind in ("person", "team") and not seen.owners.isdisjoint(name.casefold() for name in names)


def duplicate_nodes(seen: Survey) -> Iterator[Problem]:
    """Report active nodes of one kind and scope with the same name or alias.

    Nodes read from files belong to different paths, so they are no duplicates of each other.
    """
    # Only ids, revisions and channels, because a space may have many nodes.
    by_name: dict[tuple[str, str, str], list[tuple[str, int, bool]]] = {}
    for node in seen.current(Node):
        for name in {node.name.casefold(), *(alias.casefold() for alias in node.aliases)}:
            by_name.setdefault((node.scope, node.kind, name), []).append(
                (node.id, node.revision, node.origin_channel == "adapter")
            )
    reported: set[tuple[str, ...]] = set()
    for (_, kind, name), named_so in sorted(by_name.items()):
        recorded = [one for one in named_so if not one[2]]
        group = named_so if len(named_so) - len(recorded) < 2 else recorded
        ids = tuple(identity for identity, *_ in group)
        if len(group) > 1 and ids not in reported:
            reported.add(ids)
            first, *_ = ids
            yield Problem(
                ids=ids,
                explanation=f"{len(group)} nodes of kind {kind} are named {named(name)}.",
                fix=tuple(Merge(id=one, expected_revision=revision, into=first) for one, revision, _ in group[1:]),
                fix_summary=f"Merge them into {first}.",
            )


def secrets_at_rest(item: Object, _seen: Survey) -> Iterator[Problem]:
    """Report texts that contain a secret: kind and place, never the secret."""
    for place, kinds in _found_in(item, _kinds_of_secrets):
        yield Problem(
            ids=(item.id,),
            explanation=f"{named(title_of(item))} contains a secret ({', '.join(kinds)}) at {place}: "
            "erase it and replace the secret.",
        )


def instruction_shaped_texts(item: Object, _seen: Survey) -> Iterator[Problem]:
    """Report texts shaped like instructions to a model; all test files are one finding."""
    places = [*_found_in(item, instruction_flags)]
    if places:
        place, title, others = places[0][0], title_of(item), len(places) - 1
        where = place if place.startswith(title) else f"{named(title)} at {place}"
        like = f" and {counted_things(others, 'other place')} look like" if others else " looks like"
        flags = ", ".join(dict.fromkeys(flag for _, each in places for flag in each))
        yield Problem(
            ids=(item.id,),
            explanation=f"{where}{like} instructions ({flags}), shown as data only.",
            group="test files look like instructions" if isinstance(item, Source) and role_of(item) == "test" else "",
        )


def _kinds_of_secrets(text: str) -> Sequence[str]:
    return sorted({finding.kind for finding in redact(text).findings})


def _found_in(item: Object, find: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the places of an object in which `find` finds anything, with the results."""
    # All texts are first searched at once, because most objects contain nothing. The gap can only add results.
    texts = list(_texts(item))
    if find(PIECE_GAP.join(text for _, text in texts)):
        yield from ((place, results) for place, text in texts if (results := find(text)))


def _texts(item: Object) -> Iterable[tuple[str, str]]:
    if isinstance(item, Source):
        return ((place_in(part.locator, item.origin), part.excerpt) for part in item.segments)
    return ((item.id, f"{passage.title}\n{passage.text}") for passage in passages_of(item))


RULES: Mapping[str, Rule] = {
    "dangling-reference": ObjectRule("error", dangling_references),
    "missing-evidence": ObjectRule("error", missing_evidence, ("knowledge",)),
    "hash-mismatch": ObjectRule("error", hash_mismatches, ("source",)),
    "altered": SpaceRule("error", altered_objects, EVERY_TYPE),
    "impossible-state": ObjectRule("error", impossible_states, ("node", "work_item")),
    "cycle": SpaceRule("error", cycles),
    "orphan-node": ObjectRule("info", orphan_nodes, ("node",)),
    "duplicate-node": SpaceRule("warning", duplicate_nodes),
    SAME_FILE: SpaceRule("error", same_files, ("source",)),
    "secret-at-rest": ObjectRule("error", secrets_at_rest),
    "instruction-shaped": ObjectRule("warning", instruction_shaped_texts),
}

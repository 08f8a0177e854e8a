"""Replacement of knowledge in a repository with several branches.

A replacement applies on the branches that have its lines. If the first branch of the repository has them, or all
branches with the lines of the replaced knowledge, that is superseded. Otherwise it stays current for the other
branches, and `verbs/trees.py` presents it as superseded on the branches of the replacement.
"""

from collections.abc import Iterator

from treering.core.objects import Knowledge, Source
from treering.core.patch import Link
from treering.core.policy import CURRENT
from treering.core.writing.draft import Draft
from treering.core.writing.integrity import branches_of, is_backed, with_changed_branches

_CURRENT = CURRENT["knowledge"]


def replace(item: Knowledge, by: Knowledge, draft: Draft) -> Knowledge:
    """Replace knowledge, and the knowledge that it replaced on some branches only; return its new state."""
    for old in [*_linked(item, draft, replaced=True), item]:
        if old.status not in {"superseded", "archived"}:
            draft.link(Link(type="supersedes", source=by.id, target=old.id))
    return _supersede(item, draft) if _replaces(by, item, draft) else item


def settle_replacements(draft: Draft) -> list[str]:
    """Supersede knowledge whose replacement applies to all branches now; return the ids that became stale instead.

    Knowledge becomes stale if its replacement no longer applies. Readings reactivate it if its lines exist.
    """
    staled: list[str] = []
    moved = {item.id: item for item in (*with_changed_branches(draft), *_with_new_evidence(draft))}
    replaced = {old.id: old for item in moved.values() for old in (item, *_linked(item, draft, replaced=True))}
    for _, item in sorted(replaced.items()):
        by = [one for one in _linked(item, draft, replaced=False) if one.status in _CURRENT and is_backed(one, draft)]
        if not by or item.kind == "summary" or item.status == "archived":
            continue
        applies = any(_replaces(one, item, draft) for one in by)
        if applies and item.status != "superseded":
            _supersede(item, draft)
        elif not applies and item.status == "superseded":
            draft.change(item, "staled", status="stale")
            staled.append(item.id)
    return staled


def _supersede(item: Knowledge, draft: Draft) -> Knowledge:
    draft.withdrawn.append(item.id)
    return draft.change(item, "superseded", status="superseded")


def _replaces(by: Knowledge, item: Knowledge, draft: Draft) -> bool:
    """Return whether a replacement applies on the first branch, or on all branches with the lines of `item`.

    It also applies on a branch that had its lines and lost them.
    """
    there, here = branches_of(by, draft), branches_of(item, draft)
    if there is None:
        return True
    there = there.union(*(ref.lost_on for ref in by.evidence_refs))
    return not there.isdisjoint(_first_branches(by, draft)) or (here is not None and here <= there)


def _first_branches(item: Knowledge, draft: Draft) -> Iterator[str]:
    """Yield the first branches of the repositories that knowledge cites."""
    for ref in item.evidence_refs:
        source = draft.find(ref.source_id)
        root = source.origin.partition("#")[0] if isinstance(source, Source) else ""
        known = draft.view.source_by_origin(source.scope, root) if isinstance(source, Source) else None
        repository = draft.find(known) if known else None
        if isinstance(repository, Source):
            yield str(repository.payload.get("leading") or "")


def _linked(item: Knowledge, draft: Draft, *, replaced: bool) -> list[Knowledge]:
    """Return the knowledge that some replaced or, if not `replaced`, that replaced it."""
    links = [link for link in draft.links_of(item.id) if link.type == "supersedes"]
    ends = [(link.source, link.target) if replaced else (link.target, link.source) for link in links]
    return draft.knowledge(other for one, other in ends if one == item.id)


def _with_new_evidence(draft: Draft) -> Iterator[Knowledge]:
    """Yield existing knowledge with other evidence or another status than before the patch."""
    for item in draft.touched_knowledge():
        before = draft.before(item.id)
        if isinstance(before, Knowledge) and (before.evidence_refs, before.status) != (item.evidence_refs, item.status):
            yield item

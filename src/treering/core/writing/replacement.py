"""Replacement of knowledge in a repository with several branches.

A replacement applies on the branches that have its lines. If the first branch of the repository has them, or all
branches with the lines of the replaced knowledge, that is superseded. Otherwise it stays current for the other
branches, and `verbs/trees.py` presents it as superseded on the branches of the replacement.
"""

from collections.abc import Iterator

from treering.core.objects import Knowledge, Source
from treering.core.patch import Link
from treering.core.policy import CURRENT
from treering.core.versions import branches_with
from treering.core.writing.draft import Cited, Draft, Put, Unlinked
from treering.core.writing.integrity import is_backed, with_changed_branches

_CURRENT = CURRENT["knowledge"]
_WITHDRAWN = frozenset({"stale", "archived"})
_Branch = tuple[str, str]
"""The origin of a repository, and the name of a branch."""


def replace(item: Knowledge, by: Knowledge, draft: Draft) -> Knowledge:
    """Replace knowledge, and the knowledge that it replaced on some branches only; return its new state.

    If it had replaced its replacement on some branches, it does no longer.
    """
    for old in [*_linked(item, draft, replaced=True), item]:
        if old.id != by.id and old.status not in {"superseded", "archived"}:
            draft.link(Link(type="supersedes", source=by.id, target=old.id))
            if _replaces(by, old, draft):
                _supersede(old, draft)
    draft.unlink(Link(type="supersedes", source=item.id, target=by.id))
    return next(iter(draft.knowledge([item.id])), item)


def settle_replacements(draft: Draft) -> list[str]:
    """Supersede knowledge whose replacement applies to all branches now, and free knowledge that none replaces now.

    Return the ids of knowledge that became stale. Knowledge that a person restored stays: only a replacement that did
    not apply before supersedes it.
    """
    staled: list[str] = []
    before = Draft(view=draft.view, policy=draft.policy, now=draft.now, patch_id=draft.patch_id, hidden=draft.hidden)
    unlinked = {item.id: item for item in _unlinked(draft)}
    moved = {item.id: item for item in (*with_changed_branches(draft), *_with_new_evidence(draft))}
    replaced = {old.id: old for item in moved.values() for old in (item, *_linked(item, draft, replaced=True))}
    for _, item in sorted((replaced | unlinked).items()):
        by = [one for one in _linked(item, draft, replaced=False) if one.status in _CURRENT and is_backed(one, draft)]
        if not (by or item.id in unlinked) or item.kind == "summary" or item.status == "archived":
            continue
        applying = [one for one in by if _replaces(one, item, draft)]
        if item.status != "superseded" and any(not _replaced_before(one, item, before) for one in applying):
            _supersede(item, draft)
        elif not applying and item.status == "superseded" and is_backed(item, draft):
            draft.change(item, "restored", status="active")
        elif not applying and item.status == "superseded":
            draft.change(item, "staled", status="stale")
            staled.append(item.id)
    return staled


def _unlinked(draft: Draft) -> list[Knowledge]:
    """Return the knowledge that the patch no longer links to a replacement, as when a replacement is reverted."""
    links = [write.link for write in draft.writes if isinstance(write, Unlinked)]
    return draft.knowledge(one.target for one in links if one.type == "supersedes")


def _supersede(item: Knowledge, draft: Draft) -> None:
    draft.withdrawn.append(item.id)
    draft.change(item, "superseded", status="superseded")


def _replaces(by: Knowledge, item: Knowledge, draft: Draft) -> bool:
    """Return whether a replacement applies on the first branch, or on all branches with the lines of `item`.

    It also applies on a branch that had its lines and lost them.
    """
    there, here = _branches_of(by, draft), _branches_of(item, draft)
    if there is None:
        return True
    roots = {ref: _root(ref.source_id, draft) for ref in by.evidence_refs}
    there |= {(root, name) for ref, root in roots.items() for name in ref.lost_on}
    return not there.isdisjoint(_first_branches(by, draft)) or (here is not None and here <= there)


def _replaced_before(by: Knowledge, item: Knowledge, before: Draft) -> bool:
    """Return whether a replacement applied before the patch. One that was stale or archived did not."""
    was, old = before.find(by.id), before.find(item.id)
    return (
        isinstance(was, Knowledge)
        and isinstance(old, Knowledge)
        and was.status not in _WITHDRAWN
        and _replaces(was, old, before)
    )


def _branches_of(item: Knowledge, draft: Draft) -> set[_Branch] | None:
    """Return the branches of the evidence for knowledge; `None` for every branch, or if they are unknown."""
    found: set[_Branch] = set()
    for ref in item.evidence_refs:
        source = draft.find(ref.source_id) if ref.role == "supports" else None
        cited = Cited.of(source, ref.segment_id)
        if cited is None or cited.segment is None or cited.status != "active":
            continue
        branches = branches_with([(cited.fingerprint, cited.segment)])
        if branches is None:
            return None
        found |= {(_root(ref.source_id, draft), name) for name in branches}
    return found or None


def _first_branches(item: Knowledge, draft: Draft) -> Iterator[_Branch]:
    """Yield the first branches of the repositories that knowledge cites."""
    for ref in item.evidence_refs:
        source, root = draft.find(ref.source_id), _root(ref.source_id, draft)
        known = draft.view.source_by_origin(source.scope, root) if isinstance(source, Source) else None
        repository = draft.find(known) if known else None
        if isinstance(repository, Source):
            yield root, str(repository.payload.get("leading") or "")


def _root(source_id: str, draft: Draft) -> str:
    source = draft.find(source_id)
    return source.origin.partition("#")[0] if isinstance(source, Source) else ""


def _linked(item: Knowledge, draft: Draft, *, replaced: bool) -> list[Knowledge]:
    """Return the knowledge that an item replaced or, if not `replaced`, that replaced it."""
    links = [link for link in draft.links_of(item.id) if link.type == "supersedes"]
    ends = [(link.source, link.target) if replaced else (link.target, link.source) for link in links]
    return draft.knowledge(other for one, other in ends if one == item.id)


def _with_new_evidence(draft: Draft) -> Iterator[Knowledge]:
    """Yield existing knowledge with other evidence than before the patch, or that is no longer stale or archived."""
    for write in draft.writes:
        match write:
            case Put(before=Knowledge() as before, after=Knowledge() as after) if (
                before.evidence_refs != after.evidence_refs or before.status in _WITHDRAWN
            ):
                yield after
            case _:
                pass

"""Statements that the branch of a work tree contradicts: it edits the lines that they cite on the default branch."""

from collections.abc import Iterable, Mapping

from treering.core.objects import Constraint, Decision, Knowledge, Source
from treering.core.versions import DETACHED, known_branches
from treering.ports.ledger import ObjectRequest
from treering.verbs.edited_lines import fate_of_lines, is_edit_of
from treering.verbs.envelope import Call
from treering.verbs.scoped_ledger import on_all_branches
from treering.verbs.trees import CHANGED, REPLACED, text_of

EDITED = "this branch changed what it states: "
"""The beginning of a note about such a statement."""
_MAX_FILES = 10
"""Files that are compared; each takes two git processes."""


def edited_on_branch(
    call: Call, repository: Source | None, items: Iterable[Knowledge], notes: Mapping[str, str]
) -> dict[str, str]:
    """Return by id what the work tree has in place of the lines that active knowledge cites, in words.

    Only lines count that the branch itself edits, committed or not, and not on the default branch, whose edits make
    knowledge stale. `notes`: why knowledge is not current in the work tree.
    """
    tree = call.tree
    if tree is None or repository is None or tree.here is None or tree.lookup is None:
        return {}
    leading = str(repository.payload.get("leading"))
    since = known_branches(repository.payload).get(leading, "")
    if not since or tree.here.branch == leading or tree.here.branch.startswith(DETACHED):
        return {}
    differing = [
        item
        for item in items
        if item.status in ("active", "contested") and not notes.get(item.id, REPLACED).startswith(REPLACED)
    ]
    refs = [(item, ref) for item in differing for ref in item.evidence_refs if ref.role == "supports"]
    if not refs:
        return {}
    own = tree.lookup.changed(tree.here.place, tree.here.commit, since=since)
    request = ObjectRequest(
        heads=tuple({ref.source_id for _, ref in refs}),
        segments=tuple({(ref.source_id, ref.segment_id) for _, ref in refs}),
        vanished=True,
    )
    (evidence,) = on_all_branches(call.engine.ledger).read([request])
    texts: dict[str, tuple[str, str, str] | None] = {}
    edited: dict[str, str] = {}
    for item, ref in refs:
        head, segment = evidence.heads.get(ref.source_id), evidence.segments.get((ref.source_id, ref.segment_id))
        if head is None or segment is None or not tree.view.has(head.origin):
            continue
        path = tree.view.path(head.origin)
        if path not in own and not notes[item.id].startswith(CHANGED):
            continue
        if path not in texts and len(texts) < _MAX_FILES:
            before, lying = tree.lookup.texts_before(tree.here, path, since=since), tree.lookup.lying(tree.here, path)
            texts[path] = (*before, text_of(lying.data)) if before and lying and lying.data is not None else None
        if sides := texts.get(path):
            fork, theirs, ours = sides
            quote = ref.quote(segment)
            if is_edit_of(quote, fork=fork, theirs=theirs, ours=ours):
                edited.setdefault(item.id, fate_of_lines(path, segment.excerpt, quote, ours))
    return {identity: f"{EDITED}{fate}" for identity, fate in edited.items()}


def reason_of(item: Knowledge) -> str:
    """Return the recorded reason of a decision or rule."""
    match item.payload:
        case Decision(rationale=reason) | Constraint(violation_impact=reason):
            return reason
    return ""

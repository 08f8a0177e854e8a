"""Stale knowledge: everywhere, or on the branch of a tree that lost its lines."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from treering.core.filters import And, Compare, Or
from treering.core.objects import Knowledge
from treering.core.policy import is_current
from treering.core.versions import TreeView, known_branches
from treering.ports.ledger import Altered, Ledger, Selection, head_of
from treering.verbs.engine import Engine
from treering.verbs.trees import CHANGED, REPLACED, AskedTree, maps_of, notes_of_objects, views_of

MAY_BE_STALE = Or(
    (
        Compare("status", "in", ("active", "contested", "stale")),
        # Candidates of readings leave with the lines of their files.
        And((Compare("status", "eq", "candidate"), Compare("channel", "ne", "adapter"))),
    )
)
"""The knowledge that `stale_in` can report."""


def stale_knowledge(engine: Engine, scope: str, altered: Altered) -> dict[str, tuple[Knowledge, str]]:
    """Return by id the stale knowledge that lint reports at a scope and below, each with its tree as in `stale_in`.

    Of each repository, the tree is the branch of the caller's work tree, or else the first branch.
    """
    has_branches = any(len(known_branches(one.payload)) > 1 for one in maps_of(engine, scope))
    where = MAY_BE_STALE if has_branches else Compare("status", "eq", "stale")
    selection = Selection(scope=scope, descend=True, types=("knowledge",), where=where)
    selected = engine.ledger.select(selection, altered=altered)
    items = {item.id: item for item in selected if isinstance(item, Knowledge) and may_be_stale(item)}
    stale = stale_in(views_of(engine, scope), engine.ledger, items.values())
    return {identity: (items[identity], tree) for identity, tree in stale.items()}


def may_be_stale(item: Knowledge) -> bool:
    """Return whether knowledge has the status, or lost lines on a branch."""
    return item.status == "stale" or (is_current(item) and any(ref.lost_on for ref in item.evidence_refs))


def stale_in(trees: Sequence[TreeView], ledger: Ledger, items: Collection[Knowledge]) -> Mapping[str, str]:
    """Return by id the stale ones of some knowledge, with the tree that lost the lines, or "" if all branches did.

    Stale knowledge that a tree replaced is left out, and knowledge that only files stated.
    """
    known = [item for item in items if not item.is_only_read]
    everywhere = [item for item in known if item.status == "stale"]
    current = [item for item in known if item.status != "stale"]
    replaced = {one for tree in trees for one in noted_in(tree, ledger, everywhere, REPLACED)}
    stale = {item.id: "" for item in everywhere if item.id not in replaced}
    return stale | {one: tree.name for tree in trees for one in noted_in(tree, ledger, current, CHANGED)}


def noted_in(tree: TreeView, ledger: Ledger, items: Collection[Knowledge], kind: str) -> Iterator[str]:
    """Yield the ids of knowledge with a kind of note in a tree, such as `trees.CHANGED`."""
    notes = notes_of_objects(AskedTree(tree), ledger, map(head_of, items), read=items)
    return (identity for identity, note in notes.items() if note.startswith(kind))

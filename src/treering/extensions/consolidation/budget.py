"""A budget of a scope: the objects to archive until it is small enough."""

from collections.abc import Sequence

from treering.core.objects import Activity, Knowledge, Object, Source
from treering.extensions.consolidation.redundant_groups import Group, GroupFinder, archived
from treering.retrieval.index.passages import passages_of
from treering.verbs.envelope import Value
from treering.verbs.feedback import uses

MEGABYTE = 1_000_000
_OBJECTS_PER_PATCH = 200
_STORED_OUTSIDE = frozenset({"file", "repo", "markdown", "pdf", "office", "openapi"})
"""Kinds of sources that are read from other places: archived, they would be read again by the next ingest."""
_WITHDRAWN_FIRST = {"superseded": 0, "stale": 0, "candidate": 1, "active": 2}


class BudgetReport(Value):
    """A scope compared to its budget: passages and bytes of text, before and after archiving."""

    passages: int
    bytes: int
    passages_after: int
    bytes_after: int
    protected: int
    """Objects that are never archived: written by a person, evidence of current knowledge, or stored elsewhere."""


class BudgetPlan:
    """Groups of objects to archive until a scope is within a number of passages or megabytes of text.

    The least used, least cited and oldest objects come first.
    """

    def __init__(
        self, finder: GroupFinder, gone: set[str], *, max_passages: int | None, max_megabytes: float | None
    ) -> None:
        stored = [
            item
            for item in finder.objects.values()
            if item.id not in gone and item.status not in ("archived", "merged")
        ]
        sizes = {item.id: _size(item) for item in stored}
        passages = sum(size[0] for size in sizes.values())
        text = sum(size[1] for size in sizes.values())
        may_go = [item for item in stored if _may_be_budgeted(item) and finder.may_go(item)]
        passage_limit = passages if max_passages is None else max_passages
        text_limit = text if max_megabytes is None else int(max_megabytes * MEGABYTE)
        left, left_text, chosen = passages, text, list[Object]()
        weights = uses(finder.call.engine.feedback, finder.seen.now)
        for item in sorted(
            may_go, key=lambda one: (_withdrawn_first(one), weights.get(one.id, 0.0), one.updated_at, one.id)
        ):
            if left <= passage_limit and left_text <= text_limit:
                break
            chosen.append(item)
            left, left_text = left - sizes[item.id][0], left_text - sizes[item.id][1]
        self.groups = [
            _of_budget(chosen[start : start + _OBJECTS_PER_PATCH])
            for start in range(0, len(chosen), _OBJECTS_PER_PATCH)
        ]
        self.report = BudgetReport(
            passages=passages,
            bytes=text,
            passages_after=left,
            bytes_after=left_text,
            protected=len(stored) - len(may_go),
        )


def _size(item: Object) -> tuple[int, int]:
    passages = passages_of(item)
    return len(passages), sum(len(one.text.encode()) for one in passages)


def _may_be_budgeted(item: Object) -> bool:
    match item:
        case Source():
            return item.kind not in _STORED_OUTSIDE and not item.origin.startswith("messages:")
        case Knowledge(kind="summary"):
            return False  # archived together with the summarized objects
        case Knowledge():
            return True
        case Activity():
            return item.status == "finalized"
        case _:
            return False


def _withdrawn_first(item: Object) -> int:
    return _WITHDRAWN_FIRST.get(item.status, 1) if isinstance(item, Knowledge) else 1


def _of_budget(items: Sequence[Object]) -> Group:
    return Group("budget", tuple(items), "over the budget of its scope", tuple(map(archived, items)))

"""Statements that contradict each other although each was confirmed, with the places they rest on."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from treering.core.characters import one_line
from treering.core.declarations import is_declaration
from treering.core.evidence import Lines, short_place
from treering.core.objects import Knowledge
from treering.ports.ledger import Altered
from treering.verbs.envelope import Call
from treering.verbs.scoped_ledger import on_all_branches
from treering.verbs.short_ids import short_id

_MAX_CHARS = 100
"""Of one statement: a line names two or more."""


def contradictions(items: Iterable[Knowledge]) -> list[Sequence[Knowledge]]:
    """Return the groups of confirmed statements that contradict each other, the newest statement first.

    A candidate is in no group: it contradicts other claims, but is not confirmed.
    """
    groups: dict[str, list[Knowledge]] = {}
    for item in items:
        if item.status == "contested" and item.was_active and (key := item.claim_key()):
            groups.setdefault(key, []).append(item)
    newest_first = [sorted(group, key=lambda one: (one.created_at, one.id), reverse=True) for group in groups.values()]
    return sorted((one for one in newest_first if len(one) > 1), key=lambda one: one[0].created_at, reverse=True)


class ContestedLines:
    """Writes groups of statements that contradict each other, each in one line."""

    def __init__(
        self, call: Call, groups: Sequence[Sequence[Knowledge]], statement: Callable[[Knowledge], str], altered: Altered
    ) -> None:
        self._statement = statement
        refs = [ref for group in groups for item in group for ref in item.evidence_refs]
        ledger = on_all_branches(call.engine.ledger)
        self._segments = (
            ledger.segments([(one.source_id, one.segment_id) for one in refs], altered=altered) if refs else {}
        )
        self._heads = ledger.heads({one.source_id for one in refs}) if refs else {}

    def line(self, group: Sequence[Knowledge]) -> str:
        """Return a group in one line, with the ids of all except the first, which is the entry itself."""
        first, *others = group
        named = [f"or {self._named(one, short_id(one.id))}" for one in others]
        return " – ".join([self._named(first), *named])

    def _named(self, item: Knowledge, identity: str = "") -> str:
        notes = ", ".join(filter(None, [next(self._places(item), ""), identity]))
        text = one_line(self._statement(item), most=_MAX_CHARS)
        return f"{text} ({notes})" if notes else text

    def _places(self, item: Knowledge) -> Iterator[str]:
        for ref in item.evidence_refs:
            segment, head = self._segments.get((ref.source_id, ref.segment_id)), self._heads.get(ref.source_id)
            # The note of a declaration repeats the statement.
            if ref.role == "supports" and segment and head and not is_declaration(head.origin):
                place = ref.locator(segment)
                yield short_place(place.cite()) if isinstance(place, Lines) else one_line(head.origin)

"""Knowledge that rules or a model made from sources, and that repeats their words."""

from collections.abc import Callable, Collection, Sequence

from treering.core.objects import Knowledge, Object, Source, Summary


def made_from(
    items: Collection[Object], dependents: Callable[[str], Sequence[str]], get: Callable[[str], Object | None]
) -> list[Knowledge]:
    """Return the summaries and unconfirmed statements that rest only on objects, directly or through each other.

    A summary of a conversation is included even if it also rests on others, because all of it repeats the conversation.
    Not included: knowledge that a person wrote, edited or confirmed.
    """
    gone = {item.id for item in items}
    talks = {item.id for item in items if isinstance(item, Source) and item.kind == "conversation"}
    made: list[Knowledge] = []
    waiting = list(gone)
    while waiting:
        for identity in dependents(waiting.pop()):
            item = get(identity)
            if identity in gone or not isinstance(item, Knowledge) or not _is_made_by_machine(item):
                continue
            bases = {ref.source_id for ref in item.evidence_refs}.union(item.derived_from)
            is_talk = isinstance(item.payload, Summary) and not talks.isdisjoint(bases)
            if is_talk or bases <= gone:
                gone.add(identity)
                made.append(item)
                waiting.append(identity)
                talks |= {identity} if is_talk else set()
    return made


def _is_made_by_machine(item: Knowledge) -> bool:
    if item.memory_source not in {"system_generated", "agent_inferred"}:
        return False
    if isinstance(item.payload, Summary):
        return not (item.payload.by_hand or item.payload.struck_by_hand)
    return item.status == "candidate"

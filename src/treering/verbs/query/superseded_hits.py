"""Search hits that were superseded, by knowledge or by a later turn: their replacements come before them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from treering.core.declarations import is_declaration
from treering.core.evidence import Turn
from treering.core.objects import Knowledge, Object, Source
from treering.ports.format import is_decision_record
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run, run_together
from treering.retrieval.search.question import Question, asks_about_past
from treering.retrieval.search.replaced import latest_successors, only_replaced
from treering.retrieval.search.retrieval import Hit, Retrieval, retrieval
from treering.retrieval.text.decision_records import replaced_records
from treering.verbs.envelope import Call
from treering.verbs.query.referring import knowledge_on
from treering.verbs.query.task_reading import notes_on
from treering.verbs.reading import question_of
from treering.verbs.replaced_turns import FoundTurn, behind_replacements, replaced_turns
from treering.verbs.shown_hits import Replaced
from treering.verbs.trees import CHANGED

Place = tuple[str, str]
"""An object and a segment of it; the segment is empty for the whole object."""
_ALIKE = 3
"""Turns with the same segment id, in copies of a conversation."""


def place_of_hit(hit: Hit) -> Place:
    """Return the place of a hit."""
    return hit.head.object_id, hit.head.part


def replaced_places(call: Call, found: Retrieval) -> dict[Place, Replaced]:
    """Return the places of hits that only superseded knowledge cites, with its latest replacement.

    Replacements of other branches do not count. Empty for a read of the past, which shows everything as it was.
    """
    outdated = found.outdated
    places = {place_of_hit(hit) for hit in found.hits if hit.head.object_id in outdated}
    citing = only_replaced(knowledge_on(call, sorted({source for source, _ in places}))) if places else {}
    older = {
        place: [one.id for one in items if one.status == "superseded"][-1]
        for place, items in citing.items()
        if place in places
    }
    latest = _latest(call, frozenset(older.values())) if older else {}
    notes = notes_on(call, latest.values())
    elsewhere = {old for old, new in latest.items() if not notes.get(new.id, CHANGED).startswith(CHANGED)}
    return {place: Replaced(latest.get(old)) for place, old in older.items() if old not in elsewhere}


def _latest(call: Call, superseded: frozenset[str]) -> dict[str, Knowledge]:
    """Return by id of superseded knowledge its latest replacement, if the call may read it."""
    ledger = call.engine.ledger
    latest = run(latest_successors(superseded), index=call.engine.index, ledger=ledger)
    (read,) = ledger.read([ObjectRequest(objects=tuple(sorted(set(latest.values()))))])
    return {old: item for old, new in latest.items() if isinstance(item := read.objects.get(new), Knowledge)}


def replacements_first(
    call: Call, hits: Sequence[Hit], replaced: Mapping[Place, Replaced], reach: Reach, *, limit: int
) -> tuple[Hit, ...]:
    """Move each replaced passage directly below its replacement, or below a passage that the replacement cites.

    A replacement that is not among the hits is looked up and put above the passage; hits past `limit` are dropped.
    """
    current = {place: one.by for place, one in replaced.items() if one.by and one.by.status == "active"}
    if not current:
        return tuple(hits)
    placing = _replacements_by_place(current.values())
    shown = {one for hit in hits for one in placing.get(place_of_hit(hit), ())}
    absent = [one for one in dict.fromkeys(item.id for item in current.values()) if one not in shown]
    looked_up = _look_up(call, absent, reach)
    placed = set(absent) - looked_up.keys()  # a replacement that may not be shown defers nothing
    deferred: dict[str, list[Hit]] = {}
    reordered: list[Hit] = []
    for hit in hits:
        place = place_of_hit(hit)
        replacement = current[place].id if place in current else ""
        if replacement in looked_up and replacement not in placed:
            reordered.append(replace(looked_up[replacement], score=hit.score))
            placed.add(replacement)
        if replacement and replacement not in placed:
            deferred.setdefault(replacement, []).append(hit)
            continue
        reordered.append(hit)
        for one in placing.get(place, ()):
            placed.add(one)
            reordered += (replace(late, score=min(late.score, hit.score)) for late in deferred.pop(one, ()))
    reordered += chain.from_iterable(deferred.values())
    return tuple(reordered[: max(limit, len(hits))])


def _replacements_by_place(current: Iterable[Knowledge]) -> dict[Place, list[str]]:
    """Return the ids of replacements by their own place and by the places that they cite."""
    placing: dict[Place, list[str]] = {}
    for item in {one.id: one for one in current}.values():
        for place in ((item.id, ""), *((ref.source_id, ref.segment_id) for ref in item.evidence_refs)):
            placing.setdefault(place, []).append(item.id)
    return placing


def _look_up(call: Call, identities: Sequence[str], reach: Reach) -> dict[str, Hit]:
    """Return the visible hits of some knowledge, by id."""
    hits = _hits_of(call, identities, reach, limit=1)
    return {hit.head.object_id: hit for hit in hits if hit.head.object_id in identities}


def _hits_of(call: Call, texts: Sequence[str], reach: Reach, *, limit: int) -> list[Hit]:
    """Search for each of some ids, all together; return the first hits of each."""
    searches = [retrieval(question_of(call, text, semantic=False), reach=reach, limit=limit) for text in texts]
    index, ledger = call.engine.index, call.engine.ledger
    results: list[Retrieval] = run_together(searches, index=index, ledger=ledger) if searches else []
    return [hit for result in results for hit in result.hits]


def without_declarations(hits: Sequence[Hit], found: Retrieval, replaced: Mapping[Place, Replaced]) -> tuple[Hit, ...]:
    """Remove the note of a declaration if its statement, or the replacement of that, is among the hits."""
    shown = {hit.head.object_id for hit in hits}

    def is_repeated(hit: Hit) -> bool:
        later = replaced.get(place_of_hit(hit))
        statements = {head.id for head in found.resting.get(hit.head.object_id, ())}
        statements |= {later.by.id} if later and later.by else set()
        return is_declaration(hit.head.origin) and not shown.isdisjoint(statements)

    return tuple(hit for hit in hits if not is_repeated(hit))


class CurrentHits(NamedTuple):
    """Hits in which no turn or decision record is above its replacement; the replaced ones; warnings about turns."""

    hits: Sequence[Hit]
    replaced: dict[Place, Replaced]
    warnings: tuple[str, ...]


def current_first(
    call: Call, hits: Sequence[Hit], question: Question, reach: Reach, *, limit: int | None = None
) -> CurrentHits:
    """Move each replaced turn directly below the turn that replaced it, and passages of replaced decision records.

    A replacing turn that is not among the hits is looked up, and shown if the read may see it, filters included; hits
    past `limit` are dropped. A replacing record is not looked up. A read of the past shows which turns were replaced by
    then.
    """
    past = asks_about_past(question.text)
    ordered, turns, warnings = _current_turns_first(call, hits, question, reach, past=past)
    if limit is not None:
        ordered = ordered[: max(limit, len(hits))]
    ordered, records = _current_records_first(call, ordered, reach, past=past)
    return CurrentHits(ordered, records | turns, warnings)


def _current_turns_first(
    call: Call, hits: Sequence[Hit], question: Question, reach: Reach, *, past: bool
) -> CurrentHits:
    now = question.zone.local(call.engine.clock.now())
    by_turn = replaced_turns(call.engine, _turns_of(hits, reach), question.text, now)
    leading = {place: by.place for place, by in by_turn.items() if by.leads}
    absent = set(leading.values()) - set(map(place_of_hit, hits))
    found = _hits_of(call, sorted({segment_id for _, segment_id in absent}), reach, limit=_ALIKE)
    looked_up = {place: hit for hit in found if (place := place_of_hit(hit)) in absent}
    ordered = behind_replacements(
        hits,
        leading,
        key_of=place_of_hit,
        look_up=lambda hit, place: _ranked_as(hit, looked_up[place]) if place in looked_up else None,
        past=past,
    )
    return CurrentHits(ordered, {place: Replaced(turn=turn) for place, turn in by_turn.items()}, by_turn.warnings)


def _current_records_first(
    call: Call, hits: Sequence[Hit], reach: Reach, *, past: bool
) -> tuple[Sequence[Hit], dict[Place, Replaced]]:
    ids = {hit.head.object_id for hit in hits if hit.head.type == "source" and is_decision_record(hit.head.origin)}
    if not ids:
        return hits, {}
    (read,) = call.engine.ledger.read([ObjectRequest(objects=tuple(sorted(ids)), as_of=reach.at)])
    replaced = replaced_records(one for one in read.objects.values() if isinstance(one, Source))
    marks = {place_of_hit(hit): record for hit in hits if (record := replaced.get(hit.head.object_id))}
    first = {hit.head.object_id: place_of_hit(hit) for hit in reversed(hits)}
    leading = {place: first[record.source_id] for place, record in marks.items() if record.source_id}
    ordered = behind_replacements(hits, leading, key_of=place_of_hit, look_up=lambda _hit, _place: None, past=past)
    return ordered, {place: Replaced(record=record) for place, record in marks.items()}


def notes_of_replaced_records(items: Iterable[Object], replaced: Mapping[Place, Replaced]) -> Mapping[str, str]:
    """Return by id the notes of knowledge that only cites decision records among the replaced places."""
    notes = {source: one.note for (source, _), one in replaced.items() if one.record}
    cited = {one.id: {ref.source_id for ref in one.evidence_refs} for one in items if isinstance(one, Knowledge)}
    return {one: notes[min(sources)] for one, sources in cited.items() if sources and sources <= notes.keys()}


def _turns_of(hits: Iterable[Hit], reach: Reach) -> list[FoundTurn]:
    turns = (hit for hit in hits if isinstance(hit.locator, Turn))
    return [FoundTurn(place_of_hit(hit), hit.head.scope, hit.head.origin, reach.at) for hit in turns]


def _ranked_as(replaced: Hit, replacement: Hit) -> Hit:
    """Return a hit that was looked up by its id with the rank of the hit that it replaces."""
    fused = replaced.fused._replace(key=replacement.head.key, parts={})
    return replace(replacement, score=replaced.score, fused=fused)

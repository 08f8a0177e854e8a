"""Facts that were edited: what a search shows of the texts behind the old ones."""

import pytest

from space_parts import note, only_id, open_space

PEOPLE = [
    f"{first} {last}" for first in ("Ada", "Ben", "Cleo", "Dina", "Emil") for last in "Koch Ruiz Marsh Stone".split()
]
OLD, NEW = "Norrby", "Ekvik"


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def declared(space, texts):
    """Give no evidence: what a person states is its own."""
    return [[] for _ in texts]


def noted(space, texts):
    return [[note(space, text, origin=f"note:{number}")] for number, text in enumerate(texts)]


def said(space, texts):
    """Have all of it said in one conversation; return the turns."""
    messages = [{"role": "user", "content": text} for text in texts]
    report = space.ingest("source", input={"items": [{"kind": "conversation", "origin": "talk", "messages": messages}]})
    source = space.engine.ledger.get(report.items[0].source_id)
    return [[{"source_id": source.id, "segment_id": segment.segment_id}] for segment in source.segments]


def home(person, town, evidence):
    payload = {"subject": person, "predicate": "lives in", "value": town}
    title = f"{person} lives in {town}"
    return {"kind": "fact", "title": title, "payload": payload, "evidence_refs": evidence, "status": "active"}


def search(space, text, **options):
    return space.query("search", input={"text": text}, options=options)


def edit_all(space, recorded):
    """State where each person lives, then that all of them moved; return the new fact of each."""
    before = [f"{person} lives in {OLD}, near the mill." for person in PEOPLE]
    after = [f"{person} moved and lives in {NEW} now." for person in PEOPLE]
    evidence = recorded(space, before + after)
    edited = {}
    for number, person in enumerate(PEOPLE):
        old = only_id(space.crystallize("knowledge", input=home(person, OLD, evidence[number])), "know:")
        new = home(person, NEW, evidence[len(PEOPLE) + number])
        report = space.crystallize("supersede", input={"id": old, "knowledge": new})
        edited[person] = next(one for one in report.ids if one.startswith("know:") and one != old)
    space.embed_pending()
    return edited


@pytest.mark.parametrize("recorded", [declared, noted, said])
def test_no_stale_text_is_shown_as_current(space, recorded):
    shown = 0
    for person, new in edit_all(space, recorded).items():
        stale = [hit for hit in search(space, f"Where does {person} live?").hits if OLD in hit.text]
        assert all("superseded" in hit.flags and not hit.current for hit in stale)
        own = [hit for hit in stale if person in hit.text]
        assert {(hit.superseded_by, hit.note) for hit in own} <= {(new, f'superseded by "{person} lives in {NEW}"')}
        shown += len(own)
    assert shown


@pytest.mark.parametrize("recorded", [declared, noted, said])
def test_stale_text_comes_below_its_replacement(space, recorded):
    for person in edit_all(space, recorded):
        texts = [hit.text for hit in search(space, f"{person} lives in {OLD}").hits]
        stale = (place for place, text in enumerate(texts) if person in text and OLD in text)
        at = next(stale, len(texts))  # a declaration is not shown beside its successor
        assert any(person in text and NEW in text for text in texts[:at])


def test_text_on_which_other_knowledge_rests_is_not_flagged(space):
    both = note(space, f"Ada lives in {OLD} and sails.", origin="both")
    old = only_id(space.crystallize("knowledge", input=home("Ada", OLD, [both])), "know:")
    space.crystallize("knowledge", input={**home("Ada", "sailing", [both]), "title": "Ada sails"})
    space.crystallize("supersede", input={"id": old, "knowledge": home("Ada", NEW, [])})
    hit = next(hit for hit in search(space, "Where does Ada live and sail?").hits if hit.object_id == both["source_id"])
    assert (hit.flags, hit.current, hit.superseded_by) == ((), True, "")


def test_read_of_the_past_flags_nothing(space):
    was = note(space, f"Ada lives in {OLD}.", origin="was")
    old = only_id(space.crystallize("knowledge", input=home("Ada", OLD, [was])), "know:")
    before = space.engine.ledger.sequence()
    space.crystallize("supersede", input={"id": old, "knowledge": home("Ada", NEW, [])})
    hits = search(space, "Where does Ada live?", as_of=before).hits
    assert hits
    assert all(hit.current and not hit.flags for hit in hits)


def test_replacement_that_is_filtered_out_is_still_named(space):
    was = note(space, f"Ada lives in {OLD}.", origin="was")
    old = only_id(space.crystallize("knowledge", input=home("Ada", OLD, [was])), "know:")
    space.crystallize("supersede", input={"id": old, "knowledge": home("Ada", NEW, [])})
    hits = search(space, "Where does Ada live?", filter={"type": "source"}).hits
    stale = next(hit for hit in hits if hit.object_id == was["source_id"])
    assert stale.superseded_by.startswith("know:")

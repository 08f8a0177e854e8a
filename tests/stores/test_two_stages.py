"""Each text has a vector in the transaction that writes it: the quick model's, until the encoder has made its own."""

import pytest
from postgres_spaces import new_space

import treering
from treering.extensions.encoder.onnx import BgeSmall
from treering.models.static_model import StaticEmbedder
from treering.ports.index import quick_vectors
from treering.ports.search import Lag
from treering.retrieval.index.rounds import lag_of
from treering.verbs.read_reports import lag_warning

BREAD = "On Sunday they made a sourdough loaf with rye and caraway."
TRIP = "Maria spent two weeks hiking in the Dolomites in August."
ASKED = "summer vacation trekking through Italian mountains"
"""A question that shares no word with what answers it, and is well above the threshold of either model."""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'space.db'}"
    return request.getfixturevalue("server").url(space=new_space())


@pytest.mark.parametrize(
    ("quick", "total", "is_stated"), [(1_200, 10_000, True), (900, 10_000, False), (50, 50, False)]
)
def test_warning_states_many_passages_of_the_quick_model(quick, total, is_stated):
    warnings = lag_warning(Lag(pending=quick, total=total, quick=quick))
    assert any("a smaller model" in one for one in warnings) == is_stated


def note(space, text, origin):
    space.ingest("source", input={"kind": "note", "origin": origin, "title": origin, "text": text})


def asked(space, **options):
    return space.query("search", input={"text": ASKED}, options={"explain": True, **options})


def test_write_is_found_by_meaning_at_once(address):
    with treering.open(address, background=False) as space:
        note(space, BREAD, "bread")
        note(space, TRIP, "trip")
        report = asked(space)
        assert [hit.text for hit in report.hits] == [TRIP]
        assert report.warnings == ('Nothing here mentions "Italian".',)
        assert "quick" in report.hits[0].explain["arms"]
        assert lag_of(space.engine.index) == Lag(2, 2, quick=2)
        assert space.lint("reindex").differences == ()


def test_a_vector_of_the_encoder_takes_the_place_of_the_quick_one(address):
    with treering.open(address, background=False) as space:
        note(space, BREAD, "bread")
        note(space, TRIP, "trip")
        waiting = space.engine.index.vectors.pending(9)
        [trip] = [one for one in waiting if TRIP in one.text]
        space.engine.index.vectors.add({trip.text_hash: BgeSmall().embed_documents([trip.text])[0]})
        assert lag_of(space.engine.index) == Lag(1, 2, quick=1)
        found = {hit.text: hit.explain["arms"] for hit in asked(space).hits}
        assert "vectors" in found[TRIP]
        assert "quick" not in found[TRIP]
        space.embed_pending()
        assert lag_of(space.engine.index) == Lag(0, 2)
        assert quick_vectors(space.engine.index).lag() == Lag(0, 0)
        assert space.lint("reindex").differences == ()


def test_a_space_that_was_written_without_the_quick_model_gets_its_vectors_before_those_of_the_encoder(address):
    with treering.open(address, background=False, quick=False) as space:
        note(space, TRIP, "trip")
        assert "1 of 1 passages are not embedded yet" in space.query("search", input={"text": "August"}).warnings[0]
    with treering.open(address, background=False) as space:
        quick = quick_vectors(space.engine.index)
        assert lag_of(space.engine.index) == Lag(1, 1)
        [waiting] = quick.pending(9)
        quick.add({waiting.text_hash: StaticEmbedder().embed_documents([waiting.text])[0]})
        assert list(quick.pending(9)) == []
        assert [hit.text for hit in asked(space).hits] == [TRIP]
        note(space, BREAD, "bread")
        assert lag_of(space.engine.index) == Lag(2, 2, quick=2)


def test_erased_or_changed_text_has_no_quick_vector(address):
    with treering.open(address, background=False, channel="user") as space:
        note(space, TRIP, "trip")
        note(space, "Nothing of the kind.", "trip")
        assert [hit.flags for hit in asked(space).hits] == [("weak",)]
        [found] = space.query("search", input={"text": "kind"}).hits
        space.erase([found.object_id])
        assert lag_of(space.engine.index) == Lag(0, 0)
        assert asked(space, withdrawn=True).hits == ()


def test_a_space_whose_embedder_is_quick_has_nothing_that_waits(address):
    with treering.open(address, background=False, embedder=StaticEmbedder()) as space:
        note(space, TRIP, "trip")
        assert lag_of(space.engine.index) == Lag(0, 1)
        [hit] = asked(space).hits
        assert "quick" not in hit.explain["arms"]
        assert space.lint("reindex").differences == ()


def test_passages_that_wait_are_counted_alike_whether_few_or_many_do(address):
    with treering.open(address, background=False) as space:
        for number in range(8):
            given = {"kind": "note", "origin": f"trip {number}", "title": "Trip", "text": f"{TRIP} {number % 4}"}
            space.ingest("source", input=given)
        vectors = space.engine.index.vectors
        for texts in (4, 3, 2, 1, 0):
            assert lag_of(space.engine.index) == Lag(2 * texts, 8, quick=2 * texts)
            for one in vectors.pending(1):
                vectors.add({one.text_hash: BgeSmall().embed_documents([one.text])[0]})

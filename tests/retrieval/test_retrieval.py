from datetime import UTC, datetime

import pytest

from space_parts import note, open_space
from treering.core.filters import EVERYTHING, parse_filter
from treering.core.scope import ROOT
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run
from treering.retrieval.search.fusion import WALKED, WORDS
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import retrieval
from treering.testing.fakes import HashingEmbedder

ASKED = "Where did Ada Lovelace have her friend educated?"
CHAIN = {
    "note:letter": ("Ada Lovelace", "wrote to", "Charles Babbage"),
    "note:student": ("Charles Babbage", "studied at", "Trinity College"),
    "note:other": ("Grace Hopper", "built", "a compiler"),
}


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        for origin, (subject, relation, end) in CHAIN.items():
            fact = {"subject": subject, "relation": relation, "object": end}
            note(opened, f"{subject} {relation} {end}.", origin=origin, title=origin, triples=[fact])
        yield opened


def ask(space, text=ASKED, *, embedder=None, where=EVERYTHING, limit=5, scope=ROOT, **reach):
    engine = space.engine
    question = Question.of(text, embedder=embedder)
    steps = retrieval(question, reach=Reach(scope, where=where, **reach), limit=limit)
    return run(steps, index=engine.index, ledger=engine.ledger)


def origins(found):
    return [hit.head.origin for hit in found.hits]


def test_a_passage_that_only_the_graph_finds_is_among_the_hits_and_its_parts_say_so(space):
    found = ask(space)
    assert origins(found) == ["note:letter", "note:student"]
    named, associated = found.hits
    assert {WORDS, WALKED} <= named.fused.parts.keys()
    assert WORDS not in associated.fused.parts
    assert associated.fused.parts[WALKED].raw > 0
    assert associated.text == "Charles Babbage studied at Trinity College."


def test_the_trace_reports_where_the_walk_began(space):
    told = ask(space).trace["graph"]
    assert {"ada lovelace", "charles babbage"} <= told["seeds"].keys()
    assert told["facts"][0].startswith("ada lovelace — charles babbage")
    assert told["reached"] == 2


def test_what_the_graph_adds_has_to_pass_the_filter(space):
    left_out = parse_filter({"origin": {"ne": "note:student"}})
    assert origins(ask(space, where=left_out)) == ["note:letter"]
    kept = parse_filter({"origin": {"in": ["note:letter", "note:student"]}})
    assert origins(ask(space, where=kept)) == ["note:letter", "note:student"]


def test_what_the_graph_adds_has_to_be_in_reach(space):
    fact = {"subject": "Charles Babbage", "relation": "hid in", "object": "Devon"}
    note(space, "Charles Babbage hid in Devon.", origin="note:secret", scope="/secret", triples=[fact])
    assert "note:secret" not in origins(ask(space))
    assert "note:secret" in origins(ask(space, descend=True))


def test_what_was_erased_is_not_walked_to(space):
    (student,) = [hit for hit in ask(space).hits if hit.head.origin == "note:student"]
    space.erase([student.head.object_id], reason="asked for")
    assert origins(ask(space)) == ["note:letter"]


@pytest.mark.parametrize("text", ["Ada Lovelace", "lovelace", "note:letter"])
def test_a_lookup_is_not_walked(space, text):
    found = ask(space, text)
    assert origins(found)[0] == "note:letter"
    assert found.association is None
    assert found.trace["graph"] == "not walked: a lookup needs none"


def test_the_past_is_not_walked(space):
    then = space.engine.ledger.sequence()
    for reach in ({"at": then}, {"withdrawn": True}):
        found = ask(space, **reach)
        assert found.association is None
        assert found.trace["graph"] == "not walked: it covers only the current state"
        assert origins(found) == ["note:letter"]


def test_where_nothing_was_found_there_is_nothing_to_walk_from(space):
    found = ask(space, "Which xylophone does the zebra play?")
    assert (found.hits, found.association) == ((), None)
    assert found.trace["graph"] == "not walked: there is no starting point"


class Generous(HashingEmbedder):
    """An embedder for which any two texts may have to do with each other."""

    unrelated_below = -1.0


def test_the_embedder_says_below_which_cosine_a_text_says_nothing(space):
    space.embed_pending()
    asked = "Which xylophone does the zebra play?"
    assert ask(space, asked, embedder=space.engine.embedder).unrelated
    assert not ask(space, asked, embedder=Generous()).unrelated
    assert sorted(origins(ask(space, asked, embedder=Generous()))) == sorted(CHAIN)


class TestTurnsFarFromTheQuestion:
    """A turn has few words of its own, so its distance says little where anything at all was found."""

    @pytest.fixture
    def talk(self, space):
        say(space, ("2022-01-02T10:00:00Z", "Ann", "So we did."), origin="chat:far")
        note(space, "Magnolias wilt.", origin="note:far")
        return space

    def test_stay_where_words_found_something(self, talk):
        note(talk, "The xylophone is of oak.", origin="note:near")
        talk.embed_pending()
        assert origins(ask(talk, "Which xylophone?", embedder=HashingEmbedder())) == ["note:near", "chat:far"]

    def test_stay_where_what_words_found_has_no_vector_yet(self, talk):
        talk.embed_pending()
        note(talk, "The xylophone is of oak.", origin="note:near")
        assert origins(ask(talk, "Which xylophone?", embedder=HashingEmbedder())) == ["note:near", "chat:far"]

    def test_stay_where_meaning_alone_found_something(self, talk):
        embedder = Synonyms()
        with open_space(channel="user", embedder=embedder) as space:
            say(space, ("2022-01-02T10:00:00Z", "Ann", "So we did."), origin="chat:far")
            note(space, "Magnolias wilt.", origin="note:far")
            note(space, "marimba", origin="note:near")
            space.embed_pending()
            assert origins(ask(space, "xylophone", embedder=embedder)) == ["note:near", "chat:far"]

    def test_are_all_that_is_left_where_nothing_was_found(self, talk):
        talk.embed_pending()
        found = ask(talk, "Which xylophone does the zebra play?", embedder=HashingEmbedder())
        assert found.unrelated
        assert "chat:far" in origins(found)


class Synonyms(HashingEmbedder):
    """An embedder that knows one word by another name."""

    def embed_query(self, text):
        return super().embed_query(text.replace("marimba", "xylophone"))


def test_a_limit_cuts_the_end_and_every_passage_is_there_once(space):
    assert origins(ask(space, limit=1)) == ["note:letter"]
    everything = ask(space, "Did Ada Lovelace, Charles Babbage or Grace Hopper build a compiler?", limit=50)
    assert sorted(origins(everything)) == sorted(CHAIN)


def test_scores_fall_and_are_between_0_and_1(space):
    scores = [hit.score for hit in ask(space, embedder=space.engine.embedder).hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def say(space, *messages, origin):
    """Ingest a conversation of (time, name, words)."""
    told = [{"at": at, "name": name, "content": words} for at, name, words in messages]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": origin, "messages": told}]})


def test_a_turn_that_shares_nothing_with_the_question_but_its_time_is_found(space):
    say(space, ("2023-05-08T10:00:00Z", "Ann", "Pottery was a joy."), origin="chat:may")
    say(space, ("2023-09-01T10:00:00Z", "Ann", "Back in May 2023 it rained."), origin="chat:september")
    say(space, ("2022-01-02T10:00:00Z", "Ann", "Snow everywhere."), origin="chat:january")
    assert set(origins(ask(space, "Whatever happened during May 2023?"))[:2]) == {"chat:may", "chat:september"}
    parts = {hit.head.origin: hit.fused.parts for hit in ask(space, "Whatever happened on 8 May 2023?").hits}
    assert parts["chat:may"]["date"].raw == 1.0
    assert 0 < parts["chat:september"]["date"].raw < 1
    assert "date" not in parts["chat:january"]


def test_a_time_in_the_question_is_relative_to_when_it_is_asked(space):
    say(space, ("2023-05-08T10:00:00Z", "Ann", "Pottery was a joy."), origin="chat:may")
    engine = space.engine
    for now, found in ((datetime(2023, 5, 15, tzinfo=UTC), ["chat:may"]), (datetime(2024, 5, 15, tzinfo=UTC), [])):
        question = Question.of("whatever happened a week ago?", embedder=None, now=now)
        seen = run(retrieval(question, reach=Reach(ROOT), limit=5), index=engine.index, ledger=engine.ledger)
        assert origins(seen) == found


class TextsRead:
    """A ledger that notes the segments it is asked for."""

    def __init__(self, ledger):
        self._ledger, self.segments = ledger, []

    def read(self, requests):
        self.segments += [place for request in requests for place in request.segments]
        return self._ledger.read(requests)


MATTERS = (
    "rain snow fog hail wind dew frost sleet storm mist haze thaw drought flood gale heat cold dusk dawn noon".split()
)


def test_few_more_texts_are_read_than_are_shown_where_none_repeats_another():
    with open_space(channel="user") as space:
        for n, matter in enumerate(MATTERS):
            note(space, f"{matter} harvest {' '.join(MATTERS[n : n + 3])}", origin=f"{matter}.md", title=matter)
        ledger = TextsRead(space.engine.ledger)
        question = Question.of("harvest", embedder=None)
        found = run(retrieval(question, reach=Reach(ROOT), limit=4), index=space.engine.index, ledger=ledger)
        assert len(found.hits) == 4
        assert len(ledger.segments) == 5


def test_all_texts_are_read_at_once_where_few_are_left():
    with open_space(channel="user") as space:
        for matter in MATTERS[:6]:
            note(space, f"{matter} harvest", origin=f"{matter}.md", title=matter)
        ledger = TextsRead(space.engine.ledger)
        question = Question.of("harvest", embedder=None)
        found = run(retrieval(question, reach=Reach(ROOT), limit=4), index=space.engine.index, ledger=ledger)
        assert len(found.hits) == 4
        assert len(ledger.segments) == 6


def test_more_texts_are_read_where_those_read_first_repeat_each_other():
    with open_space(channel="user") as space:
        for n in range(8):
            note(space, "harvest harvest harvest of the year", origin=f"copy{n}.md", title="harvest harvest")
        for matter in MATTERS[:4]:
            note(space, f"{matter} and the harvest", origin=f"{matter}.md", title=matter)
        ledger = TextsRead(space.engine.ledger)
        question = Question.of("harvest", embedder=None)
        found = run(retrieval(question, reach=Reach(ROOT), limit=4), index=space.engine.index, ledger=ledger)
        assert len({hit.text for hit in found.hits}) == 4
        assert len(ledger.segments) == 12


def test_no_more_texts_are_read_than_should_make_up_for_those_that_repeat_each_other():
    with open_space(channel="user") as space:
        for n in range(3):
            note(space, "harvest harvest harvest of the year", origin=f"copy{n}.md", title="harvest harvest")
        for n, matter in enumerate(MATTERS):
            note(space, f"{matter} harvest {' '.join(MATTERS[n : n + 3])}", origin=f"{matter}.md", title=matter)
        ledger = TextsRead(space.engine.ledger)
        question = Question.of("harvest", embedder=None)
        found = run(retrieval(question, reach=Reach(ROOT), limit=4), index=space.engine.index, ledger=ledger)
        assert len({hit.text for hit in found.hits}) == 4
        assert 5 < len(ledger.segments) < 4 * 3

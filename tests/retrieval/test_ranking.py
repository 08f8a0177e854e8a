import pytest

from space_parts import note, open_space
from treering.core.filters import parse_filter
from treering.core.scope import ROOT
from treering.ports.passages import Reach
from treering.retrieval import limits
from treering.retrieval.index.rounds import run
from treering.retrieval.search.fusion import EQUAL_WEIGHTS, FIRST_WEIGHTS, VECTORS
from treering.retrieval.search.question import Question
from treering.retrieval.search.ranking import rank, search_arms
from treering.retrieval.tuning import TUNING
from treering.testing.fakes import HashingEmbedder

FACTS = (
    ("Ada Lovelace", "wrote to", "Charles Babbage"),
    ("Charles Babbage", "studied at", "Trinity College"),
    ("Grace Hopper", "built", "a compiler"),
)
COMPARED = "Did Ada Lovelace or Grace Hopper write to Charles Babbage?"


class Listening(HashingEmbedder):
    """An embedder that remembers which questions it was asked to embed."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def embed_query(self, text):
        self.heard.append(text)
        return super().embed_query(text)


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


@pytest.fixture
def chain(space):
    for at, (subject, relation, end) in enumerate(FACTS):
        fact = {"subject": subject, "relation": relation, "object": end}
        note(space, f"{subject} {relation} {end}.", origin=f"note:{at}", title=f"Letter {at}", triples=[fact])
    space.embed_pending()
    return space


def ranking(space, text, *, embedder=None, limit=5, **deep):
    question = Question.of(text, embedder=embedder)
    steps = rank(question, reach=Reach(ROOT), limit=limit, **deep)
    return run(steps, index=space.engine.index, ledger=space.engine.ledger)


def weights(space, text):
    return ranking(space, text).trace["weights"]


def say(space, *words, origin):
    told = [{"name": "Ann", "content": each} for each in words]
    space.ingest("source", input={"items": [{"kind": "conversation", "origin": origin, "messages": told}]})


def test_the_trace_says_what_was_asked_found_and_weighed(chain):
    told = ranking(chain, "Where did Ada Lovelace write my_letter?", embedder=Listening()).trace
    assert told["terms"] == {"words": ("ada", "lovelac", "write", "mylett", "letter"), "identifiers": ("my_letter",)}
    assert told["route"] == "question"
    assert told["arms"] == {"words": 3, "names": 0, "places": 0, "dated": 0, "vectors": 3}
    assert (told["weights"], told["candidates"]) == (TUNING.fusion.prose_weights, 3)
    assert ranking(chain, "Ada Lovelace").trace["route"] == "lookup"


def test_passages_far_in_meaning_rank_only_if_nothing_else_does(chain):
    told = ranking(chain, "Where did Ada Lovelace have her friend educated?", embedder=Listening()).trace
    assert (told["arms"]["vectors"], told["unrelated"]) == (3, 2)
    told = ranking(chain, "Which xylophone does the zebra play?", embedder=Listening()).trace
    assert (told["arms"]["vectors"], told["unrelated"], told["candidates"]) == (3, 3, 3)
    assert ranking(chain, "Where did Ada Lovelace have her friend educated?").trace["unrelated"] == 0


def test_the_trace_names_the_seeds_and_the_statements_of_the_walk(chain):
    found = ranking(chain, "Where did Ada Lovelace have her friend educated?", embedder=Listening())
    assert found.trace["graph"] == {
        "seeds": {"ada lovelace": 1.0, "charles babbage": 0.5},
        "facts": ["ada lovelace — charles babbage (1.000)"],
        "reached": 2,
    }
    assert found.association.walked.keys() == {hit.key for hit in found.hits}


def test_a_question_is_encoded_once_and_a_deep_one_again_with_what_was_found_first(chain):
    once, again = Listening(), Listening()
    plain = ranking(chain, COMPARED, embedder=once)
    deep = ranking(chain, COMPARED, embedder=again, deep=True)
    assert once.heard == [COMPARED]
    leads = ("ada lovelace charles babbage", "grace hopper compiler", "charles babbage trinity college")
    assert again.heard == [COMPARED, *(f"{COMPARED} {lead}" for lead in (*leads, "Letter 0", "Letter 2"))]
    [before], [after] = (
        [hit.score for hit in found.hits if found.heads[hit.key].origin == "note:1"] for found in (plain, deep)
    )
    assert after > before


def test_a_deep_lookup_is_not_led_on(chain):
    embedder = Listening()
    assert ranking(chain, "Grace Hopper", embedder=embedder, deep=True).trace["weights"] == FIRST_WEIGHTS
    assert embedder.heard == ["Grace Hopper"]


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("Where was the director of El Tonto born?", ["El Tonto", "Charlie Day"]),
        (
            "Which film has the director who was born first, El Tonto or The Outlaw?",
            ["El Tonto", "The Outlaw", "Charlie Day", "Howard Hughes"],
        ),
    ],
)
def test_what_is_called_as_a_named_paragraph_says_is_found_wherever_the_walk_left_it(space, monkeypatch, text, called):
    monkeypatch.setattr(limits, "MAX_WALKED_PASSAGES", 1)
    for film, director in (("El Tonto", "Charlie Day"), ("The Outlaw", "Howard Hughes")):
        note(space, f"{film} was directed by {director}.", origin=film, title=film)
        note(space, "He plays tennis and the piano.", origin=director, title=director)
    found = ranking(space, text)
    assert sorted(found.heads[hit.key].title for hit in found.hits[: len(called)]) == sorted(called)


def test_cosines_of_an_embedder_that_tells_less_of_prose_count_for_its_share_among_paragraphs_alone(space):
    class Coarse(HashingEmbedder):
        prose_share = 0.5

    note(space, "Ada Lovelace wrote programs.", origin="note:1")
    prose = ranking(space, "Why did Ada Lovelace write programs?", embedder=Coarse()).trace["weights"]
    assert prose == {**TUNING.fusion.prose_weights, VECTORS: TUNING.fusion.prose_weights[VECTORS] / 2}
    say(space, *(f"Pottery {at}." for at in range(12)), origin="chat:1")
    assert ranking(space, "How was pottery then?", embedder=Coarse()).trace["weights"] == EQUAL_WEIGHTS


def test_turns_and_mixed_forms_have_their_weights(space):
    say(space, "Pottery was a joy.", "Was pottery hard?", origin="chat:1")
    assert weights(space, "What was so hard about pottery then?") == EQUAL_WEIGHTS
    note(space, "Pottery was hard.", origin="note:1")
    assert weights(space, "What was so hard about pottery then?") == EQUAL_WEIGHTS


def test_code_has_its_weights(space, tmp_path):
    (tmp_path / "bees.py").write_text(
        'def gather_nectar(hive):\n    """Gather what the hive lacks."""\n    return hive\n'
    )
    space.ingest("path", input={"path": str(tmp_path)})
    assert weights(space, "What does one gather for the hive?") == EQUAL_WEIGHTS


def test_a_form_prevails_that_nine_of_the_first_ten_have(space):
    say(space, "Honey.", origin="chat:1")
    for at in range(8):
        note(space, f"Honey {at}.", origin=f"note:{at}")
    assert weights(space, "What do people say of honey?") == EQUAL_WEIGHTS
    note(space, "Honey 8.", origin="note:8")
    assert weights(space, "What do people say of honey?") == TUNING.fusion.prose_weights


def test_as_many_are_ranked_as_an_arm_may_find_and_more_where_more_are_requested(space):
    most = limits.MAX_CANDIDATES_PER_ARM
    items = [{"text": f"Of bees: {at}.", "origin": f"note:{at}"} for at in range(most)]
    others = [{"text": f"Hills {at}. See dig_hills.", "origin": f"hill:{at}"} for at in range(most // 2)]
    space.ingest("source", input={"items": [*items, *others]})
    asked = "What do the bees say of ig_hil?"
    assert len(ranking(space, asked).hits) == most
    assert len(ranking(space, asked, limit=most + 10).hits) == most + 10


def test_what_ranks_behind_the_first_ten_has_no_say_in_the_form(space):
    say(space, *(f"Honey, and {word} that nobody asked about." for word in ("tea", "rain", "snow")), origin="chat:1")
    for at in range(10):
        note(space, f"People say honey, honey. {at}", origin=f"note:{at}")
    found = ranking(space, "What do people say of honey?")
    assert [found.heads[hit.key].kind for hit in found.hits].count("conversation") == 3
    assert found.trace["weights"] == TUNING.fusion.prose_weights


def test_the_trace_names_seeds_that_nothing_is_stated_of(space):
    for title in ("Ada Lovelace", "Grace Hopper", "Grace Hopper again"):
        note(space, f"On {title} there is nothing to be told here.", origin=title, title=title)
    told = ranking(space, "What did Ada Lovelace and Grace Hopper program first?").trace["graph"]
    assert told["facts"] == []
    assert told["seeds"].keys() >= {"ada lovelace", "grace hopper"}


def test_the_trace_rounds_the_weights_of_seeds(chain):
    told = ranking(chain, COMPARED, embedder=Listening()).trace["graph"]["seeds"]
    assert len(told) == 5
    assert all(weight == round(weight, 6) for weight in told.values())


@pytest.mark.parametrize(
    ("where", "role"),
    [
        ({}, "code"),
        ({"type": "source"}, "code"),
        ({"or": [{"type": "knowledge"}, {"type": "source"}]}, "code"),
        ({"role": {"in": ["test", "code"]}}, "code"),
        ({"type": {"in": ["knowledge", "activity"]}}, ""),
        ({"kind": "decision", "and": [{"type": "source"}, {"type": "knowledge"}]}, ""),
        ({"role": "test"}, ""),
    ],
)
def test_code_is_ranked_by_itself_only_where_it_may_be_found(where, role):
    reach = Reach(ROOT, where=parse_filter(where))
    asked = next(search_arms(Question.of("How is a lease renewed?", embedder=None), reach))
    assert asked.words_in == role

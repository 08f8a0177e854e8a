from random import Random

import numpy as np
import pytest
from graph_parts import associated, graph_of, own
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.ports.passages import Reach
from treering.retrieval.graph.association import associate, names_in, without_copies
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.tuning import TUNING
from treering.testing.index_contract.graph import MemoryGraph

CHAIN = {
    1: own(1, ("Ada Lovelace", "wrote to", "Charles Babbage")),
    2: own(2, ("Charles Babbage", "studied at", "Trinity College")),
    3: own(3, ("Trinity College", "lies in", "Cambridge")),
    9: own(9, ("Grace Hopper", "built", "a compiler")),
}


def test_a_walk_goes_from_what_the_question_names_to_what_it_does_not():
    walked = associated("What did Ada Lovelace write?", CHAIN).walked
    assert walked[1] > walked[2] > walked[3]
    assert 9 not in walked


def test_a_passage_two_hops_from_what_was_found_is_reached():
    association = associated("Where did her friend study?", CHAIN, [(1, 1.0)])
    assert list(association.walked) == [1, 2, 3]
    assert association.bridged.keys() == {2}, "a bridge is one entity long"


def test_the_facts_of_the_best_passages_seed_the_walk():
    found = [(2, 0.8), (9, 0.2)]
    association = associated("Which college was it?", CHAIN, found)
    graph = graph_of(CHAIN)
    first = association.facts[0]
    assert first.passage == 2
    assert list(graph.view(Reach("/")).names([first.subject, first.object]).values()) == [
        "charles babbage",
        "trinity college",
    ]
    assert first.score == pytest.approx(0.8)
    assert {first.subject, first.object} <= association.seeds.keys()
    assert association.begun == {4, 18}


def test_walk_begins_at_one_of_several_copies():
    told = [("Ada Lovelace", "wrote to", "Charles Babbage"), ("Charles Babbage", "met", "Mary Somerville")]
    other = [*told, ("Mary Somerville", "lived in", "Chelsea"), ("Chelsea", "lies in", "London")]
    passages = {1: own(1, *told), 2: own(2, *told), 3: own(3, *other), 4: own(4, told[0]), 5: own(5, told[0])}
    found = [(key, 1 - key / 10) for key in passages]
    left = without_copies(found, graph_of(passages).view(Reach("/")))
    assert [key for key, _ in left] == [1, 3, 4, 5]


def test_facts_and_what_they_seed_are_few():
    facts = [(f"Person {n}", "met", f"Guest {n}") for n in range(30)]
    association = associated("Who met whom?", {1: own(1, *facts)}, [(1, 1.0)])
    assert len(association.facts) == TUNING.graph.facts
    assert len(association.seeds) <= 2 * TUNING.graph.facts


def test_a_seed_counts_for_less_the_more_passages_hold_it():
    passages = {key: own(key, ("London", "is near", f"Place {key}")) for key in range(1, 6)}
    association = associated("Is London near Place 1?", passages)
    names = graph_of(passages).view(Reach("/")).names(list(association.seeds))
    weights = {names[node]: weight for node, weight in association.seeds.items()}
    assert weights == {
        "london": pytest.approx(TUNING.graph.named_weight / 5),
        "place 1": pytest.approx(TUNING.graph.named_weight),
    }


def test_a_passage_whose_title_the_question_names_is_named():
    passages = {
        1: own(1, title="Ada Lovelace", text="She was born in 1815."),
        2: own(2, title="Charles Babbage", text="He knew Ada Lovelace."),
    }
    assert associated("When was Ada Lovelace's mother born?", passages).named == {1: 1.0}
    assert associated("Who was it?", passages, [(2, 1.0)]).named == {}


def test_a_passage_called_by_what_a_found_one_mentions_is_a_title_match():
    passages = {
        1: own(1, ("Ada Lovelace", "wrote to", "Charles Babbage")),
        2: own(2, title="Charles Babbage", text="He was born in 1791."),
        3: own(3, ("Charles Babbage", "built", "an engine")),
    }
    association = associated("When was her friend born?", passages, [(1, 0.6)])
    assert association.title_match.keys() == {2}
    assert association.bridged.keys() == {2, 3}


def test_that_another_passage_is_called_the_same_says_nothing():
    passages = {key: own(key, title="Ada Lovelace", text=f"Part {key}.") for key in (1, 2)}
    association = associated("Who was it?", passages, [(1, 1.0)])
    assert association.title_match == {}
    assert association.bridged.keys() == {2}


def test_a_bridge_holds_the_better_the_nearer_its_fact_is_to_the_question_and_the_better_its_passage():
    passages = {
        1: own(1, ("Ada", "wrote to", "Babbage"), ("Ada", "visited", "Somerville")),
        2: own(2, ("Babbage", "built", "an engine")),
        3: own(3, ("Somerville", "taught", "astronomy")),
    }
    bridged = associated("Whom did she visit?", passages, [(1, 0.5)]).bridged
    assert bridged[3] > bridged[2]
    weaker = associated("Whom did she visit?", passages, [(1, 0.25)]).bridged
    assert weaker[3] == pytest.approx(bridged[3] / 2)


def test_a_way_counts_whole_from_a_passage_that_the_question_names():
    passages = {
        1: own(1, ("El Tonto", "was directed by", "Charlie Day"), title="El Tonto"),
        2: own(2, ("The Outlaw", "was directed by", "Howard Hughes"), title="The Outlaw"),
        3: own(3, title="Charlie Day", text="He was born in 1976."),
        4: own(4, title="Howard Hughes", text="He was born in 1905."),
    }
    found = [(1, 0.5), (2, 0.5)]
    association = associated("Who directed El Tonto, and when was he born?", passages, found)
    assert association.title_match[3] == pytest.approx(0.5)
    assert association.title_match[4] == pytest.approx(0.5 * TUNING.graph.unnamed_share)
    assert association.bridged[4] == pytest.approx(association.bridged[3] * TUNING.graph.unnamed_share)


def test_that_a_statement_has_the_name_asked_about_does_not_make_it_tell_of_what_is_asked():
    passages = {
        1: own(1, ("El Tonto", "was filmed in", "Toronto"), ("El Tonto", "was directed by", "Charlie Day")),
        2: own(2, title="Toronto", text="It lies on a lake."),
        3: own(3, title="Charlie Day", text="He was born in 1976."),
        4: own(4, title="El Tonto", text="A film."),
    }
    title_match = associated("Where was who directed El Tonto born?", passages, [(1, 1.0)]).title_match
    assert title_match[2] == pytest.approx(title_match[3] * TUNING.graph.unstated_share)


@pytest.mark.parametrize(
    ("count", "bridges"), [(TUNING.graph.max_common, TUNING.graph.max_common - 1), (TUNING.graph.max_common + 1, 0)]
)
def test_an_entity_of_too_many_passages_bridges_none(count, bridges):
    passages = {key: own(key, ("London", "is near", f"Place {key}")) for key in range(1, count + 1)}
    association = associated("Which place?", passages, [(1, 1.0)])
    assert len(association.bridged) == bridges


def test_nothing_out_of_reach_is_reached_and_it_changes_nothing():
    seen = {
        1: own(1, ("Ada Lovelace", "wrote to", "Charles Babbage"), scope="/team"),
        3: own(3, ("Trinity College", "lies in", "Cambridge")),
        4: own(4, ("Charles Babbage", "built", "an engine"), scope="/team"),
    }
    hidden = {
        2: own(2, ("Charles Babbage", "studied at", "Trinity College"), scope="/secret"),
        5: own(5, title="Charles Babbage", text="A secret.", scope="/secret"),
        6: own(6, ("Ada Lovelace", "wrote to", "Charles Babbage"), scope="/team/below"),
    }
    asked = "Where did Charles Babbage, friend of Ada Lovelace, study?"
    without, beside = (associated(asked, told, [(1, 0.7)], scope="/team") for told in (seen, {**hidden, **seen}))
    for say in ("walked", "bridged", "title_match", "named"):
        assert getattr(beside, say) == pytest.approx(getattr(without, say))
    assert list(beside.walked) == [1, 4]
    passages = 2 * np.array([2, 5, 6])
    assert beside.walk.of(passages).tolist() == [0.0, 0.0, 0.0]
    assert 3 in associated(asked, {**seen, 2: own(2, *_facts(hidden[2]))}, [(1, 0.7)], scope="/team").walked


def test_a_form_two_names_share_ties_their_passages():
    passages = {1: own(1, ("Café Müller", "lies in", "Bonn")), 2: own(2, ("Cafe Mullers", "serves", "tea"))}
    assert 2 in associated("Where is it?", passages, [(1, 1.0)]).walked


def test_in_an_empty_graph_what_was_found_is_all_there_is():
    association = associate("Who?", query_terms("Who?"), [(7, 0.5)], MemoryGraph().view(Reach("/")))
    assert association.walked == {7: 1.0}
    assert (association.bridged, association.title_match, association.named) == ({}, {}, {})
    assert (association.facts, association.seeds) == ((), {})


@pytest.mark.parametrize("question", ["", " \n", "?!", "the of and"])
def test_a_question_that_says_nothing_walks_from_what_was_found_alone(question):
    assert list(associated(question, CHAIN, [(1, 1.0)]).walked) == [1, 2, 3]
    assert associated(question, CHAIN).walked == {}


def test_passages_that_state_nothing_are_still_walked_from():
    passages = {1: own(1, title="Notes"), 2: own(2, title="Notes")}
    association = associated("What is in it?", passages, [(1, 1.0)])
    assert association.facts == ()
    assert list(association.walked) == [1, 2]


NAMES = ["Ada", "Bob", "Cleo", "Dan", "Eve", "Fay"]
STATED = st.lists(st.tuples(st.sampled_from(NAMES), st.just("knows"), st.sampled_from(NAMES)), max_size=3)
SPACES = st.dictionaries(st.integers(1, 12), STATED, min_size=1)


@settings(max_examples=60, deadline=None)
@given(SPACES, st.lists(st.sampled_from(NAMES), max_size=2), st.integers(0, 4))
def test_scores_are_between_0_and_1(stated, named, count):
    passages = {key: own(key, *facts, title=NAMES[key % 6]) for key, facts in stated.items()}
    found = [(key, 1 / place) for place, key in enumerate(list(passages)[:count], start=1)]
    association = associated(" and ".join(named), passages, found)
    for scores in (association.walked, association.bridged, association.title_match, association.named):
        assert scores.keys() <= passages.keys()
        assert all(0 < score <= 1 for score in scores.values())


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(NAMES), max_size=2))
def test_in_what_order_passages_came_into_the_graph_does_not_matter(random: Random, named):
    pairs = [("Ada", "Bob"), ("Bob", "Cleo"), ("Cleo", "Dan"), ("Bob", "Eve"), ("Eve", "Fay"), ("Fay", "Gus")]
    passages = {key: own(key, (one, "knows", other)) for key, (one, other) in enumerate(pairs, start=1)}
    shuffled = dict(random.sample(sorted(passages.items()), len(passages)))
    once, again = (associated(" and ".join(named), told, [(1, 1.0), (4, 0.5)]) for told in (passages, shuffled))
    assert again.walked == once.walked
    assert again.bridged == pytest.approx(once.bridged)
    keys = 2 * np.array(sorted(passages))
    assert again.walk.of(keys) == pytest.approx(once.walk.of(keys))


def test_names_are_looked_for_as_runs_of_words_longest_first():
    assert names_in("Ada Lovelace's engine") == [
        "ada lovelace engine",
        "ada lovelace",
        "lovelace engine",
        "ada",
        "lovelace",
        "engine",
    ]
    assert names_in("") == []


def _facts(told):
    return [(fact.subject, fact.relation, fact.object) for fact in told.triples]


def test_name_outside_the_scope_is_not_reported():
    hidden = {2: own(2, ("Project Falcon", "begins in", "May"), scope="/secret")}
    told = {1: own(1, ("Ada Lovelace", "wrote to", "Charles Babbage")), **hidden}
    graph = graph_of(told)
    (falcon,) = graph.view(Reach("/")).named(["project falcon"]).values()
    assert falcon not in associated("Who wrote of Project Falcon?", told, [(1, 0.5)]).seeds


def test_of_a_long_text_only_the_beginning_is_searched_for_names():
    names = names_in(" ".join(f"word{n}" for n in range(5_000)))
    assert len(names) < 500
    assert "word0 word1" in names

"""Each switch turns the order of a fixture round; each profile weighs a fixture of its own."""

from datetime import UTC, datetime, timedelta

import client_parts
import pytest

from treering.client import AgentProfile, Switches
from treering.testing import OverlapReranker

NOW = datetime.now(UTC)
OLD = {"timestamp": (NOW - timedelta(days=5)).isoformat()}


def order(client, query, profile):
    return client_parts.texts(client.retrieve(query, profile=profile, top_k=10))


def with_switch(name):
    return AgentProfile(agent_type="any", relevance_threshold=0.0, switches=Switches(**{name: True}))


PLAIN = AgentProfile(agent_type="any", relevance_threshold=0.0, switches=Switches(enable_reranking=False))

FIXTURES = {
    "enable_temporal_weighting": [("BWA alignment run", OLD), ("BWA alignment run on one sample", {})],
    "enable_recency_bias": [("BWA alignment run", OLD), ("BWA alignment run on one sample", {})],
    "enable_success_weighting": [
        ("BWA alignment run", {"success": False}),
        ("BWA alignment run on one sample", {"success": True}),
    ],
    "enable_failure_pattern_matching": [
        ("BWA alignment run", {"success": True}),
        ("BWA alignment run on one sample", {"success": False, "tool": "bwa"}),
    ],
}


@pytest.mark.parametrize("switch", FIXTURES)
def test_a_switch_that_weighs_turns_the_order_round(client, switch):
    for text, metadata in FIXTURES[switch]:
        client.store(text, metadata)
    first, second = (text for text, _ in FIXTURES[switch])
    assert order(client, "BWA alignment run", PLAIN) == [first, second]
    assert order(client, "BWA alignment run", with_switch(switch)) == [second, first]


def test_reranking_turns_the_order_round():
    class Backwards(OverlapReranker):
        def score(self, question, texts):
            return -super().score(question, texts)

    with client_parts.blocking(reranker=Backwards()) as client:
        client.store("BWA alignment run")
        client.store("BWA alignment without anything else")
        first, second = order(client, "BWA alignment run", PLAIN)
        assert order(client, "BWA alignment run", with_switch("enable_reranking")) == [second, first]


def test_reranking_without_a_model_is_said_not_to_be_done(client):
    client.store("BWA alignment run")
    found = client.retrieve("BWA alignment", profile=with_switch("enable_reranking"))
    assert found.trace["not_used"] == ["reranking: no reranking model is available"]
    assert client.retrieve("BWA alignment", profile=PLAIN).trace["not_used"] == []


def test_mmr_puts_something_else_before_a_repetition(client):
    texts = ["BWA alignment run", "BWA alignment run again", "BWA paper by Li and Durbin explains its run of alignment"]
    for text in texts:
        client.store(text)
    assert order(client, "BWA alignment run", PLAIN) == texts
    assert order(client, "BWA alignment run", with_switch("enable_mmr")) == [texts[0], texts[2], texts[1]]


def test_deduplication_leaves_one_of_those_with_the_same_url_or_text(client):
    client.store("BWA alignment page", {"url": "https://www.example.org/bwa/"})
    client.store("BWA alignment page, seen again", {"url": "http://example.org/bwa#top"})
    client.store("BWA alignment  PAGE")
    client.store("BWA alignment of another page", {"url": "https://example.org/other"})
    assert len(order(client, "BWA alignment page", PLAIN)) == 4
    assert sorted(order(client, "BWA alignment page", with_switch("enable_deduplication"))) == [
        "BWA alignment of another page",
        "BWA alignment page",
    ]


def test_cross_reference_expansion_shows_what_is_referred_to_behind_it(client):
    gene = client.store("BRCA1 repairs DNA")
    paper = client.store("BRCA2 regulates RAD51", {"topic": "repair"})
    client.store("BWA alignment run", {"references": [gene], "cross_references": {"papers": [paper]}})
    client.store("BWA alignment of another sample, which took long")
    found = order(client, "BWA alignment run", PLAIN.model_copy(update={"relevance_threshold": 0.3}))
    assert len(found) == 2
    assert order(client, "BWA alignment run", with_switch("enable_cross_reference_expansion")) == [
        "BWA alignment run",
        "BRCA1 repairs DNA",
        "BRCA2 regulates RAD51",
        found[1],
    ]


def test_what_is_referred_to_in_an_unmerged_context_is_not_shown(client):
    context = client.create_nested_context("run", "loop")
    hidden = client.store("BRCA1 repairs DNA", {"session_id": context.session_id})
    client.store("BWA alignment run", {"references": [hidden]})
    assert order(client, "BWA alignment", with_switch("enable_cross_reference_expansion")) == ["BWA alignment run"]


@pytest.mark.parametrize(
    "metadata", [{"memory_type": "papers"}, {"tags": ["x", "papers"]}, {"papers": 3}], ids=["type", "tag", "key"]
)
def test_a_priority_matches_type_tag_or_key(client, metadata):
    client.store("BWA alignment run")
    client.store("BWA alignment in a text about many other things", metadata)
    plain = order(client, "BWA alignment run", PLAIN)
    profile = AgentProfile(agent_type="any", relevance_threshold=0.0, priorities=("papers",))
    assert order(client, "BWA alignment run", profile) == plain[::-1]


def test_an_earlier_priority_weighs_more(client):
    client.store("BWA alignment run", {"memory_type": "genes"})
    client.store("BWA alignment run", {"memory_type": "papers"})
    for first, second in (("papers", "genes"), ("genes", "papers")):
        profile = AgentProfile(agent_type="any", relevance_threshold=0.0, priorities=(first, second))
        (best,) = client.retrieve("BWA alignment run", top_k=1, profile=profile)
        assert best.metadata["memory_type"] == first


PROFILES = {
    "bioinformatics": ("papers", 15, 0.70, "enable_cross_reference_expansion"),
    "prime": ("tool_history", 10, 0.80, "enable_temporal_weighting"),
    "planner": ("previous_plans", 5, 0.75, "enable_success_weighting"),
    "executor": ("tool_failures", 8, 0.65, "enable_failure_pattern_matching"),
    "deepsearch": ("visited_urls", 12, 0.70, "enable_deduplication"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_bounds_and_weighs_what_is_retrieved(client, name):
    priority, most, threshold, switch = PROFILES[name]
    for number in range(most + 5):
        client.store(f"BWA alignment run of sample {number} {number * 7919}")
    client.store("BWA alignment run of a sample in another text", {"memory_type": priority})
    client.store("Half of it: alignment without the other words one two three four")
    found = client.retrieve("BWA alignment run sample", top_k=100, profile=name)
    assert len(found) == most
    assert found[0].metadata["memory_type"] == priority
    assert min(memory.similarity_score for memory in found) >= threshold
    assert switch in found.trace["switches"]


OWN_FIXTURES = {
    "bioinformatics": [
        ("gene", "BRCA1 repairs DNA", {"memory_type": "genes"}),
        ("paper", "BWA alignment run", {"memory_type": "papers", "cross_references": {"genes": ["gene"]}}),
        ("other", "BWA alignment run of another sample", {}),
    ],
    "prime": [
        ("old", "BWA alignment run", {"memory_type": "tool_history", **OLD}),
        ("new", "BWA alignment run on one sample", {"memory_type": "tool_history"}),
    ],
    "planner": [
        ("failed", "BWA alignment run", {"memory_type": "execution_outcomes", "success": False}),
        ("succeeded", "BWA alignment run on one sample", {"memory_type": "execution_outcomes", "success": True}),
    ],
    "executor": [
        ("succeeded", "BWA alignment run", {"memory_type": "parameter_tunings", "success": True}),
        ("failed", "BWA alignment run on one sample", {"memory_type": "parameter_tunings", "error": "BWA: no memory"}),
    ],
    "deepsearch": [
        ("page", "BWA alignment run", {"memory_type": "visited_urls", "url": "https://www.example.org/bwa/"}),
        ("again", "BWA alignment run on a page", {"memory_type": "visited_urls", "url": "http://example.org/bwa#top"}),
        ("other", "BWA alignment run elsewhere", {"memory_type": "visited_urls", "url": "https://example.org/other"}),
    ],
}
ORDERS = {
    "bioinformatics": (["paper", "other"], ["paper", "gene", "other"]),
    "prime": (["old", "new"], ["new", "old"]),
    "planner": (["failed", "succeeded"], ["succeeded", "failed"]),
    "executor": (["succeeded", "failed"], ["failed", "succeeded"]),
    "deepsearch": (["page", "other", "again"], ["page", "other"]),
}
"""By profile, the order without its switch, and with it."""


@pytest.mark.parametrize("name", OWN_FIXTURES)
def test_a_profile_orders_a_fixture_of_its_own_by_its_switch(client, name):
    ids = {}
    for key, text, metadata in OWN_FIXTURES[name]:
        if key == "failed":
            metadata = {**metadata, "success": False}
        named = {"cross_references": {"genes": [ids["gene"]]}} if "cross_references" in metadata else {}
        ids[key] = client.store(text, {**metadata, **named})
    names = {identity: key for key, identity in ids.items()}

    def found(profile):
        return [names[memory.id] for memory in client.retrieve("BWA alignment run", profile=profile)]

    profile = client.config.profile(name)
    without = profile.model_copy(update={"switches": Switches(**{PROFILES[name][3]: False})})
    assert (found(without), found(name)) == ORDERS[name]


PRIORITIES = {
    "bioinformatics": ["papers", "genes", "blast_results", "protein_sequences"],
    "prime": ["tool_history", "molecular_constraints", "design_iterations"],
    "planner": ["previous_plans", "execution_outcomes", "failure_patterns"],
    "executor": ["tool_failures", "adaptive_replans", "parameter_tunings"],
    "deepsearch": ["visited_urls", "search_queries", "extracted_snippets"],
}


@pytest.mark.parametrize("name", OWN_FIXTURES)
def test_what_a_profile_wants_first_comes_first(client, name):
    profile = client.config.profile(name).model_copy(update={"switches": Switches()})
    for priority in (None, *reversed(profile.priorities)):
        client.store("BWA alignment run", {"memory_type": priority} if priority else {})
    found = client.retrieve("BWA alignment run", profile=profile)
    assert [memory.metadata.get("memory_type") for memory in found][: len(profile.priorities)] == PRIORITIES[name]


def test_client_uses_profile_of_its_agent_by_default():
    with client_parts.blocking(agent_type="planner") as client:
        for number in range(8):
            client.store(f"BWA alignment run {number} {number * 7919}")
        assert len(client.retrieve("BWA alignment run")) == 5
        assert len(client.retrieve("BWA alignment run", profile="executor")) == 8
        assert len(client.retrieve("BWA alignment run", top_k=2)) == 2


def test_importance_weighs(client):
    client.store("BWA alignment run", {"importance": 0.1})
    client.store("BWA alignment run", {"importance": 0.9})
    (best,) = client.retrieve("BWA alignment run", top_k=1, profile=PLAIN)
    assert best.metadata["importance_score"] == 0.9

from itertools import pairwise

import client_parts
import pytest

from treering.client import AgentProfile, MemoryConfig
from treering.extensions.client.items import recalling
from treering.models.static_model import StaticEmbedder

MEMORIES = {
    "failure_analysis": "Failure patterns detected: {'timeout': 3, 'network': 1}",
    "plan": "Plan: ['align reads with BWA', 'call variants with GATK']",
    "execution_trace": "Tool pubmed_search - Step literature\nResult: {'papers': 14}",
    "tool_execution": "Tool blast executed with params: {'db': 'nr'}\nError: connection refused",
    "decision": "STAR replaces HISAT2, for splice junctions.",
    "tool_result": "ABL1 binds imatinib with a Kd of 1 nM.",
}


def remembering(given=None, **options):
    client = client_parts.blocking(given, **options)
    for memory_type, text in MEMORIES.items():
        client.store(text, {"memory_type": memory_type})
    return client


def with_threshold(least):
    return AgentProfile(agent_type="any", relevance_threshold=least)


@pytest.mark.parametrize("has_vectors", [False, True])
@pytest.mark.parametrize("memory_type", MEMORIES)
def test_a_filter_that_leaves_one_memory_lists_it_without_a_query(memory_type, has_vectors):
    with remembering() as client:
        if has_vectors:
            client.catch_up()
        found = client.retrieve(filters={"memory_type": memory_type})
        assert client_parts.texts(found) == [MEMORIES[memory_type]]


@pytest.mark.parametrize("has_vectors", [False, True])
def test_threshold_applies_to_a_single_filtered_memory(has_vectors):
    with remembering() as client:
        if has_vectors:
            client.catch_up()
        of_plan = {"memory_type": "plan"}
        assert client.retrieve("zebra migration", filters=of_plan) == []
        assert client_parts.texts(client.retrieve("align the reads", filters=of_plan)) == [MEMORIES["plan"]]


def test_without_a_query_the_newest_are_listed_first():
    with remembering() as client:
        assert client_parts.texts(client.retrieve(top_k=2)) == list(MEMORIES.values())[:-3:-1]
        assert len(client.retrieve(top_k=10)) == len(MEMORIES)


def test_without_a_filter_unrelated_memories_are_omitted():
    with remembering() as client:
        assert client.retrieve("what went wrong last time") == []


@pytest.mark.parametrize("has_vectors", [False, True])
def test_a_threshold_of_zero_ranks_every_memory(has_vectors):
    with remembering(client_parts.config(retrieval={"min_similarity": 0, "top_k": 10})) as client:
        if has_vectors:
            client.catch_up()
        found = client.retrieve("is the tool blast there")
        assert len(found) == len(MEMORIES)
        assert found[0].content == MEMORIES["tool_execution"]
        assert found.trace["below_min_similarity"] == 0


def test_a_lower_threshold_adds_memories_behind_the_others():
    with remembering() as client:
        client.catch_up()
        high, middle, low = (
            client_parts.texts(client.retrieve("timeout of the tool", 10, profile=with_threshold(least)))
            for least in (0.7, 0.4, 0)
        )
        assert 0 < len(high) <= len(middle) < len(low) == len(MEMORIES)
        assert low[: len(high)] == middle[: len(high)] == high


def test_a_threshold_between_is_obeyed_by_meaning():
    with remembering(embedder=StaticEmbedder()) as client:
        client.catch_up()
        for least in (0.2, 0.5, 0.65):
            found = client.retrieve("which program aligns reads", 10, profile=with_threshold(least))
            assert all(one.similarity_score >= least for one in found)
        every = client.retrieve("which program aligns reads", 10, profile=with_threshold(0))
        assert len(every) == len(MEMORIES) > sum(one.similarity_score >= 0.2 for one in every)


def test_a_memory_of_another_session_or_withdrawn_is_never_added():
    with client_parts.blocking(client_parts.config(retrieval={"min_similarity": 0})) as client:
        client.store("Kept apart", {"session_id": "other"})
        withdrawn = client.store("Withdrawn")
        client.store("Seen", {"session_id": "mine"})
        client.delete(withdrawn)
        assert client_parts.texts(client.retrieve("zebra", session_id="mine")) == ["Seen"]


def test_the_default_threshold_is_the_documented_one():
    assert MemoryConfig().retrieval.min_similarity == 0.7


def test_a_memory_with_far_less_in_common_is_omitted():
    with remembering() as client:
        client.store("The zygote scheduler of the northern cluster retries uploads five times")
        client.store("The northern cluster is painted blue")
        client.catch_up()
        found = client.retrieve("How often does the zygote scheduler of the northern cluster retry uploads?")
        assert client_parts.texts(found) == ["The zygote scheduler of the northern cluster retries uploads five times"]


def test_a_higher_threshold_never_returns_more():
    texts = (
        "My Spanish class is on Wednesday evening",
        "Spanish homework: learn ten verbs",
        "I bought a new evening dress",
        "The tap in the kitchen drips",
        "Which bus goes to the station?",
    )
    with client_parts.blocking() as client:
        for text in texts:
            client.store(text)
        client.catch_up()
        question = "which evening is my Spanish class"
        found = [
            set(client_parts.texts(client.retrieve(question, profile=with_threshold(0.05 * n)))) for n in range(21)
        ]
        default = set(client_parts.texts(client.retrieve(question)))
    assert all(higher <= lower for lower, higher in pairwise(found))
    assert default == found[14]


ORDERS = {"oldest first": lambda hour: hour, "newest first": lambda hour: -hour, "mixed": lambda hour: hour * 7 % 40}


@pytest.mark.parametrize("order", ORDERS)
def test_pages_before_the_oldest_list_each_memory_once(order, monkeypatch):
    with client_parts.blocking() as client:
        for hour in sorted(range(40), key=ORDERS[order]):
            client.store(f"Hour {hour}", {"timestamp": f"2026-03-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"})
        client.flush()
        read = []
        real = recalling.read_sources
        monkeypatch.setattr(recalling, "read_sources", lambda engine, ids: real(engine, read.extend(ids) or ids))
        listed, filters = [], None
        while page := client.retrieve("", top_k=5, filters=filters):
            listed += client_parts.texts(page)
            filters = {"timestamp": {"lt": page[-1].metadata["timestamp"]}}
        assert listed == [f"Hour {hour}" for hour in reversed(range(40))]
        assert len(read) <= 4 * 40  # each page also reads the links of its memories

"""Every key of the configuration has a test of what it does: a key that nothing uses cannot be added unseen."""

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import client_parts
import pytest
from pydantic import BaseModel

import treering
from treering.client import MemoryConfig
from treering.extensions.client.place import Given, place_of
from treering.extensions.client.profiles import ProfileConfig
from treering.system.settings import Settings
from treering.testing import memory_client_contract

HERE = Path(__file__).parent
LONG = {"max_age_seconds": None, "min_similarity": 0.0}
SWITCHES = {
    "enable_reranking": "test_switches.py::test_reranking_turns_the_order_round",
    "enable_mmr": "test_switches.py::test_mmr_puts_something_else_before_a_repetition",
    "enable_temporal_weighting": "test_switches.py::test_a_switch_that_weighs_turns_the_order_round",
    "enable_success_weighting": "test_switches.py::test_a_switch_that_weighs_turns_the_order_round",
    "enable_failure_pattern_matching": "test_switches.py::test_a_switch_that_weighs_turns_the_order_round",
    "enable_deduplication": "test_switches.py::test_deduplication_leaves_one_of_those_with_the_same_url_or_text",
    "enable_recency_bias": "test_switches.py::test_a_switch_that_weighs_turns_the_order_round",
    "enable_cross_reference_expansion": (
        "test_switches.py::test_cross_reference_expansion_shows_what_is_referred_to_behind_it"
    ),
}
EFFECTS = {
    "enabled": "test_store_and_retrieve.py::test_a_disabled_client_opens_stores_and_finds_nothing",
    "backend": "contract::test_the_backend_is_the_one_that_was_named",
    "session_ttl": "test_lifetimes.py::test_a_memory_is_retrieved_until_its_session_ttl_is_over",
    "compression.enabled": "test_buffering.py::test_only_long_records_that_shrink_are_packed",
    "compression.algorithm": "test_buffering.py::test_a_journal_is_read_whatever_packed_it",
    "compression.min_size_bytes": "test_buffering.py::test_only_long_records_that_shrink_are_packed",
    **{
        f"retrieval.{name}": "test_config_keys.py::test_a_switch_of_retrieval_is_on_for_all_agents" for name in SWITCHES
    },
    "retrieval.top_k": "test_config_keys.py::test_top_k_says_how_many_where_a_call_does_not",
    "retrieval.min_similarity": "test_config_keys.py::test_min_similarity_omits_what_is_less_alike",
    "retrieval.max_age_seconds": "test_lifetimes.py::test_the_limit_of_age_looks_at_when_it_happened",
    "retrieval.reranking_model": "test_config_keys.py::test_a_reranking_model_that_is_not_there_is_said_not_to_be_used",
    "storage.batch_size": "test_config_keys.py::test_a_batch_is_written_when_it_is_full",
    "storage.flush_interval": "test_config_keys.py::test_what_waits_is_written_after_the_flush_interval",
    "storage.enable_async_writes": (
        "test_buffering.py::test_without_asynchronous_writes_a_memory_is_in_the_ledger_at_once"
    ),
    "vector_store.backend": "test_backends.py::test_faiss_can_be_a_graph_in_a_folder_of_its_own",
    "vector_store.embedding_model": "test_embedding_models.py::test_a_function_of_texts_is_an_embedding_model",
    "vector_store.embedding_dimension": (
        "test_memory_config.py::test_a_dimension_that_the_model_does_not_have_is_refused"
    ),
    "vector_store.index_type": "test_config_keys.py::test_every_index_type_gives_one_order_as_vectors_have_unit_length",
    **{f"profiles.*.{name}": test for name, test in SWITCHES.items()},
    "profiles.*.priorities": "test_switches.py::test_an_earlier_priority_weighs_more",
    "profiles.*.max_items": "test_config_keys.py::test_configured_profile_limits_retrieved_memories",
    "profiles.*.relevance_threshold": ("test_config_keys.py::test_configured_profile_limits_retrieved_memories"),
    "excluded_agents": "test_store_and_retrieve.py::test_an_agent_that_is_excluded_stores_and_finds_nothing",
    "sqlite.path": "test_store_and_retrieve.py::test_what_is_stored_stays_when_the_client_is_opened_again",
    "postgres.url": "test_backends.py::TestPostgres",
    "postgres.space": "test_backends.py::test_what_a_crash_left_on_this_machine_is_written_to_its_space_on_a_server",
    "faiss.path": "test_backends.py::test_faiss_can_be_a_graph_in_a_folder_of_its_own",
    "faiss.kind": "test_backends.py::test_faiss_can_be_a_graph_in_a_folder_of_its_own",
    "redis.url": "test_backends.py::TestRedis",
    "neo4j.url": "test_neo4j_config.py::test_a_database_may_be_in_the_address_or_beside_it_and_not_differ",
    "neo4j.database": "test_neo4j_config.py::test_a_database_may_be_in_the_address_or_beside_it_and_not_differ",
    "neo4j.use_existing_connection": "test_config_keys.py::test_a_driver_is_refused_where_none_is_to_be_used",
    "neo4j.vector_index.index_name": (
        "test_neo4j_config.py::test_an_index_that_several_spaces_share_finds_each_its_own_nearest"
    ),
    "neo4j.vector_index.node_label": ("test_neo4j_config.py::test_vectors_use_configured_node_and_property_names"),
    "neo4j.vector_index.vector_property": ("test_neo4j_config.py::test_vectors_use_configured_node_and_property_names"),
    "neo4j.vector_index.dimensions": (
        "test_neo4j_config.py::test_a_dimension_of_the_index_that_the_vectors_do_not_have_is_refused"
    ),
    "neo4j.vector_index.metric": "test_neo4j_config.py::test_the_metric_is_that_of_the_index_that_is_made",
    "neo4j.graph.enable_relationships": (
        "test_neo4j_config.py::test_only_relationships_of_the_types_that_are_named_are_shown"
    ),
    "neo4j.graph.relationship_types": (
        "test_neo4j_config.py::test_only_relationships_of_the_types_that_are_named_are_shown"
    ),
    "neo4j.batch_size": "test_neo4j_config.py::test_a_statement_writes_as_many_rows_as_a_batch_has",
    "neo4j.connection_pool_size": "test_neo4j_config.py::test_no_more_connections_are_open_than_the_pool_has",
    "mongodb.url": "test_backends.py::TestMongo",
    "mongodb.database": "test_config_keys.py::test_the_database_of_mongodb_may_be_in_its_address_or_beside_it",
}
"""By key, the test that fails where the key has no effect."""


def keys_of(section: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kind = ProfileConfig if name == "profiles" else field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys_of(kind, f"{path}{name}.{'*.' if name == 'profiles' else ''}")
        else:
            yield f"{path}{name}"


def source_of(test: str) -> str:
    """Return the source of the test, or of the class of tests, that a place names."""
    file, _, name = test.partition("::")
    text = inspect.getsource(memory_client_contract) if file == "contract" else (HERE / file).read_text("utf-8")
    found = [node for node in ast.walk(ast.parse(text)) if getattr(node, "name", "") == name]
    assert found, f"there is no {test}"
    return text


def test_every_key_has_a_test_of_its_effect():
    assert sorted(keys_of(MemoryConfig)) == sorted(EFFECTS)


@pytest.mark.parametrize("key", EFFECTS)
def test_the_test_of_a_key_is_there_and_sets_the_key(key):
    assert key.rpartition(".")[2].removesuffix("s") in source_of(EFFECTS[key])


TEXTS = ("BWA alignment run", "BWA run of one sample", "A kinase")


def retrieved(**given):
    with client_parts.blocking(client_parts.config(**given)) as client:
        for text in TEXTS:
            client.store(text)
        return client.retrieve("BWA alignment run")


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_of_retrieval_is_on_for_all_agents(switch):
    for on in (True, False):
        found = retrieved(retrieval={**LONG, switch: on})
        assert (switch in found.trace["switches"]) is on


def test_configured_profile_limits_retrieved_memories():
    for keys, count in (({}, 3), ({"max_items": 1}, 1), ({"relevance_threshold": 0.99}, 1)):
        config = {"profiles": {"own": {"relevance_threshold": 0.0, **keys}}}
        with client_parts.blocking(client_parts.config(**config), agent_type="own") as client:
            for text in TEXTS:
                client.store(text)
            assert len(client.retrieve("BWA alignment run")) == count


def test_top_k_says_how_many_where_a_call_does_not():
    assert [len(retrieved(retrieval={**LONG, "top_k": count})) for count in (1, 2)] == [1, 2]


def test_min_similarity_omits_what_is_less_alike():
    assert len(retrieved(retrieval={"min_similarity": 0.0})) == 3
    assert len(retrieved(retrieval={"min_similarity": 0.3})) == 2
    assert client_parts.texts(retrieved(retrieval={"min_similarity": 0.99})) == [TEXTS[0]]


@pytest.mark.parametrize("model", ["onnx:nowhere", "cross-encoder/ms-marco-MiniLM-L-6-v2"])
def test_a_reranking_model_that_is_not_there_is_said_not_to_be_used(caplog, model):
    found = retrieved(retrieval={"reranking_model": model})
    (told,) = found.trace["not_used"]
    assert told.startswith("reranking: ")
    assert model.removeprefix("onnx:") in told
    assert f"memory.retrieval.reranking_model {model!r} is ignored" in caplog.text
    assert len(found) == 2


@pytest.fixture
def sentence_transformers(tmp_path, monkeypatch):
    """Install a package of that name which has one model, and prefers long texts."""
    (tmp_path / "sentence_transformers.py").write_text(
        "class CrossEncoder:\n"
        "    def __init__(self, name, *, local_files_only):\n"
        "        if not local_files_only or name != 'cross-encoder/ms-marco-MiniLM-L-6-v2':\n"
        "            raise OSError(f'{name} is not in the cache')\n"
        "    def predict(self, pairs, *, batch_size, show_progress_bar):\n"
        "        return [float(len(text)) for _, text in pairs]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    yield
    sys.modules.pop("sentence_transformers", None)


@pytest.mark.usefixtures("sentence_transformers")
@pytest.mark.parametrize("scheme", ["", "sentence-transformers:"])
def test_a_reranking_model_of_hugging_face_is_used_where_it_is(scheme, caplog):
    name = f"{scheme}cross-encoder/ms-marco-MiniLM-L-6-v2"
    found = retrieved(retrieval={"reranking_model": name, "min_similarity": 0.3})
    assert client_parts.texts(found) == [TEXTS[1], TEXTS[0]]
    assert found.trace["not_used"] == []
    assert caplog.text == ""


@pytest.mark.usefixtures("sentence_transformers")
def test_a_folder_of_the_working_tree_is_no_reranking_model(tmp_path, monkeypatch):
    (tmp_path / "cross-encoder" / "ms-marco-MiniLM-L-6-v2").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = retrieved(retrieval={"reranking_model": "cross-encoder/ms-marco-MiniLM-L-6-v2"})
    assert "is a local folder" in found.trace["not_used"][0]


@pytest.mark.usefixtures("sentence_transformers")
def test_a_reranking_model_that_was_not_downloaded_is_said_once(caplog):
    config = client_parts.config(retrieval={"reranking_model": "org/other"})
    with client_parts.blocking(config) as client:
        client.store(TEXTS[0])
        for _ in range(3):
            found = client.retrieve("BWA alignment run")
            assert found.trace["not_used"][0].startswith("reranking: The reranker 'org/other' is not on this machine")
    assert len(caplog.records) == 1


def written(path, storage, *texts):
    """Store texts, and return the ids that reach the ledger without anybody asking for it."""
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage=storage)
    with client_parts.blocking(config) as client:
        ids = [client.store(text) for text in texts]
        end = monotonic() + 60
        while (found := client_parts.created(path)) != ids and monotonic() < end:
            sleep(0.01)
    return found == ids


def test_a_batch_is_written_when_it_is_full(tmp_path):
    assert written(tmp_path / "memory.db", {"batch_size": 2, "flush_interval": 10_000}, "One", "Two")


def test_what_waits_is_written_after_the_flush_interval(tmp_path):
    assert written(tmp_path / "memory.db", {"batch_size": 1_000, "flush_interval": 0.01}, "One")


def test_a_driver_is_refused_where_none_is_to_be_used():
    config = client_parts.config(backend="neo4j", neo4j={"use_existing_connection": False})
    with pytest.raises(treering.InvalidInput, match="use_existing_connection is false"):
        client_parts.blocking(config, connection=object())


def test_the_database_of_mongodb_may_be_in_its_address_or_beside_it():
    def address(**keys):
        config = client_parts.config(backend="mongodb", mongodb=keys, sqlite={"path": "memory"})
        return place_of(config, Settings.read(), Given(), connect=False).engine

    assert address(url="mongodb://host:1", database="own") == "mongodb://host:1/own"
    assert address(url="mongodb://host:1/own") == "mongodb://host:1/own"
    with pytest.raises(treering.InvalidInput, match=r"mongodb\.database is 'other', but memory\.mongodb\.url names"):
        address(url="mongodb://host:1/own", database="other")


def test_every_index_type_gives_one_order_as_vectors_have_unit_length():
    def lengths(texts):
        return [[float(len(text)), 3.0 * text.count("a"), 1.0] for text in texts]

    orders = []
    for index_type in ("cosine", "euclidean", "dot_product"):
        vectors = {"index_type": index_type, "embedding_model": "lengths"}
        config = client_parts.config(vector_store=vectors, retrieval=LONG)
        with client_parts.blocking(config, embedder=lengths) as client:
            for text in TEXTS:
                client.store(text)
            client.catch_up()
            found = client.retrieve("BWA alignment run")
            orders.append([(memory.content, memory.similarity_score) for memory in found])
    assert orders[0] == orders[1] == orders[2]
    with pytest.raises(treering.InvalidInput, match=r"memory\.vector_store\.index_type"):
        client_parts.config(vector_store={"index_type": "manhattan"})

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import client_parts
import pytest
import yaml
from pydantic import ValidationError

import treering
from treering.client import AgentProfile, BlockingMemoryClient, MemoryConfig, MemorySystemClient, read_memory_config
from treering.extensions.client import place
from treering.testing import HashingEmbedder

HERE = Path(__file__).parent
CONFIGS = HERE / "configs"


def test_a_hosts_configuration_files_load_unchanged():
    config = read_memory_config(CONFIGS / "default.yaml")
    assert (config.backend, config.session_ttl, config.compression.algorithm) == ("neo4j", 86_400, "lz4")
    assert (config.retrieval.top_k, config.retrieval.min_similarity, config.retrieval.max_age_seconds) == (
        5,
        0.7,
        604_800,
    )
    assert config.retrieval.reranking_model == "cross-encoder/ms-marco-MiniLM-L-6-v2"
    assert (config.storage.batch_size, config.storage.flush_interval) == (32, 300)
    assert (config.vector_store.embedding_dimension, config.vector_store.index_type) == (768, "cosine")
    assert config.profiles["prime"].enable_temporal_weighting


def test_a_file_changes_those_its_defaults_name():
    config = read_memory_config(CONFIGS / "neo4j.yaml")
    assert (config.neo4j.vector_index.index_name, config.neo4j.batch_size) == ("memory_embeddings", 100)
    assert config.profiles["planner"].max_items == 5
    assert config.compression.algorithm == "lz4"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bakend": "sqlite"}, "memory: unknown key 'bakend'. Did you mean 'backend'?"),
        ({"retrieval": {"topk": 3}}, "memory.retrieval: unknown key 'topk'. Did you mean 'top_k'?"),
        (
            {"profiles": {"prime": {"max_item": 3}}},
            "memory.profiles.prime: unknown key 'max_item'. Did you mean 'max_items'?",
        ),
        ({"backend": "sqlit"}, "memory.backend: unknown backend 'sqlit'. Did you mean 'sqlite'?"),
        (
            {"vector_store": {"backend": "quadrant"}},
            "memory.vector_store.backend: unknown backend 'quadrant'. Did you mean 'qdrant'?",
        ),
        (
            {"vector_store": {"backend": "sqlite"}, "backend": "postgres"},
            "memory: vector_store.backend is 'sqlite', which searches only its own vectors, but memories are in "
            "'postgres'. Name an engine (faiss, redis, neo4j, mongodb, postgres), or omit it.",
        ),
    ],
)
def test_what_is_not_known_names_the_nearest(given, message):
    with pytest.raises(treering.InvalidInput) as refused:
        MemoryConfig.read(given)
    assert refused.value.message == message
    with pytest.raises(ValidationError, match=r"Did you mean|Name an engine"):
        MemoryConfig(**given)


def test_a_profile_is_changed_key_by_key_and_others_are_added():
    own = AgentProfile(agent_type="reviewer", priorities=("reviews",), max_items=3)
    config = MemoryConfig(profiles={"prime": {"max_items": 20}, "reviewer": own})
    assert config.profile("prime").max_items == 20
    assert config.profile("prime").relevance_threshold == 0.8
    assert config.profile("reviewer").priorities == ("reviews",)
    with pytest.raises(treering.InvalidInput) as refused:
        config.profile("plannr")
    assert refused.value.hint == "Did you mean 'planner'?"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"backend": "postgres"}, "memory.postgres.url is not set, and no connection was given."),
        (
            {"vector_store": {"backend": "qdrant"}},
            "memory.vector_store.backend: 'qdrant' is a vector store of the host, but none was given.",
        ),
        (
            {
                "vector_store": {
                    "embedding_model": "sentence-transformers/all-mpnet-base-v2",
                    "embedding_dimension": 768,
                }
            },
            "memory.vector_store.embedding_model: 'sentence-transformers/all-mpnet-base-v2' is not built in.",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_opened(given, named, tmp_path):
    config = {"sqlite": {"path": str(tmp_path / "memory.db")}, **given}
    with pytest.raises(treering.InvalidInput) as refused:
        MemorySystemClient(config)
    assert refused.value.message == named
    assert list(tmp_path.iterdir()) == []


def test_a_dimension_that_the_model_does_not_have_is_refused():
    with pytest.raises(treering.InvalidInput, match="has vectors of 384 components, not 768"):
        MemoryConfig.read({"vector_store": {"embedding_dimension": 768}})
    with pytest.raises(treering.InvalidInput, match="embedding_dimension is 7"):
        BlockingMemoryClient(
            {"vector_store": {"embedding_model": "own", "embedding_dimension": 7}}, embedder=HashingEmbedder()
        )


def test_a_connection_for_a_backend_that_takes_none_is_refused():
    with pytest.raises(treering.InvalidInput, match="does not accept a connection"):
        MemorySystemClient(client_parts.config(), connection=object())


def test_the_shipped_group_is_what_the_code_has_by_itself():
    text = files("treering.configs").joinpath("memory/default.yaml").read_text(encoding="utf-8")
    assert MemoryConfig.read(yaml.safe_load(text)) == MemoryConfig()


def run(folder, *overrides):
    environment = {**os.environ, "TREERING_DATA_DIR": str(folder / "data"), "HYDRA_FULL_ERROR": "1"}
    command = [sys.executable, str(HERE / "hydra_program.py"), *overrides]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("overrides", "key", "value"),
    [
        (["memory.enabled=true", "memory.backend=in_memory", "question=x"], ("backend",), "in_memory"),
        (["memory=in_memory"], ("backend",), "in_memory"),
        (["memory.session_ttl=null", "question=x"], ("session_ttl",), None),
        (["memory.retrieval.top_k=10", "memory.retrieval.min_similarity=0.8"], ("retrieval", "top_k"), 10),
        (["flows.prime.enabled=true", "memory.profiles.prime.max_items=20"], ("profiles", "prime", "max_items"), 20),
    ],
)
def test_a_program_of_hydra_is_configured_on_its_command_line(tmp_path, overrides, key, value):
    done = run(tmp_path, *overrides)
    assert done.returncode == 0, done.stderr
    config, found = json.loads(done.stdout)
    for part in key:
        config = config[part]
    assert config == value
    assert found == ["Test execution of BWA tool"]


def test_hydra_can_switch_the_memory_off(tmp_path):
    done = run(tmp_path, "memory.enabled=false")
    assert json.loads(done.stdout)[1] == []
    assert not (tmp_path / "data").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chosen", ["memory.backend=faiss", "memory=faiss"])
def test_hydra_can_name_an_engine(tmp_path, chosen):
    done = run(tmp_path, "memory.enabled=true", chosen, "question=x")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[1] == ["Test execution of BWA tool"]


def test_hydra_program_gets_error_of_missing_backend(tmp_path):
    done = run(tmp_path, "memory.enabled=true", "memory.backend=postgres", "question=x")
    assert done.returncode != 0
    assert "memory.postgres.url is not set" in done.stderr


def test_the_hosts_file_lists_all_that_is_missing_here_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("treering.extensions.client.opening.find_spec", lambda _name: None)
    monkeypatch.setattr("treering.extensions.client.models.find_spec", lambda _name: None)
    with pytest.raises(treering.InvalidInput) as refused:
        MemorySystemClient(read_memory_config(CONFIGS / "default.yaml"))
    assert "sentence-transformers/all-mpnet-base-v2" in refused.value.message
    assert "memory.compression.algorithm=lz4 needs the extra 'lz4'" in refused.value.message
    assert "url" not in refused.value.message


@pytest.mark.parametrize(
    ("backend", "url"),
    [("redis", "neo4j://host"), ("neo4j", "redis://:hunter2@host"), ("mongodb", "host"), ("postgres", "memories")],
)
def test_a_url_of_another_server_is_refused(backend, url):
    with pytest.raises(treering.InvalidInput, match=rf"memory\.{backend}\.url does not begin with") as refused:
        BlockingMemoryClient({"backend": backend, backend: {"url": url}})
    assert f"Write {refused.value.message.split()[-1].removesuffix('.')}" in refused.value.hint
    assert "hunter2" not in f"{refused.value}{refused.value.hint}"


def set_default(monkeypatch, backend, url):
    server = replace(place.SERVERS[backend], default=url)
    monkeypatch.setattr(place, "SERVERS", {**place.SERVERS, backend: server})


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("backend", ["redis", "neo4j", "mongodb"])
def test_a_server_that_nothing_names_is_looked_for_at_its_usual_address(backend, monkeypatch):
    scheme, _, rest = place.SERVERS[backend].default.partition("localhost:")
    assert rest[:5] in {"6379/", "7687", "27017"}
    set_default(monkeypatch, backend, f"{scheme}127.0.0.1:1")
    client = client_parts.blocking(client_parts.config(backend=backend))
    with pytest.raises(treering.Unavailable) as refused:
        client.store("A finding")
    assert f"memory.{backend}.url is not set, so the default address was tried" in refused.value.message
    assert f"set memory.{backend}.url" in refused.value.hint
    client.close()


@pytest.mark.usefixtures("own_folder")
def test_the_hosts_file_opens_as_typed_where_the_server_is_at_its_usual_address(bolt, monkeypatch):
    set_default(monkeypatch, "neo4j", bolt.url())
    monkeypatch.setattr("treering.extensions.client.opening.find_spec", lambda name: name)
    model = HashingEmbedder(dimension=768)
    client = BlockingMemoryClient(read_memory_config(CONFIGS / "default.yaml"), embedder=model, background=False)
    with client:
        client.store("Test execution of BWA tool")
        assert client.catch_up().state == "ready"
        assert len(client.retrieve("BWA tool execution")) == 1


@pytest.mark.parametrize("name", ["sqlite", "in_memory", "faiss", "postgres", "redis", "neo4j", "mongodb"])
def test_each_backend_has_a_file_in_the_shipped_group(name):
    text = files("treering.configs").joinpath(f"memory/{name}.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"defaults": ["default", "_self_"], "backend": name}

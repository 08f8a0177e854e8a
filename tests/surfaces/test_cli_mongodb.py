"""`treering mongodb`: what it says of a server without a search node, and of one that is not there."""

import json

import pytest

import mongo_server
from treering.surfaces.cli import run
from treering.testing.fakes import HashingEmbedder
from treering.testing.wiki_memory_contract import store
from treering.wiki import MongoWikiMemories, WikiMemoryService


@pytest.fixture(scope="module")
def address():
    with mongo_server.running() as server:
        kept = MongoWikiMemories(server.url, embedder=HashingEmbedder())
        store(WikiMemoryService(kept), "Flask routes requests.")
        kept.close()
        yield server.url


def test_a_server_without_a_search_node_is_told_as_one_that_is_searched_exactly(address, capsys):
    assert run(["mongodb", "index", address, "--wait", "0"]) == 0
    printed = capsys.readouterr().out
    assert "wiki_memories_index: not offered by this server" in printed
    assert "Memories are compared one by one." in printed


def test_status_counts_memories_and_those_of_another_model(address, capsys):
    assert run(["mongodb", "status", address]) == 0
    printed = capsys.readouterr().out
    assert "1 memory of 1 repository." in printed
    assert "1 memory has a vector of another model" in printed
    assert run(["mongodb", "status", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["searched"] == "exact"


def test_a_server_that_is_not_there_is_an_error_without_the_password(capsys):
    code = run(["mongodb", "status", "mongodb://ada:hunter2@127.0.0.1:1/x?serverSelectionTimeoutMS=50"])
    printed = capsys.readouterr()
    assert code == 6
    assert "Cannot reach" in printed.err
    assert "hunter2" not in printed.out + printed.err

"""Evidence as people write it, over HTTP: numbers of an answer, and no way to files or other scopes."""

import re

import pytest
from key_parts import guarded

DECISION = {"kind": "decision", "title": "Blink twice", "question": "How often?", "outcome": "Twice"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "private.md").write_text("# Private\n\nThe harbour code is 1234.\n")
    with guarded(folder) as server:
        writer = server.key("write")
        texts = ("The buoy blinks twice.", "The buoy is red.")
        items = [{"text": text, "origin": f"note:{number}"} for number, text in enumerate(texts)]
        server.verb(writer, "ingest", mode="source", input={"items": items})
        theirs = [{"text": "The walrus retries uploads.", "origin": "walrus.md"}]
        server.verb(writer, "ingest", mode="source", input={"items": theirs}, scope="/theirs")
        yield server


def decide(server, key, *evidence, **given):
    call = {"mode": "knowledge", "input": {**DECISION, "evidence": list(evidence), **given}}
    return server.verb(key, "crystallize", **call).json()


def search(server, key):
    return server.verb(key, "query", mode="search", input={"text": "buoy"}).json()


def test_number_with_the_id_of_an_answer_is_evidence(server):
    key = server.key("write")
    found = search(server, key)
    assert decide(server, key, "2", answer=found["answer"])["evidence"][0]["quote"] == found["hits"][1]["text"]
    assert decide(server, key, f"{found['answer']}#1")["evidence"][0]["quote"] == found["hits"][0]["text"]


def test_number_alone_is_refused_between_requests(server):
    key = server.key("write")
    search(server, key)
    assert "has no place 1" in decide(server, key, "1")["message"]


def test_answer_of_another_key_is_unknown(server):
    found = search(server, server.key("write"))
    assert "has no place 1" in decide(server, server.key("write"), "1", answer=found["answer"])["message"]


@pytest.mark.parametrize(
    "name", ["{folder}/{}.md", "{}.md", "../{}.md:1", "file:{folder}/{}.md", "{folder}/{}.md::Private"]
)
def test_remote_caller_cannot_tell_files_from_none(server, name):
    key = server.key("write")
    there, missing = (decide(server, key, name.format(one, folder=server.folder)) for one in ("private", "nowhere"))
    assert there["code"] == "not_found"
    assert re.sub("private|nowhere", "NAME", str(there)) == re.sub("private|nowhere", "NAME", str(missing))
    assert "1234" not in str(there)


@pytest.mark.parametrize("text", ['"The {} retries uploads."', "{}.md", "{}.md:1"])
def test_key_of_a_scope_cannot_probe_others(server, text):
    key = server.key("write", scope="/ours")
    theirs, none = (decide(server, key, text.format(word)) for word in ("walrus", "badger"))
    assert "code" in theirs
    assert re.sub("walrus|badger", "NAME", str(theirs)) == re.sub("walrus|badger", "NAME", str(none))

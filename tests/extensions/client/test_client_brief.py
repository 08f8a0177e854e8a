"""The brief of the memory client: the newest memories that a session or a user sees."""

import client_parts
import pytest

from treering.core.fencing import without_recalled
from treering.extensions.client.items import recalling
from treering.retrieval.text.analysis import estimate_tokens


def test_brief_shows_the_newest_memories_of_a_session_first(client):
    for text, session in [("Likes tea", None), ("Runs BWA", "s1"), ("Runs STAR", "s2"), ("Sorts reads", "s1")]:
        client.store(text, {"session_id": session} if session else {})
    lines = client.brief("s1").splitlines()[1:-1]
    assert [line.partition("  ")[2] for line in lines] == ["Sorts reads", "Runs BWA", "Likes tea"]
    assert without_recalled(client.brief("s1")) == ("", 1)


def test_brief_of_a_user_shows_no_memory_of_another(tmp_path):
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")})
    for user in ("ada", "eve"):
        with client_parts.blocking(config, user_id=user) as client:
            client.store(f"{user} likes tea")
            assert client.brief(scope="user").count("likes tea") == 1


def test_brief_omits_deleted_memories_and_is_empty_without_any(client):
    client.delete(client.store("Likes tea"))
    assert client.brief() == ""


def test_deleted_memories_do_not_hide_older_ones(client, monkeypatch):
    monkeypatch.setattr(recalling, "_MOST_UNRELATED", 3)
    client.store("Likes tea")
    for number in range(3):
        client.delete(client.store(f"Runs sample {number}"))
    assert [item.content for item in client.retrieve()] == ["Likes tea"]
    assert "Likes tea" in client.brief()


@pytest.mark.parametrize("max_tokens", [80, 300])
def test_brief_of_the_client_fits_its_budget(client, max_tokens):
    for number in range(30):
        client.store(f"Sample {number} was aligned against the reference and sorted by name")
    assert 0 < estimate_tokens(client.brief(max_tokens=max_tokens)) <= max_tokens

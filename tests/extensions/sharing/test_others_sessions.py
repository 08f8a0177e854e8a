"""A brief only recalls the sessions of its own user, and names the people who said something elsewhere."""

import json

import pytest

import treering
from treering.core.filters import Compare
from treering.extensions.coding_agents.session_work import keep_now
from treering.ports.ledger import Selection

CONVERSATION = Compare("kind", "eq", "conversation")
TEXTS = ("Never use fmt.Println in library code.", "Now limit the size of uploads in gin.go")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Store a session of a person in their space, and return its file."""

    def store(person):
        folder = tmp_path / person
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TREERING_ACTOR", person)
        monkeypatch.setenv("TREERING_SPACE", f"sqlite:{folder / 'space.db'}")
        lines = [{"session_id": f"s-{person}", "role": "user", "content": f"{text} ({person})"} for text in TEXTS]
        transcript = folder / "s.jsonl"
        transcript.write_text("\n".join(map(json.dumps, lines)))
        keep_now(transcript)
        return folder / "space.db"

    return store


def brief(file, other=None):
    with treering.open(f"sqlite:{file}", background=False) as space:
        if other:
            space.merge(f"sqlite:{other}")
        return space.query("brief")


def test_brief_recalls_no_session_that_a_merge_brought(record, tmp_path):
    ada = record("ada")
    assert "uploads in gin.go (ada)" in brief(ada).last
    assert brief(tmp_path / "ben.db", ada).last == ""
    assert "uploads in gin.go (ben)" in brief(record("ben"), ada).last


def test_statement_that_a_merge_brought_names_the_person_who_said_it(record, tmp_path):
    ada = record("ada")
    assert "said by the user" in brief(ada).text
    merged = brief(tmp_path / "ben.db", ada).text
    assert "said by ada on" in merged
    assert "said by the user" not in merged


def test_private_conversation_stays_while_a_rule_recorded_from_it_is_shared(record, tmp_path):
    ada = record("ada")
    ada.with_suffix(".policy.toml").write_text('private_scopes = ["/discussion"]\n')
    with treering.open(f"sqlite:{ada}", background=False, channel="user") as space:
        space.rule("Never use fmt.Println in library code. (ada)")
    merged = brief(tmp_path / "ben.db", ada)
    assert [line for line in merged.lines if line.startswith("Rules")]
    with treering.open(f"sqlite:{tmp_path / 'ben.db'}", background=False) as space:
        assert not list(space.engine.ledger.select(Selection(descend=True, types=("source",), where=CONVERSATION)))

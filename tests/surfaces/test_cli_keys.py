import json
from datetime import UTC, datetime, timedelta

import pytest


@pytest.fixture(autouse=True)
def data_folder(stage, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(stage.folder / "data"))


def test_a_key_is_shown_once_and_listed_without_its_secret(stage):
    made = stage.done("key", "create", "ci", "--right", "write", "--scope", "/web", "--expires", "90d").out
    key = made.splitlines()[0]
    listed = stage.done("key", "list").out
    assert key.startswith("trk_")
    assert key.split("_")[1] in listed
    assert key.split("_")[2] not in listed
    assert "write on sqlite:" in listed
    assert "scope /web, as an agent" in listed
    assert "last used never" in listed


def test_a_key_of_a_project_opens_the_space_of_that_project(stage):
    made = stage.json("key", "create", "bot", "--project", "acme")
    assert made["space"].endswith("/data/projects/acme.db")
    assert stage.run("key", "create", "other", "--project", "../acme").code == 2
    assert stage.run("key", "create", "other", "--project", "acme", "--scope", "/web").code == 2


def test_keys_of_one_space_are_listed(stage):
    first, second = (stage.json("key", "create", name, "--space", f"sqlite:{name}.db")["id"] for name in ("a", "b"))
    listed = {space: stage.json("key", "list", *space)["keys"] for space in ((), ("--space", "sqlite:b.db"))}
    assert [[key["id"] for key in keys] for keys in listed.values()] == [[first, second], [second]]
    assert "There are no keys yet." in stage.done("key", "list", "--space", "sqlite:c.db").out


def test_a_key_of_a_person_writes_as_one(stage):
    assert stage.json("key", "create", "ada", "--person")["channel"] == "user"
    assert stage.json("key", "create", "ci")["channel"] == "agent"


def test_a_key_says_how_much_it_may_ask(stage):
    limits = ("--requests-per-minute", "1200", "--at-once", "2", "--max-body", "5000000")
    assert stage.json("key", "create", "bot", *limits)["limits"] == {
        "requests_per_minute": 1_200,
        "at_once": 2,
        "max_body_bytes": 5_000_000,
    }
    assert "at most 1,200 requests a minute, 2 at once, 5,000,000 bytes each" in stage.done("key", "list").out
    assert stage.run("key", "create", "none", "--requests-per-minute", "0").code == 2


def test_a_name_is_free_again_once_its_key_is_revoked(stage):
    first = stage.json("key", "create", "ci")["id"]
    taken = stage.run("key", "create", "ci")
    assert (taken.code, "treering key revoke" in taken.err) == (4, True)
    assert stage.json("key", "revoke", "ci")["id"] == first
    second = stage.json("key", "create", "ci")["id"]
    assert stage.json("key", "revoke", "ci")["id"] == second
    assert [one["id"] for one in stage.json("key", "list")["keys"]] == [first, second]


def test_key_expires_at_its_time(stage):
    now = datetime.now(UTC)
    for number, (text, lasts) in enumerate({"12h": timedelta(hours=12), "2w": timedelta(weeks=2)}.items()):
        until = datetime.fromisoformat(stage.json("key", "create", f"k{number}", "--expires", text)["expires"])
        assert now + lasts <= until <= now + lasts + timedelta(minutes=5)
    assert stage.json("key", "create", "day", "--expires", "2999-01-31")["expires"] == "2999-01-31T00:00:00+00:00"


@pytest.mark.parametrize("expires", ["2020-01-01", "soon", "0d", "-1d", "99999y", "1e3d"])
def test_a_time_that_is_none_or_over_is_refused(stage, expires):
    refused = stage.run("key", "create", "ci", f"--expires={expires}")
    assert refused.code == 2
    assert "hours, days, weeks or years" in refused.err


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\u202eci", "x" * 65, "-"])
def test_a_name_that_could_deceive_is_refused(stage, name):
    assert stage.run("key", "create", "--", name).code == 2


def test_error_states_the_fix(stage):
    assert stage.run("key", "list").code == 3
    assert "treering key create" in stage.run("key", "revoke", "ci").err
    stage.done("key", "create", "ci")
    assert "Did you mean 'ci'?" in stage.run("key", "revoke", "cy").err
    assert "Did you mean 'write'?" in stage.run("key", "create", "b", "--right", "writ").err
    assert stage.run("key", "create", "b", "--scope", "web").code == 2


def test_a_file_that_holds_something_else_is_not_used_for_keys(stage):
    stage.done("init", "--space", "sqlite:space.db")
    before = (stage.folder / "space.db").read_bytes()
    assert stage.run("key", "create", "ci", "--keys", "sqlite:space.db").code == 2
    assert (stage.folder / "space.db").read_bytes() == before


def test_keys_are_for_the_eyes_of_their_owner(stage):
    stage.done("key", "create", "ci")
    assert (stage.folder / "data" / "keys.db").stat().st_mode & 0o077 == 0


def test_a_key_that_is_pasted_into_a_text_is_redacted(stage):
    key = stage.json("key", "create", "ci")["key"]
    stage.done("init")
    stage.done("ingest", "-", "--title", "Note", stdin=f"The key of ci is {key} for now.")
    assert key not in json.dumps(stage.json("query", "--mode", "search", "key of ci"))


def test_an_admin_key_for_a_scope_is_refused(stage):
    refused = stage.run("key", "create", "ops", "--right", "admin", "--scope", "/web")
    assert refused.code == 2
    assert "whole space" in refused.err


def test_a_second_revocation_reports_the_first(stage):
    stage.done("key", "create", "ci")
    stage.done("key", "revoke", "ci")
    assert "already revoked" in stage.done("key", "revoke", "ci").out

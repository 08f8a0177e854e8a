"""What `--files` lets a server read: below one folder, whatever a repository there says."""

import os

import pytest
from attacks.hostile_repositories import SECRET, WAYS_OUT, filtered, trap, way_out
from rest_parts import running


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WAYS_OUT)
def test_nested_repository_stays_within_the_folder(tmp_path, name):
    way = way_out(tmp_path, WAYS_OUT[name])
    with running(tmp_path, files=way.root) as client:
        answers = [
            client.post(
                "/v1/wiki/ingest", json={"mode": "repo", "input": {"path": str(way.target)}, "options": options}
            )
            for options in ({}, {"worktree": True})
        ]
        found = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "launch code heliotrope"}})
    codes = [answer.json().get("code", "") for answer in answers]
    assert codes == (["", "invalid_input"] if name == "core.worktree" else ["denied", "denied"])
    assert SECRET not in found.text + answers[0].text + answers[1].text


@pytest.mark.skipif(os.name == "nt", reason="the trap is a command for a POSIX shell")
def test_a_repository_below_the_folder_runs_no_command(tmp_path):
    made = trap(tmp_path, filtered(b"\x01e"))
    with running(tmp_path, files=made.folder) as client:
        for options in ({}, {"dry_run": True}, {"worktree": True}):
            body = {"mode": "repo", "input": {"path": "."}, "options": options}
            assert client.post("/v1/wiki/ingest", json=body).status_code == 200
    assert not made.sprung

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from chat_parts import chat, said, scripted, turns
from openai import OpenAI

from space_parts import open_space
from treering.surfaces.cli import run

SAID = "My sister Ingrid keeps bees in Uppsala."
ASKED = "Who keeps bees?"


@contextmanager
def served(folder, *arguments, **environment):
    """Run `treering serve` as a process until it is told to stop; return its address."""
    command = [sys.executable, "-m", "treering", "serve", "--port", "0", "--space", "mine.db", *arguments]
    given = {**os.environ, "TREERING_DATA_DIR": str(folder), "TREERING_BACKGROUND": "0", **environment}
    process = subprocess.Popen(
        command, cwd=folder, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().removeprefix("Treering listens on ").strip()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        warnings = [line for line in err.splitlines() if "there is no space" not in line]
        assert (process.returncode, out, warnings) == (0, "", [])
    finally:
        process.kill()
        process.communicate()


def official(address, **options):
    return OpenAI(base_url=f"{address}/v1", max_retries=0, **{"api_key": "treering", **options})


@pytest.mark.nightly
def test_a_client_of_which_only_the_base_url_is_changed_is_reminded_by_a_server_that_was_started_again(tmp_path):
    patience = ("--memory-wait", "60000")
    with scripted() as upstream:
        with (
            served(tmp_path, *patience, "--upstream", upstream.url, OPENAI_API_KEY="sk-common") as address,
            official(address) as client,
        ):
            client.chat.completions.create(**chat(SAID, user="monday"))
        named = ("--upstream-key-env", "MY_KEY")
        with (
            served(tmp_path, *patience, *named, TREERING_UPSTREAM=upstream.url, MY_KEY="sk-mine") as address,
            official(address) as client,
        ):
            words = client.chat.completions.create(**chat(ASKED, user="tuesday"), stream=True)
            assert "".join(part.choices[0].delta.content or "" for part in words) == "Noted."

    first, second = upstream.asked
    assert first.messages == turns(SAID)
    assert SAID in second.messages[0]["content"]
    assert second.messages[1:] == turns(ASKED)
    assert [one.headers["authorization"] for one in (first, second)] == ["Bearer sk-common", "Bearer sk-mine"]


@contextmanager
def killed(folder, *arguments):
    """Run `treering serve` as a process; return its address and a way to kill it at once."""
    command = [sys.executable, "-m", "treering", "serve", "--port", "0", "--space", "mine.db", *arguments]
    environment = {**os.environ, "TREERING_DATA_DIR": str(folder), "TREERING_BACKGROUND": "0"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process.stdout.readline().removeprefix("Treering listens on ").strip(), process.kill
        finally:
            process.kill()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kill", range(3))
@pytest.mark.parametrize("stream", [False, True])
def test_an_exchange_that_was_answered_survives_that_the_server_is_killed(tmp_path, stream, kill):
    # So much at once takes a while to store. Time is given without end: only whether it is waited for matters.
    earlier = [f"Message {number} " + "of a long conversation about the garden. " * 20 for number in range(150)]
    patience = ("--memory-wait", "60000", "--memory-store-wait", "60000")
    with (
        scripted() as upstream,
        killed(tmp_path, *patience, "--upstream", upstream.url) as (address, end),
        official(address) as client,
    ):
        asked = {**chat(*earlier, f"Question {kill}.", user=f"d{kill}"), "stream": stream}
        answer = client.chat.completions.create(**asked)
        said = "".join(part.choices[0].delta.content or "" for part in answer) if stream else "Noted."
        end()
    with open_space(f"sqlite:{tmp_path / 'mine.db'}", create=False) as space:
        kept = space.discussions().open(f"d{kill}").messages()
    assert [message.text for message in kept][-2:] == [f"Question {kill}.", said] == [f"Question {kill}.", "Noted."]


@pytest.mark.nightly
def test_memories_of_chats_are_made_as_a_config_file_says(tmp_path):
    block = "Ingrid, the sister of whom we talk, keeps bees in Uppsala."
    config = {"fileMemoryWorkflowName": "file-memories", "lookback": 0, "maxMessages": 2, "state": False}
    (tmp_path / "memory.json").write_text(json.dumps(config), encoding="utf-8")
    nodes = [{"id": "agent1", "type": "Standard", "prompt": "Summarise {agent1Input}", "returnToUser": True}]
    (tmp_path / "file-memories.json").write_text(json.dumps(nodes), encoding="utf-8")
    with scripted() as upstream:
        upstream.will(said("Noted."), said(block))
        model = ("--memory-endpoint", "main=small", "--memory-endpoint-url", upstream.url)
        asked = ("--upstream", upstream.url, "--memory-config", "memory.json", *model)
        with served(tmp_path, "--memory-wait", "60000", *asked) as address, official(address) as client:
            client.chat.completions.create(**chat(SAID, user="monday"))
            assert upstream.was_asked(2)
    assert upstream.asked[1].messages[-1]["content"].startswith("Summarise")
    assert SAID in upstream.asked[1].text
    with open_space(f"sqlite:{tmp_path / 'mine.db'}", create=False) as space:
        memories = space.discussions().open("monday").all_memories()
    assert [memory.item.summary for memory in memories] == [block]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--upstream", "example.org"), "https://api.openai.com/v1"),
        (("--upstream", "http://127.0.0.1:1/v1", "--upstream-key-env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE"),
        (("--upstream", "http://127.0.0.1:1/v1", "--memory-within", "here"), "scope"),
    ],
)
def test_unservable_input_is_reported_immediately(tmp_path, monkeypatch, capsys, arguments, told):
    monkeypatch.chdir(tmp_path)

    assert run(["serve", "--port", "0", *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, told in " ".join(captured.err.split())) == ("", True)

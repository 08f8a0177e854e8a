"""Several `treering serve` on one database: they see each other's writes, and do what one that is killed leaves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import httpx
import psycopg
import pytest
from postgres_spaces import new_space, open_target

from model_endpoint import endpoint
from space_parts import note, open_space

PATIENCE = 120


@contextmanager
def served(folder, *arguments, background="0"):
    """Run `treering serve`; return a client of it and its process."""
    command = [sys.executable, "-m", "treering", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "TREERING_DATA_DIR": str(folder), "TREERING_BACKGROUND": background}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            address = process.stdout.readline().removeprefix("Treering listens on ").strip()
            with httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as client:
                yield client, process
        finally:
            process.kill()


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Database:
    """What is in the rows of a space, looked at past Treering."""

    def __init__(self, server, space):
        self._connection = psycopg.connect(server.url("tests", "postgres"), autocommit=True)
        with closing(open_target(server, space)) as opened:
            self._space = opened._primary.number

    def first(self, sql):
        return self._connection.execute(sql, {"space": self._space}).fetchone()[0]

    def count(self, table, where="true"):
        return self.first(f"SELECT count(*) FROM treering.{table} WHERE space = %(space)s AND {where}")

    def lapse(self):
        """Have claims and leases be as old as those of a process that died long ago."""
        for table, column in (
            ("vector_queue", "claimed_until"),
            ("promised_work", "claimed_until"),
            ("leases", "renewed"),
        ):
            self._connection.execute(f"UPDATE treering.{table} SET {column} = 1 WHERE space = {self._space}")

    def close(self):
        self._connection.close()


def noted(client, *texts):
    items = [{"text": text, "origin": f"note:{text}"} for text in texts]
    answer = client.post("/v1/wiki/ingest", json={"mode": "source", "input": {"items": items}})
    assert answer.status_code == 200, answer.text


def found(client, text):
    answer = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": text}, "options": {"limit": 1}})
    return [hit["text"] for hit in answer.json()["hits"]]


def test_what_is_written_through_one_server_is_seen_through_another_at_once(server, tmp_path):
    place = ("--space", server.url(space=new_space()), "--projects", server.url(space=new_space()))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with served(tmp_path / "a", *place) as (one, _), served(tmp_path / "b", *place) as (other, _):
        for number, (writer, reader) in enumerate([(one, other), (other, one), (one, other)]):
            noted(writer, f"Release {number} is cut on Tuesday.")
            assert found(reader, f"release {number}") == [f"Release {number} is cut on Tuesday."]
        project = "/api/projects/acme/memory"
        docs = ["Charles Babbage built engines."]
        assert one.post(f"{project}/index", json={"docs": docs}).json()["counts"] == {"created": 1}
        asked = {"queries": ["Who built engines?"], "num_to_retrieve": 1}
        assert other.post(f"{project}/retrieve", json=asked).json()[0]["docs"] == docs
        assert other.post(f"{project}/index", json={"docs": docs}).json()["counts"] == {"unchanged": 1}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # nothing is kept but in the database


@pytest.mark.nightly
def test_vectors_that_a_killed_server_left_are_made_by_another_and_none_twice(server, tmp_path):
    space = new_space()
    place = ("--space", server.url(space=space))
    with (
        closing(Database(server, space)) as database,
        served(tmp_path, *place, background="1") as (one, process),
        served(tmp_path, *place, background="1"),
    ):
        noted(one, *(f"Bees hum near hive {number}." for number in range(160)))
        until(lambda: database.count("passage_vectors"))
        process.kill()
        process.wait()
        database.lapse()
        until(lambda: not database.count("vector_queue"))
        assert database.count("passage_vectors") == 160
        # A passage is logged when it comes, and again for each vector of it that is kept.
        twice = "key IN (SELECT key FROM treering.vector_log WHERE space = %(space)s GROUP BY key HAVING count(*) > 2)"
        assert database.count("vector_log", twice) == 0


@pytest.mark.nightly
def test_memories_that_a_killed_server_had_promised_are_made_once_by_another(server, tmp_path):
    config = {"fileMemoryWorkflowName": "file-memories", "lookback": 0, "maxMessages": 2, "state": False}
    (tmp_path / "memory.json").write_text(json.dumps(config), encoding="utf-8")
    nodes = [{"id": "agent1", "type": "Standard", "prompt": "Summarise {agent1Input}", "returnToUser": True}]
    (tmp_path / "file-memories.json").write_text(json.dumps(nodes), encoding="utf-8")
    asked, go_on = [], threading.Event()

    def answer(prompt):
        if not prompt.startswith("Summarise"):
            return "Noted."
        asked.append(prompt)
        if len(asked) == 1:
            go_on.wait(PATIENCE)
        return "Ingrid keeps bees in Uppsala."

    space = new_space()
    with closing(Database(server, space)) as database, endpoint(answer) as upstream:
        model = ("--memory-endpoint", "main=small", "--memory-endpoint-url", upstream.url)
        place = (
            "--space",
            server.url(space=space),
            "--upstream",
            upstream.url,
            "--memory-config",
            "memory.json",
            *model,
        )
        with served(tmp_path, *place, background="1") as (one, process), served(tmp_path, *place, background="1"):
            said = [{"role": "user", "content": "My sister Ingrid keeps bees in Uppsala."}]
            chat = {"model": "small", "messages": said, "user": "monday"}
            assert one.post("/v1/chat/completions", json=chat).status_code == 200
            until(lambda: asked)
            assert database.count("promised_work") == 1
            process.kill()
            process.wait()
            go_on.set()
            database.lapse()
            until(lambda: not database.count("promised_work"))
        assert len(asked) == 2
        assert database.count("objects", "type = 'knowledge' AND title LIKE '%%Ingrid%%'") == 1


@pytest.mark.nightly
def test_a_worker_makes_the_vectors_of_all_spaces_and_stops_when_told(server, tmp_path):
    spaces = [new_space() for _ in range(3)]
    for space in spaces:
        with open_space(server.url(space=space), embedder=None) as opened:
            note(opened, "Bees hum.")
    command = [sys.executable, "-m", "treering", "postgres", "work", "--space", server.url(space=new_space())]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout.readline().startswith(
                "Treering works for all spaces of the database of postgresql://"
            )
            for space in spaces:
                with closing(Database(server, space)) as database:
                    until(lambda counted=database: not counted.count("vector_queue"))
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=PATIENCE) == ("", None)
            assert process.returncode == 0
        finally:
            process.kill()

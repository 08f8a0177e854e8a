"""A server whose space is in Postgres."""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import sleep

import pytest
from postgres_spaces import new_space

import postgres_server
from space_parts import note, open_space
from surfaces.http.rest_parts import running
from treering.extensions.server import limits
from treering.testing.fakes import HashingEmbedder


class Counting(HashingEmbedder):
    """Notes how many questions are embedded at the same time."""

    def __init__(self):
        super().__init__()
        self.most, self._now, self._lock = 0, 0, Lock()

    def embed_query(self, text):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        sleep(0.2)
        with self._lock:
            self._now -= 1
        return super().embed_query(text)


def test_calls_use_no_more_threads_than_connections(server, tmp_path):
    note = {"mode": "source", "input": {"items": [{"text": "Bees make honey.", "origin": "note:bees"}]}}
    embedder = Counting()
    with running(tmp_path, space=server.url(space=new_space()), embedder=embedder) as client:
        assert client.post("/v1/wiki/ingest", json=note | {"options": {"wait": True}}).status_code == 200

        def search(number):
            body = {"mode": "search", "input": {"text": f"honey of hive {number}"}}
            return client.post("/v1/wiki/query", json=body).status_code

        with ThreadPoolExecutor(24) as pool:
            assert set(pool.map(search, range(24))) == {200}
    assert embedder.most <= limits.MAX_DATABASE_CALL_THREADS


def test_an_erasure_names_the_old_rows_and_the_log_of_the_server(server):
    with open_space(server.url(space=new_space()), channel="user") as space:
        evidence = note(space, "Ada can be reached at 555-0100.")
        receipt = space.erase([evidence["source_id"]], "asked")
    assert any("VACUUM FULL" in place for place in receipt.out_of_reach)
    assert any("write-ahead log" in place for place in receipt.out_of_reach)


@pytest.mark.nightly
def test_an_outage_is_reported_without_the_location_of_the_database(server, tmp_path, caplog):
    mortal = postgres_server.new_server()
    try:
        with running(tmp_path, space=mortal.url(space="main", connect_timeout="2")) as client:
            note = {"mode": "source", "input": {"items": [{"text": "Bees make honey."}]}}
            assert client.post("/v1/wiki/ingest", json=note).status_code == 200
            assert client.get("/ready").json() == {"status": "ready", "space": "open"}
            mortal.stop()
            ready = client.get("/ready")
            answers = [
                client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "honey"}}) for _ in range(2)
            ]
    finally:
        postgres_server.remove(mortal)

    assert [one.status_code for one in (ready, *answers)] == [503] * 3
    for one in (ready, *answers):
        assert not any(secret in one.text for secret in (postgres_server.OWNER, str(mortal.folder), "main"))
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("treering.")]
    assert any(postgres_server.OWNER in message for message in logged)

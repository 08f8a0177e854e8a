"""A server whose space is in Postgres."""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import sleep

from postgres_spaces import new_space

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

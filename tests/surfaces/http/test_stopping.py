"""A server that is told to stop: what runs may finish for a while, and nothing new begins."""

from contextlib import contextmanager
from queue import Queue
from threading import Event, Thread

import httpx
import pytest
from rest_parts import keep_bees
from test_rest_bounds import Stuck

from treering.core.errors import Unavailable
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving
from treering.extensions.server.callers import Bounds
from treering.extensions.server.serving import Server, listen
from treering.extensions.server.workers import Stop
from treering.testing.fakes import HashingEmbedder

SEARCH = {"mode": "search", "input": {"text": "bees"}}


class Held(HashingEmbedder):
    """Embeds a question when it is let go."""

    def __init__(self):
        super().__init__()
        self.started, self.go = Event(), Event()

    def embed_query(self, text):
        self.started.set()
        assert self.go.wait(60)
        return super().embed_query(text)


@contextmanager
def asked(folder, embedder, **bounds):
    """Serve, ask a question, and wait until it is being answered; give the server and the answers."""
    keep_bees(folder)
    addresses, answers = Queue(), Queue()
    serving = Serving(
        space=f"sqlite:{folder / 'space.db'}",
        parts={"projects": ServedProjects(folder / "projects")},
        background=False,
        embedder=embedder,
        bounds=Bounds(**bounds),
    )
    with listen("127.0.0.1", 0) as listener:
        server = Server(serving, addresses.put)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with httpx.Client(base_url=addresses.get(timeout=60), timeout=60, trust_env=False) as client:
                asking = Thread(target=lambda: answers.put(client.post("/v1/wiki/query", json=SEARCH)))
                asking.start()
                assert embedder.started.wait(60)
                yield server, answers
                asking.join()
        finally:
            server.stop()
            thread.join()


def test_running_call_is_answered_while_the_server_stops(tmp_path):
    embedder = Held()
    with asked(tmp_path, embedder, stop_seconds=60) as (server, answers):
        server.stop()
        embedder.go.set()
        assert answers.get(timeout=60).status_code == 200


def test_a_call_that_does_not_finish_in_time_is_ended(tmp_path):
    embedder = Stuck()
    with asked(tmp_path, embedder, stop_seconds=0.2) as (server, answers):
        server.stop()
        told = answers.get(timeout=60)
    assert (told.status_code, told.json()["message"]) == (503, "The server is stopping.")
    assert embedder.ended.is_set()


def test_what_runs_has_its_time_and_what_is_new_has_none():
    now = [100.0]
    stop = Stop(finishing_seconds=10, time=lambda: now[0])
    stop.check()
    stop.begin()
    with pytest.raises(Unavailable):
        stop.check()
    stop.check_running()
    now[0] += 9
    stop.begin()  # said again, it gives no more time
    stop.check_running()
    now[0] += 1
    with pytest.raises(Unavailable):
        stop.check_running()


def test_work_ends_at_once_where_someone_says_so_twice():
    stop = Stop(finishing_seconds=10)
    stop.begin()
    stop.end_now()
    with pytest.raises(Unavailable):
        stop.check_running()

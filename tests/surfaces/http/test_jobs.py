"""Jobs over HTTP: calls that are answered before they are done, watched, cancelled and resumed by their id."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event

import httpx
import job_server
import pytest
from key_parts import guarded
from rest_parts import running
from test_mcp_over_http import called

from treering import open as open_space
from treering.extensions.server.callers import Bounds
from treering.ports.runtime import VECTORS, check_between_steps
from treering.ports.stores import KeyLimits
from treering.testing.fakes import HashingEmbedder

ASYNC = {"Prefer": "respond-async"}
NOTE = {"text": "Bees make honey.", "origin": "note:bees"}
KEEP = {"mode": "source", "input": {"items": [NOTE]}}
ENDED = {"done", "interrupted", "cancelled", "failed"}
GUARD_SECONDS = 60


class Held(HashingEmbedder):
    """Embeds texts once it is let go, or is ended while it waits: work that takes as long as a test wants."""

    def __init__(self):
        super().__init__()
        self.started, self.go = Event(), Event()

    def embed_documents(self, texts):
        self.started.set()
        for _ in range(GUARD_SECONDS * 100):
            check_between_steps()
            if self.go.wait(0.01):
                return super().embed_documents(texts)
        raise AssertionError("it was never let go")


def keep_and_wait(number=0):
    """A call whose work is at the embedder when its text is kept."""
    items = [{"text": f"Bees make honey {number}.", "origin": f"note:{number}"}]
    return {"mode": "source", "input": {"items": items}, "options": {"wait": True}}


def begin(client, call, **options):
    return client.post("/v1/wiki/ingest", json=call, headers={**ASYNC, **options.pop("headers", {})}, **options)


def events(client, job, last="", headers=None):
    """Read the events of a job to their end: id, name and report of each."""
    given = {**(headers or {}), **({"Last-Event-ID": last} if last else {})}
    with client.stream("GET", f"/v1/jobs/{job}/events", headers=given) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield from parsed(answer.iter_lines())


def parsed(lines):
    fields = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name in ("event", "id", "data"):
            fields[name] = value
        elif not line and "data" in fields:
            yield fields["id"], fields["event"], json.loads(fields["data"])
            fields = {}


def ended(client, job, headers=None):
    """Wait for the end of a job; return its report."""
    list(events(client, job, headers=headers))
    return client.get(f"/v1/jobs/{job}", headers=headers).json()


def states(client, *jobs):
    return [client.get(f"/v1/jobs/{job}").json()["state"] for job in jobs]


def test_a_call_whose_client_does_not_wait_goes_on_as_a_job(tmp_path):
    with running(tmp_path) as client:
        answer = begin(client, KEEP)
        job = answer.json()["job"]
        assert (answer.status_code, answer.headers["location"]) == (202, f"/v1/jobs/{job}")
        assert answer.headers["preference-applied"] == "respond-async"
        report = ended(client, job)
        status = client.post("/v1/wiki/ingest", json={"mode": "status", "input": {"job": job}}).json()
    assert (report["state"], report["counts"], report["done"]) == ("done", {"created": 1}, 1)
    assert [item["origin"] for item in report["items"]] == ["note:bees"]
    assert status["state"] == "done"


def test_a_job_in_which_nothing_changed_is_reported_too(tmp_path):
    with running(tmp_path) as client:
        client.post("/v1/wiki/ingest", json=KEEP)
        report = ended(client, begin(client, KEEP).json()["job"])
    assert (report["state"], report["counts"]) == ("done", {"unchanged": 1})


@pytest.mark.parametrize("call", [{"mode": "status"}, {**KEEP, "options": {"dry_run": True}}])
def test_a_call_that_writes_nothing_is_answered_as_ever(tmp_path, call):
    with running(tmp_path) as client:
        client.post("/v1/wiki/ingest", json=KEEP)
        answer = begin(client, call)
    assert answer.status_code == 200
    assert "preference-applied" not in answer.headers


def test_a_call_that_is_wrong_begins_no_job(tmp_path):
    with running(tmp_path) as client:
        client.post("/v1/wiki/ingest", json=KEEP)
        assert begin(client, {"mode": "source", "input": {"items": [{"txt": "x"}]}}).status_code == 422
        assert begin(client, {"mode": "path", "input": {"path": "."}}).status_code == 403
        assert client.get("/v1/jobs/job:01K00000000000000000000000").status_code == 404


def test_a_job_that_fails_says_why(tmp_path):
    (tmp_path / "files").mkdir()
    with running(tmp_path, files=tmp_path / "files") as client:
        report = ended(client, begin(client, {"mode": "path", "input": {"path": "nowhere"}}).json()["job"])
        outside = ended(client, begin(client, {"mode": "path", "input": {"path": "/etc"}}).json()["job"])
    assert (report["state"], report["status"], report["errors"][0]["code"]) == ("failed", "failed", "invalid_input")
    assert (outside["state"], outside["errors"][0]["code"]) == ("failed", "denied")


def test_events_tell_of_a_job_from_its_beginning_to_its_end(tmp_path):
    held = Held()
    with running(tmp_path, embedder=held) as client:
        job = begin(client, keep_and_wait()).json()["job"]
        told = []
        for one in events(client, job):
            told.append(one)
            if one[2]["done"]:
                held.go.set()
        last = told[-1]
        again = client.get(f"/v1/jobs/{job}/events", headers={"Last-Event-ID": last[0]})
        from_before = list(events(client, job, last=told[0][0]))
    assert [name for _, name, _ in told] == ["progress"] * (len(told) - 1) + ["end"]
    assert (last[2]["state"], last[2]["done"]) == ("done", 1)
    assert len({number for number, _, _ in told}) == len(told)
    assert again.status_code == 204
    assert [number for number, _, _ in from_before] == [last[0]]


def test_a_job_that_is_cancelled_ends_and_what_it_wrote_stays(tmp_path):
    held = Held()
    with running(tmp_path, embedder=held) as client:
        job = begin(client, keep_and_wait()).json()["job"]
        assert held.started.wait(GUARD_SECONDS)
        assert client.delete(f"/v1/jobs/{job}").status_code in (200, 202)
        report = ended(client, job)
        assert client.delete(f"/v1/jobs/{job}").json()["state"] == "cancelled"
        found = client.post("/v1/wiki/query", json={"mode": "recent"}).json()
    assert (report["state"], report["counts"]) == ("cancelled", {"created": 1})
    assert len(found["changes"]) == 1


def test_jobs_are_bounded_and_leave_the_threads_of_other_calls_free(tmp_path):
    held = Held()
    bounds = Bounds(jobs_at_once=1, most_jobs=3, worked_on_at_once=1)
    with running(tmp_path, embedder=held, bounds=bounds) as client:
        jobs = [begin(client, keep_and_wait(number)).json()["job"] for number in range(3)]
        assert held.started.wait(GUARD_SECONDS)
        one_more = begin(client, keep_and_wait(4))
        assert states(client, *jobs) == ["running", "waiting", "waiting"]
        gone = client.delete(f"/v1/jobs/{jobs[1]}")
        assert (gone.status_code, gone.json()["state"]) == (200, "cancelled")
        assert begin(client, keep_and_wait(5)).status_code == 202  # its place is free
        held.go.set()
        assert ended(client, jobs[2])["state"] == "done"
        recent = client.post("/v1/wiki/query", json={"mode": "recent"}).json()
    assert (one_more.status_code, one_more.headers["retry-after"]) == (503, "1")
    assert "note:1" not in json.dumps(recent)  # what was cancelled before it began wrote nothing


def test_stalled_reader_blocks_nobody(tmp_path):
    held = Held()
    with running(tmp_path, embedder=held) as client:
        job = begin(client, keep_and_wait()).json()["job"]
        place = (client.base_url.host, client.base_url.port)
        with socket.create_connection(place) as silent:
            silent.sendall(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            assert held.started.wait(GUARD_SECONDS)
            held.go.set()
            assert ended(client, job)["state"] == "done"
            silent.settimeout(GUARD_SECONDS)
            assert silent.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_job_is_for_the_key_that_began_it_and_for_an_admin(tmp_path):
    with guarded(tmp_path) as server:
        mine, other, admin = server.key("write"), server.key("write"), server.key("admin")
        reads, elsewhere = server.key("read"), server.key("write", space="other.db")
        begun = server.ask(mine, "POST", "/v1/wiki/ingest", json=KEEP, headers=ASYNC).json()
        job = begun["job"]
        asked = [("GET", ""), ("GET", "/events"), ("POST", "/resume"), ("DELETE", "")]
        told = {
            name: [server.ask(key, method, f"/v1/jobs/{job}{path}").status_code for method, path in asked]
            for name, key in {"other": other, "reads": reads, "elsewhere": elsewhere, "nobody": ""}.items()
        }
        assert told == {"other": [404] * 4, "reads": [403] * 4, "elsewhere": [403] * 4, "nobody": [401] * 4}
        for key in (mine, admin):
            report = ended(server.client, job, headers={"Authorization": f"Bearer {key}"})
            assert report["state"] == "done"


def told_of(server, key, job):
    """Ask for a job in every way there is; return by way what was told: `None` where that was nothing."""
    asked = {"mode": "status", "input": {"job": job}}
    newest = server.verb(key, "ingest", mode="status").json()
    web = server.ask(key, "GET", "/", headers={"Accept": "text/html"}).text

    answers = {
        "show": server.ask(key, "GET", f"/v1/jobs/{job}"),
        "events": server.ask(key, "GET", f"/v1/jobs/{job}/events"),
        "cancel": server.ask(key, "DELETE", f"/v1/jobs/{job}"),
        "resume": server.ask(key, "POST", f"/v1/jobs/{job}/resume"),
        "verb": server.verb(key, "ingest", **asked),
    }
    texts = {way: answer.text if answer.status_code in (200, 202, 409) else None for way, answer in answers.items()}
    agent = called(server.client.base_url, key, "wiki.ingest", **asked)
    texts["agent"] = None if agent.is_error else str(agent.content)
    texts["newest"] = str(newest) if newest.get("job") == job else None
    texts["web"] = web if job in web else None
    return texts


@pytest.mark.parametrize("waits", [True, False])
def test_job_is_visible_to_the_same_keys_everywhere(tmp_path, waits):
    with guarded(tmp_path) as server:
        mine, admin = server.key("write"), server.key("admin")
        others = {"write": server.key("write"), "review": server.key("review"), "read": server.key("read")}
        below = server.key("admin", scope="/below")
        headers = {} if waits else ASYNC
        begun = server.ask(mine, "POST", "/v1/wiki/ingest", json=KEEP, headers=headers).json()
        job = begun["job"]
        if not waits:
            ended(server.client, job, headers={"Authorization": f"Bearer {mine}"})
        ways = told_of(server, mine, job)
        assert {way for way, told in ways.items() if told is None} == {"web"}
        assert told_of(server, admin, job).keys() == ways.keys()
        assert [way for way, told in told_of(server, admin, job).items() if told is None] == ["web"]
        for key in (*others.values(), below):
            assert not any(told_of(server, key, job).values())
        # It is whose it was, also where an admin looked after it.
        assert told_of(server, mine, job)["verb"]


def test_a_job_that_an_admin_resumes_stays_that_of_its_key(tmp_path):
    (tmp_path / "files").mkdir()
    with guarded(tmp_path, files=tmp_path / "files") as server:
        mine, admin = server.key("write"), server.key("admin")
        call = {"mode": "path", "input": {"path": "later.md"}}
        job = server.ask(mine, "POST", "/v1/wiki/ingest", json=call, headers=ASYNC).json()["job"]
        assert ended(server.client, job, headers={"Authorization": f"Bearer {mine}"})["state"] == "failed"
        (tmp_path / "files" / "later.md").write_text("Bees hum.")
        assert server.ask(admin, "POST", f"/v1/jobs/{job}/resume").status_code == 202
        for key in (admin, mine):
            assert ended(server.client, job, headers={"Authorization": f"Bearer {key}"})["state"] == "done"


def test_a_key_may_have_as_many_jobs_as_it_may_have_answered_at_once(tmp_path):
    held = Held()
    with guarded(tmp_path, embedder=held) as server:
        few, many = server.key("write", limits=KeyLimits(at_once=1)), server.key("write")
        statuses = [
            server.ask(key, "POST", "/v1/wiki/ingest", json=keep_and_wait(number), headers=ASYNC).status_code
            for number, key in enumerate((few, few, many))
        ]
        held.go.set()
    assert statuses == [202, 429, 202]


def test_revoked_key_ends_a_stream(tmp_path):
    held = Held()
    with guarded(tmp_path, embedder=held) as server:
        key = server.key("write")
        headers = {"Authorization": f"Bearer {key}"}
        job = server.ask(key, "POST", "/v1/wiki/ingest", json=keep_and_wait(), headers=ASYNC).json()["job"]
        assert held.started.wait(GUARD_SECONDS)
        told = []
        for one in events(server.client, job, headers=headers):
            told.append(one)
            server.keys.revoke(key.split("_")[1], at=datetime.now(UTC))
        held.go.set()
    assert all(name == "progress" for _, name, _ in told)


def test_a_server_that_stops_leaves_no_job_that_seems_to_run(tmp_path):
    held = Held()
    with running(tmp_path, embedder=held, bounds=Bounds(jobs_at_once=1, stop_seconds=0.1)) as client:
        jobs = [begin(client, keep_and_wait(number)).json()["job"] for number in range(2)]
        assert held.started.wait(GUARD_SECONDS)
    held.go.set()
    with running(tmp_path, embedder=held) as client:
        assert states(client, *jobs) == ["interrupted", "interrupted"]
        refused = client.post(f"/v1/jobs/{jobs[0]}/resume")
        again = begin(client, keep_and_wait(0)).json()["job"]
        assert ended(client, again)["counts"] == {"unchanged": 1}  # sent again, it is not written again
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


@contextmanager
def served(folder, *arguments):
    """Serve a folder by a process of its own."""
    command = [sys.executable, job_server.__file__, str(folder), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            with httpx.Client(base_url=address, timeout=GUARD_SECONDS, trust_env=False) as client:
                yield process, client
        finally:
            process.kill()


@pytest.mark.nightly
def test_a_job_of_a_server_that_was_killed_is_interrupted_and_can_be_resumed(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3):
        (files / f"{number}.md").write_text(f"Bees make honey {number}.", encoding="utf-8")
    call = {"mode": "path", "input": {"path": "."}, "options": {"wait": True}}
    with served(tmp_path, "held") as (process, client):
        job = begin(client, call).json()["job"]
        (_, _, before) = next(one for one in events(client, job) if one[2]["done"])
        process.send_signal(signal.SIGKILL)
    (files / "new.md").write_text("Wasps do not.", encoding="utf-8")

    with served(tmp_path) as (_, client):
        assert states(client, job) == ["running"]  # as far as anybody knows
        elsewhere = client.delete(f"/v1/jobs/{job}")
        a_minute_passes(tmp_path, job)
        assert states(client, job) == ["interrupted"]
        resumed = client.post(f"/v1/jobs/{job}/resume")
        report = ended(client, job)
        done_with = client.post(f"/v1/jobs/{job}/resume")
    assert (before["state"], before["counts"]) == ("running", {"created": 3})
    assert (resumed.status_code, resumed.json()["job"]) == (202, job)
    assert (report["state"], report["counts"]) == ("done", {"created": 1, "unchanged": 3})
    assert (elsewhere.status_code, done_with.status_code) == (409, 409)


def a_minute_passes(folder, job):
    """Have the job be silent for a minute, and the lease of its process run out, without waiting for it."""
    with open_space(f"sqlite:{folder / 's.db'}", background=False) as space:
        space.engine.leases.clear(VECTORS)
        row = dict(space.engine.jobs.find(job))
        space.engine.jobs.save(job, {**row, "updated_at": (datetime.now(UTC) - timedelta(minutes=2)).isoformat()})


def test_what_is_erased_is_in_no_job_any_more(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.md").write_text("Bees make honey.", encoding="utf-8")
    with running(tmp_path, files=files, allow=frozenset({"review", "erase"})) as client:
        job = begin(client, {"mode": "path", "input": {"path": "."}}).json()["job"]
        (item,) = ended(client, job)["items"]
        erased = client.post("/v1/erase", json={"input": {"ids": [item["source_id"]]}})
        report = client.get(f"/v1/jobs/{job}").json()
    with open_space(f"sqlite:{tmp_path / 'space.db'}", background=False) as space:
        row = space.engine.jobs.find(job)
    assert erased.status_code == 200, erased.text
    assert report["items"] == []
    assert "a.md" not in str(row)
    assert item["source_id"] not in str(row)

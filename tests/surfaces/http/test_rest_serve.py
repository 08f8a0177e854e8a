import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from treering.extensions.server.keys import make_key, space_name
from treering.extensions.server.serving import has_keys, listen
from treering.spaces.wiring import open_access_keys
from treering.surfaces.cli import run
from treering.system.address import file_address
from treering.system.machine import SystemClock

_SUPERVISE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Replace this process by a server that inherits a socket, as systemd does."""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Start `treering serve` as a process; it has printed its address."""
    processes = []

    def start(*arguments):
        command = [sys.executable, "-m", "treering", "serve", "--port", "0", *arguments]
        environment = {**os.environ, "TREERING_DATA_DIR": str(tmp_path / "data"), "TREERING_BACKGROUND": "0"}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        line = process.stdout.readline()
        assert line.startswith("Treering listens on http://"), (line, process.communicate())
        return process, line.removeprefix("Treering listens on ").strip()

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_server_says_where_it_listens_and_stops_when_told(started, tmp_path, sent):
    process, address = started("--space", f"sqlite:{tmp_path / 'a.db'}", "--projects", str(tmp_path / "mine"))
    with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        indexed = client.post("/api/projects/acme/memory/index", json={"docs": ["Kept."]})
        noted = client.post("/v1/wiki/crystallize", json={"input": {"title": "Served"}})
        process.send_signal(sent)  # while a connection is open
        out, err = process.communicate(timeout=60)

    assert (indexed.status_code, noted.status_code) == (200, 200)
    warning = f"Warning: there is no space at {tmp_path / 'a.db'} yet."
    # The second line may have been read together with the first one.
    assert all(line.startswith("No key is required: ") for line in out.splitlines())
    assert (process.returncode, err.splitlines()[1:], err[: len(warning)]) == (0, [], warning)
    assert (tmp_path / "mine" / "acme.db").is_file()
    assert (tmp_path / "a.db").is_file()
    assert not (tmp_path / "a.db-wal").exists()  # closed, not dropped


@pytest.fixture
def shared_socket(tmp_path):
    """Return a function that starts a server on a socket which all of them inherit, and the address of the socket."""
    environment = {**os.environ, "TREERING_DATA_DIR": str(tmp_path / "data"), "TREERING_BACKGROUND": "0"}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        inherited = listener.fileno()
        serve = ["treering", "serve", "--space", f"sqlite:{tmp_path / 'a.db'}"]
        command = [sys.executable, "-c", _SUPERVISE, str(inherited), sys.executable, "-m", *serve]
        processes = []

        def start():
            opened = subprocess.Popen(command, pass_fds=[inherited], env=environment, stdout=subprocess.PIPE)
            processes.append(opened)
            return opened

        yield start, f"http://127.0.0.1:{listener.getsockname()[1]}"
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="no process inherits a socket")
def test_server_replaced_behind_a_socket_fails_no_request(shared_socket):
    start, address = shared_socket
    note = {"input": {"title": "Served"}}
    post = partial(httpx.post, f"{address}/v1/wiki/crystallize", json=note, trust_env=False, timeout=60)
    with ThreadPoolExecutor(4) as clients:
        first = start()
        answers = [clients.submit(post) for _ in range(8)]
        answers[0].result()
        first.terminate()
        first.wait(60)
        answers += [clients.submit(post) for _ in range(8)]
        second = start()
        statuses = {one.result().status_code for one in answers}
        second.terminate()
        second.wait(60)

    assert (first.returncode, second.returncode, statuses) == (0, 0, {200})


@pytest.mark.skipif(sys.platform == "win32", reason="no process inherits a socket")
def test_servers_on_one_socket_read_each_others_writes(shared_socket):
    start, address = shared_socket

    def connect(paused):
        """Open a connection while another server cannot accept it."""
        paused.send_signal(signal.SIGSTOP)
        client = httpx.Client(base_url=address, trust_env=False, timeout=60)
        client.get("/health")
        paused.send_signal(signal.SIGCONT)
        return client

    def titles(client):
        return {change["title"] for change in client.post("/v1/wiki/query", json={"mode": "recent"}).json()["changes"]}

    first, second = start(), start()
    for server in (first, second):
        server.stdout.readline()
    with closing(connect(second)) as of_first, closing(connect(first)) as of_second:
        of_first.post("/v1/wiki/crystallize", json={"input": {"title": "From the first"}})
        seen = titles(of_second)
        of_second.post("/v1/wiki/crystallize", json={"input": {"title": "From the second"}})
        seen_later = titles(of_first)
    for server in (first, second):
        server.terminate()
        server.wait(60)

    assert seen == {"From the first"}
    assert seen_later == {"From the first", "From the second"}
    assert (first.returncode, second.returncode) == (0, 0)


@pytest.mark.nightly
def test_requests_are_logged_as_json_lines_where_that_is_asked_for(started):
    process, address = started("--log-format", "json")
    httpx.get(f"{address}/health", trust_env=False, timeout=60)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    (line,) = err.splitlines()
    assert json.loads(line)["route"] == "/health"


@pytest.mark.nightly
def test_projects_are_kept_with_the_users_data_where_no_folder_is_named(started, tmp_path):
    _, address = started()
    httpx.post(f"{address}/api/projects/acme/memory/index", json={"docs": ["Kept."]}, trust_env=False, timeout=60)

    assert (tmp_path / "data" / "projects" / "acme.db").is_file()
    assert not (tmp_path / ".treering").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org", "::"])
def test_serving_other_machines_without_keys_is_refused(tmp_path, monkeypatch, capsys, host):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))

    assert run(["serve", "--host", host]) == 2
    assert "treering key create" in capsys.readouterr().err


def test_serving_other_machines_is_refused_where_no_key_opens_anything(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["key", "create", "ci"]) == 0
    assert run(["key", "revoke", "ci"]) == 0

    assert run(["serve", "--host", "0.0.0.0"]) == 2
    assert "is valid" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_server_for_other_machines_answers_keys_that_the_command_line_made(started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["key", "create", "ci", "--right", "write", "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    _, address = started("--host", "0.0.0.0")
    address = address.replace("0.0.0.0", "127.0.0.1")

    with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        named = {"Host": "treering.example:8420", "Authorization": f"Bearer {key}"}
        written = client.post("/v1/wiki/crystallize", json={"input": {"title": "Served"}}, headers=named)
        refused = client.post("/v1/wiki/crystallize", json={"input": {"title": "Served"}})
        assert run(["key", "revoke", "ci"]) == 0
        revoked = client.post("/v1/wiki/crystallize", json={"input": {"title": "Served"}}, headers=named)

    assert (written.status_code, refused.status_code, revoked.status_code) == (200, 401, 401)


@pytest.mark.sampled(1)
def test_local_server_requires_the_keys_of_its_space(started, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["key", "create", "ci", "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    process, address = started()

    statuses = [
        httpx.get(f"{address}/openapi.json", headers=headers, trust_env=False, timeout=60).status_code
        for headers in ({}, {"Authorization": f"Bearer {key}"})
    ]
    assert statuses == [401, 200]
    assert process.stdout.readline() == f"Requests need a key stored in {tmp_path / 'data' / 'keys.db'}.\n"


@pytest.mark.sampled(1)
def test_server_reports_that_no_key_is_required(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["key", "create", "ci", "--space", "sqlite:original.db"]) == 0
    process, _ = started("--space", "sqlite:copy.db")
    assert process.stdout.readline().startswith("No key is required: ")


@pytest.mark.sampled(1)
def test_server_warns_without_a_space_or_its_key(started, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    assert run(["key", "create", "ci", "--space", "sqlite:other.db"]) == 0
    process, _ = started("--host", "0.0.0.0", "--space", "sqlite:nope.db")
    process.send_signal(signal.SIGTERM)
    _, warnings = process.communicate(timeout=60)

    assert f"no key opens sqlite:{tmp_path / 'nope.db'}." in warnings
    assert "nope.db yet. The first write creates it" in warnings


def test_space_has_keys_until_they_are_revoked(tmp_path):
    space, place = file_address(tmp_path / "a.db"), file_address(tmp_path / "keys.db")
    keys = open_access_keys(place, create=True)
    _, key = make_key("ci", space=space_name(space, place), clock=SystemClock())
    keys.add(replace(key, expires=datetime.now(UTC) - timedelta(days=1)))

    assert has_keys(space, place)
    assert not has_keys(file_address(tmp_path / "other.db"), place)
    assert not has_keys(space, file_address(tmp_path / "no-keys.db"))
    keys.revoke(key.id, at=datetime.now(UTC))
    assert not has_keys(space, place)
    keys.close()


def test_a_taken_port_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with listen("127.0.0.1", 0) as taken:
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 6
    assert "--port" in capsys.readouterr().err


def test_what_is_no_space_is_told_before_anything_is_served(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)

    assert run(["serve", "--port", "0", "--space", "sqlite:broken.db"]) in {6, 7}
    assert run(["serve", "--port", "0", "--space", "oracle:x"]) == 2
    assert run(["serve", "--port", "0", "--files", "nowhere"]) == 2
    assert capsys.readouterr().out == ""


def test_without_the_extra_its_name_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    loaded = [name for name in sys.modules if name.startswith("treering.extensions.server")]
    for name in [*loaded, "fastapi", "uvicorn"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)

    assert run(["serve"]) == 2
    assert "pip install 'treering[server]'" in capsys.readouterr().err

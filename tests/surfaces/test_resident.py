"""The resident process: commands answer through it as they do without it, and nothing depends on it."""

import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from treering import open as open_space
from treering.extensions.encoder import onnx
from treering.extensions.resident import client, process
from treering.models import elsewhere

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands run by themselves elsewhere")

_NO_NEW_PRIVILEGES = 38
_NOTE = "Retries wait for ten seconds."
_RECORD = ("crystallize", "--input", "-")
_TIMEOUTS = '{"title": "Timeouts are never retried", "summary": "It was tried."}'


class Commands:
    """Runs commands of a space of its own, each in a new process."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder = folder
        self.runtime = runtime
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TREERING_")}
        self.environment = {
            **kept,
            "XDG_RUNTIME_DIR": str(runtime),
            "TREERING_DATA_DIR": str(folder / "data"),
            "TREERING_BACKGROUND": "0",
            "TREERING_RESIDENT": "1",
        }

    def run(self, *arguments, given="", **environment):
        return subprocess.run(
            [sys.executable, "-P", "-m", "treering", *arguments],
            input=given.encode(),
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **environment},
            timeout=60,
            check=False,
        )

    def start(self, *arguments, before=None, **streams):
        command = [sys.executable, "-P", "-m", "treering", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, preexec_fn=before, **streams)

    def alone(self, *arguments, given=""):
        return self.run(*arguments, given=given, TREERING_RESIDENT="0")

    def sockets(self):
        return sorted((self.runtime / "treering").glob("*.sock"))

    def state(self):
        """What the process says of itself; `None` where there is none."""
        for place in self.sockets():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(10)
                try:
                    line.connect(str(place))
                    line.sendall(client.message([client.ASKS_HOW_IT_IS]))
                    told = line.makefile("rb").read()[1:].decode()
                except OSError:
                    continue
                return {name: float(value) for name, value in (one.split("=") for one in told.split())}
        return None

    def started(self):
        """Have the process started by a command, and wait until it listens; return its pid."""
        self.run("status")
        return int(eventually(self.state)["pid"])


def eventually(found, seconds=30):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return value


def without_times(told: bytes) -> bytes:
    return re.sub(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:[\d.]+Z?)?|commands are answered.*|goes after.*\n?", b"", told)


@pytest.fixture
def runtime():
    """A short path: the address of a socket has 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="tr"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def folder_with_space(tmp_path_factory):
    folder = tmp_path_factory.mktemp("with_space")
    (folder / ".treering").mkdir(mode=0o700)
    (folder / "notes.md").write_text(f"# Retries\n\n{_NOTE}\n", encoding="utf-8")
    with open_space(f"sqlite:{folder}/.treering/treering.db", background=False) as space:
        space.ingest("path", input={"path": str(folder)})
    return folder


@pytest.fixture
def commands(folder_with_space, tmp_path, runtime):
    folder = shutil.copytree(folder_with_space, tmp_path / "mine")
    made = Commands(folder, runtime)
    yield made
    state = made.state()
    if state:
        os.kill(int(state["pid"]), signal.SIGKILL)


def test_a_command_says_through_it_what_it_says_without(commands):
    commands.started()
    cases = [
        (("query", "--mode", "search", "retries"), ""),
        (("query", "--mode", "search", "retries", "--json"), ""),
        (("query", "--mode", "nothing-like-it", "x"), ""),
        (("lint",), ""),
        ((*_RECORD, "--dry-run"), _TIMEOUTS),
        (("query", "--mode", "search", "--space", "sqlite:/nowhere/at/all.db", "x"), ""),
    ]

    for number, (arguments, given) in enumerate(cases, 1):
        alone, through = commands.alone(*arguments, given=given), commands.run(*arguments, given=given)
        assert commands.state()["answered"] == number
        assert through.returncode == alone.returncode, arguments
        assert without_times(through.stderr) == without_times(alone.stderr)
        if "--dry-run" not in arguments:  # ids of what is drafted are new each time
            assert without_times(through.stdout) == without_times(alone.stdout)


def test_each_command_has_its_own_folder_environment_and_umask(commands, tmp_path):
    commands.started()
    other = Commands(tmp_path / "other", commands.runtime)
    other.folder.mkdir()
    other.run("init", TREERING_RESIDENT="0")

    assert b"Retries" in commands.run("query", "--mode", "search", "retries").stdout
    assert b"Retries" not in other.run("query", "--mode", "search", "retries").stdout
    space = f"sqlite:{commands.folder}/.treering/treering.db"
    assert b"Retries" in other.run("query", "--mode", "search", "retries", TREERING_SPACE=space).stdout
    assert commands.state()["answered"] == 3


def test_it_answers_short_commands_only():
    short = [["query", "x"], ["status"], ["lint"], ["session", "begin"], ["session", "edit"]]
    long = [
        [],
        ["ingest", "."],
        ["serve"],
        ["mcp"],
        ["session", "asked"],
        ["session", "work"],
        ["session", "keep", "--now", "x"],
        ["erase"],
    ]

    assert all(client.is_short(one) for one in short)
    assert not any(client.is_short(one) for one in long)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("said", ["0", "off", "No", "false"])
def test_a_setting_turns_it_off(commands, said):
    commands.run("status", TREERING_RESIDENT=said)

    assert not (commands.runtime / "treering").exists()


def test_ci_starts_no_resident_process_by_default(monkeypatch):
    monkeypatch.setattr(client, "package_folder", lambda: "/home/me/checkout/src/treering")
    monkeypatch.delenv("CI", raising=False)
    assert not client.is_used(["query"])
    monkeypatch.setattr(client, "package_folder", lambda: "/usr/lib/python3/site-packages/treering")
    assert client.is_used(["query"])
    monkeypatch.setenv("CI", "true")
    assert not client.is_used(["query"])
    monkeypatch.setenv("TREERING_RESIDENT", "1")
    assert client.is_used(["query"])


def test_stopping_it_at_any_moment_breaks_no_command_and_loses_nothing(commands):
    pid = commands.started()
    writing = commands.start(*_RECORD, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    eventually(lambda: (commands.state() or {}).get("answered") == 1)
    os.kill(pid, signal.SIGKILL)
    told, _ = writing.communicate(_TIMEOUTS.encode(), timeout=60)

    assert writing.returncode == 0, told
    found = commands.run("query", "--mode", "search", "timeouts")  # on the socket that nobody listens to any more
    assert b"never retried" in found.stdout + commands.alone("query", "--mode", "list").stdout
    assert eventually(commands.state)["pid"] != pid


def test_a_process_that_does_not_answer_is_given_up_and_the_command_is_done_once(commands):
    pid = commands.started()
    os.kill(pid, signal.SIGSTOP)
    assert commands.run(*_RECORD, given=_TIMEOUTS).returncode == 0
    os.kill(pid, signal.SIGCONT)
    assert eventually(commands.state)["answered"] == 0  # nobody waits for an answer to the old request

    assert commands.alone("status").stdout.count(b"Episode:") == 1


def test_ctrl_c_reaches_the_command(commands):
    commands.started()
    waiting = commands.start(
        *_RECORD,
        before=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may have it ignored
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    eventually(lambda: commands.state()["answered"] == 1)
    time.sleep(1)
    for _ in range(10):  # one that comes before anybody listens for it may be lost, and is pressed again
        waiting.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            waiting.wait(5)
            break
    _, told = waiting.communicate(timeout=60)

    assert waiting.returncode == 130
    assert b"Traceback" not in told


def test_a_command_inside_a_sandbox_is_not_done_by_a_process_outside_it(commands):
    commands.started()
    libc = ctypes.CDLL(None)
    confined = commands.start(
        *("query", "--mode", "search", "retries"),
        before=lambda: libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        stdout=subprocess.PIPE,
    )
    told, _ = confined.communicate(timeout=60)

    assert b"Retries" in told
    assert commands.state()["answered"] == 0


def test_a_folder_that_others_can_open_is_not_used(commands):
    commands.started()
    (commands.runtime / "treering").chmod(0o755)

    assert b"Retries" in commands.run("query", "--mode", "search", "retries").stdout
    assert commands.state()["answered"] == 0


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_not_used(tmp_path):
    folder = tmp_path / "treering"
    folder.mkdir(mode=0o700)
    assert client.is_private(str(folder))
    os.chown(folder, 65534, 65534)
    assert not client.is_private(str(folder))


def test_a_link_instead_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "there").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "there")

    assert not client.is_private(str(tmp_path / "link"))


@pytest.mark.parametrize("told", [b".pid=1\nseconds=1\nanswered=1\nidle_minutes=1\n", b".pid=\x1b[2J\n", b".pid=1\n"])
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_only_a_resident_process_of_this_user_and_version_is_believed(runtime, monkeypatch, told, mode):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    (runtime / "treering").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(client.socket_place(client.fingerprint()))
        listener.listen()
        (runtime / "treering").chmod(mode)
        answering = threading.Thread(target=answer_once, args=(listener, told), daemon=True)
        answering.start()
        believed = client.how_it_is()
    assert (believed is not None) == (mode == 0o700 and b"idle_minutes" in told)


def answer_once(listener, told):
    with suppress(OSError):
        line, _ = listener.accept()
        with line:
            line.sendall(told)
            line.recv(100)


def test_what_is_installed_decides_which_process_answers(commands, monkeypatch, tmp_path):
    package = tmp_path / "site-packages" / "treering"
    package.mkdir(parents=True)
    monkeypatch.setattr(client, "package_folder", lambda: str(package))
    first = client.socket_place(client.fingerprint())
    assert client.socket_place(client.fingerprint()) == first
    (package.parent / "another-1.0.dist-info").mkdir()
    os.utime(package.parent, ns=(1, 1))
    upgraded = client.socket_place(client.fingerprint())
    monkeypatch.setenv("PYTHONUTF8", "1")

    assert len({first, upgraded, client.socket_place(client.fingerprint())}) == 3


def test_a_process_of_another_version_refuses(commands):
    commands.started()
    (place,) = commands.sockets()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(place))
        fields = [client.COMMAND, b"another version", b"22", b"1", b"status"]
        socket.send_fds(line, [client.message(fields)], [0, 1, 2, os.open("/", os.O_RDONLY)])

        assert line.makefile("rb").read() == client.LISTENS


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sent", [b"", b"\0\0\0\1", b"\xff\xff\xff\xff", b"\0\0\0\x09command\0x", b"\0\0\0\x01x"])
def test_what_is_no_request_is_dropped_and_the_next_is_answered(commands, sent):
    commands.started()
    (place,) = commands.sockets()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(str(place))
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        assert line.makefile("rb").read() == client.LISTENS

    assert commands.run("query", "--mode", "search", "retries").returncode == 0
    assert commands.state()["answered"] == 1


def test_it_keeps_no_password_of_whoever_started_it(commands):
    commands.environment["OPENAI_API_KEY"] = "a-key-of-somebody"
    pid = commands.started()

    assert b"a-key-of-somebody" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_it_goes_when_nothing_is_asked_for_a_while(commands):
    commands.environment["TREERING_RESIDENT_MINUTES"] = "0.005"
    commands.run("status")
    eventually(lambda: list((commands.runtime / "treering").glob("*.lock")))

    eventually(lambda: commands.state() is None and not commands.sockets())


def test_a_process_beside_it_keeps_the_model_and_goes_with_it(commands):
    commands.environment["TREERING_RESIDENT_MINUTES"] = "0.1"
    assert commands.run("vectors").returncode == 0
    commands.started()
    question = ("query", "--mode", "search", "how long does it wait")
    first = commands.run(*question)
    (encoder,) = eventually(lambda: list((commands.runtime / "treering").glob("*.vectors")))

    assert commands.run(*question).stdout == first.stdout == commands.alone(*question).stdout
    eventually(lambda: not commands.sockets() and not encoder.exists())


def test_of_two_that_are_started_at_once_one_stays(commands):
    both = [commands.start("status", stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    eventually(commands.state)

    def only_one():
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return sum(str(commands.runtime) in row for row in listed.splitlines()) == 1

    eventually(only_one)


def test_status_mentions_it(commands):
    pid = commands.started()

    told = commands.run("status", "-v").stdout.decode()
    assert f"(pid {pid})" in told
    assert "TREERING_RESIDENT" not in commands.run("status").stdout.decode()
    assert "TREERING_RESIDENT=0" in told


def test_a_question_embedded_by_the_other_process_has_the_same_vector(runtime, monkeypatch):
    place = runtime / "x.vectors"
    source = (
        f"import pathlib, treering.extensions.resident.process as r; r.embed_questions(pathlib.Path({str(place)!r}))"
    )
    encoder = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE)
    here = onnx.BgeSmall().embed_query("how long do retries wait?")
    eventually(place.exists)
    monkeypatch.setattr(elsewhere, "ask_elsewhere", process._asks_encoder(place))
    there = onnx.BgeSmall()

    np.testing.assert_array_equal(there.embed_query("how long do retries wait?"), here)
    assert there._network is None, "the model was loaded here"
    encoder.stdin.close()
    assert encoder.wait(30) == 0
    np.testing.assert_array_equal(there.embed_query("how long do retries wait?"), here)

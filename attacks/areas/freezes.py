"""Requests that are made to keep a server busy, or to take all of its places without sending anything."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from socket import create_connection
from threading import Thread

import httpx

from attacks.attack import Attack, Count
from attacks.hostile_texts import HOSTILE_TEXTS

SOON = 5.0
"""Seconds within which a server that is not frozen answers, on a machine with other things to do."""
LONG = 25.0
"""Seconds after which the attack gives up: it has reached its goal."""
PATHS = ("/health", "/ready", "/v1/wiki/query")
HEAD = "POST /v1/wiki/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"


@contextmanager
def serving(folder: Path) -> Iterator[httpx.Client]:
    """Run `treering serve` with a space of some hundred notes; return a client."""
    command = [sys.executable, "-m", "treering", "serve", "--port", "0", "--space", f"sqlite:{folder / 'a.db'}"]
    process = subprocess.Popen(
        [*command, "--projects", str(folder / "projects")],
        env={**os.environ, "TREERING_BACKGROUND": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = process.stdout.readline().rpartition(" ")[2].strip()
        with httpx.Client(base_url=address, trust_env=False, timeout=120) as client:
            items = [{"text": f"Bees make honey, jar {n}.", "origin": f"note:{n}"} for n in range(500)]
            noted = client.post("/v1/wiki/ingest", json={"mode": "source", "input": {"items": items}})
            noted.raise_for_status()
            client.timeout = httpx.Timeout(SOON)
            yield client
    finally:
        process.kill()
        process.communicate()


def send_nothing_more(folder: Path) -> Count:
    """Open connections that send the beginning of a request and no more; see whether others are answered."""
    tried = missed = 0
    with serving(folder) as client:
        for count, sent in product((64, 200), (f"{HEAD}\r\n{{", HEAD, "P")):
            with ExitStack() as stack:
                for _ in range(count):
                    one = stack.enter_context(create_connection((client.base_url.host, client.base_url.port)))
                    one.sendall(sent.encode())
                tried += len(PATHS)
                missed += _unanswered(client)
    return Count(tried, missed, "requests beside half-sent ones that were not answered in 5 s")


def ask_what_takes_long(folder: Path) -> Count:
    """Ask what takes the square of its length, and see whether it is answered and health beside it."""
    slow, asked, unhealthy = 0, list(_long_questions()), 0
    with serving(folder) as client:
        for question in asked:
            with httpx.Client(base_url=client.base_url, trust_env=False, timeout=LONG) as other:
                took: list[int] = []
                thread = Thread(target=lambda: took.append(_status(other, question)))  # noqa: B023 - joined below
                thread.start()
                while thread.is_alive():
                    unhealthy += not _answers(client, "/health")
                    time.sleep(0.2)
                thread.join()
                slow += took[0] not in {200, 422}
            if unhealthy or slow:
                break  # what is asked next would only wait for this
    note = "frozen or failing" if slow or unhealthy else "each answered or refused, health beside all"
    return Count(len(asked), slow + unhealthy, note)


def hang_up(folder: Path) -> Count:
    """Ask a lot and hang up at once, many times; see whether somebody else is answered."""
    body = json.dumps({"mode": "context", "input": {"task": "honey jar bees " * 1_000}, "options": {"deep": True}})
    asked = HEAD.replace("Length: 100", f"Length: {len(body)}") + "\r\n" + body
    tried = missed = 0
    with serving(folder) as client:
        for _ in range(5):
            for _ in range(40):
                with create_connection((client.base_url.host, client.base_url.port)) as one:
                    one.sendall(asked.encode())
            tried += len(PATHS)
            missed += _unanswered(client)
    return Count(tried, missed, "requests beside those of 200 clients that hung up")


def write_what_reads_slowly(_folder: Path) -> Count:
    """Read texts that are made to be slow."""
    program = [sys.executable, "-m", "attacks.hostile_texts"]
    try:
        done = subprocess.run(program, capture_output=True, timeout=LONG * 2, check=False).stdout
    except subprocess.TimeoutExpired as late:
        done = late.stdout or b""
    read = len(done.splitlines())
    return Count(len(HOSTILE_TEXTS), len(HOSTILE_TEXTS) - read, "texts not read in 50 s all together")


def _long_questions() -> Iterator[dict[str, object]]:
    for n in (8_000, 10_000, 40_000):
        yield _search("honey", {"title": {"in": [f"note {k}" for k in range(n)]}})
        yield _search("honey", {"metadata.n": [f"note {k}" for k in range(n)]})
    yield _search("honey", {"or": [{"metadata.a": {"prefix": f"{k}"}} for k in range(5_000)]})
    deep: dict[str, object] = {"title": "x"}
    for _ in range(200):
        deep = {"not": {"or": [deep]}}
    yield _search("honey", deep)
    for part in ("2024-01-01 ", "last week ", "from june to july ", "more ", "“", "a", "\n", "日"):
        for length in (20_000, 1_000_000):
            yield _search(part * (length // len(part)) + "honey", {})


def _search(text: str, where: dict[str, object]) -> dict[str, object]:
    return {"mode": "search", "input": {"text": text}, "options": {"filter": where}}


def _status(client: httpx.Client, body: dict[str, object]) -> int:
    try:
        return client.post("/v1/wiki/query", json=body).status_code
    except httpx.TransportError:
        return 0


def _unanswered(client: httpx.Client) -> int:
    """Count the requests of somebody else that are not answered soon."""
    return sum(not _answers(client, path) for path in PATHS)


def _answers(client: httpx.Client, path: str) -> bool:
    try:
        if path.startswith("/v1"):
            return client.post(path, json=_search("honey", {})).status_code == httpx.codes.OK
        return client.get(path).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


ATTACKS: Sequence[Attack] = (
    Attack("send a part of a request and nothing more", send_nothing_more),
    Attack("ask what takes long", ask_what_takes_long),
    Attack("hang up in the middle of long work", hang_up),
    Attack("write texts that are slow to read", write_what_reads_slowly),
)

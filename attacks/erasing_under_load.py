"""A real server that is told to erase while others ingest, chat and query; and a search for the bytes afterwards."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import treering

LOAD_SECONDS = 12.0
_START_SECONDS = 60
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_ABOUT = "the lamp of the harbour"
_ROUNDS_PER_WORD = 20
_EVERYWHERE = {"descend": True, "limit": 50}


@dataclass(slots=True)
class Load:
    """A server under load, and what its clients know of each other."""

    url: str
    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    stored: list[str] = field(default_factory=list)
    """Secret words that may be erased."""
    erased: list[str] = field(default_factory=list)
    """Secret words whose erasure was answered."""
    found: set[str] = field(default_factory=set)
    """What went wrong: words in answers, and requests that failed."""
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, client: httpx.Client, path: str, body: Mapping[str, Any], **headers: str) -> Any:
        """Send a request; return the answer, empty if it was refused because others wrote."""
        gone = [*self.erased]
        answer = client.post(path, json=body, headers=headers)
        with self.lock:
            self.requests += 1
            self.found |= {f"{path} answers {word}" for word in gone if word in answer.text and word not in str(body)}
            if answer.status_code >= 500:
                self.found.add(f"{path}: {answer.status_code} {answer.text[:200]}")
        return answer.json() if answer.status_code == 200 else {}


@contextmanager
def served(folder: Path, upstream: str) -> Iterator[str]:
    """Serve a space of a folder by the command line, to whoever may erase; return its address."""
    os.environ["TREERING_DATA_DIR"] = str(folder / "data")
    command = [sys.executable, "-m", "treering", "serve", "--port", "0", "--space", _space(folder)]
    with (folder / "output").open("w") as output:
        process = subprocess.Popen([*command, "--allow", "erase", "--upstream", upstream], stdout=output, stderr=output)
    try:
        yield _address(folder / "output")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_START_SECONDS)


def _address(output: Path) -> str:
    for _ in range(_START_SECONDS * 20):
        if match := _ADDRESS.search(output.read_text()):
            return match[0]
        time.sleep(0.05)
    raise RuntimeError(f"The server did not start: {output.read_text()}")


def _space(folder: Path) -> str:
    return f"sqlite:{folder / 'space.db'}"


def _word(chance: random.Random) -> str:
    return "zq" + "".join(chance.choices("bcdfghjklmnpqrstvwxz", k=12))


def ingest(load: Load, client: httpx.Client, chance: random.Random) -> None:
    """Ingest a note with a secret word."""
    word = _word(chance)
    note = {"text": f"Note on {_ABOUT}: its secret is {word}.", "origin": f"note:{chance.getrandbits(60)}"}
    load.ask(client, "/v1/wiki/ingest", {"mode": "source", "input": {"items": [note]}})
    load.stored.append(word)


def chat(load: Load, client: httpx.Client, chance: random.Random) -> None:
    """Tell a secret word in a chat, and go on with the chat once."""
    word, name = _word(chance), f"chat-{chance.getrandbits(60)}"
    said = [{"role": "user", "content": f"Remember of {_ABOUT} that we decided on {word}."}]
    load.ask(client, "/v1/chat/completions", {"model": "m", "messages": said}, **{"X-Treering-Discussion": name})
    more = [*said, {"role": "assistant", "content": "Noted."}, {"role": "user", "content": "Who lit it?"}]
    load.ask(client, "/v1/chat/completions", {"model": "m", "messages": more}, **{"X-Treering-Discussion": name})
    load.stored.append(word)


def state(load: Load, client: httpx.Client, chance: random.Random) -> None:
    """State a preference with a secret word."""
    word = _word(chance)
    preference = {"kind": "preference", "title": f"Lamp {word}", "payload": {"statement": f"Use {word} for lamps"}}
    load.ask(client, "/v1/wiki/crystallize", {"mode": "knowledge", "input": preference})
    load.stored.append(word)


def query(load: Load, client: httpx.Client, chance: random.Random) -> None:
    """Query what is known, by all that answers with texts."""
    mode = chance.choice(("search", "context"))
    load.ask(client, "/v1/wiki/query", {"mode": mode, "input": {"text": f"What is {_ABOUT}?"}})


def erase(load: Load, client: httpx.Client, chance: random.Random) -> None:
    """Erase all that holds a secret word, until a search finds nothing more."""
    with load.lock:
        if not load.stored:
            return
        word = load.stored.pop(chance.randrange(len(load.stored)))
    for _ in range(_ROUNDS_PER_WORD):
        body = {"mode": "search", "input": {"text": word}, "options": _EVERYWHERE}
        hits = load.ask(client, "/v1/wiki/query", body).get("hits", ())
        if not (ids := sorted({hit["object_id"] for hit in hits if word in str(hit)})):
            break
        load.ask(client, "/v1/erase", {"input": {"ids": ids}, "options": {"reason": "asked"}})
    else:
        load.found.add(f"{word} is found after {_ROUNDS_PER_WORD} erasures")
        return
    load.erased.append(word)


CLIENTS: Sequence[Callable[[Load, httpx.Client, random.Random], None]] = (
    *(ingest, chat, chat, state),
    *(query, query, erase, erase),
)


def run_clients(load: Load) -> None:
    """Let all clients work at once, each over a connection of its own."""
    threads = [threading.Thread(target=_work, args=(load, number)) for number in range(len(CLIENTS))]
    for thread in threads:
        thread.start()
    load.stop.wait(LOAD_SECONDS)
    load.stop.set()
    for thread in threads:
        thread.join()


def _work(load: Load, number: int) -> None:
    chance = random.Random(number)
    with httpx.Client(base_url=load.url, timeout=60, trust_env=False) as client:
        while not load.stop.is_set():
            CLIENTS[number](load, client, chance)


def ask_once_more(load: Load) -> None:
    """Ask for everything, and erase one more note: its overwriting completes those that others were in the way of."""
    chance = random.Random("once more")
    with httpx.Client(base_url=load.url, timeout=60, trust_env=False) as client:
        ingest(load, client, chance)
        load.stored, left = load.stored[-1:], load.stored[:-1]
        erase(load, client, chance)
        load.stored = left
        for _ in range(4):
            query(load, client, chance)
        for word in load.erased[:50]:
            load.ask(client, "/v1/wiki/query", {"mode": "search", "input": {"text": word}, "options": _EVERYWHERE})


def words_in_files(folder: Path, words: Sequence[str]) -> set[str]:
    """Return in which files below a folder which words are found."""
    found = set()
    for file in folder.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        found |= {f"{file.relative_to(folder)} holds {word}" for word in words if word.encode() in data}
    return found


def words_in_space(folder: Path, words: Sequence[str]) -> set[str]:
    """Return which words the records of the space hold, decoded."""
    with treering.open(_space(folder), background=False) as space:
        rows = "\n".join(str(record.row) for record in space.engine.ledger.records())
    return {f"the records hold {word}" for word in words if word in rows}

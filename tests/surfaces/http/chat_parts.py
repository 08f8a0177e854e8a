"""A scripted upstream: a real HTTP server that speaks OpenAI's API, says what it is told to, and keeps what it got."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import sleep
from typing import Any

import httpx
from openai import OpenAI
from rest_parts import running

from treering.extensions.discussions.chat.endpoint import MemorySettings, ServedChats
from treering.extensions.discussions.chat.upstream import UpstreamPlace
from treering.extensions.discussions.generators.generator import MakingPlan

_STREAM = re.compile(rb'"stream": ?true')
KEY = "sk-of-the-operator"


@dataclass(frozen=True)
class Asked:
    """A request as it reached the upstream."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        return json.loads(self.body)["messages"]

    @property
    def text(self) -> str:
        """All that the model was told."""
        return "\n".join(str(message.get("content")) for message in self.messages)


@dataclass(frozen=True)
class Answer:
    """What the upstream answers. Parts are sent one by one; one that is `None` breaks the connection."""

    parts: Iterable[bytes | None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


SILENCE = Answer(())
"""No answer, until whoever asked has gone."""


class ScriptedUpstream:
    """What was asked, what is answered next, and whether somebody who asked has hung up."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.asked: list[Asked] = []
        self.left = Event()
        self._answers: SimpleQueue[Answer] = SimpleQueue()

    def will(self, *answers: Answer) -> None:
        """Return these answers next; after them, "Noted."."""
        for answer in answers:
            self._answers.put(answer)

    def was_asked(self, times: int) -> bool:
        """Wait until it was asked so often; for a minute at most."""
        for _ in range(6_000):
            if len(self.asked) >= times:
                return True
            sleep(0.01)
        return False

    def next(self) -> Answer:
        try:
            return self._answers.get_nowait()
        except Empty:
            return said("Noted.", stream=_STREAM.search(self.asked[-1].body) is not None)


@contextmanager
def scripted() -> Iterator[ScriptedUpstream]:
    """Run a scripted upstream."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.script = ScriptedUpstream(server)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.script
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def chatting(folder: Any, upstream: ScriptedUpstream, **changes: Any) -> Iterator[httpx.Client]:
    """Serve a folder in front of an upstream; return a client of the server. Memory has time, unless said otherwise."""
    place = UpstreamPlace(upstream.url, KEY, **changes.pop("place", {}))
    memory = MemorySettings(**{"wait_seconds": 30, **changes.pop("memory", {})})
    making = changes.pop("making", MakingPlan())
    with running(folder, chats=ServedChats(place, memory, making), **changes) as client:
        yield client


@contextmanager
def openai(client: httpx.Client, **options: Any) -> Iterator[OpenAI]:
    """Return the official client, of which only the base URL is changed."""
    given = {"api_key": "sk-of-the-client", "max_retries": 0, **options}
    with OpenAI(base_url=f"{client.base_url}/v1", **given) as official:
        yield official


def said(text: str | None, *, stream: bool = False, **changes: Any) -> Answer:
    """Return an answer of a model."""
    return streamed(text or "") if stream else Answer([completion(text, **changes)])


def without_end(word: str) -> Answer:
    """Return an answer that goes on until whoever listens has gone."""
    return Answer(_again_and_again(word), headers={"Content-Type": "text/event-stream"})


def _again_and_again(word: str) -> Iterator[bytes]:
    while True:
        yield event({"content": word})
        sleep(0.01)


def completion(text: str | None, *, finish: str = "stop", **message: Any) -> bytes:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return json.dumps({**_frame("chat.completion"), "choices": [choice]}).encode()


def streamed(*words: str, end: bool = True) -> Answer:
    """Return an answer of a model, told word by word."""
    return Answer(events(*words, end=end), headers={"Content-Type": "text/event-stream; charset=utf-8"})


def events(*words: str, end: bool = True) -> list[bytes]:
    told = [event({"content": word}) for word in words]
    return [*told, event({}, finish="stop"), b"data: [DONE]\n\n"] if end else told


def event(delta: Mapping[str, Any], *, finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({**_frame("chat.completion.chunk"), "choices": [choice]}).encode() + b"\n\n"


def chat(*contents: str, model: str = "m", **fields: Any) -> dict[str, Any]:
    """Return a request in which user and assistant take turns, the user first."""
    return {"model": model, "messages": turns(*contents), **fields}


def turns(*contents: str) -> Sequence[Any]:
    return [{"role": ("user", "assistant")[at % 2], "content": content} for at, content in enumerate(contents)]


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Be silent."""

    def _answer(self) -> None:
        script: ScriptedUpstream = self.server.script  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.casefold(): value for name, value in self.headers.items()}
        left = script.left
        script.asked.append(Asked(self.command, self.path, headers, body))
        answer = script.next()
        try:
            if answer is SILENCE:
                self.connection.recv(1)  # nothing more is sent, so this is the end of the connection
                raise ConnectionError
            self._send(answer)
        except OSError:
            self.close_connection = True
            left.set()

    def _send(self, answer: Answer) -> None:
        started = False
        for part in answer.parts:
            if part is None:
                self._break_off()
                return
            if not started:
                self._start(answer)
                started = True
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if not started:
            self._start(answer)
        self.wfile.write(b"0\r\n\r\n")

    def _start(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _break_off(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)

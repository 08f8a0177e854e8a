"""Attacks on a server: sessions of another key over MCP, headers that only a proxy may send, erasures under load."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

from attacks import erasing_under_load
from attacks.attack import Attack, Count
from treering.extensions.server.serving import Transport, proxies_of

_TESTS = Path(__file__).parents[2] / "tests"
sys.path.extend(str(_TESTS / folder) for folder in (".", "surfaces/http"))
parts: Any = import_module("key_parts")
"""The server with keys of the tests."""

SECRET = "heliotrope"
_ACCEPT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
_STARTING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}
_NOTE = {"items": [{"text": f"The lamp is {SECRET}.", "origin": "note:lamp"}]}
_SEARCH = {"mode": "search", "input": {"text": "lamp"}, "options": {"descend": True}}


def _mcp(server: Any, key: str, method: str, params: Mapping[str, Any], **headers: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return server.ask(key, "POST", "/mcp", json=body, headers={**_ACCEPT, **headers})  # type: ignore[no-any-return]


def _called(server: Any, key: str, tool: str, arguments: Mapping[str, Any], **headers: str) -> httpx.Response:
    return _mcp(server, key, "tools/call", {"name": tool, "arguments": arguments}, **headers)


def _sessions_of_another_key(folder: Path) -> Count:
    """Ask with a weak key in what may be a session of a strong one, and by every other way to name a session."""
    with parts.guarded(folder) as server:
        boss, weak = server.key("admin"), server.key("read", scope="/team")
        begun = _mcp(server, boss, "initialize", _STARTING)
        _called(server, boss, "wiki.ingest", {"mode": "source", "input": _NOTE})
        session = begun.headers.get("mcp-session-id", "1")
        reached = tried = 0
        for headers in _sessions(session):
            for key in (weak, ""):
                told = [_called(server, key, "wiki.query", _SEARCH, **headers)]
                told += [_called(server, key, "wiki.query", {**_SEARCH, "scope": "/"}, **headers)]
                told += [
                    server.ask(key, method, "/mcp", headers={**_ACCEPT, **headers}) for method in ("GET", "DELETE")
                ]
                _called(server, key, "wiki.crystallize", _writing("by the weak key"), **headers)
                tried, reached = tried + 1, reached + any(SECRET in one.text for one in told)
        # The session of the strong key goes on, and nothing was written by the weak one.
        after = (
            _called(server, boss, "wiki.query", _SEARCH).text + _called(server, boss, "wiki.query", _asked("weak")).text
        )
        reached += SECRET not in after or "by the weak key" in after
    return Count(tried, reached)


def _sessions(session: str) -> Iterator[dict[str, str]]:
    for known in (session, session.upper(), "", "0", "*", f"{session}, {session}"):
        yield {"Mcp-Session-Id": known}
        yield {"Mcp-Session-Id": known, "Last-Event-ID": f"{known}_0"}


def _writing(title: str) -> dict[str, Any]:
    return {"mode": "work_item", "scope": "/", "input": {"title": title}}


def _asked(text: str) -> dict[str, Any]:
    return {"mode": "search", "input": {"text": text}}


def _keys_in_odd_places(folder: Path) -> Count:
    """Send a strong key where none is looked for, beside a weak one or none; count requests that get its rights."""
    with parts.guarded(folder) as server:
        boss, weak = server.key("admin"), server.key("read", scope="/team")
        _called(server, boss, "wiki.ingest", {"mode": "source", "input": _NOTE})
        reached = tried = 0
        for mine in (weak, ""):
            own = {"Authorization": f"Bearer {mine}"} if mine else {}
            for more in (
                {"Authorization": f"Basic {boss}"},
                {"Authorization": f"Digest {boss}"},
                {"Proxy-Authorization": f"Bearer {boss}"},
                {"X-Forwarded-Authorization": f"Bearer {boss}"},
                {"Cookie": f"key={boss}; Treering-Key={boss}"},
            ):
                path = f"/mcp?key={boss}&access_token={boss}"
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
                asked = {**body, "params": {"name": "wiki.query", "arguments": {**_SEARCH, "_meta": {"key": boss}}}}
                told = server.client.post(path, json=asked, headers={**_ACCEPT, **more, **own})
                tried, reached = tried + 1, reached + (SECRET in told.text)
    return Count(tried, reached)


_SPOOFED: Sequence[Mapping[str, str]] = (
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": "10.0.0.5"},
    {"X-Forwarded-For": "10.0.0.5, 127.0.0.1", "X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "127.0.0.1", "X-Forwarded-Proto": "https"},
    {"Forwarded": "for=127.0.0.1;proto=https;host=localhost"},
    {"X-Real-IP": "127.0.0.1", "X-Forwarded-Ssl": "on", "Front-End-Https": "on"},
    {"X-Original-URL": "/health", "X-Rewrite-URL": "/health"},
    {"X-HTTP-Method-Override": "GET", "X-Method-Override": "GET"},
    {"X-Treering-Key": "trk_%_%"},
    {"X-Forwarded-User": "admin", "Remote-User": "admin", "X-Remote-User": "admin"},
)


def _spoofed_proxy(folder: Path) -> Count:
    """Say as a stranger what only a proxy may say; count requests that are let in, or taken for TLS, by it."""
    reached = tried = 0
    for number, named in enumerate(((), ("10.0.0.0/24",), ("::1",), ("127.0.0.1",))):
        with parts.guarded(folder / str(number), transport=Transport(proxies=proxies_of(named))) as server:
            key = server.key("write")
            for headers in _SPOOFED:
                told = server.client.post("/v1/wiki/query", json=_SEARCH, headers=headers)
                tried, reached = tried + 1, reached + (told.status_code != 401)
                reached += _taken_for_tls(server, key, headers) and "127.0.0.1" not in named
    return Count(tried, reached)


def _taken_for_tls(server: Any, key: str, headers: Mapping[str, str]) -> bool:
    """Tell whether a form is answered with the cookie of a connection by TLS, or a page of another scheme is let in."""
    form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    told = server.client.post("/sign-in", content=f"key={key}", headers=form, follow_redirects=False)
    server.client.cookies.clear()
    page = {**headers, "Origin": f"https://{server.client.base_url.netloc.decode()}"}
    let_in = server.client.post("/v1/wiki/query", json=_SEARCH, headers={**page, "Authorization": f"Bearer {key}"})
    return "__Host-" in told.headers.get("set-cookie", "") or let_in.status_code != 403


def _without_keys_behind_a_proxy(folder: Path) -> Count:
    """Ask a server without keys as somebody whom a proxy on this machine lets through under another name."""
    running = import_module("rest_parts").running
    names = ("memory.example.org", "10.0.0.5", "[::ffff:10.0.0.5]", "127.0.0.1.example.org", "localhost.example.org")
    names += ("0x7f.1", "2130706433", "127.0.0.1@example.org", "example.org#127.0.0.1", "")
    with running(folder) as client:
        reached = 0
        for name in names:
            told = client.post("/v1/wiki/query", content=json.dumps(_SEARCH), headers=_as_host(name))
            reached += told.status_code not in {400, 403}
    return Count(len(names), reached)


def _as_host(name: str) -> dict[str, str]:
    return {"Host": name, "Content-Type": "application/json", "X-Forwarded-Host": "127.0.0.1", "X-Forwarded-For": "::1"}


def _erased_under_load(folder: Path) -> Count:
    """Erase what others ingest and say, while they go on; count erased words in answers, files and records."""
    with import_module("chat_parts").scripted() as upstream, erasing_under_load.served(folder, upstream.url) as url:
        load = erasing_under_load.Load(url, folder)
        erasing_under_load.run_clients(load)
        erasing_under_load.ask_once_more(load)
        found = erasing_under_load.words_in_files(folder, load.erased)
    found |= {f"{one}, after the end" for one in erasing_under_load.words_in_files(folder, load.erased)}
    found |= erasing_under_load.words_in_space(folder, load.erased) | load.found
    if not load.erased:
        raise RuntimeError("nothing was erased")
    return Count(len(load.erased), len(found), f"{load.requests} requests; {'; '.join(sorted(found)[:3])}".rstrip("; "))


ATTACKS: Sequence[Attack] = (
    Attack("an MCP session of another key is gone on with", _sessions_of_another_key),
    Attack("a key counts where none is looked for", _keys_in_odd_places),
    Attack("a stranger says what only a proxy may say", _spoofed_proxy),
    Attack("a proxy in front of a server without keys", _without_keys_behind_a_proxy),
    Attack("erased content is found under load", _erased_under_load),
)

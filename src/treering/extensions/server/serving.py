"""Run the server until it is stopped: its socket, its connections, and its end."""

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from treering.core.errors import InvalidInput, NotFound, Unavailable
from treering.extensions.server.app import Serving, build_app
from treering.extensions.server.callers import Bounds
from treering.extensions.server.keys import is_live, may_open
from treering.extensions.server.request_guard import is_loopback
from treering.extensions.server.request_log import LogFormat, log_requests
from treering.extensions.server.workers import Stop
from treering.spaces.wiring import open_access_keys
from treering.surfaces.python.logs import log_warnings
from treering.system.address import Address
from treering.system.machine import SystemClock, share_heap

_GRACE_SECONDS = 10
_WAITING = 128  # connections the system holds until they are taken
_FIRST_INHERITED = 3  # the file descriptor, by the protocol of systemd

Tell = Callable[[str], None]
_MAKE_A_KEY = "Make one with `treering key create NAME --right write`, or leave --host at 127.0.0.1."


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a TLS certificate in PEM: the certificate with its chain, and its private key."""

    cert: Path
    key: Path

    @classmethod
    def of(cls, cert: Path | None, key: Path | None) -> "Certificate | None":
        """Return the certificate of two files; `None` if neither is given.

        Raises `InvalidInput` if one is missing, or if they are not a certificate and its key.
        """
        if cert is None and key is None:
            return None
        if cert is None or key is None:
            raise InvalidInput("TLS needs a certificate and its key.", hint="Give both --tls-cert and --tls-key.")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise InvalidInput(
                f"{cert} and {key} are not a certificate and its key: {error}.",
                hint="Give PEM files that this user can read, with an unencrypted key.",
            ) from error
        return cls(cert, key)


@dataclass(frozen=True, slots=True)
class Transport:
    """How requests reach a server."""

    certificate: Certificate | None = None
    """The certificate for TLS; `None`: plain HTTP."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies in front of the server. Only their statements about clients are trusted."""


def proxies_of(named: Sequence[str]) -> tuple[str, ...]:
    """Read addresses and networks of proxies. Raises `InvalidInput` if one is invalid or contains all addresses."""
    networks = []
    for text in named:
        try:
            network = ipaddress.ip_network(text.strip())
        except ValueError as error:
            raise InvalidInput(
                f"--behind-proxy {text!r} is not an address or network.", hint="Write 10.0.0.5 or 10.0.0.0/24."
            ) from error
        if not network.prefixlen:
            raise InvalidInput(
                f"--behind-proxy {text!r} trusts everyone.", hint="Give the address of the proxy or its network."
            )
        networks.append(str(network))
    return tuple(networks)


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def serve_until_stopped(
    serving: Serving,
    *,
    host: str,
    port: int,
    tell: Tell,
    transport: Transport | None = None,
    log_format: LogFormat | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `tell` is called once with the address, as soon as requests are answered.

    A listening socket of a supervisor has precedence over `host` and `port`. Port 0 is any free one. Raises
    `InvalidInput` for another host than this machine without keys, `Unavailable` for a taken port. `log_format`: how
    requests are logged; `None`: warnings alone are, as text.
    """
    share_heap()
    if log_format:
        log_requests(log_format)
    else:
        log_warnings()
    transport = transport or Transport()
    inherited = _inherited()
    _check_keys(serving, inherited.getsockname()[0] if inherited else host, transport)
    with inherited or listen(host, port) as listener:
        Server(serving, tell, transport).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises as `serve_until_stopped` does."""
    family, place = _place(host, port)
    # asyncio disables Nagle's algorithm, which delays small answers by 40 ms, only for sockets marked as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let two programs share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_WAITING)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"Cannot listen on port {port} of {host}: {error.strerror or error}.",
            hint="Choose another with --port (0 picks a free one), or an address of this machine with --host.",
        ) from error
    return listener


def _inherited() -> socket.socket | None:
    """Return the listening socket from a supervisor (`sd_listen_fds`), if there is one.

    Connections wait in it while one server process is replaced by the next.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    return socket.socket(fileno=_FIRST_INHERITED)


def has_keys(space: Address, place: Address, counts: Callable[[str, Address, Address], bool] = may_open) -> bool:
    """Return whether a place stores keys of a space that are not revoked.

    Expired ones count: a server that required them must not become open when they expire. So does a key that may be for
    this space at another address; `counts=keys.opens` excludes it.
    """
    try:
        keys = open_access_keys(place, create=False)
    except NotFound:
        return False
    with closing(keys):
        return any(counts(key.space, space, place) and key.revoked is None for key in keys.all())


def _check_keys(serving: Serving, host: str, transport: Transport) -> None:
    """Raise `InvalidInput` if other machines could call without a key, or if no key would open anything."""
    if serving.keys is None:
        if not is_loopback(host) or transport.proxies:
            where = "behind a proxy" if transport.proxies else f"on {host!r}"
            raise InvalidInput(f"Serving {where} accepts other machines and needs keys.", hint=_MAKE_A_KEY)
        return
    try:
        keys = open_access_keys(serving.keys, create=False)
    except NotFound as error:
        raise InvalidInput(f"{error.message} Serving needs a key.", hint=_MAKE_A_KEY) from error
    now = SystemClock().now()
    with closing(keys):
        if not any(is_live(key, now=now) for key in keys.all()):
            raise InvalidInput(
                f"None of the access keys at {serving.keys} is valid: they have expired or been revoked.",
                hint=_MAKE_A_KEY,
            )


class Server(uvicorn.Server):
    """Reports its address when it is ready, and treats a signal as a request to stop."""

    def __init__(self, serving: Serving, tell: Tell, transport: Transport | None = None) -> None:
        self._stop = Stop(finishing_seconds=serving.bounds.stop_seconds)
        self._tell = tell
        transport = transport or Transport()
        certificate = transport.certificate
        self._scheme = "https" if certificate else "http"
        config = uvicorn.Config(
            build_app(serving, stop=self._stop),
            http=protocol_within(serving.bounds),
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            ssl_certfile=certificate.cert if certificate else None,
            ssl_keyfile=certificate.key if certificate else None,
            # Headers about the client are ignored unless they come from one of our proxies.
            proxy_headers=bool(transport.proxies),
            forwarded_allow_ips=list(transport.proxies),
            server_header=False,
            timeout_graceful_shutdown=ceil(serving.bounds.stop_seconds) + _GRACE_SECONDS,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then tell the address."""
        await super().startup(sockets)
        for listener in sockets or ():
            self._tell(f"{self._scheme}://{_place_of(listener)}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as the library calls it
        """Stop after answering current requests; at once if Ctrl-C is pressed again."""
        self.force_exit: bool = self.should_exit and sig == signal.SIGINT
        self.stop()
        if self.force_exit:
            self._stop.end_now()

    def stop(self) -> None:
        """Stop: refuse new requests, and end running ones at their next check after their time to finish."""
        self._stop.begin()
        self.should_exit = True


def _place(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    # What `localhost` should mean is known without asking the hosts file.
    name = "127.0.0.1" if host.casefold() == "localhost" else host
    try:
        family, _, _, _, place = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(
            f"--host {host!r} is not an address of this machine.", hint="Use 0.0.0.0 for all addresses."
        ) from error
    return family, (str(place[0]), port)


def _place_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def protocol_within(bounds: Bounds) -> type[asyncio.Protocol]:
    """Create the protocol of a server: HTTP/1.1 with limits."""
    open_ones: dict[BoundedProtocol, None] = {}  # in the order in which they began to wait

    class Bounded(BoundedProtocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.bounds, self.open_ones = bounds, open_ones

    return Bounded


class BoundedProtocol(H11Protocol):
    """A connection that is closed if the head of a request takes too long."""

    bounds: Bounds
    open_ones: "dict[BoundedProtocol, None]"
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, close the one that has waited longest for its request."""
        super().connection_made(transport)
        if len(self.open_ones) >= self.bounds.most_connections:
            oldest = next((one for one in self.open_ones if one.incomplete), self)
            oldest.close()
            if oldest is self:
                return
        self.open_ones[self] = None
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.open_ones.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes. The time limit of a head starts with its first byte."""
        super().data_received(data)
        if not self._has_head:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self in self.open_ones and not self.transport.is_closing():
            self.open_ones[self] = self.open_ones.pop(self)  # to the end: it waits only from now on

    @property
    def incomplete(self) -> bool:
        """Whether a request, or the rest of one, is waited for."""
        return not self._has_head or bool(self.cycle.more_body)

    def close(self) -> None:
        """Close the connection without an answer."""
        self.open_ones.pop(self, None)
        self.transport.abort()

    @property
    def _has_head(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.bounds.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._has_head:
            self.close()

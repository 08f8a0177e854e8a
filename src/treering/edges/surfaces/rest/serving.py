"""Running the server until it is told to stop: for this machine, or with keys for others."""

import logging
import os
import signal
import socket
from collections.abc import Callable
from math import ceil
from types import FrameType

import uvicorn

from treering.core.errors import InvalidInput, NotFound, Unavailable
from treering.edges.access_keys import is_live
from treering.edges.clock import SystemClock
from treering.edges.surfaces.logs import LogFormat, log_requests, log_warnings
from treering.edges.surfaces.rest.app import Serving, build_app
from treering.edges.surfaces.rest.connections import protocol_within
from treering.edges.surfaces.rest.request_guard import is_loopback
from treering.edges.surfaces.rest.served import Stop
from treering.edges.surfaces.rest.transport import Transport
from treering.edges.wiring import open_access_keys

_GRACE_SECONDS = 10
_WAITING = 128  # connections the system holds until they are taken

Tell = Callable[[str], None]


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

    Port 0 is any free one. Raises `InvalidInput` for another host than this machine without keys, `Unavailable` for a
    taken port. `log_format`: how requests are logged; `None`: warnings alone are, as text.
    """
    if log_format:
        log_requests(log_format)
    else:
        log_warnings()
    transport = transport or Transport()
    _check_keys(serving, host, transport)
    with listen(host, port) as listener:
        Server(serving, tell, transport).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Take a port. Raises as `serve_until_stopped` does."""
    family, place = _place(host, port)
    # Only a socket that says it is TCP is told by asyncio not to hold back small answers, for 40 ms each.
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
            hint="Name another with --port; 0 takes any that is free. --host names an address of this machine.",
        ) from error
    return listener


def _check_keys(serving: Serving, host: str, transport: Transport) -> None:
    """Raise `InvalidInput` where other machines could ask without a key, or no key would open anything."""
    if serving.keys is None:
        if not is_loopback(host) or transport.proxies:
            where = "behind a proxy" if transport.proxies else f"on {host!r}"
            raise InvalidInput(f"Serving {where} lets other machines ask, and needs keys.", hint=_MAKE_A_KEY)
        return
    try:
        keys = open_access_keys(serving.keys, create=False)
    except NotFound as error:
        raise InvalidInput(f"{error.message} Serving needs one.", hint=_MAKE_A_KEY) from error
    now = SystemClock().now()
    try:
        if not any(is_live(key, now=now) for key in keys.all()):
            raise InvalidInput(
                f"None of the access keys at {serving.keys} opens anything: they expired or are revoked.",
                hint=_MAKE_A_KEY,
            )
    finally:
        keys.close()


_MAKE_A_KEY = "Make one with `treering key create NAME --right write`, or leave --host at 127.0.0.1."


class Server(uvicorn.Server):
    """Tells its address when it answers, and takes a signal as a wish to stop, not as a death to die afterwards."""

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
            # Who is not a proxy of ours says of itself what it likes: it is not listened to.
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
        """Stop, letting what is asked be answered; at once where somebody presses Ctrl-C again."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.stop()
        if self.force_exit:
            self._stop.say_now()

    def stop(self) -> None:
        """Stop: refuse new requests, give those that run their time to finish, then end them at their next look."""
        self._stop.say()
        self.should_exit = True


def _place(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    # What `localhost` should mean is known without asking the hosts file.
    name = "127.0.0.1" if host.casefold() == "localhost" else host
    try:
        family, _, _, _, place = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(
            f"--host {host!r} is not an address of this machine.", hint="0.0.0.0 is all of them."
        ) from error
    return family, (str(place[0]), port)


def _place_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""What one server takes on at once, and how long it waits and works."""

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.surfaces.http.callers import Caller

MAX_BODY_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Numbers and times that keep clients from taking a server for themselves."""

    max_body_bytes: int = MAX_BODY_BYTES
    worked_on_at_once: int = 8
    """Requests that have a thread; the others wait."""
    most_at_once: int = 64
    """Requests that are let in once their body is there; the others are told to try again."""
    most_of_a_key: int = 16
    """Requests of one key that are let in at once; its others are told to try again."""
    requests_per_minute: int = 1_200
    """Requests of one key in a minute; its others are told when to try again."""
    requests_per_minute_without_key: int | None = None
    """Requests in a minute of all who ask without a key, on a server without keys; `None`: any number."""
    max_upload_bytes: int = 200_000_000
    """Bytes of a file that is sent; of a key that says how large its bodies may be, no more than that."""
    uploads_at_once: int = 4
    """Files that are being sent or read."""
    uploads_of_a_key: int = 2
    """Files of one key that are being sent or read."""
    jobs_at_once: int = 2
    """Jobs that are worked on, in threads of their own; the others wait."""
    most_jobs: int = 32
    """Jobs that run or wait; for one more the client is told to try again. Of one key, as many as it may have
    answered at once."""
    most_connections: int = 256
    """Connections that are open. For one more, the one that has waited longest for its request is closed."""
    read_seconds: float = 30.0
    """How long a call that only reads may take: `query`, and retrieving of a project."""
    work_seconds: float = 3_600.0
    """How long any other call may take."""
    stop_seconds: float = 10.0
    """How long calls may go on that run when the server is told to stop."""
    header_seconds: float = 10.0
    """How long a connection may take for the head of a request."""
    body_seconds: float = 10.0
    """How long a body may take, beside what its bytes take at `body_rate`."""
    body_rate: int = 100_000
    """Bytes of a body a second, at least."""

    def for_caller(self, caller: Caller) -> "CallerBounds":
        """Return the numbers that count for one caller: those of its key, else those of every key."""
        limits = caller.limits
        of_all = self.requests_per_minute if caller.has_key else self.requests_per_minute_without_key
        return CallerBounds(
            requests_per_minute=of_all if limits.requests_per_minute is None else limits.requests_per_minute,
            at_once=self.most_of_a_key if limits.at_once is None else limits.at_once,
            max_body_bytes=min(self.max_body_bytes, limits.max_body_bytes or self.max_body_bytes),
            max_upload_bytes=min(self.max_upload_bytes, limits.max_body_bytes or self.max_upload_bytes),
        )

    @property
    def most_waiting_bytes(self) -> int:
        """How many bytes of bodies that are not complete yet are kept in memory."""
        return 8 * self.max_body_bytes


@dataclass(frozen=True, slots=True)
class CallerBounds:
    """How much one caller may ask."""

    requests_per_minute: int | None
    """`None`: any number."""
    at_once: int
    max_body_bytes: int
    max_upload_bytes: int


# How a server is reached: where it listens, with which certificate, and behind which proxies.


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a TLS certificate, in PEM: the certificate with those that sign it, and its private key."""

    cert: Path
    key: Path

    @classmethod
    def of(cls, cert: Path | None, key: Path | None) -> "Certificate | None":
        """Return the certificate of two files; none where neither is named.

        Raises `InvalidInput` where one is missing, or where they are no certificate and its key.
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
                hint="Name PEM files that this user can read; the key without a password.",
            ) from error
        return cls(cert, key)


@dataclass(frozen=True, slots=True)
class Transport:
    """How requests reach a server."""

    certificate: Certificate | None = None
    """What TLS is spoken with; none: plain HTTP."""
    proxies: tuple[str, ...] = ()
    """The proxies in front of the server, by address or network: these alone say where a request came from."""


def proxies_of(named: Sequence[str]) -> tuple[str, ...]:
    """Read addresses and networks of proxies. Raises `InvalidInput` for what is neither, or is everybody."""
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
                f"--behind-proxy {text!r} trusts everybody.", hint="Name the address of the proxy, or its network."
            )
        networks.append(str(network))
    return tuple(networks)


def _no_password() -> str:
    raise ValueError("the key is encrypted")

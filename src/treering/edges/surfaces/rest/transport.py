"""How a server is reached: where it listens, with which certificate, and behind which proxies."""

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treering.core.errors import InvalidInput


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
    """Read addresses and networks of proxies. Raises `InvalidInput` for what is none, and for one of everybody."""
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

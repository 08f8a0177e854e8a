"""Which addresses may be fetched from: those of the public internet, and no others."""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host and port. Raises `OSError` where there are none."""

_WRAPPING = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("2002::/16"))
"""Addresses that carry one of IPv4 in them (NAT64, RFC 6052 and 8215; 6to4, RFC 3056), which may be any."""
_INNER = tuple(
    ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "fec0::/10", "3fff::/20")
)
"""Addresses that some versions of Python take for public: services of clouds, relays, old local ones, examples."""


def is_public(address: str) -> bool:
    """Tell whether an address is of the public internet; not one of this machine, its network or its provider."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found.teredo is not None or any(found in network for network in _WRAPPING):
            return False
    if any(found in network for network in _INNER):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))

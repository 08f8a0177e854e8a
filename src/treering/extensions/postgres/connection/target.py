"""The parts of a Postgres address: how to connect, and the space in the database."""

import re
from dataclasses import dataclass, replace

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from treering.core.errors import InvalidInput, nearest
from treering.system.address import SPACE, Address

POOL, REPLICA, LATEST = "pool", "replica", "replica_lag"
_DIRECTORY = "directory"
_SERVER_OF_EACH_SPACE = (
    "SELECT p.name, s.address FROM treering.placements p JOIN treering.servers s ON s.name = p.server"
)
CONNECTIONS = 8
"""The default limit of connections of a process to a database."""
_MOST_CONNECTIONS = 100
REPLICA_SECONDS = 5.0
"""The default maximal age of an answer of a replica."""
_LIBPQ = frozenset(
    {
        *("host", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "channel_binding"),
        *("require_auth", "passfile", "service", "connect_timeout", "application_name", "target_session_attrs"),
        *("gssencmode", "krbsrvname", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)
_HOST = re.compile(r"(?P<folder>/[^,@]*)|(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_SPACE = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_DEFAULTS = {"connect_timeout": "5", "application_name": "treering"}


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A space in a database. `conninfo` may contain a password; it is for the driver, and never shown.

    `shown`: the address without its password. `replica`: how to connect to a replica, which answers reads that may be
    `replica_seconds` old; empty if there is none.
    """

    conninfo: str
    space: str
    shown: str
    connections: int = CONNECTIONS
    replica: str = ""
    replica_seconds: float = REPLICA_SECONDS


def target_of(address: Address) -> Target:
    """Parse an address `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE?space=NAME`.

    Other options: `pool`, the maximal number of connections of a process; `replica`, hosts of replicas; `replica_lag`,
    the maximal age of their answers in seconds; and options of libpq for hosts, encryption and passwords. Raises
    `InvalidInput` without the password.
    """
    options = dict(address.options)
    space = options.pop(SPACE, "")
    if not _SPACE.fullmatch(space):
        raise InvalidInput(
            f"The address {address} does not name a space of the database."
            if not space
            else f"{space[:_SHOWN]!r} is not a valid space name.",
            hint="Add ?space=NAME, such as ?space=team/acme: 1 to 200 characters, no control characters.",
        )
    return _target(address, options, space)


def database_of(address: Address) -> Target:
    """Parse the address of a database without a space. Raises `InvalidInput` as `target_of`."""
    options = dict(address.options)
    if SPACE in options:
        raise InvalidInput(f"{address} names a space, but a database is needed.", hint="Omit ?space=.")
    return _target(address, options, "")


def _target(address: Address, options: dict[str, str], space: str) -> Target:
    connections = _connections(options.pop(POOL, str(CONNECTIONS)))
    replica, seconds = options.pop(REPLICA, ""), _seconds(options.pop(LATEST, str(REPLICA_SECONDS)))
    if options.pop(_DIRECTORY, "off") != "off":
        raise InvalidInput(
            f"{address} names a directory of servers, which Treering no longer has.",
            hint=f"Open the space at its own server, without {_DIRECTORY}=. To see which one that is, run in the "
            f"database of the directory: {_SERVER_OF_EACH_SPACE}",
        )
    for name in options.keys() - _LIBPQ:
        known = sorted({SPACE, POOL, REPLICA, LATEST, *_LIBPQ})
        raise InvalidInput(f"Unknown option {name!r} for a space on Postgres.", hint=nearest(name, known))
    conninfo = _conninfo(address, options)
    copy = _at_hosts(conninfo, replica) if replica else ""
    return Target(conninfo, space, str(address), connections, copy, seconds)


def _seconds(given: str) -> float:
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", given):
        return float(given)
    raise InvalidInput(
        f"{LATEST}={given[:_SHOWN]!r} is not a number of seconds.",
        hint="Give a number, such as 5: the maximum lag of a replica.",
    )


def _at_hosts(conninfo: str, hosts: str) -> str:
    """Return how to connect to the same database at any of other hosts."""
    read = [_HOST.fullmatch(host) for host in hosts.split(",")]
    own = str(conninfo_to_dict(conninfo).get("port", "")).partition(",")[0]
    places = [(one["folder"] or one["host"].strip("[]"), one["port"] or own) for one in read if one]
    if len(places) < len(read):
        raise InvalidInput(
            f"{REPLICA}={hosts[:_SHOWN]!r} is not a valid host.",
            hint="Give HOST or HOST:PORT, several separated by commas; user, password and database are taken "
            "from the address.",
        )
    return make_conninfo(
        conninfo,
        host=",".join(host for host, _ in places),
        port=",".join(port for _, port in places),
        target_session_attrs="any",
    )


def _connections(given: str) -> int:
    if given.isascii() and given.isdigit() and 2 <= int(given) <= _MOST_CONNECTIONS:
        return int(given)
    raise InvalidInput(
        f"pool={given[:_SHOWN]!r} is not a number of connections.",
        hint=f"Give a number from 2 to {_MOST_CONNECTIONS}: one connection is for writing.",
    )


def _conninfo(address: Address, options: dict[str, str]) -> str:
    try:
        return make_conninfo(replace(address, options=()).url, **{**_DEFAULTS, **options})
    except psycopg.ProgrammingError:
        pass  # the driver's message would contain the address with its password
    raise InvalidInput(
        f"{address} is not a database address.",
        hint="Use postgresql://USER@HOST/DATABASE?space=NAME; put passwords in ~/.pgpass or PGPASSWORD.",
    )


_SHOWN = 100  # characters of an unknown option in a message

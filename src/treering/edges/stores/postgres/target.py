"""What an address of a space on Postgres says: how to connect, and which space of the database."""

import re
from dataclasses import dataclass, replace

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from treering.core.errors import InvalidInput, nearest
from treering.edges.address import SPACE, Address

POOL, DIRECTORY = "pool", "directory"
CONNECTIONS = 8
"""Connections that one process keeps to a database at most, unless the address says otherwise."""
_MOST_CONNECTIONS = 100
_LIBPQ = frozenset(
    {
        *("host", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "channel_binding"),
        *("require_auth", "passfile", "service", "connect_timeout", "application_name", "target_session_attrs"),
        *("gssencmode", "krbsrvname", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)
_SPACE = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_ON = ("on", "off")
_OWN = frozenset({"host", "hostaddr", "port", "dbname", "service", "target_session_attrs"})
"""What an address says of its own server alone."""
_DEFAULTS = {"connect_timeout": "5", "application_name": "treering"}


@dataclass(frozen=True, slots=True, repr=False)
class Target:
    """A space of a database. `conninfo` may hold a password: it is for the driver, and is never shown.

    `shown`: the address without its password, for errors. With `directory` the database is a directory of servers,
    which says where the space is.
    """

    conninfo: str
    space: str
    shown: str
    connections: int = CONNECTIONS
    directory: bool = False


def target_of(address: Address) -> Target:
    """Read an address `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE?space=NAME`.

    Other options: `pool`, how many connections a process keeps at most, `directory=on` where the database is a
    directory of servers, and those of libpq about hosts, encryption and passwords. Raises `InvalidInput` naming what
    is wrong, and no password.
    """
    options = dict(address.options)
    space = options.pop(SPACE, "")
    if not _SPACE.fullmatch(space):
        raise InvalidInput(
            f"The address {address} names no space of the database."
            if not space
            else f"{space[:_SHOWN]!r} is no name of a space.",
            hint="Add ?space=NAME, such as ?space=team/acme: 1 to 200 characters, no control characters.",
        )
    return _target(address, options, space)


def database_of(address: Address) -> Target:
    """Read the address of a database, which names no space. Raises `InvalidInput` as `target_of`."""
    options = dict(address.options)
    if SPACE in options:
        raise InvalidInput(f"{address} names a space, and a database is wanted.", hint="Leave ?space= out.")
    return _target(address, options, "")


def on_server(directory: Target, server: Address, name: str, space: str) -> Target:
    """Return a space on a server of a directory.

    The user, the password, the size of the pool and the options for connecting are those of the directory's address
    where the server's has none of its own.
    """
    theirs = conninfo_to_dict(directory.conninfo)
    own = _OWN | ({"password"} if server.user not in ("", theirs.get("user")) else set())
    inherited = {key: value for key, value in theirs.items() if key not in own}
    given = {**({"user": server.user} if server.user else {}), **dict(server.options)}
    conninfo = make_conninfo(database_of(server).conninfo, **{**inherited, **given})
    shown = f"{replace(server, options=(*server.options, (SPACE, space)))} (server {name!r})"
    return Target(conninfo, space, shown, directory.connections)


def space_in(directory: Target, space: str) -> Target:
    """Return a space of a directory."""
    return replace(directory, space=space, directory=True)


def _target(address: Address, options: dict[str, str], space: str) -> Target:
    connections = _connections(options.pop(POOL, str(CONNECTIONS)))
    directory = options.pop(DIRECTORY, _ON[-1])
    if directory not in _ON:
        raise InvalidInput(
            f"directory={directory[:_SHOWN]!r} says neither on nor off.",
            hint="Write directory=on where the database is a directory of servers, else leave it out.",
        )
    for name in options.keys() - _LIBPQ:
        raise InvalidInput(
            f"A space on Postgres has no option {name!r}.",
            hint=nearest(name, sorted({SPACE, POOL, DIRECTORY, *_LIBPQ})),
        )
    return Target(_conninfo(address, options), space, str(address), connections, directory == _ON[0])


def _connections(given: str) -> int:
    if given.isascii() and given.isdigit() and 2 <= int(given) <= _MOST_CONNECTIONS:
        return int(given)
    raise InvalidInput(
        f"pool={given[:_SHOWN]!r} is no number of connections.",
        hint=f"Give a number from 2 to {_MOST_CONNECTIONS}: one connection is for writing.",
    )


def _conninfo(address: Address, options: dict[str, str]) -> str:
    try:
        return make_conninfo(replace(address, options=()).url, **{**_DEFAULTS, **options})
    except psycopg.ProgrammingError:
        pass  # the driver's words would quote the address with its password
    raise InvalidInput(
        f"{address} is no address of a database.",
        hint="Write postgresql://USER@HOST/DATABASE?space=NAME; passwords may stand in ~/.pgpass or PGPASSWORD.",
    )


_SHOWN = 100  # characters of an option that is refused

"""Addresses of spaces: parse what users write, and print it without the password.

    sqlite:PATH      a file; a bare PATH without a colon, and one with a Windows drive, mean the same
    :memory:         a space that is lost when it is closed
    NAME             the file NAME.db in the folder of named spaces
    SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,…][/PATH][?OPTION=VALUE&…]      a space behind a server

Only `Address.url` and `Address.password` contain the password: no `str`, `repr` or error does. A printed address is
itself an address of the same space, without the password.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from urllib.parse import parse_qsl, quote, unquote, urlencode

from treering.core.arguments import check_type
from treering.core.errors import InvalidInput

FILES = "sqlite"
"""The scheme of spaces in files, and the meaning of a bare path."""

SPACE = "space"
"""The option that names one of the spaces of a server."""

MEMORY = ":memory:"
_MEMORY_WORDS = {MEMORY, "memory:"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/?#,\s]*)(?::[0-9]{1,5})?")
_SECRET = re.compile(r"pass|pwd|secret|token|credential|api_?key|access_?key", re.IGNORECASE)
_HINT = f"Use {FILES}:PATH, a path without a colon, the name of a space, or {MEMORY}."
_SHOWN = 100  # characters of a text that should have been a scheme


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """The location of a space.

    `place`: the path of a file, or the host, port and path of a URL. `user` and `password` are plain, not
    percent-encoded. `options` keep their order.
    """

    scheme: str
    place: str
    user: str = ""
    password: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_file(self) -> bool:
        """Return whether `place` is the path of a file, or `MEMORY`."""
        return self.scheme == FILES

    @property
    def in_memory(self) -> bool:
        """Return whether the space is lost when it is closed."""
        return self.is_file and self.place == MEMORY

    @property
    def file(self) -> Path | None:
        """The file of the space; `None` if it is in memory or on a server."""
        return Path(self.place) if self.is_file and not self.in_memory else None

    @property
    def url(self) -> str:
        """The whole address, with its password: for stores, and for the environment of a process of our own."""
        return _written(self)

    def __str__(self) -> str:
        """Write the address without its password, and without options that are secret by their name."""
        shown = tuple(option for option in self.options if not _SECRET.search(option[0]))
        return _written(replace(self, password="", options=shown))

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


def shown_address(address: Address) -> str:
    """Return an address as people type it: a file from the working folder, if it is below that."""
    file = address.file
    if file is None:
        return str(address)
    with suppress(ValueError):
        return str(file.resolve().relative_to(Path.cwd()))
    return str(file)


def file_address(path: Path | str) -> Address:
    """Return the address of a space that is a file."""
    return Address(FILES, str(path))


def parse_address(text: str, *, named: Path) -> Address:
    """Read an address as people write it. `named`: the folder of named spaces.

    Raises `InvalidInput` for any other text, without repeating the part after a scheme, which may contain a password.
    Does not check whether a store for the scheme exists.
    """
    check_type(text, str, name="The address", expected="text", hint=_HINT)
    if text in _MEMORY_WORDS:
        return file_address(MEMORY)
    if _NAME.fullmatch(text):
        return file_address(named / f"{text}.db")
    scheme, colon, rest = text.partition(":")
    if text and (not colon or PureWindowsPath(text).drive):
        return file_address(text)
    if not _SCHEME.fullmatch(scheme):
        raise InvalidInput(f"Unknown kind of space {scheme[:_SHOWN]!r}.", hint=_HINT)
    return _with_scheme(scheme.lower(), rest)


def _with_scheme(scheme: str, rest: str) -> Address:
    if scheme == FILES:
        if not rest:
            raise InvalidInput(f"The address '{scheme}:' has no path.", hint=_HINT)
        return file_address(rest)
    if rest.removeprefix("//") in {"", "/"}:
        raise InvalidInput(f"The address '{scheme}:' has no host.", hint=f"Write {scheme}://HOST/PATH.")
    return _server(scheme, rest.removeprefix("//"))


def _server(scheme: str, rest: str) -> Address:
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest[len(authority) :]
    secret, _, hosts = authority.rpartition("@")
    # A "/" or "@" that belongs to a password would make the rest of it a path, which is printed.
    if set(behind) & {"@", "#"} or not all(_HOST.fullmatch(host) for host in hosts.split(",")):
        raise InvalidInput(
            f"'{scheme}:' must be followed by a host, a path and options.",
            hint="In a user name, password or option, percent-encode @ : / ? # %: %40 %3A %2F %3F %23 %25. "
            "The host may be followed by a port number.",
        )
    path, _, options = behind.partition("?")
    user, _, password = (_decoded(scheme, part) for part in secret.partition(":"))
    _decoded(scheme, options)
    return Address(scheme, f"{hosts}{path}", user, password, tuple(parse_qsl(options, keep_blank_values=True)))


def _decoded(scheme: str, text: str) -> str:
    try:
        text.encode()
        return unquote(text, errors="strict")
    except UnicodeError:
        pass  # the reason would repeat the text
    raise InvalidInput(
        f"The part after '{scheme}:' is not valid percent-encoded UTF-8.", hint="Correct its percent-encoding."
    )


def _written(address: Address) -> str:
    """Write all of an address."""
    if address.in_memory:
        return MEMORY
    if address.is_file:
        return f"{address.scheme}:{address.place}"
    password = f":{quote(address.password, safe='')}" if address.password else ""
    user = f"{quote(address.user, safe='')}{password}@" if address.user or password else ""
    options = f"?{urlencode(address.options)}" if address.options else ""
    return f"{address.scheme}://{user}{address.place}{options}"

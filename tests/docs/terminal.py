"""Running the commands that documentation shows, in a terminal, and comparing what they print."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sample_repository import GIT

PORT = "8420"
"""The port documentation speaks of; in a test it is one that is free."""

_BACKGROUND = " &"
_GRACE_SECONDS = 60

_ID = r"(?:src|node|know|act|work|ctx|patch|aud|job):[0-9a-z]{26}|seg_[0-9a-z]{13}"
_VARIES = re.compile(
    rf"(?P<id>{_ID})|(?P<time>\d{{4}}-\d\d-\d\dT[\d:.]+Z)|(?P<hash>\b[0-9a-f]{{12,40}}\b)|(?P<rest> ?… ?)"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A shell in a folder, whose `treering` is the one under test.

    Ids differ from run to run. Those that documentation shows are remembered with what they turned out to be, so
    that its later commands can name them. A command that ends in `&` runs until the terminal is closed. `more`:
    variables of its environment.
    """

    def __init__(self, folder: Path, place: Path, more: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._real: dict[str, str] = {}
        self._port = _free_port()
        self._behind: list[tuple[subprocess.Popen[bytes], int]] = []
        self._environment = {**os.environ, **environment(place), **(more or {})}
        self._environment["PATH"] = f"{_command(place)}{os.pathsep}{self._environment['PATH']}"
        self._environment.pop("TREERING_SPACE", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, screen in self._behind:
            process.terminate()
            process.wait(_GRACE_SECONDS)
            os.close(screen)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command as documentation has it; return its exit code and what it prints.

        Of one that ends in `&` the first line, as soon as it is there, and 0 while it runs.
        """
        real = self.real(command)
        if real.endswith(_BACKGROUND):
            return self._begin(real.removesuffix(_BACKGROUND))
        process, screen = self._start(real)
        with process, os.fdopen(screen, "rb", buffering=0):
            printed = _read(screen)
        return process.returncode, _plain(printed)

    def real(self, text: str) -> str:
        """Put what ids and the port turned out to be in the place of those shown."""
        named = re.sub(_ID, lambda found: self._real.get(found[0], found[0]), text)
        return self._with_port(named)

    def agrees(self, shown: str, printed: str) -> bool:
        """Tell whether a command printed what is shown: `…` stands for anything, ids, times and hashes vary."""
        groups: dict[str, str] = {}
        found = re.fullmatch(_pattern(self._with_port(shown), groups, known=self._real), _in_one_line(printed))
        if found:
            self._real |= {identity: found[group] for identity, group in groups.items()}
        return found is not None

    def _with_port(self, text: str) -> str:
        return re.sub(rf"\b{PORT}\b", self._port, text)

    def _begin(self, command: str) -> tuple[int, str]:
        process, screen = self._start(f"exec {command}")
        self._behind.append((process, screen))
        printed = _read(screen, until=b"\n")
        return process.poll() or 0, _plain(printed)

    def _start(self, command: str) -> tuple[subprocess.Popen[bytes], int]:
        """Start a command; return it and our end of the terminal it writes to."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=theirs,  # some commands are for a person at a terminal
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        return process, ours


def same(shown: str, printed: str) -> bool:
    """Tell whether a text was printed as shown: `…` stands for anything, ids, times and hashes vary."""
    return re.fullmatch(_pattern(shown, {}, known={}), _in_one_line(printed)) is not None


def environment(place: Path) -> dict[str, str]:
    """Return what documentation is run with: nothing of whoever runs the tests, and no work in the background."""
    return {
        **GIT,
        "NO_PROXY": "127.0.0.1",
        "TERM": "dumb",
        "TREERING_ACTOR": "ada",
        "TREERING_BACKGROUND": "0",
        "TREERING_DATA_DIR": str(place / "data"),
    }


def _command(place: Path) -> Path:
    """Make the folder that holds the command `treering`."""
    folder = place / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "treering"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m treering "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def _read(screen: int, *, until: bytes = b"") -> str:
    """Read what is printed, to its end or until something stands in it."""
    printed = b""
    with suppress(OSError):  # how Linux says that nobody holds the other end any more
        while part := os.read(screen, 65_536):
            printed += part
            if until and until in printed:
                break
    return printed.decode()


def _plain(printed: str) -> str:
    text = _ESCAPES.sub("", printed).replace("\r", "")
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def _pattern(shown: str, groups: dict[str, str], *, known: Mapping[str, str]) -> str:
    parts, at, text = [], 0, _in_one_line(shown)
    for found in _VARIES.finditer(text):
        parts.append(re.escape(text[at : found.start()]))
        parts.append(_any_of(found, groups, known))
        at = found.end()
    return "".join([*parts, re.escape(text[at:])])


def _in_one_line(text: str) -> str:
    """Return a text with single spaces: where a terminal breaks its lines depends on how long a path is."""
    return " ".join(text.split())


def _any_of(found: re.Match[str], groups: dict[str, str], known: Mapping[str, str]) -> str:
    match found.lastgroup:
        case "id" if found[0] in known:
            return re.escape(known[found[0]])
        case "id" if found[0] in groups:
            return f"(?P={groups[found[0]]})"
        case "id":
            name = groups[found[0]] = f"id{len(groups)}"
            return f"(?P<{name}>{_ID})"
        case "time":
            return r"[\d:.TZ-]+"
        case "hash":
            return r"[0-9a-f]+"
        case _:
            return ".*?"

"""Running the commands that documentation shows, in a terminal, and comparing what they print."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sample_repository import GIT

_ID = r"(?:src|node|know|act|work|ctx|patch|aud|job):[0-9a-z]{26}|seg_[0-9a-z]{13}"
_VARIES = re.compile(
    rf"(?P<id>{_ID})|(?P<time>\d{{4}}-\d\d-\d\dT[\d:.]+Z)|(?P<hash>\b[0-9a-f]{{12,40}}\b)|(?P<rest> ?… ?)"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A shell in a folder, whose `treering` is the one under test.

    Ids differ from run to run. Those that documentation shows are remembered with what they turned out to be, so
    that its later commands can name them.
    """

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder = folder
        self._real: dict[str, str] = {}
        self._environment = {**os.environ, **environment(place)}
        self._environment["PATH"] = f"{_command(place)}{os.pathsep}{os.environ['PATH']}"
        self._environment.pop("TREERING_SPACE", None)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command as documentation has it; give its exit code and what it prints."""
        ours, theirs = os.openpty()
        with subprocess.Popen(
            ["sh", "-c", self.real(command)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            printed = _read_all(ours)
        return process.returncode, _plain(printed)

    def real(self, text: str) -> str:
        """Put what ids turned out to be in the place of those shown."""
        return re.sub(_ID, lambda found: self._real.get(found[0], found[0]), text)

    def agrees(self, shown: str, printed: str) -> bool:
        """Tell whether a command printed what is shown: `…` stands for anything, ids, times and hashes vary."""
        groups: dict[str, str] = {}
        found = re.fullmatch(_pattern(shown, groups, known=self._real), _in_one_line(printed))
        if found:
            self._real |= {identity: found[group] for identity, group in groups.items()}
        return found is not None


def same(shown: str, printed: str) -> bool:
    """Tell whether a text was printed as shown: `…` stands for anything, ids, times and hashes vary."""
    return re.fullmatch(_pattern(shown, {}, known={}), _in_one_line(printed)) is not None


def environment(place: Path) -> dict[str, str]:
    """Give what documentation is run with: nothing of whoever runs the tests, and no work in the background."""
    return {
        **GIT,
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


def _read_all(terminal: int) -> str:
    printed = b""
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        while True:
            try:
                part = screen.read(65_536)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
            if not part:
                break
            printed += part
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
    """Give a text with single spaces: where a terminal breaks its lines depends on how long a path is."""
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

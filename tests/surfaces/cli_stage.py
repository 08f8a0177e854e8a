"""The command line in a folder of its own, run in this process: exit code, stdout and stderr of each call."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from treering.surfaces.cli import run

README = """\
# Acme

Acme retries three times.

## Decision

We decided to keep a space in one SQLite file, because there is nothing to operate then.
"""


@dataclass(frozen=True)
class Told:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Stage:
    """A working folder and the command `treering` in it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def run(self, *arguments: str, stdin: str | bytes = "") -> Told:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        self.capsys.readouterr()
        code = run(arguments)
        out, err = self.capsys.readouterr()
        return Told(code, out, err)

    def done(self, *arguments: str, stdin: str | bytes = "") -> Told:
        told = self.run(*arguments, stdin=stdin)
        assert told.code == 0, told
        return told

    def json(self, *arguments: str, stdin: str | bytes = "") -> Any:
        return self.done(*arguments, "--json", stdin=stdin).data

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(self, files: Mapping[str, str | bytes]) -> None:
        self.write(files)
        if not (self.folder / ".git").exists():
            self._git("init", "-q", "--template=")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "change")

    def _git(self, *arguments: str) -> None:
        who = {
            f"GIT_{role}_{part}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
        }
        aside = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        subprocess.run(["git", *arguments], cwd=self.folder, env={**who, **aside}, check=True)

"""A folder in which the command `treering` is run, and what it is given there."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import treering
from treering.surfaces.cli import run
from treering.testing.fakes import HashingEmbedder

LAMP = (
    "We launch the Heron lamp on 12 May 2026.",
    "The price of the Heron lamp is 49 euros.",
    "Carla moves from Lisbon to Turin in June.",
    "Her new flat in Turin has a garden.",
    "The warehouse in Ghent is full.",
)
"""What makes one chunk."""
AFTER = ("And then?", "Then we rent another one.", "Fine.")
"""The newest messages, which wait."""


@dataclass(frozen=True)
class Told:
    """What a command answered."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Desk:
    """A working folder and the command `treering` in it, run in this process."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, stdin: str = "") -> Told:
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        self.capsys.readouterr()
        try:
            code = run(arguments)
        finally:
            sys.stdin = before
        out, err = self.capsys.readouterr()
        return Told(code, out, err)

    def done(self, *arguments: str, stdin: str = "") -> str:
        told = self.run(*arguments, stdin=stdin)
        assert told.code == 0, told
        return told.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self.done(*arguments, "--json"))

    def write(self, **files: object) -> None:
        """Write files: `chat_json` is `chat.json`; what is not text is written as JSON."""
        for name, content in files.items():
            path = self.folder / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    def say(self, *texts: str) -> str:
        """Return the name of a file of messages of one person."""
        return self.say_all([{"role": "user", "name": "Ada", "content": text} for text in texts])

    def say_all(self, messages: list[dict[str, str]]) -> str:
        self.write(chat_json=messages)
        return "chat.json"

    def space(self) -> treering.Space:
        return treering.open(
            f"sqlite:{self.folder / '.treering' / 'treering.db'}", background=False, embedder=HashingEmbedder()
        )


@pytest.fixture
def desk(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {"TREERING_ACTOR": "ada", "TREERING_BACKGROUND": "0", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    return Desk(tmp_path, capsys)

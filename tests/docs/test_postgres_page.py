"""The how-to about Postgres, followed in a shell with a server of its own."""

import re
import shutil
from pathlib import Path

import pytest
from blocks import blocks_of
from sample_repository import make_repository
from terminal import Terminal

import postgres_server

PAGE = Path(__file__).parents[2] / "docs/howto/keep-a-ledger-on-postgres.md"
MAX_WORDS = 700
_ADDRESS = re.compile(r"postgresql://(\w+)@db\.example\.org/(\w+)\?")


@pytest.fixture
def server():
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)


def test_the_commands_of_the_page_print_what_it_shows(server, tmp_path):
    if not shutil.which("psql", path=server.environment()["PATH"]):
        pytest.skip("the server comes without psql")
    make_repository(tmp_path / "acme-web")
    exports = printed = ""
    with Terminal(tmp_path / "acme-web", tmp_path, server.environment()) as terminal:
        for block in blocks_of(PAGE):
            if block.language == "text":
                assert terminal.agrees(block.text, printed), f"{PAGE.name}:{block.line} prints\n{printed}"
                continue
            assert block.language == "sh", block.text
            lines = _ADDRESS.sub(rf"postgresql://\1@/\2?host={server.folder}&", block.text).splitlines()
            exports += "".join(f"{line}; " for line in lines if line.startswith("export "))
            commands = "; ".join(line for line in lines if not line.startswith(("export ", "pip ")))
            code, printed = terminal.run(commands if commands.endswith(" &") else f"set -e; {exports}{commands}")
            assert code == 0, f"{PAGE.name}:{block.line} ends with {code}:\n{printed}"


def test_the_page_is_short():
    assert len(PAGE.read_text(encoding="utf-8").split()) <= MAX_WORDS

"""The page about several servers, followed on databases of one server that stand for them."""

import re
from pathlib import Path

import psycopg
import pytest
from blocks import blocks_of
from terminal import same

import postgres_server
from treering.surfaces import cli

PAGE = Path(__file__).parents[2] / "docs/howto/share-spaces-between-servers.md"
_ADDRESS = re.compile(r"postgresql://(?:acme@)?(db\d)\.example\.org/\w+\??")
_EXPORT = re.compile(r"export TREERING_SPACE='(.*)'")


@pytest.fixture
def databases():
    """By the name of a server on the page, the address of a database that stands for it."""
    try:
        server = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
        for name in ("db0", "db1", "db2"):
            connection.execute(f"CREATE DATABASE {name} OWNER {postgres_server.OWNER}")
    yield {name: server.url(name) for name in ("db0", "db1", "db2")}
    postgres_server.remove(server)


def real(line, databases):
    """Put the tests' addresses in the place of the page's."""
    return _ADDRESS.sub(lambda found: databases[found[1]] + ("&" if found[0].endswith("?") else ""), line)


def test_the_commands_of_the_page_print_what_it_shows(databases, monkeypatch, capsys):
    printed = ""
    shown = 0
    for block in blocks_of(PAGE):
        if block.language == "sh":
            printed = ""
            for line in block.text.splitlines():
                if named := _EXPORT.fullmatch(line):
                    monkeypatch.setenv("TREERING_SPACE", real(named[1], databases))
                    continue
                assert cli.run(real(line, databases).split()[1:]) == 0, line
                printed += "".join(f"{part.strip()}\n" for part in capsys.readouterr().out.splitlines())
        elif block.language == "text":
            assert same(block.text, printed), f"{PAGE.name}:{block.line} prints\n{printed}"
            shown += 1
    assert shown == 4

"""What the compose file of the reference prepares in a new server is enough for Treering, and no more."""

import re
from pathlib import Path

import psycopg
import yaml

import treering
from postgres_server import PostgresServer

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "postgres.md"


def compose_file():
    return yaml.safe_load(
        re.search(r"^```yaml compose.yaml\n(.*?)^```$", _PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    )


def test_the_role_that_the_compose_file_makes_opens_spaces_and_is_held_by_row_level_security(
    server: PostgresServer,
):
    script = re.sub(r"\$\{ACME_PASSWORD:\?[^}]*\}", "secret", compose_file()["configs"]["roles"]["content"])
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
        for statement in script.split(";")[:-1]:
            connection.execute(statement)
    address = server.url("team", "acme", space="notes")
    with treering.open(address, channel="user", background=False) as space:
        space.ingest("source", input={"items": [{"kind": "note", "origin": "bees", "text": "Bees hum."}]})
        assert [hit.origin for hit in space.query("search", input={"text": "bees"}).hits] == ["bees"]
    with psycopg.connect(server.url("team", "acme")) as connection:
        assert connection.execute("SELECT count(*) FROM treering.objects").fetchone() == (0,)


def test_the_compose_file_opens_the_database_to_this_machine_only():
    assert compose_file()["services"]["db"]["ports"] == ["127.0.0.1:5432:5432"]

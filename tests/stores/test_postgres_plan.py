"""What `treering postgres plan` prints: read as it was approved, and run on a real server."""

import os
import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from postgres_spaces import new_space
from psycopg import errors

import postgres_server
import treering
from treering.core.errors import Unavailable
from treering.extensions.postgres.connection.schema import PARTITIONS, TABLES
from treering.extensions.server.keys import holder_of, make_key, space_name
from treering.spaces.wiring import open_access_keys
from treering.system.address import parse_address
from treering.system.machine import SystemClock
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.verbs.query.space_status import STATUS

GOLDEN = Path(__file__).with_name("golden")
PLANS = {
    "roles": ("--writer", "app", "--reader", "report"),
    "disks": ("--tablespace", "fast", "--tablespace", "wide"),
    "citus": ("--citus", "--writer", "app"),
}


def printed(*arguments):
    command = [sys.executable, "-m", "treering", "postgres", "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_reads_as_it_was_approved(name):
    told = printed(*PLANS[name])
    path = GOLDEN / f"plan-{name}.sql"
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(told.stdout, encoding="utf-8")
    assert told.stdout == path.read_text(encoding="utf-8"), "If this is meant, run the tests with REWRITE_GOLDEN=1."


def test_names_that_are_none_and_plans_that_exclude_each_other_are_refused():
    for arguments in (("--writer", "a'; DROP"), ("--citus", "--tablespace", "fast")):
        told = printed(*arguments)
        assert (told.returncode, told.stdout) == (2, "")
    assert 'TO "My ""Role""";' in printed("--writer", 'My "Role"').stdout


def test_the_printed_rights_name_all_tables():
    told = printed("--writer", "app").stdout
    assert all(f"treering.{table}" in told for table in ("space_names", "migrations", *TABLES))


@pytest.fixture
def server():
    """A server of its own: roles and tablespaces are there for all databases of one."""
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)


@pytest.fixture
def space(server):
    """The name of a space with one object, and a builder."""
    name, make = new_space(), Builder(SteppingClock())
    with closing(treering.open_ledger(server.url(space=name))) as ledger:
        ledger.commit(make.patch(make.node("One")))
    return name, make


def run_plan(server, *arguments):
    with psycopg.connect(server.url("tests"), autocommit=True) as connection:
        connection.execute(printed(*arguments).stdout)


def test_a_role_with_the_printed_rights_writes_and_one_that_reads_cannot(server, space):
    name, make = space
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        for role in ("app", "report"):
            connection.execute(f"CREATE ROLE {role} LOGIN")
    run_plan(server, *PLANS["roles"])
    with closing(treering.open_ledger(server.url(user="app", space=name))) as ledger:
        ledger.commit(make.patch(make.node("Two")))
        assert ledger.verify().seq == 2
    address = parse_address(server.url(space=name), named=server.folder)
    shown, key = make_key("ci", space=space_name(address, address), clock=SystemClock())
    with closing(open_access_keys(address, create=True)) as keys:
        keys.add(key)
    with closing(open_access_keys(replace(address, user="app"), create=False)) as keys:
        assert holder_of(shown, keys, clock=SystemClock()) == key
        with pytest.raises(Unavailable, match="permission") as refused:
            keys.revoke(key.id, at=SystemClock().now())
    assert "treering postgres plan --writer" in refused.value.hint
    kept = protection(server, name, "app")
    assert (kept.protected, kept.why_not) == (True, "")
    run_plan(server, *PLANS["roles"])
    with psycopg.connect(server.url("tests", "report"), autocommit=True) as reading:
        reading.execute("SET treering.space_name = ''")
        assert reading.execute("SELECT count(*) FROM treering.objects").fetchone() == (0,)
        with pytest.raises(errors.InsufficientPrivilege):
            reading.execute("DELETE FROM treering.objects")
        for number in range(PARTITIONS):  # by its own name, too, a partition shows nothing of a space that is not named
            assert reading.execute(f"SELECT count(*) FROM treering.objects_{number}").fetchone() == (0,)
            with pytest.raises(errors.InsufficientPrivilege):
                reading.execute(f"DELETE FROM treering.objects_{number}")


EXEMPT = {
    "boss": ("CREATE ROLE boss LOGIN SUPERUSER", "is a superuser"),
    "passes": ("CREATE ROLE passes LOGIN BYPASSRLS", "has BYPASSRLS"),
    "becomes": ("CREATE ROLE becomes LOGIN; GRANT passes TO becomes", "is a member of a superuser"),
    "owns": ("CREATE ROLE owns LOGIN; GRANT treering_owner TO owns", "owns tables of Treering, or is a member"),
    "treering_owner": ("SELECT 1", "owns tables of Treering"),
}
"""Roles that row-level security does not hold: how each is made, and what is said of it."""


def protection(server, name, user):
    address = server.url(user=user, space=name)
    with treering.open(address, background=False, embedder=HashingEmbedder()) as space:
        return space.perform(STATUS).protection


def shown(server, name, user):
    command = [sys.executable, "-m", "treering", "status", "--space", server.url(user=user, space=name)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return " ".join(told.stdout.split())


@pytest.mark.nightly
def test_no_space_is_called_protected_from_a_role_that_row_level_security_does_not_hold(server, space):
    name, _ = space
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        for role, (made, _) in EXEMPT.items():
            connection.execute(made)
            if role not in ("treering_owner", "boss"):
                connection.execute(f"GRANT ALL ON SCHEMA treering TO {role}")
                connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA treering TO {role}")
        connection.execute("CREATE ROLE app LOGIN; CREATE ROLE report LOGIN")
    for role, (_, why) in EXEMPT.items():
        kept = protection(server, name, role)
        assert (kept.role, kept.protected) == (role, False)
        assert why in kept.why_not
        for option in ("--writer", "--reader"):
            with pytest.raises(errors.RaiseException, match=f"'{role}' {why}.*not protected"):
                run_plan(server, option, role)
    run_plan(server, *PLANS["roles"])
    kept = protection(server, name, "app")
    assert (kept.role, kept.protected, kept.why_not) == ("app", True, "")
    assert " protected: the database shows the role 'app'" in shown(server, name, "app")
    assert "not protected: the role 'boss' is a superuser" in shown(server, name, "boss")


@pytest.mark.nightly
def test_missing_row_level_security_is_reported(server, space):
    name, _ = space
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN; CREATE ROLE report LOGIN")
    run_plan(server, *PLANS["roles"])
    with psycopg.connect(server.url("tests"), autocommit=True) as owner:
        owner.execute("ALTER TABLE treering.objects DISABLE ROW LEVEL SECURITY")
    kept = protection(server, name, "app")
    assert (kept.protected, kept.why_not) == (False, "may read a table whose row-level security was disabled")
    with pytest.raises(errors.RaiseException, match="disabled"):
        run_plan(server, *PLANS["roles"])


@pytest.mark.nightly
def test_the_partitions_are_on_the_disks_that_were_named_and_the_space_goes_on(server, space):
    name, make = space
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        for place in ("fast", "wide"):
            connection.execute(f"CREATE TABLESPACE {place} LOCATION ''")
            connection.execute(f"GRANT CREATE ON TABLESPACE {place} TO treering_owner")
    run_plan(server, *PLANS["disks"])
    with psycopg.connect(server.url("tests")) as connection:
        sql = (
            "SELECT c.relname, c.relkind, t.spcname FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace "
            "WHERE c.relnamespace = 'treering'::regnamespace"
        )
        found = connection.execute(sql).fetchall()
    tables = {relation: place for relation, kind, place in found if kind == "r"}
    assert {tables["objects_0"], tables["audit_2"]} == {"fast"}
    assert {tables["objects_1"], tables["audit_7"]} == {"wide"}
    parts = {int(re.search(r"_(\d)", relation)[1]) % 2: place for relation, kind, place in found if kind == "i"}
    assert parts == {0: "fast", 1: "wide"}
    with closing(treering.open_ledger(server.url(space=name))) as ledger:
        ledger.commit(make.patch(make.node("Three")))
        ledger.verify()

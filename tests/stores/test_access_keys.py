"""What keeps access keys: the same of a file and of a database."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Thread

import apsw
import psycopg
import pytest

from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.extensions.server.keys import holder_of, make_key, opens, space_name
from treering.extensions.server.serving import has_keys
from treering.ports.stores import KeyLimits
from treering.spaces.wiring import open_access_keys
from treering.system.address import file_address, parse_address
from treering.system.machine import SystemClock
from treering.testing.fakes import SteppingClock

LATER = {1: ("per_minute", "at_once", "max_body", "read_up_to"), 2: ("read_up_to",)}
"""Columns that came after a version."""
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture(params=["file", "database"])
def address(request, tmp_path):
    if request.param == "file":
        return file_address(tmp_path / "keys.db")
    server, database = request.getfixturevalue("server"), request.getfixturevalue("database")
    return parse_address(server.url(database, space="acme"), named=tmp_path)


@pytest.fixture
def keys(address):
    with closing(open_access_keys(address, create=True)) as keys:
        yield keys


def made(name="ci", **options):
    return make_key(name, space="sqlite:/a.db", clock=SystemClock(), **options)[1]


def test_stored_key_is_found(keys):
    key = replace(made(scope="/web/shop", read_up_to="/web", right="admin", channel="user"), expires=NOON)
    keys.add(key)
    assert keys.find(key.id) == key
    assert keys.find("0" * 16) is None
    assert keys.find("' OR 1=1 --") is None


def test_the_limits_of_a_key_are_kept(keys):
    plain, limited = made("plain"), made("limited", limits=KeyLimits(60, 2, 10_000_000_000))
    keys.add(plain)
    keys.add(limited)
    assert [key.limits for key in keys.all()] == [KeyLimits(), KeyLimits(60, 2, 10_000_000_000)]


@pytest.mark.parametrize("version", LATER)
def test_a_file_of_an_earlier_version_opens(tmp_path, version):
    address, old = file_address(tmp_path / "keys.db"), made("old")
    with closing(open_access_keys(address, create=True)) as keys:
        keys.add(old)
    with closing(apsw.Connection(str(tmp_path / "keys.db"))) as file:
        for column in LATER[version]:
            file.execute(f"ALTER TABLE access_keys DROP COLUMN {column}")
        file.execute(f"PRAGMA user_version = {version}")

    limited = made("limited", limits=KeyLimits(at_once=2))
    with closing(open_access_keys(address, create=False)) as keys:
        keys.add(limited)
        assert list(keys.all()) == [old, limited]


@pytest.mark.parametrize("version", LATER)
def test_a_table_of_an_earlier_version_is_read(version, server, database, tmp_path):
    old = made("old")
    address = parse_address(server.url(database, space="acme"), named=tmp_path)
    with closing(open_access_keys(address, create=True)) as keys:
        keys.add(old)
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        for column in LATER[version]:
            connection.execute(f"ALTER TABLE treering.access_keys DROP COLUMN {column}")

    with closing(open_access_keys(address, create=False)) as keys:
        assert keys.find(old.id) == old


def test_keys_survive_reopening(address):
    with closing(open_access_keys(address, create=True)) as keys:
        keys.add(made())
    with closing(open_access_keys(address, create=False)) as keys:
        assert [key.name for key in keys.all()] == ["ci"]


def test_a_name_is_taken_until_its_key_is_revoked(keys):
    first = made()
    keys.add(first)
    with pytest.raises(Conflict, match="'ci'"):
        keys.add(made())
    keys.revoke(first.id, at=NOON)
    keys.add(made())
    assert [key.revoked for key in keys.all()] == [NOON, None]


def test_a_key_that_is_revoked_twice_keeps_the_first_time(keys):
    key = made()
    keys.add(key)
    keys.revoke(key.id, at=NOON)
    keys.revoke(key.id, at=NOON + timedelta(days=1))
    assert keys.find(key.id).revoked == NOON


def test_concurrent_creation_of_a_key_creates_one(address):
    outcomes = []

    def make():
        with closing(open_access_keys(address, create=True)) as keys:
            try:
                keys.add(made())
                outcomes.append("made")
            except Conflict:
                outcomes.append("taken")

    threads = [Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made", "taken", "taken", "taken"]


def test_only_the_whole_key_opens(keys):
    shown, key = make_key("ci", space="sqlite:/a.db", clock=SystemClock())
    keys.add(key)
    clock = SystemClock()
    assert holder_of(shown, keys, clock=clock) == key
    for wrong in (
        shown[:-1],
        shown + "a",
        shown.upper(),
        f" {shown}",
        shown[:-1] + ("a" if shown[-1] != "a" else "b"),
        "",
    ):
        assert holder_of(wrong, keys, clock=clock) is None


def test_a_key_opens_until_the_moment_it_expires(keys):
    clock = SteppingClock()
    shown, key = make_key("ci", space="sqlite:/a.db", clock=clock, expires=clock.now() + timedelta(days=1))
    keys.add(key)

    class At:
        def __init__(self, time):
            self.time = time

        def now(self):
            return self.time

    assert holder_of(shown, keys, clock=At(key.expires - timedelta(seconds=1)))
    assert holder_of(shown, keys, clock=At(key.expires)) is None


def test_missing_keys_are_reported(tmp_path):
    with pytest.raises(NotFound, match="no access keys"):
        open_access_keys(file_address(tmp_path / "none.db"), create=False)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(InvalidInput, match="rack"):
        open_access_keys(parse_address("rack://x/y", named=tmp_path), create=True)


def test_a_space_is_called_the_same_by_all_who_may_connect_to_it(tmp_path):
    keys = file_address(tmp_path / "keys.db")
    called = {
        space_name(parse_address(f"postgresql://{user}db/team?space=acme{more}", named=tmp_path), keys)
        for user in ("", "app@", "ada:secret@")
        for more in ("", "&sslmode=require", "&pool=4")
    }
    assert called == {"postgresql://db/team?space=acme"}


@pytest.mark.parametrize("stored", ["space=acme", "postgresql://127.0.0.1:5432/team?space=acme"])
def test_a_key_opens_its_space_at_every_address_of_the_database(stored, tmp_path):
    for place in ("localhost/team", "ada@db:5432/restored", "/team?host=%2Ftmp"):
        text = f"postgresql://{place}{'&' if '?' in place else '?'}space"
        keys = parse_address(f"{text}=other", named=tmp_path)
        assert opens(stored, parse_address(f"{text}=acme", named=tmp_path), keys)
        assert not opens(stored, keys, keys)


def test_a_key_of_another_database_opens_only_that_database(tmp_path):
    own, other = (parse_address(f"postgresql://{host}/team?space=acme", named=tmp_path) for host in ("db", "other"))
    stored = space_name(other, own)
    assert opens(stored, other, own)
    assert not opens(stored, own, own)
    assert opens("postgresql://other/team?space=acme", other, own)  # as earlier versions stored it
    assert not opens(space_name(own, own), other, own)


def test_a_database_with_a_key_for_the_space_is_never_served_without_keys(server, database, tmp_path):
    space = parse_address(server.url(database, space="acme"), named=tmp_path)
    elsewhere = parse_address("postgresql://127.0.0.1:54391/team?space=acme", named=tmp_path)
    for place in (space, file_address(tmp_path / "keys.db")):
        with closing(open_access_keys(place, create=True)) as keys:
            keys.add(make_key("ci", space=str(elsewhere), clock=SystemClock())[1])
        assert has_keys(space, place)
        assert not has_keys(replace(space, options=(*space.options[:-1], ("space", "other"))), place)

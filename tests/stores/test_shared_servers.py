"""A small run of `benchmarks.shared_servers`: three servers, moves, one that is killed and one that is drained."""

import pytest
from benchmarks import shared_servers
from benchmarks.shared_servers import Size

import postgres_server


@pytest.fixture
def servers():
    """Three servers that are processes of their own."""
    started = {}
    try:
        for name in shared_servers.NAMES:
            started[name] = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    for server in started.values():
        postgres_server.remove(server)


@pytest.mark.parametrize(
    "size",
    [
        Size(spaces=4, moves=1, outage=0.2, writers=1),
        pytest.param(Size(spaces=6, moves=2, outage=1.0, writers=1), marks=pytest.mark.nightly),
    ],
    ids=["small", "larger"],
)
def test_nothing_acknowledged_is_lost_where_spaces_move_and_a_server_is_killed(servers, tmp_path, size):
    found = shared_servers.run(servers, tmp_path, size)
    assert (found.lost, found.out_of_place) == (0, 0)
    assert len(found.moved) == size.moves
    assert len(found.drained) >= 1
    assert sum(map(len, found.acknowledged.values())) > 0
    assert found.events >= size.spaces + sum(map(len, found.acknowledged.values()))

import pytest

from treering.core.errors import NotFound
from treering.core.policy import Policy
from treering.ports.stores import Needs
from treering.stores.sqlite.opening import open_stores
from treering.system.address import MEMORY, file_address
from treering.testing import Builder, SteppingClock


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def needs(clock):
    return Needs(clock=clock, policy=Policy(), model_id="hashing/64", dimension=64)


def test_commit_is_visible_in_index_and_leases(tmp_path, needs, clock):
    make = Builder(clock)
    stores = open_stores(file_address(tmp_path / "space.db"), needs)
    stores.ledger.commit(make.patch(make.source("The service listens on port 8080.")))
    assert stores.index.vectors.lag().pending == 1
    assert stores.leases.take("vectors", "somebody", seconds=60)
    assert not stores.jobs.recent(1, scope="/")
    assert not stores.read_only
    stores.close()


def test_a_copy_is_a_space_of_its_own(tmp_path, needs, clock):
    make = Builder(clock)
    stores = open_stores(file_address(MEMORY), needs)
    source = make.source("The service listens on port 8080.")
    stores.ledger.commit(make.patch(source))
    head = stores.back_up(tmp_path / "copy.db", replace=False, copied=lambda _done, _total: None)
    stores.close()
    copy = open_stores(file_address(tmp_path / "copy.db"), needs)
    assert copy.ledger.get(source.id).title == source.title
    assert copy.ledger.verify() == head
    copy.close()


def test_closing_twice_releases_every_file(tmp_path, needs):
    stores = open_stores(file_address(tmp_path / "space.db"), needs)
    stores.close()
    stores.close()
    assert [file.name for file in tmp_path.iterdir()] == ["space.db"]


def test_a_space_that_is_not_there_is_only_made_where_that_is_wanted(tmp_path, clock):
    needs = Needs(clock=clock, policy=Policy(), model_id="hashing/64", dimension=64, create=False)
    with pytest.raises(NotFound):
        open_stores(file_address(tmp_path / "space.db"), needs)
    assert list(tmp_path.iterdir()) == []


def test_stores_that_cannot_be_opened_leave_nothing_open(tmp_path, needs):
    path = tmp_path / "space.db"
    stores = open_stores(file_address(path), needs)
    stores.close()
    other = Needs(clock=needs.clock, policy=needs.policy, model_id="hashing/64", dimension=64, anchor=Failing())
    with pytest.raises(OSError, match="no anchor"):
        open_stores(file_address(path), other)
    assert [file.name for file in tmp_path.iterdir()] == ["space.db"]


class Failing:
    """An anchor on a medium that is gone."""

    def read(self):
        raise OSError("no anchor")

    def write(self, anchor):
        raise OSError("no anchor")

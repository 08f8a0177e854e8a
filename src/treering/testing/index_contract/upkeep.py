"""What keeps an index right: what remains of the erased, making it anew, comparing it with the ledger."""

from treering.testing.index_contract.histories import answers
from treering.testing.index_contract.stage import IndexedSpace, IndexStage, OpenIndex


class Upkeeping(IndexStage):
    """`Upkeep`."""

    def test_of_what_is_there_something_remains_and_of_what_was_erased_nothing(self, space: IndexedSpace) -> None:
        secret = space.make.source("Xyzzy Plugh met Ada Lovelace.", "More.", origin="1")
        other = space.make.source("Ada Lovelace met Charles Babbage.", origin="2")
        work = space.make.work("Look it up", source_refs=[secret.id])
        space.commit(secret, other, work)
        space.embed()
        space.reread(secret, "Nothing.")
        assert space.index.upkeep.remains([secret.id]) > 0
        space.erase(secret)
        assert space.index.upkeep.remains([secret.id]) == 0
        assert space.index.upkeep.remains([secret.id, other.id]) == space.index.upkeep.remains([other.id]) > 0

    def test_what_is_withdrawn_remains(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees hum.")
        space.commit(source)
        space.move(source, "archived")
        assert space.index.upkeep.remains([source.id]) > 0

    def test_a_rebuild_changes_no_answer_and_keeps_the_vectors(self, space: IndexedSpace) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        gone = space.make.source("Moths live in a wardrobe.", origin="gone")
        space.commit(source, gone)
        space.embed()
        space.reread(source, "Wasps live in a nest.", "Ants live in a hill.")
        space.erase(gone)
        before = answers(space)
        assert space.index.upkeep.rebuild() == 3
        assert answers(space) == before
        assert space.index.vectors.lag().pending == 1
        assert list(space.index.upkeep.differences()) == []

    def test_an_index_that_follows_its_ledger_does_not_differ_from_it(self, space: IndexedSpace) -> None:
        assert list(space.index.upkeep.differences()) == []
        source = space.make.source("Bees hum.", "Ants dig.")
        space.commit(source, space.make.fact("hive", "holds", "bees"))
        space.move(source, "archived")
        assert list(space.index.upkeep.differences()) == []

    def test_an_import_is_found_like_what_was_written_here(self, space: IndexedSpace, open_index: OpenIndex) -> None:
        source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
        space.commit(source)
        space.reread(source, "Ants live in a hill.")
        copy = IndexedSpace(open_index(), space.clock)
        copy.ledger.load(space.ledger.records())
        copy.catch_up()
        assert copy.find("ants") == copy.find("bees", at=1) == [source.id]
        assert answers(copy) == answers(space)

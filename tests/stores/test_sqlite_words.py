import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_stage import EMBEDDER, open_space, seen

from treering.core.patch import Erase
from treering.ports.search import TextRequest
from treering.stores.sqlite.index import word_tables
from treering.stores.sqlite.index.tables import create_tables
from treering.stores.sqlite.index.words import frequent_terms, lost_terms, purge_words, rank_words, totals
from treering.stores.sqlite.ready import ready_folder
from treering.stores.sqlite.sight import sight
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.stage import near

WORDS = "bees ants hum dig Über night_shift honeycomb 7 année".split()
TERMS = "bee ant hum dig uber night_shift honeycomb 7 anne absent".split()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


def full_text(*batches):
    """A table of full text, with a word of its own for each passage, and a segment for each batch of keys."""
    connection = apsw.Connection(":memory:")
    create_tables(connection)
    for keys in batches:
        with connection:
            rows = ((key, f"common {word_of(key)}") for key in keys)
            connection.executemany("INSERT INTO passage_words(rowid, body) VALUES(?, ?)", rows)
    return connection


def word_of(key):
    return chr(97 + key % 26) + f"zq{key * 7919 % 1_000_003}"


def blocks(connection):
    return dict(connection.execute("SELECT id, block FROM passage_words_data"))


def contains(connection, key):
    return any(word_of(key)[4:].encode() in block for block in blocks(connection).values())


def test_words_of_a_large_segment_are_purged():
    connection = full_text(range(1, 500))
    connection.execute("DELETE FROM passage_words WHERE rowid = 77")
    assert contains(connection, 77)
    purge_words(connection, [77])
    assert not contains(connection, 77)
    assert contains(connection, 78)
    assert lost_terms(connection) == {}


def test_words_of_segments_that_are_being_merged_are_purged():
    connection = full_text(range(1, 1_000), range(1_000, 2_000))
    connection.execute("INSERT INTO passage_words(passage_words, rank) VALUES('usermerge', 2), ('merge', 1)")
    connection.execute("DELETE FROM passage_words WHERE rowid = 77")
    lists = [key for key in blocks(connection) if key >= 1 << 53]
    assert len(lists) == 2, "a segment, and the beginning of the new one"
    purge_words(connection, [77])
    assert not contains(connection, 77)
    assert contains(connection, 78)
    assert lost_terms(connection) == {}


def test_purging_rewrites_only_small_segments_if_these_have_the_words():
    connection = full_text(*(range(start, start + 100) for start in range(0, 1_600, 100)), [2_000], [2_001])
    before = blocks(connection)
    connection.execute("DELETE FROM passage_words WHERE rowid = 2001")
    purge_words(connection, [2_001, 9_999])
    assert not contains(connection, 2_001)
    large = max(before, key=lambda key: len(before[key]))
    assert blocks(connection)[large] == before[large]


def test_purging_of_other_passages_rewrites_nothing():
    connection = full_text(range(1, 500))
    connection.execute("DELETE FROM passage_words WHERE rowid = 77")
    before = blocks(connection)
    purge_words(connection, [78, 7_777])
    assert blocks(connection) == before


def asked(space, *terms, limit=10):
    (found,) = space.index.text.search([TextRequest(seen(), limit, words=terms)])
    return list(found.words)


def by_fts5(space, *terms, limit=10):
    with space.database.read() as connection:
        return rank_words(connection, terms, sight(connection, seen()), limit)


def agrees(space, *terms, limit=10):
    ranked = asked(space, *terms, limit=limit)
    assert ranked == by_fts5(space, *terms, limit=limit)
    return ranked


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)
steps = st.one_of(
    st.tuples(st.just("add"), texts),
    st.tuples(st.just("add"), texts),
    st.tuples(st.just("change"), texts),
    st.tuples(st.just("archive"), st.just("")),
    st.tuples(st.just("erase"), st.just("")),
)
PHRASES = ["bee ant", "hum dig", "ant ant", "uber 7"]
questions = st.lists(st.sampled_from([*TERMS, *PHRASES]), min_size=1, max_size=6, unique=True)


def write(space, held, number, step, text):
    """Add a source, or change, archive or erase one that the space holds."""
    if step == "add" or not held:
        held.append(space.make.source(text or "bees", "dig honeycomb", origin=str(number), title=text[:9]))
        space.commit(held[-1])
    elif step == "change":
        space.reread(held[-1], text)
    elif step == "archive":
        space.move(held.pop(), "archived")
    else:
        space.erase(held.pop(0))


@given(st.lists(st.tuples(steps, questions), min_size=1, max_size=12), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_whatever_was_written_words_rank_to_the_scores_of_fts5(told, limit):
    space = open_space()
    held = []
    for n, ((step, text), terms) in enumerate(told):
        write(space, held, n, step, text)
        agrees(space, *terms, limit=limit)
    space.ledger.close()


@contextmanager
def saving_all_words():
    """Save the postings of all words, in spaces of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_tables, "MIN_SAVED_PASSAGES", 1)
        patch.setattr(word_tables, "SAVED_SHARE", 0)
        yield


def saved_words(path):
    return ready_folder(path) / "words.table"


moves = st.one_of(steps, st.tuples(st.just("add several"), texts), st.tuples(st.just("open"), st.just("")))


@given(st.lists(st.tuples(moves, questions, st.integers(0, 2)), min_size=1, max_size=12), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_processes_with_saved_words_rank_to_the_scores_of_fts5(told, limit):
    with saving_all_words(), TemporaryDirectory() as folder:
        clock, path, held = SteppingClock(), f"{folder}/space.db", []
        spaces = [open_space(path, clock=clock) for _ in range(3)]
        for n, ((step, text), terms, which) in enumerate(told):
            space = spaces[which]
            if step == "open":
                space.ledger.close()
                spaces[which] = open_space(path, clock=clock)
            elif step == "add several":
                held += (more := [space.make.source(f"{text} dig{k}", origin=f"{n}/{k}") for k in range(20)])
                space.commit(*more)
            else:
                write(space, held, n, step, text)
                if step == "erase":
                    space.ledger.compact()
            agrees(spaces[which], *terms, limit=limit)
            agrees(spaces[n % 3], *terms, limit=limit)
        for space in spaces:
            agrees(space, *TERMS)
            space.ledger.close()


def test_next_process_reads_saved_words_only_from_the_file(path, monkeypatch):
    with saving_all_words():
        first = open_space(path)
        first.commit(*(first.make.source(f"Bees hum {n}.", origin=str(n)) for n in range(40)))
        ranked = agrees(first, "hum", "bee")
        reads = []
        monkeypatch.setattr(word_tables, "_read", lambda *given: reads.append(given))
        second = open_space(path)
        assert asked(second, "hum", "bee") == ranked
        first.commit(first.make.source("Ants hum, and hum.", origin="late"))
        assert len(agrees(second, "hum", limit=99)) == 41
        assert not reads
        for space in (first, second):
            space.ledger.close()


def test_saved_words_follow_thousands_of_changes(path):
    with saving_all_words():
        first = open_space(path)
        sources = [first.make.source(f"Bees hum {n}.", origin=str(n)) for n in range(100)]
        first.commit(*sources)
        agrees(first, "hum", "bee")
        for source in sources[::3]:
            first.move(source, "archived")
        for start in range(0, 1_200, 300):
            first.commit(*(first.make.source(f"Ants hum {n}.", origin=f"late/{n}") for n in range(start, start + 300)))
        first.embed()
        agrees(first, "hum", "ant", limit=2_000)
        assert len(agrees(first, "bee", limit=2_000)) == 66
        first.ledger.close()


def test_erased_words_leave_all_saved_files(path):
    with saving_all_words():
        space, other = open_space(path), open_space(path)
        gone = space.make.source("Bees hum secretly.", origin="1")
        space.commit(gone, *(space.make.source(f"Ants hum {n}.", origin=f"a{n}") for n in range(9)))
        agrees(space, "hum")
        (word,) = [term for term in space.index.text._words._table._saved.bounds if term.startswith("secret")]
        assert len(agrees(other, word)) == 1
        assert word.encode("utf-32-le") in saved_words(path).read_bytes()
        space.erase(gone)
        space.ledger.compact()
        assert not saved_words(path).exists()
        for each in (space, other):
            assert agrees(each, word) == []
            assert word not in each.index.text._words._table._saved.bounds
        later = open_space(path)
        assert len(agrees(later, "hum")) == 9
        assert word.encode("utf-32-le") not in saved_words(path).read_bytes()
        for each in (space, other, later):
            each.ledger.close()


def test_damaged_saved_words_are_replaced(path):
    with saving_all_words():
        for damage in (None, 0, 4_100):
            space = open_space(path)
            if damage is None:
                space.commit(*(space.make.source(f"Bees hum {n}.", origin=str(n)) for n in range(9)))
            else:
                content = saved_words(path).read_bytes()
                saved_words(path).write_bytes(content[:damage] + bytes([content[damage] ^ 1]) + content[damage + 1 :])
            assert len(agrees(space, "hum")) == 9
            space.ledger.close()


def test_a_small_space_saves_no_words(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", origin="1"))
    agrees(space, "hum")
    assert not saved_words(path).exists()
    space.ledger.close()


def test_frequent_terms_are_found_between_long_postings():
    connection = full_text(range(1, 3_000), range(3_000, 12_000))
    rows = ((key, "seldom" if key % 100 else "rare _scope") for key in range(12_000, 14_000))
    connection.executemany("INSERT INTO passage_words(rowid, body) VALUES(?, ?)", rows)
    assert frequent_terms(connection, 1_000, 20_000) == {"common": 11_999, "seldom": 1_980}
    assert frequent_terms(connection, 1_000, 5_000) == {"seldom": 1_980}
    connection.execute("INSERT INTO passage_words(passage_words) VALUES('optimize')")
    assert frequent_terms(connection, 1_000, 20_000) == {"common": 11_999, "seldom": 1_980}


def test_frequent_terms_are_read_once_from_many_segments():
    connection = full_text(*(range(start, start + 2_000) for start in range(1, 12_001, 2_000)))
    ranges = []

    def note(_cursor, _sql, bindings):
        if bindings and len(bindings) == 4:
            ranges.append(bindings[:2])
        return True

    connection.exec_trace = note
    assert frequent_terms(connection, 100, 20_000) == {"common": 12_000}
    assert ranges == sorted(ranges)
    assert all(one[1] < other[0] for one, other in pairwise(ranges))


def test_next_read_ranks_writes_of_other_processes(path):
    here, there = open_space(path), open_space(path)
    bees = here.make.source("Bees hum.", origin="1")
    here.commit(bees)
    assert len(agrees(here, "hum")) == 1
    there.ledger.commit(here.make.patch(here.make.source("Ants hum and hum.", origin="2")))
    assert len(agrees(here, "hum")) == 2
    there.ledger.commit(here.make.patch(Erase(id=bees.id, expected_revision=1)))
    assert len(agrees(here, "hum")) == 1
    for each in (here, there):
        each.ledger.close()


def test_a_passage_that_took_the_key_of_an_erased_one_is_ranked_by_its_own_words(path):
    space = open_space(path)
    gone = space.make.source("Bees hum and hum and hum.", origin="1")
    space.commit(gone)
    (first,) = agrees(space, "hum")
    space.erase(gone)
    space.commit(space.make.source("Ants dig.", origin="2"))
    (other,) = agrees(space, "dig")
    assert other.key == first.key
    assert agrees(space, "hum") == []
    space.ledger.close()


def test_rebuild_replaces_the_words(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", "Bees dig.", origin="1"))
    agrees(space, "bee")
    space.index.upkeep.rebuild()
    assert len(agrees(space, "bee")) == 2
    space.ledger.close()


def test_phrases_and_signs_rank_to_the_scores_of_fts5(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum at night.", "At night bees.", origin="1"))
    for terms in (("bee hum",), ("bee", "at night"), ("bee.hum",), ("BEE",), ('"',)):
        agrees(space, *terms)
    space.ledger.close()


def test_of_a_question_with_a_phrase_fts5_is_asked_for_the_phrase_alone(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum at night.", "Ants hum.", origin="1"))
    statements = []
    with space.database.read() as connection:
        connection.exec_trace = lambda _cursor, sql, bindings: statements.append((sql, bindings)) or True
    assert len(asked(space, "hum", "bee hum", "night")) == 2
    assert [bindings[0] for sql, bindings in statements if "bm25" in sql] == ['("bee hum")']
    space.ledger.close()


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=8), questions, st.booleans())
@settings(max_examples=30, deadline=None)
def test_current_and_earlier_scores_equal_fts5(told, terms, filtered):
    space = open_space()
    for n, (text, stays) in enumerate(told):
        source = space.make.source(text, origin=str(n), kind=("note", "file")[n % 2])
        space.commit(source)
        if not stays:
            space.move(source, "archived")
    reach = seen(withdrawn=True, where={"kind": "note"} if filtered else {})
    (found,) = space.index.text.search([TextRequest(reach, 3, words=tuple(terms))])
    with space.database.read() as connection:
        assert list(found.words) == rank_words(connection, terms, sight(connection, reach), 3)
    space.ledger.close()


def test_terms_are_counted_alike_before_and_after_their_postings_are_in_memory(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", "Ants hum at night.", origin="1"))
    request = TextRequest(seen(), 0, counted=("hum", "night", "absent"))
    (before,) = space.index.text.search([request])
    asked(space, "hum", "absent")
    (after,) = space.index.text.search([request])
    assert before.counts == after.counts == {"hum": 2, "night": 1}
    space.ledger.close()


def test_scores_of_a_question_are_added_up_once_for_all_that_is_asked_of_it(path, monkeypatch):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", origin="1", kind="note"))
    added = []
    table = word_tables.WordTable
    scores = table.scores
    monkeypatch.setattr(table, "scores", lambda self, terms: (added.append(len(terms)), scores(self, terms))[1])
    several = [TextRequest(seen(where=where), 9, words=("hum", "bee")) for where in ({}, {"kind": "note"})]
    assert [len(found.words) for found in space.index.text.search(several)] == [1, 1]
    assert added == [2]
    space.commit(space.make.source("Ants hum.", origin="2", kind="note"))
    assert [len(found.words) for found in space.index.text.search(several)] == [2, 2]
    assert added == [2, 2]
    space.ledger.close()


def test_read_of_the_past_ranks_earlier_passages(path):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", origin="1"))
    written, read = threading.Event(), threading.Event()
    found = []

    def late():
        with space.database.read() as connection:
            before = by_fts5(space, "hum")
            written.set()
            read.wait(timeout=60)
            found.append((before, asked(space, "hum"), rank_words(connection, ["hum"], sight(connection, seen()), 9)))

    reader = threading.Thread(target=late)
    reader.start()
    written.wait(timeout=60)
    space.commit(space.make.source("Ants hum.", origin="2"))
    assert len(agrees(space, "hum")) == 2
    read.set()
    reader.join()
    ((before, then, by_rows),) = found
    assert before == then == by_rows
    assert len(then) == 1
    space.ledger.close()


def test_postings_are_read_once_and_follow_writes(path, monkeypatch):
    space = open_space(path)
    space.commit(space.make.source("Bees hum.", origin="1"))
    reads = []
    read = word_tables._read
    monkeypatch.setattr(
        word_tables, "_read", lambda connection, term, weights: reads.append(term) or read(connection, term, weights)
    )
    for _ in range(3):
        asked(space, "hum", "bee")
    assert reads == ["hum", "bee"]
    space.commit(space.make.source("Ants hum, and hum.", origin="2"))
    assert len(agrees(space, "hum", "bee")) == 2
    assert reads == ["hum", "bee"]
    space.ledger.close()


@pytest.fixture
def of_frequent_words(path, monkeypatch):
    """A space in which "bee" is in most passages and "hum" in all, with the postings that were read."""
    monkeypatch.setattr(word_tables, "FREQUENT_FROM", 2)
    reads, read = [], word_tables._read
    monkeypatch.setattr(
        word_tables, "_read", lambda connection, term, weights: reads.append(term) or read(connection, term, weights)
    )
    space = open_space(path)
    for n, text in enumerate(["hum bee bee", "hum bee dig", "hum ant dig", "hum bee honeycomb", "hum bee ant"]):
        space.commit(space.make.source(text, origin=str(n)))
    yield space, reads
    space.ledger.close()


def test_frequent_words_are_not_read_if_a_question_has_three_others(of_frequent_words):
    space, reads = of_frequent_words
    assert asked(space, "hum", "bee", "dig", "ant", "honeycomb") == asked(space, "dig", "ant", "honeycomb")
    assert reads == ["dig", "ant", "honeycomb"]


def test_frequent_words_count_if_a_question_has_few_others_that_occur(of_frequent_words):
    space, reads = of_frequent_words
    agrees(space, "hum", "bee", "dig", "ant", "absent")
    assert reads == ["hum", "bee", "dig", "ant", "absent"]


def test_postings_of_removed_passages_leave_memory(path):
    space = open_space(path)
    bees = space.make.source("Bees hum.", origin="1")
    space.commit(bees)
    assert asked(space, "bee")
    space.erase(bees)
    assert not asked(space, "ant")
    assert space.index.text._words._table.find("bee") is None
    space.ledger.close()


def test_a_filter_is_asked_of_the_rows_once_while_nothing_is_written(path):
    space = open_space(path)
    bees = space.make.source("Bees hum.", origin="1", kind="note")
    space.commit(bees, space.make.source("Ants hum and hum.", origin="2", kind="file"))
    space.embed()
    statements = []
    with space.database.read() as connection:
        connection.exec_trace = lambda _cursor, sql, _bindings: statements.append(sql) or True
    for day in (1, 2, 3):
        reach = replace(seen(where={"kind": "note"}), now=datetime(2026, 1, day, tzinfo=UTC))
        (found,) = space.index.text.search([TextRequest(reach, 10, words=("hum",))])
        assert space.objects(found.words) == [bees.id]
        near(space.index, EMBEDDER.embed_query("hum"), reach=reach, limit=10)
    assert not any("bm25" in sql for sql in statements)
    assert sum("FROM passages p WHERE" in sql and "p.kind" in sql for sql in statements) == 1
    space.ledger.close()


@given(st.lists(texts, min_size=1, max_size=8), questions, st.sampled_from(["/", "/a"]))
@settings(max_examples=30, deadline=None)
def test_words_of_what_passes_a_filter_rank_to_the_scores_of_fts5(told, terms, scope):
    space = open_space()
    for n, text in enumerate(told):
        kind, at = ("note", "file")[n % 2], ("/", "/a", "/a/b")[n % 3]
        space.commit(space.make.source(text, origin=str(n), kind=kind, scope=at))
    reach = seen(scope, descend=n % 2 == 0, where={"kind": "note"})
    (found,) = space.index.text.search([TextRequest(reach, 3, words=tuple(terms))])
    with space.database.read() as connection:
        assert list(found.words) == rank_words(connection, terms, sight(connection, reach), 3)
    space.ledger.close()


def test_totals_of_a_damaged_table_are_zero():
    connection = full_text([1])
    connection.execute("DELETE FROM passage_words_data WHERE id = 1")
    assert totals(connection) == {"rows": 0, "total": 0}

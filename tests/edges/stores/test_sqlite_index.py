from pathlib import Path

import pytest
from index_stage import EMBEDDER, open_space, seen

from treering.core.locator import Lines, Turn
from treering.core.patch import MoveScope
from treering.core.scope import sees
from treering.core.times import parse_time
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.jobs import SqliteJobs
from treering.edges.stores.sqlite.ledger import SqliteLedger
from treering.edges.stores.sqlite.tables import FULL_TEXT, write_state
from treering.ports.reach import Reach
from treering.ports.text import TextQuery
from treering.ports.vectors import Lag
from treering.testing.builders import Builder
from treering.testing.clocks import SteppingClock
from treering.testing.index_questions import beside, by_names, by_words, heads, knows, near


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


def test_what_was_written_is_found_by_its_words_as_soon_as_it_is_written(space):
    hive, tent = space.make.source("Bees live in a hive."), space.make.source("People sleep in tents.", origin="t")
    space.commit(hive, tent)
    assert space.find("where do bees live?") == [hive.id]
    assert space.find("tent") == [tent.id]
    assert space.find("submarine") == []


def test_the_passage_with_more_and_rarer_words_of_the_question_comes_first(space):
    common = [space.make.source(f"The cache keeps page {n}.", origin=f"c{n}") for n in range(5)]
    rare = space.make.source("The cache evicts the oldest page.", origin="rare")
    space.commit(*common, rare)
    assert space.find("which page does the cache evict?")[0] == rare.id


def test_a_word_in_the_title_counts_for_more_than_one_in_the_text(space):
    inside = space.make.source("Something on caching and on more than that.", title="Notes", origin="a")
    titled = space.make.source("Something on pages and on more than that.", title="Caching", origin="b")
    space.commit(inside, titled)
    assert space.find("caching") == [titled.id, inside.id]


def test_a_phrase_is_found_in_its_order(space):
    space.commit(space.make.source("queue of jobs", origin="a"), right := space.make.source("job queue", origin="b"))
    query = TextQuery(phrases=("job queue",))
    assert space.objects(by_words(space.index, query, reach=seen(), limit=5)) == [right.id]


def test_a_question_without_terms_finds_nothing(space):
    space.commit(space.make.source("Bees live in a hive."))
    assert by_words(space.index, TextQuery(), reach=seen(), limit=5) == []
    assert by_names(space.index, TextQuery(identifiers=("ab",)), reach=seen(), limit=5) == []


def test_a_name_is_found_by_any_stretch_of_it(space):
    source = space.make.source("Call `commit_patch` of `LedgerView` once.")
    space.commit(source, space.make.source("Nothing to call.", origin="b"))
    assert space.named("mit_pat") == space.named("ledgerview") == [source.id]
    assert space.named("rollback") == []


def test_text_without_spaces_is_found_by_a_part_of_it(space):
    source = space.make.source("蜂は巣箱に住んでいる。")
    space.commit(source)
    assert space.find("巣箱") == [source.id]


@pytest.mark.parametrize("reader", ["/", "/a", "/a/b", "/b"])
@pytest.mark.parametrize("descend", [True, False])
def test_every_arm_sees_the_scope_its_ancestors_and_what_lies_below_only_where_asked(space, reader, descend):
    items = {
        scope: space.make.source(f"Bees in hive_box {n}.", origin=str(n), title="Bees", scope=scope)
        for n, scope in enumerate(["/", "/a", "/a/b", "/a/bb", "/b"])
    }
    space.commit(*items.values())
    space.embed()
    wanted = sorted(item.id for scope, item in items.items() if sees(reader, scope, descend=descend))
    reach = {"scope": reader, "descend": descend}
    assert sorted(space.find("bees", **reach)) == wanted
    assert sorted(space.named("hive_box", **reach)) == wanted
    assert sorted(space.placed("Bees", **reach)) == wanted
    assert sorted(space.near("bees", **reach)) == wanted
    assert space.index.passages.count(seen(**reach)) == len(wanted)


def test_a_filter_never_starves_a_result(space):
    many = [space.make.source(f"The cache keeps page {n}.", origin=f"{n}") for n in range(30)]
    decision = space.make.knowledge("decision", {"question": "Where does the cache keep pages?", "outcome": "Disk"})
    space.commit(*many, decision)
    space.embed()
    reach = seen(where={"type": "knowledge"})
    question = TextQuery(words=("cach", "page"))
    assert space.objects(by_words(space.index, question, reach=reach, limit=1)) == [decision.id]
    vector = EMBEDDER.embed_query("the cache keeps page 3")
    assert [
        head.object_id for head in heads(space.index, near(space.index, vector, reach=reach, limit=1)).values()
    ] == [decision.id]
    assert space.index.passages.count(reach) == 1


@pytest.mark.parametrize("reader", ["/", "/a", "/a/b", "/b"])
@pytest.mark.parametrize("descend", [True, False])
def test_every_arm_keeps_to_its_scope_where_a_filter_narrows_it_too(space, reader, descend):
    items = {
        (scope, title): space.make.source(f"{title} in hive_box {n}.", origin=f"{title} {n}", title=title, scope=scope)
        for n, scope in enumerate(["/", "/a", "/a/b", "/a/bb", "/b"])
        for title in ("Bees", "Ants")
    }
    space.commit(*items.values())
    space.embed()
    wanted = sorted(
        item.id for (scope, title), item in items.items() if title == "Bees" and sees(reader, scope, descend=descend)
    )
    reach = {"scope": reader, "descend": descend, "where": {"title": "Bees"}}
    assert sorted(space.find("hive box", **reach)) == wanted
    assert sorted(space.named("hive_box", **reach)) == wanted
    assert sorted(space.placed("Bees", **reach)) == wanted
    assert sorted(space.near("hive box", **reach)) == wanted
    assert space.index.passages.count(seen(**reach)) == len(wanted)


def test_what_is_withdrawn_is_found_only_where_withdrawn_things_are_asked_for(space):
    source = space.make.source("Bees live in a hive.")
    space.commit(source)
    space.embed()
    space.move(source, "archived")
    assert space.find("bees") == space.near("bees") == space.named("hive.") == []
    assert space.find("bees", withdrawn=True) == space.near("bees", withdrawn=True) == [source.id]
    assert space.placed("notes.md") == []
    assert space.placed("notes.md", withdrawn=True) == [source.id]


def test_text_that_was_edited_away_is_found_only_as_of_then(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
    before = space.commit(source).sequence
    space.embed()
    after = space.reread(source, "Wasps live in a nest.", "Ants live in a hill.").sequence
    space.embed()
    assert space.find("bees") == space.find("bees", withdrawn=True) == []
    assert space.find("bees", at=before) == space.near("bees live in a hive", at=before, limit=1) == [source.id]
    assert space.find("bees", at=after) == space.find("wasps", at=before) == []
    assert space.find("wasps", at=after) == space.find("wasps") == [source.id]
    assert space.find("anything", at=before - 1) == []


def test_what_was_withdrawn_scores_as_it_did_while_it_stood(space):
    bees = [space.make.source(f"Page {n} of the notes, on bees.", origin=f"bees{n}") for n in range(10)]
    others = [space.make.source(f"Page {n} of the notes.", origin=f"n{n}") for n in range(50)]
    space.commit(*bees, *others)
    query = TextQuery(words=("bee",))
    before = by_words(space.index, query, reach=seen(), limit=60)
    at = space.ledger.sequence()
    space.move(bees[0], "archived")
    past = by_words(space.index, query, reach=seen(at=at), limit=60)
    assert sorted(space.objects(past)) == sorted(space.objects(before))
    # One passage less is counted now, so the scores differ by that much and no more.
    assert [hit.score for hit in past] == pytest.approx([hit.score for hit in before], rel=0.15)


def test_a_read_of_the_past_sees_status_and_scope_as_they_were(space):
    fact = space.make.fact("hive", "holds", "bees", status="candidate", scope="/a")
    made = space.commit(fact).sequence
    space.move(fact, "archived")
    space.commit(MoveScope(id=fact.id, expected_revision=2, to="/b"))
    assert space.find("bees", scope="/a", descend=False, at=made, where={"status": "candidate"}) == [fact.id]
    assert space.find("bees", scope="/b", descend=False, at=made) == []
    assert space.find("bees", scope="/b", descend=False, withdrawn=True, where={"status": "archived"}) == [fact.id]


def test_an_unchanged_passage_keeps_its_key_when_its_source_is_read_again(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
    space.commit(source)
    key = by_words(space.index, TextQuery(words=("ant",)), reach=seen(), limit=1)[0].key
    space.reread(source, "Wasps live in a nest.", "Bees live in a hive.", "Ants live in a hill.")
    assert by_words(space.index, TextQuery(words=("ant",)), reach=seen(), limit=1)[0].key == key
    (updated_at,) = space.database.row("SELECT updated_at FROM passages WHERE key = ?", (key,))
    assert parse_time(updated_at) == space.ledger.get(source.id).updated_at


def test_a_place_is_found_by_id_path_title_or_heading_and_the_whole_of_one_comes_first(space):
    locator = Lines(path="src/auth/session.py", start=1, end=9)
    source = space.make.source("class Session: ...", origin="repo#src/auth/session.py", title="src/auth/session.py")
    part = {**source.segments[0].model_dump(), "locator": locator.model_dump(), "heading": "Session.login"}
    source = source.model_copy(update={"segments": (type(source.segments[0]).model_validate(part),)})
    other = space.make.source("def session(): ...", origin="repo#session.py", title="session.py")
    space.commit(source, other)
    for text in (source.id, source.segments[0].segment_id, source.origin, "auth/session.py", "session.login", "login"):
        assert space.placed(text)[0] == source.id
    assert space.placed("Session.py") == [other.id, source.id]
    assert space.placed("auth/sess") == space.placed("x") == space.placed("%") == []


def test_a_name_that_only_ends_inside_a_word_with_the_text_comes_after_one_that_has_it_whole(space):
    inside = space.make.source("a", origin="1", title="recommit")
    whole = space.make.source("b", origin="2", title="Ledger.commit")
    space.commit(inside, whole)
    assert space.placed("commit") == [whole.id, inside.id]


def test_words_are_known_while_something_current_has_them(space):
    source = space.make.source("Bees live in a hive.", title="Swarm")
    space.commit(source)
    assert knows(space.index, ["bee", "swarm", "submarin"], reach=Reach("/")) == {"bee", "swarm"}
    space.move(source, "archived")
    assert knows(space.index, ["bee"], reach=Reach("/")) == frozenset()


def test_words_of_other_scopes_are_not_known(space):
    space.commit(space.make.source("Bees live in a hive.", scope="/a"))
    assert knows(space.index, ["bee"], reach=Reach("/a/below")) == {"bee"}
    assert knows(space.index, ["bee"], reach=Reach("/b")) == frozenset()


def test_heads_say_what_a_hit_needs_and_leave_out_what_is_not_there(space):
    source = space.make.source("Bees live in a hive.", title="Swarm", scope="/a")
    space.commit(source)
    [(key, head)] = heads(space.index, [1, 99]).items()
    assert (key, head.object_id, head.part) == (1, source.id, source.segments[0].segment_id)
    assert (head.type, head.kind, head.scope, head.role, head.title) == ("source", "markdown", "/a", "prose", "Swarm")
    assert head.origin == "notes.md"


def test_beside_a_turn_of_a_conversation_stand_the_turns_before_and_after(space):
    talk = space.make.source("Hello.", "Hello to you.", "Goodbye.", kind="conversation", origin="talk")
    parts = [part.model_copy(update={"locator": Turn(turn=part.position)}) for part in talk.segments]
    space.commit(talk.model_copy(update={"segments": tuple(parts)}), space.make.source("One.", "Two."))
    assert beside(space.index, [1, 2, 3, 4, 5]) == {1: [2], 2: [1, 3], 3: [2]}


def test_a_space_opened_by_another_process_answers_with_what_this_one_writes(path):
    here, there = open_space(path), open_space(path)
    source = here.make.source("Bees live in a hive.")
    here.commit(source)
    assert there.find("bees") == [source.id]
    assert there.near("bees") == []
    here.embed()
    assert there.near("bees") == [source.id]
    here.move(source, "archived")
    assert there.near("bees") == there.find("bees") == []
    for each in (here, there):
        each.ledger.close()


def test_erased_words_are_nowhere_in_the_index_and_in_no_byte_of_the_file(path):
    space = open_space(path)
    secret = space.make.source(
        "The password is xyzzyplugh.", title="Swordfish", origin="/home/mellon", metadata={"k": "opensesame"}
    )
    other = space.make.source("Bees live in a hive.", "The weather is fine.", origin="b")
    space.commit(secret, other)
    space.embed()
    space.reread(secret, "No password.", "Another abracadabra.")
    space.embed()
    space.erase(secret)
    assert terms_of(space) & {"xyzzyplugh", "swordfish", "mellon", "abracadabra", "password"} == set()
    assert "bee" in terms_of(space)
    assert space.find("password", withdrawn=True) == space.find("password", at=2) == []
    assert space.index.passages.count(seen(withdrawn=True)) == 2
    assert space.database.row("SELECT count(*) FROM passage_vectors") == (2,)
    space.ledger.compact()
    space.ledger.close()
    stored = Path(path).read_bytes()
    for word in (b"xyzzy", b"plugh", b"wordfish", b"mellon", b"opensesame", b"abracadabra", secret.salt.encode()):
        assert word not in stored


def terms_of(space):
    """Read every term of every full-text table."""
    found = set()
    with space.database.write() as connection:
        for table in FULL_TEXT:
            connection.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, {table}, 'row')")
            found |= {term for (term,) in connection.execute("SELECT term FROM temp.vocabulary")}
            connection.execute("DROP TABLE temp.vocabulary")
    return found


def test_a_rebuild_changes_no_answer_and_keeps_the_vectors(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
    gone = space.make.source("Moths live in a wardrobe.", origin="gone")
    space.commit(source, gone)
    space.embed()
    space.reread(source, "Wasps live in a nest.", "Ants live in a hill.")
    space.erase(gone)
    before = (space.find("wasps"), space.find("bees", at=2), space.near("ants"), space.index.vectors.lag())
    assert space.index.upkeep.rebuild() == 3
    assert (space.find("wasps"), space.find("bees", at=2), space.near("ants"), space.index.vectors.lag()) == before
    assert before[-1] == Lag(1, 2)
    assert space.index.upkeep.differences() == []


def test_differences_name_what_is_missing_changed_or_left_over(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.", "Moths fly.")
    space.commit(source)
    with space.database.write() as connection:
        connection.execute("DELETE FROM passages WHERE key = 1")
        connection.execute("UPDATE passages SET heading = 'Hills' WHERE key = 2")
        connection.execute("DELETE FROM passage_words WHERE rowid = 3")
    found = space.index.upkeep.differences()
    bees, ants, moths = (f"{source.id} {part.segment_id} (from 1)" for part in source.segments)
    assert f"{bees} is missing" in found
    assert f"{ants} is not what the ledger says" in found
    assert f"{moths} is not what the ledger says" in found
    assert "entries of no passage (from 0) should not be there" in found
    space.index.upkeep.rebuild()
    assert space.index.upkeep.differences() == []


def test_passages_of_another_version_are_made_anew_when_the_space_is_opened(path):
    space = open_space(path)
    source = space.make.source("Bees live in a hive.")
    space.commit(source)
    space.embed()
    with space.database.write() as connection:
        write_state(connection, "projection_version", 0)
        connection.execute("DELETE FROM passages")
    space.ledger.close()
    again = open_space(path)
    assert again.find("bees") == again.near("bees") == [source.id]
    again.ledger.close()


def test_a_ledger_that_grew_without_an_index_is_indexed_when_it_is_opened_with_one(path):
    clock = SteppingClock()
    ledger, make = SqliteLedger(Database(path), clock=clock), Builder(clock)
    source = make.source("Bees live in a hive.")
    ledger.commit(make.patch(source))
    ledger.close()
    space = open_space(path)
    assert space.find("bees") == [source.id]
    space.ledger.close()


def test_an_import_is_found_like_what_was_written_here(space):
    source = space.make.source("Bees live in a hive.", "Ants live in a hill.")
    space.commit(source)
    space.reread(source, "Ants live in a hill.")
    copy = open_space()
    copy.ledger.load(space.ledger.records())
    assert copy.find("ants") == copy.find("bees", at=1) == [source.id]
    assert copy.index.upkeep.differences() == []
    copy.ledger.close()


def test_jobs_are_remembered_across_openings_newest_first(path):
    space = open_space(path)
    jobs = SqliteJobs(space.database)
    jobs.save("job:1", {"state": "running", "done": 1, "scope": "/a"})
    jobs.save("job:2", {"state": "running", "done": 0, "scope": "/b"})
    jobs.save("job:1", {"state": "done", "done": 2, "scope": "/a"})
    space.ledger.close()
    again = open_space(path)
    jobs = SqliteJobs(again.database)
    assert jobs.find("job:1") == {"state": "done", "done": 2, "scope": "/a"}
    assert jobs.find("job:3") is None
    assert [row["state"] for row in jobs.recent(5, scope="/")] == ["running", "done"]
    assert jobs.recent(1, scope="/") == [{"state": "running", "done": 0, "scope": "/b"}]
    assert [row["state"] for row in jobs.recent(5, scope="/a/below")] == ["done"]
    again.ledger.close()

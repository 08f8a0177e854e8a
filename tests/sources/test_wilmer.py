import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from treering.core.errors import Denied, InvalidInput
from treering.core.objects import Source, Summary
from treering.extensions.discussions.folder import read_discussion
from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.search import DiscussionSearch
from treering.extensions.discussions.summaries.versions import Versions
from treering.extensions.discussions.wilmer import WilmerImport
from treering.ports.ledger import Selection
from treering.verbs.ingest.turns import Message

PLACE = discussion_ref("attic")
LAKE = "Ada wants to paint the boat before summer."
OARS = "Ben lost an oar\n--ChunkBreak--\nand bought two [DiscussionId]x[/DiscussionId] |{|new ones."


@pytest.fixture
def wilmer(space):
    return WilmerImport(space.engine, PLACE)


def blocks(*texts, hashes=()):
    marks = [*hashes, *("" for _ in texts)]
    return json.dumps([{"text_block": text, "hash": mark} for text, mark in zip(texts, marks, strict=False)]).encode()


def database(*rows):
    """Make a vector_memory.db of rows (text, metadata)."""
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute(
            "CREATE TABLE memories (id INTEGER PRIMARY KEY, discussion_id TEXT NOT NULL, memory_text TEXT NOT NULL, "
            "date_added TEXT NOT NULL, metadata_json TEXT)"
        )
        made.executemany("INSERT INTO memories VALUES (NULL, 'attic', ?, '2025-05-01T10:00:00+00:00', ?)", rows)
        made.commit()
        return made.serialize()


def knowledge(space, form="memory", *, status="active"):
    found = space.engine.ledger.select(Selection(scope=PLACE.scope, types=("knowledge",)))
    kept = [item for item in found if isinstance(item.payload, Summary) and item.payload.form == form]
    return [item for item in kept if item.status == status]


def texts(space):
    return [item.summary for item in knowledge(space)]


def everything(space):
    return list(space.engine.ledger.records())


def said(*contents):
    return [Message(content=text, role="user" if at % 2 == 0 else "assistant") for at, text in enumerate(contents)]


def test_each_memory_of_the_file_rests_on_its_words_in_a_note(space, wilmer):
    report = wilmer.bring("memories.json", blocks(LAKE, OARS))
    first, second = knowledge(space)
    source = space.engine.ledger.get(report.source_id)
    assert isinstance(source, Source)
    assert (source.kind, source.origin, source.scope) == ("note", "wilmer#memories.json", PLACE.scope)
    assert [part.excerpt for part in source.segments] == [LAKE, OARS]
    assert [item.evidence_refs[0].segment_id for item in (first, second)] == [p.segment_id for p in source.segments]
    assert (report.outcome, report.memories, first.memory_source) == ("imported", 2, "imported")
    assert (first.payload.first, first.payload.last) == (None, None)


def test_delimiters_of_the_original_inside_a_text_are_only_text(space, wilmer):
    wilmer.bring("memories.json", blocks(LAKE, OARS))
    assert texts(space) == [LAKE, OARS]


def test_rows_of_the_database_keep_their_title_names_and_phrases(space, wilmer):
    told = {"title": "Painting", "summary": LAKE, "entities": ["Ada"], "key_phrases": "the boat", "topics": ["summer"]}
    wilmer.bring("x_vector_memory.db", database((LAKE, json.dumps(told))))
    (memory,) = knowledge(space)
    assert (memory.title, memory.summary) == ("Painting", LAKE)
    assert memory.payload.entities == ("Ada",)
    assert memory.payload.key_phrases == ("the boat",)
    assert memory.payload.topics == ("summer",)


def test_memories_of_a_database_have_the_time_they_were_written(space, wilmer):
    wilmer.bring("vector_memory.db", database((LAKE, "{}")))
    talk = space.discussions().open(PLACE.id)
    written = datetime(2025, 5, 1, 10, tzinfo=UTC)
    assert [memory.at for memory in talk.all_memories()] == [written]
    options = DiscussionSearch(what="memories", mode="keywords")
    assert [hit.at for hit in talk.search("boat", replace(options, date_prefix="2025-05"))] == [written]
    assert talk.search("boat", replace(options, date_prefix="2026")) == []


def test_the_same_file_again_changes_nothing(space, wilmer):
    files = {
        "memories.json": blocks(LAKE, OARS, OARS),
        "chat_summary.json": blocks("They are at the lake."),
        "vector_memory.db": database((LAKE, "{}")),
    }
    for name, content in files.items():
        assert wilmer.bring(name, content).outcome == "imported"
    before = everything(space)
    assert [wilmer.bring(name, content).outcome for name, content in files.items()] == ["unchanged"] * 3
    assert everything(space) == before


def test_a_file_that_grew_brings_what_is_new_and_withdraws_what_it_lost(space, wilmer):
    wilmer.bring("memories.json", blocks(LAKE, OARS))
    kept = knowledge(space)[1].id
    report = wilmer.bring("memories.json", blocks(OARS, "They sail on Sunday."))
    assert (report.memories, report.withdrawn) == (1, 1)
    assert texts(space) == [OARS, "They sail on Sunday."]
    assert knowledge(space)[0].id == kept
    assert [item.summary for item in knowledge(space, status="archived")] == [LAKE]
    assert knowledge(space, status="stale") == []


def test_damaged_items_are_reported_and_the_rest_is_kept(space, wilmer):
    data = [{"text_block": LAKE, "hash": 7}, {"text": "?"}, "?", {"text_block": " "}, {"text_block": "\ud800"}]
    report = wilmer.bring("memories.json", json.dumps(data).encode())
    assert texts(space) == [LAKE]
    assert [item.split(":")[0] for item in report.rejected] == ["item 1", "item 2", "item 3", "item 4"]
    report = wilmer.bring("vector_memory.db", database((OARS, "{broken"), (b"\xff", "{}"), ("Rain.", "[]")))
    assert texts(space) == [LAKE, OARS, "Rain."]
    assert [item.split(":")[0] for item in report.rejected] == ["row 1", "row 2", "row 3"]


def test_lines_of_an_older_version_are_read_one_by_one(space, wilmer):
    lines = "\n".join([json.dumps({"text_block": LAKE}), "{cut", json.dumps({"text_block": OARS})])
    report = wilmer.bring("7_memories.jsonl", lines.encode())
    assert texts(space) == [LAKE, OARS]
    assert len(report.rejected) == 1


@pytest.mark.parametrize("name", ["memories.json", "old_memories.jsonl", "chat_summary.json", "vector_memory.db"])
@pytest.mark.parametrize(
    "content",
    [b"gAAAAABoV2lsbWVyLCBlbmNyeXB0ZWQ", b"\x80\xff\x00\x17", b"SQLite format 3\0cut", b"", b'"a text"', b"[" * 9_999],
    ids=["token", "bytes", "cut database", "nothing", "a text", "depth"],
)
def test_what_is_encrypted_or_of_another_kind_is_refused_and_never_mistaken_for_text(space, wilmer, name, content):
    before = everything(space)
    with pytest.raises(InvalidInput, match="was not imported") as refused:
        wilmer.bring(name, content)
    assert refused.value.hint
    assert everything(space) == before


def test_a_database_without_memories_and_a_file_of_another_name_are_refused(wilmer):
    with closing(sqlite3.connect(":memory:")) as other:
        other.execute("CREATE TABLE t(x)")
        other.commit()
        content = other.serialize()
    with pytest.raises(InvalidInput, match="memories"):
        wilmer.bring("vector_memory.db", content)
    with pytest.raises(InvalidInput, match="not a WilmerAI file"):
        wilmer.bring("timestamps.json", b"{}")


def test_the_tracker_of_condensations_and_an_empty_list_hold_nothing_to_keep(space, wilmer):
    before = everything(space)
    assert wilmer.bring("condensation_tracker.json", b'{"lastCondensationHash": "9f"}').outcome == "skipped"
    assert wilmer.bring("memories.json", b"[]").outcome == "skipped"
    assert everything(space) == before


def test_the_summary_becomes_the_rolling_summary_and_a_newer_one_supersedes_it(space, wilmer):
    assert wilmer.bring("chat_summary.json", blocks("They are at the lake.")).summary
    assert wilmer.bring("chat_summary.json", blocks("They are at the lake.", "They went home.")).summary
    assert [item.summary for item in knowledge(space, "rolling_summary")] == ["They went home."]
    assert [item.summary for item in knowledge(space, "rolling_summary", status="superseded")] == [
        "They are at the lake."
    ]
    assert knowledge(space) == []


@pytest.mark.parametrize(
    ("mark", "waiting"), [("a", [OARS, "They sail on Sunday."]), ("b", ["They sail on Sunday."]), ("c", []), ("x", [])]
)
def test_memories_behind_an_imported_summary_are_appended_once(space, tmp_path, mark, waiting):
    (tmp_path / "memories.json").write_bytes(blocks(LAKE, OARS, "They sail on Sunday.", hashes=("a", "b", "c")))
    (tmp_path / "chat_summary.json").write_bytes(blocks("They are at the lake.", hashes=(mark,)))
    talk = space.discussions().open(PLACE.id)
    for _ in range(2):
        read_discussion(talk, tmp_path)
        assert talk.current_summary().text == "\n\n".join(["They are at the lake.", *waiting])
    assert len(knowledge(space, "rolling_summary", status="superseded")) == bool(waiting)


def test_summary_loses_an_appended_memory_that_is_withdrawn(space, tmp_path, wilmer):
    (tmp_path / "memories.json").write_bytes(blocks(LAKE, OARS, hashes=("a", "b")))
    (tmp_path / "chat_summary.json").write_bytes(blocks("They are at the lake.", hashes=("a",)))
    talk = space.discussions().open(PLACE.id)
    read_discussion(talk, tmp_path)
    wilmer.bring("memories.json", blocks(LAKE, hashes=("a",)))
    assert talk.current_summary().text == "They are at the lake."


def test_summary_survives_the_condensation_of_appended_memories(space, tmp_path):
    memories, summary = tmp_path / "memories.json", tmp_path / "chat_summary.json"
    talk = space.discussions().open(PLACE.id)
    steps = [
        ((LAKE, OARS), "a", "At the lake."),
        ((LAKE, OARS), "b", "With oars."),
        (("A condensation.",), "b", "With oars."),
    ]
    for texts, mark, text in steps:
        memories.write_bytes(blocks(*texts, hashes=("a", "b")[-len(texts) :]))
        summary.write_bytes(blocks(text, hashes=(mark,)))
        read_discussion(talk, tmp_path)
    assert talk.current_summary().text == "With oars."


def test_beside_a_summary_of_the_discussions_own_an_imported_one_is_a_memory(space, wilmer):
    Versions(space.engine, PLACE, "rolling_summary").write("Our own.", after=None, last=-1, made_by="us")
    report = wilmer.bring("chat_summary.json", blocks("They are at the lake."))
    assert (report.memories, report.summary) == (1, False)
    assert texts(space) == ["They are at the lake."]
    assert [item.summary for item in knowledge(space, "rolling_summary")] == ["Our own."]


def test_a_state_document_is_imported_as_it_is_and_an_encrypted_one_is_refused(space, wilmer):
    assert wilmer.bring("state_document.md", b"# Boat\n\n- white\n").summary
    current = Versions(space.engine, PLACE, "state_document").current()
    assert current is not None
    assert current.text == "# Boat\n\n- white\n"
    for content in (b"gAAAAABoV2lsbWVyLCBlbmNyeXB0ZWQ=", b"\x80\xff", b" "):
        with pytest.raises(InvalidInput, match="was not imported"):
            wilmer.bring("state_document.md", content)


def test_an_import_that_was_interrupted_before_the_summary_is_finished_by_the_next(space, wilmer):
    wilmer.bring("chat_summary.json", blocks("They are at the lake."))
    (version,) = knowledge(space, "rolling_summary")
    space.with_actor("Ada", channel="user").erase([version.id])
    assert wilmer.bring("chat_summary.json", blocks("They are at the lake.")).summary
    assert [item.summary for item in knowledge(space, "rolling_summary")] == ["They are at the lake."]


def hashed(content):
    return sha256(content.encode()).hexdigest()


def test_hashes_tell_which_messages_a_memory_is_about_where_those_are_kept(space, wilmer):
    told = said("Hello", "Shall we paint the boat?", "Before summer", "Good")
    MessageLog(space.engine, PLACE).record(told, start=0)
    marks = [hashed(told[at].content) for at in (1, 2, 3)]
    wilmer.bring("memories.json", blocks("They speak of a boat.", LAKE, "All is well.", hashes=marks))
    wilmer.bring("chat_summary.json", blocks("A boat is painted.", hashes=marks[1:2]))
    found = [(item.payload.first, item.payload.last) for item in knowledge(space)]
    assert found == [(0, 1), (2, 2), (3, 3)]
    (summary,) = knowledge(space, "rolling_summary")
    assert summary.payload.last == 2


@pytest.mark.parametrize(
    ("contents", "spans"),
    [
        (("Boat?", "ok", "White", "ok", "Good", "ok"), [(0, 2), (3, 3), (4, 4)]),
        (("ok", "Boat?", "White", "ok", "ok", "Good"), [(0, 2), (None, None), (5, 5)]),
        (("ok", "Boat?", "White", "Good"), [(0, 2), (None, None), (3, 3)]),
    ],
    ids=["one between the neighbors", "two between them", "none between them"],
)
def test_neighbors_choose_among_equal_messages(space, wilmer, contents, spans):
    MessageLog(space.engine, PLACE).record(said(*contents), start=0)
    marks = map(hashed, ("White", "ok" if contents.count("ok") > 1 else "?", "Good"))
    wilmer.bring("memories.json", blocks("A boat.", "Agreed.", "Done.", hashes=marks))
    assert [(item.payload.first, item.payload.last) for item in knowledge(space)] == spans


def test_the_log_of_a_database_names_the_processed_messages(space, wilmer):
    """A chunk may end with a message that occurs again; the log still names the last processed one."""
    told = said("Shall we paint the boat?", "ok", "Before summer", "ok", "Good", "ok")
    log = MessageLog(space.engine, PLACE)
    log.record(told, start=0)
    with closing(sqlite3.connect(":memory:")) as made:
        made.deserialize(database((LAKE, "{}")))
        made.execute(
            "CREATE TABLE vector_memory_hash_log (id INTEGER PRIMARY KEY, discussion_id, message_hash, timestamp)"
        )
        rows = [(hashed(told[at].content), f"2026-05-0{9 - at}") for at in (0, 2, 3)]
        made.executemany("INSERT INTO vector_memory_hash_log VALUES (NULL, 'attic', ?, ?)", rows)
        made.commit()
        content = made.serialize()
    wilmer.bring("vector_memory.db", content)
    (head,) = log.blocks()
    assert [(state.first, state.last) for state in log.block(head).chunks] == [(0, 2)]


def test_secrets_and_text_recalled_from_this_memory_are_not_imported(space, wilmer):
    secret = "AKIAIOSFODNN7EXAMPLE"
    wilmer.bring("memories.json", blocks(f"The key is {secret}."))
    assert secret not in json.dumps([dict(record.row) for record in everything(space)], default=str)


def test_an_imported_memory_falls_with_its_note(space, wilmer):
    report = wilmer.bring("memories.json", blocks(LAKE))
    space.with_actor("Ada", channel="user").erase([report.source_id])
    assert knowledge(space) == []


def test_a_very_long_memory_rests_on_several_segments(space, wilmer):
    long = " ".join(f"On day {n} the wind came from the west." for n in range(400))
    wilmer.bring("memories.json", blocks(long, LAKE))
    first, second = knowledge(space)
    assert first.summary == long
    assert len(first.evidence_refs) > 1
    assert len(second.evidence_refs) == 1


def test_a_channel_whose_writes_are_reviewed_may_not_import(open_space, tmp_path):
    (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
    with_review = open_space(policy=tmp_path / "p.toml")
    with pytest.raises(Denied, match="directly"):
        WilmerImport(with_review.engine, PLACE).bring("memories.json", blocks(LAKE))

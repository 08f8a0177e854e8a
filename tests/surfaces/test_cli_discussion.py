import json
from dataclasses import dataclass

import pytest

import treering
from treering.core.errors import Unavailable
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.making import MakingReport
from treering.extensions.discussions.rendering import render_made
from treering.ports.ledger import Selection
from treering.verbs.ingest.turns import Message
from treering.verbs.lint.erasure import ErasureTarget

WORDS = (
    ("Ada", "We decided to launch the lamp on 3 June."),
    ("Ben", "I prefer oak for the stand; walnut is too expensive."),
    ("Ada", "The lamp costs 49 euros."),
    ("Ben", "I will write the manual this week."),
    ("Ada", "Thanks!"),
    ("Ben", "The carpenter can deliver in May."),
    ("Ada", "Good."),
    ("Ben", "See you."),
)
SPEAKERS = {"Ada": "user", "Ben": "assistant"}


def message(at, speaker, words):
    return {"role": SPEAKERS[speaker], "content": words, "timestamp": f"2026-05-{at + 1:02}T10:00:00Z"}


def said(words):
    return Message(role="user", content=words)


CHAT = [message(at, *said) for at, said in enumerate(WORDS)]
EXPORT = [
    {"id": "c1", "title": "Ports", "messages": CHAT[:2]},
    {"id": "c2", "title": "Lamps", "messages": CHAT[2:5]},
    {"id": "c3", "title": "lamps", "messages": CHAT[5:]},
]


@pytest.fixture
def desk(stage):
    stage.write({"chat.json": json.dumps(CHAT), "export.json": json.dumps(EXPORT)})
    return stage


@pytest.fixture
def kept(desk):
    desk.done("init")
    desk.done("discussion", "record", "lamp", "chat.json")
    return desk


@dataclass
class Failing(BuiltInGenerator):
    """Makes no memories, as where a model is out of reach."""

    def memories(self, chunk, background):
        raise Unavailable("the model is out of reach")


def test_recording_a_file_makes_due_memories(desk):
    told = desk.done("discussion", "record", "lamp", "chat.json")
    assert told.out.splitlines() == [
        "Recorded in lamp: 8 appended, 0 unchanged, 0 withdrawn; 8 messages now.",
        "Processed chunks of messages: 4 done, 1 empty; a new summary; a new state document.",
        "Created a space: .treering/treering.db",
    ]
    told = desk.done("discussion", "record", "lamp", "chat.json")
    assert told.out.splitlines() == [
        "Recorded in lamp: 0 appended, 8 unchanged, 0 withdrawn; 8 messages now.",
        "No memories are due.",
    ]


def test_what_is_due_can_be_left_to_an_update(desk):
    assert desk.json("discussion", "record", "lamp", "chat.json", "--no-update")["made"] is None
    assert desk.json("discussion", "show", "lamp")["memories"] == []
    assert desk.done("discussion", "update", "lamp").out.startswith("Processed chunks of messages: 4 done")
    assert desk.json("discussion", "update", "lamp", "--wait", "1")["made"]["done"] == 0


def test_recording_replaces_diverging_messages(kept):
    kept.write({"chat.json": json.dumps([*CHAT[:6], message(6, "Ada", "Too late.")])})
    told = kept.done("discussion", "record", "lamp", "chat.json")
    assert told.out.splitlines()[:2] == [
        "Recorded in lamp: 1 appended, 6 unchanged, 2 withdrawn; 7 messages now.",
        "  It diverges from the stored conversation at message 6.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CHAT[:2]),
        "".join(f"{json.dumps(one)}\n" for one in CHAT[:2]),
        "Ada: Shall we use oak?\nBen: Yes, walnut is too expensive.\n",
        "[10:00] Ada: Shall we use oak?\n[10:01] Ben: Yes, walnut is too expensive.\n",
    ],
)
def test_stdin_may_hold_any_form(desk, text):
    assert desk.json("discussion", "record", "lamp", "-", stdin=text)["recorded"]["appended"] == 2


def test_of_a_file_with_several_conversations_one_is_named_by_id_or_title(desk):
    for name, count in (("c3", 3), ("ports", 2)):
        report = desk.json("discussion", "record", name, "export.json", "--conversation", name)
        assert report["recorded"]["appended"] == count


@pytest.mark.parametrize(
    ("named", "code", "said", "choices"),
    [
        ((), 2, "export.json contains 3 conversations.", ["c1  Ports", "c2  Lamps", "c3  lamps"]),
        (("--conversation", "lamps"), 2, "2 conversations called 'lamps'", ["c2  Lamps", "c3  lamps"]),
        (("--conversation", "chairs"), 3, "contains no conversation 'chairs'", ["c1  Ports", "c2  Lamps", "c3  lamps"]),
    ],
)
def test_a_conversation_that_is_not_clear_is_an_error_that_lists_them(desk, named, code, said, choices):
    told = desk.run("discussion", "record", "lamp", "export.json", *named)
    assert told.code == code
    assert said in told.err
    assert [row.strip() for row in told.err.splitlines()[2:]] == choices
    assert not (desk.folder / ".treering").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}', "No conversation was found: odd.json contains no conversations in a known format."),
        ('{"messages": []}', "No conversation was found"),
    ],
)
def test_a_file_without_a_conversation_makes_nothing(desk, text, said):
    desk.write({"odd.json": text})
    told = desk.run("discussion", "record", "lamp", "odd.json")
    assert told.code == 2
    assert said in told.err
    assert not (desk.folder / ".treering").exists()


def test_unreadable_items_are_reported(desk):
    desk.write({"cut.jsonl": f"{json.dumps(CHAT[0])}\n{json.dumps(CHAT[1])}\n{{cut\n"})
    told = desk.done("discussion", "record", "lamp", "cut.jsonl")
    assert "note: line 3" in told.out


def test_discussions_are_listed_with_their_messages(kept):
    kept.done("discussion", "record", "ports", "export.json", "--conversation", "c1")
    assert kept.done("discussion", "list").out == "lamp  8 messages\nports  2 messages\n"
    assert kept.json("discussion", "list")["discussions"][0] == {"id": "lamp", "messages": 8}


def test_list_without_discussions_names_imported_conversations(desk):
    desk.write({"chat.jsonl": "".join(f"{json.dumps(one)}\n" for one in CHAT)})
    desk.done("add", "chat.jsonl")
    assert "Imported conversations are sources: find them with treering search" in desk.done("discussion", "list").out


def test_discussions_of_one_scope_are_not_those_of_another(kept):
    within = ("--within", "/team/a/")
    assert kept.done("discussion", "list", *within).out == "There are no discussions in the scope /team/a/.\n"
    kept.done("discussion", "record", "lamp", "export.json", "--conversation", "c1", *within)
    assert kept.done("discussion", "list", *within).out == "lamp  2 messages\n"
    found = kept.json("discussion", "search", "--all", "oak", *within)["found"]
    assert [(one["discussion"], one["scope"]) for one in found][:1] == [("lamp", "/team/a/discussion/lamp")]
    assert kept.json("discussion", "show", "lamp")["count"] == 8


def test_discussions_below_a_scope_are_named_with_their_scopes(desk):
    desk.write({"chat.jsonl": "".join(f"{json.dumps(one)}\n" for one in CHAT)})
    for team in ("a", "b"):
        desk.done("discussion", "record", f"{team}-lamp", "chat.jsonl", "--scope", f"/team/{team}")
    listed = desk.done("discussion", "list").out
    assert listed.startswith("There are no discussions in the scope /.\n")
    assert "Scopes below with discussions: /team/a, /team/b. List them with --within." in listed
    assert "/" not in desk.done("discussion", "list", "--within", "/team/a").out
    missing = desk.run("discussion", "show", "b-lamp", "--within", "/team")
    assert (missing.code, "It is in /team/b: give the scope with --within." in missing.err) == (3, True)
    nothing = desk.run("discussion", "search", "--all", "oak")
    assert "There are some in /team/a, /team/b: give one with --within." in nothing.err


def test_a_discussion_is_shown_with_its_last_memories_and_messages(kept):
    told = kept.done("discussion", "show", "lamp", "--messages", "1").out
    assert told.startswith("lamp  8 messages\n")
    for part in (
        "SUMMARY",
        "STATE",
        "MEMORIES",
        "0  We decided to launch",
        "7  assistant [2026-05-08 10:00]",
    ):
        assert part in told
    assert "6  user" not in told
    shown = kept.json("discussion", "show", "lamp", "--memories", "0", "--messages", "100")
    assert (len(shown["memories"]), len(shown["messages"])) == (0, 8)


def test_an_answer_that_goes_to_a_program_marks_what_is_recalled(kept):
    assert '<<treering:recalled origin="discussion:lamp"' in kept.done("discussion", "show", "lamp").out
    assert '<<treering:recalled origin="discussion:lamp 1"' in kept.done("discussion", "search", "lamp", "oak").out


def test_one_discussion_or_all_of_them_are_searched(kept):
    kept.done("discussion", "record", "ports", "export.json", "--conversation", "c1")
    told = kept.json("discussion", "search", "lamp", "what", "does", "the lamp cost?", "--what", "turns")
    assert told["query"] == "what does the lamp cost?"
    assert told["found"][0]["text"] == "The lamp costs 49 euros."
    found = kept.json("discussion", "search", "--all", "oak", "--mode", "keywords", "--what", "turns")["found"]
    assert sorted((one["discussion"], one["first"]) for one in found) == [("lamp", 1), ("ports", 1)]


@pytest.mark.parametrize(
    ("time", "positions"),
    [
        (("--since", "2026-05-07"), {6, 7}),
        (("--until", "2026-05-01"), {0}),
        (("--since", "2026-05-03T09:00:00Z", "--until", "2026-05-03T11:00:00+00:00"), {2}),
        (("--date", "2026-05-08"), {7}),
        (("--date", "2025"), set()),
    ],
)
def test_a_search_may_be_for_what_was_said_at_a_time(kept, time, positions):
    found = kept.json("discussion", "search", "lamp", "lamp see good", "--what", "turns", *time)["found"]
    assert {one["first"] for one in found} == positions


def test_search_without_results_is_reported(kept):
    told = kept.done("discussion", "search", "lamp", "submarine", "--mode", "keywords")
    assert told.out == "No results.\n"


@pytest.mark.parametrize(
    "arguments",
    [("lamp",), ("lamp", "oak", "--date", "May"), ("lamp", "oak", "--since", "May"), ("lamp", "oak", "--mode", "odd")],
)
def test_a_search_that_makes_no_sense_is_refused(kept, arguments):
    assert kept.run("discussion", "search", *arguments).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "lamb"),
        ("search", "lamb", "oak"),
        ("search", "--all", "oak", "--within", "/team"),
        ("update", "lamb"),
        ("export", "lamb", "files"),
        ("state", "lamb"),
        ("state", "lamb", "--edit", "chat.json"),
        ("delete", "lamb", "0"),
    ],
)
def test_unknown_discussion_id_raises_without_writing(kept, arguments):
    told = kept.run("discussion", *arguments)
    assert told.code == 3
    assert "Did you mean 'lamp'?" in told.err or "There are no discussions in the scope /team." in told.err
    assert kept.done("discussion", "list").out == "lamp  8 messages\n"
    assert not (kept.folder / "files").exists()


def test_among_many_discussions_the_list_is_named_instead(desk):
    with treering.open(f"sqlite:{desk.folder / 'many.db'}", background=False) as space:
        for number in range(21):
            space.discussions().open(f"talk-{number}").append([said("Hello")])
    told = desk.run("discussion", "show", "zebra", "--space", "sqlite:many.db")
    assert "hint: See `treering discussion list`." in told.err


def test_reading_needs_a_space_and_makes_none(desk):
    told = desk.run("discussion", "show", "lamp")
    assert told.code == 3
    assert not (desk.folder / ".treering").exists()


@pytest.mark.parametrize("command", ["record", "import"])
def test_an_id_that_could_be_a_path_is_refused_before_anything_is_made(desk, command):
    told = desk.run("discussion", command, "../lamp", "chat.json")
    assert told.code == 2
    assert not (desk.folder / ".treering").exists()


def test_an_edit_of_the_state_document_is_kept_and_merged_with_what_came_since(kept):
    text = kept.done("discussion", "state", "lamp").out
    assert "- user: We decided to launch the lamp on 3 June [2026-05-01, message 0]" in text
    kept.write({"mine.md": text.replace("\n\n<!--", "\n- The stand is red.\n\n<!--")})
    kept.done("discussion", "state", "lamp", "--edit", "-", stdin=text.replace("\n\n<!--", "\n- It is round.\n\n<!--"))
    assert kept.done("discussion", "state", "lamp", "--edit", "mine.md").out == "Saved as version 6.\n"
    document = kept.json("discussion", "state", "lamp")["state"]
    assert "- The stand is red." in document
    assert "- It is round." in document


def test_line_appended_to_the_state_file_is_the_only_change(kept):
    text = kept.done("discussion", "state", "lamp").out
    kept.done("discussion", "state", "lamp", "--edit", "-", stdin=f"{text}- It is round.\n")
    before, after = text.partition("\n\n<!--")[0], kept.json("discussion", "state", "lamp")["state"]
    assert after.splitlines() == [*before.splitlines(), "- It is round."]


def test_state_edit_without_change_is_reported(kept):
    text = kept.done("discussion", "state", "lamp").out
    assert kept.done("discussion", "state", "lamp", "--edit", "-", stdin=text).out == "Nothing was changed.\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"", 2, "The edited state document is empty."),
        (b"\xff\xfe", 2, "is not UTF-8 text"),
        (b'- Red.\n\n<!-- treering: {"version": "know:1"} -->\n', 3, "or remove its comment"),
    ],
)
def test_invalid_state_edit_raises(kept, data, code, said):
    kept.write({"mine.md": data})
    told = kept.run("discussion", "state", "lamp", "--edit", "mine.md")
    assert told.code == code
    assert said in told.err


def test_an_exported_discussion_is_the_same_elsewhere(kept):
    told = kept.done("discussion", "export", "lamp", "files")
    assert told.out == "Exported to files: 8 messages, 4 memories, 1 version of the summary.\n"
    told = kept.done("discussion", "import", "copy", "files", "--space", "sqlite:copy.db")
    assert told.out == (
        "Imported from files: 8 messages, 4 memories, 1 version of the summary; the state document is new.\n"
        "Created a space: copy.db\n"
    )
    there = kept.json("discussion", "show", "copy", "--space", "sqlite:copy.db")
    assert there["state"] == kept.json("discussion", "show", "lamp")["state"]


def test_a_discussion_with_messages_takes_only_the_state_document_of_a_folder(kept):
    kept.done("discussion", "export", "lamp", "files")
    path = kept.folder / "files" / "state.md"
    path.write_text(path.read_text().replace("\n\n<!--", "\n- The stand is red.\n\n<!--"))
    told = kept.done("discussion", "import", "lamp", "files")
    assert told.out.splitlines() == [
        "Imported from files: the state document is new.",
        "  The discussion contains messages, so nothing else was read.",
    ]
    assert "- The stand is red." in kept.json("discussion", "state", "lamp")["state"]


def test_importing_folder_without_discussion_fails(kept):
    (kept.folder / "empty").mkdir()
    told = kept.run("discussion", "import", "lamp", "empty")
    assert told.code == 3
    assert "does not contain a discussion" in told.err


def test_files_of_wilmer_are_imported_once(desk):
    blocks = [{"text_block": "Ada likes oak.", "hash": "a"}, {"text_block": "", "hash": "b"}]
    desk.write({"memories.json": json.dumps(blocks), "chat_summary.json": '[{"text_block": "They build a lamp."}]'})
    told = desk.done("discussion", "import", "lamp", "memories.json").out
    assert told.splitlines()[0] == "Imported from memories.json: 1 new memory."
    assert "note: item 1: it has no text" in told
    assert desk.done("discussion", "import", "lamp", "memories.json").out.startswith(
        "memories.json was imported before"
    )
    assert desk.json("discussion", "import", "lamp", "chat_summary.json")["report"]["summary"] is True
    shown = desk.json("discussion", "show", "lamp")
    assert (shown["summary"], shown["count"], len(shown["memories"])) == ("They build a lamp.", 0, 1)
    assert "-  Ada likes oak." in desk.done("discussion", "show", "lamp").out


def test_a_file_that_is_not_of_wilmer_is_refused(desk):
    told = desk.run("discussion", "import", "lamp", "chat.json")
    assert told.code == 2
    assert "is not a WilmerAI file" in told.err


def test_a_deleted_message_stays_away(kept):
    told = kept.done("discussion", "delete", "lamp", "1", "7")
    assert told.out.startswith("Deleted 1, 7; ")
    kept.done("discussion", "record", "lamp", "chat.json")
    shown = kept.done("discussion", "show", "lamp", "--messages", "8").out
    assert "7  (deleted)" in shown
    assert "walnut" not in shown


def test_a_password_is_redacted_in_all_messages_of_a_recording(desk):
    texts = (
        "I tested with Wombat-Quartz-5521.",
        "The account password is Wombat-Quartz-5521.",
        "Wombat-Quartz-5521 works.",
    )
    desk.write({"secret.json": json.dumps([message(at, "Ada", text) for at, text in enumerate(texts)])})
    desk.done("init")
    desk.done("discussion", "record", "tests", "secret.json")
    desk.done("add", "secret.json")
    with treering.open() as space:
        assert not [one for one in space.engine.ledger.select(Selection(descend=True)) if "Wombat" in str(one)]


def test_erasing_wants_a_yes_and_proves_itself(kept):
    told = kept.run("discussion", "delete", "lamp", "1", "--erase")
    assert told.code == 2
    assert "Add --yes." in told.err
    told = kept.done("discussion", "delete", "lamp", "1", "--erase", "--yes")
    assert "full text: nothing left" in told.out


def test_erase_takes_the_id_of_a_discussion_with_all_made_from_it(kept):
    with treering.open() as space:
        assert [one for one in space.engine.ledger.select(Selection(descend=True)) if one.type == "knowledge"]
    told = kept.done("erase", "lamp", "--yes").out
    assert "full text: nothing left" in told
    with treering.open() as space:
        assert not [one for one in space.engine.ledger.select(Selection(descend=True)) if "oak" in str(one)]


def test_erase_of_an_ambiguous_discussion_id_changes_nothing(kept):
    kept.done("discussion", "record", "lamp", "chat.json", "--within", "/users/ben")
    told = kept.run("erase", "lamp", "--yes")
    assert (told.code, "/users/ben" in told.err) == (2, True)
    assert "walnut" in kept.done("search", "walnut").out


def test_erasing_a_hit_erases_only_its_message(kept):
    kept.done("search", "walnut is too expensive", "-n", "1")
    told = kept.done("erase", "1", "--yes", "--reason", "Asked by Ben")
    assert "full text: nothing left" in told.out
    shown = kept.done("discussion", "show", "lamp", "--messages", "8").out
    assert "walnut" not in shown
    assert "1  (deleted)" in shown
    assert all(words in shown for at, (_, words) in enumerate(WORDS) if at != 1)
    with treering.open() as space:
        assert not [one for one in space.engine.ledger.select(Selection(descend=True)) if "walnut" in str(one)]
        assert "Asked by Ben" in {event.reason for event in space.log()}


def test_several_hits_of_a_discussion_are_erased_together(kept):
    kept.done("search", "walnut, and the manual", "-n", "2")
    kept.done("erase", "1", "2", "--yes")
    shown = kept.done("discussion", "show", "lamp", "--messages", "8").out
    assert shown.count("(deleted)") == 2


def test_erasure_targets_name_the_messages_that_go(kept):
    (hit,) = kept.json("search", "walnut is too expensive", "-n", "1")["hits"]
    with treering.open() as space:
        message = str(ErasureTarget.of(space.engine, f"{hit['source_id']} {hit['segment_id']}"))
        whole = str(ErasureTarget.of(space.engine, hit["source_id"]))
    assert message.startswith('message 1 of "Discussion lamp" (src:')
    assert whole.endswith(") with 1 message")


def test_a_hit_in_a_chat_export_is_not_erased_with_other_messages(desk):
    desk.done("add", "export.json")
    desk.done("search", "walnut is too expensive", "-n", "1")
    told = desk.run("erase", "1", "--yes")
    assert told.code == 2
    assert "1 other message would be erased with it" in told.err
    whole = told.err.partition("treering erase ")[2].strip()
    desk.done("erase", whole, "--yes")


@pytest.mark.parametrize("positions", [("8",), ("0", "99")])
def test_a_position_without_a_message_is_refused(kept, positions):
    told = kept.run("discussion", "delete", "lamp", *positions)
    assert told.code == 2
    assert "There is no message at" in told.err
    assert "Positions are 0 to 7." in told.err


def test_what_is_written_is_written_in_the_name_that_is_given(kept):
    kept.done("discussion", "record", "lamp", "-", "--actor", "eve", stdin=json.dumps([*CHAT, CHAT[0]]))
    changes = kept.json("query", "--mode", "recent", "--scope", "/discussion/lamp")["changes"]
    assert changes[0]["actor"] == "eve"


def test_failed_chunk_is_reported(desk):
    with treering.open(f"sqlite:{desk.folder / 'talks.db'}", background=False) as space:
        talk = space.discussions(generator=Failing()).open("lamp")
        talk.append([said(words) for _, words in WORDS])
        talk.update()
    told = desk.done("discussion", "update", "lamp", "--space", "sqlite:talks.db")
    assert told.out == "Processed chunks of messages: 1 waiting.\n"


def test_the_lines_of_an_update_tell_of_everything_that_became_of_it():
    made = MakingReport(done=2, empty=1, failed=1, condensed=3, errors=("no answer",), rejected=("no title",))
    assert [one.text.plain for one in render_made(made)] == [
        "Processed chunks of messages: 2 done, 1 empty, 1 failed; 3 condensed.",
        "failed: no answer",
        "not used: no title",
    ]
    (busy,) = render_made(MakingReport(busy=True))
    assert busy.text.plain == "Another process is making its memories; use --wait to wait for it."


def test_without_a_command_the_help_is_shown(desk):
    assert "record" in desk.done("discussion").out


def test_search_states_the_days_of_the_zone(stage, monkeypatch):
    monkeypatch.setenv("TREERING_TIMEZONE", "Pacific/Kiritimati")
    stage.done("ingest", "-", "--mode", "source", stdin="The pier lamp blinks twice.")

    query = stage.json("query", "what did the pier lamp do yesterday", "--mode", "search")
    told = stage.done("query", "what did the pier lamp do yesterday", "--mode", "search").out

    assert [days["time_zone"] for days in query["understood"]] == ["Pacific/Kiritimati"]
    assert f'days: "yesterday" is {query["understood"][0]["first"]} (Pacific/Kiritimati).' in told


@pytest.mark.parametrize("folder", [".", "/", ".."])
def test_folder_in_place_of_a_space_is_refused(stage, folder):
    told = stage.run("status", "--space", folder)

    assert told.code != 0
    assert "is a folder; a space is a file" in told.err


def test_refused_folder_with_a_space_names_its_file(stage):
    stage.done("init")
    told = stage.run("status", "--space", str(stage.folder))

    assert f"Give its space: {stage.folder / '.treering' / 'treering.db'}." in " ".join(told.err.split())

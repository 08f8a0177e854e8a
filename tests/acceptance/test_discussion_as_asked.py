"""Memory of discussions as a document asks for it: its configuration, its workflow files, its file names, its nodes."""

import json
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest
from desk_parts import AFTER, LAMP, desk

from treering.extensions.discussions.generators.parsing import CHUNK_BREAK

__all__ = ["desk"]

CONFIG = {
    "useVectorForQualityMemory": True,
    "vectorMemoryWorkflowName": "my-vector-memory-workflow",
    "fileMemoryWorkflowName": "my-file-memory-workflow",
}
VECTOR_WORKFLOW = [
    {
        "id": "agent1",
        "type": "Standard",
        "prompt": "List the 3 most important topics of this conversation. Chunk: {agent1Input}",
        "returnToUser": False,
    },
    {
        "id": "agent2",
        "type": "Standard",
        "prompt": "Chunk: {agent1Input}. Topics: {agent1Output}. Write a JSON array of objects with 'title', "
        "'summary', 'entities' and 'key_phrases'.",
        "returnToUser": True,
    },
]
FILE_WORKFLOW = [
    {
        "id": "agent1",
        "type": "Standard",
        "prompt": "New: {agent1Input} Recent: {agent2Input} All: {agent3Input} Summary: {agent4Input} "
        "Write one paragraph.",
        "returnToUser": True,
    }
]
TOPICS = [
    {
        "title": "Heron lamp",
        "summary": "The Heron lamp is launched on 12 May 2026 and costs 49 euros.",
        "entities": ["Heron"],
        "key_phrases": ["launch date", "price of the lamp"],
    },
    {
        "title": "Carla's move",
        "summary": "Carla moves to a flat with a garden in Turin.",
        "entities": ["Carla", "Turin"],
        "key_phrases": ["flat with a garden"],
    },
]


@pytest.fixture
def talk(desk):
    """A discussion of which one chunk is due."""
    desk.write(config_json=CONFIG)
    desk.write(**{"Workflows__my-vector-memory-workflow_json": VECTOR_WORKFLOW})
    desk.write(**{"Workflows__my-file-memory-workflow_json": FILE_WORKFLOW})
    desk.done("init")
    desk.done("discussion", "record", "lamp", desk.say(*LAMP, *AFTER), "--no-update")
    return desk


def memories(desk):
    return [each["item"] for each in desk.json("discussion", "show", "lamp", "--memories", "20")["memories"]]


def test_the_config_with_three_keys_has_the_vector_workflow_make_the_memories(talk):
    talk.write(answers_json=["Heron lamp; Carla's move", json.dumps(TOPICS)])
    made = talk.json("discussion", "update", "lamp", "--config", "config.json", "--scripted", "answers.json")
    assert (made["made"]["done"], made["made"]["usage"]["requests"]) == (1, 2)
    kept = memories(talk)
    assert [{name: item[name] for name in TOPICS[0]} for item in kept] == TOPICS
    found = talk.done("discussion", "search", "lamp", "flat with a garden", "--what", "memories", "--mode", "keywords")
    assert "Carla" in found


def test_the_same_config_without_the_flag_has_the_file_workflow_make_one_text_block(talk):
    talk.write(config_json={**CONFIG, "useVectorForQualityMemory": False})
    block = "The Heron lamp is launched on 12 May 2026.\n\nCarla moves to Turin in June."
    talk.write(answers_json=[block])
    made = talk.json("discussion", "update", "lamp", "--config", "config.json", "--scripted", "answers.json")["made"]
    assert (made["done"], made["failed"], made["usage"]["requests"]) == (1, 0, 1)
    (item,) = memories(talk)
    assert item["summary"] == block
    assert item["title"] == "The Heron lamp is launched on 12 May 2026."
    assert "Turin" in item["entities"]


def test_a_model_that_answers_with_plain_text_makes_one_memory(talk):
    talk.write(settings_json={"state": False, "summary": False})
    talk.write(answers_json=["The lamp is launched in May and costs 49 euros.", "As I said."])
    flags = ("--config", "settings.json", "--endpoint", "main=scripted", "--scripted", "answers.json")
    made = talk.json("discussion", "update", "lamp", *flags)["made"]
    assert (made["done"], made["failed"]) == (1, 0)
    assert [item["summary"] for item in memories(talk)] == ["The lamp is launched in May and costs 49 euros."]


def test_prompts_may_be_in_the_config_file(talk):
    talk.write(
        prompts_yaml="endpointName: main\nstate: false\nsummary: false\n"
        "systemPrompt: You summarise.\nprompt: 'Summarise this: [TextChunk] Known: [Chat_Summary]'\n"
    )
    talk.write(answers_json={"main": ["One block of text about the lamp."]})
    made = talk.json("discussion", "update", "lamp", "--config", "prompts.yaml", "--scripted", "answers.json")["made"]
    assert (made["done"], made["usage"]["requests"]) == (1, 1)
    assert [item["summary"] for item in memories(talk)] == ["One block of text about the lamp."]


def test_recording_makes_memories_as_the_config_says(talk):
    talk.write(answers_json=["Topics", json.dumps(TOPICS[0])])
    flags = ("--config", "config.json", "--scripted", "answers.json")
    talk.done("discussion", "record", "lamp", "chat.json", *flags)
    assert [item["title"] for item in memories(talk)] == ["Heron lamp"]


def test_a_node_for_quality_memory_uses_the_configured_workflow(talk):
    talk.write(making_json=[{"id": "make", "type": "QualityMemory"}])
    talk.write(answers_json=["Topics", json.dumps(TOPICS)])
    flags = ("--discussion", "lamp", "--config", "config.json", "--scripted", "answers.json")
    assert talk.done("workflow", "run", "making.json", *flags) == "1 chunks were read.\n"
    assert [item["title"] for item in memories(talk)] == [one["title"] for one in TOPICS]


def test_a_node_for_quality_memory_uses_the_only_model_there_is(talk):
    talk.write(making_json=[{"id": "make", "type": "QualityMemory"}])
    talk.write(answers_json=[json.dumps(TOPICS), "# Now\n- The lamp costs 49 euros."])
    flags = ("--discussion", "lamp", "--endpoint", "main=scripted", "--scripted", "answers.json")
    talk.done("workflow", "run", "making.json", *flags)
    assert [item["title"] for item in memories(talk)] == [one["title"] for one in TOPICS]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"useVectorForQualityMemry": True}, "Did you mean 'useVectorForQualityMemory'?"),
        ({"useVectorForQualityMemory": True, "vectorMemoryWorkflowName": "nowhere"}, "There is no workflow 'nowhere'"),
        ({"fileMemoryWorkflowName": "../config"}, "is not a valid workflow name"),
        ({"fileMemoryWorkflowName": "my-file-memory-workflow"}, "no language model was given for its endpoint"),
        (
            {"prompt": "Say something of [nothing]", "endpointName": "main"},
            "No model was given for the endpoint 'main'",
        ),
    ],
)
def test_a_config_that_cannot_work_is_reported_before_anything_is_made(talk, config, said):
    talk.write(config_json=config)
    told = talk.run("discussion", "update", "lamp", "--config", "config.json")
    assert told.code in {2, 3}
    assert said in " ".join(told.err.split())
    assert memories(talk) == []


def test_a_new_type_of_node_is_loaded_by_the_command_line(talk):
    talk.write(
        mynodes_py="""
from treering import NodeSettings, NodeType

def first_five(settings, step):
    memories = step.scene.recollection.all_memories()[:5]
    return "--ChunkBreak--".join(memory.item.summary for memory in memories) or "No memories have been generated yet"

FIRST_FIVE = NodeType("FirstFiveMemories", "the first five memories", NodeSettings, first_five, remembers=True)
"""
    )
    talk.write(first_json=[{"id": "first", "type": "FirstFiveMemories"}])
    run = ("workflow", "run", "first.json", "--discussion", "lamp", "--nodes", "mynodes:FIRST_FIVE")
    assert talk.done(*run) == "No memories have been generated yet\n"
    talk.write(answers_json=["Topics", json.dumps(TOPICS)])
    talk.done("discussion", "update", "lamp", "--config", "config.json", "--scripted", "answers.json")
    assert talk.done(*run) == f"{CHUNK_BREAK.join(one['summary'] for one in TOPICS)}\n"
    assert talk.done("workflow", "check", "first.json", "--nodes", "mynodes:FIRST_FIVE").startswith("ok, 1 node")
    assert talk.run("workflow", "check", "first.json").code == 2


@pytest.mark.parametrize("name", ["mynodes", "no.such.module:X", "json:NOTHING", "json:loads"])
def test_unknown_node_type_is_reported(talk, name):
    talk.write(first_json=[{"id": "first", "type": "RecentMemory"}])
    told = talk.run("workflow", "check", "first.json", "--nodes", name)
    assert told.code == 2
    assert name.partition(":")[0] in told.err


def test_the_last_node_that_returns_to_the_user_wins_with_a_warning(desk):
    desk.write(
        two_json=[
            {"id": "one", "type": "StaticResponse", "content": "first", "returnToUser": True},
            {"id": "two", "type": "StaticResponse", "content": "second", "returnToUser": True},
        ]
    )
    told = desk.run("workflow", "run", "two.json")
    assert (told.code, told.out) == (0, "second\n")
    assert "node 1 (one), node 2 (two)" in told.err
    assert "node 2 (two)" in desk.done("workflow", "check", "two.json")


def test_a_workflow_that_makes_memories_warns_too(talk):
    nodes = [
        {"type": "StaticResponse", "content": text, "returnToUser": True} for text in ("First text.", "Last text.")
    ]
    talk.write(**{"Workflows__my-file-memory-workflow_json": nodes})
    talk.write(config_json={"fileMemoryWorkflowName": "my-file-memory-workflow"})
    told = talk.run("discussion", "update", "lamp", "--config", "config.json")
    assert "node 1, node 2" in told.err
    assert [item["summary"] for item in memories(talk)] == ["Last text."]


def test_a_retriever_says_what_the_document_says_where_there_is_nothing(talk):
    talk.write(recent_json=[{"type": "RecentMemory", "maxTurnsToPull": 5, "maxSummaryChunksFromFile": 3}])
    assert (
        talk.done("workflow", "run", "recent.json", "--discussion", "lamp") == "No memories have been generated yet\n"
    )


def test_keywords_that_are_nowhere_find_nothing(talk):
    talk.write(keywords_json=[{"type": "ConversationalKeywordSearchPerformerTool", "keywords": "{agent1Input}"}])
    run = ("workflow", "run", "keywords.json", "--discussion", "lamp", "--input")
    assert talk.done(*run, "Heron bulb; garden gnome") == "Nothing was found.\n"
    assert "49 euros" in talk.done(*run, "garden gnome; price")


def test_a_short_window_that_begins_like_the_conversation_withdraws_nothing(desk):
    desk.done("init")
    desk.done("discussion", "record", "t", desk.say("yes", "a", "b", "c", "yes", "The code is 4711."), "--no-update")
    window = desk.say("yes", "The code is 4711.", "thanks")
    told = desk.done("discussion", "record", "t", window, "--no-update")
    assert told.startswith("Recorded in t: 1 appended, 2 unchanged, 0 withdrawn; 7 messages now.")


def test_without_a_model_a_decision_is_kept_and_bots_commits_and_pleasantries_are_omitted(desk):
    desk.done("init")
    said = [
        ("bot", "[lamp:main] 1 new commit by Ben:\nab12cd34 (https://example.org/c/ab12cd34): Use oak - Ben"),
        ("Ben", "YAML is bad for us, nobody can edit it by hand. So what now?"),
        ("Ada", "We do XML"),
        ("bot", '[lamp] New branch "xml" was pushed by Ben'),
        ("Ben", "Great, thanks!"),
        *[("Ben", "ok")] * 3,
    ]
    messages = [{"role": "user", "name": name, "content": text} for name, text in said]
    desk.done("discussion", "record", "lamp", desk.say_all(messages))
    shown = desk.json("discussion", "show", "lamp")
    (memory,) = shown["memories"]
    kept = f"{memory['item']['title']} {memory['item']['summary']}"
    assert "Ada: We do XML." in kept
    assert "We do XML" in shown["state"].partition("## Decisions")[2]
    assert not any(word in kept + shown["state"] for word in ("commit", "branch", "bot:", "Great", "thanks"))


@pytest.fixture
def told(talk):
    """The same discussion with its memories and a summary, and its files under the document's names."""
    talk.write(answers_json=["Topics", json.dumps(TOPICS)])
    talk.done("discussion", "update", "lamp", "--config", "config.json", "--scripted", "answers.json")
    talk.write(writing_json=[{"type": "WriteCurrentSummaryToFileAndReturnIt", "input": "They plan the Heron lamp."}])
    talk.done("workflow", "run", "writing.json", "--discussion", "lamp")
    talk.done("discussion", "export", "lamp", "files", "--as", "wilmer")
    return talk


def test_the_files_have_the_documents_names_and_each_memory_the_hash_of_its_last_message(told):
    names = {path.name for path in (told.folder / "files").iterdir()} - {"lamp_state_document.md"}
    assert names == {"lamp_memories.jsonl", "lamp_summary.jsonl", "lamp_vector_memory.db"}
    last = sha256(LAMP[-1].encode()).hexdigest()
    assert read_lines(told.folder / "files" / "lamp_memories.jsonl") == [
        {"text_block": one["summary"], "hash": last} for one in TOPICS
    ]
    assert read_lines(told.folder / "files" / "lamp_summary.jsonl") == [
        {"text_block": "They plan the Heron lamp.", "hash": last}
    ]


def test_the_database_has_the_documents_tables_and_finds_by_keywords(told):
    with closing(sqlite3.connect(told.folder / "files" / "lamp_vector_memory.db")) as database:
        rows = database.execute("SELECT discussion_id, memory_text, metadata_json FROM memories ORDER BY id").fetchall()
        assert [(row[0], row[1]) for row in rows] == [("lamp", one["summary"]) for one in TOPICS]
        assert [{name: json.loads(row[2])[name] for name in TOPICS[0]} for row in rows] == TOPICS
        columns = [row[1] for row in database.execute("PRAGMA table_info(memories_fts)")]
        assert columns == ["title", "summary", "entities", "key_phrases", "memory_text"]
        found = database.execute(
            "SELECT memories.memory_text FROM memories_fts JOIN memories ON memories.id = memories_fts.rowid "
            """WHERE memories_fts MATCH '"launch date" OR "zeppelin"' ORDER BY bm25(memories_fts)"""
        ).fetchall()
        assert found == [(TOPICS[0]["summary"],)]
        (tracked,) = database.execute("SELECT * FROM vector_memory_tracker").fetchall()
        assert tracked == ("lamp", sha256(LAMP[-1].encode()).hexdigest())


def test_the_folder_of_a_discussion_is_exported_for_current_versions(told):
    report = told.done("discussion", "export", "lamp", "all/lamp", "--as", "wilmer-folder")
    assert report == "Exported to all/lamp: 2 memories, 1 version of the summary.\n"
    folder = told.folder / "all" / "lamp"
    names = {path.name for path in folder.iterdir()} - {"state_document.md"}
    assert names == {"memories.json", "chat_summary.json", "vector_memory.db"}
    last = sha256(LAMP[-1].encode()).hexdigest()
    blocks = [{"text_block": one["summary"], "hash": last} for one in TOPICS]
    assert json.loads((folder / "memories.json").read_text(encoding="utf-8")) == blocks
    with closing(sqlite3.connect(folder / "vector_memory.db")) as database:
        logged = database.execute("SELECT discussion_id, message_hash FROM vector_memory_hash_log").fetchall()
        assert logged == [("lamp", last)]
        columns = [row[1] for row in database.execute("PRAGMA table_info(memories_fts)")]
        assert columns == ["title", "summary", "entities", "key_phrases", "memory_text_unweighted"]
        found = database.execute(
            "SELECT memories.memory_text FROM memories_fts JOIN memories ON memories.id = memories_fts.rowid "
            """WHERE memories_fts MATCH '"launching"'"""
        ).fetchall()
        assert found == [(TOPICS[0]["summary"],)]
    told.done("discussion", "import", "lamp", "all/lamp", "--within", "/elsewhere")
    shown = told.json("discussion", "show", "lamp", "--memories", "20", "--within", "/elsewhere")
    assert [each["item"]["title"] for each in shown["memories"]] == [one["title"] for one in TOPICS]


RANKED = [
    ("In the hall", "The Heron lamp stands in the hall, beside a chair, a table, a mirror, a clock and two pictures."),
    ("Garden", "Carla has a garden in Turin, with roses."),
    ("Cost", "The Heron lamp costs 49 euros: that is its price."),
    ("Price", "The price of the Heron lamp is a good price."),
]


def test_what_is_found_is_ranked_by_bm25(talk):
    items = [{"title": title, "summary": text, "entities": [], "key_phrases": []} for title, text in RANKED]
    talk.write(answers_json=["Topics", json.dumps(items)])
    talk.done("discussion", "update", "lamp", "--config", "config.json", "--scripted", "answers.json")
    talk.done("discussion", "export", "lamp", "files", "--as", "wilmer")
    with closing(sqlite3.connect(talk.folder / "files" / "lamp_vector_memory.db")) as database:
        rows = database.execute(
            "SELECT memories.memory_text FROM memories_fts JOIN memories ON memories.id = memories_fts.rowid "
            """WHERE memories_fts MATCH '"heron lamp" OR "price"' ORDER BY bm25(memories_fts)"""
        ).fetchall()
    best_first = [RANKED[at][1] for at in (3, 2, 0)]
    assert [text for (text,) in rows] == best_first
    talk.write(search_json=[{"type": "VectorMemorySearch", "input": "heron lamp; price", "customDelimiter": "\n"}])
    assert talk.done("workflow", "run", "search.json", "--discussion", "lamp").splitlines() == best_first


def test_the_files_under_the_documents_names_come_in_again_each_memory_once(told):
    told.done("discussion", "import", "lamp", "files", "--within", "/elsewhere")
    shown = told.json("discussion", "show", "lamp", "--memories", "20", "--within", "/elsewhere")
    kept = [{name: each["item"][name] for name in TOPICS[0]} for each in shown["memories"]]
    assert kept == TOPICS
    assert shown["summary"] == "They plan the Heron lamp."
    again = told.done("discussion", "import", "lamp", "files", "--within", "/elsewhere")
    assert "0 messages, 0 memories, 0 versions" in again


@pytest.mark.parametrize("name", ["lamp_memories.jsonl", "lamp_vector_memory.db", "lamp_summary.jsonl"])
def test_each_file_under_the_documents_names_comes_in_alone(told, name):
    told.done("discussion", "import", "other", f"files/{name}")
    shown = told.json("discussion", "show", "other", "--memories", "20")
    wanted = "They plan the Heron lamp." if "summary" in name else TOPICS[0]["summary"]
    assert wanted in [shown["summary"], *(each["item"]["summary"] for each in shown["memories"])]


@pytest.mark.parametrize(("name", "tells_of"), [("lamp_memories.jsonl", (0, 4)), ("lamp_vector_memory.db", (-1, -1))])
def test_messages_that_imported_memories_tell_of_are_not_paid_for_again(told, name, tells_of):
    told.done("discussion", "record", "again", told.say(*LAMP, *AFTER), "--no-update")
    told.done("discussion", "import", "again", f"files/{name}")
    told.write(answers_json=["nobody asks for this"])
    made = told.json("discussion", "update", "again", "--config", "config.json", "--scripted", "answers.json")["made"]
    assert (made["done"], made["empty"], made["usage"]["requests"]) == (0, 0, 0)
    told.done("discussion", "record", "again", told.say(*LAMP, *AFTER, *(f"More {n}" for n in range(5))), "--no-update")
    told.write(answers_json=["Topics", json.dumps(TOPICS[0])])
    made = told.json("discussion", "update", "again", "--config", "config.json", "--scripted", "answers.json")["made"]
    assert made["done"] == 1
    shown = told.json("discussion", "show", "again", "--memories", "20")["memories"]
    assert [(each["first"], each["last"]) for each in shown] == [tells_of, tells_of, (5, 9)]


def test_messages_recorded_after_the_import_are_tied_to_it_by_another_one(told):
    for _ in range(2):
        told.done("discussion", "import", "again", "files/lamp_vector_memory.db")
        told.done("discussion", "record", "again", told.say(*LAMP, *AFTER), "--no-update")
    made = told.json("discussion", "update", "again")["made"]
    assert (made["done"], made["empty"]) == (0, 0)


def test_a_discussion_without_memories_goes_out_and_in(told):
    told.done("discussion", "record", "oak", told.say("a", "b"))
    told.done("discussion", "export", "oak", "oaks", "--as", "wilmer")
    assert "0 memories" in told.done("discussion", "import", "third", "oaks")


def test_our_own_files_carry_hashes_beside_positions(told):
    told.done("discussion", "export", "lamp", "own")
    messages = read_lines(told.folder / "own" / "messages.jsonl")
    assert [line["hash"] for line in messages] == [sha256(text.encode()).hexdigest() for text in (*LAMP, *AFTER)]
    for name, position in {"memories.jsonl": "last", "summary.jsonl": "position"}.items():
        for line in read_lines(told.folder / "own" / name):
            assert line["hash"] == messages[line[position]]["hash"]


def test_a_folder_of_several_discussions_asks_which(told):
    told.done("discussion", "record", "oak", told.say("a", "b"))
    told.done("discussion", "export", "oak", "files", "--as", "wilmer")
    answer = told.run("discussion", "import", "third", "files")
    assert answer.code == 2
    assert "lamp, oak" in answer.err


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

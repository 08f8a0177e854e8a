import json
import subprocess
import sys
from dataclasses import replace

import pytest
from recollection_parts import BEGAN, SETTINGS, TALK, Script, item, opened, said, summaries, talked

from space_parts import records
from treering.core.errors import NotFound, Unavailable
from treering.extensions.discussions.folder import read_discussion, write_discussion
from treering.extensions.discussions.search import DiscussionSearch

ODD = (*TALK, "a\n\n---\n\nb\u2028c", "ok", 'x "y" --> z', "the end")
CONDENSING = replace(SETTINGS, condense_every=2, condense_after=1, min_per_summary=1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "exported"


@pytest.fixture
def other(open_space):
    return open_space()


def told(space, settings=CONDENSING):
    """A discussion with everything a discussion can have."""
    script = Script(items_of=lambda text: () if text == "ok" else (item(text, entities=("Ada",)),))
    discussion = talked(space, *ODD, script=script, settings=settings)
    discussion.edit_state(discussion.state().replace("- It leaks", "- It leaks a little --> in the stern"))
    discussion.delete([3])
    discussion.update()
    return discussion


def answers(discussion):
    """Everything a discussion says, but for ids."""
    found = discussion.search("Ada boat", DiscussionSearch(what="both", mode="natural"))
    return {
        "messages": [(kept.position, kept.role, kept.text, kept.at, kept.deleted) for kept in discussion.messages()],
        "all": [replace(memory, id="") for memory in discussion.all_memories()],
        "recent": summaries(discussion.recent_memories(3)),
        "newer": summaries(discussion.newer_memories()),
        "summary": discussion.summary(),
        "state": discussion.state(),
        "found": [(one.kind, one.text, one.first, one.at) for one in found],
    }


def lines(folder, name):
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def test_a_discussion_that_went_through_files_gives_the_same_answers(space, other, folder):
    discussion = told(space)
    counts = write_discussion(discussion, folder)
    assert counts == {
        "messages.jsonl": 10,
        "chunks.jsonl": 9,
        "memories.jsonl": counts["memories.jsonl"],
        "summary.jsonl": counts["summary.jsonl"],
    }
    script = Script()
    again = opened(other, script, CONDENSING)
    imported = read_discussion(again, folder)
    assert imported.rejected == ()
    assert imported.state
    assert answers(again) == answers(discussion)
    again.update()
    assert (script.folded, script.merged) == ([], []), "nothing is paid for again"
    assert answers(again) == answers(discussion)


def test_the_files_are_written_again_just_so(space, other, folder, tmp_path):
    write_discussion(told(space), folder)
    again = opened(other, settings=CONDENSING)
    read_discussion(again, folder)
    write_discussion(again, tmp_path / "second")
    for name in ("messages.jsonl", "chunks.jsonl", "memories.jsonl"):
        assert lines(tmp_path / "second", name) == lines(folder, name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_exported_files_are_private_and_follow_no_links(space, folder, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("untouched")
    outside.chmod(0o644)
    folder.mkdir()
    for name in write_discussion(told(space), tmp_path / "other"):
        (folder / name).symlink_to(outside)
    names = write_discussion(told(space), folder)
    assert outside.read_text() == "untouched"
    assert {(folder / name).lstat().st_mode for name in names} == {0o100600}


def test_imported_branches_continue(space, other, folder):
    discussion, chats = opened(space, identity="both"), [["a1", "a2"], ["b1", "b2"]]
    for chat in chats:
        discussion.record(said(*chat))
    write_discussion(discussion, folder)
    imported = opened(other, identity="both")
    read_discussion(imported, folder)
    for chat in chats:
        assert imported.record(said(*chat, f"{chat[0]} more", "and more")).withdrawn == 0

    assert [line.get("after") for line in map(json.loads, lines(folder, "messages.jsonl"))] == [None, None, 0, None]
    assert [kept.text for kept in imported.messages()] == [
        "a1",
        "a2",
        "b1",
        "b2",
        "a1 more",
        "and more",
        "b1 more",
        "and more",
    ]


def test_a_position_far_behind_all_others_is_rejected(space, other, folder):
    write_discussion(told(space), folder)
    with (folder / "messages.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"position": 900000000000, "role": "user", "text": "far away"}\n')
    discussion = opened(other)
    imported = read_discussion(discussion, folder)

    assert len(discussion.messages()) == 10
    assert any("900000000000" in why for why in imported.rejected)


def test_what_was_withdrawn_is_not_written(space, folder):
    discussion = told(space)
    discussion.delete([0])
    write_discussion(discussion, folder)
    assert TALK[0] not in "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())


def test_a_damaged_line_is_reported_and_the_rest_is_kept(space, other, folder):
    write_discussion(talked(space), folder)
    for name, at in (("messages.jsonl", 4), ("memories.jsonl", 1), ("summary.jsonl", 0)):
        kept = lines(folder, name)
        kept[at] = kept[at][: len(kept[at]) // 2]
        (folder / name).write_text("\n".join([*kept, ""]), encoding="utf-8")
    again = opened(other)
    imported = read_discussion(again, folder)
    assert [each.partition(":")[0] for each in imported.rejected] == [
        "messages.jsonl line 5",
        "memories.jsonl line 2",
        "memories.jsonl",
        "summary.jsonl line 1",
    ]
    assert [kept.text for kept in again.messages()] == [*TALK[:4], "", TALK[5]]
    assert summaries(again.all_memories()) == [TALK[0], *TALK[2:4], TALK[5]]


def test_memories_alone_are_of_no_messages_and_a_state_document_alone_is_imported(space, other, folder):
    write_discussion(talked(space), folder)
    for name in ("messages.jsonl", "chunks.jsonl", "summary.jsonl"):
        (folder / name).unlink()
    again = opened(other)
    imported = read_discussion(again, folder)
    assert imported.rejected == ("memories.jsonl: 6 refer to messages that are missing",)
    assert again.state() == "\n".join(f"- {text}" for text in TALK)


def test_an_edited_state_document_is_merged_with_what_came_since(space, folder):
    discussion = talked(space, *TALK[:2])
    write_discussion(discussion, folder)
    discussion.append(said(TALK[2], start=2))
    discussion.update()
    file = folder / "state.md"
    file.write_text(
        file.read_text(encoding="utf-8").replace("- Ben paints it", "- Ben paints it blue"), encoding="utf-8"
    )
    imported = read_discussion(discussion, folder)
    assert (imported.state, imported.messages, imported.rejected) == (True, 0, ())
    assert discussion.state() == f"- {TALK[0]}\n- Ben paints it blue\n- {TALK[2]}"
    assert summaries(discussion.all_memories()) == list(TALK[:3]), "an older export rewinds nothing"
    before = records(space)
    write_discussion(discussion, folder)
    assert not read_discussion(discussion, folder).state
    assert records(space) == before


def test_a_state_document_of_another_discussion_changes_nothing(space, folder):
    write_discussion(talked(space, identity="other"), folder)
    discussion = talked(space, "Something else")
    imported = read_discussion(discussion, folder)
    assert not imported.state
    assert imported.rejected == ("state.md: it is based on a version that this discussion does not have",)
    assert discussion.state() == "- Something else"


def test_lines_written_by_hand_stay_so_after_an_import(space, other, folder):
    discussion = talked(space, TALK[0])
    discussion.edit_state("- mine -->\n- too")
    write_discussion(discussion, folder)
    again = opened(other, Script(merge_with=lambda _facts, _document: "- generated, and long enough"))
    read_discussion(again, folder)
    again.append(said(TALK[1], start=1))
    again.update()
    assert again.state() == "- generated, and long enough\n- mine -->\n- too"


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_other(space, folder, tmp_path):
    discussion = talked(space)
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable):
        write_discussion(discussion, tmp_path / "file")
    write_discussion(discussion, folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "chunks.jsonl",
        "memories.jsonl",
        "messages.jsonl",
        "state.md",
        "summary.jsonl",
    ]


def test_a_folder_without_a_discussion_is_refused(space, tmp_path):
    with pytest.raises(NotFound):
        read_discussion(opened(space), tmp_path)


def test_each_line_of_the_files_is_plain_json(space, folder):
    write_discussion(talked(space), folder)
    first = json.loads(lines(folder, "memories.jsonl")[0])
    assert first["memory"] == {"title": TALK[0], "summary": TALK[0]}
    assert (first["first"], first["last"], first["at"]) == (0, 0, f"{BEGAN:%Y-%m-%dT%H:%M:%SZ}")
    version = json.loads(lines(folder, "summary.jsonl")[0])
    assert (version["number"], version["position"], version["made_by"]) == (1, 2, "script")


def test_a_state_document_of_nothing_but_marks_is_no_work_without_end():
    # In the square of the length this would take hours; the time limit only ends that.
    script = """
from treering.extensions.discussions.files import STATE, read_state
for text in ("<!-- treering: {", "<!-- treering: {} -->", "<!-- treering: {} -->" + " " * 9):
    read_state({STATE: text * 200_000 + "x"})
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

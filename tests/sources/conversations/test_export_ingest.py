"""Exports through the verb `ingest`: what is new is added, what is the same stays the same."""

import json
from pathlib import Path

import pytest
from export_parts import ONE, TWO, chatgpt, claude_line, lines, packed, slack

from treering.core.fencing import fence
from treering.extensions.conversations.exports import ConversationFormat, ExportBounds
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, SourceDraft
from treering.ports.format import Formats
from treering.sources.path import PathAdapter
from treering.sources.reading.binary import ZipBounds

TALK = (("user", "Green or black tea?"), ("assistant", "Green tea."), ("user", "ok"), ("assistant", "Enjoy."))
FIRST, SECOND = f"chatgpt:{ONE}", f"chatgpt:{TWO}"


def export(folder: Path, *conversations: object, name: str = "conversations.json") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(conversations))
    return file


def ingest(space, path):
    return space.ingest("path", input={"path": str(path)})


def outcomes(report):
    return {item.origin: item.outcome for item in report.items}


def held(space, origin):
    state = space.engine.ledger.sources(scope="/", root=origin)[origin]
    return space.engine.ledger.get(state.id)


def test_each_conversation_is_a_source_with_turns(space, tmp_path: Path) -> None:
    report = ingest(space, export(tmp_path, chatgpt(*TALK), chatgpt(("user", "Hi"), identity=TWO, title="Hello")))
    assert (report.status, outcomes(report)) == ("ok", {FIRST: "created", SECOND: "created"})
    source = held(space, FIRST)
    assert (source.kind, source.title, source.metadata["format"]) == ("conversation", "Tea", "chatgpt")
    assert [(one.locator.turn, one.locator.speaker, one.excerpt) for one in source.segments] == [
        (at, role, text) for at, (role, text) in enumerate(TALK)
    ]
    assert all(one.locator.chain and one.locator.at and one.locator.message_id for one in source.segments)
    assert space.query("search", input={"text": "black tea"}).hits[0].title == "Tea"


def test_the_same_export_again_changes_nothing_wherever_it_is(space, tmp_path: Path) -> None:
    ingest(space, export(tmp_path, chatgpt(*TALK)))
    (tmp_path / "export.zip").write_bytes(packed({"conversations.json": [chatgpt(*TALK)]}))
    for path in (tmp_path / "conversations.json", tmp_path / "export.zip", tmp_path):
        report = ingest(space, path)
        assert (report.status, report.job, set(report.counts)) == ("unchanged", "", {"unchanged"})


def test_what_was_said_since_is_added_and_earlier_turns_keep_their_ids(space, tmp_path: Path) -> None:
    ingest(space, export(tmp_path, chatgpt(*TALK[:2])))
    before = [one.segment_id for one in held(space, FIRST).segments]
    report = ingest(space, export(tmp_path / "newer", chatgpt(*TALK)))
    assert (outcomes(report), report.warnings) == ({FIRST: "updated"}, ())
    after = [one.segment_id for one in held(space, FIRST).segments]
    assert (after[:2], len(after)) == (before, 4)


def test_an_answer_made_anew_is_reported_and_what_rests_on_the_old_one_is_stale(space, tmp_path: Path) -> None:
    ingest(space, export(tmp_path, chatgpt(*TALK)))
    source = held(space, FIRST)
    ref = {"source_id": source.id, "segment_id": source.segments[3].segment_id}
    decision = {"question": "Which tea?", "outcome": "Green"}
    given = {"kind": "decision", "title": "Tea", "payload": decision, "evidence_refs": [ref], "status": "active"}
    made = space.crystallize("knowledge", input=given)
    other = chatgpt(*TALK[:1], ("assistant", "Black tea."), ("user", "ok"), ("assistant", "Good."), update_time=1.8e9)
    report = ingest(space, export(tmp_path, other))
    (item,) = report.items
    assert (item.outcome, item.why) == ("updated", "diverges at turn 1: 2 turns replaced")
    assert f"{FIRST}: diverges at turn 1: 2 turns replaced" in report.warnings
    assert report.staled == tuple(identity for identity in made.ids if identity.startswith("know:"))


def test_an_older_export_does_not_take_the_place_of_a_newer_one(space, tmp_path: Path) -> None:
    export(tmp_path, chatgpt(*TALK), name="a-new.json")
    export(tmp_path, chatgpt(*TALK[:2]), name="b-old.json")
    ingest(space, tmp_path)
    assert len(held(space, FIRST).segments) == 4
    again = ingest(space, tmp_path)
    assert (again.status, again.job, outcomes(again)) == ("unchanged", "", {FIRST: "skipped"})


def test_a_slack_export_of_a_shorter_time_adds_to_a_longer_one(space, tmp_path: Path) -> None:
    days = {
        f"tea/2026-01-{day}": [{"type": "message", "user": "U00000ADA", "text": f"Tea {day}", "ts": f"17684{day}200.1"}]
        for day in (15, 16, 17)
    }
    whole, shorter = tmp_path / "whole.zip", tmp_path / "shorter.zip"
    whole.write_bytes(slack({day: days[day] for day in sorted(days)[:2]}))
    shorter.write_bytes(slack({day: days[day] for day in sorted(days)[1:]}))
    ingest(space, whole)
    (item,) = ingest(space, shorter).items
    assert (item.outcome, item.why) == ("updated", "earlier turns retained that are missing from it: 1")
    assert [one.excerpt for one in held(space, item.origin).segments] == ["Tea 15", "Tea 16", "Tea 17"]
    whole.write_bytes(slack(days))
    ingest(space, whole)
    assert [one.excerpt for one in held(space, item.origin).segments] == ["Tea 15", "Tea 16", "Tea 17"]


@pytest.mark.parametrize("identity", [TWO, "c2"])
def test_a_conversation_that_a_newer_export_omits_stays(space, tmp_path: Path, identity: str) -> None:
    ingest(space, export(tmp_path, chatgpt(*TALK), chatgpt(("user", "Hi"), identity=identity)))
    for path in (tmp_path / "conversations.json", tmp_path):
        report = ingest(space, path)
        assert "removed" not in report.counts
    report = ingest(space, export(tmp_path, chatgpt(*TALK)))
    assert report.counts == {"unchanged": 1}


def test_ids_that_are_not_unique_everywhere_belong_to_their_file(space, tmp_path: Path) -> None:
    export(tmp_path, chatgpt(("user", "Hi"), identity="c1"), name="a.json")
    export(tmp_path, chatgpt(("user", "Hello"), identity="c1"), name="b.json")
    report = ingest(space, tmp_path)
    assert [item.origin.rpartition("/")[2] for item in report.items] == ["a.json#c1", "b.json#c1"]
    (tmp_path / "a.json").unlink()
    assert ingest(space, tmp_path).counts == {"removed": 1, "unchanged": 1}


def test_recalled_text_is_dropped_and_secrets_are_redacted(space, tmp_path: Path) -> None:
    key = "sk-proj-" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0" * 2
    recalled = fence("Tea is green.", origin="note:tea")
    ingest(space, export(tmp_path, chatgpt(("user", f"{recalled}\nMy key is {key}"), ("assistant", recalled))))
    text = "\n".join(one.excerpt for one in held(space, FIRST).segments)
    assert "My key is [redacted:" in text
    assert "Tea is green" not in text


def test_a_line_that_cannot_be_read_is_an_item_of_the_report(space, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(lines(claude_line("user", "Hi"), '{"type": "us'))
    report = ingest(space, tmp_path)
    assert report.status == "partial"
    assert (report.items[0].outcome, report.items[0].origin.rpartition("#")[2]) == ("failed", "line-2")
    assert outcomes(report)[f"claude-code:{ONE}"] == "created"


def test_a_session_that_goes_on_is_added_to(space, tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    session.write_text(lines(claude_line("user", "Hi")))
    ingest(space, tmp_path)
    session.write_text(lines(claude_line("user", "Hi"), claude_line("assistant", "Hello")))
    report = ingest(space, tmp_path)
    assert (report.counts, report.warnings) == ({"updated": 1}, ())


def test_a_text_that_becomes_a_transcript_is_the_same_source(space, tmp_path: Path) -> None:
    notes = tmp_path / "meeting.txt"
    notes.write_text("To be written.\n")
    ingest(space, notes)
    notes.write_text("Ada: Tea?\nBob: Yes.\n")
    report = ingest(space, notes)
    ((origin, outcome),) = outcomes(report).items()
    assert (outcome, held(space, origin).kind) == ("updated", "meeting_record")


def test_a_file_kept_as_a_file_before_gives_way_to_its_conversations(space, tmp_path: Path) -> None:
    file = export(tmp_path, 1, 2, 3)
    ingest(space, file)
    export(tmp_path, chatgpt(*TALK), chatgpt(("user", "Hi"), identity=TWO))
    assert ingest(space, file).counts == {"created": 2, "removed": 1}


def test_conversation_without_messages_is_skipped(space, tmp_path: Path) -> None:
    report = ingest(space, export(tmp_path, chatgpt(), chatgpt(("user", "Hi"), identity=TWO)))
    assert outcomes(report) == {FIRST: "skipped", SECOND: "created"}


def test_an_export_may_be_far_larger_than_other_files(tmp_path: Path) -> None:
    file = export(tmp_path, *(chatgpt(("user", "tea " * 50), identity=f"c{at}") for at in range(20)))
    readings = PathAdapter().read(str(file), known=AlreadyRead(), limits=ReadLimits(max_file_bytes=1_000), options={})
    assert sum(isinstance(one, SourceDraft) for one in readings) == 20


def test_a_conversation_over_its_own_limit_fails_alone(tmp_path: Path) -> None:
    file = export(tmp_path, chatgpt(("user", "tea " * 50)), chatgpt(("user", "Hi"), identity=TWO))
    adapter = PathAdapter(Formats((), (ConversationFormat(ExportBounds(max_conversation_chars=100, zip=ZipBounds())),)))
    found = list(adapter.read(str(file), known=AlreadyRead(), limits=ReadLimits(), options={}))
    assert [type(one) for one in found] == [Failed, SourceDraft]


@pytest.mark.parametrize("name", ["c.json", "c.jsonl"])
def test_what_is_too_large_to_be_parsed_fails_alone(tmp_path: Path, name: str) -> None:
    talks = [{"messages": [{"role": "user", "content": "tea " * times}]} for times in (1, 100, 2)]
    (tmp_path / name).write_text(lines(*talks) if name.endswith("l") else json.dumps(talks))
    adapter = PathAdapter(Formats((), (ConversationFormat(ExportBounds(max_part_bytes=200)),)))
    found = list(adapter.read(str(tmp_path / name), known=AlreadyRead(), limits=ReadLimits(), options={}))
    assert [type(one) for one in found] in ([SourceDraft, Failed, SourceDraft], [SourceDraft, SourceDraft, Failed])
    assert [one.why for one in found if isinstance(one, Failed)] == ["it exceeds the limit max_part_bytes of 200 bytes"]


def test_other_files_of_a_folder_are_read_as_before(space, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "acme", "messages": {"hi": "Hallo"}}')
    (tmp_path / "notes.md").write_text("# Notes\n\nOne thing: tea.\n")
    (tmp_path / "a.zip").write_bytes(packed({"a.txt": b"x"}))
    ingest(space, tmp_path)
    root = f"file:{tmp_path.resolve().as_posix()}"
    kinds = {name: held(space, f"{root}/{name}").kind for name in ("package.json", "notes.md", "a.zip")}
    assert kinds == {"package.json": "file", "notes.md": "markdown", "a.zip": "file"}


def claude_rows(*texts, session=ONE):
    roles = ("user", "assistant")
    return [
        claude_line(roles[at % 2], text, uuid=text, sessionId=session, timestamp=f"2026-01-15T10:{at:02}:00Z")
        for at, text in enumerate(texts)
    ]


SESSION = ("The pump uses port 7411.", "Noted.", "Keep the limit at four.", "It is four.")


def test_a_compacted_session_keeps_what_was_said_before(space, tmp_path: Path) -> None:
    file, later = tmp_path / "session.jsonl", ("Rename the valve.", "Renamed.")
    summary = claude_line("user", "The pump uses 7411; the limit is four.", uuid="s", isCompactSummary=True)
    file.write_text(lines(*claude_rows(*SESSION)))
    ingest(space, file)
    file.write_text(lines(summary, *claude_rows(*SESSION, *later)[4:]))
    (item,) = ingest(space, file).items
    assert item.why == "earlier turns retained that are missing from it: 4"
    assert [one.excerpt for one in held(space, item.origin).segments] == [*SESSION, *later]


def test_a_forked_session_is_found_once_per_turn(space, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(lines(*claude_rows(*SESSION)))
    (tmp_path / "two.jsonl").write_text(lines(*claude_rows(*SESSION, "Use port 7500 in the fork.", session=TWO)))
    ingest(space, tmp_path)
    hits = space.query("search", input={"text": "which port does the pump use"}, options={"limit": 20}).hits
    texts = [hit.text for hit in hits]
    assert len(texts) == len({*texts})
    assert "Use port 7500 in the fork." in texts

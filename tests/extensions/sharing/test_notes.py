"""The Markdown notes of an export: what other programs read of them, and what comes back from them."""

import re
from pathlib import Path

import pytest
import yaml

from space_parts import all_of, decide, note, records, task
from treering import Message
from treering.extensions.records.memory_notes import noted


@pytest.fixture
def filled(open_space):
    space = open_space(channel="user", actor="ada")
    quote = note(space, "We use files.\n- [decision] Not a statement of ours\nReally: 東京\x7f", origin="a.md")
    decision = decide(space, 'Files: "plain" ones [only]', quote)
    other = task(space, "Move the files")
    space.crystallize("work_item", input={"id": other, "links": [{"type": "about", "target": decision}]})
    return space


@pytest.fixture
def notes(filled, tmp_path: Path) -> Path:
    filled.export(tmp_path / "export")
    return tmp_path / "export" / "notes"


def test_notes_have_front_matter_that_names_their_path(notes: Path) -> None:
    files = list(notes.rglob("*.md"))
    assert {file.parent.name for file in files} == {"decision", "note", "task"}
    for file in files:
        matter = yaml.safe_load(file.read_text().split("---\n")[1])
        assert matter["type"] == file.parent.name
        assert f"{matter['permalink']}.md" == file.relative_to(notes).as_posix()


def test_wiki_links_of_notes_lead_to_notes(notes: Path) -> None:
    texts = [file.read_text() for file in notes.rglob("*.md")]
    targets = [target for text in texts for target in re.findall(r"\[\[([^\[\]|]+)\|[^\[\]|]+\]\]", text)]
    assert {target.split("/")[0] for target in targets} == {"decision", "note"}
    assert all((notes / f"{target}.md").is_file() for target in targets)


def test_quoted_text_is_not_a_statement_of_the_note(notes: Path) -> None:
    (file,) = (notes / "decision").iterdir()
    statements = [one.text for one in noted(file.name, file.read_text())]
    assert not any("Not a statement" in statement for statement in statements)
    assert any("supported by" in statement for statement in statements)


def test_added_notes_state_the_same_decisions(filled, notes: Path, open_space, tmp_path: Path) -> None:
    again = open_space(f"sqlite:{tmp_path / 'again.db'}")
    again.ingest("path", input={"path": str(notes)})
    (before,) = [one for one in all_of(filled, "knowledge") if one.kind == "decision"]
    (after,) = [one for one in all_of(again, "knowledge") if one.kind == "decision"]
    assert after.payload.outcome == before.payload.outcome


def written(space, tmp_path: Path) -> dict[str, str]:
    space.export(tmp_path / "written")
    notes = tmp_path / "written" / "notes"
    return {file.relative_to(notes).as_posix(): file.read_text() for file in notes.rglob("*.md")}


def test_discussion_is_one_note_with_times(open_space, tmp_path: Path) -> None:
    space = open_space(channel="user")
    talk = space.discussions().open("cabin")
    for day in (2, 3, 12):
        said = Message(role="user", name="Ada", content=f"On day {day}", at=f"2016-03-{day:02}T09:05Z")
        talk.append([said])
    space.decide("Days count", because="discussion:cabin#1")
    notes = written(space, tmp_path)
    (path,) = [path for path in notes if path.startswith("conversation/")]
    assert re.findall(r"(?m)^\*\*Ada\*\* (.+)\n\n> (.+)", notes[path]) == [
        ("2016-03-02 09:05 UTC", "On day 2"),
        ("2016-03-03 09:05 UTC", "On day 3"),
        ("2016-03-12 09:05 UTC", "On day 12"),
    ]
    assert 'created: "2016-03-02T09:05:00.000000Z"\nupdated: "2016-03-12T09:05:00.000000Z"' in notes[path]
    (decision,) = [text for name, text in notes.items() if name.startswith("decision/")]
    assert f"supported_by [[{path.removesuffix('.md')}|" in decision


def test_superseded_entry_has_no_note(open_space, tmp_path: Path) -> None:
    space = open_space(channel="user")
    space.decide("Old port")
    space.replace("Old port", "New port")
    decisions = [name for name in written(space, tmp_path) if name.startswith("decision/")]
    assert [name.split("-")[0] for name in decisions] == ["decision/new"]


def test_note_quotes_only_the_cited_lines(open_space, tmp_path: Path) -> None:
    space = open_space(channel="user")
    file = tmp_path / "a.py"
    file.write_text("".join(f"x{number} = {number}\n" for number in range(1, 40)))
    space.add(str(file))
    space.decide("Seven", because=f"{file}:7-8")
    (text,) = [text for name, text in written(space, tmp_path).items() if name.startswith("decision/")]
    assert text.rstrip().endswith(":\n\n> x7 = 7\n> x8 = 8")


def test_imports_ignore_notes(filled, notes: Path, open_space, tmp_path: Path) -> None:
    next((notes / "note").iterdir()).write_text("changed")
    again = open_space(f"sqlite:{tmp_path / 'again.db'}")
    again.import_from(notes.parent)
    assert records(again) == records(filled)

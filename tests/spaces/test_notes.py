"""The Markdown notes of an export: what other programs read of them, and what comes back from them."""

import re
from pathlib import Path

import pytest
import yaml

from space_parts import all_of, decide, note, records, task
from treering.sources.memory import noted


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


def test_imports_ignore_notes(filled, notes: Path, open_space, tmp_path: Path) -> None:
    next((notes / "note").iterdir()).write_text("changed")
    again = open_space(f"sqlite:{tmp_path / 'again.db'}")
    again.import_from(notes.parent)
    assert records(again) == records(filled)

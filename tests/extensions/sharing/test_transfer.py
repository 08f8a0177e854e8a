import json
import shutil

import pytest

from space_parts import decide, note, records, task
from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, TreeringError, Unavailable
from treering.extensions.sharing.transfer import FILES


@pytest.fixture
def filled(open_space):
    space = open_space(channel="user", actor="ada")
    quote = note(space, "We use SQLite. 東京 ✓\u2028 and \0 too", origin="a.md")
    known = decide(space, "SQLite", quote, options={"idempotency_key": "k", "reason": "asked"})
    note(space, "We use files.", origin="a.md")
    other = note(space, "We use files, really.", origin="b.md")
    new = decide(space, "Files", other)
    space.crystallize("supersede", input={"id": known, "by": new})
    erased = note(space, "Wilhelmina lives here.", origin="c.md")
    space.erase([erased["source_id"]])
    space.crystallize("work_item", input={"id": task(space, "Move"), "links": [{"type": "about", "target": new}]})
    return space


@pytest.fixture
def export(filled, tmp_path):
    filled.export(tmp_path / "export")
    return tmp_path / "export"


def refused(space, error, folder):
    with pytest.raises(error) as caught:
        space.import_from(folder)
    assert caught.value.hint
    assert records(space) == []
    return caught.value


def test_a_space_comes_back_with_the_same_records_ids_and_audit(open_space, filled, export, tmp_path):
    again = open_space(f"sqlite:{tmp_path / 'again.db'}")
    counts = again.import_from(export)
    assert records(again) == records(filled)
    assert again.engine.ledger.verify() == filled.engine.ledger.verify()
    assert sum(counts.values()) == len(records(filled))
    assert again.lint("reindex").differences == ()


def test_what_comes_back_is_found_and_goes_on(open_space, export):
    again = open_space()
    again.import_from(export)
    assert again.query("search", input={"text": "東京"}, options={"as_of": 2}).hits
    assert again.query("search", input={"text": "files"}).hits
    decide(again, "Something new")
    assert again.lint("audit").verified


def test_a_retry_after_the_move_still_gives_the_first_receipt(open_space, filled, tmp_path):
    given = {"title": "Ours", "kind": "preference", "payload": {"statement": "Ours"}}
    options = {"idempotency_key": "here"}
    for scope in ("/", "/a"):
        filled.crystallize("knowledge", scope=scope, input=given, options=options)
    filled.export(tmp_path / "second")
    again = open_space()
    again.import_from(tmp_path / "second")
    for scope in ("/", "/a"):
        assert again.crystallize("knowledge", scope=scope, input=given, options=options).receipt.replayed
        with pytest.raises(Conflict):
            again.crystallize("knowledge", scope=scope, input={**given, "title": "Theirs"}, options=options)


def test_the_files_are_plain(export):
    manifest = json.loads((export / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"]) == ("treering-export", 3)
    assert {file.name for file in export.iterdir()} == {
        "manifest.json",
        "blobs",
        "notes",
        "events.jsonl",
        "revisions.jsonl",
        "segments.jsonl",
        "links.jsonl",
        "patches.jsonl",
        "receipts.jsonl",
    }
    texts = {blob.read_text() for blob in (export / "blobs").rglob("*") if blob.is_file()}
    assert "We use files, really." in texts


def test_a_text_that_stands_twice_is_one_file(open_space, tmp_path):
    space = open_space()
    for origin in ("a", "b"):
        note(space, "The same words.", origin=origin)
    space.export(tmp_path / "export")
    assert len([blob for blob in (tmp_path / "export" / "blobs").rglob("*") if blob.is_file()]) == 1


def test_an_empty_space_can_be_moved(open_space, tmp_path):
    open_space().export(tmp_path / "export")
    again = open_space()
    again.import_from(tmp_path / "export")
    assert records(again) == []


def test_a_folder_that_is_there_is_not_written_over(filled, tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(Conflict):
        filled.export(tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(filled, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unavailable):
        filled.export(tmp_path / "file" / "export")


def test_an_export_that_fails_leaves_nothing_behind(open_space, filled, tmp_path, monkeypatch):
    def breaks(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("treering.extensions.sharing.transfer._write_blob", breaks)
    with pytest.raises(Unavailable, match="No space left"):
        filled.export(tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_space_is_filled(open_space, filled, export):
    space = open_space()
    known = decide(space, "Mine")
    before = records(space)
    with pytest.raises(Conflict):
        space.import_from(export)
    assert records(space) == before
    assert space.query("search", input={"text": "mine"}).hits[0].object_id == known


def test_a_folder_without_an_export_is_not_found(open_space, tmp_path):
    refused(open_space(), NotFound, tmp_path)
    refused(open_space(), NotFound, tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"format": "treering-export"}', "\xff"])
def test_a_manifest_that_is_none_is_refused(open_space, export, text):
    (export / "manifest.json").write_text(text, encoding="latin-1")
    refused(open_space(), Corrupt, export)


@pytest.mark.parametrize("change", [{"version": 4}, {"format": "other"}])
def test_an_export_of_another_kind_is_refused(open_space, export, change):
    path = export / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    refused(open_space(), InvalidInput, export)


@pytest.mark.parametrize("table", FILES)
def test_a_missing_file_or_line_is_noticed_and_nothing_is_imported(open_space, export, table):
    path = export / FILES[table]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    refused(open_space(), Corrupt, export)
    path.unlink()
    refused(open_space(), Corrupt, export)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("line", [b"{", b"[]", b"3", b"\xff\xfe", b'{"no": "such"}', b"null"])
@pytest.mark.parametrize("table", FILES)
def test_a_damaged_line_is_noticed_and_nothing_is_imported(open_space, export, table, line):
    path = export / FILES[table]
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([line, *lines[1:]]) + b"\n")
    refused(open_space(), TreeringError, export)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("revisions", {"seq": 2**70}),
        ("revisions", {"seq": True}),
        ("segments", {"source_id": ["a"]}),
        ("events", {"seq": 2**70}),
        ("links", {"added": "1"}),
        ("links", {"removed": 2**70}),
        ("receipts", {"key": {}}),
        ("receipts", {"key": None}),
    ],
)
def test_a_row_of_other_kinds_of_values_is_refused_and_nothing_is_imported(open_space, export, table, change):
    path = export / f"{table}.jsonl"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **change}), *others]) + "\n")
    refused(open_space(), TreeringError, export)


def test_a_changed_or_missing_blob_is_noticed(open_space, export):
    blob = next(file for file in (export / "blobs").rglob("*") if file.is_file())
    kept = blob.read_bytes()
    blob.write_bytes(kept + b"!")
    refused(open_space(), Corrupt, export)
    blob.unlink()
    refused(open_space(), Corrupt, export)
    blob.write_bytes(kept)
    space = open_space()
    space.import_from(export)
    assert records(space)


def test_a_blob_outside_of_the_export_is_not_read(open_space, export, tmp_path):
    (tmp_path / "secret").write_text("x")
    path = export / "segments.jsonl"
    first, *others = path.read_text().splitlines()
    forged = json.dumps({**json.loads(first), "blob": "../../secret"})
    path.write_text("\n".join([forged, *others]) + "\n")
    refused(open_space(), Corrupt, export)


def test_a_tail_cut_from_all_files_shows_against_the_manifest(open_space, filled, export, tmp_path):
    short = open_space()
    decide(short, "Only this")
    short.export(tmp_path / "short")
    shutil.copy(export / "manifest.json", tmp_path / "short" / "manifest.json")
    refused(open_space(), Corrupt, tmp_path / "short")


def test_changed_content_does_not_verify(open_space, export):
    path = export / "revisions.jsonl"
    path.write_text(path.read_text().replace("SQLite", "MySQL"))
    refused(open_space(), TreeringError, export)

"""Hostile and damaged files: each is reported by name, and everything else is read."""

import os
import stat
from io import BytesIO
from zipfile import ZipFile, ZipInfo

import pytest

import treering

HOSTILE_CODE = {"Deep.java": "a < b < c <\n", "Deep.cs": "List<List<\n"}


@pytest.fixture
def wiki(tmp_path):
    with treering.open(str(tmp_path / "space.db")) as space:
        yield space


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "docs"
    place.mkdir()
    (place / "good.md").write_text("# Port\n\nThe port is 9090.\n")
    return place


def packed(*names: str) -> bytes:
    kept = BytesIO()
    with ZipFile(kept, "w") as archive:
        for name in names:
            archive.writestr(name, "words " * 50)
    return kept.getvalue()


def ingested(wiki, folder):
    report = wiki.ingest("path", input={"path": str(folder)})
    return report, {item.origin.rpartition("/")[2].rpartition("#")[2]: item for item in report.items}


def test_a_zip_with_an_entry_that_points_outside_is_refused_by_name(wiki, folder):
    (folder / "slip.zip").write_bytes(packed("notes.txt", "../../evil.txt"))
    _, items = ingested(wiki, folder)
    assert items["slip.zip"].outcome == "failed"
    assert items["slip.zip"].why == "its entry '../../evil.txt' points outside the zip file"
    assert items["good.md"].outcome == "created"


@pytest.mark.parametrize("name", ["/etc/passwd", "C:/boot.ini", "a/../../b", "..\\evil.txt"])
def test_every_way_to_name_a_file_outside_of_a_zip_is_refused(wiki, folder, name):
    (folder / "slip.zip").write_bytes(packed(name))
    _, items = ingested(wiki, folder)
    assert items["slip.zip"].outcome == "failed"
    assert "points outside" in items["slip.zip"].why


def test_a_zip_with_a_link_that_points_outside_is_refused(wiki, folder):
    link = ZipInfo("docs/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    kept = BytesIO()
    with ZipFile(kept, "w") as archive:
        archive.writestr(link, "../../secret")
    (folder / "slip.zip").write_bytes(kept.getvalue())
    _, items = ingested(wiki, folder)
    assert items["slip.zip"].outcome == "failed"


def test_a_zip_that_is_cut_off_is_refused_with_the_reason(wiki, folder):
    whole = packed("notes.txt", "more.txt")
    (folder / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (folder / "whole.zip").write_bytes(whole)
    report, items = ingested(wiki, folder)
    assert items["cut.zip"].outcome == "failed"
    assert "truncated" in items["cut.zip"].why
    assert (items["whole.zip"].outcome, items["good.md"].outcome) == ("created", "created")
    assert report.status == "partial"


@pytest.mark.parametrize("name", ["noise.bin", "noise.md", "noise"])
def test_random_bytes_are_a_binary_stub_with_a_warning(wiki, folder, name):
    (folder / name).write_bytes(b"\x00\x9c" + os.urandom(5_000))
    report, items = ingested(wiki, folder)
    source = wiki.engine.ledger.get(items[name].source_id)
    assert (source.content_type, source.segments) == ("binary_stub", ())
    assert any(name in warning and "neither text nor a known binary format" in warning for warning in report.warnings)


def test_a_picture_is_a_binary_stub_without_a_warning(wiki, folder):
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00" + os.urandom(500))
    report, items = ingested(wiki, folder)
    assert items["logo.png"].outcome == "created"
    assert report.warnings == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", HOSTILE_CODE)
def test_code_whose_parse_does_not_end_is_stopped_and_reported_and_the_rest_is_read(wiki, folder, name):
    line = HOSTILE_CODE[name]
    (folder / name).write_text(line * (100_000 // len(line)))
    (folder / "last.py").write_text("def port():\n    return 9090\n" + "# more\n" * 1_000)
    report, items = ingested(wiki, folder)
    assert [warning for warning in report.warnings if name in warning and "was not parsed within" in warning]
    assert {item.outcome for item in items.values()} == {"created"}
    assert line.strip() in wiki.engine.ledger.get(items[name].source_id).segments[0].excerpt
    assert wiki.engine.ledger.get(items["last.py"].source_id).metadata["symbols"] == 1

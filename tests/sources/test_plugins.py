"""Formats and adapters of installed packages: found by entry points, and none of them can harm a run."""

import logging

import pytest

from space_parts import open_space
from treering.core.errors import InvalidInput
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, SourceDraft
from treering.sources.formats import built_in_formats, formats_here
from treering.sources.path import PathAdapter
from treering.sources.plugins import installed_adapters
from treering.surfaces.cli.ingesting import mode_for

LOGBOOK = """
from treering.testing import DocumentDraft, FormatLimits, Lines, SegmentDraft


class Logbook:
    name = "logbook"
    limits = FormatLimits()

    def claims(self, path, head, /):
        if path.endswith(".claimbreaker"):
            raise RuntimeError("cannot tell")
        return path.endswith(".logbook")

    def read(self, data, file, /):
        text = data.decode()
        if text.startswith("raise"):
            raise KeyError(text)
        if text.startswith("wrong"):
            return 7
        return DocumentDraft("text", segments=[SegmentDraft(Lines(path=file.path, start=1, end=1), text)])


class Markdown(Logbook):
    name = "markdown"


class Incomplete:
    name = "incomplete"
"""


BOARD = """
from hashlib import sha256

from treering.testing import Lines, SegmentDraft, SourceDraft, Vanished


class Board:
    cards = {"ants": "Ants dig.", "bees": "Bees hum."}

    def origin(self, target):
        if target == "elsewhere":
            return "file:/etc"
        return "board:" + target

    def count(self, target, options):
        raise KeyError(target)

    def read(self, target, *, known, limits, options):
        root = self.origin(target)
        yield from (Vanished(one) for one in known.fingerprints if one.partition("#")[2] not in self.cards)
        for name, text in self.cards.items():
            if text == "raise":
                raise KeyError(text)
            if text == "wrong":
                yield 7
                continue
            origin = "file:/etc/passwd" if text == "foreign" else root + "#" + name
            digest = sha256(text.encode()).hexdigest()
            segments = [SegmentDraft(Lines(path=origin, start=1, end=1), text)]
            yield SourceDraft("note", origin, name, digest, "text", segments)


class Deaf:
    def origin(self, target):
        return "deaf:" + target
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with entry points, as pip does."""

    def install(points, code=LOGBOOK, group="treering.formats"):
        place = tmp_path / "packages"
        info = place / "acme_logbook-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "acme_logbook.py").write_text(code)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-logbook\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        )
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(__import__("sys").modules, "acme_logbook", raising=False)
        formats_here.cache_clear()
        installed_adapters.cache_clear()
        return formats_here()

    yield install
    formats_here.cache_clear()
    installed_adapters.cache_clear()


@pytest.fixture
def board(install):
    """Install the adapter `board`; return its class, whose cards a test can change."""
    install({"board": "acme_logbook:Board"}, BOARD, "treering.adapters")
    installed_adapters()
    return __import__("acme_logbook").Board


def read(folder, formats, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    found = PathAdapter(formats).read(str(folder), known=AlreadyRead(), limits=ReadLimits(), options={})
    return {reading.origin.rpartition("/")[2]: reading for reading in found}


def test_the_format_of_a_package_is_asked_before_those_built_in(install, tmp_path):
    formats = install({"logbook": "acme_logbook:Logbook"})
    assert [one.name for one in formats.documents] == ["logbook", *(one.name for one in built_in_formats().documents)]
    found = read(tmp_path / "ship", formats, a_logbook="08:00 left port", b_md="# Fog\n")
    assert found["a.logbook"].segments[0].text == "08:00 left port"
    assert found["b.md"].kind == "markdown"


def test_a_space_reads_with_it(install, tmp_path):
    install({"logbook": "acme_logbook:Logbook"})
    (tmp_path / "a.logbook").write_text("08:00 left port")
    with open_space() as space:
        space.ingest("path", input={"path": str(tmp_path / "a.logbook")})
        (hit,) = space.query("search", input={"text": "left port"}).hits
    assert hit.place == "a.logbook#L1-L1"


def test_a_format_that_fails_on_a_file_fails_that_file_alone(install, tmp_path):
    formats = install({"logbook": "acme_logbook:Logbook"})
    found = read(tmp_path / "x", formats, a_logbook="raise", b_logbook="wrong", c_logbook="fine", d_claimbreaker="text")
    assert isinstance(found["a.logbook"], Failed)
    assert found["a.logbook"].why == "the format logbook failed on it: KeyError"
    assert found["b.logbook"].why == "the format logbook returned int, which is not a document"
    assert isinstance(found["c.logbook"], SourceDraft)
    assert isinstance(found["d.claimbreaker"], SourceDraft)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("acme_logbook:Nothing", "no attribute"),
        ("nowhere_at_all:Logbook", "No module"),
        ("acme_logbook:Incomplete", "it has no limits, claims, read"),
        ("acme_logbook:Markdown", "that name is already taken"),
    ],
)
def test_a_package_that_cannot_be_used_is_logged_and_omitted(install, caplog, value, why):
    with caplog.at_level(logging.WARNING):
        formats = install({"one": value})
    assert formats == built_in_formats()
    assert why in caplog.text
    assert "acme-logbook" in caplog.text


def test_a_format_whose_claims_fail_is_reported_once_and_without_a_traceback(install, tmp_path, caplog):
    formats = install({"logbook": "acme_logbook:Logbook"})
    names = {f"{name}_{ending}": "raise" for name in "abcde" for ending in ("claimbreaker", "logbook")}
    with caplog.at_level(logging.WARNING):
        read(tmp_path / "x", formats, **names)
    assert [record.getMessage().partition(" a.")[0] for record in caplog.records] == [
        "The format logbook failed asked about",
        "The format logbook failed reading",
    ]
    assert not any(record.exc_info for record in caplog.records)


def test_an_adapter_of_a_package_brings_in_what_it_reads(board):
    with open_space() as space:
        report = space.ingest("adapter", input="board:hive")
        assert {item.origin for item in report.items} == {"board:hive#ants", "board:hive#bees"}
        (hit,) = space.query("search", input={"text": "ants dig"}).hits
        assert hit.place == "board:hive#ants#L1-L1"
        assert space.ingest("adapter", input="board:hive").status == "unchanged"
        board.cards = {"ants": "Ants dig."}
        assert space.ingest("adapter", input="board:hive").counts["removed"] == 1


@pytest.mark.parametrize(
    ("text", "origin", "why"),
    [
        ("raise", "board:hive", "the adapter board failed, and the remaining items were not read: KeyError"),
        ("wrong", "board:hive", "the adapter board returned int, which is not a result"),
        ("foreign", "board:hive", "returned 'file:/etc/passwd': its origins must start with board:"),
    ],
)
def test_what_an_adapter_of_a_package_does_wrong_is_a_failed_item(board, text, origin, why):
    board.cards = {"ants": "Ants dig.", "bad": text}
    with open_space() as space:
        items = {item.outcome: item for item in space.ingest("adapter", input="board:hive").items}
    assert items["failed"].origin == origin
    assert why in items["failed"].why
    assert items["created"].origin == "board:hive#ants"


@pytest.mark.parametrize("target", ["board:elsewhere", "path:/etc", "nobody:x", "board"])
def test_a_target_that_no_adapter_of_a_package_may_read_is_refused(board, target):
    with open_space() as space, pytest.raises(InvalidInput):
        space.ingest("adapter", input=target)


def test_the_command_line_knows_an_adapter_by_the_name_before_the_colon(board, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_space() as space:
        assert mode_for("board:hive", space) == "adapter"
        assert mode_for("nobody:hive", space) == "path"
        (tmp_path / "board:hive").write_text("a file")
        assert mode_for("board:hive", space) == "path"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("url", "acme_logbook:Board", "that name is already taken"),
        ("file", "acme_logbook:Board", "that name is already taken"),
        ("A", "acme_logbook:Board", "lowercase letters"),
        ("deaf", "acme_logbook:Deaf", "it has no count, read"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_logged_and_omitted(install, caplog, name, value, why):
    install({name: value}, BOARD, "treering.adapters")
    with caplog.at_level(logging.WARNING):
        assert not installed_adapters()
    assert why in caplog.text
    assert "acme-logbook" in caplog.text

"""Formats of installed packages: asked first, and none of them can harm a run."""

import logging

import pytest

from space_parts import open_space
from treering.edges.sources.formats import BUILT_IN, formats_here
from treering.edges.sources.path import PathAdapter
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, SourceDraft

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


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with entry points, as pip does."""

    def install(points, code=LOGBOOK):
        place = tmp_path / "packages"
        info = place / "acme_logbook-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "acme_logbook.py").write_text(code)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-logbook\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[treering.formats]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        )
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(__import__("sys").modules, "acme_logbook", raising=False)
        formats_here.cache_clear()
        return formats_here()

    yield install
    formats_here.cache_clear()


def read(folder, formats, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    found = PathAdapter(formats).read(str(folder), known=AlreadyRead(), limits=ReadLimits(), options={})
    return {reading.origin.rpartition("/")[2]: reading for reading in found}


def test_the_format_of_a_package_is_asked_before_those_built_in(install, tmp_path):
    formats = install({"logbook": "acme_logbook:Logbook"})
    assert [one.name for one in formats.documents] == ["logbook", *(one.name for one in BUILT_IN.documents)]
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
    assert found["b.logbook"].why == "the format logbook gave int, which is not a document"
    assert isinstance(found["c.logbook"], SourceDraft)
    assert isinstance(found["d.claimbreaker"], SourceDraft)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("acme_logbook:Nothing", "no attribute"),
        ("nowhere_at_all:Logbook", "No module"),
        ("acme_logbook:Incomplete", "it has no limits, claims, read"),
        ("acme_logbook:Markdown", "there is one of that name"),
    ],
)
def test_a_package_that_cannot_be_used_is_logged_and_left_out(install, caplog, value, why):
    with caplog.at_level(logging.WARNING):
        formats = install({"one": value})
    assert formats == BUILT_IN
    assert why in caplog.text
    assert "acme-logbook" in caplog.text

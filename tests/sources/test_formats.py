"""The formats built in, held to the contract, and the registry that knows them."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from git_scratch import Scratch

from treering.core.errors import InvalidInput
from treering.extensions.code.format import CODE
from treering.extensions.code.repository.repo import RepoAdapter
from treering.extensions.conversations.exports import ConversationFormat, ExportBounds
from treering.ports.adapter import AlreadyRead, ReadLimits, Skipped, SourceDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Formats
from treering.sources.formats import MARKDOWN, TEXT, TextFormat, built_in_formats, draft_file
from treering.sources.path import PathAdapter
from treering.sources.reading.binary import BinaryFormat
from treering.testing.format_contract import LONG, CollectionContract, FileSaying, FormatContract


class TestMarkdown(FormatContract):
    @pytest.fixture
    def format_read(self) -> TextFormat:
        return MARKDOWN

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("docs/a.md", f"---\ntitle: A\n---\n\n# A\n\n{text}\n\n## B\n\n- one\n".encode())


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("unreleased", "CHANGELOG.md"),
        ("[Unreleased]", "CHANGELOG.md"),
        ("v0.26.1", "CHANGELOG.md"),
        ("1.2.0 (2026-01-31)", "CHANGELOG.md"),
        ("Changes of Acme", "Changes of Acme"),
        ("2.0 migration guide", "2.0 migration guide"),
    ],
)
def test_heading_of_a_release_is_no_title_of_a_file(heading: str, title: str) -> None:
    text = f"# {heading}\n\nRetries are capped.\n\n# v0.1.0\n\nFirst.\n".encode()
    draft = draft_file(text, path="CHANGELOG.md", origin="o", commit=None, limits=ReadLimits())
    assert isinstance(draft, SourceDraft)
    assert draft.title == title


class TestPython(FormatContract):
    @pytest.fixture
    def format_read(self) -> TextFormat:
        return CODE

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            comments = "\n".join(f"    # {line}" for line in text.split("\n"))
            return "src/a.py", f'"""A."""\n\nimport os\n\n\ndef run() -> str:\n{comments}\n    return "a"\n'.encode()

        return written


class TestScript(TestPython):
    """Code that only its first line tells."""

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            comments = "\n".join(f"# {line}" for line in text.split("\n"))
            return "bin/run", f"#!/usr/bin/env bash\n\nrun() {{\n  true\n}}\n\n{comments}\n".encode()

        return written


class TestPlainText(FormatContract):
    @pytest.fixture
    def format_read(self) -> TextFormat:
        return TEXT

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.txt", f"{text}\n".encode())


class TestRestructuredText(TestPlainText):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.rst", f"A\n=\n\n{text}\n\nB\n-\n\nMore::\n\n    x\n".encode())


class TestConfiguration(TestPlainText):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            members = ",\n".join(f"  {json.dumps(line)}: {at}" for at, line in enumerate(text.split("\n")))
            return "a.json", f"{{\n{members}\n}}\n".encode()

        return written


class TestManifest(TestPlainText):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            comments = "\n".join(f"# {line}" for line in text.split("\n"))
            return "pyproject.toml", f'[project]\nname = "a"\ndependencies = ["b>1"]\n{comments}\n'.encode()

        return written


class TestBinary(FormatContract):
    @pytest.fixture
    def format_read(self) -> BinaryFormat:
        return BinaryFormat()

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.bin", b"\x7fELF\0" + text.encode())


class _Conversations(CollectionContract):
    @pytest.fixture
    def collection(self) -> ConversationFormat:
        return ConversationFormat(ExportBounds())


class TestJsonOfOneConversation(_Conversations):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.json", json.dumps([{"role": "user", "content": text}]).encode())


class TestJsonOfConversations(_Conversations):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            told = [{"id": name, "messages": [{"role": "user", "content": text}]} for name in ("a", "a", "b")]
            return "many.json", json.dumps({"conversations": told}).encode()

        return written


class TestJsonLines(_Conversations):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.jsonl", (json.dumps({"role": "user", "content": text}) + "\n").encode())


class TestZippedExport(_Conversations):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text: str) -> tuple[str, bytes]:
            stream = BytesIO()
            with ZipFile(stream, "w") as archive:
                told = [{"id": name, "messages": [{"role": "user", "content": text}]} for name in ("a", "b")]
                archive.writestr("conversations.json", json.dumps(told))
            return "export.zip", stream.getvalue()

        return written


class TestSubtitles(_Conversations):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        cue = "00:00:01.000 --> 00:00:02.000\n<v Ada>"
        return lambda text: ("a.vtt", f"WEBVTT\n\n{cue}{text}\n".encode())


class Shouting:
    """A format of a program's own: `*.shout` files, in which everything is said loudly."""

    name = "shouting"
    limits = FormatLimits(max_bytes=50)

    def claims(self, path: str, _head: bytes, /) -> bool:
        return path.endswith(".shout")

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | None:
        return DocumentDraft("text", title=data.decode().upper()) if data.startswith(b"!") else None


LOUD = Formats((Shouting(), *built_in_formats().documents))


def drafted(path: str, data: bytes, formats: Formats, *, most: int = 20) -> SourceDraft | Skipped:
    limits = ReadLimits(max_file_bytes=most)
    reading = draft_file(data, path=path, origin="o", commit=None, limits=limits, formats=formats)
    assert isinstance(reading, SourceDraft | Skipped)
    return reading


def title_of(path: str, data: bytes) -> str:
    reading = drafted(path, data, LOUD)
    assert isinstance(reading, SourceDraft)
    return reading.title


def test_a_format_added_to_the_registry_reads_its_files_and_no_others() -> None:
    assert title_of("a.shout", b"!hello") == "!HELLO"
    assert title_of("a.txt", b"!hello") == "a.txt"


def test_a_file_that_is_not_of_the_format_after_all_is_read_by_the_next() -> None:
    assert title_of("a.shout", b"hello") == "a.shout"


def test_a_format_may_read_longer_files_than_others() -> None:
    assert title_of("a.shout", b"!" + b"o" * 40) == "!" + "O" * 40
    assert drafted("a.txt", b"!" + b"o" * 40, LOUD) == Skipped("o", "41 bytes exceed the limit max_file_bytes of 20")
    assert drafted("a.shout", b"!" * 51, LOUD) == Skipped("o", "51 bytes exceed the limit its format of 50")


def test_segments_over_the_limit_of_a_format_are_omitted_with_what_they_state() -> None:
    short = replace(MARKDOWN, limits=FormatLimits(max_segments=1))
    rules = f"# A\n\n{LONG}\n\n# B\n\nYou must never push to main by hand.\n".encode()
    whole = drafted("CONTRIBUTING.md", rules, built_in_formats(), most=100_000)
    first = drafted("CONTRIBUTING.md", rules, Formats((short,)), most=100_000)
    assert isinstance(whole, SourceDraft)
    assert isinstance(first, SourceDraft)
    assert whole.knowledge
    assert list(first.segments) == list(whole.segments)[:1]
    assert list(first.knowledge) == []
    assert list(first.warnings) == [f"only its first 1 of {len(whole.segments)} segments are indexed"]


def test_where_no_format_knows_a_file_it_is_skipped() -> None:
    assert drafted("a.txt", b"x", Formats((Shouting(),))) == Skipped("o", "no format known here reads it")


def test_both_adapters_read_with_the_formats_they_are_given(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "work")
    scratch.commit({"a.shout": "!hello"})
    for adapter in (PathAdapter(LOUD), RepoAdapter(LOUD)):
        found = adapter.read(str(scratch.folder), known=AlreadyRead(), limits=ReadLimits(max_file_bytes=5), options={})
        assert "!HELLO" in {one.title for one in found if isinstance(one, SourceDraft)}


def test_inline_texts_are_cut_by_the_formats_that_can() -> None:
    assert sorted(built_in_formats().segmenters) == ["markdown", "text"]
    (segment,) = built_in_formats().segmenters["markdown"]("# A\n\nText.", max_chars=100)
    assert segment.heading == "A"


def test_two_formats_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Two formats are named 'shouting'"):
        Formats((Shouting(), Shouting()))

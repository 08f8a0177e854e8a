"""PDF files, office files, books and mail, held to the contract of formats, and what hostile ones cost."""

import subprocess
import sys
from datetime import date
from random import Random

import pypdf
import pytest

import document_files as made
from space_parts import open_space
from treering.core.evidence import Page, Section, place_in
from treering.extensions.documents import formats
from treering.extensions.documents.formats import MAIL, OFFICE, PDF
from treering.ports.adapter import AlreadyRead, Failed, ReadLimits, SourceDraft
from treering.ports.format import Unreadable
from treering.sources.formats import draft_file
from treering.sources.path import PathAdapter
from treering.testing.format_contract import FormatContract

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="this system limits no memory of a process")


class TestPdf(FormatContract):
    @pytest.fixture
    def format_read(self):
        return PDF

    @pytest.fixture
    def file_saying(self):
        return lambda text: ("report.pdf", made.pdf_of(text))


class TestWord(FormatContract):
    @pytest.fixture
    def format_read(self):
        return OFFICE

    @pytest.fixture
    def file_saying(self):
        return lambda text: ("report.docx", made.docx_of(text))


class TestSlides(TestWord):
    @pytest.fixture
    def file_saying(self):
        return lambda text: ("show.pptx", made.pptx_of(("Title", text, "")))


class TestSpreadsheet(TestWord):
    @pytest.fixture
    def file_saying(self):
        return lambda text: ("table.xlsx", made.xlsx_of(Costs=[[line] for line in text.split("\n")]))


class TestOpenDocument(TestWord):
    @pytest.fixture
    def file_saying(self):
        return lambda text: ("report.odt", made.odt_of(text))


class TestBook(TestWord):
    @pytest.fixture
    def file_saying(self):
        return lambda text: ("book.epub", made.epub_of(text))


class TestMail(FormatContract):
    @pytest.fixture
    def format_read(self):
        return MAIL

    @pytest.fixture
    def file_saying(self):
        return lambda text: ("mail.eml", made.eml_of(text))


def read(path, data, **limits):
    return draft_file(data, path=path, origin=f"file:{path}", commit=None, limits=ReadLimits(**limits))


def segments(path, data):
    draft = read(path, data)
    assert isinstance(draft, SourceDraft), draft
    return [(one.heading, one.text) for one in draft.segments]


# PDF


def test_a_pdf_is_read_by_page_and_paragraph():
    long = "\n".join(f"Line {at} of a paragraph that fills a good part of the page." for at in range(25))
    draft = read("a.pdf", made.pdf_of("First page.", f"{long}\n\nThe second paragraph.", title="The report"))
    assert (draft.kind, draft.title, draft.content_type) == ("pdf", "The report", "text")
    assert draft.segments[0].locator == Page(page=1, paragraph=1)
    assert draft.segments[-1].locator == Page(page=2, paragraph=2)
    assert draft.segments[-1].text.endswith("The second paragraph.")
    assert place_in(draft.segments[-1].locator, "file:/a.pdf") == "file:/a.pdf#page=2"


def test_words_that_are_parted_at_the_end_of_a_line_are_joined():
    [(_, text)] = segments("a.pdf", made.pdf_of("This is an exam-\nple of a long word."))
    assert "example of a long word" in text


def test_pages_without_text_are_named():
    draft = read("a.pdf", made.pdf_of("Some words.", "", ""))
    assert draft.warnings == ["pages 2, 3 without text: perhaps scanned; text in images is not read"]


def test_a_pdf_without_any_text_is_kept_as_a_stub_that_says_so():
    draft = read("a.pdf", made.pdf_of("", ""))
    assert (draft.kind, draft.content_type, draft.segments) == ("pdf", "binary_stub", ())
    assert "without text" in draft.warnings[0]


def test_an_encrypted_pdf_is_a_failure_that_says_so():
    from io import BytesIO

    writer, out = pypdf.PdfWriter(clone_from=BytesIO(made.pdf_of("A secret."))), BytesIO()
    writer.encrypt("word", algorithm="RC4-128")
    writer.write(out)
    assert read("a.pdf", out.getvalue()) == Failed("file:a.pdf", "it is encrypted and needs a password")


def test_a_pdf_of_two_thousand_pages_is_read_whole():
    draft = read("a.pdf", made.pdf_of(*(f"Page number {at} says little." for at in range(1, 2_001))))
    assert [one.locator.page for one in draft.segments] == list(range(1, 2_001))


def test_a_page_of_a_mile_costs_nothing():
    data = made.pdf_of("Small words.").replace(b"[0 0 800 8000]", b"[0 0 99999999 99999999]")
    assert segments("a.pdf", data) == [("", "Small words.")]


def test_a_damaged_pdf_fails_alone(tmp_path):
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\n" + Random(3).randbytes(5_000))
    (tmp_path / "good.pdf").write_bytes(made.pdf_of("Good words."))
    adapter = PathAdapter()
    found = list(adapter.read(str(tmp_path), known=AlreadyRead(), limits=ReadLimits(), options={}))
    [failed] = [one for one in found if isinstance(one, Failed)]
    assert "it is damaged" in failed.why
    assert [one.segments[0].text for one in found if isinstance(one, SourceDraft)] == ["Good words."]


# Office


def test_sections_of_a_word_file_have_their_headings():
    assert read("a.docx", made.docx_of("We chose Postgres.", heading="Decisions")).kind == "office"
    assert segments("a.docx", made.docx_of("We chose Postgres.\nDisks are full.", heading="Decisions")) == [
        ("Report > Decisions", "We chose Postgres.\n\nDisks are full.")
    ]


def test_a_slide_has_its_number_its_title_and_its_notes():
    data = made.pptx_of(("Roadmap", "Ship version one", "Not before May"), ("Risks", "Disk full", ""))
    assert segments("a.pptx", data) == [
        ("Slide 1: Roadmap", "Roadmap\n\nShip version one\n\nNotes: Not before May"),
        ("Slide 2: Risks", "Risks\n\nDisk full"),
    ]


def test_cells_are_kept_as_ranges_with_formulas_and_dates():
    data = made.xlsx_of(Costs=[["item", "eur", "on"], ["disk", 12.5, date(2025, 2, 3)], ["double", "=B2*2", None]])
    draft = read("a.xlsx", data)
    assert draft.content_type == "structured"
    assert [(one.heading, one.text, one.role) for one in draft.segments] == [
        ("Costs!A1:C3", "item | eur | on\ndisk | 12.5 | 2025-02-03\ndouble | =B2*2", "data")
    ]


def test_later_ranges_of_a_sheet_repeat_the_names_of_its_columns():
    data = made.xlsx_of(Costs=[["item", "price in euros"], *([f"part {at}", at * 3] for at in range(1, 200))])
    found = segments("a.xlsx", data)
    assert len(found) > 1
    assert all(text.startswith("Columns: item | price in euros") for _, text in found[1:])
    assert found[0][0].startswith("Costs!A1:B")


def test_open_documents_are_read_by_sections_ranges_and_slides():
    assert segments("a.odt", made.odt_of("One.", heading="Aims")) == [("Aims", "One.")]
    assert segments("a.ods", made.ods_of("Costs", [["disk", "12"], ["twice", "=[.B1]*2"]])) == [
        ("Costs!A1:B2", "disk | 12\ntwice | =[.B1]*2")
    ]
    assert segments("a.odp", made.odp_of(("Aims", "Ship it"))) == [("Slide 1: Aims", "Aims\n\nShip it")]


def test_a_book_is_read_by_its_chapters():
    draft = read("a.epub", made.epub_of("It was night."))
    assert (draft.title, draft.kind) == ("A Book", "office")
    assert [(one.heading, one.locator) for one in draft.segments] == [
        ("Chapter One", Section(heading="Chapter One", offset=0))
    ]


def test_messages_of_a_thread_are_adjacent():
    data = made.mbox_of(
        made.eml_of("Shall we?", subject="Plan", Message_ID="<1@x>"),
        made.eml_of("Other.", subject="Lunch", Message_ID="<2@x>"),
        made.eml_of("Yes.", subject="Re: Plan", Message_ID="<3@x>", In_Reply_To="<1@x>"),
    )
    found = segments("a.mbox", data)
    assert [heading.partition(" > ")[0] for heading, _ in found] == ["Plan", "Plan", "Lunch"]
    assert found[1][1].endswith("Subject: Re: Plan\n\nYes.")


def test_an_attachment_is_named_and_not_read():
    from email.message import EmailMessage

    mail = EmailMessage()
    mail["From"], mail["Subject"], mail["Date"] = "ana@example.org", "Files", "Mon, 03 Feb 2025 10:00:00 +0000"
    mail.set_content("See below.")
    mail.add_attachment(b"hidden words", maintype="text", subtype="plain", filename="notes.txt")
    [(_, text)] = segments("a.eml", mail.as_bytes())
    assert text.endswith("Attachments: notes.txt")
    assert "hidden words" not in text


# What a file is


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (made.pdf_of("Words."), "pdf"),
        (made.docx_of("Words."), "office"),
        (made.odt_of("Words."), "office"),
        (made.epub_of("Words."), "office"),
        (made.mbox_of(made.eml_of("Words.")), "office"),
        (b"<!-- fetched -->\n<!DOCTYPE html><html><body><h1>A page</h1><p>Words.</p></body></html>", "web"),
    ],
    ids=["pdf", "docx", "odt", "epub", "mbox", "html"],
)
def test_a_file_is_read_by_what_it_is_whatever_its_name(data, kind):
    draft = read("attachment", data)
    assert draft.kind == kind
    assert any("Words." in one.text for one in draft.segments)


def test_a_text_with_the_name_of_a_word_file_is_read_as_text():
    assert segments("notes.docx", b"Just a line.\n") == [("", "Just a line.")]


def test_a_patch_is_no_mail():
    patch = b"From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: Ana\nDate: x\nSubject: [PATCH] a\n\n---\n"
    assert read("0001-a.patch", patch).kind == "file"


def test_without_the_extra_a_pdf_is_a_stub_whose_warning_names_it(monkeypatch):
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    draft = read("a.pdf", made.pdf_of("Words."))
    assert (draft.kind, draft.content_type) == ("pdf", "binary_stub")
    assert 'pip install "treering[pdf]"' in draft.warnings[0]


@pytest.mark.parametrize("mode", ["path", "repo"])
def test_a_pdf_is_read_once_the_extra_is_there_and_is_unchanged_until_then(tmp_path, monkeypatch, mode):
    (tmp_path / "a.pdf").write_bytes(made.pdf_of("Bees dance."))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *words], check=True)

    def outcomes(space):
        report = space.ingest(mode, input={"path": str(tmp_path)})
        return {name: number for name, number in report.counts.items() if number and name != "unchanged"}

    with open_space() as space:
        with monkeypatch.context() as without:
            without.setattr(formats, "find_spec", lambda name: None)
            assert outcomes(space)["created"]
            assert outcomes(space) == {}
        assert outcomes(space) == {"updated": 1}
        assert outcomes(space) == {}
        assert "Bees dance." in space.query("search", input={"text": "bees"}, options={"descend": True}).hits[0].text


# Attacks


def test_a_part_that_unpacks_to_very_much_is_refused_before_it_is_read():
    data = made.with_member(
        made.docx_of("Words."), "word/document.xml", lambda xml: xml.replace(b"Words.", b"A" * 30_000_000)
    )
    failed = read("a.docx", data)
    assert isinstance(failed, Failed)
    assert "looks like an attack" in repr(failed)


def test_entities_of_other_files_are_not_read():
    attack = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><w:document'
    data = made.with_member(
        made.docx_of("Words."), "word/document.xml", lambda xml: xml.replace(b"<w:document", attack, 1)
    )
    assert "declares a document type" in repr(read("a.docx", data))


def test_cells_that_are_repeated_without_end_cost_nothing():
    data = made.with_member(
        made.ods_of("Costs", [["disk", "12"]]),
        "content.xml",
        lambda xml: xml.replace(b"<table:table-cell", b'<table:table-cell table:number-columns-repeated="999999999"'),
    )
    assert len(segments("a.ods", data)) == 1


@UNIX
def test_a_reader_that_takes_too_long_costs_one_file(monkeypatch):
    monkeypatch.setattr(formats, "_CPU_SECONDS", 0)
    found = formats.read_document("pdf", made.pdf_bomb(30))
    assert isinstance(found, Unreadable)
    assert "it cannot be read within 0 s" in found.why
    assert formats.read_document("pdf", made.pdf_of("Next.")).units[0].text == "Next."


def test_nothing_that_was_changed_at_random_stops_the_reading():
    random = Random(5)
    files = {
        "a.pdf": made.pdf_of("One.\n\nTwo.", "Three."),
        "a.docx": made.docx_of("Words."),
        "a.xlsx": made.xlsx_of(A=[["x", 1]]),
        "a.pptx": made.pptx_of(("T", "B", "")),
        "a.odt": made.odt_of("Words."),
        "a.epub": made.epub_of("Words."),
        "a.eml": made.eml_of("Words."),
    }
    for path, data in files.items():
        for _ in range(10):
            changed = bytearray(data)
            for _ in range(random.randint(1, 20)):
                changed[random.randrange(len(changed))] = random.randrange(256)
            assert read(path, bytes(changed)) is not None

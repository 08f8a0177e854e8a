"""Pages that a browser saved: web archives (MHTML), and HTML files that name where they were saved from."""

from random import Random

import pytest

import document_files as made
from treering.extensions.documents.formats import HTML
from treering.ports.adapter import Failed, ReadLimits, SourceDraft
from treering.sources.formats import draft_file
from treering.testing.format_contract import FormatContract

PAGE = """<!DOCTYPE html><html><head><title>How requests are retried</title><script>alert("no")</script></head><body>
<nav>Home | Docs</nav><article><h1>Retries</h1><p>A request is tried three times – then it fails.</p>
<h2>Limits</h2><p>After 60 s nobody waits any longer.</p><img src="cid:1" alt=""></article></body></html>"""
ADDRESS = "https://example.org/docs/retries?v=2"


class TestWebArchive(FormatContract):
    @pytest.fixture
    def format_read(self):
        return HTML

    @pytest.fixture
    def file_saying(self):
        return lambda text: ("page.mhtml", made.mhtml_of(page_of(text)))


def page_of(text):
    lines = "".join(f"<p>{line}</p>" for line in text.split("\n"))
    return f"<html><body><h1>Title</h1>{lines}</body></html>".encode()


def read(path, data):
    return draft_file(data, path=path, origin=f"file:{path}", commit=None, limits=ReadLimits())


@pytest.mark.parametrize("mark", ["<![", "<![\x1b[0m", "<![foo[ x]]>", "<![ x>"])
def test_page_with_an_invalid_declaration_is_read(mark):
    page = f"<html><body><p>Requests are retried.</p><p>{mark} never</p><p>They wait 60 s.</p></body></html>"
    text = "\n".join(text for _, text in sections(read("page.html", page.encode())))
    assert "Requests are retried." in text


def test_damaged_document_is_reported_without_python_names():
    failed = read("page.mhtml", made.mhtml_of(page_of("text")).replace(b"text/html", b"text/html; charset=\xff", 1))
    assert "Error" not in getattr(failed, "why", "")


def sections(draft):
    assert isinstance(draft, SourceDraft), draft
    return [(one.heading, one.text) for one in draft.segments]


SECTIONS = [
    ("Retries", "A request is tried three times – then it fails."),
    ("Retries > Limits", "After 60 s nobody waits any longer."),
]


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "8bit"])
@pytest.mark.parametrize("path", ["page.mhtml", "page.mht", "PAGE.MHT"])
def test_a_web_archive_is_read_as_the_page_that_it_holds(path, encoding):
    draft = read(path, made.mhtml_of(PAGE.encode(), encoding=encoding))
    assert sections(draft) == SECTIONS
    assert (draft.kind, draft.title, draft.payload) == ("web", "How requests are retried", {"url": ADDRESS})


def test_pictures_scripts_and_frames_of_a_web_archive_are_omitted():
    more = [
        ("image/png", "https://example.org/a.png", b"\x89PNG hidden"),
        ("text/javascript", "https://example.org/a.js", b"hidden"),
        ("text/html", "cid:frame-1@mhtml.blink", b"<p>hidden in a frame</p>"),
    ]
    assert sections(read("a.mhtml", made.mhtml_of(PAGE.encode(), more=more))) == SECTIONS


def test_the_part_that_an_archive_names_as_its_page_is_read_wherever_it_is():
    data = made.mhtml_of(b"<p>An advertisement in a frame.</p>", more=[("text/html", ADDRESS, PAGE.encode())])
    data = data.replace(f"Content-Location: {ADDRESS}".encode(), b"Content-Location: cid:2", 1).replace(
        b"Snapshot-Content-Location: cid:2", f"Snapshot-Content-Location: {ADDRESS}".encode()
    )
    data = data.replace(f"\r\nContent-Location: {ADDRESS}".encode(), b"\r\nContent-Location: cid:2", 1)
    assert sections(read("a.mhtml", data)) == SECTIONS


def test_an_archive_of_one_part_is_read():
    head = f"MIME-Version: 1.0\nContent-Type: text/html; charset=utf-8\nContent-Location: {ADDRESS}\n\n"
    draft = read("a.mht", head.encode() + PAGE.encode())
    assert (sections(draft), draft.payload) == (SECTIONS, {"url": ADDRESS})


def test_a_page_in_an_encoding_that_only_the_archive_names_is_read():
    draft = read(
        "a.mht",
        made.mhtml_of(PAGE.encode("cp1251", "ignore") + "<p>Повтор</p>".encode("cp1251"), charset="windows-1251"),
    )
    assert "Повтор" in sections(draft)[-1][1]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (made.mhtml_of(PAGE.encode()).replace(b"text/html;", b"image/png;"), "it contains no page"),
        (made.mhtml_of(b""), "its page is empty"),
        (made.mhtml_of(PAGE.encode()).replace(b"quoted-printable", b"x-uuencode"), "unsupported encoding"),
        (made.mhtml_of(PAGE.encode(), more=[("image/png", "cid:1", b"")] * 5_001), "more than 5,000 parts"),
    ],
)
def test_an_archive_of_which_nothing_can_be_read_fails_with_its_reason(data, why):
    found = read("a.mhtml", data)
    assert isinstance(found, Failed)
    assert why in found.why


def test_archives_in_archives_without_end_cost_one_file():
    deep = b"".join(b'Content-Type: multipart/related; boundary="b%d"\n\n--b%d\n' % (at, at) for at in range(20_000))
    found = read("a.mhtml", b"MIME-Version: 1.0\n" + deep)
    assert isinstance(found, Failed)


def test_a_file_with_the_name_of_an_archive_that_is_none_is_read_as_text():
    assert read("a.mht", b"Just a line.\n").kind == "file"


@pytest.mark.parametrize(
    "mark",
    ["<!-- saved from url=(0036)https://example.org/docs/retries?v=2 -->", f"<!--saved from url=(0036){ADDRESS}-->"],
)
def test_a_page_that_a_browser_saved_keeps_its_address(mark):
    draft = read("a.html", f"<!DOCTYPE html>\n{mark}\n{PAGE}".encode())
    assert (sections(draft), draft.payload) == (SECTIONS, {"url": ADDRESS})


@pytest.mark.parametrize(
    "address",
    ["about:internet", "javascript:alert(1)", "file:///home/ana/a.html", "https://ana:word@example.org/",
     "https://example.org/?key=AKIAIOSFODNN7EXAMPLE", "https://"],
)  # fmt: skip
def test_an_address_that_no_page_is_fetched_from_is_not_kept(address):
    assert read("a.html", f"<!-- saved from url=(0014){address} -->{PAGE}".encode()).payload == {}
    draft = read("a.mhtml", made.mhtml_of(PAGE.encode(), address=address))
    assert (sections(draft), draft.payload) == (SECTIONS, {})


def test_a_comment_in_the_middle_of_a_page_names_no_address():
    assert (
        read(
            "a.html",
            PAGE.replace("</h1>", "</h1>" + "x " * 3_000).encode()
            + b"<!-- saved from url=(0019)https://evil.test/ -->",
        ).payload
        == {}
    )


def test_no_archive_that_was_changed_at_random_stops_the_reading():
    random, whole = Random(7), made.mhtml_of(PAGE.encode(), more=[("image/png", "cid:1", bytes(range(256)))])
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(random.randint(1, 30)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        found = read("a.mhtml", bytes(changed))
        assert isinstance(found, SourceDraft | Failed)

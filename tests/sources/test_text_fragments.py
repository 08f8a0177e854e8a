"""Links to a passage of a web page: which passages get one, and that browsers find them."""

import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import document_files as made
from treering.core.evidence import Section, place_in
from treering.extensions.documents.contents import MOST_SHOWN, ShownPage, text_directive
from treering.extensions.documents.html_text import shown_text
from treering.ports.adapter import ReadLimits, SourceDraft
from treering.sources.formats import draft_file

ADDRESS = "https://example.org/docs"
LONG = (
    "A request that fails is tried again after two seconds, then after four, and so on, until a minute is over or "
    "the server says that it is gone for good."
)


def fragment(page, passage):
    return ShownPage(shown_text(page)).fragment(passage)


def parts_of(directive):
    """Read a directive as a browser does: its prefix, its start and its end."""
    head, _, rest = directive.partition("#:~:text=")
    assert head == ""
    parts = rest.split(",")
    prefix = parts.pop(0).removesuffix("-") if parts[0].endswith("-") else ""
    return unquote(prefix), unquote(parts[0]), unquote(parts[1]) if len(parts) > 1 else ""


@given(st.text(min_size=1), st.text(), st.text())
def test_any_words_are_encoded_so_that_they_are_read_back(start, end, prefix):
    directive = text_directive(start, end, prefix=prefix)
    assert parts_of(directive) == (prefix, start, end)
    assert directive.isascii()
    assert not set(directive.removeprefix("#:~:text=")) & set("&#<>\"' \n")


def test_what_means_something_in_a_directive_is_encoded():
    assert text_directive("a-b, c & d", prefix="x,") == "#:~:text=x%2C-,a%2Db%2C%20c%20%26%20d"


def test_a_short_passage_is_named_whole_and_a_long_one_by_its_beginning_and_end():
    page = f"<h1>Retries</h1><p>Three <b>times</b>, no more.</p><p>{LONG}</p>"
    assert parts_of(fragment(page, "Three times, no more.")) == ("", "Three times, no more.", "")
    assert parts_of(fragment(page, LONG)) == ("", "A request that fails", "is gone for good.")


def test_a_passage_of_several_paragraphs_goes_from_the_first_to_the_last():
    page = f"<nav>Home</nav><div><p>Three times at most.</p>\n<ul><li>one</li><li>{LONG}</li></ul></div>"
    assert parts_of(fragment(page, f"Three times at most.\n\none\n\n{LONG}"))[1:] == (
        "Three times at most.",
        "is gone for good.",
    )


def test_words_that_stand_further_up_too_are_distinguished_by_more_words_or_those_before():
    page = (
        "<p>It is not so. A b c d e f g h.</p><h2>Limits</h2><p>A b c d x y z and more words until here is the end.</p>"
    )
    start = parts_of(fragment(page, "A b c d x y z and more words until here is the end."))[:2]
    assert start == ("", "A b c d x y z")
    page = "<p>One a, one b.</p><h2>Límits of time</h2><p>One</p><p>and the other.</p>"
    assert parts_of(fragment(page, "One\n\nand the other.")) == ("Límits of time", "One", "and the other.")


def test_an_end_that_is_in_the_middle_too_is_distinguished():
    page = "<p>One two three four. We are at the end. Then more of it, and now we are at the end.</p>"
    _, start, end = parts_of(fragment(page, page[3:-4]))
    assert (start, end) == ("One two three four.", "it, and now we are at the end.")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("page", "passage"),
    [
        ("<p>One two.</p><p>An advertisement.</p><p>Three four.</p>", "One two.\n\nThree four."),
        ("<p>One two.</p>", "Two one."),
        ("<p>Everyone two.</p>", "one two."),
        ("<script>One two.</script>", "One two."),
        ("<p>one [redacted] two</p>", "one secret two"),
        ("<p>" + "long" * 80 + "</p>", "long" * 80),
        ("<p>One two.</p>", ""),
        ("<p>See: one two.</p><h2>Again</h2><p>One two.</p>", "One two."),
        ("<p>One two.</p>" + "<p>x</p>" * MOST_SHOWN, "One two."),
    ],
)
def test_a_passage_that_does_not_stand_on_the_page_in_one_piece_gets_no_link(page, passage):
    assert fragment(page, passage) == ""


def test_rows_of_a_table_and_lines_of_code_are_found():
    page = "<table><tr><th>try</th><th>wait</th></tr><tr><td>1</td><td>2 s</td></tr></table><pre>a = 1\n  b = 2</pre>"
    assert parts_of(fragment(page, "try | wait\n\n1 | 2 s"))[1:] == ("try", "2 s")
    assert parts_of(fragment(page, "a = 1\n  b = 2"))[1:] == ("a = 1", "b = 2")


words = st.lists(
    st.sampled_from(["one", "two", "Three", "fóur", "five-six", "a,b", "&c", "50%"]), min_size=1, max_size=20
)


@given(st.lists(words, min_size=1, max_size=8), st.data())
def test_a_link_leads_to_the_first_place_that_a_browser_finds_and_that_is_the_passage(paragraphs, data):
    lines = [" ".join(paragraph) for paragraph in paragraphs]
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    passage = "\n\n".join(lines[first : last + 1])
    found = fragment("".join(f"<p>{line.replace('&', '&amp;')}</p>" for line in lines), passage)
    if not found:
        return
    prefix, start, end = parts_of(found)
    shown = "\n".join(lines).replace("\n", " ")
    at = shown.find(f"{prefix} {start}") + len(prefix) + 1 if prefix else shown.find(start)
    stop = shown.find(end, at + len(start)) + len(end) if end else at + len(start)
    assert shown[at:stop] == " ".join(lines[first : last + 1])


def read(path, data, address=""):
    draft = draft_file(data, path=path, origin=address or "file:x", commit=None, limits=ReadLimits(), address=address)
    assert isinstance(draft, SourceDraft)
    return draft


PAGE = f"<html><body><nav>Home</nav><article><h1>Retries</h1><p>{LONG}</p></article></body></html>".encode()
LINK = "https://example.org/docs#:~:text=A%20request%20that%20fails,is%20gone%20for%20good."


def test_a_passage_of_a_fetched_page_is_cited_by_its_link():
    [segment] = read("index.html", PAGE, ADDRESS).segments
    assert segment.locator == Section(heading="Retries", link=LINK)
    assert place_in(segment.locator, ADDRESS) == LINK


def test_a_passage_of_a_saved_page_is_cited_where_it_was_saved_from():
    [segment] = read("a.mhtml", made.mhtml_of(PAGE, address=ADDRESS)).segments
    assert place_in(segment.locator, "file:/a.mhtml") == LINK


def test_a_passage_of_a_page_without_an_address_is_cited_by_its_heading():
    [segment] = read("a.html", PAGE).segments
    assert place_in(segment.locator, "file:/a.html") == "file:/a.html: Retries (offset 0)"


def test_a_secret_of_a_page_is_in_no_link():
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY3"
    draft = read("index.html", f"<h1>Keys</h1><p>Use {secret} for now.</p>".encode(), ADDRESS)
    assert secret not in repr(draft)
    assert [one.locator.link for one in draft.segments] == [""]


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FILLING = "".join(f"<p>Paragraph {at} tells nothing of interest.</p>" for at in range(100))
TRICKY = [
    "Costs & gains: a-b, c and 50% – “quoted” words, and ünïcode.",
    "None.",
    f"One beginning here.\n\n{LONG}",
    "try | wait\n\n1 | 2 s",
    "a  = 1\n    b = 2",
]


@contextmanager
def served(page):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode() if self.path == "/page" else b"")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")
def test_chromium_scrolls_to_the_passage_that_a_link_names():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    html = f"""<!DOCTYPE html><html><body><p>None of it.</p>{FILLING}
      <p id="p0">Costs &amp; gains: <b>a-b</b>, c and 50% – “quoted” words,\n and ünïcode.</p>{FILLING}
      <h2>Limits</h2><p id="p1">None.</p>{FILLING}
      <p id="p2">One beginning here.</p><ul><li>{LONG}</li></ul>{FILLING}
      <table id="p3"><tr><th>try</th><th>wait</th></tr><tr><td>1</td><td>2 s</td></tr></table>{FILLING}
      <pre id="p4">a  = 1\n    b = 2</pre>{FILLING}</body></html>"""
    shown = ShownPage(shown_text(html))
    with served(html) as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for at, passage in enumerate(TRICKY):
            directive = shown.fragment(passage)
            assert directive, passage
            page = browser.new_context(viewport={"width": 800, "height": 400}).new_page()
            page.goto(f"{address}{directive}", wait_until="load")
            place = f"document.getElementById('p{at}').getBoundingClientRect()"
            page.wait_for_function(f"{place}.bottom > 0 && {place}.top < 400", timeout=20_000)
            page.context.close()
        browser.close()

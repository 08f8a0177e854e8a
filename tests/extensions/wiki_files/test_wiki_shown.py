"""A wiki that is read: its links lead somewhere, and a browser obeys nothing that is written in it."""

import http.client
import threading
from contextlib import contextmanager
from itertools import combinations
from xml.etree import ElementTree

import pytest

from treering.core.errors import NotFound
from treering.extensions.wiki.broken_links import broken_links
from treering.extensions.wiki.files.addresses import file_addresses
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.files.regions import KEEP
from treering.extensions.wiki.rules.mermaid import Arrow, flowchart
from treering.extensions.wiki.serving import wiki_server
from treering.extensions.wiki.showing import WikiBrowser, html_of
from wiki_by_hand import page, small_wiki, wiki


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("line\n" * 9)
    WikiFolder(tmp_path / "wiki", file_addresses("wiki")).publish(*small_wiki())
    return tmp_path


def broken(tree):
    found = broken_links(tree / "wiki", work_tree=tree)
    return [(one.page, one.target, one.why) for one in found]


def test_no_link_of_a_published_wiki_is_broken(tree):
    assert broken(tree) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("none.md", "the file does not exist"),
        ("overview.md#none", "the page has no such heading"),
        ("../src/app.py#L1-L10", "the file has 9 lines"),
        ("../../outside.md", "it points outside the wiki and its work tree"),
        ("page:overview.md", "its scheme is not supported"),
        ("javascript:alert(1)", "its scheme is not supported"),
    ],
)
def test_a_link_that_leads_nowhere_is_found_with_the_reason(tree, link, why):
    (tree / "wiki" / "mine.md").write_text(
        f"# Mine\n\n[x]({link}) and `[y](in-code.md)` and [z](https://example.org)\n"
    )
    assert broken(tree) == [("mine.md", link, why)]


def test_a_link_that_a_change_of_the_tree_broke_is_found(tree):
    (tree / "src" / "app.py").write_text("line\n")
    assert broken(tree) == [("modules/routing.md", "../../src/app.py#L1-L9", "the file has 1 lines")]


def test_links_to_named_anchors_and_to_headings_of_any_script_lead_somewhere(tmp_path):
    body = "[a](page:a.md#q--a) [b](page:a.md#über-größe)\n\n## Q & A\n\n## Über Größe\n"
    WikiFolder(tmp_path / "wiki").publish(*wiki(page("a.md", "A", body)))
    assert broken_links(tmp_path / "wiki") == []


HOSTILE = f"""<script>alert(1)</script> <img src=x onerror=alert(1)>

[a](javascript:alert(1)) ![b](http://evil.example/pixel) [c](../../etc/passwd) [d](x.html)

{KEEP.replace("keep", "none")}
"""


def test_nothing_that_is_written_in_a_page_is_obeyed(tmp_path):
    WikiFolder(tmp_path / "wiki").publish(*wiki(page("a.md", "<b>A</b>", HOSTILE)))
    html = WikiBrowser(tmp_path / "wiki").html("/a.md")
    for obeyed in ("<script", "<img", 'javascript:alert(1)"', 'pixel"', 'passwd"', "<b>"):
        assert obeyed not in html


def test_headings_have_the_anchors_that_links_name_and_marks_of_regions_are_not_shown(tree):
    with (tree / "wiki" / "overview.md").open("a") as file:
        file.write(f"\n## Q & A\n\n{KEEP}\nMine.\n<!-- treering:end -->\n")
    html = WikiBrowser(tree / "wiki").html("/overview.md")
    assert '<h2 id="q--a">' in html
    assert '<a href="/modules/routing.md#rules">routing</a>' in html
    assert "treering:" not in html
    assert "overview · fresh" in html


@pytest.mark.parametrize(
    "path", ["/../src/app.md", "/%2e%2e/secret.md", "/.treering-wiki.json", "//etc/x.md", "/link.md", "/a%00.md"]
)
def test_nothing_but_pages_of_the_folder_is_shown(tree, path):
    (tree / "secret.md").write_text("secret")
    (tree / "wiki" / "link.md").symlink_to(tree / "secret.md")
    assert WikiBrowser(tree / "wiki").html(path) is None


@contextmanager
def served(folder):
    with wiki_server(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def asked(port, path="/", *, method="GET", host="127.0.0.1"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Host": host})
    answer = connection.getresponse()
    try:
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_a_server_shows_pages_with_a_strict_policy_and_only_to_this_machine(tree):
    with served(tree / "wiki") as port:
        status, headers, html = asked(port)
        assert (status, "<h1" in html) == (200, True)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
        assert asked(port, "/modules/routing.md")[0] == 200
        assert asked(port, "/-/style.css")[1]["Content-Type"].startswith("text/css")
        assert asked(port, "/modules/routing.md", method="HEAD")[2] == ""
        assert asked(port, "/none.md")[0] == 404
        assert asked(port, method="POST")[0] == 501
        assert asked(port, host="evil.example")[0] == 421


def test_what_is_not_there_is_not_served(tmp_path):
    with pytest.raises(NotFound, match="does not exist"), wiki_server(tmp_path / "none"):
        pass


def test_a_citation_leads_to_the_lines_of_the_file_as_it_is(tree):
    (tree / "src" / "app.py").write_text("<b>&\n" * 8 + "key = 'AKIA" + "Q3EGZVD5XKM2WNRP'\n")
    with served(tree / "wiki") as port:
        page = asked(port, "/modules/routing.md")[2]
        assert 'href="/-/source/src/app.py?lines=1-9#L1"' in page
        status, _, file = asked(port, "/-/source/src/app.py?lines=2-4")
        assert status == 200
        assert file.count('class="line cited"') == 3
        assert '<span class="line cited" id="L2">&lt;b&gt;&amp;\n</span>' in file
        assert "Q3EGZVD5XKM2WNRP" not in file


def test_only_files_that_pages_cite_are_shown(tree):
    (tree / "secret.txt").write_text("the secret")
    (tree / "wiki" / "mine.md").write_text("# Mine\n\n[x](../secret.txt#L1-L1)\n")
    with served(tree / "wiki") as port:
        assert 'secret.txt"' not in asked(port, "/mine.md")[2]
        for path in ("secret.txt", "../secret.txt", "src/../secret.txt", "src", "", "%2e%2e/secret.txt", "/etc/passwd"):
            assert asked(port, f"/-/source/{path}")[0] == 404
        (tree / "src" / "app.py").unlink()
        (tree / "src" / "app.py").symlink_to("/etc/passwd")
        assert asked(port, "/-/source/src/app.py")[0] == 404


BOXES = {"a": "shop", "b": 'x"]<script>', "c": "rules", "d": "books", "e": "alone"}
ARROWS = [Arrow("a", "b", "3"), Arrow("b", "c", dotted=True), Arrow("a", "d"), Arrow("c", "d"), Arrow("d", "a")]


@pytest.mark.parametrize("direction", ["LR", "TD"])
def test_a_diagram_is_drawn_with_all_boxes_apart_and_all_arrows(tmp_path, direction):
    body = f"# A\n\n{flowchart(BOXES, ARROWS, direction=direction, marked='c')}\n"
    WikiFolder(tmp_path / "wiki").publish(*wiki(page("a.md", "A", body)))
    html = WikiBrowser(tmp_path / "wiki").html("/a.md")
    drawn = html[html.index("<svg") : html.index("</svg>") + 6]
    root = ElementTree.fromstring(drawn)
    kinds = [one.tag.rpartition("}")[2] for one in root]
    assert [kinds.count(kind) for kind in ("rect", "path", "polygon")] == [5, 5, 5]
    assert [one.text for one in root if one.tag.endswith("text")] == ["3", *BOXES.values()]
    names = ("x", "y", "width", "height")
    rects = [{name: float(one.get(name)) for name in names} for one in root if one.tag.endswith("rect")]
    assert not any(overlap(one, other) for one, other in combinations(rects, 2))
    assert "<script" not in html
    assert "style=" not in drawn
    assert "The diagram as text (Mermaid)" in html


def overlap(one, other):
    beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
    above = one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
    return not (beside or above)


@pytest.mark.parametrize(
    "text",
    ["sequenceDiagram\n    A->>B: hello", "flowchart LR", "flowchart LR\n    a --> b", "flowchart LR\n    click a x"],
)
def test_a_diagram_of_other_rules_stays_text(text):
    html = html_of(f"```mermaid\n{text}\n```\n", "a.md", headings=False)
    assert "<svg" not in html
    assert "<code" in html

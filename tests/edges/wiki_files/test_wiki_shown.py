"""A wiki that is read: its links lead somewhere, and a browser obeys nothing that is written in it."""

import http.client
import threading
from contextlib import contextmanager

import pytest

from treering.core.errors import NotFound
from treering.edges.wiki_files.folder import WikiFolder
from treering.edges.wiki_files.link_check import broken_links
from treering.edges.wiki_files.serving import wiki_server
from treering.edges.wiki_files.showing import WikiBrowser
from treering.memories.wiki.files.addresses import FileAddresses
from treering.memories.wiki.files.regions import KEEP
from wiki_by_hand import page, small_wiki, wiki


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("line\n" * 9)
    WikiFolder(tmp_path / "wiki", FileAddresses("wiki")).publish(*small_wiki())
    return tmp_path


def broken(tree):
    found = broken_links(tree / "wiki", work_tree=tree)
    return [(one.page, one.target, one.why) for one in found]


def test_no_link_of_a_published_wiki_is_broken(tree):
    assert broken(tree) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("none.md", "there is no such file"),
        ("overview.md#none", "the page has no such heading"),
        ("../src/app.py#L1-L10", "the file has 9 lines"),
        ("../../outside.md", "it leads out of the wiki and its work tree"),
        ("page:overview.md", "its scheme leads nowhere"),
        ("javascript:alert(1)", "its scheme leads nowhere"),
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
    with pytest.raises(NotFound, match="no folder"), wiki_server(tmp_path / "none"):
        pass

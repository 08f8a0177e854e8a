"""The wiki on the web page and as `treering wiki page`: every link leads somewhere, and nothing in it is obeyed."""

import json
import re
import subprocess
from threading import Event

import pytest
from rest_parts import running
from test_web_pages import Outline
from web_parts import HOSTILE

from space_parts import open_space
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.server import pages
from treering.extensions.server.callers import Bounds
from treering.extensions.wiki import reading
from treering.extensions.wiki.rules.writer import RuleWriter
from treering.surfaces.cli import run

FILES = {
    "README.md": f"# Shop\n\nA shop with routes. {HOSTILE}\n\n## Start\n\nSee [the app](src/shop/app.py).\n",
    "src/shop/__init__.py": '"""A shop."""\n',
    "src/shop/app.py": f'"""Routes requests. {HOSTILE.replace(chr(34), "")}"""\n\nfrom shop.rules import matches\n\n\n'
    'def route(path: str) -> str:\n    """Return the page at a path."""\n    return path if matches(path) else ""\n',
    "src/shop/rules.py": '"""Rules that paths match."""\n\n\ndef matches(path: str) -> bool:\n'
    '    """Tell whether a path is a page."""\n    return path.startswith("/")\n',
}


def repository(folder, files=FILES):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "First")):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wiki-site")
    with open_space(f"sqlite:{folder / 'space.db'}", channel="user") as space:
        space.ingest("repo", input={"path": str(repository(folder / "shop"))})
    with running(folder) as client:
        yield client


@pytest.fixture
def space(tmp_path):
    with open_space(channel="user", actor="ada") as space:
        space.ingest("repo", input={"path": str(repository(tmp_path / "shop"))})
        yield space


def test_every_page_is_shown_every_link_leads_somewhere_and_nothing_is_obeyed(client):
    waiting, seen = ["/web/wiki"], set()
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code == 200, address
        outline = Outline(answer.text)
        assert outline.handlers == []
        assert not {"script", "img", "iframe"} & {*outline.tags[outline.tags.index("main") :]}
        links = (one.partition("#")[0] for one in outline.addresses if one)
        waiting += [one for one in links if one.startswith("/web/wiki")]
    assert {"/web/wiki/overview.md", "/web/wiki/modules/shop-app.md"} <= seen
    assert len(seen) > 5


def test_a_wiki_that_takes_long_is_written_apart_and_its_page_says_how_far_it_is(tmp_path, monkeypatch):
    begun, go_on = Event(), Event()

    def slow(engine, scope, **given):
        begun.set()
        engine.progress("Reading files of code", 50, 2_000)
        assert go_on.wait(30)
        return RuleWriter(engine, scope, **given)

    monkeypatch.setattr(reading, "RuleWriter", slow)
    monkeypatch.setattr(pages, "_PATIENCE", 0.05)
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        space.ingest("repo", input={"path": str(repository(tmp_path / "shop"))})
    with running(tmp_path, bounds=Bounds(read_seconds=20)) as client:
        first = client.get("/web/wiki")
        assert begun.wait(30)
        second = client.get("/web/wiki/overview.md")
        assert (first.status_code, second.status_code) == (202, 202)
        assert "The wiki is being written" in first.text
        assert "Reading files of code: 50 of 2000" in second.text
        assert second.headers["Refresh"] == "2"
        go_on.set()
        for _ in range(600):
            answer = client.get("/web/wiki/overview.md")
            if answer.status_code == 200:
                break
    assert "A shop with routes." in answer.text


def test_a_page_says_what_links_to_it_and_what_became_of_its_files(client):
    text = client.get("/web/wiki/modules/shop-rules.md").text
    linked, changed = text.partition("Linked from")[2], text.partition("Changes of its files")[2]
    assert "/web/wiki/modules/shop-app.md" in linked
    assert "src/shop/rules.py" in changed
    assert "treering wiki page modules/shop-rules.md" in text


@pytest.mark.parametrize("path", ["nowhere.md", "../../etc/passwd", "modules/", "%00.md"])
def test_a_page_that_is_not_there_is_reported(client, path):
    assert client.get(f"/web/wiki/{path}").status_code in {404, 422}


def test_a_page_changes_with_its_file_at_once(space, tmp_path):
    before = space.perform("wiki page", input={"path": "modules/shop-rules.md"})
    assert "Tell whether a path is a page." in before.text
    assert space.perform("wiki page", input={"path": "modules/shop-rules.md"}) == before
    file = tmp_path / "shop/src/shop/rules.py"
    file.write_text(file.read_text().replace("Tell whether a path is a page.", "Tell whether a path is shown."))
    space.ingest("repo", input={"path": str(tmp_path / "shop")}, options={"worktree": True})
    after = space.perform("wiki page", input={"path": "modules/shop-rules.md"})
    assert "Tell whether a path is shown." in after.text
    assert after.changes[0].what == "updated"


def test_a_name_that_is_nearly_one_and_several_repositories_are_reported(space, tmp_path):
    with pytest.raises(NotFound) as refused:
        space.perform("wiki page", input={"path": "modules/shop-rule.md"})
    assert "modules/shop-rules.md" in refused.value.hint
    other = repository(tmp_path / "other", {"README.md": "# Other\n\nAnother repository.\n"})
    space.ingest("repo", input={"path": str(other)})
    with pytest.raises(InvalidInput, match="contains 2 repositories"):
        space.perform("wiki page")
    names = [page.path for page in space.perform("wiki page", input={"repository": "other"}).pages]
    assert "modules/shop-app.md" not in names
    with pytest.raises(NotFound, match="no repository"):
        space.perform("wiki page", input={"repository": "nobody"})


def test_the_command_prints_the_page_and_what_links_to_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TREERING_SPACE", f"sqlite:{tmp_path / 'space.db'}")
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.chdir(repository(tmp_path / "shop"))
    assert run(["ingest", "."]) == 0
    capsys.readouterr()
    assert run(["wiki", "page", "modules/shop-rules.md"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# shop.rules")
    assert re.search(r"Linked from:\n(?: +\S+ .*\n)* +modules/shop-app.md", printed)
    assert run(["wiki", "page", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == "index.md"


def written(space, path: str = "") -> tuple[str, bool]:
    """Return the text of a page, and whether the wiki had to be written for it."""
    told: list[str] = []
    watched = space.with_progress(lambda what, _done, _total: told.append(what))
    return watched.perform("wiki page", input={"path": path}).text, "Writing the wiki" in told


def test_a_wiki_is_not_written_again_for_what_is_not_about_its_repository(space):
    text, was_written = written(space)
    assert was_written
    space.ingest("source", input={"items": [{"text": "The shop opens at nine.", "origin": "note:hours"}]})
    assert written(space) == (text, False)
    assert written(space, "overview.md")[1] is False


def test_a_wiki_is_written_again_when_a_file_of_its_repository_changes_or_goes(space, tmp_path):
    written(space)
    repository(tmp_path / "shop", {"src/shop/rules.py": FILES["src/shop/rules.py"] + "\n\nRULES = 3\n"})
    space.ingest("repo", input={"path": str(tmp_path / "shop")})
    assert written(space, "modules/shop-app.md")[1]
    routes = next(
        hit for hit in space.query("search", input={"text": "Routes requests"}, options={"descend": True}).hits
    )
    assert not written(space)[1]
    space.erase([routes.source_id])
    text, was_written = written(space)
    assert was_written
    assert "Routes requests" not in text


def test_a_wiki_is_written_again_for_what_is_known_of_its_repository(space):
    written(space)
    space.crystallize("knowledge", input={"kind": "constraint", "title": "Routes", "payload": {"rule": "No loops"}})
    assert written(space)[1]

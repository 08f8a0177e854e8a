"""`treering wiki` on a real repository: written, looked at, published."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from space_parts import decide, open_space
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.wiki.operations import BUILD, PUBLISH, STATUS
from treering.surfaces.cli import run

APP = '''"""Routes requests of the shop."""

from shop.rules import matches


def route(path: str) -> str:
    """Return the page at a path."""
    return path if matches(path) else ""
'''
RULES = '''"""Rules that paths match."""


def matches(path: str) -> bool:
    """Tell whether a path is a page."""
    return path.startswith("/")
'''
README = "# Shop\n\nA shop with routes.\n\n## Start\n\n```python\nfrom shop.app import route\n\nroute('/')\n```\n"


def git(folder, *arguments):
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A repository and a space that holds it."""
    home = tmp_path_factory.mktemp("wiki")
    tree = home / "shop"
    for path, text in (("README.md", README), ("src/shop/app.py", APP), ("src/shop/rules.py", RULES)):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text.replace("\\\n", "\n"))
    (tree / "src/shop/__init__.py").write_text('"""A shop."""\n')
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "First")
    with open_space(f"sqlite:{home / 'space.db'}", channel="user", actor="ada") as space:
        space.ingest("repo", input={"path": str(tree)})
        decide(space, "Use one router", status="active")
    return home


@pytest.fixture
def home(template, tmp_path, monkeypatch):
    place = tmp_path / "home"
    shutil.copytree(template, place, symlinks=True)
    monkeypatch.chdir(place / "shop")
    monkeypatch.setenv("TREERING_SPACE", f"sqlite:{place / 'space.db'}")
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    return place


@pytest.fixture
def opened(home):
    with open_space(f"sqlite:{home / 'space.db'}", channel="user", actor="ada") as space:
        yield space


def told(capsys, *arguments, code=0):
    capsys.readouterr()
    assert run(["wiki", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_wiki_is_built_in_the_repository_and_the_second_time_no_file_is_written(home, capsys):
    first = told(capsys, "build")
    assert first["folder"] == str(home / "shop" / "wiki")
    assert {"index.md", "log.md", "overview.md"} <= set(first["written"])
    assert told(capsys, "build")["written"] == []
    standing = told(capsys, "status", "--check")
    assert {page["state"] for page in standing["pages"]} == {"fresh"}
    assert standing["broken_links"] == []


def test_what_is_printed_names_counts_and_what_a_person_changed(home, capsys):
    assert run(["wiki", "build"]) == 0
    (home / "shop" / "wiki" / "overview.md").write_text("Mine.")
    capsys.readouterr()
    assert run(["wiki", "build"]) == 0
    assert "0 files written" in (shown := capsys.readouterr().out)
    assert "overview.md" in shown
    assert run(["wiki", "status", "--check"]) == 1
    assert "Changed by a person" in capsys.readouterr().out


def test_an_edit_of_the_code_makes_its_pages_stale_and_a_build_writes_few(home, capsys):
    everything = told(capsys, "build")["written"]
    tree = home / "shop"
    (tree / "src/shop/rules.py").write_text(RULES.replace('startswith("/")', 'startswith("/shop")'))
    git(tree, "commit", "-q", "-am", "Edit")
    assert run(["ingest", ".", "--no-background"]) == 0
    stale = {page["path"]: page for page in told(capsys, "status")["pages"] if page["state"] != "fresh"}
    assert "modules/shop-rules.md" in stale
    assert any("src/shop/rules.py" in why for why in stale["modules/shop-rules.md"]["why"])
    written = told(capsys, "build")["written"]
    assert "modules/shop-rules.md" in written
    assert "modules/shop-app.md" not in written
    assert len(written) < len(everything)
    assert told(capsys, "status", "--check")["pages"]


def test_a_wiki_that_is_committed_settles(home, capsys):
    tree = home / "shop"
    told(capsys, "build")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "Add the wiki")
    assert run(["ingest", ".", "--no-background"]) == 0
    assert told(capsys, "build")["written"] == []


@pytest.mark.parametrize("folder", ["wiki", "docs/wiki"])
def test_an_uncommitted_wiki_is_no_unread_file(home, capsys, folder):
    tree = home / "shop"
    told(capsys, "build", "--to", str(tree / folder))
    assert run(["ingest", ".", "--no-background"]) == 0
    assert "untracked" not in "".join(capsys.readouterr())
    (tree / folder / "mine.md").write_text("# Mine\n")
    assert run(["ingest", ".", "--no-background"]) == 0
    assert "untracked" in "".join(capsys.readouterr())


def test_a_deleted_page_is_no_unread_file(home, capsys):
    told(capsys, "build")
    tree = home / "shop"
    git(tree, "rm", "-q", "src/shop/rules.py")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "Remove the rules, add the wiki")
    assert run(["ingest", ".", "--no-background"]) == 0
    assert "modules/shop-rules.md" in told(capsys, "build")["removed"]
    assert run(["ingest", ".", "--no-background"]) == 0
    assert "untracked" not in "".join(capsys.readouterr())


def test_recent_changes_have_the_subjects_of_commits_as_plain_words(home, capsys):
    tree = home / "shop"
    (tree / "src/shop/rules.py").write_text(RULES.replace('startswith("/")', 'startswith("/shop")'))
    git(tree, "commit", "-q", "-am", "Match *all* paths below <b>/shop</b>, key AKIAIOSFODNN7EXAMPLE")
    assert run(["ingest", ".", "--no-background"]) == 0
    told(capsys, "build")
    page = (tree / "wiki" / "changes.md").read_text()
    assert "Match \\*all\\* paths below &lt;b>/shop&lt;/b>" in page
    assert "AKIAIOSFODNN7EXAMPLE" not in page
    assert page.index("Match") < page.index(": First")


def test_a_page_whose_file_is_gone_is_unresolved(home, capsys):
    told(capsys, "build")
    tree = home / "shop"
    git(tree, "rm", "-q", "src/shop/rules.py")
    git(tree, "commit", "-q", "-m", "Remove")
    assert run(["ingest", ".", "--no-background"]) == 0
    states = {page["path"]: page["state"] for page in told(capsys, "status", "--check", code=1)["pages"]}
    assert states["modules/shop-rules.md"] == "unresolved"
    assert "modules/shop-rules.md" in told(capsys, "build")["removed"]


def test_dry_run_reports_without_writing(home, capsys):
    assert told(capsys, "build", "--dry-run")["written"]
    assert not (home / "shop" / "wiki").exists()


def test_a_published_wiki_never_leads_into_the_work_tree(home, capsys):
    told(capsys, "publish", str(home / "shop" / "site"))
    told(capsys, "build")
    inside = (home / "shop" / "wiki" / "modules" / "shop-app.md").read_text()
    outside = (home / "shop" / "site" / "modules" / "shop-app.md").read_text()
    assert "](../../src/shop/app.py#L" in inside
    assert "src/shop/app.py#L" not in outside.split("---\n", 2)[2]


def test_the_log_names_the_commit_and_its_day_and_every_page_has_front_matter(opened, home):
    opened.perform(BUILD, input={"repository": str(home / "shop")})
    wiki = home / "shop" / "wiki"
    assert re.search(r"^## \d{4}-\d\d-\d\d, commit `[0-9a-f]{12}`$", (wiki / "log.md").read_text(), re.MULTILINE)
    for page in wiki.rglob("*.md"):
        assert yaml.safe_load(page.read_text().split("---\n")[1])["title"]


def test_forge_addresses_are_refused_where_the_remote_is_no_forge(opened, home):
    given = {"repository": str(home / "shop")}
    with pytest.raises(InvalidInput, match="not a known forge"):
        opened.perform(BUILD, input=given, options={"links": "forge"})
    with pytest.raises(InvalidInput, match="is not in the work tree"):
        opened.perform(PUBLISH, input={**given, "to": str(home / "out")}, options={"links": "files"})
    with pytest.raises(NotFound, match="no wiki"):
        opened.perform(STATUS, input=given)


def test_a_space_without_a_repository_says_what_to_do(space, tmp_path):
    with pytest.raises(NotFound, match="contains no repository") as caught:
        space.perform(BUILD, input={"repository": str(tmp_path)})
    assert "treering add ." in caught.value.hint


def test_a_folder_outside_of_git_has_a_wiki_too(space, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "app.py").write_text(APP)
    (tmp_path / "notes" / "README.md").write_text("# Notes\n\nSome notes.\n")
    space.ingest("path", input={"path": str(tmp_path / "notes")})
    made = space.perform(BUILD, input={"repository": str(tmp_path / "notes")})
    assert made.folder == str(tmp_path / "notes" / "wiki")
    assert space.perform(STATUS, input={"repository": str(tmp_path / "notes")}).in_order


MKDOCS = """site_name: Wiki
docs_dir: wiki
theme: {theme}
plugins: []
validation: {{links: {{anchors: warn, unrecognized_links: warn}}}}
"""


@pytest.mark.nightly
@pytest.mark.parametrize("builder", ["mkdocs", "zensical"])
def test_a_site_builder_takes_the_wiki_without_a_warning(home, builder):
    pytest.importorskip(
        "material" if builder == "mkdocs" else builder, reason=f"needs {builder}, of the extra 'dev-all'"
    )
    assert run(["wiki", "publish", str(home / "site" / "wiki")]) == 0
    theme = "{name: material, font: false}" if builder == "mkdocs" else "{variant: modern, font: false}"
    (home / "site" / "mkdocs.yml").write_text(MKDOCS.format(theme=theme))
    done = subprocess.run(
        [sys.executable, "-m", builder, "build", "--strict"],
        cwd=home / "site",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"^(?:WARNING|Warning)\b", done.stdout + done.stderr, re.MULTILINE)
    assert (home / "site" / "site" / "modules" / "shop-app" / "index.html").exists()

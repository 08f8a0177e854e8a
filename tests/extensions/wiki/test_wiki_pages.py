"""Pages of a wiki written by rules: what they say, what they cite, and what a change of the repository changes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bakery import FILES, Bakery, inputs, wiki, writer_of
from markdown_it import MarkdownIt
from mermaid_syntax import check_diagram, diagrams

import space_parts
from treering.core.errors import NotFound
from treering.core.evidence import segment_hash
from treering.extensions.wiki.pages import WikiWriter
from treering.extensions.wiki.repository import packages
from treering.extensions.wiki.rules import page_paths

GOLDEN = Path(__file__).parent / "golden" / "bakery.md"
_LINK = re.compile(r"\]\((\w+):([^)#\s]+)(?:#([^)\s]+))?\)")
_PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

HOSTILE = "a|b`c*d_e[f](javascript:alert(1))<script>alert(1)</script>"


@pytest.fixture
def bakery(tmp_path):
    return Bakery(tmp_path / "bakery")


@pytest.fixture
def read_space(space, bakery):
    bakery.ingest(space)
    return space


def links(page, scheme):
    """Return the links of a page outside of code with a scheme: path and what stands behind `#`."""
    found = []
    for token in _PARSER.parse(page.body):
        for child in token.children or ():
            target = dict(child.attrs).get("href", "") if child.type == "link_open" else ""
            if target.startswith(f"{scheme}:"):
                path, _, behind = target.removeprefix(f"{scheme}:").partition("#")
                found.append((path, behind))
    return found


def test_the_wiki_of_a_small_repository_reads_as_agreed(read_space):
    pages = wiki(read_space)
    text = "".join(f"<!-- {path} -->\n\n{page.body}\n" for path, page in pages.items())
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "If this is meant, run the tests with REWRITE_GOLDEN=1."


def test_the_rule_writer_is_a_writer_of_wikis(read_space):
    writer: WikiWriter = writer_of(read_space)
    assert writer


def test_each_link_to_a_source_cites_lines_that_the_space_holds(read_space):
    cited = 0
    for page in wiki(read_space).values():
        told = {(one.path, f"L{one.first_line}-L{one.last_line}") for one in page.citations}
        assert set(links(page, "source")) == told
        for one in page.citations:
            source = space_parts.read(read_space, one.source_id)
            (part,) = [part for part in source.segments if part.segment_id == one.segment_id]
            lines = FILES[one.path].split("\n")[one.first_line - 1 : one.last_line]
            assert part.locator.start <= one.first_line <= one.last_line <= part.locator.end
            assert one.content_hash == segment_hash("\n".join(lines), salt=source.salt)
            assert one.commit == part.locator.commit
            cited += 1
    assert cited > 50


def test_each_link_to_a_page_leads_to_a_page_of_the_plan(read_space):
    pages = wiki(read_space)
    targets = {path for page in pages.values() for path, _ in links(page, "page")}
    assert targets <= set(pages)
    assert len(targets) > 10


def test_all_diagrams_are_boxes_and_arrows_between_them(read_space):
    found = [one for page in wiki(read_space).values() for one in diagrams(page.body)]
    for one in found:
        check_diagram(one)
    assert len(found) > 4


def test_the_same_space_gives_the_same_bytes_in_another_process(tmp_path, open_space, bakery):
    address = f"sqlite:{tmp_path / 's.db'}"
    space = open_space(address)
    bakery.ingest(space)
    here = [page.body for page in wiki(space).values()]
    program = (
        "import sys, json; sys.path[:0] = json.loads(sys.argv[2])\n"
        "import space_parts; from bakery import wiki\n"
        "with space_parts.open_space(sys.argv[1]) as space:\n"
        "    print(json.dumps([page.body for page in wiki(space).values()]))"
    )
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        asked = [sys.executable, "-c", program, address, json.dumps(folders)]
        done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.strip() == json.dumps(here)


def test_an_edit_of_one_function_changes_the_pages_that_tell_of_it_alone(read_space, bakery):
    before = inputs(read_space)
    bakery.edit("src/bakery/sweets/cake.py", '"""Bake a cake."""', '"""Bake a very good cake."""')
    bakery.ingest(read_space)
    after = inputs(read_space)
    assert before.keys() == after.keys()
    changed = {path for path in after if after[path] != before[path]}
    assert changed == {"modules/bakery-sweets-cake.md", "reference.md", "changes.md"}


def test_an_edit_of_the_inside_of_a_function_changes_no_page_that_does_not_cite_it(read_space, bakery):
    before = inputs(read_space)
    bakery.edit("src/bakery/cli.py", "bake(500)", "bake(600)")
    bakery.ingest(read_space)
    after = inputs(read_space)
    changed = {path for path in after if after[path] != before[path]}
    assert changed <= {"modules/bakery-cli.md", "reference.md", "changes.md", "modules/bakery-loaf.md"}
    assert "modules/bakery-cli.md" in changed
    assert "modules/bakery-oven.md" not in changed


def test_reading_the_same_commit_again_changes_no_page(read_space, bakery):
    before = inputs(read_space)
    bakery.ingest(read_space)
    assert inputs(read_space) == before


def test_inputs_are_those_of_the_page_that_is_written(read_space):
    writer = writer_of(read_space)
    plan = writer.plan()
    for page in plan.pages:
        first = writer.inputs(plan, page)
        written = writer.write(plan, page)
        assert writer.inputs(plan, page) == first
        assert writer.write(plan, page) == written


def test_what_the_files_say_is_shown_and_never_obeyed(tmp_path, space):
    names = {
        "src/evil/__init__.py": f'"""{HOSTILE}\n\n# Not a heading\n"""\n',
        "src/evil/a b(c)#d.py": f'def f(x="{"|"}"):\n    """<img src=x onerror=alert(1)> {HOSTILE}"""\n',
        'src/evil/q"]; n9["x.py': f'"""{HOSTILE}"""\nfrom evil.plain import g\n\n\ndef h():\n    return g()\n',
        "src/evil/plain.py": '"""- [x](javascript:1)"""\n\n\ndef g():\n    """```"""\n',
        "README.md": f"# {HOSTILE}\n\n{HOSTILE} <b>x</b>\n\n## Usage\n\n````\n```\n</code>\n````\n",
        "docs/x.md": f"# {HOSTILE}\n\n{HOSTILE}\n\n## {HOSTILE}\n\n- {HOSTILE}\n\n[x]: javascript:alert(1)\n",
    }
    Bakery(tmp_path / "evil", names).ingest(space)
    space_parts.decide(space, HOSTILE)
    strict = MarkdownIt("commonmark", {"html": True}).enable("table")
    pages = wiki(space)
    assert any("alert" in page.body for page in pages.values())
    for page in pages.values():
        assert "\n# " not in page.body.replace("```\n# ", "")
        for one in diagrams(page.body):
            check_diagram(one)
        for token in strict.parse(page.body):
            assert token.type != "html_block"
            for child in token.children or ():
                assert child.type not in ("html_inline", "image")
                if child.type == "link_open":
                    assert child.attrs["href"].startswith(("page:", "source:"))
        told = {(one.path, one.first_line) for one in page.citations}
        assert {path for path, _ in told} <= set(names)


def test_tables_have_as_many_cells_as_heads_whatever_is_in_them(tmp_path, space):
    Bakery(
        tmp_path / "x", {"src/x.py": 'def f(a: int | None = "|") -> str | int:\n    """Give a|b or `a|b`."""\n'}
    ).ingest(space)
    (page,) = [page for path, page in wiki(space).items() if path == "modules/x.md"]
    tokens = [token.type for token in _PARSER.parse(page.body)]
    assert tokens.count("td_open") == 2 * tokens.count("tr_open") - 2


def test_what_the_space_knows_is_on_the_page_of_the_module_it_rests_on(read_space):
    (oven,) = [one for one in space_parts.all_of(read_space, "source") if one.title == "src/bakery/oven.py"]
    evidence = {"source_id": oven.id, "segment_id": oven.segments[-1].segment_id}
    space_parts.decide(read_space, "Ovens are electric", evidence)
    pages = wiki(read_space)
    assert "Ovens are electric" in pages["decisions.md"].body
    assert "[Ovens are electric](page:decisions.md)" in pages["modules/bakery-oven.md"].body
    assert "Ovens are electric" not in pages["modules/bakery-books.md"].body


def node_called(space, name):
    return space.query("page", input={"name": name}).ids[0]


def test_what_a_person_declares_is_told_and_on_the_page_of_the_module_that_it_names(open_space, bakery):
    space = open_space(actor="ada", channel="user")
    bakery.ingest(space)
    space_parts.decide(space, "Loaves are never frozen")
    rule = {"rule": "Cakes are baked below 200 degrees."}
    sweets = node_called(space, "bakery.sweets")
    space_parts.decide(space, "Cakes stay low", kind="constraint", payload=rule, subject_refs=[sweets])
    pages = wiki(space)
    told = pages["decisions.md"].body
    assert "### Loaves are never frozen" in told
    assert "- **Rule:** Cakes are baked below 200 degrees.\n- **About:** [`bakery/sweets`](page:modules/" in told
    naming = [path for path, page in pages.items() if "Cakes are baked below 200" in page.body]
    assert naming == ["modules/bakery-sweets-cake.md", "decisions.md"]


def test_what_is_declared_about_another_repository_alone_is_omitted(tmp_path, open_space, bakery):
    space = open_space(actor="ada", channel="user")
    bakery.ingest(space)
    Bakery(tmp_path / "mill", {"src/mill/__init__.py": '"""Mills."""\n', "src/mill/a.py": "A = 1\n"}).ingest(space)
    space_parts.decide(space, "Mills turn by wind", subject_refs=[node_called(space, "mill")])
    space_parts.decide(space, "Everybody wears a hat")
    (file,) = [one for one in space_parts.all_of(space, "source") if one.title == "src/mill/a.py"]
    evidence = {"source_id": file.id, "segment_id": file.segments[0].segment_id}
    space_parts.decide(space, "Mills count from one", evidence)
    roots = sorted(one.origin for one in space_parts.all_of(space, "source") if one.kind == "repo")
    mill, bread = (wiki(space, root=root)["decisions.md"].body for root in reversed(roots))
    assert "Mills turn by wind" in mill
    assert "Mills count from one" in mill
    assert "Mills" not in bread
    assert "Everybody wears a hat" in mill
    assert "Everybody wears a hat" in bread


def section_of(page, heading):
    """Return the text below a heading of the second level."""
    return page.body.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def cited_part(space, path, at=-1):
    (file,) = [one for one in space_parts.all_of(space, "source") if one.title == path]
    return {"source_id": file.id, "segment_id": file.segments[at].segment_id}


def test_a_proposal_is_not_listed_as_decided(read_space):
    oven = cited_part(read_space, "src/bakery/oven.py")
    space_parts.decide(read_space, "Ovens are electric", oven, status="candidate")
    rule = {"rule": "No raisins in cakes."}
    space_parts.decide(read_space, "Raisins", kind="constraint", payload=rule, status="candidate")
    space_parts.decide(read_space, "Loaves cool down", oven)
    pages = wiki(read_space)
    page = pages["decisions.md"]
    assert "### Loaves cool down" in section_of(page, "Decisions")
    assert "Ovens are electric" not in section_of(page, "Decisions")
    assert section_of(page, "Rules") == ""
    assert "- Ovens are electric ([src/bakery/oven.py" in section_of(page, "Proposed, not confirmed")
    assert "- Raisins: No raisins in cakes." in section_of(page, "Proposed, not confirmed")
    assert [path for path, one in pages.items() if "Ovens are electric" in one.body] == ["decisions.md"]


def test_statements_of_files_are_listed_apart(read_space):
    page = wiki(read_space)["decisions.md"]
    assert "One oven" in section_of(page, "Stated in files, not confirmed")
    assert section_of(page, "Decisions") == ""


def test_facts_that_an_agent_proposes_are_omitted(read_space):
    manifest = cited_part(read_space, "pyproject.toml")
    space_parts.state_fact(read_space, "bakery", "depends on sugar", "1", manifest, status="candidate")
    assert "| Depends on | flour |" in wiki(read_space)["overview.md"].body


def test_stale_and_contested_decisions_are_marked(read_space, bakery):
    space_parts.decide(read_space, "Ovens are electric", cited_part(read_space, "src/bakery/oven.py"))
    loaf = cited_part(read_space, "src/bakery/loaf.py")
    space_parts.decide(read_space, "Loaves are round", loaf, payload={"question": "Form?", "outcome": "Round"})
    square = {"payload": {"question": "Form?", "outcome": "Square"}, "status": "candidate"}
    space_parts.decide(read_space, "Loaves are square", loaf, **square)
    bakery.edit("src/bakery/oven.py", "self.degrees = degrees", "self.degrees = degrees + 1")
    bakery.ingest(read_space)
    pages = wiki(read_space)
    page = pages["decisions.md"]
    assert "Ovens are electric" not in section_of(page, "Decisions")
    assert "Ovens are electric" in section_of(page, "Stale: the evidence was changed or deleted")
    assert "Contested: another statement contradicts it." in section_of(page, "Decisions")
    assert "- Loaves are square (contested): Square" in section_of(page, "Proposed, not confirmed")
    assert "[Loaves are round](page:decisions.md) (contested): Round" in pages["modules/bakery-loaf.md"].body


def test_archived_and_unfinished_records_are_omitted(open_space, bakery):
    space = open_space(actor="ada", channel="user")
    bakery.ingest(space)
    gone = space_parts.decide(space, "Ovens are electric", status="active")
    space.crystallize("knowledge", input={"id": gone, "status": "archived"})
    space.crystallize("activity", input={"title": "Bake a test loaf", "status": "draft"})
    assert not [path for path, page in wiki(space).items() if "electric" in page.body or "test loaf" in page.body]


def test_a_decision_cites_its_recorded_lines(read_space):
    loaf = cited_part(read_space, "src/bakery/loaf.py")
    read_space.decide("Loaves are baked hot", because="src/bakery/loaf.py:31")
    page = wiki(read_space)["decisions.md"]
    assert "Based on [src/bakery/loaf.py, line 31](source:src/bakery/loaf.py#L31-L31)." in page.body
    (cited,) = [one for one in page.citations if one.source_id == loaf["source_id"]]
    source = space_parts.read(read_space, cited.source_id)
    text = FILES["src/bakery/loaf.py"].split("\n")[30]
    assert (cited.first_line, cited.last_line) == (31, 31)
    assert cited.content_hash == segment_hash(text, salt=source.salt)


def test_where_there_are_more_modules_than_asked_for_their_package_tells_of_them(read_space, monkeypatch):
    monkeypatch.setattr(packages, "MAX_PART_PAGES", 3)
    pages = wiki(read_space)
    modules = [path for path in pages if path.startswith("modules/")]
    assert len(modules) == 3
    package = pages["modules/bakery.md"].body
    assert "## [`books.py`](source:" in package
    assert "Write a sale down." in package


def test_documents_without_a_page_are_counted(read_space, monkeypatch):
    monkeypatch.setattr(page_paths, "MAX_DOCUMENT_PAGES", 1)
    pages = wiki(read_space)
    assert "more documents without pages" in pages["overview.md"].body


def test_a_folder_that_is_no_repository_has_a_wiki_without_commits(tmp_path, space):
    for path, text in FILES.items():
        file = tmp_path / "plain" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    space.ingest("path", input={"path": str(tmp_path / "plain")})
    pages = wiki(space, f"file:{(tmp_path / 'plain').as_posix()}")
    assert "modules/bakery-oven.md" in pages
    assert {one.commit for page in pages.values() for one in page.citations} == {None}


def test_a_plan_of_something_that_is_gone_asks_for_another(read_space, bakery):
    old = writer_of(read_space).plan()
    (page,) = [page for page in old.pages if page.path == "modules/bakery-oven.md"]
    bakery.git("mv", "src/bakery/oven.py", "src/bakery/stove.py")
    bakery.commit({})
    bakery.ingest(read_space)
    with pytest.raises(NotFound, match="oven"):
        writer_of(read_space).write(old, page)

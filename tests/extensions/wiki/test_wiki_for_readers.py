"""The wiki as its readers see it: the index, purposes, links and cited lines."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from bakery import FILES, Bakery, wiki
from markdown_it import MarkdownIt

from treering.core.errors import InvalidInput, NotFound
from treering.extensions.mcp.answers import text_of

LAWN = {
    "README.md": "# Lawn\n\nLawn mows grass in several languages.\n",
    "go.mod": "module example.org/lawn/v3\n\ngo 1.24\n",
    "docs/guide.md": "---\ntitle: The guide\n---\n\n[Home](a.md) | [FAQ](b.md)\n\nThis guide is about mowing.\n",
    "docs/latest/guide.md": "---\ntitle: Mowing\n---\n\nHow to mow a lawn with care.\n",
    "docs/next/guide.md": "---\ntitle: Mowing\n---\n\nHow to mow a lawn with care.\n",
    "mower/README.md": "# Mower\n\nThe engine that cuts the grass.\n",
    "mower/src/lib.rs": "/*!\nCuts grass.\n\n# Details\n*/\n\nmod blade;\npub use crate::blade::Blade;\n",
    "mower/src/blade.rs": "/// A sharp edge.\n#[derive(Debug)]\npub struct Blade {\n    length: u8,\n}\n",
    "mower/benches/bench.rs": "/// Runs.\npub fn run() {}\n",
    "shed/units.hh": "#ifndef units_hh_INCLUDED\n#define units_hh_INCLUDED\n\nint length();\n#endif\n",
    "shed/constants.ts": "/** Marks a tool. */\nexport const TOOL = 1\n",
    "shed/rake.ts": (
        "/**\n * Rakes leaves, such as `/lawn/*`, into a heap.\n"
        + " *\n"
        + " * More.\n" * 60
        + " */\nexport const rake = (leaves: number): void => {\n  return async function rake(c: number) {}\n}\n"
    ),
    "yard/src/main/java/org/lawn/Hedge.java": (
        "/* Copyright 2020. */\npackage org.lawn;\n\n/**\n * A hedge, trimmed by {@code Hedge} &amp; co.\n *\n"
        + " * <p>Long.\n" * 80
        + " */\npublic final class Hedge {\n  public void trim() {}\n}\n"
    ),
    "yard/src/main/java/org/lawn/package-info.java": "/** Hedges and fences. */\n@Quiet\npackage org.lawn;\n",
}


@pytest.fixture
def lawn(tmp_path, space):
    Bakery(tmp_path / "lawn", LAWN).ingest(space)
    return wiki(space)


def test_directives_of_c_are_no_purpose(lawn):
    assert not any("INCLUDED" in page.plan.purpose for page in lawn.values())


def published(space, folder):
    space.perform("wiki build", input={"repository": str(folder), "to": str(folder / "wiki")})
    return {path.relative_to(folder / "wiki").as_posix(): path.read_text() for path in folder.glob("wiki/**/*.md")}


def links(text):
    tokens = MarkdownIt("commonmark").enable("table").parse(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    children = [child for token in tokens for child in token.children or ()]
    for at, child in enumerate(children):
        if child.type == "link_open":
            yield unquote(str(child.attrs["href"])), children[at + 1]


def test_published_links_lead_to_files_and_lines_with_the_name(tmp_path, space):
    folder = tmp_path / "bakery"
    Bakery(folder).ingest(space)
    cited = 0
    for path, text in published(space, folder).items():
        for address, label in links(text):
            target, _, lines = address.partition("#L")
            place = (folder / "wiki" / path).parent / target
            assert place.is_file(), f"{path} links to {address}"
            if lines:
                first, last = map(int, lines.split("-L"))
                shown = place.read_text().split("\n")[first - 1 : last]
                assert len(shown) == last - first + 1
                if label.type == "code_inline" and label.content.isidentifier() and "__init__" not in shown[0]:
                    assert label.content in "\n".join(shown)
                cited += 1
    assert cited > 50


def test_published_index_lists_every_page_once(tmp_path, space):
    Bakery(tmp_path / "bakery", {**FILES, **LAWN}).ingest(space)
    files = published(space, tmp_path / "bakery")
    listed = [address for address, _ in links(files["index.md"])]
    assert sorted(listed) == sorted(files.keys() - {"index.md"})
    groups = re.findall(r"^### (.+)$", files["index.md"], re.MULTILINE)
    assert {"mower", "shed", "bakery"} <= set(groups)


def test_documents_and_modules_state_their_purpose(lawn):
    purposes = {path: page.plan.purpose for path, page in lawn.items()}
    assert purposes["modules/mower-src.md"] == "Cuts grass."
    assert purposes["modules/mower-src-blade.md"] == "Blade: A sharp edge."
    assert purposes["modules/shed.md"] == ""
    assert purposes["modules/shed-rake.md"] == "rake: Rakes leaves, such as /lawn/*, into a heap."
    assert purposes["modules/yard-src-main-java-org-lawn.md"] == "Hedges and fences."
    assert purposes["modules/yard-src-main-java-org-lawn-hedge.md"] == "Hedge: A hedge, trimmed by Hedge & co."
    assert purposes["documents/docs-guide.md"] == "This guide is about mowing."
    assert purposes["documents/mower-readme.md"] == "The engine that cuts the grass."


def test_titles_follow_the_language(lawn):
    titles = {path: page.plan.title for path, page in lawn.items()}
    assert titles["overview.md"] == "Lawn"
    assert titles["modules/mower-src.md"] == "mower"
    assert titles["modules/yard-src-main-java-org-lawn-hedge.md"] == "org.lawn.Hedge"
    assert titles["documents/docs-guide.md"] == "The guide"


def test_copies_and_supporting_code_have_no_pages(lawn):
    assert "documents/docs-latest-guide.md" in lawn
    assert "documents/docs-next-guide.md" not in lawn
    assert not [path for path in lawn if "bench" in path]


def test_package_called_doc_has_a_page(tmp_path, space):
    files = {
        "go.mod": "module example.org/lawn\n",
        "lawn.go": "// Package lawn mows.\npackage lawn\n",
        "doc/man.go": "// Package doc writes manuals.\npackage doc\n\n// Man writes a page.\nfunc Man() {}\n",
        "doc/md.go": "package doc\n\n// Markdown writes a page.\nfunc Markdown() {}\n",
        "doc/README.md": "# Manuals\n\nHow manuals are written.\n",
        "site/docs/conf.py": '"""Settings of the site."""\n\n\ndef setup() -> None:\n    """Set up."""\n',
        "site/docs/index.md": "# Lawn\n\nMow with care.\n",
    }
    Bakery(tmp_path / "lawn", files).ingest(space)
    pages = wiki(space)
    assert "`Markdown`" in pages["modules/doc.md"].body
    assert "documents/doc-readme.md" in pages
    assert not [path for path in pages if "conf" in path]


def test_a_definition_is_cited_below_its_long_comment(lawn):
    body = lawn["modules/yard-src-main-java-org-lawn-hedge.md"].body
    assert "### class `Hedge`\n" in body
    assert "`rake`](source:shed/rake.ts" in lawn["modules/shed-rake.md"].body
    assert "(leaves: number): void" in lawn["modules/shed-rake.md"].body


def test_page_of_a_folder_names_its_files(tmp_path, space):
    Bakery(tmp_path / "bakery").ingest(space)
    report = space.query("page", input={"name": "src/bakery"})
    assert "src/bakery/oven.py" in report.link_titles.values()
    text = text_of(report, max_tokens=2_000)
    assert '- about ← "src/bakery/oven.py"\n' in text
    assert re.search(r'- part_of → "[^"]+" `node:', text)


def test_folder_without_a_page_names_what_it_contains(tmp_path, space):
    Bakery(tmp_path / "bakery").ingest(space)
    with pytest.raises(NotFound, match="The folder 'docs/' has no page") as refused:
        space.query("page", input={"name": "docs/"})
    assert "docs/adr, docs/oven.md" in refused.value.hint


def test_a_wiki_is_never_written_into_a_bare_repository(tmp_path, space):
    origin, clone = Bakery(tmp_path / "origin"), tmp_path / "clone"
    origin.git("clone", "-q", "--bare", ".", "../bare.git")
    origin.git("clone", "-q", "../bare.git", "../clone")
    space.ingest("repo", input={"path": str(clone)})
    with pytest.raises(InvalidInput, match=r"location of .* is unknown"):
        space.perform("wiki build")
    assert not Path(tmp_path / "bare.git" / "wiki").exists()


YARD = {
    "README.md": "# Yard\n\nTools of a yard.\n",
    **{f"{one}/README.md": f"# {one}\n\n*Built with Spade*\n" for one in ("rake", "shovel", "hose")},
    "pail/README.md": "# Pail\n\nSee the examples for usage.\n\nCarries water to plants.\n",
    "pail/pail.ts": "export class Pail {}\n",
    "rake/rake.ts": "export class Rake {}\n",
    "rake/rake.spec.ts": (
        "import { Rake } from './rake'\nit('works', () => {})\nit('gathers leaves into a heap', () => new Rake())\n"
    ),
    "shovel/shovel.ts": (
        "import { Tool } from 'spade'\n\n/** Digs holes. */\n@Tool({\n  tag: 'shovel',\n})\nexport class Shovel {}\n"
    ),
    "hose/hose.ts": "export class Hose {}\n",
    "tools/cart.py": "# mypy: allow-untyped-calls\nclass Wheel:\n    pass\n",
    "shed/door.hh": (
        "namespace Shed\n{\n// Keeps rain out.\nclass Door : private Board\n{\npublic:\n    void open();\n};\n"
        "template<typename A, typename B>\nstruct Lock<A, B> {};\n}\n"
    ),
    "shed/door.cc": '#include "door.hh"\n\nnamespace Shed\n{\nvoid Door::open()\n{\n}\n}\n',
    "shed/main.cc": (
        '#include "door.hh"\n#include <sys/types.h>\n\nint main()\n{\n    Shed::Door door;\n    door.open();\n}\n'
    ),
}


@pytest.fixture
def yard(tmp_path, space):
    Bakery(tmp_path / "yard", YARD).ingest(space)
    return wiki(space)


@pytest.mark.parametrize(
    ("module", "purpose"),
    [
        ("pail-pail", "Carries water to plants."),
        ("rake-rake", ""),
        ("shovel-shovel", "Shovel: Digs holes."),
        ("hose-hose", ""),
        ("tools-cart", "Defines Wheel."),
        ("shed-door", "Door: Keeps rain out."),
    ],
)
def test_purposes_come_from_docs_and_definitions(yard, module, purpose):
    assert yard[f"modules/{module}.md"].plan.purpose == purpose


def test_header_and_implementation_of_c_have_one_page(yard):
    assert not [path for path in yard if re.search("door.+", path.removesuffix(".md"))]
    page = yard["modules/shed-door.md"].body
    assert "door.hh" in page
    assert "door.cc" in page
    assert "Lock" not in page


STUBBED = {
    "README.md": "# nest\n\nNest holds eggs.\n",
    "nest/__init__.py": '"""Holds eggs."""\nfrom nest.eggs import lay\n',
    "nest/__init__.pyi": "from nest.eggs import lay as lay\n",
    "nest/eggs.py": '"""Eggs."""\n\n\ndef lay(count=1):\n    """Lay some eggs."""\n    return count\n',
    "nest/eggs.pyi": "class Shell: ...\n\ndef lay(count: int = ...) -> int: ...\n",
    "nest/_types.pyi": "class Twig: ...\nclass Straw: ...\n",
    "web/view.js": "export function view() {\n  return 1\n}\n",
    "web/view.d.ts": "export function view(): number\n",
}


@pytest.fixture
def nest(tmp_path, space):
    Bakery(tmp_path / "nest", STUBBED).ingest(space)
    return wiki(space)


def test_stub_is_in_the_page_of_its_module(nest):
    modules = sorted(path for path in nest if path.startswith("modules/"))
    assert [path for path in modules if "egg" in path or "view" in path] == [
        "modules/nest-eggs.md",
        "modules/web-view.md",
    ]
    page = nest["modules/nest-eggs.md"]
    assert (page.plan.title, page.plan.purpose) == ("nest.eggs", "Eggs.")
    assert "Types: [`nest/eggs.pyi`]" in page.body
    assert page.body.count("`lay`") == 1
    assert "`Shell`" in page.body
    assert "Types: [`web/view.d.ts`]" in nest["modules/web-view.md"].body


def test_stub_without_implementation_is_a_module(nest):
    assert "`Twig`" in nest["modules/nest-_types.md"].body


def test_architecture_names_included_files_of_c(yard):
    assert "| `sys/types.h` | 1 |" in yard["architecture.md"].body


def test_imports_of_c_name_only_definitions_of_the_file(yard):
    assert "door.hh" in yard["modules/shed-main.md"].body
    assert "`Shed`" not in yard["modules/shed-main.md"].body


TEA = {
    "README.md": (
        "# tea\n\n> “Hot as you like.”\n\nTea brews good tea for all.\n\n"
        "## Installation\n\nInstall it by running `pip install tea`.\n"
    ),
    "pyproject.toml": '[project]\nname = "tea"\nversion = "1"\n',
    ".archive.txt": "node: 1\nnode date: 2\nnames: 3\nmore: 4\n",
    "docs/server.md": "# Serving\n\n`teapot` is a small server for tea.\n",
    "docs/index.md": "# Tea house\n\n```{toctree}\n:hidden:\n\nserver\n```\n\n```{note}\nNotes are no code.\n```\n",
    "docs/style.md": (
        '# Style\n\n(labels/style)=\n\nSquare brackets ("[", "]") and `row[0]` are cups[1] here.\n\n'
        "## Steps\n\n1. Boil.\n   1. Fill.\n   1. Heat.\n1. Pour.\n\n"
        "## Run it\n\nRun:\n\n```{code-block} python\n:linenos:\n\nbrew()\n```\n"
    ),
    "src/_version.pyi": "version: str\n",
    "src/tea/__init__.py": (
        "import difflib\nimport tomllib\n\nimport leaves\n\nfrom _version import version\n"
        "from tea.cup import Cup\nfrom tea.pot import Pot\n\nAlias = Pot\n\n\n"
        "def brew(\n    hot: bool,\n) -> None:\n    if hot:\n        from tea.kettle import boil\n\n        boil()\n"
        "    cup = Cup()\n    if not cup.is_changed(hot):\n        cup.all_sips()\n"
    ),
    "src/tea/cup.py": (
        "class Cup:\n    def is_changed(self, x):\n        return x\n\n    def all_sips(self):\n        return 1\n"
    ),
    "src/tea/pot.py": "class Pot:\n    pass\n",
    "src/tea/kettle.py": "def boil():\n    return 1\n",
    "src/teapot/__init__.py": "# empty\n\nfrom tea import Alias, brew\n\nA = 1\n",
    "src/teapot/lid.py": "def lid():\n    return 1\n",
}


@pytest.fixture
def tea(tmp_path, space):
    Bakery(tmp_path / "tea", TEA).ingest(space)
    return wiki(space)


def test_public_api_of_a_package_lists_imported_names_and_aliases(tea):
    api = tea["modules/tea.md"].body.partition("## Public API")[2].partition("\n## ")[0]
    assert re.findall(r"^\| \[`(\w+)`\]\(([^)]*)\)", api, re.MULTILINE) == [
        ("Cup", "source:src/tea/cup.py#L1-L6"),
        ("Pot", "source:src/tea/pot.py#L1-L2"),
        ("Alias", "source:src/tea/__init__.py#L10-L10"),
    ]


def test_imports_of_a_package_name_its_modules_and_no_standard_library(tea):
    imports = tea["modules/tea.md"].body.partition("## Imports")[2].partition("\n## ")[0]
    assert all(f"src/tea/{name}.py" in imports for name in ("cup", "pot", "kettle"))
    assert "External: `leaves`." in imports
    assert "difflib" not in tea["architecture.md"].body


def test_mottos_labels_and_marks_are_no_purposes(tea):
    purposes = {path: page.plan.purpose for path, page in tea.items()}
    assert purposes["modules/tea.md"] == purposes["documents/readme.md"] == "Tea brews good tea for all."
    assert purposes["modules/teapot.md"] == "teapot is a small server for tea."
    assert purposes["documents/docs-style.md"].startswith("Square brackets")
    assert purposes["modules/version.md"].startswith("Used by")
    assert "`_version`" in tea["architecture.md"].body
    assert not any("archive" in path for path in tea)


def test_only_code_blocks_and_installing_commands_are_tasks(tea):
    howto = tea["howto.md"].body
    assert "```console\npip install tea\n```" in howto
    assert "```python\nbrew()\n```" in howto
    assert not re.search("toctree|Notes are no code|linenos", howto)


def test_pages_retain_brackets_and_nested_steps(tea):
    style = tea["documents/docs-style.md"].body
    assert 'Square brackets ("\\[", "\\]") and `row[0]` are cups\\[1\\] here.' in style
    assert "1. Boil.\n    1. Fill.\n    1. Heat.\n1. Pour." in style

import ast
import inspect
import io
import re
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest
from blocks import Block, blocks_of, commands_of
from reference import BLOCK, attribute_docs, rendered
from sample_repository import make_repository
from terminal import Terminal, environment, same

import treering
import treering.client
import treering.project_memory
import treering.testing
import treering.wiki
from treering.core.policy import Policy
from treering.frameworks import FRAMEWORKS, Framework
from treering.system.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "changes").glob("*.md"), *DOCS.rglob("*.md")])
RUN = [page for page in PAGES if {block.language for block in blocks_of(page)} & {"python", "console"}]
FRAMEWORK_FACADES = tuple(import_module(f"treering.{name}") for name in FRAMEWORKS)
_MODULES = (treering, treering.client, treering.project_memory, treering.testing, treering.wiki, *FRAMEWORK_FACADES)
FACADES = {module.__name__: module for module in _MODULES}
"""What programs import; `tests/test_facade.py` says which names are there."""
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
REQUESTS = {
    "The substrate": "S",
    "Project memory": "P",
    "Discussion memory": "D",
    "The memory client": "M",
    "Wiki agents": "W",
}
"""Each section of the page of requests, and the letter that its statements are numbered with."""
REQUEST = re.compile(
    r"- \*\*(?P<letter>[A-Z])(?P<first>\d+)(?:–(?P<last>\d+))?\*\* "
    r"(?P<text>.+?) \((?P<shown>(?:differs: |`(?:src|tests)/).+)\)"
)
"""A statement, or several that one test shows."""
TEST_ID = re.compile(r"`([\w/.]+\.py)::(test_\w+)`")
ENTRY = re.compile(r"^- \*\*(?P<word>[^*]+):\*\* .+\.$")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("page", RUN, ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for framework in frameworks_of(page):
        pytest.importorskip(framework.package, reason=f"needs the extra {framework.extra!r}")
    folder = tmp_path / "acme-web"
    make_repository(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    with Terminal(folder, tmp_path) as terminal:
        follow(page, terminal)


def frameworks_of(page: Path) -> list[Framework]:
    """Return the frameworks whose adapters the code of a page imports."""
    text = "\n".join(block.text for block in blocks_of(page) if block.language == "python")
    return [known for name, known in FRAMEWORKS.items() if f"from treering.{name} import" in text]


def follow(page: Path, terminal: Terminal) -> None:
    """Do what a page shows, in order. A block whose fence names a file is that file."""
    names: dict[str, object] = {}
    printed = ""
    for block in blocks_of(page):
        match block.language:
            case _ if block.name:
                (terminal.folder / block.name).write_text(block.text, encoding="utf-8")
                if block.name == "pyproject.toml":
                    install(terminal.folder)
            case "python":
                printed = run_python(block, terminal, names)
            case "text" if printed:
                assert same(block.text, printed), f"{named(page)}:{block.line} prints\n{printed}"
                printed = ""
            case "console":
                run_commands(block, terminal)
            case _:
                printed = ""


def install(folder: Path) -> None:
    """Have Python find the entry points of the package in a folder, as if it were installed there."""
    package = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = folder / f"{package['name'].replace('-', '_')}-{package['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package['name']}\nVersion: {package['version']}\n")
    groups = package.get("entry-points", {}).items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in of.items()) for group, of in groups]
    (told / "entry_points.txt").write_text("".join(lines))


def run_python(block: Block, terminal: Terminal, names: dict[str, object]) -> str:
    output = io.StringIO()
    # So that what fails is shown with its line of the page.
    code = compile("\n" * (block.line - 1) + terminal.real(block.text), str(block.file), "exec")
    with redirect_stdout(output):
        exec(code, names)
    return output.getvalue()


def run_commands(block: Block, terminal: Terminal) -> None:
    for command in commands_of(block):
        code, printed = terminal.run(command.line)
        place = f"{named(block.file)}: $ {command.line}"
        assert code == 0, f"{place}\nleft with {code}:\n{printed}"
        assert terminal.agrees(command.shown, printed), f"{place}\nprinted:\n{printed}\n\nand not:\n{command.shown}"


@pytest.mark.parametrize("page", RUN, ids=named)
def test_a_page_imports_nothing_of_treering_but_its_facades(page: Path) -> None:
    public = {*FACADES, *(f"{name}.{one}" for name, facade in FACADES.items() for one in facade.__all__)}
    deeper = [
        f"{named(page)}:{block.line + line - 1} imports {name}"
        for block in blocks_of(page)
        if block.language == "python"
        for line, name in imports_of(block.text)
        if name.partition(".")[0] == "treering" and name not in public
    ]

    assert deeper == []


def imports_of(code: str) -> Iterator[tuple[int, str]]:
    """Return what code imports, modules and names of modules, each with its line in it."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    broken = [target for target in links_of(page) if not leads_somewhere(page, target)]

    assert broken == []


def links_of(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [found["target"] for found in LINK.finditer(text) if "://" not in found["target"]]


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = (page.parent / path) if path else page
    return file.is_file() and (not anchor or anchor in anchors_of(file))


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_fits_in_120_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))], ids=named)
def test_the_reference_says_what_the_code_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == rendered(text), "run `python tests/docs/reference.py`"


def test_every_setting_has_its_line_in_the_reference() -> None:
    read = set(re.findall(r"TREERING_[A-Z_]+", inspect.getsource(Settings)))
    told = set(re.findall(r"TREERING_[A-Z_]+", (DOCS / "reference/settings.md").read_text(encoding="utf-8")))

    assert told == read


def test_every_field_of_the_policy_says_what_it_means() -> None:
    assert set(attribute_docs(Policy)) == set(Policy.model_fields)


def test_the_glossary_has_its_words_in_order_and_each_once() -> None:
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("- ")]
    words = [found["word"].lower() for line in lines if (found := ENTRY.match(line))]

    assert len(words) == len(lines)
    assert words == sorted(set(words))


def test_every_word_of_the_glossary_names_something_in_the_code() -> None:
    entries = [found for line in GLOSSARY.splitlines() if (found := ENTRY.match(line))]
    names = {_spaced(name) for name in _names_in_the_code()}

    assert len(entries) > 90
    assert [
        entry["word"]
        for entry in entries
        if not any(_spaced(entry["word"]) in name for name in names)
        and not names.intersection(_spaced(quoted.rpartition(".")[2]) for quoted in re.findall("`([^`]+)`", entry[0]))
    ] == []


def _spaced(name: str) -> str:
    """Return the words of a name in lower case and singular, each between spaces."""
    parts = re.findall("[A-Za-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name))
    return "".join(f" {part.lower().removesuffix('s')}" for part in parts) + " "


def _names_in_the_code() -> Iterator[str]:
    """Yield the names of modules, classes and functions, and those assigned in modules and classes."""
    source = ROOT / "src" / "treering"
    for file in source.rglob("*.py"):
        yield from file.relative_to(source).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            for statement in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
                targets = (
                    statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
                )
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = [int(file.name[:4]) for file in sorted((DOCS / "decisions").glob("*.md"))]

    assert len(numbers) == len(set(numbers))  # with gaps: numbers are given out before decisions are written


def statements(text: str) -> list[re.Match[str]]:
    """Return the entries of all lists of the page of requests."""
    entries = [(line, REQUEST.fullmatch(line)) for line in text.splitlines() if line.startswith("- ")]
    assert [line for line, entry in entries if not entry] == []
    return [entry for _, entry in entries if entry]


def _numbers(entry: re.Match[str]) -> range:
    return range(int(entry["first"]), int(entry["last"] or entry["first"]) + 1)


def test_the_page_of_requests_has_the_statements_of_each_document_numbered_without_gaps() -> None:
    page = (DOCS / "requests.md").read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    assert list(parts) == list(REQUESTS)
    for title, letter in REQUESTS.items():
        numbered = [(entry["letter"], number) for entry in statements(parts[title]) for number in _numbers(entry)]
        assert len(numbered) > 60
        assert numbered == [(letter, number) for number in range(1, len(numbered) + 1)], title


def test_every_request_is_shown_by_a_test_that_exists_or_says_what_differs() -> None:
    for entry in statements((DOCS / "requests.md").read_text(encoding="utf-8")):
        shown = TEST_ID.findall(entry["shown"])
        assert shown or entry["shown"].startswith("differs: "), entry[0]
        for path, name in shown:
            assert re.search(rf"^ *(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), entry[0]


def test_a_request_says_something_that_no_other_one_says() -> None:
    entries = statements((DOCS / "requests.md").read_text(encoding="utf-8"))
    texts = [entry["letter"] + entry["text"] for entry in entries]

    assert sorted({text for text in texts if texts.count(text) > 1}) == []


def test_documentation_speaks_of_no_machine() -> None:
    told = [named(page) for page in PAGES if re.search(r"/(?:root|work|tmp)/", page.read_text(encoding="utf-8"))]

    assert told == []

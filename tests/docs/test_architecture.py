"""The page on architecture names the folders, extensions and entry points that there are."""

import re
import tomllib
from pathlib import Path

import pytest

from treering.extensions.engines.engine_address import ENGINES
from treering.registry import EXTENSIONS
from treering.sources.plugins import ADAPTERS, FORMATS
from treering.spaces.backends import BACKENDS
from treering.spaces.wiring import EMBEDDERS, RERANKERS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "treering"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLES = {table.group: table for table in (EXTENSIONS, BACKENDS, ENGINES, EMBEDDERS, RERANKERS)}


def rows_below(heading: str) -> list[list[str]]:
    """Return the rows of the tables of a section, without their heads: the text of each cell."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if "`" in row[0]]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


FOLDERS = [SOURCE / name for row in rows_below("Folders") for name in quoted(row[0])]
GROUPS = {name: row for row in rows_below("Extensions and the registry") for name in quoted(row[0])}


def test_every_folder_of_the_table_is_there() -> None:
    assert len(FOLDERS) > 20
    assert [folder for folder in FOLDERS if not folder.is_dir()] == []
    assert len(set(FOLDERS)) == len(FOLDERS)


def test_every_folder_with_modules_is_in_the_table_or_in_one_that_is() -> None:
    modules = [file for file in SOURCE.rglob("*.py") if file.name != "__init__.py" and file.parent != SOURCE]
    assert len(modules) > 300
    assert sorted({str(file) for file in modules if not set(FOLDERS).intersection(file.parents)}) == []


def test_folders_of_extensions_are_those_of_the_registry() -> None:
    named = [folder.name for folder in FOLDERS if folder.parent == SOURCE / "extensions"]

    assert sorted(named) == sorted(EXTENSIONS.built_in)


def test_the_groups_of_entry_points_are_all_that_are_asked_for() -> None:
    asked = {name for file in SOURCE.rglob("*.py") for name in re.findall(r'"(treering\.[a-z]+s)"', file.read_text())}
    assert {*TABLES, ADAPTERS, FORMATS} <= asked

    assert set(GROUPS) == {*TABLES, ADAPTERS, FORMATS}


@pytest.mark.parametrize("group", [group for group in TABLES if group != EXTENSIONS.group])
def test_what_is_said_to_be_built_in_is(group: str) -> None:
    told = quoted(GROUPS[group][2])

    assert told
    assert set(told) <= set(TABLES[group].built_in)


def test_every_file_that_the_page_names_is_there() -> None:
    told = [name for line in PAGE.splitlines() for name in quoted(line)]
    named = [name for name in told if re.fullmatch(r"[\w/]+(\.py|/)", name)]
    assert len(named) > 40

    assert [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_layers_are_reported_as_they_are_checked(page: str) -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [rule["layers"] for rule in rules if rule["type"] == "layers"]
    order = " → ".join(layer.replace("treering.", "").replace(" | ", ", ") for layer in layers)

    assert f"`{order}`" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXTENSIONS.built_in)
def test_every_extension_has_a_short_readme(name: str) -> None:
    folder = SOURCE / "extensions" / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    files = [found for found in quoted(text) if re.fullmatch(r"[\w/]+(\.py|/)", found)]
    links = re.findall(r"\]\(([^)]+)\)", text)

    assert len(text.split()) <= 300
    assert files
    assert links
    assert [found for found in files if not any((base / found).exists() for base in (folder, SOURCE, ROOT))] == []
    assert [link for link in links if not (folder / link).exists()] == []

"""The documentation as a site: it builds without a warning, and asks nobody for anything."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import llms
import pytest
import yaml

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
LINKS_THAT_LOAD_NOTHING = {"canonical", "next", "prev", "edit"}


class _Loads(HTMLParser):
    """Collects what a browser would load to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in LOADED and named.get("rel") not in LINKS_THAT_LOAD_NOTHING:
            self.addresses.append(named.get(LOADED[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs mkdocs-material, of the extra 'dev-all'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_but_the_plan_is_in_the_navigation_and_each_of_its_lines_is_a_page() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r"[\w./-]+\.md\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2])

    assert sorted(listed) == sorted(pages - {"plan.md"})


def test_the_list_for_language_models_is_that_of_the_navigation() -> None:
    listed = (ROOT / "docs/llms.txt").read_text(encoding="utf-8")

    assert listed == llms.rendered(), "run `python tests/docs/reference.py`"
    assert listed.startswith("# Treering\n\n> ")
    pages = re.findall(r"^- \[[^\n]+\]\(([\w./-]+)\)(?:: .+\.)?$", listed, re.MULTILINE)
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages) == sorted(there - {"plan.md"})


@pytest.mark.nightly
def test_the_site_has_the_list_for_language_models_and_each_page_of_it_as_markdown(site: Path) -> None:
    listed = re.findall(r"\]\(([\w./-]+\.md)\)", (site / "llms.txt").read_text(encoding="utf-8"))

    assert "index.md" in listed
    assert [page for page in listed if (site / page).read_bytes() != (ROOT / "docs" / page).read_bytes()] == []
    assert not (site / "plan.md").exists()


@pytest.mark.nightly
def test_every_page_is_in_the_site_but_the_plan(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    built = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}

    assert pages - built <= {Path("plan")}
    assert Path("plan") not in built


@pytest.mark.nightly
def test_former_address_of_a_page_leads_to_a_page(site: Path) -> None:
    moved = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["extra"]["moved"]

    for former, current in moved.items():
        assert f"url=../{current}" in (site / f"{former}.html").read_text(encoding="utf-8")
        page, _, anchor = current.partition("#")
        assert f'id="{anchor}"' in (site / page).read_text(encoding="utf-8") or not anchor


@pytest.mark.nightly
def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    outside = []
    for page in site.rglob("*.html"):
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        outside += [f"{page.name}: {one}" for one in loads.addresses if re.match(r"(?:\w+:)?//", one)]

    assert outside == []


@pytest.mark.nightly
def test_the_search_of_the_site_has_an_index_of_its_own(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))

    assert any("stale" in page["text"] for page in index["docs"])

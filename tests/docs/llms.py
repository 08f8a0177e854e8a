"""`docs/llms.txt`: the pages of the documentation, listed for language models as https://llmstxt.org describes.

It is rendered from the navigation in `mkdocs.yml` and from the first sentence of each page. Its links lead to Markdown,
which MkDocs, whose hook this module is, puts beside the HTML.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[2] / "docs"
SITE = DOCS.parent / "mkdocs.yml"
SKIPPED_FIRST = {"Decisions", "Releases"}
"""Groups that a model may leave out when it has little room."""


def on_post_build(config: Any, **_: Any) -> None:
    """Put the Markdown of each page of the site next to its HTML, and redirects at former addresses."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    for page in docs.rglob("*.md"):
        beside = site / page.relative_to(docs)
        if beside.with_suffix(".html").exists():
            shutil.copyfile(page, beside)
    for former, current in config["extra"]["moved"].items():
        redirect = (
            f'<!doctype html><meta http-equiv="refresh" content="0; url=../{current}"><a href="../{current}">Moved</a>'
        )
        (site / f"{former}.html").write_text(redirect, encoding="utf-8")


def rendered() -> str:
    """Return the text of `llms.txt`."""
    site = yaml.safe_load(SITE.read_text(encoding="utf-8"))
    groups = list(_groups(site["nav"]))
    kept = [(name, pages) for name, pages in groups if name.rpartition(": ")[2] not in SKIPPED_FIRST]
    rest = [page for group in groups if group not in kept for page in group[1]]
    parts = [f"# {site['site_name']}", f"> {site['site_description']}.", _about(DOCS / "index.md")]
    for name, pages in kept:
        parts += [f"## {name}", "\n".join(_line(page) for page in pages)]
    parts += ["## Optional", "\n".join(_line(page, note=False) for page in rest)]
    return "\n\n".join(parts) + "\n"


def _groups(nav: list[Any], above: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each group of the navigation that has pages of its own, with these, in order."""
    own = [entry for entry in nav if isinstance(entry, str)]
    if own:
        yield above, own
    for entry in nav:
        if isinstance(entry, dict):
            for name, below in entry.items():
                yield from _groups(below if isinstance(below, list) else [below], f"{above}: {name}".removeprefix(": "))


def _line(page: str, *, note: bool = True) -> str:
    title = (DOCS / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").strip()
    first = re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", _about(DOCS / page))[0].rstrip(":.")
    says_something = len(re.sub(r"`[^`]*`", "", first).split()) > 2
    return f"- [{title}]({page})" + (f": {first}." if note and says_something else "")


def _about(page: Path) -> str:
    """Return the first paragraph of prose of a page, its links as their words."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = (part for part in text.split("\n\n")[1:] if re.match(r"[\w`*\[\"“]", part.strip()))
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(next(prose).split()))

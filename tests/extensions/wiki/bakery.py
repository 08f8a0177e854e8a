"""A small bakery as a git repository, and ways to build the wiki of it."""

import os
import subprocess

from treering.extensions.wiki.rules.writer import RuleWriter
from treering.extensions.wiki.subject import known_subject

FILES = {
    "README.md": (
        "# Bakery\n\n[![build](https://example.org/badge.svg)](https://example.org)\n\n"
        "Bakery bakes *bread* and keeps the books of it, with the [oven](docs/oven.md) under control.\n\n"
        "## Installation\n\n```console\npip install bakery\n```\n\n"
        "## Usage\n\nBake a loaf and sell it:\n\n```python\nfrom bakery import bake\n\nloaf = bake(500)\n```\n"
    ),
    "CHANGES.md": "# Changes\n\n## 1.1\n\n- Rye bread can be baked.\n- Loaves cool down.\n\n## 1.0\n\n- First loaf.\n",
    "pyproject.toml": (
        '[project]\nname = "bakery"\nversion = "1.1"\nlicense = "MIT"\nrequires-python = ">=3.11"\n'
        'dependencies = ["flour>=2"]\n\n[project.scripts]\nbakery = "bakery.cli:main"\n\n[tool.pytest.ini_options]\n'
    ),
    "docs/oven.md": (
        "# The oven\n\nThe oven holds its heat.\n\n## Heating it\n\nHeat the oven before the dough is ready:\n\n"
        "```python\nfrom bakery.oven import Oven\n\nOven().heat(230)\n```\n\n## Cleaning it\n\n- Let it cool down.\n"
        "- Brush it out.\n"
    ),
    "docs/adr/0001-one-oven.md": "# 1. One oven\n\n## Decision\n\nThere is one oven, as two need two bakers.\n",
    "src/bakery/__init__.py": '"""Bread and its books."""\n\nfrom .loaf import Loaf, bake\n',
    "src/bakery/loaf.py": (
        '"""Loaves of bread.\n\nA loaf weighs something. It has no other properties.\n"""\n\n'
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\nfrom .oven import Oven\n\n"
        "if TYPE_CHECKING:\n    from .books import Book\n\n\nclass Loaf:\n"
        '    """Bread that was baked. It is eaten later."""\n\n'
        "    def __init__(self, grams: int, *, rye: bool = False) -> None:\n        self.grams = grams\n\n"
        "    def slices(self, thickness: int | None = None) -> list[int]:\n"
        '        """Cut it into slices, e.g. for ``sandwiches``."""\n'
        "        return [self.grams // (thickness or 10)]\n\n"
        '    def _crumble(self) -> None:\n        """Fall apart."""\n\n\n'
        "def bake(grams: int, oven: Oven | None = None) -> Loaf:\n"
        '    """Bake a loaf with an `Oven`."""\n    (oven or Oven()).heat(230)\n    return Loaf(grams)\n'
    ),
    "src/bakery/oven.py": (
        '"""The oven."""\n\n\nclass Oven:\n    """Holds heat."""\n\n    def heat(self, degrees: int) -> None:\n'
        '        """Heat it up.\n\n        :param degrees: Celsius.\n        """\n        self.degrees = degrees\n'
    ),
    "src/bakery/books.py": (
        '"""The books."""\n\nimport flour\n\nfrom bakery.loaf import Loaf\n\n\nclass Book:\n'
        '    """What was sold."""\n\n    def sell(self, loaf: Loaf) -> int:\n        """Write a sale down."""\n'
        "        return flour.price(loaf.grams)\n"
    ),
    "src/bakery/cli.py": (
        '"""The command."""\n\nfrom bakery.books import Book\nfrom bakery.loaf import bake\n\n\n'
        'def main() -> None:\n    """Bake and sell one loaf."""\n    Book().sell(bake(500))\n'
    ),
    "src/bakery/sweets/__init__.py": "",
    "src/bakery/sweets/cake.py": (
        '"""Cakes."""\n\nfrom ..oven import Oven\n\n\ndef cake() -> str:\n    """Bake a cake."""\n'
        '    Oven().heat(180)\n    return "cake"\n'
    ),
    "tests/test_loaf.py": (
        "from bakery.loaf import Loaf, bake\n\n\ndef test_a_loaf_weighs_what_it_was_given():\n"
        "    assert bake(500).grams == Loaf(500).grams\n"
    ),
    "examples/market.py": '"""Sells ten loaves."""\n\nfrom bakery import bake\n\nfor _ in range(10):\n    bake(500)\n',
}


class Bakery:
    """A repository to write to, commit and read into a space."""

    def __init__(self, folder, files=None):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main", "--template=")
        self.commit(FILES if files is None else files)

    def git(self, *arguments):
        who = {f"GIT_{one}_{what}": said for one in ("AUTHOR", "COMMITTER") for what, said in _WHO.items()}
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True, env={**settings, **who})

    def commit(self, files):
        for path, text in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")

    def edit(self, path, before, after):
        text = (self.folder / path).read_text(encoding="utf-8")
        assert before in text
        self.commit({path: text.replace(before, after)})

    def ingest(self, space, scope="/"):
        report = space.ingest("repo", scope=scope, input={"path": str(self.folder)})
        assert not report.counts.get("failed")


_WHO = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-01-02T03:04:05+00:00"}


def writer_of(space, root=""):
    """Return a writer for a repository or folder, by default the only repository of the space."""
    return RuleWriter(space.engine, root=root or known_subject(space.engine, "/", "").root)


def wiki(space, root=""):
    """Return the pages of a wiki by path, in the order of the plan."""
    writer = writer_of(space, root)
    plan = writer.plan()
    return {page.path: writer.write(plan, page) for page in plan.pages}


def inputs(space):
    """Return the digests of what the pages are made of, by path."""
    writer = writer_of(space)
    plan = writer.plan()
    return {page.path: writer.inputs(plan, page) for page in plan.pages}

"""A small repository, and who plans, writes and publishes its wiki in tests, without a model."""

import subprocess
from pathlib import Path

from treering.core.canonical import digest
from treering.extensions.wiki.kept_wikis import KeptWikis
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiRepository
from treering.wiki import PageKind, PagePlan, PublishedWiki, WikiPage, WikiPlan

FILES = {
    "src/acme/app.py": 'class App:\n    """Serves requests."""\n\n    def handle(self):\n        return "served"\n',
    "src/acme/routes.py": 'class Router:\n    """Finds a handler."""\n\n    def find(self, path):\n        pass\n',
}


def make_repository(folder, files=FILES):
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "First")
    return folder


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, timeout=60)


class FileWriter:
    """A page for each Python file, which cites its first two lines. `wrote` are the pages that were written."""

    def __init__(self, text="It says", *, fails=()):
        self._text = text
        self.fails = list(fails)
        self.wrote = []

    def __call__(self, material):
        self.material = material
        return self

    def plan(self):
        pages = [
            PagePlan(f"modules/{Path(path).stem}.md", Path(path).stem, PageKind.MODULE, "A module.", (path,))
            for path in self._paths()
        ]
        overview = PagePlan("overview.md", "Overview", PageKind.OVERVIEW, "All of it.", ())
        return WikiPlan("Acme", "A wiki.", (overview, *pages))

    def write(self, plan, page):
        if page.path in self.fails:
            raise RuntimeError(f"{page.path} cannot be written")
        self.wrote.append(page.path)
        if not page.relevant_files:
            links = "\n".join(f"- [{one.title}](page:{one.path})" for one in plan.pages if one.relevant_files)
            return WikiPage(page, f"# Overview\n\n{links}\n", ())
        [path] = page.relevant_files
        cited = self.material.citations.cite(path, 1, 2)
        body = f"# {page.title}\n\n{self._text} [so](source:{path}#L1-L2).\n"
        return WikiPage(page, body, (cited,))

    def inputs(self, plan, page):
        lines = [line for path in page.relevant_files for line in self.material.read.tree.lines(path)]
        return digest("\n".join([*lines, *(one.path for one in plan.pages if not page.relevant_files)]))

    def _paths(self):
        return [path for path in self.material.read.tree.sizes if path.endswith(".py")]


class OneFile:
    """Publishes all pages as one file, replaced whole."""

    def __init__(self, file):
        self.file = Path(file)

    def publish(self, plan, pages):
        new = self.file.with_suffix(".new")
        new.write_text("\n".join(page.body for page in pages), encoding="utf-8")
        new.replace(self.file)
        return PublishedWiki(tuple(page.plan.path for page in pages), (), (), ())


def kept(space, repository_id="acme", branch=None):
    about = WikiRepository.of(repository_id, branch=branch)
    return KeptWikis(space.engine, about, SpaceWikiMemories(space.engine))


def bodies(space, repository_id="acme", branch=None):
    """Return the pages of the current wiki by path."""
    wikis = kept(space, repository_id, branch)
    current = wikis.current()
    return {path: page.body for path, page in wikis.pages(current).items()} if current else {}

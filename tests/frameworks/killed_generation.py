"""A process that generates a wiki and is killed before each thing that it makes durable, and at its end.

`FOLDER force|update EVERY`: for each EVERYth of these moments a child is forked, which kills itself there. What is kept
then has to be the wiki from before with its memories, or the new one with its own, and the next run has to complete it.
"""

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from generation_parts import FILES, FileWriter, bodies, make_repository

from space_parts import open_space
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import WikiMemoryDraft, WikiMemoryType, WikiRepository
from treering.frameworks.wiki_generation.generate import lease_name
from treering.wiki import generate_wiki

ABOUT = WikiRepository.of("acme")
OLD, NEW = "It said", "It says"
APP = "src/acme/app.py"


class RememberingWriter(FileWriter):
    """Remembers each page, as an agent of the run does."""

    def write(self, plan, page):
        draft = WikiMemoryDraft(f"{self._text} {page.path}", WikiMemoryType.PATTERN_FOUND, "page_agent", ("src",))
        self.material.memories.store(self.material.repository, draft, key=draft.content)
        return super().write(plan, page)


class Death:
    """Kills the process at the `last` of the moments; without one it counts them."""

    def __init__(self, last=None):
        self.count, self._last = 0, last

    def around(self, owner, name):
        done = getattr(owner, name)

        def stepped(*given, **named):
            self.step()
            return done(*given, **named)

        setattr(owner, name, stepped)

    def step(self):
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def opened(folder):
    return open_space(f"sqlite:{folder / 'space.db'}", channel="user")


def generate(space, folder, *, force, text):
    given = {"writer": RememberingWriter(text), "publisher": folder / "wiki", "repository": folder / "acme"}
    return asyncio.run(generate_wiki("acme", force, space=space, at_once=1, **given))


def work(folder, force, death):
    with opened(folder) as space:
        death.around(type(space.engine.ledger), "commit")
        death.around(WikiFolder, "publish")
        generate(space, folder, force=force, text=NEW)
        death.step()


def files_of(folder):
    wiki = folder / "wiki"
    return {str(path.relative_to(wiki)): path.read_text() for path in wiki.rglob("*.md")}


def pages_and_memories(space):
    memories = {one.content for one in SpaceWikiMemories(space.engine).by_files(ABOUT, ["src"])}
    return bodies(space), memories


def forked(folder, force, last=None):
    """Do the work in a child; return how many moments there were, and whether it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        death = Death(last)
        try:
            work(folder, force, death)
        finally:
            os.write(writing, str(death.count).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        count = told.read()
    _, status = os.waitpid(child, 0)
    return int(count or 0), os.WIFSIGNALED(status)


def check(folder, force, before, after, files, *, audited):
    """Look at what a killed run left, and go on with it."""
    with opened(folder) as space:
        left = pages_and_memories(space)
        if force:
            assert left in (before, after), left
        else:
            assert left[0] in (before[0], after[0]), left
            assert before[1] <= left[1] <= after[1]
        assert files_of(folder) in files
        space.engine.leases.clear(lease_name(ABOUT))
        generate(space, folder, force=force, text=NEW)
        assert pages_and_memories(space) == after
        assert files_of(folder) == files[1]
        if audited:
            assert space.lint("audit").problem == ""


def main():
    folder, force, every = Path(sys.argv[1]), sys.argv[2] == "force", int(sys.argv[3])
    original = folder / "original"
    make_repository(original / "acme", {APP: FILES[APP]})
    with opened(original) as space:
        generate(space, original, force=False, text=OLD)
        before = pages_and_memories(space)
        assert len(before[0]) == len(before[1]) == 2
    (original / "acme" / APP).write_text("# Changed.\n" + FILES[APP])
    done = Path(shutil.copytree(original, folder / "done"))
    moments, _ = forked(done, force)
    with opened(done) as space:
        after = pages_and_memories(space)
    files = (files_of(original), files_of(done))
    assert after != before
    assert files[0] != files[1]
    assert (OLD in str(after[1])) != force
    killed = 0
    for last in range(1, moments + 1, every):
        copy = Path(shutil.copytree(original, folder / str(last)))
        killed += forked(copy, force, last)[1]
        try:
            check(copy, force, before, after, files, audited=last % 8 == 0)
        except BaseException as error:
            error.add_note(f"killed at {last} of {moments}")
            raise
        shutil.rmtree(copy)
    sys.stdout.write(f"{killed} of {len(range(0, moments, every))}\n")


if __name__ == "__main__":
    main()

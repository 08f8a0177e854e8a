"""A process that publishes a wiki over another one and is killed at each step of it in turn.

`FOLDER`: prints how many steps there were. A child is forked for each step; it kills itself when the system is asked
for the next thing that has to do with files. Afterwards the folder must be the old wiki or the new one, and publishing
again must make it the new one and leave nothing beside.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from treering.extensions.wiki.files.folder import WikiFolder
from wiki_by_hand import page, small_wiki, wiki

_STEPS = ("open", "os.", "shutil.", "ctypes.dlsym")
REGION = "\n<!-- treering:keep -->\nMine.\n<!-- treering:end -->\n"


def prepare(folder: Path) -> None:
    WikiFolder(folder).publish(*small_wiki())
    with (folder / "overview.md").open("a") as file:
        file.write(REGION)
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("mine")
    (folder / "link").symlink_to("notes/mine.txt")


def new_wiki():
    changed = small_wiki("Other rules.")[1]
    return wiki(changed[1], page("new/page.md", "New"), page("overview.md", "Overview", "Anew."))


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if not path.is_dir() or path.is_symlink()
    }


def publish_and_die(folder: Path, step: int) -> None:
    """Publish, and be killed before the given step; leave with 0 where there are fewer."""
    left = step

    def hook(event: str, _arguments: object) -> None:
        nonlocal left
        if event.startswith(_STEPS):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    WikiFolder(folder).publish(*new_wiki())
    os._exit(0)


def main(place: Path) -> None:
    template = place / "template"
    prepare(template)
    old = contents(template)
    shutil.copytree(template, place / "whole", symlinks=True)
    WikiFolder(place / "whole").publish(*new_wiki())
    new = contents(place / "whole")
    seen, step = set(), 0
    while True:
        step += 1
        home = place / str(step)
        shutil.copytree(template, home / "wiki", symlinks=True)
        child = os.fork()
        if child == 0:
            publish_and_die(home / "wiki", step)
        _, status = os.waitpid(child, 0)
        found = contents(home / "wiki")
        assert found in (old, new), f"step {step}: neither the old wiki nor the new one"
        seen.add("old" if found == old else "new")
        if os.WIFEXITED(status):
            assert (os.WEXITSTATUS(status), found) == (0, new)
            break
        WikiFolder(home / "wiki").publish(*new_wiki())
        assert contents(home / "wiki") == new, f"step {step}: publishing again did not end it"
        assert [path.name for path in home.iterdir()] == ["wiki"], f"step {step}: something was left beside"
        shutil.rmtree(home)
    assert seen == {"old", "new"}
    sys.stdout.write(str(step - 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A wiki in a folder: whole at every moment, and nothing of anybody else is touched."""

import os
import subprocess
import sys
import threading
from errno import ENOSYS
from pathlib import Path

import pytest

from treering.core.errors import Conflict, Corrupt, InvalidInput
from treering.extensions.wiki.files import swapping
from treering.extensions.wiki.files.folder import WikiFolder
from treering.extensions.wiki.files.manifest import MANIFEST
from wiki_by_hand import page, small_wiki, wiki

FILES = {MANIFEST, "index.md", "log.md", "modules", "overview.md"}


@pytest.fixture
def place(tmp_path):
    return tmp_path / "home" / "wiki"


@pytest.fixture
def published(place):
    WikiFolder(place).publish(*small_wiki())
    return place


def stats(folder):
    return {path: (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in folder.rglob("*") if not path.is_dir()}


def beside(folder):
    return [path.name for path in folder.parent.iterdir() if path != folder]


def test_a_wiki_is_written_into_a_new_folder(place):
    told = WikiFolder(place).publish(*small_wiki())
    assert told.written == ("index.md", "log.md", "modules/routing.md", "overview.md")
    assert {path.name for path in place.iterdir()} == FILES
    assert beside(place) == []


def test_publishing_again_touches_nothing(published):
    before = (published.stat().st_ino, stats(published))
    assert WikiFolder(published).publish(*small_wiki()).written == ()
    assert (published.stat().st_ino, stats(published)) == before


def test_two_folders_get_the_same_bytes(published, tmp_path):
    other = tmp_path / "other"
    WikiFolder(other).publish(*small_wiki())
    for path in published.rglob("*"):
        assert path.is_dir() or (other / path.relative_to(published)).read_bytes() == path.read_bytes()


def test_only_files_that_differ_are_written(published):
    before = stats(published)
    told = WikiFolder(published).publish(*small_wiki("Other rules."))
    changed = {
        path.relative_to(published).as_posix() for path, seen in stats(published).items() if before[path] != seen
    }
    assert told.written == ("log.md", "modules/routing.md")
    assert changed == {*told.written, MANIFEST}


def test_preview_reports_the_same_without_writing(published):
    before = stats(published)
    told = WikiFolder(published).preview(*small_wiki("Other rules."))
    assert stats(published) == before
    assert WikiFolder(published).publish(*small_wiki("Other rules.")) == told


def test_pages_that_are_gone_are_removed_with_their_folders(published):
    told = WikiFolder(published).publish(*wiki(small_wiki()[1][0]))
    assert told.removed == ("modules/routing.md",)
    assert not (published / "modules").exists()


def test_regions_and_other_files_stay_and_edits_are_reported(published):
    region = "\n<!-- treering:keep -->\nMine.\n<!-- treering:end -->\n"
    with (published / "modules/routing.md").open("a") as file:
        file.write(region)
    (published / "overview.md").write_text("All mine.")
    (published / ".obsidian").mkdir()
    (published / ".obsidian" / "app.json").write_text("{}")
    (published / "modules" / "notes.txt").write_text("mine")
    told = WikiFolder(published).publish(*small_wiki("Other rules."))
    assert told.conflicts == ("overview.md",)
    assert (published / "overview.md").read_text() == "All mine."
    assert region.strip() in (published / "modules/routing.md").read_text()
    assert (published / ".obsidian" / "app.json").read_text() == "{}"
    assert (published / "modules" / "notes.txt").read_text() == "mine"
    assert WikiFolder(published).publish(*small_wiki("Other rules.")).written == ()


def test_a_page_that_a_person_removed_is_written_again(published):
    (published / "overview.md").unlink()
    assert WikiFolder(published).publish(*small_wiki()).written == ("log.md", "overview.md")


@pytest.mark.parametrize("path", ["overview.md", "modules"])
def test_a_link_instead_of_a_page_or_its_folder_is_never_followed(place, tmp_path, path):
    outside = tmp_path / "outside"
    outside.mkdir()
    place.mkdir(parents=True)
    (place / path).symlink_to(outside / "target.md" if path.endswith(".md") else outside)
    told = WikiFolder(place).publish(*small_wiki())
    assert told.conflicts == ("overview.md" if path.endswith(".md") else "modules/routing.md",)
    assert list(outside.iterdir()) == []
    assert (place / path).is_symlink()


def test_a_folder_that_is_a_link_is_refused(published):
    link = published.parent / "link"
    link.symlink_to(published)
    with pytest.raises(InvalidInput, match="symbolic link"):
        WikiFolder(link).publish(*small_wiki())


@pytest.mark.parametrize("kind", ["work tree", "pipe", "manifest link", "file"])
def test_a_folder_that_cannot_be_replaced_as_a_whole_is_refused(place, kind):
    place.parent.mkdir()
    if kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
    if kind == "work tree":
        (place / ".git").mkdir()
    elif kind == "pipe":
        os.mkfifo(place / "pipe")
    elif kind == "manifest link":
        (place / MANIFEST).symlink_to("elsewhere")
    with pytest.raises(InvalidInput):
        WikiFolder(place).publish(*small_wiki())
    assert beside(place) == []


def test_the_home_folder_and_the_root_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        with pytest.raises(InvalidInput, match="cannot replace"):
            WikiFolder(folder).publish(*small_wiki())


def test_a_manifest_that_cannot_be_read_stops_everything(published):
    (published / MANIFEST).write_text("{")
    before = stats(published)
    with pytest.raises(Corrupt, match="cannot be read"):
        WikiFolder(published).publish(*small_wiki("Other rules."))
    assert stats(published) == before


def test_a_file_that_changes_while_the_wiki_is_published_stays(published, monkeypatch):
    swap = swapping.swap_folders

    def edited_meanwhile(new, folder):
        if not (published / "mine.txt").exists() and not (new / "mine.txt").exists():
            (published / "mine.txt").write_text("mine")
        swap(new, folder)

    monkeypatch.setattr("treering.extensions.wiki.files.folder.swap_folders", edited_meanwhile)
    with pytest.raises(Conflict, match="changed during"):
        WikiFolder(published).publish(*small_wiki("Other rules."))
    assert (published / "mine.txt").read_text() == "mine"
    assert "Rules match paths." in (published / "modules/routing.md").read_text()
    assert beside(published) == []


def test_what_a_person_put_into_a_folder_that_a_kill_left_is_not_removed(published):
    left = published.with_name(f".{published.name}.treering-new")
    left.mkdir()
    (left / "mine.md").write_text("mine")
    with pytest.raises(Conflict, match="nowhere else"):
        WikiFolder(published).publish(*small_wiki("Other rules."))
    assert (left / "mine.md").read_text() == "mine"


def test_a_disk_without_exchange_gets_the_wiki_in_two_steps(published, monkeypatch):
    monkeypatch.setattr(swapping, "_exchange", lambda _new, _folder: ENOSYS)
    WikiFolder(published).publish(*small_wiki("Other rules."))
    assert "Other rules." in (published / "modules/routing.md").read_text()
    assert beside(published) == []


@pytest.mark.parametrize("renames", [1, 2])
def test_a_kill_between_the_two_steps_is_made_good_by_the_next_publication(published, monkeypatch, renames):
    monkeypatch.setattr(swapping, "_exchange", lambda _new, _folder: ENOSYS)
    done = []
    rename = Path.rename

    def killed(self, target):
        if "treering" in Path(target).name or self.name.endswith("new") or target == published:
            done.append(target)
            if len(done) > renames + 1:  # the first one completes what was prepared
                raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        WikiFolder(published).publish(*small_wiki("Other rules."))
    monkeypatch.setattr(Path, "rename", rename)
    WikiFolder(published).publish(*small_wiki("Other rules."))
    assert "Other rules." in (published / "modules/routing.md").read_text()
    assert beside(published) == []


def test_publications_at_the_same_time_come_one_after_the_other(place):
    wikis = [wiki(page(f"{number}.md", str(number))) for number in range(6)]
    threads = [threading.Thread(target=WikiFolder(place).publish, args=one) for one in wikis]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pages = {path.name for path in place.glob("*.md")} - {"index.md", "log.md"}
    assert len(pages) == 1
    assert beside(place) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_publication_leaves_the_old_wiki_or_the_new_one_whatever_its_step(tmp_path):
    program = Path(__file__).with_name("killed_publishing.py")
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40

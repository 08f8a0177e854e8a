"""`treering watch` as a process of its own, over real folders and real git."""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from sources.git_scratch import Scratch
from space_parts import decide, open_space
from treering.surfaces.cli import run

_WAIT_SECONDS = 90


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in a home of its own, without a space yet."""
    place = tmp_path / "acme"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    return place


class Watcher:
    """A watcher that runs, and the reports it printed so far."""

    def __init__(self, process, out, errors):
        self.process = process
        self._out = out
        self._errors = errors

    @property
    def reports(self):
        return [json.loads(line) for line in self._out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def errors(self):
        return self._errors.read_text()

    def until(self, wanted):
        """Wait for something about the reports to become true, and return them."""
        return eventually(lambda: (found := self.reports) and wanted(found) and found, self)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=_WAIT_SECONDS)


def eventually(look, watcher=None):
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it never came: {watcher and (watcher.reports, watcher.errors)}")


@contextmanager
def watching(folder, *arguments):
    """Run a watcher, and return when it has looked once."""
    out, errors = folder.parent / "out.jsonl", folder.parent / "err.txt"
    with out.open("wb") as told, errors.open("wb") as complained:
        command = [sys.executable, "-m", "treering", "watch", "--json", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=told, stderr=complained, env=os.environ)
    watcher = Watcher(process, out, errors)
    try:
        watcher.until(lambda told: told[0]["occasion"] == "begun")
        yield watcher
    finally:
        process.kill()
        process.wait()


def origins(watcher, outcome):
    return {
        item["origin"].replace("#", "/").rpartition("/")[2]
        for report in watcher.reports
        for item in report["items"]
        if item["outcome"] == outcome
    }


def counted(watcher, outcome):
    return sum(report["counts"].get(outcome, 0) for report in watcher.reports)


def test_what_changes_in_a_folder_comes_in_by_itself(folder):
    (folder / "limits.md").write_text("# Limits\n\nThe limit is five.\n")
    with watching(folder) as watcher:
        assert watcher.reports[0]["counts"] == {"created": 1}
        (folder / "deep").mkdir()
        (folder / "deep" / "ports.md").write_text("# Ports\n\nIt listens on 8080.\n")
        watcher.until(lambda told: "ports.md" in str(told))
        (folder / "limits.md").write_text("# Limits\n\nThe limit is six.\n")
        watcher.until(lambda _: counted(watcher, "updated"))
        (folder / "deep" / "ports.md").unlink()
        watcher.until(lambda _: counted(watcher, "removed"))
    assert origins(watcher, "updated") == {"limits.md"}
    assert origins(watcher, "removed") == {"ports.md"}
    with open_space(str(folder / ".treering" / "treering.db")) as space:
        assert "six" in space.query("search", input={"text": "limit"}).hits[0].text


@pytest.mark.nightly
def test_a_repository_comes_in_with_its_commits_and_with_worktree_as_it_is(folder):
    repository = Scratch(folder)
    repository.commit({"limits.md": "# Limits\n\nThe limit is five.\n", ".gitignore": ".treering\n"})
    with watching(folder) as watcher:
        repository.write("limits.md", "# Limits\n\nThe limit is six.\n")
        repository.commit({"ports.md": "# Ports\n\nIt listens on 8080.\n"})
        watcher.until(
            lambda _: "limits.md" in origins(watcher, "updated") and "ports.md" in origins(watcher, "created")
        )
    with watching(folder, "--worktree") as watcher:
        repository.write("ports.md", "# Ports\n\nIt listens on 9090.\n")
        watcher.until(lambda _: "ports.md" in origins(watcher, "updated"))


@pytest.mark.nightly
def test_a_switch_of_branches_gives_what_ingest_gives(folder, tmp_path):
    repository = Scratch(folder)
    repository.commit({f"docs/{n}.md": f"# Page {n}\n\nIt says one thing.\n" for n in range(600)})
    repository.git("switch", "-q", "-c", "other")
    repository.git("rm", "-q", "-r", *(f"docs/{n}.md" for n in range(200)))
    repository.commit({f"docs/{n}.md": f"# Page {n}\n\nIt says another thing.\n" for n in range(200, 700)})
    repository.git("switch", "-q", "-")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text(".treering\n")
    with watching(folder, "--worktree") as watcher:
        repository.git("switch", "-q", "other")
        watcher.until(lambda _: (counted(watcher, "removed"), counted(watcher, "updated")) >= (200, 400))
        assert watcher.stop() == 0
    assert run(["ingest", ".", "--worktree", "--dry-run"]) == 0
    with open_space(str(folder / ".treering" / "treering.db")) as space:
        again = space.ingest("repo", input={"path": str(folder)}, options={"worktree": True})
    assert again.status == "unchanged", again.counts


@pytest.mark.nightly
def test_what_is_ignored_or_belongs_to_the_space_is_no_reason_to_look(folder):
    (folder / "limits.md").write_text("# Limits\n\nThe limit is five.\n")
    (folder / ".gitignore").write_text("build/\n")
    with watching(folder, "--every", "100000") as watcher:
        jobs = folder / ".treering" / "treering.db"
        (folder / "build").mkdir()
        for number in range(20):
            (folder / "build" / f"{number}.md").write_text("x")
            os.utime(jobs)
        (folder / "ports.md").write_text("# Ports\n\nIt listens on 8080.\n")
        watcher.until(lambda _: "ports.md" in str(watcher.reports))
        time.sleep(1.5)  # what would come of an ignored file would come now
    assert [report["occasion"] for report in watcher.reports] == ["begun", "changed"]


@pytest.mark.nightly
def test_a_finding_is_shown_once_when_it_arises(folder):
    page = folder / "limits.md"
    page.write_text("# Limits\n\nThe limit is five.\n")
    assert run(["ingest", "."]) == 0
    with open_space(str(folder / ".treering" / "treering.db")) as space:
        (found,) = space.query("search", input={"text": "limit is five"}, options={"limit": 1}).hits
        evidence = {"source_id": found.source_id, "segment_id": found.segment_id}
        decision = decide(space, "The limit stays", evidence)
    with watching(folder) as watcher:
        page.write_text("# Limits\n\nNobody counts any more.\n")
        watcher.until(lambda told: any(report["staled"] for report in told))
        page.write_text("# Limits\n\nNobody counts any longer.\n")
        watcher.until(lambda _: counted(watcher, "updated") == 2)
    shown = [one for report in watcher.reports for one in report["findings"] if decision in one["ids"]]
    assert [one["rule"] for one in shown] == ["stale"]


@pytest.mark.nightly
def test_the_same_place_is_watched_once_for_a_space_and_again_after_a_kill(folder):
    (folder / "limits.md").write_text("# Limits\n\nThe limit is five.\n")
    with watching(folder) as first:
        command = [sys.executable, "-m", "treering", "watch"]
        second = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_WAIT_SECONDS)
        assert second.returncode == 4
        assert f"by process {first.process.pid}." in second.stderr
        first.stop(signal.SIGKILL)
    with watching(folder) as third:
        assert third.reports[0]["counts"] == {"unchanged": 1}
        assert third.stop(signal.SIGINT) == 0


@pytest.mark.nightly
def test_a_folder_that_goes_and_comes_back_is_watched_on_and_nothing_of_it_is_lost(folder, tmp_path):
    place, aside = tmp_path / "notes", tmp_path / "aside"
    place.mkdir()
    (place / "limits.md").write_text("# Limits\n\nThe limit is five.\n")
    with watching(folder, str(place), "--every", "1") as watcher:
        place.rename(aside)
        time.sleep(2)  # time to look for a folder that is gone
        aside.rename(place)
        (place / "ports.md").write_text("# Ports\n\nIt listens on 8080.\n")
        watcher.until(lambda told: "ports.md" in str(told[1:]))
    assert counted(watcher, "removed") == 0


@pytest.mark.nightly
def test_a_change_that_the_system_does_not_tell_of_comes_in_after_a_time(folder):
    page = folder / "limits.md"
    page.write_text("# Limits\n\nThe limit is five.\n")
    with watching(folder, "--every", "1") as watcher, page.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[-6:-2] = b"nine"
        memory.flush()
        watcher.until(lambda _: counted(watcher, "updated"))
        assert watcher.reports[-1]["occasion"] == "time"


def test_a_place_that_is_not_there_and_a_space_in_memory_are_refused(folder, capsys):
    assert run(["watch", "nowhere"]) == 2
    assert "There is nothing at nowhere." in capsys.readouterr().err
    assert run(["watch", "--space", ":memory:"]) == 2
    assert "A space in memory is lost" in capsys.readouterr().err

"""A space that can only be read: on a read-only file system, and as a user who may not write it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from space_parts import decide, note
from treering.core.errors import Unavailable

READER = Path(__file__).with_name("read_only_process.py")
NOBODY = 65534


@pytest.fixture
def medium(tmp_path):
    """A small file system, and how it becomes one that can only be read."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a file system needs root and the right to mount")

    def freeze():
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        return folder

    yield folder, freeze
    subprocess.run(["umount", str(folder)], check=True)


def fill(open_space, path):
    """Make a space with something in it, closed."""
    with open_space(f"sqlite:{path}", channel="user") as space:
        decide(space, "Bees hum", note(space, "Bees hum at noon.", origin="bees.md"))
        note(space, "Bees hum at night.", origin="bees.md")
        space.embed_pending()


def check_reads(space):
    for options in ({}, {"withdrawn": True}, {"as_of": 2}):
        assert space.query("search", input={"text": "bees hum"}, options=options).hits
    assert space.query("context", input={"task": "bees"}).pack.items
    assert space.query("recent").status == "ok"
    assert space.lint("audit").verified
    assert space.lint("audit").differences == ()
    assert space.lint("structure").findings == ()
    assert len(list(space.engine.ledger.records())) > 0


def check_writes(space):
    for write in (
        lambda: note(space, "More.", origin="more.md"),
        lambda: space.erase([space.query("search", input={"text": "bees"}).hits[0].object_id]),
        lambda: space.lint("reindex", options={"apply": True}),
    ):
        with pytest.raises(Unavailable, match="opened read-only") as refused:
            write()
        assert "Copy" in refused.value.hint


def test_a_space_on_a_read_only_medium_is_read_and_not_written(open_space, medium):
    folder, freeze = medium
    fill(open_space, folder / "space.db")
    freeze()
    before = {place.name: place.read_bytes() for place in folder.iterdir()}
    with open_space(f"sqlite:{folder / 'space.db'}", channel="user") as space:
        check_reads(space)
        check_writes(space)
    assert {place.name: place.read_bytes() for place in folder.iterdir()} == before


def test_a_backup_on_a_read_only_medium_is_read_and_can_be_copied_from_there(open_space, medium, tmp_path):
    folder, freeze = medium
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        decide(space, "Bees hum", note(space, "Bees hum at noon.", origin="bees.md"))
        note(space, "Bees hum at night.", origin="bees.md")
        space.backup(folder / "copy.db")
    freeze()
    with open_space(f"sqlite:{folder / 'copy.db'}") as copy:
        check_reads(copy)
        copy.backup(tmp_path / "again.db")
        copy.export(tmp_path / "export")
    with open_space(f"sqlite:{tmp_path / 'again.db'}") as again:
        check_reads(again)
        note(again, "More.", origin="more.md")


def test_outdated_read_only_space_is_refused_with_a_hint(open_space, medium):
    folder, freeze = medium
    fill(open_space, folder / "space.db")
    with open_space(f"sqlite:{folder / 'space.db'}") as space, space.engine.leases._database.write() as connection:
        connection.execute("UPDATE index_state SET value = 1 WHERE name = 'projection_version'")
    freeze()
    with pytest.raises(Unavailable, match="another version") as refused:
        open_space(f"sqlite:{folder / 'space.db'}")
    assert "Copy" in refused.value.hint


def test_a_space_on_a_read_only_medium_obeys_the_policy_it_holds_and_else_that_of_the_file(open_space, medium):
    folder, freeze = medium
    file = folder / "space.policy.toml"
    fill(open_space, folder / "none.db")
    file.write_text('direct_channels = ["user", "adapter"]\n')
    fill(open_space, folder / "space.db")
    file.write_text("self_approval = true\n")
    freeze()
    with open_space(f"sqlite:{folder / 'space.db'}", channel="user") as space:
        assert space.engine.ledger.policy.direct_channels == {"user", "adapter"}
        check_reads(space)
    with open_space(f"sqlite:{folder / 'none.db'}", channel="user", policy=file) as space:
        assert space.engine.ledger.policy.self_approval
        check_writes(space)


def test_read_only_medium_includes_an_unmerged_log(open_space, medium, tmp_path):
    folder, freeze = medium
    space = open_space(f"sqlite:{tmp_path / 'space.db'}")
    note(space, "Bees hum.")
    for name in ("space.db", "space.db-wal"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    freeze()
    with pytest.raises(Unavailable) as refused:
        open_space(f"sqlite:{folder / 'space.db'}")
    assert "space.db-wal" in refused.value.hint


@pytest.fixture
def foreign(open_space, tmp_path):
    """A space in a folder that another user may only read, and a way to ask as that user."""
    if os.geteuid():
        pytest.skip("acting as another user needs root")
    folder = tmp_path / "folder"
    fill(open_space, folder / "space.db")
    (folder / "space.db").chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o001)
        if parent.name.startswith("pytest-of"):
            break
    yield folder / "space.db"
    folder.chmod(0o700)


def as_nobody(path, role):
    """Start a reader, which goes on as another user as soon as it has imported what it needs."""
    command = [sys.executable, str(READER), str(path), role, str(NOBODY)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    )


def test_read_only_user_can_read_but_not_write(foreign):
    told, errors = as_nobody(foreign, "read").communicate(timeout=120)
    assert (told, errors) == ("read\nunavailable\n", "")
    assert [path.name for path in foreign.parent.iterdir()] == ["space.db"]


def test_read_only_space_changed_meanwhile_is_not_corrupt(foreign, open_space):
    with as_nobody(foreign, "wait") as reader:
        assert reader.stdout
        assert reader.stdout.readline() == "ready\n"
        foreign.parent.chmod(0o755)
        with open_space(f"sqlite:{foreign}") as space:
            for number in range(30):
                note(space, f"Written meanwhile, {number}. " * 50, origin=f"{number}.md")
        told, errors = reader.communicate("go on\n", timeout=120)
    assert (told, errors) == ("changed\n", "")

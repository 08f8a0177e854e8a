"""A process that does one thing to a space many times, is killed in the middle of each, and looks at what is left.

`ROLE FOLDER SEED COUNT`: the role names what is done. A child is forked for each time, and kills itself at a random
step of the work (a call of a function), so that where it dies does not depend on how busy the machine is.
"""

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import treering
from space_parts import decide, note, open_space, records
from treering.core.errors import NotFound, Unavailable
from treering.core.patch import Erase
from treering.ports.ledger import Record
from treering.surfaces.python.space import Space
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

SECRET = "quarterdeck"
FIXTURES = Path(__file__).parents[1] / "fixtures"


@dataclass(frozen=True)
class Role:
    """What is made before, what is done and killed, and what has to be so afterwards, whenever it was killed."""

    prepare: Callable[[Path], None]
    work: Callable[[Path], None]
    check: Callable[[Path], None]


def opened(folder: Path, name: str = "space.db") -> Space:
    return open_space(f"sqlite:{folder / name}", channel="user", actor="ada")


def require_whole(space: Space) -> None:
    report = space.lint("audit")
    assert (report.problem, report.differences) == ("", ())


def fill(folder: Path) -> None:
    with opened(folder) as space:
        for number in range(6):
            quote = note(space, f"Bees hum near hive {number}.\n\nWasps sting.", origin=f"{number}.md")
            decide(space, f"Hive {number}", quote)
        note(space, f"The {SECRET} of the ship. " * 20, origin="secret.md")
        space.embed_pending()


def secret_of(space: Space) -> list[str]:
    return [state.id for state in space.engine.ledger.sources(scope="/", root="secret.md").values()]


def erase(folder: Path) -> None:
    with opened(folder) as space:
        space.erase(secret_of(space))


def check_erased(folder: Path) -> None:
    with opened(folder) as space:
        require_whole(space)
        if left := secret_of(space):
            assert space.erase(left).clean
        assert not space.query("search", input={"text": SECRET}).hits
        require_whole(space)
    for file in folder.glob("space.db*"):
        assert SECRET.encode() not in file.read_bytes()


def export(folder: Path) -> None:
    with opened(folder) as space:
        space.export(folder / "export")


def check_exported(folder: Path) -> None:
    with opened(folder) as space:
        require_whole(space)
        if not (folder / "export").exists():
            space.export(folder / "export")
        with opened(folder, "copy.db") as copy:
            copy.import_from(folder / "export")
            require_whole(copy)
            assert records(copy) == records(space)


def fill_and_export(folder: Path) -> None:
    fill(folder)
    export(folder)


def take_in(folder: Path) -> None:
    with opened(folder, "copy.db") as copy:
        copy.import_from(folder / "export")


def check_taken_in(folder: Path) -> None:
    with opened(folder) as space, opened(folder, "copy.db") as copy:
        require_whole(copy)
        if not copy.engine.ledger.sequence():
            copy.import_from(folder / "export")
            require_whole(copy)
        assert records(copy) == records(space)


def reindex(folder: Path) -> None:
    with opened(folder) as space:
        space.lint("reindex", options={"apply": True})


def check_reindexed(folder: Path) -> None:
    with opened(folder) as space:
        require_whole(space)
        assert space.engine.index.vectors.lag().pending == 0
        assert space.query("search", input={"text": "bees hum"}).hits


def put_older(folder: Path) -> None:
    shutil.copy(FIXTURES / "ledger_v1.db", folder / "space.db")


def upgrade(folder: Path) -> None:
    opened(folder).close()


def check_upgraded(folder: Path) -> None:
    with opened(folder) as space:
        require_whole(space)
        assert space.query("search", input={"text": "Which store?"}).hits
        note(space, "Written since.", origin="since.md")
        require_whole(space)


def fill_much(folder: Path) -> None:
    """Commit more than a move copies in one part, with what is erased later on."""
    make = Builder(SteppingClock(seed="killed"))
    with closing(treering.open_ledger(place(folder))) as ledger:
        for number in range(2):
            sources = [make.source(f"Bees hum {number} {one}.", origin=f"{number}/{one}.md") for one in range(150)]
            ledger.commit(make.patch(*sources), idempotency_key=str(number))
            gone = [Erase(id=one.id, expected_revision=1) for one in sources[:20]]
            ledger.commit(make.patch(*gone))


def place(folder: Path, name: str = "space.db") -> str:
    return f"sqlite:{folder / name}"


def move(folder: Path) -> None:
    treering.move(place(folder), place(folder, "moved.db"), embedder=HashingEmbedder())


def check_moved(folder: Path) -> None:
    is_there = (folder / "moved.db").exists()
    try:
        with closing(treering.open_ledger(place(folder, "moved.db"), create=False)) as copy:
            copy.verify()
            found = list(copy.records())
    except Unavailable:  # a move has begun it
        found = None
    except NotFound:
        assert not is_there
        found = None
    move(folder)
    with (
        closing(treering.open_ledger(place(folder))) as ours,
        closing(treering.open_ledger(place(folder, "moved.db"))) as copy,
    ):
        copy.verify()
        assert list(copy.records()) == list(ours.records())
        # Whole, or as it was before the move.
        assert found in (None, list(ours.records()), older(folder))
    assert hidden(folder) == []


def older(folder: Path) -> list[Record] | None:
    """Return what the copy held before it was moved to again; `None` where there was none."""
    if not (folder / "older.db").exists():
        return None
    with closing(treering.open_ledger(place(folder, "older.db"))) as ledger:
        return list(ledger.records())


def fill_and_move_and_write(folder: Path) -> None:
    make = Builder(SteppingClock(seed="before"))
    with closing(treering.open_ledger(place(folder))) as ledger:
        ledger.commit(make.patch(make.source("Bees rest.", origin="rest.md")))
    move(folder)
    shutil.copy(folder / "moved.db", folder / "older.db")
    fill_much(folder)


def hidden(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob(".*") if file.is_file()]


def back_up(folder: Path) -> None:
    (folder / "elsewhere").mkdir(exist_ok=True)
    with opened(folder) as space:
        space.backup(folder / "elsewhere" / "copy.db")


def check_backed_up(folder: Path) -> None:
    if (folder / "elsewhere" / "copy.db").exists():
        with opened(folder / "elsewhere", "copy.db") as copy:
            require_whole(copy)
    with opened(folder) as space:
        require_whole(space)
        # What holds nothing yet is left for the next backup there.
        left = [file for file in (folder / "elsewhere").glob(".*") if file.stat().st_size]
        assert left == []
        assert space.erase(secret_of(space)).clean
    (folder / "elsewhere" / "copy.db").unlink(missing_ok=True)
    back_up(folder)
    assert hidden(folder) == []


def fill_two(folder: Path) -> None:
    fill(folder)
    (folder / "team").mkdir()
    shutil.copy(folder / "space.db", folder / "other.db")
    with opened(folder) as space, opened(folder, "other.db") as other:
        decide(space, "The port", note(space, "We said 1.", origin="ours.md"))
        decide(other, "The port", note(other, "They said 2.", origin="theirs.md"))
        other.erase(secret_of(other))
        other.sync(str(folder / "team"))


def sync(folder: Path) -> None:
    with opened(folder) as space:
        space.sync(str(folder / "team"))


def check_synced(folder: Path) -> None:
    with opened(folder) as space, opened(folder, "other.db") as other:
        require_whole(space)
        for one in (space, other, space):
            one.sync(str(folder / "team"))
            require_whole(one)
        assert treering.diff(place(folder), place(folder, "other.db")).differences == ()
        assert not secret_of(space)
    for file in folder.glob("space.db*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


ROLES: Mapping[str, Role] = {
    "back up": Role(fill, back_up, check_backed_up),
    "erase": Role(fill, erase, check_erased),
    "export": Role(fill, export, check_exported),
    "import": Role(fill_and_export, take_in, check_taken_in),
    "move": Role(fill_much, move, check_moved),
    "move again": Role(fill_and_move_and_write, move, check_moved),
    "sync": Role(fill_two, sync, check_synced),
    "reindex": Role(fill, reindex, check_reindexed),
    "upgrade": Role(put_older, upgrade, check_upgraded),
}


def run(work: Callable[[Path], None], folder: Path, *, last: int | None) -> int:
    """Do the work in a child that kills itself at a step; return its status, or without a step the count of steps."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, str(counted(work, folder, last)).encode())
        finally:
            os._exit(3)
    os.close(writing)
    with os.fdopen(reading) as told:
        steps = told.read()
    _, status = os.waitpid(child, 0)
    return int(steps) if last is None else status


def counted(work: Callable[[Path], None], folder: Path, last: int | None) -> int:
    steps = 0

    def step(_frame: object, event: str, _what: object) -> None:
        nonlocal steps
        if event in {"call", "c_call"}:
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    try:
        work(folder)
    finally:
        sys.setprofile(None)
    return steps


def main() -> None:
    name, place, seed, count = sys.argv[1:]
    role, folder, chance = ROLES[name], Path(place), random.Random(f"{name} {seed}")
    original = folder / "original"
    original.mkdir()
    role.prepare(original)
    # Here too, so that no child does what is done once in a process, such as importing.
    role.work(Path(shutil.copytree(original, folder / "warm")))
    role.check(folder / "warm")
    steps = run(role.work, Path(shutil.copytree(original, folder / "measured")), last=None)
    killed = 0
    for number in range(int(count)):
        last = chance.randint(1, steps)
        copy = Path(shutil.copytree(original, folder / str(number)))
        status = run(role.work, copy, last=last)
        killed += os.WIFSIGNALED(status)
        try:
            role.check(copy)
        except BaseException as error:
            error.add_note(f"{name} was killed at step {last} of {steps}")
            raise
        shutil.rmtree(copy)
    sys.stdout.write(f"{killed} killed\n")


if __name__ == "__main__":
    main()

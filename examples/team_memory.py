"""Two people, two clones, no server: one contradiction, and one erased secret: `python examples/team_memory.py`.

Everything happens in a folder of its own, which is gone at the end. It needs git.
"""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import treering
from treering import Space
from treering.ports.ledger import Selection
from treering.testing import Builder, SteppingClock


def main() -> None:
    """Let Ada and Bob work offline, meet at a bare repository, disagree, and erase a secret."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as closing:
        folder = Path(place)
        os.environ["TREERING_DATA_DIR"] = str(folder / "data")  # what was synced is remembered there
        remote = str(folder / "team.git")
        subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)  # noqa: S603, S607 - git, and our own folder
        ada, bob = (closing.enter_context(_space(folder, name)) for name in ("ada", "bob"))

        print("Offline: Ada writes that the port is 5432, Bob that it is 6432. Ada also notes a password.")
        _say(ada, "ada", "5432")
        _say(bob, "bob", "6432")
        secret = _note(ada, "secret", "The password is correct horse, said Ada.", "secret.md")

        for name, space in (("ada", ada), ("bob", bob), ("ada", ada)):
            report = space.sync(remote)
            contested = len(report.received.contested) if report.received else 0
            print(f"{name} syncs: {report.sent} changes sent, {contested} claims contested.")
        for name, space in (("ada", ada), ("bob", bob)):
            print(f"{name}: {', '.join(_claims(space))}")

        erased = ada.erase([secret], reason="Not for everybody.")
        print(f"Ada erases the password: {'clean' if erased.clean else 'not clean'}.")
        ada.sync(remote)
        received = bob.sync(remote).received
        print(f"Bob syncs: {len(received.erased) if received else 0} objects erased.")
        for name, space in (("ada", ada), ("bob", bob)):
            head = space.engine.ledger.verify()
            print(f"{name}'s audit log verifies up to event {head.seq}.")


def _space(folder: Path, name: str) -> Space:
    return treering.open(f"sqlite:{folder / name}.db", channel="user", actor=name)


def _note(space: Space, who: str, text: str, origin: str) -> str:
    make = Builder(SteppingClock(seed=who))
    source = make.source(text, origin=origin)
    space.engine.ledger.commit(make.patch(source))
    return source.id


def _say(space: Space, who: str, port: str) -> None:
    make = Builder(SteppingClock(seed=who))
    source = make.source(f"The port is {port}.", origin=f"{who}.md")
    fact = make.fact("database", "port", port, make.evidence(source))
    space.engine.ledger.commit(make.patch(source, fact))


def _claims(space: Space) -> list[str]:
    found = space.engine.ledger.select(Selection(descend=True))
    return [f"{item.title} ({item.status})" for item in found if isinstance(item, treering.Knowledge)]


if __name__ == "__main__":
    main()

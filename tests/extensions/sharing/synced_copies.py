"""Copies of a space that sync over a remote."""

import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import treering
from treering.core.patch import AddLink, Erase, Link
from treering.extensions.sharing.sync import SyncReport, SyncWishes, sync
from treering.ports.ledger import Selection
from treering.testing.builders import ADA, Builder
from treering.testing.fakes import START, SteppingClock


class Clone:
    """One person's copy of a space, and how they sync it."""

    def __init__(self, folder: Path, name: str, remote: Path, *, days: int = 0) -> None:
        self.file = folder / f"{name}.db"
        self.home = folder / f"{name}.db.sync"
        self.remote = remote
        self.make = Builder(SteppingClock(START, seed=name, ahead=timedelta(days=days)))

    def tell(self, words: str, origin: str, scope: str = "/") -> str:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            source = self.make.source(words, origin=origin, scope=scope)
            ledger.commit(self.make.patch(source))
            return source.id

    def erase(self, identity: str) -> None:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            revision = ledger.get(identity).revision
            ledger.commit(self.make.patch(Erase(id=identity, expected_revision=revision)))
            ledger.compact()

    def link(self, source: str, target: str) -> None:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            link = Link(type="similar_to", source=source, target=target)
            ledger.commit(self.make.patch(AddLink(link=link)))

    def links(self, identity: str) -> list[str]:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            return [link.source for link in ledger.links(identity)]

    def sync(self, wishes: SyncWishes | None = None) -> SyncReport:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            wanted = wishes or SyncWishes()
            return sync(ledger, self.home, str(self.remote), by=ADA, folder=self.file.parent, wishes=wanted)

    def words(self) -> set[str]:
        with closing(treering.open_ledger(str(self.file))) as ledger:
            ledger.verify()
            found = ledger.select(Selection(descend=True, types=("source",)))
            return {part.excerpt for item in found for part in getattr(item, "segments", ())}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def read(remote: Path, blob: str) -> bytes:
    return subprocess.run(["git", "-C", str(remote), "cat-file", "blob", blob], check=True, capture_output=True).stdout

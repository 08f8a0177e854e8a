"""A process that indexes, retrieves and deletes documents of one project until a file says stop.

`soak_worker.py FOLDER NUMBER SEED`: the project lies in FOLDER/projects, the journal is FOLDER/NUMBER.journal. One
that was killed is started again with another seed, and goes on with the documents its journal tells of.
"""

import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from soak_journal import SHARED, Journal, held, read_steps

import treering
from treering.core.errors import TreeringError
from treering.core.evidence import Triple
from treering.extensions.projects.project import DeleteReport, IndexReport
from treering.extensions.projects.spaces import Projects
from treering.testing.fakes import HashingEmbedder

PROJECT = "soak"
NAMES = (
    "Ada Lovelace",
    "Charles Babbage",
    "Анна Каренина",
    "東京タワー",
    "نجيب محفوظ",
    "Grace Hopper",
    "Müller & Söhne",
)
PLACES = ("London", "Köln", "Москва", "大阪城", "القاهرة", "Boston")
SHARED_DOCS = tuple(
    f"{SHARED} note {n}: {NAMES[n % 7]} wrote to {NAMES[n % 5]} about {PLACES[n % 6]}." for n in range(12)
)
_TAG = re.compile(r"zq\w+zq")


class Worker:
    """Random calls on the project, each noted before and after."""

    def __init__(self, memory: Projects, journal: Journal, chance: random.Random, tag: str) -> None:
        self._memory = memory
        self._journal = journal
        self._chance = chance
        self._tag = tag
        self._made = 0
        self._own: list[str] = []
        self._gone = set[str]()

    def take_over(self, docs: Sequence[str]) -> None:
        """Go on with documents an earlier process of this number left."""
        self._own = list(docs)

    def step(self) -> None:
        """Make one call."""
        call = self._chance.choices((self._index, self._delete, self._retrieve), weights=(4, 3, 3))[0]
        call()

    def _index(self) -> None:
        docs = [self._new_doc() for _ in range(self._chance.randint(1, 3))]
        self._own += docs
        docs += self._chance.sample(SHARED_DOCS, self._chance.randint(0, 2))
        stated = [self._triples() for _ in docs] if self._chance.random() < 0.3 else None
        self._call("index", docs, lambda: _indexed(self._memory.index(PROJECT, docs, triples=stated)))

    def _delete(self) -> None:
        docs = self._chance.sample(self._own, min(len(self._own), self._chance.randint(0, 2)))
        self._own = [doc for doc in self._own if doc not in docs]
        self._gone.update(docs)
        docs += self._chance.sample(SHARED_DOCS, self._chance.randint(0, 2))
        self._call("delete", docs, lambda: _deleted(self._memory.delete(PROJECT, docs)))

    def _retrieve(self) -> None:
        """Ask for a document of its own, which has to be found, for one it deleted, which must not, or for anything."""
        wanted = self._chance.choice(self._own) if self._own and self._chance.random() < 0.6 else ""
        gone = self._chance.choice([*sorted(self._gone), ""])
        asked = " ".join(_TAG.findall(wanted or gone)) or f"What did {self._chance.choice(NAMES)} write?"

        def retrieve() -> tuple[list[str], str]:
            found = self._memory.retrieve(PROJECT, [asked], 20)[0]["docs"]
            missing = [f"not found: {wanted}"] if wanted and wanted not in found else []
            return [], "; ".join(
                [*missing, *(f"found, and was deleted: {doc}" for doc in self._gone.intersection(found))]
            )

        self._call("retrieve", [asked], retrieve)

    def _call(self, verb: str, docs: Sequence[str], call: Callable[[], tuple[list[str], str]]) -> None:
        self._journal.begin(verb, docs)
        began = time.monotonic()
        try:
            outcomes, wrong = call()
        except TreeringError as error:
            outcomes, wrong = ["failed"] * len(docs), repr(error)
        self._journal.end(outcomes, time.monotonic() - began, wrong)

    def _new_doc(self) -> str:
        self._made += 1
        one, other = self._chance.sample(NAMES, 2)
        place = self._chance.choice(PLACES)
        return f"{one} met {other} in {place}. They spoke of zq{self._tag}x{self._made}zq."

    def _triples(self) -> list[Triple]:
        count = self._chance.randint(0, 2)
        pick = self._chance.choice
        return [Triple(subject=pick(NAMES), relation="visited", object=pick(PLACES)) for _ in range(count)]


def _indexed(report: IndexReport) -> tuple[list[str], str]:
    return [result.outcome for result in report.results], _why(report)


def _deleted(report: DeleteReport) -> tuple[list[str], str]:
    return [result.outcome for result in report.results], _why(report)


def _why(report: IndexReport | DeleteReport) -> str:
    return "; ".join(result.why for result in report.results if result.outcome == "failed")


def main() -> None:
    folder, number, seed = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    path = folder / f"{number}.journal"
    known = [doc for doc, there in held(read_steps(path)).items() if there]
    with treering.open_projects(folder / "projects", embedder=HashingEmbedder()) as memory, memory.engine(PROJECT):
        worker = Worker(memory, Journal(path), random.Random(seed), f"{number}s{seed}")
        worker.take_over(known)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not (folder / "stop").exists():
            worker.step()


if __name__ == "__main__":
    main()

"""Notes that an agent wrote, looked for beside a repository: none may fall behind because it repeats its question.

Each note states one thing of one service: an address, a port, an id, a path, a limit, a decision. Everything is made
by rule with a fixed seed. The repository (this one, or `TREERING_BENCH_TREE`) is trusted more than the notes.
"""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import treering
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan
from treering import Space
from treering.models.static_model import StaticEmbedder
from treering.verbs.query.search import SearchReport

COUNT = 500
_QUICK = 20
_SEED = 46
_FIRST = 3
_FOLDERS = ("docs", "src/treering/core", "src/treering/retrieval", "src/treering/verbs")
"""What is read of this repository: prose and code, of which some is about limits, ports, hosts and decisions."""

_SERVICES = (
    "triton", "heron", "basalt", "juniper", "quartz", "marlin", "cobalt", "willow", "falcon", "ember", "onyx", "lotus",
    "pelican", "granite", "saffron", "otter", "cedar", "zephyr", "indigo", "badger", "coral", "thistle", "raven",
    "amber", "lynx", "maple", "opal", "sparrow", "topaz", "viper", "walnut", "yarrow", "beetle", "clover", "dahlia",
    "egret", "fennel", "gecko", "hazel", "ibis", "jasper", "kestrel",
)  # fmt: skip
_PEOPLE = ("Ada", "Ben", "Carla", "Deniz", "Emil", "Farah", "Goran", "Hana")


@dataclass(frozen=True, slots=True)
class Note:
    """A note, and questions that it answers: the identifier in it, its own words, and other words."""

    text: str
    identifier: str
    own_words: str
    paraphrase: str

    @property
    def questions(self) -> Sequence[tuple[str, str]]:
        """Return each question with the way it is asked."""
        asked = (
            ("its identifier", self.identifier),
            ("its own words", self.own_words),
            ("other words", self.paraphrase),
        )
        return [(way, text) for way, text in asked if text]


def _address(service: str, chance: random.Random) -> Note:
    address = ".".join(str(chance.randint(2, 250)) for _ in range(4))
    text = f"The database host of {service} is {address}, reach it through the jump box."
    return Note(
        text, address, f"what is the database host of {service}", f"which address does the {service} database have"
    )


def _port(service: str, chance: random.Random) -> Note:
    port = chance.randint(1024, 65535)
    text = f"The {service} admin interface listens on port {port}."
    return Note(
        text, f"port {port}", f"which port does the {service} admin interface listen on", f"port of {service} admin UI"
    )


def _batch(service: str, chance: random.Random) -> Note:
    digits = f"{chance.getrandbits(128):032x}"
    batch = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    text = f"The {service} batch {batch} failed because the disk was full."
    return Note(text, batch, f"why did the {service} batch {batch} fail", f"reason why the {service} batch failed")


def _path(service: str, chance: random.Random) -> Note:
    path = f"src/{service}/{chance.choice(('http', 'jobs', 'store'))}/{chance.choice(('retry', 'quota'))}_limit.py"
    text = f"{path} must change together with the proto file."
    return Note(text, path, f"what must change together with {path}", f"what else to edit after touching {path}")


def _ticket(service: str, chance: random.Random) -> Note:
    ticket = f"{service[:4].upper()}-{chance.randint(100, 9999)}"
    text = f"{ticket} is blocked until the {service} license is renewed."
    return Note(text, ticket, f"what is {ticket} blocked until", f"why can nobody work on {ticket}")


def _limit(service: str, chance: random.Random) -> Note:
    text = f"The retry limit of the {service} service is {chance.randint(2, 9)}, decided by {chance.choice(_PEOPLE)}."
    return Note(
        text,
        "",
        f"what is the retry limit of the {service} service",
        f"how many retries may the {service} service make",
    )


def _timeout(service: str, chance: random.Random) -> Note:
    text = f"The timeout of the {service} client is {chance.randint(5, 90)} seconds."
    return Note(
        text,
        "",
        f"what is the timeout of the {service} client",
        f"how long does the {service} client wait for an answer",
    )


def _owner(service: str, chance: random.Random) -> Note:
    text = f"The owner of the {service} pipeline is {chance.choice(_PEOPLE)}."
    return Note(text, "", f"who is the owner of the {service} pipeline", f"who looks after the pipeline {service}")


def _decision(service: str, chance: random.Random) -> Note:
    text = f"We decided to store the sessions of {service} in {chance.choice(('Redis', 'SQLite', 'memory'))}."
    return Note(
        text, "", f"where did we decide to store the sessions of {service}", f"what holds the {service} sessions"
    )


def _version(service: str, chance: random.Random) -> Note:
    version = f"{chance.randint(1, 9)}.{chance.randint(0, 30)}.{chance.randint(0, 30)}"
    text = f"The pinned version of {service} is {version}, newer ones break the import."
    return Note(text, "", f"what is the pinned version of {service}", f"which version of {service} did we pin")


def _command(service: str, chance: random.Random) -> Note:
    flag = f"--{chance.choice(('dry', 'full', 'fast'))}-{service}"
    text = f"Run make deploy with {flag} before a release of {service}."
    return Note(text, flag, f"what to run before a release of {service}", f"how do I prepare a {service} release")


def _freeze(service: str, chance: random.Random) -> Note:
    day = f"2027-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    text = f"The release freeze of {service} begins on {day}."
    return Note(
        text, "", f"when does the release freeze of {service} begin", f"first day of the {service} release freeze"
    )


_KINDS: Sequence[Callable[[str, random.Random], Note]] = (
    _address, _port, _batch, _path, _ticket, _limit, _timeout, _owner, _decision, _version, _command, _freeze,
)  # fmt: skip


def notes(count: int = COUNT) -> list[Note]:
    """Return so many notes, at most one of each kind for each service; fewer are a sample of the rest."""
    chance = random.Random(_SEED)
    made = [kind(service, chance) for service in _SERVICES for kind in _KINDS]
    chance.shuffle(made)
    return made[:count]


def places(space: Space, written: Sequence[Note]) -> Iterator[tuple[str, str, int]]:
    """Write notes as an agent, ask each question, and yield the way, the question, and the note's place (0: absent)."""
    agent = space.with_actor("agent", channel="agent")
    agent.ingest(
        "source",
        input={"items": [{"text": one.text, "origin": f"note/{n}"} for n, one in enumerate(written)]},
        options={"wait": True},
    )
    for number, one in enumerate(written):
        for way, question in one.questions:
            report = space.query("search", input={"text": question}, options={"limit": 10})
            assert isinstance(report, SearchReport)
            origins = [hit.origin for hit in report.hits]
            yield way, question, origins.index(f"note/{number}") + 1 if f"note/{number}" in origins else 0


def measure(plan: Plan) -> list[Row]:
    """Count the notes that are not among the first three hits. `quick`: twenty notes."""
    written = notes(_QUICK if plan.quick else COUNT)
    named = os.environ.get("TREERING_BENCH_TREE", "")
    root = Path(named or Path(__file__).resolve().parents[1])
    folders = [root] if named else [root / folder for folder in _FOLDERS]
    with treering.open(":memory:", background=False, embedder=StaticEmbedder(), channel="adapter") as space:
        for folder in folders:
            space.ingest("path", input={"path": str(folder)}, options={"wait": True})
        return list(_rows(list(places(space, written)), len(written)))


def _rows(found: Sequence[tuple[str, str, int]], count: int) -> Iterator[Row]:
    for way in dict.fromkeys(way for way, _, _ in found):
        asked = [(question, place) for one, question, place in found if one == way]
        lost = [f"{question} ({place or 'absent'})" for question, place in asked if not 1 <= place <= _FIRST]
        later = sum(place != 1 for _, place in asked)
        note = (
            f"of {len(asked)} questions about {count} notes; not first: {later}; such as {'; '.join(lost[:3]) or '-'}"
        )
        yield Figure(f"honest notes lost, asked by {way}", len(lost), "notes", at_most(0), note)

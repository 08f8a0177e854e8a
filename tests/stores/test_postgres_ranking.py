"""Postgres ranks as SQLite does: the same passages, in the same order, with the same scores."""

import random
from contextlib import closing

import pytest
from index_stage import open_space, seen
from postgres_spaces import new_space, open_target

from treering.core.patch import Erase
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.words import _WAITING
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import NamePart, TextRequest
from treering.testing.fakes import SteppingClock

_PARTS = ("hive", "bees", "Queen", "swarm", "hive_box", "honeyComb", "wax", "Ärger", "Straße", "巣箱", "v2.1", "don't")
_RARE = 300
_LIMIT = 5_000
_TERMS = (
    "hive",
    "bee",
    "queen",
    "hive bee",
    "wax wax",
    "swarm",
    "hive",
    "word7",
    "word8 word9",
    "arger",
    "巣 箱",
    "none",
)
_NAMES = ("hive_box", "hivebox", "honeycomb", "name_1", "v2", "me_", "nowhere_else")


def sentence(random):
    words = [random.choice(_PARTS) for _ in range(random.randint(2, 12))]
    words += [f"word{random.randint(0, _RARE)}" for _ in range(4)]
    words += [f"name_{random.randint(0, 9)}"] * random.randint(0, 2)
    return " ".join(random.sample(words, len(words))) + f" {random.random()}."


@pytest.fixture(scope="module")
def both(server):
    """A space of a few thousand passages with a past, on SQLite and the same on Postgres."""
    clock = SteppingClock()
    chance, plain = random.Random(7), open_space(clock=clock)
    sources = []
    for number in range(12):
        texts = [sentence(chance) for _ in range(_WAITING // 5)]
        title = f"Notes {chance.choice(_PARTS)} {number}"
        scope = ("/", "/a", "/a/b")[number % 3]
        kind, origin = ("file", f"repo#docs/{number}.md") if number % 2 else ("note", f"{number}.md")
        sources.append(plain.make.source(*texts, origin=origin, title=title, scope=scope, kind=kind))
        plain.commit(sources[-1])
    for source in sources[:3]:
        plain.reread(source, *(sentence(chance) for _ in range(40)))
    plain.move(sources[4], "archived")
    plain.erase(sources[5])
    plain.commit(plain.make.fact("hive", "holds", "hive_box of bees", scope="/a"))
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id="hashing/64", dimension=64)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        ledger.load(plain.ledger.records())
        later = plain.make.source(*(sentence(chance) for _ in range(40)), origin="later.md", scope="/a")
        patch = plain.make.patch(Erase(id=sources[6].id, expected_revision=1), later)
        for each in (plain.ledger, ledger):
            each.commit(patch)
        yield plain.index, index
    plain.ledger.close()


REACHES = {
    "all": seen(),
    "scope": seen("/a", descend=False),
    "below": seen("/a"),
    "filtered": seen(where={"origin": {"in": ["repo#docs/3.md", "8.md", "10.md"]}}),
    "title": seen(where={"title": {"prefix": "Notes h"}}),
    "withdrawn": seen(withdrawn=True),
    "then": seen(at=8),
    "then in scope": seen("/a", at=14, where={"type": "source"}),
}


@pytest.mark.parametrize("reach", REACHES.values(), ids=REACHES)
def test_words_and_names_have_the_places_and_scores_of_sqlite(both, reach):
    sqlite, postgres = (answers(index, reach) for index in both)
    assert sqlite["words"]
    assert sqlite.keys() == postgres.keys()
    for arm, wanted in sqlite.items():
        assert postgres[arm] == pytest.approx(wanted), arm


def test_terms_are_counted_as_on_sqlite(both):
    request = TextRequest(Reach("/a"), 1, counted=_TERMS)
    sqlite, postgres = (index.text.search([request])[0] for index in both)
    assert sqlite.counts
    assert (sqlite.counts, sqlite.passages) == (postgres.counts, postgres.passages)


def answers(index, reach):
    """Return the scores of what is found, by arm and passage."""
    parts = tuple(NamePart(name, name.replace("_", "")) for name in _NAMES)
    request = TextRequest(reach, _LIMIT, words=_TERMS, names=parts, words_in="documentation")
    [found] = index.text.search([request])
    return {
        arm: scored(index, hits)
        for arm, hits in {"words": found.words, "names": found.names, "words in": found.words_in}.items()
    }


def scored(index, hits):
    [found] = index.passages.read([PassageRequest(tuple(hit.key for hit in hits))])
    places = {key: (head.object_id, head.part, head.title) for key, head in found.heads.items()}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return {f"{places[hit.key]}": hit.score for hit in hits}

"""Asking for several things together gives what asking for each gives."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from treering.ports.passages import PassageRequest
from treering.ports.reach import Reach
from treering.ports.text import NamePart, TextRequest
from treering.ports.vectors import NearRequest
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, IndexStage
from treering.testing.index_questions import days, seen

_YEAR = days("2023-01-01", "2023-12-31")


class Together(IndexStage):
    """Every part answers a batch as it answers each request alone."""

    def test_searches_by_text(self, space: IndexedSpace) -> None:
        fill(space)
        requests = [
            TextRequest(
                reach, 3, words=("bee", "hive box"), names=(NamePart("hive_box", "bee"),), place="a.md", days=(_YEAR,)
            )
            for reach in _reaches(space)
        ]
        requests += [TextRequest(seen(), 9, counted=("bee", "none")), TextRequest(seen(), 1, names=(NamePart("hive"),))]
        assert _same(space.index.text.search, requests)
        assert list(space.index.text.search([])) == []

    def test_searches_by_meaning(self, space: IndexedSpace) -> None:
        keys = fill(space)
        space.embed()
        asked = (EMBEDDER.embed_query("bees"), EMBEDDER.embed_query("hive box"))
        requests = [NearRequest(reach, asked, (2, 0), tuple(keys[:2])) for reach in _reaches(space)]
        requests.append(NearRequest(seen(), (), (), tuple(keys)))
        together = space.index.vectors.search(requests)
        alone = [space.index.vectors.search([request])[0] for request in requests]
        assert [near.found for near in together] == [near.found for near in alone]
        assert [_plain(near.cosines) for near in together] == [_plain(near.cosines) for near in alone]

    def test_reads_of_passages(self, space: IndexedSpace) -> None:
        keys = fill(space)
        requests = [PassageRequest(tuple(keys), reach, (_YEAR,), beside=True) for reach in _reaches(space)]
        requests += [PassageRequest(()), PassageRequest(tuple(keys[:1])), PassageRequest(tuple(reversed(keys)), seen())]
        assert _same(space.index.passages.read, requests)


def fill(space: IndexedSpace) -> list[int]:
    """Write something of every kind; return the keys of its passages."""
    talk = space.talk(("Bees hum.", datetime(2023, 5, 8, tzinfo=UTC)), ("The bees in June 2023.", None), scope="/a")
    source = space.make.source("Bees live in a hive box.", "Call hive_box of bees.", title="a.md")
    fact = space.make.fact("hive", "holds", "bees")
    space.commit(talk, source, fact)
    space.reread(source, "Bees live in a hive box.", "Wasps do not.")
    space.move(fact, "archived")
    return [key for item in (talk, source, fact) for key in space.keys(item, withdrawn=True).values()]


def _reaches(space: IndexedSpace) -> list[Reach]:
    where = {"type": "source"}
    return [
        seen(),
        seen("/a"),
        seen("/b"),
        seen(where=where),
        seen(withdrawn=True),
        seen(at=space.ledger.sequence() - 2),
    ]


def _same(ask: Any, requests: Sequence[Any]) -> bool:
    return [_told(found) for found in ask(requests)] == [_told(ask([request])[0]) for request in requests]


def _told(found: Any) -> dict[str, object]:
    fields = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    return {name: list(value) if isinstance(value, Sequence) else value for name, value in fields.items()}


def _plain(cosines: Sequence[Mapping[int, float]]) -> list[dict[int, float]]:
    return [{key: round(score, 5) for key, score in scores.items()} for scores in cosines]

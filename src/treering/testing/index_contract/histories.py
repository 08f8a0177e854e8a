"""After any history of a space, its index gives the same answers as a rebuilt one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.errors import TreeringError
from treering.core.evidence import Triple
from treering.core.objects import Object, Source
from treering.ports.ledger import Selection
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import EdgeType, GraphView, NamePart, NearRequest, Scored, TextRequest
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.graph import require_the_graph_of_the_ledger
from treering.testing.index_contract.passages import as_code, require_the_names_of_the_ledger
from treering.testing.index_contract.stage import (
    EMBEDDER,
    IndexedSpace,
    IndexStage,
    LedgerWriter,
    OpenIndex,
    days,
    seen,
)

# Few texts, so that several passages share one and its vector.
_TEXTS = ("Bees hum.", "Ants dig_hills.", "Ada Lovelace met Charles Babbage.", "", "巣箱", "In May 2022.")
_SCOPES = ("/", "/a", "/a/b")
_STATUSES = ("active", "archived", "invalid", "contested", "closed")
_TIMES = (None, datetime(2023, 5, 8, tzinfo=UTC))
_USES = ("i .m1#", "c .m2#run", "c #run", "c ?#.run_all")
_NAMES = ("m py /app/m1", "m py m1", "i py /app/m1", "u py /app/m2#run", "u py /app/m0#run", "a py run_all", "l py run")
_MANY = 10_000

STEPS = (
    *("source", "source", "talk", "fact", "work", "reread", "reread", "retitle", "note", "triples", "code"),
    *("move", "move", "scope", "refer", "erase", "embed"),
)
"""The possible events of a space, by name; frequent ones are listed twice."""

Step = tuple[str, int, int]
"""An action, its object, and its arguments."""

histories: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 999)), min_size=5, max_size=25
)


class Histories(IndexStage):
    """Compares an index that followed a history with a rebuilt one."""

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=histories)
    def test_catching_up_equals_rebuilding(
        self, open_index: OpenIndex, clock: SteppingClock, steps: Sequence[Step]
    ) -> None:
        space = IndexedSpace(open_index(), clock)
        history = HistoryWriter(space)
        for step in (("source", 0, 0), ("source", 1, 2), *steps):
            history.take(step)
        assert list(space.index.upkeep.differences()) == []
        assert space.index.upkeep.remains(history.erased) == 0
        require_the_graph_of_the_ledger(space)
        require_the_names_of_the_ledger(space)
        grown = answers(space)
        space.index.upkeep.rebuild()
        assert answers(space) == grown


class HistoryWriter:
    """Writes to a space, one step at a time. A step that the rules refuse, or that has no object, does nothing."""

    def __init__(self, space: LedgerWriter) -> None:
        self.space = space
        self.items: list[Object] = []
        self.erased: list[str] = []

    def take(self, step: Step) -> None:
        """Take a step."""
        what, which, how = step
        with suppress(TreeringError):
            if what == "embed":
                self._embed(1 + how % 3)
            elif made := self._made(what, how):
                self.space.commit(made)
                self.items.append(made)
            elif self.items:
                self._change(what, self.items[which % len(self.items)], how)

    def _embed(self, count: int) -> None:
        if isinstance(self.space, IndexedSpace):
            self.space.embed(count)

    def _made(self, what: str, how: int) -> Object | None:
        make, scope, origin = self.space.make, _SCOPES[how % 3], f"o{len(self.items)}"
        match what:
            case "source":
                return make.source(*_some(how), origin=origin, title=("Bees hum.", "Acme")[how % 2], scope=scope)
            case "talk":
                turns = [(text, _TIMES[(how + at) % 2]) for at, text in enumerate(_some(how))]
                return self.space.talk(*turns, origin=origin, scope=scope)
            case "fact":
                return make.fact(("Bees", "Ada Lovelace")[how % 2], "like", len(self.items), scope=scope)
            case "work" if self.items:
                return make.work("Ask Ada Lovelace", source_refs=[self._other(how).id])
        return None

    def _change(self, what: str, item: Object, how: int) -> None:
        space = self.space
        match what, item:
            case "reread", Source():
                space.reread(item, *_some(how))
            case "triples", Source():
                self._state(item, how)
            case "code", Source():
                as_code(space, item, f"app/m{how % 3}.py", *_USES[how % 4 :])
            case "note", Source():
                space.update(item, metadata={"note": how % 3})
            case "retitle", _:
                space.update(item, title=("Bees hum.", "Notes", "Other")[how % 3])
            case "move", _:
                space.move(item, _STATUSES[how % len(_STATUSES)])
            case "scope", _:
                space.move_scope(item, _SCOPES[how % 3])
            case "refer", _ if item.type in {"work_item", "knowledge"}:
                field = "source_refs" if item.type == "work_item" else "subject_refs"
                space.update(item, **{field: [self._other(how).id]})
            case "erase", _:
                space.erase(item)
                self.erased.append(item.id)
                self.items.remove(item)

    def _state(self, item: Source, how: int) -> None:
        source = self.space.ledger.get(item.id)
        assert isinstance(source, Source)
        names = ("Ada Lovelace", "Acme", " ", "Ada")
        triple = Triple(subject=names[how % 4], relation="knows", object=names[how // 4 % 4])
        parts = [{**part.model_dump(), "triples": [triple.model_dump()]} for part in source.segments]
        self.space.update(item, segments=parts)

    def _other(self, how: int) -> Object:
        return self.items[how % len(self.items)]


def _some(how: int) -> list[str]:
    """Return up to three texts, none twice."""
    return list(dict.fromkeys(_TEXTS[(how + at * (1 + how // 7)) % len(_TEXTS)] for at in range(how % 4)))


def answers(space: IndexedSpace) -> dict[str, object]:
    """Return the answers of an index to many questions, with passages identified by object, part and name.

    Keys and node numbers are omitted, because a rebuilt index may assign others.
    """
    half = space.ledger.sequence() // 2
    keys = _all_keys(space, (seen(withdrawn=True), seen(at=half)))
    reaches = {
        "everywhere": seen(),
        "below": seen("/a"),
        "here": seen("/a", descend=False),
        "sources": seen(where={"type": "source"}),
        "noted": seen(where={"metadata.note": {"gte": 1}}),
        "withdrawn": seen(withdrawn=True),
        "then": seen(at=half),
    }
    told: dict[str, object] = {name: _answers(space, reach, keys) for name, reach in reaches.items()}
    lag, pending = space.index.vectors.lag(), space.index.vectors.pending(_MANY)
    return {**told, "lag": lag, "pending": sorted(item.text for item in pending)}


def _all_keys(space: IndexedSpace, reaches: Sequence[Reach]) -> tuple[int, ...]:
    """Return the keys of all passages that can be seen."""
    items = space.ledger.select(Selection(descend=True))
    asked = [TextRequest(reach, _MANY, place=item.id) for item in items for reach in reaches]
    return tuple({hit.key: None for found in space.index.text.search(asked) for hit in found.places})


def _answers(space: IndexedSpace, reach: Reach, keys: tuple[int, ...]) -> dict[str, object]:
    [found] = space.index.text.search(
        [
            TextRequest(
                reach,
                _MANY,
                words=("bee", "hum", "ada", "met", "bee hum"),
                names=(NamePart("dig_hill"), NamePart("lovelace", "ada")),
                days=(days("2022-05-01", "2022-05-31"), days("2023-05-08", weight=0.5)),
                counted=("bee", "ant", "acm"),
                place="Bees hum.",
            )
        ]
    )
    [passages] = space.index.passages.read([PassageRequest(keys, reach, beside=True, named=_NAMES)])
    vector = EMBEDDER.embed_query("Bees hum.")
    [near] = space.index.vectors.search([NearRequest(reach, (vector,), (_MANY,), keys)])
    others = (key for each in (passages.beside, passages.named) for keys in each.values() for key in keys)
    name = _namer(space, (*keys, *near.found, *others))
    return {
        "words": _named(found.words, name),
        "names": _named(found.names, name),
        "places": _named(found.places, name),
        "days": _named(found.days, name),
        "counts": (sorted(found.counts.items()), found.passages),
        "count": space.index.passages.count(reach),
        "seen": sorted(map(name, passages.visible)),
        "beside": sorted((name(key), [name(other) for other in others]) for key, others in passages.beside.items()),
        "code": sorted((called, sorted(map(name, each))) for called, each in passages.named.items()),
        "near": sorted(map(name, near.found)),
        "cosines": sorted((name(key), round(score, 3)) for key, score in near.cosines[0].items()),
        "edges": _edges(space.index.graph.view(reach), keys, name),
    }


def _namer(space: IndexedSpace, keys: Sequence[int]) -> Callable[[int], str]:
    [found] = space.index.passages.read([PassageRequest(tuple(keys))])
    names = {key: f"{head.object_id} {head.part} {head.title} {head.scope}" for key, head in found.heads.items()}
    return lambda key: names.get(key, f"no passage {key}")


def _named(hits: Sequence[Scored], name: Callable[[int], str]) -> list[tuple[str, float]]:
    return sorted((name(hit.key), round(hit.score, 4)) for hit in hits)


def _edges(view: GraphView, keys: Sequence[int], name: Callable[[int], str]) -> list[tuple[Any, ...]]:
    """Return the edges out of passages, with names for numbers."""
    asked = np.array(keys, np.int64)
    found = view.edges(view.of_passages(asked))
    names: Mapping[int, str] = view.names(found.target.tolist())
    ends = zip(asked[found.source].tolist(), found.target.tolist(), found.tie.tolist(), strict=True)
    return sorted((name(one), names[other], EdgeType(tie).name) for one, other, tie in ends)

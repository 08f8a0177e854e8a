"""A labelled collection in a real space, and ways to search it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

import treering
from benchmarks.data import Collection, Passage
from treering import Space
from treering.core.evidence import Turn
from treering.core.objects import Source
from treering.ports.ledger import Selection
from treering.ports.models import Embedder
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import NearRequest, TextRequest
from treering.retrieval.text.analysis import query_terms
from treering.system.machine import SystemClock
from treering.verbs.query.search import SearchReport

Searcher = Callable[[str, int], Sequence[str]]
"""Given a question and a limit, the ids of passages, best first."""

_ALL = 10**6
_SPARE = 2  # hits asked for per passage wanted: a long passage may be found by several of its segments
_EVERYTHING = Reach("/")


class AskedClock(SystemClock):
    """Tells the time that a question is asked at: what "last week" means depends on it. `None`: the real time."""

    at: datetime | None = None

    def now(self) -> datetime:
        """Return the time set, else the current one, in UTC."""
        return self.at or super().now()


@dataclass(frozen=True, slots=True)
class LabelledSpace:
    """A space that holds a collection. `passages` gives a passage's id by source and segment.

    Each question is asked at its own time where the set tells it: `asked` by text.
    """

    space: Space
    passages: Mapping[tuple[str, str], str]
    asked: Mapping[str, datetime | None]
    clock: AskedClock

    @classmethod
    def of(cls, collection: Collection, embedder: Embedder) -> "LabelledSpace":
        """Bring a collection into a space in memory: turns as conversations, paragraphs as notes.

        Texts have vectors of the quick model, and get those of the embedder by `cover`.
        """
        space = treering.open(":memory:", background=False, embedder=embedder, quick=True)
        space.ingest("source", input={"items": list(items_of(collection.passages))})
        sources = space.engine.ledger.select(Selection(scope="/", types=("source",)))
        passages = {key: name for item in sources if isinstance(item, Source) for key, name in _named(item)}
        clock = AskedClock()
        space = replace(space, engine=replace(space.engine, clock=clock))
        return cls(space, passages, {question.text: question.asked_at for question in collection.questions}, clock)

    def cover(self, percent: int) -> None:
        """Embed so many of the texts by the embedder, chosen by their hash; the rest keep those of the quick model."""
        vectors, embedder = self.space.engine.index.vectors, self.space.engine.embedder
        chosen = [one for one in vectors.pending(_ALL) if int(one.text_hash[:8], 16) % 100 < percent]
        made = embedder.embed_documents([one.text for one in chosen])
        vectors.add({one.text_hash: vector for one, vector in zip(chosen, made, strict=True)})

    def covered(self, percent: int) -> Searcher:
        """Return a searcher that asks the verb `query` where so many texts have a vector of the embedder.

        To be asked before any that wants more of them.
        """
        search = self.search()

        def covered(question: str, limit: int) -> Sequence[str]:
            self.cover(percent)
            return search(question, limit)

        return covered

    def search(self, *, graph: bool = True, semantic: bool = True) -> Searcher:
        """Return a searcher that asks the verb `query`.

        Without the graph it asks for the space as of now: of history the graph knows nothing, and all else is alike.
        """
        moment = {} if graph else {"as_of": self.space.engine.ledger.sequence()}

        def search(question: str, limit: int) -> Sequence[str]:
            self.clock.at = self.asked.get(question)
            options = {"limit": _SPARE * limit, "semantic": semantic, **moment}
            report = self.space.query("search", input={"text": question}, options=options)
            assert isinstance(report, SearchReport)
            return self._distinct(((hit.source_id, hit.segment_id) for hit in report.hits), limit)

        return search

    def worded(self) -> Searcher:
        """Return a searcher that ranks by words alone (BM25)."""
        index = self.space.engine.index

        def search(question: str, limit: int) -> Sequence[str]:
            terms = query_terms(question)
            request = TextRequest(_EVERYTHING, _SPARE * limit, words=(*terms.words, *terms.phrases))
            (found,) = index.text.search([request])
            return self._found([hit.key for hit in found.words], limit)

        return search

    def nearest(self) -> Searcher:
        """Return a searcher that ranks by vectors alone."""
        index, embedder = self.space.engine.index, self.space.engine.embedder

        def search(question: str, limit: int) -> Sequence[str]:
            vector = embedder.embed_query(question)
            (near,) = index.vectors.search([NearRequest(_EVERYTHING, (vector,), (_SPARE * limit,))])
            cosines = near.cosines[0]
            return self._found(sorted(cosines, key=lambda key: (-cosines[key], key)), limit)

        return search

    def _found(self, keys: Sequence[int], limit: int) -> Sequence[str]:
        (found,) = self.space.engine.index.passages.read([PassageRequest(tuple(keys))])
        heads = [found.heads[key] for key in keys]
        return self._distinct(((head.object_id, head.part) for head in heads), limit)

    def _distinct(self, places: Iterator[tuple[str, str]], limit: int) -> Sequence[str]:
        return list(dict.fromkeys(self.passages[place] for place in places))[:limit]


def items_of(passages: Sequence[Passage]) -> Iterator[dict[str, Any]]:
    """Write passages as inline items. A turn without a thread is a conversation of one message."""
    for thread, turns in groupby(sorted(passages, key=_thread), key=_thread):
        of_one = list(turns)
        if of_one[0].speaker:
            yield {
                "kind": "conversation",
                "origin": thread,
                "title": thread.rpartition("/")[2],
                "messages": [_message(turn) for turn in of_one],
            }
        else:
            passage = of_one[0]
            note = {"kind": "note", "origin": passage.id, "title": passage.title, "text": passage.text}
            yield {**note, "triples": passage.triples} if passage.triples else note


def _thread(passage: Passage) -> str:
    return passage.thread or passage.id


def _message(turn: Passage) -> dict[str, Any]:
    return {"id": turn.id, "name": turn.speaker, "at": turn.said_at, "content": turn.text}


def _named(source: Source) -> Iterator[tuple[tuple[str, str], str]]:
    for segment in source.segments:
        name = segment.locator.message_id if isinstance(segment.locator, Turn) else source.origin
        yield (source.id, segment.segment_id), name

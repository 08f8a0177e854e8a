"""Systems that find texts, each behind the same few calls: run in processes of their own, by whichever Python has them.

`benchmarks.peers` starts them. What they import of themselves is imported where it is used, and nothing is downloaded:
all are given the same texts and the same vectors, of texts and of questions.
"""
# ruff: noqa: D102 - what the methods of a system do is said once, in `System`

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.costs import cpu_seconds
from benchmarks.processes import disk_used_in, peak_memory

_AT_ONCE = 1_000
_FOUND = 5
_WARM = 20
_GIVEN = "TREERING_BENCH_GIVEN"
"""The folder with texts, questions and vectors."""

Text = Mapping[str, str]
"""`id`, `title`, and the whole `text`."""


class System(ABC):
    """Keeps texts in a folder and finds them."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; nothing is opened so far."""
        self.folder = folder

    @abstractmethod
    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:
        """Keep texts, durably."""

    def finish(self) -> None:  # noqa: B027 - most have nothing left to do
        """Make an index of what was added, where that is a step of its own, and close."""

    @abstractmethod
    def open(self) -> None:
        """Open what a process before this one kept."""

    @abstractmethod
    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:
        """Return the ids of the texts that answer best, the best first."""


class Treering(System):
    """A space on SQLite, asked by `query` in mode `search`."""

    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:  # noqa: ARG002 - found by their text
        if not hasattr(self, "space"):
            self.open()
        items = [{"kind": "note", "origin": one["id"], "title": one["title"], "text": one["text"]} for one in texts]
        self.space.ingest("source", input={"items": items}, options={"max_items": 0, "wait": True})

    def finish(self) -> None:
        self.space.close()

    def open(self) -> None:
        import treering

        self.space = treering.open(f"sqlite:{self.folder / 'space.db'}", background=False, embedder=_GivenEmbedder())

    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:  # noqa: ARG002 - found by its text
        report: Any = self.space.query("search", input={"text": question}, options={"limit": _FOUND})
        return [hit.origin for hit in report.hits]


class _GivenEmbedder:
    """Looks the vectors up; a piece of a text that was cut in two has that of the static embedder, of which all are."""

    def __init__(self) -> None:
        from treering.models.static_model import DIMENSION, PROSE_SHARE, UNRELATED_BELOW, StaticEmbedder

        self.dimension, self.unrelated_below, self.prose_share = DIMENSION, UNRELATED_BELOW, PROSE_SHARE
        self._others = StaticEmbedder()
        self.model_id = f"given:{self._others.model_id}"

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        known = _vectors_by_text()
        return np.array(
            [known[text] if text in known else self._others.embed_query(text) for text in texts], np.float32
        )

    def embed_query(self, text: str) -> np.ndarray[Any, Any]:
        vector: np.ndarray[Any, Any] = self.embed_documents([text])[0]
        return vector


class PlainScript(System):
    """FTS5 and a matrix, ranks added up: `benchmarks.plain_script`."""

    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:
        from benchmarks.plain_script import Script

        if not hasattr(self, "script"):
            self.script = Script(self.folder / "script.db", dimension=vectors.shape[1])
        self.script.add([(one["title"], one["text"]) for one in texts], vectors)

    def open(self) -> None:
        from benchmarks.plain_script import Script

        self.script = Script.opened(self.folder / "script.db", dimension=_given()[2].shape[1])

    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:
        texts = _given()[0]
        best = self.script.best(question, vector)
        found = self.script.bodies(best)
        return [texts[key - 1]["id"] for key in best if key in found]


class LanceDB(System):
    """A table with a full-text index, asked in its hybrid way."""

    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:
        import lancedb
        import pyarrow

        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
        rows = pyarrow.table(
            {"id": [one["id"] for one in texts], "text": [whole(one) for one in texts], "vector": column}
        )
        database = lancedb.connect(str(self.folder))
        if hasattr(self, "table"):
            self.table.add(rows)
        else:
            self.table = database.create_table("texts", data=rows)

    def finish(self) -> None:
        self.table.create_fts_index("text")
        self.table.optimize()

    def open(self) -> None:
        import lancedb
        from lancedb.rerankers import RRFReranker

        self.table = lancedb.connect(str(self.folder)).open_table("texts")
        self.both = RRFReranker()

    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:
        asked = self.table.search(query_type="hybrid").vector(vector).text(question)
        return [row["id"] for row in asked.rerank(self.both).limit(_FOUND).to_list()]


class Txtai(System):
    """An index of vectors and of words (`hybrid`), with the texts in it."""

    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:  # noqa: ARG002 - looked up by name
        rows = [(one["id"], whole(one), None) for one in texts]
        if hasattr(self, "embeddings"):
            self.embeddings.upsert(rows)
        else:
            self.embeddings = self._new()
            self.embeddings.index(rows)

    def finish(self) -> None:
        self.embeddings.save(str(self.folder / "index"))

    def open(self) -> None:
        self.embeddings = self._new()
        self.embeddings.load(str(self.folder / "index"))

    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:  # noqa: ARG002 - looked up by name
        return [row["id"] for row in self.embeddings.search(question, _FOUND)]

    def _new(self) -> Any:
        os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"
        from txtai import Embeddings

        return Embeddings(method="external", transform=f"{__name__}.vectors_of", content=True, hybrid=True)


class Mem0(System):
    """Memories as they are (`infer=False`), in its default store, Qdrant in a folder."""

    def add(self, texts: Sequence[Text], vectors: np.ndarray[Any, Any]) -> None:  # noqa: ARG002 - looked up by text
        if not hasattr(self, "memory"):
            self.open()
        said = [{"role": "user", "content": whole(one)} for one in texts]
        self.memory.add(said, user_id=_USER, infer=False)

    def finish(self) -> None:
        self.memory.vector_store.client.close()

    def open(self) -> None:
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(self.folder), OPENAI_API_KEY="not asked")
        from mem0 import Memory

        store = {"path": str(self.folder / "qdrant"), "on_disk": True, "collection_name": "texts"}
        store["embedding_model_dims"] = _given()[2].shape[1]
        self.memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": str(self.folder / "history.db"),
            }
        )
        self.memory.embedding_model = _GivenToMem0()

    def ask(self, question: str, vector: np.ndarray[Any, Any]) -> list[str]:  # noqa: ARG002 - looked up by text
        named = _ids_by_text()
        found = self.memory.search(question, filters={"user_id": _USER}, top_k=_FOUND, threshold=0.0)
        return [named[row["memory"].strip()] for row in found["results"]]


class _GivenToMem0:
    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002 - as mem0 calls it
        vector: list[float] = vectors_of([text])[0].tolist()
        return vector

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


SYSTEMS: Mapping[str, type[System]] = {
    "Treering": Treering,
    "FTS5 + numpy": PlainScript,
    "LanceDB": LanceDB,
    "txtai": Txtai,
    "mem0, raw": Mem0,
}
_USER = "benchmark"


def whole(text: Text) -> str:
    """Return a text under its title, as it is embedded and, where there is one field for it, kept."""
    return f"{text['title']}\n{text['text']}"


def vectors_of(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the vectors of texts and questions that were given: `float32[n, dim]`."""
    known = _vectors_by_text()
    return np.array([known[text.strip()] for text in texts], np.float32)


def fill(name: str, folder: Path) -> dict[str, float]:
    """Give a system all texts; tell what that cost."""
    system, (texts, _, vectors, _) = SYSTEMS[name](folder), _given()
    _vectors_by_text()
    before, base = cpu_seconds(), peak_memory()
    for part in _parts(len(texts)):
        system.add(texts[part], vectors[part])
    system.finish()
    cpu = cpu_seconds() - before
    return {"adds": len(texts) / cpu, "memory": peak_memory() - base, "disk": disk_used_in(folder)}


def ask(name: str, folder: Path) -> dict[str, Any]:
    """Open what a system kept and ask all questions; the first answer counts from the start of the process."""
    given = time.process_time()
    _, questions, _, vectors = _given()
    _vectors_by_text()
    _ids_by_text()
    given, base = time.process_time() - given, peak_memory()
    system = SYSTEMS[name](folder)
    system.open()
    costs, found = [], []
    for question, vector in zip(questions, vectors, strict=True):
        before = cpu_seconds()
        answers = list(dict.fromkeys(system.ask(question["text"], vector)))[:_FOUND]
        costs.append(cpu_seconds() - before)
        found.append(len(set(question["gold"]).intersection(answers)) / len(question["gold"]))
        if len(costs) == 1:
            first = cpu_seconds() - given
    rest = costs[min(_WARM, len(costs) - 1) :]
    return {
        "first": first,
        "query": 1e3 * float(np.median(rest)),
        "recall": 100 * float(np.mean(found)),
        "memory": peak_memory() - base,
    }


def main() -> None:
    """Fill or ask the named system, and print the answer as JSON; a system that is not there is named."""
    what, name, folder = sys.argv[1:]
    try:
        answer: dict[str, Any] = {"fill": fill, "ask": ask}[what](name, Path(folder))
    except ModuleNotFoundError as error:
        answer = {"missing": error.name}
    print(f"\n{json.dumps(answer)}", flush=True)
    os._exit(0)  # without waiting for what a library still does


@cache
def _given() -> tuple[list[Text], list[dict[str, Any]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return texts, questions, and the vectors of both."""
    folder = Path(os.environ[_GIVEN])
    texts, questions = (json.loads((folder / name).read_text("utf-8")) for name in ("texts.json", "questions.json"))
    return texts, questions, np.load(folder / "texts.npy"), np.load(folder / "questions.npy")


@cache
def _vectors_by_text() -> dict[str, np.ndarray[Any, Any]]:
    texts, questions, of_texts, of_questions = _given()
    known = {whole(one).strip(): vector for one, vector in zip(texts, of_texts, strict=True)}
    return {**known, **{one["text"].strip(): vector for one, vector in zip(questions, of_questions, strict=True)}}


@cache
def _ids_by_text() -> dict[str, str]:
    texts = _given()[0]
    return {whole(one).strip(): one["id"] for one in texts}


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, start + _AT_ONCE) for start in range(0, size, _AT_ONCE))

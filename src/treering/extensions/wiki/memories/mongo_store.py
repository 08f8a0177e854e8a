"""The memories of wiki agents in MongoDB, without a space: one document per memory."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Any, TypeVar

from bson.codec_options import CodecOptions
from pymongo import MongoClient, ReturnDocument
from pymongo.errors import ConfigurationError, DuplicateKeyError, InvalidURI, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from treering.core.characters import well_formed
from treering.core.errors import Denied, InvalidInput, Unavailable
from treering.core.screening import screened
from treering.extensions.client.items.similarity import of_cosine, of_relevance
from treering.extensions.encoder.onnx import BgeSmall
from treering.extensions.wiki.memories import mongo_rows
from treering.extensions.wiki.memories.mongo_indexes import INDEXES, SearchIndexes, State, text_stage, vector_stage
from treering.extensions.wiki.memories.wiki_memory import (
    BRANCH,
    GENERATION,
    REPOSITORY,
    EmbeddedWikiMemories,
    FoundWikiMemories,
    KeptWikiMemory,
    MemorySearch,
    WikiMemoryDraft,
    WikiRepository,
)
from treering.models.vocabulary import word_rarity
from treering.ports.models import Embedder, Vector
from treering.ports.runtime import Clock
from treering.ports.search import TextFound
from treering.retrieval.search.hit_signals import nearness
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.known_words import rarity_of_terms
from treering.retrieval.search.question import Question
from treering.retrieval.text.analysis import index_text
from treering.system.machine import SystemClock
from treering.verbs.ingest.turns import cleaned

COLLECTION, VECTORS, TEXTS = "wiki_memories", "wiki_memories_index", "wiki_memories_text"
EXACT = "exact"
_GENERATIONS = "_generations"
_DATABASE = "treering"
_MILLISECONDS = 5_000
_TIMEOUTS = ("serverSelectionTimeoutMS", "connectTimeoutMS")
"""Options that are set if the address does not contain them; arguments to pymongo override the address."""
_RECENT = timedelta(minutes=5)
"""Search nodes lag behind the server, so younger memories are compared one by one."""
_NO_RIGHTS = frozenset({13, 18, 8000})
"""Error codes: not authorized, not authenticated, and the same on Atlas."""
_POOL, _LEAST = 4, 40
_BATCH = 500
_OPTIONS: CodecOptions[Any] = CodecOptions(tz_aware=True, tzinfo=UTC)
_DURABLE = WriteConcern(w="majority", j=True)
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class CollectionState:
    """The content of a collection, and how it is searched."""

    memories: int
    withdrawn: int
    repositories: int
    other_model: int
    """Memories with vectors of another model; they are found only by words."""
    search: Mapping[str, State]
    """The indexes of the search node, by name."""

    @property
    def searched(self) -> str:
        """The search method."""
        ready = [name for name, state in self.search.items() if state == "ready"]
        return " and ".join(ready) or EXACT


class MongoWikiMemories(EmbeddedWikiMemories):
    """`WikiGenerationStore` over a collection of MongoDB. Safe to use from many threads.

    `connection`: an address, or a `pymongo.MongoClient`, which stays open. `embedder`: default: the built-in one.
    `$vectorSearch` and `$search` are used if the server has their indexes ready; otherwise all memories of the
    repository are compared in this process. Results are scored here, from the current documents: a memory's score does
    not depend on how it was found.
    """

    def __init__(
        self,
        connection: "str | MongoClient[Any]",
        *,
        embedder: Embedder | None = None,
        database: str | None = None,
        collection: str = COLLECTION,
        vector_index: str = VECTORS,
        text_index: str = TEXTS,
        clock: Clock | None = None,
    ) -> None:
        self._lent = not isinstance(connection, str)
        self._client = client_of(connection)
        self._clock = clock or SystemClock()
        self._embedder = embedder or BgeSmall()
        home = self._client[database] if database else self._client.get_default_database(_DATABASE)
        options = home.with_options(codec_options=_OPTIONS, write_concern=_DURABLE)
        self._memories, self._generations = options[collection], options[collection + _GENERATIONS]
        self._search = SearchIndexes(vector_index, text_index, self._embedder.dimension)
        self._has_indexes = False
        self._ready: frozenset[str] = frozenset()

    @property
    def embedder(self) -> Embedder:
        """The embedder of the collection."""
        return self._embedder

    def _save(self, repository: WikiRepository, draft: WikiMemoryDraft, key: str | None) -> str:
        clean = replace(
            draft,
            content=_content(draft.content),
            source_agent=screened(draft.source_agent).value,
            file_paths=tuple(screened(list(draft.file_paths)).value),
            related_pages=tuple(screened(list(draft.related_pages)).value),
        )
        with _answering():
            generation = repository.generation or self._current(repository)
            stored_key = mongo_rows.key_of(repository, generation, key)
            if known := self._keyed(stored_key):
                return known
            row = mongo_rows.new_row(repository, clean, generation, stored_key, self._embedder, self._clock)
            return self._inserted(row)

    def get(self, repository: WikiRepository, memory_id: str) -> KeptWikiMemory | None:
        """Return a memory of the repository by its id; `None` if there is none."""
        with _answering():
            row = self._memories.find_one({"_id": memory_id, **self._seen(repository)})
        return mongo_rows.memory_of(row) if row else None

    def _found(self, repository: WikiRepository, search: MemorySearch) -> FoundWikiMemories:
        vector = self._embedder.embed_query(search.query) if search.vector is None else search.vector
        weigh = _Weighing(search.query, vector, self._embedder)
        with _answering():
            where = {**self._seen(repository), **search.fields}
            rows, searched = self._candidates(search.query, vector, where, search.limit)
            weighed = ((*weigh(row), row["_id"], row) for row in rows)
            similar = (one for one in weighed if one[0] >= search.score_threshold)
            best = heapq.nlargest(search.limit, similar, key=lambda one: one[:3])
        return FoundWikiMemories((mongo_rows.memory_of(row, score) for score, _, _, row in best), searched=searched)

    def _about(self, repository: WikiRepository, paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        with _answering():
            where = {"$and": [self._seen(repository), mongo_rows.about(paths)]}
            rows = self._memories.find(where).sort([(mongo_rows.CREATED, -1), ("_id", -1)])
            return [mongo_rows.memory_of(row) for row in rows]

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Withdraw all memories of a repository; they stay as documents with the status `withdrawn`.

        If it names a generation, only that generation. `erase`: delete them, and those withdrawn before.
        """
        with _answering():
            owned = mongo_rows.owned(repository)
            if erase:
                return self._together(lambda at: int(self._memories.delete_many(owned, session=at).deleted_count))
            return self._together(lambda at: self._withdrawn(owned, at))

    def current_generation(self, repository: WikiRepository) -> str | None:
        """Return the key of the current generation of a repository, or of its branch; `None` if none is complete."""
        with _answering():
            return self._current(repository) or None

    def _complete(self, repository: WikiRepository, generation: str) -> int:
        # The visible generation is one document, so that the switch is atomic. If the server has no transactions and
        # the process dies before the old memories are withdrawn, the repeated call withdraws them.
        own = {REPOSITORY: repository.repository_id, BRANCH: repository.branch or ""}

        def complete(session: Any) -> int:
            change = {"$set": {**own, "current": generation, mongo_rows.UPDATED: self._clock.now()}}
            name = _generation_id(repository, repository.branch or "")
            self._generations.find_one_and_update(
                {"_id": name}, change, upsert=True, return_document=ReturnDocument.AFTER, session=session
            )
            return self._withdrawn({**own, GENERATION: {"$ne": generation}}, session)

        with _answering():
            return self._together(complete)

    def state(self) -> CollectionState:
        """Return the content of the collection on the server, and how it is searched."""
        active = {mongo_rows.STATUS: mongo_rows.ACTIVE}
        model = f"{mongo_rows.EMBEDDED}.{mongo_rows.MODEL}"
        with _answering():
            return CollectionState(
                memories=self._memories.count_documents(active),
                withdrawn=self._memories.count_documents({mongo_rows.STATUS: mongo_rows.WITHDRAWN}),
                repositories=len(self._memories.distinct(REPOSITORY, active)),
                other_model=self._memories.count_documents({**active, model: {"$ne": self._embedder.model_id}}),
                search=self._search.states(self._memories),
            )

    def make_indexes(self) -> Mapping[str, State]:
        """Create missing indexes; return the state of the search indexes, which are built afterwards."""
        with _answering():
            self._ensure_indexes()
            states = self._search.states(self._memories)
            missing = [model for name, model in self._search.models().items() if states[name] == "missing"]
            if missing:
                self._memories.create_search_indexes(missing)
                states = self._search.states(self._memories)
            return states

    def close(self) -> None:
        """Close the connection, unless the caller opened it."""
        if not self._lent:
            self._client.close()

    def _candidates(
        self, query: str, vector: Vector, where: mongo_rows.Condition, limit: int
    ) -> tuple[Iterable[mongo_rows.Row], str]:
        """Return candidate documents from the ready indexes and recent ones, and how they were found."""
        if not self._ready:
            states = self._search.states(self._memories)
            self._ready = frozenset(name for name, state in states.items() if state == "ready")
        if self._search.vectors not in self._ready:
            return self._memories.find(where, batch_size=_BATCH), EXACT
        try:
            return self._found_by_index(query, vector, where, max(limit * _POOL, _LEAST)).values(), self._way
        except OperationFailure:  # the index was deleted or is being rebuilt
            self._ready = frozenset()
            return self._memories.find(where, batch_size=_BATCH), EXACT

    @property
    def _way(self) -> str:
        return " and ".join(name for name in (self._search.vectors, self._search.texts) if name in self._ready)

    def _found_by_index(
        self, query: str, vector: Vector, where: mongo_rows.Condition, most: int
    ) -> Mapping[str, mongo_rows.Row]:
        # `$match` again: the indexes may still contain withdrawn memories.
        stages = [[vector_stage(self._search.vectors, vector.tolist(), where, most), {"$match": where}]]
        if query and self._search.texts in self._ready:
            stages.append([text_stage(self._search.texts, query, where), {"$limit": most}, {"$match": where}])
        rows = {row["_id"]: row for pipeline in stages for row in self._memories.aggregate(pipeline)}
        young = {**where, mongo_rows.UPDATED: {"$gte": self._clock.now() - _RECENT}}
        return {**rows, **{row["_id"]: row for row in self._memories.find(young, batch_size=_BATCH)}}

    def _seen(self, repository: WikiRepository) -> mongo_rows.Condition:
        branches = self._branches(repository)
        names = {_generation_id(repository, branch): branch for branch in branches}
        current = {
            names[row["_id"]]: str(row["current"]) for row in self._generations.find({"_id": {"$in": list(names)}})
        }
        if repository.generation is not None:
            own = branches if repository.branch is None else [repository.branch]
            current |= dict.fromkeys(own, repository.generation)
        return mongo_rows.seen(repository, {branch: current.get(branch, "") for branch in branches})

    def _branches(self, repository: WikiRepository) -> list[str]:
        """Return the visible branches; without a branch, all branches with memories."""
        if repository.branch is not None:
            return [repository.branch, ""]
        held = self._memories.distinct(BRANCH, {REPOSITORY: repository.repository_id})
        return sorted({"", *map(str, held)})

    def _current(self, repository: WikiRepository) -> str:
        row = self._generations.find_one({"_id": _generation_id(repository, repository.branch or "")})
        return str(row["current"]) if row else ""

    def _keyed(self, key: str | None) -> str | None:
        row = self._memories.find_one({mongo_rows.KEY: key}, {"_id": 1}) if key else None
        return str(row["_id"]) if row else None

    def _inserted(self, row: mongo_rows.Row) -> str:
        """Insert a document and return its id, or the id of an existing document with its key."""
        self._ensure_indexes()
        try:
            self._memories.insert_one(row)
        except DuplicateKeyError:
            known = self._keyed(row.get(mongo_rows.KEY))
            if known is None:
                raise
            return known
        return str(row["_id"])

    def _ensure_indexes(self) -> None:
        if not self._has_indexes:
            self._memories.create_indexes(list(INDEXES))
            self._has_indexes = True

    def _withdrawn(self, where: mongo_rows.Condition, session: Any) -> int:
        change = {
            "$set": {mongo_rows.STATUS: mongo_rows.WITHDRAWN, mongo_rows.UPDATED: self._clock.now()},
            "$unset": {mongo_rows.KEY: ""},
        }
        return int(
            self._memories.update_many(
                {**where, mongo_rows.STATUS: mongo_rows.ACTIVE}, change, session=session
            ).modified_count
        )

    def _together(self, work: Callable[[Any], _Done]) -> _Done:
        """Run work in one transaction, if the server supports them."""
        hello = self._client.admin.command("hello")
        if "setName" not in hello and hello.get("msg") != "isdbgrid":
            return work(None)
        with self._client.start_session() as session:
            return session.with_transaction(work)


class _Weighing:
    """Computes the score and cosine of a document for a query."""

    def __init__(self, query: str, vector: Vector, embedder: Embedder) -> None:
        question = Question.of(query, embedder=None, rarity=word_rarity)
        rarity = rarity_of_terms(question.typed, word_rarity)
        self._idf = IdfWeights.of(question.terms.words, TextFound(), rarity=rarity)
        self._vector = vector
        self._embedder = embedder

    def __call__(self, row: Mapping[str, Any]) -> tuple[float, float]:
        vector = mongo_rows.vector_of(row, model=self._embedder.model_id, dimension=self._embedder.dimension)
        cosine = None if vector is None else float(self._vector @ vector)
        if not self._idf.weights:
            cosine = -1.0 if cosine is None else cosine
            return of_cosine(cosine, unrelated_below=self._embedder.unrelated_below), cosine
        coverage = self._idf.coverage(frozenset(index_text(str(row.get(mongo_rows.CONTENT, ""))).split()))
        near = None if cosine is None else nearness(cosine, self._embedder.unrelated_below)
        return of_relevance(near, coverage), -1.0 if cosine is None else cosine


def client_of(connection: "str | MongoClient[Any]") -> "MongoClient[Any]":
    """Return a client for an address, or the given client. Raises `InvalidInput` for anything else."""
    if isinstance(connection, MongoClient):
        return connection
    if not isinstance(connection, str):
        raise InvalidInput(
            f"connection: {type(connection).__name__} is not a thread-safe MongoDB client.",
            hint="Give an address such as mongodb://HOST/DATABASE, or a pymongo.MongoClient.",
        )
    try:
        timeouts: dict[str, Any] = {name: _MILLISECONDS for name in _TIMEOUTS if name.lower() not in connection.lower()}
        return MongoClient(connection, connect=False, **timeouts)
    except (InvalidURI, ConfigurationError, ValueError):  # their messages may repeat a password
        raise InvalidInput("This is not a MongoDB address.", hint="Write mongodb://HOST:PORT/DATABASE.") from None


def _content(text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("The content is empty.", hint="Store a text that is not empty.")
    content = cleaned(well_formed(text)).text
    if not content.strip():
        raise InvalidInput("The content contains only text recalled from this memory.", hint="Store only new text.")
    return content


def _generation_id(repository: WikiRepository, branch: str) -> str:
    return f"{len(repository.repository_id)}:{repository.repository_id}:{branch}"


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except OperationFailure as error:
        if error.code in _NO_RIGHTS:
            raise Denied(
                f"MongoDB rejected the user: {error.code}.",
                hint="Check the user name, the password and the permissions.",
            ) from error
        raise Unavailable(
            f"MongoDB refused the request: {error.code}.",
            hint="Check the server's log, your permissions and the password.",
        ) from error
    except PyMongoError as error:  # its message may contain the address
        raise Unavailable(
            f"Cannot reach MongoDB ({type(error).__name__}).", hint="Check that the server runs."
        ) from error

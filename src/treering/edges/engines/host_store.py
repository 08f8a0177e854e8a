"""A vector store of the host, used through the few methods that such stores share."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from treering.core.errors import InvalidInput, TreeringError, Unavailable
from treering.edges.models.model_loop import ModelLoop

_METHODS = ("add_documents", "search", "delete_documents")
_LIMITS = ("top_k", "limit", "k")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What a host's store is given, where the host names no type of its own."""

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class VectorStoreAdapter:
    """Lets a vector store of the host search beside the memories of a client, which stay in its ledger.

    `store` has `add_documents(documents)`, which returns the ids it keeps them under, `search(query, search_type)` and
    `delete_documents(ids)`, asynchronous or not. Where it returns no ids, these are the documents' own. It may hold
    documents of others. It is asked from the first memory on; with `compare_up_to` as many memories that pass a filter
    are compared one by one, exactly, and the store is asked where there are more. `document` makes a document of the
    host's type from `id`, `content` and `metadata`. With `as_chunks` documents are handed to `add_document_chunks`.
    `loop`: the event loop that the store belongs to; by default it is used in a loop of the adapter's own.
    Raises `InvalidInput` where the store lacks a method.
    """

    def __init__(
        self,
        store: Any,
        *,
        document: Callable[..., Any] = StoredDocument,
        search_type: Any = "similarity",
        as_chunks: bool = False,
        compare_up_to: int = 0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        adding = "add_document_chunks" if as_chunks else "add_documents"
        missing = [name for name in (adding, *_METHODS[1:]) if not callable(getattr(store, name, None))]
        if missing:
            raise InvalidInput(
                f"{type(store).__name__} has no method {missing[0]!r}.",
                hint=f"A vector store has {adding}, {', '.join(_METHODS[1:])}.",
            )
        if compare_up_to < 0:
            raise InvalidInput(f"compare_up_to: {compare_up_to} is below 0.", hint="Leave it out: 0 asks always.")
        self.name = type(store).__name__
        self.compare_up_to = compare_up_to
        self._add = getattr(store, adding)
        self._search = store.search
        self._delete = store.delete_documents
        self._document = document
        self._search_type = search_type
        self._limit = next((name for name in _LIMITS if name in inspect.signature(store.search).parameters), None)
        self._loop = loop
        self._own_loop = ModelLoop(nullcontext())

    def add(self, documents: Sequence[StoredDocument]) -> list[str]:
        """Have the store keep documents; return the id of each there. Raises `Unavailable` where it cannot.

        A store that returns another number of ids than it was given documents is refused, and keeps none.
        """
        made = [self._document(id=one.id, content=one.content, metadata=dict(one.metadata)) for one in documents]
        returned = self._done("add documents", self._add, made)
        if not isinstance(returned, Sequence) or isinstance(returned, str):
            return [one.id for one in documents]
        ids = [str(one) for one in returned]
        if len(set(ids)) != len(documents):
            self.delete(ids)
            raise Unavailable(
                f"{self.name} returned {len(set(ids))} ids for {len(documents)} documents.",
                hint="Have add_documents return one id for each: by it a document is found again and deleted.",
            )
        return ids

    def search(self, query: str, limit: int) -> list[str]:
        """Return the ids of the documents that the store finds for a text, best first."""
        bounded = {self._limit: limit} if self._limit else {}
        found = self._done("search", self._search, query, self._search_type, **bounded)
        return [_id_of(one) for one in found]

    def delete(self, ids: Sequence[str]) -> None:
        """Have the store forget documents. Raises `Unavailable` where it cannot."""
        if ids and self._done("delete documents", self._delete, list(ids)) is False:
            raise Unavailable(f"{self.name} did not delete documents.", hint="Look at the store.")

    def close(self) -> None:
        """End the adapter's own event loop; the store stays open."""
        self._own_loop.close()

    def _done(self, what: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            answer = method(*given, **named)
            return self._awaited(answer) if inspect.isawaitable(answer) else answer
        except TreeringError:
            raise
        except Exception as error:
            # A store of a host raises what it likes. The space's own vectors answer, and the reason is told.
            raise Unavailable(f"{self.name} could not {what}: {error!r}", hint="Look at the store.") from error

    def _awaited(self, answer: Awaitable[Any]) -> Any:
        bounded = asyncio.wait_for(answer, _SECONDS)
        if self._loop is None:
            return self._own_loop.run(bounded)
        future = asyncio.run_coroutine_threadsafe(bounded, self._loop)
        try:
            return future.result(2 * _SECONDS)
        except TooLate:
            future.cancel()
            raise


def _id_of(result: Any) -> str:
    """Return the id of what a search found: a result with a `document`, a document, or an id."""
    document = getattr(result, "document", result)
    if isinstance(document, Mapping):
        return str(document.get("id", ""))
    return str(getattr(document, "id", document))

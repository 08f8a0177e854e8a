"""A vector store, a retriever and the history of a chat over a space."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field

from treering.core.arguments import check_type
from treering.core.errors import InvalidInput
from treering.core.filters import METADATA, And, Compare, Filter
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.items.documents import TYPE, MemoryItem
from treering.extensions.client.items.recalling import RecallScope
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName
from treering.extensions.client.records import RecordEntry, RecordLog, searchable
from treering.frameworks.client import AnyClient, blocking

_DOCUMENTS = "langchain-documents"
_CHATS = "langchain-chats"
_DOCUMENT_REASON = "Documents of LangChain"
_CHAT_REASON = "A chat of LangChain"
_FIELD = "document."
"""The prefix of a document's metadata in filters."""
_MESSAGE = "message"
_SAID_BY = ("human", "ai")


class TreeringVectorStore(VectorStore):
    """A vector store of LangChain: `TreeringVectorStore(client)`.

    The space embeds with the embedder of the client, like all memories. A document with an existing id replaces the old
    one. `client.retrieve` also finds documents. A search compares words and names in addition to vectors; scores are
    calibrated from 0 to 1, higher is better.

    `name`: stores with different names share nothing. `erase`: delete permanently, which the client's author must be
    allowed to do; otherwise deleted documents are withdrawn and stay in the history of the space.
    """

    def __init__(self, client: AnyClient, *, name: str = "default", erase: bool = False) -> None:
        self._client = blocking(client)
        self._collection = RecordCollection((_DOCUMENTS, name))
        self._erase = erase

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        client: AnyClient | None = None,
        **options: Any,
    ) -> Self:
        """Return a store that holds some texts. Needs a `client`, whose embedder embeds them, and no `embedding`."""
        if client is None or embedding is not None:
            raise InvalidInput(
                "from_texts: the client embeds the texts." if client else "from_texts: no client was given.",
                hint="Give client=…, and embedding=None; the client takes an embedder.",
            )
        store = cls(client, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[Any, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_options: Any,
    ) -> list[str]:
        """Store texts with their metadata in one patch, durably; return their ids."""
        given = [*texts]
        named = [one or str(uuid4()) for one in ids or [None] * len(given)]
        drafts = {
            key: self._draft(key, text, told)
            for key, text, told in zip(named, given, metadatas or [{}] * len(given), strict=True)
        }
        self._client.records.keep([*drafts.values()], reason=_DOCUMENT_REASON)
        return named

    def delete(self, ids: list[str] | None = None, **_options: Any) -> bool | None:
        """Delete documents by their ids, or all of them. Unknown ids are ignored."""
        records = self._client.records
        if ids is None:
            names = [self._collection.name(record.key) for record in records.all_of(self._collection)]
        else:
            names = self._names(ids)
        records.remove(names, reason=_DOCUMENT_REASON, erase=self._erase)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that are there, in the order of the ids."""
        found = self._client.records.get(self._names(ids))
        return [_document(record) for record in found.values()]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's name
        **options: Any,
    ) -> list[Document]:
        """Return the documents that answer a query best, best first. `filter`: values that their metadata have."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **options)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangChain's name
        **_options: Any,
    ) -> list[tuple[Document, float]]:
        """Return the documents that match a query best, with scores; if there are too few, then others with score 0."""
        records = self._client.records
        found = records.search(self._collection, query, limit=k, where=_where(filter))
        scored = [(_document(record), record.similarity_score) for record in found]
        if len(found) < k:
            keys = {record.key for record in found}
            others = (record for record in records.all_of(self._collection) if record.key not in keys)
            fitting = [document for document in map(_document, others) if _fits(document, filter)]
            scored += [(document, 0.0) for document in fitting[: k - len(found)]]
        return scored

    def _select_relevance_score_fn(self) -> Any:
        return float

    def _names(self, ids: Iterable[str]) -> list[RecordName]:
        return [self._collection.name(_key(one)) for one in dict.fromkeys(ids)]

    def _draft(self, identity: str, text: str, metadata: Mapping[Any, Any]) -> RecordDraft:
        value = {"id": identity, "text": text, "metadata": dict(metadata)}
        compared = {f"{_FIELD}{key}": one for key, one in metadata.items() if isinstance(one, str | int | float | bool)}
        return RecordDraft(self._collection.name(_key(identity)), value, searchable(text), compared)


class TreeringRetriever(BaseRetriever):
    """A retriever of LangChain over all memories: `TreeringRetriever(client=client, k=5)`.

    Documents have the content and the metadata of memories, with `similarity_score` and `timestamp`. The content is
    data, whatever it contains. `filters`, `session_id`, `scope`, `profile`: as in `client.retrieve`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    client: Any
    """A `MemorySystemClient` or a `BlockingMemoryClient`."""
    k: int = Field(default=5, ge=1, le=MOST_RETRIEVED)
    filters: dict[str, Any] | None = None
    session_id: str | None = None
    scope: RecallScope = "lineage"
    profile: Any = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        **_options: Any,
    ) -> list[Document]:
        found = blocking(self.client).retrieve(
            query, k or self.k, self.filters, self.session_id, self.scope, profile=self.profile
        )
        return [_remembered(one) for one in found]


class TreeringChatMessageHistory(BaseChatMessageHistory):
    """The history of a chat: `TreeringChatMessageHistory("user-1", client)`.

    Messages are returned unchanged, except redacted secrets. Messages of people and models are memories of the session:
    `client.retrieve` finds them, with this `session_id` and without one. Many processes may use one chat.

    `erase`: clear permanently, which the client's author must be allowed to do; otherwise a cleared chat is withdrawn
    and stays in the history of the space.
    """

    def __init__(self, session_id: str, client: AnyClient, *, erase: bool = False) -> None:
        super().__init__()
        self.session_id = session_id
        self._client = blocking(client)
        self._erase = erase

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override] # LangChain says that it may be a property
        """The messages, oldest first."""
        return messages_from_dict([dict(record.value) for record in self._log.entries()])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Put messages at the end, durably and together."""
        self._log.append([_entry(message) for message in messages], reason=_CHAT_REASON)

    def clear(self) -> None:
        """Take all messages away."""
        self._log.clear(reason=_CHAT_REASON, erase=self._erase)

    @property
    def _log(self) -> RecordLog:
        return RecordLog(self._client.records, RecordCollection((_CHATS,), self.session_id))


def _key(identity: str) -> str:
    return identity.replace("%", "%25").replace("/", "%2F")


def _document(record: KeptRecord) -> Document:
    value = record.value
    return Document(id=value["id"], page_content=value["text"], metadata=dict(value["metadata"]))


def _where(filters: Mapping[str, Any] | None) -> Filter:
    """Return the condition on metadata. Raises `InvalidInput` for a filter that is no dictionary."""
    check_type(filters, Mapping | None, name="filter", expected="a dictionary", hint="Give such as {'topic': 'bees'}.")
    return And(tuple(Compare(f"{METADATA}{_FIELD}{key}", "eq", value) for key, value in (filters or {}).items()))


def _fits(document: Document, filters: Mapping[str, Any] | None) -> bool:
    return all(document.metadata.get(key) == value for key, value in (filters or {}).items())


def _remembered(item: MemoryItem) -> Document:
    own = {"similarity_score": item.similarity_score, "timestamp": item.timestamp.isoformat()}
    return Document(id=item.id, page_content=item.content, metadata={**item.metadata, **own, **item.replacement})


def _entry(message: BaseMessage) -> RecordEntry:
    text = message.text if message.type in _SAID_BY else ""
    return RecordEntry(message_to_dict(message), searchable(str(text)), {TYPE: _MESSAGE, "role": message.type})

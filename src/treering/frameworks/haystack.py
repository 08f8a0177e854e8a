"""Haystack: a document store over a space, and a retriever that searches it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
from haystack.utils.filters import document_matches_filter

from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import MOST_VALUES, Compare
from treering.extensions.client.blocking import BlockingMemoryClient
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.items.documents import TYPE, plain_value
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft
from treering.extensions.client.records import searchable
from treering.frameworks.client import AnyClient, blocking, in_thread, origins_of
from treering.frameworks.haystack_metadata import field_name, field_range, field_types, unique_values
from treering.verbs.engine import retry_on_conflict

_HOME = "haystack"
_REASON = "Documents of Haystack"


class TreeringDocumentStore:
    """A document store of Haystack over a space: `TreeringDocumentStore(client)`.

    Documents are returned as written, except redacted secrets; every change is a revision in the audit log.
    `collection`: the set of documents. Without a `client`, one is created from `config` for the user `user_id`, as for
    a pipeline loaded from a file. `erase`: delete permanently; otherwise deleted documents are withdrawn. Writing an
    existing document fails, unless the policy allows it.
    """

    __module__ = "treering.haystack"  # what files of pipelines name

    def __init__(
        self,
        client: AnyClient | None = None,
        *,
        collection: str = "documents",
        config: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        erase: bool = False,
    ) -> None:
        if client and user_id is not None:
            raise InvalidInput("user_id was given with a client.", hint="Open the client with user_id=….")
        self.client: BlockingMemoryClient = (
            blocking(client) if client else BlockingMemoryClient(MemoryConfig.read(config or {}), user_id=user_id)
        )
        self.collection = collection
        self.erase = erase
        self._records = RecordCollection((_HOME, collection))

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration of this store for a pipeline, without an open client."""
        config = self.client.config.model_dump(mode="json")
        user = {} if self.client.user_id is None else {"user_id": self.client.user_id}
        return default_to_dict(self, collection=self.collection, config=config, erase=self.erase, **user)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TreeringDocumentStore":
        """Return a store from the configuration of a pipeline."""
        return default_from_dict(cls, data)

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return self.client.records.count(self._records)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that pass a filter of Haystack, first written first."""
        return [_document(record) for record in self._matching(filters)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents in one patch; return the number written.

        By default, if one already exists, nothing is written and `DuplicateDocumentError` is raised.
        """
        if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
            raise ValueError("Give a list of Documents.")
        drafts = [self._draft(document, place) for place, document in enumerate(documents)]
        return retry_on_conflict(lambda: self._write(drafts, policy), on=(Conflict,))

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents; unknown ids are ignored."""
        names = [self._records.name(identity) for identity in document_ids]
        self.client.records.remove(names, reason=_REASON, erase=self.erase)

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        if self.erase:
            self.client.records.erase_collection(self._records, reason=_REASON)
        else:
            self.delete_documents([document.id for document in self.filter_documents()])

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that pass a filter, and return how many there were."""
        found = self.filter_documents(filters)
        self.delete_documents([document.id for document in found])
        return len(found)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Change `meta` of the documents that pass a filter, and return how many there were."""
        found = self.filter_documents(filters)
        changed = [replace(document, meta={**document.meta, **meta}) for document in found]
        self.write_documents(changed, DuplicatePolicy.OVERWRITE)
        return len(found)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return how many documents pass a filter."""
        return len(self.filter_documents(filters))

    def count_unique_metadata_by_filter(self, filters: dict[str, Any], metadata_fields: list[str]) -> dict[str, int]:
        """Return the number of distinct values of each field among the documents that pass a filter."""
        documents = self.filter_documents(filters)
        return {field_name(field): len(unique_values(documents, field)) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the fields of the metadata with their types."""
        return field_types(self.filter_documents())

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the minimum and the maximum of a field; `None` without values."""
        return field_range(self.filter_documents(), metadata_field)

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return a page of the distinct values of a field that contain a term in any case, and their number."""
        term = (search_term or "").lower()
        values = unique_values(self.filter_documents(filters), metadata_field)
        matching = [value for value in values if term in str(value).lower()]
        return matching[from_ : from_ + size], len(matching)

    async def count_documents_async(self) -> int:
        """Run `count_documents` in a thread, like the other asynchronous methods theirs."""
        return await in_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that pass a filter."""
        return await in_thread(lambda: self.filter_documents(filters))

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents in one patch; return the number written."""
        return await in_thread(lambda: self.write_documents(documents, policy))

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """Delete documents; unknown ids are ignored."""
        await in_thread(lambda: self.delete_documents(document_ids))

    async def delete_all_documents_async(self) -> None:
        """Delete all documents."""
        await in_thread(self.delete_all_documents)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Delete the documents that pass a filter, and return how many there were."""
        return await in_thread(lambda: self.delete_by_filter(filters))

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Change `meta` of the documents that pass a filter, and return how many there were."""
        return await in_thread(lambda: self.update_by_filter(filters, meta))

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Return how many documents pass a filter."""
        return await in_thread(lambda: self.count_documents_by_filter(filters))

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return the number of distinct values of each field among the documents that pass a filter."""
        return await in_thread(lambda: self.count_unique_metadata_by_filter(filters, metadata_fields))

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """Return the fields of the metadata with their types."""
        return await in_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        """Return the minimum and the maximum of a field; `None` without values."""
        return await in_thread(lambda: self.get_metadata_field_min_max(metadata_field))

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return a page of the distinct values of a field that contain a term in any case, and their number."""
        return await in_thread(
            lambda: self.get_metadata_field_unique_values(metadata_field, search_term, from_, size, filters)
        )

    def search(
        self, query: str, *, top_k: int, filters: dict[str, Any] | None = None, min_similarity: float = 0.0
    ) -> list[Document]:
        """Return the documents that answer a query best, with calibrated scores from 0 to 1."""
        where = None
        if filters:
            keys = [record.key for record in self._matching(filters)]
            origins = tuple(origin for key in keys for origin in origins_of(self.client, self._records, key))
            if len(origins) > MOST_VALUES:
                most = MOST_VALUES * len(keys) // len(origins)
                raise InvalidInput(
                    f"The filter lets {len(keys):,} documents pass, more than {most:,}.",
                    hint="Narrow the filter, or split the documents into several collections.",
                )
            where = Compare("origin", "in", origins)
        found = self.client.records.search(
            self._records, query, limit=top_k, where=where, min_similarity=min_similarity
        )
        return [replace(_document(record), score=record.similarity_score) for record in found]

    def _matching(self, filters: dict[str, Any] | None) -> Iterator[KeptRecord]:
        if filters and "operator" not in filters and "conditions" not in filters:
            raise ValueError("Invalid filter syntax: it has neither an operator nor conditions.")
        there = self.client.records.all_of(self._records)
        ordered = sorted(there, key=lambda record: (record.created_at, record.value["place"]))
        return (one for one in ordered if not filters or document_matches_filter(filters, _document(one)))

    def _draft(self, document: Document, place: int) -> RecordDraft:
        value = {"document": plain_value(document.to_dict(flatten=False)), "place": place}
        text = searchable(document.content or "")
        return RecordDraft(self._records.name(document.id), value, text, {TYPE: "document"})

    def _write(self, drafts: Sequence[RecordDraft], policy: DuplicatePolicy) -> int:
        if policy == DuplicatePolicy.OVERWRITE:
            last = {draft.name: draft for draft in drafts}
            self.client.records.write([*last.values()], reason=_REASON)
            return len(drafts)
        known = self.client.records.get([draft.name for draft in drafts])
        first = {draft.name: draft for draft in reversed(drafts) if draft.name not in known}
        if policy != DuplicatePolicy.SKIP and len(first) < len(drafts):
            raise DuplicateDocumentError(f"{len(drafts) - len(first)} of the documents are there already.")
        new = [replace(draft, expected_revision=0) for draft in drafts if first.get(draft.name) is draft]
        self.client.records.write(new, reason=_REASON)
        return len(new)


@component
class TreeringDocumentRetriever:
    """A component that searches a `TreeringDocumentStore` by words and by meaning.

    `min_similarity`: omit documents with a lower calibrated score; scores below 0.7 are not distinguishable from
    chance.
    """

    __module__ = "treering.haystack"

    def __init__(
        self,
        document_store: TreeringDocumentStore,
        *,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        min_similarity: float = 0.0,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        self.document_store = document_store
        self.top_k = top_k
        self.filters = filters
        self.min_similarity = min_similarity
        self.filter_policy = filter_policy

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration of this component for a pipeline."""
        return default_to_dict(
            self,
            document_store=self.document_store,
            top_k=self.top_k,
            filters=self.filters,
            min_similarity=self.min_similarity,
            filter_policy=self.filter_policy.value,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TreeringDocumentRetriever":
        """Return a component from the configuration of a pipeline."""
        given = data.get("init_parameters", {})
        if "filter_policy" in given:
            given["filter_policy"] = FilterPolicy.from_str(given["filter_policy"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the documents that answer a query best, best first."""
        wanted = apply_filter_policy(self.filter_policy, self.filters, filters)
        limit = self.top_k if top_k is None else top_k
        found = self.document_store.search(query, top_k=limit, filters=wanted, min_similarity=self.min_similarity)
        return {"documents": found}


def _document(record: KeptRecord) -> Document:
    return Document.from_dict(dict(record.value["document"]))

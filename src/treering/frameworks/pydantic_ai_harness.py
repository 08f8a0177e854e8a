"""Pydantic AI Harness: a store for its `Memory` capability, whose files are records of a space."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
    MemorySearchMatch,
    MemorySearchResult,
)

from treering.core.canonical import digest
from treering.extensions.client.items.recalling import metadata_filter
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft
from treering.extensions.client.records import Records, searchable
from treering.frameworks.client import AnyClient, blocking, in_thread
from treering.verbs.engine import retry_on_conflict

_HOME = "pydantic-ai-harness"
_REASON = "A file of Pydantic AI Harness"
_VERSION_BYTES = 8
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_FOLDER = "folder"


class TreeringFileStore:
    """Store the files of agents in a space: `Memory(store=TreeringFileStore(client))`.

    `folder`: the owner of the files; other folders are not visible. A file is returned as written, except redacted
    secrets. `erase`: delete permanently; otherwise deleted files are withdrawn. It satisfies `MemoryStore`,
    `MetadataMemoryStore` and `SearchableMemoryStore` of the harness.
    """

    def __init__(self, client: AnyClient, folder: str = "agents", *, erase: bool = False) -> None:
        self._client = blocking(client)
        self._files = RecordCollection((_HOME, folder))
        self._operations = RecordCollection((_HOME, folder, "operations"), hidden=True)
        self._erase = erase

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the file at a path; `None` if there is none. Raises `ValueError` for an invalid path."""
        _check_path(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        record = await in_thread(lambda: self._record(path))
        return _file(record, max_chars) if record else None

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the earlier result of an operation. Raises `MemoryOperationConflictError` if the operation differs."""
        return await in_thread(lambda: self._done(operation))

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file. Raises `MemoryConflictError` if its version is not the expected one."""
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file, and store metadata of this write. Raises the errors of `write`."""
        _check_path(path)
        told = dict(metadata or {})
        if not all(isinstance(part, str) for item in told.items() for part in item):
            raise TypeError("memory metadata keys and values must be strings")

        def written(record: KeptRecord | None) -> MemoryMutation:
            version = self._records.engine.clock.random_bytes(_VERSION_BYTES).hex()
            draft = RecordDraft(
                self._files.name(path),
                {
                    "content": content,
                    "version": version,
                    "operation": operation.id if operation else None,
                    "metadata": told,
                },
                searchable(content),
                {_FOLDER: path.rpartition("/")[0]},
                expected_revision=record.revision if record else 0,
            )
            done = MemoryMutation(version=version, replayed=False, existed=record is not None)
            self._records.write([draft, *self._receipts(operation, done)], reason=_REASON)
            return done

        return await in_thread(lambda: self._changed(path, expected_version, operation, written))

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file. Raises `MemoryConflictError` if its version is not the expected one."""
        _check_path(path)

        def deleted(record: KeptRecord | None) -> MemoryMutation:
            done = MemoryMutation(version=None, replayed=False, existed=record is not None)
            gone = [self._files.name(path)] if record else []
            self._records.write(self._receipts(operation, done), remove=gone, reason=_REASON)
            if record and self._erase:
                self._records.erase([record.id], reason=_REASON)
            return done

        return await in_thread(lambda: self._changed(path, expected_version, operation, deleted))

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the paths that begin with a prefix, in order."""
        _check_prefix(prefix)
        if limit <= 0:
            raise ValueError("limit must be positive")
        below = prefix.rpartition("/")[0]
        records = await in_thread(lambda: self._records.all_of(self._files, below))
        return [record.key for record in records if record.key.startswith(prefix)][:limit]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Return the files in one folder that answer a query, best first, by words and by meaning."""
        _check_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        where = metadata_filter({_FOLDER: prefix.rpartition("/")[0]})
        least = self._client.config.retrieval.min_similarity
        most = min(limit, max_files)
        found = await in_thread(
            lambda: self._records.search(self._files, query, limit=most, where=where, min_similarity=least)
        )
        matches = list[MemorySearchMatch]()
        left = max_chars
        for record in (one for one in found if one.key.startswith(prefix)):
            shown = len(record.key.removeprefix(prefix))
            snippet = record.value["content"][: min(max_file_chars, left - shown)] if left > shown else ""
            if not snippet:
                break
            matches.append(MemorySearchMatch(path=record.key, snippet=snippet, score=record.similarity_score))
            left -= shown + len(snippet)
        cut = len(found) == most or len(matches) < len(found)
        return MemorySearchResult(matches=matches, scanned=len(found), truncated=cut)

    @property
    def _records(self) -> Records:
        return self._client.records

    def _record(self, path: str) -> KeptRecord | None:
        name = self._files.name(path)
        return self._records.get([name]).get(name)

    def _changed(
        self,
        path: str,
        expected: str | None,
        operation: MemoryOperation | None,
        change: Callable[[KeptRecord | None], MemoryMutation],
    ) -> MemoryMutation:
        """Change the current file, once per operation, with retries after conflicts."""

        def attempt() -> MemoryMutation:
            if operation and (done := self._done(operation)):
                return done
            record = self._record(path)
            if (record.value["version"] if record else None) != expected:
                raise MemoryConflictError(f"memory path {path!r} changed before it could be changed here")
            return change(record)

        return retry_on_conflict(attempt)

    def _done(self, operation: MemoryOperation) -> MemoryMutation | None:
        name = self._operations.name(digest(operation.id))
        receipt = self._records.get([name]).get(name)
        if receipt is None:
            return None
        if receipt.value["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
        return MemoryMutation(version=receipt.value["version"], replayed=True, existed=receipt.value["existed"])

    def _receipts(self, operation: MemoryOperation | None, done: MemoryMutation) -> list[RecordDraft]:
        """Return the record of an operation, which is stored in the same patch as its change."""
        if operation is None:
            return []
        value: dict[str, Any] = {
            "fingerprint": operation.fingerprint,
            "version": done.version,
            "existed": done.existed,
        }
        return [RecordDraft(self._operations.name(digest(operation.id)), value, expected_revision=0)]


def _file(record: KeptRecord, most: int) -> MemoryFile:
    value = record.value
    return MemoryFile(
        content=value["content"][:most],
        version=value["version"],
        operation_id=value["operation"],
        truncated=len(value["content"]) > most,
        metadata=value["metadata"] or None,
    )


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not all(_SEGMENT.fullmatch(part) and ".." not in part and part != "." for part in parts):
        raise ValueError(f"invalid memory path: {path!r}")


def _check_prefix(prefix: str) -> None:
    if prefix:
        _check_path(prefix.removesuffix("/"))

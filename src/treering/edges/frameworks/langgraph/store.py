"""A LangGraph store over a space: values under namespaces and keys, with semantic search and times to live."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from treering.core.errors import Conflict
from treering.edges.frameworks.client import AnyClient, blocking, in_thread
from treering.edges.frameworks.langgraph.values import (
    WHOLE,
    Namespace,
    StoredItem,
    below,
    draft_of,
    name_of,
    narrowing,
    passes,
)
from treering.memories.client.records.names import RecordCollection, RecordDraft
from treering.memories.client.records.records import Records
from treering.tools.retrying import retry_on_conflict

_HOME = "langgraph-store"
_REASON = "A LangGraph store"
_ATTEMPTS = 20
_MOST_FOUND = 200
"""Items that one search looks at, best first."""


class TreeringStore(BaseStore):
    """A LangGraph store: `builder.compile(store=TreeringStore(client))`.

    One batch is one patch, and its reads see what was before it. Values are JSON; secrets in them are redacted. A
    search with a query looks at all texts of a value, or at those under `fields`, and finds what `client.retrieve`
    finds, too. Without a query it returns what was put last first.

    `name`: stores of other names share nothing. `ttl`: as LangGraph has it; expired items are not returned, and
    `sweep_ttl` removes them. `erase`: what is deleted leaves nothing behind, which the author of the client has to be
    allowed; otherwise it is withdrawn, and the history of the space still has it.
    """

    supports_ttl = True

    def __init__(
        self,
        client: AnyClient,
        *,
        name: str = "default",
        fields: Sequence[str] = (WHOLE,),
        ttl: TTLConfig | None = None,
        erase: bool = False,
    ) -> None:
        self.ttl_config = ttl
        self._client = blocking(client)
        self._collection = RecordCollection((_HOME, name))
        self._fields = tuple(fields)
        self._erase = erase

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do some operations: first all that read, then what is put, of which the last for each key counts."""
        records = self._client.records
        given = [*ops]
        results = [self._read(records, op) for op in given]
        puts = {(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}
        if puts:
            self._put(records, [*puts.values()])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what `batch` does, in a thread."""
        return await in_thread(partial(self.batch, [*ops]))

    def sweep_ttl(self) -> int:
        """Remove what has expired, and return how many items that were."""
        records = self._client.records
        now = _now(records)
        expired = [one.record for one in self._items(records, ()) if one.is_expired(now)]
        names = [self._collection.name(record.key) for record in expired]
        return records.remove(names, reason=_REASON, erase=self._erase)

    def _read(self, records: Records, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(records, op)
            case SearchOp():
                return self._search(records, op)
            case ListNamespacesOp():
                return self._namespaces(records, op)
            case PutOp():
                return None
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, records: Records, op: GetOp) -> Result:
        name = name_of(self._collection, op.namespace, op.key)
        found = [StoredItem(record) for record in records.get([name]).values()]
        shown = [one for one in found if not one.is_expired(_now(records))]
        if op.refresh_ttl:
            self._refresh(records, shown)
        return shown[0].item if shown else None

    def _search(self, records: Records, op: SearchOp) -> list[SearchItem]:
        now, asked = _now(records), bool(op.query and op.query.strip())
        items = self._ranked(records, op) if asked else self._items(records, op.namespace_prefix)
        passing = [one for one in items if not one.is_expired(now) and passes(one.value, op.filter)]
        shown = passing[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh(records, shown)
        return [one.found(scored=asked) for one in shown]

    def _ranked(self, records: Records, op: SearchOp) -> list[StoredItem]:
        """Return the items that answer a query, best first, as far as a filter can be applied below the ranking."""
        where = narrowing(self._collection, op.namespace_prefix, op.filter)
        found = records.search(self._collection, op.query or "", limit=_MOST_FOUND, where=where)
        return [StoredItem(record) for record in found if record.text]

    def _items(self, records: Records, namespace: Namespace) -> list[StoredItem]:
        """Return the items of a namespace and of those below it, what was put last first."""
        found = map(StoredItem, records.all_of(self._collection, below=below(namespace)))
        depth = len(namespace)
        items = [one for one in found if one.namespace[:depth] == tuple(namespace)]
        return sorted(items, key=lambda one: one.record.updated_at, reverse=True)

    def _namespaces(self, records: Records, op: ListNamespacesOp) -> list[Namespace]:
        now = _now(records)
        namespaces = {one.namespace for one in self._items(records, ()) if not one.is_expired(now)}
        wanted = [one for one in namespaces if all(_lies(one, rule) for rule in op.match_conditions or ())]
        told = sorted({one if op.max_depth is None else one[: op.max_depth] for one in wanted})
        return told[op.offset : op.offset + op.limit]

    def _refresh(self, records: Records, items: Sequence[StoredItem]) -> None:
        now = _now(records)
        drafts = [one.refreshed(self._collection.name(one.record.key), now) for one in items]
        if changed := [draft for draft in drafts if draft]:
            try:
                records.write(changed, reason=_REASON)
            except Conflict:  # somebody put or deleted it meanwhile: that counts
                return

    def _put(self, records: Records, puts: Sequence[PutOp]) -> None:
        now = _now(records)
        named = [(name_of(self._collection, put.namespace, put.key), put) for put in puts]
        drafts: list[RecordDraft] = [
            draft_of(name, put, self._fields, now) for name, put in named if put.value is not None
        ]
        gone = [name for name, put in named if put.value is None]
        erased = [record.id for record in records.get(gone).values()] if self._erase else []
        retry_on_conflict(lambda: records.write(drafts, remove=gone, reason=_REASON), attempts=_ATTEMPTS)
        records.erase(erased, reason=_REASON)


def _now(records: Records) -> datetime:
    return records.engine.clock.now()


def _lies(namespace: Namespace, rule: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends as a rule says; `*` stands for any one label."""
    path = tuple(rule.path)
    if rule.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"Unsupported match type: {rule.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if rule.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))

"""Redact secrets in the operations of a patch, whatever tool made it."""

from collections.abc import Iterable, Sequence
from typing import Any

from treering.core.canonical import digest
from treering.core.errors import NotFound
from treering.core.evidence import Segment, segment_hash
from treering.core.objects import Source
from treering.core.patch import Create, Operation, Update
from treering.core.screening import RecentDigests, Screened, repeatable_secrets, screened
from treering.ports.ledger import Ledger

_CLEAN = RecentDigests(most=8_192)
"""Digests of segments without secrets. All messages of a block are written again with each new one."""


def screened_operations(operations: Sequence[Operation], ledger: Ledger) -> Screened[tuple[Operation, ...]]:
    """Return operations with the secrets in every text redacted, and the hashes of changed segments recomputed.

    A stored segment stays as it is, because its id names one text forever. `lint structure` reports it.
    """
    done = [_screened(operation, ledger) for operation in operations]
    return Screened(tuple(one.value for one in done), tuple(secret for one in done for secret in one.secrets))


def _screened(operation: Operation, ledger: Ledger) -> Screened[Operation]:
    match operation:
        case Create(object=item):
            made = screened(item, place=item.type)
            redacted = _hashed(made.value) if isinstance(made.value, Source) else made.value
            return Screened(Create(object=redacted), made.secrets) if made.secrets else Screened(operation)
        case Update():
            return _screened_update(operation, ledger)
        case _:
            return screened(operation)


def _hashed(source: Source) -> Source:
    """Return a source with recomputed hashes of its segments and of itself."""
    segments = tuple(_with_hash(part, source.salt) for part in source.segments)
    words = digest("\n".join(part.excerpt for part in segments))
    return source.model_copy(update={"segments": segments, "fingerprint": words if segments else source.fingerprint})


def _screened_update(update: Update, ledger: Ledger) -> Screened[Operation]:
    rest = screened({name: value for name, value in update.changes.items() if name != "segments"})
    parts = update.changes.get("segments", ())
    segments = _screened_segments(parts, update.id, ledger) if _are_segments(parts) else screened(parts)
    secrets = (*rest.secrets, *segments.secrets)
    if not secrets:
        return Screened(update)
    changes = {**rest.value, **({"segments": segments.value} if "segments" in update.changes else {})}
    return Screened(update.model_copy(update={"changes": changes}), secrets)


def _are_segments(parts: Iterable[Any]) -> bool:
    return isinstance(parts, tuple | list) and all(isinstance(part, Segment) for part in parts)


def _screened_segments(parts: Sequence[Segment], identity: str, ledger: Ledger) -> Screened[tuple[Segment, ...]]:
    unknown = {key: part for part in parts if (key := digest(repr(part))) not in _CLEAN}
    if not screened(list(unknown.values())).secrets:
        for key in unknown:
            _CLEAN.add(key)
        return Screened(tuple(parts))
    repeated = repeatable_secrets(part.excerpt for part in parts)
    touched = [screened(part, place="segments", repeated=repeated) for part in parts]
    salt = ledger.get(identity).salt
    done = [
        Screened(part) if _is_stored(part, identity, ledger) else Screened(_with_hash(one.value, salt), one.secrets)
        for part, one in zip(parts, touched, strict=True)
    ]
    return Screened(tuple(one.value for one in done), tuple(secret for one in done for secret in one.secrets))


def _with_hash(part: Segment, salt: str) -> Segment:
    return part.model_copy(update={"hash": segment_hash(part.excerpt, salt=salt)})


def _is_stored(part: Segment, identity: str, ledger: Ledger) -> bool:
    try:
        return ledger.segment(identity, part.segment_id).excerpt == part.excerpt
    except NotFound:
        return False

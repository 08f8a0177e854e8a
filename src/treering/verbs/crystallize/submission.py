"""The gate every patch of a tool passes: shown, proposed for review, or applied."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from treering.core.canonical import digest
from treering.core.errors import Denied, NotFound, Unavailable
from treering.core.evidence import Segment, segment_hash
from treering.core.objects import Knowledge, Source
from treering.core.patch import Author, Create, Operation, Patch, PatchRecord, Receipt, Update
from treering.core.policy import needs_review, operations_need_review
from treering.core.screening import Screened, kept_key, screened
from treering.core.writing.draft import ObjectChange, changes_of
from treering.ports.ledger import Ledger
from treering.ports.runtime import fresh_id
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Report, Value, Verb
from treering.verbs.evidence.resolving import ResolvedEvidence

_MAX_QUOTED_CHARS = 2_000
"""Of the words of evidence that a report repeats."""


class WriteOptions(Value):
    """Options of every write."""

    dry_run: bool = Field(default=False, description="Only show what would change.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="A repeated call with the same key and scope returns the first receipt.",
    )
    reason: str = Field(default="", description="The reason, for the audit log.")


class WriteReport(Report):
    """The result of a write, or of a dry run."""

    patch_id: str = ""
    receipt: Receipt | None = None
    diff: tuple[ObjectChange, ...] = ()
    staled: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    possible_duplicates: tuple[str, ...] = ()
    """Near duplicates of the written knowledge, for review; never rejected or merged automatically."""
    evidence: tuple[ResolvedEvidence, ...] = Field(default=(), exclude_if=lambda resolved: not resolved)
    """The resolution of evidence given as text."""
    candidates: tuple[str, ...] = Field(default=(), exclude_if=lambda ids: not ids)
    """New knowledge that is only a candidate: it holds once it is promoted."""


def build_patch(call: Call, operations: Sequence[Operation], *, verb: Verb, reason: str) -> Patch:
    """Make a patch in the engine's name, without secrets."""
    return _patch(call, operations, verb=verb, reason=reason).value


def new_patch(
    engine: Engine,
    operations: Sequence[Operation],
    *,
    author: Author,
    reason: str,
    request: str = "",
    redact_secrets: bool = True,
) -> Screened[Patch]:
    """Make a patch with the secrets in its operations and its reason redacted: every patch of a tool is made here.

    Without `redact_secrets` the operations stay as they are; a reason, which nothing can erase, never does.
    """
    given = tuple(operations)
    kept = screened_operations(given, engine.ledger) if redact_secrets else Screened(given)
    why = screened(reason, place="reason")
    patch = Patch(
        id=fresh_id("patch", engine.clock),
        source=author,
        operations=kept.value,
        reason=why.value,
        created_at=engine.clock.now(),
        request=request,
    )
    return Screened(patch, (*kept.secrets, *why.secrets))


def _patch(call: Call, operations: Sequence[Operation], *, verb: Verb, reason: str) -> Screened[Patch]:
    author = call.engine.author.model_copy(update={"tool": f"wiki.{verb}"})
    return new_patch(call.engine, operations, author=author, reason=reason, request=call.request)


def submit(
    call: Call,
    operations: Sequence[Operation],
    options: WriteOptions,
    *,
    verb: Verb,
    mode: str,
    possible_duplicates: tuple[str, ...] = (),
    evidence: tuple[ResolvedEvidence, ...] = (),
    warnings: tuple[str, ...] = (),
) -> WriteReport:
    """Show, propose or apply operations as one patch, as options and the space's policy say.

    Without an operation nothing happens, and the report says so. What was redacted is among its warnings.
    """
    if not operations:
        return WriteReport(verb=verb, mode=mode, scope=call.scope, status="unchanged", warnings=warnings)
    made = _patch(call, operations, verb=verb, reason=options.reason)
    patch, warnings, key = made.value, (*warnings, *made.warnings), kept_key(options.idempotency_key)
    ledger = call.engine.ledger
    outcome: Receipt | PatchRecord | None = None
    diff: tuple[ObjectChange, ...] = ()
    if options.dry_run:
        diff = changes_of(ledger.preview(patch).writes)
    elif needs_review(patch, ledger.policy):
        outcome = ledger.propose(patch, idempotency_key=key)
    else:
        outcome = ledger.commit(patch, idempotency_key=key)
        call.engine.vectoriser.start()
    receipt = outcome if isinstance(outcome, Receipt) else None
    return WriteReport(
        verb=verb,
        mode=mode,
        scope=call.scope,
        status=_status(outcome, options),
        warnings=warnings,
        ids=tuple(dict.fromkeys(change.id for change in diff)) if options.dry_run else _ids(outcome),
        patch_id=receipt.patch_id if receipt else outcome.id if isinstance(outcome, PatchRecord) else "",
        receipt=receipt,
        diff=diff,
        staled=receipt.staled if receipt else (),
        contested=receipt.contested if receipt else (),
        possible_duplicates=possible_duplicates,
        evidence=tuple(one.model_copy(update={"quote": one.quote[:_MAX_QUOTED_CHARS]}) for one in evidence),
        candidates=_candidates(operations, receipt),
    )


def _candidates(operations: Sequence[Operation], receipt: Receipt | None) -> tuple[str, ...]:
    created = {one.id for one in receipt.results if one.outcome == "created"} if receipt else set()
    items = [operation.object for operation in operations if isinstance(operation, Create)]
    return tuple(
        one.id for one in items if one.id in created and isinstance(one, Knowledge) and one.status == "candidate"
    )


def _status(outcome: Receipt | PatchRecord | None, options: WriteOptions) -> Literal["ok", "proposed", "unchanged"]:
    if isinstance(outcome, PatchRecord):
        return "proposed" if outcome.status == "proposed" else "unchanged"
    if options.dry_run or outcome is None:
        return "unchanged"
    return "ok" if any(result.outcome != "unchanged" for result in outcome.results) else "unchanged"


def _ids(outcome: Receipt | PatchRecord | None) -> tuple[str, ...]:
    match outcome:
        case Receipt(results=results):
            return tuple(dict.fromkeys(result.id for result in results))
        case PatchRecord(id=identity):
            return (identity,)
        case _:
            return ()


# The operations of a patch without secrets: what every tool writes passes here, whatever its mode.


def screened_operations(operations: Sequence[Operation], ledger: Ledger) -> Screened[tuple[Operation, ...]]:
    """Return operations with the secrets in every text redacted, and the hashes of changed segments made anew.

    A segment the ledger holds already stays as it is: its id names one text for ever. `lint structure` reports it.
    """
    done = [_screened(operation, ledger) for operation in operations]
    return Screened(tuple(one.value for one in done), tuple(secret for one in done for secret in one.secrets))


def _screened(operation: Operation, ledger: Ledger) -> Screened[Operation]:
    match operation:
        case Create(object=item):
            made = screened(item, place=item.type)
            kept = _hashed(made.value) if isinstance(made.value, Source) else made.value
            return Screened(Create(object=kept), made.secrets) if made.secrets else Screened(operation)
        case Update():
            return _screened_update(operation, ledger)
        case _:
            return screened(operation)


def _hashed(source: Source) -> Source:
    """Return a source whose words changed, with the hashes of its segments and its own made anew."""
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
    touched = [screened(part, place="segments") for part in parts]
    if not any(one.secrets for one in touched):
        return Screened(tuple(parts))
    salt = ledger.get(identity).salt
    done = [
        Screened(part) if _is_held(part, identity, ledger) else Screened(_with_hash(one.value, salt), one.secrets)
        for part, one in zip(parts, touched, strict=True)
    ]
    return Screened(tuple(one.value for one in done), tuple(secret for one in done for secret in one.secrets))


def _with_hash(part: Segment, salt: str) -> Segment:
    return part.model_copy(update={"hash": segment_hash(part.excerpt, salt=salt)})


def _is_held(part: Segment, identity: str, ledger: Ledger) -> bool:
    try:
        return ledger.segment(identity, part.segment_id).excerpt == part.excerpt
    except NotFound:
        return False


# Writing a patch of a memory that has to be applied at once, or not at all.


def check_direct(engine: Engine, operations: Sequence[Operation], *, what: str) -> None:
    """Raise `Denied` where the policy of the space has the engine's author wait for a review with such operations."""
    if operations_need_review(operations, engine.author.channel, engine.ledger.policy):
        raise Denied(
            f"{what} writes directly, and this space asks for a review.",
            hint=f"Allow the channel {engine.author.channel!r} to write in the policy of the space.",
            details={"channel": engine.author.channel},
        )


def apply_directly(
    engine: Engine, scope: str, operations: Sequence[Operation], *, what: str, reason: str, key: str | None = None
) -> Receipt:
    """Write operations as one patch; the same `key` again gives the first receipt. `what` names the memory in errors.

    Raises `Denied` where the space wants a review, and what the ledger raises.
    """
    check_direct(engine, operations, what=what)
    options = WriteOptions(reason=reason, idempotency_key=key)
    report = submit(Call(engine, scope), operations, options, verb="crystallize", mode="knowledge")
    if report.receipt is None:
        raise Unavailable("The patch was not applied.", hint="Make the call again.")
    return report.receipt

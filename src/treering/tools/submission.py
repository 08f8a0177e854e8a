"""The gate every patch of a tool passes: shown, proposed for review, or applied."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from treering.core.diff import ObjectChange, changes_of
from treering.core.patch import Author, Operation, Patch, PatchRecord, Receipt
from treering.core.policy import needs_review
from treering.core.screening import Screened, kept_key, screened
from treering.ports.clock import fresh_id
from treering.tools.engine import Engine
from treering.tools.envelope import Call, Report, Value, Verb
from treering.tools.screened_operations import screened_operations


class WriteOptions(Value):
    """Options every write understands."""

    dry_run: bool = Field(default=False, description="Show what would change, and change nothing.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The same call with the same key and scope again gives the first receipt.",
    )
    reason: str = Field(default="", description="Why, for the audit log.")


class WriteReport(Report):
    """What a write did, or would do."""

    patch_id: str = ""
    receipt: Receipt | None = None
    diff: tuple[ObjectChange, ...] = ()
    staled: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    possible_duplicates: tuple[str, ...] = ()
    """Near duplicates of what was written: to look at, never rejected or merged by likeness."""


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

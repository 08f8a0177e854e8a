"""Show, propose or apply a patch of a tool."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from treering.core.characters import label
from treering.core.errors import Denied, Unavailable
from treering.core.objects import Knowledge
from treering.core.patch import Author, Create, Operation, Patch, PatchRecord, Receipt
from treering.core.policy import needs_review, operations_need_review
from treering.core.screening import Screened, kept_key, screened
from treering.core.writing.draft import ObjectChange, changes_of
from treering.ports.runtime import fresh_id
from treering.verbs.crystallize.screened_operations import screened_operations
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Report, Value, Verb
from treering.verbs.evidence.resolving import ResolvedEvidence

_MAX_QUOTED_CHARS = 2_000
"""Characters of evidence in a report."""


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
    """Near duplicates of new knowledge, and unfinished work like new work, for review; never rejected or merged."""
    evidence: tuple[ResolvedEvidence, ...] = Field(default=(), exclude_if=lambda resolved: not resolved)
    """The resolution of evidence given as text."""
    candidates: tuple[str, ...] = Field(default=(), exclude_if=lambda ids: not ids)
    """New knowledge that is only a candidate: it holds once it is promoted."""


def build_patch(call: Call, operations: Sequence[Operation], *, verb: Verb, reason: str) -> Patch:
    """Make a patch of the engine's author, without secrets."""
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
    """Make a patch with the secrets in its operations and its reason redacted.

    Without `redact_secrets` only the reason is redacted, which nothing can erase.
    """
    given = tuple(operations)
    redacted = screened_operations(given, engine.ledger) if redact_secrets else Screened(given)
    why = screened(reason, place="reason")
    patch = Patch(
        id=fresh_id("patch", engine.clock),
        source=author,
        operations=redacted.value,
        reason=why.value,
        created_at=engine.clock.now(),
        request=request,
    )
    return Screened(patch, (*redacted.secrets, *why.secrets))


def _patch(call: Call, operations: Sequence[Operation], *, verb: Verb, reason: str) -> Screened[Patch]:
    author = call.engine.author.model_copy(update={"tool": f"wiki.{verb}"})
    return new_patch(call.engine, operations, author=author, reason=reason, request=call.request)


def submit(
    call: Call,
    operations: Sequence[Operation],
    options: WriteOptions,
    *,
    mode: str,
    possible_duplicates: tuple[str, ...] = (),
    evidence: tuple[ResolvedEvidence, ...] = (),
    warnings: tuple[str, ...] = (),
) -> WriteReport:
    """Show, propose or apply operations as one patch, by the options and the policy of the space.

    Without operations the report is `unchanged`. Redactions and evidence without words are among its warnings.
    """
    if not operations:
        return WriteReport(verb="crystallize", mode=mode, scope=call.scope, status="unchanged", warnings=warnings)
    made = _patch(call, operations, verb="crystallize", reason=options.reason)
    patch, key = made.value, kept_key(options.idempotency_key)
    warnings = (*warnings, *made.warnings, *_without_words(evidence))
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
        verb="crystallize",
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


def _without_words(evidence: Iterable[ResolvedEvidence]) -> Iterator[str]:
    """Yield a warning for each piece of evidence without a letter or digit, such as a line with only a bracket."""
    for one in evidence:
        if not any(map(str.isalnum, one.quote)):
            yield f"The evidence {one.short_place} contains no words: {label(one.quote)}."


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


def check_direct(engine: Engine, operations: Sequence[Operation], *, what: str) -> None:
    """Raise `Denied` if the policy of the space requires a review of such operations by the engine's author."""
    if operations_need_review(operations, engine.author.channel, engine.ledger.policy):
        raise Denied(
            f"{what} writes directly, and this space asks for a review.",
            hint=f"Allow the channel {engine.author.channel!r} to write in the policy of the space.",
            details={"channel": engine.author.channel},
        )


def apply_directly(
    engine: Engine, scope: str, operations: Sequence[Operation], *, what: str, reason: str, key: str | None = None
) -> Receipt:
    """Apply operations as one patch; the same `key` again returns the first receipt. `what` names the memory in errors.

    Raises `Denied` if the space requires a review, and the errors of the ledger.
    """
    check_direct(engine, operations, what=what)
    options = WriteOptions(reason=reason, idempotency_key=key)
    report = submit(Call(engine, scope), operations, options, mode="knowledge")
    if report.receipt is None:
        raise Unavailable("The patch was not applied.", hint="Make the call again.")
    return report.receipt

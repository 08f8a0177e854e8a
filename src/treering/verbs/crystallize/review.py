"""Patches that wait for a decision: list, show, apply, reject; and taking back what was applied."""

from pydantic import Field, PositiveInt, RootModel

from treering.core.patch import PatchRecord, Receipt
from treering.core.screening import screened
from treering.core.writing.draft import ObjectChange, changes_of
from treering.core.writing.journal import patch_of
from treering.verbs.envelope import DECIDES, READS, Call, Nothing, Operation, Value


class PatchInput(Value):
    """Which patch."""

    patch_id: str = Field(description="The id of a patch.")


class ListOptions(Value):
    """How much to list."""

    limit: PositiveInt = Field(default=100, description="At most so many patches.")


class ReasonOptions(Value):
    """Why."""

    reason: str = Field(default="", description="Why, for the audit log.")


class Proposals(RootModel[tuple[PatchRecord, ...]]):
    """Patches that wait for review, newest first."""


class PatchPreview(RootModel[tuple[ObjectChange, ...]]):
    """What a patch would change, object by object."""


def list_waiting(call: Call, _given: Nothing, options: ListOptions) -> Proposals:
    """Return the patches that wait, newest first."""
    return Proposals(tuple(call.engine.ledger.patches(status="proposed", limit=options.limit)))


def show(call: Call, given: PatchInput, _options: Nothing) -> PatchPreview:
    """Return what a waiting patch would change now. Raises what applying it would."""
    ledger = call.engine.ledger
    return PatchPreview(changes_of(ledger.preview(patch_of(ledger.patch(given.patch_id))).writes))


def apply(call: Call, given: PatchInput, _options: Nothing) -> Receipt:
    """Apply a waiting patch in the engine's name. Raises `Denied` for one's own."""
    receipt = call.engine.ledger.approve(given.patch_id, by=call.engine.author)
    call.engine.vectoriser.start()
    return receipt


def reject(call: Call, given: PatchInput, options: ReasonOptions) -> PatchRecord:
    """Turn a waiting patch down; secrets in the reason are redacted."""
    reason = screened(options.reason).value
    return call.engine.ledger.reject(given.patch_id, by=call.engine.author, reason=reason)


def revert(call: Call, given: PatchInput, options: ReasonOptions) -> Receipt:
    """Take back an applied patch, or raise `Conflict` saying what has changed since.

    Secrets in the reason are redacted.
    """
    reason = screened(options.reason).value
    receipt = call.engine.ledger.revert(given.patch_id, by=call.engine.author, reason=reason)
    call.engine.vectoriser.start()
    return receipt


LIST = Operation(
    "review list",
    "List the patches that wait for review, newest first.",
    Nothing,
    ListOptions,
    Proposals,
    list_waiting,
    rights=READS,
)
SHOW = Operation(
    "review show",
    "Show what a waiting patch would change, field by field.",
    PatchInput,
    Nothing,
    PatchPreview,
    show,
    rights=READS,
)
APPLY = Operation("review apply", "Apply a waiting patch.", PatchInput, Nothing, Receipt, apply, rights=DECIDES)
REJECT = Operation(
    "review reject", "Turn a waiting patch down.", PatchInput, ReasonOptions, PatchRecord, reject, rights=DECIDES
)
REVERT = Operation(
    "revert",
    "Take back what a patch did, or say why that cannot be.",
    PatchInput,
    ReasonOptions,
    Receipt,
    revert,
    rights=DECIDES,
)
OPERATIONS = (LIST, SHOW, APPLY, REJECT, REVERT)

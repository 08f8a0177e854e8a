"""Decide on pending patches, and revert applied ones."""

from pydantic import Field, PositiveInt, RootModel

from treering.core.characters import named, one_line
from treering.core.errors import Conflict
from treering.core.patch import PatchRecord, Receipt
from treering.core.screening import screened
from treering.core.writing.draft import ObjectChange, changes_of
from treering.core.writing.journal import patch_of
from treering.ports.ledger import Ledger
from treering.verbs.crystallize.changing import replacement_of
from treering.verbs.envelope import DECIDES, READS, Call, Nothing, Value
from treering.verbs.envelope import Operation as SpaceOperation
from treering.verbs.naming import is_recording
from treering.verbs.short_ids import short_id


class PatchInput(Value):
    """A patch."""

    patch_id: str = Field(description="The id of a patch.")


class ListOptions(Value):
    """The number of patches to list."""

    limit: PositiveInt = Field(default=100, description="Maximum number of patches.")


class ReasonOptions(Value):
    """The reason."""

    reason: str = Field(default="", description="The reason, for the audit log.")


class Proposals(RootModel[tuple[PatchRecord, ...]]):
    """Patches waiting for review, newest first."""


class PatchPreview(RootModel[tuple[ObjectChange, ...]]):
    """The changes of a patch, object by object."""


def list_waiting(call: Call, _given: Nothing, options: ListOptions) -> Proposals:
    """Return the pending patches, newest first."""
    return Proposals(tuple(call.engine.ledger.patches(status="proposed", limit=options.limit)))


def show(call: Call, given: PatchInput, _options: Nothing) -> PatchPreview:
    """Return the changes that applying a pending patch would make now. Raises the errors of applying it."""
    ledger = call.engine.ledger
    return PatchPreview(changes_of(ledger.preview(patch_of(ledger.patch(given.patch_id))).writes))


def apply(call: Call, given: PatchInput, _options: Nothing) -> Receipt:
    """Apply a pending patch on behalf of the engine's author. Raises `Denied` for their own patch."""
    receipt = call.engine.ledger.approve(given.patch_id, by=call.engine.author)
    call.engine.vectoriser.start()
    return receipt


def reject(call: Call, given: PatchInput, options: ReasonOptions) -> PatchRecord:
    """Reject a pending patch; secrets in the reason are redacted."""
    reason = screened(options.reason).value
    return call.engine.ledger.reject(given.patch_id, by=call.engine.author, reason=reason)


def revert(call: Call, given: PatchInput, options: ReasonOptions) -> Receipt:
    """Revert an applied patch; secrets in the reason are redacted.

    Raises `Conflict` with the entry that changed since.
    """
    reason = screened(options.reason).value
    try:
        receipt = call.engine.ledger.revert(given.patch_id, by=call.engine.author, reason=reason)
    except Conflict as error:
        raise _changed_since(call.engine.ledger, given.patch_id, error) from error
    call.engine.vectoriser.start()
    return receipt


def _changed_since(ledger: Ledger, patch: str, error: Conflict) -> Conflict:
    """Return a conflict that names the entry that changed an object of the patch, and how to go on."""
    identity = next((str(one["id"]) for one in error.details.get("changed", ())), "")
    head = ledger.heads([identity]).get(identity) if identity else None
    if head is None:
        return error
    later = [one.patch_id for one in reversed(ledger.events_of(identity)) if one.patch_id]
    last = next((record for record in map(ledger.patch, later) if record.id != patch and is_recording(record)), None)
    newer = replacement_of(ledger, identity) if head.status == "superseded" else None
    change = f"replaced by {named(newer.title)}" if newer else "changed"
    who = f" by {one_line(last.source.actor)}" if last and change == "changed" else ""
    current = newer.id if newer else identity
    ways = [f"undo that first: treering undo {short_id(last.id)}"] if last else []
    ways += [f"correct it: treering replace {short_id(current)} TEXT"] if head.type == "knowledge" else []
    hint = "; or ".join(ways)
    hint = f"{hint[:1].upper()}{hint[1:]}" if hint else error.hint
    return Conflict(f"{named(head.title)} was {change}{who} since.", hint=hint, details=error.details)


LIST = SpaceOperation.of(
    "review list", "List the patches waiting for review, newest first.", list_waiting, rights=READS
)
SHOW = SpaceOperation.of("review show", "Show the changes of a waiting patch, field by field.", show, rights=READS)
APPLY = SpaceOperation.of("review apply", "Apply a waiting patch.", apply, rights=DECIDES)
REJECT = SpaceOperation.of("review reject", "Reject a waiting patch.", reject, rights=DECIDES)
REVERT = SpaceOperation.of("revert", "Revert a patch, or explain why that is not possible.", revert, rights=DECIDES)
OPERATIONS = (LIST, SHOW, APPLY, REJECT, REVERT)

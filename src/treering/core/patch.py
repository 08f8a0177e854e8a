"""The only way to write: a patch, a list of operations that is applied completely or not at all."""

from collections.abc import Iterable, Mapping
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from treering.core.canonical import FrozenModel, Instant, canonical_json, digest, is_none
from treering.core.errors import InvalidInput
from treering.core.objects import AnyObject, CallerModel, Channel, Object, Source
from treering.core.scope import ROOT, WHOLE_SPACE, Boundary, Scope

LinkType = Literal[
    "follows",
    "references",
    "similar_to",
    "caused_by",
    "part_of",
    "about",
    "supports",
    "contradicts",
    "supersedes",
    "derived_from",
    "produced",
]


class Author(CallerModel, FrozenModel):
    """The author of a write, with the channel and the tool. The channel determines the trust."""

    actor: str = Field(min_length=1)
    channel: Channel
    tool: str = ""


class Link(FrozenModel):
    """A typed, directed relation, and the patch that created it."""

    type: LinkType
    source: str
    target: str
    patch_id: str = ""


class Create(FrozenModel):
    """Create an object at revision 1."""

    op: Literal["create"] = "create"
    object: AnyObject


class Update(FrozenModel):
    """Change fields of an object; its status changes by `Transition` only."""

    op: Literal["update"] = "update"
    id: str
    expected_revision: int
    changes: dict[str, Any] = Field(min_length=1)


class Transition(FrozenModel):
    """Change the status of an object; a work item needs a `resolution` to be resolved."""

    op: Literal["transition"] = "transition"
    id: str
    expected_revision: int
    to: str
    resolution: str = ""


class AddLink(FrozenModel):
    """Add a relation between two objects."""

    op: Literal["link"] = "link"
    link: Link


class RemoveLink(FrozenModel):
    """Remove a relation."""

    op: Literal["unlink"] = "unlink"
    link: Link


class Merge(FrozenModel):
    """Merge a node into another; the first stores `merged_into` and resolves to the other."""

    op: Literal["merge"] = "merge"
    id: str
    expected_revision: int
    into: str


class Supersede(FrozenModel):
    """Replace knowledge by newer knowledge; both stay, linked."""

    op: Literal["supersede"] = "supersede"
    id: str
    expected_revision: int
    by: str


class MoveScope(FrozenModel):
    """Move an object to another scope."""

    op: Literal["move_scope"] = "move_scope"
    id: str
    expected_revision: int
    to: Scope


class Erase(FrozenModel):
    """Remove an object's content everywhere; only hashes and the fact of the erasure remain."""

    op: Literal["erase"] = "erase"
    id: str
    expected_revision: int


Operation = Annotated[
    Create | Update | Transition | AddLink | RemoveLink | Merge | Supersede | MoveScope | Erase,
    Field(discriminator="op"),
]


class RecordedCreate(FrozenModel):
    """An applied `Create`: its content is in the revision it created.

    For a duplicate, `id` is the existing object, and `merged` the id intended for the new one.
    """

    op: Literal["create"] = "create"
    id: str
    revision: int
    merged: str = ""


class RecordedUpdate(FrozenModel):
    """An applied `Update`: `revision` contains the values of the fields."""

    op: Literal["update"] = "update"
    id: str
    expected_revision: int
    revision: int
    fields: tuple[str, ...]


class RecordedTransition(FrozenModel):
    """An applied `Transition`: `revision` contains the resolution."""

    op: Literal["transition"] = "transition"
    id: str
    expected_revision: int
    revision: int
    to: str


RecordedOperation = (
    RecordedCreate | RecordedUpdate | RecordedTransition | AddLink | RemoveLink | Merge | Supersede | MoveScope | Erase
)
"""An operation as stored in the record of its patch (`core.writing.draft`): ids, revisions and names of fields."""

PatchStatus = Literal["proposed", "applied", "rejected", "reverted"]


class Patch(FrozenModel):
    """A set of operations with one author and one reason."""

    id: str
    source: Author
    operations: tuple[Operation, ...] = Field(min_length=1)
    reason: str = ""
    created_at: Instant
    scope: Scope | None = None
    """The scope of the call, which limits the objects of the patch (`core.writing.plan`); `None`: no limit."""
    top: Scope = ROOT
    """The highest scope that the caller may read."""
    request: str = ""
    """A digest of the call: an idempotency key identifies one request."""

    @property
    def boundary(self) -> Boundary:
        """The scopes whose objects the patch may name."""
        return WHOLE_SPACE if self.scope is None else Boundary(self.scope, self.top)


class PatchRecord(FrozenModel):
    """A patch as stored in the ledger.

    While it is `proposed`, `operations` are the proposed changes. After it is applied, they and `effects` name the
    revisions that contain the content, so that erasing an object also erases it here. `operations` is empty for
    rejected patches, for patches without changes, and for reverts.
    """

    id: str
    source: Author
    reason: str
    status: PatchStatus
    created_at: Instant
    operations: tuple[Operation | RecordedOperation, ...] = ()
    effects: tuple["Effect", ...] = ()
    decided_by: str = ""
    decided_at: Instant | None = None
    reverts: str = ""
    reverted_by: str = ""
    scope: Scope | None = Field(default=None, exclude_if=is_none)
    """The scope the patch was made at; `None` if it had no limit."""
    salt: str = Field(default="", exclude_if=not_)
    """Keys the hash of a proposal while it has operations, so that they cannot be guessed after they are erased."""


def record_hash(record: PatchRecord) -> str:
    """Hash the record of a patch, keyed by its salt if it has one."""
    return digest(canonical_json(record.model_dump(mode="json")), salt=record.salt)


class Effect(FrozenModel):
    """One effect of a patch: a new revision of an object, or an added or removed link."""

    event: str
    target: str
    before: int | None = None
    after: int | None = None
    link: Link | None = None


class OperationResult(FrozenModel):
    """The result of one operation: `created updated unchanged merged_into …` and the affected object."""

    outcome: Literal["created", "updated", "unchanged", "duplicate", "linked", "unlinked", "erased"]
    id: str
    revision: int = 0


class Receipt(FrozenModel):
    """Proof of a commit, which is durable when the receipt is returned."""

    patch_id: str
    sequence: int
    """The audit sequence after the commit; read `as_of` it to see exactly this state."""
    committed_at: Instant
    results: tuple[OperationResult, ...]
    staled: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    head: str
    """Hash of the last audit event."""
    replayed: bool = False
    """True if an idempotency key returned the receipt of an earlier commit."""


class Waiting(FrozenModel):
    """The stored result of an idempotency key whose patch went to review instead of being applied."""

    patch_id: str


class Remembered(FrozenModel):
    """The stored result of an idempotency key: the outcome of the first call, and the identity of that request."""

    outcome: Receipt | Waiting
    request: str = ""
    """The patch's `request`; empty if it had none."""

    @model_validator(mode="before")
    @classmethod
    def _reads_the_outcome_alone(cls, data: Any) -> Any:
        # Spaces and exports written before 0.2 contain the outcome alone.
        return {"outcome": data} if isinstance(data, dict) and "outcome" not in data else data

    @property
    def patch_id(self) -> str:
        """The patch that the first call made."""
        return self.outcome.patch_id


TITLE = 1_000
HEADING = 1_000
NAME = 500
ACTOR = 200
REASON = 4_000

FIELDS: Mapping[str, int] = {
    "title": TITLE,
    "name": NAME,
    "slug": 8_000,
    "aliases": NAME,
    "origin": 8_000,
    "summary": 1_000_000,
    "resolution": 1_000_000,
    "artifact_refs": 8_000,
}
"""The maximum length of each field of an object, in characters; in a list, of each text."""


def shortened(text: str, most: int) -> str:
    """Cut a text to `most` characters, ending with `…` if it was longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def check_length(field: str, text: str, most: int) -> None:
    """Raise `InvalidInput` naming the field, its limit and its length if a text is too long."""
    if len(text) > most:
        problem = f"it has {len(text)} characters; the maximum is {most}"
        raise InvalidInput(
            f"{field}: {problem}.",
            hint="Shorten it, or move the long part into the text.",
            details={"fields": [{"field": field, "problem": problem}], "limit": most, "length": len(text)},
        )


def check_object(item: Object, *, changed: Iterable[str] = FIELDS, earlier: Object | None = None) -> None:
    """Check the fields of an object that are `changed`, and the headings of segments that `earlier` does not have."""
    for field in FIELDS.keys() & changed:
        value = getattr(item, field, "")
        for text in (value,) if isinstance(value, str) else value:
            check_length(field, text, FIELDS[field])
    if isinstance(item, Source):
        known = {part.heading for part in earlier.segments} if isinstance(earlier, Source) else set()
        for part in item.segments:
            if part.heading not in known:
                check_length("heading", part.heading, HEADING)


def check_patch(patch: Patch) -> None:
    """Check the lengths of the author and reason of a patch."""
    check_decision(patch.source, patch.reason)


def check_decision(author: Author, reason: str) -> None:
    """Check the lengths of the author and reason of a decision."""
    check_length("actor", author.actor, ACTOR)
    check_length("tool", author.tool, ACTOR)
    check_length("reason", reason, REASON)

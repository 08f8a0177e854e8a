"""The five types of objects: Source, Node, Knowledge, Activity, WorkItem.

They are frozen, complete, and checked when created. Every change creates a new revision.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from treering.core.canonical import (
    FrozenModel,
    Instant,
    Json,
    JsonObject,
    canonical_json,
    digest,
    is_none,
    kind_of,
    normalise,
    normalise_text,
)
from treering.core.errors import InvalidInput, nearest
from treering.core.evidence import EvidenceRef, Segment
from treering.core.field_names import names_beside
from treering.core.scope import Scope

SETTLED = frozenset({"status", "scope", "origin_channel", "merged_into", "disputed", "withheld"})
"""Fields that no `Update` changes: other operations or the ledger do."""
_MAX_PROBLEMS = 100
_SHOWN_CHARS = 300
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


class Fact(FrozenModel):
    """A relation (`subject predicate object`) or an attribute (`subject predicate value`).

    An attribute has one value at a time; a relation may have many, unless the space's rules restrict it.
    """

    subject: str = Field(min_length=1)
    predicate: str = Field(min_length=1)
    object: str | None = None
    value: Json = None

    @property
    def relation(self) -> str:
        """The predicate in normalized form: `lives in` and `Lives_in` are the same relation."""
        return _relation(self.predicate)

    @model_validator(mode="after")
    def _has_one_end(self) -> "Fact":
        if (self.object is None) == (self.value is None):
            raise ValueError("a fact has exactly one of 'object' and 'value'")
        return self


class Procedure(FrozenModel):
    """Steps to reach a goal."""

    steps: tuple[str, ...] = Field(min_length=1)
    preconditions: tuple[str, ...] = ()
    expected_outcome: str = ""


class Decision(FrozenModel):
    """A question, its answer and the reason."""

    question: str = Field(min_length=1)
    outcome: str = ""
    rationale: str = ""
    alternatives: tuple[str, ...] = ()

    @property
    def asked(self) -> str:
        """The question in normalized form: `Which store?` and `which  store` are the same question."""
        return _asked(self.question)

    @property
    def is_replacement(self) -> bool:
        """Whether its question is only the statement that it replaced."""
        return self.question in self.alternatives


class Constraint(FrozenModel):
    """A rule, its scope, and the impact of violating it."""

    rule: str = Field(min_length=1)
    scope: str = ""
    violation_impact: str = ""


class Preference(FrozenModel):
    """A preferred way of doing things."""

    statement: str = Field(min_length=1)
    scope: str = ""


class Utterance(FrozenModel):
    """A sentence of a memory: its words, speaker, day (`2026-01-31`) and message.

    `message` is a position in the discussion. The speaker is never guessed from the words.
    """

    text: str = Field(min_length=1)
    speaker: str = ""
    day: str = ""
    message: int | None = Field(default=None, ge=0)


SummaryForm = Literal["memory", "condensation", "rolling_summary", "state_document", "digest"]


BY_RULES = "built-in"
"""The beginning of `Summary.made_by` of built-in rules."""


class Summary(FrozenModel):
    """A summary of its evidence; its text is the `summary` of the knowledge.

    It becomes invalid when any of its evidence does, so that withdrawn content does not live on in a summary. `key`
    identifies it in its scope. `first` and `last` are the positions of the summarized messages, if any;
    `utterances` are its sentences, with their speakers if known.
    `by_hand` and `struck_by_hand` are lines that a person added or removed. `made_by` names its generator: a model
    with the version of its prompt, or a built-in rule.
    """

    form: SummaryForm
    key: str = Field(min_length=1)
    entities: tuple[str, ...] = ()
    key_phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    sentiment: str = ""
    utterances: tuple[Utterance, ...] = ()
    first: int | None = Field(default=None, ge=0)
    last: int | None = Field(default=None, ge=-1)
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()
    made_by: str = ""

    @property
    def is_extract(self) -> bool:
        """Whether built-in rules copied it from messages, and no person added to it."""
        return self.made_by.startswith(BY_RULES) and not self.by_hand


Payload = Fact | Procedure | Decision | Constraint | Preference | Summary

PAYLOADS: dict[str, type[Payload]] = {
    "fact": Fact,
    "procedure": Procedure,
    "decision": Decision,
    "constraint": Constraint,
    "preference": Preference,
    "summary": Summary,
}


Channel = Literal["user", "agent", "adapter", "import", "system"]
ObjectType = Literal["source", "node", "knowledge", "activity", "work_item"]
MemorySource = Literal["user_declared", "human_curated", "agent_inferred", "system_generated", "imported"]


class _Object(FrozenModel):
    """The fields that all objects share.

    `salt` (random, hex) keys the hashes of the object's content. Erasing the object erases the salt, so that the
    content cannot be guessed from the remaining hashes.
    """

    STAMPED: ClassVar[frozenset[str]] = frozenset({"type", "id", "revision", "created_at", "updated_at", "salt"})

    id: str
    scope: Scope
    revision: int = Field(default=1, ge=1)
    created_at: Instant
    updated_at: Instant
    origin_channel: Channel = "system"
    salt: str = Field(min_length=16, max_length=64)

    @model_validator(mode="after")
    def _has_its_prefix(self) -> "_Object":
        if kind_of(self.id) != self.type:  # type: ignore[attr-defined]  # every leaf has `type`
            raise ValueError(f"the id {self.id} does not belong to this type of object")
        return self


class Withheld(FrozenModel):
    """The known facts about a source whose author does not share its text.

    `content` is a hash of the whole text; `hashes` contains, by segment id, the hashes of the cited segments that the
    source has, and `lost` the ids that it lost. The key of the hashes is the source's salt, which is not shared
    either, so that the text cannot be guessed.
    """

    author: str
    content: str
    hashes: dict[str, str] = Field(default={})
    lost: tuple[str, ...] = Field(default=(), exclude_if=not_)


class Source(_Object):
    """Observed content, stored word for word in segments."""

    type: Literal["source"] = "source"
    kind: Literal[
        "repo",
        "file",
        "pdf",
        "web",
        "markdown",
        "note",
        "openapi",
        "office",
        "conversation",
        "meeting_record",
    ]
    status: Literal["active", "invalid", "archived", "withheld"] = "active"
    """`withheld`: only what `withheld` contains is known here."""
    origin: str = Field(min_length=1)
    title: str = ""
    fingerprint: str = ""
    content_type: Literal["text", "markdown", "structured", "repo_map", "binary_stub"] = "text"
    payload: JsonObject = Field(default={})
    segments: tuple[Segment, ...] = ()
    metadata: JsonObject = Field(default={})
    captured_at: Instant
    withheld: Withheld | None = Field(default=None, exclude_if=is_none)
    """Set by a merge if the author of the source withholds all of it, or the segments added since it was shared."""

    def withholds(self, segment_id: str) -> bool:
        """Return whether it has a segment whose text is not shared."""
        return self.withheld is not None and segment_id in self.withheld.hashes

    @property
    def place_of_withheld(self) -> str:
        """The place of its withheld text, as people read it: `Conversation of ada on 28 Nov 2026, not shared`."""
        return withheld_place(self.kind, self.withheld.author if self.withheld else "", self.captured_at)


def withheld_place(kind: str, author: str, at: datetime) -> str:
    """Describe text that its author does not share."""
    return f"{kind.replace('_', ' ').capitalize()} of {author or 'another user'} on {at:%d %b %Y}, not shared"


class Node(_Object):
    """A person, service, file or concept that several objects refer to."""

    type: Literal["node"] = "node"
    kind: Literal[
        "project",
        "repo",
        "module",
        "service",
        "api",
        "document",
        "paper",
        "concept",
        "person",
        "team",
        "component",
        "dataset",
        "spec",
    ]
    status: Literal["active", "merged", "archived"] = "active"
    name: str = Field(min_length=1)
    slug: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    summary: str = ""
    merged_into: str | None = None


class Knowledge(_Object):
    """A current or former belief, with its evidence."""

    type: Literal["knowledge"] = "knowledge"
    kind: Literal["fact", "procedure", "decision", "constraint", "preference", "summary"]
    status: Literal["candidate", "active", "contested", "superseded", "stale", "archived"] = "candidate"
    title: str = Field(min_length=1)
    summary: str = ""
    subject_refs: tuple[str, ...] = ()
    evidence_refs: tuple[EvidenceRef, ...] = ()
    derived_from: tuple[str, ...] = ()
    payload: Payload
    confidence: float = Field(default=0.6, ge=0, le=1)
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    last_verified_at: Instant | None = None
    memory_source: MemorySource = "agent_inferred"
    disputed: bool = Field(default=False, exclude_if=not_)
    """Whether an actor or evidence with the role `contradicts` contests it; it stays contested until that is settled.

    The ledger sets it. Conflicting claims contest knowledge without setting it.
    """

    @model_validator(mode="before")
    @classmethod
    def _payload_by_kind(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("kind") in PAYLOADS:
            return {**data, "payload": PAYLOADS[data["kind"]].model_validate(data.get("payload"))}
        return data

    @model_validator(mode="after")
    def _validity_runs_forward(self) -> "Knowledge":
        if self.valid_from and self.valid_until and self.valid_from >= self.valid_until:
            raise ValueError("valid_from must come before valid_until")
        return self

    def duplicate_key(self) -> str:
        """Hash scope, kind and normalized payload: equal keys mean exact duplicates."""
        payload = self.payload.model_dump(mode="json")
        return digest(canonical_json([self.scope, self.kind, normalise(payload)]))

    def statement_key(self) -> tuple[str, ...]:
        """Return scope, kind and normalized title and statement: equal if only reasons and evidence may differ."""
        match self.payload:
            case Decision(outcome=said) | Constraint(rule=said) | Preference(statement=said):
                return self.scope, self.kind, normalise_text(self.title), normalise_text(said)
        return self.scope, self.kind, self.duplicate_key()

    @property
    def was_active(self) -> bool:
        """Whether it is or was active, because candidates can also become contested or stale."""
        return self.status == "active" or self.last_verified_at is not None

    @property
    def is_only_read(self) -> bool:
        """Whether a reading of a source stated it, and no person or agent has confirmed it."""
        return self.origin_channel == "adapter" and self.memory_source == "system_generated" and not self.was_active

    def claim_key(self) -> str | None:
        """Hash the subject of possible contradictions between claims of one scope; `None` if there is none.

        This is subject and predicate of a fact, and the question of a decision with an outcome.
        """
        match self.payload:
            case Fact(subject=subject):
                return _fact_key(self.scope, subject, self.payload.predicate)
            case Decision(outcome=outcome) if outcome:
                return _decision_key(self.scope, self.payload.question)
            case _:
                return None


def _relation(predicate: str) -> str:
    return normalise_text(predicate).replace(" ", "_")


def _asked(question: str) -> str:
    return normalise_text(question).rstrip("?!. ")


# Each claim of a patch is compared with all others.
@lru_cache(maxsize=1 << 12)
def _fact_key(scope: str, subject: str, predicate: str) -> str:
    return digest(canonical_json([scope, normalise(subject), _relation(predicate)]))


@lru_cache(maxsize=1 << 12)
def _decision_key(scope: str, question: str) -> str:
    return digest(canonical_json(["decision", scope, _asked(question)]))


class Activity(_Object):
    """Completed or current work."""

    type: Literal["activity"] = "activity"
    kind: Literal["episode", "debug", "review", "research", "implementation", "meeting", "reading"]
    status: Literal["draft", "finalized", "archived"] = "draft"
    title: str = Field(min_length=1)
    summary: str = ""
    started_at: Instant | None = None
    ended_at: Instant | None = None
    related_node_refs: tuple[str, ...] = ()
    related_work_item_refs: tuple[str, ...] = ()
    source_refs: tuple[str, ...] = ()
    produced_object_refs: tuple[str, ...] = ()
    artifact_refs: tuple[str, ...] = ()
    outcome: Literal["success", "failure", "partial", "unknown"] = "unknown"


class WorkItem(_Object):
    """Work to track and finish."""

    type: Literal["work_item"] = "work_item"
    kind: Literal["task", "requirement", "issue", "bug", "improvement", "question", "investigation"]
    status: Literal["open", "in_progress", "blocked", "resolved", "closed", "cancelled"] = "open"
    title: str = Field(min_length=1)
    summary: str = ""
    lifecycle_state: Literal["active", "archived"] = "active"
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    owner_refs: tuple[str, ...] = ()
    related_node_refs: tuple[str, ...] = ()
    related_knowledge_refs: tuple[str, ...] = ()
    source_refs: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    parent_ref: str | None = None
    child_refs: tuple[str, ...] = ()
    resolution: str = ""
    due_at: Instant | None = None
    opened_at: Instant | None = None
    branch: str = Field(default="", exclude_if=not_)
    """The branch of the repository that it belongs to; empty for the default branch."""


AnyObject = Annotated[Source | Node | Knowledge | Activity | WorkItem, Field(discriminator="type")]
Object = Source | Node | Knowledge | Activity | WorkItem

TYPES: dict[str, type[Object]] = {
    "source": Source,
    "node": Node,
    "knowledge": Knowledge,
    "activity": Activity,
    "work_item": WorkItem,
}


def parse_object(data: Mapping[str, Any]) -> Object:
    """Read an object from JSON data. Raises `InvalidInput` naming each wrong field."""
    model = TYPES.get(str(data.get("type")))
    if model is not None:
        with suppress(ValidationError):
            return model.model_validate(data)
    # The validator of all types is only needed for its error message.
    try:
        checks: TypeAdapter[Object] = TypeAdapter(AnyObject)
        return checks.validate_python(data)
    except ValidationError as error:
        raise invalid_fields(error, model=model, refused={"merged_into", "disputed", "withheld"}) from error


def invalid_fields(
    error: ValidationError, *, model: type[BaseModel] | None = None, refused: Collection[str] = ()
) -> InvalidInput:
    """Convert a validation error: each wrong field, the problem, and the most similar accepted name.

    `model` is the model that the data was parsed as, `refused` are fields of it that the caller may not set.
    """
    items = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    problems = [
        {"field": ".".join(map(str, item["loc"]))[:_SHOWN_CHARS], "problem": _problem(item), "kind": item["type"]}
        for item in items
    ]
    first = problems[0]
    unknown = next((item["loc"] for item in items if item["type"] == "extra_forbidden"), ())
    names = [name for name in names_beside(model, unknown) if name not in refused] if model else []
    return InvalidInput(
        f"{first['field'] or 'input'}: {first['problem']}"
        + (f" (and {error.error_count() - 1} more)" if len(problems) > 1 else ""),
        hint=nearest(str(unknown[-1]), names) if unknown and names else "See details.fields for every wrong field.",
        details={"fields": problems},
    )


class CallerModel(BaseModel):
    """A model that programs construct themselves: its constructor raises `InvalidInput`.

    Parsing still raises `ValidationError`, which locates a field in the whole input.
    """

    if not TYPE_CHECKING:  # a type checker derives the constructor from the fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise invalid_fields(error, model=type(self)) from error

        # With this mark, Pydantic does not call the constructor when it parses.
        __init__.__pydantic_base_init__ = True


UNKNOWN_FIELD = "unknown field"
_PROBLEMS = {
    "extra_forbidden": UNKNOWN_FIELD,
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}


def _problem(item: ErrorDetails) -> str:
    """Describe the problem with a field, by default in Pydantic's words."""
    bounds = item.get("ctx", {})
    if item["type"] == "string_too_short" and bounds.get("min_length") == 1:
        return "it is empty"
    if item["type"] in _PROBLEMS:
        return _PROBLEMS[item["type"]]
    return next(
        (f"must be {bound} {bounds[name]}" for name, bound in _BOUNDS.items() if name in bounds),
        item["msg"].removeprefix("Value error, "),
    )


def no_export(error: Exception) -> InvalidInput:
    """Convert an error from reading a record to the error that a file is not an export."""
    problem = invalid_fields(error).message if isinstance(error, ValidationError) else f"{error}."
    return InvalidInput(f"Cannot read this as an export: {problem}", hint="Export the space again.")


def title_of(item: Object) -> str:
    """Return the title or name of the object."""
    return item.name if isinstance(item, Node) else item.title


def kind_in_words(kind: str) -> str:
    """Return the word of people for a kind or type: a constraint is a rule."""
    return "rule" if kind == "constraint" else kind.replace("_", " ")


def name_held(item: Object) -> tuple[str, ...] | None:
    """Return the unique name of an object: a source's scope and origin, or a node's scope, kind and slug.

    `None` for objects without a unique name, and for objects that released theirs.
    """
    match item:
        case Source(status="active" | "invalid"):
            return (item.scope, item.origin)
        case Node(status="active"):
            return (item.scope, item.kind, item.slug)
        case _:
            return None


def stored_form(item: Object) -> str:
    """Write an object as the ledger stores it: JSON without the text of its segments (their hashes stay)."""
    leave_out = {"segments": {"__all__": {"excerpt"}}} if isinstance(item, Source) else None
    return canonical_json(item.model_dump(mode="json", exclude=leave_out))


def content_hash(stored: str, *, salt: str) -> str:
    """Hash an object in its stored form, keyed by its salt."""
    return digest(stored, salt=salt)

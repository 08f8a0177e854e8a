"""Make the objects that a caller describes, with ids, times and defaults."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from treering.core.canonical import canonical_json, digest, is_object
from treering.core.declarations import ORIGIN, declaration_title
from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef, Section, Segment, segment_hash
from treering.core.objects import (
    PAYLOADS,
    SETTLED,
    Activity,
    Knowledge,
    MemorySource,
    Node,
    Source,
    WorkItem,
    invalid_fields,
)
from treering.core.patch import HEADING, TITLE, Create, Operation, shortened
from treering.core.screening import screened
from treering.ports.runtime import fresh_id, fresh_salt, fresh_segment_id
from treering.verbs.envelope import Call, Value, parse
from treering.verbs.evidence.resolving import ResolvedEvidence, resolve_evidence
from treering.verbs.numbered_places import numbered_in
from treering.verbs.trees import branch_worked_on

_Made = TypeVar("_Made", Activity, Knowledge, Node, WorkItem)
EVIDENCE_NAMES = ("evidence", "because")
"""Other names of the field `evidence_refs` in calls."""

_INFERRED: dict[bool, MemorySource] = {True: "human_curated", False: "agent_inferred"}
"""The default source of knowledge with evidence, by whether its author is a person."""
_CONFIDENCE: dict[MemorySource, float] = {
    "user_declared": 0.95,
    "human_curated": 0.9,
    "agent_inferred": 0.6,
    "system_generated": 0.6,
    "imported": 0.6,
}


class KnowledgeFields(Value):
    """Knowledge as a caller describes it.

    Payload, also flat: fact subject predicate object|value; procedure steps preconditions expected_outcome;
    decision question outcome rationale alternatives; constraint rule scope violation_impact; preference statement
    scope. Evidence: path:10-14, path::symbol, quote, [3].
    """

    kind: Literal["fact", "procedure", "decision", "constraint", "preference"]
    title: str = Field(min_length=1)
    payload: dict[str, Any]
    summary: str = ""
    status: Literal["candidate", "active"] | None = Field(
        default=None, description="Default: active for a user's declarations, else candidate."
    )
    evidence_refs: tuple[EvidenceRef | str, ...] = Field(
        default=(),
        description="Required for active, except for a user's declarations. Also called evidence or because. Each is "
        'path:10-14, path::symbol, path, "a quote", or ids of a hit.',
    )
    derived_from: tuple[str, ...] = ()
    subject_refs: tuple[str, ...] = ()
    confidence: float | None = Field(default=None, ge=0, le=1)
    valid_from: str | None = None
    valid_until: str | None = None
    memory_source: MemorySource | None = Field(
        default=None, description="Default: user_declared through a person's channel without evidence, else inferred."
    )

    @model_validator(mode="before")
    @classmethod
    def _takes_short_forms(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        if fields.get("kind") == "rule":
            fields = {**fields, "kind": "constraint"}  # as the command that records one is called
        given = {**_kind_and_title(fields), **with_evidence_refs(fields)}
        flat = _payload_fields(given.get("kind")) & given.keys() - cls.model_fields.keys()
        payload = {name: given.pop(name) for name in sorted(flat)}
        known = given.get("payload", {})
        # An empty payload, so that the missing field is named: a decision lacks its question, not a payload.
        return {**given, "payload": {**known, **payload} if isinstance(known, dict) else known}


class NodeFields(Value):
    """A node, as a caller describes it."""

    kind: str
    name: str = Field(min_length=1)
    slug: str | None = Field(default=None, description="Default: made from the name.")
    aliases: tuple[str, ...] = ()
    summary: str = ""


class WorkItemFields(Value):
    """Work to track, as a caller describes it."""

    kind: str = "task"
    title: str = Field(min_length=1)
    summary: str = ""
    status: Literal["open", "in_progress", "blocked"] = "open"
    priority: Literal["low", "normal", "high", "urgent"] = "normal"
    owner_refs: tuple[str, ...] = ()
    related_node_refs: tuple[str, ...] = ()
    related_knowledge_refs: tuple[str, ...] = ()
    source_refs: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    parent_ref: str | None = None
    due_at: str | None = None
    opened_at: str | None = Field(default=None, description="Time of opening. Default: now.")
    branch: str | None = Field(default=None, description="Default: the one checked out, if not the default branch.")


FLAT_FIELDS = frozenset(
    {
        *KnowledgeFields.model_fields,
        *EVIDENCE_NAMES,
        "answer",
        *(name for one in PAYLOADS.values() for name in one.model_fields),
    }
)
"""All names that a caller may describe knowledge with."""
_KINDS = {"question": "decision", "rule": "constraint", "statement": "preference", "steps": "procedure"}
"""Fields of a payload that only knowledge of one kind has."""
_TITLES = {"decision": "outcome", "constraint": "rule", "preference": "statement"}
"""The field of a payload that serves as the title of knowledge without one."""


def _kind_and_title(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Infer the kind and a title from the fields of a payload."""
    known = fields.get("payload")
    payload = {**known, **fields} if isinstance(known, dict) else fields
    kind = fields.get("kind") or next((kind for name, kind in _KINDS.items() if name in payload), None)
    words = payload.get(_TITLES.get(kind, "")) if isinstance(kind, str) else None
    title = {"title": shortened(words, TITLE)} if isinstance(words, str) and words.strip() else {}
    return {"kind": kind, **title} if kind else {}


def _payload_fields(kind: object) -> frozenset[str]:
    payload = PAYLOADS.get(kind) if isinstance(kind, str) else None
    return frozenset(payload.model_fields) if payload else frozenset()


def with_evidence_refs(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the values of `evidence` and `because` in `evidence_refs`; one text counts as a list.

    With the id of an answer as `answer`, numbers refer to the places of that answer.
    """
    given = dict(fields)
    refs: list[Any] = []
    for name in ("evidence_refs", *EVIDENCE_NAMES):
        value = given.pop(name, None)
        refs += value if isinstance(value, list | tuple) else [] if value in (None, "") else [value]
    refs = [str(one) if type(one) is int else one for one in refs]  # a number of a place; `True` is none
    if isinstance(given.get("answer"), str):
        answer = given.pop("answer")
        refs = [numbered_in(answer, one) if isinstance(one, str) else one for one in refs]
    return {**given, "evidence_refs": refs} if refs or "evidence_refs" in fields else given


def with_resolved_evidence(
    call: Call, fields: KnowledgeFields, *, dry_run: bool
) -> tuple[KnowledgeFields, tuple[ResolvedEvidence, ...]]:
    """Return the fields of knowledge with references in place of written evidence. Raises as `resolve_evidence`."""
    if not any(isinstance(one, str) for one in fields.evidence_refs):
        return fields, ()
    _check_payload(fields)  # before a file is read for it
    resolution = resolve_evidence(call, fields.evidence_refs, dry_run=dry_run)
    return fields.model_copy(update={"evidence_refs": resolution.refs}), resolution.resolved


def with_resolved_sources(
    call: Call, fields: Mapping[str, Any], *, dry_run: bool
) -> tuple[dict[str, Any], tuple[ResolvedEvidence, ...]]:
    """Return the fields of work with ids in place of sources given as evidence is, such as `src/retry.py:10-14`.

    Raises as `resolve_evidence`.
    """
    given = fields.get("source_refs")
    refs = list(given) if isinstance(given, list | tuple) else []
    texts = [one for one in refs if isinstance(one, str) and not is_object(one)]
    if not texts:
        return dict(fields), ()
    resolved = resolve_evidence(call, texts, dry_run=dry_run).resolved
    ids = {text: one.source_id for text, one in zip(dict.fromkeys(texts), resolved, strict=True)}
    return {**fields, "source_refs": list(dict.fromkeys(ids.get(one, one) for one in refs))}, resolved


def draft_knowledge(call: Call, fields: KnowledgeFields) -> tuple[Knowledge, tuple[Operation, ...]]:
    """Make knowledge, and the operations that create it; a declaration without evidence gets a note.

    Evidence must be resolved before (`with_resolved_evidence`).
    """
    _check_payload(fields)
    given = fields.model_dump(mode="json", exclude_none=True)
    declared = fields.memory_source or _default_source(call, fields)
    note: tuple[Operation, ...] = ()
    if declared == "user_declared" and not fields.evidence_refs and not fields.derived_from:
        source = declaration_note(call, make(call, Knowledge, {**given, "status": "candidate"}))
        given["evidence_refs"] = [{"source_id": source.id, "segment_id": source.segments[0].segment_id}]
        note = (Create(object=source),)
    given["status"] = fields.status or ("active" if declared == "user_declared" else "candidate")
    given["confidence"] = fields.confidence if fields.confidence is not None else _CONFIDENCE[declared]
    item = make(call, Knowledge, {**given, "memory_source": declared})
    return item, (*note, Create(object=item))


def draft_node(call: Call, fields: NodeFields) -> Node:
    """Make a node. The default slug comes from the screened name, because a secret is not recognizable in a slug."""
    name = screened(fields.name).value
    slug = fields.slug or "-".join("".join(c if c.isalnum() else " " for c in name.casefold()).split())
    return make(call, Node, {**fields.model_dump(mode="json"), "slug": slug or digest(name)[:12]})


def draft_work_item(call: Call, fields: WorkItemFields) -> WorkItem:
    """Make a work item."""
    given = fields.model_dump(mode="json", exclude_none=True)
    return make(call, WorkItem, {"branch": branch_worked_on(call.engine, call.scope), **given})


def draft_activity(call: Call, fields: dict[str, Any]) -> Activity:
    """Make an activity from JSON data."""
    return make(call, Activity, fields)


def make(call: Call, cls: type[_Made], fields: dict[str, Any]) -> _Made:
    """Make an object of a type in the call's scope. Raises `InvalidInput` naming each wrong field."""
    now = call.engine.clock.now()
    type_ = cls.model_fields["type"].default
    stamp = {
        "id": fresh_id(type_, call.engine.clock),
        "scope": call.scope,
        "created_at": now,
        "updated_at": now,
        "origin_channel": call.engine.author.channel,
        "salt": fresh_salt(call.engine.clock),
    }
    try:
        return cls.model_validate({**fields, **stamp})
    except ValidationError as error:
        raise invalid_fields(error, model=cls, refused=cls.STAMPED | SETTLED) from error


def _check_payload(fields: KnowledgeFields) -> None:
    try:
        parse(PAYLOADS[fields.kind], fields.payload, where="payload")
    except InvalidInput as error:
        wrong = [{**one, "field": f"payload.{one['field']}"} for one in error.details["fields"]]
        raise InvalidInput(error.message, hint=error.hint, details={"fields": wrong}) from error


def declaration_note(call: Call, item: Knowledge) -> Source:
    """Make the note with the words of a person's declaration, without secrets, so that it can be cited."""
    item = screened(item).value
    words = call.engine.lookup.text_of(item) or canonical_json(item.payload.model_dump(mode="json"))
    now = call.engine.clock.now()
    salt = fresh_salt(call.engine.clock)
    segment = Segment(
        segment_id=fresh_segment_id(call.engine.clock),
        locator=Section(heading=shortened(item.title, HEADING)),
        excerpt=words,
        hash=segment_hash(words, salt=salt),
        position=0,
        heading=shortened(item.title, HEADING),
    )
    identity = fresh_id("source", call.engine.clock)
    return Source(
        id=identity,
        kind="note",
        scope=call.scope,
        created_at=now,
        updated_at=now,
        origin_channel=call.engine.author.channel,
        salt=salt,
        origin=f"{ORIGIN}{identity.partition(':')[2]}",
        title=shortened(declaration_title(call.engine.author.actor, item.title), TITLE),
        fingerprint=digest(words),
        captured_at=now,
        segments=(segment,),
    )


def _default_source(call: Call, fields: KnowledgeFields) -> MemorySource:
    by_person = call.engine.author.channel == "user"
    return (
        "user_declared" if by_person and not fields.evidence_refs and not fields.derived_from else _INFERRED[by_person]
    )

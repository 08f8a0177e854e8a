"""`crystallize` in modes `knowledge`, `promote` and `supersede`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from treering.core.canonical import normalise, normalise_text
from treering.core.characters import named
from treering.core.errors import IllegalTransition, InvalidInput
from treering.core.evidence import EvidenceRef, extended, short_place, united
from treering.core.filters import And, Compare, Not
from treering.core.objects import Constraint, Decision, Fact, Knowledge, Object, Payload
from treering.core.patch import AddLink, Create, Link, MoveScope, Operation, Supersede, Transition
from treering.core.scope import ROOT, Scope, is_within, lineage
from treering.ports.ledger import Selection, noted
from treering.ports.passages import Reach
from treering.verbs.crystallize.changing import ChangeInput, changing, found_of, replacement_of
from treering.verbs.crystallize.drafting import (
    FLAT_FIELDS,
    KnowledgeFields,
    NodeFields,
    draft_knowledge,
    draft_node,
    with_evidence_refs,
    with_resolved_evidence,
)
from treering.verbs.crystallize.submission import WriteOptions, WriteReport, submit
from treering.verbs.denials import denies, plain_words
from treering.verbs.envelope import WRITES, Call, Mode, Value, either, parse
from treering.verbs.evidence.inherited import has_places, inherited_evidence
from treering.verbs.evidence.resolving import ResolvedEvidence, resolve_evidence
from treering.verbs.index_warnings import boundary, index_warning
from treering.verbs.scoped_ledger import whole

_MIN_LIKENESS = 0.6
"""The share of their words that two statements have in common to be shown as possible duplicates."""
_DUPLICATE_CANDIDATES = 5
_MIN_LIKENESS_OF_OPPOSITES = 0.8
"""The same for titles of which one denies the other."""
_CURRENT = frozenset({"candidate", "active", "contested"})
_REASONS = {"violation_impact", "rationale", "alternatives"}
_REWORDED = frozenset({"title", "summary", "evidence_refs", "subject_refs", "derived_from", "confidence"})
"""Fields that may differ between knowledge with the same statement."""


class KnowledgeInput(ChangeInput):
    """New knowledge, or with `id` a correction of its fields."""

    SHORT_NAMES = FLAT_FIELDS


def crystallize_knowledge(call: Call, given: KnowledgeInput, options: WriteOptions) -> WriteReport:
    """Add knowledge with its evidence, or correct it."""
    if given.id:
        return _correct(call, given.id, given.revision, given.fields, options)
    fields = parse(KnowledgeFields, given.fields, where="input")
    fields, evidence = with_resolved_evidence(call, fields, dry_run=options.dry_run)
    item, operations = draft_knowledge(call, fields)
    known = _recorded_before(call, item)
    if known:
        payload = _with_reasons(known, item)
        completing = changing(known, {"payload": payload} if payload != known.payload else {}, None, revision=None)
        item, created = draft_knowledge(call, fields.model_copy(update={"payload": payload.model_dump(mode="json")}))
        operations = (*completing, *created)
    return submit(
        call,
        operations,
        options,
        mode="knowledge",
        possible_duplicates=possible_duplicates(call, item, known.id if known else ""),
        evidence=evidence,
        warnings=(
            *index_warning(call.engine),
            *(_OPPOSITE.format(named(one.title), one.id) for one in _opposites(call, item)),
        ),
    )


def possible_duplicates(call: Call, item: Knowledge, recorded: str = "") -> tuple[str, ...]:
    """Return the ids of knowledge with nearly the same words, the same statement first.

    They are only reported: likeness proves nothing. `recorded`: the id of knowledge that the item is merged into.
    """
    text_of = call.engine.lookup.text_of
    key, words = item.duplicate_key(), text_of(item)
    others = [one for one in _with_same_words(call, item.kind, words) if one.duplicate_key() != key]
    others = [one for one in others if one.id != recorded]
    same = [one for one in others if one.status in _CURRENT and one.statement_key() == item.statement_key()]
    alike = [one for one in others if one not in same and _likeness(words, text_of(one)) >= _MIN_LIKENESS]
    return tuple(one.id for one in (*same, *alike))


def _recorded_before(call: Call, item: Knowledge) -> Knowledge | None:
    """Return current knowledge with the same statement, of which only the reason may differ.

    A candidate adds no reason to confirmed knowledge.
    """
    if not isinstance(item.payload, Constraint | Decision):
        return None
    known = _with_same_words(call, item.kind, call.engine.lookup.text_of(item))
    same = (one for one in known if one.status in _CURRENT and _statement_of(one) == _statement_of(item))
    is_confirmed = item.status == "active"
    return next((one for one in same if is_confirmed or _with_reasons(one, item) == one.payload), None)


def _statement_of(item: Knowledge) -> tuple[Any, ...]:
    payload = normalise(item.payload.model_dump(mode="json", exclude=_REASONS))
    return item.scope, item.kind, payload, item.valid_from, item.valid_until


def _with_reasons(known: Knowledge, new: Knowledge) -> Payload:
    """Return the statement of knowledge with the reason and the alternatives of a new one."""
    match known.payload, new.payload:
        case Constraint() as old, Constraint(violation_impact=why):
            return old.model_copy(update={"violation_impact": why or old.violation_impact})
        case Decision() as old, Decision(rationale=why, alternatives=rejected):
            alternatives = tuple(dict.fromkeys((*old.alternatives, *rejected)))
            return old.model_copy(update={"rationale": why or old.rationale, "alternatives": alternatives})
    return known.payload


_OPPOSITE = "This may be the opposite of {} ({}). Archive the wrong one, or replace it."


def _opposites(call: Call, item: Knowledge) -> list[Knowledge]:
    """Return the current knowledge of the same kind whose title differs from one by a denial."""
    known = [one for one in _with_same_words(call, item.kind, item.title) if one.status in _CURRENT]
    denying = [one for one in known if denies(one.title) != denies(item.title)]
    words = set(plain_words(item.title))
    return [one for one in denying if _shared_part(words, set(plain_words(one.title))) >= _MIN_LIKENESS_OF_OPPOSITES]


def is_recorded(call: Call, item: Knowledge, text: str) -> bool:
    """Return whether other current knowledge has all the words of a text, and both or neither deny something.

    `text`: the statement of a draft, `item`, which is merged into an exact duplicate of it when it is written.
    """
    lookup, words = call.engine.lookup, set(call.engine.lookup.content_words(text.lower()))
    known = [one for one in _with_same_words(call, item.kind, text) if one.status in _CURRENT]
    if any(one.duplicate_key() == item.duplicate_key() for one in known):
        return False
    texts = [lookup.text_of(one) for one in known]
    return any(words <= set(lookup.content_words(one.lower())) and denies(text) == denies(one) for one in texts)


def _with_same_words(call: Call, kind: str, words: str) -> list[Knowledge]:
    """Return the knowledge of a kind with the most words in common; altered knowledge is not compared."""
    reach = Reach(scope=call.scope, where=And((Compare("type", "eq", "knowledge"), Compare("kind", "eq", kind))))
    known: dict[str, Object] = {}
    for head in call.engine.lookup.passages_with(words, reach, limit=_DUPLICATE_CANDIDATES):
        with noted({}):
            known[head.object_id] = call.engine.ledger.get(head.object_id)
    return [one for one in known.values() if isinstance(one, Knowledge)]


class _Status(Value):
    """The new status of corrected knowledge."""

    status: str | None = None


class _Evidence(Value):
    """The evidence a correction gives."""

    evidence_refs: tuple[EvidenceRef | str, ...]


class PromoteInput(Value):
    """Candidates to promote, or a scope whose content moves up. `id` is short for one candidate."""

    SHORT_NAMES = frozenset({"id"})

    ids: tuple[str, ...] = Field(default=(), max_length=500, description="Knowledge to make active.")
    from_scope: Scope | None = Field(default=None, description="A child scope whose objects move up.")
    to_scope: Scope | None = Field(default=None, description="Their new scope; default: the parent scope.")

    @model_validator(mode="before")
    @classmethod
    def _takes_one(cls, given: object) -> object:
        if not isinstance(given, Mapping) or "id" not in given or given.get("ids"):
            return given
        return {**{name: value for name, value in given.items() if name != "id"}, "ids": (given["id"],)}

    _names_something = model_validator(mode="after")(either("ids", "from_scope"))


def promote(call: Call, given: PromoteInput, options: WriteOptions) -> WriteReport:
    """Promote candidates with valid evidence, or move a child scope into its parent. Idempotent."""
    scope = given.from_scope
    for one in filter(None, (scope, given.to_scope)):
        boundary(call.engine).require(one)
    operations = _scope_up(call, scope, given.to_scope) if scope else _promotions(call, given.ids)
    what = f"The scope {scope} is empty." if scope else "All candidates are already active."
    warnings = () if operations else (what,)
    return submit(call, operations, options, mode="promote", warnings=warnings)


class SupersedeInput(Value):
    """The knowledge to replace, and its replacement.

    Or flat, as in mode knowledge.
    """

    SHORT_NAMES = FLAT_FIELDS

    id: str = Field(min_length=1, description="The knowledge to replace.")
    revision: int | None = Field(default=None, ge=1)
    by: str | None = Field(default=None, description="Active knowledge that replaces it.")
    knowledge: KnowledgeFields | None = Field(
        default=None, description="Alternatively the new knowledge, also as flat fields."
    )

    @model_validator(mode="before")
    @classmethod
    def _takes_flat_fields(cls, given: object) -> object:
        if not isinstance(given, Mapping) or given.get("by"):
            return given
        flat = {name: value for name, value in given.items() if name in FLAT_FIELDS - cls.model_fields.keys()}
        known = given.get("knowledge") or {}
        if not flat or not isinstance(known, Mapping):
            return given
        own = {name: value for name, value in given.items() if name not in flat}
        return {**own, "knowledge": {**flat, **known}}

    _names_one = model_validator(mode="after")(either("by", "knowledge"))


def supersede(call: Call, given: SupersedeInput, options: WriteOptions) -> WriteReport:
    """Replace knowledge by newer knowledge; both stay stored.

    New knowledge with the same statement and validity replaces nothing: the old one gets its words and evidence.
    """
    old = found_of(call, given.id, Knowledge)
    _check_current(call, old)
    operations: list[Operation] = []
    by = found_of(call, given.by, Knowledge).id if given.by else ""
    evidence: tuple[ResolvedEvidence, ...] = ()
    warnings: tuple[str, ...] = ()
    revision = given.revision or old.revision
    if given.knowledge:
        new, evidence, warnings = _with_evidence(call, given.knowledge, old, dry_run=options.dry_run)
        before, old = old.revision, found_of(call, old.id, Knowledge)  # reading its file may have made it stale
        revision = old.revision if revision == before else revision
        fields = new.model_copy(update={"status": new.status or "active"})
        item, created = draft_knowledge(call, fields)
        if _is_same_statement(item, old):
            return _reword(call, old, item, frozenset(new.model_fields_set), revision, options, evidence)
        operations += created
        by = item.id
    if old.status == "candidate":
        raise IllegalTransition(
            f"{old.id} is only a candidate, so nothing can replace it.",
            hint="Correct it: mode knowledge with its id and the new fields. Or promote it first.",
            details={"id": old.id, "from": "candidate", "to": "superseded"},
        )
    operations.append(Supersede(id=old.id, expected_revision=revision, by=by))
    return submit(call, operations, options, mode="supersede", evidence=evidence, warnings=warnings)


def _check_current(call: Call, old: Knowledge) -> None:
    """Raise `IllegalTransition` for a statement that was replaced, naming its replacement."""
    if old.status != "superseded":
        return
    by = replacement_of(call.engine.ledger, old.id)
    raise IllegalTransition(
        f"{named(old.title)} was already replaced" + (f" by {named(by.title)}." if by else "."),
        hint=f"Replace that one: {by.id}." if by else "Record a new statement.",
        details={"id": old.id, "from": "superseded", "to": "superseded"},
    )


def _with_evidence(
    call: Call, fields: KnowledgeFields, old: Knowledge, *, dry_run: bool
) -> tuple[KnowledgeFields, tuple[ResolvedEvidence, ...], tuple[str, ...]]:
    """Return the fields of a replacement with its evidence, by default the places of the old statement; and warnings.

    Places that still state the old value of a fact are not evidence of the new one. Raises `InvalidInput` if an agent
    gives no evidence and no old place is left.
    """
    if fields.evidence_refs or fields.derived_from or not has_places(call, old):
        return *with_resolved_evidence(call, fields, dry_run=dry_run), ()
    places = inherited_evidence(call, old, dry_run=dry_run)
    contrary = [one for one in places if _states_old_value(one.quote, old, fields)]
    inherited = tuple(one for one in places if one not in contrary)
    if inherited:
        refs = united(ref for one in inherited for ref in one.refs)
        fields = fields.model_copy(update={"evidence_refs": refs})
    unlike = ", ".join(short_place(one.place) for one in contrary)
    if inherited or call.engine.author.channel == "user":
        with_what = "" if inherited else "without evidence now; "
        why = f"{with_what}{unlike} still states the old value; " if unlike else with_what
        return fields, inherited, (f"{why}add --because PATH:LINES",) if why else ()
    raise InvalidInput(
        f"The evidence of {named(old.title)} still states the old value: {unlike}."
        if unlike
        else f"The evidence of {named(old.title)} is gone, so its replacement has none.",
        hint="Give its evidence in because, such as src/retry.py:10-14.",
        details={"id": old.id},
    )


def _states_old_value(quote: str, old: Knowledge, new: KnowledgeFields) -> bool:
    """Return whether a text contains the old value of a fact and not the new one, as whole words."""
    if not isinstance(old.payload, Fact) or new.kind != "fact":
        return False
    before = old.payload.value if old.payload.object is None else old.payload.object
    after = new.payload.get("value", new.payload.get("object"))
    return _contains_value(quote, before) and not _contains_value(quote, after)


def _contains_value(text: str, value: object) -> bool:
    written = str(value).strip()
    return bool(written) and re.search(rf"(?<!\w){re.escape(written)}(?!\w)", text, re.IGNORECASE) is not None


def _is_same_statement(item: Knowledge, old: Knowledge) -> bool:
    validity = (item.valid_from, item.valid_until)
    is_current = old.status not in {"superseded", "archived"}
    return is_current and item.duplicate_key() == old.duplicate_key() and validity == (old.valid_from, old.valid_until)


def _reword(
    call: Call,
    old: Knowledge,
    item: Knowledge,
    given: frozenset[str],
    revision: int,
    options: WriteOptions,
    evidence: tuple[ResolvedEvidence, ...],
) -> WriteReport:
    """Update the words and the evidence of knowledge from a new version with the same statement."""
    refs = extended(_present(call, old.evidence_refs), item.evidence_refs)
    described = item.model_copy(update={"evidence_refs": refs})
    changes = {
        name: value
        for name, value in described.model_dump(mode="json", include=set(_REWORDED & given)).items()
        if getattr(described, name) != getattr(old, name)
    }
    status = "active" if item.status == "active" and old.status in {"candidate", "stale"} else None
    operations = changing(old, changes, status, revision=revision)
    if not operations:
        raise InvalidInput(
            f"{named(old.title)} already states the same.",
            hint="Give another payload or a later valid_from, or other words or evidence.",
            details={"id": old.id},
        )
    what = ", ".join(sorted(changes)).replace("evidence_refs", "evidence") or "status"
    warning = f"{named(old.title)} already states the same, so only its {what} changed."
    return submit(call, operations, options, mode="supersede", evidence=evidence, warnings=(warning,))


def _present(call: Call, refs: Sequence[EvidenceRef]) -> list[EvidenceRef]:
    """Return the evidence that exists on some branch."""
    ledger = whole(call.engine.ledger)
    active = {one for one, head in ledger.heads({ref.source_id for ref in refs}).items() if head.status == "active"}
    present = ledger.segments([(ref.source_id, ref.segment_id) for ref in refs])
    return [ref for ref in refs if ref.source_id in active and (ref.source_id, ref.segment_id) in present]


def _correct(
    call: Call, identity: str, revision: int | None, fields: dict[str, Any], options: WriteOptions
) -> WriteReport:
    item = found_of(call, identity, Knowledge)
    changes = with_evidence_refs(fields)
    evidence: tuple[ResolvedEvidence, ...] = ()
    if "evidence_refs" in changes:
        given = parse(_Evidence, {"evidence_refs": changes["evidence_refs"]}, where="input").evidence_refs
        resolution = resolve_evidence(call, given, dry_run=options.dry_run)
        changes["evidence_refs"], evidence = resolution.refs, resolution.resolved
    status = parse(_Status, {"status": changes.pop("status", None)}, where="input").status
    flat = [name for name in changes if name in type(item.payload).model_fields.keys() - Knowledge.model_fields.keys()]
    if flat and isinstance(changes.get("payload", {}), dict):
        changes["payload"] = {**{name: changes.pop(name) for name in flat}, **changes.get("payload", {})}
    if changes:
        _require_writable(item, changes)
    if isinstance(changes.get("payload"), dict):
        payload = {**item.payload.model_dump(mode="json", exclude_none=True), **changes["payload"]}
        changes["payload"] = parse(type(item.payload), payload, where="input.payload")
    operations = changing(item, changes, status, revision=revision, beside={*KnowledgeInput.model_fields, "status"})
    if not operations:
        raise InvalidInput("The correction changes nothing.", hint="Give the fields to change along with the id.")
    return submit(call, operations, options, mode="knowledge", evidence=evidence)


def _require_writable(item: Knowledge, changes: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` for a summary, which is only generated from the objects that it summarizes."""
    if "summary" in (item.kind, changes.get("kind")):
        raise InvalidInput(
            f"{item.id} cannot be recorded as a summary: summaries are generated from other objects.",
            hint="Correct those objects, or edit the document itself, for example with `treering discussion state`.",
            details={"id": item.id},
        )


def _promotions(call: Call, identities: Sequence[str]) -> list[Operation]:
    items = [found_of(call, identity, Knowledge) for identity in dict.fromkeys(identities)]
    return [
        Transition(id=item.id, expected_revision=item.revision, to="active")
        for item in items
        if item.status != "active"
    ]


def _scope_up(call: Call, child: str, to: str | None) -> list[Operation]:
    """Move the objects of a child scope up, and link them to a new node named after the child."""
    if child == ROOT:
        raise InvalidInput("The root scope / has no parent scope.", hint="Name a scope below it.")
    parent = to or lineage(child)[-2]
    if is_within(parent, child):
        raise InvalidInput(f"{child} cannot move into itself.", hint="Name a scope outside it.")
    moving = [item for item in _objects_in(call, child) if item.scope != parent]
    if not moving:
        return []
    group = draft_node(
        Call(call.engine, parent),
        NodeFields(kind="component", name=child, summary=f"What {child} held when it was merged."),
    )
    operations: list[Operation] = [Create(object=group)]
    for item in moving:
        operations.append(MoveScope(id=item.id, expected_revision=item.revision, to=parent))
        operations.append(AddLink(link=Link(type="part_of", source=item.id, target=group.id)))
    return operations


def _objects_in(call: Call, child: str) -> list[Object]:
    """Return the objects of a scope, without archived and merged ones."""
    staying = Compare("status", "in", ("archived", "merged"))
    selection = Selection(scope=child, descend=True, where=Not(staying))
    return [item for item in call.engine.ledger.select(selection) if is_within(item.scope, child)]


def _likeness(one: str, other: str) -> float:
    return _shared_part(set(normalise_text(one).split()), set(normalise_text(other).split()))


def _shared_part(words: set[str], others: set[str]) -> float:
    return len(words & others) / len(words | others) if words or others else 0.0


KNOWLEDGE = Mode.of(
    "knowledge", "Add knowledge with evidence, or correct it.", crystallize_knowledge, rights=WRITES, makes_space=True
)
PROMOTE = Mode.of(
    "promote",
    "Promote candidates with valid evidence, or move a child scope up.",
    promote,
    rights=WRITES,
    makes_space=True,
)
SUPERSEDE = Mode.of(
    "supersede", "Replace knowledge by newer knowledge, keeping both.", supersede, rights=WRITES, makes_space=True
)

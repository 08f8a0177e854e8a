"""Erase objects permanently, verify that they are gone, and name the copies that are out of reach."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from treering.core.characters import label
from treering.core.counting import counted_things, listed_up_to
from treering.core.errors import InvalidInput, NotFound, TreeringError
from treering.core.evidence import Segment, Turn
from treering.core.objects import Object, Source, title_of
from treering.core.patch import Erase, Patch
from treering.core.policy import check_gate, check_trust
from treering.core.scope import BELOW_ROOT, ROOT, ScopeGiven, is_within, parse_scope
from treering.core.writing.draft import Erased
from treering.core.writing.made_from import made_from
from treering.ports.ledger import Selection
from treering.ports.passages import Reach
from treering.registry import brought
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import make_whole
from treering.verbs.crystallize.review import ReasonOptions
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.engine import Engine
from treering.verbs.envelope import DECIDES, Call, Operation, Value
from treering.verbs.evidence_files import NamedFile
from treering.verbs.feedback import erase_below
from treering.verbs.ingest.erased import erase_and_remember, passages_elsewhere, passages_with
from treering.verbs.lint.derived import RepeatedSentences, derived_from, repeated_sentences, write_again
from treering.verbs.naming import place_given
from treering.verbs.trees import tree_of

_OUT_OF_REACH = (
    "backups and snapshots of the space's files",
    "exports made before this",
    "copies that other programs or model providers received",
)


class Probe(Value):
    """One check for erased content, and the number of places where it was found."""

    name: str
    found: int


class ErasureReceipt(Value):
    """Proof of an erasure."""

    ids: tuple[str, ...]
    patch_id: str
    sequence: int
    staled: tuple[str, ...]
    """Knowledge based on the erased objects: it is stale now. Erase it, too, if it repeats their words."""
    repeated_in: tuple[str, ...]
    """Other objects with a segment of the same words, or with a sentence of the erased prose and titles."""
    probes: tuple[Probe, ...]
    out_of_reach: tuple[str, ...]
    remaining: tuple[str, ...] = ()
    """Erased content that is not overwritten in files yet, because others use the space; and a failed proof.

    It is overwritten by the next erasure, by the next opening of the space, or by `lint repair` with `apply`.
    """
    edited: tuple[str, ...] = ()
    """State documents of erased discussions: they contain only the lines that a person added."""
    lost_edits: int = 0
    """The number of lines that a person added and that were erased because they repeat erased messages."""

    @property
    def clean(self) -> bool:
        """Whether the probes ran and found nothing."""
        return bool(self.probes) and all(probe.found == 0 for probe in self.probes)


IsMeant = Callable[[Segment], bool]
"""Returns whether a segment of an erased source is to be remembered as erased."""


@dataclass(frozen=True, slots=True)
class SavedEdits:
    """The texts made from an erased conversation, which are erased, too, and the version with a person's lines."""

    erased: tuple[str, ...] = ()
    written: str = ""
    lost: int = 0
    """The number of lines that a person wrote and that are not in this version."""


SaveEdits = Callable[[Engine, Sequence[Object], IsMeant | None], Iterable[SavedEdits]]
"""Called with the objects to erase: writes the edits by people again that are in texts made from them."""


class EraseInput(Value):
    """What to erase: objects, or a scope."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["ids"]}, {"required": ["scope"]}]})

    # The minimum is only documented here: `erase` raises a better error.
    ids: tuple[str, ...] = Field(default=(), description="Ids of the objects.", json_schema_extra={"minItems": 1})
    scope: Annotated[ScopeGiven | None, WithJsonSchema({"type": "string", "pattern": f"^{BELOW_ROOT}$"})] = Field(
        default=None, description="Everything in this scope and the scopes below it."
    )

    @model_validator(mode="after")
    def _names_one(self) -> "EraseInput":
        if self.ids if self.scope is not None else "ids" not in self.model_fields_set:
            raise ValueError("give either ids or a scope")
        return self


def erase(engine: Engine, identities: Sequence[str], *, reason: str, is_meant: IsMeant | None = None) -> ErasureReceipt:
    """Erase objects with all their revisions and the copies that a merge archived; then search for them everywhere.

    Knowledge that rules or a model made from them alone is erased, too (`core.writing.made_from`), and of the texts
    made from a conversation that a person edited, all but the person's own lines.

    `is_meant`: the segments of sources to remember as erased; the others are stored in another source, with the same
    origin, which is therefore no repetition, nor a copy out of reach. By default, all segments. Raises
    `InvalidInput` without ids, `NotFound` for an unknown one and `Denied` if the channel may not erase; nothing was
    changed then.
    """
    named = [engine.ledger.get(identity) for identity in dict.fromkeys(identities)]
    if not named:
        raise InvalidInput("No object ids to erase were given.", hint="Give object ids, such as src:01k….")
    check_may_erase(engine, named)
    edits = [one for save in brought("save_edits") for one in save(engine, named, is_meant)]
    texts = (identity for one in edits for identity in one.erased)
    named = [engine.ledger.get(identity) for identity in dict.fromkeys([*identities, *texts])]
    named += made_from(named, engine.ledger.dependents, engine.ledger.get)
    patch = _patch_erasing(engine, named, reason)
    items = [write.before for write in engine.ledger.preview(patch).writes if isinstance(write, Erased)]
    revisions = [revision for item in items for revision in engine.ledger.history(item.id)]
    sources = [_with_segments(revision, is_meant) for revision in revisions if isinstance(revision, Source)]
    others = [revision for revision in revisions if not isinstance(revision, Source)]
    passages = [passage for revision in (*sources, *others) for passage in passages_of(revision)]
    # If only segments of sources are erased, other sources have the same titles.
    titles = [title_of(revision) for revision in (others if is_meant else revisions)]
    repeated = passages_elsewhere(engine, sources)
    derived = derived_from(engine, [segment.excerpt for one in sources for segment in one.segments], gone=items)
    if derived.before:
        patch = _patch_erasing(engine, [*named, *derived.before], reason)
        items += derived.before
    citing = {one for item in items for one in engine.ledger.dependents(item.id)} - {item.id for item in items}
    receipt, unmarked = erase_and_remember(
        engine, sources, lambda: engine.ledger.commit(patch), repeated=repeated, copies=derived.sentences
    )
    # The objects are erased now: later failures are reported in the receipt.
    remaining = (*write_again(engine, derived), *engine.ledger.compact())
    ids = tuple(item.id for item in items)
    try:
        proof = proof_of(engine, items, {passage.text for passage in passages})
        prose = [one.text for one in passages if one.role == "prose"]
        repeating = repeated_sentences(engine, [*titles, *prose], citing)
    except TreeringError as error:
        proof, repeating = Proof(), RepeatedSentences()
        remaining += (f"the proof: the search for erased content failed ({error.message})",)
    engine.vectoriser.start()  # to prepare the tables again that were deleted
    return ErasureReceipt(
        ids=ids,
        patch_id=receipt.patch_id,
        sequence=receipt.sequence,
        staled=receipt.staled,
        repeated_in=tuple(sorted({*proof.repeated_in, *repeating.ids})),
        probes=proof.probes,
        out_of_reach=(
            *engine.ledger.out_of_reach(),
            *_OUT_OF_REACH,
            *([] if is_meant else _originals(engine, named)),
            *proof.reasons,
            *repeating.unsearched,
            *([unmarked] if unmarked else []),
        ),
        remaining=remaining,
        edited=tuple(one.written for one in edits if one.written),
        lost_edits=sum(one.lost for one in edits),
    )


def erase_scope(engine: Engine, scope: str, *, reason: str) -> ErasureReceipt:
    """Erase all objects and the feedback of a scope and of the scopes below it, as `erase` does.

    Raises `InvalidInput` for the root, and `NotFound` if the scope contains nothing.
    """
    ScopeContents.of(engine, scope)
    selected = engine.ledger.select(Selection(scope, descend=True))
    items = [item for item in selected if is_within(item.scope, scope)]
    check_may_erase(engine, items)
    if engine.feedback:
        erase_below(engine.feedback, scope)
    _clear_leases(engine, scope)
    receipt = erase(engine, [item.id for item in items], reason=reason)
    left = Probe(name="objects of the scope", found=sum(_counts_within(engine, scope).values()))
    return receipt.model_copy(update={"probes": (*receipt.probes, left)})


def _clear_leases(engine: Engine, scope: str) -> None:
    """Release the leases that name a scope or one below it; their holders stop at the next renewal."""
    names_scope = re.compile(f":{re.escape(scope)}([/:]|$)")
    for lease in engine.leases.held():
        if names_scope.search(lease.name):
            engine.leases.clear(lease.name)


@dataclass(frozen=True, slots=True)
class ScopeContents:
    """The objects of a scope and of the scopes below it."""

    scope: str
    counts: Mapping[tuple[str, str], int]
    """Their number by scope and type."""

    @classmethod
    def of(cls, engine: Engine, scope: str) -> "ScopeContents":
        """Return the contents of a scope.

        Raises `InvalidInput` for an invalid scope and for the root, and `NotFound` if there are none.
        """
        if parse_scope(scope) == ROOT:
            hint = "Give a scope such as /users/ada, or delete the files of the space."
            raise InvalidInput("The scope / is the whole space.", hint=hint)
        counts = _counts_within(engine, scope)
        if not counts:
            # A similar scope may belong to another person: suggest none for an erasure.
            raise NotFound(f"The scope {scope} contains nothing.", hint="Give the exact scope.")
        return cls(scope, counts)

    def __str__(self) -> str:
        types: Counter[str] = Counter()
        for (_, kind), number in self.counts.items():
            types[kind.replace("_", " ")] += number
        counted = ", ".join(counted_things(number, kind) for kind, number in types.items())
        below = sorted({scope for scope, _ in self.counts} - {self.scope})
        return f"all of {self.scope} ({counted})" + (f", including {listed_up_to(_MAX_SCOPES, below)}" if below else "")


_MAX_SCOPES = 10


def _counts_within(engine: Engine, ancestor: str) -> Mapping[tuple[str, str], int]:
    counts: Counter[tuple[str, str]] = Counter()
    for (scope, kind, _), number in engine.ledger.counts().items():
        if is_within(scope, ancestor):
            counts[scope, kind] += number
    return counts


def check_may_erase(engine: Engine, items: Sequence[Object]) -> None:
    """Raise `Denied` if the author may not erase objects, or not without a review."""
    patch, policy = _patch_erasing(engine, items, ""), engine.ledger.policy
    check_trust(patch, policy)
    check_gate(patch, policy)


def _patch_erasing(engine: Engine, items: Sequence[Object], reason: str) -> Patch:
    erasing = tuple(Erase(id=item.id, expected_revision=item.revision) for item in items)
    return new_patch(engine, erasing, author=engine.author, reason=reason).value


def _with_segments(source: Source, is_meant: IsMeant | None) -> Source:
    return source.model_copy(update={"segments": tuple(filter(is_meant, source.segments))})


EraseTurns = Callable[[Engine, Sequence[Source], Collection[int], str], ErasureReceipt | None]
"""Erases turns of one conversation, given its sources and a reason; `None` if it is not the extension's."""


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """An object to erase, or a single turn of a conversation."""

    item: Object
    turn: int | None = None

    @classmethod
    def of(cls, engine: Engine, text: str) -> "ErasureTarget":
        """Return the target of an id or a hit. Raises as `place_given`; `NotFound` if the hit is gone."""
        identity, segment_id = place_given(engine, text)
        item = engine.ledger.get(identity)
        if not (segment_id and isinstance(item, Source) and _turns(item)):
            return cls(item)
        for segment in item.segments:
            if segment.segment_id == segment_id and isinstance(segment.locator, Turn):
                return cls(item, segment.locator.turn)
        raise NotFound(f"{identity} has no segment {segment_id} now.", hint="Search again, and give the new hit.")

    def __str__(self) -> str:
        name = f"{label(title_of(self.item))} ({self.item.id})"
        if self.turn is not None:
            return f"message {self.turn} of {name}"
        turns = _turns(self.item)
        return f"{name} with {counted_things(len(turns), 'message')}" if turns else name


def _turns(item: Object) -> set[int]:
    segments = item.segments if isinstance(item, Source) else ()
    return {one.locator.turn for one in segments if isinstance(one.locator, Turn)}


def _erase(call: Call, given: EraseInput, options: ReasonOptions) -> ErasureReceipt:
    if given.scope is not None:
        return erase_scope(call.engine, given.scope, reason=options.reason)
    targets = [ErasureTarget.of(call.engine, one) for one in given.ids]
    if any(target.turn is not None for target in targets):
        return _erase_turns(call.engine, targets, options.reason)
    return erase(call.engine, [target.item.id for target in targets], reason=options.reason)


def _erase_turns(engine: Engine, targets: Sequence[ErasureTarget], reason: str) -> ErasureReceipt:
    """Erase single turns. Raises `InvalidInput` if other content would be erased with them."""
    turns = {target.turn for target in targets if target.turn is not None}
    sources = [target.item for target in targets if isinstance(target.item, Source) and target.turn is not None]
    if len(sources) < len(targets) or len({source.scope for source in sources}) > 1:
        raise InvalidInput(
            "Messages cannot be erased in one call with other objects or messages of other conversations.",
            hint="Erase them one after the other.",
        )
    for erase_turns in brought("erase_turns"):
        receipt: ErasureReceipt | None = erase_turns(engine, sources, turns, reason)
        if receipt:
            return receipt
    for source in sources:
        if others := len(_turns(source) - turns):
            raise InvalidInput(
                f"The hit is one message of {label(title_of(source))}; {counted_things(others, 'other message')} "
                "would be erased with it.",
                hint=f"To erase the whole conversation: treering erase {source.id}",
            )
    return erase(engine, [source.id for source in sources], reason=reason)


ERASE = Operation.of(
    "erase", "Erase objects permanently, everywhere, with proof.", _erase, rights=replace(DECIDES, destroys=True)
)


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of the search for erased objects and texts; empty if it failed."""

    repeated_in: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    reasons: tuple[str, ...] = ()


def proof_of(engine: Engine, items: Sequence[Object], texts: set[str]) -> Proof:
    """Search everywhere for objects and their texts."""
    ids = tuple(item.id for item in items)
    sources = [source_id for _, source_id in engine.ledger.sources_with(texts)]
    probes = _probes(engine, ids, texts, sum(source_id in ids for source_id in sources))
    return Proof(tuple(sorted(set(sources))), probes, _reasons(engine, items))


def _originals(engine: Engine, items: Sequence[Object]) -> list[str]:
    """Return the places of the originals: files in the caller's work tree, otherwise origins."""
    sources = [item for item in items if isinstance(item, Source)]
    return [
        f"the original at {file.place}; git may have earlier versions"
        if (file := _file_in_work_tree(engine, item))
        else f"the original at {item.origin}"
        for item in sources
    ]


def _file_in_work_tree(engine: Engine, source: Source) -> NamedFile | None:
    tree = tree_of(engine, source.scope)
    if tree is None or tree.here is None or engine.evidence_files is None or not tree.view.has(source.origin):
        return None
    return engine.evidence_files.find(str(tree.here.top / tree.view.path(source.origin)))


def _reasons(engine: Engine, items: Sequence[Object]) -> tuple[str, ...]:
    """Return a note of audit events whose reasons, which cannot be changed, contain an origin or a title."""
    numbers: dict[int, None] = {}
    for item in items:
        names = [name for name in (title_of(item), item.origin if isinstance(item, Source) else "") if name]
        events = engine.ledger.events_of(item.id)
        numbers |= {event.seq: None for event in events if any(name in event.reason for name in names)}
    if not numbers:
        return ()
    shown = [str(seq) for seq in sorted(numbers)]
    return (f"the reasons of audit events {', '.join(shown)}, which mention it",)


def _rows_left(engine: Engine, identities: Sequence[str]) -> int:
    """Count the index rows of erased objects, after bringing the index up to date if necessary."""
    upkeep = engine.index.upkeep
    if upkeep.remains(identities):
        make_whole(engine.index)
    return upkeep.remains(identities)


def _probes(engine: Engine, identities: Sequence[str], texts: set[str], segments: int) -> tuple[Probe, ...]:
    gone, rows = set(identities), _rows_left(engine, identities)
    revisions = [_revisions_of(engine, identity) for identity in identities]
    return (
        Probe(name="object rows", found=len(engine.ledger.heads(identities))),
        Probe(name="revisions", found=sum(map(bool, revisions))),
        Probe(name="stored records", found=sum(revisions) + segments),
        Probe(name="full text", found=sum(_is_findable(engine, text, gone) for text in texts)),
        Probe(name="index rows", found=rows),
        Probe(name="jobs", found=engine.jobs.remains(identities)),
    )


def _revisions_of(engine: Engine, identity: str) -> int:
    try:
        return len(engine.ledger.history(identity))
    except NotFound:
        return 0


def _is_findable(engine: Engine, text: str, gone: set[str]) -> bool:
    heads = passages_with(engine.index, text, Reach("/", descend=True, withdrawn=True))
    return any(head.object_id in gone for head in heads or ())

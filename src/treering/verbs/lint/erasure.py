"""Erasing objects for good, proving that they are gone, and naming what is out of reach."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from treering.core.errors import InvalidInput, NotFound, TreeringError
from treering.core.evidence import Segment
from treering.core.objects import Object, Source, title_of
from treering.core.patch import Erase
from treering.core.writing.draft import Erased
from treering.ports.ledger import Record
from treering.ports.passages import Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import look_up, make_whole
from treering.retrieval.text.analysis import query_terms
from treering.verbs.crystallize.review import ReasonOptions
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.engine import Engine
from treering.verbs.envelope import DECIDES, Call, Operation, Value
from treering.verbs.ingest.erased import erase_and_remember, passages_elsewhere
from treering.verbs.naming import id_given

_PROBED = 1000

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
    """Knowledge that rested on what was erased: it is stale, and may repeat its words; erase it too if it does."""
    repeated_in: tuple[str, ...]
    """Other objects that hold a segment with the same words."""
    probes: tuple[Probe, ...]
    out_of_reach: tuple[str, ...]
    remaining: tuple[str, ...] = ()
    """What is erased and still to be overwritten in files, because others use the space; and a proof that failed.

    It is overwritten by the next erasure, by the next opening of the space, or by `lint repair` with `apply`.
    """

    @property
    def clean(self) -> bool:
        """Tell whether the probes were made, and none found anything."""
        return bool(self.probes) and all(probe.found == 0 for probe in self.probes)


class EraseInput(Value):
    """What to erase."""

    # That there is one is only told here: `erase` says better what is wrong.
    ids: tuple[str, ...] = Field(description="Ids of the objects.", json_schema_extra={"minItems": 1})


def erase(
    engine: Engine, identities: Sequence[str], *, reason: str, is_meant: Callable[[Segment], bool] = lambda _: True
) -> ErasureReceipt:
    """Erase objects with all their revisions, and the copies a merge archived in their favor; look for them everywhere.

    `is_meant`: which segments of sources to remember as erased; the others are stored in another source. Raises
    `InvalidInput` without ids, `NotFound` for an unknown one and `Denied` if the channel may not erase; nothing was
    changed then.
    """
    named = [engine.ledger.get(identity) for identity in dict.fromkeys(identities)]
    if not named:
        raise InvalidInput("No object ids to erase were given.", hint="Give object ids, such as src:01k….")
    erasing = tuple(Erase(id=item.id, expected_revision=item.revision) for item in named)
    patch = new_patch(engine, erasing, author=engine.author, reason=reason).value
    items = [write.before for write in engine.ledger.preview(patch).writes if isinstance(write, Erased)]
    revisions = [revision for item in items for revision in engine.ledger.history(item.id)]
    texts = {passage.text for revision in revisions for passage in passages_of(revision)}
    sources = [_with_segments(revision, is_meant) for revision in revisions if isinstance(revision, Source)]
    repeated = passages_elsewhere(engine.ledger, sources)
    receipt, unmarked = erase_and_remember(engine, sources, lambda: engine.ledger.commit(patch), repeated=repeated)
    # From here on it is erased: what fails now is said in the receipt.
    remaining = engine.ledger.compact()
    ids = tuple(item.id for item in items)
    try:
        proof = proof_of(engine, items, texts)
    except TreeringError as error:
        proof = Proof()
        remaining += (f"the proof: the search for erased content failed ({error.message})",)
    return ErasureReceipt(
        ids=ids,
        patch_id=receipt.patch_id,
        sequence=receipt.sequence,
        staled=receipt.staled,
        repeated_in=proof.repeated_in,
        probes=proof.probes,
        out_of_reach=(*_OUT_OF_REACH, *_origins(items), *proof.reasons, *([unmarked] if unmarked else [])),
        remaining=remaining,
    )


def _with_segments(source: Source, is_meant: Callable[[Segment], bool]) -> Source:
    return source.model_copy(update={"segments": tuple(filter(is_meant, source.segments))})


def _erase(call: Call, given: EraseInput, options: ReasonOptions) -> ErasureReceipt:
    ids = [id_given(call.engine, one) for one in given.ids]
    return erase(call.engine, ids, reason=options.reason)


ERASE = Operation(
    "erase",
    "Erase objects permanently, everywhere, with proof.",
    EraseInput,
    ReasonOptions,
    ErasureReceipt,
    _erase,
    rights=replace(DECIDES, destroys=True),
)


@dataclass(frozen=True, slots=True)
class Proof:
    """What looking for objects and their texts found; empty where it failed."""

    repeated_in: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    reasons: tuple[str, ...] = ()


def proof_of(engine: Engine, items: Sequence[Object], texts: set[str]) -> Proof:
    """Look everywhere for objects and the texts they had; what was erased is found nowhere."""
    ids = tuple(item.id for item in items)
    held = _held(engine.ledger.records(), frozenset(ids), texts)
    probes = _probes(engine, ids, texts, held)
    return Proof(held.repeated_in, probes, _reasons(engine, items))


def _origins(items: Sequence[Object]) -> list[str]:
    return [f"the original at {item.origin}" for item in items if isinstance(item, Source)]


def _reasons(engine: Engine, items: Sequence[Object]) -> tuple[str, ...]:
    """Name the reasons in the audit log, which cannot be changed, that repeat an origin or a title."""
    found: dict[int, None] = {}
    for item in items:
        names = [name for name in (title_of(item), item.origin if isinstance(item, Source) else "") if name]
        events = engine.ledger.events_of(item.id)
        found |= {event.seq: None for event in events if any(name in event.reason for name in names)}
    if not found:
        return ()
    shown = [str(seq) for seq in sorted(found)]
    return (f"the reasons of audit events {', '.join(shown)}, which mention it",)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a look through everything the ledger holds found."""

    records: int
    """How many revisions and segments are those of erased objects."""
    repeated_in: tuple[str, ...]
    """The sources that hold one of the erased texts."""


def _held(records: Iterable[Record], gone: frozenset[str], texts: set[str]) -> _Held:
    """Look once through all records, one at a time: a space is larger than memory."""
    found, repeated = 0, dict[str, None]()
    for record in records:
        row = record.row
        match record.table:
            case "revision":
                found += row["id"] in gone
            case "segment":
                found += row["source_id"] in gone
                if row["text"] in texts:
                    repeated[row["source_id"]] = None
            case _:
                pass
    return _Held(found, tuple(repeated))


def _rows_left(engine: Engine, identities: Sequence[str]) -> int:
    """Count what the index holds of the erased. One that was not told of it yet is told first."""
    upkeep = engine.index.upkeep
    if upkeep.remains(identities):
        make_whole(engine.index)
    return upkeep.remains(identities)


def _probes(engine: Engine, identities: Sequence[str], texts: set[str], held: _Held) -> tuple[Probe, ...]:
    gone, rows = set(identities), _rows_left(engine, identities)
    return (
        Probe(name="object rows", found=len(engine.ledger.heads(identities))),
        Probe(name="revisions", found=sum(_remembers(engine, identity) for identity in identities)),
        Probe(name="stored records", found=held.records),
        Probe(name="full text", found=sum(_found(engine, text, gone) for text in texts)),
        Probe(name="index rows", found=rows),
        Probe(name="jobs", found=engine.jobs.remains(identities)),
    )


def _remembers(engine: Engine, identity: str) -> bool:
    try:
        return bool(engine.ledger.history(identity))
    except NotFound:
        return False


def _found(engine: Engine, text: str, gone: set[str]) -> bool:
    reach = Reach("/", descend=True, withdrawn=True)
    terms = query_terms(text)
    found = look_up(engine.index, TextRequest(reach, _PROBED, words=(*terms.words, *terms.phrases)))
    return any(head.object_id in gone for head in found)

"""Erasing objects for good, proving that they are gone, and naming what is out of reach."""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.errors import InvalidInput, NotFound, TreeringError
from treering.core.objects import Object, Source, title_of
from treering.core.patch import Erase, Patch
from treering.derived.analysis import query_terms
from treering.derived.passages import passages_of
from treering.ports.clock import fresh_id
from treering.ports.reach import Reach
from treering.tools.engine import Engine
from treering.tools.envelope import Value

_PROBED = 1000

_OUT_OF_REACH = (
    "backups and snapshots of the space's files",
    "exports made before this",
    "copies that other programs or model providers received",
)


class Probe(Value):
    """One way of looking for what was erased, and how often it was found."""

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


def erase(engine: Engine, identities: Sequence[str], *, reason: str) -> ErasureReceipt:
    """Erase objects with all their revisions, then look for them everywhere.

    Raises `InvalidInput` without ids, `NotFound` for an unknown one and `Denied` where the channel may not erase;
    nothing was changed then.
    """
    items = [engine.ledger.get(identity) for identity in dict.fromkeys(identities)]
    if not items:
        raise InvalidInput("No ids of objects to erase were given.", hint="Give the ids of objects, such as src:01k….")
    texts = {text for item in items for text in _texts(engine, item)}
    patch = Patch(
        id=fresh_id("patch", engine.clock),
        source=engine.author,
        operations=tuple(Erase(id=item.id, expected_revision=item.revision) for item in items),
        reason=reason,
        created_at=engine.clock.now(),
    )
    receipt = engine.ledger.commit(patch)
    # From here on it is erased: what fails now is said in the receipt.
    remaining = engine.ledger.compact()
    ids = tuple(item.id for item in items)
    try:
        proof = _Proof(_repetitions(engine, texts), _probes(engine, ids, texts), _reasons(engine, items))
    except TreeringError as error:
        proof = _Proof()
        remaining += (f"the proof: looking for what was erased failed ({error.message})",)
    return ErasureReceipt(
        ids=ids,
        patch_id=receipt.patch_id,
        sequence=receipt.sequence,
        staled=receipt.staled,
        repeated_in=proof.repeated_in,
        probes=proof.probes,
        out_of_reach=(*_OUT_OF_REACH, *_origins(items), *proof.reasons),
        remaining=remaining,
    )


@dataclass(frozen=True, slots=True)
class _Proof:
    """What looking for the erased content found; empty where it failed."""

    repeated_in: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    reasons: tuple[str, ...] = ()


def _texts(engine: Engine, item: Object) -> set[str]:
    return {passage.text for revision in engine.ledger.history(item.id) for passage in passages_of(revision)}


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
    return (f"the reasons given for audit events {', '.join(shown)}, which name it",)


def _repetitions(engine: Engine, texts: set[str]) -> tuple[str, ...]:
    rows = (record.row for record in engine.ledger.records() if record.table == "segment")
    return tuple(dict.fromkeys(row["source_id"] for row in rows if row["text"] in texts))


def _probes(engine: Engine, identities: Sequence[str], texts: set[str]) -> tuple[Probe, ...]:
    gone = set(identities)
    rows = [record for record in engine.ledger.records() if record.table in {"revision", "segment"}]
    return (
        Probe(name="object rows", found=len(engine.ledger.heads(identities))),
        Probe(name="revisions", found=sum(_remembers(engine, identity) for identity in identities)),
        Probe(name="stored records", found=sum(row.row.get("id", row.row.get("source_id")) in gone for row in rows)),
        Probe(name="full text", found=sum(_found(engine, text, gone) for text in texts)),
        Probe(name="index rows", found=engine.index.remains(identities)),
        Probe(name="jobs", found=engine.jobs.remains(identities)),
    )


def _remembers(engine: Engine, identity: str) -> bool:
    try:
        return bool(engine.ledger.history(identity))
    except NotFound:
        return False


def _found(engine: Engine, text: str, gone: set[str]) -> bool:
    reach = Reach("/", descend=True, withdrawn=True)
    hits = engine.index.by_words(query_terms(text), reach=reach, limit=_PROBED)
    return any(head.object_id in gone for head in engine.index.heads([hit.key for hit in hits]).values())

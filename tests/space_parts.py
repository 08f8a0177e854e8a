"""Short ways to fill a space in tests and to look into it."""

import treering
from treering.core.patch import Create, MoveScope, Patch
from treering.ports.ledger import Selection
from treering.ports.runtime import fresh_id
from treering.testing.fakes import HashingEmbedder


def open_space(address=":memory:", **options):
    """Open a space that embeds by hashing words, and only when asked to."""
    return treering.open(address, **{"background": False, "embedder": HashingEmbedder(), **options})


def note(space, text, *, origin="", scope="/", **fields):
    """Ingest a text; return the evidence its first segment makes."""
    item = {"text": text, "origin": origin, **fields}
    report = space.ingest("source", scope=scope, input={"items": [item]})
    (result,) = report.items
    source = space.engine.ledger.get(result.source_id)
    return {"source_id": source.id, "segment_id": source.segments[0].segment_id}


def decide(space, title, *evidence, scope="/", options=None, **fields):
    """Crystallize a decision; return its id."""
    given = {
        "kind": "decision",
        "title": title,
        "payload": {"question": f"Which way for {title}?", "outcome": title},
        "evidence_refs": list(evidence),
        **({"status": "active"} if evidence else {}),
        **fields,
    }
    return only_id(space.crystallize("knowledge", scope=scope, input=given, options=options or {}), "know:")


def state_fact(space, subject, predicate, value, *evidence, scope="/", **fields):
    """Crystallize a fact with a value; return its id."""
    payload = {"subject": subject, "predicate": predicate, "value": value}
    title = f"{subject} {predicate} {value}"
    return decide(space, title, *evidence, scope=scope, kind="fact", payload=payload, **fields)


def task(space, title, *, scope="/", **fields):
    """Open a work item; return its id."""
    return only_id(space.crystallize("work_item", scope=scope, input={"title": title, **fields}), "work:")


def only_id(report, prefix):
    """Return the one id with this prefix that a report names."""
    (identity,) = (identity for identity in report.ids if identity.startswith(prefix))
    return identity


def read(space, identity):
    """Read an object from the ledger."""
    return space.engine.ledger.get(identity)


def status(space, *identities):
    """Return the statuses of objects; of a single one, its status."""
    found = [read(space, identity).status for identity in identities]
    return found if len(found) > 1 else found[0]


def records(space):
    """Return everything a space holds."""
    return list(space.engine.ledger.records())


def all_of(space, kind, scope="/"):
    """Return all objects of a type at and below a scope."""
    return list(space.engine.ledger.select(Selection(scope=scope, descend=True, types=(kind,))))


def put(space, *objects):
    """Commit objects made by hand as one patch."""
    return _commit(space, [Create(object=item) for item in objects])


def move(space, identity, to):
    """Move an object to another scope, whatever refers to it."""
    operation = MoveScope(id=identity, expected_revision=read(space, identity).revision, to=to)
    return _commit(space, [operation])


def _commit(space, operations):
    clock, author = space.engine.clock, space.engine.author
    return space.engine.ledger.commit(
        Patch(id=fresh_id("patch", clock), source=author, operations=operations, created_at=clock.now())
    )


def node_called(space, name):
    """Return the one node with a name that is active."""
    (found,) = [item for item in all_of(space, "node") if item.name == name and item.status == "active"]
    return found

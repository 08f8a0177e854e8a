"""What planning a patch asks of a space, foreseen: asked together, it is one round trip and not many.

Whatever is not foreseen is asked when it is wanted, and what is foreseen in vain costs little: nothing here has to be
exact.
"""

from collections.abc import Iterable

from treering.core.objects import Knowledge, Node, Object, Source
from treering.core.patch import Create, Patch
from treering.edges.stores.postgres.object_reads import ObjectReads


def expect(reads: ObjectReads, patch: Patch) -> None:
    """Ask what the operations of a patch are about. The answers are not looked at."""
    named: set[str] = set()
    for operation in patch.operations:
        if isinstance(operation, Create):
            _expect_new(reads, operation.object)
            named |= _grounds(operation.object)
        elif identity := getattr(operation, "id", ""):
            expect_change(reads, [identity])
    for identity in sorted(named):
        reads.expect(identity)
        reads.scope_of(identity)


def expect_change(reads: ObjectReads, identities: Iterable[str]) -> None:
    """Ask what changing objects asks."""
    for identity in identities:
        reads.expect(identity)
        reads.scope_of(identity)
        reads.dependents(identity)


def _expect_new(reads: ObjectReads, item: Object) -> None:
    reads.ever_existed(item.id)
    match item:
        case Source():
            reads.source_by_origin(item.scope, item.origin)
        case Node():
            reads.node_by_slug(item.scope, item.kind, item.slug)
        case Knowledge():
            reads.knowledge_by_duplicate_key(item.duplicate_key())
            if key := item.claim_key():
                reads.knowledge_by_claim_key(key)


def _grounds(item: Object) -> set[str]:
    """Return the ids of what a new piece of knowledge rests on."""
    if not isinstance(item, Knowledge):
        return set()
    return {*item.derived_from, *(ref.source_id for ref in item.evidence_refs)}

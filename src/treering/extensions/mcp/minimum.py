"""The fields that every object of an answer contains, even if they are empty."""

from collections.abc import Mapping

MINIMUM_FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "source": "id kind origin title fingerprint content_type payload segments metadata status captured_at "
        "updated_at",
        "segment": "segment_id locator excerpt hash",
        "node": "id kind name slug aliases summary status created_at updated_at",
        "knowledge": "id kind title summary subject_refs evidence_refs payload status confidence valid_from "
        "valid_until last_verified_at created_at updated_at",
        "activity": "id kind title summary status started_at ended_at related_node_refs related_work_item_refs "
        "source_refs produced_object_refs artifact_refs created_at updated_at",
        "work_item": "id kind title summary status lifecycle_state priority owner_refs related_node_refs "
        "related_knowledge_refs source_refs depends_on blocked_by parent_ref child_refs resolution due_at opened_at "
        "updated_at",
        "evidence": "source_id segment_id role",
        "pack": "id task summary scope items conflicts missing_context recommended_next_reads citations generated_at "
        "expires_at",
        "patch": "id source operations created_at",
        "event": "id event_type actor target before after reason timestamp",
    }.items()
}
"""The guaranteed fields by type. A value is of a type if it has all its fields."""


def minimum_of(value: object) -> frozenset[str]:
    """Return the minimum fields of a value of JSON data; none for a value that is no object of an answer."""
    if not isinstance(value, Mapping):
        return frozenset()
    return next((fields for fields in MINIMUM_FIELDS.values() if fields <= value.keys()), frozenset())

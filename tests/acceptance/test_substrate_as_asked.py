"""The names of the substrate, word for word as they were asked for."""

from typing import get_args

import pytest

from space_parts import put
from treering.core.audit import AuditEvent
from treering.core.canonical import PREFIXES
from treering.core.errors import IllegalTransition, InvalidInput, InvalidPatch
from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import PAYLOADS, Activity, Knowledge, Node, Source, WorkItem
from treering.core.patch import Patch, Transition, Update
from treering.retrieval.search.packing import ContextPack
from treering.testing.builders import Builder
from treering.verbs.catalog import TOOLS
from treering.verbs.envelope import Envelope

FIELDS = {
    Source: "id kind origin title fingerprint content_type payload segments metadata status captured_at updated_at",
    Segment: "segment_id locator excerpt hash",
    Node: "id kind name slug aliases summary status created_at updated_at",
    Knowledge: (
        "id kind title summary subject_refs evidence_refs payload status confidence valid_from valid_until "
        "last_verified_at created_at updated_at"
    ),
    Activity: (
        "id kind title summary status started_at ended_at related_node_refs related_work_item_refs source_refs "
        "produced_object_refs artifact_refs created_at updated_at"
    ),
    WorkItem: (
        "id kind title summary status lifecycle_state priority owner_refs related_node_refs related_knowledge_refs "
        "source_refs depends_on blocked_by parent_ref child_refs resolution due_at opened_at updated_at"
    ),
    EvidenceRef: "source_id segment_id",
    ContextPack: (
        "id task summary scope items conflicts missing_context recommended_next_reads citations generated_at expires_at"
    ),
    Patch: "id source operations created_at",
    AuditEvent: "id event_type actor target before after reason timestamp",
    Envelope: "mode scope input options",
}
KINDS = {
    Source: "repo file pdf web markdown note openapi office conversation meeting_record",
    Node: "project repo module service api document paper concept person team component dataset spec",
    Activity: "episode debug review research implementation meeting reading",
    WorkItem: "task requirement issue bug improvement question investigation",
}
STATUSES = {
    Source: "active invalid archived",
    Node: "active merged archived",
    Knowledge: "candidate active contested superseded stale archived",
    Activity: "draft finalized archived",
    WorkItem: "open in_progress blocked resolved closed cancelled",
}
PAYLOAD_FIELDS = {
    "fact": "subject predicate object value",
    "procedure": "steps preconditions expected_outcome",
    "decision": "question outcome rationale alternatives",
    "constraint": "rule scope violation_impact",
    "preference": "statement scope",
}
OF_NOTICES = {"withheld"}
"""The status of a source that another person does not share: it is only announced here."""
MODES = {
    "ingest": "source path repo url status",
    "query": "context search page related recent expand",
    "crystallize": "activity knowledge work_item promote supersede",
    "lint": "structure semantic repair reindex audit",
}


@pytest.mark.parametrize("cls", FIELDS, ids=lambda cls: cls.__name__)
def test_what_is_kept_has_the_fields_asked_for(cls):
    assert set(FIELDS[cls].split()) <= set(cls.model_fields)


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_kinds_are_those_requested_and_no_others(cls):
    assert set(get_args(cls.model_fields["kind"].annotation)) == set(KINDS[cls].split())


@pytest.mark.parametrize("cls", STATUSES, ids=lambda cls: cls.__name__)
def test_statuses_are_those_requested_and_no_others(cls):
    assert set(get_args(cls.model_fields["status"].annotation)) - OF_NOTICES == set(STATUSES[cls].split())


@pytest.mark.parametrize("cls", STATUSES, ids=lambda cls: cls.__name__)
def test_a_type_takes_no_field_kind_or_status_of_another(space, cls):
    make = Builder(space.engine.clock)
    source = make.source("Ada keeps bees.")
    fact = make.fact("Ada", "keeps", "bees", make.evidence(source))
    made = {type(one): one for one in (source, make.node("Ada"), fact, make.activity("A visit"), make.work("A task"))}
    put(space, *made.values())
    before = space.engine.ledger.get(made[cls].id)

    def refused(operation, **given):
        with pytest.raises((InvalidPatch, InvalidInput, IllegalTransition)):
            space.engine.ledger.commit(make.patch(operation(id=before.id, expected_revision=before.revision, **given)))

    for other in made.keys() - {cls}:
        fields = set(FIELDS[other].split()) - set(cls.model_fields)
        kinds = set(get_args(other.model_fields["kind"].annotation)) - set(
            get_args(cls.model_fields["kind"].annotation)
        )
        statuses = set(STATUSES[other].split()) - set(STATUSES[cls].split())
        assert fields
        for name in fields:
            refused(Update, changes={name: getattr(made[other], name)})
        for kind in kinds:
            refused(Update, changes={"kind": kind})
        for status in statuses:
            refused(Transition, to=status)
    assert space.engine.ledger.get(before.id) == before


def test_work_has_a_lifecycle_state_besides_its_status():
    assert set(get_args(WorkItem.model_fields["lifecycle_state"].annotation)) == {"active", "archived"}


@pytest.mark.parametrize("kind", PAYLOAD_FIELDS)
def test_each_kind_of_knowledge_has_the_payload_requested(kind):
    assert set(PAYLOADS[kind].model_fields) == set(PAYLOAD_FIELDS[kind].split())


def test_a_source_has_one_of_the_content_types_requested():
    asked = {"text", "markdown", "structured", "repo_map", "binary_stub"}
    assert set(get_args(Source.model_fields["content_type"].annotation)) == asked


def test_ids_begin_with_the_prefixes_requested():
    assert {"src", "node", "know", "act", "work", "ctx", "patch", "aud"} <= {
        prefix.rstrip(":") for prefix in PREFIXES.values()
    }


@pytest.mark.parametrize("verb", MODES)
def test_each_tool_has_the_modes_requested(verb):
    assert set(MODES[verb].split()) <= set(TOOLS[verb].modes)

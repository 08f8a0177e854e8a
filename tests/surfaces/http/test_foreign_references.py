"""References to objects that a key cannot read, in every field that can hold one."""

import re

import pytest
from key_parts import guarded

from treering.core.writing.integrity import REFERENCE_FIELDS
from treering.verbs.crystallize.drafting import KnowledgeFields, WorkItemFields
from treering.verbs.crystallize.work import ActivityFields

INPUTS = {"knowledge": KnowledgeFields, "work_item": WorkItemFields, "activity": ActivityFields}
NO_REFERENCES = {"artifact_refs", "valid_from"}
REQUIRED = {
    "knowledge": {"kind": "preference", "title": "Lamps", "payload": {"statement": "Lamps are lit."}},
    "work_item": {"title": "Fix"},
    "activity": {"title": "Looked"},
}
OTHER_KNOWLEDGE = {**REQUIRED["knowledge"], "payload": {"statement": "Desks are lit."}}
"""Knowledge that is no duplicate, which would receive the references."""
FIELDS = [
    (mode, field)
    for mode, model in INPUTS.items()
    for field in model.model_fields
    if re.search("_(refs?|from|on|by)$", field) and field not in NO_REFERENCES
]
NEVER_EXISTED = "01kefz5b1jt7w2y9a5m3x8q6rv"
OBJECT_ID = re.compile(r"\b[a-z]+:[0-9a-z]{26}\b")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A server, a key of `/desk/acme`, its objects by mode, and others' and erased ones by scope and type."""
    with guarded(tmp_path_factory.mktemp("foreign")) as server:
        boss = server.key("admin", channel="user")
        hidden, erased = {}, {}
        for scope, ids in (("/desk", hidden), ("/desk/bolt", hidden), ("/erased", erased)):
            for mode, given in REQUIRED.items():
                made = server.verb(boss, "crystallize", mode=mode, scope=scope, input=given).json()
                for identity in made["ids"]:
                    ids[scope, identity.split(":")[0]] = identity
        server.ask(boss, "POST", "/v1/erase", json={"input": {"scope": "/erased"}})
        key, own = server.key("write", scope="/desk/acme"), {}
        for mode, given in {**REQUIRED, "knowledge": OTHER_KNOWLEDGE}.items():
            own[mode] = server.verb(key, "crystallize", mode=mode, input=given).json()["ids"][-1]
        yield server, key, own, hidden, erased


def test_every_reference_field_is_probed():
    set_by_treering = {("work_item", "child_refs")}
    known = {(kind, field) for kind, fields in REFERENCE_FIELDS.items() for field in fields} - set_by_treering
    assert known <= set(FIELDS)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(("mode", "field"), FIELDS)
def test_references_to_hidden_erased_and_unknown_ids_get_the_same_answer(desk, mode, field, dry_run):
    server, key, own, hidden, erased = desk
    targets = [*hidden.values(), *erased.values(), *(f"{kind}:{NEVER_EXISTED}" for _, kind in erased)]
    answers = set()
    for given in (REQUIRED[mode], {"id": own[mode]}):
        for target in targets:
            if field == "evidence_refs":
                value = [{"source_id": target, "segment_id": "seg_0000000000000"}]
            else:
                value = target if field == "parent_ref" else [target]
            refused = server.verb(
                key, "crystallize", mode=mode, input={**given, field: value}, options={"dry_run": dry_run}
            )
            answers.add((refused.status_code, OBJECT_ID.sub("ID", refused.text)))
    assert len(answers) == 1, answers
    assert answers.pop()[0] == 422


@pytest.mark.parametrize("changes", [{"revision": 7, "status": "in_progress"}, {"status": "resolved"}])
def test_an_error_elsewhere_in_the_call_does_not_reveal_hidden_ids(desk, changes):
    server, key, own, hidden, _ = desk
    answers = set()
    for target in (*hidden.values(), f"work:{NEVER_EXISTED}"):
        refused = server.verb(
            key, "crystallize", mode="work_item", input={"id": own["work_item"], "depends_on": [target], **changes}
        )
        answers.add((refused.status_code, OBJECT_ID.sub("ID", refused.text)))
    assert len(answers) == 1


def test_links_to_hidden_and_unknown_ids_get_the_same_answer(desk):
    server, key, _, hidden, erased = desk
    answers = set()
    for target in (*hidden.values(), *erased.values(), f"work:{NEVER_EXISTED}"):
        given = {"title": "Fix", "links": [{"type": "about", "target": target}]}
        refused = server.verb(key, "crystallize", mode="work_item", input=given)
        answers.add((refused.status_code, OBJECT_ID.sub("ID", refused.text)))
    assert len(answers) == 1, answers
    assert answers.pop()[0] == 404

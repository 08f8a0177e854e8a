"""Every object of an answer has its minimum fields, also where they are empty."""

import pytest

import treering
from treering.core.audit import AuditEvent
from treering.core.evidence import EvidenceRef, Segment
from treering.core.objects import TYPES
from treering.core.patch import Patch
from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.extensions.mcp.minimum import MINIMUM_FIELDS
from treering.ports.adapter import NoFiles
from treering.retrieval.search.packing import ContextPack

MODELS = {
    **TYPES,
    "segment": Segment,
    "evidence": EvidenceRef,
    "pack": ContextPack,
    "patch": Patch,
    "event": AuditEvent,
}


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    """Make one object of each type with nothing but what it cannot do without; return the address and their ids."""
    address = f"sqlite:{tmp_path_factory.mktemp('bare') / 'space.db'}"
    fact = {"kind": "fact", "title": "Lamp", "payload": {"subject": "lamp", "predicate": "is", "value": "green"}}
    new = {
        "node": {"kind": "concept", "name": "Lamp"},
        "knowledge": fact,
        "work_item": {"title": "Mend the lamp"},
        "activity": {"kind": "debug", "title": "Mended the lamp"},
    }
    with treering.open(address, background=False, channel="agent") as space:
        made = {mode: space.crystallize(mode, input=given) for mode, given in new.items()}
        note = space.ingest("source", input={"text": "The lamp is green.", "origin": "note:lamp"})
        told = {name: report.ids[0] for name, report in made.items()}
        yield {"address": address, "patch": made["node"].patch_id, "source": note.items[0].source_id, **told}


@pytest.fixture(scope="module")
def ask(ids):
    dispatcher = ToolDispatcher(ids["address"], NoFiles())

    def call(verb, mode, **given):
        answer = dispatcher.answer(
            verb, {"mode": mode, **given}, actor="ann", progress=lambda *_: None, check=lambda: None
        )
        assert not answer.is_error, answer.text
        return answer.data

    yield call
    dispatcher.close()


def test_table_of_minimum_fields_names_fields_of_the_models():
    assert {name: fields - MODELS[name].model_fields.keys() for name, fields in MINIMUM_FIELDS.items()} == {
        name: frozenset() for name in MODELS
    }


@pytest.mark.parametrize("name", TYPES)
def test_page_has_all_minimum_fields_of_its_object(ids, ask, name):
    item = ask("query", "page", input={"id": ids[name]})["object"]

    assert MINIMUM_FIELDS[name] <= item.keys()
    assert all(MINIMUM_FIELDS["segment"] <= segment.keys() for segment in item.get("segments", ()))


@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"source"}))
def test_expand_has_all_minimum_fields_of_its_objects(ids, ask, name):
    (item,) = ask("query", "expand", input={"ids": [ids[name]]})["items"]

    assert MINIMUM_FIELDS[name] <= item["object"].keys()


@pytest.mark.parametrize("task", ["mend the lamp", "the price of whale oil in 1840"])
def test_pack_has_all_minimum_fields(ask, task):
    assert MINIMUM_FIELDS["pack"] <= ask("query", "context", input={"task": task})["pack"].keys()


def test_audit_has_all_minimum_fields_of_events_and_patches(ids, ask):
    report = ask("lint", "audit", input={"id": ids["patch"]}, options={"max_tokens": 8_000})

    assert MINIMUM_FIELDS["patch"] <= report["patch"].keys()
    assert report["changes"]
    assert all(MINIMUM_FIELDS["event"] <= change.keys() for change in report["changes"])
    assert MINIMUM_FIELDS["node"] <= report["patch"]["operations"][0]["object"].keys()


def test_evidence_has_all_minimum_fields(ids, ask):
    (segment,) = ask("query", "page", input={"id": ids["source"]})["object"]["segments"]
    refs = [{"source_id": ids["source"], "segment_id": segment["segment_id"]}]
    rule = {"kind": "constraint", "title": "Green", "payload": {"rule": "Lamps are green."}, "evidence_refs": refs}
    made = ask("crystallize", "knowledge", input=rule)["ids"][0]

    (ref,) = ask("query", "page", input={"id": made})["object"]["evidence_refs"]

    assert MINIMUM_FIELDS["evidence"] <= ref.keys()


def test_minimum_fields_stay_where_an_answer_is_cut(ids, ask):
    items = [{"text": "green " * 40_000, "origin": "note:long", "metadata": {f"key {n}": n for n in range(2_000)}}]
    made = ask("ingest", "source", input={"items": items})["items"][0]["source_id"]

    report = ask("query", "page", input={"id": made})

    assert MINIMUM_FIELDS["source"] <= report["object"].keys()
    assert "Left out to fit" in report["warnings"][-1]


def test_other_empty_fields_are_omitted(ids, ask):
    report = ask("query", "page", input={"id": ids["node"]})

    assert not {"dependents", "links", "merged_into"} & (report.keys() | report["object"].keys())


def test_command_line_has_all_minimum_fields(ids, stage):
    for name in TYPES:
        data = stage.json("query", ids[name], "--mode", "page", "--space", ids["address"])

        assert MINIMUM_FIELDS[name] <= data["object"].keys()

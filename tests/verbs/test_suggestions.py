"""Whatever name an error suggests in place of a wrong one, the same call takes."""

import re

import pytest

import treering
from treering.core.objects import TYPES
from treering.testing import HashingEmbedder
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS, ActivityInput, NodeInput, WorkItemInput

NEW = {
    "node": {"kind": "concept", "name": "Hive"},
    "knowledge": {"kind": "decision", "title": "Hives", "payload": {"question": "Which?", "outcome": "Hives"}},
    "activity": {"title": "Looked at hives"},
    "work_item": {"title": "Look at hives"},
}
OWN = {"node": NodeInput, "activity": ActivityInput, "work_item": WorkItemInput}


@pytest.fixture(scope="module")
def space():
    with treering.open(":memory:", background=False, embedder=HashingEmbedder(), channel="user") as opened:
        yield opened


@pytest.fixture(scope="module")
def ids(space):
    return {mode: space.crystallize(mode, input=given).ids[-1] for mode, given in NEW.items()}


def misspelled(mode):
    """Return names that are nearly one of an object, of a new one, or of a call."""
    own = OWN.get(mode)
    described = NEW_OBJECT_FIELDS[own].model_fields if own else ()
    names = {*TYPES[mode].model_fields, *described, *(own.model_fields if own else ())}
    wrong = {
        one for name in names for one in (name[:-1], f"{name}s", f"{name}_", f"the_{name}", name[1:], name.upper())
    }
    return sorted((wrong | {"merge_into", "mergedinto", "merge", "link", "resolve"}) - names - {""})


def refusal(space, mode, given):
    try:
        space.crystallize(mode, input=given, options={"dry_run": True})
    except treering.TreeringError as error:
        return error
    return None


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("mode", NEW)
def test_a_suggested_name_is_accepted_by_the_same_call(space, ids, mode, is_new):
    base = NEW[mode] if is_new else {"id": ids[mode]}
    suggestions = set()
    for wrong in misspelled(mode):
        error = refusal(space, mode, {**base, wrong: "x"})
        assert error is not None, wrong
        suggestions |= set(re.findall(r"Did you mean '(.*)'\?", error.hint))
        if error.hint.startswith("Known: "):
            suggestions |= set(error.hint.removeprefix("Known: ").rstrip(".").split(", "))
    assert len(suggestions) > 4
    for name in suggestions - base.keys():
        error = refusal(space, mode, {**base, name: "x"})
        told = "" if error is None else f"{error.message} {error.details}"
        assert not re.search(rf"{name}[^.]*(not permitted|cannot be changed)|no .*{name}", told), (name, told)


def test_misspelled_merge_field_suggests_into(space, ids):
    for wrong in ("merged_into", "merge_into", "mergeinto"):
        error = refusal(space, "node", {"id": ids["node"], wrong: ids["node"]})
        assert error.hint == "Did you mean 'into'?", wrong


def test_a_wrong_name_inside_a_reference_is_corrected_there(space):
    for wrong, right in (("sourceid", "source_id"), ("segment", "segment_id"), ("segmentid", "segment_id")):
        reference = {"source_id": "src:x", "segment_id": "seg_x", wrong: "x"}
        error = refusal(space, "knowledge", {**NEW["knowledge"], "evidence_refs": [reference]})
        assert error.hint == f"Did you mean {right!r}?"

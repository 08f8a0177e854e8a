import copy
import pickle
import traceback

import pytest

from treering.core.errors import Conflict, InvalidInput, MissingExtra, TreeringError, as_sentence, nearest
from treering.core.field_names import names_beside
from treering.core.objects import Knowledge, Node, parse_object
from treering.core.policy import Policy


def shown(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("There is no mode 'serch'.", hint="Did you mean 'search'?"),
        MissingExtra("lz4", needed_for="memory.compression.algorithm=lz4"),
        Conflict("The object changed.", hint="Read it again.", details={"revision": 2}),
    ],
)
def test_a_traceback_shows_the_hint_once(error):
    assert shown(error).count(f"Hint: {error.hint}") == 1
    assert str(error) == error.message
    assert error.hint not in str(error)


def test_an_error_without_a_hint_has_no_note():
    assert "Hint" not in shown(TreeringError("Stopped."))


def test_a_copied_error_has_its_hint_once():
    error = InvalidInput("Wrong.", hint="Correct it.")
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (copied.message, copied.hint, shown(copied).count("Hint: ")) == ("Wrong.", "Correct it.", 1)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("It cannot be read: No such file..", "It cannot be read: No such file."),
        ("It refuses: Did you mean 'x'?.", "It refuses: Did you mean 'x'?"),
        ("It stops here …", "It stops here …"),
        ("It begins with ...", "It begins with ..."),
        ("One. Two.", "One. Two."),
    ],
)
def test_a_message_ends_with_one_full_stop(message, expected):
    assert TreeringError(message).message == expected


@pytest.mark.parametrize("text", ["Gone", "Gone.", "Gone?", "Gone…"])
def test_a_sentence_ends_with_one_mark(text):
    assert as_sentence(text) in {"Gone.", "Gone?", "Gone…"}


@pytest.mark.parametrize(
    ("model", "place", "name"),
    [
        (Knowledge, ("evidence_refs", 0, "sourceid"), "source_id"),
        (Knowledge, ("titel",), "title"),
        (Policy, ("channel_trus",), "channel_trust"),
    ],
)
def test_a_wrong_name_is_corrected_to_one_of_its_place(model, place, name):
    names = names_beside(model, place)
    assert nearest(str(place[-1]), names) == f"Did you mean {name!r}?"


def test_a_place_in_free_data_has_no_names():
    assert names_beside(Node, ("nowhere", "x")) == names_beside(Node, ("x",))
    assert names_beside(Policy, ("channel_trust", "agent", "x")) == []


@pytest.mark.parametrize(("wrong", "hint"), [("merge_into", "into"), ("nam", "name"), ("aliasess", "aliases")])
def test_a_new_object_is_never_said_to_take_what_is_refused(wrong, hint):
    with pytest.raises(InvalidInput) as refused:
        parse_object({"type": "node", "kind": "concept", wrong: "x"})
    assert "merged_into" not in refused.value.hint
    assert hint in refused.value.hint or refused.value.hint.startswith("Known: ")

"""Facts in the notation `SUBJECT.NAME = VALUE`, and their replacements in the same notation."""

import pytest

from space_parts import open_space


@pytest.fixture
def space():
    with open_space(channel="user") as space:
        yield space


@pytest.mark.parametrize(
    "text",
    ["kiln.temperature = 1230", "kiln: temperature = 1230", "Kiln.temperature=1230", "temperature = 1230", "1230"],
)
def test_replaced_fact_contradicts_the_same_attribute(space, text):
    old, other = space.fact("kiln.temperature = 1200"), space.fact("kiln.temperature = 1250")
    new = space.replace(old.id, text)
    assert [space.show(one.id).object["status"] for one in (old, new, other)] == [
        "superseded",
        "contested",
        "contested",
    ]
    (finding,) = [one for one in space.lint().findings if one.rule == "contradiction"]
    assert set(finding.ids) == {new.id, other.id}


@pytest.mark.parametrize(
    ("text", "subject", "name"),
    [
        ("oven.temperature = 1230", "oven", "temperature"),
        ("kiln.humidity = 5", "kiln", "humidity"),
        ("humidity = 5", "kiln", "humidity"),
        ("kiln.zone.temperature = 1230", "kiln.zone", "temperature"),
    ],
)
def test_replacement_of_a_fact_is_read_like_a_fact(space, text, subject, name):
    new = space.replace(space.fact("kiln.temperature = 1200").id, text)
    payload = space.show(new.id).object["payload"]
    assert (payload["subject"], payload["predicate"]) == (subject, name)


@pytest.mark.parametrize("name", ["zone.temperature", "kiln.zone.temperature", "kiln: zone.temperature"])
def test_replacement_of_a_fact_retains_its_dotted_name(space, name):
    new = space.replace(space.fact("zone.temperature = 1200", of="kiln").id, f"{name} = 1230")
    payload = space.show(new.id).object["payload"]
    assert (payload["subject"], payload["predicate"]) == ("kiln", "zone.temperature")


def test_fact_does_not_repeat_its_subject_in_its_name(space):
    stated = space.fact("kiln.temperature = 1200", of="kiln")
    assert space.show(stated.id).object["payload"]["predicate"] == "temperature"

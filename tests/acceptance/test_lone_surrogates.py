"""Halves of characters, which JSON can hold and UTF-8 cannot, cost the character and nothing else."""

import json

import pytest

from treering import Message
from treering.core.characters import well_formed, well_formed_json, well_formed_value
from treering.extensions.documents.structured import NotebookFormat, OpenApiFormat
from treering.ports.adapter import ReadLimits
from treering.ports.format import DocumentDraft, FileToRead

BAD = "The lamp \ud83d is broken \udca4 here"
GOOD = "The lamp \ufffd is broken \ufffd here"
WARNING = "replaced invalid Unicode (a lone surrogate) in 1 text(s)"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (BAD, GOOD),
        ("plain", "plain"),
        ("\ud83d\ude80 whole pair", "🚀 whole pair"),
        ("\udca4\ud83d the wrong way round", "\ufffd\ufffd the wrong way round"),
        ("家 at the end \ud800", "家 at the end \ufffd"),
    ],
)
def test_halves_of_pairs_are_joined_or_replaced(text: str, whole: str) -> None:
    assert well_formed(text) == whole


def test_json_data_is_mended_in_keys_and_values() -> None:
    assert well_formed_value({"a\ud800": [BAD, ("b", 1)], "c": None}) == ({"a\ufffd": [GOOD, ("b", 1)], "c": None}, 2)
    deep: list = []
    for _ in range(50_000):
        deep = [deep]
    assert well_formed_value(deep)[1] == 0


@pytest.mark.parametrize(
    ("data", "whole", "count"),
    [
        (rb'"a\ud83d b"', rb'"a\ufffd b"', 1),
        (rb'"\ud83d\ude80 \\ud83d \n"', rb'"\ud83d\ude80 \\ud83d \n"', 0),
        (rb'["\uDCA4", "\ud83d\ud83d\ude80"]', rb'["\ufffd", "\ufffd\ud83d\ude80"]', 2),
    ],
)
def test_escapes_of_halves_are_replaced_in_json(data: bytes, whole: bytes, count: int) -> None:
    assert well_formed_json(data) == (whole, count)


def test_a_notebook_loses_only_the_character() -> None:
    cells = [
        {"cell_type": "markdown", "source": [f"# {BAD}"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": "out \ud83d"}]},
    ]
    found = NotebookFormat().read(json.dumps({"cells": cells}).encode(), FileToRead("n.ipynb", ReadLimits()))
    assert found is not None
    assert [one.text for one in found.segments] == [f"# {GOOD}", "print(1)", "out \ufffd"]
    assert "replaced invalid Unicode (a lone surrogate) at /cells/0" in found.warnings


def test_an_interface_loses_only_the_character() -> None:
    paths = {"/p\udca4": {"get": {"summary": "Get \ud800"}}}
    data = json.dumps({"openapi": "3.1.0", "info": {"title": "Pets \ud83d"}, "paths": paths}).encode()
    found = OpenApiFormat().read(data, FileToRead("pets.json", ReadLimits()))
    assert isinstance(found, DocumentDraft)
    assert (found.title, found.segments[1].text) == ("Pets \ufffd", "GET /p\ufffd: Get \ufffd")


def test_verbs_take_such_texts_and_warn(space) -> None:
    report = space.ingest("source", input={"text": BAD, "title": "t\ud83d"})
    assert (report.counts, report.warnings) == ({"created": 1}, (WARNING.replace("1 text", "2 text"),))
    found = space.query("search", input={"text": "lamp \ud83d broken"})
    assert (found.hits[0].text, found.warnings[-1]) == (GOOD, WARNING)
    work = space.crystallize("work_item", input={"title": "Mend \ud83d"})
    assert (work.status, work.warnings) == ("ok", (WARNING,))


def test_a_batch_is_kept_whole(space) -> None:
    items = [{"text": "one"}, {"text": BAD, "metadata": {"k\ud800": "v\udfff"}}, {"text": "three"}]
    assert space.ingest("source", input={"items": items}).counts == {"created": 3}


def test_messages_are_appended(space) -> None:
    discussion = space.discussions().open("lamps")
    assert discussion.append([Message(role="user", name="A\ud83d", content=BAD), Message(content="ok")]).appended == 2
    assert [message.text for message in discussion.messages()] == [GOOD, "ok"]

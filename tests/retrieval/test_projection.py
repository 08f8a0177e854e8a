from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.canonical import digest
from treering.core.evidence import Lines, Triple, Turn
from treering.core.objects import Source
from treering.ports.index import Change
from treering.ports.models import Entity, Excerpt, Extraction
from treering.retrieval.index.passages import days_of, gist_hash
from treering.retrieval.index.projection import (
    Began,
    Ended,
    Entry,
    Forgotten,
    Touched,
    entries_of,
    places_of,
    priority_of,
    steps_of,
    terms_of,
    ties_in,
)
from treering.retrieval.text.analysis import index_text
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


@pytest.fixture
def make() -> Builder:
    return Builder(SteppingClock())


def code(make: Builder, text: str, *, role: str = "code", path: str = "hive/bees.py", title: str = "bees") -> Source:
    """Make a source of one segment, which is lines of a file."""
    source = make.source(text, title=title)
    locator = {"type": "lines", "path": path, "start": 1, "end": 2}
    return Source.model_validate(
        {**source.model_dump(), "segments": [{**source.segments[0].model_dump(), "locator": locator, "role": role}]}
    )


def moved(source: Source, path: str) -> Source:
    """Return the source as it stands after its file was moved."""
    [part] = source.model_dump()["segments"]
    return Source.model_validate(
        {**source.model_dump(), "segments": [{**part, "locator": {**part["locator"], "path": path}}]}
    )


def test_a_passage_that_stays_as_it_is_takes_no_step(make: Builder) -> None:
    node = make.node("Hive", status="active")
    assert steps_of(Change(7, node.id, node, node)) == []
    assert steps_of(Change(7, node.id, None, node)) == [Began(entries_of(node)[0], 7)]


def test_a_passage_that_stays_is_touched_by_the_change_and_tied_again_where_it_states_something_else(
    make: Builder,
) -> None:
    node = make.node("Hive")
    work, other = make.work("Mow"), make.node("Box")
    later = node.model_copy(update={"updated_at": other.updated_at})
    assert steps_of(Change(7, node.id, node, later)) == [
        Touched(entries_of(later)[0], 7, retied=False, was=entries_of(node)[0])
    ]
    about = work.model_copy(update={"related_node_refs": (other.id,)})
    assert steps_of(Change(8, work.id, work, about)) == [
        Touched(entries_of(about)[0], 8, retied=True, was=entries_of(work)[0])
    ]


_OF_SEGMENT = {
    "excerpt": ("Ada Lovelace met Charles Babbage in May 2022.", "def hum(): gather_nectar()"),
    "heading": ("", "hum", "Ada Lovelace"),
    "role": ("prose", "symbol", "code", "data"),
    "gist": (None, "Bees hum."),
    "triples": ((), (Triple(subject="Ada Lovelace", relation="knows", object="Acme"),)),
    "uses": ((), ("c .wax#build",)),
    "locator": (
        Lines(path="hive/bees.py", start=1, end=2),
        Lines(path="hive/tests/bees.md", start=1, end=2),
        Turn(turn=0, at=SteppingClock().now()),
        Turn(turn=0),
    ),
}
_OF_SOURCE = {
    "kind": ("file", "conversation", "note"),
    "title": ("", "Hive", "hive/bees.py"),
    "origin": ("hive/bees.py", "notes.md"),
    "status": ("active", "archived"),
    "scope": ("/", "/a"),
}
_METADATA = {
    "language": ("", "python", "java", "kotlin"),
    "path": ("", "hive/bees.py"),
    "generated": ("", "lock file"),
    "note": (1, 2),
}
_VALUES = {**_OF_SEGMENT, **_OF_SOURCE, **_METADATA}
_EMPTY = Builder(SteppingClock()).source("")


def _source(values: Mapping[str, Any]) -> Source:
    """Return a source of one segment with these values."""
    segment, fields, metadata = (
        {name: values[name] for name in names} for names in (_OF_SEGMENT, _OF_SOURCE, _METADATA)
    )
    segments = (_EMPTY.segments[0].model_copy(update=segment),)
    return _EMPTY.model_copy(update={**fields, "metadata": metadata, "segments": segments})


def _index_data(entry: Entry) -> tuple[object, ...]:
    """Return the data that an index stores of a passage until it ends; its ties may be replaced."""
    passage = entry.passage
    priority = priority_of(passage.kind, passage.role, passage.place_role)
    return terms_of(passage), places_of(passage), days_of(passage), gist_hash(passage), priority, passage.scope


class Fingerprints:
    """An extractor whose result depends on all of an excerpt."""

    extractor_id = "fingerprints"

    def extract(self, excerpts: Sequence[Excerpt]) -> Sequence[Extraction]:
        return [Extraction((Entity(digest(repr(excerpt)), "phrase"),)) for excerpt in excerpts]


@given(st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in _VALUES.items()}))
def test_any_change_of_a_source_renews_its_index_data(values: dict[str, Any]) -> None:
    before = _source(values)
    for name, choices in _VALUES.items():
        for choice in choices:
            after = _source({**values, name: choice})
            for step in steps_of(Change(7, before.id, before, after)):
                if isinstance(step, Touched):
                    assert _index_data(step.entry) == _index_data(step.was)
                    new, old = ties_in([step.entry, step.was], Fingerprints())
                    assert step.retied or new == old, name


def test_an_erased_object_is_forgotten(make: Builder) -> None:
    node = make.node("Hive")
    assert steps_of(Change(7, node.id, node, None)) == [Forgotten(node.id)]


def test_a_passage_whose_file_moved_ends_and_begins_again_for_its_path_is_searched(make: Builder) -> None:
    before = code(make, "hum()")
    after = moved(before, "garden/bees.py")
    [was], [is_now] = entries_of(before), entries_of(after)
    assert steps_of(Change(7, before.id, before, after)) == [Ended(was, 7), Began(is_now, 7)]


def test_a_passage_is_found_by_its_path_where_its_title_does_not_say_it(make: Builder) -> None:
    [apart], [named] = entries_of(code(make, "hum()")), entries_of(code(make, "hum()", title="hive/bees.py"))
    assert terms_of(apart.passage).title == index_text("bees hive/bees.py")
    assert terms_of(named.passage).title == index_text("hive/bees.py")
    assert "hive/bees.py" in terms_of(apart.passage).names.split()
    [bare] = entries_of(make.source("Bees.", title="Swarm"))
    assert terms_of(bare.passage).title == index_text("Swarm")


def test_every_word_of_a_signature_is_a_name_and_of_a_body_only_what_looks_like_one(make: Builder) -> None:
    [signature] = entries_of(code(make, "gather nectar", role="symbol"))
    [body] = entries_of(code(make, "gather nectar from_flower"))
    assert {"gather", "nectar"} <= set(terms_of(signature.passage).names.split())
    assert {"gather", "nectar", "from_flower"} & set(terms_of(body.passage).names.split()) == {"from_flower"}


def test_work_is_not_tied_to_who_owns_it(make: Builder) -> None:
    owner, about = make.node("Ada"), make.node("Hive")
    [entry] = entries_of(make.work("Mow", owner_refs=(owner.id,), related_node_refs=(about.id,)))
    assert entry.links == (about.id,)


class Lazy:
    """An extractor that leaves out the last excerpt, against its contract."""

    extractor_id = "lazy"

    def extract(self, excerpts: Sequence[Excerpt]) -> Sequence[Extraction]:
        return [Extraction() for _ in excerpts[1:]]


def test_an_extractor_that_answers_for_too_few_passages_is_not_taken_at_its_word(make: Builder) -> None:
    with pytest.raises(ValueError, match="shorter"):
        ties_in(entries_of(make.source("Bees hum.", "Ants dig.")), Lazy())

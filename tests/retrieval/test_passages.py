from datetime import UTC, date, datetime

import pytest

from treering.core.evidence import Lines, Turn
from treering.core.objects import Source
from treering.retrieval.index.passages import MAX_GIST_CHARS, days_of, gist_hash, passages_of, record_of
from treering.testing.builders import Builder, day
from treering.testing.fakes import SteppingClock


@pytest.fixture
def make():
    return Builder(SteppingClock())


def with_part(source: Source, **changes) -> Source:
    part = source.segments[0].model_copy(update=changes)
    return source.model_copy(update={"segments": (part, *source.segments[1:])})


def test_a_source_gives_a_passage_for_each_segment_in_its_order(make):
    source = make.source("Bees hum.", "Ants dig.", title="Insects", scope="/a")
    first, second = passages_of(source)
    assert [first.text, second.text] == ["Bees hum.", "Ants dig."]
    assert [first.part, second.part] == [part.segment_id for part in source.segments]
    assert (first.object_id, first.type, first.kind, first.status) == (source.id, "source", "markdown", "active")
    assert (first.title, first.scope, first.origin, first.role) == ("Insects", "/a", "notes.md", "prose")


def test_what_is_embedded_is_heading_and_text_up_to_a_bound_unless_a_gist_is_given(make):
    source = with_part(make.source("Bees hum. " * 1_000), heading="Hive > Sounds")
    [passage] = passages_of(source)
    assert passage.gist.startswith("Hive > Sounds\nBees hum.")
    assert len(passage.gist) <= MAX_GIST_CHARS
    [given] = passages_of(with_part(source, gist="The sounds of bees."))
    assert given.gist == "The sounds of bees."
    assert given.text == passage.text


def test_a_passage_has_the_scalars_of_its_sources_metadata_and_its_path(make):
    source = make.source("x = 1", metadata={"language": "python", "bytes": 5, "test": False, "tags": ["a"], "no": None})
    [passage] = passages_of(with_part(source, locator=Lines(path="src/a.py", start=1, end=1)))
    assert passage.metadata == {"language": "python", "bytes": 5, "test": False, "path": "src/a.py"}


@pytest.mark.parametrize("texts", [(), ("",), ("  \n", "")])
def test_a_source_without_text_can_be_found_by_its_title(make, texts):
    [passage] = passages_of(make.source(*texts, title="logo.png"))
    assert (passage.part, passage.title, passage.text, passage.gist) == ("", "logo.png", "", "logo.png")


def test_a_binary_stub_gives_its_title_only(make):
    [passage] = passages_of(make.source("%PDF-1.7", title="paper.pdf", content_type="binary_stub"))
    assert (passage.text, passage.gist) == ("", "paper.pdf")


def test_an_untitled_source_is_called_what_its_origin_says(make):
    assert passages_of(make.source("Bees hum.", origin="notes/bees.md"))[0].title == "notes/bees.md"


def test_an_empty_segment_among_others_gives_no_passage(make):
    assert [passage.text for passage in passages_of(make.source("Bees hum.", " ", "Ants dig."))] == [
        "Bees hum.",
        "Ants dig.",
    ]


def test_a_decision_is_reported_in_words(make):
    payload = {"question": "Which store?", "outcome": "SQLite", "rationale": "One file.", "alternatives": ["LMDB", "x"]}
    [passage] = passages_of(make.knowledge("decision", payload, title="Store", summary="We settled the store."))
    assert passage.text.splitlines() == [
        "We settled the store.",
        "Which store?",
        "Outcome: SQLite",
        "Rationale: One file.",
        "Alternatives: LMDB; x",
    ]
    assert passage.gist == f"Store\n{passage.text}"
    assert (passage.part, passage.role, passage.origin) == ("", "prose", "")


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        ("fact", {"subject": "Ada", "predicate": "lives in", "object": "Rome"}, "Ada lives in Rome"),
        ("fact", {"subject": "port", "predicate": "is", "value": 80}, "port is 80"),
        ("fact", {"subject": "x", "predicate": "is", "value": {"b": [1]}}, 'x is {"b":[1]}'),
        (
            "procedure",
            {"steps": ["Stop it.", "Start it."], "preconditions": ["root"], "expected_outcome": "It runs."},
            "Before: root\n1. Stop it.\n2. Start it.\nExpected: It runs.",
        ),
        (
            "constraint",
            {"rule": "No I/O in core.", "scope": "core", "violation_impact": "Slow tests."},
            "No I/O in core.\nHolds for: core\nWhy: Slow tests.",
        ),
        ("preference", {"statement": "Short names."}, "Short names."),
    ],
)
def test_every_kind_of_knowledge_is_reported_in_words(make, kind, payload, text):
    assert passages_of(make.knowledge(kind, payload, title="t"))[0].text == text


def test_work_and_nodes_are_reported_in_words(make):
    activity = make.activity("Fixed it", summary="The cache leaked.", outcome="success", artifact_refs=("log.txt",))
    assert passages_of(activity)[0].text == "The cache leaked.\nOutcome: success\nArtifacts: log.txt"
    work = make.work("Fix it", priority="high", due_at=day("2026-03-01"), owner_refs=("ada",), resolution="Done.")
    assert passages_of(work)[0].text == "Priority: high\nOwners: ada\nDue: 2026-03-01\nResolution: Done."
    node = make.node("Hive", summary="Where bees live.", aliases=("beehive", "skep"))
    [passage] = passages_of(node)
    assert (passage.title, passage.text) == ("Hive", "Where bees live.\nAlso called: beehive; skep")
    assert passages_of(make.node("Tent"))[0].gist == "Tent"


def test_only_what_is_current_is_live(make):
    assert passages_of(make.node("Hive"))[0].live
    assert not passages_of(make.node("Hive", status="archived"))[0].live


def test_equal_texts_have_equal_hashes_whoever_has_them(make):
    one, two, other = (passages_of(make.source(text))[0] for text in ("Bees hum.", "Bees hum.", "Ants dig."))
    assert gist_hash(one) == gist_hash(two) != gist_hash(other)
    assert len(gist_hash(one)) == 40


def test_a_record_has_the_fields_a_filter_may_name(make):
    record = record_of(passages_of(make.source("x", metadata={"language": "python"}))[0])
    assert record["metadata.language"] == "python"
    assert record["created_at"].endswith("Z")
    assert record["origin"] == "notes.md"
    assert record_of(passages_of(make.node("Hive"))[0])["origin"] is None


def turn(make, text, at, kind="conversation"):
    [passage] = passages_of(with_part(make.source(text, kind=kind), locator=Turn(turn=0, at=at)))
    return days_of(passage)


def test_a_turn_has_the_day_it_was_said_and_the_days_it_speaks_of(make):
    said = datetime(2023, 6, 27, 18, tzinfo=UTC)
    assert turn(make, "Bees swarmed yesterday, today and yesterday.", said) == (
        (date(2023, 6, 27), date(2023, 6, 27)),
        (date(2023, 6, 26), date(2023, 6, 26)),
    )
    assert turn(make, "In May 2022, and last week.", None) == ((date(2022, 5, 1), date(2022, 5, 31)),)
    assert turn(make, "I have lived here since 2016.", said) == ((date(2023, 6, 27), date(2023, 6, 27)),)


def test_what_is_no_turn_has_no_days(make):
    assert turn(make, "Bees swarmed on 8 May 2023.", None, kind="note") == ()
    [passage] = passages_of(make.source("Bees swarmed on 8 May 2023."))
    assert days_of(passage) == ()

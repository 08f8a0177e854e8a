"""Notes of an agent beside files that are trusted more: a note is found by its own words."""

from pathlib import Path

import pytest
from benchmarks.honest_notes import notes, places

from space_parts import note, open_space
from treering.models.static_model import StaticEmbedder

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"
"""Real documents, which are not rewritten."""

NEAR_MISSES = {
    "10.20.30.40": ("The database host is 10.20.30.40.", "The printer is 10.20.30.41, the scanner is 10.20.40.30."),
    "2001:db8::7:40": ("The mail host is 2001:db8::7:40.", "The web host is 2001:db8::7:41."),
    "7d1f0c22-4a1e-4c55-9b1e-0b6a3f9d1e01": (
        "Run 7d1f0c22-4a1e-4c55-9b1e-0b6a3f9d1e01 failed: disk full.",
        "The run 7d1f0c22-4a1e-4c55-9b1e-0b6a3f9d1e02 went well.",
    ),
    "src/acme/http/retry_limit.py": (
        "src/acme/http/retry_limit.py must change together with the proto file.",
        "src/acme/http/retry_rules.py holds the table of waits of src/acme/http.",
    ),
    "ACME-1042": ("ACME-1042 waits for the new license.", "ACME-1024 is the ticket of the license."),
}


@pytest.fixture
def space():
    with open_space(channel="adapter") as opened:
        yield opened


def agent_notes(space, text, **fields):
    return note(space.with_actor("agent", channel="agent"), text, **fields)


def search(space, text, **options):
    return space.query("search", input={"text": text}, options=options).hits


@pytest.mark.parametrize("asked", list(NEAR_MISSES))
@pytest.mark.parametrize("limit", [1, 10])
def test_note_with_the_identifier_requested_comes_first(space, asked, limit):
    own, other = NEAR_MISSES[asked]
    note(space, other, origin="file")
    agent_notes(space, own, origin="note")
    first = search(space, asked, limit=limit)[0]
    assert (first.origin, first.flags) == ("note", ())


def test_trusted_text_with_the_identifier_still_comes_first(space):
    note(space, "The host 10.20.30.40 is the printer.", origin="file")
    agent_notes(space, "The host 10.20.30.40 is the scanner.", origin="note")
    assert search(space, "which host is 10.20.30.40")[0].origin == "file"


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        ("what is the retry limit of the triton service", "The retry limit of the triton service is 3."),
        ("who signs the yearly invoices of heron", "Ada signs the yearly invoices of heron."),
        ("what is the day of the basalt release freeze", "The day of the basalt release freeze is 3 May."),
    ],
)
def test_only_text_that_answers_is_first_although_it_repeats(space, asked, own):
    note(space, "The service has a limit for releases; a retry of the yearly invoices begins a freeze.", origin="file")
    agent_notes(space, own, origin="note")
    first = search(space, asked)[0]
    assert (first.origin, first.flags) == ("note", ("repeats_question",))


def test_note_that_repeats_what_files_answer_falls_two_places_at_most(space):
    asked = "what is the retry limit of the triton service"
    for number in range(8):
        text = f"Chapter {number}: of the triton service {'a word ' * number} the retry of which has a limit."
        note(space, text, origin=f"file{number}")
    agent_notes(space, "The retry limit of the triton service is 3.", origin="note")
    assert "note" in [hit.origin for hit in search(space, asked)[:3]]


def test_notes_beside_documents_stay_among_the_first_three():
    with open_space(channel="adapter", embedder=StaticEmbedder()) as space:
        for file in sorted(DECISIONS.glob("00*.md"))[:12]:
            space.ingest("path", input={"path": str(file)}, options={"wait": True})
        found = list(places(space, notes(20)))
    assert [question for _, question, place in found if not 1 <= place <= 3] == []


@pytest.mark.parametrize("asked", list(NEAR_MISSES))
def test_text_with_the_name_comes_before_better_matches_without_it(space, asked):
    own, other = NEAR_MISSES[asked]
    long = f"{'Much else is in this note, which was written on a rainy day. ' * 12}{own}"
    note(space, long, origin="long")
    note(space, other, origin="short")
    assert search(space, asked)[0].origin == "long"

"""Questions with ids: hashes, UUIDs, error codes, numbers of tickets and orders."""

import random
import uuid

import pytest

import treering
from treering.retrieval.text.typed_words import ids_written

FORMS = {
    "hash": lambda chance: f"{chance.getrandbits(128):032x}",
    "commit": lambda chance: f"{chance.getrandbits(40) | 10 << 36 | 11:010x}",
    "uuid": lambda chance: str(uuid.UUID(int=chance.getrandbits(128))),
    "ticket": lambda chance: f"SUP-{chance.randrange(1_000, 10_000)}",
    "invoice": lambda chance: f"INV-2026-{chance.randrange(10_000):04}",
    "error": lambda chance: f"E{chance.randrange(1_000, 10_000)}",
    "part": lambda chance: f"{chance.randrange(2_100, 10_000)}-{chance.randrange(1_000, 10_000):04}",
    "order": lambda chance: str(chance.randrange(10**6, 10**7)),
}
PER_FORM = 6
QUESTIONS = (
    "What does {} say?",
    "who wrote about {} and what was the reason",
    "{}",
    "please summarize {} for the customer",
)
THINGS = "printer invoice login refund delivery password upgrade crash shipping address".split()


def made(kind, seed):
    chance = random.Random(f"{kind} {seed}")
    return [FORMS[kind](chance) for _ in range(PER_FORM)]


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """Notes of a support team, each with an id of some form, and notes that only have the words of the questions."""
    chance = random.Random(1)
    texts = [
        f"Ticket {one} of Bob: the {chance.choice(THINGS)} fails after the {chance.choice(THINGS)}, the customer wrote."
        for kind in FORMS
        for one in made(kind, "stored")
    ]
    texts += [f"Tickets say the reason of the {thing}." for thing in THINGS]
    texts += [f"Ticket {one} of Bob: say" for one in made("hash", "short")]
    with treering.open(f"sqlite:{tmp_path_factory.mktemp('ids') / 'space.db'}", background=False) as space:
        items = [{"kind": "note", "origin": f"note/{at}", "text": text} for at, text in enumerate(texts)]
        space.ingest("source", input={"items": items})
        yield space


def ask(space, text):
    return space.query("search", input={"text": text}, options={"limit": 5})


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_text_with_the_id_of_a_question_is_first(tickets, kind, question):
    for one in made(kind, "stored"):
        assert one in ask(tickets, question.format(one)).hits[0].text


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_question_about_an_unknown_id_has_no_answer(tickets, kind, question):
    for one in made(kind, "unknown"):
        report = ask(tickets, question.format(one))
        assert all("weak" in hit.flags for hit in report.hits)
        assert report.empty or any(one in warning for warning in report.warnings)


def test_unknown_ticket_before_a_task_does_not_refuse_it(tickets):
    report = ask(tickets, "SUP-77: the printer fails after the refund")
    assert "weak" not in report.hits[0].flags


def test_unknown_id_with_known_parts_is_not_known(tickets):
    (number, *_) = made("ticket", "stored")
    (part, *_) = made("part", "stored")
    report = ask(tickets, f"{part.split('-')[0]}-0001 and SUP-{int(number[4:]) + 1}")
    assert not any("Known here" in one for one in report.warnings)


def test_quantities_years_and_versions_are_no_ids():
    text = (
        "In 2024 the 1990s brought 100mg, v2.0.1, 3.11.7, 2023-11-04, 1914-1918, 555-12, iso and UTF-8X: see 4th of 12."
    )
    assert ids_written(text) == []
    assert ids_written("Order 4471920, E0277 and SUP-12.") == ["4471920", "E0277", "SUP-12"]

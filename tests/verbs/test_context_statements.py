"""Statements of people in context packs: current ones first, superseded ones with their successor."""

import pytest

from space_parts import decide, note, open_space, task


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options)


@pytest.fixture
def replaced(space):
    """A decision that replaced two others, a task that is done, and code about the same."""
    quotes = [note(space, f"Exit codes, version {at}: an abort exits with {at}.", origin=f"{at}.md") for at in range(9)]
    first, second, third = (
        decide(space, f"An abort exits with code {at}, in words {at}", quotes[at]) for at in range(3)
    )
    space.crystallize("supersede", input={"id": first, "by": second})
    space.crystallize("supersede", input={"id": second, "by": third})
    work = task(space, "Document the exit code of an abort")
    space.crystallize("work_item", input={"id": work, "status": "resolved", "resolution": "Done."})
    return space, (first, second, third), work


@pytest.mark.parametrize("budget", [200, 300, 600, 4000])
def test_active_decision_is_in_every_budget(replaced, budget):
    space, (*_, third), _ = replaced
    report = context(space, "exit code of an abort", max_tokens=budget)
    assert report.pack.items[0].object_id == third
    assert "An abort exits with code 2" in report.text


def superseded(report):
    return [line for line in report.pack.missing_context if "superseded" in line]


def test_superseded_statements_are_named_with_their_successor(replaced):
    space, (first, second, _), _ = replaced
    (line,) = superseded(context(space, "exit code of an abort"))
    assert first in line
    assert second in line
    assert line.endswith('superseded by "An abort exits with code 2, in words 2".')


def test_superseded_statement_is_not_named_without_its_successor(replaced):
    space, (*_, third), _ = replaced
    clay = decide(space, "Fire clay slowly", note(space, "Kilns heat clay at noon.", origin="clay.md"))
    space.crystallize("supersede", input={"id": third, "by": clay})
    report = context(space, "exit code of an abort")
    assert clay not in [item.object_id for item in report.pack.items]
    assert superseded(report) == []


def test_rules_precede_sources_in_text(space):
    note(space, "The uploader retries uploads.", origin="a.md")
    quote = note(space, "Guidelines for branches.", origin="b.md")
    rule = {"kind": "constraint", "title": "Whole", "payload": {"rule": "Never push to main"}, "status": "active"}
    space.crystallize("knowledge", input={**rule, "evidence_refs": [quote]})
    text = context(space, "How does the uploader retry uploads?").text
    assert text.index("## Rules") < text.index("## Sources")


@pytest.fixture
def maria(space):
    """Notes about a person, a preference and a replaced fact that a person declared."""
    for at, text in enumerate(("Met Maria in Porto; she leads the office.", "Maria likes trains.", "Water tomatoes.")):
        note(space, text, origin=f"{at}.md")
    space = space.with_actor("ada", channel="user")
    space.prefer("Send Maria short mails, attachments as links")
    old = space.fact("city = Lisbon", of="Maria")
    space.replace(old.id, "city = Porto")
    return space


def test_statements_about_a_named_person_are_in_the_pack(maria):
    report = context(maria, "what holds about Maria now")
    assert "Send Maria short mails, attachments as links" in report.text
    assert not any("holds" in line for line in report.pack.missing_context)


def test_declared_statement_is_cited_by_its_author_and_day(maria):
    report = context(maria, "what holds about Maria now")
    (fact,) = [item for item in report.pack.items if item.section == "facts"]
    assert len(fact.citations) == 1
    assert '"declared by ada, ' in report.text
    assert "Declared by" not in report.text


def test_declaration_is_no_hit_next_to_its_statement(maria):
    maria.embed_pending()
    hits = maria.query("search", input={"text": "Maria city"}).hits
    assert not any(hit.origin.startswith("declaration:") for hit in hits)
    assert any("Porto" in hit.text and hit.kind == "fact" for hit in hits)


def test_superseded_statement_is_no_alternative(space):
    space = space.with_actor("ada", channel="user")
    space.decide("Orders are in MySQL")
    space.replace("Orders are in MySQL", "Orders are in Postgres")
    (item,) = [
        item for item in context(space, "move orders to Postgres from MySQL").pack.items if item.section == "decisions"
    ]
    assert "Alternatives" not in item.text


def talk(space, *texts):
    messages = [{"role": "user", "content": text} for text in texts]
    item = {"kind": "conversation", "origin": "talk", "messages": messages}
    (result,) = space.ingest("source", input={"items": [item]}).items
    return space.engine.ledger.get(result.source_id)


def test_fact_quotes_the_turn_that_it_cites(space):
    source = talk(space, "The capital city of Norrland is Ekvik.", "Bees swarm in May.")
    space.fact("capital = Ekvik", of="Norrland", because=f"{source.id} {source.segments[0].segment_id}")
    report = context(space, "What is the capital of Norrland?")
    fact = next(item for item in report.pack.items if item.kind == "fact")
    assert fact.text.splitlines()[-1] == '"The capital city of Norrland is Ekvik."'
    assert source.segments[0].segment_id not in {item.segment_id for item in report.pack.items}


def test_long_turn_keeps_its_place_beside_the_fact(space):
    source = talk(space, "The capital of Norrland is Ekvik. " + "It has a harbour and a mill. " * 12)
    space.fact("capital = Ekvik", of="Norrland", because=f"{source.id} {source.segments[0].segment_id}")
    report = context(space, "What is the capital of Norrland?")
    assert [item.section for item in report.pack.items] == ["facts", "sources"]


def test_context_quotes_the_line_that_a_wrong_statement_cites(tmp_path):
    lines = ["class Config:", "    limit_concurrency: int | None = None", "    backlog: int = 2048", ""]
    (tmp_path / "config.py").write_text("\n".join(lines))
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("path", input={"path": str(tmp_path / "config.py")})
        space.decide("limit_concurrency defaults to 100", because=["config.py:2"])
        pack = space.query("context", input={"task": "What is the default of limit_concurrency?"}).pack
    decisions = [one.text for one in pack.items if one.section == "decisions"]
    assert decisions == ['"limit_concurrency: int | None = None"']

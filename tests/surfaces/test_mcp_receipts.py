"""What MCP answers a write with: short, with places, and with the cited words as data."""

import re

import pytest
from mcp_parts import commit, shop

from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.sources.reading.access import files_below

DECISION = {"question": "How often is a call tried?", "outcome": "Three times"}


@pytest.fixture
def repository(tmp_path):
    return shop(tmp_path)


@pytest.fixture
def ask(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.chdir(repository)
    dispatcher = ToolDispatcher(f"sqlite:{tmp_path / 'space.db'}", files_below(repository))

    def call(verb, **arguments):
        return dispatcher.answer(verb, arguments, actor="ann", progress=lambda *_: None, check=lambda: None)

    yield call
    dispatcher.close()


def test_ingest_without_a_mode_reads_commits_of_a_repository(ask):
    assert ask("ingest", path=".").data["mode"] == "repo"
    assert ask("ingest", path="README.md").data["mode"] == "path"


def test_ingest_is_reported_in_a_sentence_with_paths(ask, repository):
    text = ask("ingest", path=".").text
    (count,) = re.findall(
        r"^Read (\d+) files?: \d+ indexed\. Searchable now; \d+ passages still to be embedded\.", text
    )
    listed = text.splitlines()[1:]
    assert '- created "README.md"' in listed
    assert len(listed) == int(count)
    assert not re.search(r"repo:|job:", text)


def test_finished_job_is_reported_without_its_id(ask):
    job = ask("ingest", path="README.md").data["job"]
    text = ask("ingest", mode="status").text
    assert '"README.md": done, 1 of 1 items: 1 created.' in text
    assert job not in text


def test_recent_changes_are_counted_and_numbered_without_gaps(ask):
    ask("ingest", path=".")
    ask("crystallize", **DECISION, title="Retries", because="README.md:1", status="active")
    title, *lines = ask("query", mode="recent").text.splitlines()
    assert title == f"{len(lines)} changes, newest first."
    assert [line.partition(".")[0] for line in lines] == [str(number) for number in range(1, len(lines) + 1)]
    number = next(at for at, line in enumerate(lines, start=1) if '"Retries"' in line)
    assert '"Retries"' in ask("query", mode="page", input={"name": str(number)}).text


def test_long_ingest_lists_only_items_to_act_on(ask, repository):
    for number in range(12):
        (repository / f"part{number}.md").write_text(f"# Part {number}\n\nText {number}.\n")
    (repository / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    commit(repository, "More")
    text = ask("ingest", path=".").text
    assert "part3.md" not in text
    assert "broken.pdf" in text
    assert "Searchable now" in text


def test_receipt_names_places_as_people_type_them(ask):
    ask("ingest", path=".")
    answer = ask("crystallize", **DECISION, because=["retry.py:3", "retry.py::retry"])
    head, *_ = answer.text.splitlines()
    assert head.startswith("Recorded know:")
    assert 'Based on "retry.py:3", "retry.py:6-9"' in head
    assert "RETRY_LIMIT = 3" in answer.text


@pytest.mark.parametrize("is_ingested", [True, False])
def test_committed_lines_are_not_called_uncommitted(ask, is_ingested):
    if is_ingested:
        ask("ingest", path=".")
    assert "uncommitted" not in ask("crystallize", **DECISION, because=["retry.py:3"]).text


def test_uncommitted_lines_are_named(ask, repository):
    ask("ingest", path=".")
    (repository / "retry.py").write_text("RETRY_LIMIT = 5\n")
    assert '"retry.py:1 (uncommitted)"' in ask("crystallize", **DECISION, because=["retry.py:1"]).text


def test_receipt_of_an_activity_names_each_object_once(ask):
    ask("ingest", path=".")
    answer = ask("crystallize", title="Read the code", knowledge=[{**DECISION, "because": "retry.py:3"}])
    head = answer.text.splitlines()[0]
    assert head.count("know:") == head.count("act:") == 1
    assert "Recorded know:" in head


def test_dry_run_says_what_would_change(ask):
    ask("ingest", path=".")
    answer = ask("crystallize", **DECISION, because=["retry.py:3"], dry_run=True)
    assert answer.text.startswith("Would change: know:")


def test_receipt_names_candidates_and_replacements(ask):
    ask("ingest", path=".")
    made = ask("crystallize", **DECISION, because=["retry.py:3"])
    (identity,) = made.data["candidates"]
    assert f"Recorded {identity} as a candidate" in made.text
    assert "To confirm it with evidence: mode promote, if the user agrees; the user: treering review list." in made.text

    assert ask("crystallize", mode="promote", ids=[identity]).text.startswith(f"Confirmed {identity} (patch:")
    replaced = ask(
        "crystallize", mode="supersede", id=identity, **{**DECISION, "outcome": "Twice"}, because="retry.py:3"
    )
    assert f"; replaced {identity} (patch:" in replaced.text
    assert "candidates" not in replaced.data

import json

import pytest
from cli_stage import Stage

TICKETS = """
- id: 12
  title: Fix the cache
  description: It serves stale pages
- title: Document the cache
"""
SCRIPT = """
- complete: false
  next_prompt: Look at the keys
- complete: true
  summary: Keys carry versions now
"""


@pytest.fixture
def desk(stage: Stage) -> Stage:
    """A working folder with tickets and a script, and a data folder of its own."""
    stage.monkeypatch.setenv("TREERING_DATA_DIR", str(stage.folder / "data"))
    stage.monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"tickets.yaml": TICKETS, "script.yaml": SCRIPT})
    return stage


def supervise(desk: Stage, *more: str, tickets: str = "tickets.yaml"):
    return desk.run("supervise", tickets, "--worker", "cat >> prompts.log", "--script", "script.yaml", *more)


def test_tickets_are_worked_through_and_told_of_in_a_line_each(desk):
    told = supervise(desk, "--project", "acme")
    assert told.code == 0, told
    assert "completed  Fix the cache (1 turn, " in told.out
    assert "Keys carry versions now" in told.out
    assert (
        "2 tickets, each with at most 20 turns, 60 minutes and any cost; with the memory of project acme." in told.err
    )
    assert (desk.folder / "prompts.log").read_text() == "Look at the keys" * 2
    assert (desk.folder / "data" / "projects" / "acme.db").is_file()


def test_tickets_that_are_done_stay_done(desk):
    supervise(desk)
    report = json.loads(supervise(desk, "--json").out)
    assert [result["outcome"] for result in report["results"]] == ["already_completed"] * 2
    assert (desk.folder / "prompts.log").read_text() == "Look at the keys" * 2


def test_the_project_is_named_for_the_work_tree(desk):
    (desk.folder / "My Tree").mkdir()
    assert supervise(desk, "--folder", "My Tree").code == 0
    assert (desk.folder / "data" / "projects" / "My-Tree.db").is_file()
    assert (desk.folder / "My Tree" / "prompts.log").is_file()


def test_without_memory_nothing_is_kept(desk):
    assert supervise(desk, "--no-memory").code == 0
    assert not (desk.folder / "data").exists()


def test_a_ticket_that_is_not_done_makes_the_exit_code_1(desk):
    desk.write({"script.yaml": '{"12": [{complete: false, next_prompt: Go}, {complete: true, summary: Done}]}'})
    told = supervise(desk)
    assert told.code == 1
    assert "completed  Fix the cache" in told.out
    assert "failed  Document the cache" in told.out
    assert "The script has 0 assessments" in told.out


def test_limits_are_kept(desk):
    desk.write({"script.json": json.dumps([{"complete": False, "next_prompt": "Go on"}] * 9)})
    told = desk.run("supervise", "tickets.yaml", "--worker", "true", "--script", "script.json", "--max-turns", "2")
    assert told.code == 1
    assert "stopped  Fix the cache (2 turns" in told.out


@pytest.mark.parametrize(
    ("tickets", "problem"),
    [
        ("- title: One\n- description: No title", "tickets.yaml, entry 2: title: Field required"),
        ("- title: ''", "tickets.yaml, entry 1: title"),
        ("- just a text", "tickets.yaml, entry 1: "),
        ("- titel: One", "tickets.yaml, entry 1: "),
        ("- {id: 1, title: One}\n- {id: 1, title: Two}", "tickets.yaml: entry 2 has the same ticket id as entry 1"),
        ("title: One", "tickets.yaml must contain a list of entries"),
        ("", "tickets.yaml must contain a list of entries"),
        ("- [", "tickets.yaml is not valid YAML"),
        ("- !!python/object/apply:os.getcwd []", "tickets.yaml is not valid YAML"),
    ],
)
def test_a_file_of_tickets_that_is_wrong_is_refused_by_entry(desk, tickets, problem):
    desk.write({"tickets.yaml": tickets})
    told = supervise(desk)
    assert told.code == 2, told
    assert problem in told.err
    assert "hint:" in told.err


def test_a_script_that_is_wrong_is_refused_by_entry(desk):
    desk.write({"script.yaml": "- complete: false\n"})
    told = supervise(desk)
    assert told.code == 2
    assert "script.yaml, entry 1" in told.err
    assert "next_prompt" in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("supervise", "tickets.yaml"),
        ("supervise", "tickets.yaml", "--worker", "true"),
        ("supervise", "tickets.yaml", "--worker", "true", "--model", "nonsense"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--model", "x:y"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--folder", "nowhere"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--project", "../x"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--max-cost", "much"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--max-cost", "-1"),
        ("supervise", "tickets.yaml", "--worker", "true", "--script", "script.yaml", "--max-turns", "0"),
    ],
)
def test_a_wrong_command_line_is_refused(desk, arguments):
    told = desk.run(*arguments)
    assert told.code == 2, told
    assert told.err.startswith("error: ")


def test_missing_file_is_reported(desk):
    told = supervise(desk, tickets="nowhere.yaml")
    assert told.code == 1
    assert "nowhere.yaml" in told.err

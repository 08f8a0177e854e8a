"""Exams of a memory: questions in a file, asked, marked, compared with the run before."""

import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cli_stage import README, Stage

import treering
from treering.extensions.exams.exam import FOLDER as EXAM_FOLDER
from treering.extensions.exams.exam import read_questions
from treering.extensions.exams.results import HISTORY
from treering.system.settings import FILE, FOLDER

QUESTIONS = """\
questions:
  - ask: How often does acme retry?
    id: retries
    must: ["README.md#L3", {says: "retries THREE   times"}]
    must_not: [old.md]
  - ask: What is the zebrafish genome assembly?
    id: zebrafish
    refuse: true
"""


@pytest.fixture
def asked(stage: Stage) -> Stage:
    (stage.folder / "README.md").write_text(README, encoding="utf-8")
    stage.done("init")
    stage.done("ingest", ".", "--mode", "path")
    write(stage, QUESTIONS)
    return stage


def write(stage: Stage, text: str, name: str = "mine.yaml") -> None:
    folder = stage.folder / ".treering" / "exam"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def ran(stage: Stage, *arguments: str, code: int = 0) -> str:
    told = stage.run("exam", "run", "--words", *arguments)
    assert told.code == code, told
    return told.out


def figures(stage: Stage, *arguments: str) -> dict[str, float]:
    return {name: one["mean"] for name, one in json.loads(ran(stage, "--json", *arguments))["figures"].items()}


def git(stage: Stage, *arguments: str) -> None:
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", stage.folder, *names, *arguments], check=True)


def test_a_space_made_beside_an_exam_stays_out_of_version_control_and_the_exam_in_it(stage: Stage) -> None:
    git(stage, "init", "-q", "-b", "main")
    write(stage, QUESTIONS)
    stage.done("init", "--here")
    git(stage, "add", ".")
    listed = subprocess.run(["git", "-C", stage.folder, "ls-files"], check=True, capture_output=True, text=True).stdout
    assert listed.split() == [".treering/exam/mine.yaml"]


def test_the_exam_of_this_repository_asks_for_files_that_are_there_and_for_refusals() -> None:
    top = Path(__file__).parents[2]
    questions = read_questions(top / EXAM_FOLDER)
    assert 20 <= len(questions) <= 60
    assert sum(one.refuse for one in questions) >= 5
    wanted = [one.file for question in questions for one in question.must]
    assert [path for path in wanted if not (top / path).is_file()] == []


def test_exam_reports_found_and_refused_answers(asked: Stage) -> None:
    told = figures(asked)
    assert told["recall@10"] == told["all@10"] == told["refused"] == told["answered"] == told["clean"] == 100
    assert 0 < told["tokens"] < 200
    text = ran(asked)
    assert "2 questions" in text
    assert "wrong" not in text


def test_what_is_not_found_and_what_must_not_be_is_named(asked: Stage) -> None:
    write(asked, "- ask: How often does acme retry?\n  must: [docs/missing.md]\n  must_not: [README.md]\n")
    told = ran(asked)
    assert "docs/missing.md: not found" in told
    assert "README.md: must not be found, but is at 1 by " in told
    assert figures(asked)["clean"] == 0


def test_metric_below_minimum_fails_the_command(asked: Stage) -> None:
    write(asked, "- ask: How often does acme retry?\n  must: [docs/missing.md]\n")
    assert "recall@5 is 0.0; the required minimum is 80" in ran(asked, "--least", "recall@5=80", code=1)
    ran(asked, "--least", "answered=90")
    assert "Unknown metric 'recal@5'" in asked.run("exam", "run", "--words", "--least", "recal@5=80").err
    assert "does not contain a number" in asked.run("exam", "run", "--words", "--least", "recall@5").err


def test_a_run_is_compared_with_the_one_before_question_by_question(asked: Stage) -> None:
    ran(asked)
    (asked.folder / "README.md").write_text("# Acme\n\nNothing is said of that any more.\n", encoding="utf-8")
    asked.done("ingest", ".", "--mode", "path")
    told = ran(asked)
    assert "worse: retries  How often does acme retry?" in told
    assert "“retries THREE   times”: 1 by " in told
    assert "→ not found" in told
    (asked.folder / "README.md").write_text("# Acme\n\nAcme retries three times.\n", encoding="utf-8")
    asked.done("ingest", ".", "--mode", "path")
    assert "better: retries" in ran(asked, "--no-keep")
    assert "better: retries" in ran(asked, "--no-keep")
    assert len((asked.folder / ".treering/exam/runs.jsonl").read_text().splitlines()) == 2


def test_the_last_runs_are_kept_in_the_space_where_no_question_finds_them(asked: Stage) -> None:
    ran(asked)
    ran(asked, "--no-keep")
    ran(asked)
    with treering.open(f"sqlite:{asked.folder / FOLDER / FILE}") as space:
        told = space.perform(HISTORY)
    assert [(one.number, one.exam, one.right) for one in told.runs] == [
        (2, ".treering/exam", 2),
        (1, ".treering/exam", 2),
    ]
    assert told.runs[0].gains["recall@5"].mean == 0
    assert "genome assembly" not in asked.done("query", "zebrafish genome", "--mode", "search").out


def test_a_line_that_is_no_run_is_reported(asked: Stage) -> None:
    ran(asked)
    with (asked.folder / ".treering/exam/runs.jsonl").open("a") as file:
        file.write('{"at": 1}\n')
    assert "does not end with a run" in asked.run("exam", "run", "--words").err


def test_a_build_server_reads_a_case_for_each_question(asked: Stage) -> None:
    write(asked, '- ask: "How often does <acme> & \\"co\\" retry?"\n  must: [docs/missing.md]\n', "more.yaml")
    suite = ET.fromstring(ran(asked, "--format", "junit", "--least", "recall@1=99", code=1).split("\n", 1)[1])
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert [case.find("failure") is not None for case in suite] == [False, False, True, True]


def test_a_pull_request_reads_a_table(asked: Stage) -> None:
    ran(asked)
    told = ran(asked, "--format", "markdown")
    assert "| recall@10 | 100.0 [100.0, 100.0] | 1 | +0.0 [+0.0, +0.0] |" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- must: [a]\n", "question 1, ask"),
        ("- ask: x\n", "give results that must be found"),
        ("- ask: x\n  refuse: true\n  must: [a]\n", "has no results to find"),
        ("- ask: x\n  must: [{file: a, says: b}]\n", "give exactly one of 'file', 'object' and 'says'"),
        ("- ask: x\n  must: [a]\n  musst: [b]\n", "question 1, musst"),
        ("- {ask: x, must: [a]}\n- {ask: x, must: [b]}\n", "appears twice"),
        ("questions: 3\n", "is"),
        ("other: []\n", "is not an exam"),
        ("[: :", "is not an exam"),
        ("- ask: \xff\n", "must be found"),
    ],
)
def test_a_file_that_is_no_exam_is_refused_with_its_place(asked: Stage, text: str, said: str) -> None:
    write(asked, text)
    told = asked.run("exam", "run", "--words")
    assert told.code == 2
    assert "mine.yaml" in told.err
    assert said in told.err
    assert not (asked.folder / ".treering/exam/runs.jsonl").exists()


def test_questions_are_proposed_from_history_and_decisions_and_count_once_accepted(stage: Stage) -> None:
    git(stage, "init", "-q", "-b", "main")
    for name, subject in (
        ("sessions.py", "fix(web): Keep sessions in one file"),
        ("x.py", "Merge it"),
        ("y.py", "wip"),
    ):
        (stage.folder / name).write_text(f"# {subject}\nSESSIONS = 1\n", encoding="utf-8")
        git(stage, "add", name)
        git(stage, "commit", "-q", "-m", subject)
    stage.done("init")
    stage.done("ingest", ".")
    stage.done("crystallize", "--kind", "decision", "--title", "One file", "--question", "Where are sessions kept?")
    stage.done("exam", "make")
    text = (stage.folder / ".treering/exam/proposed.yaml").read_text()
    assert "ask: Keep sessions in one file" in text
    assert "- sessions.py" in text
    assert "x.py" not in text
    told = stage.run("exam", "run", "--words")
    assert "No question at .treering/exam is accepted" in told.err
    assert '"recall@10"' in ran(stage, "--candidates", "--json")
    (stage.folder / ".treering/exam/proposed.yaml").write_text(text.replace("candidate", "rejected"))
    assert "Nothing new to propose" in stage.done("exam", "make").out
    (stage.folder / ".treering/exam/proposed.yaml").write_text(text.replace("status: candidate", "status: accepted"))
    ran(stage)


def test_without_questions_it_is_said_where_they_belong(stage: Stage) -> None:
    stage.done("init")
    told = stage.run("exam", "run")
    assert "There is no exam at .treering/exam" in told.err
    assert "treering exam make" in told.err

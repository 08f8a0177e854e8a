import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_stage import README, Stage

import treering
from treering.core.errors import (
    Conflict,
    Corrupt,
    Denied,
    IllegalTransition,
    InvalidInput,
    MissingExtra,
    NotFound,
    TreeringError,
    Unavailable,
)
from treering.surfaces.cli.failures import exit_code
from treering.system.settings import FILE, FOLDER
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.ingest.report import IngestReport, JobReport
from treering.verbs.lint.audit import AuditReport
from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport
from treering.verbs.query.browsing import ExpandReport, PageReport
from treering.verbs.query.context import ContextReport
from treering.verbs.query.recent import RecentReport
from treering.verbs.query.related import RelatedReport
from treering.verbs.query.search import SearchReport

DECISION = (
    *("crystallize", "--kind", "decision", "--title", "One file per space", "--question", "Where is a space kept?"),
    *("--outcome", "In one SQLite file", "--rationale", "Nothing to operate", "--alternative", "A server"),
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("x"), 2),
        (IllegalTransition("x"), 2),
        (MissingExtra("pdf", needed_for="x"), 2),
        (NotFound("x"), 3),
        (Conflict("x"), 4),
        (Denied("x"), 5),
        (Unavailable("x"), 6),
        (Corrupt("x"), 7),
        (TreeringError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: TreeringError, code: int) -> None:
    assert exit_code(error) == code


class TestMakingASpace:
    def test_init_makes_it_in_this_folder_and_keeps_it_out_of_git(self, stage: Stage) -> None:
        assert "Created a space: .treering" in stage.done("init").out
        assert (stage.folder / ".treering" / "treering.db").is_file()
        stage.commit({"a.md": "A"})
        tracked = subprocess.run(["git", "ls-files"], cwd=stage.folder, capture_output=True, text=True, check=True)
        assert tracked.stdout.split() == ["a.md"]

    def test_init_again_changes_nothing(self, stage: Stage) -> None:
        assert stage.json("init")["created"] is True
        assert stage.json("init")["created"] is False

    def test_init_in_a_folder_below_makes_one_of_its_own(self, stage: Stage) -> None:
        stage.done("init")
        below = stage.folder / "below"
        below.mkdir()
        stage.monkeypatch.chdir(below)
        assert stage.json("init")["address"] == f"sqlite:{below / '.treering' / 'treering.db'}"

    def test_the_first_ingest_makes_it_too(self, stage: Stage) -> None:
        stage.write({"docs/a.md": README})
        stage.done("ingest", "docs", "--mode", "path")
        assert (stage.folder / ".treering" / "treering.db").is_file()

    def test_a_bare_name_is_a_space_in_the_data_folder(self, stage: Stage) -> None:
        stage.done("ingest", "-", "--space", "notes", stdin="Releases are cut on Tuesdays.")
        assert (stage.folder.parent / "data" / "notes.db").is_file()

    def test_the_environment_names_the_space(self, stage: Stage) -> None:
        stage.monkeypatch.setenv("TREERING_SPACE", f"sqlite:{stage.folder / 'mine.db'}")
        stage.done("init")
        assert (stage.folder / "mine.db").is_file()

    def test_a_space_that_is_not_there_is_named_with_a_hint(self, stage: Stage) -> None:
        told = stage.run("query", "anything")
        assert told.code == 3
        assert told.out == ""
        assert told.err.startswith("error: There is no space at ")
        assert "hint: Create it with `treering init`" in told.err

    def test_an_unknown_backend_is_refused(self, stage: Stage) -> None:
        assert stage.run("query", "anything", "--space", "oracle:x").code == 2


class TestIngest:
    def test_a_repository_is_read_as_one(self, stage: Stage) -> None:
        stage.commit({"README.md": README, "src/retry.py": "def retry() -> int:\n    return 3\n"})
        report = IngestReport.model_validate(stage.json("ingest", "."))
        assert report.mode == "repo"
        assert report.counts["created"] == 3

    def test_a_folder_without_git_and_a_file_are_read_as_files(self, stage: Stage) -> None:
        stage.write({"docs/a.md": README})
        assert stage.json("ingest", "docs")["mode"] == "path"
        assert stage.json("ingest", "docs/a.md")["mode"] == "path"

    def test_unchanged_input_is_said_to_be_unchanged(self, stage: Stage) -> None:
        stage.write({"docs/a.md": README})
        stage.done("ingest", "docs")
        assert "nothing changed" in stage.done("ingest", "docs").out

    def test_a_list_of_addresses_is_read_line_by_line(self, stage: Stage) -> None:
        lines = "# none of these is reached\n\nhttp://127.0.0.1:9/a\nnot an address\n"
        (stage.folder / "list.txt").write_text(lines)
        for told in (
            stage.run("ingest", "--mode", "url", "list.txt"),
            stage.run("ingest", "--mode", "url", "-", stdin=lines),
        ):
            assert told.code == 1
            assert "line 4" in told.out
            assert "1 skipped" in told.out  # a server whose robots.txt cannot be read is not asked
        assert stage.run("ingest", "--mode", "url", "nowhere.txt").code == 2

    def test_work_that_is_not_committed_is_read_on_request(self, stage: Stage) -> None:
        stage.commit({"README.md": README})
        stage.write({"README.md": README + "\nAcme is fast.\n"})
        stage.done("ingest", ".", "--worktree")
        assert stage.json("query", "--mode", "search", "fast")["hits"]

    def test_a_note_comes_from_stdin(self, stage: Stage) -> None:
        stage.done("ingest", "-", "--title", "Releases", "--origin", "note:1", stdin="Releases are cut on Tuesdays.")
        [hit] = stage.json("query", "--mode", "search", "when are releases cut")["hits"]
        assert (hit["title"], hit["origin"]) == ("Releases", "note:1")

    def test_stdin_that_is_no_text_is_refused(self, stage: Stage) -> None:
        told = stage.run("ingest", "-", stdin=b"\xff\xfe\x00")
        assert told.code == 2
        assert "not UTF-8" in told.err

    def test_a_failed_item_is_named_with_its_reason_and_ends_in_1(self, stage: Stage) -> None:
        items = {"items": [{"text": "Good.", "origin": "good"}, {"origin": "bad"}]}
        told = stage.run("ingest", "--mode", "source", "--input", json.dumps(items))
        assert told.code == 1
        assert "failed: bad: it has neither text nor messages" in told.out
        assert ": 1 indexed, 1 failed." in told.out

    def test_options_of_the_mode_are_given_by_name(self, stage: Stage) -> None:
        stage.commit({"a.md": README, "b.txt": "Text.", "c.md": "# C\n\nMore."})
        told = stage.json("ingest", ".", "--option", "include=*.md", "--option", "include=*.rst")
        assert {item["origin"].partition("#")[2] for item in told["items"]} == {"", "a.md", "c.md"}
        assert len(stage.json("ingest", ".", "--option", "max_items=1")["items"]) == 1

    def test_a_dry_run_writes_nothing(self, stage: Stage) -> None:
        stage.write({"docs/a.md": README})
        assert "Nothing was written: this was a dry run." in stage.done("ingest", "docs", "--dry-run").out
        assert stage.json("query", "--mode", "recent")["changes"] == []

    def test_the_status_of_the_last_run_is_shown(self, stage: Stage) -> None:
        stage.write({"docs/a.md": README})
        stage.done("ingest", "docs")
        report = JobReport.model_validate(stage.json("ingest", "--mode", "status"))
        assert report.state == "done"
        assert "1 created" in stage.done("ingest", report.job, "--mode", "status").out

    def test_with_wait_nothing_waits_for_a_vector(self, stage: Stage) -> None:
        told = stage.json("ingest", "-", "--wait", stdin="Releases are cut on Tuesdays.")
        assert told["pending_vectors"] == 0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("ingest",), "needs a path"),
            (("ingest", "nowhere.md"), "nowhere.md"),
            (("ingest", "x", "--mode", "source"), "takes texts"),
            (("ingest", ".", "--mode", "rep"), "Did you mean 'repo'?"),
            (("ingest", ".", "--mode", "repo", "--option", "includ=x"), "Did you mean 'include'?"),
            (("ingest", ".", "--option", "wait"), "needs KEY=VALUE, got 'wait'"),
            (("ingest", ".", "--scope", "here"), "is not a valid scope"),
            (("ingest", ".", "--wai"), "See `treering ingest --help`"),
            (("ingst", "."), "ingst"),
        ],
    )
    def test_what_cannot_be_meant_is_explained(self, stage: Stage, arguments: tuple[str, ...], said: str) -> None:
        told = stage.run(*arguments)
        assert told.code in {2, 3}
        assert told.err.startswith("error: ")
        assert said in told.err
        assert "hint: " in told.err

    def test_vectors_follow_in_a_process_of_their_own(self, stage: Stage) -> None:
        stage.monkeypatch.setenv("TREERING_BACKGROUND", "1")
        stage.done("ingest", "-", stdin="Releases are cut on Tuesdays.")
        deadline = time.monotonic() + 60
        while stage.json("vectors", "--json")["pending"] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert stage.json("ingest", "--mode", "status")["pending_vectors"] == 0


class TestQuery:
    @pytest.fixture
    def known(self, stage: Stage) -> Stage:
        stage.write({"docs/a.md": README})
        stage.done("ingest", "docs")
        return stage

    def test_a_task_gets_a_context_pack(self, known: Stage) -> None:
        report = ContextReport.model_validate(known.json("query", "how", "often", "is", "retried"))
        assert report.pack.task == "how often is retried"
        assert report.pack.citations

    def test_in_a_pipe_recalled_text_is_fenced_as_data(self, known: Stage) -> None:
        for mode in ("context", "search"):
            out = known.done("query", "retries", "--mode", mode).out
            assert "<<treering:recalled" in out
            assert "Acme retries three times." in out

    def test_flags_are_options_and_reach_the_answer(self, known: Stage) -> None:
        arguments = ("query", "--mode", "search", "acme", "--limit", "1", "--explain", "--descend")
        report = SearchReport.model_validate(known.json(*arguments))
        assert len(report.hits) == 1
        assert report.hits[0].explain

    def test_a_place_is_expanded_however_it_is_quoted(self, known: Stage) -> None:
        hit = known.json("query", "--mode", "search", "retries")["hits"][0]
        place = (hit["object_id"], hit["segment_id"])
        for words in (place, (" ".join(place),)):
            report = ExpandReport.model_validate(known.json("query", "--mode", "expand", *words))
            assert "Acme retries three times." in report.items[0].text
        assert "docs/a.md" in known.done("query", "--mode", "expand", *place).out or report.items[0].places

    def test_pages_neighbours_and_changes_are_shown(self, known: Stage) -> None:
        source = known.json("query", "--mode", "search", "retries")["hits"][0]["object_id"]
        assert PageReport.model_validate(known.json("query", "--mode", "page", source)).ids == (source,)
        RelatedReport.model_validate(known.json("query", "--mode", "related", source))
        recent = RecentReport.model_validate(known.json("query", "--mode", "recent", "--limit", "1"))
        assert len(recent.changes) == 1
        for arguments in (("page", source), ("related", source), ("recent",)):
            assert known.done("query", "--mode", *arguments).out

    def test_related_shows_current_statements_about_the_symbol_first(self, stage: Stage) -> None:
        stage.commit({"till.py": "def add():\n    return open_till()\n\n\ndef open_till():\n    return 1\n"})
        stage.done("ingest", ".")
        for title, place in (("About both", ":1-6"), ("About add", "::add"), ("About the till", "::open_till")):
            stage.done("decide", title, "--because", f"till.py{place}")
        stage.done("decide", "About neither now", "--because", "till.py::open_till")
        stage.done("undo")
        stage.commit({"shop.py": "from till import open_till\n\n\ndef shop():\n    open_till()\n"})
        stage.done("ingest", ".")
        shown = stage.done("query", "--mode", "related", "open_till").out
        names = ("About both", "About the till", "About add", "called by", "About neither now")
        assert sorted(names, key=shown.index) == list(names)

    def test_it_answers_as_it_stood_then(self, known: Stage) -> None:
        known.done("ingest", "-", stdin="Zebras graze.")
        assert known.json("query", "--mode", "search", "zebras")["hits"]
        then = known.json("query", "--mode", "search", "zebras", "--as-of", "1")
        assert (then["hits"], then["as_of"]) == ([], 1)

    def test_nothing_found_says_why(self, known: Stage) -> None:
        out = known.done("query", "--mode", "search", "xylophone").out
        assert "No results: " in out
        assert "hint: " in out

    def test_input_may_stand_in_a_file_or_come_from_stdin(self, known: Stage) -> None:
        question = '{"text": "retries"}'
        known.write({"q.json": question})
        by_file = known.json("query", "--mode", "search", "--input", "@q.json")
        by_pipe = known.json("query", "--mode", "search", "--input", "-", stdin=question)
        assert [hit["object_id"] for hit in by_file["hits"]] == [hit["object_id"] for hit in by_pipe["hits"]]

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("query",), "needs a question"),
            (("query", "--input", "{task: 1}"), "--input is not JSON: "),
            (("query", "--input", "[1]"), "neither an object nor a text"),
            (("query", "--input", "[" * 100_000), "nested too deeply"),
            (("query", "--input", "@gone.json"), "gone.json cannot be read"),
            (("query", "x", "--mode", "serach"), "Did you mean 'search'?"),
            (("recent", "x"), "Write: treering log …"),
            (("query", "x", "--limit", "0"), "limit"),
            (("query", "x", "--limit", "many"), "--limit"),
            (("query", "x", "--as-of", "yesterday"), "Write 2026-01-31T12:00:00Z."),
            (("query", " "), "empty"),
        ],
    )
    def test_what_cannot_be_asked_is_explained(self, known: Stage, arguments: tuple[str, ...], said: str) -> None:
        told = known.run(*arguments)
        assert (told.code, told.out) == (2, "")
        assert said in told.err

    def test_half_a_character_in_an_input_is_replaced(self, known: Stage) -> None:
        told = known.run("query", "--mode", "search", "--input", '{"text": "retries \\ud83d"}')
        assert (told.code, "a lone surrogate" in told.out + told.err) == (0, True)

    def test_a_mode_before_a_question_is_taken_as_a_word_and_that_is_said(self, known: Stage) -> None:
        told = known.run("query", "search", "where are sessions kept")
        assert told.code == 0
        assert "note: `search` is a word of the question here; as a command: treering search …" in told.err

    def test_every_wrong_field_is_listed(self, known: Stage) -> None:
        told = known.run("query", "x", "--option", "limit=0", "--option", "max_tokens=1")
        assert "limit: " in told.err
        assert "max_tokens: " in told.err

    def test_with_json_an_error_is_json_too_and_stdout_stays_empty(self, known: Stage) -> None:
        told = known.run("query", "x", "--mode", "serach", "--json")
        assert told.out == ""
        assert json.loads(told.err)["error"]["code"] == "invalid_input"


class TestCrystallize:
    def test_a_decision_is_said_in_flags(self, stage: Stage) -> None:
        stage.done("init")
        report = WriteReport.model_validate(stage.json(*DECISION))
        assert report.mode == "knowledge"
        page = stage.json("query", "--mode", "page", report.ids[-1])["object"]
        assert page["payload"] == {
            "question": "Where is a space kept?",
            "outcome": "In one SQLite file",
            "rationale": "Nothing to operate",
            "alternatives": ["A server"],
        }
        assert page["memory_source"] == "user_declared"

    def test_a_fact_rests_on_the_place_it_names(self, stage: Stage) -> None:
        stage.done("ingest", "-", stdin="The API listens on port 8080.")
        hit = stage.json("query", "--mode", "search", "port")["hits"][0]
        place = f"{hit['source_id']} {hit['segment_id']}"
        fact = ("--kind", "fact", "--title", "Port", "--subject", "api", "--predicate", "port", "--value", "8080")
        made = stage.json("crystallize", *fact, "--evidence", place, "--status", "active")
        item = stage.json("query", "--mode", "page", made["ids"][0])["object"]
        assert item["payload"]["value"] == 8080
        assert item["evidence_refs"][0]["segment_id"] == hit["segment_id"]

    def test_an_id_says_which_mode_changes_it(self, stage: Stage) -> None:
        stage.done("init")
        [draft] = stage.json("crystallize", "--mode", "activity", "--title", "Looked", "--status", "draft")["ids"]
        nodes = [
            stage.json("crystallize", "--mode", "node", "--kind", "service", "--input", f'{{"name": "{name}"}}')["ids"][
                0
            ]
            for name in ("Billing", "Invoicing")
        ]
        [source] = stage.json("ingest", "-", stdin="The port is 8080.")["items"]
        changes = (
            (draft, "--status", "finalized"),
            (nodes[1], "--into", nodes[0]),
            (source["source_id"], "--status", "invalid"),
        )
        for change in changes:
            stage.done("crystallize", *change)
        told = [stage.json("query", "--mode", "page", one)["object"] for one in (draft, nodes[1], source["source_id"])]
        assert [item["status"] for item in told] == ["finalized", "active", "invalid"]
        assert told[1]["id"] == nodes[0]

    def test_an_agent_writes_with_the_rights_of_an_agent(self, stage: Stage) -> None:
        stage.done("init")
        made = stage.json(*DECISION, "--as-agent", "--actor", "bot")
        item = stage.json("query", "--mode", "page", made["ids"][0])["object"]
        assert (item["status"], item["origin_channel"]) == ("candidate", "agent")

    def test_a_dry_run_shows_a_diff_and_changes_nothing(self, stage: Stage) -> None:
        stage.done("init")
        out = stage.done(*DECISION, "--dry-run").out
        assert "+ payload.outcome: In one SQLite file" in out
        assert stage.json("query", "--mode", "recent")["changes"] == []

    def test_the_same_key_again_gives_the_first_receipt(self, stage: Stage) -> None:
        stage.done("init")
        first = stage.json(*DECISION, "--idempotency-key", "one")
        again = stage.json(*DECISION, "--idempotency-key", "one")
        assert again["patch_id"] == first["patch_id"]
        assert again["receipt"]["replayed"] is True

    def test_work_is_opened_resolved_and_taken_back(self, stage: Stage) -> None:
        stage.done("init")
        [task] = stage.json("crystallize", "--kind", "task", "--title", "Write it down")["ids"]
        resolving = ("--kind", "task", "--status", "resolved", "--resolution", "Done")
        patch = stage.json("crystallize", task, *resolving, "--reason", "It is done")["patch_id"]
        assert stage.json("query", "--mode", "page", task)["object"]["status"] == "resolved"
        stage.done("revert", patch, "--reason", "It is not")
        assert stage.json("query", "--mode", "page", task)["object"]["status"] == "open"

    def test_knowledge_is_replaced_by_other_knowledge(self, stage: Stage) -> None:
        stage.done("init")
        old = stage.json(*DECISION)["ids"][-1]
        new = stage.json(*DECISION[:4], "Two files", *DECISION[5:7], "--outcome", "In two files")["ids"][-1]
        stage.done("crystallize", "--mode", "supersede", old, "--by", new)
        assert stage.json("query", "--mode", "page", old)["object"]["status"] == "superseded"

    def test_a_stale_revision_is_a_conflict(self, stage: Stage) -> None:
        stage.done("init")
        item = stage.json(*DECISION)["ids"][-1]
        told = stage.run("crystallize", item, "--mode", "knowledge", "--input", '{"revision": 7, "title": "Other"}')
        assert told.code == 4

    def test_nothing_said_is_nothing_recorded(self, stage: Stage) -> None:
        stage.done("init")
        for arguments in ((), ("--kind", "fact"), ("--kind", "decsion", "--title", "x"), ("--evidence", "src:1")):
            assert stage.run("crystallize", *arguments).code == 2


class TestLint:
    def test_without_a_mode_form_and_meaning_are_looked_at(self, stage: Stage) -> None:
        stage.done("init")
        reports = [LintReport.model_validate(one) for one in stage.json("lint")]
        assert [report.mode for report in reports] == ["structure", "semantic"]
        assert "No problems found." in stage.done("lint").out

    def test_strict_lint_fails_with_a_stale_statement(self, stage: Stage) -> None:
        stage.done("init")
        (stage.folder / "app.py").write_text("LIMIT = 3\n")
        stage.done("decide", "The limit is three", "--because", "app.py:1")
        assert stage.run("lint", "--strict").code == 0
        (stage.folder / "app.py").write_text("LIMIT = 4\n")
        stage.done("add", ".")
        assert stage.run("lint").code == 0
        assert stage.run("lint", "--strict").code == 1

    def test_findings_are_explained_and_strict_passes_with_other_warnings(self, stage: Stage) -> None:
        stage.done("init")
        for port in ("8080", "9090"):
            fact = ("--subject", "api", "--predicate", "port", "--value", port)
            stage.done("crystallize", "--kind", "fact", "--title", f"Port {port}", *fact)
        out = stage.done("lint", "semantic", "--strict").out
        assert out.startswith("1 problem found.\n1  warning: These contradict each other")

    def test_audit_reindex_and_repair_report_what_they_are(self, stage: Stage) -> None:
        stage.done("init")
        item = stage.json(*DECISION)["ids"][-1]
        audit = AuditReport.model_validate(stage.json("lint", "audit", item))
        assert audit.verified
        assert len(audit.events) == 1
        stage.done("crystallize", item, "--summary", "As the readme says.")
        assert 'summary: nothing → "As the readme says."' in stage.done("lint", "audit", item).out
        assert ReindexReport.model_validate(stage.json("lint", "reindex", "--apply")).rebuilt
        assert RepairReport.model_validate(stage.json("lint", "repair")).repairs == ()
        assert "The audit log verifies" in stage.done("lint", "audit").out
        for mode in ("reindex", "repair"):
            assert stage.done("lint", mode).out

    def test_an_unknown_mode_names_the_nearest(self, stage: Stage) -> None:
        stage.done("init")
        told = stage.run("lint", "semantics")
        assert told.code == 2
        assert "Did you mean 'semantic'?" in told.err


class TestMovingASpace:
    def test_an_export_imported_is_the_same_space(self, stage: Stage) -> None:
        stage.done("init")
        item = stage.json(*DECISION)["ids"][-1]
        stage.done("export", "out")
        stage.done("import", "out", "--space", "copy")
        assert stage.json("query", "--mode", "page", item, "--space", "copy")["object"]["id"] == item
        here, there = (stage.json("lint", "audit", *space)["head"] for space in ((), ("--space", "copy")))
        assert here == there

    def test_an_export_overwrites_nothing(self, stage: Stage) -> None:
        stage.done("init")
        (stage.folder / "out").mkdir()
        assert stage.run("export", "out").code == 4

    def test_a_folder_that_is_no_export_is_refused(self, stage: Stage) -> None:
        assert stage.run("import", "nowhere").code == 3

    def test_vectors_are_made_in_the_foreground_on_request(self, stage: Stage) -> None:
        stage.done("ingest", "-", stdin="Releases are cut on Tuesdays.")
        assert stage.json("vectors")["pending"] == 0
        assert stage.done("vectors", "--quiet").out == ""


def hear_ctrl_c() -> None:
    """Undo what a shell does to what it runs in the background: have it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class TestTheProcess:
    def call(self, stage: Stage, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "treering", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=stage.folder, check=False, **options)

    def test_the_module_runs_as_a_command(self, stage: Stage) -> None:
        done = self.call(stage, "query", "x")
        assert (done.returncode, done.stdout) == (3, "")
        assert "Traceback" not in done.stderr

    @pytest.mark.nightly
    def test_a_reader_that_leaves_early_is_no_error_to_talk_about(self, stage: Stage) -> None:
        stage.write({f"docs/{n}.md": f"# Acme {n}\n\n" + "Acme retries.\n" * 200 for n in range(20)})
        stage.done("ingest", "docs")
        line = f"{sys.executable} -m treering query --mode search acme --limit 50 --json | head -1"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=stage.folder, check=False)
        assert done.stdout == "{\n"
        assert "Traceback" not in done.stderr

    def test_ctrl_c_ends_it_without_a_traceback(self, stage: Stage) -> None:
        command = [sys.executable, "-m", "treering", "ingest", "-"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=stage.folder, text=True, preexec_fn=hear_ctrl_c
        )
        while not Path(stage.folder / ".treering" / "treering.db").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (130, "error: interrupted\n")

    def test_ctrl_c_says_how_many_files_were_saved(self, stage: Stage) -> None:
        stage.write({f"note{number}.md": f"Note {number} is about retries.\n" for number in range(3000)})
        stage.done("init")
        command = [sys.executable, "-m", "treering", "add", "."]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=stage.folder,
            text=True,
            preexec_fn=hear_ctrl_c,
        )
        while not (saved := stage.json("status")["objects"].get("source", {}).get("active", 0)):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        found = re.fullmatch(r"Saved ([\d,]+) files; run the command again to continue\.\nerror: interrupted\n", said)
        assert process.returncode == 130
        assert found
        assert saved <= int(found[1].replace(",", "")) == stage.json("status")["objects"]["source"]["active"]

    def test_ctrl_c_is_told_where_a_library_makes_another_error_of_it(self, stage: Stage) -> None:
        code = """
import os, signal, time
from treering.surfaces import cli
from treering.surfaces.cli import commands

def app(**options):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    except KeyboardInterrupt:
        raise ImportError("a module could not be loaded") from None

commands.command_line = lambda first: app
cli.main([])
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=hear_ctrl_c)
        assert (done.returncode, done.stderr.splitlines()[0]) == (130, "error: interrupted")

    @pytest.mark.nightly
    def test_a_worker_for_vectors_leaves_the_terminal_alone(self, stage: Stage) -> None:
        environment = {**os.environ, "TREERING_BACKGROUND": "1"}
        command = [sys.executable, "-m", "treering", "ingest", "-"]
        # Would the worker hold the pipe, reading to its end would wait for the worker.
        done = subprocess.run(
            command, input="A note.", capture_output=True, text=True, env=environment, cwd=stage.folder, check=True
        )
        assert ": 1 indexed." in done.stdout
        assert stage.json("vectors")["pending"] == 0


def test_a_lease_is_listed_and_can_be_taken_away(stage):
    stage.done("init")
    assert stage.done("unlock").out == "No leases are held here.\n"
    with treering.open(f"sqlite:{stage.folder / FOLDER / FILE}", background=False) as space:
        space.engine.leases.take("vectors", "somebody", seconds=60)
        told = stage.done("unlock").out
        assert re.fullmatch(rf"vectors: held by process {os.getpid()}, renewed \d+ s ago, lapses in \d+ s\.\n", told)
        wrong = stage.run("unlock", "vector")
        assert (wrong.code, "Did you mean 'vectors'?" in wrong.err) == (3, True)
        assert stage.json("unlock", "vectors")["cleared"]["owner"] == "somebody"
        assert space.engine.leases.holder("vectors") is None


@pytest.mark.parametrize("given", ['"retries"', '{"query": "retries"}', '{"text": "retries"}'])
def test_an_input_may_be_a_json_text_or_name_a_query(stage, given):
    stage.done("ingest", "-", "--origin", "retries", stdin="Retry three times.")
    assert [hit["origin"] for hit in stage.json("query", "--mode", "search", "--input", given)["hits"]] == ["retries"]


def test_a_json_text_beside_words_is_refused(stage):
    stage.done("ingest", "-", stdin="Retry three times.")
    told = stage.run("query", "how often", "--mode", "search", "--input", '"retries"')
    assert (told.code, "--input is plain text" in told.err) == (2, True)


@pytest.mark.parametrize(("mode", "flag"), [("related", "limit"), ("page", "limit"), ("recent", "withdrawn")])
def test_query_names_a_flag_that_a_mode_does_not_have(stage, mode, flag):
    stage.done("init")
    refused = stage.run("query", "--mode", mode, "monday", f"--{flag}", *(["3"] if flag == "limit" else []))
    assert (refused.code, refused.err.splitlines()[0]) == (2, f"error: --{flag} does not apply to the mode {mode}.")

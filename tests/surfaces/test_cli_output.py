"""What the command line prints for people: sentences with titles and places, and ids only on request."""

import json
import re
import shlex
import subprocess
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
import typer

from document_files import eml_of
from treering.core.errors import InvalidInput
from treering.core.evidence import places_as_typed
from treering.core.fencing import fence
from treering.surfaces.cli import failures, printing, run
from treering.surfaces.cli.commands import command_line
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.history import LoggedEvent, render_events
from treering.surfaces.cli.printing import page
from treering.surfaces.cli.rendering_changes import render_ingest
from treering.surfaces.cli.rendering_queries import render_search
from treering.surfaces.cli.session import answer
from treering.surfaces.ingest_words import duration, ingest_in_words, saved_in_words
from treering.surfaces.python.space import open_space
from treering.verbs.ingest.report import IngestReport, ItemResult, JobRow

README = "# Acme\n\nAcme retries three times.\n"
ID = re.compile(r"(know|src|patch|work):[0-9a-z]{26}")
SOURCES = Path(printing.__file__).parents[2]


def ingest_report(**given):
    return IngestReport(scope="/", status="ok", **{"mode": "path", **given})


@pytest.fixture
def acme(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.commit({"README.md": README, "Cargo.lock": "[[package]]\n"})
    stage.done("init")
    stage.done("add", ".")
    return stage


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            ingest_report(counts={"created": 482, "skipped": 5}, summarized={"lock file": 51}, redacted=3),
            "Read 487 files in 12 s: 431 indexed, 51 summarized (lock files), 5 skipped. Redacted 3 secrets.",
        ),
        (
            ingest_report(
                counts={"created": 4},
                redacted=5,
                warnings=[f"repo:/acme#{name}: token at line 1: redacted" for name in ("a", "b", "b", "c", "d")],
            ),
            "Read 4 files in 12 s: 4 indexed. Redacted 5 secrets in a, b, c and 1 more file.",
        ),
        (ingest_report(counts={"unchanged": 1}), "Read 1 file in 12 s: nothing changed."),
        (ingest_report(counts={"updated": 2, "removed": 1}), "Read 2 files in 12 s: 2 updated, 1 removed."),
        (ingest_report(mode="source", counts={"created": 2}), "Read 2 texts in 12 s: 2 indexed."),
        (ingest_report(counts={}), "Read 0 files in 12 s: nothing new."),
    ],
)
def test_ingest_is_reported_in_a_sentence(report, words):
    assert ingest_in_words(report, 12.3) == words


def interrupted_job(counts, *, total=None, items=()):
    at = datetime(2026, 11, 29, tzinfo=UTC)
    times = {"started_at": at, "updated_at": at}
    return JobRow(
        id="job:1",
        mode="repo",
        scope="/",
        target="acme",
        state="interrupted",
        done=sum(counts.values()),
        total=total,
        counts=counts,
        items=items,
        **times,
    )


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (None, "Nothing was saved."),
        (interrupted_job({"failed": 1, "unchanged": 4}), "Nothing was saved."),
        (
            interrupted_job({"created": 312, "skipped": 3}, total=487),
            "Saved 312 of 487 files; run the command again to continue.",
        ),
        (
            interrupted_job({"removed": 5, "created": 8}, total=10),
            "Saved 8 of 10 files; run the command again to continue.",
        ),
        (
            interrupted_job({"updated": 1, "created": 1}, items=(ItemResult(origin="repo:/acme", outcome="updated"),)),
            "Saved 1 file; run the command again to continue.",
        ),
    ],
)
def test_interrupted_ingest_states_what_was_saved(job, words):
    assert saved_in_words(job) == words


@pytest.mark.parametrize("origin", ["repo:/acme#issues.jsonl#web-7", "file:/acme/issues.jsonl#web-7"])
def test_parts_of_a_file_are_counted_as_items(origin):
    items = (ItemResult(origin=origin, outcome="created"),)
    report = ingest_report(mode="path", counts={"created": 157}, items=items)
    assert ingest_in_words(report) == "Read 157 items: 157 indexed."


def test_repository_map_is_not_counted_as_a_file():
    items = (ItemResult(origin="repo:/acme", outcome="updated"),)
    report = ingest_report(mode="repo", counts={"updated": 1, "unchanged": 6}, items=items)
    assert ingest_in_words(report) == "Read 6 files: nothing changed."


def test_routine_warnings_are_shown_only_on_request():
    warnings = (
        "path:/acme#b c.pdf: needs the extra pdf",
        "path:/acme#a.lock: lock file: only its first lines are indexed",
        "and 122 more warnings; see the job",
    )
    report = ingest_report(counts={"created": 2}, warnings=warnings)
    shown = ["".join(one.text.plain) for one in render_ingest(report)]
    assert shown[1:] == ["warning: b c.pdf: needs the extra pdf"]
    assert "lock file" in "".join(one.text.plain for one in render_ingest(report, verbose=True))


def test_same_warning_of_many_files_is_one_line():
    warnings = tuple(f"path:/acme#{n}.pdf: needs the extra pdf" for n in range(5))
    shown = [one.text.plain for one in render_ingest(ingest_report(counts={"created": 5}, warnings=warnings))]
    assert shown[1:] == ["warning: 0.pdf, 1.pdf, 2.pdf and 2 more: needs the extra pdf"]


def test_part_of_a_file_is_named_with_the_file():
    report = ingest_report(counts={}, warnings=("path:/chats/day.jsonl#line-10: no message",))
    assert [one.text.plain for one in render_ingest(report)][-1] == "warning: day.jsonl#line-10: no message"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.42, "0.4 s"), (12.3, "12 s"), (90, "90 s"), (240, "4 minutes"), (7_300, "122 minutes")]
)
def test_duration_is_in_the_unit_people_use(seconds, words):
    assert duration(seconds) == words


def test_add_names_summarized_files(acme):
    assert "1 indexed, 1 summarized (lock files)" in acme.done("add", ".", "--space", "sqlite:other.db").out


def test_stale_knowledge_is_named_by_title_and_place(acme):
    acme.done("decide", "Retries are bounded", "--because", "README.md:3")
    acme.commit({"README.md": "# Acme\n\nAcme never retries.\n"})
    out = acme.done("add", ".").out
    assert 'Now stale: "Retries are bounded" (README.md:3 changed). See: treering lint' in out
    assert not ID.search(out + acme.done("lint").out + acme.done("status").out + acme.done("log").out)


def test_ids_are_shown_on_request(acme):
    for command in (("decide", "x", "-v"), ("log", "-v"), ("undo", "-v")):
        assert ID.search(acme.done(*command).out), command


def test_receipt_of_a_candidate_names_the_review(acme):
    flags = ("--kind", "decision", "--title", "One file", "--question", "Where?", "--outcome", "In one file")
    receipt = acme.done("crystallize", *flags, "--evidence", "README.md:3").out
    waits = "It waits for confirmation: treering review list"
    stated = 'One file (README.md:3: "Acme retries three times."). Undo with: treering undo'
    assert receipt == f"Decision: {stated}. {waits}\n"
    assert acme.done("undo").out == "Undone: One file\n"


def test_undo_names_the_patch_of_another_actor(acme):
    receipt = acme.done("task", "Write the docs", "--actor", "bot").out.strip()
    command = shlex.split(receipt.partition("Undo with: ")[2])
    assert acme.done(*command[1:]).out == "Undone: Write the docs\n"


def test_log_shows_an_ingest_as_one_line(acme):
    acme.done("decide", "Retries are bounded")
    lines = acme.done("log").out.splitlines()
    lines[1] = re.sub(r"commit [0-9a-f]{7}", "commit COMMIT", lines[1])
    assert [re.sub(r"^(\d)  \S+ \S+  ", r"\1 ", line).rpartition("  ")[0] for line in lines] == [
        '1 Decided: "Retries are bounded"',
        "2 Read 2 files at commit COMMIT",
    ]


def test_log_and_status_show_an_erasure_without_its_content(acme):
    (acme.folder / "secret.md").write_text("The vault opens at noon.\n")
    acme.done("add", "secret.md")
    acme.done("erase", "secret.md", "--yes")
    for command in (("log",), ("log", "--since", "yesterday"), ("status",)):
        shown = acme.done(*command).out
        assert re.search(r"  Erased 1 source  \S+$", shown, re.MULTILINE), command
        assert "secret" not in shown
        assert "vault" not in shown
    (erased,) = [one for one in json.loads(acme.done("log", "--json").out)["changes"] if one["event"] == "erased"]
    assert (erased["type"], erased["title"], erased["current"]) == ("source", "", False)


def test_show_marks_the_changed_lines_of_a_decision(acme):
    (acme.folder / "limit.md").write_text("The limit is five.\n")
    acme.done("add", "limit.md")
    acme.done("decide", "Retries are bounded", "--because", "README.md:3", "--because", "limit.md:1")
    (acme.folder / "limit.md").write_text("There is none.\n")
    acme.done("add", "limit.md")
    assert "based on: README.md:3, limit.md:1 (changed)" in acme.done("show", "Retries are bounded").out


def test_log_shows_a_candidate_as_proposed(acme):
    flags = ("--kind", "decision", "--title", "One file", "--question", "Where?", "--outcome", "In one file")
    acme.done("crystallize", *flags, "--evidence", "README.md:3", "--status", "candidate")
    assert 'Proposed: "One file"' in acme.done("log").out


def test_log_names_the_commit_of_a_branch_and_no_loss_by_a_rename(acme):
    def git(*arguments):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=acme.folder, check=True, capture_output=True, text=True).stdout

    acme.done("decide", "Retries are bounded", "--because", "README.md:3")
    git("checkout", "-q", "-b", "feature")
    git("mv", "README.md", "GUIDE.md")
    (acme.folder / "new.md").write_text("# New\n\nSomething else.\n")
    git("add", ".")
    git("commit", "-qm", "Move")
    acme.done("add", ".")
    out = acme.done("log").out
    assert f"at commit {git('rev-parse', 'HEAD')[:7]}" in out
    assert 'Updated: "Retries are bounded"' in out
    assert "Lost evidence" not in out


def test_log_numbers_name_their_objects(acme):
    acme.done("decide", "Retries are bounded")
    acme.done("log")
    assert "Retries are bounded" in acme.done("show", "1").out


def test_log_keeps_its_json(acme):
    report = acme.json("log", "--limit", "1")
    assert (report["mode"], len(report["changes"])) == ("recent", 1)


def test_lint_numbers_name_their_objects(acme):
    acme.done("decide", "Retries are bounded", "--because", "README.md:3")
    acme.commit({"README.md": "# Acme\n\nAcme never retries.\n"})
    acme.done("add", ".")
    assert acme.done("lint").out.startswith("1 problem found.\n1  warning: 'Retries are bounded' is stale")
    assert acme.done("replace", "1", "Never retry").out.startswith(
        'Decided: Never retry (README.md:3, as before: "Acme never retries."), instead of: Retries are'
    )


def test_places_are_shown_as_people_type_them():
    assert places_as_typed("a.md#L1-L3 @ 93e339b8d478 differs") == "a.md:1-3 differs"
    assert places_as_typed("a.md#L4-L4") == "a.md:4"


def test_empty_log_says_so():
    assert [one.text.plain for one in render_events([], fenced=False)] == ["No changes."]
    assert LoggedEvent.__slots__


@pytest.mark.parametrize("title", ["def main() -> None:", "List<String>", "a < b"])
def test_log_shows_titles_of_code_unchanged(title):
    event = LoggedEvent(datetime(2026, 1, 5, tzinfo=UTC), "ada", "Added", title, "src:1", (), "")
    for fenced in (True, False):
        assert title in next(iter(render_events([event], fenced=fenced))).text.plain


def test_log_hides_markers_of_fences_in_titles():
    title = fence("x", origin="note").splitlines()[0]
    event = LoggedEvent(datetime(2026, 1, 5, tzinfo=UTC), "ada", "Added", title, "src:1", (), "")
    assert title in next(iter(render_events([event], fenced=False))).text.plain
    assert title not in next(iter(render_events([event], fenced=True))).text.plain


def test_search_without_words_asks_for_words(tmp_path, capsys):
    with open_space(f"sqlite:{tmp_path / 'space.db'}", background=False):
        pass
    assert run(["search", " ", "--space", f"sqlite:{tmp_path / 'space.db'}"]) != 0
    assert "treering search WORDS" in capsys.readouterr().err


def test_hint_never_repeats_the_typed_command(capsys):
    failures.tell_failure(InvalidInput("No.", hint="See: treering log"), ["log"])
    assert capsys.readouterr().err == "error: No.\n"
    failures.tell_failure(InvalidInput("No.", hint="See: treering log"), ["undo"])
    assert "hint: See: treering log" in capsys.readouterr().err


@pytest.fixture
def attended(tmp_path, monkeypatch):
    """A terminal with a person and a pager that writes to the returned file."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for name in ("TREERING_PAGER", printing.NO_PAGER, *printing.UNATTENDED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PAGER", f"sh -c 'cat > {tmp_path}/paged'")
    return tmp_path / "paged"


@pytest.mark.parametrize(
    "setting",
    [
        *({"TREERING_PAGER": ""}, {"PAGER": "cat"}, {"PAGER": "head -n 10000 | cat"}, {"TERM": "dumb"}),
        *({printing.NO_PAGER: "1"}, {"CLAUDECODE": "1"}, {"CODEX_THREAD_ID": "0199"}, {"AGENT": "1"}, {"CI": "true"}),
    ],
)
@pytest.mark.usefixtures("attended")
def test_no_pager_is_used_where_it_is_switched_off(monkeypatch, setting):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    assert not page("line\n" * 100, screen_rows=24)


def test_pager_opens_only_for_texts_longer_than_the_screen(attended):
    assert not page("line\n" * 23, screen_rows=24)
    assert page("line\n" * 24, screen_rows=24)
    assert attended.read_text() == "line\n" * 24


def test_agents_get_the_pager_that_they_name(attended, monkeypatch):
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("TREERING_PAGER", f"sh -c 'cat > {attended}'")
    assert page("line\n" * 100, screen_rows=24)


SUGGESTED = re.compile(r"(?<!\w)treering(?P<words>(?: [a-z]+)+)(?P<flags>(?: --?[a-z-]+)*)")
PROSE = {"again", "and", "table"}
"""Words after the name of the program that are no commands."""


def test_suggested_commands_exist():
    known = typer.main.get_command(command_line())
    suggested = {
        (match["words"], match["flags"])
        for file in SOURCES.rglob("*.py")
        for match in SUGGESTED.finditer(file.read_text(encoding="utf-8"))
    }
    assert [one for one in sorted(suggested) if not is_known(known, one[0].split(), one[1].split())] == []


def is_known(command, words, flags) -> bool:
    if words[0] in PROSE:
        return True
    for word in words:
        if not hasattr(command, "commands"):
            break
        command = command.commands.get(word)
    if command is None:
        return False
    options = {name for one in command.params for name in one.opts} | {"--help", "--trust", "--no-pager"}
    return options.issuperset(flags)


class Terminal(StringIO):
    """An output of 80 columns that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("is_paged", "in_pager"), [(True, "line\n" * 100), (False, "")])
def test_only_paged_answers_open_the_pager(attended, monkeypatch, is_paged, in_pager):
    monkeypatch.setattr("sys.stdout", Terminal())
    answer(Access(), {}, [printing.line("line")] * 100, paged=is_paged)
    shown = attended.read_text() if is_paged else ""
    assert shown == in_pager


def test_search_shows_five_hits_by_default(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.commit({f"note{number}.md": f"# Note {number}\n\nAcme retries {number} times.\n" for number in range(7)})
    stage.done("init")
    stage.done("add", ".")
    assert len(stage.json("search", "Acme retries")["hits"]) == 5
    assert len(stage.json("search", "Acme retries", "-n", "7")["hits"]) == 7


def test_hit_in_a_mail_is_named_by_its_file(space, tmp_path):
    (tmp_path / "flour.eml").write_bytes(eml_of("The flour arrives on Tuesdays.", subject="Delivery times"))
    space.ingest("path", input={"path": str(tmp_path)})
    report = space.query("search", input={"text": "when does the flour arrive"})
    first = next(iter(render_search(report, fenced=False))).text.plain
    assert re.match(r"1  \S*flour\.eml  Delivery times > ", first)


def test_left_out_lines_are_marked_in_the_column_of_numbers(space, tmp_path):
    body = "".join(f"    step_{number} = {number}\n" for number in range(8))
    (tmp_path / "retry.py").write_text(f"def run(task):\n{body}    return backoff_limit\n")
    space.ingest("path", input={"path": str(tmp_path)})
    report = space.query("search", input={"text": "backoff_limit"}, options={"lines": 2})
    rows = [one.text.plain for one in render_search(report, fenced=False)]
    assert rows[1:4] == ["       1  def run(task):", "       …", "      10      return backoff_limit"]

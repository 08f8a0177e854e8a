"""`treering check` on real repositories: what a change does to what is known, in each form and by each policy."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from space_parts import decide, open_space

RECORD = """\
# 1. Sessions in SQLite

Status: accepted

## Context

Where are sessions kept? `src/acme/sessions.py` keeps them in a file today.

## Decision

Sessions are kept in one SQLite file.
"""
SESSIONS = '"""Sessions."""\n\n\ndef open_sessions(path: str) -> None:\n    """Open the file."""\n'
FETCH = '''"""Fetching."""

import time

RETRY_LIMIT = 3


def fetch_quote(url: str) -> str:
    """Fetch it."""
    return url


def wait_longer(attempt: int) -> None:
    """Wait between two tries, twice as long each time."""
    time.sleep(2**attempt)
'''
FILES = {
    "docs/decisions/0001-sessions.md": RECORD,
    "docs/usage.md": "# Usage\n\nSee [sessions](../src/acme/sessions.py).\n\nCall `fetch_quote` with an address.\n",
    "CHANGELOG.md": "# Changelog\n\n- `src/acme/sessions.py` was added.\n",
    "src/acme/sessions.py": SESSIONS,
    "src/acme/fetch.py": FETCH,
    "pyproject.toml": '[project]\nname = "acme"\nversion = "1.0"\nrequires-python = ">=3.11"\n',
}


@pytest.fixture
def shop(stage):
    """The repository on a branch of its own, which left `main` at its first commit."""
    stage.commit(FILES)
    git(stage, "branch", "-M", "main")
    git(stage, "checkout", "-q", "-b", "feature")
    return stage


def git(stage, *arguments):
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *who, *arguments], cwd=stage.folder, check=True, capture_output=True)


def change(stage, path, before, after, text="Change it"):
    file = stage.folder / path
    said = file.read_text()
    assert before in said
    file.write_text(said.replace(before, after))
    git(stage, "commit", "-qam", text)


def findings(stage, *arguments):
    told = stage.run("check", "--json", *arguments)
    assert told.code in (0, 1), told
    return told.data["findings"]


def brief(found, *rules):
    return [(one["rule"], one["path"], one["line"], one["title"]) for one in found if not rules or one["rule"] in rules]


def believe(stage, title, *, path, words, kind="decision", **more):
    """Have the space believe something that rests on the segment of a file that holds some words."""
    with open_space(f"sqlite:{stage.folder}/.treering/treering.db", channel="user", actor="ada") as space:
        hits = space.query("search", input={"query": words}).hits
        hit = next(one for one in hits if one.origin.endswith(path) and words.split()[0] in one.text)
        evidence = [{"source_id": hit.source_id, "segment_id": hit.segment_id}]
        return decide(space, title, status="active", evidence_refs=evidence, **more)


# Without a space: what the repository's own records and rules say.


def test_a_record_that_is_rewritten_is_a_stale_decision_at_the_line_that_changed(shop):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    told = shop.run("check")
    assert told.code == 1
    assert "docs/decisions/0001-sessions.md:11: fails: stale-decision: Sessions in SQLite" in told.out
    assert "no longer contains 'Sessions are kept in one SQLite file.'" in told.out
    assert "$EDITOR +11 docs/decisions/0001-sessions.md" in told.out
    assert not (shop.folder / ".treering").exists()


def test_a_record_that_is_marked_as_superseded_is_withdrawn_and_fails_nothing(shop):
    text = RECORD.replace("accepted", "superseded by 2").replace("one SQLite file", "one SQLite file, until 2026")
    shop.commit({"docs/decisions/0001-sessions.md": text})
    told = shop.run("check", "--json")
    assert told.code == 0
    assert brief(told.data["findings"]) == [("withdrawn", "docs/decisions/0001-sessions.md", 11, "Sessions in SQLite")]


def test_a_record_and_a_document_that_name_a_deleted_file_are_stale_where_they_name_it(shop):
    git(shop, "rm", "-q", "src/acme/sessions.py")
    git(shop, "commit", "-qm", "Remove sessions")
    found = findings(shop)
    assert brief(found) == [
        ("stale-decision", "docs/decisions/0001-sessions.md", 7, "Sessions in SQLite"),
        ("stale-document", "docs/usage.md", 3, "docs/usage.md"),
    ]
    assert found[0]["reason"] == "It mentions 'src/acme/sessions.py', which the change deletes."


def test_of_a_renamed_file_it_is_said_where_it_is_now(shop):
    git(shop, "mv", "src/acme/sessions.py", "src/acme/store.py")
    git(shop, "commit", "-qm", "Rename")
    assert findings(shop)[0]["reason"].endswith("which the change moves to 'src/acme/store.py'.")


def test_a_document_that_names_a_removed_definition_is_stale_unless_other_code_has_the_name(shop):
    change(shop, "src/acme/fetch.py", "def fetch_quote", "def fetch_price")
    assert brief(findings(shop)) == [("stale-document", "docs/usage.md", 5, "docs/usage.md")]
    shop.commit({"src/acme/old.py": "from acme.fetch import fetch_price as fetch_quote\n"})
    assert findings(shop) == []


def test_rules_govern_the_lines_that_they_speak_of_and_the_folders_that_they_hold_for(shop):
    git(shop, "checkout", "-q", "main")
    shop.commit(
        {
            "AGENTS.md": "# Rules\n\nNever call `time.sleep()` in a request.\n\nAlways write plain English.\n",
            "src/acme/AGENTS.md": "# Rules\n\nEvery function must have a docstring.\n",
            ".cursor/rules/web.mdc": "---\nglobs: web/**/*.ts\n---\n\nNever use `any` as a type in the pages.\n",
        }
    )
    git(shop, "checkout", "-q", "-B", "feature")
    change(shop, "src/acme/fetch.py", "    return url", "    time.sleep(1)\n    return url")
    told = shop.run("check", "--json").data
    assert brief(told["findings"]) == [
        ("governs", "src/acme/fetch.py", 10, "Never call `time.sleep()` in a request."),
        ("governs", "src/acme/fetch.py", 10, "Every function must have a docstring."),
    ]
    assert told["everywhere"] == {"AGENTS.md": 2}
    shop.commit({"web/page/start.ts": "export const start = 1;\n"})
    assert ("governs", "web/page/start.ts", 1, "Never use `any` as a type in the pages.") in brief(findings(shop))


def test_text_shows_five_governing_rules_those_about_a_changed_line_first(shop):
    rules = "".join(f"- Every module number {number} must be small.\n" for number in range(7))
    git(shop, "checkout", "-q", "main")
    shop.commit({"src/acme/AGENTS.md": f"# Rules\n\n{rules}- Never call `time.sleep()` in a request.\n"})
    git(shop, "checkout", "-q", "-B", "feature")
    change(shop, "src/acme/fetch.py", "    return url", "    time.sleep(1)\n    return url")
    summary, first, reason, *others = shop.run("check").out.splitlines()
    assert summary.endswith("8 good to know.")
    assert first == "src/acme/fetch.py:10: good to know: governs: Never call `time.sleep()` in a request."
    assert reason == "    It is about 'time.sleep()', and so is this line."
    assert len(others) == 4 * 2 + 1
    assert others[-1] == "and 3 more good to know: treering check --json"


def test_two_records_that_answer_one_question_differently_are_contested(shop):
    second = RECORD.replace("# 1. Sessions in SQLite", "# 2. Sessions in Redis").replace("one SQLite file", "Redis")
    shop.commit({"docs/decisions/0002-sessions.md": second})
    told = shop.run("check", "--json")
    assert told.code == 1
    (one,) = told.data["findings"]
    assert (one["rule"], one["path"], one["title"]) == (
        "contested",
        "docs/decisions/0002-sessions.md",
        "Sessions in SQLite",
    )
    assert "docs/decisions/0001-sessions.md states 'Sessions are kept in one SQLite file.'" in one["reason"]


# With a space.


def test_a_decision_on_lines_that_the_change_takes_away_is_stale_whichever_side_the_space_has_read(shop):
    shop.done("init")
    shop.done("ingest", ".")
    decision = believe(shop, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    before = findings(shop)
    assert [(one["rule"], one["path"], one["line"], one["id"]) for one in before] == [
        ("stale-decision", "src/acme/fetch.py", 5, decision)
    ]
    assert before[0]["mend"] == "treering replace 'RETRY_LIMIT stays at three' \"…\" --because …"
    shop.done("ingest", ".")
    assert findings(shop) == before


def test_unconfirmed_decision_is_a_warning(shop):
    shop.done("init")
    shop.done("add", ".")
    proposed = ("crystallize", "--kind", "decision", "--title", "A quote is fetched three times", "--as-agent")
    shop.done(*proposed, "--question", "How often?", "--outcome", "3", "--evidence", "src/acme/fetch.py:5")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    told = shop.run("check")
    assert told.code == 0
    assert "src/acme/fetch.py:5: check: stale-decision: A quote is fetched three times\n    Not confirmed." in told.out


@pytest.mark.parametrize("because", ["src/acme/fetch.py:5", '"RETRY_LIMIT = 3"'])
@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        ("RETRY_LIMIT = 3", "RETRY_LIMIT = 30", ["stale-decision"]),
        ("import time", "import time as clock", []),
    ],
)
def test_check_compares_only_the_cited_lines(shop, because, before, after, rules):
    shop.done("init")
    shop.done("ingest", ".")
    shop.done("decide", "Three tries", "--because", because)
    change(shop, "src/acme/fetch.py", before, after)
    assert [one["rule"] for one in findings(shop) if one["rule"] != "governs"] == rules


def test_a_decision_on_a_file_that_was_read_by_its_folder_is_stale_too(shop):
    shop.done("init")
    shop.done("ingest", "src", "--mode", "path")
    decision = believe(shop, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    expected = [("stale-decision", "src/acme/fetch.py", 5, decision)]
    assert [(one["rule"], one["path"], one["line"], one["id"]) for one in findings(shop)] == expected
    git(shop, "remote", "add", "origin", "https://example.org/acme/shop.git")
    assert [(one["rule"], one["path"], one["line"], one["id"]) for one in findings(shop)] == expected


def test_a_decision_on_a_folder_that_was_read_before_it_was_a_repository_is_stale_too(stage):
    for path, text in FILES.items():
        (stage.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (stage.folder / path).write_text(text)
    stage.done("init")
    stage.done("ingest", ".", "--mode", "path")
    decision = believe(stage, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    stage.commit(FILES)
    git(stage, "branch", "-M", "main")
    git(stage, "checkout", "-q", "-b", "feature")
    git(stage, "mv", "src/acme/fetch.py", "src/acme/fetching.py")
    change(stage, "src/acme/fetching.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    assert [(one["rule"], one["path"], one["id"]) for one in findings(stage) if one["id"]] == [
        ("stale-decision", "src/acme/fetching.py", decision)
    ]


def test_the_command_that_mends_a_stale_decision_does(shop):
    shop.done("init")
    shop.done("ingest", ".")
    believe(shop, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    shop.done("ingest", ".")
    (one,) = findings(shop)
    typed = one["mend"].replace('"…" --because …', "'RETRY_LIMIT is five' --because src/acme/fetch.py:5")
    shop.done(*shlex.split(typed)[1:])
    assert "stale-decision" not in {one["rule"] for one in findings(shop)}


def test_change_of_lines_that_main_wrote_since_contradicts_the_decision_about_them(shop):
    git(shop, "checkout", "-q", "main")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    shop.done("add", ".")
    shop.done("decide", "Five retries", "--because", "src/acme/fetch.py:5", "--why", "Proxies restart slowly")
    git(shop, "checkout", "-q", "feature")
    change(shop, "src/acme/fetch.py", "2**attempt", "3**attempt")
    assert findings(shop) == []
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 9")
    (found,) = findings(shop)
    assert (found["rule"], found["level"], found["line"]) == ("contested", "error", 5)
    assert "'RETRY_LIMIT = 5', written since this change began" in found["reason"]
    assert 'src/acme/fetch.py:5 is now "RETRY_LIMIT = 9". Its reason: Proxies restart slowly.' in found["reason"]


def test_lines_that_only_moved_make_nothing_stale(shop):
    shop.done("init")
    shop.done("ingest", ".")
    believe(shop, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    git(shop, "mv", "src/acme/fetch.py", "src/acme/fetching.py")
    file = shop.folder / "src/acme/fetching.py"
    file.write_text(f"# Moved.\n{file.read_text()}")
    git(shop, "commit", "-qam", "Move")
    assert [(one["rule"], one["path"]) for one in findings(shop)] == [("governs", "src/acme/fetching.py")]


def test_what_was_derived_from_a_stale_decision_is_stale_too(shop):
    shop.done("init")
    shop.done("ingest", ".")
    parent = believe(shop, "RETRY_LIMIT stays at three", path="src/acme/fetch.py", words="RETRY_LIMIT Fetching")
    with open_space(f"sqlite:{shop.folder}/.treering/treering.db", channel="user", actor="ada") as space:
        decide(
            space,
            "Alarm after four failures",
            payload={"question": "When is there an alarm?", "outcome": "After four"},
            derived_from=[parent],
        )
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    found = {one["title"]: one["reason"] for one in findings(shop) if one["rule"] == "stale-decision"}
    assert (
        found["Alarm after four failures"]
        == "It was derived from 'RETRY_LIMIT stays at three', which the change makes stale."
    )


def test_a_manifest_that_contradicts_what_a_person_said_is_contested(shop):
    shop.done("init")
    note = "The service needs Python 3.11 or newer, said Ada.\n"
    shop.done("ingest", "-", "--title", "Note", stdin=note)
    fact = ("--kind", "fact", "--title", "Python", "--subject", "acme", "--predicate", "requires python")
    shop.done("crystallize", *fact, "--value", '">=3.11"', "--as-agent")
    change(shop, "pyproject.toml", ">=3.11", ">=3.13")
    (one,) = findings(shop)
    assert (one["rule"], one["path"], one["title"]) == ("contested", "pyproject.toml", "Python")


def test_work_that_a_commit_or_the_request_closes_is_reported_with_the_command_that_resolves_it(shop):
    shop.done("init")
    shop.done("crystallize", "--kind", "bug", "--title", "Sessions are lost (#12)")
    change(shop, "src/acme/sessions.py", "Open the file.", "Open it.", text="Keep sessions\n\nFixes #12 and #13.")
    found = [one for one in findings(shop, "--message", "Closes ABC-7.") if one["rule"] == "closes"]
    assert sorted(one["title"] for one in found) == ["#13", "ABC-7", "Sessions are lost (#12)"]
    (known,) = [one for one in found if one["id"]]
    assert known["mend"] == "treering done 'Sessions are lost (#12)' \"Merged\""
    shop.done(*shlex.split(known["mend"])[1:])
    assert not [one for one in findings(shop) if one["id"]]


def test_pages_of_a_wiki_rot_with_the_lines_that_they_cite_until_the_wiki_is_rebuilt(shop):
    git(shop, "checkout", "-q", "main")
    shop.done("init")
    shop.done("ingest", ".")
    shop.done("wiki", "build")
    shop.commit({})
    git(shop, "checkout", "-q", "-B", "feature")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    rotten = [one for one in findings(shop) if one["rule"] == "rotten-page"]
    assert ("wiki/modules/acme-fetch.md") in {one["path"] for one in rotten}
    assert rotten[0]["mend"] == "treering add . && treering wiki build --to wiki"
    shutil.rmtree(shop.folder / ".treering")
    shop.done("init")
    shop.done("ingest", ".")
    shop.done("wiki", "build", "--to", "wiki")
    shop.commit({})
    assert not [one for one in findings(shop) if one["rule"] == "rotten-page"]


def test_a_page_that_was_written_on_the_branch_rots_when_the_branch_changes_what_it_cites(shop):
    shop.commit({"src/acme/retry.py": "def retry_often(times: int) -> int:\n    return times + 3\n"})
    shop.done("init")
    shop.done("ingest", ".")
    shop.done("wiki", "build")
    shop.commit({})
    assert not brief(findings(shop), "rotten-page")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    change(shop, "src/acme/retry.py", "def retry_often(times: int)", "def retry_seldom(count: int)")
    git(shop, "rm", "-q", "src/acme/sessions.py")
    git(shop, "commit", "-qm", "Remove sessions")
    found = {one["path"]: one["reason"] for one in findings(shop) if one["rule"] == "rotten-page"}
    assert found["wiki/modules/acme-sessions.md"].endswith("which is deleted.")
    assert found["wiki/modules/acme-fetch.md"].endswith("has changed since it was cited.")
    assert found["wiki/modules/acme-retry.md"].startswith("It cites src/acme/retry.py:1-2")


# Which change, and when it fails.


def test_what_lies_uncommitted_is_checked_where_it_is_requested(shop):
    file = shop.folder / "docs/decisions/0001-sessions.md"
    file.write_text(RECORD.replace("one SQLite file", "Redis"))
    assert findings(shop) == []
    assert brief(findings(shop, "--worktree")) == [
        ("stale-decision", "docs/decisions/0001-sessions.md", 11, "Sessions in SQLite")
    ]
    file.unlink()
    assert "deletes" in findings(shop, "--base", "HEAD", "--worktree")[0]["reason"]


def test_check_places_an_unaffected_decision_at_its_lines(shop):
    shop.run("init")
    shop.run("add", ".")
    shop.run("decide", "Three tries", "--because", "src/acme/fetch.py:5")
    git(shop, "checkout", "-q", "-b", "first-line")
    (shop.folder / "src/acme/fetch.py").write_text(f"import os\n{FETCH}")
    git(shop, "commit", "-q", "-a", "-m", "Import os")
    assert ("governs", "src/acme/fetch.py", 6, "Three tries") in brief(findings(shop))


@pytest.mark.parametrize("is_staged", [True, False])
def test_check_follows_uncommitted_renames(shop, is_staged):
    shop.run("init")
    shop.run("add", ".")
    shop.run("decide", "Three tries", "--because", "src/acme/fetch.py:5")
    git(shop, "checkout", "-q", "-b", "rename")
    for old, new in (("fetch", "fetching"), ("fetching", "quotes")):
        path = (shop.folder / f"src/acme/{old}.py").rename(shop.folder / f"src/acme/{new}.py")
        if is_staged:
            git(shop, "add", ".")
        expected = [("governs", f"src/acme/{new}.py", 5, "Three tries")]
        assert brief(findings(shop, "--worktree", "--base", "HEAD")) == expected
        shop.run("add", ".", "--worktree")
        assert brief(findings(shop, "--worktree", "--base", "HEAD")) == expected
    path.write_text(FETCH.replace("RETRY_LIMIT = 3", "RETRY_LIMIT = 5"))
    expected = [("stale-decision", "src/acme/quotes.py", 5, "Three tries")]
    assert brief(findings(shop, "--worktree", "--base", "HEAD")) == expected


@pytest.mark.parametrize(
    ("how", "code"),
    [((), 1), (("--fail-on", "none"), 0), (("--fail-on", "contested"), 0), (("--fail-on", "stale-decision"), 1)],
)
def test_the_exit_code_follows_the_option(shop, how, code):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    assert shop.run("check", *how).code == code


def test_the_exit_code_follows_the_setting_and_the_option_goes_before_it(shop, monkeypatch):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    monkeypatch.setenv("TREERING_CHECK_FAIL_ON", "contested, rotten-page")
    assert shop.run("check").code == 0
    assert shop.run("check", "--fail-on", "stale-decision").code == 1


def test_the_file_of_the_base_decides_and_a_change_cannot_loosen_its_own_check(shop):
    shop.commit({".treering.toml": '[check]\nfail-on = ["none"]\n'})
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    assert shop.run("check").code == 1
    git(shop, "checkout", "-q", "main")
    shop.commit({".treering.toml": '[check]\nfail-on = ["stale-document"]\nignore = ["docs/usage.md"]\n'})
    git(shop, "checkout", "-q", "-B", "other")
    git(shop, "rm", "-q", "src/acme/sessions.py")
    git(shop, "commit", "-qm", "Remove sessions")
    told = shop.run("check", "--json")
    assert told.code == 0
    assert brief(told.data["findings"]) == [
        ("stale-decision", "docs/decisions/0001-sessions.md", 7, "Sessions in SQLite")
    ]


def test_a_rule_that_is_not_there_is_refused_with_the_nearest_one(shop):
    told = shop.run("check", "--fail-on", "stale-decisions")
    assert told.code == 2
    assert "Did you mean 'stale-decision'?" in told.err


def test_a_broken_file_of_the_base_is_refused(shop):
    git(shop, "checkout", "-q", "main")
    shop.commit({".treering.toml": "[check]\nfail_on_all = true\n"})
    told = shop.run("check")
    assert (told.code, ".treering.toml" in told.err) == (2, True)


def test_a_base_that_only_the_remote_has_is_found_there_and_an_unknown_one_is_refused(shop):
    git(shop, "update-ref", "refs/remotes/origin/main", "main")
    git(shop, "branch", "-D", "main")
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    assert shop.run("check").code == 1
    told = shop.run("check", "--base", "nowhere")
    assert (told.code, "'nowhere'" in told.err) == (3, True)


def test_shallow_clone_error_states_how_to_fetch(shop):
    change(shop, "src/acme/sessions.py", "Open the file.", "Open it.")
    clone = shop.folder.parent / "shallow"
    git(shop, "clone", "-q", "--depth=1", "--no-single-branch", f"file://{shop.folder}", str(clone))
    shop.monkeypatch.chdir(clone)
    told = shop.run("check")
    assert told.code == 2
    assert "fetch-depth: 0" in told.err


def test_a_space_that_is_named_and_not_there_is_an_error(shop):
    assert shop.run("check", "--space", "sqlite:nowhere.db").code == 3
    assert shop.run("check", "--no-space").code == 0


@pytest.mark.parametrize("staged", [True, False])
def test_check_counts_uncommitted_files_that_it_does_not_read(shop, staged):
    assert "not checked" not in shop.run("check").out
    for path in ("src/acme/fetch.py", "CHANGELOG.md"):
        with (shop.folder / path).open("a") as file:
            file.write("\n")
    if staged:
        git(shop, "add", ".")
    line = "2 uncommitted files were not checked. Add --worktree to check uncommitted files, too."
    assert shop.run("check").out.splitlines()[-1] == line
    assert shop.run("check", "--json").data["uncommitted"] == 2
    assert "not checked" not in shop.run("check", "--worktree").out


def test_check_of_equal_commits_names_the_command_for_the_last_one(shop):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    git(shop, "checkout", "-q", "-B", "main")
    unchanged = shop.run("check")
    assert (unchanged.code, "affected" in unchanged.out) == (0, False)
    assert unchanged.out.startswith("Nothing to compare: base and head are both ")
    _, _, command = unchanged.out.splitlines()[0].partition("Check the last commit with: treering ")
    assert "stale-decision: Sessions in SQLite" in shop.run(*command.split()).out


# Forms.

HOSTILE = (
    "# 1. Use <b>[x](http://evil)</b> @all\n\nStatus: accepted\n\n## Context\n\nWhy?\n\n"
    "## Decision\n\nYes, 100%: all of it.\n"
)


def test_annotations_of_github_are_at_the_lines_and_nothing_in_them_is_a_command(shop):
    git(shop, "checkout", "-q", "main")
    shop.commit({"docs/decisions/0003-a,b.md": HOSTILE})
    git(shop, "checkout", "-q", "-B", "feature")
    change(shop, "docs/decisions/0003-a,b.md", "Yes, 100%: all of it.", "No.")
    change(shop, "src/acme/fetch.py", "def fetch_quote", "def fetch_price", text="Rename\n\nCloses #4")
    told = shop.run("check", "--format", "github")
    base = git_says(shop, "rev-parse", "main")[:12]
    assert told.out.splitlines() == [
        "::error file=docs/decisions/0003-a%2Cb.md,line=11,"
        "title=stale-decision%3A Use x @all::"
        "docs/decisions/0003-a,b.md:5-11 no longer contains 'Yes, 100%25: all of it.'."
        "%0AFix: $EDITOR +11 docs/decisions/0003-a,b.md",
        "::warning file=docs/usage.md,line=5,title=stale-document%3A docs/usage.md::"
        "It mentions 'fetch_quote', "
        "which the change removes from 'src/acme/fetch.py'.%0AFix: $EDITOR +5 docs/usage.md",
        f"::notice title=closes%3A #4::Commit {git_says(shop, 'rev-parse', 'HEAD')[:12]} states that it closes #4.",
        f"2 files changed since {base}; 1 to fix, 1 to check, 1 good to know.",
    ]


def test_a_comment_in_markdown_shows_titles_and_obeys_none(shop):
    git(shop, "checkout", "-q", "main")
    shop.commit({"docs/decisions/0003-b.md": HOSTILE})
    git(shop, "checkout", "-q", "-B", "feature")
    change(shop, "docs/decisions/0003-b.md", "Yes, 100%: all of it.", "No.")
    text = shop.run("check", "--format", "markdown").out
    assert "- `stale-decision` in `docs/decisions/0003-b.md:11`: **Use x &#64;&#8203;all**." in text
    assert "<b>" not in text
    assert "@" not in text


def test_the_report_for_gitlab_has_what_its_code_quality_asks_for(shop):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis", text="Move\n\nCloses #4")
    (one,) = json.loads(shop.run("check", "--format", "gitlab").out)
    assert (one["check_name"], one["severity"]) == ("treering/stale-decision", "major")
    assert one["location"] == {"path": "docs/decisions/0001-sessions.md", "lines": {"begin": 11}}
    again = json.loads(shop.run("check", "--format", "gitlab").out)
    assert again[0]["fingerprint"] == one["fingerprint"]


TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "defaultConfiguration": {
                                                    "properties": {
                                                        "level": {"enum": ["none", "note", "warning", "error"]}
                                                    }
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "properties": {"type": "object"},
                    "invocations": {
                        "type": "array",
                        "items": {"required": ["executionSuccessful"]},
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": TEXT,
                                "partialFingerprints": {"additionalProperties": {"type": "string"}},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "properties": {
                                                            "uri": {"type": "string", "pattern": "^[^ \\\\]+$"},
                                                            "uriBaseId": {"type": "string"},
                                                        }
                                                    },
                                                    "region": {
                                                        "properties": {"startLine": {"type": "integer", "minimum": 1}}
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The fields of SARIF 2.1.0 that the report uses, as the standard requires them: not its whole schema."""


def test_the_sarif_has_the_fields_that_the_standard_requires(shop):
    git(shop, "mv", "docs/usage.md", "docs/how to use.md")
    git(shop, "rm", "-q", "src/acme/sessions.py")
    git(shop, "commit", "-qm", "Remove\n\nCloses #4")
    log = json.loads(shop.run("check", "--format", "sarif").out)
    Draft202012Validator(SARIF).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
    places = [
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for one in run["results"]
        if "locations" in one
    ]
    assert "docs/how%20to%20use.md" in places


def git_says(stage, *arguments):
    return subprocess.check_output(["git", *arguments], cwd=stage.folder, text=True).strip()


# What calls it: the action, the job for GitLab, the hooks of pre-commit.

ROOT = Path(__file__).parents[2]


def script(stage, text, **variables):
    """Run the script of a job in a shell, with `treering` as the command under test."""
    place = stage.folder.parent / "bin"
    place.mkdir(exist_ok=True)
    command = place / "treering"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m treering "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}", **variables}
    command_line = ["bash", "-eo", "pipefail", "-c", text]
    return subprocess.run(command_line, cwd=stage.folder, env=environment, capture_output=True, text=True, check=False)


def test_the_action_annotates_summarises_and_fails_by_its_policy(shop):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    summary = shop.folder.parent / "summary.md"
    given = {"BASE": "main", "SPACE": "", "DESCRIPTION": 'Closes #3"; touch hacked; $(touch hacked)'}
    given |= {"SARIF": "found.sarif", "GITHUB_STEP_SUMMARY": str(summary)}
    told = script(shop, steps[-1]["run"], **given, FAIL_ON="")
    assert (told.returncode, told.stdout.count("::error file=")) == (1, 1), told
    assert "stale-decision" in summary.read_text()
    assert json.loads((shop.folder / "found.sarif").read_text())["version"] == "2.1.0"
    assert not (shop.folder / "hacked").exists()
    assert script(shop, steps[-1]["run"], **given, FAIL_ON="none").returncode == 0


def test_no_script_of_the_action_holds_what_somebody_else_wrote():
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert all("${{" not in step["run"] for step in steps)


def test_the_job_for_gitlab_keeps_its_report_and_fails_by_the_policy(shop):
    change(shop, "docs/decisions/0001-sessions.md", "one SQLite file", "Redis")
    job = yaml.safe_load((ROOT / "deploy/gitlab-check.yml").read_text())["treering-check"]
    given = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": git_says(shop, "rev-parse", "main"), "CI_MERGE_REQUEST_DESCRIPTION": ""}
    assert script(shop, "\n".join(job["script"]), **given).returncode == 1
    kept = json.loads((shop.folder / job["artifacts"]["reports"]["codequality"]).read_text())
    assert [one["check_name"] for one in kept] == ["treering/stale-decision"]


def test_jobs_fetch_the_memory_of_the_team_first(shop):
    shop.run("init")
    git(shop, "checkout", "-q", "main")
    shop.run("add", ".")
    shop.run("decide", "A quote is fetched three times", "--because", "src/acme/fetch.py:5")
    remote = shop.folder.parent / "remote.git"
    git(shop, "clone", "-q", "--bare", str(shop.folder), str(remote))
    git(shop, "remote", "add", "origin", str(remote))
    assert shop.run("sync").code == 0
    clone = shop.folder.parent / "clone"
    git(shop, "clone", "-q", "--branch", "main", str(remote), str(clone))
    shop.monkeypatch.chdir(clone)
    (clone / "src/acme/fetch.py").write_text(FETCH.replace("LIMIT = 3", "LIMIT = 5"))
    assert "No memory was compared; to fetch the memory of your team" in shop.run("check", "--worktree").out
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (fetching,) = [one for one in steps if "sync --fetch" in one["run"]]
    assert steps.index(fetching) < len(steps) - 1
    given = {"SPACE": "", "SERVER": "https://example.org", "TOKEN": "secret"}
    assert script(replace(shop, folder=clone), fetching["run"], **given).returncode == 0
    assert "stale-decision: A quote is fetched three times" in shop.run("check", "--worktree").out
    job = yaml.safe_load((ROOT / "deploy/gitlab-check.yml").read_text())["treering-check"]
    assert job["before_script"][-1].startswith("treering sync --fetch ||")


def test_check_without_anything_recorded_reports_that_nothing_was_compared(stage):
    stage.commit({"a.py": "a = 1\n"})
    stage.commit({"a.py": "a = 2\n"})
    out = stage.run("check", "--base", "HEAD~1").out
    assert "; nothing is recorded here, so nothing was compared. No memory was compared" in out


def test_the_hooks_of_pre_commit_refuse_what_the_policy_refuses(shop):
    before_commit, before_push = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    file = shop.folder / "docs/decisions/0001-sessions.md"
    assert script(shop, before_commit["entry"]).returncode == 0
    file.write_text(RECORD.replace("one SQLite file", "Redis"))
    assert script(shop, before_commit["entry"]).returncode == 1
    assert script(shop, before_push["entry"]).returncode == 0
    shop.commit({})
    assert script(shop, before_push["entry"]).returncode == 1


def test_decision_replaced_on_its_branch_is_no_finding(shop):
    shop.run("init")
    git(shop, "checkout", "-q", "main")
    shop.run("add", ".")
    shop.run("decide", "A quote is fetched three times", "--because", "src/acme/fetch.py:5")
    git(shop, "checkout", "-q", "feature")
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 3", "RETRY_LIMIT = 5")
    shop.run("add", ".")
    told = shop.run("check")
    assert "stale-decision: A quote is fetched three times" in told.out
    assert "Until this change is merged, these statements are current on other branches." in told.out
    shop.run(
        *("replace", "A quote is fetched three times", "A quote is fetched five times"),
        *("--because", "src/acme/fetch.py:5"),
    )
    assert brief(findings(shop), "stale-decision") == []
    change(shop, "src/acme/fetch.py", "RETRY_LIMIT = 5", "RETRY_LIMIT = 6")
    assert brief(findings(shop), "stale-decision") == [
        ("stale-decision", "src/acme/fetch.py", 5, "A quote is fetched three times")
    ]

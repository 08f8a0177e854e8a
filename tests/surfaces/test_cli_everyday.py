"""One command for each everyday job, and what it prints."""

import re

import pytest

from sources.git_scratch import Scratch

README = "# Acme\n\nAcme retries three times.\n\nReleases are cut on Tuesdays.\n"


def printed(stage, *arguments):
    return stage.done(*arguments).out


def only_knowledge(report):
    return next(one for one in report["ids"] if one.startswith("know:"))


@pytest.fixture
def acme(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    (stage.folder / "README.md").write_text(README)
    stage.done("init")
    stage.done("add", ".")
    return stage


def test_add_reads_a_folder_and_a_note(acme):
    printed(acme, "add", "--note", "The lamp is lit at dusk.", "--title", "Lamp")
    assert "The lamp is lit at dusk." in printed(acme, "search", "lamp", "lit")


def test_add_takes_one_thing(acme):
    assert acme.run("add").code == 2
    assert acme.run("add", ".", "--note", "x").code == 2


def test_invalid_fact_creates_no_space(stage):
    assert stage.run("fact", "nonsense").code == 2
    assert not (stage.folder / ".treering").exists()


@pytest.mark.parametrize(
    ("arguments", "receipt"),
    [
        (
            ("decide", "Retries are bounded", "--because", "README.md:3"),
            'Decided: Retries are bounded (README.md:3: "Acme retries three times.").',
        ),
        (
            ("decide", "Retries are bounded", "README.md:3"),
            'Decided: Retries are bounded (README.md:3: "Acme retries three times.").',
        ),
        (("decide", "Retries", "are", "bounded"), "Decided: Retries are bounded."),
        (("decide", "Retries", "are", "in", "README.md:3"), "Decided: Retries are in README.md:3."),
        (("prefer", "Short functions"), "Preference: Short functions."),
        (("fact", "port = 8080", "--of", "api"), "Fact: api: port = 8080."),
        (("fact", "api.port = 8080"), "Fact: api: port = 8080."),
        (("task", "Write the docs"), "Task: Write the docs."),
    ],
)
def test_recording_prints_one_line(acme, arguments, receipt):
    assert printed(acme, *arguments) == f"{receipt} Undo with: treering undo\n"


def test_evidence_without_words_gives_a_warning(acme):
    (acme.folder / "a.ts").write_text("function a() {\n  return 1\n}\n")
    done = acme.done("decide", "Retries are bounded", "--because", "a.ts:3")
    assert 'warning: The evidence a.ts:3 contains no words: "}".' in done.out
    assert "warning" not in acme.done("decide", "Answers are one", "--because", "a.ts:2-3").out


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("Never use fmt.Println in library code", "`treering check` reports added uses of fmt.Println."),
        (
            "No new dependencies",
            "`treering check` cannot find violations of this rule, because it forbids no name of code. "
            "Forms that it reads: 'Never use NAME in FOLDER', "
            "'Never import from MODULE in FOLDER', 'Use NAME instead of NAME'.",
        ),
    ],
)
def test_recording_a_rule_ends_with_whether_check_finds_violations(acme, text, checked):
    assert printed(acme, "rule", text, "--for", "src") == f"Rule: {text}. Undo with: treering undo\n{checked}\n"


def test_receipt_quotes_the_line_of_the_evidence_that_is_about_the_statement(acme):
    (acme.folder / "a.ts").write_text("import {\n  h } from 'h'\n/**\n * Skips the actions of a store.\n */\nf()\n")
    receipt = printed(acme, "decide", "Refs skip the actions", "--because", "a.ts:1-6")
    assert '(a.ts:1-6: "* Skips the actions of a store.")' in receipt


def test_decision_of_an_agent_is_a_candidate_until_it_is_confirmed(acme):
    receipt = printed(acme, "decide", "Retries are bounded", "--because", "README.md:3", "--as-agent")
    assert receipt.startswith("Decision: Retries are bounded")
    assert "It waits for confirmation: treering review list" in receipt
    shown = printed(acme, "show", "Retries are bounded")
    assert "(decision, candidate)" in shown
    assert "(agent)" in shown.splitlines()[-1]
    assert "Stated    Retries are bounded (recorded by an agent" in printed(acme, "brief")
    assert "waits" not in printed(acme, "decide", "Retries are bounded", "--because", "README.md:3")
    assert "(decision, active)" in printed(acme, "show", "Retries are bounded")


def test_receipt_of_a_whole_file_names_all_its_lines(acme):
    parts = (f"## Part {part}\n\n{f'Sentence of part {part}. ' * 30}\n\n" for part in range(4))
    (acme.folder / "guide.md").write_text(f"# Guide\n\n{''.join(parts)}")
    receipt = printed(acme, "decide", "Follow the guide", "--because", "guide.md")
    assert '(guide.md:3-17, 4 passages: "## Part 0")' in receipt
    assert '(guide.md:3-9: "## Part 0")' in printed(acme, "decide", "Follow", "half", "--because", "guide.md:3-9")


def test_brief_shows_what_was_recorded(acme):
    printed(acme, "rule", "No new dependencies", "--for", "src")
    printed(acme, "decide", "Retries are bounded", "--because", "README.md:3")
    printed(acme, "task", "Write the docs")
    brief = printed(acme, "brief")
    assert all(text in brief for text in ("No new dependencies (in src)", "Retries are bounded", "Write the docs"))


def test_decision_keeps_reason_and_alternatives(acme):
    printed(
        acme, "decide", "One file", "--question", "Where is a space?", "--why", "Simple", "--instead-of", "A server"
    )
    printed(acme, "search", "One file")
    shown = printed(acme, "show", "1")
    assert all(text in shown for text in ("Where is a space?", "Simple", "A server"))


def test_number_of_a_hit_is_evidence(acme):
    printed(acme, "search", "releases cut Tuesdays")
    assert 'Decided: Ship on Tuesdays (README.md:1-5: "Releases are cut on Tuesdays.")' in printed(
        acme, "decide", "Ship on Tuesdays", "--because", "[1]"
    )


@pytest.mark.parametrize("form", ["1", "[1]", "know:…{}"])
@pytest.mark.parametrize(
    "command",
    ["feedback give retries --right", "query --mode related", "query --mode expand", "lint audit", "erase --yes"],
)
def test_commands_take_numbers_and_short_ids(acme, command, form):
    identity = only_knowledge(acme.json("decide", "Retries are bounded", "--because", "README.md:3"))
    printed(acme, "log")
    assert identity in printed(acme, *command.split(), form.format(identity[-7:]), "--json")


@pytest.mark.parametrize("form", ["1", "know:…{}"])
def test_promote_and_supersede_take_numbers_and_short_ids(acme, form):
    old = only_knowledge(acme.json("decide", "Retries are endless", "--because", "README.md:3"))
    flags = ("--title", "Retries are bounded", "--question", "How often?", "--outcome", "Thrice")
    new = only_knowledge(acme.json("crystallize", "--kind", "decision", *flags, "--evidence", "README.md:3"))
    given = form.format(new[-7:])
    printed(acme, "log")
    printed(acme, "crystallize", "--mode", "promote", given)
    printed(acme, "log")
    printed(acme, "crystallize", old, "--by", given)
    assert [new, old] in [[link["source"], link["target"]] for link in acme.json("show", old)["links"]]


def test_feedback_takes_a_title(acme):
    printed(acme, "decide", "Retries are bounded", "--because", "README.md:3")
    printed(acme, "feedback", "give", "retries", "--right", "retries are bounded")
    assert "No statement" in acme.run("feedback", "give", "retries", "--right", "Walrus").err


def test_object_of_another_type_is_named(acme):
    printed(acme, "task", "Write the docs")
    printed(acme, "log")
    assert '1 ("Write the docs") is not knowledge.' in acme.run("crystallize", "--mode", "promote", "1").err


def test_unknown_number_is_refused(acme):
    failed = acme.run("decide", "Ship", "--because", "7")
    assert (failed.code, "no place 7" in failed.err) == (2, True)


def test_done_finds_a_task_by_its_title(acme):
    printed(acme, "task", "Write the docs")
    assert printed(acme, "done", "write docs", "Written").startswith("Done: Write the docs.")
    assert "Write the docs" not in printed(acme, "brief")
    assert acme.run("done", "write docs").code == 3


def test_ids_can_be_shortened(acme):
    identity = next(one for one in acme.json("task", "Write the docs")["ids"] if one.startswith("work:"))
    assert printed(acme, "done", f"work:…{identity[-6:]}").startswith("Done: Write the docs.")
    assert "Write the docs" in printed(acme, "show", f"…{identity[-6:]}")


def test_replace_reads_a_fact_as_it_was_recorded(acme):
    printed(acme, "fact", "kiln.temperature = 1200")
    printed(acme, "search", "kiln temperature")
    replaced = printed(acme, "replace", "1", "kiln.temperature = 1230")
    assert replaced.startswith("Fact: kiln: temperature = 1230, instead of: kiln: temperature = 1200.")


def test_replace_supersedes_the_same_kind(acme):
    printed(acme, "decide", "Three retries", "--because", "README.md:3")
    printed(acme, "search", "Three retries")
    replaced = printed(acme, "replace", "1", "Five retries", "--because", "README.md:3", "--why", "Flaky network")
    assert replaced.startswith(
        'Decided: Five retries (README.md:3: "Acme retries three times."), instead of: Three retries.'
    )
    brief = printed(acme, "brief")
    assert "Five retries" in brief
    assert "Three retries" not in brief


def test_undo_takes_back_what_was_recorded_last(acme):
    printed(acme, "rule", "No new dependencies")
    printed(acme, "rule", "No globals")
    assert printed(acme, "undo") == "Undone: No globals\n"
    brief = printed(acme, "brief")
    assert ("No globals" in brief, "No new dependencies" in brief) == (False, True)
    assert printed(acme, "undo") == "Undone: No new dependencies\n"


def test_undo_names_an_entry_that_was_undone_before(acme):
    identity = next(one for one in acme.json("rule", "No globals")["ids"] if one.startswith("know:"))
    printed(acme, "undo", identity)
    assert 'Already undone: "No globals".' in acme.run("undo", identity).err


def test_undo_goes_back_step_by_step(acme):
    printed(acme, "task", "Write the docs")
    printed(acme, "done", "docs write", "Written")
    printed(acme, "prefer", "Short functions")
    undone = [printed(acme, "undo") for _ in range(3)]
    assert undone == ["Undone: Short functions\n", "Undone: Write the docs\n", "Undone: Write the docs\n"]
    assert "Write the docs" not in printed(acme, "brief")


def test_show_prints_a_whole_file(acme):
    shown = printed(acme, "show", "README.md")
    assert "Acme retries three times." in shown
    assert "Releases are cut on Tuesdays." in shown


def test_ask_says_that_the_budget_is_too_small(acme):
    acme.write({"long.md": "# Lamps\n\n" + "The lamp of the harbour is lit at dusk by the keeper. " * 60})
    acme.done("add", ".")
    assert "max_tokens" in printed(acme, "ask", "when is the lamp of the harbour lit", "--max-tokens", "50")


def test_show_prints_lines_of_a_file(acme):
    assert "Releases are cut on Tuesdays." in printed(acme, "show", "README.md:5")
    assert "Acme retries" not in printed(acme, "show", "README.md:5")


def test_log_is_limited_to_a_file(acme):
    printed(acme, "decide", "Retries are bounded", "--because", "README.md:3")
    printed(acme, "rule", "No globals")
    logged = printed(acme, "log", "README.md", "--since", "yesterday")
    assert ("Retries are bounded" in logged, "No globals" in logged) == (True, False)


def test_log_of_a_path_shows_its_rules(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    made = Scratch(stage.folder)
    made.commit({"api/v1/app.py": "retries = 3\n", "web/app.ts": "export {}\n", "justfile": "test:\n"})
    stage.done("init")
    stage.done("add", ".")
    printed(stage, "rule", "No globals", "--for", "api")
    printed(stage, "rule", "No print", "--for", "web/**")
    printed(stage, "decide", "Three retries", "--because", "api/v1/app.py:1")
    for path in ("api/v1/app.py", "api/v1", "./api/"):
        logged = printed(stage, "log", path)
        assert [text in logged for text in ("No globals", "No print", "Three retries")] == [True, False, True]
    assert "No globals" not in printed(stage, "log", "web/app.ts")
    assert "justfile" in printed(stage, "log", "justfile")


@pytest.mark.parametrize("command", ["log", "status"])
def test_log_omits_evidence_of_candidates(stage, monkeypatch, command):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    rules = "# Rules\n\n- NEVER push to the main branch.\n"
    stage.commit({"AGENTS.md": rules, "CLAUDE.md": rules})
    stage.done("init")
    stage.done("add", ".")
    out = printed(stage, command)
    assert ("Read 2 files" in out, "Evidence added" in out) == (True, False)


def test_fact_without_subject_shows_how_to_name_it(acme):
    failed = acme.run("fact", "port = 8080")
    assert (failed.code, "--of" in failed.err, "api.port = 8080" in failed.err) == (2, True, True)


@pytest.mark.parametrize("text", ["port", "port =", "= 8080"])
def test_fact_needs_a_name_and_a_value(acme, text):
    failed = acme.run("fact", text, "--of", "api")
    assert (failed.code, "port = 8080" in failed.err) == (2, True)


def test_titles_name_what_is_shown_replaced_and_undone(acme):
    printed(acme, "decide", "Three retries", "--because", "README.md:3")
    assert "based on: README.md:3" in printed(acme, "show", "three")
    assert "instead of: Three retries" in printed(acme, "replace", "three retries", "Five retries")
    assert printed(acme, "undo", "five retries").startswith("Undone: Five retries")
    refused = acme.run("show", "Tree retries")
    assert (refused.code, "Three retries" in refused.err) == (3, True)


def test_show_hides_stored_fields_without_verbose(acme):
    printed(acme, "decide", "Three retries", "--why", "Enough", "--because", "README.md:3")
    assert "evidence_refs" not in printed(acme, "show", "three")
    assert "rationale: Enough" in printed(acme, "show", "three")
    assert "evidence_refs" in printed(acme, "show", "three", "-v")


@pytest.mark.parametrize("text", ["", " ", "\u200b"])
@pytest.mark.parametrize("command", ["decide", "rule", "prefer", "task", "show"])
def test_invisible_text_is_refused(acme, command, text):
    failed = acme.run(command, text)
    assert (failed.code, "Value error" in failed.err) == (2 if command != "show" or not text.strip() else 3, False)


def test_undo_takes_back_a_note(acme):
    printed(acme, "prefer", "Short functions")
    printed(acme, "add", "--note", "Maria prefers tea")
    assert printed(acme, "undo") == "Undone: Maria prefers tea\n"
    assert "Short functions" in printed(acme, "brief")
    printed(acme, "add", "--note", "Maria prefers tea")
    assert "Maria prefers tea" in printed(acme, "search", "Maria")


def test_undo_refuses_an_ingest_of_files(acme):
    printed(acme, "prefer", "Short functions")
    acme.write({"new.md": "# New\n\nText.\n"})
    printed(acme, "add", "new.md")
    refused = acme.run("undo")
    assert (refused.code, "Your last change was reading 'new.md'" in refused.err) == (2, True)
    assert "Short functions" in printed(acme, "brief")
    older = re.search(r"treering undo (patch:\S+\w)", " ".join(refused.err.split()))[1]
    assert printed(acme, "undo", older) == "Undone: Short functions\n"


def test_undo_names_the_change_since(acme):
    first = acme.json("decide", "Three retries")["patch_id"]
    printed(acme, "replace", "three retries", "Five retries")
    refused = acme.run("undo", first)
    assert "'Three retries' was replaced by 'Five retries' since." in " ".join(refused.err.split())
    assert "treering undo patch:" in refused.err
    item = acme.json("task", "Write the docs")["patch_id"]
    printed(acme, "done", "write the docs")
    assert "'Write the docs' was changed by" in " ".join(acme.run("undo", item).err.split())


@pytest.mark.parametrize("command", [("replace", "prompts", "x"), ("replace", "echo", "x"), ("undo", "prompts")])
def test_one_word_does_not_name_a_title(acme, command):
    printed(acme, "rule", "Prompts never echo hidden input.")
    refused = acme.run(*command)
    assert (refused.code, '"Prompts never echo hidden input."' in " ".join(refused.err.split())) == (2, True)
    assert "know:" in refused.err
    assert "Prompts never echo" in printed(acme, "brief")
    assert "Prompts never echo" in printed(acme, "show", "prompts")


@pytest.mark.parametrize(
    "name", ["prompts never", "hidden input", "input echo", "prompts never echo hidden input.", "'echo'"]
)
def test_two_words_or_quotes_name_a_title(acme, name):
    printed(acme, "rule", "Prompts never echo hidden input.")
    assert "instead of: Prompts" in printed(acme, "replace", name, "Prompts echo nothing.")


def test_one_word_title_is_named_by_its_word(acme):
    printed(acme, "task", "Docs")
    refused = acme.run("done", "doc")
    assert (refused.code, '"Docs"' in refused.err) == (2, True)
    assert printed(acme, "done", "docs").startswith("Done: Docs.")


@pytest.mark.parametrize("command", [("decide", "Ship"), ("task", "Ship"), ("add", "--note", "Ship")])
def test_first_record_names_the_space_it_creates(stage, command):
    assert printed(stage, *command).splitlines()[-1].startswith("Created a space: .treering")
    assert "Created" not in printed(stage, "rule", "No globals")


@pytest.mark.parametrize(
    ("command", "receipt"),
    [
        (("rule", "No globals"), "Already a rule: No globals\n`treering check` cannot"),
        (("prefer", "Short functions"), "Already a preference: Short functions\n"),
        (("decide", "Ship", "--because", "README.md:3"), "Already decided: Ship\n"),
        (("fact", "api.port = 80"), "Already a fact: api: port = 80\n"),
    ],
)
def test_repeated_record_is_known_already(acme, command, receipt):
    printed(acme, *command)
    assert printed(acme, *command).startswith(receipt)


def test_repeated_record_states_that_its_reason_changed(acme):
    printed(acme, "rule", "No globals")
    again = printed(acme, "rule", "No globals", "--why", "Tests share them")
    assert again.startswith("Already a rule: No globals (reason updated). Undo with: treering undo\n")


def test_repeated_record_names_its_new_evidence(acme):
    acme.write({"new.md": "# New\n\nText.\n"})
    printed(acme, "decide", "Ship", "--because", "README.md:3")
    again = printed(acme, "decide", "Ship", "--because", "new.md:3")
    assert again == 'Already decided: Ship (new evidence: new.md:3: "Text."). Undo with: treering undo\n'


def errors(stage, *command):
    return " ".join(stage.run(*command).err.split())


def test_done_task_is_done_already(acme):
    printed(acme, "task", "Write the docs")
    identity = next(one for one in acme.json("done", "write docs")["ids"])
    for name in ("write docs", identity):
        assert "Already done: 'Write the docs'." in errors(acme, "done", name)


def test_replaced_statement_names_its_replacement(acme):
    old = next(one for one in acme.json("decide", "Three retries")["ids"] if one.startswith("know:"))
    printed(acme, "replace", "three retries", "Five retries")
    assert "'Three retries' was already replaced by 'Five retries'." in errors(acme, "replace", old, "Six retries")


@pytest.mark.parametrize("note", ["", " ", "\u200b"])
def test_empty_note_is_refused(acme, note):
    assert "The note is empty." in errors(acme, "add", "--note", note)


def test_replace_names_objects_that_are_no_statements(acme):
    printed(acme, "add", "--note", "Maria prefers tea")
    printed(acme, "task", "Write the docs")
    assert "That is a note, not a statement: 'Maria prefers tea'." in errors(acme, "replace", "maria prefers", "x")
    assert "treering done work:" in errors(acme, "replace", "write docs", "x")
    acme.write({"core.py": "LIMIT = 3\n"})
    printed(acme, "add", "core.py")
    assert "That is a file, not a statement: 'core.py'." in errors(acme, "replace", "core.py", "x")


def test_replace_takes_no_word_of_a_path_for_a_file(acme):
    acme.write({"OneHalfDark.py": "LIMIT = 3\n"})
    printed(acme, "add", "OneHalfDark.py")
    assert "No statement is called 'one'." in errors(acme, "replace", "one", "two")


def test_repair_and_its_undo_name_the_change(acme):
    printed(acme, "crystallize", "--mode", "node", "--input", '{"kind": "component", "name": "Billing"}')
    applied = printed(acme, "lint", "repair", "--apply")
    assert "transitioned 'Billing': status" in applied.replace('"', "'")
    assert "{" not in applied
    assert printed(acme, "undo") == "Undone: orphan-node: Archive it.\nRestored: Billing\n"


def test_lint_shows_commands_that_settle(acme):
    printed(acme, "fact", "api.port = 80")
    printed(acme, "fact", "api.port = 81")
    printed(acme, "decide", "Three retries", "--because", "README.md:3")
    acme.write({"README.md": README.replace("three times", "five times")})
    printed(acme, "add", ".")
    found = printed(acme, "lint")
    assert "no longer contains 'Acme retries three times.', but 'Acme retries five times.'." in found
    archive = re.search(r"treering (crystallize \S+ --status archived)", found)[1]
    decide = re.search(r"treering (crystallize \S+ --by \S+), or", found)[1]
    for command in (archive, decide):
        acme.done(*command.split())
    assert "No problems found." in printed(acme, "lint")

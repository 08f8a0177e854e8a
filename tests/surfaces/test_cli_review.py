import json

import pytest
from cli_stage import Stage

import treering

POLICY = 'direct_channels = ["user", "adapter", "system"]\n'
PREFERENCE = {"kind": "preference", "title": "Tabs", "payload": {"statement": "Use tabs"}}


@pytest.fixture
def waiting(stage: Stage) -> tuple[Stage, str]:
    stage.done("init")
    stage.write({".treering/treering.policy.toml": POLICY})
    with treering.open(actor="bot", background=False) as space:
        report = space.crystallize("knowledge", input=PREFERENCE, options={"reason": "Ada said so"})
    assert report.status == "proposed"
    return stage, report.ids[0]


def test_what_an_agent_writes_waits_where_the_policy_says_so(stage: Stage) -> None:
    stage.done("init")
    stage.write({".treering/treering.policy.toml": POLICY})
    said = ("crystallize", "--kind", "preference", "--title", "Tabs", "--statement", "Use tabs")
    assert "Waiting for review: Tabs. See: treering review list" in stage.done(*said, "--as-agent").out


def test_a_waiting_patch_is_listed_with_its_author_and_reason(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    out = stage.done("review", "list").out
    assert out.startswith("1  Tabs")
    assert "bot (agent)" in out
    assert "Ada said so" in out
    assert [record["id"] for record in stage.json("review", "list")] == [patch]


def test_numbers_of_the_list_name_patches(waiting: tuple[Stage, str]) -> None:
    stage, _ = waiting
    stage.done("review", "list")
    assert "+ payload.statement: Use tabs" in stage.done("review", "show", "1").out
    stage.done("review", "list")
    assert stage.done("review", "reject", "1").out == "Rejected: Tabs\n"


def test_number_of_another_answer_is_no_patch(waiting: tuple[Stage, str]) -> None:
    stage, _ = waiting
    stage.write({"notes.md": "# Tea\n\nTea is hot.\n"})
    stage.done("add", "notes.md", "--no-background")
    stage.done("review", "list")
    stage.done("search", "tea is hot", "-n", "1")
    refused = stage.run("review", "apply", "1")
    assert (refused.code, '1 is "Tea" in the last answer, and no patch.' in refused.err) == (3, True)
    assert "treering review list" in refused.err


def test_it_is_shown_as_a_diff(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    assert "+ payload.statement: Use tabs" in stage.done("review", "show", patch).out
    assert stage.json("review", "show", patch)[0]["title"] == "Tabs"


def test_applied_it_takes_effect_and_waits_no_more(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    assert f"Preference: Tabs. Undo with: treering undo patch:…{patch[-7:]}" in stage.done("review", "apply", patch).out
    assert "Nothing is waiting for review." in stage.done("review", "list").out
    assert stage.json("query", "--mode", "search", "tabs")["hits"]


def test_review_list_names_unconfirmed_candidates(stage: Stage) -> None:
    record = "# 1. Sessions in SQLite\n\nStatus: accepted\n\n## Decision\n\nSessions are in one file.\n"
    stage.write({"docs/adr/0001-sessions.md": record, "go.mod": "module example.org/acme\n\ngo 1.22\n"})
    stage.done("add", ".")
    out = stage.done("review", "list").out
    assert '1 candidate to confirm with `treering crystallize --mode promote ID`: "Sessions in SQLite" know:' in out
    assert "go.mod" not in out
    stage.done("crystallize", "--mode", "promote", out.split()[-1].rstrip("."))
    assert stage.done("review", "list").out == "Nothing is waiting for review.\n"


def test_review_list_names_statements_of_agents_before_rules_of_files(stage: Stage) -> None:
    stage.write({"AGENTS.md": "# Rules\n\n- Never edit the recorded cassettes by hand.\n", "a.py": "LIMIT = 3\n"})
    stage.done("add", ".")
    said = ("crystallize", "--kind", "decision", "--title", "Three tries", "--question", "How many?", "--as-agent")
    stage.done(*said, "--outcome", "3", "--evidence", "a.py:1")
    first, stated, hint, read = stage.done("review", "list").out.splitlines()
    assert first == "1 statement to confirm with `treering crystallize --mode promote ID`:"
    assert stated.startswith("1  Three tries (recorded by an agent on ")
    assert hint == "Show all of a statement with: treering show 1. Dismiss it with: treering review reject 1"
    assert read.startswith("1 other candidate to confirm with")


def test_review_reject_dismisses_one_candidate_of_the_list(stage: Stage) -> None:
    stage.write({"a.py": "LIMIT = 3\n"})
    stage.done("add", ".")
    for title in ("Three tries", "Four hands"):
        said = ("crystallize", "--kind", "decision", "--title", title, "--question", f"{title}?", "--as-agent")
        stage.done(*said, "--outcome", title, "--evidence", "a.py:1")
    first = stage.done("review", "list").out.splitlines()[1]
    dismissed = "Three tries" if "Three tries" in first else "Four hands"
    assert stage.done("review", "reject", "1").out.startswith(f'Dismissed: "{dismissed}"')
    left = stage.done("review", "list").out
    assert (dismissed in left, "1 statement to confirm" in left) == (False, True)


def test_numbers_of_statements_follow_those_of_patches(waiting: tuple[Stage, str]) -> None:
    stage, _ = waiting
    stage.write({"a.py": "LIMIT = 3\n"})
    stage.done("add", ".")
    title = f"Three tries, because {'the server is slow, ' * 20}and so on"
    said = ("crystallize", "--kind", "decision", "--title", title, "--question", "How many?", "--outcome", "3")
    stage.done(*said, "--evidence", "a.py:1")
    out = stage.done("review", "list").out
    assert "Show all of a statement with: treering show 2" in out
    assert title not in out
    assert "and so on" in stage.done("show", "2").out
    stage.done("review", "list")
    told = stage.run("review", "show", "2")
    assert "To show a statement: `treering show ID`." in told.err
    stage.done("review", "list")
    assert "Confirmed" in stage.done("crystallize", "--mode", "promote", "2").out


def test_rejected_it_changes_nothing(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    assert stage.json("review", "reject", patch, "--reason", "Spaces")["status"] == "rejected"
    assert stage.json("query", "--mode", "search", "tabs")["hits"] == []


def test_a_reviewed_channel_cannot_approve(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    told = stage.run("review", "apply", patch, "--as-agent", "--actor", "other")
    assert told.code == 5


def test_an_unknown_patch_is_not_found(waiting: tuple[Stage, str]) -> None:
    stage, _ = waiting
    for command in (("review", "show"), ("review", "apply"), ("revert",)):
        assert stage.run(*command, "patch:01k00000000000000000000000").code == 3


def test_a_policy_file_that_makes_no_sense_is_named(stage: Stage) -> None:
    stage.done("init")
    stage.write({".treering/treering.policy.toml": "direct_chanels = []\n"})
    told = stage.run("review", "list")
    assert told.code == 2
    assert "treering.policy.toml" in told.err
    assert "direct_channels" in told.err


def test_erasing_proves_that_nothing_is_left(stage: Stage) -> None:
    source = stage.json("ingest", "-", stdin="My number is 555-1234.")["items"][0]["source_id"]
    out = stage.done("erase", source, "--reason", "Asked by its author", "--yes").out
    assert "full text: nothing left" in out
    assert "Out of reach" in out
    assert stage.run("query", "--mode", "page", source).code == 3


def test_erase_accepts_a_path_but_no_title(stage: Stage) -> None:
    stage.done("init")
    stage.write({"keys/secret.txt": "The password is hunter2.\n", "notes.md": "# Our notes\n\nNothing.\n"})
    stage.done("add", ".")
    assert stage.run("erase", "Our notes", "--yes").code == 3
    assert "full text: nothing left" in stage.done("erase", "keys/secret.txt", "--yes").out
    assert stage.run("erase", "keys/secret.txt", "--yes").code == 3


def test_erase_of_an_export_erases_all_of_its_conversations(stage: Stage) -> None:
    chats = [
        {"id": f"chat-{name}", "title": name, "messages": [{"role": "user", "content": f"My name is {name}."}]}
        for name in ("Ada", "Bob")
    ]
    stage.done("init")
    stage.write({"chats.json": json.dumps(chats)})
    stage.done("add", "chats.json")
    assert "Ada" in stage.done("search", "My name is").out
    out = stage.done("erase", "chats.json", "--yes").out
    assert (out.splitlines()[0].count("src:"), "full text: nothing left" in out) == (2, True)
    assert not {"Ada", "Bob"} & set(stage.done("search", "My name is").out.replace(".", " ").split())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("our no", 'To erase all of "Our notes", give its id: src:'),
        ("notes.md:3", 'To erase all of "Our notes", give its id: src:'),
        ("tabs", 'To erase all of "Tabs", give its id: know:'),
        ("unknown words", "Find the object with `treering search`, and give the number of the hit."),
    ],
)
def test_erase_of_another_name_states_how_to_find_the_id(stage: Stage, text: str, hint: str) -> None:
    stage.done("init")
    stage.write({"notes.md": "# Our notes\n\nNothing.\n"})
    stage.done("add", ".")
    stage.done("prefer", "Tabs")
    told = stage.run("erase", text, "--yes")
    assert told.code == 3
    assert f'Erasing needs an id or the path of a source, not "{text}".' in told.err
    assert hint in told.err


def test_erase_takes_no_id_from_the_first_of_several_words(stage: Stage) -> None:
    source = stage.json("ingest", "-", stdin="Our notes.")["items"][0]["source_id"]
    assert stage.run("erase", f"{source[-5:]} and more words", "--yes").code == 3
    assert stage.json("query", "--mode", "page", source)["title"]


def test_erasure_receipt_names_the_file_in_the_work_tree(stage: Stage) -> None:
    stage.commit({"keys/secret.txt": "The password is hunter2.\n", "keys/old.txt": "It was hunter1.\n"})
    stage.done("add", ".")
    file = stage.folder / "keys" / "secret.txt"
    out = stage.done("erase", "keys/secret.txt", "--yes").out
    assert f"the original at {file.resolve()}; git may have earlier versions" in out
    (stage.folder / "keys" / "old.txt").unlink()
    assert "#keys/old.txt" in stage.done("erase", "keys/old.txt", "--yes").out


def test_erasing_asks_first_and_cannot_ask_a_pipe(stage: Stage) -> None:
    source = stage.json("ingest", "-", stdin="Keep me.")["items"][0]["source_id"]
    told = stage.run("erase", source)
    assert told.code == 2
    assert "--yes" in told.err
    assert stage.json("query", "--mode", "page", source)["title"]


def test_erasing_a_scope_lists_its_contents_before_it_asks(stage: Stage) -> None:
    stage.done("add", "-", "--origin", "note:a", "--scope", "/users/ada", stdin="Ada's number is 555-0100.")
    stage.done("task", "Call Ada", "--scope", "/users/ada/tasks")
    stage.done("add", "-", "--origin", "note:b", "--scope", "/users/ben", stdin="Ben's number is 555-0200.")
    told = stage.run("erase", "--scope", "/users/ada")
    assert told.code == 2
    contents = "all of /users/ada (1 source, 1 work item), including /users/ada/tasks"
    assert f"Erasing {contents} asks for confirmation" in told.err
    out = stage.done("erase", "--scope", "/users/ada", "--yes").out
    assert "objects of the scope: nothing left" in out
    assert "555-0100" not in stage.done("search", "number", "--scope", "/users/ada").out
    assert "555-0200" in stage.done("search", "number", "--scope", "/users/ben").out


@pytest.mark.parametrize("given", [(), ("src:01k00000000000000000000000", "--scope", "/users/ada")])
def test_erase_takes_objects_or_a_scope(stage: Stage, given: tuple[str, ...]) -> None:
    told = stage.run("erase", *given, "--yes")
    assert (told.code, "Give either the objects to erase, or --scope." in told.err) == (2, True)


def test_the_bare_group_shows_its_commands(stage: Stage) -> None:
    told = stage.run("review")
    assert "reject" in told.out + told.err


def test_work_that_comments_ask_for_is_proposed_and_applied_together(stage: Stage) -> None:
    stage.done("init")
    stage.write({"a.py": "# TODO: close the file\n# FIXME: it leaks here\n"})
    stage.done("ingest", "a.py")
    out = stage.done("review", "propose").out
    assert "Proposed: 2" in out
    assert "work item: TODO: close the file" in out
    listed = stage.json("review", "list")
    assert "work item: TODO: close the file, in a.py" in [record["reason"] for record in listed]
    waiting = [record["id"] for record in listed]
    assert stage.done("review", "apply", *waiting).out.count("Undo with: treering undo patch:…") == 2
    assert "Proposed: 0" in stage.done("review", "propose").out


def test_of_several_patches_those_before_one_that_fails_stay_applied(waiting: tuple[Stage, str]) -> None:
    stage, patch = waiting
    told = stage.run("review", "apply", patch, "patch:01kefz5b1jt7w2y9a5m3x8q6rv")
    assert told.code == 3
    assert "Preference: Tabs" in told.out
    assert stage.json("review", "list") == []

"""An edit gets what governs the file and the symbol, a failure what its test protects."""

from datetime import UTC, datetime

import pytest

from sources.git_scratch import Scratch
from space_parts import decide, note, open_space
from treering.extensions.coding_agents.before_edit import lines_before_edit
from treering.extensions.coding_agents.edits import FileEdit, Replacement, TouchedSymbols, file_edits, touched_by
from treering.extensions.coding_agents.failures import lines_after_failure
from treering.extensions.coding_agents.shown_lines import HookLine, show_lines
from treering.extensions.discussions.operations import RECORD
from treering.verbs.ingest.turns import Message
from treering.verbs.query.branch_work import applies_to

UPLOAD = '''\
def send(file, connection):
    """Send a file."""
    return connection.put(file)


class Uploader:
    def retry(self, file, limit):
        for attempt in range(limit):
            send(file, self)
'''
FILES = {
    "acme/__init__.py": "",
    "acme/upload.py": UPLOAD,
    "acme/queue.py": "from acme.upload import send\n\n\ndef flush(files):\n    return [send(x, 1) for x in files]\n",
    "tests/test_upload.py": "from acme.upload import send\n\n\ndef test_send():\n    assert send('a', {})\n",
    "Makefile": "test:\n\tpytest tests\n",
}


@pytest.fixture
def acme(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit(FILES)
    return scratch.folder


@pytest.fixture
def space(acme):
    with open_space(f"sqlite:{acme.parent}/space.db") as opened:
        opened.ingest("repo", input={"path": str(acme)})
        yield opened.asked_from(acme)


def edit(before, after, path="acme/upload.py"):
    return FileEdit(path, (Replacement(before, after),))


def texts(lines):
    return [one.text.partition("  know:")[0] for one in lines]


def evidence_at(space, words):
    hit = space.query("search", input={"query": words}).hits[0]
    return {"source_id": hit.source_id, "segment_id": hit.segment_id}


def rule(space, text, scope):
    given = {"kind": "constraint", "title": text, "payload": {"rule": text, "scope": scope}, "status": "active"}
    given["evidence_refs"] = [note(space, text)]
    space.crystallize("knowledge", input=given)


def test_edit_names_tests_with_their_command(space, acme):
    lines = texts(lines_before_edit(space, [edit("connection.put(file)", "connection.post(file)")], acme))
    assert lines == ["Tests of acme/upload.py: tests/test_upload.py (run `make test`)"]


@pytest.mark.parametrize("own", ["tests/test_upload.py", "acme/upload_test.py", "tests/upload_tests.py"])
def test_test_with_the_name_of_the_file_comes_first(tmp_path, own):
    scratch = Scratch(tmp_path / "acme")
    one, *others = [f"\n\ndef test_send_{number}():\n    assert send('a', {{}})\n" for number in range(60)]
    test = f"from acme.upload import send\n{one}"
    scratch.commit({"acme/upload.py": UPLOAD, own: test, "tests/test_all.py": "".join([test, *others])})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        lines = lines_before_edit(space.asked_from(scratch.folder), [edit("put", "post")], scratch.folder)
    assert texts(lines) == [f"Tests of acme/upload.py: {own}, tests/test_all.py"]


DECODING = {
    "acme/__init__.py": "from acme._decoders import *\n",
    "acme/_decoders.py": "def decode(text):\n    return text\n",
    "tests/test_decoders.py": "import acme\n\n\ndef test_decode():\n    assert acme.decode('a') == 'a'\n",
}


def test_edit_names_the_test_with_the_name_of_the_file_without_a_link(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit(DECODING)
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("return text", "return text[1:]", "acme/_decoders.py")
        lines = lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder)
        assert texts(lines) == ["Tests of acme/_decoders.py: tests/test_decoders.py"]
        scratch.git("checkout", "-q", "-b", "untested")
        scratch.git("rm", "-q", "tests/test_decoders.py")
        scratch.git("commit", "-q", "-m", "Remove the test")
        assert lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder) == []


def test_edit_names_no_unlinked_test_if_several_files_have_the_name(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({**DECODING, "tools/_decoders.py": "def decode(path):\n    return path\n"})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("return path", "return None", "tools/_decoders.py")
        assert lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder) == []


def test_changed_signature_names_callers_everywhere(space, acme):
    lines = texts(lines_before_edit(space, [edit("def send(file, connection):", "def send(file):")], acme))
    assert lines[0] == (
        "This edit changes the signature of send; "
        "it is used at acme/queue.py:5, tests/test_upload.py:5, and in this file at line 9"
    )


RETRY = """\
class Retry:
    def __init__(
        self,
        limit=3,
    ):
        self.limit = limit

    def again(self):
        return Retry(self.limit - 1)
"""


def test_changed_constructor_names_users_of_its_class(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    queue = "from acme.retry import Retry\n\n\ndef flush():\n    return Retry(5)\n"
    scratch.commit({"acme/__init__.py": "", "acme/retry.py": RETRY, "acme/queue.py": queue})
    change = edit("limit=3,\n    ):", "limit=3,\n        pause=1,\n    ):", "acme/retry.py")
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        (line,) = texts(lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder))
    assert line == (
        "This edit changes the signature of Retry.__init__; it is used at acme/queue.py:5, and in this file at line 9"
    )


TILL = """package till

type Till struct{ next *Till }

// Count counts again from the top if there is a next till: t.Count(n).
func (t *Till) Count(n int) int {
\tif t.next != nil {
\t\treturn t.next.top().Count(n) + t.Count(0)
\t}
\treturn n
}

func (t *Till) top() (other *Till) { other = t; other.Count(1); return t }

func (t *Till) Empty() bool { return t.Count(2) == 0 }

func (s *Shop) Empty() bool { return s.Count(3) == 0 }

func (t *Till) Full() bool {
\treturn t.Count(4) > 0
}
"""


def test_changed_signature_names_callers_in_its_own_file_only(tmp_path):
    scratch = Scratch(tmp_path / "till")
    scratch.commit({"till.go": TILL})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("Count(n int) int", "Count() int", "till.go")
        (line,) = texts(lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder))
    used, _, others = line.partition("; search for .Count( as well")
    assert used == "This edit changes the signature of Till.Count; it is used in this file at lines 13, 15, 20"
    assert others


def test_edit_of_an_unknown_file_without_rules_gets_nothing(space, acme):
    assert lines_before_edit(space, [FileEdit("docs/new.md", content="New.")], acme) == []


def test_rules_come_from_the_symbol_to_the_folder(space, acme):
    rule(space, "Everything is logged.", "repository")
    rule(space, "Code of acme never prints.", "acme")
    rule(space, "Docs are in English.", "docs")
    decide(space, "Uploads are named in acme/upload.py alone", note(space, "Uploads are named once."))
    decide(space, "A file is sent once", evidence_at(space, "send connection put"))
    lines = texts(lines_before_edit(space, [edit("connection.put(file)", "connection.post(file)")], acme))
    wanted = ["A file is sent once", "Uploads are named", "never prints", "Tests of", "Everything is logged"]
    assert len(lines) == len(wanted)
    assert all(want in line for want, line in zip(wanted, lines, strict=True))


def say(space, text):
    said = Message(role="user", content=text, at=datetime(2026, 11, 30, tzinfo=UTC))
    space.perform(RECORD, input={"id": "d", "messages": [said]}, options={"propose": True})


def test_edit_shows_a_rule_that_the_user_stated_about_such_files(space, acme):
    say(space, "Never use MagicMock in tests here.")
    marked = "Rule: Never use MagicMock in tests here (said by the user on 30 Nov, not confirmed)"
    assert texts(lines_before_edit(space, [FileEdit("tests/test_upload.py")], acme))[0] == marked
    assert marked in texts(lines_before_edit(space, [edit("put(file)", "put(MagicMock())")], acme))
    assert marked not in texts(lines_before_edit(space, [edit("put(file)", "post(file)")], acme))


def test_confirmed_rule_about_tests_is_shown_before_an_edit_of_a_test(space, acme):
    rule(space, "Never use MagicMock in tests", "")
    (line, _) = lines_before_edit(space, [FileEdit("tests/test_upload.py")], acme)
    assert line.key.endswith("@edit")  # the brief does not replace it


def test_unconfirmed_decision_of_a_file_comes_after_confirmed_ones(space, acme):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"), status="candidate")
    rule(space, "Code of acme never prints.", "acme")
    first, second, third = texts(lines_before_edit(space, [FileEdit("acme/upload.py")], acme))
    assert "never prints" in first
    assert "A file is sent once (recorded by an agent on" in second
    assert third.startswith("Tests of")


def test_failing_test_names_the_unconfirmed_decision_it_protects(space):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"), status="candidate")
    (line,) = texts(lines_after_failure(space, "FAILED tests/test_upload.py::test_send - AssertionError"))
    assert "A file is sent once (recorded by an agent on" in line


def test_edit_shows_one_related_rule_of_a_guide_after_the_tests(tmp_path):
    guide = (
        "# Rules for agents\n\n- Subclasses of `WrapperToolset` must override `get_tools`.\n"
        "- Code in upload must never print.\n- Every upload must be logged.\n"
    )
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({**FILES, "acme/AGENTS.md": guide})
    with open_space(f"sqlite:{tmp_path}/space.db") as opened:
        opened.ingest("repo", input={"path": str(scratch.folder)})
        space = opened.asked_from(scratch.folder)
        tests, candidate = texts(lines_before_edit(space, [edit("put(file)", "post(file)")], scratch.folder))
        assert tests.startswith("Tests of acme/upload.py")
        assert "(candidate; acme/AGENTS.md:" in candidate
        assert "upload" in candidate
        assert lines_before_edit(space, [FileEdit("acme/queue.py", content="x = 1")], scratch.folder) == []


def test_edit_gives_the_reason_of_a_decision(space, acme):
    space.decide("A file is sent once", because=["acme/upload.py:3"], why="The server counts every request")
    (line, *_) = texts(lines_before_edit(space, [FileEdit("acme/upload.py")], acme))
    assert (
        line == "Decision: A file is sent once (acme/upload.py:3; by an agent) – why: The server counts every request"
    )


def test_edit_of_cited_lines_shows_their_decision_first(space, acme):
    space.decide("A file is put", because=["acme/upload.py:3"])
    space.decide("A send has a name", because=["acme/upload.py:1"])
    first, second, *_ = texts(lines_before_edit(space, [edit("put(file)", "post(file)")], acme))
    assert first.startswith("This edit changes the lines that it cites. Decision: A file is put (acme/upload.py:3;")
    assert second.startswith("Decision: A send has a name")


@pytest.mark.parametrize(
    ("before", "after", "is_changed"),
    [
        ("    return connection.put(file)", "    return connection.post(file)", True),
        ("def send(file", "def send_all(file", False),
        ("    return connection.put(file)\n", "", True),
        ("    return connection.put(file)\n", "    file.check()\n    return connection.put(file)\n", False),
        ("class Uploader:", "class Loader:", False),
    ],
)
def test_edit_states_whether_it_changes_cited_lines(space, acme, before, after, is_changed):
    space.decide("A file is put", because=["acme/upload.py:3"])
    (acme / "acme/upload.py").write_text(f"# A comment that moves the lines.\n{UPLOAD}")
    written = FileEdit("acme/upload.py", content=(acme / "acme/upload.py").read_text().replace(before, after))
    for one in (edit(before, after), written):
        shown = [line for line in texts(lines_before_edit(space, [one], acme)) if "A file is put" in line]
        assert [line.startswith("This edit changes the lines that it cites.") for line in shown] == [is_changed]


def test_edit_of_a_file_cited_as_a_whole_changes_no_cited_line(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    steps = "".join(f"    line_{number} = connection.put(file, {number})\n" for number in range(80))
    scratch.commit({"acme/upload.py": f"def send(file, connection):\n{steps}\n\ndef check(file, connection):\n{steps}"})
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        space.decide("All is sent here", because=["acme/upload.py"])
        (line, *_) = texts(
            lines_before_edit(space.asked_from(scratch.folder), [edit("(file, 7)", "(file, 8)")], scratch.folder)
        )
    assert line.startswith("Decision: All is sent here")


def test_edit_shows_the_place_that_a_decision_cites_in_the_edited_file(space, acme):
    space.decide("A file is sent once", because=["acme/upload.py:3", "acme/queue.py:5"])
    for path, place in (("acme/queue.py", "acme/queue.py:5"), ("acme/upload.py", "acme/upload.py:3")):
        (line, *_) = texts(lines_before_edit(space, [FileEdit(path)], acme))
        assert line == f"Decision: A file is sent once ({place}; by an agent)"


def test_patch_of_several_files_shows_their_decision_once(space, acme):
    space.decide("A file is sent once", because=["acme/upload.py:3", "acme/queue.py:5"])
    edits = [FileEdit("acme/upload.py"), FileEdit("acme/queue.py")]
    shown = show_lines(space.address.file, "one", lines_before_edit(space, edits, acme))
    assert shown.count("A file is sent once") == 1
    assert show_lines(space.address.file, "one", lines_before_edit(space, edits[1:], acme)) == ""


def test_lines_of_a_path_beyond_ascii_are_shown_once(space):
    lines = [HookLine("tests:src/Größe und Maß.py", "Tests of src/Größe und Maß.py: tests/test_size.py")]
    assert "test_size" in show_lines(space.address.file, "one", lines)
    assert show_lines(space.address.file, "one", lines) == ""


def test_edit_marks_a_stale_decision(space, acme):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"))
    (acme / "acme/upload.py").write_text(UPLOAD.replace("connection.put(file)", "connection.put(file, again=True)"))
    space.ingest("repo", input={"path": str(acme)}, options={"worktree": True})
    (line, *_) = texts(lines_before_edit(space, [edit("def send(file", "def send(one")], acme))
    assert line == "Decision: A file is sent once (stale; acme/upload.py:1-9 changed)"


def test_changed_method_names_callers_in_files_that_import_its_class(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    method = "class Retry:\n    {}def call_again(self, limit):\n        return limit\n"
    call = "from acme.{}retry import Retry\n\n\ndef send(connection):\n    return connection.retry.call_again(1)\n"
    paths = [f"acme/{one}__init__.py" for one in ("", "aio/")]
    scratch.commit(
        dict.fromkeys(paths, "")
        | {"acme/retry.py": method.format(""), "acme/aio/retry.py": method.format("async ")}
        | {"acme/client.py": call.format(""), "acme/aio/client.py": call.format("aio.")}
        | {"acme/other.py": "\n\ndef send(retry):\n    return retry.call_again(1)\n"}
    )
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("call_again(self, limit)", "call_again(self)", "acme/retry.py")
        (line, *_) = texts(lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder))
    assert line.endswith("of Retry.call_again; it is used at acme/client.py:5, acme/other.py:4")


def test_go_test_that_imports_the_package_only_is_no_test_of_a_file(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    test = 'package {}_test\n\nimport "example.org/acme/web"\n\nfunc {}() {{\n\tweb.{}()\n}}\n'
    scratch.commit(
        {
            "go.mod": "module example.org/acme\n",
            "web/zip.go": "package web\n\nfunc Zip() {}\n",
            "web/log.go": "package web\n\nfunc Log() {}\n",
            "web/all_test.go": test.format("web", "TestAll", "Zip"),
            "web/log_example_test.go": test.format("web", "ExampleLog", "Log"),
        }
    )
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("func Zip() {}", "func Zip() { panic(1) }", "web/zip.go")
        lines = lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder)
    assert [line.partition(" (")[0] for line in texts(lines)] == ["Tests of web/zip.go: web/all_test.go"]


def test_changed_method_with_a_common_name_names_its_interface_and_what_to_search(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit(
        {
            "mux.go": "package acme\n\ntype Mux struct{}\n\nfunc (mx *Mux) Use(a int) {}\n",
            "api.go": "package acme\n\ntype Router interface {\n\t// Use adds.\n\tUse(a int)\n}\n",
            "web/api.go": "package web\n\ntype Other interface {\n\tUse(a int)\n}\n",
        }
    )
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        change = edit("Use(a int)", "Use()", "mux.go")
        (line,) = texts(lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder))
    assert line == (
        "This edit changes the signature of Mux.Use; Router (api.go:5) declares it, too; search for .Use( as well: "
        "calls of a method with so common a name are not tracked if the type of the object is unknown"
    )


def test_rule_for_a_named_place_is_shown_there_only(space, acme):
    for text in ("Never retry in acme/upload.py", "Never retry a file in acme/queue.py", "Never retry in tests"):
        rule(space, text, "")
    lines = texts(lines_before_edit(space, [edit("send(file, self)", "send(file, self, 1)")], acme))
    assert {one for one in lines if one.startswith("Rule")} == {"Rule: Never retry in acme/upload.py (by an agent)"}


@pytest.mark.parametrize(
    ("scope", "path", "applies"),
    [
        ("src", "src/a/b.py", True),
        ("src/", "srcs/b.py", False),
        ("src/a.py", "src/a.py", True),
        ("src/*", "src/a/b.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("*.py", "src/a/b.py", True),
        ("src/**/*.py", "src/b.py", True),
        ("docs, src/**", "src/b.py", True),
        ("src/**, !src/made", "src/made/b.py", False),
    ],
)
def test_rule_applies_to_files_by_folder_or_glob(scope, path, applies):
    assert applies_to(scope, path) == applies


def test_failure_names_the_decision_that_cites_its_line(space):
    space.decide("A file is sent once", because=["acme/upload.py:1-3"], why="The server counts every request")
    space.decide("Retries have a limit", because=["acme/queue.py:4-5"])
    failure = "thread 'main' panicked at acme/upload.py:3:13:\nconnection refused"
    (line,) = texts(lines_after_failure(space, failure))
    assert (
        line == "Decision: A file is sent once (acme/upload.py:1-3; by an agent) – why: The server counts every request"
    )
    assert lines_after_failure(space, "error in acme/upload.py") == []


def test_failing_test_names_the_decision_it_protects(space):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"))
    decide(space, "Colors are mixed", note(space, "Colors are mixed."))
    failure = "FAILED tests/test_upload.py::test_send - AssertionError"
    (line,) = texts(lines_after_failure(space, failure))
    assert line.startswith("tests/test_upload.py protects: Decision: A file is sent once")
    assert texts(lines_after_failure(space, "tests/test_upload.py:5: AssertionError")) == [line]
    assert lines_after_failure(space, "FAILED tests/test_other.py::test_send") == []


LIMITS = "TRIES = 5\nSIZE = 20\n\n\ndef tries():\n    return TRIES\n"
TEST_TRIES = "from acme.limits import tries\n\n\ndef test_tries():\n    assert tries() == 5\n"
FAILED_TRIES = "FAILED tests/test_limits.py::test_tries - assert 10 == 5"


@pytest.fixture
def limits(tmp_path):
    scratch = Scratch(tmp_path / "limits")
    scratch.commit({"acme/__init__.py": "", "acme/limits.py": LIMITS, "tests/test_limits.py": TEST_TRIES})
    with open_space(f"sqlite:{tmp_path}/limits.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        space.decide("Five tries", because=["acme/limits.py:1"])
        yield scratch, space


def test_failing_test_protects_decisions_about_definitions_it_exercises(limits):
    scratch, space = limits
    space.decide("Twenty files at most", because=["acme/limits.py:2"])
    (line,) = texts(lines_after_failure(space.asked_from(scratch.folder), FAILED_TRIES))
    assert line == "tests/test_limits.py protects: Decision: Five tries (acme/limits.py:1; by an agent)"


@pytest.mark.parametrize("is_read", [False, True])
def test_failing_test_names_the_decision_that_the_branch_contradicts(limits, is_read):
    scratch, space = limits
    scratch.git("checkout", "-q", "-b", "more-tries")
    test = f"{TEST_TRIES}\n\ndef test_size():\n    assert True\n"
    scratch.commit({"acme/limits.py": LIMITS.replace("5", "10"), "tests/test_limits.py": test})
    if is_read:
        space.ingest("repo", input={"path": str(scratch.folder)})
    (line,) = texts(lines_after_failure(space.asked_from(scratch.folder), FAILED_TRIES))
    assert line.startswith("tests/test_limits.py protects: Decision: Five tries (this branch changed what it states: ")


def test_failing_test_names_the_decision_that_a_merge_contradicts(limits):
    scratch, space = limits
    scratch.commit({"acme/limits.py": LIMITS.replace("5", "10")})
    space.ingest("repo", input={"path": str(scratch.folder)})
    (line,) = texts(lines_after_failure(space.asked_from(scratch.folder), FAILED_TRIES))
    assert line == "tests/test_limits.py protects: Decision: Five tries (stale)"


@pytest.mark.parametrize(
    ("before", "after", "touched"),
    [
        ("range(limit)", "range(3)", TouchedSymbols(("Uploader.retry",))),
        (
            "def retry(self, file, limit):",
            "def retry(self, file):",
            TouchedSymbols(("Uploader.retry",), ("Uploader.retry",)),
        ),
        ("def send(file, connection):\n", "def send(\n    file,\n    connection,\n):\n", TouchedSymbols(("send",))),
        ("def send(file", "def post(file", TouchedSymbols(("send",), ("send",))),
        ("not in the file", "", TouchedSymbols()),
    ],
)
def test_edit_touches_its_innermost_symbol(acme, before, after, touched):
    found = touched_by(edit(before, after), acme)
    assert (found.symbols, found.signatures) == (touched.symbols, touched.signatures)


def test_whole_new_content_is_compared_with_the_file(acme):
    found = touched_by(FileEdit("acme/upload.py", content=UPLOAD.replace("limit", "times")), acme)
    assert (found.symbols, found.signatures) == (("Uploader.retry",), ("Uploader.retry",))


PATCH = (
    "*** Begin Patch\n*** Update File: acme/upload.py\n@@\n-def send(file, connection):\n"
    '+def send(file):\n     """Send a file."""\n*** End Patch'
)


@pytest.mark.parametrize(
    "tool_input",
    [
        {"file_path": "acme/upload.py", "old_string": "def send(file, connection):", "new_string": "def send(file):"},
        {"filePath": "acme/upload.py", "oldString": "def send(file, connection):", "newString": "def send(file):"},
        {
            "file_path": "acme/upload.py",
            "edits": [{"old_string": "def send(file, connection):", "new_string": "def send(file):"}],
        },
        {"path": "acme/upload.py", "old_str": "def send(file, connection):", "new_str": "def send(file):"},
        {"path": "acme/upload.py", "file_text": UPLOAD.replace("send(file, connection)", "send(file)")},
        {"command": PATCH},
        PATCH,
    ],
)
def test_edits_of_every_client_are_understood(acme, tool_input):
    (found,) = file_edits({"cwd": str(acme), "tool_input": tool_input}, acme)
    assert found.path == "acme/upload.py"
    assert touched_by(found, acme) == TouchedSymbols(("send",), ("send",), {"send": (9,)})


def test_edit_shows_a_decision_that_was_proposed_again_once(space, acme):
    again = {"question": "How often?", "outcome": "A file is sent once", "rationale": "again"}
    place = evidence_at(space, "send connection put")
    decide(space, "A file is sent once", place)
    decide(space, "A file is sent once", place, status="candidate", payload=again)
    lines = texts(lines_before_edit(space, [FileEdit("acme/upload.py")], acme))
    assert [line for line in lines if "again" in line or "A file is sent once" in line] == lines[:1]


def test_edit_that_breaks_a_rule_shows_it_again(space, acme):
    rule(space, "Never call print in library code", "")
    file = acme.parent / "space.db"
    shown = show_lines(file, "session", lines_before_edit(space, [edit("connection.put(file)", "None")], acme))
    assert "Rule: Never call print in library code" in shown
    for path in ("acme/new.py", "acme/new.py", "acme/queue.py"):
        written = [FileEdit(path, content="def start():\n    print(1)\n")]
        shown = show_lines(file, "session", lines_before_edit(space, written, acme))
        assert "This edit adds print. Rule: Never call print in library code" in shown
    written = [FileEdit("tests/test_new.py", content="print(1)\n")]
    assert "print" not in show_lines(file, "session", lines_before_edit(space, written, acme))


def test_edit_beside_a_forbidden_name_does_not_show_its_rule_again(space, acme):
    rule(space, "Never call print", "")
    file = acme.parent / "space.db"
    for _ in range(2):
        shown = show_lines(file, "session", lines_before_edit(space, [edit("print(a, b)", "print(a)")], acme))
    assert shown == ""


def test_edit_names_every_broken_rule_and_then_fewer_others(space, acme):
    names = ("simplejson", "pickle", "pytz", "freezegun")
    for name in (*names, "requests", "trio"):
        rule(space, f"Never import {name}", "")
    written = FileEdit("acme/new.py", content="".join(f"import {name}\n" for name in names))
    summary, *lines = texts(lines_before_edit(space, [written], acme))
    assert summary == "This edit breaks 4 rules. It adds freezegun, pytz, pickle, simplejson."
    assert sorted(line.partition(". ")[0] for line in lines) == sorted(f"This edit adds {name}" for name in names)


def test_edit_shows_the_unconfirmed_decision_of_its_symbol_before_confirmed_rules(space, acme):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"), status="candidate")
    for thing in ("logs", "prints", "sleeps"):
        rule(space, f"An upload never {thing}.", "")
    first, *_ = texts(lines_before_edit(space, [edit("connection.put(file)", "connection.post(file)")], acme))
    assert "A file is sent once (recorded by an agent on" in first


def test_stale_decision_that_nobody_confirmed_is_shown_and_marked(space, acme):
    decide(space, "A file is sent once", evidence_at(space, "send connection put"), status="candidate")
    Scratch(acme).commit({"acme/upload.py": UPLOAD.replace("connection.put(file)", "connection.post(file)")})
    space.ingest("repo", input={"path": str(acme)})
    (decision, *_) = texts(lines_before_edit(space, [FileEdit("acme/upload.py")], acme))
    assert decision.startswith("Decision: A file is sent once (stale, not confirmed; acme/upload.py:")
    assert any("A file is sent once" in line for line in space.query("brief").lines)


def test_edit_of_a_renamed_file_shows_the_decision_that_its_rename_made_stale(space, acme):
    space.decide("A file is put once", because=["acme/upload.py:3"])
    (acme / "acme/upload.py").rename(acme / "acme/sending.py")
    edited = {"acme/sending.py": UPLOAD.replace("connection.put(file)", "file.post(to=connection)")}
    Scratch(acme).commit(edited)
    space.ingest("repo", input={"path": str(acme)})
    (decision, *_) = texts(lines_before_edit(space, [FileEdit("acme/sending.py")], acme))
    assert decision == "Decision: A file is put once (stale; acme/sending.py:3 changed)"


def test_edit_of_a_file_shows_the_stale_decision_of_the_removed_file_that_git_finds_in_it(space, acme):
    space.decide("A file is put once", because=["acme/upload.py:3"])
    (acme / "acme/upload.py").unlink()
    Scratch(acme).commit({})
    space.ingest("repo", input={"path": str(acme)})
    Scratch(acme).commit({"acme/sending.py": UPLOAD.replace("connection.put(file)", "file.post(to=connection)")})
    space.ingest("repo", input={"path": str(acme)})
    (decision, *_) = texts(lines_before_edit(space, [FileEdit("acme/sending.py")], acme))
    removed = "acme/upload.py:3 removed, the file was renamed to acme/sending.py"
    assert decision == f"Decision: A file is put once (stale; {removed})"
    assert removed in "\n".join(space.query("brief").lines)
    (stale,) = (one for one in space.lint("semantic").findings if one.rule == "stale")
    assert "acme/upload.py was removed" in stale.explanation
    assert "repo:" not in stale.explanation


def test_edit_shows_no_rule_that_forbids_a_name_only_in_tests(space, acme):
    rule(space, "Never call sleep in the upload tests", "")
    lines = texts(lines_before_edit(space, [edit("connection.put(file)", "upload(file)")], acme))
    assert "Rule: Never call sleep in the upload tests (by an agent)" not in lines
    lines = texts(lines_before_edit(space, [FileEdit("tests/test_upload.py")], acme))
    assert "Rule: Never call sleep in the upload tests (by an agent)" in lines


def test_manifests_and_lock_files_are_no_companions(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    for number in range(8):
        names = ("acme/upload.py", "acme/queue.py", "package.json", "pnpm-lock.yaml")
        scratch.commit(dict.fromkeys(names, f'{{"a": {number}}}\n'))
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        here = space.asked_from(scratch.folder)
        (line,) = texts(lines_before_edit(here, [FileEdit("acme/upload.py")], scratch.folder))
    assert line == "Often changed together with acme/upload.py: acme/queue.py (8 commits)"


def test_edit_that_creates_a_file_shows_the_rule_that_it_breaks(space, acme):
    rule(space, "Never call print", "")
    given = {"file_path": "acme/new.py", "old_string": "", "new_string": "print(1)\n"}
    lines = lines_before_edit(space, file_edits({"cwd": str(acme), "tool_input": given}, acme), acme)
    assert texts(lines)[0] == "This edit adds print. Rule: Never call print (by an agent)"


def test_edit_that_changes_a_part_of_an_import_shows_the_rule_that_it_breaks(space, acme):
    rule(space, "Import ref from 'vue-demi' instead of 'vue'", "")
    (acme / "hmr.ts").write_text("import {\n  ref,\n} from 'vue-demi'\n")
    shown = texts(lines_before_edit(space, [edit("'vue-demi'", "'vue'", "hmr.ts")], acme))
    assert shown[0] == "This edit adds vue. Rule: Import ref from 'vue-demi' instead of 'vue' (by an agent)"
    assert "This edit adds" not in "".join(texts(lines_before_edit(space, [edit("ref", "h", "hmr.ts")], acme)))


def test_new_file_of_a_patch_has_its_text(acme):
    patch = "*** Begin Patch\n*** Add File: acme/new.py\n+def start():\n+    pass\n*** End Patch"
    (found,) = file_edits({"cwd": str(acme), "tool_input": patch}, acme)
    assert found.content == "def start():\n    pass"


def test_failing_test_shows_the_decision_with_its_value(space):
    output = "--- FAIL: TestUploadRetries (0.00s)\n  expected: 307\n  actual  : 308"
    space.decide("Uploads that moved are retried with 307", because=["acme/queue.py:4"])
    space.decide("Logins are answered with 307", because=["acme/queue.py:4"])
    space.decide("Uploads are named in 40 letters", because=["acme/queue.py:4"])
    lines = texts(lines_after_failure(space, output.splitlines()[0], output))
    assert lines == ["Decision: Uploads that moved are retried with 307 (by an agent)"]


@pytest.mark.parametrize(
    ("text", "scope", "output"),
    [
        (
            "Do not import github.com/pkg/errors; use fmt.Errorf",
            "",
            "--- FAIL: TestStatus (0.02s)\nFAIL github.com/go-task/task/v3 1.2s",
        ),
        (
            "Never raise ValueError in acme/upload.py",
            "",
            'File "acme/queue.py", line 5\n  raise ValueError',
        ),
        ("Never raise ValueError here", "acme/upload.py", "acme/queue.py:5: raise ValueError\nValueError: a"),
        ("Never catch AssertionError in a test", "", "FAILED tests/test_upload.py::test_send - AssertionError"),
        ("Errors of @hono/zod must have a status", "", "FAIL @hono/node > has a status\nError: status 1"),
    ],
)
def test_failure_shows_no_rule_that_shares_nothing_specific(space, text, scope, output):
    rule(space, text, scope)
    assert lines_after_failure(space, output) == []


@pytest.mark.parametrize(
    ("text", "scope", "output"),
    [
        ("Errors of github.com/go-task/task/v3 have a code", "", "FAIL github.com/go-task/task/v3 1.2s"),
        ("Never raise ValueError in acme/upload.py", "", 'File "acme/upload.py", line 5\n  raise ValueError'),
        ("Never raise ValueError here", "acme", "acme/queue.py:5: raise ValueError\nValueError: a"),
        ("Fix the error TS2345 with a type guard", "", "src/a.ts(3,5): error TS2345: Argument of type 'A' is wrong"),
    ],
)
def test_failure_shows_a_rule_that_shares_a_name_of_its_files(space, text, scope, output):
    rule(space, text, scope)
    (line,) = texts(lines_after_failure(space, output))
    assert text in line


WORKSPACE = {
    "package.json": '{"name": "shop", "private": true}\n',
    "cart/package.json": '{"name": "@shop/cart"}\n',
    "cart/src/total.ts": "export function total(rows: number[]) {\n  return rows.length\n}\n",
    "cart/src/index.ts": "export { total } from './total'\n",
    "cart/typetests/index.d.ts": "export * from '../dist/cart'\n",
    "cart/typetests/total.test-d.ts": "import { total } from './'\n\nconst one: number = total([1])\n",
    "till/package.json": '{"name": "till"}\n',
    "till/pay.ts": (
        "import {\n  total,\n} from '@shop/cart'\n\n"
        "// total is the sum\nexport function pay(rows: number[]) {\n  const label = 'total'\n"
        "  return { total: total(rows), bound: total.bind(null, rows) }\n}\n\nexport const later = () =>\n  total([])\n"
    ),
}


def test_changed_signature_names_users_by_package_and_built_entry_with_all_lines(tmp_path):
    scratch = Scratch(tmp_path / "shop")
    scratch.commit(WORKSPACE)
    change = edit("total(rows: number[])", "total(rows: string[])", "cart/src/total.ts")
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        lines = lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder)
    used = "it is used at cart/typetests/total.test-d.ts:3, till/pay.ts:8,12"
    assert texts(lines)[0] == f"This edit changes the signature of total; {used}"


def test_changed_signature_names_all_lines_in_the_edited_file(tmp_path):
    code = "def part(x):\n    return x\n\n\ndef whole(rows):\n    part(1)\n    # part of it\n    return part(2)\n"
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"parts.py": code})
    touched = touched_by(edit("def part(x)", "def part(x, y)", "parts.py"), scratch.folder)
    assert touched.lines == {"part": (6, 8)}


def test_edit_of_a_file_renamed_on_an_unread_branch_names_its_callers_and_tests(space, acme):
    space.decide("A file is put once", because=["acme/upload.py:3"])
    scratch = Scratch(acme)
    scratch.git("checkout", "-q", "-b", "renaming")
    scratch.git("mv", "acme/upload.py", "acme/sending.py")
    renamed = {name: FILES[name].replace("acme.upload", "acme.sending") for name in FILES if name != "acme/upload.py"}
    scratch.commit(renamed)
    change = edit("def send(file, connection):", "def send(file):", "acme/sending.py")
    decision, callers, tests = texts(lines_before_edit(space, [change], acme))
    assert decision == "Decision: A file is put once (acme/sending.py:3; by an agent)"
    assert "it is used at acme/queue.py:5, tests/test_upload.py:5, and in this file at line 9" in callers
    assert tests == "Tests of acme/sending.py: tests/test_upload.py (run `make test`)"


def lines_of_change(tmp_path, files, change):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit(files)
    with open_space(f"sqlite:{tmp_path}/space.db") as space:
        space.ingest("repo", input={"path": str(scratch.folder)})
        return texts(lines_before_edit(space.asked_from(scratch.folder), [change], scratch.folder))


GO_NODES = {
    "node/node.go": "package node\n\ntype Node interface {\n\tResolveDir(dir string) string\n}\n",
    "node/file.go": (
        "package node\n\ntype File struct{}\n\n"
        "// ResolveDir(dir) resolves.\nfunc (f *File) ResolveDir(_ string) string { return f.x }\n"
    ),
    "web/http.go": "package web\n\ntype HTTP struct{}\n\nfunc (h HTTP) ResolveDir(dir string) string { return dir }\n",
    "web/two.go": "package web\n\ntype Two struct{}\n\nfunc (t Two) ResolveDir(a, b string) string { return a }\n",
    "fs/fs.go": "package fs\n\nfunc ResolveDir(dir string) string { return dir }\n",
}


def test_changed_method_of_a_go_interface_names_its_implementations(tmp_path):
    change = edit("ResolveDir(dir string)", "ResolveDir(ctx C, dir string)", "node/node.go")
    (line,) = lines_of_change(tmp_path, GO_NODES, change)
    assert (
        line == "This edit changes the signature of Node.ResolveDir; it is implemented at node/file.go:6, web/http.go:5"
    )


STORES = {
    "store.ts": "export interface Store {\n  putItem(a: number): number;\n}\n",
    "disk.ts": (
        "import { Store } from './store';\n\nexport class Disk implements Store {\n"
        "  /** putItem(a) puts. */\n  putItem(a: number): number {\n    return a;\n  }\n}\n"
    ),
    "other.ts": "export class Other {\n  putItem(a: number): number {\n    return a;\n  }\n}\n",
}


def test_changed_method_of_an_interface_names_the_types_that_declare_it(tmp_path):
    change = edit("putItem(a: number)", "putItem(a: string)", "store.ts")
    (line, *_) = lines_of_change(tmp_path, STORES, change)
    assert "it is implemented at disk.ts:5" in line
    assert "other.ts" not in line


CHECKS = """\
class Check:
    def format_error(self, value):
        return value


class Email(Check):
    def format_error(self, value):
        return value


class Strict(Check):
    def format_error(self, value):
        return super().format_error(value)


class Work(Email):
    def format_error(self, value):
        return super().format_error(value)
"""


def test_changed_method_leaves_out_calls_of_another_base_class(tmp_path):
    change = edit(
        "class Email(Check):\n    def format_error(self, value)",
        "class Email(Check):\n    def format_error(self)",
        "checks.py",
    )
    (line,) = lines_of_change(tmp_path, {"checks.py": CHECKS}, change)
    assert line == (
        "This edit changes the signature of Email.format_error; it is used in this file at line 18; "
        "it is overridden at checks.py:17"
    )

"""A prompt that names files, lines, tests or definitions gets these places first."""

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.extensions.coding_agents.pointers import pointers

UPLOAD = '''\
"""Uploads of files."""


class Uploader:
    """Send files."""

    def send(self, file):
        return self.connection.put(file)

    def retry_upload(self, file, limit):
        """Send a file again until the retry limit is reached."""
        for attempt in range(limit):
            self.send(file)
'''
TESTS = """\
from acme.upload import Uploader


class TestUploader:
    def test_retry(self):
        assert Uploader().retry_upload("a", 3) is None


def test_send():
    assert Uploader().send("a")
"""
SERVER = """\
package server

func Listen(port int) error {
\tif port == 0 {
\t\tpanic("no port")
\t}
\treturn accept(port)
}

func accept(port int) error {
\treturn nil
}
"""
PLAIN = "def total(order):\n    return sum(line.price for line in order.lines)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    scratch = Scratch(tmp_path_factory.mktemp("named") / "acme")
    scratch.commit(
        {
            "src/acme/upload.py": UPLOAD,
            "src/acme/orders.py": PLAIN,
            "src/acme/client.py": f"{PLAIN}\n\ndef run(self):\n    pass\n",
            "src/acme/json/client.py": "def decode(text):\n    return text\n",
            "src/acme/flags.py": 'FLAGS = (\n    option("retry_after_minutes"),\n)\n',
            "examples/orders.py": "from acme.orders import total\n",
            "tests/test_upload.py": TESTS,
            "server/listen.go": SERVER,
            "src/acme/options.py": "class Timeout:\n    seconds = 3\n",
            "tests/test_options.py": "class Timeout:\n    pass\n\n\nclass Deadline:\n    pass\n",
            "src/runner.rs": "impl Runner {\n    pub fn total(&self) -> u8 {\n        0\n    }\n}\n",
            "root.go": "package acme\n\nfunc Root() error {\n\treturn nil\n}\n",
            **{f"src/acme/part{number}/part.py": PLAIN for number in range(3)},
            "docs/guide.md": "# Guide\n\nRead this.\n\n## Uploads\n\nSend a file.\n\n## Orders\n\nAdd them.\n",
        }
    )
    return scratch.folder


@pytest.fixture(scope="module")
def space(folder):
    with open_space(f"sqlite:{folder.parent}/space.db") as opened:
        opened.ingest("repo", input={"path": str(folder)})
        yield opened


def places(space, prompt):
    return [one.text.split(" ")[0] for one in pointers(space, prompt)]


@pytest.mark.parametrize(
    "prompt",
    [
        "fix the failing test in tests/test_upload.py",
        "please look at `test_upload.py`.",
        "why does @tests/test_upload.py fail?",
        r"clean up C:\code\acme\tests\test_upload.py",
    ],
)
def test_named_file_is_the_only_place_of_a_plain_request(space, prompt):
    (place,) = pointers(space, prompt)
    assert place.text == "tests/test_upload.py – TestUploader, test_send"


def test_named_document_is_shown_with_its_sections(space):
    (place,) = pointers(space, "improve docs/guide.md")
    assert place.text == "docs/guide.md – Guide, Uploads / Orders"


@pytest.mark.parametrize(
    "prompt",
    [
        "upload.py:12 is wrong",
        "why the loop in src/acme/upload.py, line 12?",
        "see upload.py line 12",
        "https://example.org/acme/blob/main/src/acme/upload.py#L12-L13 looks odd",
        "src/acme/upload.py:12:9: E501 line too long",
        "src/acme/upload.py(12): error",
    ],
)
def test_named_line_is_shown_with_its_definition(space, prompt):
    (place,) = pointers(space, prompt)
    assert place.text == "src/acme/upload.py:12 Uploader.retry_upload – for attempt in range(limit):"


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ("tests/test_upload.py::TestUploader::test_retry fails", "tests/test_upload.py:5"),
        ("FAILED tests/test_upload.py::test_send[a-3] - assert None", "tests/test_upload.py:9"),
        ("tests/test_upload.py::test_send: assert None", "tests/test_upload.py:9"),
        ("why is test_send red?", "tests/test_upload.py:9"),
    ],
)
def test_named_test_is_shown_with_its_line(space, prompt, place):
    assert places(space, prompt)[0] == place


def test_definition_in_a_named_file_comes_first(space):
    assert places(space, "in upload.py the limit is ignored, please check retry_upload")[0] == "src/acme/upload.py:10"


def test_best_line_of_a_named_file_is_shown(space):
    prompt = "in src/acme/upload.py the retry limit of attempts is one too many"
    assert places(space, prompt) == ["src/acme/upload.py:12"]


def test_definitions_named_after_the_prompt_are_shown_in_a_named_file(space):
    assert places(space, "simplify the retries in upload.py") == ["src/acme/upload.py:10"]


def test_other_files_next_to_a_named_one_share_much_with_the_prompt(space):
    assert places(space, "orders.py computes the price of lines") == ["src/acme/orders.py"]
    prompt = "unlike docs/guide.md says, the uploader does not send a file again until the retry limit is reached"
    assert places(space, prompt)[-1].startswith("src/acme/upload.py:")


def test_name_in_one_file_is_shown_without_a_definition(space):
    assert places(space, "retry_after_minutes has no effect") == ["src/acme/flags.py:2"]
    assert places(space, "retry_after_hours has no effect") == []


def test_definition_next_to_a_named_line_is_shown(space):
    prompt = "client.py:5 is fine.\n\nBut check retry_upload."
    assert places(space, prompt) == ["src/acme/client.py:5", "src/acme/upload.py:10"]


def test_long_prompt_is_not_about_every_name_in_it(space):
    issue = "The price of the lines of an order is wrong if the order has no lines.\n" * 6
    assert not places(space, f"{issue}    retry_upload(1)")[0].startswith("src/acme/upload.py")


def test_file_of_the_repository_asked_from_is_meant(tmp_path):
    with open_space(f"sqlite:{tmp_path}/space.db") as opened:
        for name in ("one", "two"):
            scratch = Scratch(tmp_path / name)
            scratch.commit({"src/app.py": f"def {name}():\n    pass\n"})
            opened.ingest("repo", input={"path": str(scratch.folder)})
        for name in ("one", "two"):
            (place,) = pointers(opened.asked_from(tmp_path / name), "simplify src/app.py")
            assert place.text == f"src/app.py – {name}"


def test_definition_qualified_by_its_module_is_found(space):
    assert places(space, "what calls orders.total()?")[0] == "src/acme/orders.py:1"


@pytest.mark.parametrize("prompt", ["add an option to the Timeout config", "why has `Timeout` no limit?"])
def test_capitalized_word_names_the_class_in_code(space, prompt):
    assert places(space, prompt)[0] == "src/acme/options.py:1"


def test_capitalized_word_without_a_class_names_no_place(space):
    assert places(space, "write about the Upload of files on a Monday") == []
    assert places(space, "Timeout of the connection") == []
    assert places(space, "who painted the Night Timeout?") == []


def test_qualified_name_is_found_among_many_of_its_last_part(space):
    assert places(space, "Runner::total returns nothing")[0] == "src/runner.rs:2"


def test_name_that_many_files_define_names_no_place(space):
    assert not any(place.startswith("src/acme/part") for place in places(space, "rename total() everywhere"))


def test_bare_name_means_code_before_examples(space):
    assert places(space, "simplify orders.py") == ["src/acme/orders.py"]


def test_bare_name_means_the_file_that_has_the_line(space):
    assert places(space, "client.py:5 crashes") == ["src/acme/client.py:5"]
    assert places(space, "simplify client.py") == ["src/acme/client.py", "src/acme/json/client.py"]


def test_longer_end_of_a_path_names_one_of_many_files(space):
    assert places(space, "simplify part1/part.py") == ["src/acme/part1/part.py"]


def test_very_long_number_is_no_line(space):
    assert places(space, f"why does it fail in orders.py:{'1' * 5_000}") == ["src/acme/orders.py"]


def test_unknown_and_generated_names_are_no_places(space):
    assert places(space, "simplify missing.py, e.g. node.js or 1.2.x") == []


def test_failed_frame_of_python_comes_first(space):
    prompt = """why?
Traceback (most recent call last):
  File "/home/ada/acme/src/acme/client.py", line 6, in run
    Uploader().retry_upload(file, 3)
  File "/home/ada/acme/src/acme/upload.py", line 13, in retry_upload
    self.send(file)
  File "/usr/lib/python3.11/json/client.py", line 1, in decode
    raise ValueError
ValueError: total of orders
"""
    assert places(space, prompt) == ["src/acme/upload.py:13", "src/acme/client.py:6"]


def test_frame_of_another_version_is_shown_at_its_function(space):
    prompt = 'File "/venv/lib/python3.11/site-packages/acme/upload.py", line 4, in retry_upload\nTypeError: no'
    assert places(space, prompt) == ["src/acme/upload.py:10"]


def test_frames_of_pytest_are_places(space):
    prompt = (
        "tests/test_upload.py:6: \n_ _ _\nsrc/acme/upload.py:13: in retry_upload\n    self.send(file)\nE  TypeError"
    )
    assert places(space, prompt) == ["src/acme/upload.py:13", "tests/test_upload.py:6"]


def test_first_frame_of_other_languages_comes_first(space):
    prompt = """panic: no port
goroutine 1 [running]:
main.Listen(0x0)
\t/go/src/acme/server/listen.go:5 +0x4c5
main.main()
\t/go/src/acme/server/listen.go:11 +0x1d
net/http.serve()
\t/usr/local/go/src/net/http/upload.go:2 +0x5d0
"""
    assert places(space, prompt) == ["server/listen.go:5", "server/listen.go:11"]


def test_frame_of_a_downloaded_package_is_a_file_at_the_top(space):
    prompt = "panic: no\n\t/go/pkg/mod/example.org/acme@v1.8.0/root.go:4 +0x1\n\t/go/pkg/mod/other/root.go:4 +0x1\n"
    assert places(space, prompt) == ["root.go:4"]


def test_decision_that_cites_a_named_line_comes_first(folder):
    with open_space(f"sqlite:{folder.parent}/decided.db") as space:
        space.ingest("repo", input={"path": str(folder)})
        space.asked_from(folder).decide("Send each file again three times.", because="src/acme/upload.py:10-13")
        decision, place = pointers(space, "look at src/acme/upload.py:12, why is there a loop?")
    assert decision.text.startswith(
        "Decision: Send each file again three times (src/acme/upload.py:10-13; by an agent)"
    )
    assert place.text.startswith("src/acme/upload.py:12")


def test_line_without_words_is_shown_by_its_definition(space):
    (place,) = pointers(space, "listen.go:6 looks odd")
    assert place.text == "server/listen.go:6 – func Listen(port int) error {"


def test_frame_at_the_end_of_a_long_output_is_read(space):
    prompt = "why?\n" + "ok\n" * 2_000 + "src/acme/upload.py:13: TypeError"
    assert places(space, prompt) == ["src/acme/upload.py:13"]


def test_paths_in_the_work_tree_are_relative_to_its_top(space, folder):
    asked = space.asked_from(folder)
    assert places(asked, f"simplify {folder}/src/acme/orders.py") == ["src/acme/orders.py"]

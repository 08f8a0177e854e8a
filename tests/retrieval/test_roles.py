import pytest

from treering.retrieval.index.code_places import role_of, role_of_file, shorten_comments
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


@pytest.mark.parametrize(
    ("path", "form", "role"),
    [
        ("src/app/server.py", "symbol", "code"),
        ("sphinx/locale/__init__.py", "code", "code"),
        ("app/templates/page.html", "prose", "code"),
        ("tests/test_server.py", "symbol", "test"),
        ("testing/code/helpers.py", "code", "test"),
        ("test/README.asciidoc", "prose", "documentation"),
        ("tests/fixtures/README.md", "prose", "test"),
        ("sphinx/testing/util.py", "symbol", "code"),
        ("src/server.test.ts", "code", "test"),
        ("pkg/server_test.go", "code", "test"),
        ("spec/server_spec.rb", "code", "test"),
        ("spec/overview.md", "prose", "documentation"),
        ("src/test/java/AppTest.java", "symbol", "test"),
        ("examples/hello.py", "code", "example"),
        ("docs/guide.md", "prose", "documentation"),
        ("docs/conf.py", "code", "documentation"),
        ("src/main/java/org/samples/Owner.java", "code", "code"),
        ("app/src/main/kotlin/org/test/docs/Owner.kt", "code", "code"),
        ("samples/app/src/main/java/org/Owner.java", "code", "example"),
        ("src/test/java/org/samples/Owner.java", "code", "test"),
        ("README.rst", "prose", "documentation"),
        ("CHANGELOG.md", "prose", "changelog"),
        ("doc/en/announce/release-5.1.0.rst", "prose", "changelog"),
        ("changes/fix.added.md", "prose", "changelog"),
        ("src/changes/apply.py", "code", "code"),
        ("sphinx/locale/de/messages.po", "data", "generated"),
        ("README.zh-CN.md", "prose", "generated"),
        ("docs/ja/index.md", "prose", "generated"),
        ("guide.ja.asciidoc", "prose", "generated"),
        ("pyproject.toml", "data", "data"),
    ],
)
def test_the_role_of_a_file_is_reported_by_its_path_and_form(path, form, role):
    assert role_of_file(path, form) == role


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"kind": "web", "origin": "repo:x#site/index.html", "title": "Acme"}, "documentation"),
        ({"kind": "web", "origin": "repo:x#site/Queue.html", "title": "Queue (Acme 1.9.0 API)"}, "generated"),
        ({"kind": "web", "origin": "repo:x#tests/page.html", "title": "Acme"}, "test"),
        ({"kind": "web", "origin": "https://acme.dev/guide#start", "title": "Guide"}, "prose"),
        ({"kind": "markdown", "origin": "repo:x#docs/Queue.md", "text": "Defined in: [src/q.ts:13](x)"}, "generated"),
        (
            {"kind": "markdown", "origin": "repo:x#docs/queue.md", "text": "Queues are defined in: files."},
            "documentation",
        ),
    ],
)
def test_pages_of_a_project_are_files_and_api_pages_generated(item, role):
    text = item.pop("text", "Words.")
    assert role_of(Builder(SteppingClock()).source(text, **item)) == role


def test_what_was_generated_or_copied_is_generated_whatever_it_is_called():
    assert role_of_file("src/parser.py", "code", foreign=True) == "generated"


def test_a_long_comment_is_shortened_and_code_is_not():
    docstring = ['    """Say what it does.', "", *["    More."] * 6, '    """']
    code = ["def run(self):", *docstring, "    return self.value"]
    assert shorten_comments("\n".join(code), "py").split("\n") == [*code[:3], "    … 7 more lines", code[-1]]
    block = ["/*", *[" * More."] * 6, " */", "*place = 1;"]
    assert shorten_comments("\n".join(block), "c").split("\n") == ["/*", " * More.", "… 6 more lines", "*place = 1;"]
    lines = [*["/// More."] * 7, "#[test]", "fn run() {}"]
    assert shorten_comments("\n".join(lines), "rs").split("\n") == [*lines[:2], "… 5 more lines", *lines[-2:]]


def test_what_cannot_be_told_from_code_stays_as_it_is():
    inside = ["the end of a docstring", '"""', *[f"x = {at}" for at in range(9)], "def run():", '    """Short."""']
    text = ['QUERY = """', *["select 1"] * 9, '"""']
    short = ["# one", "# two", "x = 1"]
    for lines in (inside, text, short):
        assert shorten_comments("\n".join(lines), "py") == "\n".join(lines)
    unfinished = ["/*", *["* more"] * 9]
    assert shorten_comments("\n".join(unfinished), "java") == "\n".join(unfinished)

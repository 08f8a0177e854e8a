"""Definitions that a task names, in context packs."""

import pytest

from treering.retrieval.search.excerpts import is_stub, lines_of_body
from treering.retrieval.search.symbols import symbols_in

OVERLOAD = "@t.overload\ndef ask(text: str) -> str: ..."
STEPS = "\n".join(f"    answer = step_{at}(text, answer)  # in turn {at} of many" for at in range(70))
CODE = f'''\
import typing as t


{OVERLOAD}


@t.overload
def ask(text: str, kind: int) -> int: ...


def ask(text, kind=str):
    """Ask for a value."""
    answer = ""
{STEPS}
    return kind(answer)


class Asker:
    def validate(self, ask, callback):
        """Validate an ask with a callback, which accepts an ask and a validation callback."""
        return callback(ask)
'''
TEST = "from src.term import ask\n\n\ndef test_ask_validates():\n    assert ask('n') == 'n'\n"


@pytest.fixture
def project(space, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "term.py").write_text(CODE)
    (tmp_path / "tests" / "test_term.py").write_text(TEST)
    for name in ("queue", "client", "server"):
        text = f"def accept_{name}(callback):\n    return validation(callback, '{name}')  # accept a validation\n"
        (tmp_path / "src" / f"{name}.py").write_text(text)
    space.ingest("path", input={"path": str(tmp_path)})
    return space


def items(space, task, **options):
    return space.query("context", input={"task": task}, options={"semantic": False, **options}).pack.items


def test_named_definition_comes_first_and_whole(project):
    first, *others = items(project, "let ask() accept a validation callback")
    assert "def ask(text, kind=str):" in first.text
    assert (
        "def test_ask_validates"
        in next(one for one in others if "def ask(" not in one.text and "step_" not in one.text).text
    )
    shown = "".join(one.text for one in (first, *others))
    assert all(f"step_{at}(" in shown for at in range(70))


def test_overloads_are_omitted_of_packs(project):
    assert not any("overload" in item.text for item in items(project, "let ask() accept a validation callback"))


def test_long_definition_is_cut_around_lines_that_answer(project):
    texts = [item.text for item in items(project, "ask() calls step_66 too late", max_tokens=900)]
    assert "step_66" in "".join(texts[:2])
    assert not any("step_30(" in text for text in texts)


@pytest.mark.parametrize("text", ["what does Asker.validate do", "where is asker.validate() implemented?"])
def test_search_shows_named_definition_first(project, tmp_path, text):
    guide = "# Guide\n\nWhere `Asker.validate` is implemented: `asker.validate()` calls what asker got.\n"
    (tmp_path / "docs.md").write_text(guide)
    project.ingest("path", input={"path": str(tmp_path)})
    hits = project.query("search", input={"text": text}, options={"semantic": False}).hits
    assert "def validate(" in hits[0].text


@pytest.mark.parametrize(
    ("task", "symbols"),
    [
        ("let prompt() accept a callback", ("prompt",)),
        ("Fix Context.exit and `retry`, not retry_limit.", ("Context.exit", "retry", "retry_limit")),
        ("perf(router): retry jobs (see below)", ()),
        ("Retry jobs and/or stop", ()),
        ("use crate::core::Reader", ("crate.core.Reader",)),
    ],
)
def test_symbols_are_names_written_as_code(task, symbols):
    assert symbols_in(task) == symbols


@pytest.mark.parametrize(
    ("code", "stub"),
    [
        (OVERLOAD, True),
        ("@abstractmethod\ndef f(self):\n    ...", True),
        ("def f(x=...):\n    return x", False),
        ("class P(Protocol):\n    def f(self): ...", False),
        ("def f(): ...\n\ndef g():\n    return 1", False),
    ],
)
def test_stub_has_no_body(code, stub):
    assert is_stub(code) == stub


@pytest.mark.parametrize(
    ("excerpt", "lines"),
    [
        ('def f(\n    a,\n):\n    """Do it.\n… 52 more lines', 0),
        ("def f(a):\n… lines 2-4\n    return a", 1),
        ("export function f(a: string) {\n… lines 2-9\n}", 0),
        ("    x = 1\n    y = 2", 2),
    ],
)
def test_body_of_excerpt_is_counted_without_signature(excerpt, lines):
    assert lines_of_body(excerpt) == lines

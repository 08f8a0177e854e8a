"""Two people replace the same statement before they sync."""

from pathlib import Path

import pytest

import treering


def _replaced_in_both(tmp_path: Path, record: str, texts: tuple[str, str, str]) -> list[treering.Space]:
    remote = tmp_path / "remote"
    remote.mkdir()
    first, second, third = texts
    ada, bob = (treering.open(tmp_path / f"{name}.db", channel="user", background=False) for name in ("ada", "bob"))
    getattr(ada, record)(first)
    for space in (ada, bob):
        space.sync(str(remote))
    ada.replace(first, second)
    bob.replace(first, third)
    for space in (ada, bob, ada):
        space.sync(str(remote))
    return [ada, bob]


def test_decision_replaced_differently_in_two_copies_is_contested_in_both(tmp_path: Path) -> None:
    texts = ("Locks are thread local", "Locks are thread local until 10.0", "Locks are shared from 9.0 on")
    for space in _replaced_in_both(tmp_path, "decide", texts):
        with space:
            (finding,) = space.lint().findings
            assert finding.explanation.startswith("These contradict each other")
            assert all(f"'{text}'" in finding.explanation for text in texts[1:])
            assert "Contested" in str(space.brief())


@pytest.mark.parametrize("record", ["rule", "prefer"])
def test_lint_reports_rules_that_replaced_the_same_one(tmp_path: Path, record: str) -> None:
    texts = ("Indent with tabs", "Indent with two spaces", "Indent with four spaces")
    for space in _replaced_in_both(tmp_path, record, texts):
        with space:
            (finding,) = space.lint().findings
            assert all(text in finding.explanation for text in texts)

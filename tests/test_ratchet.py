"""The ratchet of phrases: which texts are counted, and that a rise fails."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import ratchet  # noqa: E402 - programs of this folder are no package

MODULE = '''\
"""Tell whether a file is there."""

told = 1  # kept for later


def check() -> None:
    """Return the path."""
    raise ValueError("The file differs.")
'''


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src/core").mkdir(parents=True)
    (tmp_path / "src/core/check.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/page.md").write_text("It stands here. `what is code`\n\n```sh\nkept\n```\n", encoding="utf-8")
    (tmp_path / "tools").mkdir()
    return tmp_path


def totals(tree):
    return Counter(match.area for match in ratchet.matches(tree))


def run(tree, monkeypatch, *arguments):
    monkeypatch.setattr(ratchet, "ROOT", tree)
    monkeypatch.setattr(sys, "argv", ["ratchet.py", *arguments])
    ratchet.main()


def baseline(tree):
    return json.loads((tree / ratchet.BASELINE).read_text(encoding="utf-8"))


def test_ratchet_counts_messages_docstrings_names_and_prose(tree):
    (tree / "src/core/refuse.py").write_text('raise ValueError("The file says otherwise.")\n', encoding="utf-8")

    assert totals(tree) == {"docs": 1, "docstrings": 2, "messages": 1, "names": 1}


def test_ratchet_counts_every_string_of_a_surface(tree):
    (tree / "src/surfaces").mkdir()
    (tree / "src/surfaces/page.py").write_text('LINE = "Nobody keeps it."\n', encoding="utf-8")

    assert totals(tree)["messages"] == 2


def test_ratchet_ignores_code_in_messages(tree):
    (tree / "src/surfaces").mkdir()
    code = 'import re\nKEEP = "keep"\nMARK = re.compile("a kept mark")\nHELP = "treering session keep --now"\n'
    (tree / "src/surfaces/page.py").write_text(code, encoding="utf-8")

    assert totals(tree)["messages"] == 0


def test_ratchet_ignores_listed_constants_in_messages(tree):
    (tree / "src/extensions/trial").mkdir(parents=True)
    (tree / "src/extensions/trial/steps.py").write_text('_WITHOUT_WORDS = "what is this about"\n', encoding="utf-8")

    assert totals(tree)["messages"] == 0


def test_ratchet_ignores_questions_and_releases(tree):
    (tree / "docs/releases").mkdir()
    (tree / "docs/releases/1.0.0.md").write_text("It was kept.\n", encoding="utf-8")
    (tree / "docs/faq.md").write_text("## Do you know what it costs?\n", encoding="utf-8")

    assert totals(tree)["docs"] == 1


def test_ratchet_counts_decimal_constants_in_retrieval(tree):
    (tree / "src/treering/retrieval").mkdir(parents=True)
    code = "MAX_NAMES = 16\n_SHARE = 0.5\nWEIGHTS = {'words': 1.5}\nHALF = TUNING.files.fading\n"
    (tree / "src/treering/retrieval/rank.py").write_text(code, encoding="utf-8")

    assert totals(tree)["numbers"] == 2


def test_ratchet_fails_when_a_count_rises(tree, monkeypatch):
    run(tree, monkeypatch, "--update")
    (tree / "docs/more.md").write_text("Somebody wrote it.\n", encoding="utf-8")

    with pytest.raises(SystemExit, match="docs: 2 matches, 1 allowed"):
        run(tree, monkeypatch, "--update")
    assert baseline(tree)["docs"] == 1


def test_ratchet_fails_on_any_message(tree, monkeypatch):
    run(tree, monkeypatch, "--update")
    (tree / "src/core/refuse.py").write_text('raise ValueError("Nobody wrote it.")\n', encoding="utf-8")
    (tree / ratchet.BASELINE).unlink()

    with pytest.raises(SystemExit, match="messages: 1 matches, 0 allowed"):
        run(tree, monkeypatch, "--update")


def test_ratchet_update_lowers_the_baseline(tree, monkeypatch):
    run(tree, monkeypatch, "--update")
    (tree / "docs/page.md").write_text("It is here.\n", encoding="utf-8")
    run(tree, monkeypatch, "--update")

    assert baseline(tree)["docs"] == 0

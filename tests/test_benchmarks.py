"""What benchmarks read, what they keep of a run, and how another run is compared with it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import agent_packs, agent_page, page, peers, scale, scale_page
from benchmarks.agent_cards import LABELS, score
from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.conversations import recalls
from benchmarks.data import beam, load
from benchmarks.figures import Figure, Missing, as_data, at_least
from benchmarks.files import entered
from benchmarks.labelled_space import LabelledSpace
from benchmarks.paired import Recall, compared, keep, kept
from benchmarks.plan import Plan
from benchmarks.precision import Case, CaseAnswer, believed_space

from treering.core.scope import is_within, parse_scope


def _recall(*found: float, name: str = "set", cutoffs: tuple[int, ...] = (5,)) -> Recall:
    rows = np.repeat(np.array(found, np.float64)[:, None], len(cutoffs), axis=1)
    return Recall(name, cutoffs, rows, tuple(f"q{n}" for n in range(len(found))))


def test_what_a_run_keeps_is_read_as_it_was(tmp_path: Path) -> None:
    recall = _recall(100, 0, 100 / 3)
    keep(tmp_path / "run.json", {"default": recall})
    again = kept(tmp_path / "run.json", "set")["default"]
    assert (again.name, again.cutoffs, again.questions) == (recall.name, recall.cutoffs, recall.questions)
    assert np.array_equal(again.found, recall.found)


def test_a_run_of_one_set_leaves_the_others_in_the_file(tmp_path: Path) -> None:
    keep(tmp_path / "run.json", {"default": _recall(100, name="one")})
    keep(tmp_path / "run.json", {"default": _recall(0, name="other")})
    assert kept(tmp_path / "run.json", "one")["default"].found.tolist() == [[100]]
    assert kept(tmp_path / "run.json", "other")["default"].found.tolist() == [[0]]


def test_a_gain_is_taken_question_by_question_whatever_the_order_of_the_questions() -> None:
    before = Recall("set", (5,), np.array([[0.0], [100.0]]), ("easy later", "hard"))
    after = Recall("set", (5,), np.array([[100.0], [0.0]]), ("hard", "easy later"))
    (gain,) = after.gain_over(before).values()
    assert (gain.mean, gain.low, gain.high) == (0, 0, 0)


def test_runs_are_compared_at_the_questions_and_cut_offs_that_both_have() -> None:
    gains = _recall(100, 100, cutoffs=(5, 10)).gain_over(_recall(0, 100, 0, cutoffs=(10, 20)))
    assert {cutoff: gain.mean for cutoff, gain in gains.items()} == {10: 50}


def test_runs_without_a_common_question_are_not_compared() -> None:
    other = Recall("set", (5,), np.array([[0.0]]), ("another question",))
    with pytest.raises(ValueError, match="no question"):
        _recall(100).gain_over(other)


@pytest.mark.parametrize(("after", "verdict"), [(100, "better"), (0, "worse"), (50, "within noise")])
def test_a_comparison_says_whether_the_difference_is_more_than_noise(
    tmp_path: Path, after: float, verdict: str
) -> None:
    keep(tmp_path / "run.json", {"default": _recall(50, 50)})
    (row,) = compared({"default": _recall(after, after)}, tmp_path / "run.json")
    assert isinstance(row, Figure)
    assert row.value == after - 50
    assert row.note.endswith(f"paired: {verdict}")


def test_a_configuration_that_the_file_does_not_have_is_named(tmp_path: Path) -> None:
    keep(tmp_path / "run.json", {"default": _recall(50)})
    (row,) = compared({"rerank": _recall(50)}, tmp_path / "run.json")
    assert isinstance(row, Missing)
    assert "rerank" in row.name


def _chat(folder: Path) -> None:
    """Write a chat as BEAM has them, with a question of each form of sources and one that cannot be answered."""
    first = {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I plan a trip. ->-> 1,1"}
    second = {"role": "assistant", "id": 1, "content": "Where to?"}
    chat = [{"batch_number": 1, "turns": [[first, second]]}]
    asked = {
        "abstention": [{"question": "What is my shoe size?"}],
        "information_extraction": [{"question": "What do I plan?", "source_chat_ids": [0]}],
        "contradiction_resolution": [{"question": "Do I plan it?", "source_chat_ids": {"one": [0], "other": [1]}}],
    }
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(chat))
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))


def test_a_chat_of_beam_is_read_with_its_answerable_questions(tmp_path: Path) -> None:
    _chat(tmp_path / "100K" / "1")
    read = beam(tmp_path / "100K")
    assert read.name == "beam-100k"
    (chat,) = read.collections
    assert [passage.text for passage in chat.passages] == ["I plan a trip.", "Where to?"]
    assert {passage.said_at.isoformat() for passage in chat.passages if passage.said_at} == {
        "2024-03-15T00:00:00+00:00"
    }
    assert {question.text: question.gold for question in chat.questions} == {
        "What do I plan?": {"1/0"},
        "Do I plan it?": {"1/0", "1/1"},
    }


def test_a_chat_of_beam_that_was_cut_to_size_is_read_as_it_was_cut(tmp_path: Path) -> None:
    _chat(tmp_path / "100K" / "1")
    cut = [{"batch_number": 1, "turns": [[{"role": "user", "id": 0, "content": "I plan a trip."}]]}]
    (tmp_path / "100K" / "1" / "chat_trunecated.json").write_text(json.dumps(cut))
    (chat,) = beam(tmp_path / "100K").collections
    assert [passage.id for passage in chat.passages] == ["1/0"]


def _histories(folder: Path) -> None:
    """Write two turns that differ by their days alone, and a question about the days before it was asked."""
    turn = {"role": "user", "text": "I met a friend at the market.", "session_id": None}
    turns = [turn | {"id": f"t{day}", "date": f"2023/05/{day} (Fri) 10:00"} for day in ("05", "12", "26")]
    asked = {"id": "q", "type": "temporal-reasoning", "text": "Who did I meet at the market last week?"}
    questions = [asked | {"date": "2023/05/16 (Tue) 10:00", "gold": ["t12"]}]
    (folder / "longmemeval_pooled").mkdir()
    for name, rows in (("corpus", turns), ("queries", questions)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "longmemeval_pooled" / f"{name}.jsonl").write_text(lines)


def test_a_question_of_a_set_is_asked_at_the_time_it_was_asked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _histories(tmp_path)
    monkeypatch.setenv("TREERING_BENCH_DATA", str(tmp_path))
    (collection,) = load("longmemeval").collections
    held = LabelledSpace.of(collection, CachedEmbedder(tmp_path / "vectors.db"))
    assert held.search(semantic=False)(collection.questions[0].text, 1) == ["t12"]


def test_recall_through_discussions_is_measured_beside_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _histories(tmp_path)
    monkeypatch.setenv("TREERING_BENCH_DATA", str(tmp_path))
    rows = {row.name: row for row in recalls(Plan(quick=True, cache=tmp_path))}
    assert {"longmemeval R@5, through discussion memory", "longmemeval R@5, words only"} <= rows.keys()


def test_every_benchmark_is_one_that_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.__main__ import BENCHMARKS, main

    with pytest.raises(SystemExit):
        main(["--help"])
    assert set(BENCHMARKS) <= set(capsys.readouterr().out.replace(",", " ").split())


def test_the_files_that_a_call_enters_are_named_with_their_functions() -> None:
    assert entered(lambda: is_within(parse_scope("/a/b"), "/a")) == {"core/scope.py": {"is_within", "parse_scope"}}


def test_the_cost_is_told_beside_other_systems_and_those_that_are_not_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _paragraphs(tmp_path / "hotpotqa")
    monkeypatch.setenv("TREERING_BENCH_DATA", str(tmp_path))
    monkeypatch.delenv("TREERING_BENCH_PEERS", raising=False)
    rows = peers.measure(Plan(quick=True, cache=tmp_path, sizes=(8,)))
    measured = {row.name: row for row in rows if isinstance(row, Figure)}
    assert measured["8: recall at 5, Treering"].value == 100
    assert measured["8: recall at 5, FTS5 + numpy"].value == 100
    assert measured["8: adds, FTS5 + numpy"].note.endswith("× ours")
    assert measured["8: a question, Treering"].target is not None
    missing = {row.name: row.why for row in rows if isinstance(row, Missing)}
    assert set(missing) == {"8: LanceDB", "8: txtai", "8: mem0, raw"}
    assert "TREERING_BENCH_PEERS" in missing["8: LanceDB"]


def _paragraphs(folder: Path) -> None:
    """Write a set as that of HotpotQA, smaller than what is asked for."""
    things = ("bees", "ants", "harbour bridge", "printing press")
    told = [{"title": thing.title(), "text": f"The {thing} of Ennis. They are old."} for thing in things]
    asked = [{"id": thing, "question": f"Where are the {thing}?", "gold_titles": [thing.title()]} for thing in things]
    folder.mkdir()
    for name, rows in (("corpus", told), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_page_of_benchmarks_shows_what_was_kept_question_by_question() -> None:
    assert page.FOLDER.joinpath("index.md").read_text(encoding="utf-8") == page.page()


@pytest.mark.parametrize("file", ["README.md"])
def test_figures_of_recall_elsewhere_are_those_that_were_kept(file: str) -> None:
    kept_ones = page.read()
    named = {"MuSiQue": "musique", "HotpotQA": "hotpotqa", "LoCoMo": "locomo", "LongMemEval": "longmemeval"}
    text = (page.ROOT / file).read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\w+)[^|]*R@(\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|.*?([\d.]+)\D*?(?: with)? \|$", text, re.MULTILINE
    )

    assert {name for name, *_ in rows} == set(named)
    for name, cutoff, *told in rows:
        ours = ("musique-triples" if file != "README.md" and name == "MuSiQue" else named[name]), int(cutoff)
        ways = kept_ones[named[name], int(cutoff)]
        shown = [*(ways[way] for way in (page.BM25, page.VECTORS, page.BY_RANK)), kept_ones[ours][page.OURS]]
        assert told == [f"{column.mean():.1f}" for column in shown]


def test_cases_of_precision_tell_noise_and_what_was_superseded_before_what_holds(tmp_path: Path) -> None:
    beliefs = [
        {"name": "old", "scope": "/", "title": "Database", "text": "Orders are kept in MySQL.", "by": "new"},
        {"name": "new", "scope": "/", "title": "Database", "text": "Orders are kept in PostgreSQL."},
    ]
    case = Case("superseded", "/", "Are orders kept in MySQL?", frozenset({"new"}))
    with believed_space(beliefs, CachedEmbedder(tmp_path / "vectors.db")) as held:
        answer = held.answer(case, semantic=False)
        assert set(answer.found) <= {"old", "new"}
        assert answer.recall(case) == 1
        assert [held.is_misled(shown) for shown in (["old", "new"], ["old"], ["new", "old"], ["new"])] == [
            True,
            True,
            False,
            False,
        ]
    assert CaseAnswer(["new", "noise"], []).precision(case) == 0.5
    assert CaseAnswer([], []).precision(case) == 0


def test_cards_are_scored_against_the_hand_written_card() -> None:
    label = LABELS["spf13/cobra"]
    card = {
        "name": "cobra",
        "version": "1.0",
        "purpose": "A library for CLI applications",
        "languages": ["Go"],
        "commands": [{"job": "test", "run": "make test", "path": "Makefile"}, {"job": "lint", "run": "x", "path": "y"}],
        "folders": [{"path": "./", "children": [], "more": 0}],
    }
    scored = score(card, label)
    assert scored.shown == ["name cobra", "purpose CLI|command", "language Go", "test make test", "folder ./"]
    assert scored.lacking == ["lint make lint", "build go build ./...", "folder doc/", "tests **/*_test.go"]
    assert (scored.wrong, scored.empty_lines) == (["version 1.0", "lint x"], [])


def test_agents_page_separates_tuned_repositories_from_others() -> None:
    figures = [
        *_prompt_figures("celery/celery", shown=80, right=70),
        *_prompt_figures("a/b", shown=60, right=50),
        *_prompt_figures("c/d", shown=40, right=100),
    ]
    text = agent_page.page_with(f"# Title\n{agent_page.BEGINS}old{agent_page.ENDS}\nrest", figures, "abc")
    assert "| prompt, tasks with pointers | ≥ 60 % | 80 % | 50 % |" in text
    assert "| a/b |  | 60 |  | 50 | 1 | 2 |" in text
    assert text.startswith("# Title")
    assert text.endswith("\nrest")
    assert "old" not in text


def _prompt_figures(repository: str, *, shown: float, right: float) -> list[dict[str, object]]:
    figures = [
        Figure(f"{repository}: prompt, tasks with pointers", shown, "%", at_least(60)),
        Figure(f"{repository}: prompt, a changed file in the first 3", right, "%"),
        Figure(f"{repository}: pack, a changed file in the first 3 items", 1, "%", at_least(2)),
    ]
    return [as_data(one) for one in figures]


def test_decisions_share_files_that_few_decisions_rest_on() -> None:
    decisions = {f"know:{n}": {f"src/{n}.py", "CHANGES"} for n in range(20)}
    judged = agent_packs._judged({"know:1", "know:2"}, frozenset({"src/1.py", "src/3.py", "CHANGES"}), decisions)
    assert (judged.right, judged.wrong, judged.relevant) == (1, 0, 2)
    assert agent_packs._judged({"know:2"}, frozenset({"src/1.py"}), decisions).wrong == 1


@pytest.mark.parametrize(
    "subject", ["4.12.29", "release version 3.1.1", "Bump moto", "[pre-commit.ci] autoupdate (#2)"]
)
def test_releases_and_updates_decide_nothing(subject: str) -> None:
    assert agent_packs._DECIDES_NOTHING.search(subject)
    assert not agent_packs._DECIDES_NOTHING.search(f"Keep the old file after {subject} is read")


def test_page_of_costs_by_size_has_the_measured_figures() -> None:
    text = scale_page.PAGE.read_text(encoding="utf-8")
    assert scale_page.page_with(text, json.loads(scale.FILE.read_text(encoding="utf-8"))) == text

import pytest

from treering.ports.passages import PassageHead
from treering.retrieval.index.code_places import role_weights
from treering.retrieval.search.commit_history import CommitHistory, against_the_first, companions_of
from treering.retrieval.search.fusion import (
    PLACES,
    ArmScore,
    FileEvidence,
    Fused,
    path_of,
    places_named,
    rank_in_files,
)


def head(key, path, role="code"):
    return PassageHead(
        key, f"src:{path}", f"seg_{key}", "source", "file", "/", "code", path, "", f"repo:x#{path}", role
    )


def ranked(*scores, heads, question="how are uploads retried", words=None, parts=None, commits=None):
    hits = [Fused(key, score, (parts or {}).get(key, {})) for key, score in enumerate(scores)]
    words = words if words is not None else dict(enumerate(scores))
    return rank_in_files(hits, heads, FileEvidence(words, commits or {}, role_weights(question)), question)


def test_passages_of_one_file_support_each_other():
    heads = {
        0: head(0, "src/alone.py"),
        1: head(1, "src/upload.py"),
        2: head(2, "src/upload.py"),
        3: head(3, "src/upload.py"),
    }
    assert heads[ranked(0.8, 0.75, 0.7, 0.6, heads=heads)[0].key].title == "src/upload.py"


def test_turns_of_one_conversation_do_not_support_each_other():
    heads = {
        key: PassageHead(key, "src:talk", f"seg_{key}", "source", "conversation", "/", "prose", "", "", "")
        for key in (1, 2)
    }
    heads[0] = head(0, "src/upload.py")
    assert ranked(0.8, 0.75, 0.7, heads=heads)[0].key == 0


def test_code_comes_before_its_tests_and_the_factor_is_told():
    heads = {0: head(0, "tests/test_upload.py", "test"), 1: head(1, "src/upload.py")}
    first, second = ranked(0.8, 0.7, heads=heads)
    assert (first.key, second.key) == (1, 0)
    assert second.parts["role"].raw == 0.5
    assert "role" not in first.parts


def test_tests_that_are_asked_for_come_first_where_they_say_more():
    heads = {0: head(0, "tests/test_upload.py", "test"), 1: head(1, "src/upload.py")}
    assert ranked(0.8, 0.7, heads=heads, question="which tests cover uploads")[0].key == 0


def test_what_is_called_by_its_path_is_not_weighed_down():
    heads = {0: head(0, "tests/test_upload.py", "test"), 1: head(1, "src/upload.py")}
    called = {0: {PLACES: ArmScore(1, 1.0, 1.0)}}
    assert ranked(0.8, 0.7, heads=heads, parts=called)[0].key == 0


def test_a_file_named_in_a_traceback_rises():
    heads = {0: head(0, "src/_pytest/main.py"), 1: head(1, "src/_pytest/runner.py")}
    trace = 'Hangs\n  File "/usr/lib/site-packages/_pytest/runner.py", line 12, in call'
    assert ranked(0.8, 0.75, heads=heads)[0].key == 0
    assert ranked(0.8, 0.75, heads=heads, question=trace)[0].key == 1


def test_dotted_names_are_places():
    heads = {0: head(0, "app/store/files.py"), 1: head(1, "app/upload/__init__.py")}
    assert ranked(0.8, 0.75, heads=heads, question="app.upload.retry raises")[0].key == 1
    assert ("app", "upload", "retry") in places_named("app.upload.retry raises")


def test_scores_stay_between_nothing_and_one():
    heads = {key: head(key, f"src/{key}.py") for key in range(3)}
    scores = [hit.score for hit in ranked(1.0, 0.5, 0.0, heads=heads, question="src/0.py")]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1


def test_the_path_of_a_passage_is_that_in_its_project():
    assert path_of(head(0, "src/a.py")) == "src/a.py"


def test_a_file_that_commits_say_alike_of_rises_and_the_part_is_told():
    heads = {0: head(0, "src/main.py"), 1: head(1, "src/runner.py")}
    first, second = ranked(0.8, 0.75, heads=heads, commits={"repo:x#src/runner.py": 0.5})
    assert (first.key, first.parts["commits"].raw) == (1, 0.5)
    assert "commits" not in second.parts


def test_commits_count_by_how_rare_their_words_are_and_are_shared_out_among_their_files():
    told = {
        "paths": ["a.py", "b.py", "c.py"],
        "commits": [["Fix the carousel", 0], ["Fix the build", 1], ["Fix the carousel", 1, 2], ["Fix it", 2]],
    }
    history = CommitHistory.of("repo:x#", {"commit_subjects": told})
    scores = history.files(["carousel"])
    assert scores["repo:x#b.py"] == scores["repo:x#c.py"] < scores["repo:x#a.py"]
    assert max(history.files(["fix"]).values()) < scores["repo:x#a.py"]


def test_a_file_that_very_many_commits_touched_leaves_others_their_part():
    shares = against_the_first({"app.py": 10.0, "a.py": 2.0, "b.py": 1.0, "c.py": 1.0, "d.py": 1.0, "e.py": 0.5})
    assert shares["app.py"] == 1.0
    assert shares["a.py"] == pytest.approx(2 / 3)
    assert 0 < shares["e.py"] < shares["d.py"] == shares["b.py"] < shares["a.py"]
    assert against_the_first({}) == {}


def test_a_map_that_tells_of_no_commits_scores_no_files():
    assert CommitHistory.of("repo:x#", {}).files(["carousel"]) == {}


def test_what_is_no_code_and_changed_with_files_of_code_is_told_of_most_often_first():
    paths = ["CHANGES.md", "a.py", "b.py", "docs/a.md", "notes.md"]
    pairs = [[0, 1, 2, "2026-01-01"], [0, 2, 3, "2026-01-01"], [1, 2, 9, "2026-01-01"], [1, 3, 7, "2026-01-01"]]
    payload = {"changed_together": {"paths": paths, "pairs": [*pairs, [1, 4, 2, "2026-01-01"]]}}
    history = CommitHistory.of("repo:x#", payload)
    assert companions_of(["repo:x#a.py", "repo:x#b.py"], [history]) == [("docs/a.md", 7), ("CHANGES.md", 5)]
    assert companions_of(["repo:x#b.py"], [history]) == [("CHANGES.md", 3)]
    assert companions_of(["repo:y#a.py"], [history]) == []

import pytest

from treering.ports.passages import PassageHead
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.search.commit_history import CommitHistory, against_the_first, companions_of
from treering.retrieval.search.file_ranking import called_share, path_of, rank_in_files
from treering.retrieval.search.fusion import Fused
from treering.retrieval.text.analysis import query_words
from treering.retrieval.tuning import TUNING


def head(key, path, role="code", heading=""):
    return PassageHead(
        key,
        f"src:{path}",
        f"seg_{key}",
        "source",
        "file",
        "/",
        "prose" if role == "documentation" else "code",
        path,
        heading,
        f"repo:x#{path}",
        role,
    )


def ranked(*scores, heads, question="how are uploads retried", words=None, commits=None):
    hits = [Fused(key, score, {}) for key, score in enumerate(scores)]
    words = words if words is not None else dict(enumerate(scores))
    return rank_in_files(hits, heads, query_words(question), own_scores=words, commits=commits or {})


def test_passages_of_one_file_support_each_other():
    heads = {
        0: head(0, "src/alone.py"),
        1: head(1, "src/upload.py"),
        2: head(2, "src/upload.py"),
        3: head(3, "src/upload.py"),
    }
    assert heads[ranked(0.8, 0.75, 0.7, 0.6, heads=heads)[0].key].title == "src/upload.py"


def test_further_passages_of_a_file_give_way_to_other_files():
    heads = {0: head(0, "src/upload.py"), 1: head(1, "src/upload.py"), 2: head(2, "src/retry.py")}
    assert [hit.key for hit in ranked(0.8, 0.3, 0.55, heads=heads)] == [0, 2, 1]


def test_turns_of_one_conversation_do_not_support_each_other():
    heads = {
        key: PassageHead(key, "src:talk", f"seg_{key}", "source", "conversation", "/", "prose", "", "", "")
        for key in (1, 2)
    }
    heads[0] = head(0, "src/upload.py")
    assert ranked(0.8, 0.75, 0.7, heads=heads)[0].key == 0


def test_code_comes_before_its_tests():
    heads = {0: head(0, "tests/test_files.py", "test"), 1: head(1, "src/upload.py")}
    first, second = ranked(0.7, 0.8, heads=heads)
    assert (first.key, second.key) == (1, 0)
    assert second.parts["role"].raw == pytest.approx(TUNING.files.beside_code)
    assert "role" not in first.parts


def test_section_titled_as_asked_comes_first():
    heads = {0: head(0, "README.md", "documentation", "Development > Running the unit tests"), 1: head(1, "src/run.py")}
    assert ranked(0.8, 0.75, heads=heads, question="how do I run the unit tests")[0].key == 0
    assert ranked(0.8, 0.75, heads=heads, question="how does the engine start")[0].key == 1


@pytest.mark.parametrize(
    ("question", "role"),
    [
        ("which tests cover uploads", "test"),
        ("show examples of an upload", "example"),
        ("update the changelog", "changelog"),
    ],
)
def test_role_has_words_of_the_question(question, role):
    assert called_share(head(0, "a.py", role), frozenset(query_words(question))) > 0.3


def test_name_of_a_test_is_no_title():
    terms = frozenset(query_words("how are uploads retried"))
    assert called_share(head(0, "t/upload.py", "test", "test_uploads_are_retried"), terms) == 0
    assert called_share(head(0, "docs/a.md", "documentation", "How uploads are retried"), terms) == 1


def test_heading_has_little_of_a_long_question():
    terms = frozenset(query_words("uploads hang when the session of a client ends before the retry of a part begins"))
    assert 0 < called_share(head(0, "docs/a.md", "documentation", "Uploads"), terms) < 0.2


def test_code_and_notes_keep_their_full_weight():
    heads = {0: head(0, "src/a.py"), 1: head(1, "", "prose")}
    assert not any("role" in hit.parts for hit in ranked(0.8, 0.7, heads=heads))


def test_scores_stay_between_nothing_and_one():
    heads = {key: head(key, f"src/{key}.py") for key in range(3)}
    scores = [hit.score for hit in ranked(1.0, 0.5, 0.0, heads=heads, question="src/0.py")]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1


def test_the_path_of_a_passage_is_that_in_its_project():
    assert path_of(head(0, "src/a.py")) == "src/a.py"


def test_a_file_that_commits_say_alike_of_rises_and_the_part_is_reported():
    heads = {0: head(0, "src/main.py"), 1: head(1, "src/runner.py")}
    first, second = ranked(0.8, 0.75, heads=heads, commits={"repo:x#src/runner.py": 0.5})
    assert (first.key, first.parts["commits"].raw) == (1, 0.5)
    assert "commits" not in second.parts


def test_commits_do_not_count_against_documentation():
    heads = {
        0: head(0, "docs/a.md", "documentation", "Uploads retried"),
        1: head(1, "src/a.py"),
        2: head(2, "src/b.py"),
    }
    commits = {"repo:x#src/a.py": 0.5, "repo:x#src/b.py": 1.0}
    hits = {hit.key: hit for hit in ranked(0.9, 0.8, 0.1, heads=heads, commits=commits)}
    assert hits[0].parts["commits"].raw == 0.5
    assert hits[0].score > hits[1].score


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


def test_a_map_that_mentions_no_commits_scores_no_files():
    assert CommitHistory.of("repo:x#", {}).files(["carousel"]) == {}


def test_what_is_no_code_and_changed_with_files_of_code_is_told_of_most_often_first():
    paths = ["CHANGES.md", "a.py", "b.py", "docs/a.md", "notes.md"]
    pairs = [[0, 1, 2, "2026-01-01"], [0, 2, 3, "2026-01-01"], [1, 2, 9, "2026-01-01"], [1, 3, 7, "2026-01-01"]]
    payload = {"changed_together": {"paths": paths, "pairs": [*pairs, [1, 4, 2, "2026-01-01"]]}}
    history = CommitHistory.of("repo:x#", payload)
    assert companions_of(["repo:x#a.py", "repo:x#b.py"], [history]) == [("docs/a.md", 7), ("CHANGES.md", 5)]
    assert companions_of(["repo:x#b.py"], [history]) == [("CHANGES.md", 3)]
    assert companions_of(["repo:y#a.py"], [history]) == []


def note(key):
    return PassageHead(key, f"src:{key}", f"seg_{key}", "source", "note", "/", "prose", "", "", f"note:{key}", NO_PLACE)


def test_note_competes_with_a_file_of_many_passages():
    heads = {0: note(0), **{key: head(key, "src/upload.py") for key in (1, 2, 3)}}
    assert ranked(0.9, 0.8, 0.75, 0.7, heads=heads)[0].key == 0


def test_commits_do_not_count_against_messages():
    heads = {0: note(0), 1: head(1, "src/upload.py"), 2: head(2, "src/retry.py")}
    commits = {heads[1].origin: 1.0, heads[2].origin: 0.8}
    assert ranked(0.9, 0.8, 0.2, heads=heads, commits=commits)[0].key == 0


def test_guides_and_commands_come_before_code_for_chores():
    heads = {
        0: head(0, "src/run.py", heading="run_tests"),
        1: head(1, "docs/design.md", "documentation"),
        2: head(2, "Makefile", "code"),
        3: head(3, "CONTRIBUTING.md", "documentation"),
        4: head(4, "tests/test_run.py", "test"),
    }
    hits = [Fused(key, score, {}) for key, score in enumerate((0.9, 0.85, 0.8, 0.8, 0.9))]
    scores, terms = {hit.key: hit.score for hit in hits}, query_words("how do I run the tests")
    found = rank_in_files(hits, heads, terms, own_scores=scores, commits={}, chore=True)
    assert {hit.key for hit in found[:2]} == {2, 3}
    assert [hit.key for hit in found[2:]] == [0, 4, 1]


def test_guide_of_an_example_is_no_guide_for_chores():
    heads = {0: head(0, "examples/reload/README.md", "documentation"), 1: head(1, "CONTRIBUTING.md", "documentation")}
    hits = [Fused(0, 0.9, {}), Fused(1, 0.8, {})]
    found = rank_in_files(hits, heads, query_words("release"), own_scores={0: 0.9, 1: 0.8}, commits={}, chore=True)
    assert found[0].key == 1

"""Branches of a repository in one space: each tree is answered with what holds there."""

import os
from dataclasses import replace

import pytest

import treering
from sources.git_scratch import Scratch
from treering.core.characters import printable
from treering.core.objects import Source
from treering.core.policy import Policy
from treering.extensions.server.web.overview import OBJECTS
from treering.ports.ledger import Selection
from treering.surfaces.ingest_words import ingest_in_words
from treering.verbs.catalog import call
from treering.verbs.envelope import EVERYTHING, Envelope

MAIN = "# Limits\n\nThe retry limit is five attempts.\n"
CHANGED = "# Limits\n\nThe retry limit is nine attempts.\n"
ONLY = "# Queue\n\nThe queue keeps lavender messages for a week.\n"
NOTES = "# Notes\n\nThe gateway listens on port 8080.\n"


@pytest.fixture
def space():
    with treering.open(":memory:", background=False) as space:
        yield space


@pytest.fixture
def repository(tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"limits.md": MAIN, "notes.md": NOTES})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def feature(repository, tmp_path):
    """A work tree elsewhere with another branch: a file changed, a file of its own, and one removed."""
    repository.git("worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "x"))
    tree = Scratch.__new__(Scratch)
    tree.folder = tmp_path / "x"
    (tree.folder / "notes.md").unlink()
    tree.commit({"limits.md": CHANGED, "queue.md": ONLY})
    return tree


def ingest(space, tree, **options):
    return space.ingest("repo", "/", {"path": str(tree.folder)}, options)


def texts(space, words, **options):
    report = space.query("search", "/", {"text": words}, options)
    return {hit.text for hit in report.hits if hit.type == "source" and hit.kind != "repo"}


def hit_of(space, words, title, **options):
    hits = space.query("search", "/", {"text": words}, options).hits
    return next((hit for hit in hits if hit.title == title), None)


def decide(space, tree, words, outcome, *, path):
    """Record a decision that rests on the lines of a file that holds these words on the branch of a tree."""
    branch = tree.git("branch", "--show-current")
    found = [hit for hit in space.query("search", "/", {"text": words}, {"at": branch}).hits if path in hit.origin]
    evidence = [{"source_id": found[0].source_id, "segment_id": found[0].segment_id}]
    report = space.crystallize(
        "knowledge",
        "/",
        {
            "kind": "decision",
            "title": outcome,
            "payload": {"question": f"What of {outcome}?", "outcome": outcome},
            "evidence_refs": evidence,
            "status": "active",
        },
    )
    return report.ids[0]


def sources(space):
    return [one for one in space.engine.ledger.select(Selection(types=("source",))) if isinstance(one, Source)]


def by_path(space):
    return {one.origin.partition("#")[2]: one for one in sources(space) if one.status == "active"}


def test_two_work_trees_on_two_branches_do_not_see_each_others_files(space, repository, feature, monkeypatch):
    ingest(space, repository)
    ingest(space, feature)
    assert texts(space, "retry limit queue port") == {MAIN.strip(), NOTES.strip()}
    monkeypatch.chdir(feature.folder)
    assert texts(space, "retry limit queue port") == {CHANGED.strip(), ONLY.strip()}
    for branch, found in (("main", {MAIN.strip(), NOTES.strip()}), ("feature/x", {CHANGED.strip(), ONLY.strip()})):
        assert texts(space, "retry limit queue port", at=branch) == found


def test_what_two_branches_share_is_kept_once_and_reading_again_writes_nothing(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    held = by_path(space)
    assert set(held) == {"", "limits.md", "notes.md", "queue.md"}
    assert {part.excerpt for part in held["limits.md"].segments} == {MAIN.strip(), CHANGED.strip()}
    sequence = space.engine.ledger.sequence()
    for tree in (repository, feature, repository):
        assert ingest(space, tree).status == "unchanged"
    assert space.engine.ledger.sequence() == sequence


def test_switching_branches_in_one_folder_reads_only_what_differs_and_makes_nothing_stale(space, repository):
    repository.git("switch", "-q", "-c", "other")
    repository.commit({"queue.md": ONLY})
    ingest(space, repository)
    known = decide(space, repository, "lavender messages", "Keep the queue for a week", path="queue.md")
    repository.git("switch", "-q", "main")
    report = ingest(space, repository)
    assert report.staled == ()
    assert space.engine.ledger.get(known).status == "active"
    repository.git("switch", "-q", "other")
    assert ingest(space, repository).status == "unchanged"


def test_knowledge_of_another_branch_is_shown_as_not_on_this_one_and_is_current_after_the_merge(
    space, repository, feature
):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    title = "Keep the queue for a week"
    elsewhere = hit_of(space, "queue for a week", title)
    assert (elsewhere.current, elsewhere.note) == (False, "not on this branch (feature/x)")
    assert hit_of(space, "queue for a week", title, at="feature/x").current
    pack = space.query("context", "/", {"task": "How long does the queue keep messages?"})
    flags = {item.title: item.flags for item in pack.pack.items}
    assert flags[title] == ("not on this branch (feature/x)",)
    assert "not on this branch (feature/x)" in pack.text
    revision = space.engine.ledger.get(known).revision
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "feature/x")
    ingest(space, repository)
    merged = hit_of(space, "queue for a week", title)
    assert (merged.current, merged.note) == (True, "")
    assert space.engine.ledger.get(known).revision == revision


def test_knowledge_of_a_branch_that_is_deleted_unmerged_is_archived_with_the_reason(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    repository.git("worktree", "remove", "--force", str(feature.folder))
    repository.git("branch", "-q", "-D", "feature/x")
    report = ingest(space, repository)
    assert report.staled == ()
    assert space.engine.ledger.get(known).status == "archived"
    reasons = [event.reason for event in space.engine.ledger.events_of(known)]
    assert "which was deleted without a merge" in reasons[-1]
    assert "feature/x" in reasons[-1]
    held = by_path(space)
    assert set(held) == {"", "limits.md", "notes.md"}
    assert not any(one.fingerprint.startswith("versions:") for one in held.values())
    assert [part.excerpt for part in held["limits.md"].segments] == [MAIN.strip()]


@pytest.mark.parametrize("ref", ["heads/feature/renamed", "remotes/origin/feature/renamed", "tags/renamed"])
def test_decision_of_a_renamed_branch_stays_and_is_current_after_the_merge(space, repository, feature, ref):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    repository.git("update-ref", f"refs/{ref}", "feature/x")
    repository.git("worktree", "remove", "--force", str(feature.folder))
    repository.git("branch", "-q", "-D", "feature/x")
    for _ in range(2):
        ingest(space, repository)
        assert space.engine.ledger.get(known).status == "active"
        assert not hit_of(space, "queue for a week", "Keep the queue for a week").current
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", f"refs/{ref}")
    ingest(space, repository)
    assert hit_of(space, "queue for a week", "Keep the queue for a week").current
    (repository_map,) = (one for one in sources(space) if one.kind == "repo")
    assert list(repository_map.payload["branches"]) == ["main"]


def test_reading_a_renamed_branch_replaces_its_earlier_name(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    feature.git("branch", "-m", "feature/renamed")
    ingest(space, repository)
    ingest(space, feature)
    hit = hit_of(space, "queue for a week", "Keep the queue for a week")
    assert (space.engine.ledger.get(known).status, hit.note) == ("active", "not on this branch (feature/renamed)")


@pytest.fixture
def deleted(space, repository, feature):
    """Delete an unmerged branch with a decision; return the decision and the last commit of the branch."""
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    commit = repository.git("rev-parse", "feature/x")
    repository.git("worktree", "remove", "--force", str(feature.folder))
    repository.git("branch", "-q", "-D", "feature/x")
    ingest(space, repository)
    assert space.engine.ledger.get(known).status == "archived"
    return known, commit


@pytest.mark.parametrize("step", [("switch", "-q", "-c", "again"), ("merge", "-q", "--squash")])
def test_decision_of_a_deleted_branch_is_restored_with_its_lines(space, repository, deleted, step):
    known, commit = deleted
    repository.git(*step, commit)
    if "--squash" in step:
        repository.commit()
    report = ingest(space, repository)
    assert space.engine.ledger.get(known).status == "active"
    assert hit_of(space, "queue for a week", "Keep the queue for a week").current
    assert any("1 reactivated because the quoted lines are back" in one for one in report.warnings)
    assert "valid again: queue.md" in space.engine.ledger.events_of(known)[-1].reason
    assert ingest(space, repository).status == "unchanged"


def test_decision_archived_by_a_user_is_not_restored(space, repository, deleted):
    known, commit = deleted
    repository.git("switch", "-q", "-c", "again", commit)
    ingest(space, repository)
    space.crystallize("knowledge", "/", {"id": known, "status": "archived"})
    repository.git("switch", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", commit)
    ingest(space, repository)
    assert space.engine.ledger.get(known).status == "archived"


def test_decision_recorded_again_is_not_restored(space, repository, deleted):
    known, commit = deleted
    repository.git("switch", "-q", "-c", "again")
    repository.commit({"other.md": ONLY})
    ingest(space, repository)
    decide(space, repository, "lavender messages", "Keep the queue for a week", path="other.md")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", commit)
    ingest(space, repository)
    assert space.engine.ledger.get(known).status == "archived"


def test_deleted_branch_counts_each_file_once(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    repository.git("worktree", "remove", "--force", str(feature.folder))
    repository.git("branch", "-q", "-D", "feature/x")
    report = ingest(space, repository)
    assert report.counts == {"unchanged": 3, "removed": 1}  # two files and the map; queue.md is gone
    assert ingest_in_words(report) == "Read 2 files: 1 removed, 2 unchanged."


def test_knowledge_of_a_branch_that_was_merged_before_it_was_deleted_stays(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    repository.git("merge", "-q", "--squash", "feature/x")
    repository.commit()
    repository.git("worktree", "remove", "--force", str(feature.folder))
    repository.git("branch", "-q", "-D", "feature/x")
    ingest(space, repository)
    assert space.engine.ledger.get(known).status == "active"
    assert hit_of(space, "queue for a week", "Keep the queue for a week").current


def test_what_two_branches_say_of_one_thing_is_no_contradiction_until_they_meet(space, repository, feature):
    repository.commit({"pyproject.toml": '[project]\nname = "acme"\nversion = "1.0"\n'})
    feature.commit({"pyproject.toml": '[project]\nname = "acme"\nversion = "2.0"\n'})
    ingest(space, repository)
    assert ingest(space, feature).contested == ()


def test_evidence_names_the_contents_of_the_file_that_it_was_read_from(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "retry limit nine", "Nine attempts", path="limits.md")
    blob = feature.git("rev-parse", "HEAD:limits.md")
    assert [ref.contents for ref in space.engine.ledger.get(known).evidence_refs] == [f"git-blob:{blob}"]


def test_a_commit_that_was_not_read_is_answered_by_what_it_shares_with_a_branch(space, repository):
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"queue.md": ONLY})
    ingest(space, repository)
    assert texts(space, "retry limit queue port", at=first) == {MAIN.strip(), NOTES.strip()}
    assert ONLY.strip() in texts(space, "retry limit queue port", at="main")


def test_unknown_tree_error_names_the_known_ones(space, repository):
    ingest(space, repository)
    with pytest.raises(treering.TreeringError, match="nowhere") as caught:
        space.query("search", "/", {"text": "limit"}, {"at": "nowhere"})
    assert "main" in (caught.value.hint or "")


def test_a_repository_that_was_read_or_erased_since_the_last_question_is_known_and_unknown_to_the_next(
    repository, feature
):
    with treering.open(":memory:", background=False, channel="user") as space:

        def note(text):
            space.ingest("source", "/", {"kind": "note", "origin": text, "title": text, "text": text})

        def is_known(branch):
            try:
                return bool(texts(space, "retry limit", at=branch))
            except treering.NotFound:
                return False

        assert not is_known("main")
        note("The first bell rings at nine.")
        assert not is_known("main")
        ingest(space, repository)
        assert is_known("main")
        note("The last bell rings at five.")
        assert is_known("main")
        assert not is_known("feature/x")
        ingest(space, feature)
        assert is_known("feature/x")
        note("There is no bell at noon.")
        space.erase([one.id for one in sources(space) if one.kind == "repo"])
        assert not is_known("main")


def test_a_file_renamed_on_one_branch_keeps_its_knowledge_on_both_and_after_the_merge(space, repository, feature):
    feature.git("reset", "-q", "--hard", "HEAD~1")
    feature.git("mv", "limits.md", "bounds.md")
    feature.commit()
    ingest(space, repository)
    known = decide(space, repository, "retry limit five", "Five attempts", path="limits.md")
    ingest(space, feature)
    for branch in ("main", "feature/x"):
        assert hit_of(space, "Five attempts", "Five attempts", at=branch).current
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "feature/x")
    ingest(space, repository)
    assert space.engine.ledger.get(known).status == "active"
    assert hit_of(space, "Five attempts", "Five attempts").current
    assert texts(space, "retry limit port") == {MAIN.strip(), NOTES.strip()}
    assert set(by_path(space)) == {"", "bounds.md", "notes.md"}


def test_what_was_changed_in_the_work_tree_since_it_was_read_is_said_at_the_result(space, repository):
    ingest(space, repository)
    decide(space, repository, "retry limit five", "Five attempts", path="limits.md")
    limits = repository.folder / "limits.md"
    limits.write_text("# A line above\n\n" + MAIN)
    assert hit_of(space, "retry limit five attempts", "Five attempts").note == ""
    limits.write_text(CHANGED)
    told = 'changed since: limits.md:3 is now "The retry limit is nine attempts."'
    found = space.query("search", "/", {"text": "retry limit five attempts"}).hits
    notes = {hit.title: (hit.note, hit.current) for hit in found if hit.kind != "repo"}
    assert notes["Five attempts"] == (told, False)
    assert (told, False) in [notes[title] for title in notes if title != "Five attempts"]
    pack = space.query("context", "/", {"task": "What is the retry limit?"})
    assert told in pack.text
    limits.unlink()
    gone = "changed since: limits.md is no longer in the work tree"
    assert hit_of(space, "retry limit five attempts", "Five attempts").note == gone
    # What is asked of a branch is not about the files as they lie.
    assert hit_of(space, "retry limit five attempts", "Five attempts", at="main").note == ""


@pytest.mark.parametrize("name", [b"caf\xe9.md", b"\xff\xfe.md", b"a\tb\x01.md"])
def test_a_file_whose_name_is_not_text_is_found_in_the_work_tree(space, repository, name):
    file = os.path.join(os.fsencode(repository.folder), name)  # noqa: PTH118 - a name of bytes
    with open(file, "wb") as stream:  # noqa: PTH123
        stream.write(b"# Gulls\n\nThe gulls eat heliotrope.\n")
    repository.commit()
    ingest(space, repository)
    for is_there in (True, False):
        (hit,) = (one for one in space.query("search", "/", {"text": "gulls heliotrope"}).hits if "gulls" in one.text)
        assert hit.note == ("" if is_there else f"changed since: {printable(name)} is no longer in the work tree")
        if is_there:
            os.unlink(file)  # noqa: PTH108


def test_caller_without_file_access_sees_no_work_tree(space, repository):
    ingest(space, repository)
    (repository.folder / "limits.md").unlink()
    granted = replace(EVERYTHING, reads_files=False)
    report = call(
        space.engine, "query", Envelope(mode="search", input={"text": "retry limit five attempts"}), granted=granted
    )
    assert {hit.note for hit in report.hits} == {""}


def test_moved_branch_is_reported(space, repository):
    ingest(space, repository)
    repository.commit({"queue.md": ONLY})
    (warning,) = space.query("search", "/", {"text": "retry limit"}).warnings[-1:]
    assert warning.startswith("main was read at ")
    ingest(space, repository)
    assert not any("was read at" in one for one in space.query("search", "/", {"text": "retry limit"}).warnings)


@pytest.mark.parametrize("merge", ["--ff-only", "--no-ff"])
def test_merge_of_a_read_branch_needs_no_second_reading(space, repository, feature, merge):
    feature.git("reset", "-q", "--hard", "HEAD~1")
    feature.git("mv", "notes.md", "ports.md")
    feature.commit({"limits.md": CHANGED})
    ingest(space, repository)
    decide(space, repository, "gateway listens port", "The gateway has one port", path="notes.md")
    ingest(space, feature)
    decide(space, feature, "retry limit nine", "Nine attempts", path="limits.md")
    repository.git("merge", "-q", merge, "-m", "Merge", "feature/x")
    (decided,) = space.query("brief", "/").sections
    assert {one.text.partition(" (")[0] for one in decided.entries} == {"The gateway has one port", "Nine attempts"}
    assert texts(space, "retry limit") == {CHANGED.strip()}


def test_commit_that_was_not_read_leaves_its_files_in_answers(space, repository):
    ingest(space, repository)
    decide(space, repository, "retry limit five", "Five attempts", path="limits.md")
    repository.commit({"limits.md": CHANGED})
    (hit,) = [one for one in space.query("search", "/", {"text": "retry limit"}).hits if one.text == MAIN.strip()]
    assert hit.note == 'changed since: limits.md:3 is now "The retry limit is nine attempts."'
    (section,) = space.query("brief", "/").sections
    assert section.name == "Stale"


def test_after_a_merge_of_two_peoples_spaces_each_clone_is_answered_for_its_own_branch(
    repository, tmp_path, monkeypatch
):
    clone = Scratch.__new__(Scratch)
    clone.folder = tmp_path / "other"
    repository.git("clone", "-q", str(repository.folder), str(clone.folder))
    files = [str(tmp_path / name) for name in ("mine.db", "theirs.db")]
    for file, tree in zip(files, (repository, clone), strict=True):
        with treering.open(file, background=False) as space:
            ingest(space, tree)
            if tree is clone:
                tree.git("checkout", "-q", "-b", "feature/x")
                tree.commit({"limits.md": CHANGED})
                ingest(space, tree)
    with treering.open(files[0], background=False) as mine:
        mine.merge(files[1])
        for tree, limit in ((repository, "five"), (clone, "nine")):
            monkeypatch.chdir(tree.folder)
            assert [f"The retry limit is {limit} attempts." in text for text in texts(mine, "retry limit")] == [True]


@pytest.fixture
def clone(repository, tmp_path):
    """Another clone of the repository, at the same commit."""
    made = Scratch.__new__(Scratch)
    made.folder = tmp_path / "other"
    repository.git("clone", "-q", str(repository.folder), str(made.folder))
    return made


def commit_read(space, branch):
    (top,) = [one for one in sources(space) if one.kind == "repo" and one.status == "active"]
    return top.payload["branches"][branch]["commit"]


def test_a_clone_that_is_behind_does_not_set_the_branch_back_that_another_one_read(
    space, repository, clone, monkeypatch
):
    ahead = repository.commit({"limits.md": CHANGED})
    ingest(space, repository)
    before = space.engine.ledger.sequence()
    (told,) = ingest(space, clone).items
    assert told.outcome == "skipped"
    assert f"main was read at {ahead[:12]} in {repository.folder}/.git, but is behind that commit here" in told.why
    assert space.engine.ledger.sequence() == before
    assert commit_read(space, "main") == ahead
    monkeypatch.chdir(clone.folder)
    report = space.query("search", "/", {"text": "retry limit"})
    assert any(f"main was read at {ahead[:12]} in {repository.folder}/.git" in one for one in report.warnings)
    named = clone.git("rev-parse", "HEAD")
    ingest(space, clone, commit=named)
    assert commit_read(space, "main") == named, "whoever names a commit wants it"
    clone.git("pull", "-q", "--ff-only")
    assert not [one for one in ingest(space, clone).warnings if "was read at" in one]
    assert commit_read(space, "main") == ahead


def test_of_two_clones_that_parted_on_one_branch_the_last_reading_counts_and_says_so(space, repository, clone):
    one = repository.commit({"limits.md": CHANGED})
    other = clone.commit({"queue.md": ONLY})
    ingest(space, repository)
    told = " ".join(ingest(space, clone).warnings)
    assert f"main was read at {one[:12]} in {repository.folder}/.git before" in told
    assert f"The last read counts: {other[:12]}." in told
    assert commit_read(space, "main") == other
    clone.git("fetch", "-q")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    ingest(space, repository)
    assert commit_read(space, "main") == other, "it is behind what the other clone read"


def test_two_branches_at_one_commit_are_both_known_where_each_is_named(space, repository):
    repository.git("branch", "later")
    for branch in ("main", "later"):
        ingest(space, repository, commit=branch)
    assert texts(space, "retry limit", at="later") == texts(space, "retry limit", at="main") != set()
    assert commit_read(space, "later") == commit_read(space, "main")


def test_a_linked_work_tree_is_read_under_the_name_of_its_repository(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    (told,) = [item for item in sources(space) if item.kind == "repo"]
    assert {part.excerpt.split(" at ")[0] for part in told.segments} == {"Repository acme"}


CODE = "def wait(seconds):\n    return seconds\n"
CALLS = "from waiting import wait\n\n\ndef retry():\n    return wait(5)\n"
ALSO = "from waiting import wait\n\n\ndef poll():\n    return wait(1)\n"


@pytest.fixture
def code(space, repository, feature):
    """Code on both branches, that of one used by another file on each."""
    repository.commit({"waiting.py": CODE, "retries.py": CALLS})
    feature.commit({"waiting.py": f"import time\n\n\n{CODE}", "polling.py": ALSO})
    ingest(space, repository)
    ingest(space, feature)


def test_links_of_code_are_those_of_the_tree_that_is_asked_from(space, code, feature, monkeypatch):
    def users(**options):
        report = space.query("related", "/", {"id": "waiting.py"}, options)
        return {one.title for one in report.code if one.direction == "in"}

    assert users() == {"retries.py"}
    assert users(at="feature/x") == {"polling.py"}
    monkeypatch.chdir(feature.folder)
    assert users() == {"polling.py"}
    used = space.query("related", "/", {"id": "polling.py"}).code
    assert {one.place.partition(" ")[0] for one in used if one.symbol == "wait"} == {"waiting.py#L4-L4"}


def test_a_page_shows_the_file_as_it_is_in_the_tree_and_says_of_others_where_they_are(
    space, repository, feature, monkeypatch
):
    ingest(space, repository)
    ingest(space, feature)
    known = decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")

    def lines(name, **options):
        return [part["excerpt"] for part in space.query("page", "/", {"name": name}, options).object["segments"]]

    assert lines("limits.md") == [MAIN.strip()]
    assert lines("limits.md", at="feature/x") == [CHANGED.strip()]
    with pytest.raises(treering.TreeringError, match=r"queue\.md"):
        lines("queue.md")
    elsewhere = "not on this branch (feature/x)"
    for identity in (by_path(space)["queue.md"].id, known):
        shown = space.query("page", "/", {"id": identity})
        assert (shown.current, shown.note) == (False, elsewhere)
        (opened,) = space.query("expand", "/", {"ids": (identity,)}).items
        assert (opened.current, opened.note) == (False, elsewhere)
    referring = space.query("page", "/", {"id": by_path(space)["queue.md"].id}, {"at": "feature/x"}).referrers
    assert [(one.id, one.current) for one in referring] == [(known, True)]
    monkeypatch.chdir(feature.folder)
    assert space.query("page", "/", {"id": known}).current
    assert lines("queue.md") == [ONLY.strip()]


def test_what_changed_is_told_of_all_branches_with_what_does_not_stand_in_the_tree(space, repository, feature):
    ingest(space, repository)
    ingest(space, feature)
    decide(space, feature, "lavender messages", "Keep the queue for a week", path="queue.md")
    told = {one.title: (one.current, one.note) for one in space.query("recent").changes}
    elsewhere = (False, "not on this branch (feature/x)")
    assert (told["Keep the queue for a week"], told["Queue"]) == (elsewhere, elsewhere)
    assert told["Notes"] == (True, "")
    told = {one.title: one.current for one in space.query("recent", "/", {}, {"at": "feature/x"}).changes}
    assert (told["Keep the queue for a week"], told["Notes"]) == (True, False)
    (related,) = space.query("related", "/", {"id": by_path(space)["queue.md"].id}, {}).neighbours
    assert (related.title, related.note) == ("Keep the queue for a week", "not on this branch (feature/x)")
    (listed,) = space.perform(OBJECTS, "/", {"type": "knowledge"}).items
    assert (listed.current, listed.note) == elsewhere
    assert space.perform(OBJECTS, "/", {"type": "knowledge"}, {"at": "feature/x"}).items[0].current


def test_an_answer_that_is_held_to_no_tree_says_that_it_is_of_all_branches(
    space, repository, feature, monkeypatch, tmp_path
):
    ingest(space, repository)
    monkeypatch.chdir(tmp_path)
    assert not any("all branches" in one for one in space.query("search", "/", {"text": "retry limit"}).warnings)
    ingest(space, feature)
    for mode, given in (("search", {"text": "retry limit"}), ("page", {"name": "limits.md"}), ("recent", {})):
        (told,) = [one for one in space.query(mode, "/", given).warnings if "all branches" in one]
        assert told == "This covers all branches that were read (main, feature/x); options.at selects one."
        assert not any("all branches" in one for one in space.query(mode, "/", given, {"at": "main"}).warnings)


def test_knowledge_that_a_commit_does_not_have_yet_is_not_shown_as_how_things_stand_there(space, repository):
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"queue.md": ONLY})
    ingest(space, repository)
    known = decide(space, repository, "lavender messages", "Keep the queue for a week", path="queue.md")
    shown = space.query("page", "/", {"id": known}, {"at": first})
    assert (shown.current, shown.note) == (False, "not in this tree")
    assert space.query("page", "/", {"id": known}).current


# Lines that come back.


def ledger_status(space, identity):
    return space.engine.ledger.get(identity).status


def last_event(space, identity):
    return space.engine.ledger.events_of(identity)[-1]


def test_knowledge_whose_lines_a_revert_restores_is_current_again_and_the_audit_says_why(space, repository):
    ingest(space, repository)
    limit = decide(space, repository, "retry limit", "Five attempts at most", path="limits.md")
    port = decide(space, repository, "gateway listens", "The port is 8080", path="notes.md")
    derived = space.crystallize(
        "knowledge",
        "/",
        {
            "kind": "fact",
            "title": "So five it is",
            "payload": {"subject": "limit", "predicate": "is", "value": "five"},
            "derived_from": [limit],
            "status": "active",
        },
    ).ids[0]
    repository.commit({"limits.md": CHANGED})
    assert set(ingest(space, repository).staled) == {limit, derived}
    repository.git("revert", "--no-edit", "HEAD")
    report = ingest(space, repository)
    assert report.staled == ()
    assert any("2 reactivated" in one for one in report.warnings)
    assert [ledger_status(space, one) for one in (limit, derived, port)] == ["active"] * 3
    event = last_event(space, limit)
    assert event.event_type == "transitioned"
    assert event.reason.startswith("Its evidence is valid again: limits.md#L")
    assert last_event(space, derived).reason == "The knowledge it was derived from is current again."
    assert "Five attempts at most" in {hit.title for hit in space.query("search", input={"text": "attempts"}).hits}
    before = space.engine.ledger.sequence()
    ingest(space, repository)
    assert space.engine.ledger.sequence() == before
    space.engine.ledger.verify()


def test_a_revert_of_a_removed_file_and_one_on_another_branch_bring_back_what_rested_on_it(space, repository, feature):
    for tree in (repository, feature):
        ingest(space, tree)
    queue = decide(space, feature, "lavender messages", "Lavender messages stay a week", path="queue.md")
    feature.git("rm", "-q", "queue.md")
    feature.commit()
    assert ingest(space, feature).staled == (queue,)
    feature.git("revert", "--no-edit", "HEAD")
    ingest(space, feature)
    assert ledger_status(space, queue) == "active"
    shown = {at: space.query("page", "/", {"id": queue}, {"at": at}) for at in ("main", "feature/x")}
    assert (shown["main"].current, shown["main"].note) == (False, "not on this branch (feature/x)")
    assert (shown["feature/x"].current, shown["feature/x"].note) == (True, "")


def test_what_a_person_has_settled_since_what_nobody_believed_and_other_lines_stay_as_they_are(space, repository):
    ingest(space, repository)
    limit = decide(space, repository, "retry limit", "Five attempts at most", path="limits.md")
    other = decide(space, repository, "retry limit", "Tried five times", path="limits.md")
    refs = [one.model_dump() for one in space.engine.ledger.get(limit).evidence_refs]
    guess = space.crystallize(
        "knowledge",
        "/",
        {"kind": "preference", "title": "A guess", "payload": {"statement": "x"}, "evidence_refs": refs},
    ).ids[0]
    space.crystallize("knowledge", "/", {"id": limit, "status": "stale"})
    repository.commit({"limits.md": CHANGED})
    assert set(ingest(space, repository).staled) == {other, guess}
    space.crystallize("knowledge", "/", {"id": other, "status": "archived"})
    repository.git("revert", "--no-edit", "HEAD")
    ingest(space, repository)
    assert [ledger_status(space, one) for one in (limit, other, guess)] == ["stale", "archived", "stale"]


def test_it_stays_stale_while_the_lines_are_others_or_only_looked_at_and_where_the_reader_may_not_believe(repository):
    with treering.open(":memory:", background=False, channel="agent") as space:
        ingest(space, repository)
        limit = decide(space, repository, "retry limit", "Five attempts at most", path="limits.md")
        repository.commit({"limits.md": CHANGED})
        ingest(space, repository)
        repository.commit({"limits.md": MAIN.replace("five", "six")})
        ingest(space, repository)
        assert ledger_status(space, limit) == "stale"
        repository.commit({"limits.md": MAIN})
        ingest(space, repository, dry_run=True)
        assert ledger_status(space, limit) == "stale"
        policy = Policy(candidate_only_channels=frozenset({"adapter", "agent"}))
        space.engine.ledger.change_policy(policy, by=space.engine.author.model_copy(update={"channel": "user"}))
        ingest(space, repository)
        assert ledger_status(space, limit) == "stale"

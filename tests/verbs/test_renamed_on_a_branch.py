"""Knowledge about a file that a branch renamed is shown and found under the path of each branch."""

import re

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.core.evidence import EvidenceRef
from treering.core.patch import Update
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.evidence.cited import cited_words
from treering.verbs.evidence.other_branches import on_other_branches
from treering.verbs.trees import tree_of

PLACE = re.compile(r" \([\w./]+:[\d-]+\)$")
"""The lines that a decision cites, at the end of its text."""

CODE = "# Retry\n\nLIMIT = {limit}\n\n\ndef wait():\n    return 9\n"
THREE, FIVE = CODE.format(limit=3), CODE.format(limit=5)


@pytest.fixture
def space():
    with open_space() as space:
        yield space


@pytest.fixture
def repository(space, tmp_path, monkeypatch):
    """A repository with a decision about `retry.py` on `main`, and a branch `feature` that renamed it to `again.py`."""
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": THREE, "README.md": "# Acme\n"})
    monkeypatch.chdir(made.folder)
    add(space, made)
    space.decide("A call is tried three times", because=["retry.py:3"])
    made.git("checkout", "-q", "-b", "feature")
    made.git("mv", "retry.py", "again.py")
    made.commit({"README.md": "# Acme\n\nMore.\n"})
    add(space, made)
    return made


def add(space, repository):
    return space.ingest("repo", "/", {"path": str(repository.folder)})


def switch(repository, name):
    repository.git("checkout", "-q", name)


def decision(space):
    report = space.query("search", input={"text": "A call is tried three times"}, options={"withdrawn": True})
    return next(hit for hit in report.hits if hit.type == "knowledge")


def places(space, identity=""):
    """Return where a decision is shown in the work tree."""
    tree = tree_of(space.engine, "/", at="", past=False)
    item = space.engine.ledger.get(identity or decision(space).object_id)
    return [*cited_words(space.engine.ledger, item, tree.view)]


def is_current(space):
    hit = decision(space)
    return hit.status == "active" and hit.current


def sections(space):
    return {one.name: [_unmarked(entry.text) for entry in one.entries] for one in space.query("brief").sections}


def _unmarked(text):
    return PLACE.sub("", text.removesuffix(" (by an agent)").replace(", by an agent)", ")"))


def problems(space):
    return [one.rule for one in space.lint("semantic").findings]


def test_evidence_is_at_the_path_of_each_branch(space, repository):
    assert (places(space), is_current(space)) == (["again.py:3"], True)
    switch(repository, "main")
    assert (places(space), is_current(space)) == (["retry.py:3"], True)
    assert problems(space) == []


def test_renamed_and_edited_file_keeps_its_knowledge(space, repository):
    repository.git("mv", "again.py", "third.py")
    repository.commit({"third.py": f"X = 1\n{THREE}"})
    assert add(space, repository).staled == ()
    assert (places(space), is_current(space)) == (["third.py:4"], True)
    switch(repository, "main")
    assert (places(space), is_current(space)) == (["retry.py:3"], True)


def test_change_after_a_rename_makes_knowledge_stale_there(space, repository):
    repository.commit({"again.py": FIVE})
    assert add(space, repository).staled == (decision(space).object_id,)
    assert sections(space) == {"Stale": ["A call is tried three times (again.py:3 changed)"]}
    switch(repository, "main")
    assert sections(space) == {"Decided": ["A call is tried three times"]}


@pytest.mark.parametrize("way", ["merge", "squash", "rebase"])
def test_evidence_moves_with_the_merge_of_a_rename(space, repository, way):
    switch(repository, "main")
    if way == "squash":
        repository.git("merge", "-q", "--squash", "feature")
        repository.commit()
    else:
        repository.git(way, "-q", "feature")
    add(space, repository)
    assert (places(space), is_current(space), problems(space)) == (["again.py:3"], True, [])
    repository.commit({"again.py": FIVE})
    assert add(space, repository).staled == (decision(space).object_id,)
    space.engine.ledger.verify()


@pytest.mark.parametrize("deleted", [False, True])
def test_reset_behind_the_merge_of_a_rename_returns_the_path(space, repository, deleted):
    switch(repository, "main")
    before = repository.git("rev-parse", "HEAD")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    repository.git("reset", "-q", "--hard", before)
    if deleted:
        repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    assert (places(space), is_current(space), problems(space)) == (["retry.py:3"], True, [])
    if not deleted:
        switch(repository, "feature")
        assert (places(space), is_current(space)) == (["again.py:3"], True)
    space.engine.ledger.verify()


def test_deleted_branch_leaves_no_evidence_of_its_rename(space, repository):
    switch(repository, "main")
    repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    item = space.engine.ledger.get(decision(space).object_id)
    assert (places(space), is_current(space), problems(space)) == (["retry.py:3"], True, [])
    assert len(item.evidence_refs) == 1


def test_knowledge_of_a_branch_follows_its_second_rename(space, repository):
    repository.commit({"again.py": f"{THREE}MOST = 7\n"})
    add(space, repository)
    most = space.decide("At most seven", because=["again.py:8"]).id
    repository.git("mv", "again.py", "third.py")
    repository.commit()
    assert add(space, repository).staled == ()
    assert space.engine.ledger.get(most).status == "active"
    assert places(space) == ["third.py:3"]


def test_decision_made_after_a_rename_is_at_both_paths(space, repository):
    wait = space.decide("A wait is nine seconds", because=["again.py:6-7"]).id
    assert places(space, wait) == ["again.py:6-7"]
    switch(repository, "main")
    assert "A wait is nine seconds" in sections(space)["Decided"]
    assert places(space, wait) == ["retry.py:6-7"]


def test_rename_before_the_first_reading_of_a_branch_is_known(space, repository):
    switch(repository, "main")
    repository.commit({"retry.py": f"{THREE}X = 1\n"})
    add(space, repository)
    repository.git("checkout", "-q", "-b", "other")
    repository.git("mv", "retry.py", "other.py")
    repository.commit()
    add(space, repository)
    assert (places(space), is_current(space)) == (["other.py:3"], True)
    switch(repository, "main")
    assert (places(space), is_current(space)) == (["retry.py:3"], True)


def test_copy_on_a_branch_is_no_rename(space, repository):
    switch(repository, "main")
    repository.git("checkout", "-q", "-b", "other")
    repository.commit({"copy.py": THREE})
    add(space, repository)
    assert len(space.engine.ledger.get(decision(space).object_id).evidence_refs) == 2


def test_removed_copy_after_a_rename_makes_knowledge_stale(space, repository):
    repository.git("rm", "-q", "again.py")
    repository.commit()
    assert add(space, repository).staled == (decision(space).object_id,)
    switch(repository, "main")
    assert is_current(space)


def test_revert_in_a_renamed_file_restores_knowledge_there(space, repository):
    repository.commit({"again.py": FIVE})
    add(space, repository)
    switch(repository, "main")
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    assert decision(space).status == "stale"
    switch(repository, "feature")
    repository.git("revert", "--no-edit", "HEAD")
    add(space, repository)
    assert (places(space), is_current(space)) == (["again.py:3"], True)
    switch(repository, "main")
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}


def test_merge_of_a_renamed_and_changed_file_leaves_one_source(space, repository):
    repository.commit({"again.py": FIVE})
    add(space, repository)
    wait = space.decide("A wait is nine seconds", because=["again.py:6-7"]).id
    space.replace("A call is tried three times", "A call is tried five times", because=["again.py:3"])
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    report = add(space, repository)
    assert (report.staled, report.warnings) == ((), ())
    assert sections(space) == {"Decided": ["A call is tried five times", "A wait is nine seconds"]}
    assert places(space, wait) == ["again.py:6-7"]
    assert problems(space) == []


def test_lines_that_main_loses_are_reported_after_a_rename(space, repository):
    switch(repository, "main")
    repository.commit({"retry.py": FIVE})
    assert add(space, repository).staled == (decision(space).object_id,)
    switch(repository, "feature")
    assert is_current(space)


def test_rename_is_followed_without_its_evidence(space, repository):
    """As after a reading that ended early, or by a caller who may only propose."""
    ledger = space.engine.ledger
    item = ledger.get(decision(space).object_id)
    before = {"evidence_refs": item.evidence_refs[:1]}
    change = Update(id=item.id, expected_revision=item.revision, changes=before)
    ledger.commit(new_patch(space.engine, [change], author=space.engine.author, reason="Test.").value)
    assert is_current(space)
    assert problems(space) == []
    repository.commit({"again.py": FIVE})
    add(space, repository)
    assert not is_current(space)
    switch(repository, "main")
    assert is_current(space)


def test_rename_read_by_a_caller_who_proposes_is_followed(space, repository):
    ledger = space.engine.ledger
    switch(repository, "main")
    policy = ledger.policy.model_copy(
        update={"candidate_only_channels": frozenset({"adapter", space.engine.author.channel})}
    )
    ledger.change_policy(policy, by=space.engine.author)
    repository.git("checkout", "-q", "-b", "other")
    repository.git("mv", "retry.py", "other.py")
    repository.commit()
    assert add(space, repository).staled == ()
    assert is_current(space)


def test_decision_about_a_changed_file_reads_no_other_files(space, repository, monkeypatch):
    repository.commit({"README.md": "# Acme\n\nMost.\n"})
    add(space, repository)
    ledger, root = space.engine.ledger, tree_of(space.engine, "/", at="", past=False).view.root
    [source] = ledger.sources_at(scope="/", origins=[f"{root}#README.md"]).values()
    refs = [EvidenceRef(source_id=source.id, segment_id=ledger.get(source.id).segments[0].segment_id)]
    monkeypatch.setattr(type(ledger), "sources", None, raising=False)
    assert {ref.source_id for ref in on_other_branches(ledger, refs)} == {source.id}


def add_work_tree(space, repository):
    return space.ingest("repo", "/", {"path": str(repository.folder)}, {"worktree": True})


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("name", ["main", "feature"])
def test_uncommitted_rename_with_an_edit_is_followed(space, repository, name, staged):
    switch(repository, name)
    before = "retry.py" if name == "main" else "again.py"
    if staged:
        repository.git("mv", before, "third.py")
    else:
        (repository.folder / before).unlink()
    repository.write("third.py", f"X = 1\n{THREE}")
    assert (problems(space), is_current(space)) == ([], True)
    assert add_work_tree(space, repository).staled == ()
    assert (places(space), is_current(space), problems(space)) == (["third.py:4"], True, [])
    repository.commit()
    assert add(space, repository).staled == ()
    assert (places(space), is_current(space), problems(space)) == (["third.py:4"], True, [])
    switch(repository, "feature" if name == "main" else "main")
    assert is_current(space)
    space.engine.ledger.verify()


def test_uncommitted_rename_without_the_cited_lines_makes_knowledge_stale(space, repository):
    repository.git("mv", "again.py", "third.py")
    repository.write("third.py", FIVE)
    assert not is_current(space)
    assert add_work_tree(space, repository).staled == (decision(space).object_id,)
    assert not is_current(space)


def test_undone_rename_returns_the_knowledge(space, repository):
    repository.git("mv", "again.py", "third.py")
    repository.write("third.py", f"X = 1\n{THREE}")
    add_work_tree(space, repository)
    repository.git("reset", "-q", "--hard")
    add(space, repository)
    assert (places(space), is_current(space), problems(space)) == (["again.py:3"], True, [])
    switch(repository, "main")
    assert (places(space), is_current(space)) == (["retry.py:3"], True)


@pytest.mark.parametrize("edit", ["", "X = 1\n"])
def test_commit_of_a_rename_is_known_before_it_is_read(space, repository, edit):
    switch(repository, "main")
    repository.git("mv", "retry.py", "third.py")
    repository.commit({"third.py": f"{edit}{THREE}"})
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    repository.commit({"third.py": FIVE})
    assert sections(space) == {"Stale": ['A call is tried three times (changed since: third.py:3 is now "LIMIT = 5")']}


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("edit", ["", "X = 1\n"])
def test_rename_on_a_branch_that_was_not_read_is_followed(space, repository, edit, is_committed):
    repository.git("checkout", "-q", "-b", "unread", "main")
    repository.git("mv", "retry.py", "third.py")
    repository.write("third.py", f"{edit}{THREE}")
    if is_committed:
        repository.commit()
    assert sections(space)["Decided"] == ["A call is tried three times"]
    repository.write("third.py", FIVE)
    assert sections(space) == {"Stale": ['A call is tried three times (changed since: third.py:3 is now "LIMIT = 5")']}


@pytest.mark.parametrize("edit", ["", "X = 1\n"])
def test_revert_of_a_removed_file_restores_knowledge_that_another_branch_has(space, repository, edit):
    repository.git("rm", "-q", "again.py")
    repository.commit()
    add(space, repository)
    assert not is_current(space)
    repository.commit({"again.py": f"{edit}{THREE}"})
    add(space, repository)
    line = 4 if edit else 3
    assert (places(space), is_current(space), problems(space)) == ([f"again.py:{line}"], True, [])
    switch(repository, "main")
    assert (places(space), is_current(space)) == (["retry.py:3"], True)
    space.engine.ledger.verify()

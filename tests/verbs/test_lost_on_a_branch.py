"""Knowledge is stale on a branch that lost its lines, and current on the branches that have them."""

import re
from itertools import pairwise

import pytest

from sources.git_scratch import Scratch
from space_parts import note, open_space
from treering.core.patch import Supersede, Transition
from treering.core.writing import replacement
from treering.extensions.server.web.overview import OBJECTS
from treering.ports.ledger import Selection
from treering.verbs.crystallize.submission import new_patch
from treering.verbs.query.space_status import STATUS

PLACE = re.compile(r" \((?:[\w./]+:[\d-]+, )?by an agent\)$|, by an agent(?=\)$)")
"""The author of a decision, with the lines that it cites if these are current, at the end of its text."""

CODE = "# Retry\n\nLIMIT = {limit}\n\nWAIT = 9\n"
THREE, FIVE = CODE.format(limit=3), CODE.format(limit=5)
EDITED = 'changed since: retry.py:3 is now "LIMIT = 5"'


@pytest.fixture
def space():
    with open_space() as space:
        yield space


@pytest.fixture
def repository(space, tmp_path, monkeypatch):
    """A repository on `main`, which was read, with a decision about its retry limit."""
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": THREE, "README.md": "# Acme\n"})
    monkeypatch.chdir(made.folder)
    add(space, made)
    space.decide("A call is tried three times", because=["retry.py:3"])
    return made


def add(space, repository):
    return space.ingest("repo", "/", {"path": str(repository.folder)})


def branch(space, repository, name, files):
    """Create a branch with a commit, and read it."""
    repository.git("checkout", "-q", "-b", name)
    repository.commit(files)
    return add(space, repository)


def switch(repository, name):
    repository.git("checkout", "-q", name)


def change_main(space, repository, files):
    switch(repository, "main")
    repository.commit(files)
    return add(space, repository)


def decision(space):
    report = space.query("search", input={"text": "A call is tried three times"}, options={"withdrawn": True})
    return next(hit for hit in report.hits if hit.type == "knowledge")


def state(space):
    """Return status, whether it is current, and the note of the decision in the work tree."""
    hit = decision(space)
    return hit.status, hit.current, hit.note


def sections(space):
    return {one.name: [PLACE.sub("", entry.text) for entry in one.entries] for one in space.query("brief").sections}


def stale_findings(space):
    return [one.explanation for one in space.lint("semantic", input={"rules": ["stale"]}).findings]


def test_main_loses_lines_that_an_older_branch_has(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    report = change_main(space, repository, {"retry.py": FIVE})
    assert report.staled == (decision(space).object_id,)
    assert state(space) == ("active", False, EDITED)
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}
    (explanation,) = stale_findings(space)
    assert explanation.startswith("'A call is tried three times' is stale on main: retry.py#L3-L3")
    assert "no longer contains 'LIMIT = 3', but 'LIMIT = 5'" in explanation
    switch(repository, "feature")
    assert state(space) == ("active", True, "")
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    assert stale_findings(space) == []


@pytest.mark.parametrize("is_in_repository", [True, False])
def test_status_and_health_count_the_stale_knowledge_that_lint_reports(
    space, repository, tmp_path, monkeypatch, is_in_repository
):
    space.decide("The project is called Acme", because=["README.md:1"])
    change_main(space, repository, {"README.md": "# Bolt\n"})
    repository.git("branch", "-q", "feature")
    switch(repository, "feature")
    add(space, repository)
    change_main(space, repository, {"retry.py": FIVE})
    if not is_in_repository:
        monkeypatch.chdir(tmp_path)
    assert len(stale_findings(space)) == space.perform(STATUS).stale == 2
    listed = space.perform(OBJECTS, "/", {"type": "knowledge", "statuses": ["stale"]}).items
    assert [(one.title, one.status, one.current, one.note) for one in listed] == [
        ("The project is called Acme", "stale", False, ""),
        ("A call is tried three times", "active", False, "stale on main"),
    ]
    switch(repository, "feature")
    assert len(stale_findings(space)) == space.perform(STATUS).stale == (1 if is_in_repository else 2)


def test_reading_a_branch_again_reports_nothing_new(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    for name in ("feature", "main"):
        switch(repository, name)
        assert add(space, repository).staled == ()


def test_deleted_branch_leaves_knowledge_of_main_stale(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    repository.git("branch", "-q", "-D", "feature")
    report = add(space, repository)
    assert not any("archived" in one for one in report.warnings)
    assert state(space)[:2] == ("stale", False)
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}


def test_knowledge_derived_from_stale_knowledge_is_not_archived(space, repository):
    parent = decision(space).object_id
    payload = {"subject": "alarm", "predicate": "after", "value": "four"}
    fact = {"kind": "fact", "title": "Alarm", "payload": payload, "derived_from": [parent], "status": "active"}
    derived = space.crystallize("knowledge", input=fact).ids[0]
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    assert space.engine.ledger.get(derived).status == "stale"


def test_branch_loses_lines_that_main_has(space, repository):
    report = branch(space, repository, "feature", {"retry.py": FIVE})
    assert report.staled == (decision(space).object_id,)
    assert state(space) == ("active", False, EDITED)
    switch(repository, "main")
    assert state(space) == ("active", True, "")


def test_brief_reports_stale_knowledge_after_a_merge(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    assert add(space, repository).staled == (decision(space).object_id,)
    assert state(space)[0] == "stale"
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}


def test_file_that_exists_again_is_not_reported_as_removed(space, repository):
    repository.git("rm", "-q", "retry.py")
    repository.commit()
    add(space, repository)
    assert "retry.py was removed" in stale_findings(space)[0]
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    (finding,) = stale_findings(space)
    assert "no longer contains 'LIMIT = 3', but 'LIMIT = 5'." in finding
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}


def test_removed_file_is_reported_on_its_branch(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    switch(repository, "main")
    repository.git("rm", "-q", "retry.py")
    repository.commit()
    add(space, repository)
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 removed)"]}
    assert "retry.py#L3-L3" in stale_findings(space)[0]
    assert "was removed" in stale_findings(space)[0]


def test_branch_older_than_the_lines_has_not_lost_them(space, tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": "# Retry\n"})
    made.git("branch", "old")
    made.commit({"retry.py": THREE})
    monkeypatch.chdir(made.folder)
    add(space, made)
    space.decide("A call is tried three times", because=["retry.py:3"])
    switch(made, "old")
    assert state(space) == ("active", False, "not in this tree")  # not read yet
    assert add(space, made).staled == ()
    assert state(space) == ("active", False, "not on this branch (main)")
    assert sections(space) == {}


def test_new_branch_inherits_the_losses_of_main(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    branch(space, repository, "later", {"retry.py": f"{FIVE}\nX = 1\n"})
    assert state(space) == ("active", False, EDITED)


def test_knowledge_stale_on_its_own_branch_is_not_on_main(space, repository):
    branch(space, repository, "feature", {"queue.md": "Messages stay a week.\n"})
    space.decide("Messages stay a week", because=["queue.md:1"])
    repository.commit({"queue.md": "Messages stay a day.\n"})
    add(space, repository)
    assert sections(space)["Stale"] == ["Messages stay a week (queue.md:1 changed)"]
    switch(repository, "main")
    assert sections(space) == {"Decided": ["A call is tried three times"]}


def test_rebased_branch_loses_its_lines_too(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    switch(repository, "feature")
    repository.git("rebase", "-q", "main")
    add(space, repository)
    assert state(space)[0] == "stale"


def test_revert_on_main_restores_knowledge_there(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    repository.git("revert", "--no-edit", "HEAD")
    add(space, repository)
    assert state(space) == ("active", True, "")
    assert stale_findings(space) == []
    space.engine.ledger.verify()


def test_older_branch_restores_knowledge_only_for_itself(space, repository):
    repository.git("branch", "old")
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    switch(repository, "old")
    add(space, repository)
    assert state(space) == ("active", True, "")
    switch(repository, "main")
    assert state(space) == ("active", False, EDITED)


def test_moved_lines_are_lost_on_no_branch(space, repository):
    branch(space, repository, "feature", {"retry.py": THREE.replace("WAIT = 9", "WAIT = 8")})
    assert state(space) == ("active", True, "")
    change_main(space, repository, {"retry.py": f"# Above.\n{THREE}"})
    assert state(space) == ("active", True, "")


def test_other_evidence_supports_knowledge_on_the_branch(space, repository):
    repository.commit({"limits.md": "Three tries.\n"})
    add(space, repository)
    space.decide("Three tries", because=["retry.py:3", "limits.md:1"])
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    assert "Three tries (retry.py:3 changed)" in sections(space)["Decided"]
    change_main(space, repository, {"limits.md": "Five tries.\n"})
    assert "Three tries (retry.py:3 changed, limits.md:1 changed)" in sections(space)["Stale"]


def test_renamed_file_is_reported_when_its_lines_change(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    switch(repository, "main")
    repository.git("mv", "retry.py", "again.py")
    repository.commit()
    assert add(space, repository).staled == ()
    assert state(space) == ("active", True, "")
    assert change_main(space, repository, {"again.py": FIVE}).staled == (decision(space).object_id,)
    assert state(space) == ("active", False, "changed since: these lines of retry.py are gone")
    assert change_main(space, repository, {"again.py": f"{FIVE}\nX = 1\n"}).staled == ()


def test_renamed_file_is_reported_when_it_is_removed(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    switch(repository, "main")
    for names in (["retry.py", "again.py"], ["again.py", "third.py"]):
        repository.git("mv", *names)
        repository.commit()
        assert add(space, repository).staled == ()
    repository.git("rm", "-q", "third.py")
    repository.commit()
    assert add(space, repository).staled == (decision(space).object_id,)


def test_lint_reactivates_knowledge_only_for_its_branch(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    change_main(space, repository, {"retry.py": FIVE})
    hit = decision(space)
    space.crystallize("knowledge", input={"id": hit.object_id, "summary": "Checked by hand."})
    repository.git("revert", "--no-edit", "HEAD")
    add(space, repository)
    assert decision(space).status == "stale"
    space.lint("repair", input={"rules": ["stale"]}, options={"apply": True})
    assert state(space) == ("active", True, "")
    switch(repository, "feature")
    assert state(space) == ("active", False, EDITED)


@pytest.mark.parametrize("line", ["LIMIT = 30", "LIMIT = 3 * RETRIES", "    LIMIT = 3"])
def test_lint_does_not_reactivate_knowledge_whose_line_became_longer(space, repository, line):
    repository.commit({"retry.py": THREE.replace("LIMIT = 3", line)})
    add(space, repository)
    assert space.lint("repair", input={"rules": ["stale"]}, options={"apply": True}).repairs == ()
    assert decision(space).status == "stale"


def test_repaired_evidence_is_the_cited_line(space, repository):
    change_main(space, repository, {"retry.py": FIVE})
    change_main(space, repository, {"retry.py": f"# More\n\n{THREE}\nLAST = 1\n"})
    space.lint("repair", input={"rules": ["stale"]}, options={"apply": True})
    (ref,) = space.engine.ledger.get(decision(space).object_id).evidence_refs
    assert ref.quote(space.engine.ledger.segment(ref.source_id, ref.segment_id)) == "LIMIT = 3"


def test_two_changed_files_both_lose_their_evidence(space, repository):
    repository.commit({"limits.md": "Three tries.\n"})
    add(space, repository)
    space.decide("Three tries", because=["retry.py:3", "limits.md:1"])
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE, "limits.md": "Five tries.\n"})
    assert "Three tries (retry.py:3 changed, limits.md:1 changed)" in sections(space)["Stale"]


def test_lost_evidence_is_an_event_of_its_own(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    assert space.engine.ledger.events_of(decision(space).object_id)[-1].event_type == "evidence_lost"


def test_dry_run_reports_what_the_branch_would_lose(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    switch(repository, "main")
    repository.commit({"retry.py": FIVE})
    report = space.ingest("repo", "/", {"path": str(repository.folder)}, {"dry_run": True})
    assert report.staled == (decision(space).object_id,)


def test_revert_restores_a_contested_claim_with_its_rival(space, repository):
    repository.commit({"limits.md": "The limit is 4.\n"})
    add(space, repository)
    three = space.fact("acme.limit = 3", because=["retry.py:3"]).id
    four = space.fact("acme.limit = 4", because=["limits.md:1"]).id
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    assert [space.engine.ledger.get(one).status for one in (three, four)] == ["stale", "active"]
    repository.git("revert", "--no-edit", "HEAD")
    report = add(space, repository)
    assert [space.engine.ledger.get(one).status for one in (three, four)] == ["contested", "contested"]
    assert set(report.contested) == {three, four}


def test_revert_leaves_a_disputed_claim_stale(space, repository):
    fact = space.fact("acme.limit = 3", because=["retry.py:3"]).id
    space.crystallize("knowledge", input={"id": fact, "status": "contested"})
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    repository.git("revert", "--no-edit", "HEAD")
    add(space, repository)
    assert space.engine.ledger.get(fact).status == "stale"


def test_one_reading_of_two_reverts_restores_nearby_decisions(space, repository):
    nearby = space.decide("A call waits nine seconds", because=["retry.py:5"]).id
    repository.commit({"retry.py": FIVE})
    add(space, repository)
    repository.commit({"retry.py": FIVE.replace("WAIT = 9", "WAIT = 8")})
    add(space, repository)
    repository.commit({"retry.py": THREE})
    add(space, repository)
    assert [space.engine.ledger.get(one).status for one in (decision(space).object_id, nearby)] == ["active", "active"]


def test_lint_leaves_knowledge_of_main_until_a_merge(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    (finding,) = space.lint("semantic", input={"rules": ["stale"]}).findings
    assert finding.after_merge
    advice = "It is current on other branches. Replace it with lines of this branch; archive it only after a merge."
    assert finding.explanation.endswith(advice)
    change_main(space, repository, {"retry.py": CODE.format(limit=6)})
    assert not space.lint("semantic", input={"rules": ["stale"]}).findings[0].after_merge


def replace_on_feature(space, repository):
    """Replace the decision on a branch that changed its lines, and return to `main`."""
    branch(space, repository, "feature", {"retry.py": FIVE})
    new = space.replace("A call is tried three times", "A call is tried five times", because=["retry.py:3"]).id
    switch(repository, "main")
    return new


def delete_feature(space, repository):
    repository.git("branch", "-q", "-D", "feature")
    return add(space, repository)


def test_decision_stays_current_on_main_after_its_branch_is_deleted(space, repository):
    new = replace_on_feature(space, repository)
    assert state(space) == ("active", True, "")
    delete_feature(space, repository)
    assert space.engine.ledger.get(new).status == "archived"
    assert state(space) == ("active", True, "")
    assert stale_findings(space) == []
    space.engine.ledger.verify()


def test_decision_replaced_on_a_branch_is_stale_when_main_changes(space, repository):
    replace_on_feature(space, repository)
    report = change_main(space, repository, {"retry.py": CODE.format(limit=6)})
    assert report.staled == (decision(space).object_id,)
    delete_feature(space, repository)
    assert state(space)[0] == "stale"


def test_two_replacements_on_a_branch_leave_main_unchanged(space, repository):
    between = replace_on_feature(space, repository)
    switch(repository, "feature")
    space.replace("A call is tried five times", "A call is tried at most five times", because=["retry.py:3"])
    assert sections(space) == {"Decided": ["A call is tried at most five times"]}
    switch(repository, "main")
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    delete_feature(space, repository)
    assert state(space)[0] == "active"
    assert space.engine.ledger.get(between).status == "superseded"


def test_merged_replacement_stays_when_its_branch_is_deleted(space, repository):
    new = replace_on_feature(space, repository)
    repository.git("merge", "-q", "feature")
    delete_feature(space, repository)
    assert space.engine.ledger.get(new).status == "active"
    assert state(space)[0] == "superseded"


def test_search_does_not_mark_lines_replaced_on_another_branch(space, repository):
    replace_on_feature(space, repository)
    question = {"text": "LIMIT = 3"}
    (lines,) = [one for one in space.query("search", input=question).hits if "LIMIT = 3" in one.text]
    assert (lines.current, lines.note) == (True, "")


def test_replacement_applies_on_its_branch_only(space, repository):
    replace_on_feature(space, repository)
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    assert stale_findings(space) == []
    switch(repository, "feature")
    assert sections(space) == {"Decided": ["A call is tried five times"]}
    assert state(space) == ("active", False, 'superseded by "A call is tried five times"')
    assert stale_findings(space) == []


@pytest.mark.parametrize("options", [{"limit": 1}, {"limit": 2}, {"limit": 2, "group": "source"}])
def test_hits_replaced_on_the_branch_make_room_for_others(space, repository, options):
    replace_on_feature(space, repository)
    for day in ("Monday", "Friday"):
        note(space, f"A call is tried three times on {day}.", origin=f"{day}.md")
    switch(repository, "feature")
    hits = space.query("search", input={"text": "A call is tried three times"}, options=options).hits
    assert len(hits) == options["limit"]
    assert all(hit.title != "A call is tried three times" for hit in hits)


@pytest.mark.parametrize("way", ["merge", "squash", "rebase"])
def test_replacement_applies_to_main_after_a_merge(space, repository, way):
    new = replace_on_feature(space, repository)
    if way == "squash":
        repository.git("merge", "-q", "--squash", "feature")
        repository.commit()
    else:
        repository.git(way, "-q", "feature")
    assert add(space, repository).staled == ()
    assert state(space)[0] == "superseded"
    assert space.engine.ledger.get(new).status == "active"
    space.engine.ledger.verify()


def test_reset_behind_a_merge_restores_the_replaced_decision(space, repository):
    replace_on_feature(space, repository)
    before = repository.git("rev-parse", "HEAD")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    repository.git("reset", "-q", "--hard", before)
    add(space, repository)
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    switch(repository, "feature")
    assert sections(space) == {"Decided": ["A call is tried five times"]}
    space.engine.ledger.verify()


@pytest.mark.parametrize("file", ["retry.py", "new.py"])
def test_reset_after_its_branch_was_deleted_restores_the_replaced_decision(space, repository, file):
    before = repository.git("rev-parse", "HEAD")
    branch(space, repository, "feature", {file: FIVE})
    three = decision(space).object_id
    new = space.replace(three, "A call is tried five times", because=[f"{file}:3"]).id
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    merged = repository.git("rev-parse", "HEAD")
    add(space, repository)
    delete_feature(space, repository)
    assert statuses(space, three, new) == ["superseded", "active"]
    repository.git("reset", "-q", "--hard", before)
    report = add(space, repository)
    assert statuses(space, three, new) == ["active", "stale"]
    assert state(space) == ("active", True, "")
    assert any("because the commits with what replaced it were undone" in one for one in report.warnings)
    assert add(space, repository).warnings == ()
    repository.git("reset", "-q", "--hard", merged)
    add(space, repository)
    assert statuses(space, three, new) == ["superseded", "active"]
    space.engine.ledger.verify()


def test_amended_lines_of_a_replacement_do_not_restore_what_it_replaced(space, repository):
    change_main(space, repository, {"new.py": FIVE})
    three = decision(space).object_id
    new = space.replace(three, "A call is tried five times", because=["new.py:3"]).id
    repository.write("new.py", CODE.format(limit=6))
    repository.git("commit", "-q", "-a", "--amend", "-m", "again")
    add(space, repository)
    assert statuses(space, three, new) == ["superseded", "stale"]


def test_reset_restores_a_decision_about_another_file(space, repository):
    three, five = decide_on_feature(space, repository)
    supersede(space, three, five)
    switch(repository, "main")
    before = repository.git("rev-parse", "HEAD")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    assert statuses(space, three, five) == ["superseded", "active"]
    repository.git("reset", "-q", "--hard", before)
    assert add(space, repository).staled == ()
    assert statuses(space, three, five) == ["active", "active"]
    assert space.engine.ledger.events_of(three)[-1].event_type == "restored"
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    space.engine.ledger.verify()


def test_replacement_for_all_branches_replaces_what_one_did(space, repository):
    three, five = decide_on_feature(space, repository)
    supersede(space, three, five)
    space.ingest("source", input={"text": "We try six times.", "origin": "note.md"})
    six = space.decide("A call is tried six times", because=["We try six times."]).id
    supersede(space, five, six)
    assert statuses(space, three, five, six) == ["superseded", "superseded", "active"]


def test_undo_of_a_replacement_on_a_branch_leaves_main_unchanged(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    space.replace("A call is tried three times", "A call is tried five times", because=["retry.py:3"])
    space.undo()
    assert state(space) == ("active", False, EDITED)
    switch(repository, "main")
    assert state(space) == ("active", True, "")


def statuses(space, *ids):
    return [space.engine.ledger.get(one).status for one in ids]


def supersede(space, old, by):
    """Replace knowledge by other existing knowledge; return the id of the patch."""
    ledger = space.engine.ledger
    operation = Supersede(id=old, expected_revision=ledger.get(old).revision, by=by)
    return ledger.commit(
        new_patch(space.engine, [operation], author=space.engine.author, reason="Test.").value
    ).patch_id


def decide_on_feature(space, repository):
    """Return the ids of the decision, and of one about another file on a branch that is to replace it."""
    branch(space, repository, "feature", {"new.py": FIVE})
    return decision(space).object_id, space.decide("A call is tried five times", because=["new.py:3"]).id


def test_going_back_to_a_decision_supersedes_the_other_alone(space, repository):
    three, five = decide_on_feature(space, repository)
    supersede(space, three, five)
    supersede(space, five, three)
    assert statuses(space, three, five) == ["active", "superseded"]
    assert [(one.source, one.target) for one in space.engine.ledger.links(three)] == [(three, five)]


@pytest.mark.parametrize("merged", [False, True])
def test_undone_replacement_returns_the_decision(space, repository, merged):
    three, five = decide_on_feature(space, repository)
    patch = supersede(space, three, five)
    if merged:
        switch(repository, "main")
        repository.git("merge", "-q", "feature")
        add(space, repository)
    space.engine.ledger.revert(patch, by=space.engine.author, reason="Undo.")
    assert statuses(space, three, five) == ["active", "active"]
    space.engine.ledger.verify()


def test_undone_replacement_is_stale_without_its_lines(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    three, five = decision(space).object_id, space.decide("A call is tried five times", because=["retry.py:3"]).id
    patch = supersede(space, three, five)
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    space.engine.ledger.revert(patch, by=space.engine.author, reason="Undo.")
    assert statuses(space, three, five) == ["stale", "active"]


def test_restored_decision_stays_current(space, repository):
    repository.commit({"new.py": FIVE})
    add(space, repository)
    three, five = decision(space).object_id, space.decide("A call is tried five times", because=["new.py:3"]).id
    supersede(space, three, five)
    for status in ("archived", "active"):
        space.crystallize("knowledge", input={"id": three, "status": status})
    repository.commit({"retry.py": f"# Above.\n{THREE}"})
    add(space, repository)
    assert state(space) == ("active", True, "")
    for limit in (FIVE, THREE):
        repository.commit({"retry.py": limit})
        add(space, repository)
    assert state(space) == ("active", True, "")
    supersede(space, five, three)
    assert statuses(space, three, five) == ["active", "superseded"]


def test_branch_names_of_other_repositories_mean_nothing(space, repository, tmp_path, monkeypatch):
    _, five = decide_on_feature(space, repository)
    other = Scratch(tmp_path / "beta")
    other.commit({"README.md": "# Beta\n"})
    monkeypatch.chdir(other.folder)
    add(space, other)
    branch(space, other, "feature", {"queue.md": "Messages stay a week.\n"})
    week = space.decide("Messages stay a week", because=["queue.md:1"]).id
    supersede(space, week, five)
    assert statuses(space, week, five) == ["active", "active"]
    switch(repository, "main")
    delete_feature(space, repository)
    assert statuses(space, week, five) == ["active", "archived"]


def test_fact_replaced_on_a_branch_is_contested_on_none(space, repository):
    three = space.fact("acme.limit = 3", because=["retry.py:3"]).id
    branch(space, repository, "feature", {"limits.md": "The limit is 4.\n"})
    payload = {"subject": "acme", "predicate": "limit", "value": 4}
    fact = {"kind": "fact", "title": "acme.limit = 4", "payload": payload, "because": ["limits.md:1"]}
    four = space.crystallize("supersede", input={"id": three, "knowledge": fact}).ids[0]
    assert [space.engine.ledger.get(one).status for one in (three, four)] == ["active", "active"]


def test_replacement_on_main_applies_to_older_branches(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    change_main(space, repository, {"retry.py": FIVE})
    space.replace("A call is tried three times", "A call is tried five times", because=["retry.py:3"])
    assert state(space)[0] == "superseded"


def test_deleted_branch_is_noticed_with_unpushed_commits(space, repository, tmp_path):
    repository.git("clone", "-q", "--bare", str(repository.folder), str(tmp_path / "origin.git"))
    repository.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    repository.git("fetch", "-q", "origin")
    branch(space, repository, "feature", {"queue.md": "Messages stay a week.\n"})
    decided = space.decide("Messages stay a week", because=["queue.md:1"]).id
    change_main(space, repository, {"README.md": "# Acme\n\nUnpushed.\n"})
    repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    assert space.engine.ledger.get(decided).status == "archived"


def test_deleted_branch_is_not_archived_before_main_is_pulled(space, repository, tmp_path):
    branch(space, repository, "feature", {"queue.md": "Messages stay a week.\n"})
    decided = space.decide("Messages stay a week", because=["queue.md:1"]).id
    repository.git("clone", "-q", "--bare", str(repository.folder), str(tmp_path / "origin.git"))
    repository.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    repository.git("push", "-q", "origin", "feature:main")
    switch(repository, "main")
    repository.git("fetch", "-q", "origin", "main:refs/remotes/origin/main")
    repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    assert space.engine.ledger.get(decided).status == "active"


def test_stale_decision_replaced_on_a_branch_is_no_problem_there(space, repository):
    change_main(space, repository, {"retry.py": FIVE})
    branch(space, repository, "feature", {"retry.py": CODE.format(limit=6)})
    space.replace("A call is tried three times", "A call is tried six times", because=["retry.py:3"])
    assert sections(space) == {"Decided": ["A call is tried six times"]}
    assert stale_findings(space) == []
    switch(repository, "main")
    assert sections(space) == {"Stale": ["A call is tried three times (retry.py:3 changed)"]}


def test_new_lines_confirm_a_decision_on_a_branch(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    space.decide("A call is tried three times", because=["retry.py:3"])
    assert state(space) == ("active", True, "")
    switch(repository, "main")
    assert state(space) == ("active", True, "")


def test_replacement_that_main_lost_still_replaces(space, repository):
    new = replace_on_feature(space, repository)
    repository.git("merge", "-q", "feature")
    add(space, repository)
    report = change_main(space, repository, {"retry.py": CODE.format(limit=6)})
    assert report.staled == (new,)
    assert sections(space) == {"Stale": ["A call is tried five times (retry.py:3 changed)"]}
    assert state(space)[0] == "superseded"


def partly_changed(space):
    return [one.explanation for one in space.lint("semantic", input={"rules": ["partly-changed"]}).findings]


def evidence(space):
    return space.engine.ledger.get(decision(space).object_id).evidence_refs


def test_recorded_again_on_a_branch_is_clean_after_a_merge(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    space.decide("A call is tried three times", because=["retry.py:3"])
    assert len(evidence(space)) == 2
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    assert partly_changed(space) == stale_findings(space) == []
    assert len(evidence(space)) == 1


def test_merge_reports_other_evidence_that_changed(space, repository):
    text = "".join(f"Paragraph {number} is about calls and their limits.\n\n" for number in range(60))
    pages = [f"# Limits\n\n{text}# Waits\n\nNine seconds{more}.\n\n{text}" for more in ("", " or more")]
    change_main(space, repository, {"pages.md": pages[0]})
    known = space.decide("We wait for nine seconds", because=["pages.md:3", "pages.md:125"]).id
    assert len(space.engine.ledger.get(known).evidence_refs) == 2
    branch(space, repository, "feature", {"pages.md": f"# First\n\nNew.\n\n{pages[1]}"})
    assert partly_changed(space) == []
    switch(repository, "main")
    repository.git("merge", "-q", "feature")
    add(space, repository)
    (explanation,) = partly_changed(space)
    assert "no longer contains 'Nine seconds.'" in explanation


def test_page_names_lost_evidence_of_a_current_decision(space, repository):
    known = space.decide("A call is tried three times", because=["README.md:1"]).id

    def lost(**options):
        return space.query("page", input={"id": known}, options=options).lost

    before = space.engine.ledger.sequence()
    assert lost() == ()
    change_main(space, repository, {"retry.py": FIVE})
    assert lost() == ("retry.py:3 changed",)
    assert lost(as_of=before) == ()


@pytest.mark.parametrize("again", ["decide", "replace"])
def test_recorded_again_replaces_evidence_that_is_gone(space, repository, again):
    space.decide("A call is tried three times", because=["README.md:1"])
    change_main(space, repository, {"retry.py": FIVE})
    assert len(partly_changed(space)) == 1
    if again == "decide":
        space.decide("A call is tried three times", because=["README.md:1"])
    else:
        space.replace("A call is tried three times", "A call is tried three times")
    assert partly_changed(space) == []
    assert len(evidence(space)) == (1 if again == "decide" else 2)


def test_replacing_by_the_same_words_confirms_a_decision(space, repository):
    known = decision(space).object_id
    branch(space, repository, "feature", {"retry.py": FIVE})
    assert space.replace(known, "A call is tried three times").id == known
    assert stale_findings(space) == []
    assert state(space) == ("active", True, "")


def test_deleted_branch_reports_nothing_stale_again(space, repository):
    branch(space, repository, "feature", {"README.md": "# Acme\n\nMore.\n"})
    assert change_main(space, repository, {"retry.py": FIVE}).staled == (decision(space).object_id,)
    repository.git("branch", "-q", "-D", "feature")
    assert add(space, repository).staled == ()
    assert state(space)[0] == "stale"


@pytest.mark.parametrize("withdrawn", [True, False])
def test_decision_replaced_on_the_branch_is_withdrawn_there(space, repository, withdrawn):
    old = decision(space).object_id
    new = replace_on_feature(space, repository)
    switch(repository, "feature")
    report = space.query("search", input={"text": "A call is tried"}, options={"withdrawn": withdrawn})
    assert {hit.object_id for hit in report.hits if hit.type == "knowledge"} == {new, *([old] if withdrawn else [])}
    pack = space.query("context", input={"task": "How often is a call tried?"}, options={"withdrawn": withdrawn}).pack
    assert old not in {item.object_id for item in pack.items} or withdrawn


@pytest.mark.parametrize("steps", [1, 2])
def test_deleted_branch_returns_what_an_earlier_version_superseded(space, repository, monkeypatch, steps):
    three = decision(space).object_id
    branch(space, repository, "feature", {"retry.py": FIVE})
    ids = [space.decide(f"A call is tried {one} times", because=["retry.py:3"]).id for one in ("five", "six")[:steps]]
    with monkeypatch.context() as earlier:
        earlier.setattr(replacement, "_replaces", lambda *_: True)  # replaced on all branches at once
        for old, by in pairwise([three, *ids]):
            supersede(space, old, by)
    assert statuses(space, three, ids[-1]) == ["superseded", "active"]
    switch(repository, "main")
    report = delete_feature(space, repository)
    assert state(space) == ("active", True, "")
    assert statuses(space, ids[-1]) == ["archived"]
    assert any("1 active again because what replaced it was archived" in one for one in report.warnings)
    assert space.engine.ledger.links(three) == []
    space.engine.ledger.verify()


# Evidence with several passages.


CHECKLIST = "# Checklist\n\nFor each release.\n\n## Tag\n\nCreate a tag.\n\n## Publish\n\nPublish the crate.\n"


@pytest.fixture
def checklist(space, tmp_path):
    """A repository with a checklist of several passages, and a decision based on all of it."""
    made = Scratch(tmp_path / "release")
    made.commit({"checklist.md": CHECKLIST})
    add(space, made)
    space.decide("Releases follow the checklist", because=["checklist.md"])
    return made


def edit_checklist(space, repository):
    """Read an uncommitted edit of one passage."""
    repository.write("checklist.md", CHECKLIST.replace("a tag", "a signed tag"))
    return add_work_tree(space, repository)


def add_work_tree(space, repository):
    return space.ingest("repo", "/", {"path": str(repository.folder)}, {"worktree": True})


def test_reading_an_edit_of_one_cited_passage_warns_at_once(space, checklist):
    report = edit_checklist(space, checklist)
    assert "Part of the evidence for 'Releases follow the checklist' changed. See lint." in report.warnings
    assert len(partly_changed(space)) == 1


def test_knowledge_is_whole_again_after_an_edit_is_reverted(space, checklist):
    edit_checklist(space, checklist)
    checklist.git("checkout", "-q", "checklist.md")
    report = add_work_tree(space, checklist)
    assert not report.warnings
    assert not partly_changed(space)


# Facts that only a file states.


def manifest(version="1.0.0", rust="1.88"):
    return (
        f'[package]\nname = "mini"\nversion = "{version}"\nrust-version = "{rust}"\n\n[dependencies]\nserde = "1.0"\n'
    )


@pytest.fixture
def crate(tmp_path, monkeypatch):
    """A repository with a manifest that has another version since the tag `v1`."""
    made = Scratch(tmp_path / "mini")
    made.commit({"Cargo.toml": manifest()})
    made.git("tag", "v1")
    made.commit({"Cargo.toml": manifest("1.1.0")})
    monkeypatch.chdir(made.folder)
    return made


def problems(space):
    return [one.explanation for one in space.lint("semantic").findings]


def facts(space):
    found = space.engine.ledger.select(Selection(types=("knowledge",)))
    return {item.title: item.status for item in found if item.status != "archived"}


def test_facts_of_a_manifest_follow_from_a_tag_to_the_branch(space, crate):
    crate.git("checkout", "-q", "v1")
    add(space, crate)
    switch(crate, "main")
    report = add(space, crate)
    assert (report.staled, report.warnings) == ((), ())
    assert problems(space) == []
    assert "mini: version 1.0.0" not in facts(space)
    assert facts(space)["mini: version 1.1.0"] == "candidate"
    assert facts(space)["mini: depends on serde 1.0"] == "candidate"


def test_a_fact_of_a_reverted_uncommitted_edit_leaves_silently(space, crate):
    add(space, crate)
    before = facts(space)
    crate.write("Cargo.toml", manifest("1.1.0", rust="1.90"))
    assert add_work_tree(space, crate).staled == ()
    assert "mini: requires rust 1.90" in facts(space)
    crate.git("checkout", "-q", "Cargo.toml")
    assert add(space, crate).staled == ()
    assert (facts(space), problems(space)) == (before, [])


def test_a_confirmed_fact_of_a_manifest_becomes_stale(space, crate):
    add(space, crate)
    identity = next(
        item.id
        for item in space.engine.ledger.select(Selection(types=("knowledge",)))
        if item.title == "mini: requires rust 1.88"
    )
    confirmed = [Transition(id=identity, expected_revision=1, to="active")]
    space.engine.ledger.commit(new_patch(space.engine, confirmed, author=space.engine.author, reason="Seen").value)
    crate.commit({"Cargo.toml": manifest("1.1.0", rust="1.90")})
    assert add(space, crate).staled == (identity,)


def test_a_decision_from_a_tag_is_stale_if_the_branch_changed_its_lines(space, crate):
    crate.git("checkout", "-q", "v1")
    add(space, crate)
    identity = space.decide("The first version is out", because=["Cargo.toml:3"]).id
    switch(crate, "main")
    report = add(space, crate)
    assert (report.staled, report.warnings) == ((identity,), ())


def test_clone_that_is_behind_the_read_commit_has_changed_nothing(space, tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": FIVE, "README.md": "# Acme\n"})
    made.commit({"retry.py": THREE})
    monkeypatch.chdir(made.folder)
    add(space, made)
    space.decide("A call is tried three times", because=["retry.py:3"])
    made.git("reset", "-q", "--hard", "HEAD~1")
    assert state(space) == ("active", True, "")
    assert "Stale" not in sections(space)
    made.commit({"retry.py": CODE.format(limit=9)})
    assert state(space) == ("active", False, 'changed since: retry.py:3 is now "LIMIT = 9"')


def test_brief_says_that_the_branch_changed_what_a_decision_states(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    assert sections(space)["Decided"] == [
        'A call is tried three times (this branch changed what it states: retry.py:3 is now "LIMIT = 5")'
    ]


def test_brief_gives_the_reason_of_a_decision_that_the_branch_changed(space, repository):
    space.decide("Waits last nine seconds", because=["retry.py:5"], why="The server needs a rest")
    branch(space, repository, "feature", {"retry.py": THREE.replace("WAIT = 9", "WAIT = 1")})
    assert sections(space)["Decided"][0] == (
        'Waits last nine seconds (this branch changed what it states: retry.py:5 is now "WAIT = 1", by an agent) '
        "– why: The server needs a rest"
    )


def test_decision_about_lines_written_after_the_branch_began_is_shown_if_it_edits_them(space, tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": FIVE, "README.md": "# Acme\n"})
    made.git("branch", "feature")
    monkeypatch.chdir(made.folder)
    made.commit({"retry.py": THREE})
    add(space, made)
    space.decide("A call is tried three times", because=["retry.py:3"])
    switch(made, "feature")
    assert "Decided" not in sections(space)
    made.commit({"retry.py": CODE.format(limit=9)})
    assert "this branch changed what it states" in sections(space)["Decided"][0]


def decide_about_feature(space, repository, text, files, *, because):
    """Record a decision on a branch that changed files, and return to main."""
    branch(space, repository, "feature", files)
    known = space.decide(text, because=[because]).id
    switch(repository, "main")
    return known


def test_decision_on_a_branch_is_current_on_main_if_main_has_the_lines(space, repository):
    decide_about_feature(space, repository, "Waiting takes nine seconds", {"retry.py": FIVE}, because="retry.py:5")
    assert "Waiting takes nine seconds" in sections(space)["Decided"]


@pytest.mark.parametrize("because", ["retry.py:5", "retry.py:3"])
def test_decision_of_a_merged_branch_is_stale_if_main_changes_its_lines_before_it_is_read(space, repository, because):
    known = decide_about_feature(space, repository, "A call is patient", {"retry.py": FIVE}, because=because)
    repository.git("merge", "-q", "feature")
    report = change_main(space, repository, {"retry.py": "# Retry\n\nLIMIT = 7\n\nWAIT = 8\n"})
    assert known in report.staled
    assert f"A call is patient ({because} changed)" in sections(space)["Stale"]
    assert any("A call is patient" in one for one in stale_findings(space))
    switch(repository, "feature")
    assert "A call is patient" in sections(space)["Decided"]


def test_decision_on_a_branch_stays_current_if_main_changes_other_lines(space, repository):
    decide_about_feature(space, repository, "Waiting takes nine seconds", {"retry.py": FIVE}, because="retry.py:5")
    report = change_main(space, repository, {"retry.py": CODE.format(limit=4)})
    assert report.staled == (decision(space).object_id,)
    assert sections(space)["Decided"] == ["Waiting takes nine seconds"]


def test_decision_of_an_unmerged_branch_is_not_stale_on_main(space, repository):
    known = decide_about_feature(
        space, repository, "A call is tried five times", {"retry.py": FIVE}, because="retry.py:3"
    )
    report = change_main(space, repository, {"retry.py": CODE.format(limit=4)})
    assert known not in report.staled
    assert "A call is tried five times" not in sections(space).get("Stale", [])


def test_lint_warns_of_unread_lines_only_if_they_changed_since_the_branch_was_read(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    assert space.lint("semantic").warnings == ()
    space.replace(decision(space).object_id, "A call is tried five times", because=["retry.py:3"])
    assert space.lint("semantic").warnings == ()
    (repository.folder / "retry.py").write_text(CODE.format(limit=6))
    (warning,) = space.lint("semantic").warnings
    assert warning.startswith("1 statement cites lines that have changed since they were read (retry.py:3 is now")


def test_brief_shows_stale_facts_and_procedures(space, repository):
    fact = {"kind": "fact", "title": "Limit", "payload": {"subject": "retry", "predicate": "limit", "value": 3}}
    procedure = {"kind": "procedure", "title": "Try again", "payload": {"steps": ["Call three times"]}}
    for known in (fact, procedure):
        space.crystallize("knowledge", input={**known, "evidence_refs": ["retry.py:3"], "status": "active"})
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    branch(space, repository, "feature", {"retry.py": FIVE})
    stale = sections(space)["Stale"]
    assert len(stale) == 2
    assert all("(retry.py:3 changed)" in entry for entry in stale)
    switch(repository, "main")
    assert sections(space) == {"Decided": ["A call is tried three times"]}
    change_main(space, repository, {"retry.py": CODE.format(limit=7)})
    repository.git("branch", "-q", "-D", "feature")
    add(space, repository)
    assert len(sections(space)["Stale"]) == 3


@pytest.mark.parametrize("records_on_feature", [False, True])
def test_place_in_two_passages_is_current_on_branches_that_change_other_lines(space, repository, records_on_feature):
    def code(name, word):
        lines = "".join(f"    {name}_{line} = compute({line}, '{word}')\n" for line in range(40))
        return f"def {name}():\n{lines}    return {name}_1\n"

    def decide():
        space.decide("First comes before second", because=["two.py:41-46"])

    change_main(space, repository, {"two.py": f"{code('first', 'some')}\n\n{code('second', 'some')}"})
    if not records_on_feature:
        decide()
    changed = f"{code('first', 'some').replace('some', 'other', 1)}\n\n{code('second', 'some')}"
    branch(space, repository, "feature", {"two.py": changed})
    if records_on_feature:
        decide()
    for name in ("feature", "main"):
        switch(repository, name)
        assert "First comes before second" in sections(space)["Decided"]
        assert not any("First comes" in one for one in stale_findings(space))
    report = change_main(space, repository, {"two.py": changed.replace("return first_1", "return first_2")})
    assert len(report.staled) == 1
    switch(repository, "feature")
    assert "First comes before second" in sections(space)["Decided"]


def test_context_puts_decisions_of_other_branches_last_without_lines(space, repository):
    branch(space, repository, "feature", {"retry.py": FIVE})
    space.decide("A call is tried five times", because=["retry.py:3"])
    switch(repository, "main")
    pack = space.query("context", input={"task": "Let a call be tried five times"}).pack
    decisions = [item for item in pack.items if item.kind == "decision"]
    assert [item.title for item in decisions] == ["A call is tried three times", "A call is tried five times"]
    places = {one.mark: one.place for one in pack.citations}
    assert [[places[mark].partition(" ")[0] for mark in one.citations] for one in decisions] == [
        ["retry.py#L3-L3"],
        [""],
    ]
    assert "not on this branch (feature)" in decisions[1].flags


def test_warning_about_an_unread_branch_agrees_with_the_brief(space, repository):
    repository.git("checkout", "-q", "-b", "feature")
    repository.commit({"retry.py": FIVE})
    report = space.query("brief")
    (entry,) = sections(space)["Decided"]
    assert 'this branch changed what it states: retry.py:3 is now "LIMIT = 5"' in entry
    assert "feature was not read, so only its changes of cited lines are known" in " ".join(report.warnings)

"""The evidence of a statement that replaces another without naming any."""

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space, read
from treering.core.errors import InvalidInput
from treering.verbs.evidence.cited import cited_places

CODE = "import sys\n\n\ndef main():\n    try:\n        run()\n    except Abort:\n        sys.exit(1)\n"
EDITED = CODE.replace("import sys\n", "import sys\nimport os\n").replace("sys.exit(1)", "sys.exit(130)")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    made = Scratch(tmp_path / "acme")
    made.commit({"core.py": CODE})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture(params=["user", "agent"])
def space(request, repository):
    with open_space(channel=request.param) as space:
        space.add(".")
        yield space


def places(space, identity):
    return cited_places(space.engine.ledger, read(space, identity))


def test_replacement_inherits_evidence(space):
    space.decide("An abort exits with 1", because="core.py:7-8")
    made = space.replace("An abort", "An abort exits with 2")
    assert places(space, made.id) == ("core.py:7-8",)
    assert [(one.short_place, one.inherited) for one in made.evidence] == [("core.py:7-8 (as before)", True)]


def test_inherited_lines_follow_an_edited_file(space, repository):
    space.decide("An abort exits with 1", because="core.py:7-8")
    (repository.folder / "core.py").write_text(EDITED)
    made = space.replace("An abort", "An abort exits with 130")
    assert places(space, made.id) == ("core.py:8-9",)
    assert made.evidence[0].quote == "    except Abort:\n        sys.exit(130)"


def test_inherited_evidence_can_become_stale(space, repository):
    space.decide("An abort exits with 1", because="core.py:7-8")
    made = space.replace("An abort", "An abort exits with 2")
    (repository.folder / "core.py").write_text(EDITED)
    assert space.add("core.py").staled == (made.id,)


def test_repeated_statement_confirms_stale_evidence(space, repository):
    old = space.rule("An abort ends the program", because="core.py:7-8")
    (repository.folder / "core.py").write_text(EDITED)
    space.add("core.py")
    space.replace(old.id, "An abort ends the program")
    assert read(space, old.id).status == "active"
    assert places(space, old.id) == ("core.py:8-9",)


def test_given_evidence_is_not_inherited(space):
    space.decide("An abort exits with 1", because="core.py:7-8")
    assert places(space, space.replace("An abort", "A run aborts", because="core.py:6").id) == ("core.py:6",)


def test_supersede_mode_inherits_evidence(space):
    old = space.decide("An abort exits with 1", because="core.py:7-8")
    given = {"id": old.id, "kind": "decision", "title": "T", "question": "Which code?", "outcome": "2"}
    assert [one.short_place for one in space.crystallize("supersede", input=given).evidence] == [
        "core.py:7-8 (as before)"
    ]


@pytest.mark.parametrize("text", ["", CODE.partition("    except")[0]])
def test_deleted_lines_are_not_inherited(space, repository, text):
    old = space.decide("An abort exits with 1", because="core.py:7-8")
    file = repository.folder / "core.py"
    file.write_text(text) if text else file.unlink()
    space.ingest("repo", input={"path": "."}, options={"worktree": True})
    if space.engine.author.channel == "user":
        made = space.replace("An abort", "An abort exits with 2")
        assert made.report.warnings == ("without evidence now; add --because PATH:LINES",)
        assert places(space, made.id) == ()
        return
    with pytest.raises(InvalidInput) as refused:
        space.replace("An abort", "An abort exits with 2")
    assert "because" in refused.value.hint
    assert read(space, old.id).status == "stale"


def test_declaration_is_replaced_by_a_declaration(repository):
    with open_space(channel="user") as space:
        space.decide("Ship on Tuesdays")
        made = space.replace("Ship on", "Ship on Fridays")
        assert (places(space, made.id), made.report.warnings) == ((), ())


def test_lines_with_the_old_value_are_no_evidence_of_a_new_one(space, repository):
    repository.commit({"README.md": "# Acme\n\nAn abort is reported to the shell.\n"})
    old = space.fact("exit_code = 1", of="abort", because=["core.py:8", "README.md:3"])
    made = space.replace(old.id, "exit_code = 2")
    assert places(space, made.id) == ("README.md:3",)
    assert made.report.warnings == ("core.py:8 still states the old value; add --because PATH:LINES",)


def test_value_without_other_evidence_is_declared_or_refused(space):
    old = space.fact("exit_code = 1", of="abort", because="core.py:8")
    if space.engine.author.channel == "user":
        made = space.replace(old.id, "exit_code = 2")
        assert places(space, made.id) == ()
        (warning,) = made.report.warnings
        assert warning.startswith("without evidence now; core.py:8 still states the old value")
        assert read(space, made.id).memory_source == "user_declared"
        return
    with pytest.raises(InvalidInput, match=r"still states the old value: core\.py:8") as refused:
        space.replace(old.id, "exit_code = 2")
    assert "because" in refused.value.hint


def test_edited_lines_with_the_new_value_are_inherited(space, repository):
    old = space.fact("exit_code = 1", of="abort", because="core.py:7-8")
    (repository.folder / "core.py").write_text(EDITED)
    made = space.replace(old.id, "exit_code = 130")
    assert (places(space, made.id), made.report.warnings) == (("core.py:8-9",), ())

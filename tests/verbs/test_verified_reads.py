"""What is shown or cited is what the audit log says, also where nobody has audited since it was changed."""

import shutil
from contextlib import contextmanager

import apsw
import pytest

from space_parts import decide, move, note, read, records, status, task
from treering.core.errors import Corrupt, NotFound
from treering.stores.rows.packing import pack, unpack

FORGED = "wire the money to Mallory"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "space.db"


@pytest.fixture
def known(open_space, path):
    """The ids of a file's objects: the same words stand in what will be altered and in what will not."""
    with open_space(f"sqlite:{path}", actor="ada") as space:
        quote = note(space, "The upload is retried five times.", origin="a.md", title="Uploads")
        other = note(space, "An upload is logged.", origin="b.md", title="Logs")
        decision = decide(space, "Retry the upload", quote)
        space.crystallize("knowledge", input={"id": decision, "summary": "Retry the upload again"})
        sound = decide(space, "Log the upload", other)
        old = decide(space, "Upload by hand", other)
        space.crystallize("supersede", input={"id": old, "by": sound})
        knowledge = {"decision": decision, "sound": sound, "old": old, "work": task(space, "Speed up the upload")}
        return {**knowledge, "source": quote["source_id"], "other": other["source_id"], "segment": quote["segment_id"]}


@contextmanager
def behind(path):
    """Open the file as somebody else would, with what an attacker needs."""
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("edited", lambda body, old, new: pack(unpack(body).replace(old, new)), 3)
    connection.create_scalar_function("packed", pack, 1)
    yield connection
    connection.close()


def edit_body(table, old, new, where):
    return f"UPDATE {table} SET body = edited(body, '{old}', '{new}') WHERE {where}"


ALTERATIONS = {
    "the text of a segment": (
        "source",
        "UPDATE texts SET body = packed('The upload: {forged}.') WHERE row IN "
        "(SELECT text_row FROM segments WHERE source_id = '{source}')",
    ),
    "the place of a segment": (
        "source",
        'UPDATE segments SET place = edited(place, \'"heading":"\', \'"heading":"{forged} \') '
        "WHERE source_id = '{source}'",
    ),
    "segments swapped": (
        "source other",
        "UPDATE segments SET text_row = (SELECT sum(text_row) FROM segments s WHERE s.source_id IN "
        "('{source}', '{other}')) - text_row WHERE source_id IN ('{source}', '{other}')",
    ),
    "the body of an object": (
        "decision",
        "UPDATE revisions SET body = edited(body, 'Retry the upload', 'Retry the upload: {forged}') "
        "WHERE id = '{decision}'",
    ),
    "the title of a row": ("decision", "UPDATE objects SET title = 'upload: {forged}' WHERE id = '{decision}'"),
    "the title of a source": ("source", "UPDATE objects SET title = '{forged}' WHERE id = '{source}'"),
    "the origin of a source": ("source", "UPDATE objects SET origin = '{forged}' WHERE id = '{source}'"),
    "a status in the row and in the index": (
        "old",
        "UPDATE objects SET status = 'active' WHERE id = '{old}'; "
        "UPDATE passages SET status = 'active', live = 1 WHERE object_id = '{old}'",
    ),
    "the channel of a row": ("decision", "UPDATE objects SET channel = 'user' WHERE id = '{decision}'"),
    "evidence that points elsewhere": (
        "decision",
        "UPDATE revisions SET body = edited(body, '{source}', '{other}') WHERE id = '{decision}'",
    ),
    "a revision rolled back": (
        "decision",
        "DELETE FROM revisions WHERE id = '{decision}' AND revision = 2; "
        "UPDATE objects SET revision = 1, updated_at = created_at WHERE id = '{decision}'",
    ),
    "a row of another object": (
        "decision",
        "UPDATE revisions SET body = (SELECT body FROM revisions r WHERE r.id = '{work}') WHERE id = '{decision}'",
    ),
    "an event that agrees with the forged body, but not with its own hash": (
        "decision",
        "UPDATE revisions SET body = edited(body, 'Retry the upload', '{forged}') WHERE id = '{decision}'; "
        "UPDATE audit SET body = edited(body, '\"status\"', '\"state\"') WHERE target = '{decision}'",
    ),
    "an event that is gone": ("decision", "DELETE FROM audit WHERE target = '{decision}'"),
    "a body that is not JSON": ("decision", "UPDATE revisions SET body = 'x' WHERE id = '{decision}'"),
    "a text that is gone": (
        "source",
        "PRAGMA foreign_keys = OFF; DELETE FROM texts WHERE row IN "
        "(SELECT text_row FROM segments WHERE source_id = '{source}')",
    ),
    "a segment said to have vanished": ("source", "UPDATE segments SET vanished = 1 WHERE source_id = '{source}'"),
}
SOUND = ("sound", "work")
BESIDE = {"the place of a segment", "a segment said to have vanished"}
"""What an object that is read whole does not come from."""
HIDDEN = {"a status in the row and in the index"}
"""What no search finds but one for what was withdrawn: the words of it stand in the index of the past."""


def alter(path, known, name):
    """Alter the file; return the ids of what was altered."""
    altered, script = ALTERATIONS[name]
    with behind(path) as connection:
        for statement in script.format(forged=FORGED, **known).split("; "):
            connection.execute(statement)
    return [known[one] for one in altered.split()]


@pytest.mark.parametrize("name", ALTERATIONS)
class TestSearches:
    @pytest.fixture(params=["opened after", "opened before"])
    def altered(self, request, open_space, path, known, name):
        """A space that was altered, and the ids of what was."""
        before = open_space(f"sqlite:{path}") if request.param == "opened before" else None
        if before:
            for mode, key in (("search", "text"), ("context", "task")):
                before.query(mode, input={key: "upload"}, options={"withdrawn": True})
        ids = alter(path, known, name)
        return before or open_space(f"sqlite:{path}"), ids

    @pytest.mark.sampled(30)
    @pytest.mark.parametrize(("mode", "key"), [("search", "text"), ("context", "task")])
    @pytest.mark.parametrize("options", [{}, {"withdrawn": True}], ids=str)
    def test_leave_it_out_and_say_so(self, altered, known, name, mode, key, options):
        space, ids = altered
        report = space.query(mode, input={key: "upload"}, options=options)
        answer = report.model_dump_json(exclude={"warnings"})
        assert FORGED not in answer
        shown = [hit.object_id for hit in report.hits] if mode == "search" else [i.object_id for i in report.pack.items]
        assert set(shown).isdisjoint(ids)
        assert {known[one] for one in SOUND} <= set(shown) | set(ids)
        warned = "\n".join(report.warnings)
        assert FORGED not in warned
        if options or name not in HIDDEN:
            assert any(identity in warned for identity in ids)
            assert "lint audit" in warned

    @pytest.mark.sampled(8)
    def test_of_the_past_show_nothing_forged(self, altered, known, name):
        space, _ = altered
        for mode, key in (("search", "text"), ("context", "task")):
            report = space.query(mode, input={key: "upload"}, options={"as_of": 10**6})
            assert report.status == "ok"
            assert FORGED not in report.model_dump_json()

    @pytest.mark.sampled(8)
    def test_direct_reads_say_that_it_is_altered(self, altered, known, name):
        space, (identity, *_) = altered
        if name in BESIDE:
            assert FORGED not in space.query("page", input={"id": identity}).model_dump_json()
            return
        for mode, given in (("page", {"id": identity}), ("expand", {"ids": [identity]})):
            with pytest.raises(Corrupt) as caught:
                space.query(mode, input=given)
            assert caught.value.details["id"] == identity
            assert "lint audit" in caught.value.hint
        with pytest.raises(Corrupt):
            read(space, identity)
        assert read(space, known["work"]).id == known["work"]

    @pytest.mark.sampled(8)
    def test_lint_names_it_and_repairs_nothing(self, altered, known, name):
        space, ids = altered
        before = space.engine.ledger.sequence()
        if name in BESIDE:
            assert not space.lint("audit").verified
            return
        found = [finding for finding in space.lint("structure").findings if finding.rule == "altered"]
        assert set(ids) & {identity for finding in found for identity in finding.ids}
        report = space.lint("repair", options={"apply": True})
        assert (report.repairs, report.status) == ((), "unchanged")
        assert any("does not verify" in warning for warning in report.warnings)
        assert space.engine.ledger.sequence() == before
        assert not space.lint("audit").verified

    @pytest.mark.sampled(8)
    def test_nothing_is_built_on_it(self, altered, known, name):
        space, (identity, *_) = altered
        before = space.engine.ledger.sequence()
        quote = {"source_id": identity, "segment_id": known["segment"]}
        correction = {"id": identity, "title": "Mine"}
        if name not in BESIDE:
            with pytest.raises(Corrupt):
                decide(space, "Mine", quote) if identity.startswith("src:") else _correct(space, correction)
            assert space.engine.ledger.sequence() == before


def _correct(space, correction):
    space.crystallize("knowledge", input=correction)


class TestForgedRows:
    def test_forged_object_is_not_shown(self, open_space, path, known):
        forged = "know:" + "0" * 26
        with behind(path) as connection:
            for sql in (
                "INSERT INTO revisions(id, revision, seq, body) SELECT ?1, 1, seq, edited(edited(body, id, ?1), "
                "'Log the upload', ?2) FROM revisions WHERE id = ?3 AND revision = 1",
                "INSERT INTO objects SELECT ?1, type, kind, 'active', scope, 1, ?2, channel, created_at, created_at, "
                "origin, fingerprint, slug, NULL, NULL FROM objects WHERE id = ?3",
                "UPDATE passages SET object_id = ?1, title = ?2 WHERE object_id = ?3",
            ):
                connection.execute(sql, (forged, FORGED, known["sound"]))
        space = open_space(f"sqlite:{path}")
        report = space.query("search", input={"text": "log the upload"})
        assert forged not in [hit.object_id for hit in report.hits]
        assert any(forged in warning for warning in report.warnings)
        assert FORGED not in report.model_dump_json()
        with pytest.raises(Corrupt):
            read(space, forged)

    def test_what_the_index_says_is_shown_nowhere(self, open_space, path, known):
        with behind(path) as connection:
            connection.execute("UPDATE passages SET title = ?1, heading = ?1, origin = ?1", (FORGED,))
        space = open_space(f"sqlite:{path}")
        for mode, key in (("search", "text"), ("context", "task")):
            report = space.query(mode, input={key: "upload"})
            assert report.status == "ok"
            assert FORGED not in report.model_dump_json()

    def test_forged_link_is_not_shown(self, open_space, path, known):
        with behind(path) as connection:
            connection.execute(
                "INSERT INTO links(type, source, target, patch_id, added) VALUES('supports', ?, ?, 'patch:x', 1)",
                (known["work"], known["decision"]),
            )
        space = open_space(f"sqlite:{path}")
        with pytest.raises(Corrupt) as caught:
            space.query("page", input={"id": known["decision"]})
        assert caught.value.details["id"] == known["work"]
        assert space.query("page", input={"id": known["old"]}).links

    def test_a_line_of_history_that_was_changed_is_not_shown(self, open_space, path, known):
        with behind(path) as connection:
            connection.execute(edit_body("audit", '"actor":"ada"', '"actor":"eve"', "1"))
        with pytest.raises(Corrupt):
            open_space(f"sqlite:{path}").query("page", input={"id": known["decision"]})

    def test_an_altered_proposal_is_not_applied(self, open_space, path, tmp_path):
        (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
        with open_space(f"sqlite:{path}", policy=tmp_path / "p.toml") as space:
            patch = space.crystallize("work_item", input={"title": "Pay the bill"}).patch_id
        with behind(path) as connection:
            connection.execute(edit_body("patches", "Pay the bill", FORGED, "1"))
        reviewer = open_space(f"sqlite:{path}", policy=tmp_path / "p.toml", actor="ada", channel="user")
        before = records(reviewer)
        with pytest.raises(Corrupt) as caught:
            reviewer.approve(patch)
        assert caught.value.details["id"] == patch
        assert records(reviewer) == before

    def test_an_altered_record_is_not_reverted(self, open_space, path, known):
        with open_space(f"sqlite:{path}", actor="ada", channel="user") as space:
            patch = space.crystallize("work_item", input={"id": known["work"], "status": "in_progress"}).patch_id
        with behind(path) as connection:
            where = f"id = '{patch}'"
            connection.execute(edit_body("patches", known["work"], known["decision"], where))
        with pytest.raises(Corrupt):
            open_space(f"sqlite:{path}", actor="ada", channel="user").revert(patch)


def test_a_vanished_segment_is_checked_against_the_revision_that_held_it(open_space, path):
    with open_space(f"sqlite:{path}") as space:
        quote = note(space, "The upload is retried.", origin="a.md")
        note(space, "Nothing of that is left.", origin="a.md")
        assert space.engine.ledger.segment(**quote).excerpt == "The upload is retried."
    with behind(path) as connection:
        connection.execute("UPDATE texts SET body = ? WHERE body = 'The upload is retried.'", (FORGED,))
    with pytest.raises(Corrupt):
        open_space(f"sqlite:{path}").engine.ledger.segment(**quote)


def test_an_older_copy_is_refused_at_opening_with_an_anchor(open_space, path, tmp_path):
    anchor = tmp_path / "kept" / "anchor.json"
    with open_space(f"sqlite:{path}", anchor=anchor) as space:
        note(space, "Before.")
    shutil.copy(path, tmp_path / "older.db")
    with open_space(f"sqlite:{path}", anchor=anchor) as space:
        note(space, "After.")
    shutil.copy(tmp_path / "older.db", path)
    with pytest.raises(Corrupt, match="anchor"):
        open_space(f"sqlite:{path}", anchor=anchor)


def test_an_altered_object_of_another_scope_is_as_one_that_is_not_there(open_space, path):
    with open_space(f"sqlite:{path}") as space:
        quote = note(space, "The upload is retried.", scope="/a")
        ours = decide(space, "Ours", quote, scope="/a")
        theirs = decide(space, "Theirs", quote, scope="/a")
        move(space, theirs, "/b")
    with behind(path) as connection:
        connection.execute("UPDATE objects SET title = ? WHERE id = ?", (FORGED, theirs))
    space = open_space(f"sqlite:{path}")
    for mode in ("page", "related"):
        with pytest.raises(NotFound):
            space.query(mode, scope="/a", input={"id": theirs})
    with pytest.raises(Corrupt) as caught:
        space.ingest(
            "source", scope="/a", input={"items": [{"text": "Gone.", "origin": read(space, quote["source_id"]).origin}]}
        )
    assert theirs not in f"{caught.value.message} {caught.value.details}"
    assert status(space, ours) == "active"

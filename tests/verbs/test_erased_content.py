"""What was erased stays out when it is read again, unless it is asked for."""

import json
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import treering
from space_parts import records
from treering.core.errors import Conflict, InvalidInput
from treering.spaces.wiring import ERASURE_KEY
from treering.testing.fakes import MemoryJobs
from treering.verbs.ingest import erased
from treering.verbs.ingest.erased import MIN_CHARS
from treering.verbs.lint import erasure

PATIENT = "# Patient\n\nMila Orlov was treated for scabies in room nine.\n"
OTHER = "\n# Kitchen\n\nThe kitchen is closed on every Monday of the month.\n"
LATER = "\n# Visits\n\nVisits end at eight, also on Sundays and holidays.\n"
SESSION = "5c1f7d4a-0b8e-4c1d-9a55-0f2f3a4b5c61"


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def space(open_space, tmp_path):
    return open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", actor="ada")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def read(space, place, **options):
    return space.ingest("path", input={"path": str(place)}, options=options)


def erase(space, report):
    return space.erase([report.items[0].source_id], "asked")


def stored(space):
    return "\n".join(record.row["text"] for record in records(space) if record.table == "segment")


def test_a_file_read_again_is_skipped_and_says_so(space, folder):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    again = read(space, folder)
    assert again.counts == {"skipped": 1}
    assert "its content was erased on " in again.items[0].why
    assert "--again" in again.items[0].why
    assert "Mila" not in stored(space)


@pytest.mark.parametrize("name", ["copy.md", "deep/er/a.md"])
def test_the_same_content_at_another_path_is_skipped(space, folder, name):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder / "a.md"))
    (folder / "a.md").unlink()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(PATIENT)
    assert read(space, folder).counts == {"skipped": 1}


def test_a_note_given_again_is_skipped(space):
    given = {"text": "Mila Orlov was treated for scabies in room nine.", "origin": "note:one"}
    erase(space, space.ingest("source", input=given))
    assert space.ingest("source", input={**given, "origin": "note:two"}).counts == {"skipped": 1}


def test_only_the_erased_part_of_a_file_is_omitted(space, folder):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    (folder / "b.md").write_text(PATIENT + OTHER)
    (folder / "a.md").write_text(PATIENT.replace("nine.\n", "nine.\nShe left on the third of May.\n") + LATER)
    report = read(space, folder)
    assert report.counts == {"created": 2}
    assert sum("erased on" in warning for warning in report.warnings) == 2
    text = stored(space)
    assert "Mila" not in text
    assert all(words in text for words in ("She left on the third", "Visits end at eight", "kitchen is closed"))
    assert read(space, folder).counts == {"unchanged": 2}


def test_what_is_left_reveals_nothing_of_what_was_erased(space, folder):
    (folder / "a.md").write_text("# Mila Orlov's illness\n\nShe was treated for scabies in room nine, in May.\n")
    report = read(space, folder)
    plain = space.engine.ledger.get(report.items[0].source_id).fingerprint
    erase(space, report)
    (folder / "a.md").write_text((folder / "a.md").read_text() + OTHER)
    partial = space.engine.ledger.get(read(space, folder).items[0].source_id)
    assert partial.title == "a.md"
    assert partial.fingerprint.startswith("without erased ")
    assert plain not in partial.fingerprint


def test_what_is_requested_again_is_read_and_stays(space, folder):
    (folder / "a.md").write_text(PATIENT + OTHER)
    erase(space, read(space, folder))
    assert read(space, folder, again=True, dry_run=True).counts == {"created": 1}
    assert read(space, folder).counts == {"skipped": 1}
    assert read(space, folder, again=True).counts == {"created": 1}
    assert read(space, folder).counts == {"unchanged": 1}
    (folder / "a.md").write_text(PATIENT + OTHER + LATER)
    assert read(space, folder).counts == {"updated": 1}
    assert "Mila" in stored(space)


def test_asking_again_completes_a_file_read_in_part(space, folder):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    (folder / "a.md").write_text(PATIENT + OTHER)
    assert read(space, folder).counts == {"created": 1}
    assert read(space, folder, again=True).counts == {"updated": 1}
    assert "Mila" in stored(space)


def transcript(folder: Path, *texts: str, session: str = SESSION) -> Path:
    lines = [
        {
            "type": "user",
            "uuid": f"u{number}",
            "sessionId": session,
            "timestamp": f"2026-10-01T09:0{number}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]
    file = folder / f"{session}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def test_an_erased_transcript_goes_on_without_its_turns(space, folder):
    said = ("Mila Orlov pays with the corporate card ending 4242", "yes")
    erase(space, read(space, transcript(folder, *said)))
    assert read(space, folder).counts == {"skipped": 1}
    report = read(space, transcript(folder, *said, "Book the train to Graz"))
    assert report.counts == {"created": 1}
    source = space.engine.ledger.get(report.items[0].source_id)
    (turn,) = source.segments
    assert (turn.excerpt, turn.locator.chain) == ("Book the train to Graz", "")
    assert "4242" not in source.model_dump_json()


def test_short_passages_are_recognised_in_their_origin_alone(space):
    short = "It is agreed."
    assert len(short) < MIN_CHARS
    erase(space, space.ingest("source", input={"text": short, "origin": "note:one"}))
    assert space.ingest("source", input={"text": short, "origin": "note:one"}).counts == {"skipped": 1}
    assert space.ingest("source", input={"text": short, "origin": "note:two"}).counts == {"created": 1}


def test_passages_that_other_sources_hold_stay_readable(space, folder):
    for name in ("a.md", "b.md"):
        (folder / name).write_text(PATIENT)
    report = read(space, folder)
    space.erase([report.items[0].source_id], "asked")
    (folder / "c.md").write_text(PATIENT)
    assert {item.origin[-4:]: item.outcome for item in read(space, folder).items} == {
        "a.md": "skipped",
        "c.md": "created",
    }


RULE = "-" * 30
"""A passage without words, which the index cannot find: it counts as contained in others."""
PARAGRAPHS = [f"The {one} paragraph is about the {two} of the year." for one in "abcd" for two in ("déjà vu", "end")]


@pytest.mark.parametrize("seed", range(3))
def test_the_index_finds_passages_that_others_contain_as_reading_does(space, monkeypatch, seed):
    chance = random.Random(seed)
    texts = ["\n\n".join(chance.sample([*PARAGRAPHS, RULE], 3)) for _ in range(8)]
    ids = [space.ingest("source", input={"items": [{"text": text}]}).items[0].source_id for text in texts]
    space.crystallize("source", input={"id": ids[0], "status": "archived"})
    for source in map(space.engine.ledger.get, ids):
        monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 1_000)
        by_reading = erased.passages_elsewhere(space.engine, [source])
        monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 0)
        by_index = erased.passages_elsewhere(space.engine, [source])
        others = (text for text, one in zip(texts, ids, strict=True) if one not in (ids[0], source.id))
        live = {part for text in others for part in text.split("\n\n")}
        in_live = {("/", one) for one in live}
        found = {one for one in by_reading if one in in_live or "\n\n" in one[1]}
        assert by_index - {("/", RULE)} == found - {("/", RULE)}


def test_passage_that_begins_like_another_is_recognized_everywhere(space, monkeypatch):
    monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 0)
    beginning = " ".join(f"word{number}" for number in range(40))
    text, other = (f"{beginning} and {ending}." for ending in ("Mila had scabies", "Jonas broke an arm"))
    report = space.ingest("source", input={"text": text, "origin": "note:a"})
    space.ingest("source", input={"text": other, "origin": "note:b"})
    erase(space, report)
    assert space.ingest("source", input={"text": text, "origin": "note:c"}).counts == {"skipped": 1}


def test_the_key_is_private_and_not_in_the_space(space, folder, data, tmp_path):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    key = (data / ERASURE_KEY).read_bytes()
    assert (len(key), (data / ERASURE_KEY).stat().st_mode & 0o777) == (32, 0o600)
    space.close()
    assert key not in (tmp_path / "space.db").read_bytes()


def test_another_key_is_reported(space, folder, data, open_space, tmp_path):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    (data / ERASURE_KEY).write_bytes(b"x" * 32)
    report = read(space, folder)
    assert report.counts == {"created": 1}
    assert "another key" in report.warnings[-1]


def test_a_broken_key_does_not_hinder_erasing(space, folder, data):
    (folder / "a.md").write_text(PATIENT)
    report = read(space, folder)
    data.mkdir()
    (data / ERASURE_KEY).write_bytes(b"short")
    receipt = erase(space, report)
    assert receipt.clean
    assert "cannot recognise it: no key" in receipt.out_of_reach[-1]


def test_backups_carry_the_marks(space, folder, open_space, tmp_path):
    (folder / "a.md").write_text(PATIENT)
    erase(space, read(space, folder))
    space.backup(tmp_path / "backup.db")
    with treering.open(f"sqlite:{tmp_path / 'backup.db'}", background=False) as copy:
        assert read(copy, folder).counts == {"skipped": 1}


def test_an_erasure_that_was_merged_is_remembered(space, folder, open_space, tmp_path):
    (folder / "a.md").write_text(PATIENT)
    report = read(space, folder)
    other = open_space(f"sqlite:{tmp_path / 'other.db'}", channel="user", actor="ben")
    other.merge(f"sqlite:{tmp_path / 'space.db'}")
    assert "Mila" in stored(other)
    erase(space, report)
    other.merge(f"sqlite:{tmp_path / 'space.db'}")
    assert "Mila" not in stored(other)
    assert read(other, folder).counts == {"skipped": 1}


def test_again_is_an_option_of_reading_alone(space):
    with pytest.raises(InvalidInput):
        space.ingest("status", options={"again": True})


_KILLED = """
import os, signal, sys
import treering
with treering.open(sys.argv[1], background=False, channel="user", actor="ada") as space:
    type(space.engine.ledger).compact = lambda ledger: os.kill(os.getpid(), signal.SIGKILL)
    space.erase([sys.argv[2]], "asked")
"""


def test_a_killed_erasure_is_remembered(space, folder, open_space, tmp_path):
    (folder / "a.md").write_text(PATIENT)
    report = read(space, folder)
    space.close()
    place = f"sqlite:{tmp_path / 'space.db'}"
    done = subprocess.run([sys.executable, "-c", _KILLED, place, report.items[0].source_id], check=False)
    assert done.returncode == -signal.SIGKILL
    with treering.open(place, background=False) as again:
        assert "Mila" not in stored(again)
        assert read(again, folder).counts == {"skipped": 1}


class Refused(Conflict):
    """Somebody else was first."""


@pytest.mark.parametrize("in_commits", [True, False])
def test_a_failed_erasure_is_not_remembered(space, folder, monkeypatch, in_commits):
    (folder / "a.md").write_text(PATIENT)
    (source,) = read(space, folder).items

    def refuse(*_given):
        raise Refused("Somebody else was first.")

    engine = space.engine if in_commits else replace(space.engine, erasures=MemoryJobs(space.engine.ledger))
    with monkeypatch.context() as patched:
        patched.setattr(type(space.engine.ledger), "commit", refuse)
        with pytest.raises(Refused):
            erasure.erase(engine, [source.source_id], reason="asked")
    assert not (engine.erasures.find("erased") or {"keys": {}})["keys"]
    (folder / "a.md").write_text(PATIENT + LATER)
    assert read(space, folder).counts == {"updated": 1}
    assert "Mila" in stored(space)


def test_marks_are_stored_by_logs_without_transactions(space, folder):
    (folder / "a.md").write_text(PATIENT)
    report = read(space, folder)
    engine = replace(space.engine, erasures=MemoryJobs(space.engine.ledger))
    assert erasure.erase(engine, [report.items[0].source_id], reason="asked").clean
    (marks,) = engine.erasures.find("erased")["keys"].values()
    assert marks


NOTE = {"text": "We accept the standard terms of the contract.", "origin": "note:terms"}


def test_erased_text_stays_out_of_its_scope_and_those_below(space):
    erase(space, space.ingest("source", input=NOTE, scope="/c/cord"))
    for scope in ("/c/cord", "/c/cord/user/ann"):
        again = space.ingest("source", input={**NOTE, "origin": "note:other"}, scope=scope)
        assert again.counts == {"skipped": 1}


@pytest.mark.parametrize("scope", ["/", "/c", "/c/bolt", "/c/cord-two"])
@pytest.mark.parametrize("origin", ["note:terms", "note:other"])
def test_erasure_does_not_show_in_other_scopes(space, scope, origin):
    erase(space, space.ingest("source", input=NOTE, scope="/c/cord"))
    given = {**NOTE, "origin": origin}
    for dry_run in (True, False):
        report = space.ingest("source", input=given, scope=scope, options={"dry_run": dry_run})
        assert (report.counts, report.warnings) == ({"created": 1}, ())
    assert NOTE["text"] in stored(space)


def test_text_erased_in_two_scopes_is_requested_again_in_one(space):
    scopes = ("/c/bolt", "/c/cord")
    for report in [space.ingest("source", input=NOTE, scope=scope) for scope in scopes]:
        erase(space, report)
    assert space.ingest("source", input=NOTE, scope="/c/bolt", options={"again": True}).counts == {"created": 1}
    assert space.ingest("source", input=NOTE, scope="/c/cord").counts == {"skipped": 1}


@pytest.mark.parametrize("by_reading", [True, False])
def test_text_of_another_scope_does_not_readmit_erased_text(space, monkeypatch, by_reading):
    monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 1_000 if by_reading else 0)
    space.ingest("source", input=NOTE, scope="/c/bolt")
    space.ingest("source", input={**NOTE, "text": f"{NOTE['text']}\n\nSigned by Ada."}, scope="/c/acme")
    erase(space, space.ingest("source", input=NOTE, scope="/c/cord"))
    given = {**NOTE, "origin": "note:other"}
    assert space.ingest("source", input=given, scope="/c/cord").counts == {"skipped": 1}


@pytest.mark.parametrize("by_reading", [True, False])
def test_text_in_a_scope_below_stays_readable(space, monkeypatch, by_reading):
    monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 1_000 if by_reading else 0)
    longer = {**NOTE, "text": f"{NOTE['text']}\n\nSigned by Ada."}
    space.ingest("source", input=longer, scope="/c/cord/user/ann")
    erase(space, space.ingest("source", input=NOTE, scope="/c/cord"))
    given = {**NOTE, "origin": "note:other"}
    assert space.ingest("source", input=given, scope="/c/cord/user/ann").counts == {"created": 1}


def test_moved_text_stays_out_of_both_scopes(space):
    report = space.ingest("source", input=NOTE, scope="/c/bolt")
    space.crystallize("promote", input={"from_scope": "/c/bolt", "to_scope": "/c/cord"})
    erase(space, report)
    given = {**NOTE, "origin": "note:other"}
    counts = [space.ingest("source", input=given, scope=scope).counts for scope in ("/c/bolt", "/c/cord", "/c/acme")]
    assert counts == [{"skipped": 1}, {"skipped": 1}, {"created": 1}]


def test_marks_of_earlier_versions_apply_in_every_scope(space, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(erased, "_key_of", lambda key, _scope: key)  # these marks contain no scope
        erase(space, space.ingest("source", input=NOTE, scope="/c/cord"))
    for scope in ("/", "/c/cord", "/c/bolt"):
        assert space.ingest("source", input=NOTE, scope=scope).counts == {"skipped": 1}


def test_merged_erasure_applies_in_its_scope(space, open_space, tmp_path):
    report = space.ingest("source", input=NOTE, scope="/c/cord")
    other = open_space(f"sqlite:{tmp_path / 'other.db'}", channel="user", actor="ben")
    other.merge(f"sqlite:{tmp_path / 'space.db'}")
    erase(space, report)
    other.merge(f"sqlite:{tmp_path / 'space.db'}")
    assert other.ingest("source", input=NOTE, scope="/c/cord").counts == {"skipped": 1}
    assert other.ingest("source", input=NOTE, scope="/c/bolt").counts == {"created": 1}

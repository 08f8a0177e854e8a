"""Whatever is damaged in the file of a space, every read answers, or ends with an error of ours."""

import shutil
from functools import partial
from pathlib import Path
from random import Random

import apsw
import pytest
from attacks.damage import change_row, flip_bytes

from space_parts import decide, note, open_space, task
from treering.core.errors import Corrupt, TreeringError
from treering.ports.ledger import Selection
from treering.stores.rows.packing import unpack

change_packed_row = partial(change_row, unpack=unpack)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A space with something in every table."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "policy.toml").write_text('direct_channels = ["user"]\n')
    path = folder / "space.db"
    with open_space(f"sqlite:{path}", channel="user", actor="ada", policy=folder / "policy.toml") as space:
        quote = note(space, "Bees hum at noon. " * 30, origin="bees.md", title="Bees")
        known = decide(space, "Bees hum", quote, options={"idempotency_key": "k"})
        note(space, "Bees hum at night, in 2024 and on 3 May 2025.", origin="bees.md")
        note(space, "Wasps sting.", origin="wasps.md", scope="/garden")
        space.crystallize("work_item", input={"id": task(space, "Look"), "links": [{"type": "about", "target": known}]})
        turns = [{"role": "user", "content": "Do bees hum?"}, {"role": "assistant", "content": "They do."}]
        space.ingest("source", input={"items": [{"kind": "conversation", "origin": "chat", "messages": turns}]})
        space.with_actor("bot", channel="agent").crystallize("knowledge", input={"id": known, "summary": "Hum."})
        space.embed_pending()
        gone = note(space, "Gone.", origin="gone.md")
        space.erase([gone["source_id"]])
    return path


def reads(space, folder):
    """Return every way to read a space, by name."""
    ledger, index = space.engine.ledger, space.engine.index
    ids = [item.target for item in attempt(lambda: list(ledger.events()))]
    first = ids[0] if ids else "src:none"
    for options in ({}, {"withdrawn": True, "descend": True}, {"as_of": 3}, {"filter": {"kind": "decision"}}):
        yield lambda options=options: space.query("search", input={"text": "bees hum 2024"}, options=options)
    yield lambda: space.query("context", input={"task": "bees"}, options={"descend": True})
    yield lambda: space.query("recent", options={"descend": True})
    yield lambda: space.query("expand", input={"ids": ids[:20]})
    for identity in dict.fromkeys(ids):
        yield lambda identity=identity: space.query("page", input={"id": identity})
        yield lambda identity=identity: space.query("related", input={"id": identity})
        yield lambda identity=identity: ledger.history(identity)
        yield lambda identity=identity: ledger.links(identity)
        yield lambda identity=identity: ledger.events_of(identity)
    for mode in ("structure", "semantic", "repair", "reindex", "audit"):
        yield lambda mode=mode: space.lint(mode)
    yield lambda: space.ingest("status")
    yield space.proposals
    yield ledger.patches
    yield lambda: ledger.heads(ids)
    yield lambda: ledger.heads(ids, as_of=3)
    yield lambda: list(ledger.select(Selection(descend=True)))
    yield lambda: list(ledger.select(Selection(descend=True, as_of=4)))
    yield lambda: list(ledger.records())
    yield lambda: ledger.sources(scope="/", root="bees.md")
    yield ledger.verify
    yield index.upkeep.differences
    yield lambda: index.vectors.pending(10)
    yield index.vectors.lag
    yield lambda: space.engine.leases.holder("vectors")
    yield lambda: space.discussions().ids()
    yield lambda: space.export(folder / "export")
    yield lambda: space.backup(folder / "backup.db")
    yield lambda: note(space, "New bees.", origin="new.md")
    yield lambda: note(space, "All new.", origin="bees.md")
    yield lambda: decide(space, "Bees hum", options={"idempotency_key": "k"})
    yield lambda: space.embed_pending()
    yield lambda: space.erase([first])


def attempt(read):
    """Read; return nothing where an error of ours comes out."""
    try:
        return read()
    except TreeringError:
        return []


def check(original, folder, open_space, damage, seed):
    path = Path(shutil.copy(original, folder / f"{seed}.db"))
    done = damage(path, Random(seed))
    try:
        space = attempt(lambda: open_space(f"sqlite:{path}", channel="user"))
        for read in reads(space, folder) if space else ():
            attempt(read)
    except BaseException as error:
        error.add_note(f"seed {seed}: {done}")
        raise
    for left in ("export", "export.partial"):
        shutil.rmtree(folder / left, ignore_errors=True)
    (folder / "backup.db").unlink(missing_ok=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(4))
def test_changed_rows_let_no_foreign_error_out(original, tmp_path, open_space, part):
    for seed in range(part * 8, part * 8 + 8):
        check(original, tmp_path, open_space, change_packed_row, seed)


def test_flipped_bytes_let_no_foreign_error_out(original, tmp_path, open_space):
    for seed in range(10):
        check(original, tmp_path, open_space, flip_bytes, seed)


@pytest.mark.torture
def test_much_damage_lets_no_foreign_error_out(original, tmp_path, open_space):
    for seed in range(1000, 2000):
        check(original, tmp_path, open_space, change_packed_row if seed % 3 else flip_bytes, seed)


def test_a_row_that_does_not_parse_is_named(original, tmp_path, open_space):
    path = shutil.copy(original, tmp_path / "space.db")
    other = apsw.Connection(str(path))
    identity = next(other.execute("SELECT id FROM objects WHERE id LIKE 'know:%'"))[0]
    other.execute("UPDATE revisions SET body = ? WHERE id = ?", ('{"type": "knowledge"}', identity))
    other.execute("UPDATE jobs SET body = ?", ('{"id": 1, "items": [3]}',))
    other.close()
    space = open_space(f"sqlite:{path}", channel="user")
    with pytest.raises(Corrupt) as caught:
        space.query("page", input={"id": identity})
    assert identity in caught.value.message
    assert caught.value.details["id"] == identity
    assert "backup" in caught.value.hint
    with pytest.raises(Corrupt, match="job"):
        space.ingest("status")


@pytest.mark.parametrize(("column", "value"), [("type", "{"), ("channel", "")])
def test_a_row_of_a_type_or_channel_that_there_is_not_is_omitted_and_named(column, value):
    with open_space(":memory:", channel="user") as space:
        space.ingest("source", input={"items": [{"text": "Bees hum."}, {"text": "Bees sting.", "origin": "other"}]})
        changed = space.query("search", input={"text": "sting"}).hits[0].object_id
        with space.engine.ledger._database.write() as connection:
            connection.execute(f"UPDATE objects SET {column} = ? WHERE id = ?", (value, changed))
        report = space.query("search", input={"text": "bees"})
        assert [hit.text for hit in report.hits] == ["Bees hum."]
        assert any(changed in warning for warning in report.warnings)

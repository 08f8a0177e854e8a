import signal
import subprocess
import sys
import weakref
from dataclasses import replace

import apsw
import pytest

from space_parts import all_of, decide, note, read, records, status, task
from treering.core.errors import Denied, InvalidInput, NotFound, Unavailable
from treering.core.patch import Transition
from treering.stores.sqlite.ledger import ledger
from treering.testing.builders import Builder
from treering.verbs.ingest import erased
from treering.verbs.lint.erasure import proof_of

WORD = "zygomorphic"
PHRASE = f"The {WORD} quarterdeck belongs to Wilhelmina."


@pytest.fixture
def space(open_space, tmp_path):
    return open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", actor="ada")


@pytest.fixture
def filled(space):
    """A space with something to erase, among other things; and the ids of what is there."""
    quote = note(space, PHRASE, origin="diary.md", title=f"On {WORD} things")
    known = decide(space, "Quarterdeck is Wilhelmina's", quote)
    kept = note(space, "The mizzen is Otto's.", origin="other.md")
    other = decide(space, "Mizzen is Otto's", kept)
    space.embed_pending()
    return space, {"source": quote["source_id"], "known": known, "kept": kept["source_id"], "other": other}


def bytes_of(folder):
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def reading(path):
    """Return a connection of somebody else who reads, and holds what there is now."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN")
    list(connection.execute("SELECT count(*) FROM objects"))
    return connection


def every_read(space, *identities):
    """Return everything that reads tell about a word and some ids, but what repeats the question, as one text."""
    told = []
    for options in ({}, {"withdrawn": True}, {"as_of": 2}, {"as_of": 3}, {"semantic": False}):
        texts = (WORD, "quarterdeck", "zygo", "quarterde", *identities)
        found = [space.query("search", input={"text": text}, options=options) for text in texts]
        told += [report.model_dump(exclude={"trace", "warnings", "empty"}) for report in found]
        pack = space.query("context", input={"task": f"{WORD} quarterdeck"}, options=options).pack
        told.append(pack.model_dump(exclude={"task", "summary", "missing_context"}))
    told.append(space.query("recent", options={"descend": True}).model_dump())
    told.append(space.query("expand", input={"ids": identities}).model_dump(exclude={"missing"}))
    told.append([record.row for record in records(space) if record.table != "event"])
    return repr(told)


def test_an_erased_source_is_found_by_no_read(filled):
    space, ids = filled
    assert WORD in every_read(space, ids["source"])
    space.erase([ids["source"]], reason="asked by Wilhelmina")
    assert WORD not in every_read(space, ids["source"])
    with pytest.raises(NotFound):
        space.query("page", input={"id": ids["source"]})


def test_its_words_are_in_no_file_of_the_space(filled, tmp_path):
    space, ids = filled
    words = (WORD.encode(), WORD[:6].encode(), b"zygom", b"quarterdeck belongs")
    assert WORD.encode() in bytes_of(tmp_path)
    space.erase([ids["source"]])
    left = bytes_of(tmp_path)
    assert [word for word in words if word in left] == []
    space.close()
    assert [word for word in words if word in bytes_of(tmp_path)] == []


def test_an_earlier_text_of_an_erased_source_is_gone_too(space, tmp_path):
    first = note(space, PHRASE, origin="diary.md")["source_id"]
    assert note(space, "All new.", origin="diary.md")["source_id"] == first
    assert WORD.encode() in bytes_of(tmp_path)
    space.erase([first])
    assert WORD.encode() not in bytes_of(tmp_path)
    assert WORD not in every_read(space, first)


def test_erased_knowledge_is_gone_with_all_its_revisions(space, tmp_path):
    known = decide(space, f"The {WORD} way")
    space.crystallize("knowledge", input={"id": known, "payload": {"rationale": f"{WORD}, twice"}})
    note_id = read(space, known).evidence_refs[0].source_id
    receipt = space.erase([known, note_id])
    assert receipt.clean
    assert WORD.encode() not in bytes_of(tmp_path)
    assert WORD not in every_read(space, known)


@pytest.mark.parametrize(("scope", "seen"), [("/", True), ("/team", True), ("/team/api", True), ("/other", False)])
def test_the_log_of_a_scope_shows_what_was_erased_from_it_elsewhere(space, scope, seen):
    erased = note(space, PHRASE, origin="diary.md", scope="/team/api")["source_id"]
    note(space, PHRASE, origin="other.md", scope="/other")
    space.erase([erased])
    changes = space.query("recent", scope=scope, options={"descend": True}).changes
    assert [(one.id, one.title) for one in changes if one.event == "erased"] == ([(erased, "")] if seen else [])


def test_what_rested_on_it_is_stale_and_named(filled):
    space, ids = filled
    receipt = space.erase([ids["source"]])
    assert receipt.staled == (ids["known"],)
    assert status(space, ids["known"], ids["other"]) == ["stale", "active"]


def test_unconfirmed_statements_of_an_agent_are_erased_with_their_only_source(filled):
    space, ids = filled
    known, other = read(space, ids["known"]), read(space, ids["other"])
    agent, quotes = space.with_actor("bot", channel="agent"), [known.evidence_refs[0], other.evidence_refs[0]]
    cited = [quote.model_dump(include={"source_id", "segment_id", "quote_hash"}) for quote in quotes]
    only = decide(agent, "Quarterdeck", cited[0], status="candidate")
    both = decide(agent, "Decks", *cited, status="candidate")
    receipt = space.erase([ids["source"]], "asked")
    assert only in receipt.ids
    assert {ids["known"], both}.isdisjoint(receipt.ids)


def test_what_was_not_erased_stays(filled):
    space, ids = filled
    space.erase([ids["source"]])
    hits = space.query("search", input={"text": "mizzen"}).hits
    assert {hit.object_id for hit in hits} == {ids["kept"], ids["other"]}


def test_the_log_keeps_the_fact_and_verifies(filled):
    space, ids = filled
    receipt = space.erase([ids["source"]], reason="asked by Wilhelmina")
    report = space.lint("audit", input={"id": ids["source"]})
    assert report.verified
    assert report.differences == ()
    assert "erased" in report.events[-1]
    assert "asked by Wilhelmina" in report.events[-1]
    assert receipt.sequence == report.head.seq


def test_the_receipt_proves_absence_and_names_what_is_out_of_reach(filled):
    space, ids = filled
    receipt = space.erase([ids["source"]])
    assert receipt.clean
    assert {probe.name: probe.found for probe in receipt.probes} == {
        "object rows": 0,
        "revisions": 0,
        "stored records": 0,
        "full text": 0,
        "index rows": 0,
        "jobs": 0,
    }
    assert "the original at diary.md" in receipt.out_of_reach
    assert any("backups" in place for place in receipt.out_of_reach)


@pytest.mark.parametrize("state", ["active", "archived"])
def test_what_is_not_gone_is_found_by_every_probe(space, state):
    quote = note(space, PHRASE, origin="diary.md", scope="/deep/down")
    note(space, "Other words.", origin="other.md")
    space.embed_pending()
    if state != "active":
        archived = Transition(id=quote["source_id"], expected_revision=1, to=state)
        space.engine.ledger.commit(Builder(space.engine.clock).patch(archived))
    item = read(space, quote["source_id"])
    proof = proof_of(space.engine, [item], {PHRASE})
    found = {probe.name: probe.found for probe in proof.probes}
    assert found.pop("object rows") == found.pop("revisions") == found.pop("full text") == found.pop("jobs") == 1
    assert found.pop("stored records") == item.revision + 1
    assert found.pop("index rows") > 0
    assert found == {}
    assert proof.repeated_in == (item.id,)
    gone = proof_of(space.engine, [item.model_copy(update={"id": "src:00000000000000000000000000"})], {"Other"})
    assert {probe.found for probe in gone.probes} == {0}


def test_a_receipt_is_clean_only_where_every_probe_found_nothing(filled):
    space, ids = filled
    receipt = space.erase([ids["source"]])
    one = receipt.probes[0].model_copy(update={"found": 1})
    assert not receipt.model_copy(update={"probes": (one, *receipt.probes[1:])}).clean
    assert not receipt.model_copy(update={"probes": ()}).clean


def test_many_passages_are_compared_with_segments_one_at_a_time(filled, monkeypatch):
    space, ids = filled
    looked, kept = [], type(space.engine.ledger).records

    def one_at_a_time(ledger, **only):
        alive = weakref.WeakSet()
        for record in kept(ledger, **only):
            row = Row(record.row)
            alive.add(row)
            looked.append(len(alive))
            yield replace(record, row=row)
            del row, record

    monkeypatch.setattr(type(space.engine.ledger), "records", one_at_a_time)
    segments = len(list(kept(space.engine.ledger, only={"segment"})))
    assert space.erase([ids["source"]]).clean
    assert len(looked) == segments
    assert max(looked) < 4


class Row(dict):
    """A row that can be watched, to see whether it is still held."""

    __hash__ = object.__hash__


def test_few_passages_are_looked_up_without_reading_records(filled, monkeypatch):
    space, ids = filled
    monkeypatch.setattr(erased, "_SEGMENTS_PER_SEARCH", 0)
    monkeypatch.setattr(type(space.engine.ledger), "records", None)
    assert space.erase([ids["source"]]).clean


def test_the_receipt_names_others_that_hold_the_same_words(space):
    first, second = (note(space, PHRASE, origin=origin)["source_id"] for origin in ("a", "b"))
    receipt = space.erase([first])
    assert receipt.repeated_in == (second,)
    assert space.query("search", input={"text": WORD}).hits[0].object_id == second


def test_an_export_made_afterwards_does_not_hold_it(filled, tmp_path):
    space, ids = filled
    space.erase([ids["source"]])
    space.export(tmp_path / "export")
    assert WORD.encode() not in bytes_of(tmp_path / "export")


def test_a_proposal_that_held_it_does_not_bring_it_back(open_space, tmp_path):
    (tmp_path / "p.toml").write_text('direct_channels = ["user"]\n')
    ada = open_space(f"sqlite:{tmp_path / 's.db'}", channel="user", actor="ada", policy=tmp_path / "p.toml")
    known = decide(ada, "Plain")
    bot = ada.with_actor("bot", channel="agent")
    bot.crystallize("knowledge", input={"id": known, "summary": f"a {WORD} summary"})
    ada.erase([known])
    assert WORD.encode() not in bytes_of(tmp_path)


def test_all_is_erased_or_nothing(filled):
    space, ids = filled
    before = records(space)
    for wrong in ([ids["source"], "know:" + "0" * 26], []):
        with pytest.raises((NotFound, InvalidInput)) as caught:
            space.erase(wrong)
        assert caught.value.hint
    assert records(space) == before


def test_naming_an_id_twice_equals_once(filled):
    space, ids = filled
    assert space.erase([ids["source"], ids["source"]]).ids == (ids["source"],)


def test_an_agent_may_not_erase(filled):
    space, ids = filled
    before = records(space)
    with pytest.raises(Denied):
        space.with_actor("bot", channel="agent").erase([ids["source"]])
    assert records(space) == before


def test_erasing_cannot_be_taken_back(filled):
    space, ids = filled
    receipt = space.erase([ids["source"]])
    with pytest.raises(InvalidInput):
        space.revert(receipt.patch_id)


def test_the_same_is_ingested_again_where_it_is_requested(filled):
    space, ids = filled
    space.erase([ids["source"]])
    given = {"text": PHRASE, "origin": "diary.md"}
    assert space.ingest("source", input=given).counts == {"skipped": 1}
    (result,) = space.ingest("source", input=given, options={"again": True}).items
    assert (result.outcome, result.source_id == ids["source"]) == ("created", False)


def test_work_and_links_to_it_do_not_keep_its_words(space, tmp_path):
    quote = note(space, PHRASE, origin="diary.md")
    item = task(space, "Fix the embedding model", source_refs=[quote["source_id"]])
    link = {"type": "about", "target": quote["source_id"]}
    space.crystallize("work_item", input={"id": item, "links": [link]})
    space.erase([quote["source_id"]])
    assert all_of(space, "work_item")[0].id == item
    assert space.query("page", input={"id": item}).links == ()
    assert WORD.encode() not in bytes_of(tmp_path)


def test_what_another_reader_keeps_from_being_overwritten_is_said_and_done_later(filled, tmp_path):
    space, ids = filled
    reader = reading(tmp_path / "space.db")
    receipt = space.erase([ids["source"]])
    assert receipt.clean
    assert any("log" in what for what in receipt.remaining)
    assert WORD.encode() in bytes_of(tmp_path)
    reader.close()
    assert space.lint("repair", options={"apply": True}).warnings == ()
    assert WORD.encode() not in bytes_of(tmp_path)


def test_what_another_writer_keeps_from_being_overwritten_is_done_by_the_next_erasure(filled, tmp_path, monkeypatch):
    space, ids = filled
    monkeypatch.setattr(ledger, "_OVERWRITING_SECONDS", 0.0)
    writer = apsw.Connection(str(tmp_path / "space.db"))
    commit = space.engine.ledger.commit

    def commit_then_hold(*args, **options):
        receipt = commit(*args, **options)
        writer.execute("BEGIN IMMEDIATE")
        return receipt

    with monkeypatch.context() as patched:
        patched.setattr(type(space.engine.ledger), "commit", lambda _self, *args, **options: commit_then_hold(*args))
        receipt = space.erase([ids["source"]])
    assert receipt.remaining
    writer.execute("ROLLBACK")
    writer.close()
    assert space.erase([ids["other"]]).remaining == ()
    assert WORD.encode() not in bytes_of(tmp_path)


@pytest.mark.nightly
def test_opening_waits_for_nobody_and_leaves_what_cannot_be_overwritten(filled, open_space, tmp_path):
    space, ids = filled
    reader = reading(tmp_path / "space.db")
    assert space.erase([ids["source"]]).remaining
    with open_space(f"sqlite:{tmp_path / 'space.db'}"):
        assert WORD.encode() in bytes_of(tmp_path)
    reader.close()
    with open_space(f"sqlite:{tmp_path / 'space.db'}"):
        assert WORD.encode() not in bytes_of(tmp_path)


KILLED = """
import os, signal, sys
import treering
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import HashingEmbedder

SqliteLedger.compact = lambda self: os.kill(os.getpid(), signal.SIGKILL)  # dies between the commit and what follows
space = treering.open(sys.argv[1], channel="user", background=False, embedder=HashingEmbedder())
space.erase([sys.argv[2]])
"""


def test_an_erasure_whose_process_was_killed_is_finished_by_the_next_opening(filled, open_space, tmp_path):
    space, ids = filled
    address = f"sqlite:{tmp_path / 'space.db'}"
    command = [sys.executable, "-c", KILLED, address, ids["source"]]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert WORD.encode() in bytes_of(tmp_path)
    open_space(address)
    assert WORD.encode() not in bytes_of(tmp_path)
    with pytest.raises(NotFound):
        read(space, ids["source"])


TOGETHER = """
import sys
import treering
from treering.testing.fakes import HashingEmbedder

with treering.open(sys.argv[1], channel="user", background=False, embedder=HashingEmbedder()) as space:
    for identity in sys.argv[2:]:
        space.erase([identity])
"""


@pytest.mark.nightly
def test_concurrent_erasures_all_succeed(space, tmp_path):
    words = [f"{WORD}{number}" for number in range(8)]
    ids = [note(space, f"{word} quarterdeck.", origin=word)["source_id"] for word in words]
    address = f"sqlite:{tmp_path / 'space.db'}"
    erasers = [
        subprocess.Popen([sys.executable, "-c", TOGETHER, address, *ids[number::4]], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert [eraser.communicate(timeout=300)[1] for eraser in erasers] == [""] * 4
    assert space.lint("repair", options={"apply": True}).warnings == ()
    assert WORD.encode() not in bytes_of(tmp_path)
    assert space.engine.ledger.heads(ids) == {}


def test_jobs_forget_erased_content(space, tmp_path):
    first = space.ingest(
        "source",
        input={"items": [{"text": PHRASE, "origin": f"{WORD}.md"}, {"text": "The mizzen is Otto's.", "origin": "b"}]},
    )
    again = space.ingest("source", input={"items": [{"text": "All new.", "origin": f"{WORD}.md"}]})
    (identity,) = {item.source_id for item in first.items if WORD in item.origin}
    receipt = space.erase([identity])
    assert {probe.name: probe.found for probe in receipt.probes}["jobs"] == 0
    for job in (first.job, again.job):
        report = space.ingest("status", input={"job": job})
        assert WORD not in repr(report)
        assert identity not in repr(report)
    assert [item.origin for item in space.ingest("status", input={"job": first.job}).items] == ["b"]
    assert WORD.encode() not in bytes_of(tmp_path)


def test_a_job_that_goes_on_does_not_write_it_again(space):
    first = space.ingest("source", input={"items": [{"text": PHRASE, "origin": f"{WORD}.md"}]})
    jobs = space.engine.jobs
    running = jobs.find(first.job)
    space.erase([first.items[0].source_id])
    jobs.save(first.job, running)
    assert WORD not in repr(jobs.find(first.job))
    assert jobs.find(first.job)["counts"] == {"created": 1}


def test_an_idempotency_key_is_erased_and_still_brings_nothing_back(space, tmp_path):
    given = {"kind": "preference", "title": "Tea", "payload": {"statement": "Tea at four."}}
    made = space.crystallize("knowledge", input=given, options={"idempotency_key": f"save {WORD}"})
    space.erase([identity for identity in made.ids if identity.startswith("know:")])
    assert WORD.encode() not in bytes_of(tmp_path)
    again = space.crystallize("knowledge", input=given, options={"idempotency_key": f"save {WORD}"})
    assert again.receipt.replayed
    assert all_of(space, "knowledge") == []


def test_reasons_that_name_it_are_named(space):
    known = decide(space, f"The {WORD} way")
    space.crystallize("knowledge", input={"id": known, "summary": "x"}, options={"reason": f"Correct The {WORD} way"})
    receipt = space.erase([known])
    assert [place for place in receipt.out_of_reach if "audit events" in place]


def test_reasons_that_name_one_of_several_by_title_or_origin_are_reported_by_their_events(space):
    quote = note(space, PHRASE, origin="diary.md", title="Notes")
    known = decide(space, f"The {WORD} way", quote)
    by_title, by_origin = f"Correct The {WORD} way", "diary.md was a draft"
    for mode, changed, reason in (
        ("knowledge", {"id": known, "summary": "x"}, by_title),
        ("knowledge", {"id": known, "summary": "y"}, "Shorter"),
        ("source", {"id": quote["source_id"], "status": "archived"}, by_origin),
    ):
        space.crystallize(mode, input=changed, options={"reason": reason})
    events = space.engine.ledger.events_of
    (first,) = [event.seq for event in events(known) if event.reason == by_title]
    (last,) = [event.seq for event in events(quote["source_id"]) if event.reason == by_origin]
    told = [place for place in space.erase([known, quote["source_id"]]).out_of_reach if "audit events" in place]
    assert told == [f"the reasons of audit events {first}, {last}, which mention it"]


def test_a_proof_that_fails_takes_no_erasure_back(filled, monkeypatch):
    space, ids = filled

    def unavailable(*_args, **_options):
        raise Unavailable("It was locked.", hint="Wait.")

    with monkeypatch.context() as patched:
        patched.setattr(type(space.engine.index.upkeep), "remains", unavailable)
        patched.setattr(type(space.engine.ledger), "compact", lambda _: ("the log, which another process reads",))
        receipt = space.erase([ids["source"]])
    assert not receipt.clean
    assert receipt.remaining[0] == "the log, which another process reads"
    assert "It was locked." in receipt.remaining[1]
    with pytest.raises(NotFound):
        read(space, ids["source"])

import json
from dataclasses import replace

import pytest
from ingest_parts import Folder, make_desk

from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import EvidenceRef
from treering.core.fencing import fence
from treering.core.objects import Knowledge
from treering.core.patch import Create, Patch, Supersede, Transition, Update
from treering.ports.adapter import Failed, KnowledgeDraft
from treering.ports.runtime import fresh_id, fresh_salt


@pytest.fixture
def desk():
    return make_desk()


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "a.md", "# Storage\n\nWe keep it in SQLite.\n\n# Names\n\nNouns are good names for modules.\n")
    return tmp_path


def write(folder, name, text):
    (folder / name).write_text(text)


def manifest(folder, **fields):
    write(folder, "app.json", json.dumps({"name": "app", **fields}))


class Mistaken(Folder):
    def _reading(self, origin, file, known, limits):
        fact = KnowledgeDraft("fact", "one", {"subject": "a", "predicate": "b", "value": 1}, segment=7)
        return replace(super()._reading(origin, file, known, limits), knowledge=[fact])


class Unreadable(Folder):
    def _reading(self, origin, file, known, limits):
        return Failed(origin, "it cannot be read")


def outcomes(report):
    return {item.origin.rpartition("#")[2]: item.outcome for item in report.items}


def commit(desk, *operations):
    clock = desk.engine.clock
    patch = Patch(id=fresh_id("patch", clock), source=desk.engine.author, operations=operations, created_at=clock.now())
    return desk.ledger.commit(patch)


def believe(desk, source, segment, outcome="SQLite"):
    clock = desk.engine.clock
    decision = Knowledge(
        id=fresh_id("knowledge", clock),
        scope="/",
        created_at=clock.now(),
        updated_at=clock.now(),
        salt=fresh_salt(clock),
        kind="decision",
        status="active",
        title=f"We use {outcome}",
        payload={"question": "Where is it kept?", "outcome": outcome},
        evidence_refs=(EvidenceRef(source_id=source.id, segment_id=segment.segment_id),),
    )
    commit(desk, Create(object=decision))
    return decision.id


def test_a_folder_becomes_one_source_per_file(desk, folder):
    write(folder, "b.md", "# B\n\nbeta\n")
    report = desk.read(folder)
    assert report.status == "ok"
    assert outcomes(report) == {"a.md": "created", "b.md": "created"}
    assert desk.sources()["b.md"].segments[0].excerpt == "# B\n\nbeta"
    assert report.sequence == desk.ledger.sequence()
    assert report.ids[0] == report.job


def test_files_are_written_through_the_channel_of_adapters(desk, folder):
    desk.read(folder)
    assert desk.sources()["a.md"].origin_channel == "adapter"
    assert desk.ledger.patches()[0].source.actor == "ada"
    assert desk.ledger.patches()[0].source.tool == "ingest"


def test_a_second_run_over_unchanged_input_writes_nothing(desk, folder):
    manifest(folder, version="1", needs=["apsw"])
    desk.read(folder)
    before = desk.ledger.sequence(), len(desk.ledger.patches()), len(desk.jobs.rows), desk.vectors.started
    report = desk.read(folder)
    assert (report.status, report.counts, report.job) == ("unchanged", {"unchanged": 2}, "")
    assert (desk.ledger.sequence(), len(desk.ledger.patches()), len(desk.jobs.rows), desk.vectors.started) == before


def test_an_edited_file_gets_a_new_revision_and_unchanged_text_keeps_its_segment(desk, folder):
    desk.read(folder)
    before = desk.sources()["a.md"]
    write(folder, "a.md", "# New\n\n" + "Something new. " * 12 + "\n\n" + (folder / "a.md").read_text())
    report = desk.read(folder)
    after = desk.sources()["a.md"]
    assert outcomes(report) == {"a.md": "updated"}
    assert (after.id, after.revision) == (before.id, 2)
    ids = {segment.segment_id for segment in before.segments}
    assert ids <= {segment.segment_id for segment in after.segments}
    moved = next(segment for segment in after.segments if segment.segment_id in ids)
    assert moved.locator.start == before.segments[0].locator.start + 4


def test_knowledge_whose_evidence_vanished_goes_stale_and_is_named(desk, folder):
    desk.read(folder)
    source = desk.sources()["a.md"]
    decision = believe(desk, source, source.segments[0])
    write(folder, "a.md", "# Storage\n\nWe keep it in Postgres.\n")
    assert desk.read(folder).staled == (decision,)
    assert desk.ledger.get(decision).status == "stale"


def test_evidence_whose_text_is_only_cut_differently_still_holds(desk, folder):
    desk.read(folder)
    source = desk.sources()["a.md"]
    decision = believe(desk, source, source.segments[0])
    # The sections no longer share a segment once something long follows the first heading's neighbour.
    grown = (folder / "a.md").read_text() + "\nand " + "many more words about names, " * 80
    write(folder, "a.md", "Above.\n\n" + grown)
    report = desk.read(folder)
    kept = desk.ledger.segment(source.id, source.segments[0].segment_id)
    assert report.staled == ()
    assert desk.ledger.get(decision).status == "active"
    assert (kept.locator.start, kept.locator.end) == (3, 9)
    assert kept.excerpt == source.segments[0].excerpt


def test_a_kept_segment_goes_once_nothing_current_rests_on_it(desk, folder):
    desk.read(folder)
    source = desk.sources()["a.md"]
    decision = believe(desk, source, source.segments[0])
    write(folder, "a.md", (folder / "a.md").read_text() + "\nand " + "many more words about names, " * 80)
    desk.read(folder)
    kept = source.segments[0].segment_id
    assert kept in {segment.segment_id for segment in desk.sources()["a.md"].segments}
    held = desk.ledger.get(decision)
    commit(desk, Transition(id=decision, expected_revision=held.revision, to="archived"))
    write(folder, "a.md", (folder / "a.md").read_text() + "\nThe end.\n")
    desk.read(folder)
    assert kept not in {segment.segment_id for segment in desk.sources()["a.md"].segments}


def test_a_vanished_file_is_archived_with_the_facts_only_it_stated(desk, folder):
    manifest(folder, version="1")
    desk.read(folder)
    (folder / "app.json").unlink()
    report = desk.read(folder)
    assert outcomes(report) == {"app.json": "removed"}
    assert desk.sources()["app.json"].status == "archived"
    assert desk.facts() == {"version 1": "archived"}
    assert report.staled == ()


def test_a_vanished_file_that_comes_back_is_a_new_source(desk, folder):
    manifest(folder, version="1")
    desk.read(folder)
    first, text = desk.sources()["app.json"], (folder / "app.json").read_text()
    (folder / "app.json").unlink()
    desk.read(folder)
    write(folder, "app.json", text)
    assert outcomes(desk.read(folder)) == {"app.json": "created"}
    again = desk.sources()["app.json"]
    assert (again.status, again.id != first.id) == ("active", True)
    assert desk.facts() == {"version 1": "candidate"}
    assert desk.read(folder).status == "unchanged"


def test_a_moved_file_keeps_its_identity_and_its_evidence(folder):
    desk = make_desk(adapter=Folder(moves={"a.md": "z.md"}))
    desk.read(folder)
    source = desk.sources()["a.md"]
    decision = believe(desk, source, source.segments[0])
    (folder / "a.md").rename(folder / "z.md")
    report = desk.read(folder)
    assert outcomes(report) == {"z.md": "moved"}
    assert report.items[0].moved_from.endswith("#a.md")
    moved = desk.ledger.get(source.id)
    assert (moved.origin.rpartition("#")[2], moved.title, moved.segments[0].locator.path) == ("z.md",) * 3
    assert desk.ledger.get(decision).status == "active"
    assert desk.read(folder).status == "unchanged"


def test_a_file_said_to_have_moved_where_nothing_arrived_is_removed(folder):
    desk = make_desk(adapter=Folder(moves={"a.md": "broken"}))
    desk.read(folder)
    (folder / "a.md").rename(folder / "broken")
    assert outcomes(desk.read(folder)) == {"broken": "failed", "a.md": "removed"}


def test_what_a_file_states_becomes_candidates_about_its_node(desk, folder):
    manifest(folder, version="1", needs=["apsw"])
    desk.read(folder)
    (node,) = desk.all("node")
    facts = desk.all("knowledge")
    assert desk.facts() == {"version 1": "candidate", "needs apsw": "candidate"}
    assert {fact.subject_refs for fact in facts} == {(node.id,)}
    assert {fact.memory_source for fact in facts} == {"system_generated"}
    source = desk.sources()["app.json"]
    assert {fact.evidence_refs[0].quote_hash for fact in facts} == {source.segments[0].hash}


def test_a_changed_version_replaces_the_old_one_and_spares_its_neighbours(desk, folder):
    manifest(folder, version="1", needs=["apsw"])
    desk.read(folder)
    needs = next(fact.id for fact in desk.all("knowledge") if fact.title == "needs apsw")
    manifest(folder, version="2", needs=["apsw"])
    report = desk.read(folder)
    assert desk.facts() == {"version 1": "archived", "version 2": "candidate", "needs apsw": "candidate"}
    assert (report.contested, report.staled) == ((), ())
    segment = desk.sources()["app.json"].segments[0]
    assert [ref.segment_id for ref in desk.ledger.get(needs).evidence_refs] == [segment.segment_id]


def test_a_version_that_comes_back_is_a_candidate_again(desk, folder):
    for version in ("1", "2", "1", "2", "1"):
        manifest(folder, version=version)
        desk.read(folder)
    assert desk.facts() == {"version 1": "candidate", "version 2": "archived"}
    assert sorted(fact.status for fact in desk.all("knowledge")) == [*["archived"] * 4, "candidate"]


def test_the_same_statement_in_another_file_keeps_it_presentable(desk, folder):
    manifest(folder, version="1")
    write(folder, "twin.json", json.dumps({"name": "app", "version": "1"}))
    desk.read(folder)
    (fact,) = desk.all("knowledge")
    assert len({ref.source_id for ref in fact.evidence_refs}) == 2
    manifest(folder, version="1", needs=["x"])
    write(folder, "twin.json", json.dumps({"name": "app", "version": "1", "needs": ["y"]}))
    assert desk.read(folder).staled == ()
    assert len(desk.ledger.get(fact.id).evidence_refs) == 2


def test_what_was_turned_down_is_not_proposed_again(desk, folder):
    manifest(folder, version="1")
    desk.read(folder)
    (fact,) = desk.all("knowledge")
    commit(desk, Transition(id=fact.id, expected_revision=fact.revision, to="archived"))
    manifest(folder, version="1", needs=["x"])
    desk.read(folder)
    assert desk.facts() == {"version 1": "archived", "needs x": "candidate"}


def test_what_was_superseded_is_not_proposed_again(desk, folder):
    manifest(folder, version="1")
    desk.read(folder)
    (fact,) = desk.all("knowledge")
    source = desk.sources()["app.json"]
    winner = believe(desk, source, source.segments[0])
    commit(desk, Transition(id=fact.id, expected_revision=1, to="active"))
    commit(desk, Supersede(id=fact.id, expected_revision=2, by=winner))
    manifest(folder, version="1", needs=["x"])
    desk.read(folder)
    assert desk.facts()["version 1"] == "superseded"


def test_a_node_is_kept_up_to_date_until_a_person_wrote_its_summary(desk, folder):
    manifest(folder, about="first")
    desk.read(folder)
    manifest(folder, about="second")
    desk.read(folder)
    (node,) = desk.all("node")
    assert node.summary == "second"
    commit(desk, Update(id=node.id, expected_revision=node.revision, changes={"summary": "mine"}))
    manifest(folder, about="third")
    desk.read(folder)
    assert desk.ledger.get(node.id).summary == "mine"


def test_failures_and_skips_come_first_and_the_rest_is_counted(desk, folder):
    for number in range(5):
        write(folder, f"n{number}.md", f"# N\n\nnumber {number}\n")
    write(folder, "broken", "")
    write(folder, "x.bin", "")
    report = desk.read(folder, max_items=3)
    assert [item.outcome for item in report.items] == ["failed", "skipped", "created"]
    assert report.counts == {"failed": 1, "skipped": 1, "created": 6}
    assert report.items_left_out == 5
    assert report.status == "partial"
    assert report.items[0].why == "it is broken"


def test_a_failed_item_that_was_read_before_says_that_the_old_reading_stays(desk, folder):
    desk.read(folder)
    report = desk.ingest("path", {"path": str(folder)}, engine=replace(desk.engine, adapters={"path": Unreadable()}))
    assert report.items[0].why == "it cannot be read; the version read before is unchanged"
    assert desk.sources()["a.md"].status == "active"


def test_a_statement_without_its_segment_fails_its_item(folder):
    report = make_desk(adapter=Mistaken()).read(folder)
    assert report.status == "failed"
    assert "in segment 7, but there are only 1" in report.items[0].why


def test_dry_run_reports_without_writing(desk, folder):
    report = desk.read(folder, dry_run=True)
    assert outcomes(report) == {"a.md": "created"}
    assert (report.dry_run, report.job, desk.ledger.sequence(), desk.jobs.rows) == (True, "", 0, {})
    assert desk.vectors.started == 0
    assert report.ids == ()


def test_a_dry_run_fails_what_a_real_one_would(desk, folder):
    write(folder, "bad.json", json.dumps({"name": "app", "version": {}}))
    told, done = desk.read(folder, dry_run=True), desk.read(folder)
    assert told.counts == done.counts


def test_recalled_text_in_a_file_is_dropped_across_its_segments(desk, folder):
    recalled = fence("# One\n\n" + "recalled words " * 20 + "\n\n# Two\n\nmore of it", origin="know:x")
    write(folder, "log.md", f"# Log\n\nBefore.\n\n{recalled}\n\nAfter.\n")
    report = desk.read(folder)
    text = "\n".join(segment.excerpt for segment in desk.sources()["log.md"].segments)
    assert "recalled words" not in text
    assert "more of it" not in text
    assert "Before." in text
    assert "After." in text
    assert any("recalled" in warning for warning in report.warnings)


def test_vectors_start_after_writing_and_are_waited_for_on_request(desk, folder):
    assert desk.read(folder).pending_vectors == 1
    assert (desk.vectors.started, desk.vectors.finished) == (1, 0)
    assert desk.read(folder, wait=True).pending_vectors == 0
    assert desk.vectors.finished == 1


def test_a_dry_run_waits_for_no_vectors(desk, folder):
    desk.read(folder, wait=True, dry_run=True)
    assert (desk.vectors.started, desk.vectors.finished) == (0, 0)


def test_progress_is_reported_with_the_number_of_items(desk, folder):
    told = []
    for number in range(60):
        write(folder, f"n{number:02}.md", f"# N\n\nnumber {number}\n")
    engine = desk.engine.with_progress(lambda *step: told.append(step))
    desk.ingest("path", {"path": str(folder)}, engine=engine)
    assert told[-1][1:] == (61, 61)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_scopes_hold_their_own_sources(desk, folder):
    desk.ingest("path", {"path": str(folder)}, scope="/repo/one")
    report = desk.ingest("path", {"path": str(folder)}, scope="/repo/two")
    assert outcomes(report) == {"a.md": "created"}
    assert sorted(item.scope for item in desk.all("source")) == ["/repo/one", "/repo/two"]


def test_status_mentions_the_newest_job_and_of_any_by_id(desk, folder):
    write(folder, "broken", "")
    first = desk.read(folder)
    write(folder, "b.md", "# B\n\nbeta\n")
    second = desk.read(folder)
    assert desk.ingest("status").job == second.job
    told = desk.ingest("status", {"job": first.job})
    assert (told.state, told.counts, told.done) == ("done", {"created": 1, "failed": 1}, 2)
    assert [item.outcome for item in told.items] == ["failed", "created"]
    assert told.pending_vectors == 2


def test_status_lists_every_item_page_by_page(desk, folder):
    for number in range(7):
        write(folder, f"n{number}.md", f"# N\n\nnumber {number}\n")
    desk.read(folder, max_items=0)
    first = desk.ingest("status", max_items=5)
    rest = desk.ingest("status", max_items=5, offset=5)
    assert len({item.origin for item in (*first.items, *rest.items)}) == 8


def test_status_of_a_space_without_jobs_is_empty(desk):
    assert desk.ingest("status").status == "empty"


def test_a_job_beside_the_scope_of_a_call_is_not_found(desk, folder):
    job = desk.ingest("path", {"path": str(folder)}, scope="/a").job
    assert desk.ingest("status", {"job": job}, scope="/a/b").job == job
    with pytest.raises(NotFound, match="There is no job"):
        desk.ingest("status", {"job": job}, scope="/b")


def test_an_unknown_job_is_not_found(desk):
    with pytest.raises(NotFound, match="job:nothing"):
        desk.ingest("status", {"job": "job:nothing"})


def test_an_empty_folder_is_an_empty_report(desk, tmp_path):
    assert desk.read(tmp_path).status == "empty"


def test_what_cannot_be_read_at_all_is_refused(desk, tmp_path):
    with pytest.raises(InvalidInput, match="not a folder"):
        desk.read(tmp_path / "nowhere")


def test_a_mode_whose_adapter_is_missing_is_refused(desk, folder):
    with pytest.raises(InvalidInput, match="no adapter for 'repo'") as caught:
        desk.ingest("repo", {"path": str(folder)})
    assert caught.value.details["known"] == ["path"]


@pytest.mark.parametrize(
    ("mode", "given", "options", "hint"),
    [
        ("paths", {}, {}, "'path'"),
        ("path", {"pth": "x"}, {}, "'path'"),
        ("path", {"path": "x"}, {"dryrun": True}, "'dry_run'"),
        ("repo", {"path": "x"}, {"comit": "x"}, "'commit'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(desk, mode, given, options, hint):
    with pytest.raises(InvalidInput) as caught:
        desk.ingest(mode, given, **options)
    assert hint in caught.value.hint

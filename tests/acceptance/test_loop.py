"""The main job on real input: a repository goes in, work is recorded, the repository moves on, drift is found."""

import pytest
from project import CLIENT, README, Project

from space_parts import read, records, status

QUOTE = "give up after MAX_RETRIES attempts"
EDITED = CLIENT.replace(
    "give up after MAX_RETRIES attempts, because the gateway bans clients that retry_on_conflict", "never give up"
)


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path / "acme")
    made.commit(src__client_py=CLIENT, README_md=README)
    return made


@pytest.fixture
def space(open_space, tmp_path):
    return open_space(f"sqlite:{tmp_path / 'space.db'}", actor="bot")


def ingest(space, project):
    return space.ingest("repo", input={"path": str(project.folder)})


def work(space):
    """Look for context, find the line that matters, and record what was decided on it; return the decision."""
    found = space.query("search", input={"text": "how often does upload retry before it gives up"}).hits
    hit = next(hit for hit in found if QUOTE in hit.text)
    given = {
        "kind": "implementation",
        "title": "Made the retry cap visible",
        "outcome": "success",
        "source_refs": [hit.source_id],
        "knowledge": [
            {
                "kind": "decision",
                "title": "Cap upload retries at five",
                "payload": {"question": "How often is an upload retried?", "outcome": "Five times at most"},
                "evidence_refs": [{"source_id": hit.source_id, "segment_id": hit.segment_id}],
                "status": "active",
            }
        ],
    }
    report = space.crystallize("activity", input=given, options={"reason": "ticket 7"})
    return next(one for one in report.ids if one.startswith("know:"))


def place(space, decision):
    """Return where the evidence of a decision stands now."""
    (ref,) = read(space, decision).evidence_refs
    return space.engine.ledger.segment(ref.source_id, ref.segment_id).locator


def shown(space, **options):
    """Return the ids that context and search present for a task about retries."""
    pack = space.query("context", input={"task": "retry cap of uploads"}, options=options).pack
    hits = space.query("search", input={"text": "cap upload retries at five"}, options=options).hits
    return {item.object_id for item in pack.items} & {hit.object_id for hit in hits}


def test_a_decision_lives_and_dies_with_its_evidence(space, project):
    assert ingest(space, project).status == "ok"
    before = space.query("context", input={"task": "make the retries of upload configurable"})
    assert any("client.py" in citation.place for citation in before.pack.citations)

    decision = work(space)
    then = space.engine.ledger.sequence()
    assert decision in shown(space)
    assert status(space, decision) == "active"

    commit = project.commit(src__client_py=EDITED)
    report = ingest(space, project)
    assert decision in report.staled
    assert status(space, decision) == "stale"

    (finding,) = space.lint("semantic", input={"rules": ["stale"]}).findings
    assert decision in finding.ids
    assert "src/client.py" in finding.explanation
    assert QUOTE in finding.explanation
    assert "def upload" not in finding.explanation  # that line is still there

    assert decision not in shown(space)
    pack = space.query("context", input={"task": "retry cap of uploads"}).pack
    assert any(decision in gap for gap in pack.missing_context)
    assert any(commit[:12] in citation.place for citation in pack.citations)

    assert decision in shown(space, as_of=then)
    page = space.query("page", input={"id": decision})
    assert [change.event for change in page.history] == ["created", "staled"]
    assert space.lint("audit").verified


def test_an_edit_elsewhere_in_the_file_keeps_the_decision_and_moves_its_place(space, project):
    ingest(space, project)
    decision = work(space)
    before = place(space, decision)
    inserted = 'CHUNK = 1 << 20\n"""How much is sent at a time."""\n\n'
    commit = project.commit(src__client_py=CLIENT.replace("MAX_RETRIES = 5\n", inserted + "MAX_RETRIES = 5\n"))
    ingest(space, project)
    after = place(space, decision)
    assert status(space, decision) == "active"
    assert (after.start, after.end) == (before.start + 3, before.end + 3)
    assert commit.startswith(after.cite().rpartition("@ ")[2])
    assert decision in shown(space)


def test_a_renamed_file_keeps_the_decision(space, project):
    ingest(space, project)
    decision = work(space)
    (project.folder / "src" / "client.py").rename(project.folder / "src" / "uploader.py")
    project.commit()
    ingest(space, project)
    assert status(space, decision) == "active"
    assert place(space, decision).path == "src/uploader.py"


def test_a_deleted_file_takes_the_decision_with_it(space, project):
    ingest(space, project)
    decision = work(space)
    (project.folder / "src" / "client.py").unlink()
    project.commit()
    ingest(space, project)
    assert status(space, decision) == "stale"
    assert "src/client.py" in space.lint("semantic", input={"rules": ["stale"]}).findings[0].explanation
    assert space.query("search", input={"text": "MAX_RETRIES upload attempts"}).empty or all(
        "client.py" not in hit.origin for hit in space.query("search", input={"text": "MAX_RETRIES"}).hits
    )


def test_words_that_come_back_are_current_again(space, project):
    ingest(space, project)
    decision = work(space)
    project.commit(src__client_py=EDITED)
    ingest(space, project)
    project.commit(src__client_py=CLIENT)
    ingest(space, project)
    assert status(space, decision) == "active"
    assert decision in shown(space)
    assert space.lint("semantic", input={"rules": ["stale"]}).findings == ()


def test_reading_an_unchanged_repository_again_writes_nothing(space, project):
    ingest(space, project)
    decision = work(space)
    before = records(space)
    assert ingest(space, project).status == "unchanged"
    assert records(space) == before
    assert status(space, decision) == "active"

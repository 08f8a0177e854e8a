"""Ingest on real parts: git, files, SQLite with its index."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import pytest
from ingest_parts import desk_of

from treering.core.patch import Transition
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.passages import Reach
from treering.ports.search import TextQuery
from treering.sources.path import PathAdapter
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.jobs import SqliteJobs
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.index_contract.stage import by_words, heads
from treering.verbs.crystallize.submission import new_patch

PYPROJECT = """\
[project]
name = "acme"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["apsw>=3.51", "{second}"]
"""
RECORD = """\
# 1. Keep everything in one file

Status: accepted

## Context

Where should a space live?

## Decision

We keep a space in one SQLite file, because copying it is a backup.
"""
CODE = '''\
"""Greets people."""


def greet(name):
    """Say hello to somebody."""
    return f"hello {name}"
'''


class Repository:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        names = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "A"}
        settings = {"GIT_COMMITTER_EMAIL": "a@b.c", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(
            ["git", *arguments], cwd=self.folder, check=True, env={"PATH": os.environ["PATH"], **names, **settings}
        )

    def commit(self, **files):
        for path, text in files.items():
            file = self.folder / path.replace("__", "/").replace("_md", ".md").replace("_py", ".py").replace(
                "_toml", ".toml"
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")


@pytest.fixture
def repository(tmp_path):
    repository = Repository(tmp_path / "acme")
    repository.commit(
        pyproject_toml=PYPROJECT.format(version="1.0", second="numpy>=2"),
        docs__adr__0001_one_file_md=RECORD,
        src__acme__greeting_py=CODE,
    )
    return repository


class SystemClock:
    def now(self):
        return datetime.now(UTC)

    def random_bytes(self, count):
        return os.urandom(count)


@contextmanager
def opened(file):
    clock = SystemClock()
    database = Database(str(file))
    index = SqliteIndex(database, model_id="none", dimension=8)
    with closing(database):
        ledger = SqliteLedger(database, clock=clock, followers=[index])
        yield desk_of(
            ledger, clock, PathAdapter(), RepoAdapter(), index=index, jobs=SqliteJobs(database.read, database.write)
        )


@pytest.fixture
def desk(tmp_path):
    with opened(tmp_path / "space.db") as desk:
        yield desk


def ingest(desk, repository, **options):
    return desk.ingest("repo", {"path": str(repository.folder)}, **options)


def statuses(desk):
    return {
        (item.payload.predicate, item.payload.object or item.payload.value): item.status
        for item in desk.all("knowledge")
        if item.kind == "fact"
    }


def found(desk, word):
    hits = by_words(desk.engine.index, TextQuery(words=(word,)), reach=Reach("/"), limit=10)
    return {head.origin.rpartition("#")[2] for head in heads(desk.engine.index, [hit.key for hit in hits]).values()}


def test_a_repository_goes_in_and_is_found_by_words(desk, repository):
    report = ingest(desk, repository)
    assert report.counts == {"created": 4}
    assert "src/acme/greeting.py" in found(desk, "hello")
    assert report.pending_vectors > 0
    assert {"repo", "module"} <= {node.kind for node in desk.all("node")}
    (decision,) = [item for item in desk.all("knowledge") if item.kind == "decision"]
    segment = desk.ledger.segment(decision.evidence_refs[0].source_id, decision.evidence_refs[0].segment_id)
    assert "one SQLite file" in segment.excerpt


def test_a_second_run_over_the_same_commit_writes_nothing(desk, repository):
    ingest(desk, repository)
    before = desk.ledger.sequence(), len(desk.ledger.patches()), len(desk.engine.jobs.recent(10, scope="/"))
    assert ingest(desk, repository).status == "unchanged"
    assert (desk.ledger.sequence(), len(desk.ledger.patches()), len(desk.engine.jobs.recent(10, scope="/"))) == before


def test_a_new_version_in_the_manifest_leaves_its_neighbours_presentable(desk, repository):
    ingest(desk, repository)
    repository.commit(pyproject_toml=PYPROJECT.format(version="1.1", second="numpy>=2"))
    report = ingest(desk, repository)
    facts = statuses(desk)
    assert (facts["version", "1.0"], facts["version", "1.1"]) == ("archived", "candidate")
    assert {status for (predicate, _), status in facts.items() if predicate != "version"} == {"candidate"}
    assert report.staled == ()
    assert report.counts == {"updated": 2, "unchanged": 2}


def test_going_back_to_an_earlier_commit_brings_its_facts_back(desk, repository):
    ingest(desk, repository)
    repository.commit(pyproject_toml=PYPROJECT.format(version="1.1", second="scipy>=1"))
    ingest(desk, repository)
    repository.git("reset", "-q", "--hard", "HEAD~1")
    ingest(desk, repository)
    live = {key for key, status in statuses(desk).items() if status == "candidate"}
    assert ("version", "1.0") in live
    assert ("version", "1.1") not in live
    assert ("depends on numpy", ">=2") in live
    assert ("depends on scipy", ">=1") not in live


def test_a_renamed_file_keeps_its_identity(desk, repository):
    ingest(desk, repository)
    before = desk.sources()["src/acme/greeting.py"]
    repository.git("mv", "src/acme/greeting.py", "src/acme/hello.py")
    repository.commit()
    report = ingest(desk, repository)
    assert report.counts["moved"] == 1
    assert desk.sources()["src/acme/hello.py"].id == before.id


def test_a_removed_decision_record_takes_its_decision_with_it(desk, repository):
    ingest(desk, repository)
    repository.git("rm", "-q", "docs/adr/0001_one_file.md")
    repository.commit()
    report = ingest(desk, repository)
    (decision,) = [item for item in desk.all("knowledge") if item.kind == "decision"]
    assert report.counts["removed"] == 1
    assert (decision.status, report.staled) == ("archived", ())
    assert found(desk, "backup") == set()


def test_a_file_that_was_removed_and_comes_back_is_a_new_source(desk, repository):
    ingest(desk, repository)
    repository.git("rm", "-q", "pyproject.toml")
    repository.commit()
    ingest(desk, repository)
    repository.git("checkout", "-q", "HEAD~1")
    report = ingest(desk, repository)
    assert report.counts["created"] == 1
    assert set(statuses(desk).values()) == {"candidate"}
    assert ingest(desk, repository).status == "unchanged"


def test_a_folder_says_what_its_repository_said_of_its_files(desk, repository):
    ingest(desk, repository)
    assert desk.read(repository.folder).counts == {"unchanged": 3}


def test_a_dry_run_names_what_would_go_stale(desk, repository):
    ingest(desk, repository)
    confirmed = next(item for item in desk.all("knowledge") if item.title.endswith("version 1.0"))
    active = Transition(id=confirmed.id, expected_revision=confirmed.revision, to="active")
    desk.ledger.commit(new_patch(desk.engine, [active], author=desk.engine.author, reason="Seen").value)
    repository.commit(pyproject_toml=PYPROJECT.format(version="1.1", second="numpy>=2"))
    before = desk.ledger.sequence()
    report = ingest(desk, repository, dry_run=True)
    assert (len(report.staled), desk.ledger.sequence()) == (1, before)
    assert report.staled == ingest(desk, repository).staled


def test_the_account_of_a_job_outlives_its_process(desk, repository):
    job = ingest(desk, repository).job
    told = desk.ingest("status", {"job": job})
    assert (told.state, told.done, len(told.items)) == ("done", 4, 4)
    # A body of code waits for none: only what is found by its meaning does.
    assert 0 < told.pending_vectors < told.total_vectors


def test_runs_at_the_same_time_agree(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(130):
        (folder / f"n{number}.md").write_text(f"# N\n\nnumber {number}")
    with opened(tmp_path / "space.db") as one, opened(tmp_path / "space.db") as other:
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda desk: desk.read(folder), (one, other)))
        assert sum(report.counts.get("created", 0) for report in reports) == 130
        assert not any(report.counts.get("failed") for report in reports)
        assert len(one.all("source")) == 130
        assert one.read(folder).status == "unchanged"

"""Decision records that another record replaced, in searches and packs."""

import pytest

from treering.retrieval.text.decision_records import is_record_path, is_superseded, removes, replaces, status_of_record

RECORD = "# {title}\n\n## Status\n\n{status}\n\n## Context\n\n{context}\n\n## Decision\n\n{decision}\n"
CONTEXT = "Sessions must survive a restart of the web server, and each server has its own memory. " * 8
FIRST, SECOND = "0001-store-sessions-in-redis.md", "0002-store-sessions-in-postgres.md"


def record(title, decision, *, status="Accepted", context=CONTEXT):
    return RECORD.format(title=title, status=status, context=context, decision=decision)


@pytest.fixture
def read(space, tmp_path):
    """Return a function that reads the two records, each with its status and context."""

    def reading(first="Accepted", second="Accepted", *, title="Store sessions in Postgres", context=CONTEXT):
        folder = tmp_path / "docs" / "adr"
        folder.mkdir(parents=True)
        (folder / FIRST).write_text(record("Store sessions in Redis", "Store sessions in Redis.", status=first))
        later = record(title, "Store sessions in Postgres.", status=second, context=context)
        (folder / SECOND).write_text(later)
        space.ingest("path", input={"path": str(tmp_path)})
        return space

    return reading


def hits(space):
    given = {"text": "where are sessions stored, in redis"}
    return space.query("search", input=given, options={"semantic": False}).hits


def notes(space, name):
    return {hit.note for hit in hits(space) if hit.place.startswith(f"docs/adr/{name}")}


@pytest.mark.parametrize(
    "statuses",
    [
        (f"Superseded by [ADR 2]({SECOND})", "Accepted"),
        ("Accepted", f"Accepted. Supersedes [ADR 1]({FIRST})"),
    ],
)
def test_replaced_record_is_below_its_replacement(read, statuses):
    space = read(*statuses)
    assert notes(space, FIRST) == {f"superseded by {SECOND}"}
    assert notes(space, SECOND) == {""}
    names = [hit.place.rpartition("#")[0].rpartition("/")[2] for hit in hits(space) if hit.type == "source"]
    assert names.index(SECOND) < names.index(FIRST)


def test_title_that_removes_replaces_in_part(read):
    space = read(title="Get rid of Redis", context=f"As chosen in [ADR 1]({FIRST}). {CONTEXT}")
    assert notes(space, FIRST) == {f"superseded in part by {SECOND}"}


def test_mention_alone_replaces_nothing(read):
    space = read(context=f"See also [ADR 1]({FIRST}). {CONTEXT}")
    assert notes(space, FIRST) == {""}


def test_proposed_record_replaces_nothing(read):
    space = read(second=f"Proposed. Supersedes [ADR 1]({FIRST})")
    assert notes(space, FIRST) == {""}


def test_pack_has_no_decision_of_a_replaced_record(read):
    space = read(second=f"Accepted. Supersedes [ADR 1]({FIRST})")
    task = {"task": "where are sessions stored, in redis or in postgres"}
    pack = space.query("context", input=task, options={"semantic": False}).pack
    assert [item.title for item in pack.items if item.section == "decisions"] == ["Store sessions in Postgres"]


@pytest.mark.parametrize(
    ("text", "superseded"),
    [
        ("# A\n\n## Status\n\nAccepted\n\n* Superseded by [ADR 8](0008-b.md)\n\n## Context\n", True),
        ("---\nstatus: superseded by ADR-0005\n---\n# A\n", True),
        ("# A\n\n* Status: accepted\n* Supersedes [1](0001-a.md)\n", False),
        ("# A\n\n## Status\n\nPartially superseded by [B](b.md)\n", False),
        ("# A\n\n## Status\n\nAccepted <!-- or superseded -->\n", False),
        ("# A\n\nIt superseded everything.\n", False),
    ],
)
def test_status_of_a_record_is_read(text, superseded):
    assert is_superseded(status_of_record(text)) == superseded


def test_links_between_records_are_read():
    assert replaces("This replaces [the first](./0001-use-redis.md).", "0001-use-redis.md")
    assert not replaces("Superseded by [the first](0001-use-redis.md).", "0001-use-redis.md")
    assert removes("12. Drop Redis in favor of files", "As in [1](../adr/0001-use-redis.md).", "0001-use-redis.md")
    assert not removes("Drop Postgres", "As in [1](0001-use-redis.md).", "0001-use-redis.md")


@pytest.mark.parametrize(
    ("path", "is_record"),
    [("docs/adr/0001-a.md", True), ("docs/decisions/README.md", False), ("docs/guide.md", False)],
)
def test_path_of_a_record_is_recognized(path, is_record):
    assert is_record_path(path) == is_record

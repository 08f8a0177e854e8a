"""Decision records that another record replaced, in searches and packs."""

import pytest

from sources.git_scratch import Scratch

RECORD = "# {title}\n\n## Status\n\n{status}\n\n## Context\n\n{context}\n\n## Decision\n\n{decision}\n"
CONTEXT = "Sessions must survive a restart of the web server, and each server has its own memory. " * 8
FIRST, SECOND = "0001-store-sessions-in-redis.md", "0002-store-sessions-in-postgres.md"
BY_SECOND = f"Superseded by [ADR 2]({SECOND})"
REPLACES_FIRST = f"Accepted. Supersedes [ADR 1]({FIRST})"
QUESTION = "where are sessions stored, in redis"


def record(title, decision, *, status="Accepted", context=CONTEXT):
    return RECORD.format(title=title, status=status, context=context, decision=decision)


@pytest.fixture
def read(space, tmp_path):
    """Return a function that reads the two records, each with its status and folder, and further files."""

    def reading(first="Accepted", second="Accepted", *, folders=("docs/adr", "docs/adr"), files=()):
        one = record("Store sessions in Redis", "Store sessions in Redis.", status=first)
        two = record("Store sessions in Postgres", "Store sessions in Postgres.", status=second)
        written = {f"{folders[0]}/{FIRST}": one, f"{folders[1]}/{SECOND}": two, **dict(files)}
        for path, text in written.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(text.encode())
        space.ingest("path", input={"path": str(tmp_path)})
        return space

    return reading


def hits(space, text=QUESTION):
    return space.query("search", input={"text": text}, options={"semantic": False}).hits


def notes(space, name, text=QUESTION):
    return {hit.note for hit in hits(space, text) if f"{name}#" in hit.place}


@pytest.mark.parametrize("statuses", [(BY_SECOND, "Accepted"), ("Accepted", REPLACES_FIRST)])
def test_replaced_record_is_below_its_replacement(read, statuses):
    space = read(*statuses)
    assert notes(space, FIRST) == {f"superseded by {SECOND}"}
    assert notes(space, SECOND) == {""}
    sources = [hit for hit in hits(space) if hit.type == "source"]
    names = [hit.place.rpartition("#")[0].rpartition("/")[2] for hit in sources]
    assert names.index(SECOND) < names.index(FIRST)
    assert {hit.superseded_by for hit in sources if hit.note} == {hit.object_id for hit in sources if not hit.note}


def test_record_of_another_folder_replaces_nothing(read):
    space = read(second=REPLACES_FIRST, folders=("billing/docs/adr", "web/docs/adr"))
    assert notes(space, FIRST) == {""}


def test_replacement_of_another_folder_does_not_lead(read):
    space = read(BY_SECOND, folders=("billing/docs/adr", "web/docs/adr"))
    assert {hit.superseded_by for hit in hits(space)} == {""}


def test_link_to_another_folder_leads_to_its_record(read):
    space = read(f"Superseded by [ADR 2](../new/{SECOND})", folders=("docs/adr", "docs/adr/../new/adr/.."))
    assert notes(space, FIRST) == {f"superseded by {SECOND}"}


@pytest.mark.parametrize(
    "status",
    [
        f"Proposed. Supersedes [ADR 1]({FIRST})",
        f"Accepted. Partially supersedes [ADR 1]({FIRST})",
        f"Accepted. Supersedes [ADR 0](0000-a.md), extends [ADR 1]({FIRST})",
        f"Accepted, see [ADR 1]({FIRST})",
        f"Accepted. Supersedes [itself]({SECOND})",
    ],
)
def test_other_links_replace_nothing(read, status):
    space = read(second=status)
    assert notes(space, FIRST) == {""}
    assert notes(space, SECOND) == {""}


def test_pack_has_no_decision_of_a_replaced_record(read):
    space = read(second=REPLACES_FIRST)
    task = {"task": "where are sessions stored, in redis or in postgres"}
    pack = space.query("context", input=task, options={"semantic": False}).pack
    assert [item.title for item in pack.items if item.section == "decisions"] == ["Store sessions in Postgres"]


def test_code_among_decisions_is_no_record(read):
    code = '"""Loan decisions."""\n\n\nclass LoanDecision:\n    """A loan."""\n\n    status = ""  # or deprecated\n'
    space = read(files={"src/decisions/model.py": code})
    assert notes(space, "src/decisions/model.py", "loan decision") == {""}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("# A\n\n## Status\n\nAccepted\n\n* Superseded by [ADR 8](0008-b.md)\n\n## Context\n\nx\n", "by 0008-b.md"),
        ("---\nstatus: superseded by ADR-0005\n---\n# A\n\nx\n", ""),
        ("A\n=\n\nStatus\n------\n\nSuperseded\n\nContext\n-------\n\nx\n", ""),
        ("# A\r\n\r\n## **Status**\r\n\r\n#12: Superseded\r\n", ""),
        ("# A\n\n  ## 1. Status ##\n\nSuperseded by [B](../adr/b.md#x)\n", "by b.md"),
        ("# A\n\n* Status: accepted\n* Supersedes [1](0001-a.md)\n", None),
        ("# A\n\n## Status\n\nPartially superseded by [B](b.md)\n", None),
        ("# A\n\n## Status\n\nAccepted <!-- or superseded -->\n", None),
        ("# A\n\n## Status\n\nAccepted\n\nContext\n-------\n\nIt superseded all.\n", None),
        ("# A\n\n## Use\n\n```\n# status\nsuperseded\n```\n", None),
        ("# A\n\nIt superseded everything.\n", None),
    ],
)
def test_status_of_a_stored_record_is_read(read, text, note):
    space = read(files={"docs/adr/0003-platypus.md": text.replace("# A", "# Platypus").replace("A\n=", "Platypus\n=")})
    expected = "" if note is None else f"superseded {note}".strip()
    assert notes(space, "0003-platypus.md", "platypus") == {expected}


def test_status_on_another_branch_replaces_nothing(space, tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({f"docs/adr/{FIRST}": record("Sessions in Redis", "Use Redis."), f"docs/adr/{SECOND}": "# B\n"})
    monkeypatch.chdir(scratch.folder)
    space.ingest("repo", input={"path": str(scratch.folder)})
    scratch.git("checkout", "-q", "-b", "feature")
    scratch.commit({f"docs/adr/{FIRST}": record("Sessions in Redis", "Use Redis.", status=BY_SECOND)})
    space.ingest("repo", input={"path": str(scratch.folder)})
    assert notes(space, FIRST) == {f"superseded by {SECOND}"}
    scratch.git("checkout", "-q", "main")
    assert notes(space, FIRST) == {""}


def test_many_records_are_read_at_once(read, monkeypatch):
    further = {f"docs/adr/{at:04}-sessions.md": record(f"Sessions {at}", f"Use {at}.") for at in range(3, 12)}
    space = read(files=further)
    made = []
    for part, name in ((type(space.engine.index.text), "search"), (type(space.engine.ledger), "read")):
        original = getattr(part, name)
        monkeypatch.setattr(part, name, lambda self, given, one=original: made.append(one) or one(self, given))
    numbers = []
    for limit in (1, 1, 20):
        made.clear()
        space.query("search", input={"text": QUESTION}, options={"semantic": False, "limit": limit})
        numbers.append(len(made))
    assert numbers[2] <= numbers[1]

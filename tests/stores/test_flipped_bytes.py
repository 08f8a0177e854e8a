"""A byte of a space's file that was flipped changes no answer, or is found: by the read, lint audit or lint reindex."""

import shutil
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random

import apsw
import pytest
from attacks.damage import flip_byte_of, trees_of

from space_parts import decide, note, open_space, state_fact, task
from treering.core.errors import TreeringError
from treering.ports.ledger import Selection

OF_THE_MOMENT = {"held_leases", "overwriting", "sqlite_sequence", "vector_log"}
"""Who is at work, what is left to overwrite, what was told to processes that run: nothing that is answered with."""
QUESTIONS = ("bees hum 2024", "hive_count_3", "What did Anna Berg say on 3 May 2025?", "noon garden-4")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A space with something in every table, and more than a page in most."""
    path = tmp_path_factory.mktemp("original") / "space.db"
    with open_space(f"sqlite:{path}", channel="user", actor="ada") as space:
        fill(space)
        fill_with_code(space, path.parent / "hum")
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


def fill(space):
    said = (
        "Bees hum at noon near hive {0}, said Anna Berg on 3 May 2025. They like garden-{0}.\n\nSee `hive_count_{0}`."
    )
    quotes = [note(space, said.format(n), origin=f"{n}.md", title=f"Bees {n}", metadata={"n": n}) for n in range(16)]
    known = [decide(space, f"Hive {n} hums", quotes[n], options={"idempotency_key": f"key-{n}"}) for n in range(8)]
    for number in range(4):
        state_fact(space, f"hive {number}", "count", number, quotes[number])
        note(space, f"Bees hum at night, in 2024 and on {number + 1} May 2025.", origin=f"{number}.md")
        work = task(space, f"Look at hive {number}")
        link = {"type": "about", "target": known[number]}
        space.crystallize("work_item", input={"id": work, "links": [link]})
    turns = [{"role": "user", "content": "Do bees hum?"}, {"role": "assistant", "content": "They do."}]
    space.ingest(
        "source", scope="/garden", input={"items": [{"kind": "conversation", "origin": "chat", "messages": turns}]}
    )
    space.with_actor("bot", channel="agent").crystallize("knowledge", input={"id": known[0], "summary": "Hum."})
    space.embed_pending()
    space.erase([note(space, "Gone.", origin="gone.md")["source_id"]])


def fill_with_code(space, folder):
    """Read files of code that use each other."""
    folder.mkdir()
    for n in range(12):
        uses = "".join(f"    hum_{(n + step) % 12}()\n" for step in range(1, 4))
        imports = "".join(f"from bee_{(n + step) % 12} import hum_{(n + step) % 12}\n" for step in range(1, 4))
        (folder / f"bee_{n}.py").write_text(f"{imports}\n\ndef hum_{n}():\n{uses}")
    space.ingest("path", input={"path": str(folder)})


def reads(space, ids):
    """Yield ways to read a space, by name."""
    ledger = space.engine.ledger
    for question in QUESTIONS:
        for options in ({}, {"withdrawn": True, "descend": True}, {"as_of": 30}, {"filter": {"metadata.n": 3}}):
            yield (
                f"{question} {options}",
                lambda q=question, o=options: space.query("search", input={"text": q}, options=o).hits,
            )
    for identity in ids:
        yield f"related {identity}", lambda i=identity: space.query("related", input={"id": i}).ids
        yield f"page {identity}", lambda i=identity: space.query("page", input={"id": i}).model_dump(exclude={"trace"})
        yield f"links {identity}", lambda i=identity: (ledger.links(i), ledger.links(i, as_of=30), ledger.history(i))
    for n in range(0, 12, 3):
        yield f"uses of {n}", lambda n=n: space.query("related", input={"id": f"hum_{n}"}).code
    yield "patches", lambda: ledger.patches(limit=1000)
    yield "heads", lambda: ledger.heads(ids, as_of=30)
    yield "objects", lambda: list(ledger.select(Selection(descend=True)))
    yield "records", lambda: list(ledger.records())
    yield "origins", lambda: ledger.sources(scope="/", root="3.md")
    yield "scopes", lambda: ledger.scopes("/")
    yield "counts", lambda: sorted(ledger.counts().items())
    yield "jobs", lambda: space.ingest("status")
    yield "policy", lambda: ledger.policy


def answers(path, ids):
    """Return what the reads of a space give, and what is said of its damage. A read that is refused gives nothing."""
    told, given = [], {}
    try:
        with open_space(f"sqlite:{path}", channel="user", actor="ada") as space:
            for name, read in reads(space, ids):
                with suppress(TreeringError):
                    given[name] = repr(read())
            report = space.lint("audit")
            told += [report.problem, *report.differences, *space.lint("reindex").differences]
    except TreeringError as error:
        told.append(error.message)
    return given, list(filter(None, told))


@pytest.fixture(scope="module")
def whole(original):
    """What the space answers before it is damaged, and ids of some of its objects."""
    connection = apsw.Connection(str(original))
    ids = [identity for (identity,) in connection.execute("SELECT id FROM objects ORDER BY id")][::6]
    connection.close()
    given, told = answers(original, ids)
    assert not told
    assert "called by" in given["uses of 0"]
    return given, ids


def check(original, whole, folder, name, seed):
    given, ids = whole
    path = Path(shutil.copy(original, folder / "damaged.db"))
    done = flip_byte_of(path, name, Random(f"{name} {seed}"))
    found, told = answers(path, ids)
    for left in folder.glob("damaged.db*"):
        left.unlink()
    changed = [read for read, answer in found.items() if answer != given[read]]
    assert told or not changed, f"{done}: {changed[:3]} is another, and nothing is said of it"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(4))
def test_a_flipped_byte_changes_no_answer_in_silence(original, whole, tmp_path, part):
    for name in islice(sorted({*trees_of(original)} - OF_THE_MOMENT), part, None, 4):
        check(original, whole, tmp_path, name, 1)


@pytest.mark.torture
def test_many_flipped_bytes_change_no_answer_in_silence(original, whole, tmp_path):
    for name in sorted({*trees_of(original)} - OF_THE_MOMENT):
        for seed in range(120):
            check(original, whole, tmp_path, name, seed)


def damaged(original, folder, name):
    """Return a copy whose audit or comparison says something of what is damaged in one of its tables."""
    for seed in range(50):
        path = Path(shutil.copy(original, folder / f"{seed}.db"))
        flip_byte_of(path, name, Random(f"{name} {seed}"))
        with suppress(TreeringError), open_space(f"sqlite:{path}", channel="user") as space:
            if space.lint("audit").problem or space.lint("reindex").differences:
                return path
    raise AssertionError(f"no flipped byte of {name} is found")


@pytest.mark.parametrize("name", ["passages_by_object", "passage_words_docsize", "passage_vectors"])
def test_damaged_index_is_rebuilt(original, tmp_path, name):
    with open_space(f"sqlite:{damaged(original, tmp_path, name)}", channel="user") as space:
        problem = space.lint("audit").problem
        assert not problem or "lint reindex --apply" in problem
        space.lint("reindex", options={"apply": True, "wait": True})
        report = space.lint("audit")
        assert (report.problem, report.differences) == ("", ())


def test_damaged_idempotency_key_is_corrupt_with_a_hint(open_space):
    space = open_space(channel="user")
    decide(space, "Bees hum", options={"idempotency_key": "one"})
    with space.engine.ledger._database.write() as connection:
        connection.execute("UPDATE receipts SET key = replace(key, 'one', 'two')")
    problem = space.lint("audit").problem
    assert "idempotency key" in problem
    assert "backup" in problem

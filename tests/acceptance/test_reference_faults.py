"""Faults that associative memories are known to have, and this one must not: each a sentence about what it does."""

import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from statistics import median
from threading import Barrier

import apsw
import pytest
from project_parts import PROJECT, bytes_written, documents, found, graph_of, open_projects

import treering
from treering.core.errors import Corrupt, InvalidInput
from treering.core.evidence import Triple
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Answer, Usage
from treering.extensions.projects.extraction_by_model import ModelExtractor
from treering.extensions.projects.supervisor import Briefing, ModelAssessor
from treering.extensions.projects.ticket import Ticket
from treering.ports.models import Excerpt
from treering.testing.fakes import HashingEmbedder

DOCS = (
    "Ada Lovelace met Charles Babbage in London. They spoke of the Analytical Engine.",
    "Charles Babbage built the Difference Engine in London.",
    "Luigi Menabrea described the Analytical Engine after a visit of Charles Babbage to Turin.",
    "Ada Lovelace translated Luigi Menabrea and added notes about Bernoulli numbers.",
    "Grace Hopper wrote a compiler in Boston.",
    "Howard Aiken showed Grace Hopper the notes of Charles Babbage.",
    "Boston is a town in Lincolnshire, and another in Massachusetts.",
    "Turin lies on the Po.",
)
STATED = tuple((Triple(subject="Ada Lovelace", relation="met", object="Charles Babbage"),) for _ in DOCS)
QUESTIONS = (
    "Who met Charles Babbage?",
    "Who described the Analytical Engine?",
    "Where did the friend of Ada Lovelace build the Difference Engine?",
    "Where is Boston?",
)


@pytest.fixture
def memory(tmp_path):
    with open_projects(tmp_path) as opened:
        yield opened


def at_once(memory):
    memory.index(PROJECT, DOCS)


def one_by_one(memory):
    for doc in DOCS:
        memory.index(PROJECT, [doc])


def again_and_again(memory):
    for count in range(1, len(DOCS) + 1):
        memory.index(PROJECT, DOCS[:count])


def with_detours(memory):
    for doc in DOCS:
        memory.index(PROJECT, ["Ada Lovelace met Nobody.", doc])
        memory.retrieve(PROJECT, QUESTIONS)
        memory.delete(PROJECT, ["Ada Lovelace met Nobody."])


# Adding


@pytest.mark.parametrize("way", [one_by_one, again_and_again, with_detours])
def test_graph_and_ranking_do_not_depend_on_the_calls_that_made_them(tmp_path, way):
    with open_projects(tmp_path / "plain") as plain, open_projects(tmp_path / "other") as other:
        at_once(plain)
        way(other)
        assert graph_of(other, tmp_path / "other") == graph_of(plain, tmp_path / "plain")
        assert other.retrieve(PROJECT, QUESTIONS) == plain.retrieve(PROJECT, QUESTIONS)


def test_one_document_more_adds_its_own_edges_and_repeats_no_other(tmp_path):
    with open_projects(tmp_path / "all") as grown, open_projects(tmp_path / "alone") as alone:
        grown.index(PROJECT, DOCS[:-1])
        before = graph_of(grown, tmp_path / "all")
        grown.index(PROJECT, DOCS[-1:])
        alone.index(PROJECT, DOCS[-1:])
        assert graph_of(grown, tmp_path / "all") - before == graph_of(alone, tmp_path / "alone")


def test_a_document_added_after_a_query_is_found_by_the_next(tmp_path, memory):
    memory.index(PROJECT, DOCS[:1])
    with open_projects(tmp_path) as other:
        for reader in (memory, other):
            assert found(reader, "Who climbed the Matterhorn?") == []
        memory.index(PROJECT, ["Edward Whymper climbed the Matterhorn."])
        for reader in (memory, other):
            assert found(reader, "Who climbed the Matterhorn?") == ["Edward Whymper climbed the Matterhorn."]
        memory.index(PROJECT, ["Edward Whymper was born in London."])
        for reader in (memory, other):
            assert "Edward Whymper was born in London." in found(
                reader, "Where was the climber of the Matterhorn born?"
            )


class NotingEmbedder(HashingEmbedder):
    """Notes the texts it embeds."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return super().embed_documents(texts)


def test_adding_a_document_embeds_that_document_alone(tmp_path):
    embedder = NotingEmbedder()
    with open_projects(tmp_path, embedder=embedder) as memory:
        memory.index(PROJECT, DOCS[:-1], wait=True)
        embedder.texts.clear()
        memory.index(PROJECT, DOCS, wait=True)
        assert [DOCS[-1] in text for text in embedder.texts] == [True]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What adding and deleting a document writes, in bytes, to a project of 100 documents and to one of 800."""
    found = {}
    for size in (100, 800):
        folder = tmp_path_factory.mktemp("project")
        with open_projects(folder) as memory:
            memory.index(PROJECT, [made_up(n) for n in range(size)])
            new = [made_up(n) for n in range(size, size + 9)]
            adding = [bytes_written(folder, lambda doc=doc: memory.index(PROJECT, [doc])) for doc in new]
            deleting = [bytes_written(folder, lambda doc=doc: memory.delete(PROJECT, [doc])) for doc in new]
        found[size] = {"add": median(adding), "delete": median(deleting), "file": (folder / "acme.db").stat().st_size}
    return found


def made_up(number):
    chance = random.Random(number)
    names = [f"{chance.choice('BDFKLMT')}{chance.choice('aeiou')}rn{chance.randrange(60)}" for _ in range(4)]
    return f"{names[0]} met {names[1]} in {names[2]} and spoke of {names[3]}. It was day {number}."


@pytest.mark.parametrize("action", ["add", "delete"])
def test_write_size_is_independent_of_the_project(written, action):
    assert written[800]["file"] > 3 * written[100]["file"]
    assert written[800][action] < 2 * written[100][action]


# Deleting


@pytest.mark.parametrize("stated", [None, STATED], ids=["read from the text", "given"])
def test_a_deleted_document_leaves_nothing_in_the_graph(tmp_path, stated):
    with open_projects(tmp_path / "was") as was, open_projects(tmp_path / "never") as never:
        was.index(PROJECT, DOCS, triples=stated)
        was.retrieve(PROJECT, QUESTIONS)
        assert was.delete(PROJECT, DOCS[::2]).counts == {"deleted": 4}
        never.index(PROJECT, DOCS[1::2], triples=stated and stated[1::2])
        assert graph_of(was, tmp_path / "was") == graph_of(never, tmp_path / "never")
        assert was.retrieve(PROJECT, QUESTIONS) == never.retrieve(PROJECT, QUESTIONS)


def test_what_two_documents_state_stays_while_one_of_them_is_there(tmp_path, memory):
    memory.index(PROJECT, DOCS[:2], triples=STATED[:2])
    fact = ("ada lovelace", "charles babbage", "FACT")
    assert graph_of(memory, tmp_path)[fact] == 2
    memory.delete(PROJECT, DOCS[:1])
    assert graph_of(memory, tmp_path)[fact] == 1
    memory.delete(PROJECT, DOCS[1:2])
    assert graph_of(memory, tmp_path) == Counter()


def test_a_document_with_odd_triples_is_deleted_like_any_other(tmp_path, memory):
    odd = [Triple(subject=" ", relation="", object=" "), Triple(subject="Ada", relation="", object="Ada")]
    memory.index(PROJECT, DOCS[:1], triples=[[*odd, *STATED[0], *STATED[0]]])
    assert memory.delete(PROJECT, DOCS[:1]).counts == {"deleted": 1}
    assert graph_of(memory, tmp_path) == Counter()


MALFORMED = (
    [("Ada", "met", "Charles")],
    [("Ada", "met")],
    [{"subject": "Ada", "relation": "met"}],
    [{"subject": "", "relation": "met", "object": "Charles"}],
    [{"subject": "Ada", "relation": "met", "object": 1815}],
    [{"subject": "Ada", "relation": "met", "object": "\ud83d"}],
    [{"subject": "Ada", "relation": "met", "object": "Charles", "weight": 2}],
    [None],
    None,
    7,
    "Ada met Charles",
)


@pytest.mark.parametrize("malformed", MALFORMED)
def test_malformed_triples_are_refused_by_name_and_change_nothing(tmp_path, memory, malformed):
    memory.index(PROJECT, DOCS[:2])
    before = (graph_of(memory, tmp_path), documents(memory))
    with pytest.raises(InvalidInput) as refused:
        memory.index(PROJECT, DOCS, triples=[(), malformed, *([()] * (len(DOCS) - 2))])
    assert refused.value.hint
    assert all(field["field"].startswith("triples.1") for field in refused.value.details["fields"])
    assert (graph_of(memory, tmp_path), documents(memory)) == before


# Small and odd projects


@pytest.mark.parametrize("facts", [0, 1, 2, 3, 4, 5])
def test_few_facts_are_enough(memory, facts):
    texts = [f"Person{n} met Charles Babbage." for n in range(facts)] or ["hm, well."]
    stated = [[Triple(subject=f"Person{n}", relation="met", object="Charles Babbage")] for n in range(facts)] or [[]]
    memory.index(PROJECT, texts, triples=stated)
    assert sorted(found(memory, "Who met Charles Babbage, hm?", 10)) == texts
    memory.delete(PROJECT, texts)
    assert found(memory, "Who met Charles Babbage, hm?") == []


def test_a_project_without_documents_answers_with_none(memory):
    memory.index(PROJECT, DOCS)
    memory.delete(PROJECT, DOCS)
    assert memory.retrieve(PROJECT, QUESTIONS) == [{"question": it, "docs": [], "doc_scores": []} for it in QUESTIONS]
    assert memory.delete(PROJECT, DOCS[:1]).counts == {"unknown": 1}


FOREIGN = {
    "東京タワー": "東京タワーは東京にある。",
    "大阪城": "大阪城は大阪にある。",
    "Анна Каренина": "Анна Каренина уехала в Москву.",
    "Анна Ахматова": "Анна Ахматова уехала в Ташкент.",
    "نجيب محفوظ": "نجيب محفوظ كتب الثلاثية.",
    "نجيب سرور": "نجيب سرور كتب ياسين وبهية.",
    "🦊🔥": "🦊🔥 ships on Monday.",
    "🐍🔥": "🐍🔥 ships on Friday.",
    "Müller": "Müller ships.",
    "Miller": "Miller ships.",
}


@pytest.mark.parametrize("given", [True, False], ids=["given", "read from the text"])
def test_names_of_every_script_stay_apart(tmp_path, memory, given):
    stated = [[Triple(subject=name, relation="is on", object="Earth")] for name in FOREIGN]
    memory.index(PROJECT, list(FOREIGN.values()), triples=stated if given else None)
    names = {name[1] for name in graph_of(memory, tmp_path) if name[0] == "name"}
    assert "" not in names
    if given:
        assert {name.casefold() for name in FOREIGN} <= names
    for name, text in FOREIGN.items():
        # The word index has no words for emoji: these are told apart by the graph and by what else is said.
        asked = name if any(map(str.isalpha, name)) else text
        assert found(memory, asked, 1) == [text]


# Several writers


def test_writers_lose_nothing_whatever_keys_they_write_with(tmp_path):
    names = ("key-1", "key-2", "key-3")
    everybody = Barrier(len(names))
    memories = [open_projects(tmp_path, actor=name, channel="agent" if name == "key-1" else "user") for name in names]

    def write(name, memory):
        everybody.wait(30)
        reports = [memory.index(PROJECT, [DOCS[n], f"Note {n} of {name}."]) for n in range(len(DOCS))]
        return sum((Counter(report.counts) for report in reports), Counter())

    with ThreadPoolExecutor(len(names)) as pool:
        counts = sum(pool.map(write, names, memories), Counter())
    own = [f"Note {n} of {name}." for name in names for n in range(len(DOCS))]
    assert counts == {"created": len(DOCS) + len(own), "unchanged": 2 * len(DOCS)}
    assert documents(memories[0]) == sorted([*DOCS, *own])
    with memories[0].engine(PROJECT) as engine:
        assert engine.ledger.verify()
        assert engine.index.upkeep.differences() == []
    for memory in memories:
        memory.close()
    assert [file.name for file in tmp_path.iterdir()] == ["acme.db"], (
        "no lock of anybody's is left, and one file is all"
    )


HOLDER = """
import sys
from treering.stores.sqlite.database import Database
database = Database(sys.argv[1])
with database.write() as connection:
    connection.execute("UPDATE objects SET title = 'half written'")
    print("held", flush=True)
    sys.stdin.readline()
    raise SystemExit
"""


@pytest.fixture
def held(tmp_path, memory):
    """A project, on which another process is in the middle of a write until the test ends; and what it answers."""
    memory.index(PROJECT, DOCS)
    expected = memory.retrieve(PROJECT, QUESTIONS)
    command = [sys.executable, "-W", "error", "-c", HOLDER, str(tmp_path / "acme.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield expected
        # Still at it: whatever the test did, it did not wait for the end of the write.
        assert process.poll() is None
        process.communicate("\n", timeout=30)


def test_retrieval_waits_for_no_writer(memory, held):
    assert memory.retrieve(PROJECT, QUESTIONS) == held


@pytest.mark.usefixtures("held")
def test_other_projects_wait_for_no_writer(memory):
    assert memory.index("other", DOCS).counts == {"created": len(DOCS)}
    assert memory.delete("other", DOCS[:1]).counts == {"deleted": 1}
    assert memory.retrieve("other", QUESTIONS)[0]["docs"]


def test_opening_a_project_to_retrieve_waits_for_no_writer(held, tmp_path):
    with open_projects(tmp_path) as fresh:
        assert fresh.retrieve(PROJECT, QUESTIONS) == held


# Damage


@pytest.mark.parametrize("part", [0.03, 0.3, 0.6, 0.95])
def test_a_file_that_was_cut_is_corrupt_and_an_intact_copy_opens(tmp_path, part):
    with open_projects(tmp_path / "here") as memory:
        memory.index(PROJECT, DOCS)
        expected = memory.retrieve(PROJECT, QUESTIONS)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    file = tmp_path / "here" / "acme.db"
    os.truncate(file, int(file.stat().st_size * part))
    with open_projects(tmp_path / "here") as memory:
        # What is cut off may be nothing that a question needs; the check of the space finds it all the same.
        with pytest.raises(Corrupt) as refused:
            retrieve_and_verify(memory)
        assert "backup" in refused.value.hint
    with open_projects(tmp_path / "copy") as memory:
        assert memory.retrieve(PROJECT, QUESTIONS) == expected


def retrieve_and_verify(memory):
    memory.retrieve(PROJECT, QUESTIONS)
    with memory.engine(PROJECT) as engine:
        engine.ledger.verify()


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_a_log_that_was_cut_opens_with_the_writes_before_the_cut(tmp_path, part):
    with open_projects(tmp_path / "here") as memory:
        memory.index(PROJECT, DOCS[:1])
        bytes_written(tmp_path / "here", lambda: None)
        for doc in DOCS[1:]:
            memory.index(PROJECT, [doc])
        # As a machine that lost its power leaves it: nobody closed the project.
        shutil.copytree(tmp_path / "here", tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
    log = tmp_path / "copy" / "acme.db-wal"
    os.truncate(log, int(log.stat().st_size * part))
    with open_projects(tmp_path / "copy") as memory:
        kept = documents(memory)
        assert kept == sorted(DOCS[: len(kept)])
        assert len(kept) == {0.0: 1, 1.0: len(DOCS)}.get(part, len(kept))
        with memory.engine(PROJECT) as engine:
            assert engine.ledger.verify()
            assert engine.index.upkeep.differences() == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE graph_passages SET body = substr(body, 1, length(body) - 4)",
        "DELETE FROM graph_passages",
        "DELETE FROM graph_nodes",
        "UPDATE passages SET live = 0",
        "DELETE FROM passage_words",
    ],
)
def test_a_projection_that_was_damaged_is_rebuilt_from_the_ledger(tmp_path, damage):
    with open_projects(tmp_path) as memory:
        memory.index(PROJECT, DOCS)
        expected, graph = memory.retrieve(PROJECT, QUESTIONS), graph_of(memory, tmp_path)
    apsw.Connection(str(tmp_path / "acme.db")).execute(damage)
    with open_projects(tmp_path) as memory, memory.engine(PROJECT) as engine:
        assert engine.index.upkeep.differences()
        engine.index.upkeep.rebuild()
        assert engine.index.upkeep.differences() == []
        assert graph_of(memory, tmp_path) == graph
        assert memory.retrieve(PROJECT, QUESTIONS) == expected


# Order


# Equally good, so that only their order is between them.
TWINS = tuple(f"Charles Babbage met {name} in Rome." for name in ("Anna", "Bert", "Carl", "Dora", "Egon"))


@pytest.mark.nightly
def test_hits_their_order_and_the_trace_do_not_depend_on_the_hash_seed(tmp_path):
    told = {asked_with(seed, tmp_path / seed) for seed in ("0", "1", "4294967295")}
    assert len(told) == 1
    recalled, *_ = json.loads(told.pop())
    assert all(each["docs"] for each in recalled)


def asked_with(seed, folder):
    script = Path(__file__).with_name("asking_process.py")
    command = [sys.executable, "-W", "error", str(script), str(folder), json.dumps(DOCS + TWINS), json.dumps(QUESTIONS)]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


# Model output


class Model:
    """A language model that always gives the same answer."""

    model_id = "fixed"

    def __init__(self, reply):
        self.reply = reply

    def answer(self, prompt, *, system="", max_output_tokens=2_000):
        return Answer(self.reply, Usage(1, 10, 10, Decimal(0)))

    def price(self, *, input_tokens, output_tokens):
        return Decimal(0)


@pytest.fixture
def code(tmp_path):
    """Python code that leaves a file behind where anybody runs it; the file must not be there afterwards."""
    trace = tmp_path / "executed"
    yield f"__import__('pathlib').Path({str(trace)!r}).touch()"
    assert not trace.exists()


def test_code_in_an_answer_is_an_answer(tmp_path, code):
    with open_projects(
        tmp_path / "projects", model=Model(json.dumps({"answer": f"{code} [1]", "citations": [1]}))
    ) as memory:
        memory.index(PROJECT, DOCS)
        (answered,) = memory.rag_qa(PROJECT, QUESTIONS[:1])
    assert code in json.dumps(answered, default=str)


def test_code_in_triples_is_text(tmp_path, code):
    said = json.dumps(
        {"readings": [{"number": 1, "entities": [], "triples": [[code, "is", "run"], code, {code: code}]}]}
    )
    model = Model(said)
    report = ModelExtractor(model, Budget(requests=9)).extract_reporting([Excerpt(DOCS[0])])
    assert report.extractions[0].triples == (Triple(subject=code, relation="is", object="run"),)
    assert report.malformed == 2
    with open_projects(tmp_path / "projects") as memory:
        memory.index(PROJECT, DOCS[:1], triples=[report.extractions[0].triples])
        assert found(memory, "Ada Lovelace") == [DOCS[0]]
        assert "executed" in str(graph_of(memory, tmp_path / "projects"))


@pytest.mark.parametrize("wrapped", ["{code}", "[{code}]", "{{'complete': {code}, 'summary': 'done'}}"])
def test_code_instead_of_an_answer_is_refused_and_not_run(code, wrapped):
    briefing = Briefing(Ticket(id="T-1", title="Fix it"), 1, 3, "Do it.", "Done.", "")
    model = Model(wrapped.format(code=code))
    with pytest.raises(treering.core.errors.TreeringError):
        ModelAssessor(model).assess(briefing, budget=Budget(requests=9))
    with pytest.raises(treering.core.errors.TreeringError):
        ModelExtractor(model, Budget(requests=9)).extract([Excerpt(DOCS[0])])


UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle", "code"}
UNSAFE_CALLS = {"eval", "exec", "compile", "literal_eval", "unsafe_load", "full_load", "read_pickle", "to_pickle"}


def source_files():
    root = Path(treering.__file__).parent
    return sorted(root.rglob("*.py"))


def unsafe(tree):
    """Return what a module imports or calls that would run what it reads."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in UNSAFE_MODULES)
            case ast.ImportFrom(module=str(module), level=0) if module.split(".")[0] in UNSAFE_MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in UNSAFE_CALLS | {"__import__"}:
                yield name
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in UNSAFE_CALLS:
                # Regular expressions are compiled, too, and graphs of LangGraph.
                if not (name == "compile" and isinstance(value, ast.Name) and value.id in {"re", "regex", "graph"}):
                    yield name
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=True)):
                yield "allow_pickle"


def test_nothing_is_pickled_and_nothing_that_was_read_is_run():
    files = source_files()
    assert len(files) > 100
    found = {str(file): [*unsafe(ast.parse(file.read_text(encoding="utf-8")))] for file in files}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_what_is_on_the_disk_is_no_pickle(tmp_path):
    with open_projects(tmp_path) as memory:
        memory.index(PROJECT, DOCS, wait=True)
    (file,) = tmp_path.iterdir()
    connection = apsw.Connection(str(file))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    blobs = [value for name in tables for row in connection.execute(f"SELECT * FROM {name}") for value in row]
    protocols = tuple(b"\x80" + bytes([number]) for number in range(2, 6))
    pickled = [blob for blob in blobs if isinstance(blob, bytes) and blob.startswith(protocols) and blob.endswith(b".")]
    assert pickled == []

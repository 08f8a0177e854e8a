# ruff: noqa: ARG001 - all steps have the same parameters
"""The steps of `benchmarks.scale`, each run in a process of its own by `benchmarks.probes`.

Texts have vectors of the static model: the encoder embeds about 30 texts per CPU second. Times are CPU seconds of the
process and of processes that it waited for. The folder of a step contains the space and its data folder.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.costs import cost_of, cpu_seconds
from benchmarks.processes import disk_used, disk_used_in, peak_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering import Space

Answer = dict[str, float]

_ITEMS_PER_CALL = 1_000
_QUESTIONS = 40
_WARMED_BY = 20
"""Questions asked before times are taken."""
_CONTEXTS = 24
_BRIEFS = 5
_NOTES = 24
_EXACT_QUESTIONS = 20
_EXACT_HITS = 10
_DECISIONS = 200


def scale_fill(folder: str, kind: str, size: int) -> Answer:
    """Add the missing texts of a kind in calls of 1,000 items. Returns passages per CPU second, memory and disk."""
    from benchmarks.scale_texts import KINDS, batches, items_for

    with _opened(folder) as space:
        base, spent, slices, before = peak_memory(), 0.0, [], space.engine.index.vectors.lag().total
        # Counted as in `items_for`, which estimates the passages of a file of code.
        progress = Path(folder) / "filled"
        filled = int(progress.read_text(encoding="ascii")) if progress.exists() else 0
        for batch in batches(items_for(KINDS[kind], size - filled, skip=filled), _ITEMS_PER_CALL):
            cost = cost_of(partial(_add, space, batch)).cpu
            spent += cost
            slices.append(cost / len(batch))
            filled += sum(map(KINDS[kind].passages, batch))
            progress.write_text(str(filled), encoding="ascii")
        passages = space.engine.index.vectors.lag().total
        memory = peak_memory() - base
        _decide(space)
    return {
        "passages": passages,
        "bulk": (passages - before) / spent,
        "slowdown": median(slices[-3:]) / median(slices[:3]),
        "fill_memory": memory,
        "disk": disk_used(_file(folder)),
    }


def scale_read(folder: str, kind: str, size: int) -> Answer:
    """Read conversations ahead, as the background process does after it embedded their texts."""
    if kind != "conversations":
        return {}
    from treering.extensions.statements.reading_ahead import read_ahead

    with _opened(folder) as space:
        cost = cost_of(partial(read_ahead, space)).cpu
    return {"read": cost, "read_memory": peak_memory()}


def scale_first(folder: str, kind: str, size: int) -> Answer:
    """Open the space and ask one question."""
    from benchmarks.scale_texts import KINDS

    question = KINDS[kind].questions()[0]
    # The questions of the benchmark are not part of the answer.
    spent, began = cpu_seconds(), time.perf_counter()
    with _opened(folder) as space:
        _search(space, question)
        answered = cpu_seconds() - spent, time.perf_counter() - began
        memory = peak_memory()
    return {
        "first": answered[0],
        "first_wall": answered[1],
        "first_memory": memory,
        "prepared": disk_used_in(Path(folder) / "data"),
    }


def scale_prepare(folder: str, kind: str, size: int) -> Answer:
    """Do the same the first time, when tables for later processes are prepared."""
    answer = scale_first(folder, kind, size)
    return {"prepare": answer["first"], "prepare_memory": answer["first_memory"]}


def scale_ask(folder: str, kind: str, size: int) -> Answer:
    """Search, gather context and briefs, and add single notes."""
    from benchmarks.scale_texts import KINDS, items_for

    questions = KINDS[kind].questions()[: _WARMED_BY + _QUESTIONS]
    with _opened(folder) as space:
        for question in questions[:_WARMED_BY]:
            _search(space, question)
        asked = questions[_WARMED_BY:]
        searches = _costs(partial(_search, space), asked)
        _context(space, questions[0])
        contexts = _costs(partial(_context, space), asked[:_CONTEXTS])
        briefs = _costs(lambda _: space.query("brief"), range(_BRIEFS + 1))[1:]
        memory = _resident()
        recall = _recall(space, asked[:_EXACT_QUESTIONS])
        new = islice(items_for(KINDS[kind], 10**9, skip=size), _NOTES + 1)
        notes = _costs(partial(_add_note, space), [_texts_of(item)[0] for item in new])[1:]
        after_note = _costs(partial(_search_after_note, space), asked[:5])
    return {
        "search": 1e3 * median(searches),
        "context": 1e3 * median(contexts),
        "brief": 1e3 * median(briefs),
        "note": 1e3 * median(notes),
        "search_after_note": 1e3 * median(after_note),
        "memory": memory["VmRSS"],
        "own_memory": memory["RssAnon"],
        "recall": 100 * recall,
    }


def scale_maintain(folder: str, kind: str, size: int) -> Answer:
    """Show the status, verify, back up, and erase the last source and an earlier one, found by a question."""
    from benchmarks.scale_texts import KINDS

    with _opened(folder) as space:
        status = _costs(lambda _: space.perform("status"), range(2))[1]  # the first one imports all operations
        verify = cost_of(lambda: space.engine.ledger.verify()).cpu
        backup = cost_of(lambda: space.backup(Path(folder) / "copy" / "space.db")).cpu
        person = space.with_actor("benchmark", channel="user")  # an agent may not erase
        text = "This text will be erased soon, and a search must not find its words."
        report = _add(space, [{"kind": "note", "origin": "erased", "title": "To erase", "text": text}])
        last = [one for one in report.ids if one.startswith("src:")]
        earlier = next(hit.object_id for hit in _search(space, KINDS[kind].questions()[0]).hits if hit.type == "source")
        erase_last = cost_of(lambda: person.erase(last, "benchmark")).cpu
        erase = cost_of(lambda: person.erase([earlier], "benchmark")).cpu
        memory = peak_memory()
    return {
        "status": status,
        "verify": verify,
        "backup": backup,
        "erase": erase,
        "erase_last": erase_last,
        "maintain_memory": memory,
    }


def scale_lint(folder: str, kind: str, size: int) -> Answer:
    """Run the rules of `lint structure`."""
    with _opened(folder) as space:
        lint = cost_of(lambda: space.lint("structure")).cpu
        return {"lint": lint, "lint_memory": peak_memory()}


def scale_kill(folder: str, kind: str, size: int) -> Answer:
    """Kill a process that writes notes, open the space again and ask. Returns the notes lost, of those acknowledged."""
    command = [sys.executable, "-m", "benchmarks.probes", "scale_write", f'{{"folder": "{folder}"}}']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        made = [line.strip() for line in islice(writer.stdout, 10)]
        writer.send_signal(signal.SIGKILL)
        made += [line.strip() for line in writer.stdout if line.endswith("\n")]
    spent = time.process_time()
    with _opened(folder) as space:
        _search(space, "Which note was written?")
        reopened = time.process_time() - spent
        lost = len(made) - len(space.engine.ledger.heads(made))
    return {"reopen": reopened, "lost": lost, "written": len(made)}


def scale_write(folder: str) -> Answer:
    """Write one note after the other until this process is killed."""
    with _opened(folder) as space:
        for number in range(10**9):
            report = _add(
                space, [{"kind": "note", "origin": f"killed/{number}", "text": f"Note {number} was written."}]
            )
            print(next(one for one in report.ids if one.startswith("src:")), flush=True)
    return {}


def scale_merge(folder: str, kind: str, size: int) -> Answer:
    """Merge the backup, which nothing was merged from before, with 1 % of additions; then with another 1 %."""
    copy = Path(folder) / "copy"
    _add_to_copy(str(copy), kind, size, skip=size + size // 2)
    with _opened(folder) as space:
        first = cost_of(lambda: space.merge(f"sqlite:{copy / 'space.db'}")).cpu
    _add_to_copy(str(copy), kind, size, skip=size + size // 2 + size // 100)
    with _opened(folder) as space:
        merge = cost_of(lambda: space.merge(f"sqlite:{copy / 'space.db'}")).cpu
        memory = peak_memory()
    return {"merge_first": first, "merge": merge, "merge_memory": memory}


def _add_to_copy(folder: str, kind: str, size: int, *, skip: int) -> None:
    from benchmarks.scale_texts import KINDS, batches, items_for

    with _opened(folder) as space:
        for batch in batches(items_for(KINDS[kind], max(1, size // 100), skip=skip), _ITEMS_PER_CALL):
            _add(space, batch)


def scale_script(folder: str, kind: str, size: int) -> Answer:
    """Do the same with FTS5 and a matrix in one script: texts, one more text, and questions."""
    from benchmarks.plain_script import Script
    from benchmarks.scale_texts import KINDS, batches, items_for
    from treering.models.static_model import DIMENSION, StaticEmbedder

    embedder, file = StaticEmbedder(), Path(folder) / "script.db"
    questions = KINDS[kind].questions()[: _WARMED_BY + _QUESTIONS]
    script, spent, count = Script(file, dimension=DIMENSION), 0.0, 0
    for batch in batches(items_for(KINDS[kind], size), _ITEMS_PER_CALL):
        texts = [text for item in batch for text in _texts_of(item)]
        vectors = embedder.embed_documents([f"{title}\n{text}" for title, text in texts])
        spent += cost_of(partial(script.add, texts, vectors)).cpu
        count += len(texts)

    def ask(question: str) -> object:
        return script.ask(question, embedder.embed_query(question))

    for question in questions[:_WARMED_BY]:
        ask(question)
    searches = _costs(ask, questions[_WARMED_BY:])
    memory = _resident()
    more = ("A new note", "A short note that is written by itself.")

    def note(_: object) -> None:
        script.add([more], embedder.embed_documents([more[1]]))

    notes = _costs(note, range(5))
    return {
        "script_bulk": count / spent,
        "script_search": 1e3 * median(searches),
        "script_note": 1e3 * median(notes),
        "script_memory": memory["VmRSS"],
        "script_disk": disk_used(file),
    }


STEPS: dict[str, Callable[..., Answer]] = {
    step.__name__: step
    for step in (
        scale_fill,
        scale_read,
        scale_prepare,
        scale_first,
        scale_ask,
        scale_maintain,
        scale_lint,
        scale_kill,
        scale_write,
        scale_merge,
        scale_script,
    )
}


@contextmanager
def _opened(folder: str) -> "Iterator[Space]":
    os.environ["TREERING_DATA_DIR"] = f"{folder}/data"
    import treering
    from treering.models.static_model import StaticEmbedder

    with treering.open(f"sqlite:{_file(folder)}", background=False, embedder=StaticEmbedder()) as space:
        yield space


def _file(folder: str) -> Path:
    Path(folder).mkdir(exist_ok=True)
    return Path(folder) / "space.db"


def _add(space: "Space", items: "Sequence[Any]") -> Any:
    return space.ingest("source", input={"items": items}, options={"max_items": 1, "wait": True})


def _add_note(space: "Space", text: tuple[str, str]) -> Any:
    return _add(space, [{"kind": "note", "title": text[0], "text": text[1]}])


def _decide(space: "Space") -> None:
    """Record decisions with evidence, for briefs."""
    from treering.ports.ledger import Selection

    source = next(iter(space.engine.ledger.select(Selection(scope="/", types=("source",), newest=1))))
    for number in range(_DECISIONS):
        given = {
            "kind": "decision",
            "title": f"Use part {number}",
            "payload": {"question": f"Which part for step {number}?", "outcome": f"Part {number}"},
            "evidence_refs": [source.id],
            "status": "active",
        }
        space.crystallize("knowledge", input=given)


def _search(space: "Space", question: str) -> Any:
    return space.query("search", input={"text": question})


def _search_after_note(space: "Space", question: str) -> Any:
    _add(space, [{"kind": "note", "origin": f"after/{question}", "text": f"Somebody asked: {question}"}])
    return _search(space, question)


def _context(space: "Space", question: str) -> Any:
    return space.query("context", input={"task": question})


def _costs(work: Callable[[Any], object], given: Iterable[Any]) -> list[float]:
    return [cost_of(partial(work, one)).cpu for one in given]


def _recall(space: "Space", questions: "Sequence[str]") -> float:
    """Return the share of the ten nearest passages by exact search that the search by vectors finds."""
    from treering.ports.passages import Reach
    from treering.ports.search import NearRequest
    from treering.retrieval.limits import MAX_CANDIDATES_PER_ARM

    vectors, embedder = space.engine.index.vectors, space.engine.embedder
    everything = tuple(range(1, vectors.lag().total * 2))
    shares = []
    for question in questions:
        vector, reach = embedder.embed_query(question), Reach("/")
        (exact,) = vectors.search([NearRequest(reach, (vector,), (0,), everything)])
        (found,) = vectors.search([NearRequest(reach, (vector,), (MAX_CANDIDATES_PER_ARM,))])
        cosines = exact.cosines[0]
        best = sorted(cosines, key=lambda key: (-cosines[key], key))[:_EXACT_HITS]
        shares.append(len(found.found.intersection(best)) / len(best))
    return sum(shares) / len(shares)


def _resident() -> dict[str, float]:
    """Return the resident memory now and the part that is not mapped from files, in MiB; the peak without Linux."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {"VmRSS": peak_memory(), "RssAnon": peak_memory()}
    values = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.strip()}
    return {name: int(values[name]) / 1024 for name in ("VmRSS", "RssAnon")}


def _texts_of(item: Any) -> list[tuple[str, str]]:
    if "messages" in item:
        return [(one["name"], one["content"]) for one in item["messages"]]
    return [(item["title"], item["text"])]

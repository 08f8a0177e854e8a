"""A caller at one scope tries to learn of and to change what lies at another, in Python and on the command line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from treering.verbs.confined_ledger import confined

import treering
from attacks.attack import Attack, Count
from treering.core.errors import TreeringError
from treering.testing.fakes import HashingEmbedder
from treering.verbs import catalog
from treering.verbs.engine import Engine
from treering.verbs.envelope import WRITES, Envelope

HERE, THERE = "/a", "/b"
SECRET = "walrusqz"
_ID = re.compile(r"\b(?:src|know|node|act|work|patch|job):[0-9a-z]{26}\b")


def _open(folder: Path) -> treering.Space:
    return treering.open(f"sqlite:{folder / 'space.db'}", background=False, embedder=HashingEmbedder())


def _fill(folder: Path) -> dict[str, str]:
    """Write into the other scope; return what may be told of at ours by no answer."""
    with _open(folder) as space:
        item = {"text": f"The {SECRET} retries uploads.", "origin": f"{SECRET}.md", "title": SECRET}
        report = space.ingest("source", scope=THERE, input={"items": [item]})
        source = report.items[0].source_id
        segment = space.engine.ledger.get(source).segments[0].segment_id
        known = {
            "kind": "decision",
            "title": SECRET,
            "payload": {"question": "Which?", "outcome": SECRET},
            "evidence_refs": [{"source_id": source, "segment_id": segment}],
        }
        options = {"idempotency_key": "nightly", "reason": SECRET}
        written = space.crystallize("knowledge", scope=THERE, input=known, options=options)
        work = space.crystallize("work_item", scope=THERE, input={"title": SECRET}).ids[0]
        space.crystallize("work_item", scope=HERE, input={"title": "Ours"})
    return {"source": source, "know": written.ids[-1], "work": work, "job": report.job, "segment": segment}


def _calls(ids: dict[str, str]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return calls that name what lies at the other scope: verb, mode, input, options."""
    fact = {"kind": "decision", "title": "Ours", "payload": {"question": "?", "outcome": "Ours"}}
    quote = {"source_id": ids["source"], "segment_id": ids["segment"]}
    yield "lint", "audit", {}, {}
    yield "lint", "audit", {"id": ids["know"]}, {}
    yield "lint", "structure", {}, {}
    yield "lint", "repair", {}, {"apply": True}
    yield "ingest", "status", {}, {}
    yield "ingest", "status", {"job": ids["job"]}, {}
    yield "crystallize", "knowledge", {"id": ids["know"], "title": "Taken"}, {}
    yield "crystallize", "knowledge", {"id": ids["know"], "status": "archived"}, {}
    yield "crystallize", "knowledge", {**fact, "evidence_refs": [quote]}, {}
    yield "crystallize", "knowledge", {**fact, "evidence": [f"{ids['source']} {ids['segment']}"]}, {}
    yield "crystallize", "knowledge", {**fact, "derived_from": [ids["know"]]}, {"dry_run": True}
    yield "crystallize", "knowledge", fact, {"idempotency_key": "nightly"}
    yield "crystallize", "promote", {"ids": [ids["know"]]}, {}
    yield "crystallize", "promote", {"from_scope": THERE, "to_scope": HERE}, {}
    yield "crystallize", "supersede", {"id": ids["know"], "knowledge": {**fact, "evidence_refs": [quote]}}, {}
    yield "crystallize", "work_item", {"id": ids["work"], "status": "in_progress"}, {}
    yield "crystallize", "work_item", {"title": "Ours", "depends_on": [ids["work"]]}, {}
    yield "crystallize", "work_item", {"title": "Ours", "links": [{"type": "about", "target": ids["know"]}]}, {}
    yield "crystallize", "activity", {"title": "Ours", "source_refs": [ids["source"]]}, {}
    for mode in ("page", "related"):
        yield "query", mode, {"id": ids["know"]}, {}
    yield "query", "expand", {"ids": [ids["know"], f"{ids['source']} {ids['segment']}"]}, {}
    yield "query", "recent", {}, {"descend": True}
    yield "query", "search", {"text": "uploads"}, {"descend": True, "explain": True, "withdrawn": True}
    yield "query", "context", {"task": "retry uploads"}, {"descend": True}


def _tells(answer: str, asked: str, ids: dict[str, str]) -> bool:
    """Tell whether an answer names anything of the other scope that the call did not."""
    return any(one in answer and one not in asked for one in (SECRET, *ids.values()))


def _contents(folder: Path) -> list[str]:
    with _open(folder) as space:
        rows = [record.row for record in space.engine.ledger.records() if record.table in {"revision", "link"}]
        return [json.dumps(row, sort_keys=True) for row in rows if THERE in json.dumps(row) or "link" in row]


def _in_python(folder: Path) -> Count:
    ids = _fill(folder)
    before, reached, calls = _contents(folder), 0, list(_calls(ids))
    for verb, mode, given, options in calls:
        with _open(folder) as space:
            try:
                answer = getattr(space, verb)(mode, scope=HERE, input=given, options=options).model_dump_json()
            except TreeringError as error:
                answer = f"{error.message} {error.hint} {error.details}"
        reached += _tells(answer, json.dumps(given), ids) or _contents(folder) != before
        before = _contents(folder)
    return Count(len(calls), reached)


def _over_the_command_line(folder: Path) -> Count:
    ids = _fill(folder)
    environment = {**os.environ, "TREERING_SPACE": f"sqlite:{folder / 'space.db'}"}
    commands = [
        ["ingest", "--mode", "status"],
        ["query", "--mode", "page", ids["know"]],
        ["crystallize", "--mode", "promote", ids["know"]],
        ["crystallize", ids["work"], "--kind", "task", "--status", "in_progress"],
    ]
    before, reached = _contents(folder), 0
    for command in commands:
        arguments = [sys.executable, "-m", "treering", *command, "--scope", HERE]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
        reached += _tells(done.stdout + done.stderr, " ".join(command), ids) or _contents(folder) != before
        before = _contents(folder)
    return Count(len(commands), reached)


def _ids_as_an_oracle(folder: Path) -> Count:
    """Ask with an id of the other scope and with one that nobody has: the answers may not differ."""
    ids = _fill(folder)
    nobody = {
        **ids,
        **{name: f"{ids[name].partition(':')[0]}:{'0' * 26}" for name in ("source", "know", "work", "job")},
    }
    reached, pairs = 0, list(zip(_calls(ids), _calls(nobody), strict=True))
    for theirs, missing in pairs:
        answers = []
        for verb, mode, given, options in (theirs, missing):
            with _open(folder) as space:
                try:
                    report = getattr(space, verb)(mode, scope=HERE, input=given, options=options)
                    answers.append(f"{report.status} {report.model_dump().get('empty')}")
                except TreeringError as error:
                    answers.append(_ID.sub("ID", f"{type(error).__name__} {error.message} {error.hint}"))
        reached += theirs[2] != missing[2] and answers[0] != answers[1]
    return Count(len(pairs), reached)


def _words_as_an_oracle(folder: Path) -> Count:
    """Ask for words that only the other scope holds, and for words nobody wrote: the answers may not differ."""
    _fill(folder)
    reached = tried = 0
    with _open(folder) as space:
        space.embed_pending()
        for options in ({}, {"filter": {"kind": "web"}}, {"descend": True}, {"withdrawn": True}):
            for text in ("{}", "{} retries", "the {} file"):
                empty = [
                    # The answer may repeat the words of the question.
                    str(space.query("search", HERE, {"text": text.format(word)}, options).empty).replace(word, "WORD")
                    for word in (SECRET, "zygoteqz")
                ]
                tried, reached = tried + 1, reached + (empty[0] != empty[1])
    return Count(tried, reached)


def _evidence_as_an_oracle(folder: Path) -> Count:
    """Cite words and paths of the other scope, and such as nobody wrote: the errors may not differ."""
    _fill(folder)
    reached = tried = 0
    texts = ('"The {} retries uploads."', "{}", "{}.md", "{}.md:1", "{}.md::{}", "The {} retries uploads.")
    with _open(folder) as space:
        for engine in (space.engine, confined(space.engine, scope=HERE)):
            for text in texts:
                errors = [_error_of_citing(engine, text.format(word, word), word) for word in (SECRET, "zygoteqz")]
                tried, reached = tried + 1, reached + (errors[0] != errors[1])
    return Count(tried, reached)


def _error_of_citing(engine: Engine, text: str, word: str) -> str:
    given = {"kind": "preference", "title": "Ours", "statement": "Ours", "evidence": [text]}
    try:
        catalog.call(engine, "crystallize", Envelope(mode="knowledge", scope=HERE, input=given), granted=WRITES)
    except TreeringError as error:
        return f"{type(error).__name__} {error.message} {error.hint}".replace(word, "WORD")
    return "cited"


ATTACKS: Sequence[Attack] = (
    Attack("calls at one scope that name what lies at another, in Python", _in_python),
    Attack("calls at one scope that name what lies at another, on the command line", _over_the_command_line),
    Attack("ids of another scope told from ids that nobody has", _ids_as_an_oracle),
    Attack("words of another scope told from words that nobody wrote", _words_as_an_oracle),
    Attack("evidence of another scope told from evidence that nobody wrote", _evidence_as_an_oracle),
)

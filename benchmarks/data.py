"""Labelled sets for measuring retrieval, read into one form.

Most sets are not part of the project (their licences differ). They are looked for in the folder named by
`TREERING_BENCH_DATA`, else in `../shared/data` beside the project.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from treering.core.evidence import Triple

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
_SESSION = re.compile(r"session_(\d+)")
_TEMPORAL, _ADVERSARIAL = 2, 5  # categories of LoCoMo
_DATES = (  # of LoCoMo, of LongMemEval where not ISO 8601, of BEAM
    "%I:%M %p on %d %B, %Y",
    "%Y/%m/%d (%a) %H:%M",
    "%B-%d-%Y",
)
_MADE_FROM = re.compile(r"\s*->->\s*[\d,\s]*$")  # which point of its plan a message of BEAM was made from
_MOST_OF_A_KIND = 100
_LANGUAGES = ("chinese", "french", "german", "japanese", "spanish")
"""Sets of our own, 50 questions each, beside this file."""


class MissingData(Exception):
    """A set is not on this machine; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One thing to be found. `title` is a heading, or who spoke and when.

    `gist` is what to embed: dates pull turns of one day together and so are left out (worth 5 points of recall
    on LoCoMo). `thread` names the conversation of a turn, whose passages follow each other in order; `speaker` and
    `said_at` are of turns, too. `triples` are given with the text; where there are none they are read from it.
    """

    id: str
    title: str
    text: str
    gist: str
    thread: str = ""
    speaker: str = ""
    said_at: datetime | None = None
    triples: tuple[Triple, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the passages that answer it together (at least one).

    `about_time`: it asks when something was, or what came first, or how long ago. `asked_at`: when it was asked,
    where that is known.
    """

    id: str
    text: str
    gold: frozenset[str]
    about_time: bool = False
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """Passages searched together, and the questions about them."""

    name: str
    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A named set: one or several collections, and the cut-offs its recall is reported at."""

    name: str
    collections: tuple[Collection, ...]
    cutoffs: tuple[int, ...]


def folder() -> Path:
    """Return the folder the sets are read from."""
    return Path(os.environ.get("TREERING_BENCH_DATA", str(_BESIDE)))


def load(name: str) -> Labelled:
    """Read the set `name` (a key of `SETS`). Raises `MissingData` where its files are absent."""
    return SETS[name](place_of(name))


def place_of(name: str) -> Path:
    """Return the folder of a set. Raises `MissingData` where it is absent."""
    if name in _LANGUAGES:
        return Path(__file__).parent / "languages" / f"{name}.tsv"
    place = folder() / _FOLDERS[name]
    if not place.is_dir():
        raise MissingData(f"{name}: no data in {place}; set TREERING_BENCH_DATA to the folder that has it.")
    return place


def locomo(place: Path) -> Labelled:
    """Read conversations of LoCoMo; each is searched by itself, categories 1 to 4."""
    talks = [talk for file in sorted(place.glob("*.json")) for talk in _json(file)]
    return Labelled("locomo", tuple(_conversation(talk) for talk in talks), (5, 10, 20))


def longmemeval(place: Path) -> Labelled:
    """Read chat turns pooled from many histories."""
    passages = tuple(
        _turn(row["id"], row["role"], row["date"], row["text"], row.get("session_id") or "")
        for row in _lines(place / "corpus.jsonl")
    )
    rows = list(_lines(place / "queries.jsonl"))
    asked = ((row["id"], row["text"], row["gold"]) for row in rows)
    timed = frozenset(row["id"] for row in rows if row["type"] == "temporal-reasoning")
    labelled = _single("longmemeval", passages, asked, (5, 10, 20), timed)
    moments = {row["id"]: _moment(row["date"]) for row in rows}
    (pooled,) = labelled.collections
    questions = tuple(replace(question, asked_at=moments[question.id]) for question in pooled.questions)
    return replace(labelled, collections=(replace(pooled, questions=questions),))


def musique(place: Path) -> Labelled:
    """Read multi-hop questions; their supporting paragraphs are matched to the corpus by title and text."""
    passages = tuple(_paragraph(f"p{n}", row) for n, row in enumerate(_json(place / "corpus.json")))
    ids = {(passage.title, passage.text): passage.id for passage in passages}
    asked = ((row["id"], row["question"], _supporting(row, ids)) for row in _json(place / "queries.json"))
    return _single("musique", passages, asked, (2, 5, 10))


def musique_triples(place: Path) -> Labelled:
    """Read the same with what a large model found each paragraph to state, where it kept to three parts."""
    plain = musique(place).collections[0]
    read = [tuple(_stated(row["extracted_triples"])) for row in _json(place / "openie_gpt-3.5.json")["docs"]]
    passages = tuple(replace(passage, triples=stated) for passage, stated in zip(plain.passages, read, strict=True))
    name = "musique-triples"
    return Labelled(name, (Collection(name, passages, plain.questions),), (2, 5, 10))


def titled(name: str, place: Path) -> Labelled:
    """Read multi-hop questions over paragraphs, one paragraph per title."""
    passages = tuple(_paragraph(row["title"], row) for row in _lines(place / "corpus.jsonl"))
    asked = ((row["id"], row["question"], row["gold_titles"]) for row in _lines(place / "queries.jsonl"))
    return _single(name, passages, asked, (2, 5, 10))


def beam(place: Path) -> Labelled:
    """Read chats of BEAM: a folder for each, as `chats/100K` of its repository has them; each is searched by itself.

    A chat that was cut to the size of its set is read as it was cut. Questions without a source (those that cannot be
    answered) are left out.
    """
    folders = sorted((chat for chat in place.iterdir() if chat.is_dir()), key=lambda chat: (len(chat.name), chat.name))
    return Labelled(f"beam-{place.name.lower()}", tuple(map(_chat, folders)), (5, 10, 20))


def one_language(place: Path) -> Labelled:
    """Read texts and questions in another language than English: lines of a text, a tab and its question."""
    rows = [line.split("\t") for line in place.read_text(encoding="utf-8").splitlines()]
    passages = tuple(Passage(f"t{n}", "", text, text) for n, (text, _) in enumerate(rows))
    return _single(place.stem, passages, ((f"q{n}", asked, [f"t{n}"]) for n, (_, asked) in enumerate(rows)), (1, 3, 10))


SETS: Mapping[str, Callable[[Path], Labelled]] = {
    "locomo": locomo,
    "longmemeval": longmemeval,
    "hotpotqa": partial(titled, "hotpotqa"),
    "2wiki": partial(titled, "2wiki"),
    "musique": musique,
    "musique-triples": musique_triples,
    "beam-100k": beam,
    "beam-500k": beam,
    **dict.fromkeys(_LANGUAGES, one_language),
}
"""Every set by name, with the function that reads its folder."""

_FOLDERS = {
    "locomo": "locomo",
    "longmemeval": "longmemeval_pooled",
    "hotpotqa": "hotpotqa",
    "2wiki": "2wiki",
    "musique": "musique100",
    "musique-triples": "musique100",
    "beam-100k": "beam/100K",
    "beam-500k": "beam/500K",
}


def _single(
    name: str,
    passages: tuple[Passage, ...],
    asked: Iterable[tuple[str, str, Iterable[str]]],
    cutoffs: tuple[int, ...],
    timed: frozenset[str] = frozenset(),
) -> Labelled:
    return Labelled(name, (Collection(name, passages, _questions(asked, passages, timed)),), cutoffs)


def _questions(
    asked: Iterable[tuple[str, str, Iterable[str]]], passages: tuple[Passage, ...], timed: frozenset[str]
) -> tuple[Question, ...]:
    """Keep the questions with evidence; evidence that names no passage is a broken label and is left out."""
    known = {passage.id for passage in passages}
    golds = ((key, text, known & set(gold)) for key, text, gold in asked)
    return tuple(Question(key, text, frozenset(gold), key in timed) for key, text, gold in golds if gold)


def _stated(rows: Iterable[Any]) -> Iterator[Triple]:
    for row in rows:
        with suppress(ValueError, TypeError):
            subject, relation, end = row
            yield Triple(subject=subject, relation=relation, object=end)


def _supporting(row: Mapping[str, Any], ids: Mapping[tuple[str, str], str]) -> list[str]:
    return [ids[p["title"], p["paragraph_text"]] for p in row["paragraphs"] if p["is_supporting"]]


def _conversation(talk: Mapping[str, Any]) -> Collection:
    name = talk["sample_id"]
    passages = tuple(_turns(name, talk["conversation"]))
    asked = (
        (f"{name}/{n}", row["question"], [f"{name}/{turn}" for turn in _turn_ids(row.get("evidence", ()))])
        for n, row in enumerate(talk["qa"])
        if row["category"] != _ADVERSARIAL
    )
    timed = frozenset(f"{name}/{n}" for n, row in enumerate(talk["qa"]) if row["category"] == _TEMPORAL)
    return Collection(name, passages, _questions(asked, passages, timed))


def _turns(name: str, conversation: Mapping[str, Any]) -> Iterator[Passage]:
    for key, turns in conversation.items():
        if _SESSION.fullmatch(key):
            date = conversation[f"{key}_date_time"]
            for turn in turns:
                yield _turn(f"{name}/{turn['dia_id']}", turn["speaker"], date, _said(turn), f"{name}/{key}")


def _turn(key: str, speaker: str, date: str | None, text: str, thread: str) -> Passage:
    return Passage(key, f"{speaker}, {date}", text, f"{speaker}: {text}", thread, speaker, _moment(date))


def _moment(date: str | None) -> datetime | None:
    if not date:
        return None
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(date, form).replace(tzinfo=UTC)
    return datetime.fromisoformat(date).replace(tzinfo=UTC)


def _chat(folder: Path) -> Collection:
    cut, whole = folder / "chat_trunecated.json", folder / "chat.json"
    name = folder.name
    passages = tuple(_messages(name, _json(cut if cut.exists() else whole)))
    asked = (
        (f"{name}/{kind}/{n}", row["question"], [f"{name}/{number}" for number in _numbers(row.get("source_chat_ids"))])
        for kind, rows in _json(folder / "probing_questions" / "probing_questions.json").items()
        for n, row in enumerate(rows)
    )
    timed = frozenset(f"{name}/temporal_reasoning/{n}" for n in range(_MOST_OF_A_KIND))
    return Collection(name, passages, _questions(asked, passages, timed))


def _messages(name: str, batches: Iterable[Mapping[str, Any]]) -> Iterator[Passage]:
    """Read the messages of a chat. The date stands at the first message of a batch and holds for all of it."""
    for batch in batches:
        date = None
        for message in (message for turn in batch["turns"] for message in turn):
            date = message.get("time_anchor") or date
            text = _MADE_FROM.sub("", message["content"])
            yield _turn(f"{name}/{message['id']}", message["role"], date, text, f"{name}/{batch['batch_number']}")


def _numbers(sources: Any) -> Iterator[int]:
    """Return the numbers in a list, or in the lists of a mapping, of numbers."""
    match sources:
        case int():
            yield sources
        case list():
            for part in sources:
                yield from _numbers(part)
        case dict():
            yield from _numbers(list(sources.values()))


def _paragraph(key: str, row: Mapping[str, str]) -> Passage:
    return Passage(key, row["title"], row["text"], f"{row['title']}: {row['text']}")


def _said(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']} [image: {caption}]" if caption else str(turn["text"])


def _turn_ids(evidence: Iterable[str]) -> list[str]:
    """Split evidence such as `D8:6; D9:17`, of which some is written in one string."""
    return [part for entry in evidence for part in re.split(r"[;,\s]+", entry) if part]


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _lines(file: Path) -> Iterator[Any]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)

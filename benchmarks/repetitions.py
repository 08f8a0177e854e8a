"""Memories said twice: what `lint consolidate` finds of them in chat exports, against labels made by hand.

The exports are no part of the project, and are read from `chat_exports` in the folder of `benchmarks.data`. A memory is
a line of a message that has three words or more; dumps of code and logs are left out. `repetitions.json` has labels
by hashes of texts, so that it quotes nothing: of 100 memories drawn at random, whether another memory says all of it;
and of the 100 most alike pairs of different templates, whether one says all that the other does. Paraphrases were
labelled as repetitions; rules that compare words cannot find those.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import treering
from benchmarks.data import folder
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plan import Plan
from treering.core.objects import Source
from treering.extensions.consolidation.repetition import ComparedStatement, sameness
from treering.ports.ledger import Selection

LABELS = Path(__file__).with_name("repetitions.json")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DUMP = re.compile(
    r'^\W*(File "|I0327|["\'][A-Z][\w .-]+["\']: [\[(]|left =|middle =|right =|def |return |if |cities = )'
)
_BATCH = 200


def measure(plan: Plan) -> list[Row]:
    """Keep each memory as a note, consolidate, and compare with the labels. `quick`: the pairs alone."""
    place = folder() / "chat_exports"
    if not place.is_dir():
        return [Missing("repetitions in chat exports", f"no data in {place}")]
    texts = list(_memories(place))
    labels: Mapping[str, Mapping[str, bool]] = json.loads(LABELS.read_text(encoding="utf-8"))
    rows = _compared("pairs that share most words", *_of_pairs(texts, labels["pairs"]), wanted=False)
    if not plan.quick:
        rows = [*_compared("memories drawn at random", *_of_memories(texts, labels["memories"]), wanted=True), *rows]
    return rows


def _compared(what: str, found: set[str], labels: Mapping[str, bool], *, wanted: bool) -> list[Row]:
    repeated = {key for key, is_repeated in labels.items() if is_repeated}
    wrong = found - repeated
    rate = 100 * len(found & repeated) / len(repeated)
    false = 100 * len(wrong) / max(1, len(found))
    note = f"{len(found & repeated)} of {len(repeated)} among {len(labels)}"
    return [
        Figure(f"repetitions found, {what}", rate, "%", at_least(90) if wanted else None, note),
        Figure(f"false ones, {what}", false, "%", at_most(2), f"{len(wrong)} of {len(found)} found"),
    ]


def _memories(place: Path) -> Iterator[str]:
    """Yield the memories of all exports, in their order."""
    with treering.open(":memory:", background=False) as space:
        files = [*sorted(place.glob("*/*.json*")), *sorted(place.glob("*/*.zip"))]
        for file in files:
            space.ingest("path", input={"path": str(file)})
        for item in space.engine.ledger.select(Selection(descend=True, types=("source",))):
            for part in item.segments if isinstance(item, Source) else ():
                for line in map(str.strip, _SENTENCE.split(part.excerpt)):
                    if 12 <= len(line) <= 300 and len(line.split()) >= 3 and not _DUMP.match(line):
                        yield line


def _of_memories(texts: Sequence[str], labels: Mapping[str, bool]) -> tuple[set[str], Mapping[str, bool]]:
    with treering.open(":memory:", background=False) as space:
        for start in range(0, len(texts), _BATCH):
            items = [{"text": text, "origin": f"m{start + n}"} for n, text in enumerate(texts[start : start + _BATCH])]
            space.ingest("source", input={"items": items})
        report: Any = space.lint("consolidate", options={"limit": 10_000})
        ids = set()
        for group in report.groups:
            # Of two that say the same, each is said by the other.
            both = [*group.gone, *([group.kept] if group.kept and group.kind != "contained" else [])]
            ids |= {one.id for one in both}
        ledger = space.engine.ledger
        said = {part.excerpt for one in ids for part in getattr(ledger.get(one), "segments", ())}
    return {_hash(text) for text in said} & labels.keys(), labels


def _of_pairs(texts: Sequence[str], labels: Mapping[str, bool]) -> tuple[set[str], Mapping[str, bool]]:
    found = set()
    told = [ComparedStatement(str(number), "", (text,)) for number, text in enumerate(texts)]
    for number, one in enumerate(told):
        for other in told[number + 1 :]:
            key = _hash(*sorted((one.texts[0], other.texts[0])))
            if key in labels and (sameness(one, other) or sameness(other, one)):
                found.add(key)
    return found, labels


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

"""How likely a new statement ends or replaces an earlier one: boosted trees over signs of both.

The trees are in `pairs.json`, with the command that fits them. They come from labelled conversations.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.extensions.statements.statement import Statement, ValueKind
from treering.extensions.statements.words import KIN
from treering.models.static_model import StaticEmbedder
from treering.ports.models import Vector

TREES = Path(__file__).with_name("pairs.json")

_SECONDS_A_DAY = 86_400
TELLING = frozenset({"change", "correct", "end", "done", "hint", "refuses", "objects", "negative", "leads"})
"""Cues that announce a change."""
_OWN = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|mine|ich|mein\w*|yo|mi|mis)(?!\w)", re.IGNORECASE)

_EMBEDDER = StaticEmbedder()


@lru_cache(maxsize=4_096)
def _vector(text: str) -> Vector:
    return _EMBEDDER.embed_query(text)


def forget() -> None:
    """Drop the texts of compared statements from memory."""
    _vector.cache_clear()


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees that ask the same question at each node of a level: whether a sign exceeds a threshold."""

    names: Mapping[str, int]
    """The column of each sign."""
    columns: npt.NDArray[np.intp]
    thresholds: npt.NDArray[np.float64]
    leaves: npt.NDArray[np.float64]
    start: float

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Trees":
        """Read trees as they are stored: a list of questions and the values of the leaves for each."""
        questions = [question for tree in stored["trees"] for question in tree["questions"]]
        names = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in questions))}
        shape = (len(stored["trees"]), -1)
        return cls(
            names,
            np.array([names[name] for name, _ in questions], np.intp).reshape(shape),
            np.array([threshold for _, threshold in questions]).reshape(shape),
            np.array([tree["leaves"] for tree in stored["trees"]]),
            stored["start"],
        )

    def chances(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """Return the probability for each row of signs."""
        matrix = np.zeros((len(rows), len(self.names)))
        for place, signs in enumerate(rows):
            for name, value in signs.items():
                if (column := self.names.get(name)) is not None:
                    matrix[place, column] = value
        answers = matrix[:, self.columns] > self.thresholds
        leaf = answers @ (1 << np.arange(self.columns.shape[1]))
        sums = self.start + self.leaves[np.arange(len(self.leaves)), leaf].sum(axis=1)
        chances: list[float] = (1 / (1 + np.exp(-sums))).tolist()
        return chances


@cache
def trees_in(path: Path) -> Trees:
    """Return the trees in a file."""
    return Trees.of(json.loads(path.read_text("utf-8")))


@dataclass(frozen=True)
class Comparison:
    """A new statement, and the earlier ones that hold and that it may change, oldest first."""

    new: Statement
    candidates: Sequence[Statement]
    recent: Sequence[Statement]
    """The last statements, whatever became of them."""
    count: int
    """The statements of the conversation so far."""

    @cached_property
    def chances(self) -> Sequence[tuple[Statement, float]]:
        """The candidates that the new statement may change, each with the probability that it no longer holds."""
        compared = list(self.signs())
        chances = trees_in(TREES).chances([signs for _, signs in compared])
        return list(zip((old for old, _ in compared), chances, strict=True))

    def signs(self) -> Iterator[tuple[Statement, dict[str, float]]]:
        """Return the candidates that the new statement may change, each with the signs of the pair.

        Within a message, only a correction changes what was said before.
        """
        new = self.new
        candidates = [old for old in self.candidates if _may_change(new, old)]
        vector = _vector(new.text)
        cosines = [float(vector @ _vector(old.text)) for old in candidates]
        shared = [len(new.things & old.things) for old in candidates]
        earlier = [old.message for old in candidates if old.message < new.message]
        turns = {old.message for old in candidates if old.author == new.author and old.message < new.message}
        valued = [old for old in candidates if old.message < new.message and _kinds(new) & _kinds(old)]
        for old, cosine, common in zip(candidates, cosines, shared, strict=True):
            signs = dict.fromkeys((*self._of_new, *_of_old(old), *_of_both(new, old)), 1.0)
            signs |= self._amounts | _amounts_of(new, old) | {
                "cosine": cosine,
                "nearer": sum(one > cosine for one in cosines),
                "shared": common,
                "more shared": sum(one > common for one in shared),
                "turns": sum(one > old.message for one in turns),
                "last message": bool(earlier) and old.message == earlier[-1],
                "only value": valued == [old],
            }  # fmt: skip
            yield old, signs

    @cached_property
    def _amounts(self) -> dict[str, float]:
        new = self.new
        return {
            "statements": self.count,
            "words": len(new.text.split()),
            "things": len(new.things),
            "own things": len(new.things - new.inherited),
            "values": len(new.values),
        }

    @cached_property
    def _of_new(self) -> list[str]:
        new = self.new
        before = {cue for one in self.recent if one.message == new.message for cue in one.cues}
        flags = ("refers", "begins", "answers", "single", "quoted_by")
        return [
            f"new {new.force}",
            *(f"cue {cue}" for cue in new.cues),
            *(f"before {cue}" for cue in before - new.cues),
            *(flag for flag in flags if getattr(new, flag)),
            *(["tells"] if new.cues & TELLING else ()),
            *(["own"] if _OWN.search(new.text) else ()),
        ]


def _of_old(old: Statement) -> Iterator[str]:
    yield f"old {old.force}"
    yield from (f"old cue {cue}" for cue in old.cues)
    if not old.has_substance:
        yield "old empty"
    if old.quoted_by:
        yield "old quoted"
    if _OWN.search(old.text):
        yield "old own"


def _may_change(new: Statement, old: Statement) -> bool:
    """Return whether nothing rules out that a statement changes an earlier one, however likely it is."""
    is_correction = "correct" in new.cues
    if old.message == new.message and not is_correction:
        return False
    for one, other in ((new.modifiers - KIN, old.modifiers - KIN), (new.modifiers & KIN, old.modifiers & KIN)):
        if one and other and one.isdisjoint(other):
            return False
    if is_correction or new.force == "ended":
        return True
    if new.cues & {"past", "add"} or ("same" in new.cues and not new.cues & {"change", "negative"}):
        return False
    return "change" in new.cues or not _is_apart(new, old)


def _is_apart(new: Statement, old: Statement) -> bool:
    """Return whether two statements without a word for a change are about different things, persons or events."""
    if new.author != old.author and _OWN.search(new.text) and _OWN.search(old.text) and "handover" not in new.cues:
        return True
    relatives, earlier = new.modifiers & KIN, old.modifiers & KIN
    if (relatives and not earlier) or (earlier and not relatives and _OWN.search(new.text)):
        return True
    kinds, former = _kinds(new), _kinds(old)
    is_other_kind = bool(kinds and former) and not kinds & former and not new.cues & TELLING
    if "did" in new.cues and "did" in old.cues:
        return True
    if not new.cues & TELLING and _is_other_subject(new, old):
        return True
    return "label" in differing(new, old) or _is_another(new, old) or is_other_kind


def _is_another(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different things of one kind: `the bike key` and `the shed key`."""
    subject, earlier = new.subject - new.verbs, old.subject - old.verbs
    return bool(subject & earlier and subject - earlier and earlier - subject)


def _amounts_of(new: Statement, old: Statement) -> dict[str, float]:
    common = len(new.things & old.things)
    return {
        "overlap": common / max(1, min(len(new.things), len(old.things))),
        "likeness": common / max(1, len(new.things | old.things)),
        "old words": len(old.text.split()),
        "old things": len(old.things),
        "old values": len(old.values),
        "messages": new.message - old.message,
        "days": (new.at - old.at).total_seconds() / _SECONDS_A_DAY if new.at and old.at else 0,
    }


def _of_both(new: Statement, old: Statement) -> Iterator[str]:
    ends = [value.last for value in old.values if value.last]
    is_same_author, is_told = new.author == old.author, not new.cues.isdisjoint(TELLING)
    own = [_OWN.search(one.text) is not None for one in (new, old)]
    flags = {
        "ahead": bool(new.at and ends and max(ends) >= new.at.date()),
        "same author": is_same_author,
        "same owner": new.owner == old.owner,
        "new of other": bool(new.owner) and new.owner != new.author,
        "old of other": bool(old.owner) and old.owner != old.author,
        "both own": not is_same_author and all(own),
        "one own": not is_same_author and any(own) and not all(own),
        "reply": not is_same_author and new.message - old.message == 1,
        "both did": "did" in new.cues and "did" in old.cues,
        "adds": bool(new.cues & {"past", "add"}),
        "stays": "same" in new.cues and not new.cues & {"change", "negative"},
        "denied": new.positive != old.positive,
        "tells of shared": is_told and not new.things.isdisjoint(old.things),
    }
    yield from (name for name, holds in flags.items() if holds)
    yield from _of_contents(new, old)
    yield from _of_values(new, old, is_told=is_told)


def _of_contents(new: Statement, old: Statement) -> Iterator[str]:
    relatives, former = new.modifiers & KIN, old.modifiers & KIN
    modifiers, others = new.modifiers - KIN, old.modifiers - KIN
    flags = {
        "other modifiers": bool(modifiers and others) and modifiers.isdisjoint(others),
        "other relative": bool(relatives and former) and relatives.isdisjoint(former),
        "new relative": bool(relatives and not former),
        "old relative": bool(former and not relatives),
        "another": _is_another(new, old),
        "other subject": _is_other_subject(new, old),
        "same subject": not (new.things & new.subject).isdisjoint(old.subject),
        "single both": have_same_attribute(new, old),
        "same attribute": not new.attributes.isdisjoint(old.attributes),
        "same verb": not new.verbs.isdisjoint(old.verbs),
        "covers": bool(old.things) and old.things <= new.things,
        "within": bool(new.things) and new.things <= old.things,
    }
    yield from (name for name, holds in flags.items() if holds)


def _of_values(new: Statement, old: Statement, *, is_told: bool) -> Iterator[str]:
    changed = differing(new, old)
    yield from (f"other {kind}" for kind in changed)
    if is_other := bool(set(changed) - {"name"}):
        yield "other value"
        yield from ["tells other"] if is_told else ()
        yield from ["other of author"] if new.author == old.author else ()
    if is_other and not new.things.isdisjoint(old.things):
        yield "other of shared"
    if any(_are_alike(new, old, kind) for kind in changed):
        yield "alike"
    if _has_equal(new, old):
        yield "equal value"
    if not new.keys.get("name", frozenset()).isdisjoint(old.keys.get("name", ())):
        yield "same name"
    kinds, earlier = _kinds(new), _kinds(old)
    if kinds and earlier:
        yield "same kinds" if kinds & earlier else "other kinds"


def _are_alike(new: Statement, old: Statement, kind: ValueKind) -> bool:
    """Return whether values are written nearly the same, as after a slip: `4417` and `4471`, `Alan` and `Alaric`."""
    return any(
        min(len(one), len(other)) >= MIN_ALIKE and SequenceMatcher(None, one, other).ratio() >= ALIKE
        for one in new.keys[kind]
        for other in old.keys[kind]
    )


MIN_ALIKE = 3
ALIKE = 0.6
"""Characters of values that are compared, and the share that both have, from which on they are alike."""


def _has_equal(new: Statement, old: Statement) -> bool:
    return any(not keys.isdisjoint(old.keys.get(kind, ())) for kind, keys in new.keys.items())


def differing(new: Statement, old: Statement) -> list[ValueKind]:
    """Return the kinds of values that both have, and none in common."""
    return [kind for kind in new.keys if kind in old.keys and new.keys[kind].isdisjoint(old.keys[kind])]


def have_other_modifiers(new: Statement, old: Statement) -> bool:
    """Return whether two statements are about different things of one kind: the work phone and the private one."""
    return bool(new.modifiers and old.modifiers) and new.modifiers.isdisjoint(old.modifiers)


def _is_other_subject(new: Statement, old: Statement) -> bool:
    """Return whether two statements name their subjects, and neither names the subject of the other."""
    subject, earlier = new.subject - new.verbs or new.subject, old.subject - old.verbs or old.subject
    return bool(subject and earlier) and not (subject & old.topics or earlier & new.topics)


def have_other_kinds(new: Statement, old: Statement) -> bool:
    """Return whether both have values of different kinds only: what the gym costs, and where it is now."""
    return bool(new.keys and set(old.keys) - {"name"}) and new.keys.keys().isdisjoint(old.keys)


def have_same_attribute(new: Statement, old: Statement) -> bool:
    """Return whether both state the same attribute of which a person has one, such as a home."""
    return new.single and old.single and not new.attributes.isdisjoint(old.attributes)


def _kinds(one: Statement) -> set[ValueKind]:
    return set(one.keys) - {"name"}

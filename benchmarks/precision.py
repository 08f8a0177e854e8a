"""Precision: what is answered that nobody here can know, what is refused that is known, and how much noise is shown.

Questions of the labelled sets are asked in each other's spaces. Known are those of the space itself, akin those of
another space of the same form (the two may have a vocabulary in common), foreign those of another form. Half of the
questions, told by their hash, is for tuning; the other half is held out.

Cases of our own (`beliefs.json`) name all that may be shown; half of them are held out, too. They follow
PrecisionMemBench (Tenure, 2026): noise is an error, not a cost, and what was superseded never stands above what holds
now.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

import treering
from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.code_data import load_questions
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Row, Target, at_least, at_most
from benchmarks.packs import PackedSpace, open_spaces, set_of
from benchmarks.paired import estimates
from benchmarks.plan import Plan
from treering import Space
from treering.core.objects import Source
from treering.verbs.ingest.report import IngestReport
from treering.verbs.query.context import ContextReport
from treering.verbs.query.search import SearchReport

Nature = Literal["known", "akin", "foreign"]

_TARGETS: Mapping[Nature, Target] = {"known": at_most(3), "akin": at_most(10), "foreign": at_most(10)}
_SHOWN = (1, 3, 5)
"""Passages of an answer by which its precision is taken."""
_KNOWN, _STRANGE, _QUICK = 200, 40, 5
"""Questions of its own, and of each other set, that are asked of the spaces of a set."""
_CASES = Path(__file__).parent / "beliefs.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was asked of a space: whether it was answered, and which of the passages shown are evidence."""

    nature: Nature
    held_out: bool
    answered: bool
    evidence: tuple[bool, ...] = ()
    wanted: int = 0


def measure(plan: Plan) -> list[Row]:
    """Measure refusals and precision by set, and the cases. `quick`: few questions, by words alone."""
    spaces, missing = open_spaces(plan)
    rows: list[Row] = list(missing)
    for name in dict.fromkeys(map(set_of, spaces)):
        alike = [space for space in spaces if set_of(space) == name]
        for semantic in sorted({False, alike[0].vectors}, reverse=True):
            asked = [one for space in alike for one in _ask(space, spaces, plan, semantic=semantic)]
            rows += _rows(f"{name}, {_way(semantic)}", asked)
    cases, believed = _read_cases()
    with believed_space(believed, CachedEmbedder(plan.cache / "vectors.db")) as held:
        if not plan.quick:
            held.space.embed_pending()
        for semantic in (False,) if plan.quick else (True, False):
            rows += _case_rows(f"cases, {_way(semantic)}", cases, held, semantic=semantic)
    return rows


def _ask(space: PackedSpace, spaces: Sequence[PackedSpace], plan: Plan, *, semantic: bool) -> Iterator[Asked]:
    for nature, text, gold in _questions(space, spaces, plan):
        pack = space.pack(text, semantic=semantic).pack
        shown = [name for item in pack.items if item.section == "sources" and (name := space.named(item))]
        evidence = tuple(name in gold for name in dict.fromkeys(shown))
        yield Asked(nature, is_held_out(text), bool(pack.items), evidence, len(gold))


def _questions(
    space: PackedSpace, spaces: Sequence[PackedSpace], plan: Plan
) -> Iterator[tuple[Nature, str, frozenset[str]]]:
    """Yield questions for a space: its own, and as many of every other set."""
    sets = [set_of(one) for one in spaces]
    for other in spaces:
        nature: Nature = "known" if other is space else "akin" if other.form == space.form else "foreign"
        most = (_KNOWN if other is space else _STRANGE) // sets.count(set_of(other))
        for text, gold in sorted(other.questions, key=lambda one: digest_of(one[0]))[: _QUICK if plan.quick else most]:
            yield nature, text, gold
    if "code" not in sets:
        for text in about_code()[: _QUICK if plan.quick else _STRANGE]:
            yield "foreign", text, frozenset()


def about_code() -> Sequence[str]:
    """Return questions about repositories, which are foreign to other spaces even where there are no clones."""
    try:
        return sorted((one.text for one in load_questions("questions")), key=digest_of)
    except MissingData:
        return ()


def digest_of(text: str) -> bytes:
    """Return a hash by which questions are chosen, the same every time."""
    return blake2b(text.encode(), digest_size=8).digest()


def is_held_out(text: str) -> bool:
    """Tell whether a question is of the half that nothing is tuned on."""
    return digest_of(text)[0] % 2 == 0


def _rows(name: str, asked: Sequence[Asked]) -> Iterator[Figure]:
    for nature, target in _TARGETS.items():
        wrong = [one for one in asked if one.nature == nature]
        held, tuned = (_errors([one for one in wrong if one.held_out == half]) for half in (True, False))
        if held and tuned:
            said = "refused" if nature == "known" else "answered"
            note = f"{_interval(held)}, {len(held)} questions; tuning half {np.mean(tuned):.1f} of {len(tuned)}"
            yield Figure(f"{name}: {nature} {said}, held out", float(np.mean(held)), "%", target, note)
    known, others = ([one for one in asked if (one.nature == "known") == own] for own in (True, False))
    told = 100 - float(np.mean(_errors(known)))
    lies = np.mean([np.mean(_errors([one for one in others if one.nature == nature])) for nature in _natures(others)])
    note = f"of one known question for each that is not; {told:.1f} % of the known are answered"
    yield Figure(f"{name}: of what is answered, known", 100 * told / (told + float(lies)), "%", None, note)
    for count in _SHOWN:
        shown = [100 * sum(one.evidence[:count]) / len(one.evidence[:count]) for one in known if one.evidence]
        found = [100 * sum(one.evidence[:count]) / one.wanted for one in known]
        note = f"{_interval(shown)}; recall {np.mean(found):.1f} %, refused ones counted as 0"
        yield Figure(f"{name}: of the first {count} shown, evidence", float(np.mean(shown)), "%", None, note)


def _natures(asked: Sequence[Asked]) -> Sequence[Nature]:
    return tuple(dict.fromkeys(one.nature for one in asked))


def _errors(asked: Sequence[Asked]) -> list[float]:
    return [100.0 * (one.answered != (one.nature == "known")) for one in asked]


def _interval(percents: Sequence[float]) -> str:
    (estimate,) = estimates(np.array(percents)[:, None])
    return f"95 % [{estimate.low:.1f}, {estimate.high:.1f}]"


def _way(semantic: bool) -> str:
    return "with vectors" if semantic else "by words"


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked within a scope, and the names of all beliefs that may be shown: all that are wanted."""

    kind: str
    scope: str
    asked: str
    wanted: frozenset[str]


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """The beliefs that a pack showed, and those of a search, in their order; by their names."""

    packed: Sequence[str]
    found: Sequence[str]

    def precision(self, case: Case) -> float:
        """Return the share of what was packed that is wanted; of nothing, whether nothing is wanted."""
        if not self.packed:
            return float(not case.wanted)
        return len(case.wanted.intersection(self.packed)) / len(self.packed)

    def recall(self, case: Case) -> float:
        """Return the share of what is wanted that was packed."""
        return len(case.wanted.intersection(self.packed)) / len(case.wanted) if case.wanted else 1.0


@dataclass(frozen=True, slots=True)
class BelievedSpace:
    """A space of beliefs, each knowledge with a source as its evidence. `names` gives the belief of either's id."""

    space: Space
    names: Mapping[str, str]
    later: Mapping[str, str]
    """What superseded a belief, by name."""

    def __enter__(self) -> "BelievedSpace":
        return self

    def __exit__(self, *_: object) -> None:
        self.space.close()

    def answer(self, case: Case, semantic: bool) -> CaseAnswer:
        """Ask for a pack and for hits."""
        options = {"semantic": semantic, "descend": case.scope == "/"}
        pack = self.space.query("context", scope=case.scope, input={"task": case.asked}, options=options)
        hits = self.space.query("search", scope=case.scope, input={"text": case.asked}, options=options)
        assert isinstance(pack, ContextReport)
        assert isinstance(hits, SearchReport)
        return CaseAnswer(self._named(pack.pack.items), self._named(hits.hits))

    def is_misled(self, shown: Sequence[str]) -> bool:
        """Tell whether something superseded stands before what holds now in its place, or without it."""
        places = {name: place for place, name in enumerate(shown)}
        return any(places.get(self._current(name), len(shown)) > place for name, place in places.items())

    def _current(self, name: str) -> str:
        return self._current(self.later[name]) if name in self.later else name

    def _named(self, shown: Sequence[Any]) -> Sequence[str]:
        return list(dict.fromkeys(self.names[one.object_id] for one in shown))


def _case_rows(name: str, cases: Sequence[Case], held: BelievedSpace, *, semantic: bool) -> Iterator[Figure]:
    answers = [(case, held.answer(case, semantic)) for case in cases]
    passed = [case.kind for case, answer in answers if answer.precision(case) == answer.recall(case) == 1]
    kinds = [case.kind for case in cases]
    note = ", ".join(f"{kind} {passed.count(kind)} of {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
    yield Figure(f"{name}: passed, of {len(cases)}", len(passed), "cases", None, note)
    wanting = [(case, answer) for case, answer in answers if case.wanted]
    for measured, target in (("precision", at_least(60)), ("recall", at_least(90))):
        shares = [100 * getattr(answer, measured)(case) for case, answer in wanting]
        held_out = [share for share, (case, _) in zip(shares, wanting, strict=True) if is_held_out(case.asked)]
        note = f"{_interval(shares)}; held-out half {np.mean(held_out):.1f} of {len(held_out)}"
        yield Figure(f"{name}: {measured}", float(np.mean(shares)), "%", target, note)
    refused = [100.0 * bool(answer.packed) for case, answer in answers if not case.wanted]
    yield Figure(f"{name}: answered although nothing is known", float(np.mean(refused)), "%", at_most(10))
    for where in ("packed", "found"):
        misled = sum(held.is_misled(getattr(answer, where)) for _, answer in answers)
        yield Figure(f"{name}: superseded above current, {where}", misled, "cases", at_most(0))


def believed_space(beliefs: Sequence[Mapping[str, str]], embedder: CachedEmbedder) -> BelievedSpace:
    """Tell a space in memory what is believed, oldest first, and what superseded it."""
    space = treering.open(":memory:", background=False, embedder=embedder, channel="user")
    sources, known = dict[str, str](), dict[str, str]()
    for belief in beliefs:
        name, scope = belief["name"], belief["scope"]
        text = " ".join(filter(None, (belief["text"], belief.get("why"))))
        item = {"text": text, "origin": name, "title": belief["title"]}
        told = space.ingest("source", scope=scope, input={"items": [item]})
        assert isinstance(told, IngestReport)
        source = space.engine.ledger.get(told.items[0].source_id)
        assert isinstance(source, Source)
        evidence = {"source_id": source.id, "segment_id": source.segments[0].segment_id}
        fact = {"subject": belief["title"], "predicate": "is", "value": belief["text"]}
        given = {"kind": "fact", "title": belief["text"], "payload": fact, "evidence_refs": [evidence]}
        report = space.crystallize("knowledge", scope=scope, input={**given, "status": "active"})
        sources[name], known[name] = source.id, report.ids[0]
    later = {belief["name"]: belief["by"] for belief in beliefs if "by" in belief}
    scopes = {belief["name"]: belief["scope"] for belief in beliefs}
    for name, by in later.items():
        space.crystallize("supersede", scope=scopes[name], input={"id": known[name], "by": known[by]})
    return BelievedSpace(space, {identity: name for held in (sources, known) for name, identity in held.items()}, later)


def _read_cases() -> tuple[Sequence[Case], Sequence[Mapping[str, str]]]:
    data = json.loads(_CASES.read_text(encoding="utf-8"))
    cases = [Case(one["kind"], one["scope"], one["asked"], frozenset(one["wanted"])) for one in data["cases"]]
    return cases, data["beliefs"]

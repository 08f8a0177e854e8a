"""Ask: ranked passages with why they are there, and the context pack as an agent gets it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from treering.core.canonical import is_object
from treering.core.counting import listed_up_to
from treering.core.errors import InvalidInput
from treering.core.objects import TYPES
from treering.core.scope import ROOT
from treering.extensions.server.web.view import PageView, Rendered
from treering.retrieval.index.code_places import PLACE_ROLES
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.retrieval.search import file_ranking, fusion
from treering.retrieval.search import question as asked
from treering.retrieval.search.lines import words_in
from treering.retrieval.search.packing import PackItem
from treering.retrieval.text.analysis import query_terms, telling_terms
from treering.verbs.catalog import TYPE_LABELS, kinds_of
from treering.verbs.envelope import Envelope, parse
from treering.verbs.feedback import FEEDBACK, GIVEN_BY_PERSON, MARKS, AnswerMarks
from treering.verbs.query.brief import LABEL_WIDTH, BriefReport, card_lines
from treering.verbs.query.context import ContextReport
from treering.verbs.query.search import SearchReport
from treering.verbs.shown_hits import ShownHit, lines_shown_of

_HITS = 20
_TOKENS = 4_000
_LINE_CHARS = 600  # of a line of a hit
_ASKED_WITH = ("q", "kind", "role", "since", "until", "scope", "at", "withdrawn", "view", "tokens")
"""The parameters that determine an answer: feedback includes them, and redirects to the answer."""
_VERDICTS = ("right", "wrong", "neither")
_WORDS = 8
_NEAR = 20
"""A passage of a lower rank by its vector is not called near, unless nothing else found it."""
_SAYS_MUCH = 0.8
_NAMED_BY_THE_QUESTION: Mapping[str, str] = {
    fusion.NAMED: "The question names its title.",
    asked.SPEAKER: "The question names its speaker.",
    asked.DATE: "Its time matches the question.",
}


@dataclass(frozen=True, slots=True)
class AnsweringHit:
    """A hit, with its lines that answer, its text split into stretches if lines are left out, and why it is there."""

    hit: ShownHit
    lines: "list[AnsweringLine]"
    text: "list[MarkedText]"
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class AnsweringLine:
    """A line of a hit, split into stretches. `number`: of the line in its file, or 0."""

    number: int
    text: "list[MarkedText]"
    after_gap: bool


def ask(view: PageView) -> Rendered:
    """Show the search box and the answer; without a question the brief; in an empty space the first steps."""
    overview = view.overview()
    if not overview.sequence:
        return Rendered("first_run.html")
    question = view.text("q")
    values: dict[str, Any] = {
        "overview": overview,
        "question": question,
        "kinds": _kinds(),
        "roles": PLACE_ROLES,
        "filtered": any(view.text(name) for name in ("kind", "role", "since", "until", "scope", "at", "withdrawn")),
        "wants_pack": view.text("view") == "pack",
        "command": _command(view),
        "hits": None,
        "report": None,
        "packed": (),
        "feedback": None,
        "brief": None if question else shown_brief(view.query(BriefReport, "brief", {})),
    }
    if question and values["wants_pack"]:
        values["report"] = pack = _pack(view, question)
        values["packed"] = packed = list({(one.object_id, one.segment_id): one for one in pack.pack.items}.values())
        values["feedback"] = _feedback(view, pack) if packed else None
    elif question:
        values["report"] = report = _search(view, question)
        values["hits"] = [_answering(hit, question, frozenset(report.terms)) for hit in report.hits]
        values["feedback"] = _feedback(view, report) if report.hits else None
    return Rendered("ask.html", values)


@dataclass(frozen=True, slots=True)
class ShownBrief:
    """The brief in rows: the heading of the project, then by section its lines, each with the id it names, if any."""

    heading: str
    sections: Mapping[str, Sequence[tuple[str, str]]]


def shown_brief(report: BriefReport) -> ShownBrief:
    """Return the lines of a brief in sections."""
    heading, *lines = report.lines if next(card_lines(report.card), "") in report.lines[:1] else ("", *report.lines)
    sections: dict[str, list[tuple[str, str]]] = {}
    label = ""
    for line in lines:
        label = line[:LABEL_WIDTH].strip() or label
        text, _, identity = line[LABEL_WIDTH:].rpartition("  ")
        sections.setdefault(label, []).append((text, identity) if is_object(identity) else (line[LABEL_WIDTH:], ""))
    return ShownBrief(heading, sections)


def _answering(hit: ShownHit, question: str, terms: frozenset[str]) -> AnsweringHit:
    rows = [*lines_shown_of(hit, terms, max_chars=_LINE_CHARS)]
    lines = [AnsweringLine(row.number, [*_split(row.text, row.words)], row.after_gap) for row in rows]
    is_whole = "".join("".join(row.text for row in rows).split()) == "".join(hit.text.split())
    return AnsweringHit(hit, lines, [] if is_whole else marked(hit.text, question), reasons(hit, question))


def _search(view: PageView, question: str) -> SearchReport:
    return view.query(SearchReport, "search", {"text": question}, limit=_HITS, explain=True, **_narrowed(view))


def _pack(view: PageView, question: str) -> ContextReport:
    tokens = max(view.number("tokens", default=_TOKENS, most=32_000), 50)
    return view.query(ContextReport, "context", {"task": question}, max_tokens=tokens, **_narrowed(view))


def _narrowed(view: PageView) -> dict[str, Any]:
    options = {"filter": search_filter(view.params)}
    return {**options, "withdrawn": True} if view.text("withdrawn") else options


def search_filter(params: Mapping[str, str]) -> dict[str, Any]:
    """Turn the choices on the page into a filter. Raises `InvalidInput` for a kind of an unknown type."""
    chosen: dict[str, Any] = {}
    kind = params.get("kind", "").strip()
    if kind:
        of_type, _, of_kind = kind.partition(":")
        if of_type not in TYPES:
            raise InvalidInput(f"There are no objects of type {of_type[:40]!r}.", hint=f"Choose {', '.join(TYPES)}.")
        chosen = {"type": of_type, **({"kind": of_kind} if of_kind else {})}
    if role := params.get("role", "").strip():
        chosen["role"] = role
    since, until = params.get("since", "").strip(), params.get("until", "").strip()
    if since or until:
        bounds = {"gte": since and f"{since}T00:00:00Z", "lte": until and f"{until}T23:59:59Z"}
        chosen["updated_at"] = {name: bound for name, bound in bounds.items() if bound}
    return chosen


def _kinds() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the kinds to choose from, by type, with the label of the type."""
    return {name: {label: kinds_of(name)} for name, label in TYPE_LABELS.items()}


def _command(view: PageView) -> tuple[str, ...]:
    """Return the arguments of `treering` for the same query."""
    question = view.text("q") or "your question"
    is_pack = view.text("view") == "pack"
    scope = ("--scope", view.scope) if view.scope != ROOT else ()
    if at := view.text("at"):
        mode = () if is_pack else ("--mode", "search", "--explain")
        return ("treering", "query", question, *mode, *scope, "--at", at, "--descend")
    return ("treering", "ask", question, *scope) if is_pack else ("treering", "search", question, "-v", *scope)


@dataclass(frozen=True, slots=True)
class AnswerFeedback:
    """The feedback on an answer, and the fields its page sends to add more."""

    marks: AnswerMarks
    fields: Mapping[str, str]
    mark: str
    """The mark just given, to confirm it."""

    def of(self, shown: ShownHit | PackItem) -> str:
        """Return the mark of a hit or of an item of a pack; empty if none."""
        return self.marks.marks.get(self.place(shown), "")

    def place(self, shown: ShownHit | PackItem) -> str:
        """Return the reference of a hit or an item in feedback."""
        return f"{shown.object_id} {shown.segment_id}".strip()

    def anchor(self, shown: ShownHit | PackItem) -> str:
        """Return the id of the element that shows a hit or an item."""
        return _anchor(self.place(shown))


def _feedback(view: PageView, report: SearchReport | ContextReport) -> AnswerFeedback | None:
    """Return the feedback on an answer; `None` if the caller cannot give any."""
    if not report.answer or view.as_of or not view.space.grants(FEEDBACK):
        return None
    by_person = view.space.grants(GIVEN_BY_PERSON)
    asked_of = {"question": report.answer, "scope": report.scope, "by_person": by_person}
    marks = view.perform(MARKS, asked_of)
    if not marks.accepted:
        return None
    fields = {name: value for name in _ASKED_WITH if (value := view.text(name))}
    verdict = view.text("said")
    return AnswerFeedback(marks, {**fields, "answer": report.answer}, verdict if verdict in _VERDICTS else "")


def mark(view: PageView) -> Rendered:
    """Mark a hit as right, wrong or neither, as the form requests, and redirect to the answer.

    The mark is a person's if the caller may decide as one. Raises `InvalidInput` for another verdict.
    """
    verdict, _, place = view.text("mark").partition(" ")
    if verdict not in _VERDICTS:
        raise InvalidInput(f"{verdict[:40]!r} is not a verdict.", hint=f"Choose {', '.join(_VERDICTS)}.")
    given = {"question": view.text("answer"), verdict: [place]}
    envelope = parse(Envelope, {"mode": "feedback", "scope": view.scope, "input": given}, where="page")
    view.space.call("crystallize", envelope, as_person=view.space.grants(GIVEN_BY_PERSON))
    back = view.link(**{name: view.text(name) for name in _ASKED_WITH}, said=verdict)
    return Rendered("", redirect=f"{back}#{quote(_anchor(place), safe=':')}")


def _anchor(place: str) -> str:
    return place.replace(" ", ".")


def reasons(hit: ShownHit, question: str) -> list[str]:
    """Return why a hit was found, the most important reasons first. `hit` was requested with `explain`."""
    explanation = hit.explain or {}
    arms: Mapping[str, Mapping[str, Any]] = explanation.get("arms", {})
    counted = {name: part for name, part in arms.items() if part["normalised"] > 0}
    return [
        *_found(hit, question, counted),
        *_reached(hit, counted, explanation.get("path", ())),
        *_weighed(hit, counted, explanation),
    ]


def _found(hit: ShownHit, question: str, arms: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if fusion.PLACES in arms:
        yield "The question contains its path, title or id."
    if fusion.WORDS in arms:
        yield _words(hit, question)
    if fusion.NAMES in arms and (names := _names(hit, question)):
        yield f"It contains a name from the question: {_listed(names)}."
    if fusion.VECTORS in arms:
        rank = arms[fusion.VECTORS]["rank"]
        if rank == 1:
            yield "Its meaning is the closest of all passages."
        elif rank <= _NEAR or len(arms) == 1:
            yield f"Its meaning is close to the question: number {rank} of all passages."
    yield from (sentence for arm, sentence in _NAMED_BY_THE_QUESTION.items() if arm in arms)
    if hit.kind in DIALOGUE_KINDS and asked.ROLE in arms:
        yield "The question asks about its side of the conversation."


def _reached(hit: ShownHit, arms: Mapping[str, Mapping[str, Any]], path: Sequence[str]) -> Iterator[str]:
    if fusion.WALKED in arms and path[:-1]:
        yield _way([name for name in path[:-1] if name], hit)
    elif fusion.TITLE_MATCH in arms:
        yield "The first results mention its title."
    elif fusion.WALKED in arms or fusion.BRIDGED in arms:
        yield "It mentions something that the first results also mention."
    if fusion.NEIGHBOURS in arms:
        yield "A neighboring turn of the conversation also matches."
    if hit.kind not in DIALOGUE_KINDS and arms.get(file_ranking.FILE, {}).get("raw", 0) >= _SAYS_MUCH:
        yield "Its file as a whole matches the question."


def _weighed(hit: ShownHit, arms: Mapping[str, Mapping[str, Any]], explanation: Mapping[str, Any]) -> Iterator[str]:
    if "rerank" in explanation:
        yield "The reranker compared it with the question."
    if explanation.get("role") and arms.get(file_ranking.ROLE, {}).get("raw", 1) < 1:
        yield f"It ranks lower than code: the role of its file is {explanation['role']}."
    if explanation.get("trust", {}).get("factor", 1) < 1:
        yield f"It ranks lower: it was received through {hit.channel}, which has {hit.trust} trust."
    if "repeats_question" in explanation:
        yield "It ranks lower: it repeats the question."
    if hit.reply:
        yield "It ends with a question, which the next turn may answer."


def _way(names: Sequence[str], hit: ShownHit) -> str:
    """Return how the graph led to a hit: through another passage of its file, or through entities."""
    *_, before, last = ("", *names)
    if last == hit.title and before.startswith(f"{last} — "):
        return f"It is in the same file as a first result: {before.removeprefix(f'{last} — ')}."
    named = [_as_written(name, hit) for name in names]
    start = "It is linked to the first results through" if len(named) > 1 else "It is linked through"
    return f"{start} {' → '.join(f'“{name}”' for name in named)}."


def _as_written(name: str, hit: ShownHit) -> str:
    """Return a name, which the graph stores in lower case, in the spelling of the hit if it occurs there."""
    match = re.search(re.escape(name), f"{hit.title} {hit.heading} {hit.text}", re.IGNORECASE)
    return match[0] if match else name


def _words(hit: ShownHit, question: str) -> str:
    if words := words_of(question, hit.text):
        return f"It contains these words of the question: {_listed(words)}."
    if words := words_of(question, f"{hit.title} {hit.heading} {hit.origin}"):
        return f"Its title or heading contains these words of the question: {_listed(words)}."
    return "It contains words of the question."


def _names(hit: ShownHit, question: str) -> list[str]:
    text = f"{hit.title} {hit.heading} {hit.origin} {hit.text}".casefold()
    return [name for name in query_terms(question).identifiers if name in text]


def _listed(words: Sequence[str]) -> str:
    return listed_up_to(_WORDS, [f"“{word}”" for word in words])


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A stretch of a text, and whether it is a word of the question."""

    text: str
    sought: bool


def marked(text: str, question: str) -> list[MarkedText]:
    """Split a text into stretches; words with a term of the question are marked.

    Compound names are marked too: `readForm` and `read_form` if the question is about forms.
    """
    return list(_split(text, words_in(text, frozenset(telling_terms(question)))))


def words_of(question: str, text: str) -> list[str]:
    """Return the words of a text that are words of the question, as the text writes them, each once."""
    words: dict[str, str] = {}
    for stretch in marked(text, question):
        if stretch.sought:
            words.setdefault(stretch.text.casefold(), stretch.text)
    return list(words.values())


def _split(text: str, words: Iterable[tuple[int, int]]) -> Iterator[MarkedText]:
    done = 0
    for start, end in words:
        if start > done:
            yield MarkedText(text[done:start], sought=False)
        yield MarkedText(text[start:end], sought=True)
        done = end
    if done < len(text):
        yield MarkedText(text[done:], sought=False)

"""`query` in mode `brief`: what to know before starting, without a task, from structured state alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeGuard

from pydantic import Field

from treering.core.canonical import Instant, is_object
from treering.core.characters import one_line
from treering.core.counting import counted_things
from treering.core.fencing import fence
from treering.core.filters import And, Compare, Filter, Or
from treering.core.objects import Constraint, Decision, Knowledge, Object, Preference, Source, WorkItem, title_of
from treering.core.policy import is_over
from treering.core.versions import known_branches, payload_on
from treering.ports.ledger import Altered, Ledger, head_of
from treering.retrieval import limits
from treering.retrieval.search.packing import lines_within
from treering.retrieval.search.question import Question, asks_about_chore, asks_what_changed
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING
from treering.verbs.denials import contradicting
from treering.verbs.envelope import READS, Call, Mode, Nothing, Value
from treering.verbs.evidence.cited import first_places, lost_places
from treering.verbs.feedback import uses
from treering.verbs.query.authorship import agent_note
from treering.verbs.query.branch_edits import EDITED, edited_on_branch, reason_of
from treering.verbs.query.branch_work import EVERYWHERE, BranchWork, branch_work, scope_of
from treering.verbs.query.contested import ContestedLines, contradictions
from treering.verbs.query.last_session import ended, is_session, last_conversation, recalled
from treering.verbs.query.unconfirmed import (
    KINDS,
    UNCONFIRMED,
    by_author,
    is_shown,
    is_unconfirmed,
    repeated,
    waiting_in_words,
)
from treering.verbs.read_reports import ReadReport, altered_warnings, scope_warnings
from treering.verbs.reading import ReadOptions, moment_of, nothing_recorded, selection_of, time_of
from treering.verbs.scoped_ledger import on_all_branches, whole
from treering.verbs.short_ids import short_id
from treering.verbs.stale import may_be_stale
from treering.verbs.trees import CHANGED, AskedTree, maps_of, notes_of_objects, repository_maps
from treering.verbs.work_order import named_work, unfinished_before

_DEFAULT_TOKENS = 500
_ORIGIN = "brief"
_STATED = "Stated"
LABEL_WIDTH = 10
"""The width of the section name, or the spaces, before the text of a line."""
OF_SESSIONS = ("Since", "Last")
"""Labels of the lines about the last conversation."""
_MAX_COMMITS = 10
"""Commits in the answer to a question of the latest changes."""
_PLACES = 2
"""Places of a stale entry that are shown."""
_BACKGROUND = ("fact", "procedure")
_PRIORITIES = ("urgent", "high", "normal", "low")
_PROGRESS = ("in_progress", "open", "blocked")


class BriefEntry(Value):
    """One entry of the brief."""

    id: str
    kind: str
    status: str
    text: str
    updated_at: Instant


class BriefSection(Value):
    """A part of the brief, most important entries first."""

    name: str
    entries: tuple[BriefEntry, ...]
    total: int
    """How many entries there are, shown or not."""


class BriefReport(ReadReport):
    """A brief before starting, as values and as text with recalled content fenced as data."""

    card: Mapping[str, Any] = Field(default={}, description="The project, according to its manifests.")
    sections: tuple[BriefSection, ...] = ()
    since: str = Field(default="", description="Changes since the last session of a coding agent.")
    last: str = Field(default="", description="The last conversation.")
    lines: tuple[str, ...] = ()
    """The brief as people read it, within the budget of tokens."""
    text: str = ""
    """The lines, fenced as data; empty if nothing is known."""


def brief(call: Call, _given: Nothing, options: ReadOptions) -> BriefReport:
    """Compose what to know before starting: project, rules, decisions, open work, changes, the last conversation."""
    moment = moment_of(call, options)
    if gap := nothing_recorded(call, moment):
        return BriefReport(verb="query", mode="brief", scope=call.scope, status="empty", warnings=(gap,))
    altered: Altered = {}
    repository = repository_of(call, altered)
    everything, work, changed, edited = _current(call, options, repository, altered)
    to_confirm = [item for item in everything if is_unconfirmed(item) and item.id not in changed]
    knowledge = [item for item in everything if is_shown(item) and item.status != "candidate"]
    # Its files decide the order: one entry has none.
    branch = branch_work(call, repository, knowledge if len(knowledge) > 1 else ())
    used = uses(call.engine.feedback, call.engine.clock.now())
    knowledge.sort(key=lambda item: (item.id not in edited, *_importance(item, branch, used.get(item.id, 0.0))))
    work = [item for item in work if branch.shows(item)]
    waiting = unfinished_before(call.engine.ledger, work, as_of=moment)
    work.sort(key=lambda item: (not branch.is_about(item), bool(item.branch), *_urgency(item, waiting)))
    groups = contradictions(knowledge)
    against = {item.id for group in groups for item in group}
    single = [item for item in knowledge if item.id not in against]
    stale = [item for item in single if item.status == "stale" or item.id in changed]
    held = [item for item in single if item.kind in KINDS and item not in stale]
    rules, preferences, decisions = (
        [one for one in held if one.kind == kind] for kind in ("constraint", "preference", "decision")
    )
    most = TUNING.packing.max_entries
    shown = [*rules[: TUNING.brief.rules], *preferences[:most], *decisions[:most]]
    reasons = {**_doubts(call, stale[:most], shown, changed), **edited}
    sections = [
        _section("Rules", rules, reasons, most=TUNING.brief.rules),
        _section("Preferred", preferences, reasons),
        _section("Decided", decisions, {**_places(call, decisions[:most]), **reasons}),
        _contested(call, groups, altered),
        _section("Open", work, _states_of(call, work[:most], waiting)),
        _section("Stale", stale, reasons),
        _stated(call.engine.ledger, to_confirm, held, altered),
    ]
    talk = last_conversation(whole(call.engine.ledger), call.scope, as_of=moment, altered=altered)
    writing = _Writing(
        card=repository.payload.get("card", {}) if repository else {},
        unconfirmed=waiting_in_words(to_confirm),
        since=_since(talk, repository),
        last=recalled(talk) if talk else "",
        max_tokens=options.max_tokens or _DEFAULT_TOKENS,
    )
    everywhere = sum(one.kind == "constraint" and not scope_of(one) for one in rules[: TUNING.brief.rules])
    least = {"Rules": everywhere, "Preferred": 0, _STATED: 0}
    chosen = writing.shortened([one for one in sections if one.entries], least)
    lines = writing.lines_within(chosen)
    return BriefReport(
        verb="query",
        mode="brief",
        scope=call.scope,
        status="ok" if lines else "empty",
        warnings=(
            *scope_warnings(call, options, (one.scope for one in (*knowledge, *work))),
            *altered_warnings(altered),
        ),
        ids=(
            *(entry.id for section in chosen for entry in section.entries),
            *(one.id for one in (repository, talk) if one),
        ),
        card=writing.card,
        sections=tuple(chosen),
        since=writing.since,
        last=writing.last,
        lines=lines,
        text=fence("\n".join(lines), origin=_ORIGIN) if lines else "",
    )


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes the sections of a brief, and what surrounds them, within a budget of tokens."""

    card: Mapping[str, Any]
    unconfirmed: str
    since: str
    last: str
    max_tokens: int

    def shortened(self, sections: Sequence[BriefSection], least: Mapping[str, int]) -> list[BriefSection]:
        """Drop unconfirmed statements, then the last entries of the longest sections until all fit.

        Leave `least` entries of a section, by default 1.
        """
        chosen = list(sections)
        while len(self.lines_within(chosen)) < len(self._lines(chosen)):
            above = [len(one.entries) - least.get(one.name, 1) for one in chosen]
            if max(above, default=0) <= 0:
                break
            unconfirmed = (at for at, one in enumerate(chosen) if one.name == _STATED and above[at] > 0)
            place = next(unconfirmed, above.index(max(above)))
            section = chosen[place]
            chosen[place] = section.model_copy(update={"entries": section.entries[:-1]})
        return [one for one in chosen if one.entries]

    def lines_within(self, sections: Iterable[BriefSection]) -> tuple[str, ...]:
        """Return the lines that fit into the budget."""
        return lines_within(self._lines(sections), origin=_ORIGIN, max_tokens=self.max_tokens)

    def _lines(self, sections: Iterable[BriefSection]) -> list[str]:
        return [*card_lines(self.card), *_memory_lines(sections, self.unconfirmed, self.since, self.last)]


def _doubts(
    call: Call, stale: Sequence[Knowledge], shown: Iterable[Knowledge], changed: Mapping[str, str]
) -> dict[str, str]:
    """Return, by id of knowledge, which of its places were lost or `changed` in the work tree."""
    ledger, tree = on_all_branches(call.engine.ledger), call.tree.view if call.tree else None
    lost = _lost(ledger, stale, call.tree)
    if not (tree and tree.changed):
        # Only knowledge with other evidence remains current.
        several = (one for one in shown if len(one.evidence_refs) > 1 and not one.is_only_read)
        lost |= _lost(ledger, several, call.tree)
    # The places that an unread branch lost are unknown, so its work tree is more precise.
    return {**lost, **changed} if tree and tree.changed and not tree.is_later else {**changed, **lost}


def _places(call: Call, decisions: Sequence[Knowledge]) -> dict[str, str]:
    """Return, by id of a decision, its first place, and the decision that it may contradict."""
    places = first_places(call.engine.ledger, decisions)
    for identity, other in contradicting(decisions).items():
        places[identity] = ", ".join(filter(None, (places.get(identity), f"contradicts {short_id(other.id)}?")))
    return places


def _lost(ledger: Ledger, items: Iterable[Knowledge], tree: AskedTree | None) -> dict[str, str]:
    """Return the places that changed or were removed, by the id of the knowledge based on them."""
    view, path_now = (tree.view, tree.path_now) if tree else (None, None)
    places = {item.id: lost_places(ledger, item, view, path_now)[:_PLACES] for item in items}
    return {identity: ", ".join(gone) for identity, gone in places.items() if gone}


def repository_of(call: Call, altered: Altered) -> Source | None:
    """Return the map of the repository asked from, for its tree; without one the only repository of the space."""
    if call.tree:
        view = call.tree.view
        repository = next((one for one in maps_of(call.engine, call.scope) if one.origin == view.root), None)
        return repository and repository.model_copy(update={"payload": payload_on(repository.payload, view.branch)})
    maps = list(repository_maps(call.engine.ledger, call.scope, descend=True, altered=altered))
    return maps[0] if len(maps) == 1 else None


def _current(
    call: Call, options: ReadOptions, repository: Source | None, altered: Altered
) -> tuple[list[Knowledge], list[WorkItem], Mapping[str, str], Mapping[str, str]]:
    """Return current, unconfirmed and stale knowledge and open work of the scope and the caller's branch.

    Facts and procedures are included only if they are contested or stale. Also returns, by id of knowledge, how its
    lines changed in the work tree since they were read, and how the branch itself changed them.
    """
    # Active knowledge can only be stale on a branch if there are several; facts may be many.
    has_branches = repository is not None and len(known_branches(repository.payload)) > 1
    shown = Or(
        (
            And((Compare("kind", "in", KINDS), Compare("status", "eq", "active"))),
            UNCONFIRMED,
            And((Compare("kind", "ne", "summary"), Compare("status", "in", ("contested", "stale")))),
            And((Compare("kind", "in", _BACKGROUND if has_branches else ()), Compare("status", "eq", "active"))),
        )
    )
    selected: tuple[tuple[str, Filter], ...] = (
        ("knowledge", shown),
        ("work_item", Compare("status", "in", _PROGRESS)),
    )
    items: list[Object] = []
    for kind, where in selected:
        stored = call.engine.ledger.select(selection_of(call, options, kind, where), altered=altered)
        items += (item for item in stored if not _is_in_background(item) or may_be_stale(item))
    now = time_of(call, moment_of(call, options))
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
    known = (item for item in items if isinstance(item, Knowledge) and item.kind in KINDS)
    edited = edited_on_branch(call, repository, known, notes)
    changed = {one: note for one, note in notes.items() if note.startswith(CHANGED) and one not in edited}
    shown_notes = changed.keys() | edited.keys()
    current = [item for item in items if not (item.id in notes.keys() - shown_notes or is_over(item, now=now))]
    knowledge = [
        item for item in current if isinstance(item, Knowledge) and (not _is_in_background(item) or item.id in changed)
    ]
    return knowledge, [item for item in current if isinstance(item, WorkItem)], changed, edited


def _is_in_background(item: Object) -> TypeGuard[Knowledge]:
    """Return whether it is an active fact or procedure, which the brief does not show."""
    return isinstance(item, Knowledge) and item.status == "active" and item.kind in _BACKGROUND


def _importance(item: Knowledge, branch: BranchWork, used: float) -> tuple[bool, bool, bool, float]:
    """Return a sort key: constraints first, then rules for all files, then by branch, age and use.

    Rules for some files come later: hooks show them when such a file is edited.
    """
    age = item.updated_at.timestamp() + TUNING.brief.days_per_use * 86_400 * used
    return item.kind != "constraint", bool(scope_of(item)), not branch.is_about(item), -age


def _urgency(item: WorkItem, waiting: Mapping[str, Sequence[WorkItem]]) -> tuple[int, int, float]:
    """Return a sort key: work in progress first, then work that can be started, then work that waits."""
    progress = "blocked" if item.status == "open" and waiting.get(item.id) else item.status
    return _PROGRESS.index(progress), _PRIORITIES.index(item.priority), -item.updated_at.timestamp()


def _states_of(call: Call, work: Sequence[WorkItem], waiting: Mapping[str, Sequence[WorkItem]]) -> Mapping[str, str]:
    """Return the owners of work and the work that it waits for, in words, by id."""
    heads = call.engine.ledger.heads([ref for item in work for ref in item.owner_refs if is_object(ref)])
    states = {}
    for item in work:
        owners = ", ".join(heads[ref].title if ref in heads else ref for ref in item.owner_refs)
        before = named_work(waiting.get(item.id, ()), most=1)
        parts = (f"owner {owners}" if owners else "", f"waits for {before}" if before else "")
        states[item.id] = ", ".join(filter(None, parts))
    return states


def _section(
    name: str,
    items: Sequence[Knowledge | WorkItem],
    reasons: Mapping[str, str] = MappingProxyType({}),
    *,
    most: int = TUNING.packing.max_entries,
) -> BriefSection:
    entries = tuple(
        BriefEntry(
            id=item.id,
            kind=item.kind,
            status=item.status,
            text=_with_doubt(item, reasons),
            updated_at=item.updated_at,
        )
        for item in items[:most]
    )
    return BriefSection(name=name, entries=entries, total=len(items))


def _with_doubt(item: Knowledge | WorkItem, reasons: Mapping[str, str]) -> str:
    doubt = reasons.get(item.id) or ("contested" if item.status == "contested" else "")
    if isinstance(item, WorkItem):
        return statement_of(item, doubt)
    reason = reason_of(item) if doubt.startswith(EDITED) else ""
    why = f" – why: {one_line(reason, most=limits.MAX_REASON_CHARS)}" if reason else ""
    note = ", ".join(filter(None, (doubt, agent_note(item))))
    return f"{with_note(statement_of(item), note)}{why}"


def _stated(ledger: Ledger, items: Sequence[Knowledge], held: Sequence[Knowledge], altered: Altered) -> BriefSection:
    """Return the unconfirmed statements, each once, without `held` ones."""
    stated = by_author(ledger, items, altered)
    again = repeated([*held, *(item for item, _ in stated)])
    shown = [item for item, _ in stated if item.id not in again]
    return _section(_STATED, shown, {item.id: doubt for item, doubt in stated})


def _contested(call: Call, groups: Sequence[Sequence[Knowledge]], altered: Altered) -> BriefSection:
    shown = groups[: TUNING.packing.max_entries]
    lines = ContestedLines(call, shown, statement_of, altered)
    entries = tuple(
        BriefEntry(
            id=one[0].id, kind=one[0].kind, status=one[0].status, text=lines.line(one), updated_at=one[0].updated_at
        )
        for one in shown
    )
    return BriefSection(name="Contested", entries=entries, total=len(groups))


def statement_of(item: Knowledge | WorkItem, state: str = "") -> str:
    """Return an entry in one sentence: the rule, the decision, or the title and state of work.

    `state`: more about the state of work.
    """
    match item:
        case WorkItem():
            notes = [item.status.replace("_", " ")] if item.status != "open" else []
            notes += [item.priority] if item.priority in ("urgent", "high") else []
            notes += [f"branch {item.branch}"] if item.branch else []
            notes += [state] if state else []
            text = title_of(item)
        case Knowledge(payload=(Constraint(rule=rule, scope=where) | Preference(statement=rule, scope=where))):
            text = item.title if rule in item.title else rule
            notes = [f"in {where}"] if where not in EVERYWHERE and where not in text else []
        case Knowledge(payload=Decision(outcome=outcome)):
            text, notes = item.title, []
            if outcome.startswith(text.removesuffix("…")):
                text = outcome
            elif outcome not in text:
                text = f"{text}: {outcome}"
        case _:
            text, notes = title_of(item), []
    note = ", ".join(notes)
    shown = one_line(text, most=limits.MAX_PLACE_CHARS - len(note) - len(" ()"))
    return one_line(with_note(shown, note), most=limits.MAX_PLACE_CHARS)


def with_note(statement: str, note: str) -> str:
    """Return a statement with a note in parentheses, which comes before the end of its sentence."""
    return f"{statement.removesuffix('.')} ({note})" if note else statement


def _since(talk: Source | None, repository: Source | None) -> str:
    commits = repository.payload.get("latest_commits", ()) if repository else ()
    if talk is None or not is_session(talk) or not commits:
        return ""
    day = f"{ended(talk):%Y-%m-%d}"
    newer = [one for one in commits if one["date"] > day]
    if not newer:
        return ""
    more = " or more" if len(newer) == len(commits) else ""
    number = f"{len(newer)}{more} commit{'' if len(newer) == 1 and not more else 's'}"
    return f"your last session on {ended(talk):%d %b}: {number}, the last “{one_line(newer[0]['subject'], most=80)}”"


def card_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """Write the card of a project, one topic per line."""
    if card.keys() <= {"name"}:
        return  # a name alone is no information
    heading = " ".join(filter(None, (card["name"], card.get("version", ""))))
    requires = card.get("requires", ())
    languages = [one for one in card.get("languages", ()) if not any(need.startswith(f"{one} ") for need in requires)]
    about = ", ".join(filter(None, (card.get("purpose", ""), *languages, *requires)))
    read_from = f"  [{', '.join(card['read_from'])}]" if card.get("read_from") else ""
    yield f"{heading} – {about}{read_from}" if about else heading
    folders = [*map(_folder, card.get("folders", ()))]
    tests = [f"tests: {', '.join(card['tests'])}"] if card.get("tests") else []
    docs = [f"docs: {', '.join(card['docs'])}"] if card.get("docs") else []
    records = [f"{one['path']} ({counted_things(one['records'], 'record')})" for one in card.get("decisions", ())]
    decisions = [f"decisions: {', '.join(records)}"] if records else []
    yield from labeled("Layout", " · ".join([*folders, *tests, *docs, *decisions]))
    yield from labeled("Commands", " · ".join(commands_by_job(card)))
    yield from labeled("Read too", ", ".join(card.get("client_files", ())))


def commands_by_job(card: Mapping[str, Any]) -> Iterator[str]:
    """Write the commands of each job on the card of a project."""
    by_job: dict[str, list[str]] = {}
    for one in card.get("commands", ()):
        by_job.setdefault(one["job"], []).append(f"`{one['run']}`")
    return (f"{job} {' or '.join(runs)}" for job, runs in by_job.items())


def commands_asked_for(call: Call, question: Question, options: ReadOptions) -> tuple[str, ...]:
    """Return the commands of the project for the chores that a question names; none for a read of the past."""
    repository = repository_of(call, {}) if options.as_of is None and asks_about_chore(question.text) else None
    card = repository.payload.get("card", {}) if repository else {}
    words = set(question.terms.words)
    return tuple(one for one in commands_by_job(card) if index_text(one.partition(" ")[0]) in words)


def commits_asked_for(call: Call, question: Question, options: ReadOptions) -> tuple[str, ...]:
    """Return the latest commits of the repository, if a question asks for the latest changes.

    Empty for a read of the past: the repository only has the latest.
    """
    is_asked = options.as_of is None and asks_what_changed(question.text)
    repository = repository_of(call, {}) if is_asked else None
    latest = repository.payload.get("latest_commits", ()) if repository else ()
    return tuple(one_line(f"{one['date']} {one['subject']}") for one in latest[:_MAX_COMMITS])


def _folder(one: Mapping[str, Any]) -> str:
    if one["path"] == "./":
        return "./ (top level)"
    names = [*one["children"], *([f"{one['more']} more"] if one["more"] else [])]
    return f"{one['path']} ({', '.join(names)})" if names else one["path"]


def _memory_lines(sections: Iterable[BriefSection], unconfirmed: str, since: str, last: str) -> Iterator[str]:
    for section in sections:
        for place, entry in enumerate(section.entries):
            yield from labeled("" if place else section.name, f"{entry.text}  {entry.id}")
        hidden = section.total - len(section.entries)
        yield from labeled("", f"and {hidden} more" if hidden else "")
    yield from labeled("Confirm", unconfirmed)
    for name, text in zip(OF_SESSIONS, (since, last), strict=True):
        yield from labeled(name, text)


def labeled(label: str, text: str) -> Iterator[str]:
    """Write a line of the brief, unless its text is empty."""
    if text:
        yield f"{label:<{LABEL_WIDTH}}{text}"


BRIEF = Mode.of("brief", "A brief before starting: project, rules, decisions, open work.", brief, rights=READS)

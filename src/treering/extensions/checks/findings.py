"""The rules of `treering check`: stale and contested knowledge, rules for changed lines, and closed work items."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from treering.core.characters import named, one_line
from treering.core.counting import counted_things
from treering.core.evidence import Segment, find_lines, lines_as_typed
from treering.core.objects import Constraint, Decision, Knowledge, WorkItem, title_of
from treering.core.policy import Policy
from treering.core.writing.integrity import contradict, is_functional
from treering.extensions.checks.change import Belief, BranchChange, RestingLines, states
from treering.extensions.checks.removed_names import (
    HISTORY,
    NAMED_CODE,
    NAMED_PATH,
    by_name,
    mentions,
    removed_names,
    still_there,
)
from treering.extensions.code.repository.contents import TouchedFile
from treering.extensions.code.repository.repo_selection import Globs
from treering.extensions.records.statements import states_by_name, withdrawn_as
from treering.ports.format import is_prose_file
from treering.retrieval.index.passages import passages_of
from treering.sources.reading.folder import own_files_below, own_manifests
from treering.verbs.edited_lines import fate_of_lines, is_edit_of
from treering.verbs.envelope import Value
from treering.verbs.everyday import RESTATED
from treering.verbs.forbidden_code import Forbidden, forbidden_by
from treering.verbs.ingest.segments import places_now
from treering.verbs.query.branch_edits import reason_of
from treering.verbs.query.unconfirmed import is_unconfirmed
from treering.verbs.rule_places import is_for_other_places, rule_of

if TYPE_CHECKING:
    from treering.extensions.wiki.kept_wikis import CitingPage

Level = Literal["error", "warning", "note"]

RULES: Mapping[str, tuple[Level, str]] = {
    "stale-decision": ("warning", "A decision cites lines or mentions files that the change removes."),
    "stale-rule": ("warning", "A rule cites lines or mentions files that the change removes."),
    "stale-knowledge": ("warning", "Other knowledge cites lines that the change removes."),
    "partly-changed": ("warning", "Part of the evidence for a belief is removed."),
    "contested": ("warning", "The change contradicts a belief."),
    "broken-rule": ("warning", "An added line contains what a rule forbids."),
    "stale-document": ("warning", "A document mentions a file or a definition that the change removes."),
    "rotten-page": ("warning", "A wiki page cites lines that the change removes."),
    "withdrawn": ("note", "The change itself marks a decision as no longer in force."),
    "governs": ("note", "A decision or a rule is about the changed lines or files."),
    "closes": ("note", "A commit states that it closes a work item."),
}
"""The default level and the description of each rule."""

_MOST_NOTES = 50
_MAX_BREACHES = 3
"""Lines of a file that are shown for one rule."""
_QUOTED = 160
_MOST_TITLE = 80
_STALE_BY_KIND = {"decision": "stale-decision", "constraint": "stale-rule"}
_CLOSING = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?|implement(?:s|ed)?)\b:?\s+"
    r"((?:[\w.-]+/[\w.-]+)?#\d+|[A-Z][A-Z0-9]+-\d+|work:[0-9a-z]{26}|https?://\S+/(?:issues|work_items)/\d+)"
    r"((?:\s*(?:,|and)\s*(?:(?:[\w.-]+/[\w.-]+)?#\d+|[A-Z][A-Z0-9]+-\d+))*)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?:[\w.-]+/[\w.-]+)?#\d+|[A-Z][A-Z0-9]+-\d+", re.IGNORECASE)


class CheckFinding(Value):
    """An effect of a change on recorded knowledge, with the command that fixes it."""

    rule: str
    level: Level
    path: str
    """The path of the file, or "" without a file."""
    line: int
    title: str
    """The title of the affected object."""
    reason: str
    mend: str
    """The command that fixes it or shows details, or "" if there is nothing to do."""
    id: str = ""
    """The id of the object in the space, or ""."""
    confirmed: bool = Field(
        default=True,
        exclude_if=lambda confirmed: confirmed,
        description="False for a statement of a person or agent that was not confirmed. It never fails the check.",
    )


@dataclass(frozen=True, slots=True)
class Held:
    """The content of a space: beliefs, open work with its origins, and pages that cite touched files."""

    address: str = ""
    """The address of the space, or "" without a space."""
    beliefs: Sequence[Belief] = ()
    work: Sequence[tuple[WorkItem, Sequence[str]]] = ()
    pages: "Sequence[CitingPage]" = ()
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True)
class Checked:
    """The input of the rules: the change, the beliefs about it, and the content of the space."""

    change: BranchChange
    beliefs: Sequence[Belief]
    held: Held
    described: str = ""
    """The description of the merge request."""

    @cached_property
    def gone(self) -> Mapping[str, str]:
        """The removed paths, each with the new path of its file, or "" if it was deleted."""
        touched = self.change.files
        moved = {one.change.before: one.change.path for one in touched if one.change.kind == "renamed"}
        return moved | {one.change.path: "" for one in touched if one.change.kind == "deleted"}

    @cached_property
    def lost(self) -> Mapping[str, Sequence[tuple[RestingLines, str]]]:
        """The removed evidence of each belief, by `Knowledge.id`, with the reason."""
        paths = {proof.path for belief in self.beliefs for proof in belief.proofs}
        for one in self.change.files:
            if one.change.before in paths:
                self.change.read([one.old, one.new])
        lost: dict[str, list[tuple[RestingLines, str]]] = {}
        for belief in self.beliefs:
            for proof in belief.proofs:
                if why := self._loss(belief.item, proof):
                    lost.setdefault(belief.item.id, []).append((proof, why))
        return lost

    def line_of(self, proof: RestingLines) -> tuple[str, int]:
        """Return the path and line, after the change, where evidence was touched."""
        file = self.change.by_old_path[proof.path]
        first, last = _place(proof.segment, self.change.text(file.old) or "")
        for hunk in file.lines:
            end = hunk.old_first + max(hunk.old_count, 1) - 1
            if file.new and first <= end and hunk.old_first <= last:
                return file.change.path, max(hunk.new_first, 1)
        return file.change.path, 1

    def _loss(self, item: Knowledge, proof: RestingLines) -> str:
        """Return why evidence is no longer valid, or "" if it is valid or was not before the change."""
        file, segment = self.change.by_old_path.get(proof.path), proof.segment
        before = self.change.text(file.old) if file else None
        if file is None or before is None:
            return ""
        drafted = self.change.drafted
        excerpts = (part.excerpt for part in drafted(proof.path, file.old).segments)
        if segment.excerpt not in before and segment.excerpt not in excerpts:
            return ""
        if not file.new:
            return f"The change deletes {named(proof.path)}."
        after = self.change.text(file.new)
        # A line that was made longer still contains its former text.
        is_whole_lines = find_lines(segment.excerpt, before) is not None
        if after is None or (find_lines(segment.excerpt, after) if is_whole_lines else segment.excerpt in after):
            return ""
        now = drafted(file.change.path, file.new)
        key = item.duplicate_key()
        is_restated = any(_in_scope(one, item.scope).duplicate_key() == key for one, _ in now.stated)
        is_unchanged = any(part.excerpt == segment.excerpt for part in now.segments)
        if is_restated or is_unchanged or places_now(item, segment, now.segments):
            return ""
        first, last = _place(segment, before)
        remaining = {line.strip() for line in after.splitlines()}
        lines = [line.strip() for line in segment.excerpt.splitlines()]
        words = " ".join(line for line in lines if line and line not in remaining) or " ".join(lines)
        return f"{lines_as_typed(proof.path, first, last)} no longer contains {_quoted(words)}."


def find(checked: Checked, pages: Iterable[CheckFinding] = ()) -> list[CheckFinding]:
    """Return the findings of all rules: those to fix first, then notes. `pages`: the findings about wiki pages."""
    findings = [
        *_stale(checked),
        *_contested(checked),
        *_edited_on_both_sides(checked),
        *_broken(checked),
        *_named_and_gone(checked),
        *pages,
        *_closes(checked),
    ]
    broken = {(one.id, one.title) for one in findings if one.rule == "broken-rule"}
    governing = sorted(_governing(checked), key=lambda one: (one[0], _order(one[1])))
    notes = [one for _, one in governing if (one.id, one.title) not in broken][:_MOST_NOTES]
    found = sorted({_key(one): one for one in findings}.values(), key=_order) + notes
    waiting = {belief.id for belief in checked.beliefs if not belief.record and is_unconfirmed(belief.item)}
    return [_unconfirmed(one) if one.id and one.id in waiting else one for one in found]


def _unconfirmed(one: CheckFinding) -> CheckFinding:
    return one.model_copy(update={"confirmed": False, "reason": f"Not confirmed. {one.reason}"})


def _order(one: CheckFinding) -> tuple[object, ...]:
    return (list(RULES).index(one.rule), one.path, one.line, one.title)


def _key(one: CheckFinding) -> tuple[object, ...]:
    return (one.rule, one.path, one.line, one.title, one.reason)


def finding(rule: str, at: tuple[str, int], title: str, reason: str, mend: str, identity: str = "") -> CheckFinding:
    """Return a finding of a rule at a path and line, with the level of the rule."""
    return CheckFinding(
        rule=rule, level=RULES[rule][0], path=at[0], line=at[1], title=title, reason=reason, mend=mend, id=identity
    )


def _stale(checked: Checked) -> Iterator[CheckFinding]:
    fallen = {}
    for belief in checked.beliefs:
        lost = checked.lost.get(belief.item.id, ())
        if not lost:
            continue
        whys = " ".join(dict.fromkeys(why for _, why in lost))
        at = checked.line_of(lost[0][0])
        title = belief.item.title
        if len(lost) < len(belief.proofs) + belief.others:
            rest = f"{len(lost)} of {len(belief.proofs) + belief.others} pieces of evidence: {whys}"
            yield finding("partly-changed", at, title, rest, _mend(belief, at), belief.id)
            continue
        if how := _withdrawn(checked, belief, lost[0][0]):
            reason = f"The change marks {named(at[0])} as {how}."
            yield finding("withdrawn", at, title, reason, _mend(belief, at) if belief.id else "", belief.id)
        else:
            yield finding(_rule_of(belief.item), at, title, f"{whys}{_reason(belief)}", _mend(belief, at), belief.id)
        fallen[belief.item.id] = (at, title)
    yield from _derived(checked, fallen)


def _derived(checked: Checked, fallen: dict[str, tuple[tuple[str, int], str]]) -> Iterator[CheckFinding]:
    """Yield the knowledge derived from stale knowledge, transitively, as the ledger does."""
    while True:
        new = {
            belief.item.id: (fallen[parent][0], belief)
            for belief in checked.beliefs
            if belief.item.id not in fallen
            for parent in belief.item.derived_from
            if parent in fallen
        }
        if not new:
            return
        for at, belief in new.values():
            parents = ", ".join(named(fallen[one][1]) for one in belief.item.derived_from if one in fallen)
            why = f"It was derived from {parents}, which the change makes stale."
            yield finding(_rule_of(belief.item), at, belief.item.title, why, _mend(belief, at), belief.id)
        fallen |= {identity: (at, belief.item.title) for identity, (at, belief) in new.items()}


def _withdrawn(checked: Checked, belief: Belief, proof: RestingLines) -> str:
    """Return the word by which a decision record says after the change that it is not in force, or ""."""
    if not isinstance(belief.item.payload, Decision) or not states_by_name(proof.path):
        return ""
    file = checked.change.by_old_path[proof.path]
    return withdrawn_as(checked.change.text(file.new) or "") if file.new else ""


def _rule_of(item: Knowledge) -> str:
    return _STALE_BY_KIND.get(item.kind, "stale-knowledge")


def _reason(belief: Belief) -> str:
    """Return the recorded reason of a decision or rule of the space as a sentence, or ""."""
    known = one_line(reason_of(belief.item), most=_QUOTED).rstrip(".")
    return f" Its reason: {known}." if belief.id and known else ""


def _mend(belief: Belief, at: tuple[str, int]) -> str:
    if belief.id:
        if isinstance(belief.item.payload, RESTATED):
            return f'treering replace {_titled(belief.item)} "…" --because …'
        return f"treering crystallize {belief.id} --by ID"
    return _edit(belief.record if at[0] != belief.record else at[0], at[1] if at[0] == belief.record else 1)


def _titled(item: Knowledge | WorkItem) -> str:
    """Return the title of an object, quoted for a shell; its id if it is long or has quotation marks."""
    title = one_line(title_of(item))
    return item.id if len(title) > _MOST_TITLE or "'" in title else shlex.quote(title)


def _edit(path: str, line: int) -> str:
    return f"$EDITOR +{line} {shlex.quote(path)}"


def _contested(checked: Checked) -> Iterator[CheckFinding]:
    change = checked.change
    for file in change.files:
        if not file.new or not states(file.change.path):
            continue
        before = {one.duplicate_key() for one, _ in change.drafted(file.change.before, file.old).stated}
        for item, segment in change.drafted(file.change.path, file.new).stated:
            if item.duplicate_key() in before or not is_functional(item, checked.held.policy):
                continue
            at = file.change.path, _place(segment, change.text(file.new) or "")[0]
            for belief in checked.beliefs:
                rival = belief.item
                if rival.id not in checked.lost and contradict(_in_scope(item, rival.scope), _live(rival)):
                    rivals = f"{belief.record or f'the memory ({belief.id})'} states {_quoted(_statement(rival))}"
                    reason = f"The change states {_quoted(_statement(item))}, but {rivals}."
                    yield finding("contested", at, rival.title, reason, _mend(belief, at), belief.id)


def _edited_on_both_sides(checked: Checked) -> Iterator[CheckFinding]:
    """Yield the knowledge about lines that were written since the change began, and that it edits differently."""
    change = checked.change
    for belief in checked.beliefs:
        for proof in belief.proofs if belief.item.status == "active" else ():
            file = change.by_old_path.get(proof.path)
            fork, ours = (change.text(file.old), change.text(file.new)) if file and file.new else (None, None)
            quote = proof.segment.excerpt
            if file is None or fork is None or ours is None or quote in fork:
                continue
            theirs = change.text_at_target(proof.path) or ""
            if is_edit_of(quote, fork=fork, theirs=theirs, ours=ours):
                at = checked.line_of(proof)
                fate = fate_of_lines(file.change.path, theirs, quote, ours)
                reason = f"It states {_quoted(quote)}, written since this change began, but {fate}.{_reason(belief)}"
                yield finding("contested", at, belief.item.title, reason, _mend(belief, at), belief.id)
                break


def _in_scope(item: Knowledge, scope: str) -> Knowledge:
    return item if item.scope == scope else item.model_copy(update={"scope": scope})


def _live(item: Knowledge) -> Knowledge:
    return item.model_copy(update={"status": "active"}) if item.status == "candidate" else item


def _statement(item: Knowledge) -> str:
    return item.payload.outcome if isinstance(item.payload, Decision) else item.title


def _named_and_gone(checked: Checked) -> Iterator[CheckFinding]:
    gone, names = checked.gone, removed_names(checked.change)
    if not gone and not names:
        return
    change = checked.change
    manifests = {path: change.text(change.after[path]) or "" for path in own_manifests(change.after)}
    own_files = own_files_below({path: text.encode() for path, text in manifests.items()})
    documents = {
        path: blob
        for path, blob in change.after.items()
        if is_prose_file(path) and not HISTORY.search(path) and not own_files.wrote(path)
    }
    change.read(documents.values())
    lasting = {PurePosixPath(path).name for path in change.after}
    places = by_name(gone)
    seen: dict[str, list[tuple[str, int, str]]] = defaultdict(list)
    for path, blob in documents.items():
        text = change.text(blob)
        for what, line, why in mentions(path, text or "", places, lasting, gone, names):
            seen[what].append((path, line, why))
    still = still_there(checked.change, [name for name in names if name in seen])
    for what, places_of_name in seen.items():
        for path, line, why in places_of_name if what not in still else ():
            decided = next((one for one in checked.beliefs if one.record == path and one.item.kind == "decision"), None)
            if decided is None:
                yield finding("stale-document", (path, line), path, why, _edit(path, line))
            elif not withdrawn_as(change.text(documents[path]) or ""):
                yield finding("stale-decision", (path, line), decided.item.title, why, _edit(path, line), decided.id)
    yield from _believed_and_gone(
        checked, places, lasting, {name: why for name, why in names.items() if name not in still}
    )


def _believed_and_gone(
    checked: Checked, places: Mapping[str, Sequence[str]], lasting: Iterable[str], names: Mapping[str, str]
) -> Iterator[CheckFinding]:
    """Check the beliefs of the space; statements of the repository are checked with its documents."""
    for belief in checked.beliefs:
        if not belief.record and belief.item.id not in checked.lost and belief.item.status != "stale":
            text = f"{belief.item.title}\n{passages_of(belief.item)[0].text}"
            for what, _, why in mentions("", text, places, lasting, checked.gone, names):
                at = touched_place(checked, what, names)
                yield finding(_rule_of(belief.item), at, belief.item.title, why, _mend(belief, at), belief.id)
                break


def touched_place(checked: Checked, what: str, names: Mapping[str, str]) -> tuple[str, int]:
    """Return the place to show for a removed file, or for a removed definition in `names` (with their files)."""
    if what in names:
        return names[what], 1
    return checked.gone.get(what) or what, 1


def _broken(checked: Checked) -> Iterator[CheckFinding]:
    """Yield lines that the change adds although a rule forbids a name in them, the first few of each file.

    Lines that only move, within the file or to another one, do not count.
    """
    current = (one for one in checked.beliefs if one.item.id not in checked.lost and one.item.status != "stale")
    rules = (
        (belief, one.among(checked.change.after)) for belief in current for one in forbidden_by(rule_of(belief.item))
    )
    forbidding = [(belief, one) for belief, one in rules if one]
    if forbidding:
        checked.change.read(blob for one in checked.change.files for blob in (one.old, one.new))
    for belief, forbidden in forbidding:
        scope = getattr(belief.item.payload, "scope", "")
        inside = [one for one in checked.change.files if one.new and _applies(scope, one.change.path)]
        for path, number, line, more in _added_names(checked.change, inside, forbidden):
            rest = f" This file has {counted_things(more, 'more line')} with it." if more else ""
            reason = f"The rule forbids {named(forbidden.name)}, but the change adds {_quoted(line)}.{rest}"
            own = belief.record and _edit(belief.record, _own_line(checked, belief))
            show = f"treering show {_titled(belief.item)}" if belief.id else own
            yield finding("broken-rule", (path, number), belief.item.title, reason, show, belief.id)


def _added_names(
    change: BranchChange, files: Sequence[TouchedFile], forbidden: Forbidden
) -> Iterator[tuple[str, int, str, int]]:
    """Yield the first added lines with a name of each file that has more of them than before, if all files have.

    The last one of a file has the number of its other ones.
    """
    before = {one: forbidden.lines_in(one.change.before, change.text(one.old) or "") for one in change.files if one.old}
    after = {one: forbidden.lines_in(one.change.path, change.text(one.new) or "") for one in files}
    if sum(map(len, after.values())) <= sum(map(len, before.values())):
        return
    removed = Counter(line for one, numbers in before.items() for line in _removed(change, one, numbers))
    for file, numbers in after.items():
        added = dict(_added(change, file))
        new = []
        for number in (one for one in numbers if one in added):
            line = added[number].strip()
            if removed[line]:
                removed[line] -= 1
            else:
                new.append(number)
        new = new[: max(len(numbers) - len(before.get(file, ())), 0)]
        for at, number in enumerate(new[:_MAX_BREACHES], 1):
            yield file.change.path, number, added[number], len(new) - at if at == _MAX_BREACHES else 0


def _removed(change: BranchChange, file: TouchedFile, numbers: Iterable[int]) -> Iterator[str]:
    """Yield the lines of a file, among some, that the change removes or moves."""
    lines = (change.text(file.old) or "").split("\n")
    gone = {at for hunk in file.lines for at in range(hunk.old_first, hunk.old_first + hunk.old_count)}
    yield from (lines[at - 1].strip() for at in numbers if at in gone or not file.new)


def _governing(checked: Checked) -> Iterator[tuple[int, CheckFinding]]:
    """Yield the rules and decisions about the change, each with its rank: 0 if it names a changed line."""
    touched = [one for one in checked.change.files if one.new]
    checked.change.read(one.new for one in touched if not states_by_name(one.change.path))
    added = {one.change.path: _added(checked.change, one) for one in touched}
    for belief in checked.beliefs:
        item = belief.item
        if (
            item.id in checked.lost
            or item.status == "stale"
            or item.kind not in ("decision", "constraint", "preference")
        ):
            continue
        if place := _governed(checked, belief, touched, added):
            rank, (path, line), why = place
            own = belief.record and _edit(belief.record, _own_line(checked, belief))
            show = f"treering show {_titled(item)}" if belief.id else own
            yield rank, finding("governs", (path, line), item.title, why, show, belief.id)


def _governed(
    checked: Checked, belief: Belief, touched: Sequence[TouchedFile], added: Mapping[str, Sequence[tuple[int, str]]]
) -> tuple[int, tuple[str, int], str] | None:
    """Return the first place of the change that a belief is about, with the rank of the reason, and the reason."""
    item = belief.item
    text = f"{item.title}\n{passages_of(item)[0].text}"
    scope = item.payload.scope if isinstance(item.payload, Constraint) else ""
    inside = [
        one
        for one in touched
        if one.change.path != belief.record
        and _applies(scope, one.change.path)
        and not is_for_other_places(item, one.change.path, checked.change.after)
    ]
    terms = [code for code in NAMED_CODE.findall(text) if len(code) >= 4 and not code.isalpha()]
    for file in () if not terms else (one for one in inside if not states_by_name(one.change.path)):
        for number, line in added[file.change.path]:
            if term := next((term for term in terms if term.rstrip("()") in line), ""):
                return 0, (file.change.path, number), f"It is about {named(term)}, and so is this line."
    for token in NAMED_PATH.findall(text):
        plain = token.removeprefix("./")
        for file in touched:
            path = file.change.path
            if path != belief.record and (path == plain or ("/" in plain and path.endswith(f"/{plain}"))):
                return 1, (path, _first(file)), f"It mentions {named(token)}, which the change touches."
    if scope and scope != "repository" and inside:
        others = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        return 3, (inside[0].change.path, _first(inside[0])), f"It applies to {named(scope)}: this file{others}."
    for proof in belief.proofs:
        touching = checked.change.by_old_path.get(proof.path)
        before = checked.change.text(touching.old) if touching else None
        if not belief.record and touching and touching.new and proof.segment.excerpt in (before or ""):
            first, _ = _place(proof.segment, checked.change.text(touching.new) or "")
            return 2, (touching.change.path, first), "It cites lines of this file, which are unchanged."
    return None


def _applies(scope: str, path: str) -> bool:
    if scope in ("", "repository"):
        return True
    globs = [one.strip() for one in scope.split(",") if one.strip()]
    return Globs.of(globs).match(path) if "*" in scope else path.startswith(f"{scope.strip('/')}/")


def _added(change: BranchChange, file: TouchedFile) -> list[tuple[int, str]]:
    lines = (change.text(file.new) or "").split("\n")
    return [
        (number, lines[number - 1])
        for hunk in file.lines
        for number in range(hunk.new_first, hunk.new_first + hunk.new_count)
        if number <= len(lines)
    ]


def _first(file: TouchedFile) -> int:
    return max(file.lines[0].new_first, 1) if file.lines else 1


def _own_line(checked: Checked, belief: Belief) -> int:
    proof = belief.proofs[0]
    blob = checked.change.before[proof.path].blob
    return _place(proof.segment, checked.change.text(blob) or "")[0]


def _closes(checked: Checked) -> Iterator[CheckFinding]:
    texts = [(f"Commit {one.commit[:12]}", one.text) for one in checked.change.messages]
    texts += [("The request", checked.described)] if checked.described else []
    references: dict[str, str] = {}
    for author, text in texts:
        for match in _CLOSING.finditer(text):
            for reference in (match[1], *_REFERENCE.findall(match[2] or "")):
                references.setdefault(reference, author)
    for reference, author in references.items():
        matching = [item for item, origins in checked.held.work if _refers_to(reference, item, origins)]
        for item in matching:
            mend = f'treering done {_titled(item)} "Merged"'
            yield finding("closes", ("", 1), item.title, f"{author} states that it closes {reference}.", mend, item.id)
        if not matching:
            unknown = " The space has no open work item of that name." if checked.held.address else ""
            yield finding("closes", ("", 1), reference, f"{author} states that it closes {reference}.{unknown}", "")


def _refers_to(reference: str, item: WorkItem, origins: Sequence[str]) -> bool:
    if reference == item.id:
        return True
    key = reference.rpartition("/")[2].rpartition("#")[2]
    ends = (f"#{key}", f"/{key}")
    mark = re.escape(f"#{key}" if key.isdigit() else key)
    return any(origin.endswith(ends) for origin in origins) or bool(
        re.search(rf"(?<!\w){mark}(?!\w)", f"{item.title}\n{item.summary}", re.IGNORECASE)
    )


def _place(segment: Segment, text: str) -> tuple[int, int]:
    """Return the first and last line of a segment in a text, approximately if it is not made of whole lines."""
    if found := find_lines(segment.excerpt, text):
        return found
    start = text.find(segment.excerpt)
    first = text.count("\n", 0, start) + 1 if start >= 0 else getattr(segment.locator, "start", 1)
    return first, first + segment.excerpt.count("\n")


def _quoted(words: str) -> str:
    plain = " ".join(words.split())
    return named(plain if len(plain) <= _QUOTED else f"{plain[:_QUOTED]}…")

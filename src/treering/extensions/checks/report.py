"""`treering check`: when it fails, and the formats of its report."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from treering.core.characters import one_line, visible
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, nearest
from treering.core.objects import Constraint
from treering.extensions.checks.change import (
    Belief,
    BranchChange,
    held_beliefs,
    open_work,
    own_beliefs,
    paths_of_sources,
    together,
)
from treering.extensions.checks.findings import RULES, Checked, CheckFinding, Held, Level, find
from treering.extensions.code.repository.contents import RepositoryContents
from treering.extensions.code.repository.repo_selection import Globs
from treering.ports.ledger import Ledger
from treering.registry import EXTENSIONS
from treering.sources.reading.bounded_files import parse_toml
from treering.surfaces.python.space import open_ledger
from treering.system.settings import Settings
from treering.verbs.envelope import Value
from treering.version import __version__

if TYPE_CHECKING:
    from treering.extensions.wiki.kept_wikis import CitingPage

Form = Literal["text", "json", "sarif", "github", "gitlab", "markdown"]

CONFIG = ".treering.toml"
DEFAULT_FAIL_ON = ("stale-decision", "contested")
_NONE = "none"


class CheckConfig(Value):
    """`[check]` in `.treering.toml` at the base of a change, so that a change cannot loosen its own check."""

    fail_on: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()


class CheckReport(Value):
    """The findings about a change."""

    base: str
    """The commit at which the change left the branch it goes to."""
    head: str
    files: int
    """How many the change touches."""
    uncommitted: int = Field(default=0, exclude_if=lambda count: not count)
    """How many changed files of the work tree were not checked."""
    space: str
    """The address of the space that was asked; empty where only the repository's own records were."""
    beliefs: int
    """How much was compared: decisions, rules and other knowledge."""
    everywhere: Mapping[str, int]
    """Rules that hold for the whole repository: how many, by the file that states them."""
    findings: tuple[CheckFinding, ...]
    fail_on: tuple[str, ...]
    failed: bool


def report_on(
    space: str, base: str, head: str, *, worktree: bool, fail_on: str, no_space: bool, described: str
) -> CheckReport:
    """Compare a change with the recorded knowledge. `space`: its address, empty for the default."""
    settings = Settings.read()
    change = BranchChange.between(RepositoryContents.open(settings.folder), base, head, worktree=worktree)
    config = _config(change)
    failing = _fail_on(fail_on or settings.check_fail_on, config)
    own, held = own_beliefs(change), _held(space, settings, change, no_space=no_space)
    beliefs = together(own, held.beliefs)
    checked = Checked(change, beliefs, held, described)
    ignored = Globs.of(config.ignore)
    found = [
        _leveled(one, failing) for one in find(checked, _pages(checked)) if not (one.path and ignored.match(one.path))
    ]
    return CheckReport(
        base=change.base,
        head=change.head,
        files=len(change.files),
        uncommitted=0 if worktree else _unchecked(change),
        space=held.address,
        beliefs=len(beliefs),
        everywhere=_everywhere(own),
        findings=tuple(found),
        fail_on=failing,
        failed=any(one.level == "error" for one in found),
    )


def _held(space: str, settings: Settings, change: BranchChange, *, no_space: bool) -> Held:
    """Read the content of the space; empty if there is no space and none was named."""
    address = settings.space_address(space or None)
    absent = address.file is not None and not (settings.folder / address.file).is_file()
    if no_space or (absent and not (space or settings.space)):
        return Held()
    ledger = open_ledger(address, create=False)
    try:
        paths = paths_of_sources(ledger, change)
        work, pages = list(open_work(ledger)), _kept_pages(ledger, paths)
        return Held(str(address), held_beliefs(ledger, paths, change), work, pages, ledger.policy)
    finally:
        ledger.close()


def _unchecked(change: BranchChange) -> int:
    """Return the number of uncommitted files, or 0 if the change does not end at the commit of the work tree."""
    repository = change.repository
    return len(repository.work_changes()) if repository.head() == change.head else 0


def _kept_pages(ledger: Ledger, paths: Mapping[str, str]) -> "Sequence[CitingPage]":
    if "wiki" not in EXTENSIONS:
        return ()
    from treering.extensions.wiki.kept_wikis import citing_pages

    return citing_pages(ledger, paths)


def _pages(checked: Checked) -> list[CheckFinding]:
    if "wiki" not in EXTENSIONS:
        return []
    from treering.extensions.checks.pages import rotten_pages

    return rotten_pages(checked)


def _config(change: BranchChange) -> CheckConfig:
    entry = change.before.get(CONFIG)
    text = change.text(entry.blob) if entry else None
    try:
        table = parse_toml(text or "").get("check", {})
        return CheckConfig.model_validate({key.replace("-", "_"): value for key, value in table.items()})
    except (ValueError, AttributeError) as error:
        raise InvalidInput(
            f"[check] of {CONFIG} at {change.base[:12]} is invalid: {one_line(str(error))}.",
            hint='Allowed keys: fail-on = ["stale-decision", …] and ignore = ["docs/old/**", …].',
        ) from error


def _fail_on(given: str, config: CheckConfig) -> tuple[str, ...]:
    """Return the rules that fail: from the option, else from the setting or the file, else the defaults."""
    names = re.split(r"[,\s]+", given.strip()) if given.strip() else config.fail_on
    rules = DEFAULT_FAIL_ON if names is None else tuple(dict.fromkeys(names))
    if rules == (_NONE,):
        return ()
    for one in rules:
        if one not in RULES:
            raise InvalidInput(
                f"Unknown rule {one!r} to fail on.", hint=nearest(one, RULES), details={"known": [*RULES, _NONE]}
            )
    return rules


def _leveled(one: CheckFinding, failing: Sequence[str]) -> CheckFinding:
    return one.model_copy(update={"level": "error"}) if one.rule in failing and one.confirmed else one


def _everywhere(own: Sequence[Belief]) -> Mapping[str, int]:
    whole = (
        one.record for one in own if isinstance(one.item.payload, Constraint) and one.item.payload.scope == "repository"
    )
    return dict(sorted(Counter(whole).items()))


# For people.


_MAX_GOVERNING = 5
"""Rules and decisions that are only good to know, in a log."""
_WORDS = {"error": "fails", "warning": "check", "note": "good to know"}


def _mend(one: CheckFinding, quoted: Callable[[str], str] = str) -> str:
    """Return the command of a finding with a label for its purpose."""
    return f"{'See' if one.mend.startswith('treering show') else 'Fix'}: {quoted(one.mend)}"


def as_text(report: CheckReport) -> str:
    """Write a report for a terminal or a log."""
    lines = [_summary(report)]
    governing = [one for one in report.findings if one.rule == "governs" and one.level == "note"]
    hidden = governing[_MAX_GOVERNING:]
    for one in (one for one in report.findings if one not in hidden):
        # GitHub interprets lines of a log that begin with two colons.
        place = f"{'./' if one.path.startswith(':') else ''}{one.path}:{one.line}" if one.path else "(no file)"
        lines += [f"{place}: {_WORDS[one.level]}: {one.rule}: {one_line(one.title)}", f"    {one.reason}"]
        lines += [f"    {one.mend}"] if one.mend and one not in governing else []
    if hidden:
        lines.append(f"and {len(hidden)} more good to know: treering check --json")
    if any(map(_may_be_confirmed, report.findings)):
        lines.append(_ADVICE)
    if report.everywhere:
        rules = ", ".join(f"{path} ({number})" for path, number in report.everywhere.items())
        lines.append(f"Rules for the whole repository: {rules}.")
    if report.uncommitted:
        was = "was" if report.uncommitted == 1 else "were"
        files = counted_things(report.uncommitted, "uncommitted file")
        lines.append(f"{files} {was} not checked. Add --worktree to check uncommitted files, too.")
    return visible("\n".join(lines)) + "\n"


_ADVICE = (
    "Until this change is merged, these statements are current on other branches. If one is still true, record it "
    "again with its new lines. A replacement applies to other branches after the merge."
)


def _may_be_confirmed(one: CheckFinding) -> bool:
    """Return whether a finding is about a statement of the space that only the change makes stale."""
    return bool(one.id) and one.rule in ("stale-decision", "stale-rule", "stale-knowledge")


def as_markdown(report: CheckReport) -> str:
    """Write a report as a comment of a request to merge."""
    lines = ["### Memory", "", _summary(report), ""]
    for level, title in (("error", "To fix"), ("warning", "To check"), ("note", "Good to know")):
        findings = [one for one in report.findings if one.level == level]
        lines += [f"**{title}**", ""] if findings else []
        for one in findings:
            place = f" in {_code(f'{one.path}:{one.line}')}" if one.path else ""
            mend = f" {_mend(one, _code)}" if one.mend and level != "note" else ""
            lines.append(f"- {_code(one.rule)}{place}: **{_plain(one.title)}**. {_plain(one.reason)}{mend}")
        lines += [""] if findings else []
    lines += [_ADVICE, ""] if any(map(_may_be_confirmed, report.findings)) else []
    if report.everywhere:
        rules = ", ".join(f"{_code(path)} ({number})" for path, number in report.everywhere.items())
        lines += [f"Rules for the whole repository: {rules}.", ""]
    return "\n".join(lines)


def _summary(report: CheckReport) -> str:
    if not report.files and not report.findings and report.base == report.head:
        same = f"Nothing to compare: base and head are both {report.head[:12]}."
        return f"{same} Check the last commit with: treering check --base HEAD~1"
    counts = Counter(one.level for one in report.findings)
    counted = ", ".join(f"{counts[level]} {word}" for level, word in _COUNTED.items() if counts[level])
    files = f"{counted_things(report.files, 'file')} changed since {report.base[:12]}"
    return f"{files}; {counted}." if counted else f"{files}; {_nothing_affected(report)}"


def _nothing_affected(report: CheckReport) -> str:
    """Describe what was compared without a finding; without a space at most the repository's own records."""
    if not report.beliefs:
        nothing = "nothing is recorded here, so nothing was compared."
    else:
        nothing = f"no {'recorded knowledge' if report.space else 'record of the repository'} is affected."
    return nothing if report.space else f"{nothing} {_NO_MEMORY}"


_NO_MEMORY = "No memory was compared; to fetch the memory of your team: treering sync --fetch"


_COUNTED: Mapping[Level, str] = {"error": "to fix", "warning": "to check", "note": "good to know"}


def _plain(text: str) -> str:
    """Escape text for Markdown: no links, mentions, images or HTML."""
    escaped = re.sub(r"([\\`*_\[\]<>#|~!:@])", lambda found: f"&#{ord(found[1])};", one_line(visible(text)))
    return escaped.replace("&#64;", "&#64;&#8203;")  # forges find mentions in the rendered text


def _code(text: str) -> str:
    return f"`{one_line(visible(text)).replace('`', chr(39))}`"


# For programs.


def as_json(report: CheckReport) -> str:
    """Write a report as JSON."""
    return report.model_dump_json(indent=2) + "\n"


_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def as_github(report: CheckReport) -> str:
    """Write a report as workflow commands, which GitHub shows as annotations beside the lines."""
    return "".join(f"{line}\n" for line in _workflow_commands(report))


def _workflow_commands(report: CheckReport) -> Iterator[str]:
    for one in report.findings:
        place = f"file={_property(one.path)},line={one.line}," if one.path else ""
        mend = f"\n{_mend(one)}" if one.mend else ""
        title = _property(f"{one.rule}: {one_line(one.title)}")
        yield f"::{_GITHUB[one.level]} {place}title={title}::{_data(one.reason + mend)}"
    yield visible(_summary(report))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_GITLAB = {"error": "major", "warning": "minor", "note": "info"}


def as_gitlab(report: CheckReport) -> str:
    """Write a report as GitLab reads code quality; findings in no file are left out, as it has no place for them."""
    found = [
        {
            "description": f"{one_line(one.title)}: {one.reason}" + (f" {_mend(one)}" if one.mend else ""),
            "check_name": f"treering/{one.rule}",
            "fingerprint": _fingerprint(one),
            "severity": _GITLAB[one.level],
            "location": {"path": one.path, "lines": {"begin": one.line}},
        }
        for one in report.findings
        if one.path
    ]
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(report: CheckReport) -> str:
    """Write a report as SARIF 2.1.0, the OASIS format for results of static analysis."""
    rules = [*RULES]
    run = {
        "tool": {
            "driver": {
                "name": "treering",
                "version": __version__,
                "rules": [
                    {
                        "id": name,
                        "shortDescription": {"text": what},
                        "defaultConfiguration": {"level": level},
                    }
                    for name, (level, what) in RULES.items()
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(one, rules.index(one.rule)) for one in report.findings],
        "invocations": [{"executionSuccessful": True}],
        "properties": {"base": report.base, "head": report.head, "failOn": [*report.fail_on]},
    }
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _sarif_result(one: CheckFinding, rule: int) -> Mapping[str, Any]:
    mend = f" {_mend(one)}" if one.mend else ""
    place = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(one.path), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": one.line},
        }
    }
    return {
        "ruleId": one.rule,
        "ruleIndex": rule,
        "level": one.level,
        "message": {"text": f"{one_line(one.title)}: {one.reason}{mend}"},
        **({"locations": [place]} if one.path else {}),
        "partialFingerprints": {"treering/v1": _fingerprint(one)},
    }


def _uri(path: str) -> str:
    # Imported here: few reports are written in this form.
    from urllib.parse import quote

    return quote(path)


def _fingerprint(one: CheckFinding) -> str:
    """Name a finding, so that the same one is known again in another run though its line has moved."""
    return sha256("\0".join((one.rule, one.path, one.title, one.reason)).encode()).hexdigest()[:32]


FORMS: Mapping[Form, Callable[[CheckReport], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
    "gitlab": as_gitlab,
    "markdown": as_markdown,
}

"""Checks of entries from another copy: a merge accepts only changes that a space could have made."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import get_args

from treering.core.audit import ERASED, LINK_EVENTS
from treering.core.canonical import is_object, render_time
from treering.core.evidence import segment_hash
from treering.core.objects import Object, Source
from treering.core.patch import LinkType
from treering.core.writing.draft import View
from treering.core.writing.journal import MERGED, POLICY_CHANGED
from treering.extensions.sharing.merge_rules.entries import MergeEntry
from treering.extensions.sharing.merge_rules.notices import WITHHELD, problem_of_notice

MAX_SEQUENCE = 2**53
"""The largest number of an event: JSON readers of every language represent it exactly."""
MAX_ACTOR_CHARS = 1_000
MAX_REASON_CHARS = 100_000
MAX_READINGS_KNOWN = 10_000

_KIND = re.compile(r"[a-z_]{1,40}")
_ID = re.compile(r"[a-z]{1,10}:[0-9a-z]{1,40}")
_SALT = re.compile(r"[0-9a-z]{16,64}")
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def problem_of(entry: MergeEntry, view: View, latest: datetime) -> str:
    """Return the problem with an entry, or an empty text. No change may be dated after `latest`."""
    return (
        _problem_of_names(entry)
        or _problem_of_times((entry.at,), latest)
        or _problem_of_form(entry)
        or next(filter(None, (_problem_of_state(item, entry, view, latest) for item in _states(entry))), "")
    )


def _problem_of_names(entry: MergeEntry) -> str:
    if not _KIND.fullmatch(entry.kind) or entry.kind in (MERGED, POLICY_CHANGED):
        return "it has no kind"
    named = (entry.event, entry.patch, *(entry.knew or ()), *([entry.before] if isinstance(entry.before, str) else []))
    if len(named) > MAX_READINGS_KNOWN or not all(map(_ID.fullmatch, named)) or not is_object(entry.target):
        return "it contains an invalid id"
    if not 0 < entry.seq <= MAX_SEQUENCE:
        return "its number is not a valid event number"
    if not 0 < len(entry.actor) <= MAX_ACTOR_CHARS or len(entry.reason) > MAX_REASON_CHARS:
        return "its author or its reason is empty or too long"
    return ""


def _problem_of_times(times: Iterable[datetime], latest: datetime) -> str:
    wrong = next((time for time in times if not _FIRST <= time <= latest), None)
    if wrong is None:
        return ""
    if wrong < _FIRST:
        return f"it is dated {render_time(wrong)}, which is far in the past"
    return (
        f"it is dated {render_time(wrong)}, and changes dated after {render_time(latest)} cannot be "
        "merged yet. Its author's clock is ahead, or the clock here is behind"
    )


def _problem_of_form(entry: MergeEntry) -> str:
    changes = (entry.kind == ERASED, entry.kind in LINK_EVENTS, entry.kind not in (ERASED, *LINK_EVENTS))
    if changes != (entry.after is None and entry.link is None, entry.link is not None, entry.after is not None):
        return "it contains neither an old nor a new state"
    if entry.kind == WITHHELD:
        return problem_of_notice(entry.after)
    if entry.link is None:
        return ""
    kind, source, target = entry.link
    is_link = kind in get_args(LinkType) and source == entry.target and is_object(target)
    return "" if is_link and entry.added == (entry.kind == "linked") else "its link is invalid"


def _states(entry: MergeEntry) -> list[Object]:
    return [item for item in (entry.before, entry.after) if item is not None and not isinstance(item, str)]


def _problem_of_state(item: Object, entry: MergeEntry, view: View, latest: datetime) -> str:
    if item.id != entry.target:
        return "it is about another object"
    if not _SALT.fullmatch(item.salt) or item.revision > MAX_SEQUENCE:
        return "its object has an invalid salt or revision"
    if problem := _problem_of_times((item.created_at, item.updated_at), latest):
        return problem
    return _problem_of_texts(item, view) if isinstance(item, Source) else ""


def _problem_of_texts(item: Source, view: View) -> str:
    if len({part.segment_id for part in item.segments}) < len(item.segments):
        return "two of its texts have the same name"
    is_known = bool(item.segments) and view.exists(item.id)
    for part in item.segments:
        words = view.segment_text(item.id, part.segment_id) if is_known else None
        if part.position > MAX_SEQUENCE or len(part.segment_id) > MAX_ACTOR_CHARS:
            return "the place or the name of a text is invalid"
        if part.hash != segment_hash(part.excerpt, salt=item.salt) or words not in (None, part.excerpt):
            return f"the text of {part.segment_id} does not match its hash"
    return ""

"""The sections of a changelog that a question such as `what changed in the last release` asks for."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from treering.core.evidence import Segment
from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval import limits
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.question import Question, asks_what_changed, is_long
from treering.retrieval.tuning import TUNING

_CHANGELOG = "changelog"
_TOPIC = ("changelog", "version", "releas", "chang")
"""Terms that nearly every changelog has, so that one is found whatever the words of the question."""
_NUMBER = r"(?<![\w.])v?(\d+(?:\.\d+)+)"
_WHICH = r"(?:(?:last|latest|newest|current|next|coming|upcoming) )"
_CHANGE = r"(?:chang\w+|new|added|removed|deprecated|fixed|breaking|coming)"
_END = r"(?= *[?!.,;:]| *$)"
_NAMED = (
    rf"(?:(?:the |this |our )?{_WHICH}?(?:[\w.-]+ )?"
    rf"(?:release(?: of (?:the |this |our )?[\w.-]+)?|version)(?: \d[\w.]*)?{_END}"
    rf"|(?:[\w-]+ )?{_NUMBER}{_END})"
)
"""A release as a question names it. Other words behind it mean something else, as in `the release process`."""
_ASKED = re.compile(
    rf"\b(?:what|which|anything|show|list)\b.*\b{_CHANGE}\b.*\b(?:in|with|since|for) {_NAMED}"
    rf"|\b(?:what|which|anything)\b.*\bin the {_WHICH}(?:release|version){_END}"
    rf"|\b(?:changes|news) (?:in|of|since) {_NAMED}"
    rf"|\brelease notes (?:of|for) {_NAMED}",
    re.IGNORECASE,
)
_VERSION = re.compile(r"\bversion (\d+)\b", re.IGNORECASE)
_RELEASE = re.compile(rf"{_NUMBER}|\bunreleased\b", re.IGNORECASE)
_UNRELEASED = re.compile(r"\b(?:unreleased|yet to be released|not (?:yet )?released|in development)\b", re.IGNORECASE)
_NEXT = re.compile(r"\b(?:next|coming|upcoming|unreleased)\b", re.IGNORECASE)
_SINCE = re.compile(r"\bsince\b", re.IGNORECASE)
_JOIN = " / "  # between the headings of sections that are read together
_TITLE = re.compile(r"^(?:#{1,3} .*|.+(?=\n[=\-~^]{4,}$))", re.MULTILINE)


def asks_about_release(text: str) -> bool:
    """Return whether a question asks for the changes in a version of the project."""
    return not is_long(text) and (_ASKED.search(text) is not None or asks_what_changed(text))


def release_sections(question: Question, reach: Reach) -> Steps[list[int]]:
    """Find the passages of the changelog about the version that a question names, or else about the newest one.

    The newest one is the first that is released, unless the question asks for the next one, or for changes since one.
    """
    if not asks_about_release(question.text):
        return []
    result: TextFound = yield TextRequest(
        reach, limits.MAX_CANDIDATES_PER_ARM, words=(*question.terms.words, *_TOPIC), words_in=_CHANGELOG
    )
    passages: PassagesFound = yield PassageRequest(tuple(sorted({hit.key for hit in result.words_in})))
    # The main changelog of a project has more sections than others.
    files = Counter(head.object_id for head in passages.heads.values())
    ids = tuple(identity for identity, _ in files.most_common(TUNING.releases.max_changelogs))
    read: ObjectsFound = yield ObjectRequest(objects=ids, as_of=reach.at)
    sources = (read.objects.get(identity) for identity in ids)
    sections = (_sections(question.text, one.segments) for one in sources if isinstance(one, Source))
    keys = []
    for segment in islice(next(filter(None, sections), ()), TUNING.releases.max_passages):
        placed: TextFound = yield TextRequest(reach, 1, place=segment.segment_id)
        keys += [hit.key for hit in placed.places]
    return keys


def _sections(text: str, segments: Iterable[Segment]) -> list[Segment]:
    """Return the segments of the release that a question asks for, in order; none if a file is no list of releases."""
    titled: list[tuple[str, Segment]] = []
    for segment in sorted(segments, key=lambda one: one.position):
        title = _title(segment) or (titled[-1][0] if titled else "")
        if title:
            titled.append((title, segment))
    titles = list(dict.fromkeys(title for title, _ in titled))
    if len([one for title in titles for one in title.split(_JOIN)]) < TUNING.releases.min_releases:
        return []
    wanted = _wanted(text, titles)
    return [segment for title, segment in titled if title == wanted]


def _wanted(text: str, titles: Sequence[str]) -> str:
    if _SINCE.search(text):
        return titles[0]
    numbers = [*re.findall(_NUMBER, text), *_VERSION.findall(text)]
    if numbers:
        named = re.compile(rf"(?<![\w.])v?{re.escape(numbers[0])}(?:\.0)*(?![\w.-]*\w)")
        return next((title for title in titles if named.search(title)), "")
    if _NEXT.search(text):
        return titles[0]
    return next((title for title in titles if not all(map(_UNRELEASED.search, title.split(_JOIN)))), titles[0])


def _title(segment: Segment) -> str:
    """Return the titles of the releases that a segment is about or begins; empty if it only continues one."""
    headings = [heading.split(" > ") for heading in segment.heading.split(_JOIN)]
    if not segment.heading:
        headings = [[match.group()] for match in _TITLE.finditer(segment.excerpt)]
    titles = (next(filter(_RELEASE.search, heading), "") for heading in headings)
    return _JOIN.join(filter(None, titles))

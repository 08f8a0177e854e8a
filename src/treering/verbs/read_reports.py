"""What the answers of ranked reads have in common: their fields, warnings, and the reason for an empty one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from treering.core.counting import listed_up_to
from treering.core.filters import EVERYTHING
from treering.core.scope import ROOT, is_within
from treering.core.versions import branches_with
from treering.ports.ledger import ObjectRequest
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import Lag, NamePart, TextRequest
from treering.retrieval.index.passages import is_shown, is_withheld
from treering.retrieval.index.rounds import look_up
from treering.retrieval.search.question import Question
from treering.retrieval.text.typed_words import WordsKnown, unknown_among
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Report, UnderstoodDays, Value
from treering.verbs.index_warnings import behind_warning
from treering.verbs.reading import ReadOptions, counts_of, recorded_later
from treering.verbs.scoped_ledger import on_all_branches, whole

if TYPE_CHECKING:
    from treering.retrieval.search.retrieval import Retrieval

ONLY_NEAREST = "No result answers the question; these are the closest matches."
_MAX_COUNTED = 1000
"""Matches that are counted to explain an empty answer."""
_MAX_ALTERED_SHOWN = 5
_BEST_MATCHES = 50
"""The best matches, in and below a scope, whose scopes a read names if it left them out."""
_MAX_SCOPES_NAMED = 3
_MAX_TERMS_IN_TREE = 16
"""Terms of a refused question that are looked for in the caller's tree."""
_ALTERED_HINT = "The space's file was changed outside Treering: run lint audit at the scope /."


EmptyReason = Literal[
    "unknown_entity", "known_but_empty", "out_of_scope", "filtered_out", "not_indexed_yet", "recorded_later"
]

_NOTABLE_SHARE = 0.1
"""Share of all passages; if fewer wait for the encoder, few answers change, and the warning would be noise."""
_NOTABLE_PASSAGES = 100
"""Fewer passages are embedded within some seconds."""


class Empty(Value):
    """The reason for an empty answer, with the number of results that would match otherwise."""

    reason: EmptyReason
    count: int = 0
    hint: str


class ReadReport(Report):
    """Fields of every ranked answer."""

    empty: Empty | None = None
    left_out: tuple[str, ...] = ()
    """Ids that did not fit; fetch them with mode `expand`."""
    as_of: int | None = None
    """The audit sequence number of the answer."""
    latest_commits: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda commits: not commits,
        description="Days and subjects of the latest commits, if the question asks only for the latest changes.",
    )
    commands: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda commands: not commands,
        description="Commands of the project by job, if the question asks how to do that job.",
    )
    answer: str = Field(default="", exclude_if=lambda name: not name, description="Id of this answer for feedback.")
    trace: dict[str, Any] = Field(default={}, description="Details of the search.")

    def named(self) -> Iterable[tuple[str, str, str]]:
        """Return the origin, object and segment of each place that it shows."""
        return ()

    def project_facts(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield what the map of the repository answers, besides the hits: a name and lines."""
        if self.commands:
            yield "commands of the project", self.commands
        if self.latest_commits:
            yield "latest commits", self.latest_commits


def understood_days(question: Question, now: datetime) -> tuple[UnderstoodDays, ...]:
    """Return the days that words such as "yesterday" in a question mean `now`."""
    name = question.zone.name(now) if question.understood else ""
    return tuple(
        UnderstoodDays(text=one.text, first=one.first, last=one.last, time_zone=name) for one in question.understood
    )


def why_empty(call: Call, question: Question, reach: Reach) -> Empty:
    """Return why a read found nothing, from the closest reason to the widest."""
    if not question.terms.words and not question.terms.identifiers:
        return Empty(reason="unknown_entity", hint="The question has no searchable words.")
    if question.lag.behind:
        # Other reasons would concern the indexed part only.
        hint = "The index is being rebuilt or updated; try again later."
        return Empty(reason="not_indexed_yet", count=question.lag.behind, hint=hint)
    if reach.where != EVERYTHING and (unfiltered := _matches(call, question, replace(reach, where=EVERYTHING))):
        return Empty(reason="filtered_out", count=unfiltered, hint="The filter excludes every match.")
    if empty := _out_of_scope(call, question, reach, "There are matches below this scope"):
        return empty
    if reach.at is not None and (later := _matches(call, question, replace(reach, at=None, descend=True))):
        return Empty(reason="recorded_later", count=later, hint=recorded_later(call, reach.at))
    words = question.typed.sought()
    counts = counts_of(call.engine, reach, {*question.terms.words, *chain.from_iterable(words.values())})
    words_known = with_words_elsewhere(call, question, reach, WordsKnown.of(words, counts))
    known = words_known.told()
    if words_known.elsewhere:
        return Empty(reason="known_but_empty", hint=known)
    withdrawn = 0 if reach.withdrawn else _matches(call, question, replace(reach, where=EVERYTHING, withdrawn=True))
    if withdrawn:
        hint = "Only withdrawn knowledge matches; options.withdrawn shows it, lint explains it."
        return Empty(reason="known_but_empty", count=withdrawn, hint=hint)
    return _why_unknown(question, known, has_words=bool(counts))


def _why_unknown(question: Question, known: str, *, has_words: bool) -> Empty:
    """Return the reason of an empty answer in the index. `has_words`: whether it has a word of the question."""
    if question.lag.without and question.is_known:  # vectors may find it later
        hint = f"{known} Embedding is still running; try again later.".lstrip()
        return Empty(reason="not_indexed_yet", count=question.lag.without, hint=hint)
    if has_words:
        return Empty(reason="known_but_empty", hint=f"{known} No indexed text mentions that.".lstrip())
    if not question.lag.total:
        known = "No text is indexed yet."
    hint = f"{known or 'No word of the question occurs here.'} Add sources that mention it."
    return Empty(reason="unknown_entity", hint=hint)


def why_words_are_below(call: Call, question: Question, reach: Reach, words: WordsKnown) -> Empty | None:
    """Return the reason for an empty answer to a question with words that occur only below the scope; or `None`."""
    return _out_of_scope(call, question, reach, words.told().rstrip(".")) if words.below else None


def _out_of_scope(call: Call, question: Question, reach: Reach, reason: str) -> Empty | None:
    """Return how many matches `options.descend` would add; `None` if none. Other scopes are not mentioned."""
    count = _matches(call, question, replace(reach, descend=True)) - _matches(call, question, reach)
    hint = f"{reason}; set options.descend, or name one of those scopes."
    return Empty(reason="out_of_scope", count=count, hint=hint) if count > 0 else None


def with_words_below(call: Call, question: Question, reach: Reach, words: WordsKnown) -> WordsKnown:
    """Return the words of a question with those apart that occur only in scopes below a read."""
    if reach.descend or reach.at is not None or not words.unknown:
        return words
    sought = {word: terms for word, terms in question.typed.sought().items() if word in words.unknown}
    terms = set(chain.from_iterable(sought.values()))
    below = WordsKnown.of(sought, counts_of(call.engine, replace(reach, descend=True), terms))
    return replace(words, unknown=below.unknown, below=below.known)


def with_words_elsewhere(call: Call, question: Question, reach: Reach, words: WordsKnown) -> WordsKnown:
    """Return the words of a question with those apart that occur only on other branches than the one of the read.

    The index counts words on all branches.
    """
    if call.tree is None or reach.at is not None or not words.known:
        return words
    sought = {word: terms for word, terms in question.typed.sought().items() if word in words.known}
    terms = tuple(dict.fromkeys(term for each in sought.values() for term in each))[:_MAX_TERMS_IN_TREE]
    results = call.engine.index.text.search([TextRequest(reach, _BEST_MATCHES, words=(term,)) for term in terms])
    keys = {term: tuple(hit.key for hit in found.words) for term, found in zip(terms, results, strict=True)}
    (passages,) = call.engine.index.passages.read(
        [PassageRequest(tuple({one for each in keys.values() for one in each}))]
    )
    places = {key: (head.object_id, head.part) for key, head in passages.heads.items()}
    request = ObjectRequest(
        heads=tuple({one for one, _ in places.values()}), segments=tuple({one for one in places.values() if one[1]})
    )
    (here,) = call.engine.ledger.read([request])
    in_tree = {key for key, one in places.items() if (one in here.segments if one[1] else one[0] in here.heads)}
    only_elsewhere = {
        term for term, own in keys.items() if own and len(own) < _BEST_MATCHES and in_tree.isdisjoint(own)
    }
    moved = unknown_among(sought, {term for each in sought.values() for term in each} - only_elsewhere)
    if not moved:
        return words
    (everywhere,) = on_all_branches(call.engine.ledger).read([request])
    cited = [
        (everywhere.heads[place[0]].fingerprint, everywhere.segments[place])
        for term in sorted(only_elsewhere)
        for place in (places[key] for key in keys[term] if key in places)
        if place in everywhere.segments and place[0] in everywhere.heads
    ]
    known = tuple(word for word in words.known if word not in moved)
    return replace(words, known=known, elsewhere=tuple(moved), branches=branches_with(cited) or ())


def below_warning(call: Call, question: Question, reach: Reach) -> tuple[str, ...]:
    """Warn of scopes below the read scope with good matches that the read omitted, such as discussions."""
    if reach.descend or not whole(call.engine.ledger).scopes(reach.scope):
        return ()
    return left_out_below(reach, _matching_scopes(call, question, replace(reach, descend=True), limit=_BEST_MATCHES))


def left_out_below(reach: Reach, matching: Iterable[str]) -> tuple[str, ...]:
    """Warn of the scopes below the read scope among the `matching` ones."""
    scopes = sorted({one for one in matching if not is_within(reach.scope, one)})
    if not scopes:
        return ()
    left_out = f"Matches in scopes below {reach.scope} are left out: {listed_up_to(_MAX_SCOPES_NAMED, scopes)}."
    return (f"{left_out} Set the option descend to include them.",)


def scope_warnings(call: Call, options: ReadOptions, found: Iterable[str]) -> tuple[str, ...]:
    """Warn if the scope of a read and those below it are empty. `found`: the scopes of the results."""
    scopes = tuple(found)
    if call.scope == ROOT or options.as_of is not None or any(is_within(one, call.scope) for one in scopes):
        return ()
    if not is_empty_scope(call.engine, call.scope):
        return ()
    above = "; these results are from scopes above it" if scopes else ""
    return (f"The scope {call.scope} and the scopes below it are empty{above}.",)


def is_empty_scope(engine: Engine, scope: str) -> bool:
    """Return whether nothing was ever stored in a scope, other than the root, or below it."""
    above = scope.rpartition("/")[0] or ROOT
    return not any(is_within(one, scope) for one in whole(engine.ledger).scopes(above))


def reranking_warnings(found: "Retrieval") -> tuple[str, ...]:
    """Warn if a requested reranking did not take place."""
    if found.reranking is None or found.reranking.pairs:
        return ()
    return ("Not reranked: the results are not conversations, and reranking makes other texts worse.",)


def lag_warning(lag: Lag) -> tuple[str, ...]:
    """Warn if the index lacks objects, passages have no vector yet, or many have only a vector of the quick model."""
    warnings = behind_warning(lag.behind, exact=lag.exact)
    if lag.without:
        return (*warnings, f"{_pending(lag, lag.without)}: they are found only by words and names.")
    if lag.quick >= max(lag.total * _NOTABLE_SHARE, _NOTABLE_PASSAGES):
        return (*warnings, f"{_pending(lag, lag.quick)}: a smaller model finds them, so answers may still change.")
    return warnings


def _pending(lag: Lag, number: int) -> str:
    if not lag.exact:
        return "Some passages may not be embedded yet"
    return f"{number:,} of {lag.total:,} passages are not embedded yet"


def warnings_of(question: Question) -> tuple[str, ...]:
    """Warn if the index lags, or the question is too long to be read whole."""
    if not question.unread:
        return lag_warning(question.lag)
    read = len(question.text)
    cut = f"The question has {read + question.unread} characters; only the first {read} were searched for."
    return (cut, *lag_warning(question.lag))


def altered_warnings(altered: Mapping[str, str]) -> tuple[str, ...]:
    """Warn of objects that were left out because they do not match the audit log."""
    shown = [f"{identity} was left out: {what}" for identity, what in sorted(altered.items())[:_MAX_ALTERED_SHOWN]]
    more = [f"{len(altered) - len(shown)} more were left out."] if len(altered) > len(shown) else []
    return (*shown, *more, *([_ALTERED_HINT] if shown else []))


def answered_sequence(found: "Retrieval", reach: Reach) -> int:
    """Return the audit sequence number that an answer is as of."""
    return found.sequence if reach.at is None else reach.at


def _matches(call: Call, question: Question, reach: Reach) -> int:
    return sum(1 for _ in _matching_scopes(call, question, reach, limit=_MAX_COUNTED))


def _matching_scopes(call: Call, question: Question, reach: Reach, *, limit: int) -> Iterator[str]:
    """Yield the scope of each passage that matches words or names of a question."""
    words, names = (*question.terms.words, *question.terms.phrases), tuple(map(NamePart, question.terms.identifiers))
    found = look_up(call.engine.index, TextRequest(reach, limit, words=words, names=names))
    # Not through the call's own view, which may not descend.
    ids = tuple(dict.fromkeys(head.object_id for head in found))
    whole_ones = tuple(head.object_id for head in found if not head.part)
    (read,) = whole(call.engine.ledger).read([ObjectRequest(heads=ids, objects=whole_ones, as_of=reach.at)])
    over = {identity for identity, item in read.objects.items() if is_withheld(item, reach)}
    heads = (read.heads.get(head.object_id) for head in found if head.object_id not in over)
    yield from (head.scope for head in heads if head and is_shown(head, reach))

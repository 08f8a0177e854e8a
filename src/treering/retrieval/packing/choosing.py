"""Choose the items that may enter a context pack, best first."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from treering.core.evidence import Lines, Turn
from treering.core.objects import Knowledge, Node, Object, title_of
from treering.ports.passages import Reach
from treering.retrieval.index.code_places import CODE
from treering.retrieval.index.passages import may_be_packed, passages_of
from treering.retrieval.packing.citing import Citing
from treering.retrieval.packing.items import (
    belief_item,
    is_import_header,
    is_stub_of_code,
    source_items,
    with_quotes,
    without_repeated,
)
from treering.retrieval.packing.task_results import COPIED, TaskResults
from treering.retrieval.search.file_ranking import is_in_no_file
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.named_code import first_test_of
from treering.retrieval.search.pack_budget import UnnumberedItem
from treering.retrieval.search.question import Question
from treering.retrieval.search.replaced import SUPERSEDED, only_replaced
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.spreading import spread_over_sources
from treering.retrieval.search.trust import Wording
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.tuning import TUNING


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Knowledge, work and activities that may be about a task, each with its score, in four groups."""

    named: Sequence[tuple[Object, float]]
    by_words: Sequence[tuple[Object, float]]
    attached: Sequence[tuple[Object, float]]
    about_files: Sequence[tuple[Object, float]]

    @property
    def items(self) -> list[Object]:
        """All of them; some may be in several groups."""
        return [item for item, _ in (*self.named, *self.by_words, *self.attached, *self.about_files)]

    def about_task(self, citing: Citing, idf: IdfWeights, *, only: bool) -> list[tuple[Object, float]]:
        """Return each one about the task once, with the score of its first group.

        `only`: nothing else was found. Then knowledge about files that is near the task in meaning is shown, too.
        """
        by_words = [pair for pair in self.by_words if only or _is_about_task(pair[0], citing, idf)]
        named = {item.id: (item, score) for item, score in reversed(self.named)}
        others = (*by_words, *self.attached, *self.about_files)
        unique = {item.id: (item, score) for item, score in reversed(others) if item.id not in named}
        return [*[*named.values()][::-1], *[*unique.values()][::-1]]


def candidates_of(results: TaskResults, resting: Sequence[Knowledge], reach: Reach) -> Beliefs:
    """Return named objects with the ones attached to them, knowledge with words of the task, and on its best files.

    Objects attached to a node come after those with words of the task.
    """
    of_nodes = [one for one in results.attached if isinstance(one.named, Node)]
    of_others = [one for one in results.attached if one not in of_nodes]
    return Beliefs(
        [(item, 1.0) for one in of_others for item in (one.named, *one.items)],
        [(hit.item, hit.score) for hit in results.about_task if hit.item],
        [(item, 0.0) for one in of_nodes for item in one.items],
        _about_files(_best_files(by_file(results.passages)), resting, results.known.idf, reach),
    )


def belief_items(
    results: TaskResults, candidates: Beliefs, citing: Citing, notes: Mapping[str, str], reach: Reach, *, only: bool
) -> list[UnnumberedItem]:
    """Make the items of the candidates that are about the task. `notes`: by id, why one is not current here.

    `only`: nothing else was found for the task. Unconfirmed knowledge from a superseded record is left out.
    """
    wording = Wording.of(results.question.text)
    trusted = results.beliefs.policy.channel_trust
    superseded: dict[str, list[str]] = {}
    for one in results.withdrawn:
        superseded.setdefault(one.successor, []).append(one.title)
    return [
        belief_item(item, score, citing, wording, trusted, reach, notes.get(item.id, ""), superseded.get(item.id, ()))
        for item, score in candidates.about_task(citing, results.known.idf, only=only)
        if item.status != "candidate" or not notes.get(item.id, "").startswith(SUPERSEDED)
    ]


def passage_order(results: TaskResults) -> list[Hit]:
    """Return the definitions that the task names, a test of them, and the passages of the best files."""
    hits = _without_imports([hit for hit in results.passages if not is_stub_of_code(hit)], results.question)
    first = [*results.definitions, *first_test_of(results.definitions, hits)]
    keys = {hit.head.key for hit in first}
    ordered = by_file([hit for hit in hits if hit.head.key not in keys])
    best, rest = ordered[: TUNING.context.best_files], ordered[TUNING.context.best_files :]
    least = results.min_score
    return [*first, *best, *(hit for hit in rest if hit.score >= least or is_in_no_file(hit.head))]


def passage_items(results: TaskResults, ordered: Sequence[Hit], notes: Mapping[int, str]) -> list[UnnumberedItem]:
    """Make items of passages. `notes`: by key of a hit, why it is not current here."""
    whole = {hit.head.key for hit in results.definitions}
    return list(source_items(ordered, results.question.text, notes, results.judgement.weak, whole))


def combined(
    beliefs: Sequence[UnnumberedItem],
    passages: Sequence[UnnumberedItem],
    resting: Sequence[Knowledge],
    question: Question,
    reach: Reach,
) -> list[UnnumberedItem]:
    """Return beliefs, then passages, without passages that a belief repeats or quotes, or that were replaced.

    If nothing else is left, replaced passages are shown and flagged.
    """
    replaced = only_replaced(resting)
    current = _without_replaced(without_repeated(passages, beliefs), replaced, question, show_all=reach.withdrawn)
    current, quoting = with_quotes(current, beliefs)
    if quoting or current:
        return [*quoting, *current]
    return _without_replaced(passages, replaced, question, show_all=True)


def by_file(hits: Sequence[Hit]) -> list[Hit]:
    """Order passages: the best one of each of the best files, then all others, best first.

    Files are in the order of their best passages, as in a search that is grouped by source. Each turn of a conversation
    is treated as a file. Two more passages of a file of code come before other files if they are better than these.
    """
    ranked = sorted(hits, key=lambda hit: -hit.score)
    best: dict[str | int, Hit] = {}
    for hit in ranked:
        best.setdefault(hit.head.key if isinstance(hit.locator, Turn) else hit.head.object_id, hit)
    first = [*best.values()][: TUNING.context.best_files]
    is_code = bool(first) and first[0].head.place_role == CODE
    leading = takewhile(lambda hit: hit.head.object_id == first[0].head.object_id, ranked) if is_code else ()
    shown = {hit.head.key: hit for hit in (*first, *islice(leading, TUNING.context.max_leading))}
    return [*shown.values(), *(hit for hit in spread_over_sources(hits) if hit.head.key not in shown)]


def _without_imports(hits: Sequence[Hit], question: Question) -> list[Hit]:
    """Put the best other passage of a file in place of its imports, unless a task is about imports."""
    if "import" in telling_terms(question.text):
        return list(hits)
    imports: dict[str, Hit] = {}
    others: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: -hit.score):
        if is_import_header(hit):
            imports.setdefault(hit.head.object_id, hit)
        else:
            others.append(hit)
    for place, hit in enumerate(others):
        if header := imports.pop(hit.head.object_id, None):
            others[place] = replace(hit, score=max(hit.score, header.score))
    return sorted([*others, *imports.values()], key=lambda hit: -hit.score)


def _best_files(hits: Iterable[Hit]) -> dict[str, float]:
    """Return the source of the first hit and the best files of projects, each with the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        if not best or isinstance(hit.locator, Lines):
            best.setdefault(hit.head.object_id, hit.score)
    return dict([*best.items()][: TUNING.context.best_files])


def _about_files(
    files: Mapping[str, float], resting: Sequence[Knowledge], idf: IdfWeights, reach: Reach
) -> list[tuple[Object, float]]:
    """Return the knowledge that cites the best files and is about the task, with the scores of the files.

    Knowledge that an adapter copied from a file only repeats it, and is left out. But the passage found first may be
    the context of a decision record, whose decision is shown.
    """
    shares = {
        item.id: _share(item, idf) for item in resting if item.origin_channel != COPIED or item.kind == "decision"
    }
    current = [item for item in resting if item.id in shares and may_be_packed(item, reach)]
    current.sort(key=lambda item: (-shares[item.id], -item.updated_at.timestamp(), item.id))
    about: dict[str, tuple[Object, float]] = {}
    for rank, (source_id, score) in enumerate(files.items()):
        least = TUNING.context.min_share_about_file if rank else 0.0
        citing = (item for item in current if source_id in {ref.source_id for ref in item.evidence_refs})
        cited = [item for item in citing if not rank or item.origin_channel != COPIED]
        for item in cited[: TUNING.context.max_per_file]:
            if shares[item.id] >= least:
                about.setdefault(item.id, (item, score))
    return [*about.values()]


def _is_about_task(item: Object, citing: Citing, idf: IdfWeights) -> bool:
    """Return whether something found by its words is about the task; knowledge about files needs more of the words.

    Copied facts do not: they name their subject, and packs for releases and updates name fewer changed files without
    them.
    """
    is_about_files = item.origin_channel != COPIED and citing.cites_lines(item)
    return not is_about_files or _share(item, idf) >= TUNING.context.min_share


def _share(item: Object, idf: IdfWeights) -> float:
    """Return the share of the weight of a task that an object has; all of it if the words were not counted."""
    terms = frozenset(index_text(f"{title_of(item)}\n{passages_of(item)[0].text}").split())
    return idf.share(terms) if idf.weights else 1.0


def _without_replaced(
    passages: Sequence[UnnumberedItem],
    replaced: Mapping[tuple[str, str], Sequence[Knowledge]],
    question: Question,
    *,
    show_all: bool,
) -> list[UnnumberedItem]:
    """Leave out passages that only superseded knowledge cites.

    A passage about more than that knowledge is flagged and put last, and so is every one with `show_all`.
    """
    first: list[UnnumberedItem] = []
    last: list[UnnumberedItem] = []
    for passage in passages:
        citing = replaced.get((passage.item.object_id, passage.item.segment_id))
        if not citing:
            first.append(passage)
        elif show_all or _adds_to(passage, frozenset[str]().union(*map(_terms_of, citing)), question):
            flags = (*passage.item.flags, SUPERSEDED)
            last.append(replace(passage, item=passage.item.model_copy(update={"flags": flags})))
    return [*first, *last]


def _adds_to(passage: UnnumberedItem, known: Set[str], question: Question) -> bool:
    """Return whether most terms of a passage are not `known`, so that it may add to the known passages."""
    terms = frozenset(telling_terms(f"{passage.item.title}\n{passage.item.text}"))
    answering = terms.intersection(question.terms.words)
    return 2 * len(terms & known) < len(terms) and (not answering or not answering <= known)


def _terms_of(item: Object) -> frozenset[str]:
    return frozenset(telling_terms(f"{title_of(item)}\n{passages_of(item)[0].text}"))

"""Which knowledge enters a context pack: by the files that it cites, or by its own words."""

from collections.abc import Iterable, Mapping, Sequence

from treering.core.evidence import Lines
from treering.core.filters import matches
from treering.core.objects import Knowledge, Object, title_of
from treering.ports.ledger import head_of
from treering.ports.passages import Reach
from treering.retrieval.index.passages import is_shown, is_withheld, passages_of, record_of
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING
from treering.verbs.query.context_items import Citing
from treering.verbs.query.context_parts import COPIED


def files_of(hits: Iterable[Hit]) -> dict[str, float]:
    """Return the source of the first hit and the best files of projects, each with the score of its best passage."""
    best: dict[str, float] = {}
    for hit in hits:
        if not best or isinstance(hit.locator, Lines):
            best.setdefault(hit.head.object_id, hit.score)
    return dict([*best.items()][: TUNING.context.best_files])


def knowledge_about(
    files: Mapping[str, float], resting: Sequence[Knowledge], idf: IdfWeights, reach: Reach
) -> list[tuple[Object, float]]:
    """Return the knowledge that cites the best files and belongs to the task, with the scores of the files.

    What an adapter copied from a source says no more than the source.
    """
    shares = {item.id: _share(item, idf) for item in resting if item.origin_channel != COPIED}
    stated = [item for item in resting if item.id in shares and _may_be_shown(item, reach)]
    stated.sort(key=lambda item: (-shares[item.id], -item.updated_at.timestamp(), item.id))
    about: dict[str, tuple[Object, float]] = {}
    for rank, (source_id, score) in enumerate(files.items()):
        least = TUNING.context.min_share_about_file if rank else 0.0
        cited = [item for item in stated if source_id in {ref.source_id for ref in item.evidence_refs}]
        for item in cited[: TUNING.context.max_per_file]:
            if shares[item.id] >= least:
                about.setdefault(item.id, (item, score))
    return [*about.values()]


def is_about_task(item: Object, citing: Citing, idf: IdfWeights) -> bool:
    """Return whether something found by its words is about the task: about files of a project it needs more of them.

    Copied facts name their subject; without them, packs of releases and updates name fewer changed files.
    """
    is_about_files = item.origin_channel != COPIED and citing.names_lines(item)
    return not is_about_files or _share(item, idf) >= TUNING.context.min_share


def _share(item: Object, idf: IdfWeights) -> float:
    """Return the share of the weight of a task that an object has; all of it if the words were not counted."""
    if not idf.weights:
        return 1.0
    return idf.share(index_text(f"{title_of(item)}\n{passages_of(item)[0].text}").split())


def _may_be_shown(item: Knowledge, reach: Reach) -> bool:
    is_current = is_shown(head_of(item), reach) and not is_withheld(item, reach)
    return is_current and matches(reach.where, record_of(passages_of(item)[0]))

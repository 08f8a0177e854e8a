"""The numbers that decide what a search finds, ranks, shows and refuses, read from `tuning.toml`.

The file has a comment for each number: its meaning, and the benchmark that chose it. Named tuples are defined in a
fraction of the time of dataclasses, and every process that opens a space imports this module.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pkgutil import get_data
from typing import Any, NamedTuple

Weights = Mapping[str, float]
"""Weights by the name of an arm, a clue or a type of edge."""


class FusionTuning(NamedTuple):
    """The weight of each arm, by the form of the passages that answer, and how their scores are combined."""

    neighbour_share: float
    min_spread: float
    quick_share: float
    prose_weights: Weights


class CluesTuning(NamedTuple):
    """Clues to turns of a conversation: speaker, day, and role."""

    weights: Weights
    other_day_weight: float


class LaterTurnsTuning(NamedTuple):
    """What turns of conversations lend to later ones about the same."""

    most: int
    unlike: float
    share: float


class QuestionTuning(NamedTuple):
    """How a question is understood: as a lookup, a comparison, a long text, a name or a phrase."""

    max_place_words: int
    max_lookup_words: int
    first_hits: int
    min_form_share: float
    min_code_share: float
    max_exact_passages: int
    lead_titles: int
    title_matches: int
    max_short_chars: int
    min_emphasis_mentions: int
    max_name_words: int
    min_subject_letters: int
    min_subject_rarity: float
    max_subject_terms: int
    max_run_chars: int
    min_distinct_letters: int
    min_name_end_chars: int


class CandidatesTuning(NamedTuple):
    """How many candidates are weighed, and how repetitions among them count."""

    duplicate_at: float
    further_weight: float


class FilesTuning(NamedTuple):
    """Weights of the ranking by files."""

    beside_code: float
    commits: float


class ReleasesTuning(NamedTuple):
    """The sections of a changelog that a question about a release gets."""

    max_changelogs: int
    min_releases: int
    max_passages: int


class CommitsTuning(NamedTuple):
    """How commits with a similar subject point at files."""

    full_score_files: int
    min_together: int


class GraphTuning(NamedTuple):
    """The walk through the graph: its seeds, its edges, and the ways read off it."""

    facts: int
    named_weight: float
    passage_weight: float
    max_common: int
    unnamed_share: float
    unstated_share: float
    copied_share: float
    copied_entities: int
    damping: float
    title_weight: float


class IdfTuning(NamedTuple):
    """The weight of the words of a question, and the size of a small space."""

    letters_in_a_word: int
    min_large: float
    rarity_power: int
    near_share: float


class RelevanceTuning(NamedTuple):
    """Thresholds for refusing an answer and for hits that are about something else."""

    min_coverage: float
    min_coverage_of_turn: float
    min_coverage_if_far: float
    coverage_weight: float
    min_relevance: float
    nearness_unknown: float
    min_nearness: float
    broken_names_weight: float
    min_unknown_id_share: float
    max_name_gap: int
    min_share: float
    min_score_share: float
    min_bridged: float
    min_score_share_of_turn: float


class ChanceTuning(NamedTuple):
    """The rule that separates answers from chance in large spaces. Weights are by the name of a signal."""

    near_weight: float
    first_hits: int
    broken: float
    nameless: float
    prose: Weights
    talk: Weights
    prose_by_words: Weights
    talk_by_words: Weights


class TrustTuning(NamedTuple):
    """When a less trusted text that repeats the question comes behind more trusted ones."""

    max_unanswered: float
    min_rarest_share: float
    max_places_lost: int
    min_rivals: int
    min_question_words: int
    min_repeated_share: float


class LinesTuning(NamedTuple):
    """The lines of a hit that are shown."""

    max_shown: int


class PackingTuning(NamedTuple):
    """The composition of a context pack within its budget."""

    believed_share: float
    passage_share: float
    min_passage_tokens: int
    min_useful_tokens: int
    min_body_lines: int
    helpful_share: float
    max_symbols: int
    max_definitions: int
    max_entries: int
    lines_around: int
    signature_lines: int


class ContextTuning(NamedTuple):
    """The contents of a context pack."""

    best_files: int
    max_leading: int
    min_shared_words: int
    max_new_share: float
    with_reply: int
    min_share_about_file: float
    min_share: float
    min_score_share: float
    max_per_file: int
    max_companions: int
    files_with_companions: int


class BriefTuning(NamedTuple):
    """The content of the brief before a session."""

    rules: int
    days_per_use: int


class HooksTuning(NamedTuple):
    """The context that the hooks of coding agents add to a prompt, an edit and a failure."""

    max_places: int
    max_found_places: int
    best_subject_weight: float
    subject_weight: float
    prose: float
    min_score_share: float
    min_score_share_of_second: float
    max_entries: int
    min_shared_terms: int
    min_shared_share: float
    min_failure_words: int


class ClientTuning(NamedTuple):
    """How the memory client weighs memories."""

    related: float
    same_above: float
    none_below: float
    max_raise: float
    outcome: float
    importance: float
    half_life_days: int
    mmr_lambda: float


class ConversationsTuning(NamedTuple):
    """Searches in discussions."""

    leading: int
    related: float


class Tuning(NamedTuple):
    """All groups, named as the tables of `tuning.toml`."""

    fusion: FusionTuning
    clues: CluesTuning
    later_turns: LaterTurnsTuning
    question: QuestionTuning
    candidates: CandidatesTuning
    files: FilesTuning
    releases: ReleasesTuning
    commits: CommitsTuning
    graph: GraphTuning
    idf: IdfTuning
    relevance: RelevanceTuning
    chance: ChanceTuning
    trust: TrustTuning
    lines: LinesTuning
    packing: PackingTuning
    context: ContextTuning
    brief: BriefTuning
    hooks: HooksTuning
    client: ClientTuning
    conversations: ConversationsTuning


def read_tuning(text: str) -> Tuning:
    """Read a table of numbers. Raises `TypeError` if a key is unknown or missing, naming it."""
    tuning: Tuning = _filled(Tuning, tomllib.loads(text))
    return tuning


def _filled(group: Any, values: Mapping[str, Any]) -> Any:
    """Fill a group and the groups in it with the values of a table."""
    kinds = group.__annotations__
    return group(**{name: _filled(kinds[name], one) if _is_group(kinds, name) else one for name, one in values.items()})


def _is_group(kinds: Mapping[str, Any], name: str) -> bool:
    return hasattr(kinds.get(name), "_fields")


TUNING = read_tuning((get_data(__package__, "tuning.toml") or b"").decode())

SEARCH_GROUPS = ("clues", "question", "candidates", "files", "releases", "commits", "graph", "idf", "relevance")
"""The groups that a search uses, except the weights of its arms, which are in its trace, and the rule of chance."""
PACK_GROUPS = (*SEARCH_GROUPS, "packing", "context")
"""The groups that a context pack uses."""


def values_of(groups: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the numbers of groups as plain tables, for the trace of an explained answer."""
    return {name: getattr(TUNING, name)._asdict() for name in groups}

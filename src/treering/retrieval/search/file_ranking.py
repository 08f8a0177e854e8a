"""Ranking passages of a repository by their files: how much a whole file answers, and whether it is code."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from treering.ports.passages import PassageHead
from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import CODE, NO_PLACE, defines_commands, is_guide
from treering.retrieval.search.fusion import ArmScore, Fused
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

COMMITS = "commits"
FILE = "file"
ROLE = "role"


def rank_in_files(
    ranked: Sequence[Fused],
    heads: Mapping[int, PassageHead],
    terms: Collection[str],
    *,
    own_scores: Mapping[int, float],
    commits: Mapping[str, float],
    how_to: bool = False,
    chore: bool = False,
) -> list[Fused]:
    """Rank passages again, each by its own score, by its file's, and by its role for a question with these terms.

    `own_scores` are the scores of passages by their words and meaning alone, which add up for their file; `commits`,
    by origin, how much commits with a similar subject touched the file, from 0 to 1.
    A question of what one has to do (`how_to`) is answered by documentation as well as by code, and a question about a
    chore of the project (`chore`) by guides for contributors and files that define commands.
    The parts contain what counted: `role` (the factor of the place), `file` (the score of the file, against the best
    file) and `commits`. Scores stay between 0 and 1.
    """
    further, wanted = TUNING.candidates.further_weight, frozenset(terms)
    equal = {CODE, NO_PLACE, "documentation"} if how_to else {CODE, NO_PLACE}

    def weight(head: PassageHead) -> float:
        if chore:
            return _weight_for_chore(head, wanted)
        return 1.0 if head.place_role in equal else _weight_beside_code(head, wanted)

    placed = [_Placed.of(hit, head, weight(head)) for hit in ranked if (head := heads.get(hit.key))]
    files = _file_scores(placed, own_scores)
    best = max((one.own for one in placed), default=0.0) or 1.0
    touching = _commit_scores(placed, commits)
    commits_share = TUNING.files.commits if touching else 0.0
    whole = 2 + commits_share

    position = _positions(placed)

    def score(one: _Placed) -> float:
        touched = one.weight * touching.get(one.head.origin, 0.0)
        of_file = files[one.whole] + commits_share * touched
        return (one.own / best + further ** position[one.hit.key] * of_file) / whole

    ordered = sorted(((score(one), one) for one in placed), key=lambda pair: (-pair[0], pair[1].hit.key))
    return [Fused(one.hit.key, of, {**one.hit.parts, **_parts(one, files[one.whole], touching)}) for of, one in ordered]


def path_of(head: PassageHead) -> str:
    """Return the path of the file of a passage in its project."""
    return head.origin.partition("#")[2] or head.title


def is_in_no_file(head: PassageHead) -> bool:
    """Return whether a passage is a note, a message or knowledge. The modules of a project are made of its files."""
    return head.place_role == NO_PLACE and head.type != "node"


def _weight_for_chore(head: PassageHead, terms: frozenset[str]) -> float:
    """Return the weight of a passage for a question about a chore, such as `how do I run the tests`.

    Code and tests have the words of such a question by chance.
    """
    path, role = path_of(head), head.place_role
    if is_in_no_file(head) or is_guide(path, role) or defines_commands(path, role):
        return 1.0
    return _weight_beside_code(head, terms) if role == "documentation" else TUNING.files.beside_code


def _weight_beside_code(head: PassageHead, terms: frozenset[str]) -> float:
    return 1 - (1 - TUNING.files.beside_code) * (1 - called_share(head, terms))


def called_share(head: PassageHead, terms: frozenset[str]) -> float:
    """Return the share of a question's terms that the role of a passage has, of prose with its path and headings.

    Tests, documents and changelogs repeat the words of the code, so they count less. But a section titled like the
    question answers it, and so does a test or an example if the question asks for one. A test is called after what the
    code does, so its name does not show that a test is asked for.
    """
    is_written = head.role == "prose" and head.place_role != "generated"
    titles = f"{path_of(head)} {head.heading}" if is_written else ""
    called = index_text(f"{head.place_role} {titles}").split()
    return len(terms.intersection(called)) / len(terms) if terms else 0.0


@dataclass(frozen=True, slots=True)
class _Placed:
    """A candidate with the weight of its place, and its score by that."""

    hit: Fused
    head: PassageHead
    weight: float
    own: float

    @property
    def whole(self) -> str:
        """The file of the passage. Other passages count by themselves, because a conversation has many topics."""
        return self.head.object_id if self.head.place_role != NO_PLACE else str(self.hit.key)

    @classmethod
    def of(cls, hit: Fused, head: PassageHead, weight: float) -> "_Placed":
        """Weigh a passage."""
        return cls(hit, head, weight, hit.score * weight)


def _positions(placed: Iterable[_Placed]) -> dict[int, int]:
    """Return the rank of each passage in its file."""
    seen: Counter[str] = Counter()
    positions: dict[int, int] = {}
    for one in sorted(placed, key=lambda one: (-one.own, one.hit.key)):
        positions[one.hit.key] = seen[one.whole]
        seen[one.whole] += 1
    return positions


def _file_scores(placed: Iterable[_Placed], scores: Mapping[int, float]) -> dict[str, float]:
    """Return the weighted sum of the passages of each file, relative to the highest sum.

    A text in no file is relative to the best single passage: it has no others that could add up.
    """
    further, by_file = TUNING.candidates.further_weight, dict[str, list[float]]()
    for one in placed:
        by_file.setdefault(one.whole, []).append(one.weight * scores.get(one.hit.key, 0.0))
    totals = {
        identity: sum(score * further**place for place, score in enumerate(sorted(own, reverse=True)))
        for identity, own in by_file.items()
    }
    most = max(totals.values(), default=0.0) or 1.0
    best = max(map(max, by_file.values()), default=0.0) or 1.0
    single = {one.whole for one in placed if is_in_no_file(one.head)}
    return {identity: total / (best if identity in single else most) for identity, total in totals.items()}


def _commit_scores(placed: Sequence[_Placed], commits: Mapping[str, float]) -> Mapping[str, float]:
    """Return the scores of files by commits. Other files than code, and texts in no file, get the median.

    Otherwise documentation and messages would rank below any code file that was touched.
    """
    touched = {one.head.origin: commits[one.head.origin] for one in placed if one.head.origin in commits}
    if not touched:
        return touched
    middle = median_low(touched.values())
    no_code = (one.head for one in placed if not file_at(path_of(one.head)))
    return {**{head.origin: middle for head in no_code}, **touched}


def _parts(one: _Placed, file: float, commits: Mapping[str, float]) -> dict[str, ArmScore]:
    parts = {FILE: ArmScore(0, file, file)}
    if one.weight != 1:
        parts[ROLE] = ArmScore(0, one.weight, one.weight)
    if touched := commits.get(one.head.origin):
        parts[COMMITS] = ArmScore(0, touched, touched)
    return parts

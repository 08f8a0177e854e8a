"""Which share of the knowledge that files state by themselves is worth showing, by labels made by hand.

A label is the judgement of a reader who sees a candidate alone: is it useful for work on the project, and can it be
understood? Candidates are named by a hash, in `candidates_labels.json`, for each repository at one commit. Clones are
looked for as in `benchmarks.code_data`.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from benchmarks.code_data import clone_of
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.source_tree import git
from treering.extensions.code.manifest_format import is_manifest
from treering.extensions.records.statements import states_by_name
from treering.ports.adapter import KnowledgeDraft, ReadLimits, SourceDraft
from treering.sources.formats import draft_file
from treering.sources.reading.text import is_markdown

TUNED_ON = frozenset({"celery/celery", "honojs/hono"})
KINDS = ("constraint", "decision", "fact")
_MIN_PRECISION = 90
"""Percent of a kind's labelled candidates that are worth showing; a kind below it is not proposed."""
_LABELS = Path(__file__).with_name("candidates_labels.json")
_SYMBOLIC_LINK = "120000"


def measure() -> list[Row]:
    """Count the candidates of every labelled repository that has a clone."""
    rows: list[Row] = []
    judged: Counter[tuple[str, str]] = Counter()
    for repository, labels in json.loads(_LABELS.read_text()).items():
        try:
            drafts = list(proposed(clone_of(repository), labels["commit"]))
        except MissingData as missing:
            rows.append(Missing(f"candidates, {repository}", str(missing)))
            continue
        group = "tuned on" if repository in TUNED_ON else "reported"
        judged.update((f"{group} {draft.kind}", _judgement(draft, labels)) for draft in drafts)
    for group in ("reported", "tuned on"):
        rows += _figures(group, judged)
    return rows


def proposed(clone: Path, commit: str) -> Iterator[KnowledgeDraft]:
    """Return the knowledge that the files of a commit state by themselves."""
    for path, data in _stating_files(clone, commit):
        draft = draft_file(data, path=path, origin=path, commit=None, limits=ReadLimits())
        if isinstance(draft, SourceDraft):
            yield from draft.knowledge


def key_of(draft: KnowledgeDraft) -> str:
    """Return the name of a candidate in the labels: a hash of its kind, its title and what it states."""
    stated = [draft.kind, draft.title, *(draft.payload.get(name) for name in ("rule", "outcome"))]
    return blake2b(json.dumps(stated).encode(), digest_size=4).hexdigest()


def _judgement(draft: KnowledgeDraft, labels: Mapping[str, Sequence[str]]) -> str:
    key = key_of(draft)
    return next((name for name in ("useful", "useless") if key in labels[name]), "unlabelled")


def _figures(group: str, judged: Mapping[tuple[str, str], int]) -> Iterator[Figure]:
    note = "celery, hono" if group == "tuned on" else ""
    for kind in KINDS:
        useful, useless, unlabelled = (judged[f"{group} {kind}", name] for name in ("useful", "useless", "unlabelled"))
        if useful + useless:
            target = at_least(_MIN_PRECISION) if group == "reported" else None
            of = f"of {useful + useless} labelled; {unlabelled} unlabelled; {note}".rstrip("; ")
            yield Figure(f"candidates, {kind}: worth showing", 100 * useful / (useful + useless), "%", target, of)


def _stating_files(clone: Path, commit: str) -> Iterator[tuple[str, bytes]]:
    """Return the files of a commit that may state knowledge; a blob that the clone lacks is left out."""
    entries = [line.split("\t", 1) for line in git(clone, "ls-tree", "-r", commit).splitlines()]
    stating = [
        (path, head.split()[2])
        for head, path in entries
        if not head.startswith(_SYMBOLIC_LINK) and (is_manifest(path) or is_markdown(path) or states_by_name(path))
    ]
    for path, blob in stating:
        read = subprocess.run(["git", "-C", str(clone), "cat-file", "blob", blob], capture_output=True, check=False)
        if read.returncode == 0:
            yield path, read.stdout

"""The project card of the brief, against cards of twelve public repositories that a person wrote by hand.

`project_cards.json` holds the labels alone: for each repository at a commit, what a card must show (each entry with
the ways to write it) and what it may show besides. Anything else on a card is wrong. Clones are looked for as in
`benchmarks.code_data`. `python -m benchmarks.agent_cards` writes some cards into `docs/reference/briefs.md`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.code_data import clone_of
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.source_tree import git
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import AlreadyRead, ReadLimits, SourceDraft
from treering.verbs.query.brief import card_lines

TUNED_ON = ("celery/celery", "honojs/hono")
LABELS: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("project_cards.json").read_text("utf-8"))
SHOWN = ("celery/celery", "honojs/hono", "junegunn/fzf", "BurntSushi/ripgrep")
"""Repositories whose cards the page shows, one per language."""
PAGE = Path(__file__).parents[1] / "docs/reference/briefs.md"
_BEGINS = "<!-- written by `python -m benchmarks.agent_cards` -->"
_LINT = ("lint", "check", "format", "types")
"""Jobs whose commands find faults of style."""


@dataclass(frozen=True, slots=True)
class CardScore:
    """The entries of a hand-written card that a card shows and lacks, its wrong entries, and its lines."""

    shown: Sequence[str]
    lacking: Sequence[str]
    wrong: Sequence[str]
    lines: int
    empty_lines: Sequence[str]
    """Lines that contain no entry of the hand-written card."""


def measure() -> list[Row]:
    """Return the figures of the repositories that the card was tuned on, then those of the others."""
    others = tuple(repository for repository in LABELS if repository not in TUNED_ON)
    return [*_rows("tuned on", TUNED_ON), *_rows("others", others)]


def _rows(group: str, repositories: Sequence[str]) -> Iterator[Row]:
    scores: list[CardScore] = []
    for repository in repositories:
        try:
            scores.append(score(card_of(repository), LABELS[repository]))
        except MissingData as missing:
            yield Missing(f"card, {repository}", str(missing))
    if scores:
        shown, lacking = sum(len(one.shown) for one in scores), sum(len(one.lacking) for one in scores)
        lines, empty = sum(one.lines for one in scores), sum(len(one.empty_lines) for one in scores)
        note = f"{shown} of {shown + lacking} entries, {len(scores)} repositories"
        yield Figure(f"card, {group}: shown", 100 * shown / (shown + lacking), "%", at_least(85), note)
        yield Figure(f"card, {group}: wrong entries", sum(len(one.wrong) for one in scores), "", at_most(0))
        yield Figure(f"card, {group}: lines without content", 100 * empty / lines if lines else 0.0, "%", at_most(5))


def card_of(repository: str) -> Mapping[str, Any]:
    """Read the card of a repository at the labelled commit. Raises `MissingData` if there is no clone."""
    options = {"commit": LABELS[repository]["commit"]}
    with TemporaryDirectory() as folder:  # a clone as a user has it: its remote names the project
        git(Path(folder), "clone", "--quiet", "--bare", "--shared", str(clone_of(repository)), "clone")
        git(Path(folder, "clone"), "remote", "set-url", "origin", f"https://github.com/{repository}.git")
        readings = RepoAdapter().read(f"{folder}/clone", known=AlreadyRead(), limits=ReadLimits(), options=options)
        card: Mapping[str, Any] = next(one for one in readings if isinstance(one, SourceDraft)).payload["card"]
    return card


def score(card: Mapping[str, Any], label: Mapping[str, Any]) -> CardScore:
    """Compare a card with the one that a person wrote."""
    wanted = [*_wanted(label)]
    lines = [*card_lines(card)]
    entries = [(field, value) for field, value in _entries(card) if _is_visible(value, lines)]
    found = [any(_is_right(field, value, [(field, ways)]) for field, value in entries) for field, ways in wanted]
    right = [*wanted, *_allowed(label)]
    accepted = [way for _, ways in right for way in ways]
    return CardScore(
        shown=[f"{field} {ways[0]}" for (field, ways), is_shown in zip(wanted, found, strict=True) if is_shown],
        lacking=[f"{field} {ways[0]}" for (field, ways), is_shown in zip(wanted, found, strict=True) if not is_shown],
        wrong=[f"{field} {value}" for field, value in entries if not _is_right(field, value, right)],
        lines=len(lines),
        empty_lines=[line for line in lines if not any(way.split(": ")[-1].rstrip("/") in line for way in accepted)],
    )


def _is_visible(value: str, lines: Sequence[str]) -> bool:
    name = value.rstrip("/").rpartition("/")[2] if value.endswith("/") else value
    return any(name in line for line in lines)


def _wanted(label: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Return each entry that a card must show, as its field and the ways to write it."""
    yield "name", label["name"]
    if label["version"]:
        yield "version", label["version"]
    yield "purpose", label["purpose"]
    yield from (("language", ways) for ways in label["languages"])
    yield from ((job, runs) for job, runs in label["commands"].items())
    yield from (("folder", ways) for ways in label["folders"])
    yield from (("tests", ways) for ways in label["tests"])
    yield from (("client file", [path]) for path in label["client_files"])


def _allowed(label: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    also = label["also"]
    yield "language", also["languages"]
    yield "folder", [*also["folders"], *chain(*label["tests"])]
    yield "tests", also["tests"]
    for command in also["commands"]:
        job, _, run = command.partition(": ")
        yield job, [run]
    yield "check", label["commands"]["test"]


def _entries(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return each entry that a card shows, as its field and its value."""
    for field in ("name", "version", "purpose"):
        if card.get(field):
            yield field, card[field]
    yield from (("language", name) for name in card.get("languages", ()))
    yield from ((one["job"], one["run"]) for one in card.get("commands", ()))
    for one in card.get("folders", ()):
        yield "folder", one["path"]
        yield from (("folder", f"{one['path']}{child}/") for child in one["children"])
    yield from (("folder", path) for path in card.get("docs", ()))
    yield from (("tests", place) for place in card.get("tests", ()))
    yield from (("client file", path) for path in card.get("client_files", ()))


def _is_right(field: str, value: str, right: Collection[tuple[str, Sequence[str]]]) -> bool:
    return any(_is_one_of(field, value, ways) for of, ways in right if field == of or (of == "lint" and field in _LINT))


def _is_one_of(field: str, value: str, ways: Sequence[str]) -> bool:
    if field == "purpose":  # each word, or one of two
        return all(any(word.lower() in value.lower() for word in words.split("|")) for words in ways)
    if field == "folder" or (field == "tests" and "*" not in value):
        return value in ways or any(way.endswith("/") and value.startswith(way) for way in ways)
    return value in ways


def write_page() -> None:
    """Write the card of each repository into the page of the docs."""
    parts = [PAGE.read_text("utf-8").partition(_BEGINS)[0].rstrip(), _BEGINS]
    for repository in SHOWN:
        card = "\n".join(card_lines(card_of(repository)))
        parts.append(f"## {repository}\n\nCommit `{LABELS[repository]['commit'][:12]}`.\n\n```text\n{card}\n```")
    PAGE.write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    write_page()

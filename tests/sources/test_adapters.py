"""The adapters pass the contract of all adapters, and the contract finds what is wrong with one."""

import inspect
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from git_scratch import Scratch

from treering.core.errors import InvalidInput
from treering.core.evidence import Lines
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import (
    AlreadyRead,
    Failed,
    Reading,
    ReadLimits,
    SegmentDraft,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)
from treering.sources.path import PathAdapter
from treering.testing.adapter_contract import NAMES, WORDS, AdapterContract, FileAdapterContract


class Folder:
    """A folder of text files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.adapter = PathAdapter()
        self.target = str(folder)
        self.missing = f"{folder}-that-is-not-there"

    def write(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            (self.folder / f"{name}.txt").write_text(text)

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.txt").unlink()

    def damage(self) -> None:
        (self.folder / b"broken\xff.txt".decode("utf-8", "surrogateescape")).write_text("of a name that is not text")


class Conversations(Folder):
    """A folder of exports with one conversation each."""

    def write(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            talk = {
                "id": name,
                "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}],
            }
            (self.folder / f"{name}.txt").write_text(json.dumps(talk))
            (self.folder / f"{name}.txt").rename(self.folder / f"{name}.json")

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink()


class Repository:
    """A repository with a commit for each change."""

    def __init__(self, folder: Path) -> None:
        self.scratch = Scratch(folder)
        self.adapter = RepoAdapter()
        self.target = str(folder)
        self.missing = f"{folder}-that-is-not-there"

    def write(self, texts: Mapping[str, str]) -> None:
        self.scratch.commit({f"{name}.txt": text for name, text in texts.items()})

    def remove(self, name: str) -> None:
        (self.scratch.folder / f"{name}.txt").unlink()
        self.scratch.commit()

    def damage(self) -> None:
        self.scratch.commit({"broken.txt": "an object that is lost"})
        blob = self.scratch.git("rev-parse", "HEAD:broken.txt")
        (self.scratch.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


class Notes:
    """An adapter of notes in memory, and the notes."""

    def __init__(self, place: str) -> None:
        self.notes: dict[str, dict[str, str | None]] = {place: {}}
        self.target, self.missing = place, "nowhere"

    @property
    def adapter(self) -> "Notes":
        return self

    def write(self, texts: Mapping[str, str]) -> None:
        self.notes[self.target].update(texts)

    def remove(self, name: str) -> None:
        del self.notes[self.target][name]

    def damage(self) -> None:
        self.notes[self.target]["broken"] = None

    def origin(self, target: str) -> str:
        return f"notes:{target}"

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        return len(self.notes[target])

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        if target not in self.notes:
            raise InvalidInput(f"There are no notes {target!r}.", hint="Name notes that there are.")
        return self.readings(target, known, limits)

    def readings(self, target: str, known: AlreadyRead, limits: ReadLimits) -> Iterator[Reading]:
        found = {f"{self.origin(target)}#{name}": text for name, text in self.notes[target].items()}
        yield from (Vanished(origin) for origin in known.fingerprints if origin not in found)
        for place, (origin, text) in enumerate(found.items()):
            if place >= limits.max_items:
                yield Skipped(origin, f"over the limit of {limits.max_items} items")
            else:
                yield self.reading(origin, text, known, limits)

    def reading(self, origin: str, text: str | None, known: AlreadyRead, limits: ReadLimits) -> Reading:
        if text is None:
            return Failed(origin, "it has no text")
        fingerprint = sha256(text.encode()).hexdigest()
        if known.fingerprints.get(origin) == fingerprint:
            return Unchanged(origin)
        return SourceDraft("note", origin, origin, fingerprint, "text", self.segments(text, limits.max_segment_chars))

    def segments(self, text: str, most: int) -> list[SegmentDraft]:
        lines = [(at, line) for at, line in enumerate(text.split("\n"), start=1) if line.strip()]
        return [SegmentDraft(Lines(path="note", start=at, end=at), line[:most]) for at, line in lines]


class TestPathAdapter(FileAdapterContract):
    @pytest.fixture
    def open_material(self, tmp_path):
        return lambda name: Folder(tmp_path / name)


class TestPathAdapterOnConversations(AdapterContract):
    @pytest.fixture
    def open_material(self, tmp_path):
        return lambda name: Conversations(tmp_path / name)


class TestRepoAdapter(FileAdapterContract):
    @pytest.fixture
    def open_material(self, tmp_path):
        return lambda name: Repository(tmp_path / name)


class TestAnAdapterOfNotes(AdapterContract):
    @pytest.fixture
    def open_material(self):
        return Notes


class Restless(Notes):
    """Gives its items new names with each reading."""

    numbers = itertools.count()

    def reading(self, origin, text, known, limits):
        return replace(super().reading(origin, text, known, limits), origin=f"{origin}-{next(self.numbers)}")


class OneName(Notes):
    """Gives all items one name."""

    def reading(self, origin, text, known, limits):
        return replace(super().reading(origin, text, known, limits), origin=self.origin(self.target))


class AnotherRoot(Notes):
    """Names items otherwise than their root, and otherwise at each place."""

    def reading(self, origin, text, known, limits):
        return replace(super().reading(origin, text, known, limits), origin=f"elsewhere:{origin}")


class Forgetful(Notes):
    """Reads everything as new."""

    def reading(self, origin, text, known, limits):
        made = super().reading(origin, text, AlreadyRead(), limits)
        return replace(made, fingerprint=f"{next(Restless.numbers)}") if isinstance(made, SourceDraft) else made


class Incurious(Notes):
    """Takes everything that is known for unchanged."""

    def reading(self, origin, text, known, limits):
        return Unchanged(origin) if origin in known.fingerprints else super().reading(origin, text, known, limits)


class Keeping(Notes):
    """Does not see what is gone."""

    def readings(self, target, known, limits):
        return (one for one in super().readings(target, known, limits) if not isinstance(one, Vanished))


class Fragile(Notes):
    """Gives up at an item that cannot be read."""

    def reading(self, origin, text, known, limits):
        return super().reading(origin, text.strip(), known, limits)


class Quiet(Notes):
    """Leaves out items without a word."""

    def readings(self, target, known, limits):
        return itertools.islice(super().readings(target, known, limits), limits.max_items)


class Eager(Notes):
    """Reads everything before it tells of anything."""

    def readings(self, target, known, limits):
        return iter(list(super().readings(target, known, limits)))


class Trusting(Notes):
    """Reads nothing as if it were something."""

    def read(self, target, *, known, limits, options):
        return self.readings(target, known, limits) if target in self.notes else iter(())


class Longwinded(Notes):
    """Keeps each text in one piece."""

    def segments(self, text, most):
        return [SegmentDraft(Lines(path="note", start=1, end=1), text), *super().segments(text, most)]


class Boastful(Notes):
    """Says that it took secrets out."""

    def reading(self, origin, text, known, limits):
        made = super().reading(origin, text, known, limits)
        return replace(made, cleaned=True) if isinstance(made, SourceDraft) else made


FAULTS = {
    Restless: "test_reading_again_gives_the_same",
    OneName: "test_each_result_has_an_origin_of_its_own",
    AnotherRoot: "test_origins_are_below_the_root_or_the_same_wherever_the_item_is",
    Forgetful: "test_what_is_known_is_unchanged",
    Incurious: "test_a_changed_item_keeps_its_origin_and_has_another_fingerprint",
    Keeping: "test_an_item_that_is_gone_is_reported_once_and_no_other_is",
    Fragile: "test_an_item_that_cannot_be_read_fails_alone_and_says_why",
    Quiet: "test_what_is_over_the_number_of_items_is_skipped_by_name",
    Eager: "test_items_are_read_one_at_a_time",
    Trusting: "test_a_target_at_which_nothing_is_is_refused",
    Longwinded: "test_no_segment_is_longer_than_asked_for",
    Boastful: "test_what_is_called_clean_holds_no_secret",
}


@pytest.mark.parametrize("faulty", FAULTS, ids=lambda one: one.__name__)
def test_the_contract_finds_an_adapter_that_breaks_it(faulty):
    given: dict[str, Any] = {"material": material_of(faulty, "first"), "open_material": faulty, "most": 200}
    check = getattr(AdapterContract, FAULTS[faulty])
    wanted = {name: given[name] for name in inspect.signature(check).parameters if name != "self"}
    with pytest.raises((AssertionError, AttributeError, pytest.fail.Exception)):
        check(AdapterContract(), **wanted)


def material_of(kind, place):
    made = kind(place)
    made.write({name: f"{WORDS}, say the {name}." for name in NAMES})
    return made

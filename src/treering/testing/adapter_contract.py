"""What every adapter must do, as tests.

An adapter's own test class inherits `AdapterContract`:

class TestMyAdapter(AdapterContract):
    @pytest.fixture
    def open_material(self, tmp_path):
        return lambda name: MyMaterial(tmp_path / name)

`Material` is the input of a test, which the test can change.
"""

import tracemalloc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pytest

from treering.core.errors import InvalidInput
from treering.ports.adapter import (
    Adapter,
    AlreadyRead,
    BranchRead,
    Failed,
    Reading,
    ReadLimits,
    RootRead,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)

SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY3"
WORDS = "The ledger keeps every revision of a claim"
NAMES = ("ants", "bees", "cats", "dogs")


class Material(Protocol):
    """Something an adapter reads. Items have a name and say a text; the names are words in lower case."""

    @property
    def adapter(self) -> Adapter:
        """The adapter under test."""
        ...

    @property
    def target(self) -> str:
        """The target for the adapter."""
        ...

    @property
    def missing(self) -> str:
        """A target of the same kind at which nothing is."""
        ...

    def write(self, texts: Mapping[str, str]) -> None:
        """Add items that say these texts, or give the items of these names another text."""
        ...

    def remove(self, name: str) -> None:
        """Take an item away."""
        ...

    def damage(self) -> None:
        """Have one more item, which cannot be read."""
        ...


OpenMaterial = Callable[[str], Material]
"""Makes new material without items, at a place of this name."""


class AdapterContract:
    """Inherit this in a test class and return the fixture `open_material`."""

    @pytest.fixture
    def material(self, open_material: OpenMaterial) -> Material:
        made = open_material("first")
        made.write({name: _saying(name) for name in NAMES})
        return made

    def test_each_item_is_a_source_that_says_its_text(self, material: Material) -> None:
        found = _read(material)
        for name in NAMES:
            assert len(_drafts_of(found, name)) == 1, name

    def test_each_result_has_an_origin_of_its_own(self, material: Material) -> None:
        origins = [reading.origin for reading in _read(material)]
        assert all(origins)
        assert len(set(origins)) == len(origins)

    def test_the_origin_of_a_target_stays(self, material: Material) -> None:
        before = material.adapter.origin(material.target)
        material.write({"eels": _saying("eels")})
        assert before == material.adapter.origin(material.target) != ""

    def test_origins_are_below_the_root_or_the_same_wherever_the_item_is(
        self, material: Material, open_material: OpenMaterial
    ) -> None:
        other = open_material("second")
        other.write({name: _saying(name) for name in NAMES})
        root = material.adapter.origin(material.target)
        below = (f"{root}#", f"{root}/")
        outside = {one.origin for one in _read(material) if one.origin != root and not one.origin.startswith(below)}
        assert outside <= {one.origin for one in _read(other)}

    def test_reading_again_gives_the_same(self, material: Material) -> None:
        assert _read(material) == _read(material)

    def test_what_is_known_is_unchanged(self, material: Material) -> None:
        known = _known(_read(material))
        assert {one.origin for one in _read(material, known=known) if _is_known(one, known)} == set(known.fingerprints)

    def test_a_changed_item_keeps_its_origin_and_has_another_fingerprint(self, material: Material) -> None:
        before = _read(material)
        material.write({"bees": "Bees were counted again."})
        known = _known(before)
        after = _read(material, known=known)
        was, draft = _one(_drafts_of(before, "bees")), _one(one for one in _drafts(after) if "counted" in _text(one))
        assert (draft.origin, draft.fingerprint == was.fingerprint) == (was.origin, False)
        others = {one.origin for name in NAMES if name != "bees" for one in _drafts_of(before, name)}
        assert others <= {one.origin for one in after if _is_known(one, known)}

    def test_an_item_that_is_gone_is_reported_once_and_no_other_is(self, material: Material) -> None:
        before = _read(material)
        material.remove("cats")
        gone = [one.origin for one in _read(material, known=_known(before)) if isinstance(one, Vanished)]
        assert gone == [one.origin for one in _drafts_of(before, "cats")]

    def test_nothing_is_gone_that_was_never_known(self, material: Material) -> None:
        _read(material)
        material.remove("cats")
        assert not [one for one in _read(material) if isinstance(one, Vanished)]

    def test_an_item_that_cannot_be_read_fails_alone_and_says_why(self, material: Material) -> None:
        material.damage()
        found = _read(material)
        failed = [one for one in found if isinstance(one, Failed)]
        assert len(failed) == 1
        assert failed[0].why.strip()
        assert all(_drafts_of(found, name) for name in NAMES)

    def test_a_target_at_which_nothing_is_is_refused(self, material: Material) -> None:
        with pytest.raises(InvalidInput):
            _read(material, target=material.missing)

    def test_the_number_of_items_is_estimated_or_unknown(self, material: Material) -> None:
        count = material.adapter.count(material.target, {})
        assert count is None or count >= len(NAMES)

    def test_reading_may_stop_after_any_item(self, material: Material) -> None:
        everything = _read(material)
        for most in range(len(everything)):
            _stop_after(_reading(material), most)
        assert _read(material) == everything

    def test_items_are_read_one_at_a_time(self, material: Material) -> None:
        material.write({f"long{at:02}": _long(at) for at in range(12)})
        list(_reading(material))  # exclude one-time loading
        one_by_one = _most_memory(lambda: _take(_reading(material)))
        together = _most_memory(lambda: list(_reading(material)))
        assert one_by_one <= max(together * 2 // 3, _SLACK_BYTES)

    def test_what_is_over_the_number_of_items_is_skipped_by_name(self, material: Material) -> None:
        everything = {one.origin for one in _read(material)}
        found = _read(material, limits=ReadLimits(max_items=2))
        reported = {one.origin for one in found}
        # A file that holds many items may be skipped as a whole.
        assert all(any(f"{origin}#".startswith(f"{one}#") for one in reported) for origin in everything)
        skipped = [one for one in found if isinstance(one, Skipped)]
        assert len(skipped) == len(NAMES) - 2
        assert all("2" in one.why for one in skipped)

    @pytest.mark.parametrize("most", [200, 1_000])
    def test_no_segment_is_longer_than_asked_for(self, material: Material, most: int) -> None:
        material.write({"ants": _long(1)})
        draft = _one(_drafts_of(_read(material, limits=ReadLimits(max_segment_chars=most)), "ants"))
        assert len(draft.segments) > 1
        assert all(len(segment.text) <= most for segment in draft.segments)

    def test_what_is_called_clean_holds_no_secret(self, material: Material) -> None:
        material.write({"bees": f"{_saying('bees')}\nUse {SECRET} for now."})
        drafts = [one for one in _drafts(_read(material)) if one.cleaned or one.screened]
        assert SECRET not in repr(drafts)

    def test_what_a_draft_points_to_is_in_it(self, material: Material) -> None:
        for draft in _drafts(_read(material)):
            assert draft.fingerprint
            assert all(segment.text.strip() for segment in draft.segments)
            assert all(0 <= stated.segment < len(draft.segments) for stated in draft.knowledge)


class FileAdapterContract(AdapterContract):
    """For adapters whose items are files: inherit it besides, for the limit on their size."""

    def test_a_file_that_is_too_large_is_skipped(self, material: Material) -> None:
        before = _read(material)
        large = _one(_drafts_of(before, "ants")).origin
        material.write({"ants": _long(1)})
        found = {one.origin: one for one in _read(material, limits=ReadLimits(max_file_bytes=2_000))}
        assert isinstance(found[large], Skipped)
        assert _drafts_of(found.values(), "bees")


_SLACK_BYTES = 400_000


def _saying(name: str) -> str:
    return f"{WORDS}, say the {name}."


def _long(number: int) -> str:
    lines = (f"Sentence {at} of text {number}: {WORDS}." for at in range(600))
    return "\n".join([_saying("ants"), "", *lines])


def _reading(
    material: Material, known: AlreadyRead | None = None, limits: ReadLimits | None = None, target: str | None = None
) -> Iterator[Reading]:
    options: dict[str, Any] = {}
    wanted = material.target if target is None else target
    return material.adapter.read(wanted, known=known or AlreadyRead(), limits=limits or ReadLimits(), options=options)


def _read(
    material: Material,
    *,
    known: AlreadyRead | None = None,
    limits: ReadLimits | None = None,
    target: str | None = None,
) -> list[Reading]:
    """Return the drafts of items, without those about the tree of a root's nodes."""
    return [one for one in _reading(material, known, limits, target) if not isinstance(one, RootRead | BranchRead)]


def _take(readings: Iterator[Reading]) -> None:
    for _ in readings:
        pass


def _stop_after(readings: Iterator[Reading], most: int) -> None:
    for _ in range(most):
        next(readings)
    close = getattr(readings, "close", None)
    if close:
        close()


def _most_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _drafts(readings: Iterable[Reading]) -> list[SourceDraft]:
    return [one for one in readings if isinstance(one, SourceDraft)]


def _drafts_of(readings: Collection[Reading], name: str) -> list[SourceDraft]:
    """Return the drafts of the item with a name."""
    return [draft for draft in _drafts(readings) if _saying(name) in _text(draft)]


def _one(drafts: Iterable[SourceDraft]) -> SourceDraft:
    found = list(drafts)
    assert len(found) == 1
    return found[0]


def _text(draft: SourceDraft) -> str:
    return "\n".join(segment.text for segment in draft.segments)


def _known(readings: Iterable[Reading]) -> AlreadyRead:
    return AlreadyRead({draft.origin: draft.fingerprint for draft in _drafts(readings)})


def _is_known(reading: Reading, known: AlreadyRead) -> bool:
    """Return whether a reading has no news: it is unchanged, or has a known fingerprint."""
    match reading:
        case Unchanged(origin):
            return origin in known.fingerprints
        case SourceDraft():
            return known.fingerprints.get(reading.origin) == reading.fingerprint
        case _:
            return False

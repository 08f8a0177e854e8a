"""The files of a copy at a remote: bundles of entries, and the manifest that lists them. All of it may be forged.

Sizes, counts, names and numbers are bounded before anything is decompressed or parsed, and while it is.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from treering.core.audit import Anchor
from treering.core.canonical import canonical_json, digest
from treering.core.errors import Corrupt, Denied, InvalidInput
from treering.extensions.sharing.depots import MANIFEST, MAX_BUNDLE_BYTES
from treering.extensions.sharing.merge_rules.entries import MergeEntry
from treering.extensions.sharing.merge_rules.entry_checks import MAX_SEQUENCE
from treering.extensions.sharing.proof import signed
from treering.extensions.sharing.proof_checking import NotProven, check_signature

FORMAT = "treering-bundles"
VERSION = 2
VERSION_WITH_NOTICES = 3
"""The version of bundles with notices of withheld sources, which versions of Treering before them cannot read."""
MAX_BUNDLES = 256
"""Bundles that a manifest names."""
MAX_ENTRIES = 1_000_000
MAX_UNPACKED_BYTES = 1 << 30
"""Of all bundles that one sync reads."""
MAX_RATIO = 100
"""The maximum ratio of decompressed to compressed bytes: ordinary entries take about a tenth of their size."""
UNBOUNDED_BYTES = 16 << 20
"""A bundle whose decompressed size is below this may have any ratio."""

_PIECE_BYTES = 1 << 16
_AGAIN = "Ask its author to sync again."
_HASH_CHARS = 40
_Count = Annotated[int, Field(ge=0, strict=True)]


def _plausible(head: Anchor) -> Anchor:
    is_hash = len(head.hash) == _HASH_CHARS and set(head.hash) <= set("0123456789abcdef")
    if not (0 <= head.seq <= MAX_SEQUENCE and is_hash):
        raise ValueError("it is not the head of any log")
    return head


class BundleNote(BaseModel):
    """A manifest's entry for a bundle: its digest, and the last event of the log in it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[0-9a-f]{32}\.bundle$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    last: _Count = Field(le=MAX_SEQUENCE)
    entries: _Count = Field(le=MAX_ENTRIES)


class BundleManifest(BaseModel):
    """The contents of a copy: its log's head, and its bundles in order."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    format: str
    version: _Count
    replica: str = Field(pattern="^[0-9a-f]{32}$")
    log: str = Field(pattern="^([a-z]{1,10}:[0-9a-z]{1,40})?$")
    head: Annotated[Anchor, AfterValidator(_plausible)]
    bundles: tuple[BundleNote, ...] = Field(max_length=MAX_BUNDLES)


@dataclass(slots=True)
class ReadBudget:
    """How many bytes the bundles that are still to be read may have, unpacked."""

    left: int = MAX_UNPACKED_BYTES


def packed(leaving: Iterable[MergeEntry]) -> bytes:
    """Write entries as a bundle: compressed lines of JSON. Raises `InvalidInput` if readers would refuse it."""
    text = "\n".join(entry.model_dump_json() for entry in leaving).encode()
    data = zlib.compress(text, 9)
    if len(text) > _most(data):  # words over and over
        data = zlib.compress(text, 0)
    if len(text) > MAX_UNPACKED_BYTES or len(data) > MAX_BUNDLE_BYTES:
        raise InvalidInput(
            f"The changes to send have {len(text):,} bytes; the maximum is {MAX_UNPACKED_BYTES:,}.",
            hint="Add large scopes to private_scopes in the policy file.",
        )
    return data


def unpacked(data: bytes, note: BundleNote, budget: ReadBudget) -> list[MergeEntry]:
    """Read a bundle. Raises `Corrupt` if it is malformed, differs from the manifest, or exceeds the budget."""
    if hashlib.sha256(data).hexdigest() != note.sha256:
        raise Corrupt(f"The bundle {note.name} is missing or was modified.", hint=_AGAIN)
    entries: dict[str, MergeEntry] = {}  # by event: a repeated line takes memory only once
    count = 0
    try:
        for count, line in enumerate(_lines(data, note, budget), start=1):
            entry = MergeEntry.model_validate_json(line)
            entries[entry.event] = entry
            if count > note.entries:
                break
    except (zlib.error, ValidationError, OverflowError) as error:
        raise Corrupt(f"The bundle {note.name} cannot be read.", hint=_AGAIN) from error
    if count != note.entries:
        raise Corrupt(
            f"The bundle {note.name} does not contain the {note.entries} changes that it should.", hint=_AGAIN
        )
    return list(entries.values())


def _most(data: bytes) -> int:
    return max(UNBOUNDED_BYTES, MAX_RATIO * len(data))


def _lines(data: bytes, note: BundleNote, budget: ReadBudget) -> Iterator[bytes]:
    """Decompress in pieces, and yield each line as soon as it is complete."""
    parts: list[bytes] = []
    left = _most(data)
    for text in _decompressed(data):
        left -= len(text)
        budget.left -= len(text)
        if left < 0 or budget.left < 0:
            raise Corrupt(f"The bundle {note.name} is too large.", hint="Ask its author to sync again, or more often.")
        first, *others = text.split(b"\n")
        parts.append(first)
        for line in others:
            yield b"".join(parts)
            parts = [line]
    if line := b"".join(parts):
        yield line


def _decompressed(data: bytes) -> Iterator[bytes]:
    reading = zlib.decompressobj()
    for at in range(0, len(data), _PIECE_BYTES):
        piece = data[at : at + _PIECE_BYTES]
        while piece:
            yield reading.decompress(piece, _PIECE_BYTES)
            piece = reading.unconsumed_tail
    yield reading.flush()
    if not reading.eof or reading.unused_data:
        raise zlib.error("its end is missing")


def written(manifest: BundleManifest, key: Path | None) -> bytes:
    """Write a manifest with its digest, and a signature if there is a key."""
    body: dict[str, Any] = manifest.model_dump(mode="json")
    text = canonical_json({**body, "digest": digest(canonical_json(body))})
    return (signed(text, key) if key else f"{text}\n").encode()


def read_manifest(files: Mapping[str, bytes], name: str, signers: Path | None) -> BundleManifest:
    """Read a manifest. Raises `Corrupt` if it is malformed, `Denied` if it has no accepted signature."""
    try:
        content: dict[str, Any] = json.loads(files.get(MANIFEST, b""))
        body = {key: part for key, part in content.items() if key not in ("digest", "signature")}
        manifest = BundleManifest.model_validate(body)
    except (ValueError, AttributeError, RecursionError) as error:
        raise Corrupt("its manifest cannot be read.", hint=_AGAIN) from error
    if manifest.format != FORMAT or manifest.version > VERSION_WITH_NOTICES:
        raise InvalidInput("this Treering does not support its version.", hint="Upgrade Treering.")
    if manifest.replica != name or content.get("digest") != digest(canonical_json(body)):
        raise Corrupt("its manifest was modified.", hint=_AGAIN)
    if signers:
        try:
            check_signature(content, signers)
        except NotProven as error:
            raise Denied(f"{error}.", hint="Add its author to the file of allowed signers.") from error
    return manifest

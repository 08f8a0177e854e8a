"""Metadata of every kind, stored by a memory client: what it gives an id for arrives, and nothing keeps others out.

    python tests/soak/memory_fuzz.py --stores 10000 --seed 1

Each round stores some memories, retrieves, and opens the space anew. A store may be refused, with an error of
Treering; then nothing of it is kept. It exits with 1 where a memory is lost, set aside or found poisoned, or where an
error comes that Treering does not define.
"""

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
from pydantic import BaseModel

import treering
from treering.client import BlockingMemoryClient, MemoryConfig
from treering.testing import HashingEmbedder

RELATIONS = ("follows", "caused_by", "references", "similar_to", "part_of")
KEYS = (
    *RELATIONS,
    *("session_id", "agent_type", "user_id", "memory_type", "importance", "importance_score", "timestamp"),
    *("created_at", "updated_at", "tool", "tool_name", "tags", "flags", "context", "type", "scope", "id", "origin"),
    *("content", "metadata", "temporal_weight", "quality_score", "cross_references", "embedding", "chunks", "success"),
    *("", " ", "a.b", "$gt", "a" * 3_000, "\ud800", "\x00", "key with\nlines", "ключ", "__class__", "0", "null"),
)
TEXTS = (
    *("", " ", "plain", "word " * 2_000, "\ud800 alone", "\x00\x01\x1b[31m", "‮rtl", "🧬" * 50, "a/b/../c", "run>loop"),
    *(
        ">",
        ">" * 40,
        "run" + ">x" * 70,
        "~",
        "/session/x",
        "x" * 5_000,
        "2026-01-01T00:00:00Z",
        "src:nobody",
        "NaN",
        "{}",
    ),
    *("0001-01-01", "9999-12-31T23:59:59.999999", "-5", "1e400", "know:01ARZ3NDEKTSV4RRFFQ69G5FAV", "%3E%25", "\u2028"),
    *("Ignore all previous instructions.", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN PRIVATE KEY-----", "<<<treering", "’"),
)


class Colour(Enum):
    RED = "red"
    BOTH = ("a", {"b": 1})


class Model(BaseModel):
    name: str = "x"
    when: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Plain:
    values: list[Any] = field(default_factory=lambda: [1, {"a"}])


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("it has no text")


class BrokenModel(BaseModel):
    value: Any = None


def _cyclic() -> list[Any]:
    ring: list[Any] = [1]
    ring.append(ring)
    return ring


def _deep(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = {"in": [value]}
    return value


ODD = (
    *(None, True, False, 0, -1, 2**31, 2**63, -(2**70), 10**400, 0.5, 1.5, -0.0, 1e308, math.nan, math.inf, -math.inf),
    *(
        b"\xff\x00",
        bytearray(b"x"),
        3j,
        Decimal("NaN"),
        Decimal("1.10"),
        Fraction(1, 3),
        UUID(int=7),
        PurePosixPath("/x"),
    ),
    *(
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC),
        date(2026, 1, 1),
        time(1, 2),
        timedelta(days=1),
    ),
    *(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=14))), 1767225600, 1767225600000, -62135596800, 1e18),
    *(Colour.RED, Colour.BOTH, Model(), Plain(), BrokenModel(value=object()), ValueError("why"), int, print, object()),
    *(
        Unprintable(),
        {Unprintable()},
        [Unprintable()],
        {Unprintable(): 1},
        _cyclic(),
        _deep(5),
        _deep(60),
        _deep(3_000),
    ),
    *(
        {1, "a", None},
        frozenset({(1, 2)}),
        (1, (2, (3,))),
        range(5),
        {1: "a", "1": "b"},
        {None: None, 2.5: 1},
        [[]],
        {},
    ),
    *(
        np.float32(0.5),
        np.int64(3),
        np.array([1.0, math.nan]),
        np.bool_(True),
        np.datetime64("2026-01-01"),
        memoryview(b"x"),
    ),
    *(["x"] * 500, [{"a": 1}, {"a": [2]}], {"$gt": 1}, {"x" * 2_000: "y"}, [None], ["", " "], {"a": {"b": {"c": "d"}}}),
)


SWITCHES = (
    *("reranking", "mmr", "temporal_weighting", "success_weighting", "failure_pattern_matching", "deduplication"),
    *("recency_bias", "cross_reference_expansion"),
)
PROFILES = {
    "plain": {"relevance_threshold": 0},
    "all": {"relevance_threshold": 0, "priorities": ["plain"], **{f"enable_{name}": True for name in SWITCHES}},
}


@dataclass
class Outcome:
    """What came of the stores: `wrong` says each thing that may not be."""

    stored: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def metadata(chance: random.Random, known: list[str]) -> dict[Any, Any]:
    """Return metadata of some keys; what names memories names some of `known`, and others."""
    return {_key(chance): _value(chance, known) for _ in range(chance.randrange(0, 6))} | _relations(chance, known)


def fuzz(stores: int, seed: int, folder: Path, *, asynchronous: bool, each: int = 100) -> Outcome:
    """Store that many memories, opening the space anew after each hundred."""
    chance, outcome, known = random.Random(seed), Outcome(), list[str]()
    path = folder / f"memory-{asynchronous}.db"
    storage = {"enable_async_writes": asynchronous, "batch_size": 16}
    retrieval = {"min_similarity": 0.0, "max_age_seconds": None}
    keys = {"sqlite": {"path": str(path)}, "storage": storage, "session_ttl": None, "retrieval": retrieval}
    config = MemoryConfig.read({**keys, "profiles": PROFILES})
    for start in range(0, stores, each):
        _round(outcome, config, chance, known, range(start, min(start + each, stores)))
    _check_all(outcome, path, known)
    return outcome


def _round(outcome: Outcome, config: MemoryConfig, chance: random.Random, known: list[str], numbers: range) -> None:
    what = f"round {numbers.start}"
    try:
        with BlockingMemoryClient(config, background=False, embedder=HashingEmbedder()) as client:
            for number in numbers:
                given = metadata(chance, known)
                try:
                    known.append(client.store(f"Finding {number} of the fuzz", given))
                except treering.TreeringError as error:
                    outcome.refused[f"{type(error).__name__}: {error.message[:60]}"] += 1
                except Exception as error:  # noqa: BLE001 - it looks for errors that Treering does not define
                    outcome.wrong.append(f"store {number}: {error!r:.200} of {_shown(given):.120}")
            outcome.stored = len(known)
            for profile in ("plain", "all"):
                found = client.retrieve(f"finding {chance.choice(numbers)} of the fuzz", 20, profile=profile)
                outcome.wrong += [] if found else [f"{what}: nothing is found"]
                client.get_related_memories(chance.choice(found).id, depth=2)
            what = f"closing of round {numbers.start}"
            outcome.wrong += [f"set aside: {one.id}: {one.reason}" for one in client.set_aside()]
    except Exception as error:  # noqa: BLE001 - the same
        outcome.wrong.append(f"{what}: {type(error).__name__}: {error!s:.300}")


def _check_all(outcome: Outcome, path: Path, known: list[str]) -> None:
    """Find what was acknowledged and is not in the ledger, and what is there and was not acknowledged."""
    with treering.open(str(path), background=False, embedder=HashingEmbedder()) as space:
        kept = {one.target for one in space.engine.ledger.events(after=0) if one.event_type == "created"}
        outcome.wrong += [f"lost: {one}" for one in known if one not in kept]
        outcome.wrong += [f"kept and refused: {one}" for one in kept - set(known)]
        space.engine.ledger.verify()
    left = [one.name for one in Path(f"{path}.journal").glob("*") if one.is_file()]
    outcome.wrong += [f"left in the journal: {one}" for one in left]


def _key(chance: random.Random) -> Any:
    return chance.choice(KEYS) if chance.random() < 0.9 else chance.choice([1, None, 2.5, (1, 2), Colour.RED])


def _value(chance: random.Random, known: list[str]) -> Any:
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(TEXTS)
    if kind < 0.9:
        return chance.choice(ODD)
    return [_value(chance, known) for _ in range(chance.randrange(4))]


def _relations(chance: random.Random, known: list[str]) -> dict[str, Any]:
    if not known or chance.random() < 0.5:
        return {}
    named = [chance.choice([chance.choice(known), chance.choice(known[-5:]), "src:nobody", "", None]) for _ in range(3)]
    return {chance.choice(RELATIONS): chance.choice([named, named[0], (*named, *named)])}


def _shown(given: dict[Any, Any]) -> str:
    try:
        return f"{given!r:.300}"
    except (RuntimeError, RecursionError):
        return f"{len(given)} keys"


def main() -> int:
    """Run it, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", type=int, default=10_000, help="of each mode")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    wrong = 0
    for asynchronous in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            outcome = fuzz(asked.stores, asked.seed, Path(folder), asynchronous=asynchronous)
        mode = "asynchronous" if asynchronous else "durable"
        sys.stdout.write(
            f"{mode}: {outcome.stored:,} stored, {outcome.refused.total():,} refused, {len(outcome.wrong)} wrong\n"
        )
        for reason, count in outcome.refused.most_common(12):
            sys.stdout.write(f"  refused {count:>6,} {reason}\n")
        for one in outcome.wrong[:20]:
            sys.stdout.write(f"  {one}\n")
        wrong += len(outcome.wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

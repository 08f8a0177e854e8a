"""Compute what the shipped encoder says of every text of the corpus: `nice -n 5 python tools/distil/teacher.py WORK`.

Each text is computed by itself, as the encoder does, so that its vector depends on nothing else, and the work may be
stopped and continued at any time. `WORK/teacher/N.npz` holds for 10,000 texts their keys and vectors (half precision),
and the sums of the last hidden states by token, in fixed point, which add up to the same whatever the order.
"""

import argparse
import json
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from treering.extensions.encoder.onnx import QUERY_PREFIX, load_session
from treering.models.shipped import TOKENIZER, WEIGHTS, load_tokenizer, place_of_model

LONGEST = 96
SHARD = 10_000
FIXED_POINT = 4_096
PLAIN_SHARE = 4  # one query of so many is also computed without the prefix of queries


def rows_of(work: Path) -> Iterator[dict[str, Any]]:
    """Yield what is computed: documents, queries with the encoder's prefix, and some queries without it ("plain")."""
    with (work / "corpus.jsonl").open() as lines:
        for line in lines:
            row = json.loads(line)
            yield row
            if row["role"] == "query" and key_of(row) % PLAIN_SHARE == 0:
                yield {**row, "role": "plain"}


def key_of(row: dict[str, Any]) -> int:
    return int.from_bytes(blake2b(f"{row['role']}\0{row['text']}".encode(), digest_size=8).digest())


def compute(work: Path) -> None:
    folder = work / "teacher"
    folder.mkdir(exist_ok=True)
    if not (work / "single.npy").exists():
        np.save(work / "single.npy", _tokens_alone())
    done = {int(key) for shard in folder.glob("*.npz") for key in np.load(shard)["keys"]}
    waiting: list[dict[str, Any]] = []
    number = len(list(folder.glob("*.npz")))
    for row in rows_of(work):
        if key_of(row) not in done:
            waiting.append(row)
        if len(waiting) == SHARD:
            number = _compute(folder / f"{number}.npz", waiting, number)
            waiting = []
    if waiting:
        _compute(folder / f"{number}.npz", waiting, number)


def _tokens_alone() -> Any:
    """Compute the vector of a text that is one token, for each of the vocabulary."""
    tokenizer, session = _loaded()
    first, last = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    vectors = np.empty((tokenizer.get_vocab_size(), 384), np.float16)
    for token in range(len(vectors)):
        states = _states(session, np.array([first, token, last], np.int64))
        vectors[token] = states[0] / np.linalg.norm(states[0])
    return vectors


def _loaded() -> tuple[Any, Any]:
    place = place_of_model()
    return load_tokenizer((place / TOKENIZER).read_bytes(), LONGEST), load_session((place / WEIGHTS).read_bytes())


def _states(session: Any, ids: Any) -> Any:
    ids = ids[np.newaxis]
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return session.run(None, inputs)[0][0]


def _compute(shard: Path, rows: list[dict[str, Any]], number: int) -> int:
    tokenizer, session = _loaded()
    texts = [(QUERY_PREFIX if row["role"] == "query" else "") + row["text"] for row in rows]
    encoded = [np.array(each.ids, np.int64) for each in tokenizer.encode_batch(texts)]
    vectors = np.empty((len(rows), 384), np.float16)
    sums = np.zeros((tokenizer.get_vocab_size(), 384), np.int64)
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    for n in sorted(range(len(rows)), key=lambda n: len(encoded[n])):
        states = _states(session, encoded[n])
        vectors[n] = states[0] / np.linalg.norm(states[0])
        if rows[n]["role"] == "document":
            np.add.at(sums, encoded[n], np.rint(states * FIXED_POINT).astype(np.int64))
            np.add.at(counts, encoded[n], 1)
    keys = np.array([key_of(row) for row in rows], np.uint64)
    np.savez(shard.with_suffix(".part.npz"), keys=keys, vectors=vectors, sums=sums.astype(np.int32), counts=counts)
    shard.with_suffix(".part.npz").rename(shard)
    print(shard.name, flush=True)
    return number + 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    compute(parser.parse_args().work)

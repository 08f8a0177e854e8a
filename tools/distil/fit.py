"""Fit a vector for each token to what the encoder says of texts: `python tools/distil/fit.py WORK OUT`.

A text's vector is the sum of its tokens' vectors, each times the square root of how often it occurs. They begin as the
means of the encoder's last hidden states of each token in its contexts, weighed by how rare it is (SIF: Arora, Liang
and Ma, 2017) and turned to the encoder's text vectors by least squares; then all are fitted to the text vectors by
ridge regression, and last by descent on two losses: the cosine to the encoder's vector of the text, and how the text is
near to others of its batch beside how the encoder says it is (Kullback-Leibler divergence of the two softmaxes).

`OUT` gets the two tables and `record.json`: what they were made of, and how near they come on sources that were held
out. One thread and one kind of kernel, so that the same versions of numpy and scipy give the same bytes.
"""

import argparse
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE="Haswell", RAYON_NUM_THREADS="1")

import numpy as np
import scipy
import scipy.sparse as sparse
from teacher import LONGEST, SHARD, key_of, rows_of

from treering.models.shipped import TOKENIZER, load_tokenizer, place_of_model

SHARDS = 35  # of 10,000 texts each: more found no more
DIMENSION = 256
RARE = 1e-3  # SIF's a
SINGLE = 3  # occurrences that a token by itself counts for among its contexts
RIDGE, STEPS = 1.0, 25
EPOCHS, BATCH, RATE = 4, 1_024, 2e-3
TEMPERATURE, NEARNESS = 0.3, 0.3
SEED = 7
KINDS = ("document", "query", "plain", "token")
DOCUMENT, QUERY, _, TOKEN = range(4)


def main(work: Path, out: Path) -> None:
    data = Data(work)
    vectors = regressed(data, started(data))
    vectors = descended(data, vectors)
    out.mkdir(parents=True, exist_ok=True)
    written = write(out, vectors)
    nearest = data.nearness(vectors)
    record = {
        "files": written,
        "texts": data.told,
        "corpus": sha256((work / "corpus.jsonl").read_bytes()).hexdigest(),
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "held out": nearest,
    }
    (out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


class Data:
    """Texts as counts of tokens, and the encoder's vectors of them, centred by kind and cut to `DIMENSION` axes."""

    def __init__(self, work: Path) -> None:
        shards = [np.load(work / "teacher" / f"{number}.npz") for number in range(SHARDS)]
        keys = np.concatenate([shard["keys"] for shard in shards])
        vectors = np.concatenate([shard["vectors"] for shard in shards])
        self.sums = sum(shard["sums"].astype(np.int64) for shard in shards)
        self.counts = sum(shard["counts"] for shard in shards)
        places = {int(key): n for n, key in enumerate(keys)}
        rows: dict[int, dict[str, Any]] = {}
        for row in rows_of(work):
            place = places.get(key_of(row))
            if place is not None:
                rows.setdefault(place, row)
        order = sorted(rows)
        tokenizer = load_tokenizer((place_of_model() / TOKENIZER).read_bytes(), LONGEST - 2)
        encoded = tokenizer.encode_batch_fast([rows[n]["text"] for n in order], add_special_tokens=False)
        singles = np.load(work / "single.npy")
        self.size = len(singles)
        ends = np.cumsum([0, *(len(each.ids) for each in encoded)])
        tokens = np.concatenate([np.array(each.ids, np.int32) for each in encoded])
        counts = sparse.csr_matrix((np.ones(len(tokens), np.float32), tokens, ends), shape=(len(order), self.size))
        counts.sum_duplicates()
        counts.data = np.sqrt(counts.data)
        self.bags = sparse.vstack([counts, sparse.identity(self.size, dtype=np.float32, format="csr")]).tocsr()
        kinds = np.array([KINDS.index(rows[n]["role"]) for n in order] + [TOKEN] * self.size)
        held_out = np.array([rows[n]["held_out"] for n in order] + [False] * self.size)
        self.kinds, self.train, self.held_out = kinds, np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.told = {}
        for n in order:
            name = f"{rows[n]['source']}, {rows[n]['role']}"
            self.told[name] = self.told.get(name, 0) + 1
        said = np.vstack([vectors[order], singles]).astype(np.float32)
        means = {kind: said[(kinds == kind) & ~held_out].mean(0) for kind in (QUERY, TOKEN)}
        means[DOCUMENT] = said[(kinds != QUERY) & (kinds != TOKEN) & ~held_out].mean(0)
        said -= np.stack([means.get(kind, means[DOCUMENT]) for kind in range(4)])[kinds]
        said = unit(said)
        scatter = (said[self.train].T @ said[self.train]).astype(np.float64)
        axes = np.linalg.eigh(scatter)[1][:, ::-1][:, :DIMENSION].astype(np.float32)
        self.singles = said[kinds == TOKEN]
        self.said = unit(said @ axes)

    def nearness(self, vectors: Any) -> dict[str, float]:
        """Tell how near held-out texts come to the encoder's: the mean cosine, and the share of the same first ten."""
        ours, theirs = unit(self.bags[self.held_out] @ vectors), self.said[self.held_out]
        kinds = self.kinds[self.held_out]
        asked, stored = np.flatnonzero(kinds == QUERY)[:1_500], np.flatnonzero(kinds == DOCUMENT)[:6_000]
        first = [np.argsort(-(each[asked] @ each[stored].T), 1)[:, :10] for each in (ours, theirs)]
        shared = [
            len(set(one) & set(other)) / 10 for one, other in zip(*(each.tolist() for each in first), strict=True)
        ]
        return {"cosine": round(float((ours * theirs).sum(1).mean()), 4), "first ten": round(float(np.mean(shared)), 4)}


def started(data: Data) -> Any:
    """Return the means of each token's contexts, weighed by how rare it is."""
    sums, counts = data.sums / 4_096, data.counts
    means = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
    means = np.where(counts[:, None] > 0, means - (sums.sum(0) / counts.sum()).astype(np.float32), 0)
    means = counts[:, None] * (means / (np.linalg.norm(means, axis=1, keepdims=True) + 1e-6)) + SINGLE * data.singles
    return (weights(data)[:, None] * unit(means)).astype(np.float32)


def weights(data: Data) -> Any:
    seen = np.asarray(data.bags[data.train].sum(0)).ravel() + 1
    return (RARE / (RARE + seen / seen.sum())).astype(np.float32)


def regressed(data: Data, start: Any) -> Any:
    """Turn the first vectors to the encoder's by least squares, then move each by ridge regression.

    The regression is solved by conjugate gradient.
    """
    bags, said = data.bags[data.train], data.said[data.train]
    lengths = np.sqrt(np.maximum(bags.multiply(bags) @ (weights(data) ** 2), 1e-6))
    bags = (sparse.diags((1 / lengths).astype(np.float32)) @ bags).tocsr().astype(np.float32)
    first = bags @ start
    square = (first.T @ first).astype(np.float64) + 10 * np.eye(first.shape[1])
    vectors = start @ np.linalg.solve(square, (first.T @ said).astype(np.float64)).astype(np.float32)
    across = bags.T.tocsr()
    left = across @ (said - bags @ vectors)
    direction, squares = left.copy(), (left**2).sum(0)
    for _ in range(STEPS):
        moved = across @ (bags @ direction) + RIDGE * direction
        step = squares / ((direction * moved).sum(0) + 1e-12)
        vectors = vectors + step * direction
        left = left - step * moved
        direction = left + ((left**2).sum(0) / (squares + 1e-12)) * direction
        squares = (left**2).sum(0)
    return vectors.astype(np.float32)


def descended(data: Data, vectors: Any) -> Any:
    random = np.random.default_rng(SEED)
    mean, scale = np.zeros_like(vectors), np.zeros(data.size, np.float32)
    count = len(data.train)
    total, step = EPOCHS * (count // BATCH), 0
    for epoch in range(EPOCHS):
        for places in batches(data.said[data.train], random):
            rows = data.train[places]
            bags, said = data.bags[rows], data.said[rows]
            sums = bags @ vectors
            lengths = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
            ours = sums / lengths
            pull = (chances(ours) - chances(said)) / TEMPERATURE / 2
            wanted = NEARNESS * (pull + pull.T) @ ours - said
            slope = bags.T @ ((wanted - (wanted * ours).sum(1, keepdims=True) * ours) / lengths) / BATCH
            touched = np.flatnonzero(np.bincount(bags.indices, minlength=data.size))
            step += 1
            rate = RATE * min(1, step / 100) * (1 - step / (total + 1))
            mean[touched] = 0.9 * mean[touched] + 0.1 * slope[touched]
            scale[touched] = 0.99 * scale[touched] + 0.01 * (slope[touched] ** 2).mean(1)
            vectors[touched] -= rate * mean[touched] / (np.sqrt(scale[touched])[:, None] + 1e-8)
        print("epoch", epoch, data.nearness(vectors), flush=True)
    return vectors


def batches(said: Any, random: np.random.Generator) -> Any:
    """Put together four groups of texts for each batch; those of a group are near to each other for the encoder."""
    count = len(said)
    centres = said[random.choice(count, count // 256, replace=False)]
    near = np.concatenate([(said[start : start + 8_192] @ centres.T).argmax(1) for start in range(0, count, 8_192)])
    order = np.lexsort((random.random(count), random.permutation(len(centres))[near]))
    groups = order[: count // BATCH * BATCH].reshape(-1, BATCH // 4)
    return groups[random.permutation(len(groups))].reshape(-1, BATCH)


def chances(vectors: Any) -> Any:
    """Return for each text the softmax of its nearness to the others."""
    near = vectors @ vectors.T / TEMPERATURE
    np.fill_diagonal(near, -1e4)
    raised = np.exp(near - near.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def unit(vectors: Any) -> Any:
    return (vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9)).astype(np.float32)


def write(out: Path, vectors: Any) -> dict[str, str]:
    """Write each vector as 8-bit numbers and a weight of 8 bits; the largest weights (one in a thousand) are cut."""
    largest = np.abs(vectors.astype(np.float64)).max(1)
    numbers = np.rint(vectors / np.maximum(largest, 1e-12)[:, None] * 127).astype(np.int8)
    counted = np.rint(np.minimum(largest / np.percentile(largest, 99.9), 1) * 255).astype(np.uint8)
    np.save(out / "vectors.npy", numbers)
    np.save(out / "weights.npy", counted)
    return {name: sha256((out / name).read_bytes()).hexdigest() for name in ("vectors.npy", "weights.npy")}


if __name__ == "__main__":
    assert SHARD == 10_000
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    main(given.work, given.out)

"""A cross-encoder from a folder that somebody names: a network in ONNX and its tokenizer, with nothing to download."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from treering.core.errors import InvalidInput
from treering.models.bge import load_session, load_tokenizer, readable
from treering.ports.models import Scores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

SCHEME = "onnx:"
TOKENIZER = "tokenizer.json"
SMALLEST = "model_quantized.onnx"
"""The network to take where a folder holds several, as published ones do: a quarter of the size, as good."""

MAX_TOKENS = 256
"""Of a question and a text together; what is longer is cut at its end."""

_HINT = "Name a folder that holds tokenizer.json and a cross-encoder with one score, such as ms-marco-MiniLM, as ONNX."


def open_reranker(place: str, threads: int = 1) -> CrossEncoder:
    """Open what `onnx:FOLDER` names. Raises `InvalidInput` for another form, and where a file is missing."""
    if not place.startswith(SCHEME) or place == SCHEME:
        raise InvalidInput(f"A reranker is named by onnx:FOLDER, got {place!r}.", hint=_HINT)
    return CrossEncoder(Path(place.removeprefix(SCHEME)).expanduser(), threads=threads)


class CrossEncoder:
    """Scores with the network in a folder. Constructing it looks for its files only: it loads on first use.

    `threads` is how many texts of one call are computed at the same time. The network lies in the folder, or in `onnx`
    below it, as it is published. Every pair is computed by itself at its exact length, as `bge.BgeSmall` does and for
    the same reason. Methods may be called from any thread. Raises `InvalidInput` where a file is missing, and on first
    use where one cannot be read or gives something else than one score.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._tokenizer_file, self._network_file = _files_in(folder)
        self._name = folder.resolve().name
        self._threads = threads
        self._loading = Lock()
        self._network: _PairNetwork | None = None

    @property
    def model_id(self) -> str:
        """Name the folder and the network in it."""
        return f"{self._name}/{self._network_file.name}"

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text by how well it answers: `float32[n]`, higher is better."""
        network = self._loaded()
        scores = np.empty(len(texts), np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            for row, score in enumerate(pool.map(lambda text: network.score(question, text), texts)):
                scores[row] = score
        return scores

    def _loaded(self) -> _PairNetwork:
        with self._loading:
            if self._network is None:
                self._network = _load(self._tokenizer_file, self._network_file)
            return self._network


@dataclass(frozen=True, slots=True)
class _PairNetwork:
    tokenizer: Tokenizer
    session: InferenceSession
    inputs: frozenset[str]
    file: Path

    def score(self, question: str, text: str) -> float:
        pair = self.tokenizer.encode(readable(question, MAX_TOKENS), readable(text, MAX_TOKENS))
        given = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        rows = {name: np.array([given[name]], np.int64) for name in self.inputs}
        scores = self.session.run(None, rows)[0]
        if scores.size != 1:
            raise InvalidInput(f"{self.file} gives {scores.shape} numbers for a pair, not one score.", hint=_HINT)
        return float(scores.reshape(()))


def _files_in(folder: Path) -> tuple[Path, Path]:
    tokenizer = folder / TOKENIZER
    networks = sorted((*folder.glob("*.onnx"), *(folder / "onnx").glob("*.onnx")))
    if not tokenizer.is_file() or not networks:
        missing = TOKENIZER if networks else "a network (*.onnx)"
        raise InvalidInput(f"The folder {folder} of the reranker lacks {missing}.", hint=_HINT)
    chosen = networks if len(networks) == 1 else [file for file in networks if file.name == SMALLEST]
    if len(chosen) != 1:
        names = ", ".join(str(file.relative_to(folder)) for file in networks)
        raise InvalidInput(
            f"The folder {folder} of the reranker holds several networks: {names}.",
            hint=f"Leave one of them, or call one {SMALLEST}.",
        )
    return tokenizer, chosen[0]


def _load(tokenizer_file: Path, network_file: Path) -> _PairNetwork:
    try:
        tokenizer = load_tokenizer(tokenizer_file.read_bytes(), MAX_TOKENS)
        session = load_session(network_file.read_bytes())
    except Exception as error:
        raise InvalidInput(f"The reranker's files cannot be read: {error}", hint=_HINT) from error
    inputs = frozenset(given.name for given in session.get_inputs())
    if unknown := inputs - {"input_ids", "attention_mask", "token_type_ids"}:
        raise InvalidInput(f"{network_file} asks for {', '.join(sorted(unknown))}.", hint=_HINT)
    return _PairNetwork(tokenizer, session, inputs, network_file)

"""Networks in ONNX files, on the CPU: the built-in embedder (BAAI/bge-small-en-v1.5, 8-bit), and those in folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from treering.core.errors import InvalidInput
from treering.models import elsewhere
from treering.models.latin import knows_most_words
from treering.models.shipped import TOKENIZER, WEIGHTS, load_tokenizer, place_of_model, readable, verified
from treering.ports.models import Scores, Vector

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


def load_session(content: bytes) -> InferenceSession:
    """Load a network for concurrent runs of one text each. Raises the errors of `onnxruntime`."""
    # Read at the first import: without it, onnxruntime 1.32 stores an id of the device and sends telemetry.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    # One thread per run: embedding several texts concurrently takes less CPU time than splitting one, and needs no pool
    # of threads that spin while idle.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Otherwise hundreds of memory plans are stored, one for each length of text.
    options.enable_mem_pattern = False
    return InferenceSession(content, options, providers=["CPUExecutionProvider"])


QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
"""The prefix of questions in the training of the model. Documents have none."""

DIMENSION = 384
UNRELATED_BELOW = 0.62
"""Unrelated texts have a cosine of about 0.5, because this model uses few of its 384 dimensions."""

LONGEST = 512
"""The maximal number of tokens of the model."""

PREPARATION = "p1"
"""The version of all preparation of texts. A change requires new vectors."""


class BgeSmall:
    """Embeds with bge-small-en-v1.5 (384 dimensions). The model is loaded on first use.

    `threads`: how many texts of one `embed_documents` call are embedded concurrently. `max_tokens` (3 to 512): how much
    of a text is read. 256 has the recall of 512 on long chat turns at 60 % of the cost; 128 has less. `folder` contains
    the two model files; default: this package.

    Texts are embedded one by one at their exact length. 8-bit scales are computed per batch, so that vectors in a batch
    would depend on the other texts (cosine down to 0.99), and on a CPU a batch saves less than its padding costs.
    Vectors are therefore reproducible bit for bit.

    Thread-safe; a query does not wait for documents. Methods raise `Corrupt` if the model's files are missing or
    modified.
    """

    dimension = DIMENSION
    unrelated_below = UNRELATED_BELOW

    def __init__(self, threads: int = 1, *, max_tokens: int = 256, folder: Traversable | None = None) -> None:
        if threads < 1:
            raise InvalidInput(
                f"threads is {threads}; it must be 1 or more.", hint="Set threads to 1 or more, or omit it."
            )
        if not 3 <= max_tokens <= LONGEST:
            raise InvalidInput(
                f"max_tokens is {max_tokens}; it must be from 3 to {LONGEST}.", hint="Omit it to use the maximum."
            )
        self._threads = threads
        self._max_tokens = max_tokens
        self._folder = folder
        self._loading = Lock()
        self._network: _Network | None = None

    @property
    def model_id(self) -> str:
        """The id of the model and its settings, without the number of threads."""
        return f"bge-small-en-v1.5:int8:{DIMENSION}:{PREPARATION}:t{self._max_tokens}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, 384]`, unit length, in the order given."""
        network = self._loaded()
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            for row, vector in enumerate(pool.map(network.vector, texts)):
                vectors[row] = vector
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a question: `float32[384]`, unit length."""
        if elsewhere.ask_elsewhere and self._network is None and self._folder is None:
            vector = elsewhere.ask_elsewhere(self.model_id, text)
            if vector is not None and vector.size == DIMENSION:
                return vector
        return self._loaded().vector(QUERY_PREFIX + text)

    def knows(self, text: str) -> bool:
        """Return whether the model knows most of the words of a text."""
        return knows_most_words(readable(text, self._max_tokens))

    def _loaded(self) -> _Network:
        with self._loading:
            if self._network is None:
                self._network = _load(self._folder, self._max_tokens)
            return self._network


@dataclass(frozen=True, slots=True)
class _Network:
    tokenizer: Tokenizer
    session: InferenceSession
    max_tokens: int

    def vector(self, text: str) -> Vector:
        ids = np.array([self.tokenizer.encode(readable(text, self.max_tokens)).ids], np.int64)
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        (states,) = self.session.run(None, inputs)
        # The model was trained to encode the meaning of a text in its first position, [CLS].
        cls: Vector = states[0, 0]
        return cls / np.linalg.norm(cls)


def _load(folder: Traversable | None, max_tokens: int) -> _Network:
    place = folder or place_of_model()
    tokenizer = load_tokenizer(verified(place, TOKENIZER), max_tokens)
    return _Network(tokenizer, load_session(verified(place, WEIGHTS)), max_tokens)


SCHEME = "onnx:"
SMALLEST = WEIGHTS
"""The preferred network in a folder with several: a quarter of the size, with the same quality."""

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


@dataclass(frozen=True, slots=True)
class FolderNetwork:
    """A network in a folder with its tokenizer. `digest`: the beginning of the hash of the network."""

    file: Path
    tokenizer: Tokenizer
    session: InferenceSession
    inputs: frozenset[str]
    digest: str

    @classmethod
    def read(cls, files: tuple[Path, Path], longest: int, *, what: str, hint: str) -> FolderNetwork:
        """Read a tokenizer and a network.

        Raises `InvalidInput` if one is invalid, or if the network has inputs that a tokenizer does not provide.
        """
        tokenizer_file, network_file = files
        try:
            content = network_file.read_bytes()
            tokenizer = load_tokenizer(tokenizer_file.read_bytes(), longest)
            session = load_session(content)
        except Exception as error:
            raise InvalidInput(f"The {what}'s files cannot be read: {error}", hint=hint) from error
        inputs = frozenset(given.name for given in session.get_inputs())
        if unknown := inputs - _INPUTS:
            raise InvalidInput(f"{network_file} requires unknown inputs: {', '.join(sorted(unknown))}.", hint=hint)
        return cls(network_file, tokenizer, session, inputs, sha256(content).hexdigest()[:8])

    def outputs(self, text: str, pair: str | None = None) -> Sequence[NDArray[np.float32]]:
        """Return the output of the network for a text, or for a pair of texts."""
        encoded = self.tokenizer.encode(text, pair)
        given = {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask, "token_type_ids": encoded.type_ids}
        outputs: Sequence[NDArray[np.float32]] = self.session.run(
            None, {name: np.array([given[name]], np.int64) for name in self.inputs}
        )
        return outputs


MAX_PAIR_TOKENS = 256
"""The maximal length of a question and a text together; longer pairs are truncated."""

_RERANKER_HINT = (
    "Give a folder with tokenizer.json and a cross-encoder with one score, such as ms-marco-MiniLM, as ONNX."
)


def open_reranker(place: str, threads: int = 1) -> CrossEncoder:
    """Open the reranker at `onnx:FOLDER`. Raises `InvalidInput` for another form, and if a file is missing."""
    if not place.startswith(SCHEME) or place == SCHEME:
        raise InvalidInput(f"A reranker is given as onnx:FOLDER, not {place!r}.", hint=_RERANKER_HINT)
    return CrossEncoder(Path(place.removeprefix(SCHEME)).expanduser(), threads=threads)


class CrossEncoder:
    """Scores with the network in a folder. It is loaded on first use.

    `threads`: how many texts of one call are scored concurrently. The network is in the folder or its subfolder `onnx`.
    Pairs are scored one by one at their exact length, for the reason given in `BgeSmall`. Thread-safe. Raises
    `InvalidInput` if a file is missing, and on first use if one is invalid or returns more than one score.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._files = files_in(folder, what="reranker", hint=_RERANKER_HINT)
        self._name = folder.resolve().name
        self._threads = threads
        self._loading = Lock()
        self._network: FolderNetwork | None = None

    @property
    def model_id(self) -> str:
        """The names of the folder and the network."""
        return f"{self._name}/{self._files[1].name}"

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text by how well it answers: `float32[n]`, higher is better."""
        network = self._loaded()
        scores = np.empty(len(texts), np.float32)
        with ThreadPoolExecutor(self._threads) as pool:
            for row, score in enumerate(pool.map(lambda text: _pair_score(network, question, text), texts)):
                scores[row] = score
        return scores

    def _loaded(self) -> FolderNetwork:
        with self._loading:
            if self._network is None:
                self._network = FolderNetwork.read(self._files, MAX_PAIR_TOKENS, what="reranker", hint=_RERANKER_HINT)
            return self._network


def _pair_score(network: FolderNetwork, question: str, text: str) -> float:
    scores = network.outputs(readable(question, MAX_PAIR_TOKENS), readable(text, MAX_PAIR_TOKENS))[0]
    if scores.size != 1:
        raise InvalidInput(
            f"{network.file} returns scores of shape {scores.shape} for a pair, not a single score.",
            hint=_RERANKER_HINT,
        )
    return float(scores.reshape(()))


def files_in(folder: Path, *, what: str, hint: str) -> tuple[Path, Path]:
    """Return the tokenizer and the network in a folder. Raises `InvalidInput` if one is missing."""
    tokenizer = folder / TOKENIZER
    networks = sorted((*folder.glob("*.onnx"), *(folder / "onnx").glob("*.onnx")))
    if not tokenizer.is_file() or not networks:
        missing = TOKENIZER if networks else "a network (*.onnx)"
        raise InvalidInput(f"The folder {folder} of the {what} lacks {missing}.", hint=hint)
    chosen = networks if len(networks) == 1 else [file for file in networks if file.name == SMALLEST]
    if len(chosen) != 1:
        names = ", ".join(str(file.relative_to(folder)) for file in networks)
        raise InvalidInput(
            f"The folder {folder} of the {what} contains several networks: {names}.",
            hint=f"Remove all but one, or name one of them {SMALLEST}.",
        )
    return tokenizer, chosen[0]

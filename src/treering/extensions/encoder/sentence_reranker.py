"""Cross-encoders of the package sentence-transformers, by their Hugging Face name. Nothing is downloaded."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from treering.core.errors import InvalidInput
from treering.ports.models import Scores

PACKAGE = "sentence-transformers"
SCHEME = f"{PACKAGE}:"
_MODULE = "sentence_transformers"


def open_sentence_reranker(name: str, _threads: int = 1) -> "SentenceReranker":
    """Open the model at `sentence-transformers:MODEL` from the local files.

    Raises `InvalidInput` if the package or the model is not installed.
    """
    model = name.removeprefix(SCHEME)
    if find_spec(_MODULE) is None:
        raise InvalidInput(
            f"The reranker {model!r} needs the package {PACKAGE}.",
            hint=f"Run: pip install {PACKAGE}. Or use a folder: onnx:FOLDER.",
        )
    if Path(model).exists():  # a repository may contain such a folder, and its weights may be code
        raise InvalidInput(
            f"The reranker {model!r} is a local folder, not a Hugging Face model.",
            hint="Use onnx:FOLDER, with a folder that contains an ONNX network.",
        )
    encoder = import_module(_MODULE).CrossEncoder
    try:
        return SentenceReranker(model, encoder(model, local_files_only=True))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The reranker {model!r} is not on this machine: {error}",
            hint=f"Download it once: hf download {model}. Or use a folder: onnx:FOLDER.",
        ) from error


class SentenceReranker:
    """A `Reranker` over a `CrossEncoder` of sentence-transformers."""

    def __init__(self, model: str, encoder: Any) -> None:
        self._model = model
        self._encoder = encoder

    @property
    def model_id(self) -> str:
        """The name of the model."""
        return self._model

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text by how well it answers: `float32[n]`, higher is better."""
        if not texts:
            return np.empty(0, np.float32)
        # One pair at a time, because a score must not depend on the lengths of others.
        pairs = [(question, text) for text in texts]
        scores = np.asarray(self._encoder.predict(pairs, batch_size=1, show_progress_bar=False), np.float32)
        if scores.shape != (len(texts),):
            raise InvalidInput(
                f"The reranker {self._model!r} returns {scores.shape[-1]} scores per pair, not one.",
                hint="Use a cross-encoder with one score, such as cross-encoder/ms-marco-MiniLM-L-6-v2.",
            )
        return scores

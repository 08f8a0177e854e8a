"""The tokenizer and the files of the models that come with Treering."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from treering.core.errors import Corrupt

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from tokenizers import Tokenizer

CHARS_PER_TOKEN = 32
"""Text beyond this many characters per token is ignored, which bounds the work for huge texts."""

WEIGHTS = "model_quantized.onnx"
TOKENIZER = "tokenizer.json"
SHA256 = {
    WEIGHTS: "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
    TOKENIZER: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
}


def load_tokenizer(content: bytes, max_tokens: int) -> Tokenizer:
    """Load a `tokenizer.json` that truncates texts to `max_tokens`. Raises the errors of `tokenizers`."""
    # Imported here, like onnxruntime in the encoder: together they take 0.2 s, which commands without a model save.
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()  # every text is embedded at its own length
    return tokenizer


def readable(text: str, max_tokens: int) -> str:
    """Return the part of a text that is tokenized, without characters that tokenizers refuse."""
    # Tokenizers refuse a lone surrogate, as in undecodable file names.
    return text[: max_tokens * CHARS_PER_TOKEN].encode("utf-8", "replace").decode()


def place_of_model() -> Traversable:
    """Return the folder of the model's two files in this package."""
    return files(__package__) / "bge_small_en_v1_5_int8"


def verified(
    folder: Traversable, name: str, hashes: Mapping[str, str] = SHA256, *, model: str = "embedding model"
) -> bytes:
    """Read a file of a bundled model. Raises `Corrupt` if it is missing or modified."""
    hint = "Reinstall treering: pip install --force-reinstall --no-deps treering."
    file = folder / name
    if not file.is_file():
        raise Corrupt(f"The {model}'s file {name} is missing.", hint=hint, details={"file": name})
    content = file.read_bytes()
    found = sha256(content).hexdigest()
    if found != hashes[name]:
        details = {"file": name, "expected": hashes[name], "found": found}
        raise Corrupt(f"The {model}'s file {name} was modified.", hint=hint, details=details)
    return content

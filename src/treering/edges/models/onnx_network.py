"""Networks in ONNX files with their tokenizers, on the CPU: how they are loaded, whatever they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

CHARS_PER_TOKEN = 32
"""Text beyond this many characters per token is not tokenised at all, which bounds the work for huge texts."""


def load_tokenizer(content: bytes, max_tokens: int) -> Tokenizer:
    """Load a `tokenizer.json` that cuts what is longer than `max_tokens`. Raises what `tokenizers` raises."""
    # Imported here, as onnxruntime below: together they take 0.2 s, which a command that needs no model should not pay.
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()  # every text is computed at its own length
    return tokenizer


def load_session(content: bytes) -> InferenceSession:
    """Load a network for runs side by side, one text each. Raises what `onnxruntime` raises."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    # One thread for each run: texts are computed side by side instead, which costs less processor time than
    # splitting one, and leaves no pool of threads that could spin while idle.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # A memory plan for each length of text ever seen would be kept: hundreds of them.
    options.enable_mem_pattern = False
    return InferenceSession(content, options, providers=["CPUExecutionProvider"])


def readable(text: str, max_tokens: int) -> str:
    """Return the part of a text that is tokenised, without what no tokenizer takes."""
    # A lone surrogate, as undecodable file names hold, is refused by the tokenizer.
    return text[: max_tokens * CHARS_PER_TOKEN].encode("utf-8", "replace").decode()

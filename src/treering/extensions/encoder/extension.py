"""Embedding models, rerankers and language models beyond the quick model of the kernel."""

from treering.registry import Extension

EXTENSION = Extension(
    "encoder",
    named_embedders="treering.extensions.encoder.embedders:embedder_named",
    embedders={
        "bge-small-en-v1.5": "treering.extensions.encoder.onnx:BgeSmall",
    },
    rerankers={
        "onnx": "treering.extensions.encoder.onnx:open_reranker",
        "sentence-transformers": "treering.extensions.encoder.sentence_reranker:open_sentence_reranker",
    },
)

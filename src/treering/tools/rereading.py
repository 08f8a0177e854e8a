"""How a ranked read has its best hits read again: what it asks for, and what it is told where that was not done."""

from treering.core.errors import InvalidInput
from treering.derived.reranking import Rereading
from treering.derived.retrieval import Retrieval
from treering.tools.envelope import Call
from treering.tools.reading import SearchOptions

_HINT = "Set TREERING_RERANKER=onnx:FOLDER, or open the space with reranker=…; or leave options.rerank out."


def rereading_of(call: Call, options: SearchOptions) -> Rereading | None:
    """Return what reads hits again, if the call asks for it. Raises `InvalidInput` where the space has no reranker."""
    if not options.rerank:
        return None
    reranker = call.engine.reranker
    if reranker is None:
        raise InvalidInput(f"options.rerank is {options.rerank}, but this space has no reranker.", hint=_HINT)
    return Rereading(reranker, options.rerank, call.engine.clock)


def rereading_warnings(found: Retrieval) -> tuple[str, ...]:
    """Warn where nothing was read again although it was asked for."""
    if found.rereading is None or found.rereading.pairs:
        return ()
    return ("Nothing was read again: what was found is not a conversation, and other texts it would rank worse.",)

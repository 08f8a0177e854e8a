"""For people who write backends: contract suites (they need pytest), honest fakes, values of adapters and formats."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.core.evidence import Lines
    from treering.core.screening import instruction_flags
    from treering.ports.adapter import (
        AlreadyRead,
        Failed,
        ReadLimits,
        SegmentDraft,
        Skipped,
        SourceDraft,
        Unchanged,
        Vanished,
    )
    from treering.ports.format import DocumentDraft, FileToRead, FormatLimits
    from treering.retrieval.index.projection import follow
    from treering.testing.adapter_contract import AdapterContract, FileAdapterContract
    from treering.testing.builders import Builder
    from treering.testing.fakes import HashingEmbedder, OverlapReranker, SteppingClock
    from treering.testing.format_contract import CollectionContract, FormatContract
    from treering.testing.index_contract import IndexContract, LateIndexContract, LedgerWithIndex
    from treering.testing.ledger_contract import LedgerContract
    from treering.testing.memory_client_contract import MemoryClientContract, MemoryEngineContract
    from treering.testing.memory_ledger import MemoryLedger
    from treering.testing.model_contracts import EmbedderContract, ModelContract, RerankerContract
    from treering.testing.projection_contract import ProjectionContract
    from treering.testing.wiki_memory_contract import WikiMemoryContract
    from treering.testing.work_contracts import JobsContract, LeaseContract

__all__ = [
    "AdapterContract",
    "AlreadyRead",
    "Builder",
    "CollectionContract",
    "DocumentDraft",
    "EmbedderContract",
    "Failed",
    "FileAdapterContract",
    "FileToRead",
    "FormatContract",
    "FormatLimits",
    "HashingEmbedder",
    "IndexContract",
    "JobsContract",
    "LateIndexContract",
    "LeaseContract",
    "LedgerContract",
    "LedgerWithIndex",
    "Lines",
    "MemoryClientContract",
    "MemoryEngineContract",
    "MemoryLedger",
    "ModelContract",
    "OverlapReranker",
    "ProjectionContract",
    "ReadLimits",
    "RerankerContract",
    "SegmentDraft",
    "Skipped",
    "SourceDraft",
    "SteppingClock",
    "Unchanged",
    "Vanished",
    "WikiMemoryContract",
    "follow",
    "instruction_flags",
]

_HOMES = {
    "treering.core.screening": ["instruction_flags"],
    "treering.core.evidence": ["Lines"],
    "treering.retrieval.index.projection": ["follow"],
    "treering.ports.adapter": [
        "AlreadyRead",
        "Failed",
        "ReadLimits",
        "SegmentDraft",
        "Skipped",
        "SourceDraft",
        "Unchanged",
        "Vanished",
    ],
    "treering.ports.format": ["DocumentDraft", "FileToRead", "FormatLimits"],
    "treering.testing.adapter_contract": ["AdapterContract", "FileAdapterContract"],
    "treering.testing.builders": ["Builder"],
    "treering.testing.fakes": ["SteppingClock", "HashingEmbedder", "OverlapReranker"],
    "treering.testing.model_contracts": ["EmbedderContract", "ModelContract", "RerankerContract"],
    "treering.testing.format_contract": ["CollectionContract", "FormatContract"],
    "treering.testing.index_contract": ["IndexContract", "LateIndexContract", "LedgerWithIndex"],
    "treering.testing.work_contracts": ["JobsContract", "LeaseContract"],
    "treering.testing.ledger_contract": ["LedgerContract"],
    "treering.testing.memory_client_contract": ["MemoryClientContract", "MemoryEngineContract"],
    "treering.testing.memory_ledger": ["MemoryLedger"],
    "treering.testing.projection_contract": ["ProjectionContract"],
    "treering.testing.wiki_memory_contract": ["WikiMemoryContract"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that whoever wants an embedder needs no pytest.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.testing' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

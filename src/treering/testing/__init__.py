"""What people need who write backends: contract suites (they need pytest), honest fakes, and values of formats."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.core.injection import instruction_flags
    from treering.core.locator import Lines
    from treering.derived.following import follow
    from treering.ports.adapter import ReadLimits, SegmentDraft
    from treering.ports.format import DocumentDraft, FileToRead, FormatLimits
    from treering.testing.builders import Builder
    from treering.testing.clocks import SteppingClock
    from treering.testing.embedder_contract import EmbedderContract
    from treering.testing.format_contract import CollectionContract, FormatContract
    from treering.testing.hashing_embedder import HashingEmbedder
    from treering.testing.index_contract import IndexContract, LateIndexContract
    from treering.testing.jobs_contract import JobsContract
    from treering.testing.lease_contract import LeaseContract
    from treering.testing.ledger_contract import LedgerContract
    from treering.testing.memory_ledger import MemoryLedger
    from treering.testing.model_contract import ModelContract
    from treering.testing.projection_contract import ProjectionContract

__all__ = [
    "Builder",
    "CollectionContract",
    "DocumentDraft",
    "EmbedderContract",
    "FileToRead",
    "FormatContract",
    "FormatLimits",
    "HashingEmbedder",
    "IndexContract",
    "JobsContract",
    "LateIndexContract",
    "LeaseContract",
    "LedgerContract",
    "Lines",
    "MemoryLedger",
    "ModelContract",
    "ProjectionContract",
    "ReadLimits",
    "SegmentDraft",
    "SteppingClock",
    "follow",
    "instruction_flags",
]

_HOMES = {
    "treering.core.injection": ["instruction_flags"],
    "treering.core.locator": ["Lines"],
    "treering.derived.following": ["follow"],
    "treering.ports.adapter": ["ReadLimits", "SegmentDraft"],
    "treering.ports.format": ["DocumentDraft", "FileToRead", "FormatLimits"],
    "treering.testing.builders": ["Builder"],
    "treering.testing.clocks": ["SteppingClock"],
    "treering.testing.embedder_contract": ["EmbedderContract"],
    "treering.testing.format_contract": ["CollectionContract", "FormatContract"],
    "treering.testing.hashing_embedder": ["HashingEmbedder"],
    "treering.testing.index_contract": ["IndexContract", "LateIndexContract"],
    "treering.testing.jobs_contract": ["JobsContract"],
    "treering.testing.lease_contract": ["LeaseContract"],
    "treering.testing.ledger_contract": ["LedgerContract"],
    "treering.testing.memory_ledger": ["MemoryLedger"],
    "treering.testing.model_contract": ["ModelContract"],
    "treering.testing.projection_contract": ["ProjectionContract"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that whoever wants an embedder needs no pytest.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.testing' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Contract suites and honest fakes for people who write backends. `LedgerContract` needs pytest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.testing.builders import Builder
    from treering.testing.clocks import SteppingClock
    from treering.testing.hashing_embedder import HashingEmbedder
    from treering.testing.ledger_contract import LedgerContract
    from treering.testing.memory_ledger import MemoryLedger

__all__ = ["Builder", "HashingEmbedder", "LedgerContract", "MemoryLedger", "SteppingClock"]

_HOME_OF = {
    "Builder": "treering.testing.builders",
    "HashingEmbedder": "treering.testing.hashing_embedder",
    "LedgerContract": "treering.testing.ledger_contract",
    "MemoryLedger": "treering.testing.memory_ledger",
    "SteppingClock": "treering.testing.clocks",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that whoever wants an embedder needs no pytest.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'treering.testing' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

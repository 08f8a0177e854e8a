"""How the benchmarks are run this time."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and folders. `quick` runs everything small: to see that it works, and not to compare with targets.

    `cache` keeps what is costly to have (a source tree, vectors of the labelled sets) from run to run. What is
    measured question by question is written to `keep`, and compared with what another run wrote to `against`.
    """

    quick: bool
    cache: Path
    keep: Path | None = None
    against: Path | None = None
    seconds: float = 60.0
    """How long clients ask a server."""
    sizes: tuple[int, ...] = ()
    """How many texts the systems are compared on; those of the benchmark where none are given."""

    @classmethod
    def read(
        cls,
        *,
        quick: bool,
        keep: Path | None = None,
        against: Path | None = None,
        seconds: float | None = None,
        sizes: Sequence[int] = (),
    ) -> "Plan":
        """Take the cache folder from `TREERING_BENCH_CACHE`, by default one in the folder for temporary files."""
        default = Path(tempfile.gettempdir()) / "treering-benchmarks"
        cache = Path(os.environ.get("TREERING_BENCH_CACHE", "") or default)
        cache.mkdir(parents=True, exist_ok=True)
        return cls(quick, cache, keep, against, seconds or (6.0 if quick else 60.0), tuple(sizes))


@contextmanager
def workplace() -> Iterator[Path]:
    """Return an empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="treering-benchmark-") as folder:
        yield Path(folder)

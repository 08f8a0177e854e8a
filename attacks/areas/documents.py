"""Attacks on the readers of documents: files damaged in thousands of ways, which must cost one item each."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attacks.attack import Attack, Count

_TIMES = 10_000
_SECONDS = 10.0
_MEGABYTES = 1_000.0


def _damaged(reader: str) -> Callable[[Path], Count]:
    def run(folder: Path) -> Count:
        del folder
        command = [sys.executable, "-m", "attacks.mutated_documents", reader, str(_TIMES)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout)
        over = (told["slowest"] > _SECONDS) + (told["memory_mb"] > _MEGABYTES)
        note = f"slowest {told['slowest']:.1f} s, {told['memory_mb']:.0f} MB, {told['failed']} refused"
        return Count(tried=_TIMES, reached=told["other"] + over, note=note)

    return run


ATTACKS: Sequence[Attack] = tuple(
    Attack(f"damaged files: {reader}", _damaged(reader))
    for reader in ("pdf", "office", "mail", "html", "code", "tickets", "memories")
)

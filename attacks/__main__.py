"""Run the attacks and print a table: `python -m attacks [AREA ...]`. Exit status 1 where one reached its goal."""

import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from attacks import areas
from attacks.attack import Attack

AREAS = sorted(module.name for module in iter_modules(areas.__path__))


def main(wanted: Sequence[str]) -> int:
    """Run the attacks of the areas named, or all. Return the exit status."""
    unknown = [name for name in wanted if name not in AREAS]
    if unknown:
        print(f"There is no area {unknown[0]!r}. Areas: {', '.join(AREAS)}.", file=sys.stderr)
        return 2
    reached = 0
    for area in wanted or AREAS:
        for attack in import_module(f"attacks.areas.{area}").ATTACKS:
            reached += _run(area, attack)
    print(f"{reached} attacks reached their goal.")
    return int(reached > 0)


def _run(area: str, attack: Attack) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="treering-attack-") as folder:
        count = attack.run(Path(folder))
    failed = count.reached > 0 and not count.measured
    verdict = "REACHED" if failed else "measured" if count.measured else "held"
    took = f"{time.monotonic() - began:.1f} s"
    result = f"{count.reached} of {count.tried}"
    print(f"{verdict:9}{area:13}{attack.name}: {result} ({took}) {count.note}".rstrip(), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

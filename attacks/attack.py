"""What an attack is, and how its result is counted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Count:
    """How many attempts an attack made, and how many of them reached their goal.

    `measured`: the figure is reported, but does not fail the run: no software can bring it to zero.
    """

    tried: int
    reached: int
    note: str = ""
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. `run` gets an empty folder of its own and raises only where the attack itself is broken."""

    name: str
    run: Callable[[Path], Count]

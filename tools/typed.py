"""Tell how much of the package has types that every type checker reads the same: `make typed`.

Runs `pyright --verifytypes`, which looks at all that a program could import, and fails at what has no type, or one that
each checker infers in its own way. Not counted: adapters to frameworks that are not installed, which use their types,
and methods that are made of other methods and keep the parameters of those.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from treering.frameworks import FRAMEWORKS

FOLLOWS = "partially unknown"
"""Is said of what uses a type that is told of elsewhere."""
MADE_OF_A_METHOD = ('Inferred type is "(', 'Inferred type is "staticmethod[(')
SAID_OF_TEXT = "docstring"
OF_OTHERS = ("wiki_graph", "wiki_workflow", "mongo_document.WikiMemory")
"""What has a type of LangGraph and of Beanie that pyright cannot find out."""


def main() -> None:
    """Print the share and what is missing; end with an error where something is."""
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # it asks `python` for packages
    command = ["pyright", "--verifytypes", "treering", "--ignoreexternal", "--outputjson"]
    ran = subprocess.run(command, env={**os.environ, "PATH": places}, capture_output=True, text=True)
    told = json.loads(ran.stdout)["typeCompleteness"]
    missing = [line for symbol in told["symbols"] if counts(symbol["name"]) for line in faults(symbol)]
    print(
        f"{told['completenessScore']:.1%} of {len(told['symbols'])} names have types that all checkers read the same."
    )
    if missing or not told["symbols"]:
        sys.exit("\n".join(["These do not:", *missing]))


def counts(name: str) -> bool:
    """Return whether a name is looked at: what is of a framework that is not installed is not."""
    parts = set(name.split("."))
    if name.endswith(OF_OTHERS):
        return False
    return not any(module in parts and not is_installed(one.package) for module, one in FRAMEWORKS.items())


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the one above it cannot
        return False


def faults(symbol: dict[str, Any]) -> list[str]:
    """Return what is said of a name where its own type is the reason."""
    said = [" ".join(one["message"].split()) for one in symbol["diagnostics"]]
    passed = (FOLLOWS, *MADE_OF_A_METHOD, SAID_OF_TEXT)
    return [f"  {symbol['name']}: {line}" for line in said if not any(words in line for words in passed)]


if __name__ == "__main__":
    main()

"""Use Treering without any extension, in this process: `python kernel_alone.py FOLDER`.

Nothing of `treering.extensions` and no package but those of the kernel can be imported. Prints the outputs as JSON.
"""

import io
import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

PACKAGES = frozenset(
    "annotated_doc annotated_types apsw charset_normalizer markdown_it mdurl numpy pydantic pydantic_core rich "
    "shellingham Stemmer treering typer typing_extensions typing_inspection zstandard".split()
)
"""The packages that the kernel imports, with those that they import themselves."""
COMMANDS = (
    "init",
    "add .",
    "search|how often does Acme retry",
    "decide|Retry three times|README.md:3",
    "rule|Never retry on 404",
    "ask|change the retries",
    "query|--mode|related|Retry three times",
    "brief",
    "show|Retry three times",
    "undo",
    "lint",
    "log",
    "backup|copy.db",
)
"""Command lines; their words are separated by `|`, or by spaces if there is none."""


class KernelOnly(MetaPathFinder):
    """Finds no extension, and no installed package that the kernel does not need."""

    def __init__(self) -> None:
        self._refused = frozenset(packages_distributions()) - PACKAGES - sys.stdlib_module_names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse the import, or leave it to the other finders."""
        if fullname.startswith("treering.extensions") or fullname.partition(".")[0] in self._refused:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main() -> None:
    """Run the commands in a folder, and print for each its exit code and what it printed."""
    folder = Path(sys.argv[1])
    os.chdir(folder)
    os.environ |= {"TREERING_BACKGROUND": "0", "TREERING_RESIDENT": "0", "TREERING_DATA_DIR": str(folder / "data")}
    (folder / "README.md").write_text("# Acme\n\nAcme retries three times.\n")
    sys.meta_path.insert(0, KernelOnly())
    from treering.surfaces.cli import run

    outcomes = {}
    for line in COMMANDS:
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            code = run(line.split("|" if "|" in line else None))
        outcomes[line] = [code, output.getvalue()]
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main()

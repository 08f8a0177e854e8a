"""How many files of Treering one call goes through: what somebody has to read who follows it.

`python -m benchmarks.files` lists them, with the functions that were entered in each.
"""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import treering
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.synthetic import documents
from treering import Space

Entered = Mapping[str, set[str]]
"""By file, below the package: the functions that were entered."""

_PACKAGE = Path(treering.__file__).parent
_NOTES = 40
_QUESTION = {"text": "Where did Mary Jones make Acme Web in May 2024?"}
_FILES = {
    "retry.py": "def retry_call(n):\n    '''Retry a call, with a pause.'''\n    return n\n",
    "use.py": "from retry import retry_call\n\n\ndef main():\n    retry_call(2)\n",
    "README.md": "# Acme Web\n\nAcme Web retries calls with `retry_call`. Mary Jones made it on 3 May 2024.\n",
}
_GIT = (("init", "-q"), ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first"))


def measure(_plan: Plan) -> list[Row]:
    """Count the files of a warm search and of a warm ingest of notes, in a space of notes and a repository."""
    targets = {"search": at_most(40), "ingest": None}
    return [
        Figure(f"files entered by one {name}", len(files), "files", targets[name], f"{_functions(files)} functions")
        for name, files in _calls()
    ]


def entered(call: Callable[[], Any]) -> Entered:
    """Run a call and note what is entered in the thread that makes it."""
    found: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(_PACKAGE):
            found[file.relative_to(_PACKAGE).as_posix()].add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def main() -> None:
    """Print the files of each call, and the functions in each."""
    for name, files in _calls():
        print(f"{name}: {len(files)} files, {_functions(files)} functions")
        for file, functions in sorted(files.items()):
            print(f"  {file}: {', '.join(sorted(functions))}")


def _calls() -> Iterator[tuple[str, Entered]]:
    notes = [{"kind": "note", "title": one.title, "text": one.passages[0]} for one in documents(_NOTES, passages=1)]
    with workplace() as folder, treering.open(f"sqlite:{folder / 'space.db'}", background=False) as space:
        _bring_in(space, notes[:-2])
        space.ingest("repo", input={"path": str(_repository(folder / "repository"))}, options={"wait": True})
        for _ in range(2):
            space.query("search", input=_QUESTION)
        yield "search", entered(lambda: space.query("search", input=_QUESTION))
        _bring_in(space, notes[-2:-1])
        yield "ingest", entered(lambda: _bring_in(space, notes[-1:]))


def _functions(files: Entered) -> int:
    return sum(map(len, files.values()))


def _bring_in(space: Space, notes: list[dict[str, str]]) -> None:
    space.ingest("source", input={"items": notes}, options={"wait": True})


def _repository(folder: Path) -> Path:
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for arguments in _GIT:
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


if __name__ == "__main__":
    main()

"""`python -m benchmarks.truth.check FILE…`: check the form of labelled conversations."""

import sys
from pathlib import Path

from pydantic import ValidationError

from benchmarks.truth.conversations import problems, read
from benchmarks.truth.scoring import unspoken


def main(names: list[str]) -> int:
    """Print what is wrong, and return the exit code."""
    wrong: list[str] = []
    for name in names:
        try:
            conversations = read(Path(name))
        except (ValidationError, ValueError) as error:
            wrong.append(f"{name}: {error}")
            continue
        wrong += [f"{one.id}: {text}" for one in conversations for text in (*problems(one), *unspoken(one))]
        print(f"{name}: {len(conversations)} conversations")
    print("\n".join(wrong) or "no problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

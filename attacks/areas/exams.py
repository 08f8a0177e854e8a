"""Configuration that a cloned repository brings: it leads out of it, never ends, or takes hours to parse."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from attacks.attack import Attack, Count

SOON = 20.0
"""Seconds within which a command ends, on a machine with other things to do."""
SECRET = "correct horse battery staple"

_BOMB = "\n".join(
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
        "questions: *a11",
    ]
)
TEXTS: Mapping[str, str] = {
    "aliases of aliases": _BOMB,
    "an alias in itself": "questions: &a [*a]\n",
    "deep lists": "[" * 200_000,
    "deep blocks": "".join(f"{' ' * depth}a:\n" for depth in range(2_000)),
    "a long number": f"- ask: {'9' * 5_000}\n",
    "a long number of base 60": f"- ask: 1{':59' * 300_000}\n",
    "a date that is none": "- ask: 2026-99-99\n",
    "very many values": f"questions: [{'1,' * 1_500_000}1]\n",
    "a tag of Python": "- !!python/object/apply:os.getcwd []\n",
}
COMMANDS = (("exam", "run", "--words"), ("exam", "make"))


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a command in a folder; return its exit status and output. -1: it did not end soon."""
    command = [sys.executable, "-m", "treering", *arguments]
    environment = {**os.environ, "TREERING_BACKGROUND": "0", "HOME": str(folder.parent)}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SOON)
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout + done.stderr


def prepared(folder: Path) -> Path:
    """Make a repository with a space and an empty folder of exams; return that folder."""
    repository = folder / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    run(repository, "init")
    exam = repository / ".treering" / "exam"
    exam.mkdir(parents=True, exist_ok=True)
    return exam


def take_time(folder: Path) -> Count:
    """Ship exams and ticket lists that take long to parse, or end in a traceback."""
    exam, tried, reached = prepared(folder), 0, 0
    repository = exam.parents[1]
    for text in TEXTS.values():
        (exam / "q.yaml").write_text(text)
        (repository / "tickets.yaml").write_text(text)
        for arguments in (COMMANDS[0], ("supervise", "tickets.yaml", "--worker", "true", "--script", "tickets.yaml")):
            code, output = run(repository, *arguments)
            tried += 1
            reached += code == -1 or "Traceback" in output
    return Count(tried, reached)


def lead_out(folder: Path) -> Count:
    """Ship links to a secret, to devices and to pipes; look for a line of the secret, and for a command that hangs."""
    exam, tried, reached = prepared(folder), 0, 0
    repository = exam.parents[1]
    secret = folder / "secret.yaml"
    secret.write_text(f"{SECRET}: [unclosed\n- {SECRET}\n")
    os.mkfifo(folder / "pipe")
    for target in (secret, Path("/dev/zero"), folder / "pipe"):
        (exam / "q.yaml").symlink_to(target)
        for arguments in COMMANDS:
            code, output = run(repository, *arguments)
            tried += 1
            reached += code == -1 or SECRET in output or "Traceback" in output
        (exam / "q.yaml").unlink()
    return Count(tried, reached)


def write_elsewhere(folder: Path) -> Count:
    """Ship links where a command writes; see whether a file outside of the repository changes."""
    exam = prepared(folder)
    repository, profile, new = exam.parents[1], folder / "profile", folder / "new.yaml"
    profile.write_text("")
    (repository / "a.md").write_text("Sessions are kept in one file.\n")
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for arguments in (("add", "a.md"), (*author, "commit", "-qm", "Keep all sessions in one file")):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    (exam / "proposed.yaml").symlink_to(new)
    run(repository, *COMMANDS[1])
    (exam / "proposed.yaml").unlink()
    (exam / "q.yaml").write_text("- {ask: where are the sessions, must: [a.md]}\n")
    (exam / "runs.jsonl").symlink_to(profile)
    run(repository, *COMMANDS[0])
    changed = [new.exists(), profile.read_text() != ""]
    return Count(len(changed), sum(changed))


ATTACKS = [
    Attack("files that take long to parse", take_time),
    Attack("links out of the repository", lead_out),
    Attack("links that are written to", write_elsewhere),
]

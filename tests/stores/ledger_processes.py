"""Processes that work on a ledger while a test looks on: see `ledger_process.py`."""

import os
import subprocess
import sys
from pathlib import Path

PROCESS = Path(__file__).with_name("ledger_process.py")


def start(role: str, place: object, seed: object, last: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROCESS), role, str(place), str(seed), str(last)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert read_lines(process, 1) == "ready\n"
    return process


def read_lines(process: subprocess.Popen[str], count: int) -> str:
    """Read so many lines of what a process says."""
    assert process.stdout
    place, said = process.stdout.fileno(), b""
    # Byte by byte: what a buffer has read ahead, `communicate` never sees.
    while said.count(b"\n") < count and (byte := os.read(place, 1)):
        said += byte
    assert said.count(b"\n") == count
    return said.decode()


def acknowledged(output: str) -> list[str]:
    """Return the ids in the complete lines of a writer's output."""
    return [identity for line in output.split("\n")[:-1] for identity in line.split() if ":" in identity]

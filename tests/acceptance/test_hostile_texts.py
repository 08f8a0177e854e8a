"""Texts made to be slow are read in time. The bound is generous: it only tells what ends from what does not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 120


def test_no_hostile_text_keeps_its_reader_busy_for_minutes():
    program = [sys.executable, "-m", "attacks.hostile_texts"]
    try:
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_SECONDS, check=True
        ).stdout
    except subprocess.TimeoutExpired as late:
        done = (late.stdout or b"").decode()
        pytest.fail(f"These were read, the next one was not: {done.splitlines()}")
    assert "a key of signs" in done.splitlines()

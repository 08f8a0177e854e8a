"""The repository all documentation speaks of: small, real, and the same in every run."""

import os
import subprocess
from pathlib import Path

FILES = {
    "README.md": """\
# acme-web

A small web service that fetches quotes and keeps sessions.

## Running

Start it with `python -m acme`. It listens on port 8080.

## Retries

A failed fetch is retried with a growing pause. `fetch` gives up after `RETRY_LIMIT` attempts.
""",
    "CONTRIBUTING.md": """\
# Contributing

- Every outgoing request must have a timeout.
- Never log a session token.
""",
    "docs/decisions/0001-sessions-in-sqlite.md": """\
# 1. Sessions in SQLite

Status: accepted

## Context

Where are sessions kept? The service runs on one machine.

## Decision

Sessions are kept in one SQLite file.

## Consequences

There is no server to operate. A second machine would need another decision.
""",
    "pyproject.toml": """\
[project]
name = "acme-web"
version = "1.2.0"
requires-python = ">=3.11"
license = "MIT"
""",
    "src/acme/fetch.py": '''\
"""Fetching quotes from the upstream service."""

import time
from urllib.request import urlopen

RETRY_LIMIT = 3


def fetch(url: str, *, limit: int = RETRY_LIMIT) -> bytes:
    """Fetch `url`, trying again with a growing pause; raise the last error after `limit` attempts."""
    for attempt in range(1, limit + 1):
        try:
            return urlopen(url, timeout=5).read()
        except OSError:
            if attempt == limit:
                raise
            time.sleep(0.1 * 2**attempt)
    raise ValueError("limit must be at least 1")
''',
    "src/acme/sessions.py": '''\
"""Sessions, kept in one SQLite file."""

import sqlite3


class Sessions:
    """The sessions of all users."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path)

    def forget(self, token: str) -> None:
        """End the session of `token`."""
        self._connection.execute("DELETE FROM sessions WHERE token = ?", (token,))
''',
}

GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-05T09:00:00Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-05T09:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""Who commits and when, so that commits have the same name in every run."""


def make_repository(folder: Path) -> None:
    """Write the files and commit them once."""
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for arguments in (
        ("-c", "init.defaultBranch=main", "init", "--template="),
        ("remote", "add", "origin", "https://example.org/acme/web.git"),
        ("add", "--all"),
        ("commit", "--message", "Begin"),
    ):
        subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **GIT}, capture_output=True, check=True)

"""Real git repositories for tests, untouched by the configuration of whoever runs them."""

import os
import subprocess
from pathlib import Path

WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


class Scratch:
    """A work tree to write, commit and break."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--template=")

    def git(self, *arguments: str, **who: str) -> str:
        settings = ("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "gc.auto=0")
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **WHO, **who},
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def commit(
        self, files: dict[str, str | bytes] | None = None, *, author: str = "Ada", message: str = "change"
    ) -> str:
        for path, text in (files or {}).items():
            self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, GIT_AUTHOR_EMAIL=f"{author}@example.org")
        return self.git("rev-parse", "HEAD")

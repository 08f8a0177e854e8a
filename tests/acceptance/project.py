"""A small project under git, for tests that use Treering as its users do."""

import os
import subprocess

CLIENT = '''\
"""Uploads files to the gateway."""

import time

MAX_RETRIES = 5


class Settings:
    """Where the gateway stands and who we are to it.

    Read once when the program starts. The host and the key come from the environment, the rest from the file beside
    the program; a missing host is an error, because guessing one has sent files to strangers before.
    """

    def __init__(self, host, key, chunk_bytes):
        self.host = host
        self.key = key
        self.chunk_bytes = chunk_bytes


def upload(path, settings):
    """Upload a file; give up after MAX_RETRIES attempts, because the gateway bans clients that retry_on_conflict.

    Between two attempts it waits twice as long as before, so that a gateway that restarts has time to come up. The
    number of attempts that were needed is given back for the statistics of the operators.
    """
    for attempt in range(MAX_RETRIES):
        if send(path, settings):
            return attempt
        time.sleep(2**attempt)
    raise GaveUp(path)


def send(path, settings):
    """Send one file over the wire in chunks, and tell whether the gateway took all of them.

    The gateway answers each chunk with its checksum. One that differs is sent again by the caller, as part of the
    whole file: the gateway keeps nothing of an upload that failed.
    """
    return all(settings.host and chunk for chunk in path)


class GaveUp(Exception):
    """The gateway did not take the file."""
'''
README = """\
# Acme uploader

Uploads files to the gateway.

## Limits

The gateway bans clients that retry an upload more than five times.
"""


class Project:
    """A work tree; whoever runs the tests has no say in its git."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main", "--template=")

    def commit(self, **files):
        """Write files (`src__client_py` is `src/client.py`) and commit them; return the commit."""
        for name, text in files.items():
            stem, _, ending = name.replace("__", "/").rpartition("_")
            file = self.folder / f"{stem}.{ending}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments):
        """Run git in the work tree; return what it says."""
        who = {
            f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env={**who, **plain}, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

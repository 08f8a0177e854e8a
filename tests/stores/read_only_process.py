"""A process that opens a space as another user, who may only read it.

`PATH read UID` reads and prints so, then tries to write and prints the error's code. `PATH wait UID` says that it is
ready, waits for a line, then reads and prints whether it was told of a change.
"""

import os
import sys

import treering
from treering.core.errors import TreeringError, Unavailable
from treering.testing.fakes import HashingEmbedder


def main() -> None:
    path, role, user = sys.argv[1:]
    warm_up()
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    with opened(f"sqlite:{path}") as space:
        assert space.query("search", input={"text": "bees hum"}).hits
        assert space.lint("audit").verified
        if role == "read":
            say("read")
            try:
                space.ingest("source", input={"text": "More."})
            except TreeringError as error:
                say(error.code)
            return
        say("ready")
        sys.stdin.readline()
        try:
            space.query("search", input={"text": "bees hum"})
        except Unavailable as error:
            say("changed" if "was changed" in error.message else error.message)


def opened(address: str) -> treering.Space:
    return treering.open(address, actor="nobody", background=False, embedder=HashingEmbedder())


def warm_up() -> None:
    """Import everything that is used: the other user may not read this installation."""
    with opened(":memory:") as space:
        space.ingest("source", input={"text": "Bees hum."})
        space.embed_pending()
        space.query("search", input={"text": "bees hum"})
        space.lint("audit")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

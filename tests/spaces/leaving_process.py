"""A process that ends while vectors are made, without closing what it opened.

`slow FOLDER` embeds slowly, and prints when a batch begins and ends; `model FOLDER SECONDS` uses the built-in model and
ends after so long.
"""

import sys
import time
from threading import Event

import treering
from treering.testing.fakes import HashingEmbedder

DOCS = [f"Bees hum at noon, says document {number}. " * 20 for number in range(60)]


class Slow(HashingEmbedder):
    """An embedder that takes its time, and says when it begins and ends."""

    def __init__(self):
        super().__init__()
        self.begun = Event()

    def embed_documents(self, texts):
        say("begun")
        self.begun.set()
        time.sleep(0.5)
        say("ended")
        return super().embed_documents(texts)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main() -> None:
    role, folder, *seconds = sys.argv[1:]
    embedder = Slow() if role == "slow" else None
    projects = treering.open_projects(folder, background=True, embedder=embedder)
    projects.index("acme", DOCS)
    if embedder:
        embedder.begun.wait()
    else:
        projects.retrieve("acme", ["Who hums?"])
        time.sleep(float(*seconds))


if __name__ == "__main__":
    main()

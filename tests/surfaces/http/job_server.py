"""A server as a process of its own, over a folder: `job_server.py FOLDER [held]`; held, it never comes to an end."""

import sys
from pathlib import Path
from time import sleep

from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving
from treering.extensions.server.serving import serve_until_stopped
from treering.testing.fakes import HashingEmbedder


class EndlessEmbedder(HashingEmbedder):
    """Embeds nothing, for ever."""

    def embed_documents(self, texts):
        while True:
            sleep(1)


def main(folder: Path, *, held: bool) -> None:
    """Serve until somebody ends the process."""
    serving = Serving(
        space=f"sqlite:{folder / 's.db'}",
        parts={"projects": ServedProjects(folder / "projects")},
        files=folder / "files",
        background=False,
        embedder=EndlessEmbedder() if held else HashingEmbedder(),
    )
    serve_until_stopped(serving, host="127.0.0.1", port=0, tell=tell)


def tell(address: str) -> None:
    """Print the address, at once."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), held=sys.argv[2:] == ["held"])

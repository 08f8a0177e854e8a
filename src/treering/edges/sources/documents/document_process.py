"""Reading documents in a child process with bounds: 1 GB of memory and a few seconds of CPU time for a file."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module

from treering.edges.sources.bounded_process import BoundedProcess, answer_questions
from treering.edges.sources.documents.contents import (
    DocumentContents,
    DocumentDamaged,
    DocumentUnit,
    NotThatFormat,
    bounded,
)
from treering.ports.format import Unreadable

MEMORY_BYTES = 1_000_000_000
_CPU_SECONDS = 8
_BYTES_PER_SECOND = 200_000
_READERS: Mapping[str, str] = {
    "pdf": "treering.edges.sources.documents.pdf_reader",
    "office": "treering.edges.sources.documents.office_reader",
    "mail": "treering.edges.sources.documents.mail_reader",
    "html": "treering.edges.sources.documents.html_page",
}
"""The modules whose function `read` reads a format. Only the child imports them."""
_LINKED = "+linked"
"""Behind the name of a reader: its function `read_linked` reads, which also tells what a browser shows."""


@dataclass(frozen=True, slots=True)
class DocumentProcess:
    """Reads documents in a child process, started when it is first needed. Safe to use from many threads."""

    _process: BoundedProcess = field(
        default_factory=lambda: BoundedProcess(__name__, *((10.0,) if sys.platform == "win32" else ()))
    )

    def read(self, reader: str, data: bytes, *, linked: bool = False) -> DocumentContents | Unreadable | None:
        """Return what `reader` finds in a file. `None`: it is of another format.

        `linked`: a page has an address, and links to its passages are made by what a browser shows of it.
        """
        reader += _LINKED if linked else ""
        seconds = _CPU_SECONDS + len(data) // _BYTES_PER_SECOND
        answer = self._process.ask(len(reader).to_bytes() + reader.encode() + data, seconds=seconds)
        if answer is None:
            return Unreadable(
                f"it cannot be read within {seconds} s and {MEMORY_BYTES // 10**6:,} MB, or stops its reader"
            )
        told = json.loads(answer)
        if told is None:
            return None
        if "why" in told:
            return Unreadable(told["why"])
        return DocumentContents(**{**told, "units": [DocumentUnit(**unit) for unit in told["units"]]})


def serve() -> None:
    """Read the files that are asked for on standard input."""
    answer_questions(_answered, memory_bytes=MEMORY_BYTES)


def _answered(question: bytes) -> bytes:
    name = question[1 : 1 + question[0]].decode()
    module = import_module(_READERS[name.removesuffix(_LINKED)])
    read: Callable[[bytes], DocumentContents] = module.read_linked if name.endswith(_LINKED) else module.read
    return json.dumps(_told(read, question[1 + question[0] :])).encode()


def _told(read: Callable[[bytes], DocumentContents], data: bytes) -> dict[str, object] | None:
    try:
        return asdict(bounded(read(data)))
    except NotThatFormat:
        return None
    except DocumentDamaged as error:
        return {"why": str(error)}
    except MemoryError:
        return {"why": f"reading it takes more than {MEMORY_BYTES // 10**6:,} MB"}
    except RecursionError:
        return {"why": "it is nested too deeply to be read"}
    except Exception as error:  # noqa: BLE001 - parsers raise anything for bytes that somebody damaged
        return {"why": f"it is damaged ({type(error).__name__})"}

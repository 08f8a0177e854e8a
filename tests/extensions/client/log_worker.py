"""Append to a log of a space from a process of its own: `log_worker.py FILE NAME COUNT`."""

import sys

import client_parts

from treering.extensions.client.record_names import RecordCollection
from treering.extensions.client.records import RecordEntry, RecordLog

CALLS = RecordCollection(("calls",))


def main() -> None:
    """Append two entries in each of so many calls."""
    file, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with client_parts.blocking(client_parts.config(backend="sqlite", sqlite={"path": file})) as client:
        log = RecordLog(client.records, CALLS)
        for number in range(count):
            log.append([RecordEntry({"by": name, "call": number, "part": part}) for part in (0, 1)], reason="test")


if __name__ == "__main__":
    main()

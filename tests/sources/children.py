"""A program that answers questions badly, as a parser does that meets a hostile file."""

import os
import sys

from treering.sources.reading.bounded_process import answer_questions, cpu_limited

MEMORY = 400_000_000


def serve():
    answer_questions(_answered, memory_bytes=MEMORY)


def _answered(question):
    match question:
        case b"loop":
            while True:
                pass
        case b"loop in a part":
            with cpu_limited(1):
                while True:
                    pass
        case b"limits":
            return repr(_limits()).encode()
        case b"crash":
            os.abort()
        case b"eat":
            return _eaten()
        case b"print":
            sys.stdout.write("noise")
            sys.stdout.flush()
        case b"who":
            return str(os.getpid()).encode()
    return b"answer to " + question


def _limits():
    import resource  # not on Windows

    before = resource.getrlimit(resource.RLIMIT_CPU)
    with cpu_limited(1):
        inside = resource.getrlimit(resource.RLIMIT_CPU)
    return before == resource.getrlimit(resource.RLIMIT_CPU) != inside


def _eaten():
    try:
        return str(len(bytearray(10 * MEMORY))).encode()
    except MemoryError:
        return b"refused"

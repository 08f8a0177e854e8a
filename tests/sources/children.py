"""A program that answers questions badly, as a parser does that meets a hostile file."""

import os
import sys

from treering.sources.reading.bounded_process import answer_questions

MEMORY = 400_000_000


def serve():
    answer_questions(_answered, memory_bytes=MEMORY)


def _answered(question):
    match question:
        case b"loop":
            while True:
                pass
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


def _eaten():
    try:
        return str(len(bytearray(10 * MEMORY))).encode()
    except MemoryError:
        return b"refused"

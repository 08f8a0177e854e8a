"""The memory of a server's threads."""

import platform
import subprocess
import sys

import pytest

COUNT = """
import ctypes, sys, threading
from treering.system.machine import share_heap

library = ctypes.CDLL(None)
library.malloc.argtypes, library.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
if sys.argv[1] == "shared":
    share_heap()
together = threading.Barrier(4)

def allocate():
    together.wait()
    for _ in range(1_000):
        library.malloc(2_000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_info(0, ctypes.c_void_p.in_dll(library, "stdout"))
library.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
@pytest.mark.parametrize(("heaps", "one"), [("own", False), ("shared", True)])
def test_threads_share_one_heap(heaps, one):
    done = subprocess.run([sys.executable, "-c", COUNT, heaps], check=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout.count("<heap nr=") == 1) is one

"""What a kind of reading prefers beyond likeness: the last weights before packing."""

import re
from collections.abc import Sequence
from dataclasses import replace

from treering.core.locator import Lines
from treering.derived.retrieval import Hit

TEST_WEIGHT = 0.7
"""What a passage of a test counts for where the task does not speak of tests: they repeat the words of the code."""

_TEST_PATH = re.compile(r"(?:^|[/#])(?:tests?|specs?|__tests__|testdata)/|(?:^|[/#])test_|[._]tests?\.|[._]spec\.")
_OF_TESTS = re.compile(r"\b(?:tests?|testing|specs?|coverage)\b", re.IGNORECASE)


def code_before_tests(hits: Sequence[Hit], task: str) -> list[Hit]:
    """Rank again with tests behind the code they repeat, unless the task is about tests."""
    if _OF_TESTS.search(task):
        return list(hits)
    weighed = [replace(hit, score=hit.score * TEST_WEIGHT) if _is_test(hit) else hit for hit in hits]
    return sorted(weighed, key=lambda hit: -hit.score)


def is_test_path(path: str) -> bool:
    """Tell by the path of a file in its project whether it is of a test."""
    return _TEST_PATH.search(path) is not None


def _is_test(hit: Hit) -> bool:
    # A file's origin may name the folders it happens to lie in; its lines cite the path in its project.
    path = hit.locator.path if isinstance(hit.locator, Lines) else hit.head.origin.rpartition("#")[2]
    return is_test_path(path)

"""A rule that names a place of the repository is for that place only."""

import pytest

from treering.verbs.forbidden_code import forbidden_by
from treering.verbs.rule_places import is_in, places_in

PATHS = [
    "redis/lock.py",
    "redis/asyncio/lock.py",
    "tests/a.py",
    "middleware/a.go",
    "src/api/b.py",
    "deploy/production/c",
]


@pytest.mark.parametrize(
    ("rule", "places"),
    [
        ("Never use threading.Event in redis/lock.py", ["redis/lock.py"]),
        ("Do not use time.sleep in redis/asyncio", ["redis/asyncio"]),
        ("Use httpx instead of requests in tests", ["tests"]),
        ("Never use fmt.Println in middleware.", ["middleware"]),
        ("Mock nothing in the api package.", ["api"]),
        ("In `lock.py`, never sleep", ["lock.py"]),
        ("In redis/lock.py and tests: never sleep", ["redis/lock.py", "tests"]),
        ("Write docs in middleware, not in tests.", ["middleware"]),
        ("Never use fmt.Println in *.go", ["*.go"]),
    ],
)
def test_rule_names_the_places_it_is_for(rule, places):
    assert places_in(rule, PATHS) == places


@pytest.mark.parametrize(
    "rule",
    [
        "Never log passwords in production",
        "Never sleep in redis clients",
        "Log errors in JSON",
        "Never call eval in a request",
        "Use redis/lock.py instead of threading",
        "Never use eval in redis/gone.py",
    ],
)
def test_condition_or_missing_place_does_not_limit_a_rule(rule):
    assert places_in(rule, PATHS) == []


def test_path_of_a_place_is_a_whole_path():
    assert is_in("redis/lock.py", "src/redis/lock.py")
    assert not is_in("redis/lock.py", "redis/asyncio/lock.py")
    (forbidden,) = forbidden_by("Never use time.sleep in redis/lock.py")
    assert forbidden.lines_in("redis/lock.py", "time.sleep(1)") == [1]
    assert forbidden.lines_in("redis/asyncio/lock.py", "time.sleep(1)") == []

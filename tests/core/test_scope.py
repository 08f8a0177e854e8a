import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from treering.core.errors import InvalidInput
from treering.core.scope import ROOT, Scope, ScopeGiven, is_within, lineage, parse_scope, scope_schema, sees

parts = st.lists(st.sampled_from(["a", "b", "ab", "repo name", "ä"]), max_size=4)
scopes = parts.map(lambda names: "/" + "/".join(names))


@pytest.mark.parametrize(
    ("text", "normal"), [("/", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a b/ü", "/a b/ü"), ("/a/..b", "/a/..b")]
)
def test_a_scope_has_one_normal_form(text: str, normal: str) -> None:
    assert parse_scope(text) == normal
    assert parse_scope(normal) == normal


@pytest.mark.parametrize(
    "text",
    ["", "a", "a/b", "//", "/a//b", "/.", "/a/../b", "/a\n", "/a/\x00", "/ a", "/" + "a" * 129, "/a" * 65],
)
def test_what_is_no_path_is_no_scope(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_scope(text)
    assert repr(text) in refused.value.message
    assert "/repo/acme-web" in refused.value.hint
    assert refused.value.details == {"given": text}


def test_a_scope_has_up_to_64_parts_of_up_to_128_characters() -> None:
    longest = "/" + "/".join(["a" * 128] * 64)
    assert parse_scope(longest) == parse_scope(longest + "/") == longest


def test_a_model_says_what_is_wrong_with_a_scope_and_what_one_looks_like() -> None:
    with pytest.raises(ValidationError, match=r"'a/b' is not a valid scope\. A scope is a path such as /"):
        TypeAdapter(Scope).validate_python("a/b")


@pytest.mark.parametrize(
    ("given", "scope"), [("/a/", "/a"), ({}, "/"), ({"path": "/a"}, "/a"), ({"scope": "/a/b"}, "/a/b")]
)
def test_a_call_names_a_scope_by_its_path_or_by_an_object_that_holds_one(given: object, scope: str) -> None:
    assert TypeAdapter(ScopeGiven).validate_python(given) == scope


@pytest.mark.parametrize(
    "given", [{"name": "/a"}, {"path": "/a", "scope": "/a"}, {"path": 1}, {"path": {"path": "/a"}}]
)
def test_an_object_that_holds_anything_else_is_no_scope(given: object) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(ScopeGiven).validate_python(given)
    (error,) = refused.value.errors()
    said = 'a scope is a path such as /repo/acme-web, or an object with it: {} or {"path": "/…"}'
    assert error["msg"] == f"Value error, {said}"


def test_scope_schema_has_both_forms() -> None:
    path = {"type": "string", "description": "Where."}
    assert scope_schema(description="Where.") == {
        "anyOf": [
            path,
            {
                "type": "object",
                "properties": {"path": path, "scope": path},
                "additionalProperties": False,
                "maxProperties": 1,
            },
        ]
    }


def test_a_lineage_goes_from_the_root_to_the_scope() -> None:
    assert lineage("/") == ("/",)
    assert lineage("/a/b") == ("/", "/a", "/a/b")


def test_a_scope_whose_name_begins_alike_is_not_within() -> None:
    assert is_within("/repo/ab", "/repo")
    assert not is_within("/repo/ab", "/repo/a")


@given(scopes, scopes)
def test_a_read_sees_exactly_the_lineage(reader: str, scope: str) -> None:
    assert sees(reader, scope) == (scope in lineage(reader))


@given(scopes, scopes)
def test_descending_adds_exactly_what_is_below(reader: str, scope: str) -> None:
    below = scope == reader or reader == ROOT or scope.startswith(reader + "/")
    assert sees(reader, scope, descend=True) == (below or scope in lineage(reader))


@given(scopes)
def test_everybody_sees_the_root_and_themselves(scope: str) -> None:
    assert sees(scope, ROOT)
    assert sees(scope, scope)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.workflows.definition import Template

VALUES = {"a": "1", "b": "{a}", "c": "{{a}}}", "name_2": "two"}


def filled(text):
    return Template.parse(text).fill(VALUES.__getitem__)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{a}", "1"),
        ("x{a}{name_2}y", "x1twoy"),
        ("{{a}}", "{a}"),
        ("{{{a}}}", "{1}"),
        ('[{{"title": "{a}"}}]', '[{"title": "1"}]'),
    ],
)
def test_variables_are_filled_in_and_doubled_braces_are_braces(text, whole):
    assert filled(text) == whole


def test_what_is_filled_in_is_never_read_for_variables_again():
    assert filled("{b} {c}") == "{a} {{a}}}"


@pytest.mark.parametrize("text", ["{", "}", "{ a }", "{a", "a}", '{"a": 1}', "{a-b}", "{1a}", "{a}}"])
def test_a_brace_that_belongs_to_no_variable_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match=r"the brace at character \d+ .* double it"):
        Template.parse(text)


@settings(max_examples=60)
@given(st.text(alphabet="ab{}\n "))
def test_any_text_with_its_braces_doubled_is_itself(text):
    assert filled(text.replace("{", "{{").replace("}", "}}")) == text


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["{a}", "{b}", "{{", "}}", "x", " "])).map("".join))
def test_a_template_written_out_again_is_the_same(text):
    template = Template.parse(text)
    assert Template.parse(template.text) == template


def test_the_names_of_a_template_are_each_given_once_in_order():
    assert Template.parse("{b}{a}{b}").names == ("b", "a")

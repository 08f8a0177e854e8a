import pytest

from treering.core.filters import parse_filter
from treering.derived.arms import search_arms
from treering.derived.question import Question
from treering.ports.reach import Reach

CODE_PASSES = [{}, {"type": "source"}, {"type": {"in": ["knowledge", "source"]}}, {"role": "code"}, {"kind": "file"}]
NO_CODE_PASSES = [{"type": "knowledge"}, {"type": {"in": ["knowledge", "activity"]}}, {"role": {"in": ["test"]}}]


@pytest.mark.parametrize(
    ("where", "role"), [*((one, "code") for one in CODE_PASSES), *((one, "") for one in NO_CODE_PASSES)]
)
def test_code_is_ranked_by_itself_only_where_a_filter_lets_it_pass(where, role):
    question = Question.of("How does the uploader retry?", embedder=None)
    assert next(search_arms(question, Reach("/", where=parse_filter(where)))).words_in == role

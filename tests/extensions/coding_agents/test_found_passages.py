"""Of the passages of found files, the best one of each file is shown, and a second one of a file that answers best."""

from treering.extensions.coding_agents.found_passages import passages_to_show
from treering.retrieval.search.relevance import WEAK
from treering.verbs.shown_hits import ShownHit, ShownPassage

SUBJECT = frozenset({"voucher", "discount", "expir"})


def passage(symbol, text, *, path, score=0.5):
    place = f"{path}#L1-L9 @ 1f3c"
    return ShownPassage(text=text, heading=symbol, segment_id=symbol, place=place, score=score, symbol=symbol)


def file(path, *passages, score=1.0, flags=()):
    best, *more = [passage(*one, path=path) for one in passages]
    return ShownHit.model_construct(**{**dict(best), "score": score, "flags": flags, "object_id": path, "more": more})


def symbols(*files, prompt="the voucher discount expires"):
    return [hit.symbol for hit in passages_to_show(files, prompt, SUBJECT)]


def test_file_that_answers_best_gets_a_second_place():
    vouchers = file("vouchers.py", ("expire", "voucher expires"), ("discount", "voucher discount"), ("total", "sum"))
    assert symbols(vouchers, file("orders.py", ("order", "a voucher"), score=0.9)) == ["discount", "order", "expire"]


def test_further_file_with_a_low_score_is_left_out():
    assert symbols(file("vouchers.py", ("f", "voucher")), file("orders.py", ("g", "voucher"), score=0.5)) == ["f"]


def test_code_comes_before_documents_unless_the_prompt_is_about_them():
    guide, code = file("guide.md", ("Vouchers", "voucher discount")), file("v.py", ("f", "voucher discount"), score=0.9)
    assert symbols(guide, code) == ["f", "Vouchers"]
    assert symbols(guide, code, prompt="document that the voucher discount expires") == ["Vouchers", "f"]


def test_passages_outside_of_definitions_are_shown_only_without_others():
    imports = ("", "import voucher discount expires")
    assert symbols(file("vouchers.py", imports, ("f", "voucher"))) == ["f"]
    assert symbols(file("vouchers.py", imports)) == [""]


def test_weak_passages_are_left_out():
    assert symbols(file("vouchers.py", ("f", "voucher"), flags=(WEAK,))) == []

from treering.retrieval import limits
from treering.retrieval.search.question import essence_of, is_long, terms_of
from treering.retrieval.text.analysis import MAX_WORDS

ISSUE = """Dynamically added marker no longer ignores failure
<!--
Thanks for submitting a quibble!
-->
- [x] I have read the manifesto

**Describe the bug**
The xfail of `request.node.add_marker` is ignored.

```
$ pip list
Package    Version
---------- -------
alabaster  0.7.12
zope.interface 5.1.0
```

**Environment info**
- OS: Mac
- Python version: 3.9.1
rootdir: /home/ada2/work

**Screenshots**
No
"""


def test_a_template_and_lists_of_versions_are_omitted():
    told = essence_of(ISSUE)
    assert "xfail of `request.node.add_marker`" in told
    for noise in ("quibble", "manifesto", "Describe", "alabaster", "zope", "3.9.1", "Screenshots", "rootdir", "No\n"):
        assert noise not in told


def test_the_title_of_a_long_question_and_what_it_repeats_count_twice():
    query = terms_of("Marker fails\n\n" + "the fixture is torn down. " * 3 + "once a session")
    assert {"marker", "fail", "fixtur"} <= set(query.emphasis)
    assert "session" in query.words
    assert "session" not in query.emphasis


def test_a_short_question_is_read_as_it_is():
    question = "Describe the bug in version 3.9.1: colour colour colour"
    assert not is_long(question)
    assert terms_of(question).emphasis == ()
    assert "describ" in terms_of(question).words


def test_a_long_question_is_looked_for_by_a_bounded_number_of_terms():
    text = "Title words here\n" + "\n".join(
        f"wordnumber{chr(97 + n // 26)}{chr(97 + n % 26)} again" for n in range(500)
    )
    query = terms_of(text)
    assert len(query.words) == limits.MAX_LONG_QUESTION_WORDS
    assert len(query.words) + len(query.emphasis) <= MAX_WORDS


def test_a_comment_that_does_not_end_and_a_text_of_nothing_but_versions_are_kept():
    assert "retries" in essence_of("Title\n<!-- the retries fail")
    assert "numpy" in essence_of("numpy 1.2.3\nscipy 4.5.6")


def test_paths_and_versions_in_a_long_question_are_no_names_to_look_for_in_others():
    query = terms_of("Fails\n/usr/lib/python3/site.py calls retry_upload in 3.9.1rc2")
    assert query.identifiers == ("retry_upload",)

import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterable

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treering.retrieval.text.analysis import (
    MAX_IDENTIFIERS,
    MAX_PHRASES,
    MAX_WORDS,
    identifier_text,
    index_text,
    names_in,
    query_terms,
    stretches_of,
    terms_of,
)
from treering.retrieval.text.languages import language_of
from treering.stores.sqlite.index.tables import IDENTIFIER_TOKENIZER, WORD_TOKENIZER
from treering.stores.sqlite.sight import fts_query

ANY_TEXT = st.text(st.characters(), max_size=60)
SYNTAX = st.lists(
    st.sampled_from(
        ['"', "'", "AND", "NOT", "NEAR(", "(", ")", "*", "^", ":", "-", "+", "{a b}", "body", ",", "\0", "x"]
    )
).map(" ".join)


def words_of(*texts: str) -> apsw.Connection:
    return _table(WORD_TOKENIZER, map(index_text, texts))


def names_of(*texts: str) -> apsw.Connection:
    return _table(IDENTIFIER_TOKENIZER, map(identifier_text, texts))


def found_by_words(table: apsw.Connection, query: str) -> list[int]:
    return _rows(table, query_terms(query).words)


def found_by_names(table: apsw.Connection, query: str) -> list[int]:
    return _rows(table, query_terms(query).identifiers)


@given(st.one_of(ANY_TEXT, SYNTAX))
@example("")
@example("\ud800 lone surrogate")
@example('" OR body:* NEAR(')
@settings(max_examples=150, deadline=None)
def test_no_query_is_ever_a_syntax_error(query: str) -> None:
    table = words_of("some text", query)
    terms = query_terms(query)
    _rows(table, (*terms.words, *terms.phrases))
    _rows(names_of(query), terms.identifiers)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=5))
@settings(max_examples=100, deadline=None)
def test_even_raw_terms_cannot_become_syntax(terms: list[str]) -> None:
    _rows(words_of("some text"), terms)


@given(ANY_TEXT)
@settings(max_examples=150, deadline=None)
def test_a_text_is_found_by_every_term_it_was_indexed_with(text: str) -> None:
    table = words_of(text)
    assert all(_rows(table, [term]) == [0] for term in set(index_text(text).split(" ")) - {""})


@given(ANY_TEXT)
@settings(max_examples=150, deadline=None)
def test_a_text_with_any_word_is_found_by_its_own_words(text: str) -> None:
    assert found_by_words(words_of(text), text) == ([0] if index_text(text) else [])


@pytest.mark.parametrize("query", ["commitPatch", "commit_patch", "commit-patch", "commit", "PATCH", "patches"])
def test_an_identifier_is_found_whole_in_any_spelling_and_by_its_parts(query: str) -> None:
    assert found_by_words(words_of("def commitPatch(self): ...", "nothing of the kind"), query) == [0]


def test_the_whole_identifier_ranks_above_texts_that_only_have_its_parts() -> None:
    table = words_of("the user may change the name they get", "x = get_user_name()", *["other words"] * 5)
    query = fts_query(query_terms("getUserName").words)
    ranked = [row for (row,) in table.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank", (query,))]
    assert ranked == [1, 0]


@pytest.mark.parametrize("query", ["mitPat", "conflict_ch", "edges/stores", "sqlite.led"])
def test_a_stretch_inside_a_name_is_found(query: str) -> None:
    table = names_of("commitPatch conflict_check in src/edges/stores/sqlite.ledger", "plain words, nothing else")
    assert found_by_names(table, query) == [0]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们用一个数据库保存所有的记忆", "记忆"),
        ("我们用一个数据库保存所有的记忆", "数据库"),
        ("大树的年轮", "树"),
        ("記憶はファイルに保存されます", "保存"),
        ("데이터베이스를 다시 만든다", "데이터베이스"),
        ("ฐานข้อมูลถูกสร้างใหม่", "ข้อมูล"),
        ("ज्ञान का भंडार", "ज्ञान"),
        ("Größe und Straße", "STRASSE"),
        ("Ein Café in Zürich", "cafe zurich"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", "full"),
        ("версия2版本", "版本"),
    ],
)
def test_a_word_is_found_in_every_script(text: str, query: str) -> None:
    assert found_by_words(words_of(text, "something else entirely, 別の話"), query) == [0]


def test_names_of_different_scripts_stay_different() -> None:
    texts = ["Иванов", "山田", "김철수", "محمد", "שלום"]
    assert len({index_text(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(("text", "query"), [("they were running", "run"), ("Caroline's horse", "caroline")])
def test_inflected_words_meet(text: str, query: str) -> None:
    assert found_by_words(words_of(text), query) == [0]


def test_stop_words_are_asked_only_when_there_is_nothing_else() -> None:
    assert query_terms("What did the ledger do?").words == ("ledger",)
    assert found_by_words(words_of("to be or not to be"), "to be or not to be") == [0]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How many weddings did we have?", ("mani", "wed")),
        ("What do they own, and who are the owners of the others?", ("owner", "other")),
        ("Is he ill?", ("ill",)),
        ("We'd go, I'll stay, she’d read", ("stay", "read")),
        ("the set-up of on-off switches", ("setup", "set", "onoff", "switch")),
    ],
)
def test_a_stop_word_is_told_by_the_word_and_not_by_its_stem(query: str, words: tuple[str, ...]) -> None:
    assert query_terms(query).words == words


def test_a_phrase_in_quotes_is_kept_in_order() -> None:
    table = words_of("patches are committed", "committed are patches")
    assert _rows(table, query_terms('see "patches are committed"').phrases) == [0]


def test_a_very_long_query_stays_bounded_and_keeps_what_it_repeats() -> None:
    terms = query_terms(" ".join(f'word{n} "quoted {n} phrase" a_{n}_b' for n in range(900)) + " ledger" * 9)
    assert len(terms.words) == MAX_WORDS
    assert len(terms.identifiers) == MAX_IDENTIFIERS
    assert len(terms.phrases) == MAX_PHRASES


def test_of_a_long_query_the_repeated_words_are_kept() -> None:
    query = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(200)) + " ledger ledger"
    assert "ledger" in query_terms(query).words


def test_prose_adds_nothing_to_the_index_of_names() -> None:
    assert identifier_text("Plain words, well-known ones, said twice. And 42 of them.") == ""


def test_a_name_is_kept_once() -> None:
    assert identifier_text("open_space() then open_space() again, in Open_Space") == "open_space"


def test_in_code_every_longer_word_is_a_name() -> None:
    assert "parsequery" in names_in(stretches_of("parsequery(x)"), any_word=True)


def test_encoded_data_is_one_bounded_term() -> None:
    terms = index_text("A" * 5000).split()
    assert len(terms) == 1
    assert len(terms[0]) <= 64


def _table(tokenizer: str, rows: Iterable[str]) -> apsw.Connection:
    table = apsw.Connection(":memory:")
    table.execute(f"CREATE VIRTUAL TABLE t USING fts5(body, content='', tokenize=\"{tokenizer}\")")
    table.executemany("INSERT INTO t(rowid, body) VALUES (?, ?)", list(enumerate(rows)))
    return table


def _rows(table: apsw.Connection, terms: Iterable[str]) -> list[int]:
    query = f"{fts_query(terms)} AND {fts_query(terms)}"
    return [row for (row,) in table.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rowid", (query,))]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Sitzungen werden in einer Datei gehalten.", "Wo ist eine Sitzung, und wer hält sie?"),
        ("Les conteneurs sont redémarrés par le serveur.", "Est-ce que le conteneur a redémarré ?"),
        ("Se quejó de que las facturas no llegaban.", "¿Dónde está la factura y por qué no llegó?"),
        ("La cartella dell'utente si trova nel server.", "Dove si trovano gli utenti e le cartelle?"),
        ("Os relatórios são enviados para os clientes.", "Quando é que o relatório foi enviado?"),
        ("Lagringen av sessionerna är långsam.", "Var är en session och vad är långsamt?"),
        ("Отчёты хранятся в папке, и их читают.", "Где хранится отчёт и кто его читал?"),
    ],
)
def test_another_language_is_stemmed_as_that_language(text: str, query: str) -> None:
    other = "A sentence in English that has none of it."
    assert found_by_words(words_of(other, text), query) == [1]
    assert set(index_text(text).split()) & set(query_terms(query).words) - {"en", "la"}


def test_a_text_too_short_to_tell_its_language_is_found_by_its_words_as_they_are_written() -> None:
    assert found_by_words(words_of("Kündigungsfristen"), "Wo stehen die Kündigungsfristen und wer prüft sie?") == [0]
    assert found_by_words(words_of("Die Kündigungsfristen stehen im Vertrag und nicht hier."), "Kündigungsfristen") == [
        0
    ]


def test_function_words_of_the_language_of_a_question_are_not_looked_for() -> None:
    assert not {"wo", "werden", "die", "und"} & set(query_terms("Wo werden die Sitzungen und Daten gespeichert?").words)


def test_a_phrase_in_another_language_stays_a_phrase() -> None:
    text = "Die Sitzungen der Benutzer werden gehalten, und nicht gelöscht."
    assert " ".join(query_terms('"Sitzungen der Benutzer"').phrases) in index_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "The man walked in the Rue de la Paix, and it was late.",
        "Who is Angela de la Cruz?",
        "for key in range(10):\n    de = key.la",
        "Les Paul",
        "",
    ],
)
def test_names_in_english_text_are_no_other_language(text: str) -> None:
    assert language_of(text) is None


def test_a_text_that_may_be_in_two_languages_has_the_same_terms_in_every_process() -> None:
    script = "import sys; from treering.retrieval.text.analysis import index_text; print(index_text(sys.argv[1]))"
    told = {
        subprocess.run(
            [sys.executable, "-c", script, "bilerne blev og bilene ble gennem eller gjennom husene"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12345"
    }
    assert len(told) == 1


def test_a_word_at_the_end_of_a_sentence_has_the_terms_it_has_elsewhere() -> None:
    assert index_text("It is the boss's. His") == index_text("It is the boss's, his")
    assert index_text("call send_all. Now") == index_text("call send_all now")


def test_a_word_at_the_end_of_a_sentence_is_no_name() -> None:
    assert identifier_text("It ends here. Now go") == ""


@given(st.one_of(ANY_TEXT, st.text("aB1_-é日本 ", max_size=40)))
@settings(max_examples=200, deadline=None)
def test_a_text_has_at_most_three_terms_for_each_character(text: str) -> None:
    assert len(index_text(text).split()) <= 3 * len(unicodedata.normalize("NFKC", text))


def test_joint_analysis_equals_separate_analysis() -> None:
    text = "don't open src/app.py:12 or l'heure/d'été; a..b core::run_all and/or the user's `x.y-z`"
    stretches = stretches_of(text)
    assert terms_of(text, stretches) == index_text(text)
    assert " ".join(names_in(stretches, any_word=False)) == identifier_text(text)
    assert index_text("open src/app.py:12") == "open src apppi app py 12"
    assert identifier_text("don't open src/app.py:12 and a::b") == "src/app.py:12 a::b"

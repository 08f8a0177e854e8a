from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.retrieval.text.dates import MAX_RANGES, asked_ranges, date_ranges

SAID = datetime(2023, 6, 27, 18, tzinfo=UTC)  # a Tuesday


def days(text, said=SAID):
    return [(str(found.first), str(found.last)) for found in date_ranges(text, said=said)]


def one(day):
    return [(day, day)]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("I was there on 8 May, 2023.", "2023-05-08"),
        ("on the 8th of May 2023", "2023-05-08"),
        ("May 8th, 2023", "2023-05-08"),
        ("December 1,2023", "2023-12-01"),
        ("Feb 29, 2024", "2024-02-29"),
        ("due 2023-05-08", "2023-05-08"),
        ("at 2023-05-08T10:00:00Z", "2023-05-08"),
        ("2023/5/8", "2023-05-08"),
        ("13/05/2023", "2023-05-13"),
        ("05/13/2023", "2023-05-13"),
        ("Christmas Eve was quiet. On Christmas Eve 2022 it snowed.", "2022-12-24"),
    ],
)
def test_a_day_with_its_year_is_that_day_whenever_it_was_said(text, day):
    assert days(text, said=None) == one(day)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("in early June 2023", "2023-06-01", "2023-06-10"),
        ("mid-June 2023", "2023-06-11", "2023-06-20"),
        ("late February 2023", "2023-02-21", "2023-02-28"),
        ("at the beginning of November 2022", "2022-11-01", "2022-11-10"),
        ("the second week of November 2022", "2022-11-08", "2022-11-14"),
        ("the last week of February 2023", "2023-02-22", "2023-02-28"),
        ("the first half of September 2022", "2022-09-01", "2022-09-15"),
        ("in 2019", "2019-01-01", "2019-12-31"),
        ("late 2021", "2021-09-01", "2021-12-31"),
        ("between 2019 and 2021", "2019-01-01", "2021-12-31"),
        ("in the summer of 2021", "2021-06-01", "2021-08-31"),
        ("winter 2023", "2023-12-01", "2024-02-29"),
        ("May 3-5, 2023", "2023-05-03", "2023-05-05"),
        ("from May 3 to May 7, 2023", "2023-05-03", "2023-05-07"),
        ("between June and August 2022", "2022-06-01", "2022-08-31"),
        ("between August 11 and August 15 2023", "2023-08-11", "2023-08-15"),
        ("from December 2022 until January 2023", "2022-12-01", "2023-01-31"),
    ],
)
def test_a_longer_time_is_its_first_and_last_day(text, first, last):
    assert days(text, said=None) == [(first, last)]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Today I rest.", "2023-06-27", "2023-06-27"),
        ("See you tonight!", "2023-06-27", "2023-06-27"),
        ("I went there yesterday", "2023-06-26", "2023-06-26"),
        ("last night", "2023-06-26", "2023-06-26"),
        ("The day before yesterday", "2023-06-25", "2023-06-25"),
        ("the day after tomorrow", "2023-06-29", "2023-06-29"),
        ("3 days ago", "2023-06-24", "2023-06-24"),
        ("a few days ago", "2023-06-22", "2023-06-25"),
        ("a couple of days ago", "2023-06-24", "2023-06-25"),
        ("Two weeks ago I adopted a puppy.", "2023-06-10", "2023-06-16"),
        ("two months back", "2023-04-12", "2023-05-12"),
        ("We married 5 years ago.", "2018-01-01", "2018-12-31"),
        ("two weekends ago", "2023-06-17", "2023-06-18"),
        ("the Wednesday two months ago", "2023-04-26", "2023-04-26"),
        ("Last Friday we had dinner.", "2023-06-23", "2023-06-23"),
        ("last Tuesday", "2023-06-20", "2023-06-20"),
        ("this Friday", "2023-06-30", "2023-06-30"),
        ("next Friday", "2023-07-07", "2023-07-07"),
        ("Friday last week", "2023-06-23", "2023-06-23"),
        ("last week", "2023-06-19", "2023-06-25"),
        ("earlier this week", "2023-06-26", "2023-07-02"),
        ("the past week", "2023-06-20", "2023-06-27"),
        ("last weekend", "2023-06-24", "2023-06-25"),
        ("this past weekend", "2023-06-24", "2023-06-25"),
        ("next weekend", "2023-07-08", "2023-07-09"),
        ("last month", "2023-05-01", "2023-05-31"),
        ("this year", "2023-01-01", "2023-12-31"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("the last three months", "2023-03-27", "2023-06-27"),
        ("the next 2 weeks", "2023-06-27", "2023-07-11"),
        ("last summer", "2022-06-01", "2022-08-31"),
        ("this summer", "2023-06-01", "2023-08-31"),
        ("last May", "2023-05-01", "2023-05-31"),
        ("next May", "2024-05-01", "2024-05-31"),
        ("in March", "2023-03-01", "2023-03-31"),
        ("back in November", "2022-11-01", "2022-11-30"),
        ("since March", "2023-03-01", "2023-06-27"),
        ("in early June", "2023-06-01", "2023-06-10"),
        ("see you on the 5th!", "2023-07-05", "2023-07-05"),
        ("it came on the 20th and we left", "2023-06-20", "2023-06-20"),
        ("on Valentine's Day", "2023-02-14", "2023-02-14"),
        ("last Christmas", "2022-12-25", "2022-12-25"),
        ("29 February", "2023-02-28", "2023-02-28"),
    ],
)
def test_what_is_relative_is_read_against_the_day_it_was_said_and_means_nothing_without_one(text, first, last):
    assert days(text) == [(first, last)]
    assert days(text, said=None) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the week before August 3, 2023", ("2023-07-27", "2023-08-02")),
        ("two weeks before 11 August 2023", ("2023-07-25", "2023-07-31")),
        ("two days after 11 August 2023", ("2023-08-13", "2023-08-13")),
        ("the Friday before 22 October 2023", ("2023-10-20", "2023-10-20")),
        ("the Sunday after 2023-10-22", ("2023-10-29", "2023-10-29")),
        ("the weekend before April 10, 2023", ("2023-04-08", "2023-04-09")),
        ("the week of 5 April 2023", ("2023-04-03", "2023-04-09")),
    ],
)
def test_what_is_counted_from_a_date_is_found_beside_that_date(text, found):
    beside, named = days(text, said=None)
    assert beside == found
    assert named[0] == named[1]


@pytest.mark.parametrize(
    "text",
    [
        "May I ask you something? You may 5 times.",
        "March on! We march 10 miles, and I want to march.",
        "... and May I ask for April?",
        "I sat down for a second on the sun deck, the second half was good.",
        "Version 1.2.3 runs 24/7, see 10.0.0.1 and 3/4 of v2023.5.",
        "I last sat with him. This is what next comes, as last time.",
        "It took 2000 steps in 2000 steps, 1500 words and 15:30.",
        "How many weeks ago did I meet her, and what day?",
        "99999 days ago, 9999 years ago, 31/31/2023, 2023-13-01, 0000-00-00",
        "We met on the 5th floor in the 21st century.",
        "The last week of school, the previous year's time.",
        "spring water, a winter coat, to fall down, a Christmas tree",
        "5/6/2023 could be either.",
        "",
    ],
)
def test_what_only_looks_like_a_date_is_none(text):
    assert days(text) == []


@pytest.mark.parametrize(
    ("said", "text", "found"),
    [
        (date(2024, 1, 1), "last week", ("2023-12-25", "2023-12-31")),
        (date(2023, 6, 26), "last Monday", ("2023-06-19", "2023-06-19")),
        (date(2023, 6, 25), "this week", ("2023-06-19", "2023-06-25")),
        (date(2023, 6, 25), "last weekend", ("2023-06-17", "2023-06-18")),
        (date(2024, 1, 1), "yesterday", ("2023-12-31", "2023-12-31")),
        (date(2024, 1, 15), "last month", ("2023-12-01", "2023-12-31")),
        (date(2024, 1, 15), "this winter", ("2023-12-01", "2024-02-29")),
        (date(2023, 12, 30), "in January", ("2024-01-01", "2024-01-31")),
        (date(2024, 3, 1), "yesterday", ("2024-02-29", "2024-02-29")),
        (date(2023, 3, 31), "the last month or so, the past month", ("2023-02-28", "2023-03-31")),
        (date(2024, 2, 29), "a year ago", ("2023-01-01", "2023-12-31")),
    ],
)
def test_weeks_months_and_years_end_where_the_calendar_says(said, text, found):
    assert found in days(text, said=datetime(said.year, said.month, said.day, tzinfo=UTC))


def test_the_first_and_last_years_there_are_give_nothing_beyond_them():
    assert days("yesterday, last year, a week ago, last summer", said=datetime(1, 1, 1, tzinfo=UTC)) == []
    assert days("tomorrow, next year, next week", said=datetime(9999, 12, 31, tzinfo=UTC)) == []


def test_the_words_are_given_with_their_place():
    text = "We met last Friday, and in May 2022."
    found = date_ranges(text, said=SAID)
    assert [part.text for part in found] == ["last Friday", "May 2022"]
    assert [text[part.start : part.end] for part in found] == ["last Friday", "May 2022"]


def test_a_text_of_nothing_but_dates_gives_so_many_and_no_more():
    assert len(days("2023-05-08 " * 1_000)) == MAX_RANGES


def test_a_question_without_a_year_is_of_every_year():
    found = asked_ranges("What happened in May?", SAID)
    assert {period.first for period in found} >= {date(2010, 5, 1), date(2023, 5, 1), date(2024, 5, 1)}
    assert all(period.first.month == period.last.month == 5 for period in found)
    assert [str(period.first) for period in asked_ranges("What happened in May 2022?", SAID)] == ["2022-05-01"]
    assert asked_ranges("What happened in May?", None) == ()


def test_a_question_that_names_one_day_is_read_against_that_day():
    [week, day] = asked_ranges("What did he do last week, as mentioned on November 6, 2023?", SAID)
    assert (week.period, day.first) == ((date(2023, 10, 30), date(2023, 11, 5)), date(2023, 11, 6))
    [week] = asked_ranges("What did he do last week?", SAID)
    assert week.period == (date(2023, 6, 19), date(2023, 6, 25))


@pytest.mark.parametrize(
    ("question", "words", "first", "last"),
    [
        ("Was habe ich gestern gemacht?", "gestern", "2023-06-26", "2023-06-26"),
        ("Wen haben wir letzten Freitag getroffen?", "letzten Freitag", "2023-06-23", "2023-06-23"),
        ("Was geschah vor zwei Wochen?", "vor zwei Wochen", "2023-06-10", "2023-06-16"),
        ("Was wurde am 5. Mai 2023 beschlossen?", "5. Mai 2023", "2023-05-05", "2023-05-05"),
        ("Was ist Anfang Juni 2023 passiert?", "Anfang Juni 2023", "2023-06-01", "2023-06-10"),
        ("Was haben wir am 05.04.2023 verschickt?", "05.04.2023", "2023-04-05", "2023-04-05"),
        ("Was haben wir in den letzten drei Monaten getan?", "letzten drei Monaten", "2023-03-27", "2023-06-27"),
        ("Was war zwischen Mai und August 2022?", "zwischen Mai und August 2022", "2022-05-01", "2022-08-31"),
        ("Qu'est-ce que j'ai fait hier ?", "hier", "2023-06-26", "2023-06-26"),
        ("Qui avons-nous vu vendredi dernier ?", "vendredi dernier", "2023-06-23", "2023-06-23"),
        ("Que s'est-il passé il y a deux semaines ?", "il y a deux semaines", "2023-06-10", "2023-06-16"),
        ("Qu'est-ce qui a été décidé le 5 mai 2023 ?", "5 mai 2023", "2023-05-05", "2023-05-05"),
        ("Où étais-je l'été dernier ?", "été dernier", "2022-06-01", "2022-08-31"),
        ("Qu'avons-nous fait les trois derniers mois ?", "trois derniers mois", "2023-03-27", "2023-06-27"),
        ("¿Qué hice ayer?", "ayer", "2023-06-26", "2023-06-26"),
        ("¿A quién vimos el viernes pasado?", "viernes pasado", "2023-06-23", "2023-06-23"),
        ("¿Qué pasó hace dos semanas?", "hace dos semanas", "2023-06-10", "2023-06-16"),
        ("¿Qué se decidió el 5 de mayo de 2023?", "5 de mayo de 2023", "2023-05-05", "2023-05-05"),
        ("¿Qué hay la semana que viene?", "semana que viene", "2023-07-03", "2023-07-09"),
        ("¿Qué hicimos en los últimos tres meses?", "últimos tres meses", "2023-03-27", "2023-06-27"),
        ("Che cosa ho fatto ieri?", "ieri", "2023-06-26", "2023-06-26"),
        ("Chi abbiamo visto venerdì scorso?", "venerdì scorso", "2023-06-23", "2023-06-23"),
        ("Che cosa è successo due settimane fa?", "due settimane fa", "2023-06-10", "2023-06-16"),
        ("Che cosa è stato deciso il 5 maggio 2023?", "5 maggio 2023", "2023-05-05", "2023-05-05"),
        ("Che cosa è previsto quest'anno?", "quest'anno", "2023-01-01", "2023-12-31"),
        ("O que fiz ontem?", "ontem", "2023-06-26", "2023-06-26"),
        ("Quem vimos na sexta-feira passada?", "sexta-feira passada", "2023-06-23", "2023-06-23"),
        ("O que aconteceu há duas semanas?", "há duas semanas", "2023-06-10", "2023-06-16"),
        ("O que foi decidido em 5 de maio de 2023?", "5 de maio de 2023", "2023-05-05", "2023-05-05"),
        ("Onde estive no verão passado?", "verão passado", "2022-06-01", "2022-08-31"),
        ("Wat heb ik gisteren gedaan?", "gisteren", "2023-06-26", "2023-06-26"),
        ("Wie zagen we vorige vrijdag?", "vorige vrijdag", "2023-06-23", "2023-06-23"),
        ("Wat gebeurde er twee weken geleden?", "twee weken geleden", "2023-06-10", "2023-06-16"),
        ("Wat is er op 5 mei 2023 besloten?", "5 mei 2023", "2023-05-05", "2023-05-05"),
        ("Wat hebben we de laatste drie maanden gedaan?", "laatste drie maanden", "2023-03-27", "2023-06-27"),
        ("我昨天做了什么？", "昨天", "2023-06-26", "2023-06-26"),
        ("上周五我们见了谁？", "上周五", "2023-06-23", "2023-06-23"),
        ("上个周末我们去了哪里？", "上个周末", "2023-06-24", "2023-06-25"),
        ("两周前发生了什么？", "两周前", "2023-06-10", "2023-06-16"),
        ("2023年5月8日决定了什么？", "2023年5月8日", "2023-05-08", "2023-05-08"),
        ("2021年夏天我在哪里？", "2021年夏天", "2021-06-01", "2021-08-31"),
        ("昨日何をしましたか。", "昨日", "2023-06-26", "2023-06-26"),
        ("先週の金曜日に誰に会いましたか。", "先週の金曜日", "2023-06-23", "2023-06-23"),
        ("二週間前に何がありましたか。", "二週間前", "2023-06-10", "2023-06-16"),
        ("2022年5月に何がありましたか。", "2022年5月", "2022-05-01", "2022-05-31"),
        ("過去三か月間に何をしましたか。", "過去三か月間", "2023-03-27", "2023-06-27"),
    ],
)
def test_a_question_in_another_language_names_days_as_an_english_one_does(question, words, first, last):
    [found] = asked_ranges(question, SAID)
    assert (found.text, str(found.first), str(found.last)) == (words, first, last)
    assert question[found.start : found.end] == words


@pytest.mark.parametrize(
    "question",
    [
        "Was war im Mai?",
        "Qui est venu en mai ?",
        "¿Qué pasó en mayo?",
        "Che cosa è successo a maggio?",
        "五月发生了什么？",
    ],
)
def test_a_month_without_a_year_is_of_every_year_in_any_language(question):
    found = asked_ranges(question, SAID)
    assert {period.first for period in found} >= {date(2010, 5, 1), date(2023, 5, 1), date(2024, 5, 1)}
    assert asked_ranges(question, None) == ()


@pytest.mark.parametrize(
    "question",
    [
        "Who took the picture of Mars on the wall?",
        "Is Jean Avril the author of la Marseillaise?",
        "Was passiert jeden Morgen?",
        "¿Qué hago por la mañana?",
        "Où as-tu été ?",
    ],
)
def test_what_is_no_date_is_none_in_any_language(question):
    assert asked_ranges(question, SAID) == ()


PIECES = st.sampled_from(
    "the last next this past May march 2023 2023-05-08 31 5th on in since from to between and of before after two a "
    "few couple weeks week days years months ago Friday weekend summer early mid late first half yesterday Christmas "
    "- / . , : 1/2/2023 9999 İ ſ 5 "
    "vor zwei Wochen letzten im il y a été dernier hace meses fa há scorso 上周 五 月 年 先週の".split()
)
SAYABLE = st.none() | st.datetimes(timezones=st.just(UTC))


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=12).map(" ".join) | st.text(max_size=40), SAYABLE)
def test_ranges_are_in_their_text_in_its_order_and_end_after_they_begin(text, said):
    found = [*date_ranges(text, said=said), *asked_ranges(text, said)]
    for part in found:
        assert 0 <= part.start < part.end <= len(text)
        assert part.text == text[part.start : part.end]
        assert part.first <= part.last
    starts = [part.start for part in date_ranges(text, said=said)]
    assert starts == sorted(starts)


RELATIVE = st.sampled_from(
    ["yesterday", "last Friday", "next Monday", "two weeks ago", "last weekend", "this week", "a few days ago"]
)


@settings(max_examples=100)
@given(RELATIVE, st.integers(-500, 500))
def test_what_is_said_some_weeks_later_means_some_weeks_later(text, weeks):
    later = timedelta(weeks=weeks)
    [now], [then] = date_ranges(text, said=SAID), date_ranges(text, said=SAID + later)
    assert (now.first + later, now.last + later) == then.period

"""Detect languages other than English by function words; stem words, split compounds and read dates in them.

All text is stemmed as English (`analysis`); stems of its own language are added. If the language is not recognized,
words match as they are written.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from pkgutil import get_data
from typing import Any

import Stemmer

_READ = 4_000
"""Characters that language detection reads."""

_LEAST = 2
"""Distinct function words needed to detect a language: a single one may be a name, a quotation or code."""

_FUNCTION_WORDS = {
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber nicht ist sind war waren wird werden
        wurde wurden hat haben hatte ich wir ihr sie sich mich mir uns mit von vom zu zum zur im auf für bei beim nach
        aus über unter durch um als wie wenn wann wo was wer wen wem welche welcher welches warum kann können muss
        müssen soll sollen auch noch nur schon es dass daß kein keine keinen dieser diese dieses
        """,
    "french": """
        le la les un une des du de et ou mais ne pas est sont était étaient sera a à ont avait avons je tu il elle nous
        vous ils elles se ce cette ces cet son sa ses leur leurs avec pour par dans sur sous chez entre sans qui que
        quoi dont où quand comment pourquoi quel quelle quels quelles au aux plus très aussi en on être avoir fait
        """,
    "spanish": """
        el la los las un una unos unas del de y o pero no es son era eran fue será a está están ha han había yo tú él
        ella nosotros ellos ellas se su sus este esta estos estas ese esa con para por en sobre entre sin desde hasta
        que qué quién cuál cuáles cuándo cómo dónde cuánto porque como al más muy también lo le les hay ser
        """,
    "italian": """
        il lo la gli le un uno una del dello della dei degli delle di e o ma non è sono era erano fu sarà a ha hanno
        aveva io tu lui lei noi voi loro si suo sua suoi sue questo questa questi queste con per da dal dalla in nel
        nella sul sulla su tra fra senza che chi cosa quale quali quando come dove quanto perché al alla più molto
        anche ci essere
        """,
    "portuguese": """
        o os as um uma uns umas do da dos das de e ou mas não é são era eram foi será a à está estão tem têm havia eu tu
        ele ela nós eles elas se seu sua seus suas este esta estes estas esse essa com para por pelo pela em no na nos
        nas sobre entre sem desde até que quem qual quais quando como onde quanto porque ao mais muito também há ser
        """,
    "dutch": """
        de het een en of maar niet is zijn was waren wordt worden werd heeft hebben had ik jij hij zij wij jullie ze
        zich mijn jouw haar ons onze deze dit dat die met van voor op in aan bij naar uit over onder door om als wie
        wat waar wanneer hoe waarom welke kan kunnen moet moeten zal ook nog geen er te tot
        """,
    "swedish": """
        och eller men inte är var vara blir blev har hade jag du han hon vi ni de dem sig min din sin sitt sina denna
        detta dessa det den ett en med av för på i om till från vid efter under över genom som när vad vem vilken
        vilket vilka hur varför kan måste ska skall också bara att
        """,
    "danish": """
        og eller men ikke er var være bliver blev har havde jeg du han hun vi i de dem sig min din sin sit sine denne
        dette disse det den et en med af for på om til fra ved efter under over gennem som når hvad hvem hvilken
        hvilket hvilke hvordan hvorfor hvor kan må skal også kun at
        """,
    "norwegian": """
        og eller men ikke er var være blir ble har hadde jeg du han hun vi dere de dem seg min din sin sitt sine denne
        dette disse det den et en med av for på om til fra ved etter under over gjennom som når hva hvem hvilken
        hvilket hvilke hvordan hvorfor hvor kan må skal også bare at
        """,
    "russian": """
        и или но не это был была было были будет есть я ты он она мы вы они себя мой твой его её их наш ваш этот эта
        эти тот та те с со от до для по при о об на в во из к у за над под через как когда что кто какой какая какие
        где куда почему зачем может нужно также только ещё уже же ли бы чтобы
        """,
}

_ENGLISH = frozenset(
    """
    the of and to is are was were be been it that this these those with for from by on at as not but or which who
    what when where how why will would can could should has have had do does did you we they he she his her their
    its our your there if then than so any all a an i am in into about after before him us me my one no yes more most
    over under up down out also only some such while between because
    """.split()
)

_VOTES: dict[str, tuple[str, ...]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _VOTES[_word] = (*_VOTES.get(_word, ()), _language)

FOREIGN_WORDS = frozenset(_VOTES) - _ENGLISH
"""Function words of other languages that English does not have. A text without any of them is treated as English."""
_JOINTS = {
    "german": ("", "s", "n", "e", "es", "en", "er"),
    "dutch": ("", "s", "e", "n", "en"),
    "swedish": ("", "s"),
    "danish": ("", "s", "e"),
    "norwegian": ("", "s", "e"),
}
"""Letters that may join the two parts of a compound, in languages that write compounds as one word."""
_LEAST_PART = 4
_LONGEST_COMPOUND = 40
_MOST_COMPOUNDS = 6
Split = tuple[str, str, str]
"""A word and its two possible parts."""
_WORD = re.compile(r"[^\W\d_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")


def folded(word: str) -> str:
    """Return a word in lower case without accents, the form of all index terms."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def language_of(text: str) -> str | None:
    """Detect the language of a text; `None` for English, code, and texts with too few function words."""
    # Most text is English. Splitting at spaces is enough to see that it has none of these words.
    spaced = text[:_READ].lower().split()
    if len(spaced) < _LEAST or FOREIGN_WORDS.isdisjoint(spaced):
        return None
    tokens = _WORD.findall(unicodedata.normalize("NFC", text[:_READ].lower()))
    foreign = FOREIGN_WORDS.intersection(tokens)
    if len(foreign) < _LEAST:
        return None
    words = Counter(tokens)
    distinct, occurrences = Counter[str](), Counter[str]()
    for word in foreign:
        for language in _VOTES[word]:
            distinct[language] += 1
            occurrences[language] += words[word]
    # Ties go to the first name, so that every process finds the same terms in a text.
    best = min(distinct, key=lambda language: (-distinct[language], -occurrences[language], language))
    if distinct[best] >= _LEAST and occurrences[best] > sum(words[word] for word in _ENGLISH & words.keys()):
        return best
    return None


def stems_in(language: str, text: str) -> Iterator[str]:
    """Yield the folded stems of the words of a text, in order, without single letters and function words."""
    function_words = _function_words(language)
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if len(word) > 1 and word not in function_words:
            yield stem_in(language, word)


def compound_splits(language: str, text: str) -> Iterator[Split]:
    """Yield the ways to split the long words of a text into two parts, without the letters that join them.

    Most parts are not words. Yields nothing for languages that do not write compounds as one word.
    """
    joints = _JOINTS.get(language)
    if joints is None:
        return
    long = (word for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()) if len(word) >= 2 * _LEAST_PART)
    for word in islice(dict.fromkeys(long), _MOST_COMPOUNDS):
        for at in range(_LEAST_PART, min(len(word), _LONGEST_COMPOUND) - _LEAST_PART + 1):
            end = word[at:]
            for joint in joints:
                first = word[: at - len(joint)]
                if word.startswith(joint, at - len(joint)) and len(first) >= _LEAST_PART:
                    yield word, first, end


def is_function_word(language: str, word: str) -> bool:
    """Return whether a word in lower case, with or without accents, is a function word of the language."""
    return word in _folded_function_words(language)


def may_be_function_word(word: str) -> bool:
    """Return whether a word in lower case is a function word of a language other than English."""
    return word in FOREIGN_WORDS


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(_FUNCTION_WORDS[language].split())


@cache
def _folded_function_words(language: str) -> frozenset[str]:
    return frozenset(map(folded, _function_words(language))) | _function_words(language)


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language, 0)


@lru_cache(maxsize=1 << 16)
def stem_in(language: str, word: str) -> str:
    """Return the folded stem of a word in lower case; `language` may also be `english`."""
    return folded(_stemmer(language).stemWord(word))


_HAN = "chinese and japanese"
_HAN_LETTER = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_TELLING = ("unit", "weekday", "month", "season", "way", "amount", "near", "ago")


@dataclass(frozen=True, slots=True)
class DatesInEnglish:
    """A text with its dates translated into English, and the position of each character in the original."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Convert the bounds of a stretch to the original text."""
        return self.starts[start], self.ends[end - 1]


def dates_in_english(text: str) -> DatesInEnglish | None:
    """Translate the dates of a text into English; `None` if it has no date words of a language in the table."""
    letters = text.lower() if text.isascii() else (one if len(one := folded(each)) == 1 else each for each in text)
    plain = "".join(letters)
    if (table := _table_for(plain)) is None:
        return None
    parts, starts, ends, read = list[str](), list[int](), list[int](), 0
    for start, end, english in [*table.found_in(plain), (len(text), len(text), "")]:
        parts += (text[read:start], english)
        starts += (*range(read, start), *[start] * len(english))
        ends += (*range(read + 1, start + 1), *[end] * len(english))
        read = end
    return DatesInEnglish("".join(parts), starts, ends)


@dataclass(frozen=True, slots=True)
class _DateTable:
    """The date words and date formats of one language, in lower case without accents."""

    words: Mapping[str, Mapping[str, str]]
    """The English word for each word, by kind."""
    forms: Sequence[tuple[re.Pattern[str], str]]
    """The patterns of dates, each with its English format."""
    apart: bool
    """Whether the language separates words by spaces."""

    @classmethod
    def of(cls, language: str) -> "_DateTable":
        """Build the table of a language from `date_words.json`."""
        apart = language != _HAN
        words = {kind: _pairs(language, kind) for kind in _date_words()["languages"][language]}
        patterns = {
            kind: "|".join(_pattern(word) for word in sorted(known, key=len)[::-1]) for kind, known in words.items()
        }
        slots = {kind: f"(?P<{kind}>{pattern})" for kind, pattern in patterns.items()}
        slots |= {
            "amount": rf"(?P<amount>{patterns['amount']}|\d{{1,3}})",
            "day": r"(?P<day>\d{1,2})(?:\.|er|[oa°])?",
            "number": r"(?P<number>\d{1,2})",
            "of": rf"(?:(?:{patterns['of']})\s*)?" if "of" in patterns else "",
            "year": r"(?P<year>(?:19|20)\d\d)",
        }
        forms = _date_words()["forms" if apart else "forms without spaces"]
        fit = ((form, english) for form, english in forms if all(kind in slots for kind in _SLOT.findall(form)))
        return cls(
            words, [(re.compile(_bounded(form.format(**slots), apart)), english) for form, english in fit], apart
        )

    def found_in(self, plain: str) -> Sequence[tuple[int, int, str]]:
        """Return the start, the end and the English form of each date, in order; of overlapping dates the longest."""
        matches = [(match, english) for form, english in self.forms for match in form.finditer(plain)]
        chosen: list[tuple[int, int, str]] = []
        taken = bytearray(len(plain))
        for match, english in sorted(matches, key=lambda one: one[0].start() - one[0].end()):
            start, end = match.span()
            if not any(taken[start:end]):
                taken[start:end] = b"\x01" * (end - start)
                chosen.append((start, end, self._in_english(match, english)))
        return sorted(chosen)

    def _in_english(self, match: re.Match[str], form: str) -> str:
        words = {
            kind: self.words.get(kind, {}).get("_".join(word.split()), word)
            for kind, word in match.groupdict("").items()
        }
        english = form.format(**words).replace("_", " ")
        return english if self.apart else f" {english} "


_NUMERIC_DATE = re.compile(r"\d[./]\d{1,2}[./](?:19|20)\d\d")
_SLOT = re.compile(r"{(\w+)}")
_BETWEEN = r"(?:\s+|-|(?<=['’]))"


def _bounded(pattern: str, apart: bool) -> str:
    """Restrict a pattern to whole words, or for a language without spaces, to whole numbers."""
    return rf"(?<!\w){pattern.replace(' ', _BETWEEN)}(?!\w)" if apart else rf"(?<![\d十]){pattern}"


def _pattern(word: str) -> str:
    return re.escape(word).replace("_", r"\s+")


def _pairs(language: str, kind: str) -> Mapping[str, str]:
    """Map the folded words of a kind to the English word at the same position, or to themselves."""
    words = _date_words()["languages"][language][kind].split()
    english = _date_words()["english"].get(kind, "").split()
    return {
        folded(word): english[place] if english else word
        for place, alike in enumerate(words)
        for word in alike.split("|")
    }


def _table_for(plain: str) -> _DateTable | None:
    """Return the table of the language with most function words and date words in a text, if there are enough."""
    if _HAN_LETTER.search(plain):
        return _date_table(_HAN)
    words = frozenset(_WORD.findall(plain))
    votes = dict[str, tuple[int, int]]()
    numeric = _NUMERIC_DATE.search(plain)
    for language, telling in _telling_words().items():
        if (dated := words & telling) or numeric:
            votes[language] = (len(words & _folded_function_words(language) | dated), len(dated))
    best = max(votes, key=lambda language: votes[language], default="")
    enough = best and votes[best][0] >= _LEAST and votes[best][0] > len(words & _ENGLISH)
    return _date_table(best) if enough else None


@cache
def _date_table(language: str) -> _DateTable:
    return _DateTable.of(language)


@cache
def _telling_words() -> Mapping[str, frozenset[str]]:
    """Return the single date words of each language."""
    return {
        language: frozenset(word for kind in _TELLING for word in _pairs(language, kind) if word.isalpha())
        for language in _date_words()["languages"]
        if language != _HAN
    }


@cache
def _date_words() -> Any:
    """Load the table: words by kind, in the order of the English words, with `|` between synonyms."""
    return json.loads(get_data(__name__, "date_words.json") or b"")

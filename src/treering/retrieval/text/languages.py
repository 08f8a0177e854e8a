"""Which language a text is in, told by its function words, the stems of its words in that language, and its dates.

English is not among them: all text is stemmed as English (`analysis`), and what is found here is added to that. A
text whose language is not recognised is matched by its words as they are written, as before.
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
"""Characters by which a language is told."""

_LEAST = 2
"""Different function words that tell a language: one alone may be a name, a quotation or a word of code."""

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
"""Words without some of which no text is taken for one in another language than English."""
_JOINTS = {
    "german": ("", "s", "n", "e", "es", "en", "er"),
    "dutch": ("", "s", "e", "n", "en"),
    "swedish": ("", "s"),
    "danish": ("", "s", "e"),
    "norwegian": ("", "s", "e"),
}
"""What may stand between the two words of a compound, in languages that write them as one."""
_LEAST_PART = 4
_LONGEST_COMPOUND = 40
_MOST_COMPOUNDS = 6
Split = tuple[str, str, str]
"""A word, and the two it may be made of."""
_WORD = re.compile(r"[^\W\d_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")


def folded(word: str) -> str:
    """Return a word without case and accents, as all terms of the index are."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def language_of(text: str) -> str | None:
    """Tell the language of a text by its function words; `None` for English, code, and whatever has too few of them."""
    # Most text is English: splitting at spaces is enough to see that it has none of these words.
    spaced = text[:_READ].lower().split()
    if len(spaced) < _LEAST or FOREIGN_WORDS.isdisjoint(spaced):
        return None
    tokens = _WORD.findall(unicodedata.normalize("NFC", text[:_READ].lower()))
    foreign = FOREIGN_WORDS.intersection(tokens)
    if len(foreign) < _LEAST:  # such as `on` alone, which English has too
        return None
    words = Counter(tokens)
    different, said = Counter[str](), Counter[str]()
    for word in foreign:
        for language in _VOTES[word]:
            different[language] += 1
            said[language] += words[word]
    # Of several with as many words the first by name: every process has to find the same terms in a text.
    best = min(different, key=lambda language: (-different[language], -said[language], language))
    if different[best] >= _LEAST and said[best] > sum(words[word] for word in _ENGLISH & words.keys()):
        return best
    return None


def stems_in(language: str, text: str) -> Iterator[str]:
    """Yield the folded stem of each word of a text that is no letter and no function word of the language, in order."""
    function_words = _function_words(language)
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if len(word) > 1 and word not in function_words:
            yield stem_in(language, word)


def compound_splits(language: str, text: str) -> Iterator[Split]:
    """Yield how long words of a text may be made of two others, without the sounds that join those; most are no words.

    None in a language that writes compounds apart.
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
    """Tell whether a word, in lower case and without accents or with them, is a function word of the language."""
    return word in _folded_function_words(language)


def may_be_function_word(word: str) -> bool:
    """Tell whether a word in lower case is a function word of a language other than English."""
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
    """Return the folded stem of a word, in lower case, in a language; `english` is one."""
    return folded(_stemmer(language).stemWord(word))


# How questions name days in other languages than English, and how English does, which `dates` reads.


_HAN = "chinese and japanese"
_HAN_LETTER = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_TELLING = ("unit", "weekday", "month", "season", "way", "amount", "near", "ago")


@dataclass(frozen=True, slots=True)
class DatesInEnglish:
    """A text whose dates are in English, and where each of its characters stands in the text it was made of."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return where something stands in the original."""
        return self.starts[start], self.ends[end - 1]


def dates_in_english(text: str) -> DatesInEnglish | None:
    """Write the dates of a text in English; `None` where it has no words of dates in a language of the table."""
    plain = "".join(one if len(one := folded(letter)) == 1 else letter for letter in text)
    if (table := _table_for(plain)) is None:
        return None
    said, starts, ends, read = list[str](), list[int](), list[int](), 0
    for start, end, english in [*table.found_in(plain), (len(text), len(text), "")]:
        said += (text[read:start], english)
        starts += (*range(read, start), *[start] * len(english))
        ends += (*range(read + 1, start + 1), *[end] * len(english))
        read = end
    return DatesInEnglish("".join(said), starts, ends)


@dataclass(frozen=True, slots=True)
class _DateTable:
    """How one language names dates, without capitals and accents."""

    words: Mapping[str, Mapping[str, str]]
    """By kind, its words and the English ones."""
    forms: Sequence[tuple[re.Pattern[str], str]]
    """What is said with words of such kinds, each with how English says it."""
    apart: bool
    """Whether the language writes words apart."""

    @classmethod
    def of(cls, language: str) -> "_DateTable":
        """Make the table of a language that `date_words.json` has."""
        apart = language != _HAN
        words = {kind: _pairs(language, kind) for kind in _date_words()["languages"][language]}
        said = {
            kind: "|".join(_pattern(word) for word in sorted(known, key=len)[::-1]) for kind, known in words.items()
        }
        slots = {kind: f"(?P<{kind}>{pattern})" for kind, pattern in said.items()}
        slots |= {
            "amount": rf"(?P<amount>{said['amount']}|\d{{1,3}})",
            "day": r"(?P<day>\d{1,2})(?:\.|er|[oa°])?",
            "number": r"(?P<number>\d{1,2})",
            "of": rf"(?:(?:{said['of']})\s*)?" if "of" in said else "",
            "year": r"(?P<year>(?:19|20)\d\d)",
        }
        forms = _date_words()["forms" if apart else "forms without spaces"]
        fit = ((form, english) for form, english in forms if all(kind in slots for kind in _SLOT.findall(form)))
        return cls(
            words, [(re.compile(_bounded(form.format(**slots), apart)), english) for form, english in fit], apart
        )

    def found_in(self, plain: str) -> Sequence[tuple[int, int, str]]:
        """Return where dates stand, apart and in order, and what they are in English; the longest where they meet."""
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
    """Let a pattern match whole words, or where a language has no spaces, no part of a number."""
    return rf"(?<!\w){pattern.replace(' ', _BETWEEN)}(?!\w)" if apart else rf"(?<![\d十]){pattern}"


def _pattern(word: str) -> str:
    return re.escape(word).replace("_", r"\s+")


def _pairs(language: str, kind: str) -> Mapping[str, str]:
    """Return the words of a kind, folded, each with the English one at its place, else with itself."""
    words = _date_words()["languages"][language][kind].split()
    english = _date_words()["english"].get(kind, "").split()
    return {
        folded(word): english[place] if english else word
        for place, alike in enumerate(words)
        for word in alike.split("|")
    }


def _table_for(plain: str) -> _DateTable | None:
    """Return the table of the language that function words and words of dates tell together, if it has any of these."""
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
    """Return by language the single words that tell of a date."""
    return {
        language: frozenset(word for kind in _TELLING for word in _pairs(language, kind) if word.isalpha())
        for language in _date_words()["languages"]
        if language != _HAN
    }


@cache
def _date_words() -> Any:
    """Return the table: words by kind, in the order of the English ones, with `|` between words that mean the same."""
    return json.loads(get_data(__name__, "date_words.json") or b"")

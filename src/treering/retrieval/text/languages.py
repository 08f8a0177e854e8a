"""Which language a text is in, told by its function words, and the stems of its words in that language.

English is not among them: all text is stemmed as English (`analysis`), and what is found here is added to that. A
text whose language is not recognised is matched by its words as they are written, as before.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice

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

_FOREIGN = frozenset(_VOTES) - _ENGLISH
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
    if len(spaced) < _LEAST or _FOREIGN.isdisjoint(spaced):
        return None
    words = Counter(_WORD.findall(unicodedata.normalize("NFC", text[:_READ].lower())))
    foreign = _FOREIGN & words.keys()
    votes = Counter(language for word in foreign for language in _VOTES[word])
    for language, different in votes.most_common(1):
        said = sum(words[word] for word in foreign if language in _VOTES[word])
        if different >= _LEAST and said > sum(words[word] for word in _ENGLISH & words.keys()):
            return language
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

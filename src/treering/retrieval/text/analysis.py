"""How text becomes index terms, and how a question becomes terms to look for.

Analysis happens here and not in a store's tokenizer, so that every store finds the same: what `index_text`
gives is already split, folded and stemmed, and a store only has to split it at spaces. The words of
`identifier_text` go to an index of stretches of three characters, which finds a part of a name.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise

import Stemmer

from treering.core.screening import without_disguise
from treering.ports.search import TextQuery
from treering.retrieval.text.languages import FOREIGN_WORDS, folded, is_function_word, language_of, stems_in
from treering.retrieval.tuning import TUNING

# One spelling for words that English spells in two ways, so that either finds the other.


def spelled(word: str) -> str:
    """Return a folded word as it is spelled in America; the singular, where the plural of a term is irregular."""
    if word in _ALONE:
        return _ALONE[word]
    if len(word) < _SHORTEST or not ("our" in word or "is" in word or "lys" in word or "ogue" in word):
        return word
    if (found := _BRITISH.fullmatch(word)) is None:
        return word
    if found["our"] is not None:
        return word if found["our"] in _NO_COLOR else f"{found['our']}or{found['our_end'] or ''}"
    if found["ise"] is not None:
        return f"{found['ise']}iz{found['ise_end']}"
    if found["yse"] is not None:
        return f"{found['yse']}lyz{found['yse_end']}"
    return f"{found['ogue']}og{found['ogue_end'] or ''}"


_SHORTEST = 6
_VERB = "e|es|ed|er|ers|ing|able"
_BRITISH = re.compile(
    r"(?P<our>\w{3,})our(?P<our_end>s|ed|ing|er|ers|able|ably|al|ally|ful|less|ism|ist|ists|ite|ites|y)?"
    rf"|(?P<ise>\w{{3,}})is(?P<ise_end>{_VERB}|ation|ations|ational)"
    rf"|(?P<yse>\w{{2,}})lys(?P<yse_end>{_VERB})"
    r"|(?P<ogue>\w{3,})ogue(?P<ogue_end>s)?"
)
_NO_COLOR = frozenset("cont det dev glam outp downp troubad".split())  # contour, detour, …
_PAIRS = """
centre center centres centers centred centered centring centering fibre fiber fibres fibers theatre theater
theatres theaters litre liter litres liters metre meter metres meters calibre caliber grey gray greyed grayed
greys grays defence defense offence offense licence license licences licenses pretence pretense programme program
programmes programs artefact artifact artefacts artifacts cheque check sceptical skeptical
indices index matrices matrix vertices vertex appendices appendix criteria criterion phenomena phenomenon
schemata schema children child
""".split()
_ALONE = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))


MAX_WORDS = 64
MAX_IDENTIFIERS = 16
MAX_PHRASES = 8
LONGEST_QUERY = 20_000
"""Characters of a question that are read: what a person or an agent asks is shorter, a pasted log is not."""


def index_text(text: str) -> str:
    """Return the terms of `text` for the word index, in order, separated by single spaces.

    Words are folded (NFKC, case, diacritics), brought to one spelling (`colour` is `color`) and stemmed as English. A
    compound such as `commitPatch`,
    `commit_patch` or `commit-patch` gives one term for the whole (`commitpatch`) and one for each part.
    Scripts written without spaces give every character and every pair of neighbours. A text in another language than
    English gives the stems of its words in that language besides, behind all other terms, so that phrases stay whole.
    """
    return terms_of(text, stretches_of(text))


def stretches_of(text: str) -> list[str]:
    """Return the stretches of a text that its tokens and its names are parts of, in order: read once for both."""
    if text.isascii():
        return _ASCII_STRETCH.findall(text)
    return _STRETCH.findall(unicodedata.normalize("NFKC", text))


def terms_of(text: str, stretches: Sequence[str]) -> str:
    """Return what `index_text` makes of a text, whose stretches are at hand."""
    found = list(map(_TERMS.__getitem__, stretches))
    terms = " ".join(filter(None, found))
    # Most text is English: its terms, which are at hand, have none of these words. In another language one stands
    # between spaces, and is a stretch.
    if _foreign_terms(text.isascii()).isdisjoint(found) or (language := language_of(text)) is None:
        return terms
    known = frozenset(terms.split())
    return " ".join([terms, *(stem for stem in stems_in(language, text) if stem not in known)])


def terms_by_token(text: str) -> Iterator[str]:
    """Return what `index_text` makes of each token of `text`: a term, several by spaces, or nothing."""
    return map(_TERMS.__getitem__, _tokens(text))


def identifier_text(text: str, *, code: bool = False) -> str:
    """Return the names in `text` for the trigram index, each once, folded, separated by spaces.

    A name is a token with an underscore, dot, slash, inner capital, or digits among letters; in `code`, any
    word of four characters or more.
    """
    return " ".join(names_in(stretches_of(text), any_word=code))


def names_in(stretches: Iterable[str], *, any_word: bool) -> Iterable[str]:
    """Return the names in stretches of text, each once, as `identifier_text` does; `any_word`: as it does in code."""
    once = dict.fromkeys(stretches)  # most words of a text come more than once
    together = "\n".join(once)
    if _APOSTROPHE.search(together):  # which is no part of a name
        together = _APOSTROPHE.sub("\n", together)
        once = dict.fromkeys(together.split("\n"))
    if not any_word:
        return dict.fromkeys(filter(None, map(_SIGNED_NAMES.__getitem__, once)))
    if together.isascii():
        words = together.lower().split("\n")
        return dict.fromkeys(word[:_LONGEST_NAME] for word in words if len(word) >= _SHORTEST_NAME)
    return dict.fromkeys(folded(word[:_LONGEST_NAME]) for word in once if len(word) >= _SHORTEST_NAME)


def query_terms(text: str, *, most: int = MAX_WORDS) -> TextQuery:
    """Return what to look for when somebody asks `text`. Nothing in it acts as query syntax but double quotes.

    Stop words are left out unless nothing else remains. Of a long text the `most` repeated words are kept,
    then the first ones.
    """
    text = text[:LONGEST_QUERY]
    return TextQuery(query_words(text, most=most), _sought_names(text), _phrases(text))


def query_words(text: str, *, most: int = MAX_WORDS) -> tuple[str, ...]:
    """Return only the terms that `query_terms` looks for."""
    return _most_repeated(telling_terms(text[:LONGEST_QUERY]), most)


def telling_terms(text: str) -> list[str]:
    """Return the terms of a question in order, each as often as it occurs, without stop words if others remain."""
    language = language_of(text)
    sought = [_sought(token, language) for token in _tokens(text)]
    return [term for one in sought for term in one.telling] or [term for one in sought for term in one.terms]


def count_words(text: str) -> int:
    """Return about how many words a text has: of a script without spaces one for each two signs."""
    if text.isascii():
        return len(text.split())
    plain, signs = _UNSPACED_SIGN.subn(" ", text)
    return len(plain.split()) + -(-signs // _SIGNS_IN_A_WORD)


def terms_in(language: str, word: str) -> tuple[str, ...]:
    """Return the terms under which texts have a word of a language; none for a function word."""
    return _sought(word, language).telling


def content_words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case but not stemmed, without stop words.

    Scripts written without spaces give their characters.
    """
    plain = without_disguise(text)
    pattern = _ASCII_WORD if plain.isascii() else _WORD
    return [word for word in pattern.findall(plain) if word not in _STOP_WORDS]


_LONGEST_TOKEN = 64  # longer ones are encoded data: their beginning is enough to find them
_LONGEST_NAME = 200
_SHORTEST_NAME = 3  # a trigram index cannot find less
_MOST_DIGIT_PIECES = 3  # `utf8` and `v2beta1` are made of parts, a hash is not

# Scripts written without spaces, and Hangul, whose particles are glued to the words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and accents belong to their word, but `\w` leaves them out: Hindi words would fall to pieces.
_MARK_BLOCKS = ((0x300, 0x1D00), (0x20D0, 0x2100), (0x3099, 0x309B), (0xA800, 0xAC00), (0xFE20, 0xFE30))


def _marks() -> Iterator[str]:
    """Return the ranges of combining marks, written for a character class of a pattern."""
    chars = (char for start, end in _MARK_BLOCKS for char in map(chr, range(start, end)))
    for marks, run in groupby(chars, key=lambda char: unicodedata.category(char).startswith("M")):
        if marks:
            first, *rest = run
            yield f"{first}-{rest[-1]}" if rest else first


_LETTERS = rf"[\w{''.join(_marks())}]+"

_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+")
_TOKEN = re.compile(rf"{_LETTERS}(?:[.'’\-]{_LETTERS})*")
_ASCII_TOKEN = re.compile(r"\w+(?:[.'\-]\w+)*", re.ASCII)
# What joins the parts of a token, and what joins those of a name, which is `[./:\-]{1,2}`.
_STRETCH = re.compile(rf"{_LETTERS}(?:(?:[./:\-]{{1,2}}|['’]){_LETTERS})*")
_ASCII_STRETCH = re.compile(r"\w++(?>(?:(?:[./:\-]{1,2}+|')\w++)*)", re.ASCII)
_RUNS = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^{_UNSPACED}]+")
_SIGNS_IN_A_WORD = 2  # most words of Chinese, and of Japanese in Chinese signs, have two
_UNSPACED_SIGN = re.compile(f"[{_UNSPACED}]")
_QUOTED = re.compile(r'"([^"]+)"|“([^“”]+)”')
_PARTS = re.compile(r"[^./:\-]+")
_POSSESSIVE = re.compile(r"['’][sS]$")
_APOSTROPHE = re.compile(r"['’]")
_SEPARATORS = re.compile(r"[_.\-]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER_SIGN = re.compile(r"[^A-Za-z_.\-]")
_LETTERS_ALONE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""What `_SEPARATORS` and `_CAMEL` part a token into that has no `_OTHER_SIGN`."""
_DIGITS = re.compile(r"(?<=[0-9])(?=[^\W\d])|(?<=[^\W\d])(?=[0-9])")
_NAME_SIGN = re.compile(r"[_/:]|[^\W\d][.]|[.][^\W\d]|[a-z][A-Z]|[^\W\d]\d|\d[^\W\d]")

_ENGLISH = Stemmer.Stemmer("english", 0)  # without its own cache: `stem` has one
_REMEMBERED = 1 << 18  # tokens; about 40 MB at the most


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(unicodedata.normalize("NFKC", text))


class _Memory(dict[str, str]):
    """The terms of stretches seen before: text repeats itself, and a look-up in a dict is all a repetition costs."""

    def __missing__(self, stretch: str) -> str:
        tokens = (_ASCII_TOKEN if stretch.isascii() else _TOKEN).findall(stretch)
        several = len(tokens) > 1
        terms = " ".join(filter(None, map(self.__getitem__, tokens))) if several else _terms_of_token(tokens[0])
        if len(stretch) <= _LONGEST_TOKEN:  # odd input shall not fill the memory
            if len(self) >= _REMEMBERED:
                self.clear()
            self[stretch] = terms
        return terms


def _terms_of_token(token: str) -> str:
    if _is_word(token):
        return stem(token.lower())
    return " ".join(map(stem, _compound(token) if token.isascii() else _analysed(token, query=False)))


_TERMS = _Memory()


class HeldTerms(dict[str, frozenset[str]]):
    """Which of some index terms are in a stretch of text: a query is compared with many lines that repeat words.

    The parts of `self.retry_limit` have their own terms here, so that the line has all terms of `retry_limit`.
    """

    def __init__(self, terms: frozenset[str]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, stretch: str) -> frozenset[str]:
        held = self._terms.intersection(_TERMS[stretch].split())
        if not stretch.isidentifier() and len(parts := _PARTS.findall(stretch)) > 1:
            held = held.union(*map(self.__getitem__, parts))
        self[stretch] = held
        return held

    def of(self, text: str, language: str | None = None) -> frozenset[str]:
        """Return which of the terms a text of a language has, `None` for English, as `index_text` finds them."""
        held = {term for one in filter(None, map(self.__getitem__, stretches_of(text))) for term in one}
        if language:
            held |= self._terms.intersection(stems_in(language, text))
        return frozenset(held)


@cache
def _foreign_terms(plain: bool) -> frozenset[str]:
    """Return the terms of the words that tell other languages from English; where `plain`, of those without accents.

    An accented word may have the term of an English one: `à` has that of `a`.
    """
    return frozenset(_TERMS[word] for word in FOREIGN_WORDS if word.isascii() or not plain)


@dataclass(frozen=True, slots=True)
class _Sought:
    """What is looked for of one token of a question; `telling` is without its stop words.

    Whether a word is a stop word is told by the word and not by its stem: `weddings` and `we'd` have one stem.
    """

    terms: tuple[str, ...]
    telling: tuple[str, ...]


def _sought(token: str, language: str | None) -> _Sought:
    # Odd input shall not fill the memory.
    return _known_sought(token, language) if len(token) <= _LONGEST_TOKEN else _sought_anew(token, language)


def _sought_anew(token: str, language: str | None) -> _Sought:
    words = tuple(_analysed(token, query=True))
    stop = _STOP_WORDS | _CONTRACTIONS if _APOSTROPHE.search(token) else _STOP_WORDS
    terms = tuple(map(stem, words))
    if language is None:
        return _Sought(terms, tuple(stem(word) for word in words if word not in stop))
    # A text that is too short to tell its language has the words as they are written, others their stems as well.
    telling = [stem(word) for word in words if not is_function_word(language, word)]
    more = (stemmed for stemmed in stems_in(language, token) if stemmed not in telling)
    return _Sought(terms, (*telling, *more))


_known_sought = lru_cache(maxsize=1 << 12)(_sought_anew)
"""One question is analysed several times: whole, word by word, and for the name of its answer."""


def _analysed(token: str, *, query: bool) -> Iterator[str]:
    """Return the words of a token, folded and not yet stemmed."""
    if token.isascii() or not _UNSPACED_SIGN.search(token):
        whole = not token.isascii() and len(token) <= _LONGEST_TOKEN and token.isalpha() and _has_one_case(token)
        yield from [folded(token)] if whole else _compound(token)
        return
    for run in _RUNS.finditer(token):
        if run["unspaced"]:
            yield from _pairs(run[0], singles=not query)
        else:
            yield from _compound(run[0])


def _pairs(run: str, *, singles: bool) -> Iterator[str]:
    """Return neighbouring characters in twos; single ones too where asked, or where there is just one."""
    if singles or len(run) == 1:
        yield from run
    yield from map("".join, pairwise(run))


def _compound(token: str) -> list[str]:
    """Return the whole of a token and, where it has several, its parts."""
    if _is_word(token):
        return [token.lower()]
    bare = token[:_LONGEST_TOKEN]
    if "'" in bare or not bare.isascii():
        bare = _APOSTROPHE.sub("", _POSSESSIVE.sub("", bare))
    if _OTHER_SIGN.search(bare):
        parts = [part for stretch in _SEPARATORS.split(bare) for part in map(folded, _pieces(stretch)) if part]
    else:
        parts = list(map(str.lower, _LETTERS_ALONE.findall(bare)))
    # Run together, so that `GitHub` and `github`, `commitPatch` and `commit_patch` are one term.
    return ["".join(map(_spelled_part, parts)), *parts] if len(parts) > 1 else parts


_spelled_part = lru_cache(maxsize=1 << 14)(spelled)


def _is_word(token: str) -> bool:
    """Tell whether a token is its own only part."""
    return len(token) <= _LONGEST_TOKEN and _is_plain(token)


def _is_plain(token: str) -> bool:
    """Tell whether a token is one word without signs, digits or inner capitals, as most are."""
    rest = token[1:]
    return token.isascii() and token.isalpha() and (not rest or rest.islower())


def _pieces(stretch: str) -> list[str]:
    if stretch.isalpha() and _has_one_case(stretch):
        return [stretch]  # nothing in it to part at
    return [piece for camel in _CAMEL.split(stretch) for piece in _digit_pieces(camel)]


def _has_one_case(letters: str) -> bool:
    return letters.islower() or letters[1:].islower() or letters.isupper()


def _digit_pieces(word: str) -> list[str]:
    pieces = _DIGITS.split(word)
    return pieces if len(pieces) <= _MOST_DIGIT_PIECES else [word]


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a folded word, as English, in one spelling; words of other letters stay as they are."""
    return str(_ENGLISH.stemWord(spelled(word))) if word.isascii() and word.isalpha() else word


class _SignedNames(dict[str, str]):
    """What words seen before are as names: folded, and nothing for a word without a sign that tells a name."""

    def __missing__(self, word: str) -> str:
        is_name = len(word) >= _SHORTEST_NAME and not _is_plain(word) and _NAME_SIGN.search(word)
        name = folded(word[:_LONGEST_NAME]) if is_name else ""
        if len(word) <= _LONGEST_TOKEN:
            if len(self) >= _REMEMBERED_NAMES:
                self.clear()
            self[word] = name
        return name


_SIGNED_NAMES = _SignedNames()
_REMEMBERED_NAMES = 1 << 16  # words


def _sought_names(text: str) -> tuple[str, ...]:
    short = len(_tokens(text)) <= TUNING.question.max_name_words
    names = [name for name in names_in(stretches_of(text), any_word=short) if name not in _STOP_WORDS]
    return tuple(names[:MAX_IDENTIFIERS])


def _phrases(text: str) -> tuple[str, ...]:
    quoted = (first or second for first, second in _QUOTED.findall(text))
    phrases = (index_text(words[:_LONGEST_NAME]) for words in quoted)
    return tuple(dict.fromkeys(phrase for phrase in phrases if " " in phrase))[:MAX_PHRASES]


def _most_repeated(terms: list[str], most: int) -> tuple[str, ...]:
    if len(counts := Counter(terms)) <= most:
        return tuple(counts)
    return tuple(term for term, _ in counts.most_common(most))


_STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are arent as at be because been before
    being below between both but by can cannot cant could couldnt did didnt do does doesnt doing
    done dont down during each either else ever every few for from further get gets getting give
    given go goes going got had hadnt has hasnt have havent having he hed her here hers herself
    hes him himself his how however i if im in into is isnt it its itself ive just let lets
    like may me might more most much must my myself no nor not now of off on once one only onto or
    other our ours ourselves out over own please same shall she shes should shouldnt so some
    such tell than that thats the their theirs them themselves then there theres these they theyd
    theyre theyve this those though through to too under until up upon us very was wasnt we were
    werent weve what whats when whens where wheres which while who whom whos whose why will with
    within without would wouldnt yes yet you youd youll your youre yours yourself yourselves youve
    """.split()
)
_CONTRACTIONS = frozenset(("hell", "id", "ill", "shed", "wed"))
"""Stop words where an apostrophe stood in them, and words of their own where none did."""


# Estimating how much of a model's context a text takes.


_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_CHARACTERS_PER_TOKEN = 3.6


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per wide (CJK) character, else one per 3.6 characters.

    English prose has about 4.2 characters per token in common byte-pair vocabularies and code about 3.2; the
    estimate is meant to err on the high side, so that what is packed fits.
    """
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + int((len(text) - wide) / _CHARACTERS_PER_TOKEN) + (1 if text else 0)


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return the longest beginning of `text`, ending at a line or word, that fits `tokens`."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate_tokens(text[:middle]) <= tokens else (low, middle - 1)
    end = max(text.rfind("\n", 0, low), text.rfind(" ", 0, low))
    return text[: end if end > low // 2 else low].rstrip()

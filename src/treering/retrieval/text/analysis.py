"""Turn text into index terms, and questions into terms to search for.

Analysis happens here and not in the tokenizer of a store, so that every store finds the same: `index_text` returns
split, folded and stemmed terms, and a store only splits them at spaces. The names in `identifier_text` go to a trigram
index, which also finds parts of names.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise

import Stemmer

from treering.core.screening import without_disguise
from treering.ports.search import TextQuery
from treering.retrieval.text.languages import FOREIGN_WORDS, folded, is_function_word, language_of, stems_in
from treering.retrieval.tuning import TUNING


def spelled(word: str) -> str:
    """Return the American spelling of a folded word, and the singular of some irregular technical plurals."""
    if word in _ALONE:
        return _ALONE[word]
    if len(word) < _SHORTEST or not ("our" in word or "is" in word or "lys" in word or "ogue" in word):
        return word
    if (match := _BRITISH.fullmatch(word)) is None:
        return word
    if match["our"] is not None:
        return word if match["our"] in _NO_COLOR else f"{match['our']}or{match['our_end'] or ''}"
    if match["ise"] is not None:
        return f"{match['ise']}iz{match['ise_end']}"
    if match["yse"] is not None:
        return f"{match['yse']}lyz{match['yse_end']}"
    return f"{match['ogue']}og{match['ogue_end'] or ''}"


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
"""Characters of a question that are read; only pasted logs are longer."""


def index_text(text: str) -> str:
    """Return the terms of `text` for the word index, in order, separated by single spaces.

    Words are folded (NFKC, case, diacritics), spelled the American way (`colour` is `color`) and stemmed as English. A
    compound such as `commitPatch`, `commit_patch` or `commit-patch` gives one term for the whole (`commitpatch`) and
    one for each part. Scripts without spaces give every character and every pair of neighboring characters. A text in
    another language also gives the stems of its words in that language. They follow all other terms, so that phrases
    stay contiguous.
    """
    return terms_of(text, stretches_of(text))


def stretches_of(text: str) -> list[str]:
    """Split a text into stretches that contain its tokens and its names, in order."""
    if text.isascii():
        return _ASCII_STRETCH.findall(text)
    return _STRETCH.findall(unicodedata.normalize("NFKC", text))


def terms_of(text: str, stretches: Sequence[str]) -> str:
    """Return `index_text` of a text that was already split into stretches."""
    term_list = list(map(_TERMS.__getitem__, stretches))
    terms = " ".join(filter(None, term_list))
    # Most text is English and has none of these words. In other languages such a word is a stretch by itself.
    if _foreign_terms(text.isascii()).isdisjoint(term_list) or (language := language_of(text)) is None:
        return terms
    known = frozenset(terms.split())
    return " ".join([terms, *(stem for stem in stems_in(language, text) if stem not in known)])


def terms_by_token(text: str) -> Iterator[str]:
    """Yield the terms of each token of `text`, separated by spaces; some tokens have none."""
    return map(_TERMS.__getitem__, _tokens(text))


def identifier_text(text: str) -> str:
    """Return the distinct names in prose for the trigram index, folded, separated by spaces."""
    return " ".join(names_in(stretches_of(text), any_word=False))


def names_in(stretches: Iterable[str], *, any_word: bool) -> Iterable[str]:
    """Return the distinct names in stretches of text, folded.

    A name is a token with an underscore, dot, slash, inner capital, or digits among letters; with `any_word`, as in
    code, any word of three characters or more.
    """
    once = dict.fromkeys(stretches)  # most words of a text repeat
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
    """Return the words, names and quoted phrases to search for. Double quotes are the only query syntax.

    Stop words are left out unless nothing else remains. A long text is reduced to its `most` most frequent words.
    """
    text = text[:LONGEST_QUERY]
    return TextQuery(query_words(text, most=most), _sought_names(text), _phrases(text))


def query_words(text: str, *, most: int = MAX_WORDS) -> tuple[str, ...]:
    """Return only the words of `query_terms`."""
    return _most_repeated(telling_terms(text[:LONGEST_QUERY]), most)


def word_terms(word: str) -> tuple[str, ...]:
    """Return `query_words` of a single word; cached, because questions are read word by word and share most words."""
    return _cached_word_terms(word) if len(word) <= _LONGEST_TOKEN else query_words(word)


def telling_terms(text: str) -> list[str]:
    """Return the terms of a question in order, with repetitions, without stop words unless nothing else remains."""
    language = language_of(text)
    sought = [_sought(token, language) for token in _tokens(text)]
    return [term for one in sought for term in one.telling] or [term for one in sought for term in one.terms]


def count_words(text: str) -> int:
    """Estimate the number of words; in scripts without spaces, two characters count as a word."""
    if text.isascii():
        return len(text.split())
    plain, signs = _UNSPACED_SIGN.subn(" ", text)
    return len(plain.split()) + -(-signs // _SIGNS_IN_A_WORD)


def terms_in(language: str, word: str) -> tuple[str, ...]:
    """Return the index terms of a word of a language; none for a function word."""
    return _sought(word, language).telling


def content_words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case, not stemmed, without stop words.

    Scripts without spaces give single characters.
    """
    plain = without_disguise(text)
    pattern = _ASCII_WORD if plain.isascii() else _WORD
    return [word for word in pattern.findall(plain) if word not in _STOP_WORDS]


_LONGEST_TOKEN = 64  # longer tokens are encoded data; their beginning is enough to find them
_LONGEST_NAME = 200
_SHORTEST_NAME = 3  # a trigram index cannot find shorter names
_MOST_DIGIT_PIECES = 3  # `utf8` and `v2beta1` have parts, a hash has none

# Scripts without spaces, and Hangul, which attaches particles to words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# `\w` does not match vowel signs and accents: Hindi words would be split.
_MARK_BLOCKS = ((0x300, 0x1D00), (0x20D0, 0x2100), (0x3099, 0x309B), (0xA800, 0xAC00), (0xFE20, 0xFE30))


def char_class(blocks: Iterable[tuple[int, int]], is_wanted: Callable[[str], bool]) -> str:
    """Return the wanted characters of these blocks as ranges for a regular expression's character class."""
    chars = (char for start, end in blocks for char in map(chr, range(start, end)))
    runs = (list(run) for wanted, run in groupby(chars, key=is_wanted) if wanted)
    return "".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run[0] for run in runs)


_MARKS = char_class(_MARK_BLOCKS, lambda char: unicodedata.category(char).startswith("M"))
_LETTERS = rf"[\w{_MARKS}]+"

_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+")
_TOKEN = re.compile(rf"{_LETTERS}(?:[.'’\-]{_LETTERS})*")
_ASCII_TOKEN = re.compile(r"\w+(?:[.'\-]\w+)*", re.ASCII)
# The parts of a token or a name with the signs between them.
_STRETCH = re.compile(rf"{_LETTERS}(?:(?:[./:\-]{{1,2}}|['’]){_LETTERS})*")
_ASCII_STRETCH = re.compile(r"\w++(?>(?:(?:[./:\-]{1,2}+|')\w++)*)", re.ASCII)
_RUNS = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|[^{_UNSPACED}]+")
_SIGNS_IN_A_WORD = 2  # most Chinese words, and Japanese words in kanji, have two characters
_UNSPACED_SIGN = re.compile(f"[{_UNSPACED}]")
_QUOTED = re.compile(r'"([^"]+)"|“([^“”]+)”')
_PARTS = re.compile(r"[^./:\- ]+")
_JOINT = re.compile(r"[./:\-]")
_POSSESSIVE = re.compile(r"['’][sS]$")
_APOSTROPHE = re.compile(r"['’]")
_SEPARATORS = re.compile(r"[_.\-]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHER_SIGN = re.compile(r"[^A-Za-z_.\-]")
_LETTERS_ALONE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""The parts of a token without `_OTHER_SIGN`, as `_SEPARATORS` and `_CAMEL` split it."""
_DIGITS = re.compile(r"(?<=[0-9])(?=[^\W\d])|(?<=[^\W\d])(?=[0-9])")
_NAME_SIGN = re.compile(r"[_/:]|[^\W\d][.]|[.][^\W\d]|[a-z][A-Z]|[^\W\d]\d|\d[^\W\d]")

_ENGLISH = Stemmer.Stemmer("english", 0)  # no cache of its own, because `stem` has one
_REMEMBERED = 1 << 18  # tokens; at most about 40 MB


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(unicodedata.normalize("NFKC", text))


class _Memory(dict[str, str]):
    """A cache of the terms of stretches."""

    def __missing__(self, stretch: str) -> str:
        tokens = (_ASCII_TOKEN if stretch.isascii() else _TOKEN).findall(stretch)
        several = len(tokens) > 1
        terms = " ".join(filter(None, map(self.__getitem__, tokens))) if several else _terms_of_token(tokens[0])
        if len(stretch) <= _LONGEST_TOKEN:  # unusual input must not fill the cache
            if len(self) >= _REMEMBERED:
                self.clear()
            self[stretch] = terms
        return terms


def _terms_of_token(token: str) -> str:
    if _is_word(token):
        return stem(token.lower())
    return " ".join(map(stem, _compound(token) if token.isascii() else _analysed(token, query=False)))


_TERMS = _Memory()


def terms_held(text: str, terms: frozenset[str], language: str | None = None) -> frozenset[str]:
    """Return the `terms` of a query in a text of a language, `None` for English, as `index_text` finds them.

    The parts of `self.retry_limit` have their own terms here, so that a line with it has all terms of `retry_limit`.
    """
    stretches = set(stretches_of(text))
    joined = " ".join(stretches)
    if _JOINT.search(joined):
        stretches.update(_PARTS.findall(joined))
    held = terms.intersection(" ".join(map(_TERMS.__getitem__, stretches)).split())
    return held | terms.intersection(stems_in(language, text)) if language else held


@cache
def _foreign_terms(plain: bool) -> frozenset[str]:
    """Return the terms of the function words of other languages; if `plain`, only of words without accents.

    An accented word may have the same term as an English word: `à` and `a`.
    """
    return frozenset(_TERMS[word] for word in FOREIGN_WORDS if word.isascii() or not plain)


_cached_word_terms = lru_cache(maxsize=1 << 12)(query_words)


@dataclass(frozen=True, slots=True)
class _Sought:
    """The terms to search for one token of a question; `telling` has no stop words.

    Stop words are recognized by the word and not by its stem: `weddings` and `we'd` have the same stem.
    """

    terms: tuple[str, ...]
    telling: tuple[str, ...]


def _sought(token: str, language: str | None) -> _Sought:
    # Unusual input must not fill the cache.
    return _cached_sought(token, language) if len(token) <= _LONGEST_TOKEN else _analyse_sought(token, language)


def _analyse_sought(token: str, language: str | None) -> _Sought:
    words = tuple(_analysed(token, query=True))
    stop = _STOP_WORDS | _CONTRACTIONS if _APOSTROPHE.search(token) else _STOP_WORDS
    terms = tuple(map(stem, words))
    if language is None:
        return _Sought(terms, tuple(stem(word) for word in words if word not in stop))
    # Texts too short to detect their language have only the words as written, other texts the stems as well.
    telling = [stem(word) for word in words if not is_function_word(language, word)]
    more = (stemmed for stemmed in stems_in(language, token) if stemmed not in telling)
    return _Sought(terms, (*telling, *more))


_cached_sought = lru_cache(maxsize=1 << 12)(_analyse_sought)
"""A question is analysed several times: as a whole, by words, and for its names."""


def _analysed(token: str, *, query: bool) -> Iterator[str]:
    """Yield the words of a token, folded and not yet stemmed."""
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
    """Yield the pairs of neighboring characters; also the single characters if `singles`, or if there is only one."""
    if singles or len(run) == 1:
        yield from run
    yield from map("".join, pairwise(run))


def _compound(token: str) -> list[str]:
    """Return the token as a whole, and its parts if it has several."""
    if _is_word(token):
        return [token.lower()]
    bare = token[:_LONGEST_TOKEN]
    if "'" in bare or not bare.isascii():
        bare = _APOSTROPHE.sub("", _POSSESSIVE.sub("", bare))
    if _OTHER_SIGN.search(bare):
        parts = [part for stretch in _SEPARATORS.split(bare) for part in map(folded, _pieces(stretch)) if part]
    else:
        parts = list(map(str.lower, _LETTERS_ALONE.findall(bare)))
    # Joined, so that `GitHub` and `github`, `commitPatch` and `commit_patch` are one term.
    return ["".join(map(_spelled_part, parts)), *parts] if len(parts) > 1 else parts


_spelled_part = lru_cache(maxsize=1 << 14)(spelled)


def _is_word(token: str) -> bool:
    """Return whether a token has no parts."""
    return len(token) <= _LONGEST_TOKEN and _is_plain(token)


def _is_plain(token: str) -> bool:
    """Return whether a token is one word without punctuation, digits or inner capitals, as most are."""
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
    """Return the English stem of a folded word in American spelling; words with other letters are unchanged."""
    return str(_ENGLISH.stemWord(spelled(word))) if word.isascii() and word.isalpha() else word


class _SignedNames(dict[str, str]):
    """A cache of folded names; empty for a word that does not look like a name."""

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
"""Stop words if they had an apostrophe (`we'd`), and other words if they had none (`wed`)."""

_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_CHARACTERS_PER_TOKEN = 3.6


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per wide (CJK) character, and one per 3.6 other characters.

    In common byte-pair vocabularies, English prose has about 4.2 characters per token and code about 3.2. The estimate
    is rather too high, so that packs fit their budget.
    """
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + int((len(text) - wide) / _CHARACTERS_PER_TOKEN) + (1 if text else 0)


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return the longest prefix of `text` that fits `tokens` and ends at a line or a word."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate_tokens(text[:middle]) <= tokens else (low, middle - 1)
    end = max(text.rfind("\n", 0, low), text.rfind(" ", 0, low))
    return text[: end if end > low // 2 else low].rstrip()

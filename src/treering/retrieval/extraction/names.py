"""Normalize the names of entities, and classify English words by their role in a sentence."""

import re
import unicodedata
from functools import lru_cache

from treering.retrieval.text.analysis import char_class, stem


@lru_cache(maxsize=1 << 16)
def entity_key(name: str) -> str:
    """Return the normal form of `name`; names with the same form are one entity.

    It ignores compatibility forms, case, punctuation, dots of initials, digit grouping, possessive endings and a
    leading article, and retains letters, marks, digits and symbols of every script. Only a blank name has an empty
    form. `entity_key(entity_key(name)) == entity_key(name)`.
    """
    folded = _folded(name)
    return _bare(folded) or folded


def bare_title(title: str) -> str:
    """Return `title` without a final note in parentheses: `Ed Wood (film)` is `Ed Wood`."""
    return _ASIDE.sub("", title).strip() or title.strip()


_ASIDE = re.compile(r"(?<=\S) \([^()]*\)$")
_INITIALS = re.compile(r"\b(?:[^\W\d_]\.[ ]?){2,}")  # `U.S.` and `J. R. R.`: one word each
_OWNED = re.compile(r"['’]s\b")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLES = re.compile(r"(?:(?:the|an?) )+(?=\S)")
_SIGN = re.compile(
    # Not removed: dots, slashes and colons inside a path or an identifier, decimal points, `c++`, `c#`, `50%`.
    r"(?<=\d)[.:/](?=\d)|(?<=\w\w)(?:[./]|::)(?=\w\w)|(?<=\w)#(?!\w)|(?<=\d)%|(?P<joined>['’ʼ`´])|(?P<and>&)|[^\w\s]"
)
_DOTTED = re.compile(r"(?:\w+[a-z0-9]\.)+\w{2,}", re.ASCII)  # `_SIGN` does not remove such dots
_STEADY = 4  # rounds; some rare letters can be folded again after folding


def _folded(name: str) -> str:
    if name.isascii():
        return " ".join(name.lower().split())
    for _ in range(_STEADY):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        if folded == name:
            break
        name = folded
    return " ".join(name.split())


def _bare(folded: str) -> str:
    text = folded
    # Plain words, and the names and paths of code, have no sign to replace.
    if not folded.replace(" ", "").replace("_", "").isalnum() and not _DOTTED.fullmatch(folded):
        text = _OWNED.sub("", _INITIALS.sub(_run_together, folded))
        text = " ".join(_SIGN.sub(_plain, _GROUPED.sub("", text)).split())
    return _ARTICLES.sub("", text, count=1) if _ARTICLES.match(text) else text


def _run_together(initials: re.Match[str]) -> str:
    return initials[0].replace(".", "").replace(" ", "") + " "


def _plain(sign: re.Match[str]) -> str:
    """Return the replacement of a character: itself if it distinguishes names, else a space or nothing."""
    if sign["joined"]:
        return ""
    if sign["and"]:
        return " and "
    # Marks (`M`) belong to their letters, symbols (`S`: emoji, `+`, `$`) and surrogates (`Cs`) have a meaning.
    is_inner = len(sign[0]) > 1 or (sign[0] in "./:#%" and _inside(sign))
    return sign[0] if is_inner or unicodedata.category(sign[0])[0] in "MS" or "\ud800" <= sign[0] <= "\udfff" else " "


def _inside(sign: re.Match[str]) -> bool:
    before, after = sign.string[sign.start() - 1 : sign.start()], sign.string[sign.end() : sign.end() + 1]
    return before.isalnum() and (sign[0] in "#%" or after.isalnum() or after == "_")


@lru_cache(maxsize=1 << 16)
def plain_form(key: str) -> str:
    """Return an entity key without accents on Latin letters and without English endings.

    Similar names share it: `Müllers` and `Muller`, `presidents` and `president`. Marks of other scripts stay, because
    they distinguish words. Names of digits and punctuation are unchanged.
    """
    bare = key if key.isascii() else _without_accents(key)
    if " " not in bare and bare.isascii():
        return stem(bare)
    return " ".join(stem(word) if word.isascii() and word.isalpha() else word for word in bare.split())


def _without_accents(key: str) -> str:
    signs: list[str] = []
    latin = False
    for sign in unicodedata.normalize("NFD", key):
        if unicodedata.combining(sign) and latin:
            continue
        latin = "LATIN" in unicodedata.name(sign, "") if not unicodedata.combining(sign) else latin
        signs.append(sign)
    return unicodedata.normalize("NFC", "".join(signs))


DETERMINERS = frozenset(
    """a an the this that these those my your his her its our their some any no every each another both either neither
    all many much more most few several such other own same new first second third last next""".split()
)

PRONOUNS = frozenset(
    """i me mine myself you yours yourself he him himself she hers herself it itself we us ours ourselves they them
    theirs themselves who whom whose which what that this these those one ones someone anyone everyone nobody something
    anything everything nothing there here his her its their my your our i'm i've i'd i'll you're you've you'd you'll
    he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll they're they've they'd they'll that's
    there's here's what's who's""".split()
)

PREPOSITIONS = frozenset(
    """of in on at by for with from to into onto upon about against between among through during before after above
    below under over within without toward towards across along around behind beside besides beyond near off out past
    since until till up down via per despite inside outside throughout amid amongst except like than as""".split()
)

CONNECTIVES = frozenset(
    """and or but nor so yet if because although though while when where whereas whether unless once then also too
    however therefore moreover furthermore meanwhile nevertheless nonetheless otherwise instead thus hence still even
    just only not never always often sometimes usually mostly very really quite rather almost already again ever
    perhaps maybe well why how yes no ok okay please""".split()
)

AUXILIARIES = frozenset(
    """be am is are was were been being have has had having do does did doing done can could may might must shall should
    will would can't couldn't don't doesn't didn't won't wouldn't isn't aren't wasn't weren't haven't hasn't hadn't
    gonna gotta wanna let let's""".split()
)

VERBS = frozenset(
    """get gets got getting go goes went going gone come comes came coming make makes made making take takes took taken
    taking see sees saw seen seeing know knows knew known think thinks thought thinking say says said saying tell tells
    told telling give gives gave given giving find finds found finding want wants wanted need needs needed feel feels
    felt feeling try tries tried trying keep keeps kept keeping look looks looked looking use uses used using work works
    worked working help helps helped helping love loves loved loving like likes liked enjoy enjoys enjoyed start starts
    started starting become becomes became becoming show shows showed shown showing bring brings brought bringing leave
    leaves left leaving put puts set sets run runs ran running hear hears heard hearing meet meets met meeting seem
    seems seemed live lives lived living believe happen happens happened ask asks asked asking check checked checking
    hope hopes hoped hoping share shared sharing learn learned learning watch watched watching play played playing
    read spend spent spending plan planned planning talk talked talking move moved moving sign signed join joined
    finish finished visit visited remember miss missed wait waiting sound sounds mean means meant stay stayed begin
    began begun write wrote written writing call called hold held include includes included including stop stopped
    excited inspired inspiring inspire reminds remind reminded pass passed buy bought sell sold pay paid win won
    lose lost""".split()
)

PLEASANTRIES = frozenset(
    """wow hey hi hello thanks thank thx yeah yep yup nope nah sure great good nice cool awesome amazing sorry congrats
    congratulations oh ah aww haha lol bye goodbye absolutely definitely exactly totally anyway hmm glad happy fun
    wonderful fantastic lovely incredible interesting super right true""".split()
)

FLAT = frozenset(
    """thing things stuff way ways lot lots kind kinds sort bit time times day days week weeks month months year years
    today tomorrow yesterday tonight now morning evening night guy guys people person someone anyone part parts end
    number side case point example fact idea ideas moment moments while later recently soon ago back able sure best
    better big little small long short old young own different important hard easy main various certain particular
    lately finally together away forward especially actually probably pretty currently later early late fun""".split()
)
"""Nouns, adjectives and adverbs too general to be a topic."""

OPENERS = (
    DETERMINERS
    | PRONOUNS
    | PREPOSITIONS
    | CONNECTIVES
    | AUXILIARIES
    | PLEASANTRIES
    | VERBS
    | frozenset(
        """according additionally afterwards altogether approximately based besides beginning born born commonly
        compared consequently currently described due during earlier eventually examples famous finally following
        formed formerly founded further generally given historically home including indeed initially known lately later
        like located mainly members named nearly notable now officially opened original originally others overall
        part particularly performing plus prior probably produced published recently records released reportedly
        respectively results roughly scenes set similarly simply situated soon specifically starring subsequently
        there thereafter today together total traditionally typically ultimately unlike unusually used usually various
        whenever wherever whoever work works written yesterday tomorrow tonight zero two three four five six seven
        eight nine ten eleven twelve twenty hundred thousand half dozens critics scholars historians people children
        men women locations population snow winter summer spring autumn none much anything nothing thanks
        let making being having doing getting going keep read see note click use using choose select press open
        built created designed directed developed established executive chief former presently""".split()
    )
)
"""Words that are not names if they open a sentence with a capital."""

LEADING = frozenset(
    """new first second third last next old original united home winter summer spring autumn snow little big great good
    two three four five six seven eight nine ten eleven twelve thousand hundred half men women children people the
    """.split()
)
"""Openers that are part of a name if a capitalized word follows: `New York`, `Second World War`."""

ROLES = frozenset(
    """ambassador analyst archbishop author captain chairman chairwoman chancellor chief colonel commander commissioner
    congressman correspondent councillor dean deputy director editor founder general governor head hon justice
    leader lieutenant mayor member minister mr mrs ms dr prof officer premier president principal producer professor
    representative secretary senator sergeant sir singer speaker spokesman treasurer vice-president rapper actor actress
    coach composer writer""".split()
)
"""Titles and professions before the name of a person."""

BODIES = frozenset(
    """academy act administration agency alliance archdiocese army association assembly bank basilica battle bishop
    board book brotherhood bureau cathedral center centre chamber church city college commission committee commonwealth
    community company confederation conference congress convention council county court declaration department diocese
    district division duchy duke earl faculty federation foundation front gallery government guild hall history house
    institute institution journal king kingdom law league legion library list lord ministry movement museum office
    opera order organisation organization palace party patriarch people's province queen register republic romance
    royal school sea senate siege society state states temple territory theatre town treaty tribunal union university
    valley village war wars world years""".split()
)
"""Words that continue with `of` in names: `House of Representatives`."""

GENERIC = (
    frozenset(
        """act album army association award band bay board book bridge bureau cabinet capital census century
        championship chapter church city class club coast college commission committee company conference congress
        constitution
    convention council county court crown cup day department district division earth east election emperor empire
    episode federal festival film finals games government group hall highway history hospital hotel house institute
    internet island king lake law league library lord major men museum music national navy north northern opposition
    order parliament park party phase police pope prime prince princess prix province queen region register republic
    river road royal school season section senate series society song south southern state states station street
    summit team television time top tournament town treaty tv union university valley village war wars west western
    women world zip zone""".split()
    )
    | ROLES
)
"""General nouns: alone and with a capital they refer to a longer name before."""


_BICAMERAL = ((0xC0, 0x590), (0x10A0, 0x10C6), (0x13A0, 0x13F6), (0x1E00, 0x2000), (0x2C00, 0x2D00), (0xA640, 0xA7FF))
_MARKS = "\u0300-\u036f\u200c\u200d"


def _capital(char: str) -> bool:
    return char.isupper() or char.istitle()


UPPER = "A-Z" + char_class(_BICAMERAL, _capital) + "\uff21-\uff3a"
"""Capital letters of Latin, Greek, Cyrillic, Armenian, …, for a character class."""

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters."""

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""The Japanese syllabary for foreign names and many terms."""

HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Korean syllables and their parts."""

THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer: scripts without case and mostly without spaces."""

SPACED = "\u0590-\u08ff\u0900-\u0dff\u0f00-\u0fff\u10d0-\u10ff\u1200-\u139f\u1800-\u18af"
"""Scripts without case that separate words by spaces: Hebrew, Arabic, the Indic scripts, Georgian, Ethiopic, …"""

LETTER = (
    rf"[A-Za-z0-9_\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff{_MARKS}\u0370-\u0373\u0376-\u037d"
    r"\u0386-\u0481\u048a-\u0556\u0560-\u0588\u10a0-\u10c5\u13a0-\u13fd\u1c80-\u1fbc\u1fc2-\u1fcc\u1fd0-\u1fdb"
    r"\u1fe0-\u1fec\u1ff2-\u1ffc\u2c00-\u2ce4\u2de0-\u2dff\ua640-\ua69d\ua722-\ua788\ua78b-\ua7ff\uab30-\uab5a"
    r"\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
)
"""One letter, digit or mark of a word in a script with case, as a pattern."""

WORD_SIGN = rf"[\w{_MARKS}]"
"""One letter, digit or mark of a word in any script, as a pattern."""

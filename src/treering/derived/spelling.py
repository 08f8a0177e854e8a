"""One spelling for words that English spells in two ways, so that either finds the other.

What comes out is looked for and nothing else: it need not be a word, as long as both spellings give the same.
"""

import re


def spelled(word: str) -> str:
    """Return a folded word as it is spelled in America; the singular, where the plural of a term is irregular."""
    if word in _ALONE:
        return _ALONE[word]
    if len(word) < _SHORTEST or (found := _BRITISH.fullmatch(word)) is None:
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

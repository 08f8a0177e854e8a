"""Text shaped like instructions to a language model: flagged, never removed, never obeyed.

A flag is a reason to look, not a verdict: documents about language models are flagged too.
"""

import re
import unicodedata
from dataclasses import dataclass


def instruction_flags(text: str) -> tuple[str, ...]:
    """Name the patterns found in `text`, in a fixed order; empty for ordinary text.

    `ignore_instructions`, `new_identity`, `system_tag`, `tool_call`, `exfiltration`, `concealment`, `request` (a
    polite order about what belongs to its writer: "please transfer $500 from my account"), `hidden_unicode` (tag
    characters, bidirectional overrides, runs of invisible characters).
    """
    plain = as_a_model_reads(text)
    flags = dict.fromkeys(shape.flag for shape in _SHAPES if shape.shows_in(plain))
    hidden = ("hidden_unicode",) if _is_hiding(text) else ()
    return (*flags, *hidden)


def _is_hiding(text: str) -> bool:
    """Tell whether characters that nobody sees stand in a text as hidden words do."""
    return not text.isascii() and bool(_UNSEEN.search(text) and _HIDDEN.search(text))


@dataclass(frozen=True, slots=True)
class _Shape:
    """A flag and its pattern, over lower-case text, matched only where one of `triggers` stands.

    A text without any of `needs` cannot match.
    """

    flag: str
    triggers: tuple[str, ...]
    needs: tuple[str, ...]
    pattern: re.Pattern[str]

    def shows_in(self, text: str) -> bool:
        # Plain loops: most texts are told by them, and generators would cost more than what they look for.
        for need in self.needs:
            if need in text:
                return self._stands_in(text)
        return False

    def _stands_in(self, text: str) -> bool:
        for trigger in self.triggers:
            at = text.find(trigger)
            while at >= 0:
                if self.pattern.match(text, at):
                    return True
                at = text.find(trigger, at + len(trigger))
        return False


def as_a_model_reads(text: str) -> str:
    """Return `text` in lower case without what hides words from a pattern but not from a model.

    That is: width, styled letters, invisible characters.
    """
    if text.isascii():
        return text.lower()
    visible = _INVISIBLE.sub("", text)
    if not unicodedata.is_normalized("NFKC", visible):
        visible = unicodedata.normalize("NFKC", visible)
    return visible.lower()


_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_UNSEEN = re.compile("[\u180e\u200b-\u200d\u202a-\u202e\u2060-\u2069\ufeff\U000e0001-\U000e01ef]")
"""What a text that hides words cannot be without: one class, which is looked for faster than `_HIDDEN`."""

# A tag sequence right behind a black flag is a regional flag. Overrides and isolates reorder what a person
# sees; the marks U+200E and U+200F, which right-to-left text needs, do not.
_HIDDEN = re.compile(
    "(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0001-\U000e007f]{2}"
    "|[\U000e0100-\U000e01ef]{4}"
    "|[\u202d\u202e]|[\u202a\u202b\u2066-\u2068][^\n]{0,400}[\u202a\u202b\u202d\u202e\u2066-\u2068]"
    "|[\u180e\u200b-\u200d\u2060-\u2064\ufeff]{4}"
)

_GAP = r"[\s,;:*_>\"'-]{1,6}"


def _words(least: int, most: int) -> str:
    # A word and a gap share no character: there is one way to read a text, so nothing to backtrack over.
    return rf"(?:(?:[^\W_]|’){{1,20}}{_GAP}){{{least},{most}}}"


_LINE_LEAD = r"(?:\A|(?<=\n)|(?<=\n )|(?<=# )|(?<=\*\*)|(?<=\[)|(?<=<)|(?<=new )|(?<=updated ))"
_MODEL = r"(?:assistant|ai|llm|chatbot|language model)"
_PRIZE = (
    r"(?:api[\s_-]keys?|credentials?|passwords?|secrets?|private[\s_-]keys?|access[\s_-]tokens?"
    r"|environment[\s_-]variables?|(?:conversation|chat)(?:[\s_-]history)?|system[\s_-]prompts?"
    rf"|contents?{_GAP}of{_GAP}[~/.\w-]{{1,40}}|/etc/passwd|~/\.ssh\S{{0,40}}|[~/.\w-]{{0,40}}id_rsa)"
)
_ACT = (
    r"(?:grant|unlock|open|initiate|transfer|pay|wire|send|deposit|sell|buy|order|withdraw|create|add|update|change"
    r"|move|delete|remove|erase|disable|enable|share|forward|e-?mail|post|publish|redirect|cancel|schedule|book"
    r"|install|run|execute|download|upload|retrieve|fetch|list|invite|reset|revoke|approve|dispatch|use|guide)"
)
_WHERE = (
    r"(?:\bmy\b|[\w.+-]{1,40}@[\w-]{1,40}\.\w|https?://|\bwww\.|\$\s?\d"
    r"|\b(?:account|iban|card|payee|id)\b[^.\n]{0,20}\d)"
)
_SENTENCE = r"(?:\A|(?<=[.!?:;\n\"'>\]])|(?<=[.!?:;\n\"'>\]]\s))"
_SHAPES = (
    _Shape(
        "ignore_instructions",
        ("ignore", "disregard", "forget", "override", "bypass", "do not follow", "stop following"),
        ("instruction", "prompt", "directive", "guideline", "told", "programming"),
        re.compile(
            r"\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)"
            rf"{_GAP}{_words(0, 4)}(?:previous|prior|above|earlier|preceding|foregoing|your|initial|original|other)"
            rf"{_GAP}{_words(0, 3)}(?:instructions?|prompts?|directives?|guidelines?|programming)\b"
            rf"|\b(?:ignore|disregard|forget){_GAP}{_words(0, 3)}(?:what|everything|anything|all){_GAP}"
            rf"{_words(0, 2)}you{_GAP}(?:were|have been){_GAP}told\b"
        ),
    ),
    _Shape(
        "new_identity",
        ("you", "from now", "pretend", "act as", "dan mode", "jailbreak mode"),
        ("you", "pretend", "act as", "dan mode", "jailbreak mode"),
        re.compile(
            rf"\byou(?:{_GAP}are|['’]re){_GAP}now{_GAP}{_words(0, 4)}"
            rf"(?:{_MODEL}|dan|jailbroken|unrestricted|unfiltered|hacker|persona|developer mode)\b"
            rf"|\byou{_GAP}are{_GAP}no{_GAP}longer{_GAP}{_words(0, 2)}(?:bound|restricted|limited|{_MODEL})\b"
            rf"|\bfrom{_GAP}now{_GAP}on{_GAP}you{_GAP}(?:will|must|are|shall|should)\b"
            rf"|\b(?:pretend|act as if|act as though){_GAP}(?:to be|you(?:{_GAP}are|['’]re|{_GAP}have)){_GAP}"
            rf"{_words(0, 3)}(?:{_MODEL}|unrestricted|unfiltered|no restrictions?)\b"
            r"|\b(?:dan|jailbreak) mode\b"
        ),
    ),
    _Shape(
        "system_tag",
        ("<|", "[inst]", "[/inst]", "<<sys>>", "<system", "</system", "system"),
        ("<|", "inst]", "<<sys>>", "system"),
        re.compile(
            r"<\|(?:im_start|im_end|system|user|assistant|start_header_id|eot_id|endofprompt)\|>|<<sys>>"
            r"|\[/inst\]|(?:\A|(?<=\n))\[inst\]"
            r"|</?system[-_ ]?(?:prompt|message|instructions?|reminder)>"
            rf"|{_LINE_LEAD}system(?: prompt| message| override)?[\]>*:]{{0,4}}\s{{1,4}}"
            rf"(?:you{_GAP}(?:are|must|will|should)|ignore|disregard)\b"
        ),
    ),
    _Shape(
        "tool_call",
        ("<", '"tool_calls"', '"tool_use"', '"function_call"'),
        ("<tool", "<function", "invoke", "<|tool", '"tool_calls"', '"tool_use"', '"function_call"'),
        re.compile(
            r"<\|?(?:tool_calls?|tool_use|function_calls?|function_results|tool_result)\b[^>\n]{0,100}>"
            r"|<(?:\w{1,10}:)?(?:invoke name|function)=[\"']?\w{1,60}[\"']?>"
            r"|\"(?:tool_calls|function_call)\"\s{0,4}:\s{0,4}[\[{]\s{0,40}[\"{]"
            r"|(?<=\"type\": )\"tool_use\"|(?<=\"type\":)\"tool_use\""
        ),
    ),
    _Shape(
        "exfiltration",
        ("reveal", "repeat", "print", "output", "disclose", "show", "leak", "tell"),
        ("prompt", "instruction", "system message"),
        re.compile(
            rf"\b(?:reveal|repeat|print|output|disclose|show|leak|tell){_GAP}(?:me{_GAP}|us{_GAP})?"
            rf"(?:all of{_GAP})?(?:your|the){_GAP}{_words(0, 2)}"
            r"(?:system[\s_-]prompts?|(?:initial|hidden|original|secret|system)\s(?:instructions?|prompts?|messages?))\b"
        ),
    ),
    _Shape(
        "exfiltration",
        ("send", "post", "upload", "forward", "transmit", "leak", "exfiltrate", "email"),
        (
            *("key", "credential", "password", "secret", "token", "environment", "history", "prompt"),
            *("content", "/etc/passwd", "~/.ssh", "id_rsa", "conversation"),
        ),
        re.compile(
            rf"\b(?:send|post|upload|forward|transmit|leak|exfiltrate|email){_GAP}{_words(0, 4)}{_PRIZE}"
            rf"{_GAP}{_words(0, 4)}(?:to|at|via){_GAP}(?:https?://|[\w.+-]{{1,40}}@"
            rf"|(?:this|the following){_GAP}(?:url|address|server|endpoint)|attacker|my\b)"
        ),
    ),
    _Shape(
        "exfiltration",
        ("![",),
        ("={", "=<", "=$", "=%7b"),
        re.compile(r"!\[[^\]\n]{0,100}\]\(https?://[^)\s]{1,200}\?[^)\s]{0,100}=(?:\{|<|\$|%7b)"),
    ),
    _Shape(
        "concealment",
        ("do not ", "don't ", "don’t ", "never ", "without "),
        ("user", "human", "developer", "operator"),
        re.compile(
            rf"\b(?:do{_GAP}not|don['’]t|never){_GAP}(?:tell|inform|notify|alert|mention{_GAP}(?:this|it){_GAP}to"
            rf"|(?:reveal|disclose){_GAP}(?:this|it){_GAP}to|let){_GAP}(?:the|your)"
            rf"{_GAP}(?:user|human|developer|operator)s?\b(?!{_GAP}(?:if|when|unless|until|how|which|twice|again))"
            rf"|\bwithout{_GAP}(?:telling|informing|notifying|alerting){_GAP}(?:the|your){_GAP}"
            r"(?:user|human|developer|operator)s?\b"
        ),
    ),
    _Shape(
        "request",
        ("please",),
        ("my", "@", "http", "www.", "$", "account", "iban", "card", "payee", "id"),
        re.compile(rf"{_SENTENCE}please{_GAP}{_ACT}\b[^\n]{{0,160}}?{_WHERE}"),
    ),
    _Shape(
        "request",
        ("send", "email", "forward", "share", "transfer"),
        ("@",),
        re.compile(
            rf"\b(?:send|email|forward|share|transfer){_GAP}(?:it|them|this|that|these|those|all|the|my){_GAP}"
            r"[^\n]{0,60}?\bto\b[^\n]{0,40}?[\w.+-]{1,40}@[\w-]{1,40}\.\w"
            rf"|\b(?:send|email|forward|share|transfer){_GAP}(?:it|them|this|that|these|those|all){_GAP}to{_GAP}"
            r"[\w.+-]{1,40}@[\w-]{1,40}\.\w"
        ),
    ),
)

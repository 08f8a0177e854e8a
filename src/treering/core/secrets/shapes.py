"""Secrets recognized by their shape: the formats of keys and tokens of known services.

The formats (prefix, alphabet and length) are documented by the services and collected in the rules of gitleaks
(https://github.com/gitleaks/gitleaks, MIT) and detect-secrets (https://github.com/Yelp/detect-secrets, Apache-2.0),
against which this table was checked.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from re import ASCII

_MIN_DISTINCT = 6
"""Distinct characters of a chosen password."""
_SPECIAL = re.compile(r"[!@%^&*#$~+]")
"""Characters of passwords that names in code do not contain."""
_TAIL = 16
_MIN_DISTINCT_TAIL = 4
_MIXED_CASE_ENTROPY = 4.0
"""Bits per character: names in camel case have less, random letters more."""
_LONG_WORDS = 3.4
_LONGER_WORDS = 4.0
"""Mean length of the runs of letters or digits in a name with and without upper case; random text has shorter runs."""
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_HEX = re.compile(r"[0-9a-fA-F\-]{20,}+")
_PARTS = re.compile(r"[A-Z]?[a-z]++|[A-Z]++|[0-9]++|[^A-Za-z0-9]")
_NAME = re.compile(r"[$@#./~_\-]{0,3}[A-Za-z]+\d{0,4}(?:[_\-./: ]{1,2}(?:[A-Za-z]+\d{0,4}|\d{1,4}))*+[_\-./:]?")
_WORDS_AND_NUMBERS = re.compile(r"(?:[A-Za-z]++|[0-9]++)(?:[_\-./]+(?:[A-Za-z]++|[0-9]++))*+")
_ADDRESS = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://|(?:\.{0,2}|~)/[\w.]|data:|sha\d{1,3}[\-:]|urn:|arn:|[\w.+\-]{1,64}@[\w\-]{1,64}\."
)
_PLACEHOLDER = re.compile(
    r"x{3,}|\*{3,}|\.{3,}|0{6,}|1234567|abcdef|example|placeholder|change|dummy|sample|fake|redact|replace|insert"
    r"|your|test|todo|none|null|undefined|environ|getenv|process\.env|secrets\.|vault|\$\{|\$\(|\{\{|%\(|<|>|\{",
    re.IGNORECASE,
)
# Without the short words of `_PLACEHOLDER`, which also occur in random text.
_FILLED = re.compile(
    r"[xX]{4,}|\*{3,}|\.{3,}|0{6,}|1234567|abcdef|[<>{}]|(?i:example|placeholder|changeme|dummy|sample|redact|replace|your[_\-])"
)
_TERM = re.compile(
    r"(?<![a-z])(?:sha|md|base|utf|aes|pbkdf|rsa|iso|argon|oauth|http|ipv|rfc|pkcs|tls|ntlmv?)[\-_]?\d"
    r"|\d[\-_]?(?:bits?|bytes?|chars?|characters?|digits?|days?|times?)(?![a-z])"
    r"|(?:encoded|hashed|encrypted|derived|based|compatible|only|long|protected)\Z",
    re.IGNORECASE,
)
"""Terms with digits that describe a password, such as `SHA256-hashed`."""
_PHRASE = re.compile(r"(?=.*\d\d)[a-z0-9]+(?:[^a-z0-9][a-z0-9]+)+")
_JOINS = frozenset("_-")
ESCAPE = r"\\[nrt]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}"
"""Escapes of characters in strings, JSON and URLs; the escaped character is part of no key."""
_MAX_ESCAPE_CHARS = 6


def is_random(value: str) -> bool:
    """Return whether a literal looks random, rather than like a name, a word, a number or a placeholder."""
    if not _DIGIT.search(value) or not _LETTER.search(value) or is_placeholder(value) or _is_named(value):
        return False
    most = 3.0 if _HEX.fullmatch(value) else 3.5
    return entropy(value) >= min(most, 0.85 * math.log2(len(value)))


def is_chosen(value: str) -> bool:
    """Return whether a value looks like a password that a person chose: words and digits mixed, but not a name."""
    if (
        not _DIGIT.search(value)
        or not _LETTER.search(value)
        or is_placeholder(value)
        or len(set(value)) < _MIN_DISTINCT
    ):
        return False
    if _ADDRESS.match(value) or _NAME.fullmatch(value) or _WORDS_AND_NUMBERS.fullmatch(value):
        return False
    return bool(_SPECIAL.search(value)) or not _is_named(value)


def is_stated(value: str) -> bool:
    """Return whether a value that a sentence calls a password looks like one: letters with digits or inner signs.

    It may consist of words, such as `Wombat-Quartz-5521`.
    """
    if len(set(value)) < _MIN_DISTINCT or _FILLED.search(value) or _ADDRESS.match(value) or _TERM.search(value):
        return False
    if not _LETTER.search(value):
        return False
    if value.lower() == value:
        return bool(_PHRASE.fullmatch(value))
    return bool(_DIGIT.search(value)) or (value.upper() != value and bool(_SPECIAL.search(value[:-1])))


def is_drawn(token: str) -> bool:
    """Return whether a token-shaped text looks random. It may consist of letters alone, in both cases."""
    if _FILLED.search(token):
        return False
    if _DIGIT.search(token):
        return not _is_named(token) and entropy(token) >= min(3.5, 0.85 * math.log2(len(token)))
    return token.lower() != token and token.upper() != token and entropy(token) >= _MIXED_CASE_ENTROPY


def is_placeholder(value: str) -> bool:
    """Return whether a literal is a placeholder for another value."""
    return bool(_PLACEHOLDER.search(value))


def is_filler(token: str) -> bool:
    """Return whether a token repeats a few characters, such as `xxxx`, after its prefix.

    A run that ends with such characters is not a key, either.
    """
    return len(set(token[min(_TAIL, max(0, len(token) - _TAIL)) :])) < _MIN_DISTINCT_TAIL


def entropy(value: str) -> float:
    """Return the Shannon entropy of the characters of `value`, in bits per character."""
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


def _is_named(value: str) -> bool:
    """Return whether a literal consists of words: a name, a path, an address, a call."""
    if _ADDRESS.match(value) or _NAME.fullmatch(value):
        return True
    parts = _PARTS.findall(value)
    letters = sum(map(str.isalpha, value))
    least = _LONG_WORDS if value.lower() != value else _LONGER_WORDS
    return 2 * letters >= len(value) and len(value) >= least * len(parts)


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of secrets. The secret is group 1 if there is one, else the whole match.

    `pattern` is tried at each of `starts` that begins a word. It is bounded or possessive, and a match ends before
    another start could begin a word, so that no text is read repeatedly.

    If `starts` only begin keys, the pattern requires little of the rest, and examples count as keys, because redacting
    too much is harmless. With `random`, the start is ambiguous, so the secret must also look random.
    """

    kind: str
    starts: tuple[str, ...]
    pattern: str
    random: bool = False

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Return start and end of each secret of this shape."""
        pattern = _compiled(self.pattern)
        for start in self.starts:
            at = text.find(start)
            while at >= 0:
                if (match := self._match(pattern, text, at)) is not None:
                    yield match.span(pattern.groups)
                at = text.find(start, match.end() if match else at + len(start))

    def _match(self, pattern: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
        match = pattern.match(text, at) if begins_word(text, at) else None
        if match and self.random and (is_filler(match[0]) or not is_drawn(match[0])):
            return None
        return match


@dataclass(frozen=True, slots=True)
class Inner:
    """A shape with a literal inside: `after` begins with the literal, `before` is matched against the text before it.

    `before` matches at most `most` characters, up to the literal.
    """

    kind: str
    literal: str
    most: int
    before: str
    after: str

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Return start and end of each secret of this shape."""
        before, after = _compiled(self.before), _compiled(self.after)
        end = after.search(text)
        while end:
            start = before.search(text, max(0, end.start() - self.most - 1), end.start())
            if start and not is_filler(text[start.start() : end.end()]):
                yield start.start(), end.end()
            end = after.search(text, end.start() + len(self.literal))


def begins_word(text: str, at: int) -> bool:
    """Return whether a word begins at a place; an escape sequence before it does not belong to the word."""
    before = text[at - 1 : at]
    inside = before.isascii() and (before.isalnum() or before in _JOINS)
    return (
        not before or not inside or bool(_compiled(rf"(?:{ESCAPE})\Z").search(text, max(0, at - _MAX_ESCAPE_CHARS), at))
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern on first use, because most processes need few of them."""
    return re.compile(pattern, ASCII)


def _shape(kind: str, starts: str, pattern: str, *, random: bool = False) -> Shape:
    return Shape(kind, tuple(starts.split()), pattern, random)


_END = r"(?![\w\-])"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_CLOUDS = (
    _shape("aws_access_key", "AKIA ASIA ABIA ACCA", r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(
        "aws_bedrock_key", "ABSK bedrock-api-key-", r"(?:ABSK[A-Za-z0-9+/]{100,280}|bedrock-api-key-[\w+/]{40,}+)=*+"
    ),
    _shape("google_api_key", "AIza", r"AIza[\w\-]{35,}+"),
    _shape("google_oauth_secret", "GOCSPX-", r"GOCSPX-[\w\-]{12,}+"),
    _shape("google_access_token", "ya29.", r"ya29\.[\w\-]{20,}+"),
    _shape("google_api_key", "AQ.Ab", r"AQ\.Ab[\w\-]{38,}+"),
    _shape("azure_key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{60,90}={1,2})"),
    _shape("azure_key", "SharedAccessKey= SharedSecret=", r"Shared(?:AccessKey|Secret)=([A-Za-z0-9+/]{40,90}={1,2})"),
    _shape("azure_sas", "sig=", r"sig=([A-Za-z0-9%/+]{40,120}(?:%3[Dd]|=))"),
    _shape("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[\w\-]{12,}+"),
    _shape("heroku_key", "HRKU-", r"HRKU-[\w\-]{20,}+"),
    _shape("url_signature", "X-Amz-Signature=", r"X-Amz-Signature=([0-9a-f]{64})(?![0-9a-f])"),
    _shape("url_signature", "X-Goog-Signature=", r"X-Goog-Signature=([0-9a-f]{128,1024})(?![0-9a-f])"),
    _shape("url_signature", "X-Amz-Security-Token=", r"X-Amz-Security-Token=([A-Za-z0-9%/+]{80,4000}=*)"),
    _shape(
        "fly_token", "fo1_ fm1a_ fm1r_ fm2_", rf"(?:fo1_[\w\-]{{43}}{_END}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{{100,}}+=*+)"
    ),
    _shape("vercel_token", "vcp_ vci_ vca_ vcr_ vck_", r"vc[piark]_[A-Za-z0-9]{24,}+"),
    _shape("vercel_token", "vercel_blob_rw_", r"vercel_blob_rw_[\w\-]{12,}+"),
    _shape("netlify_token", "nfp_ nfc_ nfo_ nfu_", r"nf[pcou]_[A-Za-z0-9]{36,}+"),
    _shape("cloudflare_key", "v1.0-", rf"v1\.0-[0-9a-f]{{24}}-[0-9a-f]{{146}}{_END}"),
    _shape("alibaba_key", "LTAI", r"LTAI[A-Za-z0-9]{12,}+"),
)

_CODE = (
    _shape("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[\w\-]{12,}+"),
    _shape("github_token", "github_pat_", r"github_pat_[\w\-]{12,}+"),
    _shape(
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glcbt- gloas- glagent- glsoat- glft- glffct- glimt- glrtr- glwt-",
        r"gl(?:pat|dt|rtr?|ptt|cbt|oas|agent|soat|ft|ffct|imt|wt)-[\w\-]{12,}+(?:\.[0-9a-z]{9}(?!\w))?",
    ),
    _shape("gitlab_token", "GR1348941", r"GR1348941[\w\-]{12,}+"),
    _shape("atlassian_token", "ATATT3 ATCTT3", r"AT[AC]TT3[\w\-]{20,}+=?[0-9A-F]{0,8}"),
    _shape("atlassian_token", "ATBB", r"ATBB[A-Za-z0-9_=]{24,}+"),
    _shape("treering_key", "trk_", r"trk_[0-9a-f]{16}_[\w\-]{12,}+"),
    _shape("npm_token", "npm_", r"npm_[A-Za-z0-9]{36,}+"),
    _shape("pypi_token", "pypi-A", r"pypi-A[\w\-]{40,}+"),
    _shape("rubygems_key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _shape("crates_token", "cio", rf"cio[A-Za-z0-9]{{32}}{_END}", random=True),
    _shape("nuget_key", "oy2", rf"oy2[a-z0-9]{{43}}{_END}"),
    _shape("clojars_token", "CLOJARS_", rf"CLOJARS_[a-z0-9]{{60}}{_END}"),
    _shape("docker_token", "dckr_pat_ dckr_oat_", r"dckr_[po]at_[\w\-]{12,}+"),
    _shape("jfrog_token", "AKCp", r"AKCp[A-Za-z0-9]{60,}+"),
    _shape("postman_key", "PMAK-", r"PMAK-[\w\-]{12,}+"),
    _shape("sonar_token", "squ_ sqp_ sqa_", rf"sq[upa]_[0-9a-f]{{40}}{_END}"),
    _shape("sourcegraph_token", "sgp_", rf"sgp_(?:(?:[0-9a-f]{{16}}|local)_)?[0-9a-f]{{40}}{_END}"),
)

_CHAT = (
    _shape("slack_token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-", r"(?:xox[abeoprs]|xapp)-[\w\-]{12,}+"),
    _shape("slack_token", "xoxe.xox", r"xoxe\.xox[bp]-[\w\-]{12,}+"),
    _shape(
        "slack_webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Z0-9]{6,20}/[A-Z0-9]{6,20}/[A-Za-z0-9/]{16,64})",
    ),
    _shape(
        "discord_webhook",
        "discord.com/ discordapp.com/",
        r"discord(?:app)?\.com/api/webhooks/(\d{15,21}/[\w\-]{50,80})",
    ),
    _shape("teams_webhook", "webhookb2/", rf"webhookb2/({_UUID}@{_UUID}/IncomingWebhook/[0-9a-f]{{32}}/{_UUID})"),
    _shape("twilio_key", "SK", rf"SK[0-9a-f]{{32}}{_END}"),
    _shape("sendgrid_key", "SG.", rf"SG\.[\w\-]{{16,32}}\.[\w\-]{{32,64}}{_END}"),
    _shape("mailgun_key", "key- pubkey-", rf"(?:pub)?key-[0-9a-f]{{32}}{_END}"),
    _shape("mandrill_key", "md-", rf"md-[A-Za-z0-9_\-]{{22}}{_END}", random=True),
    _shape("brevo_key", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[\w\-]{12,}+"),
)

_MONEY = (
    _shape("stripe_key", "sk_ rk_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{12,}+"),
    _shape("stripe_key", "whsec_", r"whsec_[A-Za-z0-9+/]{24,}+"),
    _shape("square_token", "sq0atp- sq0csp-", r"sq0(?:atp|csp)-[\w\-]{12,}+"),
    _shape("square_token", "EAAA", rf"EAAA[\w\-]{{56,62}}{_END}", random=True),
    _shape(
        "braintree_token",
        "access_token$",
        rf"access_token\$(?:production|sandbox)\$[0-9a-z]{{16}}\$[0-9a-f]{{32}}{_END}",
    ),
    _shape("shopify_token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"shp(?:at|ca|pa|ss|tka)_[\w\-]{12,}+"),
    _shape("shippo_token", "shippo_", r"shippo_(?:live|test)_[A-Za-z0-9]{20,}+"),
    _shape("plaid_token", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
)

_MODELS = (
    _shape("anthropic_key", "sk-ant-", r"sk-ant-[\w\-]{12,}+"),
    _shape("openrouter_key", "sk-or-v1-", r"sk-or-v1-[\w\-]{12,}+"),
    _shape("openrouter_key", "sk-or-", r"sk-or-[\w\-]{16,}+", random=True),
    _shape("langfuse_key", "sk-lf-", r"sk-lf-[\w\-]{12,}+"),
    # Hyphenated names (CSS classes) also start with `sk-`: only keys of a known kind may contain hyphens.
    _shape("openai_key", "sk-proj- sk-svcacct- sk-None-", r"sk-(?:proj|svcacct|None)-[\w\-]{12,}+"),
    _shape("openai_key", "sk-admin- sk-service-", r"sk-(?:admin|service)-[\w\-]{20,}+"),
    _shape("openai_key", "sk-", r"sk-[A-Za-z0-9]{32,}+"),
    _shape("openai_key", "sk-", r"sk-[A-Za-z0-9]{20,}+(?![\w\-])", random=True),
    _shape("openai_key", "sess-", r"sess-[A-Za-z0-9]{40,}+"),
    _shape("huggingface_token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,}+"),
    _shape("replicate_token", "r8_", r"r8_[A-Za-z0-9]{37,}+"),
    _shape("groq_key", "gsk_", r"gsk_[A-Za-z0-9]{30,}+"),
    _shape("perplexity_key", "pplx-", r"pplx-[A-Za-z0-9]{40,}+"),
    _shape("xai_key", "xai-", r"xai-[A-Za-z0-9]{40,}+"),
    _shape("nvidia_key", "nvapi-", r"nvapi-[\w\-]{12,}+"),
    _shape("cerebras_key", "csk-", r"csk-[a-z0-9]{40,}+"),
    _shape("together_key", "tgp_v1_", r"tgp_v1_[\w\-]{12,}+"),
    _shape("tavily_key", "tvly-", r"tvly-[\w\-]{12,}+"),
    _shape("pinecone_key", "pcsk_", r"pcsk_[\w\-]{12,}+"),
    _shape("jina_key", "jina_", r"jina_[0-9a-f]{32}[\w\-]{20,}+"),
    _shape("elevenlabs_key", "sk_", rf"sk_[0-9a-f]{{48}}{_END}"),
    _shape("langsmith_key", "lsv2_", r"lsv2_(?:pt|sk)_[\w\-]{12,}+"),
    _shape("langsmith_key", "ls__", rf"ls__[0-9a-f]{{32}}{_END}"),
    _shape("wandb_key", "wandb_v1_", r"wandb_v1_[\w\-]{12,}+"),
)

_DATA = (
    _shape("databricks_token", "dapi", rf"dapi[0-9a-f]{{32}}(?:-\d)?{_END}"),
    _shape("supabase_key", "sbp_", r"sbp_(?:v0_)?[A-Za-z0-9]{40,}+"),
    _shape("supabase_key", "sb_secret_", r"sb_secret_[\w\-]{20,}+"),
    _shape("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"pscale_(?:tkn|pw|oauth)_[\w=.\-]{12,}+"),
    _shape("neon_key", "napi_", rf"napi_[a-z0-9]{{64}}{_END}"),
    _shape("airtable_token", "pat", rf"pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}{_END}"),
    _shape("notion_token", "ntn_", r"ntn_[A-Za-z0-9]{40,}+"),
    _shape("notion_token", "secret_", rf"secret_[A-Za-z0-9]{{43}}{_END}"),
    _shape("contentful_token", "CFPAT-", r"CFPAT-[\w\-]{12,}+"),
    _shape("typeform_token", "tfp_", r"tfp_[\w\-]{40,60}", random=True),
    _shape("linear_key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}+"),
    _shape("asana_token", "0/1 1/1 2/1", rf"[012]/\d{{13,20}}(?:/\d{{13,20}})?:[0-9a-f]{{32}}{_END}"),
    _shape("figma_token", "figd_ figo_ figu_ figor_ figur_", r"fig(?:d|[ou]r?)_[\w\-]{20,}+"),
    _shape("facebook_token", "EAA", r"EAA[A-Za-z0-9]{80,}+", random=True),
    _shape("twitter_token", "A" * 18, rf"A{{18,30}}+(?=[A-Za-z0-9]{{0,90}}%)[A-Za-z0-9%]{{60,120}}{_END}"),
    _shape("linkedin_secret", "WPL_AP", r"WPL_AP\d\.\w{14,32}(?:\.\w{4,12}={0,2})?"),
)

_OPERATIONS = (
    _shape("sentry_token", "sntrys_ sntryu_ sntrya_", r"sntry[usa]_[A-Za-z0-9+/=_\-]{12,}+"),
    _shape("newrelic_key", "NRAK- NRII- NRJS- NRIQ- NRRA-", r"NR(?:AK|II|JS|IQ|RA)-[\w\-]{12,}+"),
    _shape("grafana_token", "glsa_", r"glsa_[\w\-]{12,}+"),
    _shape("grafana_token", "glc_ eyJrIjoi", r"(?:glc_eyJ|eyJrIjoi)[A-Za-z0-9+/]{32,400}={0,3}"),
    _shape("dynatrace_token", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    _shape("onepassword_token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/_\-]{40,}+={0,2}"),
    _shape(
        "onepassword_key",
        "A3-",
        rf"A3-[A-Z0-9]{{6}}-(?:[A-Z0-9]{{11}}|[A-Z0-9]{{6}}-[A-Z0-9]{{5}})(?:-[A-Z0-9]{{5}}){{3}}{_END}",
    ),
    _shape("vault_token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w\-]{24,}+"),
    _shape("pulumi_token", "pul-", rf"pul-[0-9a-f]{{40}}{_END}"),
    _shape("doppler_token", "dp.", r"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[\w\-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    _shape("launchdarkly_key", "sdk- api-", rf"(?:sdk|api)-{_UUID}{_END}"),
    _shape("tailscale_key", "tskey-", r"tskey-[\w\-]{20,}+"),
    _shape("age_key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-[\w\-]{20,}+"),
    _shape("jwt", "eyJ", r"eyJ[\w\-]{8,}+\.eyJ[\w\-]{8,}+\.[\w\-]{8,}+"),
)

_INNER = (
    Inner("azure_client_secret", "Q~", 4, r"(?<![\w~.\-])[\w~.]{3}\d\Z", r"Q~[\w~.\-]{31,34}(?![\w~\-])"),
    Inner("azure_devops_token", "AZDO", 76, r"(?<![\w\-])[A-Za-z0-9]{76}\Z", rf"AZDO[A-Za-z0-9]{{4}}{_END}"),
    Inner("telegram_token", ":AA", 11, r"(?<![\w\-])\d{8,11}\Z", rf":AA[\w\-]{{32,34}}{_END}"),
    Inner("mailchimp_key", "-us", 32, r"(?<![\w\-])[0-9a-f]{32}\Z", r"-us\d{1,2}(?!\w)"),
    Inner("terraform_token", ".atlasv1.", 14, r"(?<![\w.\-])[A-Za-z0-9]{14}\Z", r"\.atlasv1\.[\w\-]{60,70}"),
    Inner("newrelic_key", "NRAL", 40, r"(?<![\w\-])[0-9a-f]{32,36}(?:FFFF)?\Z", r"NRAL(?!\w)"),
    Inner("facebook_token", "|", 16, r"(?<![\w\-|])\d{15,16}\Z", r"\|[\w\-]{27}(?![\w\-|])"),
    # Base64 of the digits of an id, then a time and a code.
    Inner(
        "discord_token",
        ".",
        31,
        r"(?<![\w.\-])(?:[MNO][DTjz][A-Za-z0-9]{2}){5,7}[\w\-]{0,3}\Z",
        rf"\.[\w\-]{{6}}\.[\w\-]{{27,38}}{_END}",
    ),
)

SHAPES: tuple[Shape | Inner, ...] = (*_CLOUDS, *_CODE, *_CHAT, *_MONEY, *_MODELS, *_DATA, *_OPERATIONS, *_INNER)
"""Every known shape; if two match at one place, the first determines the kind."""

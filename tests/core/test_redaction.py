import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_formats import FORMATS, LOOK_ALIKES, keys

from treering.core.screening import screened
from treering.core.secrets.redaction import SecretFinding, redact, repeatable_secrets, shaped_secrets
from treering.core.secrets.shapes import SHAPES, Inner

# Put together at run time, so that no scanner takes this file for a leak.
BODY = "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY3zA5b"
KEY_LINES = "\n".join(["MIIEpAIBAAKCAQEA7bq0cJ2vQm5X8sWn1tRz" + "kP4d" * 7] * 4)
PEM = f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{KEY_LINES}\n-----END RSA PRIVATE {'KEY'}-----"
SECRETS = {
    "aws_access_key": "AKIA" + "IOSFODNN7EXAMPLE",
    "github_token": "ghp_" + BODY,
    "gitlab_token": "glpat-" + BODY[:20],
    "slack_token": "xoxb-" + "123456789012-" + BODY,
    "stripe_key": "sk_live_" + BODY,
    "google_api_key": "AIza" + BODY[:35],
    "openai_key": "sk-proj-" + BODY,
    "anthropic_key": "sk-ant-api03-" + BODY,
    "huggingface_token": "hf_" + BODY,
    "npm_token": "npm_" + BODY,
    "pypi_token": "pypi-AgEIcHlwaS5vcmc" + BODY,
    "jwt": f"eyJ{BODY[:20]}.eyJ{BODY}.{BODY}",
}


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items())
def test_a_token_is_replaced_by_its_kind_and_found_on_its_line(kind: str, secret: str) -> None:
    done = redact(f"first line\nsend it with {secret}\nlast line")
    assert done.text == f"first line\nsend it with [redacted:{kind}]\nlast line"
    assert done.findings == (SecretFinding(kind, 2),)


@pytest.mark.parametrize("name", FORMATS)
def test_of_twenty_keys_of_every_format_at_most_three_are_missed(name: str) -> None:
    # Some passwords drawn at random look like words; keys with a shape of their own do not.
    missed = [text for text, drawn in _KEYS[name] if not _is_gone(text, drawn)]
    assert len(missed) <= 3, missed


def test_of_all_keys_of_all_formats_one_in_a_hundred_is_missed() -> None:
    known = [key for drawn in _KEYS.values() for key in drawn]
    assert 100 * sum(not _is_gone(*key) for key in known) <= len(known)


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_only_looks_like_a_key_is_kept(name: str) -> None:
    assert redact(f"before\n{LOOK_ALIKES[name]}\nafter").text == f"before\n{LOOK_ALIKES[name]}\nafter"


def _is_gone(text: str, drawn: tuple[str, ...]) -> bool:
    kept = redact(f"before\n{text}\nafter").text
    return "[redacted:" in kept and not any(part in kept for part in drawn)


_KEYS: dict[str, list[tuple[str, tuple[str, ...]]]] = {name: [] for name in FORMATS}
for _seed in range(20):
    for _name, _text, _drawn in keys(seed=_seed):
        _KEYS[_name].append((_text, _drawn))


def test_a_key_behind_an_escaped_line_end_goes() -> None:
    assert redact('"first\\n' + SECRETS["npm_token"] + '"').text == '"first\\n[redacted:npm_token]"'


def test_a_private_key_goes_but_its_lines_are_still_counted() -> None:
    text = f"before\n{PEM}\nafter {SECRETS['npm_token']}"
    done = redact(text)
    lines = "\n" * PEM.count("\n")
    assert done.text == f"before\n[redacted:private_key]{lines}\nafter [redacted:npm_token]"
    assert [(finding.kind, finding.line) for finding in done.findings] == [("private_key", 2), ("npm_token", 8)]


def test_two_secrets_that_touch_are_two_findings() -> None:
    done = redact(f"{PEM}{SECRETS['github_token']}")
    assert [finding.kind for finding in done.findings] == ["private_key", "github_token"]
    assert done.text.endswith("[redacted:github_token]")


def test_a_private_key_cut_off_before_its_end_goes_too() -> None:
    done = redact(PEM.rsplit("\n", 2)[0] + "\n\nOrdinary words follow.")
    assert "MIIE" not in done.text
    assert done.text.endswith("Ordinary words follow.")


def test_a_private_key_in_a_string_literal_goes_too() -> None:
    literal = 'KEY = "' + PEM.replace("\n", "\\n") + '"'
    assert redact(literal).text == 'KEY = "[redacted:private_key]"'


def test_code_that_only_mentions_key_markers_is_kept() -> None:
    begin, end = PEM.split("\n")[0], PEM.split("\n")[-1]
    code = f'if text.startswith("{begin}"):\n    return parse(text)\nmarker = "{end}"\n'
    assert redact(code).text == code


def test_only_the_password_of_a_url_goes() -> None:
    done = redact("db = postgresql://app:Tr0ub4dor@db.internal:5432/orders")
    assert done.text == "db = postgresql://app:[redacted:url_password]@db.internal:5432/orders"


@pytest.mark.parametrize(
    "line",
    [
        'password = "q7Zr-93kLx!vB2"',
        "API_KEY: 'f3a9c17e5b2d48806a1c'",
        '"client_secret": "Gx7pQ29sLmN4vT8w"',
        "export SERVICE_TOKEN=9fK2mQ7xT4bW8cZ1nR5v",
        'token := "9fK2mQ7xT4bW8cZ1nR5v"',
        "const authKey = `9fK2mQ7xT4bW8cZ1nR5v`",
        'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
    ],
)
def test_a_random_looking_value_given_to_a_secret_name_goes(line: str) -> None:
    done = redact(line)
    assert "[redacted:" in done.text
    assert len(done.findings) == 1


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("password=hunter2hunter2", "password="),
        ("db password: hunter2hunter2", "db password: "),
        ("The login is ada, password=hunter2hunter2 until Friday.", "The login is ada, password= until Friday."),
        ("My password is b4nan4s-4-all.", "My password is ."),
        ("My password for the bank is Tr0ub4dor&3xyz", "My password for the bank is "),
        ("I changed my wifi password to Tr0ub4dor&3xyz.", "I changed my wifi password to ."),
        ("My bank password was changed to Tr0ub4dor&3xyz", "My bank password was changed to "),
        ("The password I use for mail is now 'Tr0ub4dor&3xyz'", "The password I use for mail is now ''"),
        ("password of my mail account: Tr0ub4dor&3xyz", "password of my mail account: "),
        ("passwd: Tr0ub4dor&3", "passwd: "),
        ("PASSWORD=Summer2024!", "PASSWORD="),
        ("PGPASSWORD=l0ngh0rn77 psql", "PGPASSWORD= psql"),
        ('{"password": "hunter2hunter2"}', '{"password": ""}'),
        ("config['password'] = 'hunter2hunter2'", "config['password'] = ''"),
        ("https://x.org/?password=hunter2hunter2&next=/home", "https://x.org/?password=&next=/home"),
        ("mysql --password hunter2hunter2", "mysql --password "),
        ("password：hunter2hunter2", "password："),
    ],
)
def test_password_that_a_person_chose_goes(line: str, left: str) -> None:
    assert redact(line).text.replace("[redacted:assigned_secret]", "") == left


@pytest.mark.parametrize(
    "line",
    [
        "password = user_password2",
        "def connect(user=user1, password=password1):",
        "password: str = Field(min_length=8)",
        "password=self.password2",
        "password = get_password(1)",
        "password=sha256digest",
        "password = base64.b64decode(x)",
        "password: *anchor2",
        "password=$DB_PASSWORD2",
        "password is case2sensitive",
        "the password is 12-characters-long",
        "the password for the archive is 12-characters-long",
        "the password for user1 is stored in /etc/app2/config3.yml",
        "password hashing was changed to argon2id.v19",
        "password: 2026-05-12",
        "if password == other2password3:",
        "pwd=/home/ada2/project1",
        "cpwd: node12modules34",
        "password = make_password('test1234')",
    ],
)
def test_names_and_calls_behind_a_password_are_kept(line: str) -> None:
    assert redact(line).text == line


@pytest.mark.parametrize(
    "line",
    [
        'password = "changeme"',
        'password = "xxxxxxxxxxxxxxxx"',
        'api_key = "<your-api-key-1234>"',
        'secret = "${SECRET_KEY_2024}"',
        'token = os.environ["API_TOKEN_V2_2024"]',
        'token = "tokenizer_config_v2"',
        'password: "{{ vault_password_9f8a }}"',
        "token = self.tokens[position + 1]",
        "secret_key = DEFAULT_SECRET_KEY_2",
        "https://user:password@example.org/",
        "https://localhost:8080/path?mail=a@b.c",
        "postgres://$USER:$PASSWORD@host/db",
        "the class sk-toggleable__label-arrow-and-more is a style",
        "ghp_ is what such tokens start with; AKIA is another",
        "revision: 1f0c2b7e9d8a4536271809fabc0de1f2a3b4c5d6",
    ],
)
def test_placeholders_names_and_ordinary_code_are_kept(line: str) -> None:
    assert redact(line).text == line


def test_a_token_inside_an_assignment_is_one_finding() -> None:
    done = redact(f'github_token = "{SECRETS["github_token"]}"')
    assert done.text == 'github_token = "[redacted:github_token]"'
    assert len(done.findings) == 1


def test_a_value_that_begins_before_the_token_in_it_goes_whole() -> None:
    done = redact(f'password = "x9Kq2Lw7/{SECRETS["github_token"]}"')
    assert done.text == 'password = "[redacted:github_token]"'
    assert len(done.findings) == 1


def test_a_value_that_goes_on_behind_the_token_in_it_goes_whole() -> None:
    done = redact(f'password = "{SECRETS["github_token"]}!q7Zr"')
    assert done.text == 'password = "[redacted:github_token]"'
    assert done.findings == (SecretFinding("github_token", 1),)


def test_findings_are_in_the_order_of_their_lines_and_on_a_line_of_their_kinds() -> None:
    slack, aws = SECRETS["slack_token"], SECRETS["aws_access_key"]
    done = redact(f'key {slack} {aws}\npassword = "q7Zr-93kLx!vB2"\n{slack}')
    found = [(finding.line, finding.kind) for finding in done.findings]
    assert found == [(1, "aws_access_key"), (1, "slack_token"), (2, "assigned_secret"), (3, "slack_token")]


PARTS = st.sampled_from(
    [
        *SECRETS.values(),
        *(PEM, PEM[:90], PEM[-40:], "://", "user:", "@host", "password = ", '"', "'", "\n", "\r\n", "-", "_", ".", " "),
        *("[redacted:", "]", "[redacted:jwt]", "secret=", BODY, "İ", "-----BEGIN PRIVATE KEY-----"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS | st.text(string.printable + "é漢İ", max_size=12), max_size=12).map("".join))
def test_redacting_twice_is_redacting_once_and_lines_keep_their_number(text: str) -> None:
    once = redact(text)
    assert redact(once.text).text == once.text
    assert once.text.count("\n") == text.count("\n")
    assert all(1 <= finding.line <= text.count("\n") + 1 for finding in once.findings)


WORDS = st.sampled_from(["machine ", "default ", "login ", "password ", "ada ", "q7Zr93kLx", "curl -u ", "a:", ""])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(PARTS | WORDS, max_size=6).map("".join), max_size=5))
def test_texts_looked_through_together_are_redacted_as_each_alone(texts: list[str]) -> None:
    alone = [redact(text) for text in texts]
    together = screened({"texts": texts}, place="note")
    assert together.value == {"texts": [one.text for one in alone]}
    assert [secret.kind for secret in together.secrets] == [finding.kind for one in alone for finding in one.findings]


def test_a_text_that_another_seems_to_begin_is_redacted_as_alone() -> None:
    begun = "default login ada password"
    texts = [begun, "xxxxdefault login ada password q7Zr93kLx1b", begun]
    assert screened(texts).value == [redact(text).text for text in texts] != texts


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "unit",
    [
        "-eyJaaaaaaaa",
        "eyJ.",
        "password",
        "password = '",
        "password=a1",
        "password is a1b2",
        "password for a to ",
        "password for a b c d e f g: a1",
        "://a:",
        "-----BEGIN PRIVATE KEY-----\n",
        "ghp_",
        "sk-",
        "xoxb-",
        "=sntrys_eyJ",
        "/ops_eyJ",
        "fm2_",
        "+fm2_AAAA/",
        "A",
        "eyJaaaaaaaa.",
        "Q~",
        "111Q~",
        ":AA",
        "12345678:AA",
        "-us",
        ".atlasv1.",
        "NTA5.",
        "|",
        "123456789012345|",
        "pat",
        "SK",
        "key-",
        "sig=",
        "curl -u a:",
        "bearer ",
        "Bearer aaaaaaaaaaaaaaaaaaaa1",
        "authorization: basic YWFh",
        "machine a login b password ",
        ":_auth=",
        "--token a1",
        "&token=a1",
        "secret_access_key ",
        "LS0tLS1CRUdJTiBSU0EgUFJJ",
        "PuTTY-User-Key-File-\nPrivate-Lines: 1\n",
        "aB3.",
        "a_",
        "token=a-a",
    ],
)
def test_no_repetition_makes_it_slow_enough_to_matter(unit: str) -> None:
    # A quadratic pattern would run for hours on this, so finishing is the assertion.
    text = unit * (400_000 // len(unit)) + "a" * 16
    assert re.sub(r"\[redacted:\w+\]", "", redact(text).text) is not None


def test_a_word_that_only_begins_like_a_secret_name_names_no_secret():
    checksum = 'TOKENIZER: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"'
    assert redact(checksum).text == checksum


_LONG_S, _KELVIN = "\u017f", "\u212a"
"""The letters outside ASCII that match `s` and `k` where case is ignored."""


def test_a_login_that_is_no_base64_is_kept():
    header = f"Authorization: Basic {_LONG_S * 4}{_KELVIN * 4}dXNlcjpwYXNz"
    assert redact(header).text == header


EDGES = st.sampled_from(
    ["", " ", "\n", "a", "_", "-", ".", "=", "/", "\\", "\\n", "\\t", "x\\n", "é", "漢", '"', ":", "key-", "sk-"]
)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("shape", dict.fromkeys(SHAPES), ids=lambda shape: shape.kind)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_search_finds_what_looking_for_every_shape_everywhere_finds(shape, data):
    parts = [shape.before.removesuffix(r"\Z"), shape.after] if isinstance(shape, Inner) else [shape.pattern]
    drawn = "".join(data.draw(st.from_regex(re.compile(part, re.ASCII), fullmatch=True)) for part in parts)
    text = f"words {data.draw(EDGES)}{drawn}{data.draw(EDGES)} and more"
    found = {(start, end, known.kind) for known in SHAPES for start, end in known.found_in(text)}
    assert set(shaped_secrets(text)) == found


CERTAIN = (
    "AKIA GOCSPX- dop_v1_ ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- GR1348941 ATATT3 ATBB npm_ pypi-A "
    "dckr_pat_ PMAK- xoxb- xoxp- xapp-1- xkeysib- sk_live_ rk_live_ sk_test_ whsec_ sq0csp- shpat_ shippo_live_ "
    "sk- sk-ant- sk-ant-api03- sk-or-v1- sk-lf- sk-proj- sk-svcacct- sk-admin- sess- hf_ r8_ gsk_ pplx- xai- nvapi- "
    "csk- tgp_v1_ tvly- pcsk_ lsv2_pt_ wandb_v1_ sbp_ sb_secret_ pscale_tkn_ ntn_ CFPAT- lin_api_ figd_ sntryu_ NRAK- "
    "glsa_ hvs. tskey- AGE-SECRET-KEY- LTAI AIza vercel_blob_rw_ nfp_ HRKU-"
).split()
"""What only keys begin with."""

LETTERS = string.ascii_lowercase + string.digits + string.ascii_lowercase
ORDINARY = {"letters in order": LETTERS, "one letter": "x" * 62, "a word": "example" * 9}


@pytest.mark.parametrize("rest", ORDINARY.values(), ids=ORDINARY)
@pytest.mark.parametrize("prefix", CERTAIN)
def test_a_key_that_begins_as_only_keys_do_goes_whatever_follows(prefix, rest):
    body = rest.upper()[:16] if prefix == "AKIA" else rest
    done = redact(f'before\nkey = "{prefix}{body}"\nafter')
    assert re.fullmatch(r'before\nkey = "\[redacted:\w+\]"\nafter', done.text)


@pytest.mark.parametrize("prefix", ["ghp_", "sk-proj-", "glpat-", "xoxb-", "npm_", "hf_", "AIza", "sk-"])
@pytest.mark.parametrize("tail", ["-" * 30, "_" * 30, "x" * 30])
def test_what_is_joined_to_the_end_of_a_key_keeps_nothing_of_it(prefix, tail):
    assert BODY not in redact(f"key {prefix}{BODY}{tail} ends").text


@pytest.mark.parametrize("before", ["token%3D", "a%20", "%22", r"\u003d", r"\u0022", r"\n"])
def test_a_key_behind_an_escaped_character_goes(before):
    for secret in SECRETS.values():
        assert secret not in redact(f"?{before}{secret}").text


@pytest.mark.parametrize(
    "line",
    [
        "The test account password is {}, please test with it.",
        "I logged in with password {} and the cookie is dropped.",
        "Log in with user ada and password {}.",
    ],
)
@pytest.mark.parametrize(
    "secret", ["Wombat-Quartz-5521", "Tr0ub4dor-Zebra-77", "plum-tractor-88", "Correct$Horse!Battery"]
)
def test_a_password_made_of_words_goes_where_a_sentence_names_it(line: str, secret: str) -> None:
    assert redact(line.format(secret)).text == line.format("[redacted:assigned_secret]")


def test_a_password_that_another_text_names_goes() -> None:
    repeated = repeatable_secrets(["The password is Wombat-Quartz-5521."])
    text = "I tested with Wombat-Quartz-5521 as usual, not with Wombat-Quartz-55210."
    assert redact(text, repeated).text == text.replace("Wombat-Quartz-5521 ", "[redacted:assigned_secret] ")


@pytest.mark.parametrize(
    "line",
    [
        "AWS secret key: {}",
        "The secret access key is {}.",
        "Our API key for the bank is {} and works.",
        "the token for the deploy bot: `{}`",
        "with id 7 and secret {}",
    ],
)
def test_a_key_goes_where_a_sentence_names_it(line: str) -> None:
    key = f"wJalrXUtn{BODY[:24]}/bPx9"
    assert redact(line.format(key)).text == line.format("[redacted:assigned_secret]")


@pytest.mark.parametrize(
    "line",
    [
        "The secret of success: patience in 12 steps",
        "secret key rotation happens every 90 days",
        "API key: see 1Password",
        "token 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
        "access token: docs/reference/how-to-get-tokens-2",
        "the access_key AccessKeyOfTheSecondCustomer2",
    ],
)
def test_sentences_about_keys_are_kept(line: str) -> None:
    assert redact(line).text == line

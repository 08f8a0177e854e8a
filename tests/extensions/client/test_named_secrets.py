"""Secrets of tool runs and memories: values under telling names are redacted, ordinary texts are stored unchanged."""

import json

import client_parts
import pytest

from treering.extensions.client.hooks.execution_history import capped, run_of

MARK = "[redacted:assigned_secret]"

SECRETS = {
    "text": ("payload='password=summerhouse'", "payload='password=MARK'"),
    "form": ("user=bob&password=FormSecret4545&x=1", "user=bob&password=MARK&x=1"),
    "url": ("https://x.org/a?api_key=QuerySecret9900&b=2", "https://x.org/a?api_key=MARK&b=2"),
    "yaml": ("user: bob\npassword: YamlSecret88\nport: 3", "user: bob\npassword: MARK\nport: 3"),
    "indented yaml": ("db:\n  password: summerhouse\n", "db:\n  password: MARK\n"),
    "error": ("login failed: password=ExcSecret7788", "login failed: password=MARK"),
    "environment": ("export API_TOKEN=hunter2", "export API_TOKEN=MARK"),
    "connection": ("Server=x;Password=summerhouse;Encrypt=true", "Server=x;Password=MARK;Encrypt=true"),
    "call": ("connect(user='bob', password='summer house')", "connect(user='bob', password='MARK')"),
    "typed": ("password: str = 'summerhouse'", "password: str = 'MARK'"),
    "subscript": ('config["password"] = "summerhouse"', 'config["password"] = "MARK"'),
    "escaped": ('bad body {\\"password\\": \\"hunter2\\"}', 'bad body {\\"password\\": \\"MARK\\"}'),
    "escaped quote": ("password='sum\\'mer'", "password='MARK'"),
    "part of the name": ("password=word", "password=MARK"),
    "dotted": ("password=summer.house", "password=MARK"),
    "option": ("dump --password Positional7878 db", "dump --password MARK db"),
    "option with a sign": ("dump --password=Positional7878 db", "dump --password=MARK db"),
    "option items": (["dump", "--password", "summerhouse", "db"], ["dump", "--password", "MARK", "db"]),
    "option item": (["dump", "--password=summerhouse"], ["dump", "--password=MARK"]),
    "pair": (["password", "summerhouse"], ["password", "MARK"]),
    "pairs": ([("user", "bob"), ("password", "summerhouse")], [["user", "bob"], ["password", "MARK"]]),
    "short names": (
        {"pin": "4711", "otp": 123456, "jwt": "a.b.c", "bearer": "abc", "cookie": "sid=1"},
        dict.fromkeys(("pin", "otp", "jwt", "bearer", "cookie"), "MARK"),
    ),
    "pin": ("--pin 4711", "--pin MARK"),
    "cookie": (["Cookie: sid=abc; theme=dark"], ["Cookie: MARK"]),
    "quoted cookie": ("curl -H 'Cookie: sid=abc; a=b' x.org", "curl -H 'Cookie: MARK' x.org"),
    "authorization": ("Authorization: Basic Ym9iOng=\nHost: x", "Authorization: Basic MARK\nHost: x"),
}


@pytest.mark.parametrize("form", SECRETS)
def test_tool_run_redacts_value_under_telling_name(form):
    given, expected = SECRETS[form]
    stored = capped(given)
    assert json.dumps(stored).replace(MARK, "MARK") == json.dumps(expected)
    assert capped(stored) == stored


ORDINARY = (
    "password: required",
    "password: must be set",
    "password must be at least 8 characters",
    "token: the next word",
    "401 Unauthorized: token expired",
    "authorization: bearer token required",
    "auth: none",
    "error: invalid password: wrong length",
    "The secret to success: work",
    "Forgot your password? Reset it: https://x.org/reset",
    "Traceback (most recent call last):\n  File 'a.py', line 3\n    raise KeyError('password')\nKeyError: 'password'",
    "SyntaxError: unexpected token: '}'",
    "usage: prompt_tokens: 1532, completion_tokens: 88",
    "max_tokens=4096 temperature=0.2",
    "usage: tool [--password PASSWORD] [--token TOKEN]",
    "  --password TEXT  The password of the user.",
    "psql --no-password mydb",
    "pass --password to the tool",
    "password = get_password()",
    "password = os.environ['DB_PASSWORD']",
    "token = self._tokens[0]",
    "connect(password=password, token=settings.access_token)",
    "def login(user: str, password: str) -> None:",
    "if password == other: token += 1",
    "for token in tokens: print(token)",
    "interface A {\n  password: string;\n  token?: string;\n}",
    "  password:\n    type: string\n    minLength: 8",
    "password: ${DB_PASSWORD}",
    "password=$DB_PASSWORD",
    "password: <your password>",
    "SELECT * FROM users WHERE password = %s AND token = ?",
    "cookie: the browser stores it",
    "pin=3",
    "GPIO.setup(pin=18, mode=OUT)",
    "pin: GPIO17",
    {"pin": 3, "mode": "out"},
    ["username", "password"],
)


@pytest.mark.parametrize("ordinary", ORDINARY, ids=str)
def test_tool_run_stores_ordinary_text_unchanged(ordinary):
    assert capped(ordinary) == ordinary


def test_failed_tool_run_redacts_error_text():
    content, metadata = run_of("login", {}, 0.1, ValueError("login failed: password=ExcSecret7788"), {}).memory
    assert "ExcSecret7788" not in content + str(metadata)


@pytest.mark.parametrize("text", ["Remember: password=MARK", "password: MARK", '{"password": "MARK"}'])
def test_memories_are_stored_without_named_secrets(text):
    with client_parts.blocking() as client:
        client.store(text.replace("MARK", "hunter2supersecret"), {"password": "hunter2supersecret", "topic": "wifi"})
        (memory,) = client.retrieve("")
    assert memory.content == text.replace("MARK", MARK)
    assert (memory.metadata["password"], memory.metadata["topic"]) == (MARK, "wifi")

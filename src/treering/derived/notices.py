"""What machines announce in a conversation of people: commits, branches, uploads, who joined. Nobody says it."""

import re
from collections.abc import Collection

_CHANGES = (
    r"\[[^\]\n]{1,100}\] (?:\d+ new commits?\b|new (?:branch|tag)\b|(?:the )?branch\b)|"
    r"\S{1,40} pushed \d+ (?:new )?commits?\b|"
    r"merged? (?:pull|merge) request [#!]\d+ from\b|merge (?:remote-tracking )?branch ['\"]|"
    r"[0-9a-f]{7,40}(?: \([^)\n]{0,300}\))?: "
)
_EVENTS = (
    r"(?:(?:has )?(?:joined|left) the channel|uploaded a file\b|commented on [^\n:]{1,80}['’]s file\b|"
    r"(?:set|cleared) the channel (?:topic|purpose|description)\b|(?:un)?archived the channel\b|"
    r"renamed the channel\b|pinned a message\b|added an integration\b)"
)
_NOTICE = re.compile(_CHANGES, re.IGNORECASE)
_EVENT = re.compile(rf"@?[^\n:.!?]{{0,60}}?\b{_EVENTS}", re.IGNORECASE)
_MACHINE = re.compile(
    r".*\[bot\]|.*[-_ .](?:bot|webhook|ci)|[A-Za-z]+[a-z]Bot|slackbot|dependabot|renovate|github|gitlab|bitbucket|jira|"
    r"jenkins|travis|circleci|buildkite|codecov|coveralls|sentry|pagerduty|zapier|ifttt|webhook|statuspage"
)
_LONGEST = 500
"""Characters by which a notice is known."""
_BOT = "bot"
_ASKING = frozenset({"user", "human", "you", "me", "customer", "visitor"})
"""Who speaks to a model that is called a bot."""


def is_notice(text: str) -> bool:
    """Tell whether a line announces what happened elsewhere: a commit, a build, a file, who joined."""
    begin = text.lstrip()[:_LONGEST]
    return _NOTICE.match(begin) is not None or _EVENT.match(begin) is not None


def is_machine(speaker: str, speakers: Collection[str]) -> bool:
    """Tell whether a speaker announces things to people. A bot that `speakers` ask as a model do is a model."""
    if speaker.casefold() == _BOT:
        return not any(other.casefold() in _ASKING for other in speakers)
    return _MACHINE.fullmatch(speaker if "Bot" in speaker else speaker.casefold()) is not None

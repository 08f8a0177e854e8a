"""When a recording began, as far as its file tells."""

import re
from datetime import UTC, datetime

from treering.edges.sources.loose_json import moment


def begun_at(name: str, heads: str) -> datetime | None:
    """Return the time a file's first lines or its name tell; where they tell a day only, its beginning in UTC.

    Known forms: ISO 8601, and `GMT20240501-150000` in names of recordings.
    """
    for text in (heads, name):
        if found := _COMPACT.search(text):
            return _compact(found)
        if found := _ISO.search(text):
            return moment(re.sub(r"[ _]", "T", found[0], count=1).replace(" ", ""))
    return None


_COMPACT = re.compile(r"(?<!\d)GMT(?P<day>\d{8})-(?P<time>\d{6})(?!\d)")
_ISO = re.compile(
    r"(?<![\d-])\d{4}-\d\d-\d\d(?:[T _]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?: ?Z| ?[+-]\d\d:?\d\d)?)?(?![\d-])"
)


def _compact(found: re.Match[str]) -> datetime | None:
    try:
        time = datetime.strptime(found["day"] + found["time"], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment(time.isoformat())

"""Lines of Markdown, and which of them stand in fenced code."""

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t>]*(?:[-*+] +|\d+[.)] +)?(?P<mark>`{3,}|~{3,})(?P<rest>.*)")


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line without its end, and whether it belongs to fenced code, the fences included."""
    open_mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if open_mark:
            yield line, True
            if found and found["mark"].startswith(open_mark) and not found["rest"].strip():
                open_mark = ""
        elif found and not (found["mark"].startswith("`") and "`" in found["rest"]):
            open_mark = found["mark"]
            yield line, True
        else:
            yield line, False

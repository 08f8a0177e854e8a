"""What a session that goes on, resumed or compacted, gets of the brief: what changed since, and what is over."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from treering.core.fencing import fence
from treering.system.address import file_address

GOES_ON = frozenset({"resume", "compact"})
"""Values of a client's field `source` for a session that was shown the brief before."""
_LABEL_WIDTH = 10  # as `verbs.query.brief`
_OWN = "Last"
"""The label of the last conversation, which is that of the session itself."""
_COUNT = re.compile(r" \(\d+ of \d+\)")
_CURRENT = frozenset({"active", "contested", "stale", "finalized", "open", "in_progress", "blocked"})


def line_keys(lines: Iterable[str]) -> list[str]:
    """Return a key for each line of a brief, the same wherever in its section the line is."""
    return [sha256(_COUNT.sub("", line[_LABEL_WIDTH:]).encode()).hexdigest()[:16] for line in lines]


def changes_of_brief(lines: Sequence[str], ids: Iterable[str], shown: set[str], space: Path) -> tuple[str, set[str]]:
    """Return what a session was not shown yet, fenced as data, and which ids it was shown that are over.

    `lines` and `ids`: of the brief as it is now. `shown`: the keys of the lines and the ids that the session has.
    """
    new, label = [], ""
    for line, key in zip(lines, line_keys(lines), strict=True):
        label = line[:_LABEL_WIDTH] if line[:_LABEL_WIDTH].strip() else label
        if key not in shown and label.strip() != _OWN:
            new.append(label + line[_LABEL_WIDTH:])
    over = _over(space, {one for one in shown.difference(ids) if one.startswith(("know:", "work:"))})
    if over:
        new.append(f"{'Over':<{_LABEL_WIDTH}}{', '.join(sorted(over))}")
    text = fence("\n".join(new), origin="brief")
    return f"Changed since this session was shown the brief.\n\n{text}" if new else "", over


def _over(space: Path, ids: set[str]) -> set[str]:
    """Return the ids of knowledge and work that is not current any more. Raises `TreeringError`."""
    if not ids:
        return ids
    # Imported here: it loads the whole program, and few sessions need it.
    from treering.surfaces.python.space import open_space

    with open_space(file_address(space), create=False, background=False) as opened:
        heads = opened.engine.ledger.heads(ids)
    return {one for one in ids if one not in heads or heads[one].status not in _CURRENT}

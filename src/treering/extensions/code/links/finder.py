"""The links of code that `related` and context packs show."""

from collections.abc import Collection, Sequence
from typing import get_args

from treering.extensions.code.links.callers import lines_about_callers
from treering.extensions.code.links.changed_together import changes_with
from treering.extensions.code.links.neighbours import bounded_links, code_links
from treering.extensions.code.links.starts import starts_at, starts_named
from treering.ports.passages import Reach
from treering.verbs.envelope import Call
from treering.verbs.query.code_links import CodeLinks, CodeRelation, CodeStart, Direction, LinksFound


def shown_links(
    call: Call, starts: Sequence[CodeStart], reach: Reach, relations: Collection[str], direction: Direction
) -> LinksFound:
    """Return links of some places with some relations; no relations mean all."""
    wanted = {one for one in get_args(CodeRelation) if not relations or one in relations}
    if not wanted:
        return (), 0
    links = code_links(call, starts, reach, direction=direction)
    if direction == "any" and "changes_with" in wanted:
        links += changes_with(call, [start.source for start in starts])
    return bounded_links(one for one in links if one.relation in wanted)


FINDER = CodeLinks(starts_named, starts_at, shown_links, lines_about_callers)

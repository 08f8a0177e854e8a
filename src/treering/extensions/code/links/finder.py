"""The links of code that `related` and context packs show."""

from collections.abc import Collection, Mapping, Sequence
from typing import get_args

from treering.core.objects import Object
from treering.extensions.code.links.callers import lines_about_callers
from treering.extensions.code.links.changed_together import changes_with
from treering.extensions.code.links.neighbours import bounded_links, code_links
from treering.extensions.code.links.starts import starts_at, starts_named
from treering.ports.passages import Reach
from treering.retrieval.search.retrieval import Hit
from treering.verbs.envelope import Call
from treering.verbs.query.code_links import CodeNeighbour, CodeRelation, CodeStart, Direction


class LinkFinder:
    """Finds links between places in code (`verbs.query.code_links.CodeLinks`)."""

    def starts_named(self, call: Call, text: str, reach: Reach) -> Sequence[CodeStart]:
        """Return the places that a text names, such as a path, `path::symbol`, a symbol or a module."""
        return starts_named(call, text, reach)

    def starts_at(self, call: Call, item: Object) -> Sequence[CodeStart]:
        """Return the file of code that an object is, or the files that a node is about."""
        return starts_at(call, item)

    def links(
        self,
        call: Call,
        starts: Sequence[CodeStart],
        reach: Reach,
        *,
        relations: Collection[str],
        direction: Direction,
    ) -> tuple[tuple[CodeNeighbour, ...], int]:
        """Return links of some places, and the number of those left out. `relations`: empty for all."""
        wanted = {one for one in get_args(CodeRelation) if not relations or one in relations}
        if not wanted:
            return (), 0
        links = code_links(call, starts, reach, direction=direction)
        if direction == "any" and "changes_with" in wanted:
            links += changes_with(call, [start.source for start in starts])
        return bounded_links(one for one in links if one.relation in wanted)

    def lines_about_callers(self, call: Call, hits: Sequence[Hit], reach: Reach) -> Mapping[tuple[str, str], str]:
        """Return, by object and segment of the first hits in code, a line about its callers and tests."""
        return lines_about_callers(call, hits, reach)


FINDER = LinkFinder()

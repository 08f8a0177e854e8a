"""Views of names without an object, such as people: mode `page` shows an extension's view of a name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from treering.registry import brought
from treering.verbs.envelope import Call
from treering.verbs.reading import ReadOptions


@dataclass(frozen=True, slots=True)
class NamedView:
    """The view of a name. `text` is Markdown with recalled words: data."""

    kind: str
    """Such as `person`."""
    title: str
    text: str
    ids: tuple[str, ...] = ()
    """The sources that it is read from."""
    warnings: tuple[str, ...] = ()


FindView = Callable[[Call, str, ReadOptions], NamedView | Sequence[str]]
"""Return the view of a name, or else known names like it. It sees only what the call may read."""


def view_named(call: Call, name: str, options: ReadOptions) -> NamedView | list[str]:
    """Return the view that an installed extension has of a name, or else the names like it."""
    alike: list[str] = []
    for find in brought("named_views"):
        match find(call, name, options):
            case NamedView() as view:
                return view
            case names:
                alike += names
    return alike

"""The default embedder, and how another process may embed queries with it."""

from collections.abc import Callable

from treering.ports.models import Vector

DEFAULT_EMBEDDER = "bge-small-en-v1.5"
"""The embedder of a space without settings, if an extension offers it; else the static one."""

AskElsewhere = Callable[[str, str], Vector | None]
"""Embeds a query with the model of an id in another process; `None` if that process cannot be reached."""

ask_elsewhere: AskElsewhere | None = None
"""Asked first while the model is not loaded in this process; `None` if no other process has it."""

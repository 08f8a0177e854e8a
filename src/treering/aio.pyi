from treering.surfaces.python.aio import AsyncSpace as AsyncSpace
from treering.surfaces.python.aio import open_async

open = open_async  # noqa: A001 - the name users expect

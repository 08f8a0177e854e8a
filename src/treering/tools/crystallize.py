"""The verb `crystallize`: turn successful work into reusable state, as one patch."""

from treering.tools.crystallize_activity import ACTIVITY
from treering.tools.crystallize_knowledge import KNOWLEDGE, PROMOTE, SUPERSEDE
from treering.tools.crystallize_node import NODE
from treering.tools.crystallize_source import SOURCE
from treering.tools.crystallize_work import WORK_ITEM
from treering.tools.envelope import Tool

TOOL = Tool(
    name="crystallize",
    summary="Record what was done, decided and learned, with evidence; promote, supersede, track work.",
    modes={mode.name: mode for mode in (ACTIVITY, KNOWLEDGE, WORK_ITEM, PROMOTE, SUPERSEDE, NODE, SOURCE)},
)

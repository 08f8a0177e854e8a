"""The table of all node types that come with Treering."""

from treering.memories.workflow.chunk_nodes import CHUNK_NODES
from treering.memories.workflow.compacting import COMPACTING_NODES
from treering.memories.workflow.memory_nodes import MEMORY_NODES
from treering.memories.workflow.nodes import NODES
from treering.memories.workflow.registry import NodeTypes
from treering.memories.workflow.search_nodes import SEARCH_NODES

NODE_TYPES = NodeTypes([*NODES, *MEMORY_NODES, *SEARCH_NODES, *COMPACTING_NODES, *CHUNK_NODES])
"""What a workflow is checked against where no other table is given; `with_types` gives one with more."""

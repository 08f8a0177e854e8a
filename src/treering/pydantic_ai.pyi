from treering.frameworks.pydantic_ai import TreeringMemory as TreeringMemory
from treering.frameworks.pydantic_ai import memory_toolset as memory_toolset

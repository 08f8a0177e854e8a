"""The everyday methods of a space for programs that use asyncio.

from treering.aio import open

async with open() as space:
    for hit in await space.search("retry limit"):
        print(hit)
"""

from treering.facades import lazily

__getattr__, __dir__ = lazily(__name__)

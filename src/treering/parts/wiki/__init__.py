"""The wiki of a repository, and what the agents that write one remember."""

from treering.registry import Part

PART = Part(
    name="wiki",
    commands=(
        "treering.parts.wiki.commands:add_wiki",
        "treering.parts.wiki.commands:add_mongodb",
    ),
    operations="treering.parts.wiki.operations:OPERATIONS",
    pages="treering.parts.wiki.web:PAGES",
    own_files="treering.parts.wiki.own_pages:OWN_FILES",
)

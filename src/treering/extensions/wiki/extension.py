"""Wikis made from a space and from repositories."""

from treering.registry import Extension

EXTENSION = Extension(
    "wiki",
    needs=("client", "code"),
    commands=(
        "treering.extensions.wiki.commands:add_wiki",
        "treering.extensions.wiki.mongodb_commands:add_mongodb",
    ),
    help="treering.extensions.wiki.commands:HELP",
    operations="treering.extensions.wiki.operations:OPERATIONS",
    pages="treering.extensions.wiki.web:PAGES",
    own_files="treering.extensions.wiki.own_pages:OWN_FILES",
)

"""The API reference: all public definitions by module, most important modules first."""

from treering.core.counting import counted_things
from treering.extensions.wiki.repository.packages import CodePart, part_title
from treering.extensions.wiki.rules.markdown import code, table
from treering.extensions.wiki.rules.module_page import entry_row
from treering.extensions.wiki.rules.page_body import PageBody

MAX_ROWS = 600
"""In all tables together; a longer page is not readable."""
MAX_ROWS_PER_FILE = 40


def write_reference(body: PageBody) -> None:
    """Write the API reference."""
    room, omitted = MAX_ROWS, 0
    for part in body.facts.ranked_parts:
        for file in body.facts.files_of(part):
            top = [entry for entry in file.public if not entry.owner]
            if top and room <= 0:
                omitted += 1
            if not top or room <= 0:
                continue
            entries = top[: min(MAX_ROWS_PER_FILE, room)]
            room -= len(entries)
            rows = [(*entry_row(body, entry), entry.kind) for entry in entries]
            body.add(f"## {_heading(body, part, file.path)}", table(("Name", "Description", "Kind"), rows))
            if len(top) > len(entries):
                body.add(f"{counted_things(len(top) - len(entries), 'more definition')} in {body.file(file)}.")
    if omitted:
        body.add(f"{counted_things(omitted, 'less central file')} left out here; see the pages of the modules.")


def _heading(body: PageBody, part: CodePart, path: str) -> str:
    if len(part.files) > 1 and not part.is_package:
        title = path
    else:
        title = part.title if len(part.files) == 1 else part_title(body.facts.files, path)
    return body.to_page(body.paths.parts[part.key], code(title))

"""The log of a server: on standard error, what a terminal would obey written out."""

import logging

from treering.core.characters import visible


class VisibleFormatter(logging.Formatter):
    """Formats a record, its traceback included, without characters that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return visible(super().format(record))


def log_warnings() -> None:
    """Log warnings and worse to standard error. Where the program has set up logging already, nothing changes."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])

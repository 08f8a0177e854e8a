"""Logging to standard error, with terminal control characters escaped."""

import logging

from treering.core.characters import visible


class VisibleFormatter(logging.Formatter):
    """Formats a record, its traceback included, without characters that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return visible(super().format(record))


def log_warnings() -> None:
    """Log warnings and errors to standard error. Does nothing if the program has already configured logging."""
    log_to_stderr(VisibleFormatter(logging.BASIC_FORMAT))


def log_to_stderr(formatter: logging.Formatter) -> None:
    """Log warnings and errors in a format to standard error. Does nothing if logging is already configured."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])

"""Log to standard error, always in English: plain lines, or JSON objects with --json."""

import json
import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

from inturn.cli.output import printable

log: Final = logging.getLogger("inturn")
FIELDS_ATTRIBUTE: Final = "facts"


class PlainFormatter(logging.Formatter):
    """Format a record as its time, level and one line of text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Join a message of several lines into one."""
        lines = super().format(record).splitlines()
        return printable(" | ".join(line.strip() for line in lines if line.strip()))


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object on one line; times are microseconds."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record and its extra fields."""
        fields: dict[str, Any] = {
            "at": round(record.created * 1_000_000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps({**fields, **getattr(record, FIELDS_ATTRIBUTE, {})}, ensure_ascii=False)


def configure(*, as_json: bool, libraries: Sequence[str] = ()) -> None:
    """Send the log of Inturn, and warnings of these libraries, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    for name, level in ((log.name, logging.INFO), *((name, logging.WARNING) for name in libraries)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


def info(message: str, **fields: object) -> None:
    """Log a line of the command itself; the fields appear only in JSON."""
    log.info(message, extra={FIELDS_ATTRIBUTE: fields})

"""What workers and upkeep log: plain lines for people, objects for machines; always in English, on standard error."""

import json
import logging
import sys
from collections.abc import Sequence
from typing import Any, Final

from inturn.cli.output import printable

log: Final = logging.getLogger("inturn")
FIELDS_ATTRIBUTE: Final = "facts"


class PlainFormatter(logging.Formatter):
    """The time, how serious it is, and one line of text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever stands in the message."""
        lines = super().format(record).splitlines()
        return printable(" | ".join(line.strip() for line in lines if line.strip()))


class JsonFormatter(logging.Formatter):
    """One object a line; times are microseconds as everywhere."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, with the facts it was logged with."""
        reported: dict[str, Any] = {
            "at": round(record.created * 1_000_000),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            reported["trace"] = self.formatException(record.exc_info)
        return json.dumps({**reported, **getattr(record, FIELDS_ATTRIBUTE, {})}, ensure_ascii=False)


def configure(*, as_json: bool, libraries: Sequence[str] = ()) -> None:
    """Send what Inturn logs to standard error, and the warnings of these libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    for name, level in ((log.name, logging.INFO), *((name, logging.WARNING) for name in libraries)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


def info(message: str, **fields: object) -> None:
    """A line of the command itself; the facts stand in the objects alone."""
    log.info(message, extra={FIELDS_ATTRIBUTE: fields})

"""Log errors of the store that a worker survives. No error of the store ends a worker or one of its threads."""

import logging
from typing import Final

from inturn.errors import InturnError

log: Final = logging.getLogger("inturn.worker")
FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 30.0


class Backoff:
    """Double the pause after each failure in a row, from one second to thirty."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS

    def next_pause(self) -> float:
        """Seconds until the next try."""
        pause, self._pause = self._pause, min(2 * self._pause, MAX_PAUSE_SECONDS)
        return pause

    def reset(self) -> None:
        """Begin again after a success."""
        self._pause = FIRST_PAUSE_SECONDS


def log_store_error(message: str, error: Exception) -> None:
    """Log one line for an error that can be expected, and the traceback of one that cannot."""
    if isinstance(error, InturnError):
        log.warning("%s, trying again: %s", message, error)
    else:
        log.error("%s, trying again; please report this", message, exc_info=error)

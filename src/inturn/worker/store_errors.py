"""Log errors of the store, and back off. No error of the store ends a worker or one of its threads."""

import logging
from typing import Final

from inturn.errors import InturnError

log: Final = logging.getLogger("inturn.worker")
FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 30.0


class Backoff:
    """Doubles the pause after each failure in a row, from 1 to 30 seconds."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS

    def next_pause(self) -> float:
        """Return the seconds until the next attempt."""
        pause, self._pause = self._pause, min(2 * self._pause, MAX_PAUSE_SECONDS)
        return pause

    def reset(self) -> None:
        """Start again at one second, after a success."""
        self._pause = FIRST_PAUSE_SECONDS


def log_store_error(message: str, error: Exception) -> None:
    """Log one line for an expected error, and the traceback of an unexpected one."""
    if isinstance(error, InturnError):
        log.warning("%s, trying again: %s", message, error)
    else:
        log.error("%s, trying again; please report this", message, exc_info=error)

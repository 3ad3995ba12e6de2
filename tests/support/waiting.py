"""Wait for what other processes and threads do: one timeout for all tests, which a busy machine does not reach."""

import time
from collections.abc import Callable
from typing import Any

TIMEOUT_SECONDS = 60.0
POLL_INTERVAL_SECONDS = 0.01


def wait_until(
    condition: Callable[[], Any], timeout: float = TIMEOUT_SECONDS, message: object = "it did not come true in time"
) -> Any:
    """Return the first true value of the condition; fail with the message after the timeout."""
    until = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < until, message() if callable(message) else message
        time.sleep(POLL_INTERVAL_SECONDS)
    return result

"""Call functions in another thread than the loop's."""

from collections.abc import Callable
from typing import Any

Callback = Callable[[Any, Exception | None], None]
RunInThread = Callable[[Callable[[], Any], Callback], None]
"""Calls a function in another thread, then the callback in the loop's thread."""


def try_call(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Call a function; return its value, or the exception that it raised."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - returned to the caller
        return None, error

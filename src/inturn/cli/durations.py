"""Parse times and durations such as 7d, 90m, 2026-03-02 and 2026-03-02T08:00."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from inturn.errors import InvalidInputError
from inturn.values import SECOND

UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
HOUR: Final = UNIT_SECONDS["h"] * SECOND
DAY: Final = UNIT_SECONDS["d"] * SECOND
"""In microseconds."""
MAX_DIGITS: Final = 20
_DURATION_PATTERN = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")


def parse_duration(option: str, text: str) -> int:
    """Parse a duration, in seconds unless it names a unit; returns microseconds."""
    match = _DURATION_PATTERN.fullmatch(text.strip())
    if match is None or len(match[1]) > MAX_DIGITS:
        raise InvalidInputError(f"{option} takes a time such as 90s, 15m, 24h or 7d, not {text!r}")
    return round(float(match[1]) * UNIT_SECONDS[match[2] or "s"] * SECOND)


def convert_to_unit(unit: str, text: str) -> str:
    """Convert a duration that names a unit to another unit; any other text is returned unchanged."""
    match = _DURATION_PATTERN.fullmatch(text.strip())
    return (
        text if match is None or not match[2] else repr(float(match[1]) * UNIT_SECONDS[match[2]] / UNIT_SECONDS[unit])
    )


def parse_time(option: str, text: str, now: int) -> int:
    """Parse a date, a time in the local zone unless it names one, or a duration before now; returns microseconds.

    A duration may end in "ago": `2h ago` is `2h`.
    """
    text = text.strip().removesuffix("ago")
    if _DURATION_PATTERN.fullmatch(text.strip()):
        return max(0, now - parse_duration(option, text))
    try:
        at = datetime.fromisoformat(text.strip()).astimezone(UTC)
    except ValueError:
        raise InvalidInputError(
            f"{option} takes a date or time such as 2026-03-02 or 2026-03-02T08:00, or how long ago, such as 7d;"
            f" not {text!r}"
        ) from None
    return max(0, (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1))


def format_duration(duration: int) -> str:
    """Format a duration in one unit, the same in all languages."""
    left = duration / SECOND
    for unit, size in (("s", 60), ("min", 60), ("h", 24)):
        if left < size:
            return f"{left:.0f} {unit}"
        left /= size
    return f"{left:.0f} d"

"""Parse times and durations such as 7d, 90m, 2026-03-02 and 2026-03-02T08:00."""

from datetime import UTC, datetime, timedelta
from typing import Final

from inturn.errors import InvalidInputError
from inturn.values import DURATION, SECOND, UNIT_SECONDS, parse_duration

HOUR: Final = UNIT_SECONDS["h"] * SECOND
DAY: Final = UNIT_SECONDS["d"] * SECOND
"""In microseconds."""


def convert_to_unit(unit: str, text: str) -> str:
    """Convert a duration that names a unit to another unit; any other text is returned unchanged."""
    match = DURATION.fullmatch(text.strip())
    return (
        text if match is None or not match[2] else repr(float(match[1]) * UNIT_SECONDS[match[2]] / UNIT_SECONDS[unit])
    )


def parse_time(option: str, text: str, now: int) -> int:
    """Parse a date, a time in the local zone unless it names one, or a duration before now; returns microseconds.

    A duration may end in "ago": `2h ago` is `2h`.
    """
    text = text.strip().removesuffix("ago")
    if DURATION.fullmatch(text.strip()):
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

"""Units and limits of values, and their validation. The error says what is allowed."""

import math
import re
import unicodedata
from typing import Final

from inturn.errors import InvalidInputError

SECOND: Final = 1_000_000


MAX_NAME_LENGTH: Final = 255


MAX_METADATA_LENGTH: Final = 16_384


MAX_METADATA_DEPTH: Final = 100
"""Nesting limit. JSON readers recurse, and their callers may already be deep in the stack."""


MAX_COST: Final = 10_000.0


MIN_COST: Final = 0.001


MAX_WEIGHT: Final = 1_000.0


MIN_WEIGHT: Final = 0.001


MAX_ATTEMPTS: Final = 100


MAX_TIME: Final = 2**62
"""Latest time, about the year 148,000. A time plus a delay still fits into 64 bits."""


UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
DURATION: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)([smhdw]?)")


def seconds(value: float) -> int:
    """Convert seconds to microseconds."""
    if not math.isfinite(value):
        raise InvalidInputError(f"a time in seconds must be a finite number, not {value}")
    return round(value * SECOND)


def parse_duration(name: str, text: str) -> int:
    """Parse a duration such as 90, 90s, 15m, 24h or 7d; returns microseconds. `name` is its name in the error."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"{name} takes a time such as 90s, 15m, 24h or 7d, not {text!r}")
    return round(float(match[1]) * UNIT_SECONDS[match[2] or "s"] * SECOND)


def clean_text(name: str, text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Validate and normalize text: NFC, 1 to `max_length` characters, no control characters.

    `name` is the name of the value in the error.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be text, not {type(text).__name__}")
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", text)
        if any(unicodedata.category(char) in {"Cc", "Cs"} for char in text):
            raise InvalidInputError(f"{name} may not contain control characters or lone surrogates: {text!r}")
    if not 0 < len(text) <= max_length:
        raise InvalidInputError(f"{name} must have 1 to {max_length} characters, not {len(text)}")
    return text


def sanitize_name(text: str) -> str:
    """Turn any text into a valid document name: replace control characters and keep the last 255 characters."""
    if text.isascii() and text.isprintable():
        return text[-MAX_NAME_LENGTH:]
    clean = "".join("\ufffd" if unicodedata.category(char) in {"Cc", "Cs"} else char for char in text)
    return unicodedata.normalize("NFC", clean)[-MAX_NAME_LENGTH:]


def clean_number(name: str, value: float, lowest: float, highest: float) -> float:
    """Validate a finite number between two inclusive bounds. `name` is the name of the value in the error."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
        raise InvalidInputError(f"{name} must be a number from {lowest:g} to {highest:g}, not {value!r}")
    return value


def clean_time(name: str, value: int) -> int:
    """Validate a time or duration in whole microseconds."""
    if type(value) is not int or not 0 <= value <= MAX_TIME:
        raise InvalidInputError(
            f"{name} must be a whole number of microseconds, 0 or more, not {value!r}; for seconds write seconds(…)",
        )
    return value

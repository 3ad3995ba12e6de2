"""Compute the delay before a retry: exponential backoff with jitter. `Queue(retries=…)` takes another policy."""

from dataclasses import dataclass
from typing import Final

from inturn.errors import InvalidInputError
from inturn.values import SECOND

MAX_DOUBLINGS: Final = 62


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """First and longest delay in microseconds, and the share of a delay that jitter may subtract."""

    first_delay: int = 10 * SECOND
    longest_delay: int = 3600 * SECOND
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.first_delay <= self.longest_delay:
            raise InvalidInputError(
                f"retry delays must be positive and the first at most the longest,"
                f" not {self.first_delay} and {self.longest_delay}",
            )
        if not 0 <= self.jitter <= 1:
            raise InvalidInputError(f"jitter must lie between 0 and 1, not {self.jitter}")

    def delay(self, attempt: int, chance: float) -> int:
        """Return the delay in microseconds after an attempt (1 is the first); `chance`, 0 to 1, picks the jitter."""
        doubled = self.first_delay << min(max(attempt - 1, 0), MAX_DOUBLINGS)
        delay = min(doubled, self.longest_delay)
        return max(1, delay - round(delay * self.jitter * chance))

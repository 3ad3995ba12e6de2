"""The part of the store contract about API keys."""

from collections.abc import Mapping
from typing import Protocol

from inturn.api_keys import ApiKey
from inturn.store_types import Operator


class ApiKeys(Protocol):
    """Store the API keys of a queue's servers, so that all servers accept the same keys."""

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        """Store a new key. S38. All servers accept it once this returns. The event does not contain the hash."""

    def find(self, id: str) -> ApiKey:
        """Return a key, live or expired. NotFoundError for an unknown id."""

    def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first."""

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        """Expire a key at a time. S39. An expiry never moves later. Writes an event."""

    def record_use(self, last_used: Mapping[str, int]) -> None:
        """Store the last use of keys. S40. A later time is never overwritten; unknown ids are ignored."""

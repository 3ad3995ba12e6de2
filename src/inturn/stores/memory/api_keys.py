"""API keys of the memory store."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from inturn.api_keys import ApiKey
from inturn.errors import NotFoundError
from inturn.store_api_keys import ApiKeys
from inturn.store_types import EventKind, Operator
from inturn.stores.memory.state import State


class MemoryApiKeys(ApiKeys):
    """API keys in a dictionary, under the store's lock."""

    def __init__(
        self, lock: AbstractContextManager[bool], state: Callable[[], State], now: Callable[[int | None], int]
    ) -> None:
        self._lock = lock
        self._state = state
        self._now = now

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        with self._lock:
            self._state().api_keys[key.id] = key
            self._log(EventKind.KEY_MADE, key, operator, now)

    def find(self, id: str) -> ApiKey:
        with self._lock:
            api_key = self._state().api_keys.get(id)
            if api_key is None:
                raise NotFoundError(f"there is no key {id!r}")
            return api_key

    def all(self) -> tuple[ApiKey, ...]:
        with self._lock:
            return tuple(sorted(self._state().api_keys.values(), key=lambda api_key: (api_key.made_at, api_key.id)))

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        with self._lock:
            key = self.find(id)
            ended = key._replace(expires_at=at if key.expires_at is None else min(at, key.expires_at))
            self._state().api_keys[id] = ended
            self._log(EventKind.KEY_ENDED, ended, operator, now)
            return ended

    def record_use(self, last_used: Mapping[str, int]) -> None:
        with self._lock:
            api_keys = self._state().api_keys
            for id_, at in last_used.items():
                if id_ in api_keys:
                    api_keys[id_] = api_keys[id_]._replace(used_at=max(at, api_keys[id_].used_at or 0))

    def _log(self, kind: EventKind, key: ApiKey, operator: Operator, now: int | None) -> None:
        detail = {"key": key.id, "scope": str(key.scope), "name": key.name}
        self._state().journal.append(kind, self._now(now), key.customer, operator, detail)

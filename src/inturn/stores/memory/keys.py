"""The access keys of a queue in memory."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from inturn.access import AccessKey
from inturn.errors import NotFoundError
from inturn.store import EventKind, Keys, Operator
from inturn.stores.memory.state import State


class MemoryKeys(Keys):
    """Keys in a dictionary, under the store's lock."""

    def __init__(
        self, lock: AbstractContextManager[bool], state: Callable[[], State], now: Callable[[int | None], int]
    ) -> None:
        self._lock = lock
        self._state = state
        self._now = now

    def add(self, key: AccessKey, operator: Operator, *, now: int | None = None) -> None:
        with self._lock:
            self._state().access[key.id] = key
            self._note(EventKind.KEY_MADE, key, operator, now)

    def find(self, id: str) -> AccessKey:
        with self._lock:
            found = self._state().access.get(id)
            if found is None:
                raise NotFoundError(f"there is no key {id!r}")
            return found

    def all(self) -> tuple[AccessKey, ...]:
        with self._lock:
            return tuple(sorted(self._state().access.values(), key=lambda each: (each.made_at, each.id)))

    def end(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> AccessKey:
        with self._lock:
            key = self.find(id)
            ended = key._replace(expires_at=at if key.expires_at is None else min(at, key.expires_at))
            self._state().access[id] = ended
            self._note(EventKind.KEY_ENDED, ended, operator, now)
            return ended

    def use(self, used: Mapping[str, int]) -> None:
        with self._lock:
            access = self._state().access
            for id_, at in used.items():
                if id_ in access:
                    access[id_] = access[id_]._replace(used_at=max(at, access[id_].used_at or 0))

    def _note(self, kind: EventKind, key: AccessKey, operator: Operator, now: int | None) -> None:
        detail = {"key": key.id, "scope": str(key.scope), "name": key.name}
        self._state().journal.note(kind, self._now(now), key.customer, (), operator, detail)

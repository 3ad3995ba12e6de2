"""API keys of a queue in SQLite."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.errors import NotFoundError
from inturn.store import ApiKeys, EventKind, Operator
from inturn.stores.sqlite.queries import Queries, Row


class AddEvent(Protocol):
    """Adds an event to the current transaction."""

    def __call__(
        self,
        now: int | None,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add the event."""
        ...


class SqliteApiKeys(ApiKeys):
    """Keys in their own table. `write` and `read` run a function in a transaction of the store."""

    def __init__(
        self,
        queries: Queries,
        read_queries: Queries,
        write: Callable[..., Any],
        read: Callable[..., Any],
        add_event: AddEvent,
    ) -> None:
        self._queries = queries
        self._read_queries = read_queries
        self._write = write
        self._read = read
        self._add_event = add_event

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        def work() -> None:
            self._queries.execute("add_api_key", *key)
            self._add_key_event(EventKind.KEY_MADE, key, operator, now)

        self._write(work)

    def find(self, id: str) -> ApiKey:
        api_key: ApiKey = self._read(lambda: _find(self._read_queries, id))
        return api_key

    def all(self) -> tuple[ApiKey, ...]:
        return tuple(_key_from_row(row) for row in self._read(lambda: self._read_queries.fetch_all("api_keys")))

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        def work() -> ApiKey:
            self._queries.fetch_one("revoke_api_key", id=id, at=at)
            key = _find(self._queries, id)
            self._add_key_event(EventKind.KEY_ENDED, key, operator, now)
            return key

        ended: ApiKey = self._write(work)
        return ended

    def record_use(self, last_used: Mapping[str, int]) -> None:
        self._write(lambda: self._queries.execute_many("record_api_key_use", last_used.items()))

    def _add_key_event(self, kind: EventKind, key: ApiKey, operator: Operator, now: int | None) -> None:
        self._add_event(now, kind, key.customer, operator, {"key": key.id, "scope": str(key.scope), "name": key.name})


def _find(queries: Queries, id_: str) -> ApiKey:
    row = queries.fetch_one("api_key", id=id_)
    if row is None:
        raise NotFoundError(f"there is no key {id_!r}")
    return _key_from_row(row)


def _key_from_row(row: Row) -> ApiKey:
    id_, sha256, scope, *rest = row
    return ApiKey(id_, sha256, ApiKeyScope(scope), *rest)

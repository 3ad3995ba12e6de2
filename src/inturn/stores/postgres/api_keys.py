"""API keys of a queue in PostgreSQL, and queries that only servers need."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.errors import NotFoundError
from inturn.store import ApiKeys, Event, EventKind, Operator
from inturn.stores.postgres.admin import Admin
from inturn.stores.postgres.queries import Queries, Row
from inturn.stores.postgres.rows import event_from_row

NEVER: Final = 2**63 - 1


class PostgresApiKeys(ApiKeys):
    """Keys in their own table. `write` and `read` run a function of a transaction's tables in one of the store."""

    def __init__(
        self, write: Callable[..., Any], read: Callable[..., Any], admin: Callable[[Queries, int | None], Admin]
    ) -> None:
        self._write = write
        self._read = read
        self._admin = admin

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        def work(queries: Queries) -> None:
            queries.execute("add_api_key", **{**key._asdict(), "scope": str(key.scope)})
            self._add_key_event(queries, EventKind.KEY_MADE, key, operator, now)

        self._write(work)

    def find(self, id: str) -> ApiKey:
        api_key: ApiKey = self._read(lambda queries: _find(queries, id))
        return api_key

    def all(self) -> tuple[ApiKey, ...]:
        return tuple(_key_from_row(row) for row in self._read(lambda queries: queries.fetch_all("api_keys")))

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        def work(queries: Queries) -> ApiKey:
            queries.execute("revoke_api_key", id=id, at=at)
            key = _find(queries, id)
            self._add_key_event(queries, EventKind.KEY_ENDED, key, operator, now)
            return key

        ended: ApiKey = self._write(work)
        return ended

    def record_use(self, last_used: Mapping[str, int]) -> None:
        ids, times = list(last_used), list(last_used.values())
        self._write(lambda queries: queries.execute("record_api_key_uses", ids=ids, times=times))

    def _add_key_event(
        self, queries: Queries, kind: EventKind, key: ApiKey, operator: Operator, now: int | None
    ) -> None:
        detail = {"key": key.id, "scope": str(key.scope), "name": key.name}
        self._admin(queries, now).add_event(kind, key.customer, operator, detail)


def last_event(queries: Queries) -> int:
    """Return the newest event number."""
    return int((queries.fetch_one("last_event") or (0,))[0])


def operator_events(queries: Queries, limit: int, before: int | None, customer: str | None) -> tuple[Event, ...]:
    """Events of operators, newest first; of one customer, or of all."""
    below = NEVER if before is None else before
    if customer is None:
        rows = queries.fetch_all("operator_events", before=below, limit=limit)
    else:
        rows = queries.fetch_all("operator_events_of", customer=customer, before=below, limit=limit)
    return tuple(event_from_row(row) for row in rows)


def stored_bytes(queries: Queries, customer: str) -> int:
    """Return the stored bytes of a customer's documents."""
    return int((queries.fetch_one("stored_bytes", customer=customer) or (0,))[0])


def _find(queries: Queries, id_: str) -> ApiKey:
    row = queries.fetch_one("api_key", id=id_)
    if row is None:
        raise NotFoundError(f"there is no key {id_!r}")
    return _key_from_row(row)


def _key_from_row(row: Row) -> ApiKey:
    id_, sha256, scope, *rest = row
    return ApiKey(id_, sha256, ApiKeyScope(scope), *rest)

"""API keys of a queue, in their own table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inturn.api_keys import ApiKey
from inturn.errors import NotFoundError
from inturn.store_api_keys import ApiKeys
from inturn.store_types import EventKind, Operator
from inturn.stores.sql.queries import Queries
from inturn.stores.sql.rows import api_key_from_row
from inturn.stores.sql.transitions import Transitions

if TYPE_CHECKING:
    from inturn.stores.sql.store import SqlStore


class SqlApiKeys(ApiKeys):
    """The keys of one store."""

    def __init__(self, store: "SqlStore") -> None:
        self._store = store

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        def work(transitions: Transitions) -> None:
            transitions.queries.execute("add_api_key", **{**key._asdict(), "scope": str(key.scope)})
            _add_event(transitions, EventKind.KEY_MADE, key, operator)

        self._store.run_transitions(work, now)

    def find(self, id: str) -> ApiKey:
        return self._store.read(lambda reader: _find(reader.queries, id))

    def all(self) -> tuple[ApiKey, ...]:
        rows = self._store.read(lambda reader: reader.queries.fetch_all("api_keys"))
        return tuple(api_key_from_row(row) for row in rows)

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        def work(transitions: Transitions) -> ApiKey:
            transitions.queries.execute("revoke_api_key", id=id, at=at)
            key = _find(transitions.queries, id)
            _add_event(transitions, EventKind.KEY_ENDED, key, operator)
            return key

        return self._store.run_transitions(work, now)

    def record_use(self, last_used: Mapping[str, int]) -> None:
        rows = list(last_used.items())
        self._store.write(lambda queries: queries.execute_many("record_api_key_uses", ("id", "at"), rows))


def _find(queries: Queries, id_: str) -> ApiKey:
    row = queries.fetch_one("api_key", id=id_)
    if row is None:
        raise NotFoundError(f"there is no key {id_!r}")
    return api_key_from_row(row)


def _add_event(transitions: Transitions, kind: EventKind, key: ApiKey, operator: Operator) -> None:
    detail = {"key": key.id, "scope": str(key.scope), "name": key.name}
    transitions.add_event(kind, key.customer, operator, detail)

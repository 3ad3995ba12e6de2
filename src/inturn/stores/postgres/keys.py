"""The access keys of a queue in PostgreSQL, and what else only servers ask of it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from inturn.access import AccessKey, KeyScope
from inturn.errors import NotFoundError
from inturn.store import Event, EventKind, Keys, Operator
from inturn.stores.postgres.rows import event_of
from inturn.stores.postgres.tables import Row, Tables
from inturn.stores.postgres.upkeep import Upkeep

NEVER: Final = 2**63 - 1


class PostgresKeys(Keys):
    """Keys in their own table. `write` and `read` run a function of a transaction's tables in one of the store."""

    def __init__(
        self, write: Callable[..., Any], read: Callable[..., Any], upkeep: Callable[[Tables, int | None], Upkeep]
    ) -> None:
        self._write = write
        self._read = read
        self._upkeep = upkeep

    def add(self, key: AccessKey, operator: Operator, *, now: int | None = None) -> None:
        def work(tables: Tables) -> None:
            tables.run("add_access_key", **{**key._asdict(), "scope": str(key.scope)})
            self._tell(tables, EventKind.KEY_MADE, key, operator, now)

        self._write(work)

    def find(self, id: str) -> AccessKey:
        found: AccessKey = self._read(lambda tables: _find(tables, id))
        return found

    def all(self) -> tuple[AccessKey, ...]:
        return tuple(_key(row) for row in self._read(lambda tables: tables.all("access_keys")))

    def end(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> AccessKey:
        def work(tables: Tables) -> AccessKey:
            tables.run("end_access_key", id=id, at=at)
            key = _find(tables, id)
            self._tell(tables, EventKind.KEY_ENDED, key, operator, now)
            return key

        ended: AccessKey = self._write(work)
        return ended

    def use(self, used: Mapping[str, int]) -> None:
        ids, times = list(used), list(used.values())
        self._write(lambda tables: tables.run("use_access_keys", ids=ids, times=times))

    def _tell(self, tables: Tables, kind: EventKind, key: AccessKey, operator: Operator, now: int | None) -> None:
        detail = {"key": key.id, "scope": str(key.scope), "name": key.name}
        self._upkeep(tables, now).note(kind, key.customer, operator, detail)


def last_event(tables: Tables) -> int:
    """The newest number given."""
    return int((tables.one("last_event") or (0,))[0])


def by_hand(tables: Tables, limit: int, before: int | None, customer: str | None) -> tuple[Event, ...]:
    """Events of operators, newest first; of one customer, or of all."""
    below = NEVER if before is None else before
    if customer is None:
        rows = tables.all("events_by_hand", before=below, limit=limit)
    else:
        rows = tables.all("events_by_hand_of", customer=customer, before=below, limit=limit)
    return tuple(event_of(row) for row in rows)


def kept_bytes(tables: Tables, customer: str) -> int:
    """What the documents of a customer take up."""
    return int((tables.one("kept_bytes", customer=customer) or (0,))[0])


def _find(tables: Tables, id_: str) -> AccessKey:
    row = tables.one("access_key", id=id_)
    if row is None:
        raise NotFoundError(f"there is no key {id_!r}")
    return _key(row)


def _key(row: Row) -> AccessKey:
    id_, sha256, scope, *rest = row
    return AccessKey(id_, sha256, KeyScope(scope), *rest)

"""The access keys of a queue in SQLite."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from inturn.access import AccessKey, KeyScope
from inturn.errors import NotFoundError
from inturn.store import EventKind, Keys, Operator
from inturn.stores.sqlite.tables import Row, Tables


class Note(Protocol):
    """Tells an event in the transaction under way."""

    def __call__(
        self,
        now: int | None,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell it."""
        ...


class SqliteKeys(Keys):
    """Keys in their own table. `write` and `read` run a function in a transaction of the store."""

    def __init__(
        self, tables: Tables, reader: Tables, write: Callable[..., Any], read: Callable[..., Any], note: Note
    ) -> None:
        self._tables = tables
        self._reader = reader
        self._write = write
        self._read = read
        self._note = note

    def add(self, key: AccessKey, operator: Operator, *, now: int | None = None) -> None:
        def work() -> None:
            self._tables.run("add_access_key", *key)
            self._tell(EventKind.KEY_MADE, key, operator, now)

        self._write(work)

    def find(self, id: str) -> AccessKey:
        found: AccessKey = self._read(lambda: _find(self._reader, id))
        return found

    def all(self) -> tuple[AccessKey, ...]:
        return tuple(_key(row) for row in self._read(lambda: self._reader.all("access_keys")))

    def end(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> AccessKey:
        def work() -> AccessKey:
            self._tables.one("end_access_key", id=id, at=at)
            key = _find(self._tables, id)
            self._tell(EventKind.KEY_ENDED, key, operator, now)
            return key

        ended: AccessKey = self._write(work)
        return ended

    def use(self, used: Mapping[str, int]) -> None:
        self._write(lambda: self._tables.many("use_access_key", used.items()))

    def _tell(self, kind: EventKind, key: AccessKey, operator: Operator, now: int | None) -> None:
        self._note(now, kind, key.customer, operator, {"key": key.id, "scope": str(key.scope), "name": key.name})


def _find(tables: Tables, id_: str) -> AccessKey:
    row = tables.one("access_key", id=id_)
    if row is None:
        raise NotFoundError(f"there is no key {id_!r}")
    return _key(row)


def _key(row: Row) -> AccessKey:
    id_, sha256, scope, *rest = row
    return AccessKey(id_, sha256, KeyScope(scope), *rest)

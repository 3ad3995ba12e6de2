"""The named queries on a connection, and rows turned into values."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from inturn.model import NO_METADATA, CustomerSettings, Document, DocumentState, NewDocument, settings_from_dict
from inturn.policy import Policy
from inturn.store import Attempt, Event, EventKind, Operator, PolicyVersion
from inturn.stores.sql.loader import named_queries

QUERIES: Final = named_queries("inturn.stores.sqlite")
STATES: Final = {str(state): state for state in DocumentState}
MAX_CACHED_NAMES: Final = 100_000
Row = tuple[Any, ...]


class Queries:
    """One connection's queries by name. The ids of customers never change, so their names are remembered."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._names: dict[int, str] = {}
        self._policy: PolicyVersion | None = None
        self.claim_window: Any = None
        """The `ClaimWindow` of this process's last claim, or None."""
        connection.create_scalar_function("lower_case", _lower_case, 1, deterministic=True)

    def fetch_all(self, query: str, /, **values: Any) -> list[Row]:
        """Every row of a query."""
        return self.connection.execute(QUERIES[query], values).fetchall()

    def fetch_one(self, query: str, /, **values: Any) -> Row | None:
        """The first row of a query, or None."""
        row: Row | None = self.connection.execute(QUERIES[query], values).fetchone()
        return row

    def execute(self, query: str, *values: Any) -> int:
        """Run a statement with values by position; how many rows it changed."""
        self.connection.execute(QUERIES[query], values)
        return self.connection.changes()

    def execute_many(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        self.connection.executemany(QUERIES[query], rows)

    def execute_many_returning(self, query: str, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Run a statement for each row of values; all that it returns, in their order."""
        return self.connection.executemany(QUERIES[query], rows).fetchall()

    def clear_cache(self) -> None:
        """What was read in a transaction that came to nothing."""
        self._names.clear()
        self._policy = self.claim_window = None

    def customer_name(self, owner: int) -> str:
        """A customer's name by its id."""
        known = self._names.get(owner)
        if known is None:
            if len(self._names) >= MAX_CACHED_NAMES:
                self._names.clear()
            row = self.fetch_one("customer_name", id=owner)
            if row is None:
                raise AssertionError(f"customer {owner} has documents and no row")
            known = self._names[owner] = row[0]
        return known

    def policy(self, number: int) -> PolicyVersion:
        """A version of the policy."""
        if self._policy is None or self._policy.number != number:
            row = self.fetch_one("policy", number=number)
            if row is None:
                raise AssertionError(f"policy {number} is in force and has no row")
            self._policy = policy_from_row(row)
        return self._policy


def pack_id(id_: str) -> bytes:
    """A document's id as it is kept; nothing for what is no UUID, which no document has."""
    try:
        return bytes.fromhex(id_.replace("-", ""))
    except ValueError:
        return b""


def pack_ids(ids: Sequence[str]) -> bytes:
    """Several ids, one after another."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def unpack_ids(packed: bytes) -> tuple[str, ...]:
    """Ids as they are written, from as many times 16 bytes."""
    text = packed.hex()
    return tuple([_format_id(text[at : at + 32]) for at in range(0, len(text), 32)])


def _format_id(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def document_from_row(row: Row) -> Document:
    """A document from a row of `serialize_document`."""
    (
        id_, customer, seq, level, count, state, submitted_at, ready_at, due_at, started_at, finished_at, attempt,
        fence, worker, lease_until, lane, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost,
        delay, start_by, max_attempts, pages, began_at, worked, _,
    ) = row  # fmt: skip
    given = NewDocument._make(
        (name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by, max_attempts, pages)
    )
    return Document(
        _format_id(id_.hex()), customer, seq, given, level, count, STATES[state], submitted_at, ready_at, due_at,
        started_at, finished_at, attempt, fence, worker, lease_until, lane == 0, error, began_at, worked,
    )  # fmt: skip


def policy_from_row(row: Row) -> PolicyVersion:
    """A version from its row."""
    number, settings, at, operator, why = row
    return PolicyVersion(number, Policy.from_dict(json.loads(settings)), at, Operator(operator, why))


def event_from_row(row: Row) -> Event:
    """An event from its row."""
    number, at, kind, customer, documents, operator, why, detail = row
    return Event(
        number,
        at,
        EventKind(kind),
        customer,
        unpack_ids(documents),
        None if operator is None else Operator(operator, why),
        json.loads(detail) if detail else NO_METADATA,
    )


def attempt_from_row(row: Row) -> Attempt:
    """An attempt from its row."""
    fence, number, started_at, ended_at, ended, error, worker, began_at, worked = row
    return Attempt(fence, number, started_at, ended_at, EventKind(ended), error, worker, began_at, worked)


def parse_settings(text: str | None) -> CustomerSettings:
    """A customer's settings from their column."""
    return CustomerSettings() if text is None else settings_from_dict(json.loads(text))


def _lower_case(*text: Any) -> str:
    """Python's idea of lower case, so that every store finds the same names."""
    return str(text[0]).lower()

"""How documents come in: checks, documents, idempotency keys. One transaction a call, ours or the user's."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from psycopg import errors

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import NO_METADATA, Check, NewDocument, Receipt
from inturn.policy import Counter
from inturn.policy.priority import CheckedMany
from inturn.store import KEY_KEPT, Submission, check_fingerprint
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.rows import lower_of
from inturn.stores.postgres.tables import Row, Tables

_GIVEN: Final = (
    "cost", "max_attempts", "start_by", "name", "uri", "blob", "sha256", "size", "media_type", "batch", "pages",
    "delay",
)  # fmt: skip
_ALIKE: Final = ("cost", "max_attempts", "delay")
_columns: Final = attrgetter(*_GIVEN)


class Intake:
    """Checks and submits. The customer's row is locked first: what happens to one customer happens in some order."""

    def __init__(self, tables: Tables, known: Known, now: int | None) -> None:
        self._tables = tables
        self._known = known
        self._given_now = now

    def check(self, customer: str, n: int, key: str | None) -> tuple[Check, ...]:
        """Look at a customer for n documents that wait elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter, number, now = self._entered(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Check(level, count) for _, level, count in first)
        checked = self.lowered(counter, n, now, number)
        self.keep(owner, checked)
        answer = tuple(Check(level, count) for level, count in checked.each())
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, [("", *each) for each in answer])
        return answer

    def submit(self, submission: Submission) -> tuple[Receipt, ...]:
        """Take in one call's documents."""
        customer, ids, documents, key, fingerprint = submission
        owner, counter, number, now = self._entered(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*each) for each in first)
        checked = self.lowered(counter, len(ids), now, number)
        receipts = tuple([Receipt(id_, *each) for id_, each in zip(ids, checked.each(), strict=True)])
        documents = self._known.policy(self._tables, number).policy.costs.applied(documents)
        try:
            self._tables.run(
                "take_in",
                customer=owner,
                customer_name=customer,
                now=now,
                count=checked.counter.count,
                updated_at=checked.counter.updated_at,
                **_arrays(receipts, documents),
            )
        except errors.UniqueViolation as wrong:
            raise InvalidInputError("a document with one of these ids exists already; ids are given once") from wrong
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, receipts)
        return receipts

    def _entered(self, name: str) -> tuple[int, Counter | None, int, int]:
        """Customer and instant; the transaction may have begun with both."""
        found, instant = self._tables.begun or (None, None)
        if found is None or instant is None:
            return *self.customer(name), *self.instant()
        number, now = instant
        return *_counted(found), number, now if self._given_now is None else self._given_now

    def customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on, and locked until the end of the transaction."""
        while (found := self._tables.one("lock_customer", name=name)) is None:
            self._tables.run("add_customer", name=name, lower=lower_of(name))
        return _counted(found)

    def instant(self) -> tuple[int, int]:
        """The policy's version, and the time: the server's own, after the lock, unless one was given."""
        number, now = self._tables.one("intake") or (0, 0)
        return number, now if self._given_now is None else self._given_now

    def lowered(self, counter: Counter | None, n: int, now: int, version: int) -> CheckedMany:
        """What n checks of a customer give."""
        return self._known.policy(self._tables, version).policy.priority.check_many(counter, now, n)

    def keep(self, owner: int, checked: CheckedMany) -> None:
        """Write the counter down."""
        count, updated_at = checked.counter
        self._tables.run("set_counter", id=owner, count=count, updated_at=updated_at)

    def _repeated(self, owner: int, customer: str, key: str, fingerprint: str, now: int) -> list[Any] | None:
        found = self._tables.one("key", customer=owner, key=key)
        if found is None or now - found[1] > KEY_KEPT:
            return None
        if found[0] != fingerprint:
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        answer: list[Any] = json.loads(found[2])
        return answer

    def _keep_key(self, owner: int, key: str, fingerprint: str, now: int, answer: Sequence[Sequence[Any]]) -> None:
        text = json.dumps(answer)
        self._tables.run("keep_key", customer=owner, key=key, fingerprint=fingerprint, at=now, answer=text)


def _counted(row: Row) -> tuple[int, Counter | None]:
    owner, count, updated_at, _ = row
    return owner, None if count is None else Counter(count, updated_at)


def _arrays(receipts: Sequence[Receipt], documents: Sequence[NewDocument]) -> dict[str, Any]:
    """One list for each column, for one statement; what no document has, or all have alike, is not sent for each."""
    ids, levels, counts = zip(*receipts, strict=True)
    given: dict[str, Any] = dict(zip(_GIVEN, map(list, zip(*map(_columns, documents), strict=True)), strict=True))
    given["cost"] = list(map(float, given["cost"]))
    given["metadata"] = [_metadata(each) for each in documents]
    given["lower_name"] = [lower_of(each) for each in given["name"]]
    alike = {f"same_{name}": given[name][0] for name in _ALIKE}
    for name, values in given.items():
        if values.count(alike.get(f"same_{name}")) == len(values):
            given[name] = None
    return {"id": list(ids), "level": list(levels), "counts": list(counts), **given, **alike}


def _metadata(given: NewDocument) -> str | None:
    return None if given.metadata is NO_METADATA else json.dumps(dict(given.metadata))

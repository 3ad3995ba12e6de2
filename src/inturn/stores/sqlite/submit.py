"""Submit documents: checks, rows, idempotency keys. One write transaction a call."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, Final

import apsw

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import Check, DocumentState, NewDocument, Receipt
from inturn.policy import Counter
from inturn.policy.priority import BatchCheckResult
from inturn.policy.scheduler import Head
from inturn.store import IDEMPOTENCY_KEY_RETENTION, EventKind, Submission, check_fingerprint
from inturn.stores.sql.columns import all_equal, build_receipts, document_columns
from inturn.stores.sqlite.lane_log import LaneLog
from inturn.stores.sqlite.queries import QUERIES, Queries, pack_ids
from inturn.stores.sqlite.transitions import Transitions

WAITING: Final = str(DocumentState.WAITING)
DELAYED: Final = str(DocumentState.DELAYED)
_PARAMETER: Final = re.compile(r":(\w+)")
ROWS_PER_INSERT: Final = 10
"""Documents kept by one statement, where there are as many; by one each it takes half as long again."""


class Submitter:
    """Checks and submits, inside the writer's transaction."""

    def __init__(self, queries: Queries, lane_log: LaneLog) -> None:
        self._queries = queries
        self._lane_log = lane_log

    def check(self, customer: str, n: int, idempotency_key: str | None, now: int) -> tuple[Check, ...]:
        """Check a customer n times, for documents that are queued elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter = self.get_or_add_customer(customer)
        if (
            idempotency_key is not None
            and (first := self._find_repeat(owner, customer, idempotency_key, fingerprint, now)) is not None
        ):
            return tuple(Check(level, count) for _, level, count in first)
        answer = tuple(Check(level, count) for level, count in self.apply_checks(owner, counter, n, now).per_document())
        if idempotency_key is not None:
            self._save_idempotency_key(owner, idempotency_key, fingerprint, now, [("", *check) for check in answer])
        return answer

    def submit(self, submission: Submission, now: int) -> tuple[Receipt, ...]:
        """Submit the documents of one call."""
        customer, ids, documents, key, fingerprint = submission
        owner, counter = self.get_or_add_customer(customer)
        if key is not None and (first := self._find_repeat(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*item) for item in first)
        last, number = self._queries.fetch_one("allocate_seqs", n=len(ids)) or (0, 0)
        checked = self.apply_checks(owner, counter, len(ids), now, number)
        receipts = build_receipts(ids, checked)
        content = pack_ids(ids)
        documents = self._queries.policy(number).policy.costs.apply(documents)
        self._insert(owner, last - len(ids) + 1, content, checked, documents, now)
        transitions = Transitions(self._queries, self._lane_log, now)
        transitions.add_event(EventKind.SUBMITTED, customer, content)
        transitions.flush()
        if key is not None:
            self._save_idempotency_key(owner, key, fingerprint, now, receipts)
        return receipts

    def _insert(
        self, owner: int, first: int, ids: bytes, checked: BatchCheckResult, documents: Sequence[NewDocument], now: int
    ) -> None:
        given = document_columns(documents)
        given["level"] = levels = checked.document_levels()
        try:
            self._insert_rows(owner, first, ids, checked.counter.count + len(levels) - 1, given, now)
        except apsw.ConstraintError as error:
            raise InvalidInputError("a document with one of these ids exists already; ids are given once") from error
        delays, costs = given["delay"], given["cost"]
        waiting = [at for at, delay in enumerate(delays) if not delay] if any(delays) else range(len(levels))
        for level, run in groupby(waiting, key=levels.__getitem__):
            several = list(run)
            self._lane_log.joined(owner, level, len(several), Head(first + several[0], now, costs[several[0]]))

    def _insert_rows(
        self, owner: int, first: int, ids: bytes, count: int, columns: dict[str, list[Any]], now: int
    ) -> None:
        """By statements of ten documents, as far as that goes; what all have alike is given to each only once."""
        n = len(columns["name"])
        alike = [name for name, values in columns.items() if n > 1 and all_equal(values)]
        common = [columns[name][0] for name in alike]
        names = tuple(name for name in columns if name not in alike)
        item = [ids[at : at + 16] for at in range(0, 16 * n, 16)], *[columns[name] for name in names]
        flat = list(chain.from_iterable(zip(*item, strict=True)))
        width, tens = len(item), n - n % ROWS_PER_INSERT
        for places, rows in ((range(0, tens, ROWS_PER_INSERT), ROWS_PER_INSERT), (range(tens, n), 1)):
            self._queries.connection.executemany(
                _insert_statement(tuple(alike), names, rows),
                [
                    (first + at, owner, count - at, now, *common, *flat[width * at : width * (at + rows)])
                    for at in places
                ],
            )

    def apply_checks(
        self, owner: int, counter: Counter | None, n: int, now: int, version: int | None = None
    ) -> BatchCheckResult:
        """Lower a customer's counter n times."""
        if version is None:
            version = (self._queries.fetch_one("policy_number") or (0,))[0]
        checked = self._queries.policy(version).policy.priority.check_many(counter, now, n)
        count, updated_at = checked.counter
        self._queries.fetch_one("set_counter", id=owner, count=count, updated_at=updated_at)
        return checked

    def get_or_add_customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on."""
        row = self._queries.fetch_one("customer", name=name)
        if row is None:
            return (self._queries.fetch_one("add_customer", name=name) or (0,))[0], None
        owner, count, updated_at, _ = row
        return owner, None if count is None else Counter(count, updated_at)

    def _find_repeat(
        self, owner: int, customer: str, idempotency_key: str, fingerprint: str, now: int
    ) -> list[Any] | None:
        row = self._queries.fetch_one("idempotency_key", customer=owner, key=idempotency_key)
        if row is None or now - row[1] > IDEMPOTENCY_KEY_RETENTION:
            return None
        if row[0] != fingerprint:
            raise KeyConflictError(
                f"key {idempotency_key!r} of {customer!r} was used before for something else; use a new key "
                f"for new content",
            )
        answer: list[Any] = json.loads(row[2])
        return answer

    def _save_idempotency_key(
        self, owner: int, idempotency_key: str, fingerprint: str, now: int, answer: Sequence[Sequence[Any]]
    ) -> None:
        text = json.dumps(answer)
        self._queries.fetch_one(
            "save_idempotency_key", customer=owner, key=idempotency_key, fingerprint=fingerprint, at=now, answer=text
        )


@lru_cache(maxsize=100)
def _insert_statement(shared_columns: tuple[str, ...], row_columns: tuple[str, ...], rows: int) -> str:
    """What keeps so many documents: their first seq, owner, first count, the time, what is alike, then by document."""
    common = {name: f"?{at}" for at, name in enumerate(("seq", "owner", "count", "now", *shared_columns), start=1)}
    insert, values, row = QUERIES["add_document"].partition("VALUES ")
    item, texts = ("id", *row_columns), []
    for at in range(rows):
        own = {name: f"?{number}" for number, name in enumerate(item, start=1 + len(common) + at * len(item))}
        place = {"seq": f"{common['seq']} + {at}", "count": f"{common['count']} - {at}"}
        known = {**common, **own, **place}
        texts.append(_PARAMETER.sub(lambda match: known[match[1]], row))  # noqa: B023 - used at once
    return insert + values + ", ".join(texts)

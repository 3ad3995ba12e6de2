"""Submit documents to SQLite: checks and rows, in the writer's transaction."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import apsw

from inturn.model import NewDocument, Receipt
from inturn.policy.priority import BatchCheckResult
from inturn.policy.scheduler import Head, track_of
from inturn.store_types import EventKind, Submission
from inturn.stores.sql.lane_log import LaneLog, lane_number
from inturn.stores.sql.queries import NewEvent, QueueCache, other_queues, scalar
from inturn.stores.sql.submit import LockedCustomer, Submitter, build_receipts, document_columns, repeated_id_error
from inturn.stores.sqlite.queries import QUERIES, SqliteQueries, pack_ids

_PARAMETER: Final = re.compile(r":(\w+)")
ROWS_PER_INSERT: Final = 10
"""Documents inserted by one statement, where there are as many; by one each it takes half as long again."""


class SqliteSubmitter(Submitter):
    """Checks and submits at one time."""

    _queries: SqliteQueries

    def __init__(self, queries: SqliteQueries, cache: QueueCache, now: int) -> None:
        super().__init__(queries, cache)
        self._now = now

    def lock(self, customer: str) -> LockedCustomer:
        owner, counter = self.lock_or_add_customer(customer)
        return LockedCustomer(owner, counter, scalar(self._queries, "policy_number"), self._now)

    def allocate_seqs(self, n: int) -> Sequence[int]:
        last = scalar(self._queries, "allocate_seqs", n=n)
        return range(last - n + 1, last + 1)

    def insert(self, submission: Submission, customer: LockedCustomer) -> tuple[Receipt, ...]:
        ids, now = submission.ids, self._now
        seqs = self.allocate_seqs(len(ids))
        checked = self.apply_checks(customer.owner, customer.counter, len(ids), now, customer.policy)
        costs = self._cache.policy(self._queries, customer.policy).policy.costs
        self._insert(customer.owner, seqs[0], ids, checked, costs.apply(submission.documents))
        queues = other_queues([document.queue for document in submission.documents])
        event = NewEvent(EventKind.SUBMITTED, [submission.customer] * len(ids), ids, queues=queues)
        self._queries.add_events(now, [event])
        return build_receipts(ids, checked)

    def _insert(
        self,
        owner: int,
        first: int,
        ids: Sequence[str],
        checked: BatchCheckResult,
        documents: Sequence[NewDocument],
    ) -> None:
        columns = document_columns(documents)
        columns["ahead"] = [document.steps_ahead for document in documents]
        columns["level"] = lanes = levels = checked.document_levels()
        names = columns["queue"]
        numbers = {name: self.queue_number(name) for name in dict.fromkeys(names)}
        if any(numbers.values()):
            tracks = [track_of(numbers[name], level) for name, level in zip(names, levels, strict=True)]
            columns["lane"] = lanes = tracks
        if groups := self.group_numbers(owner, columns["group_name"]):
            columns["lane"] = lanes = [lane_number(track, group) for track, group in zip(lanes, groups, strict=True)]
        try:
            self._insert_rows(owner, first, ids, checked.counter.count + len(levels) - 1, columns)
        except apsw.ConstraintError as error:
            raise repeated_id_error() from error
        delays, costs, lane_log = columns["delay"], columns["cost"], LaneLog()
        waiting = [at for at, delay in enumerate(delays) if not delay] if any(delays) else range(len(levels))
        positions: dict[int, list[int]] = {}
        for at in waiting:
            positions.setdefault(lanes[at], []).append(at)
        for lane, several in positions.items():
            lane_log.joined(owner, lane, len(several), Head(first + several[0], self._now, costs[several[0]]))
        lane_log.append_to(self._queries)

    def _insert_rows(
        self, owner: int, first: int, ids: Sequence[str], count: int, columns: dict[str, list[Any]]
    ) -> None:
        """By statements of ten documents, as far as that goes; what all have alike is given to each only once."""
        n, packed = len(ids), pack_ids(ids)
        alike = [name for name, values in columns.items() if n > 1 and values.count(values[0]) == n]
        common = [columns[name][0] for name in alike]
        names = tuple(name for name in columns if name not in alike)
        own = [packed[at : at + 16] for at in range(0, 16 * n, 16)], *[columns[name] for name in names]
        flat = list(chain.from_iterable(zip(*own, strict=True)))
        width, tens = len(own), n - n % ROWS_PER_INSERT
        for places, rows in ((range(0, tens, ROWS_PER_INSERT), ROWS_PER_INSERT), (range(tens, n), 1)):
            self._queries.connection.executemany(
                _insert_statement(tuple(alike), names, rows),
                [
                    (first + at, owner, count - at, self._now, *common, *flat[width * at : width * (at + rows)])
                    for at in places
                ],
            )


@lru_cache(maxsize=100)
def _insert_statement(shared_columns: tuple[str, ...], row_columns: tuple[str, ...], rows: int) -> str:
    """What inserts so many documents: first seq, owner, first count, the time, what is alike, then by document."""
    common = {name: f"?{at}" for at, name in enumerate(("seq", "owner", "count", "now", *shared_columns), start=1)}
    insert, values, row = QUERIES["add_document"].partition("VALUES ")
    own_columns, texts = ("id", *row_columns), []
    for at in range(rows):
        own = {
            name: f"?{number}" for number, name in enumerate(own_columns, start=1 + len(common) + at * len(own_columns))
        }
        place = {"seq": f"{common['seq']} + {at}", "count": f"{common['count']} - {at}"}
        known = {**common, **own, **place}
        known.setdefault("lane", known["level"])  # in the first queue without groups, a lane's number is its level
        texts.append(_PARAMETER.sub(lambda match: known[match[1]], row))  # noqa: B023 - used at once
    return insert + values + ", ".join(texts)

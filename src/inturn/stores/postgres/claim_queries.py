"""The queries of a transaction that holds the claim lock, and what it writes: one statement for all."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from inturn.store_types import ClaimRequest, EventKind
from inturn.stores.postgres.libpq import BoundStatement, LibpqQueries, StatementResult, bind
from inturn.stores.postgres.queries import (
    array_literal,
    event_row,
    lane_changes,
    queue_state,
    row_array,
)
from inturn.stores.sql.claim_types import ClaimedRow, ClaimWrite, QueueState
from inturn.stores.sql.lane_loader import MORE_LANES
from inturn.stores.sql.lane_log import LOG_COLUMNS, LaneChange, lane_track
from inturn.stores.sql.rows import Row

FENCE_BLOCK_SIZE: Final = 100_000
"""Fences reserved at a time, by a commit that waits for the disk; other claims do not wait."""
LIMITS_COLUMNS: Final = ("customer", "settings", "running", "tat", "rate_closed_until")
VERSION_COLUMN: Final = 4
LOG_LENGTH: Final = 1 + len(LOG_COLUMNS)
"""Columns of an entry of the lane log in `take_lane_log`: its number first, those of its lane behind them."""
LOG_LANE_COLUMN: Final = 1 + LOG_COLUMNS.index("level")


class WaitingClaim(NamedTuple):
    """A claim of another session that waits for its turn."""

    pid: int
    worker: str
    limit: int
    lease: int
    queues: Sequence[str]
    now: int | None

    @property
    def request(self) -> ClaimRequest:
        """What it asks for."""
        return ClaimRequest(self.worker, self.limit, self.lease, tuple(self.queues))


class ClaimStart(NamedTuple):
    """The rows of the statements that began a claim's transaction; they were sent in one trip."""

    queue: Row
    lane_log: Sequence[Row]
    waiting: Sequence[Row]
    first_lanes: Sequence[Row]


def start_statements(limit: int, queues: Sequence[str]) -> list[BoundStatement]:
    """The statements whose rows are a `ClaimStart`, for a claim of so many documents.

    The first lanes are those of a single queue; a claim of several queues reads its lanes later.
    """
    queue = queues[0] if len(queues) == 1 else None
    return [
        bind("queue", {}),
        bind("take_lane_log", {}),
        bind("waiting_claims", {}),
        bind("first_lanes", {"limit": limit, "more": MORE_LANES, "queue": queue}),
    ]


class PostgresClaimQueries(LibpqQueries):
    """Queries under the claim lock."""

    __slots__ = ("_answers", "_last_answered_fence", "_log_rows", "_row", "_start")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._start: ClaimStart | None = None
        self._row: Row = ()
        self._log_rows: Sequence[Row] = ()
        self._answers: list[tuple[int, str, int]] = []
        self._last_answered_fence = 0

    def begun_with(self, results: Sequence[StatementResult]) -> None:
        """Take over the rows of `start_statements`."""
        self._start = ClaimStart((results[0][0])[0], *[rows for rows, _ in results[1:]])

    @property
    def waiting_claims(self) -> list[WaitingClaim]:
        """The claims of other sessions that wait."""
        return [] if self._start is None else [WaitingClaim._make(row) for row in self._start.waiting]

    def answer(self, pid: int, claimed: Sequence[ClaimedRow]) -> None:
        """Record what was claimed for another session, which reads those documents itself once this claim is saved."""
        first_fence = claimed[0].fence if claimed else 0
        self._answers.append((pid, array_literal([row.seq for row in claimed]), first_fence))
        if claimed:
            self._last_answered_fence = claimed[-1].fence

    @property
    def version(self) -> int:
        """How many transactions have written lanes, this one included once it has."""
        return int(self._row[VERSION_COLUMN])

    def read_queue(self) -> QueueState:
        (self._row,) = self.fetch_all("queue") if self._start is None else [self._start.queue]
        return queue_state(self._row)

    def take_lane_log(self, *, whole: bool = False) -> list[LaneChange]:
        *_, is_foreign, _ = self._row
        started, self._start = self._start, None
        self._log_rows = self.fetch_all("take_lane_log") if started is None else started.lane_log
        rest = self.fetch_all("take_whole_lane_log") if whole or is_foreign else []
        return lane_changes([*[row[:LOG_LENGTH] for row in self._log_rows], *rest])

    def logged_lanes(self) -> list[Row]:
        logged = [row for row in self._log_rows if row[LOG_LANE_COLUMN] is not None]
        return [(row[1], lane_track(row[LOG_LANE_COLUMN]), *row[LOG_LENGTH:]) for row in logged]

    def first_lanes(self) -> list[Row]:
        return [] if self._start is None else list(self._start.first_lanes)

    def save_claim(self, claim: ClaimWrite, *, is_last: bool) -> list[Row]:
        """Write it all in one statement, if anything changed. Fences that are reserved have to be on the disk."""
        _, _, _, deadlines, version, _, reserved, _, is_alive, *_ = self._row
        self.execute_many("save_limits", LIMITS_COLUMNS, claim.limits)
        self.execute_many("save_queue_scheduler", ("queue", "state"), claim.queue_states)
        claim.groups.write(self)
        reserves = not is_alive or claim.fence > reserved
        if reserves:
            reserved = claim.fence + FENCE_BLOCK_SIZE
            self.execute("set_crash_sentinel")
            self.execute("commit_durably")
        bounds = claim.deadlines.to_json()
        if not (claim.has_changes or reserves or self._answers or bounds != deadlines):
            return []
        values = {
            "claimed": row_array(claim.claimed),
            "events": row_array(_event_rows(claim)),
            "lanes": row_array([(*row, *sort_key) for row, sort_key, _ in claim.lanes]),
            "old_lanes": row_array(_old_lanes(claim)),
            "work": row_array([row for row, _ in claim.work]),
            "old_work": row_array([(*row[:2], version) for row, version in claim.work if version is not None]),
            "answers": row_array(self._answers),
            "version": version,
            "ordered": claim.ordered,
            "scheduler_state": claim.scheduler_state,
            "deadlines": bounds,
            "last_fence": claim.fence,
            "reserved": reserved,
            "first_own_fence": self._last_answered_fence + 1,
        }
        self._row = (*self._row[:VERSION_COLUMN], version + 1, *self._row[VERSION_COLUMN + 1 :])
        return self.fetch_final("save_claim", **values) if is_last else self.fetch_all("save_claim", **values)


def _old_lanes(claim: ClaimWrite) -> list[Row]:
    """The keys of rows that are replaced or deleted."""
    replaced = [lane for _, _, lane in claim.lanes if lane.stored_row is not None]
    return [(lane.owner, lane.track, *lane.locator) for lane in (*replaced, *claim.spent_lanes)]


def _event_rows(claim: ClaimWrite) -> list[Row]:
    """Rows for the outbox; of a claim's own event, the statement that claims its documents knows the ids."""
    rows: list[Row] = []
    for now, event in claim.events:
        *columns, queues = event_row(event)
        rows.append((now, *columns, None, queues))
    for now, customers, first_fence, queues in claim.started:
        arrays = array_literal(customers), None if queues is None else array_literal(queues)
        rows.append((now, str(EventKind.STARTED), arrays[0], None, None, None, None, first_fence, arrays[1]))
    return rows

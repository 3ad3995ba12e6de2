"""Rows that a claim reads first and writes last: the queue's own, the scheduler's state, and the claim itself."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from inturn.stores.postgres.queries import EVENT_COLUMNS, Row, to_columns


class QueueRow(NamedTuple):
    """The rows of queue_state and scheduler_state, and what the same query tells of other tables."""

    policy: int
    ordered: str
    scheduler_state: str
    deadlines: str
    version: int
    fence: int
    reserved: int
    paused_by: str | None
    has_crash_sentinel: bool
    has_limits: bool
    """Whether any customer has settings of its own."""
    is_foreign: bool
    """Whether `folded` is a snapshot of another server, as after a restore; then it is of no use."""
    has_changes: bool
    server_time: int


class ClaimedRow(NamedTuple):
    """A document that a claim takes."""

    owner: int
    lane: int
    seq: int
    fence: int


class ClaimWrite(NamedTuple):
    """What a claim writes together with its lanes: the documents claimed, and the events."""

    now: int
    events: Sequence[Row] = ()
    claimed: Sequence[ClaimedRow] = ()
    worker: str = ""
    lease_until: int = 0
    customer_names: Mapping[int, str] = MappingProxyType({})

    def to_params(self) -> dict[str, Any]:
        """The parameters of `save_claim`."""
        return {
            "now": self.now,
            "worker": self.worker,
            "until": self.lease_until,
            **to_columns(EVENT_COLUMNS, self.events),
            **to_columns(ClaimedRow._fields, self.claimed),
        }

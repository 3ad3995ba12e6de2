"""What a claim reads first and writes last: the queue's own rows, where the turns are, and the work it did."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from inturn.stores.postgres.queries import EVENT_COLUMNS, Row, to_columns


class QueueRow(NamedTuple):
    """The queue's rows, and what one look tells besides."""

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
    """The snapshot of the last fold is of another server: it tells nothing here."""
    has_changes: bool
    server_time: int


class ClaimedRow(NamedTuple):
    """A document that a claim takes."""

    owner: int
    lane: int
    seq: int
    fence: int


class ClaimWrite(NamedTuple):
    """What a claim writes down together with the lines: the documents it starts, and the events."""

    now: int
    events: Sequence[Row] = ()
    claimed: Sequence[ClaimedRow] = ()
    worker: str = ""
    lease_until: int = 0
    customer_names: Mapping[int, str] = MappingProxyType({})
    """The customers'."""

    def to_params(self) -> dict[str, Any]:
        """For its statement."""
        return {
            "now": self.now,
            "worker": self.worker,
            "until": self.lease_until,
            **to_columns(EVENT_COLUMNS, self.events),
            **to_columns(ClaimedRow._fields, self.claimed),
        }

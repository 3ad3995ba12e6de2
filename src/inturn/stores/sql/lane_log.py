"""Record changes to lanes. Only claims write lanes: everything else appends to the lane log for the next claim.

Documents and changes name their lane by a number: 1,000 times the number of the document's group, plus ten times the
number of its queue, plus the level. Group 0 holds documents without a group, and queue 0 is the queue `default`.
"""

import json
from typing import Any, Final, NamedTuple

from inturn.model import CustomerSettings, settings_to_dict
from inturn.policy.groups import UNGROUPED, GroupName
from inturn.policy.scheduler import LEVELS, TRACKS, Head, track_of
from inturn.stores.sql.queries import Queries

LOG_COLUMNS: Final = (
    "customer", "kind", "level", "n", "seq", "ready_at", "cost", "settings", "charged", "worked",
)  # fmt: skip


class LaneChange(NamedTuple):
    """One entry of the lane log."""

    owner: int
    kind: str
    lane: int | None = None
    """The number of the lane; in the column `level`."""
    n: int | None = None
    """The change of the lane's length, wherever `lane` is set; otherwise the customer's running documents."""
    seq: int | None = None
    """Of a document; with `in_flight`, the number of a queue. With `part_ended`, that of the part or the whole."""
    ready_at: int | None = None
    cost: float | None = None
    settings: str | None = None
    charged: int | None = None
    """What the lane was charged for a document that runs no more; None if runs were not tracked."""
    worked: int | None = None
    """The worker time of that document."""

    @property
    def head(self) -> Head:
        """The document that the entry speaks of."""
        return Head(self.seq or 0, self.ready_at or 0, self.cost or 0.0)

    @property
    def group(self) -> GroupName:
        """The number of the group whose documents changed, or UNGROUPED."""
        return (self.lane or 0) // TRACKS or UNGROUPED


class LaneLog:
    """The changes of one transaction, in order."""

    def __init__(self) -> None:
        self.changes: list[LaneChange] = []

    def joined(self, owner: int, lane: int, n: int, head: Head) -> None:
        """`n` new documents joined a lane; `head` is the first."""
        self._add(owner, "joined", lane, n, *_stored(head))

    def requeued(self, owner: int, lane: int, head: Head) -> None:
        """A document came back into a lane."""
        self._add(owner, "requeued", lane, 1, *_stored(head))

    def released(self, owner: int, lane: int, head: Head, charged: int | None) -> None:
        """A claimed document came back unstarted."""
        self._add(owner, "released", lane, 1, *_stored(head), charged=charged)

    def ended(self, owner: int, lane: int, charged: int, worked: int, cost: float | None) -> None:
        """A charged document runs no more; `cost` is None if its time says nothing of others."""
        stored = None if cost is None else float(cost)
        self._add(owner, "ended", lane, 0, cost=stored, charged=charged, worked=worked)

    def in_flight(self, owner: int, queue: int, n: int) -> None:
        """`n` charged documents of a customer run in a queue."""
        self._add(owner, "in_flight", None, n, queue)

    def left(self, owner: int, lane: int, seq: int) -> None:
        """A document left a lane other than by a claim."""
        self._add(owner, "left", lane, -1, seq)

    def emptied(self, owner: int, lane: int, n: int) -> None:
        """All `n` documents of a lane are gone."""
        self._add(owner, "emptied", lane, -n)

    def part_ended(self, owner: int, seq: int) -> None:
        """A part has ended; or a document is split again, and the next claim has to look at its parts."""
        self._add(owner, "part_ended", None, None, seq)

    def stopped(self, owner: int) -> None:
        """A document of a customer with a cap runs no more."""
        self._add(owner, "stopped")

    def settings_changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        """A customer has new settings, and `running` documents that run."""
        self._add(owner, "changed", None, running, settings=json.dumps(settings_to_dict(settings._asdict())))

    def deadline_set(self, owner: int, kind: str, at: int) -> None:
        """A `start_by`, a lease or a delay of one of its documents ends at this time."""
        self._add(owner, kind, ready_at=at)

    def append_to(self, queries: Queries) -> None:
        """Append all changes to the lane log."""
        queries.execute_many("append_to_lane_log", LOG_COLUMNS, self.changes)
        self.changes = []

    def take(self) -> list[LaneChange]:
        """Return all changes, and forget them: a claim applies them itself."""
        changes, self.changes = self.changes, []
        return changes

    def _add(self, owner: int, kind: str, *more: Any, **columns: Any) -> None:
        self.changes.append(LaneChange(owner, kind, *more, **columns))


def lane_number(track: int, group: int) -> int:
    """Return the number of a lane by its track and the number of a group."""
    return track + group * TRACKS


def lane_track(lane: int) -> int:
    """Return the track of a lane by its number: what it has in the column `level` of the table `lane`."""
    return lane % TRACKS


def level_of(lane: int) -> int:
    """Return the level of a lane by its number, or of a track."""
    return lane % len(LEVELS)


def queue_of(track: int) -> int:
    """Return the number of the queue of a track."""
    return track // len(LEVELS)


def move_to_level(lane: int, level: int) -> int:
    """Return the number of the lane of the same queue and group in another level."""
    return lane - level_of(lane) + level


def move_to_queue(lane: int, queue: int, level: int) -> int:
    """Return the number of the lane of the same group in another queue. A document that is expedited stays so."""
    return lane_number(track_of(queue, level_of(lane) and level), lane // TRACKS)


def _stored(head: Head) -> tuple[int, int, float]:
    return head.seq, head.ready_at, float(head.cost)

"""Record changes to lanes: in the claim window during a claim, otherwise in the lane log for the next claim."""

import json
from typing import Any, Final, Protocol

from inturn.model import CustomerSettings, settings_to_dict
from inturn.policy.scheduler import Head
from inturn.stores.postgres.queries import Queries

LOG_COLUMNS: Final = ("customer", "kind", "level", "n", "seq", "ready_at", "cost", "settings")


class LaneRecorder(Protocol):
    """Takes changes to lanes: the lane log, or a claim window."""

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        """`n` new documents joined a lane; `head` is the first."""
        ...

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        """`n` documents came back into a lane; `head` is the first."""
        ...

    def released(self, owner: int, level: int, head: Head) -> None:
        """A claimed document came back unstarted."""
        ...

    def left(self, owner: int, level: int, seq: int) -> None:
        """A document left a lane other than by a claim."""
        ...

    def stopped(self, owner: int) -> None:
        """A document of a customer with a cap runs no more."""
        ...

    def settings_changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        """A customer has new settings, and `running` documents that run."""
        ...

    def deadline_set(self, owner: int, kind: str, at: int) -> None:
        """A `start_by`, a lease or a delay of one of its documents ends at this time."""
        ...

    def flush(self, queries: Queries) -> None:
        """Write what was recorded; the last step of a transaction."""
        ...


class LaneLog:
    """Appends rows to the lane log for the next claim, all at once at the end of the transaction."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        self._rows.append((owner, "joined", level, n, head.seq, head.ready_at, float(head.cost), None))

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self._rows.append((owner, "requeued", level, n, head.seq, head.ready_at, float(head.cost), None))

    def released(self, owner: int, level: int, head: Head) -> None:
        self._rows.append((owner, "released", level, 1, head.seq, head.ready_at, float(head.cost), None))

    def left(self, owner: int, level: int, seq: int) -> None:
        self._rows.append((owner, "left", level, -1, seq, None, None, None))

    def emptied(self, owner: int, level: int, n: int) -> None:
        """All `n` documents of a lane are gone."""
        self._rows.append((owner, "emptied", level, -n, None, None, None, None))

    def stopped(self, owner: int) -> None:
        self._rows.append((owner, "stopped", None, None, None, None, None, None))

    def settings_changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        text = json.dumps(settings_to_dict(settings._asdict()))
        self._rows.append((owner, "changed", None, running, None, None, None, text))

    def deadline_set(self, owner: int, kind: str, at: int) -> None:
        self._rows.append((owner, kind, None, None, None, at, None, None))

    def flush(self, queries: Queries) -> None:
        queries.execute_many("append_to_lane_log", LOG_COLUMNS, self._rows)

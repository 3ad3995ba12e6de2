"""Record changes to lanes: in the claim window during a claim, otherwise in the lane log for the next claim."""

import json
from typing import Protocol

from inturn.model import CustomerSettings, settings_to_dict
from inturn.policy.scheduler import Head
from inturn.stores.sqlite.queries import Queries


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

    def allocate_event_numbers(self, n: int) -> int:
        """The last of n new numbers for events."""
        ...


class LaneLog:
    """Appends line changes for the next claim."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        self._queries.execute("append_to_lane_log", owner, "joined", level, n, *head, None)

    def requeued(self, owner: int, level: int, n: int, head: Head) -> None:
        self._queries.execute("append_to_lane_log", owner, "requeued", level, n, *head, None)

    def released(self, owner: int, level: int, head: Head) -> None:
        self._queries.execute("append_to_lane_log", owner, "released", level, 1, *head, None)

    def left(self, owner: int, level: int, seq: int) -> None:
        self._queries.execute("append_to_lane_log", owner, "left", level, -1, seq, None, None, None)

    def emptied(self, owner: int, level: int, n: int) -> None:
        """All `n` documents of a lane are gone."""
        self._queries.execute("append_to_lane_log", owner, "emptied", level, -n, None, None, None, None)

    def stopped(self, owner: int) -> None:
        self._queries.execute("append_to_lane_log", owner, "stopped", None, None, None, None, None, None)

    def settings_changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        text = json.dumps(settings_to_dict(settings._asdict()))
        self._queries.execute("append_to_lane_log", owner, "changed", None, running, None, None, None, text)

    def allocate_event_numbers(self, n: int) -> int:
        return int((self._queries.fetch_one("allocate_events", n=n) or (n,))[0])

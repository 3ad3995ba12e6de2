"""What a claim reads first and writes last: the queue's own rows, where the turns are, and the work it did."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from inturn.stores.postgres.tables import NEWS, Row, columns


class QueueRow(NamedTuple):
    """The queue's rows, and what one look tells besides."""

    policy: int
    ordered: str
    standing: str
    bounds: str
    version: int
    fence: int
    reserved: int
    paused_by: str | None
    alive: bool
    has_limits: bool
    """Whether any customer has settings of its own."""
    is_foreign: bool
    """The snapshot of the last fold is of another server: it tells nothing here."""
    has_changes: bool
    at: int


class Taken(NamedTuple):
    """A document that a claim takes."""

    owner: int
    line: int
    seq: int
    fence: int


class Work(NamedTuple):
    """What a claim writes down together with the lines: the documents it starts, and the events."""

    now: int
    news: Sequence[Row] = ()
    taken: Sequence[Taken] = ()
    worker: str = ""
    until: int = 0
    names: Mapping[int, str] = MappingProxyType({})
    """The customers'."""

    def values(self) -> dict[str, Any]:
        """For its statement."""
        return {
            "now": self.now,
            "worker": self.worker,
            "until": self.until,
            **columns(NEWS, self.news),
            **columns(Taken._fields, self.taken),
        }

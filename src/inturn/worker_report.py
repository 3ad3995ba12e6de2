"""What a worker reports of itself with every heartbeat, and what a store keeps of it."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from inturn.model import DEFAULT_QUEUE


class Progress(NamedTuple):
    """Progress that a processor reports for a document."""

    done: float
    total: float | None = None


class WorkerReport(NamedTuple):
    """The status that a worker reports with every heartbeat."""

    name: str
    host: str
    process: int
    slots: int
    busy: int
    processor: str
    started_at: int
    stopping: bool = False
    progress: Mapping[str, Progress] = MappingProxyType({})
    """By document id, for processors that report progress."""
    at_work: Mapping[str, int] | None = None
    """By document id: microseconds that a slot has been processing it. Other claims of the worker are prefetched.
    None if the worker does not report it."""
    version: str | None = None
    """The version of Inturn that the worker runs. None if it does not report it."""
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    """The queues that it serves."""

    @property
    def open_slots(self) -> int:
        """The slots that take documents: none of a worker that stops."""
        return 0 if self.stopping else self.slots


def report_to_json(report: WorkerReport) -> tuple[str, str | None]:
    """Serialize a report without `version`; what older versions do not know is separate."""
    fields = {**report._asdict(), "progress": dict(report.progress)}
    at_work = fields.pop("at_work")
    del fields["version"]
    if report.queues == (DEFAULT_QUEUE,):
        del fields["queues"]
    return json.dumps(fields), None if at_work is None else json.dumps(dict(at_work))


def report_from_json(text: str, at_work: str | None, version: str | None = None) -> WorkerReport:
    """Parse the output of `report_to_json`."""
    fields = json.loads(text)
    fields["progress"] = {id_: Progress(*values) for id_, values in fields["progress"].items()}
    fields["at_work"] = None if at_work is None else json.loads(at_work)
    fields["queues"] = tuple(fields.get("queues", (DEFAULT_QUEUE,)))
    return WorkerReport(**fields, version=version)


class WorkerPause(NamedTuple):
    """The operator who paused a worker, the reason, and the time."""

    operator: str
    why: str
    at: int


class Worker(NamedTuple):
    """A worker's last report, when the store received it, and its pause."""

    report: WorkerReport
    seen_at: int
    paused: WorkerPause | None = None
    """None: it takes documents."""

    @property
    def open_slots(self) -> int:
        """The slots that take documents: none of a worker that stops or is paused."""
        return self.report.open_slots if self.paused is None else 0

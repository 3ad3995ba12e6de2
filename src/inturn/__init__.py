"""Inturn: a durable document queue in which no customer waits behind another customer's pile."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inturn.blobs import open_blobs
    from inturn.client import Client
    from inturn.clock import Clock, ManualClock, SystemClock
    from inturn.counters import Counters, open_counters
    from inturn.errors import (
        IllegalTransitionError,
        InturnError,
        InvalidInputError,
        KeyConflictError,
        NotFoundError,
        StaleFenceError,
        StoreError,
        StoreNotFoundError,
        VersionConflictError,
    )
    from inturn.model import (
        Check,
        Claim,
        Customer,
        CustomerSettings,
        Document,
        DocumentState,
        NewDocument,
        RateLimit,
        Receipt,
    )
    from inturn.policy import Charge, CostPolicy, Order, Policy, PriorityPolicy, RetryPolicy, TurnPolicy
    from inturn.processor_api import EndedPart, Next, OpenDocument, Part, Parts, Reject, Result, Retry, StoredFile
    from inturn.queue import Queue
    from inturn.store_types import (
        Attempt,
        CustomerFilter,
        DocumentFilter,
        DocumentSort,
        DocumentTime,
        Operator,
        PartResult,
        StepResult,
        TimeRange,
    )
    from inturn.stores import migrate, open_store
    from inturn.values import seconds
    from inturn.worker.invoke import runs_in
    from inturn.worker.marked import processor
    from inturn.worker.options import QueueOptions, WorkerOptions
    from inturn.worker.worker import Worker

__version__ = "0.1.0"

_MODULES = {
    "inturn.blobs": "open_blobs",
    "inturn.client": "Client",
    "inturn.clock": "Clock ManualClock SystemClock",
    "inturn.counters": "Counters open_counters",
    "inturn.errors": (
        "IllegalTransitionError InturnError InvalidInputError KeyConflictError NotFoundError StaleFenceError StoreError"
        " StoreNotFoundError VersionConflictError"
    ),
    "inturn.model": ("Check Claim Customer CustomerSettings Document DocumentState NewDocument RateLimit Receipt"),
    "inturn.policy": "Charge CostPolicy Order Policy PriorityPolicy RetryPolicy TurnPolicy",
    "inturn.processor_api": "EndedPart Next OpenDocument Part Parts Reject Result Retry StoredFile",
    "inturn.queue": "Queue",
    "inturn.store_types": (
        "Attempt CustomerFilter DocumentFilter DocumentSort DocumentTime Operator PartResult StepResult TimeRange"
    ),
    "inturn.stores": "migrate open_store",
    "inturn.values": "seconds",
    "inturn.worker.invoke": "runs_in",
    "inturn.worker.marked": "processor",
    "inturn.worker.options": "QueueOptions WorkerOptions",
    "inturn.worker.worker": "Worker",
}
"""The public names by module, imported on first access: a worker's child needs none of the stores, nor a program that
only submits the worker."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "Attempt",
    "Charge",
    "Check",
    "Claim",
    "Client",
    "Clock",
    "CostPolicy",
    "Counters",
    "Customer",
    "CustomerFilter",
    "CustomerSettings",
    "Document",
    "DocumentFilter",
    "DocumentSort",
    "DocumentState",
    "DocumentTime",
    "EndedPart",
    "IllegalTransitionError",
    "InturnError",
    "InvalidInputError",
    "KeyConflictError",
    "ManualClock",
    "NewDocument",
    "Next",
    "NotFoundError",
    "OpenDocument",
    "Operator",
    "Order",
    "Part",
    "PartResult",
    "Parts",
    "Policy",
    "PriorityPolicy",
    "Queue",
    "QueueOptions",
    "RateLimit",
    "Receipt",
    "Reject",
    "Result",
    "Retry",
    "RetryPolicy",
    "StaleFenceError",
    "StepResult",
    "StoreError",
    "StoreNotFoundError",
    "StoredFile",
    "SystemClock",
    "TimeRange",
    "TurnPolicy",
    "VersionConflictError",
    "Worker",
    "WorkerOptions",
    "migrate",
    "open",
    "open_blobs",
    "open_counters",
    "open_store",
    "processor",
    "runs_in",
    "seconds",
]


def open(url: str, *, clock: "Clock | None" = None) -> "Queue":  # noqa: A001 - reads as inturn.open(…)
    """Open the queue at an address, for example `memory://` or `inturn.db`.

    A missing file is created. A queue in PostgreSQL is created and upgraded only by `inturn.migrate(url)`.
    """
    from inturn.queue import Queue  # noqa: PLC0415 - on first use, as all that this package exports
    from inturn.stores import open_store  # noqa: PLC0415 - same

    return Queue(open_store(url, clock), clock=clock)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'inturn' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

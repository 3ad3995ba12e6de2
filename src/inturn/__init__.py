"""Inturn: a durable document queue in which no customer waits behind another customer's pile."""

import importlib
from typing import TYPE_CHECKING, Any

from inturn.clock import Clock, ManualClock, SystemClock
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
    seconds,
)
from inturn.policy import Charge, CostPolicy, Order, Policy, PriorityPolicy, RetryPolicy, TurnPolicy
from inturn.processor import OpenDocument, Reject, Result, Retry
from inturn.queue import Queue
from inturn.store import Attempt, CustomerFilter, DocumentFilter, DocumentSort, Operator
from inturn.stores import migrate, open_store

if TYPE_CHECKING:
    from inturn.blobs import open_blobs
    from inturn.client import Client
    from inturn.counters import Counters, open_counters
    from inturn.worker.invoke import runs_in
    from inturn.worker.options import WorkerOptions
    from inturn.worker.worker import Worker

__version__ = "0.1.0"

_LAZY_IMPORTS = {
    "Client": "inturn.client",
    "Counters": "inturn.counters",
    "Worker": "inturn.worker.worker",
    "WorkerOptions": "inturn.worker.options",
    "open_blobs": "inturn.blobs",
    "open_counters": "inturn.counters",
    "runs_in": "inturn.worker.invoke",
}
"""Imported on first access: a program that only submits does not load the worker."""

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
    "IllegalTransitionError",
    "InturnError",
    "InvalidInputError",
    "KeyConflictError",
    "ManualClock",
    "NewDocument",
    "NotFoundError",
    "OpenDocument",
    "Operator",
    "Order",
    "Policy",
    "PriorityPolicy",
    "Queue",
    "RateLimit",
    "Receipt",
    "Reject",
    "Result",
    "Retry",
    "RetryPolicy",
    "StaleFenceError",
    "StoreError",
    "StoreNotFoundError",
    "SystemClock",
    "TurnPolicy",
    "VersionConflictError",
    "Worker",
    "WorkerOptions",
    "migrate",
    "open",
    "open_blobs",
    "open_counters",
    "open_store",
    "runs_in",
    "seconds",
]


def open(url: str, *, clock: Clock | None = None) -> Queue:  # noqa: A001 - reads as inturn.open(…)
    """Open the queue at an address, for example `memory://` or `inturn.db`.

    A missing file is created. A queue in PostgreSQL is created and upgraded only by `inturn.migrate(url)`.
    """
    return Queue(open_store(url, clock), clock=clock)


def __getattr__(name: str) -> Any:
    if name in _LAZY_IMPORTS:
        return getattr(importlib.import_module(_LAZY_IMPORTS[name]), name)
    raise AttributeError(f"module 'inturn' has no attribute {name!r}")

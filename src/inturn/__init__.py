"""Inturn: a durable document queue in which no customer waits behind another customer's pile."""

from inturn.clock import Clock, ManualClock, SystemClock
from inturn.errors import (
    IllegalMoveError,
    InturnError,
    InvalidInputError,
    KeyConflictError,
    NotFoundError,
    StaleFenceError,
    StoreError,
    VersionConflictError,
)
from inturn.model import (
    Check,
    Claimed,
    Customer,
    CustomerSettings,
    Document,
    DocumentState,
    NewDocument,
    RateLimit,
    Receipt,
    seconds,
)
from inturn.policy import Order, Policy, PriorityPolicy, RetryPolicy, TurnPolicy
from inturn.queue import Queue
from inturn.store import CustomerFilter, DocumentFilter, Operator
from inturn.stores import open_store

__version__ = "0.1.0"

__all__ = [
    "Check",
    "Claimed",
    "Clock",
    "Customer",
    "CustomerFilter",
    "CustomerSettings",
    "Document",
    "DocumentFilter",
    "DocumentState",
    "IllegalMoveError",
    "InturnError",
    "InvalidInputError",
    "KeyConflictError",
    "ManualClock",
    "NewDocument",
    "NotFoundError",
    "Operator",
    "Order",
    "Policy",
    "PriorityPolicy",
    "Queue",
    "RateLimit",
    "Receipt",
    "RetryPolicy",
    "StaleFenceError",
    "StoreError",
    "SystemClock",
    "TurnPolicy",
    "VersionConflictError",
    "open",
    "open_store",
    "seconds",
]


def open(url: str, *, clock: Clock | None = None) -> Queue:  # noqa: A001 - reads as inturn.open(…)
    """A queue on the store at this address, for example `memory://`."""
    return Queue(open_store(url, clock), clock=clock)

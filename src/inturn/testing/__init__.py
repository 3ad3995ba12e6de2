"""Helpers for tests of programs that use Inturn: a queue in memory, a manual clock, inline processors.

Authors of stores find the contract suite in `inturn.testing.contract` (needs the extra `testing`).
"""

from inturn.clock import ManualClock
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.testing.given import GivenDocument, GivenPart
from inturn.testing.inline import run_inline, run_pipeline

__all__ = ["GivenDocument", "GivenPart", "ManualClock", "memory_queue", "run_inline", "run_pipeline"]


def memory_queue(clock: ManualClock | None = None) -> Queue:
    """Create a queue in memory; without a clock, the time is always 0."""
    clock = clock or ManualClock()
    return Queue(open_store("memory://", clock), clock=clock)

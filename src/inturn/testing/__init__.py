"""For tests of programs that use Inturn: a queue in memory with a clock that you move.

Authors of stores find the contract suite in `inturn.testing.contract` (needs the extra `testing`).
"""

from inturn.clock import ManualClock
from inturn.queue import Queue
from inturn.stores import open_store

__all__ = ["ManualClock", "memory_queue"]


def memory_queue(clock: ManualClock | None = None) -> Queue:
    """A queue that lives as long as the test; without a clock, time stands still at 0."""
    clock = clock or ManualClock()
    return Queue(open_store("memory://", clock), clock=clock)

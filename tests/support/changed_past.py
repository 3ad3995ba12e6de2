"""A past in which the policy was changed three times, written into a store as one worker would have left it.

Version 2, before anything came, gives one level to everybody. Version 3 takes that back after a first flood, and small
customers wait less in the second one. Version 4 is as version 2, but no third flood comes that could hold anybody up.
"""

from pathlib import Path
from typing import Final

from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import SECOND

FLOOD: Final = 120
SMALL: Final = 24
ONE_LEVEL: Final = Policy(PriorityPolicy(thresholds=(-(10**6),)), TurnPolicy(order=Order.CLASSIC))
OLIVIA: Final = Operator("olivia", "to see what comes of it")


def write(path: Path, began: int) -> None:
    """From `began` on; it takes about a quarter of an hour of its own clock."""
    clock = ManualClock(began)
    with Queue(open_store(str(path), clock), clock=clock) as queue:
        for policy, flood in ((ONE_LEVEL, FLOOD), (Policy(), FLOOD), (ONE_LEVEL, 0)):
            clock.advance(60 * SECOND)
            queue.set_policy(policy, OLIVIA)
            clock.advance(60 * SECOND)
            _work(queue, clock, flood)


def _work(queue: Queue, clock: ManualClock, flood: int) -> None:
    """A flood at once, a document of a small customer every other second; each takes one second."""
    if flood:
        queue.submit("flood", [NewDocument("scan.pdf")] * flood)
    for second in range(flood + 2 * SMALL):
        if second < 2 * SMALL and second % 2 == 0:
            queue.submit(f"small {second // 2:02}", [NewDocument("letter.pdf")])
        claimed = queue.claim("worker")
        clock.advance(SECOND)
        for claim in claimed:
            queue.finish(claim)

"""What happened to one document, found among the events of all."""

import inturn
from inturn.clock import ManualClock
from inturn.insights import life
from inturn.insights.life import LOOKED
from inturn.model import SECOND, NewDocument

HOUR = 3_600 * SECOND


def test_it_is_looked_for_where_its_own_times_say() -> None:
    """Hours apart, and more events in between than are looked through."""
    clock = ManualClock(HOUR)
    with inturn.open("memory://", clock=clock) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        clock.advance(HOUR)
        for _ in range(LOOKED + 10):
            queue.submit("beta", [NewDocument("b", delay=24 * HOUR)])
        clock.advance(HOUR)
        (claimed,) = queue.claim("worker", 1)
        clock.advance(HOUR)
        queue.finish(claimed)
        found = life(queue.store, queue.document(receipt.id))
    assert [str(each.kind) for each in found.events] == ["submitted", "started", "finished"]
    assert not found.is_whole


def test_it_is_whole_when_all_of_it_was_looked_through() -> None:
    clock = ManualClock(HOUR)
    with inturn.open("memory://", clock=clock) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        for _ in range(1_500):
            clock.advance(SECOND)
            queue.submit("beta", [NewDocument("b", delay=24 * HOUR)])
        (claimed,) = queue.claim("worker", 1)
        queue.fail(claimed, "no", retry_in=SECOND)
        clock.advance(HOUR)
        (claimed,) = queue.claim("worker", 1)
        queue.finish(claimed)
        found = life(queue.store, queue.document(receipt.id))
    kinds = ["submitted", "started", "delayed", "due", "started", "finished"]
    assert ([str(each.kind) for each in found.events], found.is_whole) == (kinds, True)

"""Customers whose documents wait in a queue of their own are seen where everybody is seen."""

from pathlib import Path

import inturn
from inturn.clock import ManualClock
from inturn.insights import Insights
from inturn.testing import memory_queue
from inturn.values import seconds


def test_who_was_checked_of_late_stands_behind_who_waits() -> None:
    clock = ManualClock(seconds(10_000))
    queue = memory_queue(clock)
    queue.check("idle", 30)
    clock.advance(seconds(1501))
    queue.check("small", 2)
    queue.check("bulk", 30)
    queue.submit("here", [inturn.NewDocument("a")])
    shown = Insights(queue, clock).live().busiest
    assert [
        (busy_customer.customer.name, busy_customer.customer.count, busy_customer.level) for busy_customer in shown
    ] == [
        ("here", 0, 1),
        ("bulk", -29, 9),
        ("small", -1, 1),
    ]


def test_the_counters_of_a_file_are_those_of_its_queue(tmp_path: Path) -> None:
    path = str(tmp_path / "queue.db")
    with inturn.open_counters(path) as counters:
        counters.check("acme", 5)
    queue = inturn.open(path)
    assert queue.submit("acme", [inturn.NewDocument("a")])[0].count == -5
    assert [busy_customer.customer.name for busy_customer in Insights(queue).live().busiest] == ["acme"]
    queue.store.close()

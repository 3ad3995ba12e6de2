"""Shares of worker seconds against fair shares."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.insights import Insights, ShareMeter, Shares
from inturn.insights.shares import SHARE_WINDOW, fair_shares
from inturn.model import Claim, NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator, Work
from inturn.stores import open_store
from inturn.values import seconds
from inturn.worker_report import WorkerReport

START = seconds(1_700_000_000)
ANNA = Operator("anna", "")


class Measured:
    """A queue whose shares are measured in spans, as a server does."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.queue = Queue(open_store("memory://", clock=self.clock), clock=self.clock)
        self.insights = Insights(self.queue, self.clock)
        self.meter = ShareMeter(START)

    def submit(self, customer: str, n: int = 1) -> None:
        self.queue.submit(customer, [NewDocument("a document")] * n)

    def claim(self, n: int = 1, worker: str = "worker") -> tuple[Claim, ...]:
        return self.queue.claim(worker, n, lease=seconds(7_200))

    def run(self, length: float, *, step: float = 5) -> None:
        """Let time pass and measure every few seconds."""
        for _ in range(round(length / step)):
            self.clock.advance(seconds(step))
            self.measure()

    def measure(self) -> None:
        now = self.clock.now()
        log = self.queue.work_between(self.meter.until, now)
        self.meter.add(log, now, workers=self.queue.workers(), lanes=self.queue.scheduler_snapshot().lanes)

    def shares(self) -> Shares:
        return self.meter.shares()


@pytest.fixture
def measured() -> Measured:
    return Measured()


def parts(shares: Shares) -> dict[str, tuple[float, float]]:
    """The actual and the fair share of each customer, rounded."""
    return {name: (round(share.received, 3), round(share.due, 3)) for name, share in shares.customers.items()}


def test_running_document_counts_while_it_runs(measured: Measured) -> None:
    measured.submit("acme")
    measured.claim()
    measured.run(30)
    shares = measured.shares()
    assert (shares.since, shares.until, shares.worked, shares.documents) == (START, START + seconds(30), seconds(30), 0)
    assert shares.customers["acme"] == (seconds(30), 0, 1.0, 1.0, False)


def test_long_document_counts_once_when_it_ends(measured: Measured) -> None:
    measured.submit("acme")
    (claim,) = measured.claim()
    measured.run(95)
    measured.clock.advance(seconds(2))
    measured.queue.finish(claim)
    measured.run(10)
    shares = measured.shares()
    assert (shares.worked, shares.documents) == (seconds(97), 1)


def test_shares_are_of_seconds_and_not_of_documents(measured: Measured) -> None:
    measured.submit("long")
    measured.submit("short", 9)
    claims = measured.claim(10)
    measured.clock.advance(seconds(10))
    for claim in claims:
        if claim.document.customer == "short":
            work = Work(0, seconds(1))
            outcome = measured.queue.done(claim)._replace(work=work)
            measured.queue.store.ack_and_claim([outcome], None)
    measured.run(10)
    shares = measured.shares()
    assert parts(shares) == {"long": (0.69, 0.69), "short": (0.31, 0.31)}
    assert [shares.customers[name].documents for name in ("long", "short")] == [0, 9]


def test_customer_that_runs_while_another_waits_is_over_its_share(measured: Measured) -> None:
    measured.submit("greedy")
    measured.claim()
    measured.submit("patient")
    measured.run(60)
    shares = measured.shares()
    assert parts(shares) == {"greedy": (1.0, 0.5), "patient": (0.0, 0.5)}
    assert [shares.customers[name].is_over for name in ("greedy", "patient")] == [True, False]


def test_fair_shares_go_by_weight(measured: Measured) -> None:
    measured.queue.change_customer("heavy", ANNA, weight=3.0)
    measured.submit("heavy")
    measured.claim()
    measured.submit("light")
    measured.run(60)
    assert parts(measured.shares()) == {"heavy": (1.0, 0.75), "light": (0.0, 0.25)}


def test_weight_of_a_customer_that_only_runs_counts(measured: Measured) -> None:
    measured.queue.change_customer("heavy", ANNA, weight=4.0)
    measured.submit("heavy", 4)
    measured.claim(4)
    measured.submit("light", 2)
    measured.claim(1)
    measured.run(60)
    shares = measured.shares()
    assert parts(shares) == {"heavy": (0.8, 0.8), "light": (0.2, 0.2)}
    assert not any(share.is_over for share in shares.customers.values())


def test_nothing_is_over_while_no_other_customer_waits(measured: Measured) -> None:
    measured.submit("flood", 50)
    measured.submit("small")
    measured.claim(11)
    measured.run(60)
    shares = measured.shares()
    assert parts(shares) == {"flood": (0.909, 0.909), "small": (0.091, 0.091)}
    assert not shares.customers["flood"].is_over


def test_customer_is_due_at_most_what_it_wanted(measured: Measured) -> None:
    for name in ("small", "flood"):
        measured.submit(name, 1 if name == "small" else 30)
    for claim in measured.claim(2):
        measured.clock.advance(seconds(2))
        measured.queue.finish(claim)
    measured.claim(2)
    measured.run(120)
    shares = measured.shares()
    assert shares.customers["small"].received == pytest.approx(shares.customers["small"].due)
    assert shares.customers["flood"].received == pytest.approx(shares.customers["flood"].due)


def test_short_backlog_wants_no_more_than_its_documents_take(measured: Measured) -> None:
    measured.submit("brief")
    (claim,) = measured.claim()
    measured.clock.advance(seconds(1))
    measured.queue.finish(claim)
    measured.submit("flood", 10)
    measured.claim(10)
    measured.submit("brief")
    measured.run(55)
    share = measured.shares().customers["brief"]
    assert (share.worked, round(share.due * measured.shares().worked)) == (seconds(1), seconds(2))


def test_newcomer_is_due_nothing_of_the_time_before_it_came(measured: Measured) -> None:
    measured.submit("early", 20)
    measured.claim(2)
    measured.run(55)
    measured.submit("late", 20)
    measured.run(5)
    shares = measured.shares()
    assert shares.customers["late"].due == pytest.approx(5 / 60, abs=0.001)
    assert not measured.shares().customers["late"].is_over


def test_paused_customer_wants_nothing(measured: Measured) -> None:
    measured.submit("acme", 5)
    measured.submit("beta", 5)
    measured.queue.pause(ANNA, "beta")
    measured.claim(1)
    measured.run(60)
    assert parts(measured.shares()) == {"acme": (1.0, 1.0)}


def test_documents_claimed_ahead_do_not_count(measured: Measured) -> None:
    measured.submit("acme", 3)
    measured.claim(3)
    ids = [document.id for document in measured.queue.documents().items]
    measured.clock.advance(seconds(20))
    report = WorkerReport("worker", "host", 1, 1, 1, "extract", 0, at_work={ids[0]: seconds(5)})
    measured.queue.record_worker(report)
    measured.run(30)
    shares = measured.shares()
    assert shares.customers["acme"].worked == seconds(35)


def test_failed_attempt_counts_and_its_document_does_not(measured: Measured) -> None:
    measured.submit("acme")
    (claim,) = measured.claim()
    measured.clock.advance(seconds(8))
    measured.queue.fail(claim, "no", retry_in=seconds(600))
    measured.run(10)
    assert measured.shares().customers["acme"] == (seconds(8), 0, 1.0, 1.0, False)


def test_window_is_at_most_ten_minutes(measured: Measured) -> None:
    measured.submit("early")
    (claim,) = measured.claim()
    measured.run(60)
    measured.queue.finish(claim)
    measured.submit("late")
    measured.claim()
    measured.run(480)
    assert set(measured.shares().customers) == {"early", "late"}
    measured.run(180)
    shares = measured.shares()
    assert set(shares.customers) == {"late"}
    assert 0 < shares.until - shares.since <= SHARE_WINDOW


def test_one_read_measures_the_last_ten_minutes(measured: Measured) -> None:
    measured.submit("greedy")
    measured.claim()
    measured.clock.advance(seconds(300))
    measured.submit("patient")
    measured.clock.advance(seconds(300))
    shares = measured.insights.shares()
    assert parts(shares) == {"greedy": (1.0, 0.5), "patient": (0.0, 0.5)}
    assert shares.customers["greedy"].is_over


def test_idle_queue_has_no_shares(measured: Measured) -> None:
    measured.submit("acme")
    measured.run(60)
    shares = measured.shares()
    assert (shares.worked, shares.customers, shares.of("acme"), shares.top(3)) == (0, {}, None, [])


def test_top_has_the_largest_shares_actual_or_fair(measured: Measured) -> None:
    for name, n in (("large", 3), ("small", 1)):
        measured.submit(name, n)
        measured.claim(n)
    measured.submit("starved")
    measured.run(60)
    shares = measured.shares()
    assert [name for name, _ in shares.top(2)] == ["large", "starved"]
    assert shares.of("unknown") == (0, 0, 0.0, 0.0, False)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.001, 1_000)), min_size=1, max_size=8),
    st.floats(0, 1e6),
)
def test_fair_shares_are_max_min(demands: Sequence[tuple[float, float]], capacity: float) -> None:
    result = fair_shares(demands, capacity)
    assert sum(result) == pytest.approx(min(capacity, sum(demand for demand, _ in demands)), abs=1e-3)
    levels = [share / weight for share, (_, weight) in zip(result, demands, strict=True)]
    for share, level, (demand, _) in zip(result, levels, demands, strict=True):
        assert -1e-6 <= share <= demand + 1e-6
        if share < demand * (1 - 1e-6) - 1e-6:  # it wanted more: no other customer got more by weight
            assert level >= max(levels) * (1 - 1e-6) - 1e-6

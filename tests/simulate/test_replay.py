"""History read from a store and played again."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import recorded_day
from inturn.analysis.charges import ChargeUnit
from inturn.analysis.compare import compare
from inturn.analysis.engine import LEASE, OPERATOR, Discipline, Run, simulate_scenario
from inturn.analysis.history import History
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN, Plan, replay
from inturn.analysis.scenario import Scenario, load_scenario, parse_scenario
from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.policy import CostPolicy, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.queue import Queue
from inturn.store import Store
from inturn.stores import open_store
from inturn.values import SECOND
from inturn.worker_report import WorkerReport

CLASSIC = Policy(turns=TurnPolicy(order=Order.CLASSIC))
SCENARIO = """
title = "Some of everything"
workers = 3
[[group]]
name = "flood"
arrivals = { kind = "burst", documents = 300, at = 5 }
service = { kind = "exponential", mean = 1.0 }
[[group]]
name = "small"
customers = 15
arrivals = { kind = "poisson", load = 0.5, until = 200 }
service = { kind = "exponential", mean = 1.0 }
"""


def small_scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "some.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return load_scenario(str(path))


def recorded(played: Run, store: Store, clock: ManualClock) -> None:
    """Do to a store exactly what happened in a run."""
    queue = Queue(store, clock=clock)
    steps = sorted(
        [(arrival.at, 1, number) for number, arrival in enumerate(played.arrivals)]
        + [(at, 2, number) for number, at in enumerate(played.started)]
        + [(at, 0, number) for number, at in enumerate(played.finished)]
    )
    claims = {}
    for at, kind, number in steps:
        queue.record_worker(WorkerReport("worker", "host", 1, played.scenario.workers, 0, "p", 0), now=at)
        arrival = played.arrivals[number]
        if kind == 1:
            queue.submit(arrival.customer, [NewDocument(str(number), cost=1.0)], now=at)
        elif kind == 2:
            (claimed,) = queue.claim("worker", 1, lease=LEASE, now=at)
            claims[int(claimed.document.spec.name)] = claimed
        else:
            queue.finish(claims[number], now=at)


@pytest.fixture
def past(tmp_path: Path) -> History:
    clock = ManualClock()
    store = open_store("memory://", clock)
    recorded(simulate_scenario(small_scenario(tmp_path), Discipline.FAIR), store, clock)
    return read_history(Queue(store), 0, max_documents=10_000)


def test_a_replay_under_the_same_policy_is_what_happened(past: History) -> None:
    played = replay(past, Plan(Policy()))
    assert [start - arrival.at for start, arrival in zip(played.started, past.arrivals, strict=True)] == past.waits
    assert list(played.levels) == list(past.levels)
    assert past.workers == 3
    assert not past.is_cut


def test_more_workers_wait_less(past: History) -> None:
    assert sum(replay(past, Plan(Policy(), workers=6)).started) < sum(replay(past, Plan(Policy())).started)


def test_a_comparison_tells_who_gains_and_who_pays(past: History) -> None:
    reported: list[tuple[int, int]] = []
    one_level = Policy(PriorityPolicy(thresholds=(-(10**6),)), TurnPolicy(order=Order.CLASSIC))
    comparison = compare(past, Plan(Policy()), Plan(one_level), lambda done, total: reported.append((done, total)))
    small = next(group for group in comparison.groups if group.group == "1-20")
    large = next(group for group in comparison.groups if group.group == "201+")
    assert small.measured == small.current
    assert small.proposed.mean > 10 * small.current.mean
    assert large.proposed.mean < large.current.mean
    assert {customer_change.customer for customer_change in comparison.less} == {"flood"}
    assert all(
        customer_change.customer.startswith("small") and customer_change.proposed > customer_change.current
        for customer_change in comparison.more
    )
    changes = [customer_change.proposed - customer_change.current for customer_change in comparison.more]
    assert changes == sorted(changes, reverse=True)
    assert sum(comparison.levels_current.values()) == comparison.documents == len(past.arrivals)
    assert set(comparison.levels_proposed) == {1}
    assert reported[-1] == (2 * comparison.documents,) * 2
    json.dumps(comparison.to_dict())


def test_nobody_gains_or_pays_where_nothing_changes(past: History) -> None:
    comparison = compare(past, Plan(CLASSIC), Plan(CLASSIC))
    assert comparison.less == comparison.more == ()


def test_weights_caps_and_rates_of_customers_count() -> None:
    clock = ManualClock()
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.change_customer("capped", OPERATOR, cap=1, now=0)
    queue.change_customer("slow", OPERATOR, rate=(1, 10 * SECOND), now=0)
    for customer in ("capped", "slow"):
        queue.submit(customer, [NewDocument("a document")] * 3, now=SECOND)
        for claimed in queue.claim("worker", 3, now=SECOND):
            queue.finish(claimed, now=2 * SECOND)
    for _ in range(8):
        clock.advance(20 * SECOND)
        for claimed in queue.claim("worker", 3, now=clock.now()):
            queue.finish(claimed, now=clock.now() + SECOND)
    past = read_history(queue, 0, max_documents=100)
    assert set(past.settings) == {"capped", "slow"}
    played = replay(past, Plan(Policy(), workers=6))
    waits: dict[str, list[int]] = {}
    for number, arrival in enumerate(past.arrivals):
        waits.setdefault(arrival.customer, []).append((played.started[number] - arrival.at) // SECOND)
    assert waits == {"capped": [0, 1, 2], "slow": [0, 10, 20]}


def test_retries_unfinished_and_never_started_documents() -> None:
    clock = ManualClock(1_000 * SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    ids = [receipt.id for receipt in queue.submit("acme", [NewDocument(name) for name in "abcd"])]
    (first,) = queue.claim("worker")
    clock.advance(2 * SECOND)
    queue.fail(first, "once more", retry_in=0)
    claimed = queue.claim("worker", 3)
    clock.advance(4 * SECOND)
    for claim in claimed[:2]:
        queue.finish(claim)
    queue.cancel(ids[3], OPERATOR)
    past = read_history(queue, 0, max_documents=100)
    assert sorted((arrival.failures, arrival.service // SECOND) for arrival in past.arrivals) == [
        (0, 4),
        (0, 4),
        (1, 4),
    ]
    assert [(wait or 0) // SECOND for wait in past.waits] == [0, 2, 2]
    assert replay(past, Plan(Policy(), workers=1)).finished[-1] > 0


def test_only_the_newest_are_read_and_that_is_told() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    for n in range(10):
        clock.advance(SECOND)
        queue.submit("acme", [NewDocument(str(n))])
        queue.finish(queue.claim("worker")[0])
    assert len(read_history(queue, 0, max_documents=100).arrivals) == 10
    cut = read_history(queue, 0, max_documents=4)
    assert cut.is_cut
    assert [arrival.at // SECOND for arrival in cut.arrivals] == [8, 9, 10, 11]
    assert len(read_history(queue, 9 * SECOND, max_documents=100).arrivals) == 3
    led = read_history(queue, 9 * SECOND, warmup=5 * SECOND, max_documents=4)
    assert (led.warmup_documents, led.is_cut) == (1, False)  # all that was asked for is there
    with pytest.raises(InvalidInputError, match="nothing to play"):
        read_history(queue, 100 * SECOND, max_documents=100)


def test_what_came_long_after_is_not_read() -> None:
    class Counting:
        """A queue that counts the documents it lists."""

        listed = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

        def documents(self, *asked: Any, **more: Any) -> Any:
            page = queue.documents(*asked, **more)
            self.listed += len(page.items)
            return page

    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    for _ in range(400):
        queue.submit("acme", [NewDocument("a document")] * 10)
        for claimed in queue.claim("worker", 10):
            queue.finish(claimed)
        clock.advance(60 * SECOND)
    counting = Counting()
    past = read_history(counting, 1_200 * SECOND, until=2_401 * SECOND)  # type: ignore[arg-type]
    assert [len(past.arrivals), past.arrivals[0].at, past.arrivals[-1].at] == [200, 1_201 * SECOND, 2_341 * SECOND]
    assert counting.listed < 1_600  # of 4,000


def test_pages_cost_what_the_new_policy_says() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.submit("acme", [NewDocument("a", pages=40), NewDocument("b", cost=2.5), NewDocument("c", pages=40)])
    for claimed in queue.claim("worker", 3):
        queue.finish(claimed)
    past = read_history(queue, 0, max_documents=10)
    assert sorted((spec.cost, spec.pages or 0) for spec in past.specs) == [(1.0, 40), (2.5, 0)]


def test_a_replay_charges_large_files_as_the_queue_did() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.set_policy(Policy(costs=CostPolicy(0.6, 0.4)), OPERATOR)
    given = [NewDocument("a", size=49_000_000), NewDocument("b", size=49_000_000, pages=2), NewDocument("c", cost=2.5)]
    queue.submit("acme", [*given, NewDocument("d", size=10), NewDocument("e", size=49_000_000, cost=3)])
    for claimed in queue.claim("worker", 5):
        queue.finish(claimed)
    past = read_history(queue, 0, max_documents=10)
    played = queue.policy().policy.costs.apply([past.specs[arrival.group] for arrival in past.arrivals])
    stored = sorted(document.spec.cost for document in queue.documents().items)
    assert sorted(document.cost for document in played) == stored == pytest.approx([1, 2.5, 3, 20.2, 20.2])


def asked(store: Path, policy: Policy, since: int = 0, most: int = 1_000) -> tuple[int, Sequence[dict[str, object]]]:
    line = json.dumps({"kind": "policy", "store": str(store), "policy": policy.to_dict(), "since": since, "most": most})
    command = [sys.executable, "-m", "inturn.http.simulation_jobs"]
    done = subprocess.run(command, input=line + "\n", capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_preview_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    path, random = tmp_path / "queue.db", Random(1)
    with Queue(open_store(str(path))) as queue:
        for n in range(40):
            queue.submit(f"customer {random.randrange(5)}", [NewDocument(str(n))])
            for claimed in queue.claim("worker", 1):
                queue.finish(claimed)
    status, reported = asked(path, CLASSIC)
    assert status == 0
    comparison = reported[-1]["comparison"]
    assert isinstance(comparison, dict)
    assert comparison["documents"] == 40
    assert reported[-2] == {"done": 80, "total": 80}
    status, reported = asked(path, CLASSIC, since=10**17)
    assert status == 1
    assert "nothing to play" in str(reported[-1]["error"])


SWITCH = """
title = "A bulk customer with long documents, one with short ones, and light customers"
workers = 4
[policy]
charge = "documents"
max_share = 1.0
[[group]]
name = "long"
arrivals = { kind = "burst", documents = 300, at = 5 }
service = { kind = "exponential", mean = 10.0 }
[[group]]
name = "short"
arrivals = { kind = "burst", documents = 3000, at = 6 }
service = { kind = "exponential", mean = 1.0 }
[[group]]
name = "light"
customers = 15
arrivals = { kind = "poisson", rate = 0.003, until = 1400 }
service = { kind = "exponential", mean = 1.0 }
"""


def test_a_switch_from_documents_to_time_tells_who_gains_and_who_pays() -> None:
    """Customers with short documents wait less, the one with long documents pays, and Jain by seconds rises."""
    clock = ManualClock()
    store = open_store("memory://", clock)
    scenario = parse_scenario("switch", SWITCH)
    queue = Queue(store, clock=clock)
    queue.set_policy(scenario.policy, OPERATOR, now=0)
    recorded(simulate_scenario(scenario), store, clock)
    proposed = ChargeUnit.TIME.apply_to(scenario.policy)
    comparison = compare(read_history(Queue(store), 0), UNCHANGED_PLAN, Plan(proposed))
    assert not comparison.contradictions
    long, short = comparison.more[0], comparison.less[0]
    assert (long.customer, short.customer) == ("long", "short")
    light = next(group for group in comparison.groups if group.group == "1-20")
    assert light.proposed.mean < light.current.mean
    assert long.documents == 300
    assert 2_500 < long.worked < 3_500
    before, after = comparison.shares_current.seconds.run, comparison.shares_proposed.seconds.run
    assert before is not None
    assert after is not None
    assert before < 0.75
    assert after > 0.98


def test_a_recorded_day_tells_who_gains_and_who_pays_by_time() -> None:
    """A day by documents, on which one bulk customer's documents take six times as long as others'."""
    store = open_store("memory://")
    documents = ChargeUnit.DOCUMENTS.apply_to(Policy(turns=TurnPolicy(max_share=1.0)))
    recorded_day.record(store, 1_800, policy=documents, work_factors={"bulk 0": 6.0})
    past = read_history(Queue(store), 0)
    proposed = ChargeUnit.TIME.apply_to(past.policies[-1][1])
    comparison = compare(past, UNCHANGED_PLAN, Plan(proposed))
    assert comparison.more[0].customer == "bulk 0"
    assert {change.customer for change in comparison.less[:2]} == {"bulk 1", "bulk 2"}
    means = {group.group: (group.current.mean, group.proposed.mean) for group in comparison.groups}
    assert all(after < before for before, after in means.values())
    assert (comparison.shares_current.seconds.run or 1) < 0.7
    assert (comparison.shares_proposed.seconds.run or 0) > 0.85

"""What turns are charged, in the simulator: shares of worker time, adversaries, and slots that others hold."""

from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inturn import InvalidInputError
from inturn.analysis import Report, Run, Scenario, build_report, load_scenario, simulate_scenario
from inturn.analysis.arrival_processes import Burst
from inturn.analysis.charges import ChargeUnit
from inturn.analysis.scenario import Group, ServiceTime, parse_scenario
from inturn.policy import Charge, CostPolicy, Policy
from inturn.values import SECOND, seconds

pytestmark = pytest.mark.usefixtures("untraced")

LONG_BESIDE_SHORT = """
title = "long and short"
workers = 8
[[group]]
name = "long"
arrivals = { kind = "burst", documents = 300 }
service = { kind = "exponential", mean = 20.0 }
seconds_per_page = 0.05
[[group]]
name = "short"
arrivals = { kind = "burst", documents = 6000 }
service = { kind = "exponential", mean = 1.0 }
seconds_per_page = 0.05
[[group]]
name = "light"
customers = 20
arrivals = { kind = "poisson", rate = 0.002, until = 900 }
service = { kind = "exponential", mean = 0.5 }
seconds_per_page = 0.05
"""


def with_charge(scenario: Scenario, unit: ChargeUnit, max_share: float = 1.0) -> Scenario:
    turns = replace(scenario.policy.turns, max_share=max_share)
    return replace(scenario, policy=unit.apply_to(replace(scenario.policy, turns=turns)))


def report(scenario: Scenario) -> Report:
    return build_report(simulate_scenario(scenario))


def test_units_name_what_a_policy_charges() -> None:
    assert ChargeUnit.of(Policy()) is ChargeUnit.TIME
    documents = ChargeUnit.DOCUMENTS.apply_to(Policy())
    assert (documents.turns.charge, documents.costs.per_page) == (Charge.COST, 0)
    pages = ChargeUnit.PAGES.apply_to(documents)
    assert (pages.turns.charge, pages.costs) == (Charge.COST, CostPolicy())
    own = Policy(costs=CostPolicy(0.5, 0.25))
    assert ChargeUnit.TIME.apply_to(ChargeUnit.PAGES.apply_to(own)) == own
    for unit in ChargeUnit:
        assert ChargeUnit.of(unit.apply_to(Policy())) is unit


def test_a_scenario_chooses_charge_and_share() -> None:
    policy = '[policy]\ncharge = "pages"\nmax_share = 0.5\nshare_idle_after = 60\n'
    chosen = parse_scenario("mine", LONG_BESIDE_SHORT.replace("workers = 8", f"workers = 8\n{policy}")).policy
    assert (ChargeUnit.of(chosen), chosen.turns.max_share) == (ChargeUnit.PAGES, 0.5)
    assert chosen.turns.share_idle_after == 60 * SECOND
    assert parse_scenario("mine", LONG_BESIDE_SHORT).policy == Policy()
    with pytest.raises(InvalidInputError, match="documents, pages, time"):
        parse_scenario("mine", LONG_BESIDE_SHORT + '[policy]\ncharge = "bytes"\n')


def test_time_shares_worker_seconds_and_documents_share_documents() -> None:
    """Both customers have a backlog throughout: Jain .99 and more in the unit that is charged."""
    scenario = parse_scenario("mine", LONG_BESIDE_SHORT)
    documents, pages, time = (report(with_charge(scenario, unit)) for unit in ChargeUnit)
    assert documents.shares.documents.run == pytest.approx(1, abs=0.01)
    assert (documents.shares.seconds.run or 1) < 0.6
    assert (documents.groups[0].work_share or 0) > 0.9
    for fair in (pages, time):
        assert (fair.shares.seconds.run or 0) > 0.99
        assert (fair.shares.seconds.windows or 0) > 0.97
        assert (fair.shares.documents.run or 1) < 0.6
    assert time.groups[2].mean < 1 < documents.groups[2].mean


@pytest.mark.parametrize(("name", "adversary"), [("cancel-and-resubmit", 0.50), ("failing", 0.50)])
def test_no_adversary_gets_more_than_half_of_the_worker_seconds(name: str, adversary: float) -> None:
    """What fails or is cancelled pays for the time it used. By documents, failing attempts are charged like others."""
    result = report(with_charge(load_scenario(name), ChargeUnit.TIME))
    assert result.groups[0].work_share == pytest.approx(adversary, abs=0.03)


@pytest.mark.parametrize("name", ["unknown-pages", "splitting"])
def test_neither_unknown_pages_nor_splitting_pays(name: str) -> None:
    """By pages or documents one of the two gets nearly everything; by time neither does."""
    scenario = load_scenario(name)
    groups = tuple(
        replace(group, arrivals=replace(group.arrivals, documents=group.arrivals.documents // 2))
        if isinstance(group.arrivals, Burst)
        else group
        for group in scenario.groups
    )
    scenario = replace(scenario, groups=groups)
    assert report(with_charge(scenario, ChargeUnit.TIME)).groups[0].work_share == pytest.approx(0.5, abs=0.05)
    by_documents = report(with_charge(scenario, ChargeUnit.DOCUMENTS)).groups[0].work_share or 0.5
    assert not 0.1 < by_documents < 0.9


def test_cancelled_and_failed_attempts_count_as_work() -> None:
    group = Group("all", Burst(documents=20), ServiceTime("fixed", 10.0), cancel_after=4.0, cancels=2)
    played = simulate_scenario(Scenario("cancel", "cancel", 2, (group,)))
    assert Counter(span.number for span in played.earlier_attempts) == dict.fromkeys(range(20), 2)
    assert {span.ended - span.began for span in played.earlier_attempts} == {4 * SECOND}
    work = sum(span.ended - span.began for span in played.earlier_attempts) + 20 * 10 * SECOND
    assert max(played.finished) == work // 2


def test_the_share_limit_keeps_a_slot_for_others() -> None:
    """An account with documents of 900 s holds all slots, whatever turns are charged; with the limit it does not."""
    scenario = load_scenario("slots-held")
    groups = (scenario.groups[0], replace(scenario.groups[1], customers=200))
    scenario = replace(scenario, groups=groups)
    without = report(with_charge(scenario, ChargeUnit.TIME)).groups[1]
    assert without.mean > 300
    turns = replace(scenario.policy.turns, share_idle_after=seconds(900))
    limited = report(replace(scenario, policy=replace(scenario.policy, turns=turns))).groups[1]
    assert limited.mean < 1
    assert limited.worst < 30


def test_a_slot_kept_for_others_is_used_once_they_stay_away() -> None:
    light = Group("light", Burst(documents=1), ServiceTime("fixed", 0.5))
    bulk = Group("bulk", Burst(documents=3, at=1), ServiceTime("fixed", 100.0))
    played = simulate_scenario(kept_for_30_seconds(Scenario("idle", "idle", 2, (light, bulk))))
    first, second, third = (start / SECOND for start in played.started[1:])
    assert first == 1
    assert 29 < second < 32
    assert third == 101


def kept_for_30_seconds(scenario: Scenario) -> Scenario:
    """Keep slots for others for half a minute at least."""
    turns = replace(scenario.policy.turns, share_idle_after=seconds(30))
    return replace(scenario, policy=replace(scenario.policy, turns=turns))


BURSTS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 100), st.sampled_from([0.5, 3.0, 40.0])), min_size=2, max_size=5
)


@settings(deadline=None, max_examples=25)
@given(BURSTS, st.integers(2, 16), st.sampled_from([0.5, 0.75, 7 / 8]), st.integers(1, 3))
def test_no_customer_starts_above_its_share_while_others_come(
    bursts: list[tuple[int, int, float]], workers: int, max_share: float, seed: int
) -> None:
    """No customer starts above its share within 30 s of a start of another; and nothing is left behind."""
    groups = [
        Group(f"bulk {number}", Burst(documents=n, at=at), ServiceTime("exponential", mean))
        for number, (n, at, mean) in enumerate(bursts)
    ]
    for name, at in (("one", 0), ("other", 5)):
        groups.append(Group(name, Burst(documents=1, at=at, every=10, until=200), ServiceTime("fixed", 0.001)))
    scenario = Scenario("share", "share", workers, tuple(groups), seed=seed)
    played = simulate_scenario(kept_for_30_seconds(with_charge(scenario, ChargeUnit.TIME, max_share)))
    assert min(played.finished) > 0
    limit = max(1, int(workers * max_share))
    starts = held_slots(played)
    for at, customer, held in starts:
        if held > limit:
            assert {name for when, name, _ in starts if at - seconds(30) < when < at} <= {customer}


def held_slots(played: Run) -> list[tuple[int, str, int]]:
    """Each start: when, whose, and how many documents that customer has running then."""
    running: Counter[str] = Counter()
    ends: list[tuple[int, str]] = []
    result = []
    starts = sorted(
        (start, end, arrival.customer)
        for start, end, arrival in zip(played.started, played.finished, played.arrivals, strict=True)
    )
    for start, end, customer in starts:
        while ends and ends[0][0] <= start:
            running[heappop(ends)[1]] -= 1
        running[customer] += 1
        heappush(ends, (end, customer))
        result.append((start, customer, running[customer]))
    return result

"""Figures read off runs small enough to know them by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.analysis import Report, Run, build_report
from inturn.analysis.arrival_processes import Burst
from inturn.analysis.engine import Discipline
from inturn.analysis.gps import Job, finish_times
from inturn.analysis.metrics import percentile
from inturn.analysis.scenario import Arrival, Group, Scenario, ServiceTime

SECOND = 1_000_000


def made(workers: int, documents: list[tuple[str, float, float, float]]) -> Report:
    """A run by hand: customer, arrival, start and service in seconds; a group a customer."""
    names = list(dict.fromkeys(document[0] for document in documents))
    groups = tuple(Group(name, Burst(), ServiceTime("fixed", 1.0)) for name in names)
    documents.sort(key=lambda item: item[1])
    arrivals = [
        Arrival(int(at * SECOND), name, names.index(name), int(service * SECOND), 0)
        for name, at, _, service in documents
    ]
    started = [int(start * SECOND) for _, _, start, _ in documents]
    finished = [int((start + service) * SECOND) for _, _, start, service in documents]
    scenario = Scenario("hand", "by hand", workers, groups)
    return build_report(Run(scenario, Discipline.FAIR, arrivals, [1] * len(arrivals), started, finished))


def test_waits_slowdown_and_gaps() -> None:
    result = made(1, [("a", 0, 0, 10), ("a", 0, 30, 10), ("b", 0, 10, 20)])
    a, b = result.groups
    assert (a.documents, a.mean, a.p50, a.worst) == (2, 15.0, 0.0, 30.0)
    assert a.slowdown == pytest.approx((10 + 40) / (10 + 20))
    assert b.slowdown == pytest.approx(30 / 20)
    assert (a.longest_gap, b.longest_gap) == (30.0, 10.0)
    assert result.seconds == 40.0


def test_distance_from_the_ideal() -> None:
    """Two customers, 10 s of work each, one worker: under ideal sharing both end at 20 s."""
    result = made(1, [("a", 0, 0, 10), ("b", 0, 10, 10)])
    assert [group.behind_ideal for group in result.groups] == [0.0, 0.0]
    result = made(1, [("a", 0, 0, 10), ("a", 0, 10, 10), ("b", 0, 20, 10)])
    assert [group.behind_ideal for group in result.groups] == [0.0, 10.0]


def test_jain_is_1_for_equal_shares_and_a_half_for_all_to_one_of_two() -> None:
    ten = 600.0
    equal = [(name, 0.0, ten * n + (ten / 2) * (name == "b"), ten / 2) for n in range(6) for name in "ab"]
    assert made(1, equal).jain == pytest.approx(0.5)  # every window of 300 s belongs to one of the two
    short = [(name, 0.0, 100.0 * n + 50.0 * (name == "b"), 50.0) for n in range(36) for name in "ab"]
    assert made(1, short).jain == pytest.approx(1.0)
    hogged = [("a", 0.0, 100.0 * n, 100.0) for n in range(30)]
    hogged += [("b", 0.0, 3000.0 + 100.0 * n, 100.0) for n in range(30)]
    assert made(1, hogged).jain == pytest.approx(0.5)


def test_jain_by_documents_differs_where_one_customer_has_longer_documents() -> None:
    turns = [("a", 0.0, 30.0 * n, 27.0) for n in range(60)] + [("b", 0.0, 30.0 * n + 27.0, 3.0) for n in range(60)]
    result = made(1, turns)
    assert result.jain == pytest.approx((27 + 3) ** 2 / (2 * (27**2 + 3**2)))
    assert result.jain_documents == pytest.approx(1.0)
    assert [(group.jain, group.jain_documents) for group in result.groups] == [(None, None), (None, None)]


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, part) for part in (0.5, 0.95, 0.99, 1.0)] == [50.0, 95.0, 99.0, 100.0]
    assert percentile([7.0], 0.5) == 7.0


def test_the_fluid_shares_by_weight() -> None:
    work = [Job(0, "a", 10, 1.0), Job(0, "b", 10, 3.0)]
    # b gets three quarters: done at 40/3; then a alone: 10 - 10/3 left.
    assert finish_times(work, 1) == pytest.approx([20.0, 40 / 3])


def test_the_fluid_starts_afresh_after_it_ran_dry() -> None:
    work = [Job(0, "a", 2, 1.0), Job(10, "b", 2, 1.0), Job(11, "a", 1, 1.0)]
    assert finish_times(work, 1) == pytest.approx([2.0, 13.0, 13.0])


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.sampled_from("abc"), st.floats(0.1, 10), st.just(1.0)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([1.0, 2.0]),
)
def test_the_fluid_conserves_work_and_never_finishes_early(
    pieces: list[tuple[float, str, float, float]], capacity: float
) -> None:
    work = [Job(*piece) for piece in sorted(pieces)]
    ends = finish_times(work, capacity)
    assert all(end >= job.at + job.amount / capacity - 1e-6 for job, end in zip(work, ends, strict=True))
    free = 0.0
    for job in work:
        free = max(free, job.at) + job.amount / capacity
    assert max(ends) == pytest.approx(free)


def test_a_report_is_plain_json() -> None:
    plain = made(1, [("a", 0, 0, 1 / 3)]).to_dict()
    assert plain["groups"][0]["group"] == "a"
    assert plain["seconds"] == 0.333

"""Compute waits and fairness figures of a run for each group of customers."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from heapq import heapreplace
from itertools import pairwise
from math import ceil
from typing import Any, Final, NamedTuple

from inturn.analysis.engine import Run
from inturn.analysis.gps import Job, finish_times
from inturn.analysis.scenario import Arrival
from inturn.model import SECOND

SHARE_WINDOW: Final = 300 * SECOND
"""Shares are compared over stretches of five minutes."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group: waits in seconds from arrival to first start, and how fair they were."""

    group: str
    customers: int
    documents: int
    mean: float
    p50: float
    p95: float
    p99: float
    worst: float
    slowdown: float
    """Time from arrival to finish, against the same when alone in the system; mean over customers."""
    jain: float | None
    """Jain's index of the worker seconds that customers of this group got, over windows in which two or more of them
    had a backlog."""
    jain_documents: float | None
    """The same of the documents that were started."""
    behind_ideal: float
    """Seconds that documents finished later than under ideal sharing, on average; 0 for those that were early."""
    longest_gap: float
    """The longest time a customer had documents waiting and none was started."""


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    scenario: str
    title: str
    order: str
    seed: int
    workers: int
    documents: int
    seconds: float
    jain: float | None
    """Jain's index of worker seconds over windows, all customers with a backlog together."""
    jain_documents: float | None
    """The same of started documents."""
    groups: tuple[GroupReport, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, rounded to significant digits."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


class MetricsInput(NamedTuple):
    """What figures are read off: documents, what became of them, and who brought them."""

    arrivals: Sequence[Arrival]
    started: Sequence[int]
    finished: Sequence[int]
    workers: int
    groups: Sequence[str]
    group_of: Callable[[Arrival], int]
    """A place in `groups`."""
    weight_of: Callable[[Arrival], float]


def build_report(run: Run) -> Report:
    """Read the figures off a run."""
    scenario = run.scenario
    groups = scenario.groups
    subject = MetricsInput(
        run.arrivals,
        run.started,
        run.finished,
        scenario.workers,
        [group.name for group in groups],
        lambda arrival: arrival.group,
        lambda arrival: groups[arrival.group].weight,
    )
    figures, indices = group_metrics(subject)
    span = max(run.finished, default=0) - (run.arrivals[0].at if run.arrivals else 0)
    return Report(
        scenario.name,
        scenario.title,
        str(run.discipline),
        scenario.seed,
        scenario.workers,
        len(run.arrivals),
        span / SECOND,
        *indices,
        figures,
    )


class JainIndices(NamedTuple):
    """Jain's index by worker seconds and by documents; None where no two customers had a backlog."""

    seconds: float | None
    documents: float | None


def group_metrics(subject: MetricsInput) -> tuple[tuple[GroupReport, ...], JainIndices]:
    """The figures of each group that has documents, and Jain's indices of all customers together."""
    customers = list(_customer_runs(subject))
    behind = _behind_ideal(subject)
    groups = []
    for number, group in enumerate(subject.groups):
        members = [customer for customer in customers if customer.group == number]
        documents = [index for member in members for index in member.documents]
        if documents:
            groups.append(_group_report(subject, group, members, [behind[index] for index in documents]))
    return tuple(groups), _jain_indices(subject, customers)


def jain_indices(subject: MetricsInput) -> JainIndices:
    """Compute Jain's indices of all customers together."""
    return _jain_indices(subject, list(_customer_runs(subject)))


class CustomerRun(NamedTuple):
    """One customer's documents in a run, by number, in the order they came."""

    name: str
    group: int
    weight: float
    documents: list[int]
    backlog: list[tuple[int, int]]
    """The stretches in which it had documents waiting."""


def _customer_runs(run: MetricsInput) -> Iterator[CustomerRun]:
    documents: dict[str, list[int]] = defaultdict(list)
    for number, arrival in enumerate(run.arrivals):
        documents[arrival.customer].append(number)
    for name, numbers in documents.items():
        first = run.arrivals[numbers[0]]
        backlog = list(_backlog(run, numbers))
        yield CustomerRun(name, run.group_of(first), run.weight_of(first), numbers, backlog)


def _backlog(run: MetricsInput, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    comings = [run.arrivals[number].at for number in numbers]
    starts = sorted(run.started[number] for number in numbers)
    began, index = comings[0], 0
    for position, start in enumerate(starts):
        index = max(index, bisect_right(comings, start))
        if index == position + 1:
            yield began, start
            if index < len(comings):
                began = comings[index]


def _group_report(run: MetricsInput, name: str, members: list[CustomerRun], behind: list[float]) -> GroupReport:
    jain, jain_documents = _jain_indices(run, members)
    documents = [number for member in members for number in member.documents]
    waits = sorted((run.started[number] - run.arrivals[number].at) / SECOND for number in documents)
    return GroupReport(
        group=name,
        customers=len(members),
        documents=len(documents),
        mean=sum(waits) / len(waits),
        p50=percentile(waits, 0.50),
        p95=percentile(waits, 0.95),
        p99=percentile(waits, 0.99),
        worst=waits[-1],
        slowdown=sum(_slowdown(run, member.documents) for member in members) / len(members),
        jain=jain,
        jain_documents=jain_documents,
        behind_ideal=sum(behind) / len(behind),
        longest_gap=max(_longest_gap(run, member) for member in members) / SECOND,
    )


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """The smallest value that this part of all values does not exceed."""
    return ordered[max(0, ceil(fraction * len(ordered)) - 1)]


def _slowdown(run: MetricsInput, numbers: Sequence[int]) -> float:
    """A customer's time in the system against what first come first served would give it alone on all workers."""
    free = [0] * run.workers
    alone = together = 0
    for number in numbers:
        arrival = run.arrivals[number]
        end = max(free[0], arrival.at) + arrival.service
        heapreplace(free, end)
        alone += end - arrival.at
        together += run.finished[number] - arrival.at
    return together / alone


def _longest_gap(run: MetricsInput, customer: CustomerRun) -> int:
    starts = sorted(run.started[number] for number in customer.documents)
    longest = 0
    for began, ended in customer.backlog:
        first, last = bisect_left(starts, began), bisect_right(starts, ended)
        points = [began, *starts[first:last]]
        longest = max(longest, *(after - before for before, after in pairwise(points)))
    return longest


def _behind_ideal(run: MetricsInput) -> list[float]:
    """For each document the seconds by which the customer's n-th finish came after its n-th finish under the ideal."""
    ideal = finish_times(
        (
            Job(arrival.at / SECOND, arrival.customer, arrival.service / SECOND, run.weight_of(arrival))
            for arrival in run.arrivals
        ),
        run.workers,
    )
    mine: dict[str, list[int]] = defaultdict(list)
    for number, arrival in enumerate(run.arrivals):
        mine[arrival.customer].append(number)
    behind = [0.0] * len(run.arrivals)
    for numbers in mine.values():
        finished = sorted(run.finished[number] / SECOND for number in numbers)
        ideals = sorted(
            max(ideal[number], (run.arrivals[number].at + run.arrivals[number].service) / SECOND) for number in numbers
        )
        for number, real, best in zip(numbers, finished, ideals, strict=True):
            behind[number] = max(0.0, real - best)
    return behind


def _jain_indices(run: MetricsInput, customers: Sequence[CustomerRun]) -> JainIndices:
    """Compare what customers that were backlogged throughout a window got in it, by weight."""
    seconds: dict[int, list[float]] = defaultdict(list)
    documents: dict[int, list[float]] = defaultdict(list)
    for customer in customers:
        windows = {
            window
            for began, ended in customer.backlog
            for window in range(ceil(began / SHARE_WINDOW), ended // SHARE_WINDOW)
        }
        if windows:
            served = _service_by_window(run, customer, windows)
            starts = Counter(run.started[number] // SHARE_WINDOW for number in customer.documents)
            for window in windows:
                seconds[window].append(served[window] / customer.weight)
                documents[window].append(starts[window] / customer.weight)
    return JainIndices(_mean_jain(seconds.values()), _mean_jain(documents.values()))


def _mean_jain(windows: Iterable[list[float]]) -> float | None:
    """Mean over windows of (sum x)^2 / (n sum x^2)."""
    indices = [
        sum(parts) ** 2 / (len(parts) * sum(part**2 for part in parts))
        for parts in windows
        if len(parts) > 1 and any(parts)
    ]
    return sum(indices) / len(indices) if indices else None


def _service_by_window(run: MetricsInput, customer: CustomerRun, windows: set[int]) -> dict[int, float]:
    served: dict[int, float] = defaultdict(float)
    for number in customer.documents:
        start, end = run.started[number], run.started[number] + run.arrivals[number].service
        for window in range(start // SHARE_WINDOW, end // SHARE_WINDOW + 1):
            if window in windows:
                served[window] += min(end, (window + 1) * SHARE_WINDOW) - max(start, window * SHARE_WINDOW)
    return served


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

"""Compute waits and fairness figures of a run for each group of customers."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import heapreplace
from itertools import chain, pairwise
from math import ceil
from typing import Any, Final, NamedTuple

from inturn.analysis.charges import ChargeUnit
from inturn.analysis.engine import AttemptSpan, Run
from inturn.analysis.gps import Job, finish_times
from inturn.analysis.scenario import Arrival
from inturn.values import SECOND

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
    work_share: float | None
    """Its part of the worker seconds in windows in which two or more customers had a backlog."""
    jain: float | None
    """Jain's index of what customers of this group got, over windows in which two or more of them had a backlog."""
    jain_documents: float | None
    """The same of started documents."""
    behind_ideal: float
    """Seconds that documents finished later than under ideal sharing, on average; 0 for those that were early."""
    longest_gap: float
    """The longest time a customer had documents waiting and none was started."""


class JainIndex(NamedTuple):
    """Jain's index of what customers with a backlog got; None if there were never two of them."""

    run: float | None
    """Over the whole run: each customer's sum against its fair part of it."""
    windows: float | None
    """Mean over windows of five minutes."""


class ShareIndices(NamedTuple):
    """How equal the shares were, counted in worker seconds and in documents started."""

    seconds: JainIndex
    documents: JainIndex


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
    charge: str
    """What lanes were charged: documents, pages or time."""
    max_share: float
    jain: float | None
    """Jain's index of worker seconds over windows, all customers with a backlog together."""
    jain_documents: float | None
    """The same of started documents."""
    shares: ShareIndices
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
    earlier_attempts: Sequence[AttemptSpan] = ()


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
        run.earlier_attempts,
    )
    figures, shares = group_metrics(subject)
    span = max(run.finished, default=0) - (run.arrivals[0].at if run.arrivals else 0)
    return Report(
        scenario.name,
        scenario.title,
        str(run.discipline),
        scenario.seed,
        scenario.workers,
        len(run.arrivals),
        span / SECOND,
        str(ChargeUnit.of(scenario.policy)),
        scenario.policy.turns.max_share,
        shares.seconds.windows,
        shares.documents.windows,
        shares,
        figures,
    )


def group_metrics(subject: MetricsInput) -> tuple[tuple[GroupReport, ...], ShareIndices]:
    """The figures of each group that has documents, and the indices of all customers together."""
    customers = list(_customer_runs(subject))
    behind = _behind_ideal(subject)
    seconds = _shares_by_window(subject, customers, _service_by_window)
    documents = _shares_by_window(subject, customers, _starts_by_window)
    groups = []
    for number, group in enumerate(subject.groups):
        members = [customer for customer in customers if customer.group == number]
        numbers = [index for member in members for index in member.documents]
        if numbers:
            work = _work_share(seconds, customers, number)
            groups.append(_group_report(subject, group, members, [behind[index] for index in numbers], work))
    return tuple(groups), ShareIndices(_jain_index(seconds), _jain_index(documents))


def share_indices(subject: MetricsInput) -> ShareIndices:
    """Compute the indices of all customers together."""
    customers = list(_customer_runs(subject))
    return ShareIndices(
        _jain_index(_shares_by_window(subject, customers, _service_by_window)),
        _jain_index(_shares_by_window(subject, customers, _starts_by_window)),
    )


class CustomerRun(NamedTuple):
    """One customer's documents in a run, by number, in the order they came."""

    name: str
    group: int
    weight: float
    documents: list[int]
    backlog: list[tuple[int, int]]
    """The stretches in which it had documents waiting."""
    earlier_attempts: Sequence[AttemptSpan]


def _customer_runs(run: MetricsInput) -> Iterator[CustomerRun]:
    documents: dict[str, list[int]] = defaultdict(list)
    for number, arrival in enumerate(run.arrivals):
        documents[arrival.customer].append(number)
    earlier: dict[str, list[AttemptSpan]] = defaultdict(list)
    for span in run.earlier_attempts:
        earlier[run.arrivals[span.number].customer].append(span)
    for name, numbers in documents.items():
        first = run.arrivals[numbers[0]]
        backlog = list(_backlog(run, numbers))
        yield CustomerRun(name, run.group_of(first), run.weight_of(first), numbers, backlog, earlier.get(name, ()))


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


def _group_report(
    run: MetricsInput, name: str, members: list[CustomerRun], behind: list[float], work_share: float | None
) -> GroupReport:
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
        work_share=work_share,
        jain=_jain_index(_shares_by_window(run, members, _service_by_window)).windows,
        jain_documents=_jain_index(_shares_by_window(run, members, _starts_by_window)).windows,
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


WindowShares = dict[int, dict[int, float]]
"""By window and place of the customer: the weighted share of one that had a backlog throughout the window."""


def _shares_by_window(
    run: MetricsInput,
    customers: Sequence[CustomerRun],
    measure: Callable[[MetricsInput, CustomerRun, set[int]], Mapping[int, float]],
) -> WindowShares:
    """Return the windows in which two customers or more had a backlog, and any of them got something."""
    shares: WindowShares = defaultdict(dict)
    for place, customer in enumerate(customers):
        windows = {
            window
            for began, ended in customer.backlog
            for window in range(ceil(began / SHARE_WINDOW), ended // SHARE_WINDOW)
        }
        if windows:
            served = measure(run, customer, windows)
            for window in windows:
                shares[window][place] = served.get(window, 0.0) / customer.weight
    return {window: own for window, own in shares.items() if len(own) > 1 and any(own.values())}


def _jain_index(shares: WindowShares) -> JainIndex:
    """Return (sum x)^2 / (n sum x^2), for each window and for the sums over all of them.

    Customers are not there in the same windows: a sum is taken against what the mean customer of its windows got.
    """
    if not shares:
        return JainIndex(None, None)
    got: dict[int, float] = defaultdict(float)
    fair: dict[int, float] = defaultdict(float)
    for own in shares.values():
        mean = sum(own.values()) / len(own)
        for place, share in own.items():
            got[place] += share
            fair[place] += mean
    indices = [_jain([*own.values()]) for own in shares.values()]
    return JainIndex(_jain([share / fair[place] for place, share in got.items()]), sum(indices) / len(indices))


def _jain(shares: Sequence[float]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def _work_share(seconds: WindowShares, customers: Sequence[CustomerRun], group: int) -> float | None:
    """Return the part of the worker seconds that customers of a group got, of those with a backlog."""
    total = own = 0.0
    for shares in seconds.values():
        for place, share in shares.items():
            work = share * customers[place].weight
            total += work
            own += work if customers[place].group == group else 0.0
    return own / total if total else None


def _service_by_window(run: MetricsInput, customer: CustomerRun, windows: set[int]) -> dict[int, float]:
    served: dict[int, float] = defaultdict(float)
    last = (
        (run.finished[number] - run.arrivals[number].service, run.finished[number]) for number in customer.documents
    )
    for start, end in chain(last, ((span.began, span.ended) for span in customer.earlier_attempts)):
        for window in range(start // SHARE_WINDOW, end // SHARE_WINDOW + 1):
            if window in windows:
                served[window] += min(end, (window + 1) * SHARE_WINDOW) - max(start, window * SHARE_WINDOW)
    return served


def _starts_by_window(run: MetricsInput, customer: CustomerRun, windows: set[int]) -> Counter[int]:
    starts = Counter(run.started[number] // SHARE_WINDOW for number in customer.documents)
    return Counter({window: n for window, n in starts.items() if window in windows})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _rounded(value._asdict())
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value

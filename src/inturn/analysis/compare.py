"""Compare the waits of the same documents under two plans."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Final, NamedTuple

from inturn.analysis.engine import SimulationResult, in_order_of_coming
from inturn.analysis.history import SIZE_GROUPS, History, ProgressCallback
from inturn.analysis.metrics import GroupReport, MetricsInput, ShareIndices, group_metrics, percentile
from inturn.analysis.replay import UNCHANGED_PLAN, Plan, replay, waits_of, weight_under, without_warmup
from inturn.values import SECOND

MAX_NAMED_CUSTOMERS: Final = 10
MIN_CHANGE_SECONDS: Final = 0.5
"""Seconds of mean wait; a smaller change is not reported."""
QUEUE_LENGTH_SAMPLES: Final = 120
MAX_RELATIVE_ERROR: Final = 0.1
"""Relative error of an unchanged replay's mean wait above which it is reported as a contradiction."""
MIN_ERROR_SECONDS: Final = 0.1
"""Seconds; a smaller difference is no contradiction."""


class Waits(NamedTuple):
    """Seconds from arrival to first start."""

    mean: float
    p50: float
    p95: float
    worst: float


class Fairness(NamedTuple):
    """The simulator's other figures, as in `GroupReport`."""

    work_share: float | None
    slowdown: float
    jain: float | None
    jain_documents: float | None
    behind_ideal: float
    longest_gap: float


class Contradiction(NamedTuple):
    """A group whose mean wait an unchanged replay misses, in seconds."""

    group: str
    measured: float
    replayed: float


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group of customers: measured waits and those under each plan; None where unknown."""

    group: str
    customers: int
    documents: int
    measured: Waits | None
    current: Waits
    proposed: Waits
    current_fairness: Fairness
    proposed_fairness: Fairness


@dataclass(frozen=True, slots=True)
class CustomerChange:
    """One customer's waits in seconds; means unless named otherwise."""

    customer: str
    group: str
    documents: int
    worked: float
    """Worker seconds of its documents, whatever is played."""
    measured: float | None
    current: float
    proposed: float
    current_p95: float
    proposed_p95: float
    current_worst: float
    proposed_worst: float


class QueueLengthSample(NamedTuple):
    """How many documents waited at a time."""

    at: int
    measured: int | None
    current: int
    proposed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same documents under two plans: the current one, and the one proposed."""

    since: int
    until: int
    documents: int
    customers: int
    workers: int
    workers_proposed: int
    is_cut: bool
    is_same: bool
    """Whether nothing was proposed: the history was replayed once, to compare it with the measurement."""
    contradictions: tuple[Contradiction, ...]
    """Groups whose measured waits the unchanged replay misses by more than a tenth; do not trust it there."""
    groups: tuple[GroupChange, ...]
    shares_current: ShareIndices
    """Jain's indices of all customers with a backlog, by worker seconds and by documents."""
    shares_proposed: ShareIndices
    levels_current: dict[int, int]
    levels_proposed: dict[int, int]
    less: tuple[CustomerChange, ...]
    """Customers who would wait less, those who gain the most first."""
    more: tuple[CustomerChange, ...]
    waiting: tuple[QueueLengthSample, ...]
    everyone: tuple[CustomerChange, ...]
    """All customers, those with the most documents first."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without the list of all customers."""
        result = asdict(replace(self, everyone=()))
        del result["everyone"]
        plain: dict[str, Any] = rounded(result)
        return plain


def compare(
    history: History, current: Plan, proposed: Plan | None, progress: ProgressCallback | None = None
) -> Comparison:
    """Replay the documents under both plans and compare their waits."""
    total = len(history.arrivals)
    runs = 1 if proposed is None else 2
    tell = progress or _ignore_progress
    before = without_warmup(history, replay(history, current, progress=lambda done, _: tell(done, runs * total)))
    after = before
    if proposed is not None:
        after = replay(history, proposed, progress=lambda done, _: tell(total + done, runs * total))
        after = without_warmup(history, after)
    tell(runs * total, runs * total)
    return _build_comparison(
        history.without_warmup(), (current, before), (proposed or current, after), is_same=proposed is None
    )


def _build_comparison(
    history: History, first: tuple[Plan, SimulationResult], second: tuple[Plan, SimulationResult], *, is_same: bool
) -> Comparison:
    (current, before), (proposed, after) = first, second
    changes = _customer_changes(history, before, after)
    fairness, shares_current = _fairness_by_group(history, current, before)
    fairness_proposed, shares_proposed = (
        (fairness, shares_current) if is_same else _fairness_by_group(history, proposed, after)
    )
    return Comparison(
        since=history.arrivals[0].at,
        until=history.arrivals[-1].at,
        documents=len(history.arrivals),
        customers=len(changes),
        workers=current.workers or history.workers,
        workers_proposed=proposed.workers or history.workers,
        is_cut=history.is_cut,
        is_same=is_same,
        contradictions=find_contradictions(history, before) if current == UNCHANGED_PLAN else (),
        groups=tuple(_group_changes(history, before, after, (fairness, fairness_proposed))),
        shares_current=shares_current,
        shares_proposed=shares_proposed,
        levels_current=dict(sorted(Counter(before.levels).items())),
        levels_proposed=dict(sorted(Counter(after.levels).items())),
        less=_largest_changes([change for change in changes if change.current - change.proposed >= MIN_CHANGE_SECONDS]),
        more=_largest_changes([change for change in changes if change.proposed - change.current >= MIN_CHANGE_SECONDS]),
        waiting=_queue_lengths(history, before, after),
        everyone=tuple(
            sorted(changes, key=lambda customer_change: (-customer_change.documents, customer_change.customer))
        ),
    )


def _ignore_progress(done: int, total: int) -> None:
    del done, total


def _largest_changes(changes: Sequence[CustomerChange]) -> tuple[CustomerChange, ...]:
    return tuple(
        sorted(
            changes,
            key=lambda customer_change: (
                -abs(customer_change.proposed - customer_change.current),
                customer_change.customer,
            ),
        )[:MAX_NAMED_CUSTOMERS]
    )


def _customer_changes(history: History, before: SimulationResult, after: SimulationResult) -> list[CustomerChange]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, arrival in enumerate(history.arrivals):
        numbers[arrival.customer].append(number)
    groups = history.groups()
    result = []
    for name, own in numbers.items():
        measured = measured_waits(history, own)
        first, second = summarize_waits(waits_of(before, own)), summarize_waits(waits_of(after, own))
        result.append(
            CustomerChange(
                name,
                groups[name],
                len(own),
                sum(history.arrivals[number].service for number in own) / SECOND,
                fmean(measured) if measured else None,
                *(first.mean, second.mean),
                *(first.p95, second.p95),
                *(first.worst, second.worst),
            )
        )
    return result


def _group_changes(
    history: History,
    before: SimulationResult,
    after: SimulationResult,
    fairness: tuple[dict[str, GroupReport], dict[str, GroupReport]],
) -> list[GroupChange]:
    groups, numbers = history.groups(), defaultdict(list)
    for number, arrival in enumerate(history.arrivals):
        numbers[groups[arrival.customer]].append(number)
    result = []
    for group in (size_group for size_group in SIZE_GROUPS if size_group in numbers):
        own = numbers[group]
        measured = measured_waits(history, own)
        result.append(
            GroupChange(
                group,
                fairness[0][group].customers,
                len(own),
                summarize_waits(measured) if measured else None,
                summarize_waits(waits_of(before, own)),
                summarize_waits(waits_of(after, own)),
                *(
                    Fairness(*(getattr(group_report, name) for name in Fairness._fields))
                    for group_report in (fairness[0][group], fairness[1][group])
                ),
            )
        )
    return result


def find_contradictions(history: History, result: SimulationResult) -> tuple[Contradiction, ...]:
    """Return the groups for which an unchanged replay differs from the measured waits."""
    groups, numbers = history.groups(), defaultdict(list)
    for number, arrival in enumerate(history.arrivals):
        if history.waits[number] is not None:
            numbers[groups[arrival.customer]].append(number)
    match = []
    for group in (size_group for size_group in SIZE_GROUPS if size_group in numbers):
        measured = fmean(measured_waits(history, numbers[group]))
        replayed = fmean(waits_of(result, numbers[group]))
        if abs(replayed - measured) > max(MIN_ERROR_SECONDS, MAX_RELATIVE_ERROR * measured):
            match.append(Contradiction(group, measured, replayed))
    return tuple(match)


def _fairness_by_group(
    history: History, plan: Plan, result: SimulationResult
) -> tuple[dict[str, GroupReport], ShareIndices]:
    groups = history.groups()
    arrivals = history.arrivals
    if history.has_steps:
        arrivals, result = in_order_of_coming(arrivals, result)
    subject = MetricsInput(
        arrivals,
        result.started,
        result.finished,
        plan.workers or history.workers,
        SIZE_GROUPS,
        lambda arrival: SIZE_GROUPS.index(groups[arrival.customer]),
        lambda arrival: weight_under(history, plan, arrival.customer),
        result.earlier_attempts,
    )
    group_reports, shares = group_metrics(subject)
    return {group_metric.group: group_metric for group_metric in group_reports}, shares


def _queue_lengths(
    history: History, before: SimulationResult, after: SimulationResult
) -> tuple[QueueLengthSample, ...]:
    """Sample the number of waiting documents from the first arrival to the last start."""
    came = [arrival.at for arrival in history.arrivals]
    known = [number for number, wait in enumerate(history.waits) if wait is not None]
    real = sorted(came[number] + (history.waits[number] or 0) for number in known)
    first, second = sorted(before.started), sorted(after.started)
    begin, end = came[0], max(first[-1], second[-1], real[-1] if real else 0)
    known_came = [came[number] for number in known]
    came_first, came_second = sorted(before.came), sorted(after.came)
    result = []
    for step in range(QUEUE_LENGTH_SAMPLES + 1):
        at = begin + (end - begin) * step // QUEUE_LENGTH_SAMPLES
        measured = bisect_right(known_came, at) - bisect_right(real, at) if real else None
        waiting = [
            bisect_right(arrived, at) - bisect_right(started, at)
            for arrived, started in ((came_first, first), (came_second, second))
        ]
        result.append(QueueLengthSample(at, measured, *waiting))
    return tuple(result)


def measured_waits(history: History, numbers: Sequence[int]) -> list[float]:
    """Return the measured waits in seconds, where known."""
    return [wait / SECOND for number in numbers if (wait := history.waits[number]) is not None]


def summarize_waits(waits: Sequence[float]) -> Waits:
    """The figures of these waits."""
    ordered = sorted(waits)
    return Waits(fmean(ordered), percentile(ordered, 0.5), percentile(ordered, 0.95), ordered[-1])


def rounded(value: Any) -> Any:
    """Round figures to significant digits; named tuples become objects."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: rounded(item) for name, item in value._asdict().items()}
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value

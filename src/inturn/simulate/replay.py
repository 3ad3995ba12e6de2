"""Plays what really came in once more, under another policy or with other workers, and compares."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final, NamedTuple

from inturn.clock import ManualClock
from inturn.model import SECOND
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.simulate.engine import OPERATOR, Numbers, Played, Playing, no_cycle_collector
from inturn.simulate.history import History
from inturn.simulate.report import percentile
from inturn.stores import open_store

Progress = Callable[[int, int], None]
MOST_NAMED: Final = 10
SMALLEST_CHANGE: Final = 0.5
"""Seconds of mean wait: below that nobody notices."""


class Waits(NamedTuple):
    """Seconds from arrival to first start."""

    mean: float
    p50: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A group of customers: what really happened, and what each policy gives. None where nothing is known."""

    group: str
    customers: int
    documents: int
    measured: Waits | None
    current: Waits
    proposed: Waits


@dataclass(frozen=True, slots=True)
class CustomerChange:
    """One customer's mean wait in seconds."""

    customer: str
    documents: int
    current: float
    proposed: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same documents under two policies."""

    since: int
    until: int
    documents: int
    customers: int
    workers: int
    is_cut: bool
    groups: tuple[GroupChange, ...]
    levels_current: dict[int, int]
    levels_proposed: dict[int, int]
    less: tuple[CustomerChange, ...]
    """Customers who would wait less, those who gain the most first."""
    more: tuple[CustomerChange, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON knows it."""
        found = asdict(self)
        for group in found["groups"]:
            for kind in ("measured", "current", "proposed"):
                waits = group[kind]
                group[kind] = None if waits is None else {name: round(v, 3) for name, v in waits._asdict().items()}
        return found


def replay(history: History, policy: Policy, workers: int | None = None, progress: Progress | None = None) -> Played:
    """The history under this policy, by so many workers, or as many as there were."""
    clock = ManualClock()
    store = open_store("memory://", clock)
    queue = Queue(store, clock=clock, ids=Numbers())
    queue.set_policy(policy, OPERATOR, now=0)
    for name, kept in history.settings.items():
        queue.change_customer(name, OPERATOR, weight=kept.weight, cap=kept.cap, rate=kept.rate, now=0)
    playing = Playing(history.arrivals, history.given, workers or history.workers, queue, store, progress)
    playing.has_delays |= any(kept.rate for kept in history.settings.values())
    with no_cycle_collector():
        return playing.to_the_end()


def compare(history: History, current: Policy, proposed: Policy, progress: Progress | None = None) -> Comparison:
    """What a change of the policy would have meant for these documents."""
    total = len(history.arrivals)
    tell = progress or _untold
    before = replay(history, current, progress=lambda done, _: tell(done, 2 * total))
    after = replay(history, proposed, progress=lambda done, _: tell(total + done, 2 * total))
    tell(2 * total, 2 * total)
    changes = _by_customer(history, before, after)
    return Comparison(
        since=history.arrivals[0].at,
        until=history.arrivals[-1].at,
        documents=total,
        customers=len(changes),
        workers=history.workers,
        is_cut=history.is_cut,
        groups=tuple(_by_group(history, before, after)),
        levels_current=dict(sorted(Counter(before.levels).items())),
        levels_proposed=dict(sorted(Counter(after.levels).items())),
        less=_named([each for each in changes if each.current - each.proposed >= SMALLEST_CHANGE]),
        more=_named([each for each in changes if each.proposed - each.current >= SMALLEST_CHANGE]),
    )


def _untold(done: int, total: int) -> None:
    del done, total


def _named(changes: Sequence[CustomerChange]) -> tuple[CustomerChange, ...]:
    return tuple(sorted(changes, key=lambda each: (-abs(each.proposed - each.current), each.customer))[:MOST_NAMED])


def _by_customer(history: History, before: Played, after: Played) -> list[CustomerChange]:
    numbers = defaultdict(list)
    for number, arrival in enumerate(history.arrivals):
        numbers[arrival.customer].append(number)
    return [
        CustomerChange(name, len(own), fmean(_waits(history, before, own)), fmean(_waits(history, after, own)))
        for name, own in numbers.items()
    ]


def _by_group(history: History, before: Played, after: Played) -> list[GroupChange]:
    groups, numbers, members = history.groups(), defaultdict(list), Counter[str]()
    for number, arrival in enumerate(history.arrivals):
        numbers[groups[arrival.customer]].append(number)
    members.update(groups.values())
    found = []
    for group, own in sorted(numbers.items(), key=lambda each: int(each[0].partition("-")[0].rstrip("+"))):
        measured = [wait / SECOND for number in own if (wait := history.waits[number]) is not None]
        found.append(
            GroupChange(
                group,
                members[group],
                len(own),
                summed_up(measured) if measured else None,
                summed_up(_waits(history, before, own)),
                summed_up(_waits(history, after, own)),
            )
        )
    return found


def _waits(history: History, played: Played, numbers: Sequence[int]) -> list[float]:
    return [(played.started[number] - history.arrivals[number].at) / SECOND for number in numbers]


def summed_up(waits: Sequence[float]) -> Waits:
    """The figures of these waits."""
    ordered = sorted(waits)
    return Waits(fmean(ordered), percentile(ordered, 0.5), percentile(ordered, 0.95), ordered[-1])

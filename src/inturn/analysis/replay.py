"""Replay recorded arrivals: unchanged, or with another policy, other workers, weights and limits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from inturn.analysis.engine import OPERATOR, ScheduledChange, SequentialIds, Simulation, SimulationResult, gc_disabled
from inturn.analysis.history import History, ProgressCallback
from inturn.clock import ManualClock
from inturn.model import CustomerSettings, clean_settings
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND

NO_CHANGES: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Plan:
    """How history is played. What is left out is as it was."""

    policy: Policy | None = None
    """In force from beginning to end."""
    workers: int | None = None
    """Documents that can run at a time, from beginning to end."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: NO_CHANGES)
    """Changes of customers' settings, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; None means unchanged."""
        return {
            "policy": None if self.policy is None else self.policy.to_dict(),
            "workers": self.workers,
            "settings": {name: dict(item) for name, item in self.settings.items()},
        }


UNCHANGED_PLAN: Final = Plan()
SetupHook = Callable[[Simulation, Queue], None]


def replay(
    history: History,
    plan: Plan = UNCHANGED_PLAN,
    progress: ProgressCallback | None = None,
    setup: SetupHook | None = None,
) -> SimulationResult:
    """Replay a history under a plan; `setup` may prepare the simulation before it starts."""
    clock = ManualClock()
    ids = SequentialIds()
    queue = Queue(open_store("memory://", clock), clock=clock, ids=ids)
    policies = history.policies if plan.policy is None else ((0, plan.policy),)
    queue.set_policy(policies[0][1] if policies else Policy(), OPERATOR, now=0)
    settings = dict(_settings(history, plan))
    for name, customer_settings in settings.items():
        queue.change_customer(
            name,
            OPERATOR,
            weight=customer_settings.weight,
            cap=customer_settings.cap,
            rate=customer_settings.rate,
            now=0,
        )
    workers = plan.workers or history.workers
    for name, own in history.queues.items():
        queue.change_queue(name, OPERATOR, weight=own.weight, cap=own.cap, rate=own.rate, now=0)
    playing = Simulation(history.arrivals, history.specs, workers, queue, progress)
    playing.ids = ids
    playing.capped_customers = frozenset(
        name for name, customer_settings in settings.items() if customer_settings.cap is not None
    )
    later = [ScheduledChange(at, action=_policy_setter(queue, policy)) for at, policy in policies[1:]]
    playing.changes = sorted(
        [*later, *(() if plan.workers else _capacity_changes(history))],
        key=lambda scheduled_change: scheduled_change.at,
    )
    if setup is not None:
        setup(playing, queue)
    with gc_disabled():
        return playing.run()


def without_warmup(history: History, result: SimulationResult) -> SimulationResult:
    """Without the documents that were played only to be in the way."""
    first = history.warmup_documents
    earlier = [span._replace(number=span.number - first) for span in result.earlier_attempts if span.number >= first]
    times = result.levels[first:], result.started[first:], result.finished[first:]
    return SimulationResult(*times, earlier, result.came[first:])


def weight_under(history: History, plan: Plan, customer: str) -> float:
    """A customer's weight under a plan."""
    customer_settings = history.settings.get(customer, CustomerSettings())
    return float(plan.settings.get(customer, NO_CHANGES).get("weight", customer_settings.weight))


def _settings(history: History, plan: Plan) -> Iterator[tuple[str, CustomerSettings]]:
    for name in sorted(history.settings.keys() | plan.settings.keys()):
        customer_settings = history.settings.get(name, CustomerSettings())
        yield name, clean_settings(customer_settings._replace(**plan.settings.get(name, NO_CHANGES)))


def _policy_setter(queue: Queue, policy: Policy) -> Callable[[int], object]:
    return lambda now: queue.set_policy(policy, OPERATOR, now=now)


def _capacity_changes(history: History) -> Iterator[ScheduledChange]:
    """Workers come and go as they did."""
    before = history.workers
    for at, workers in history.capacity.changes:
        yield ScheduledChange(at, workers - before)
        before = workers


def waits_of(result: SimulationResult, numbers: range | list[int]) -> list[float]:
    """Seconds that these documents waited in a run."""
    return [(result.started[number] - result.came[number]) / SECOND for number in numbers]

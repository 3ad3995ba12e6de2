"""Read scenarios from TOML: groups of customers, their arrivals, their service times.

    title = "One flood and fifty small customers"
    workers = 4

    [policy]                      # optional; the defaults of a new queue otherwise
    thresholds = [-2, -4]
    charge = "time"               # what lanes are charged: documents, pages or time
    max_share = 0.875             # of the slots, for one customer while others come; 1 for all
    check_each_step = false       # whether later steps and parts are checked too

    [[group]]
    name = "flood"
    customers = 1                 # 1 unless given
    weight = 1.0                  # as in the queue: weight, cap, cost
    failing = 0.01                # chance that an attempt fails and is tried again
    seconds_per_page = 2.0        # pages of a document: its service time by this; without it they are unknown
    cancel_after = 5.0            # cancels a longer document after so many seconds of work and submits it again,
    cancels = 3                   # so many times
    parts = 20                    # splits each document into so many parts, and is processed again when they have ended
    part_seconds = 1.0            # mean of a part and of that second step, drawn as `service` is
    arrivals = { kind = "burst", documents = 10000, at = 0 }
    service = { kind = "exponential", mean = 1.0 }

All times are seconds. Kinds of arrivals and service: `inturn.analysis.arrival_processes` and `SERVICE_TIME_SAMPLERS`
below.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from inturn.analysis.arrival_processes import ARRIVAL_PROCESSES, ArrivalProcess
from inturn.analysis.charges import ChargeUnit
from inturn.errors import InvalidInputError
from inturn.model import CustomerSettings, clean_settings
from inturn.policy import Policy, PriorityPolicy, TurnPolicy
from inturn.values import MAX_COST, MAX_WEIGHT, MIN_COST, MIN_WEIGHT, clean_number, clean_text, seconds

MAX_WORKERS: Final = 10_000
MAX_CUSTOMERS: Final = 1_000_000
MAX_DOCUMENTS: Final = 10_000_000
MAX_CANCELS: Final = 100
MAX_PARTS: Final = 10_000
POLICY_KEYS: Final = frozenset(
    {
        "reset_interval",
        "thresholds",
        "overdue_after",
        "overdue_every",
        "charge",
        "max_share",
        "share_idle_after",
        "check_each_step",
    }
)
GROUP_KEYS: Final = frozenset(
    {
        "name", "customers", "weight", "cap", "cost", "failing", "seconds_per_page", "cancel_after", "cancels",
        "parts", "part_seconds", "arrivals", "service",
    }
)  # fmt: skip

SERVICE_TIME_SAMPLERS: Final[Mapping[str, Callable[[Random, float], float]]] = {
    "fixed": lambda _, mean: mean,
    "exponential": lambda random, mean: random.expovariate(1 / mean),
    "lognormal": lambda random, mean: random.lognormvariate(0, 1) * mean / 1.6487212707,
    "pareto": lambda random, mean: random.paretovariate(1.5) * mean / 3,
}
"""Seconds that a document takes, with this mean. Lognormal has sigma 1: its own mean is exp(1/2). Pareto has shape
1.5, whose own mean is 3 and whose variance is infinite: nothing takes longer than a day.
"""


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """How long documents of a group take."""

    kind: str
    mean: float

    def draw(self, random: Random) -> int:
        """Microseconds of one document: at least one, at most a day."""
        return min(max(1, seconds(SERVICE_TIME_SAMPLERS[self.kind](random, self.mean))), seconds(86_400))


@dataclass(frozen=True, slots=True)
class Group:
    """Customers that behave alike."""

    name: str
    arrivals: ArrivalProcess
    service: ServiceTime
    customers: int = 1
    weight: float = 1.0
    cap: int | None = None
    cost: float = 1.0
    failing: float = 0.0
    seconds_per_page: float | None = None
    cancel_after: float = 0.0
    cancels: int = 0
    parts: int = 0
    part_seconds: float = 1.0

    @property
    def settings(self) -> CustomerSettings:
        """Return the settings of each of its customers."""
        return CustomerSettings(weight=self.weight, cap=self.cap)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a run is made from, apart from the order."""

    name: str
    title: str
    workers: int
    groups: tuple[Group, ...]
    policy: Policy = field(default_factory=Policy)
    seed: int = 1


class FailedAttempt(NamedTuple):
    """An attempt that failed: how long it took, its worker's handover, and after how long it was to be tried again."""

    service: int
    handover: int
    retry_in: int | None
    """None: as retries usually are."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One document to come: when (microseconds), whose, how long it takes, how often it fails first."""

    at: int
    customer: str
    group: int
    service: int
    failures: int
    handover: int = 0
    """What its worker takes after it until the next one."""
    wakeup: int = 0
    """What an idle worker takes to notice it."""
    failed_attempts: tuple[FailedAttempt, ...] = ()
    """The failed attempts, as many as `failures`; empty if unknown: then each takes as long as the last."""
    pages: int | None = None
    """None: as its spec has them."""
    cancel_after: int = 0
    """Microseconds of work after which its customer cancels it and submits it again, `cancels` times."""
    cancels: int = 0
    follows: int | None = None
    """The number of the arrival that it is the next step of, or a part of: it comes when that ends, not at `at`."""
    is_part: bool = False


def generate_arrivals(scenario: Scenario, max_documents: int = MAX_DOCUMENTS) -> list[Arrival]:
    """All documents in the order they come, the same for every order of the same seed; refused if there are more."""
    arrivals: list[Arrival] = []
    for number, group in enumerate(scenario.groups):
        random = Random(f"{scenario.seed}/{group.name}")
        capacity = scenario.workers / group.service.mean
        for at, customer in group.arrivals.draw(random, group.customers, capacity):
            failures = 0
            while group.failing and failures < 10 and random.random() < group.failing:
                failures += 1
            name = group.name if group.customers == 1 and customer == 0 else f"{group.name}-{customer:04}"
            arrivals.append(_draw_arrival(random, group, seconds(at), name, number, failures))
            if len(arrivals) > max_documents:
                raise InvalidInputError(f"scenario {scenario.name} has more than {max_documents} documents")
    arrivals.sort(key=lambda arrival: (arrival.at, arrival.group, arrival.customer))
    arrivals += _draw_parts(scenario, arrivals)
    if len(arrivals) > max_documents:
        raise InvalidInputError(f"scenario {scenario.name} has more than {max_documents} documents")
    return arrivals


def _draw_parts(scenario: Scenario, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the parts of documents, and the step of each document behind them."""
    following: list[Arrival] = []
    randoms = [Random(f"{scenario.seed}/{group.name}/parts") for group in scenario.groups]
    for number, arrival in enumerate(arrivals):
        group, random = scenario.groups[arrival.group], randoms[arrival.group]
        service = ServiceTime(group.service.kind, group.part_seconds)
        for place in range(group.parts + 1 if group.parts else 0):
            own = replace(arrival, service=service.draw(random), failures=0, pages=None, follows=number)
            following.append(replace(own, is_part=place < group.parts))
    return following


def _draw_arrival(random: Random, group: Group, at: int, customer: str, number: int, failures: int) -> Arrival:
    service = group.service.draw(random)
    pages = None if group.seconds_per_page is None else max(1, round(service / seconds(group.seconds_per_page)))
    cancel_after = seconds(group.cancel_after)
    cancels = group.cancels if service > cancel_after else 0
    return Arrival(at, customer, number, service, failures, pages=pages, cancel_after=cancel_after, cancels=cancels)


def built_in_scenarios() -> dict[str, Scenario]:
    """The scenarios that come with Inturn, by name."""
    folder = resources.files("inturn.analysis") / "scenarios"
    files = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda traversable: traversable.name
    )
    return {file.name[:-5]: parse_scenario(file.name[:-5], file.read_text(encoding="utf-8")) for file in files}


def load_scenario(name: str) -> Scenario:
    """A built-in scenario by its name, or one from a TOML file by its path."""
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(f"cannot read scenario {name}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"scenario {name} is not UTF-8: {error}") from error
        return parse_scenario(Path(name).stem, text)
    known = built_in_scenarios()
    if name not in known:
        raise InvalidInputError(f"no scenario {name!r}; give a file ending in .toml, or one of {', '.join(known)}")
    return known[name]


def parse_scenario(name: str, text: str) -> Scenario:
    """Parse a scenario from TOML; errors name the invalid value."""
    try:
        stored = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"scenario {name} is no TOML: {error}") from error
    _require_known_keys(name, stored, {"title", "workers", "seed", "policy", "group"})
    groups = stored.get("group")
    if not isinstance(groups, list) or not groups:
        raise InvalidInputError(f"scenario {name} needs at least one [[group]]")
    parsed = tuple(_parse_group(name, group) for group in groups)
    if len({group.name for group in parsed}) < len(parsed):
        raise InvalidInputError(f"scenario {name} has two groups of one name")
    return Scenario(
        name,
        clean_text(f"title of {name}", stored.get("title", name)),
        _require_int(f"workers of {name}", stored.get("workers", 1), 1, MAX_WORKERS),
        parsed,
        _parse_policy(name, stored.get("policy", {})),
        _require_int(f"seed of {name}", stored.get("seed", 1), 0, 2**62),
    )


def _parse_policy(name: str, table: Mapping[str, Any]) -> Policy:
    where = f"[policy] of {name}"
    _require_known_keys(where, table, POLICY_KEYS)
    default = Policy()
    durations = {
        item: seconds(clean_number(f"{item} of {name}", table[item], 0 if item == "share_idle_after" else 1e-6, 1e9))
        for item in ("reset_interval", "overdue_after", "share_idle_after")
        if item in table
    }
    thresholds = table.get("thresholds", default.priority.thresholds)
    policy = Policy(
        PriorityPolicy(durations.get("reset_interval", default.priority.reset_interval), tuple(thresholds)),
        TurnPolicy(
            overdue_after=durations.get("overdue_after", default.turns.overdue_after),
            overdue_every=table.get("overdue_every", default.turns.overdue_every),
            max_share=table.get("max_share", default.turns.max_share),
            share_idle_after=durations.get("share_idle_after", default.turns.share_idle_after),
        ),
    )
    policy = replace(
        policy, check_each_step=_require_flag(f"check_each_step of {name}", table.get("check_each_step", False))
    )
    return ChargeUnit.parse(f"charge of {name}", table.get("charge", ChargeUnit.TIME)).apply_to(policy)


def _require_flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise InvalidInputError(f"{name} must be true or false, not {value!r}")
    return value


def _parse_group(scenario: str, table: Mapping[str, Any]) -> Group:
    name = clean_text(f"a group's name in {scenario}", table.get("name", ""))
    where = f"group {name} of {scenario}"
    _require_known_keys(where, table, GROUP_KEYS)
    per_page = table.get("seconds_per_page")
    group = Group(
        name,
        _parse_arrivals(where, table.get("arrivals")),
        _parse_service_time(where, table.get("service")),
        _require_int(f"customers in {where}", table.get("customers", 1), 1, MAX_CUSTOMERS),
        clean_number(f"weight in {where}", table.get("weight", 1.0), MIN_WEIGHT, MAX_WEIGHT),
        table.get("cap"),
        clean_number(f"cost in {where}", table.get("cost", 1.0), MIN_COST, MAX_COST),
        clean_number(f"failing in {where}", table.get("failing", 0.0), 0, 0.9),
        None if per_page is None else clean_number(f"seconds_per_page in {where}", per_page, 1e-3, 86_400),
        clean_number(f"cancel_after in {where}", table.get("cancel_after", 0.0), 0, 86_400),
        _require_int(f"cancels in {where}", table.get("cancels", 0), 0, MAX_CANCELS),
        _require_int(f"parts in {where}", table.get("parts", 0), 0, MAX_PARTS),
        clean_number(f"part_seconds in {where}", table.get("part_seconds", 1.0), 1e-6, 86_400),
    )
    if group.parts and group.cancels:
        raise InvalidInputError(f"{where} has parts and cancels; give one of them")
    clean_settings(group.settings)
    return group


def _parse_arrivals(where: str, table: Any) -> ArrivalProcess:
    if not isinstance(table, dict) or table.get("kind") not in ARRIVAL_PROCESSES:
        raise InvalidInputError(f"{where} needs arrivals with a kind: {', '.join(ARRIVAL_PROCESSES)}")
    kind = ARRIVAL_PROCESSES[table["kind"]]
    return kind.from_toml(f"arrivals of {where}", {name: value for name, value in table.items() if name != "kind"})


def _parse_service_time(where: str, table: Any) -> ServiceTime:
    if not isinstance(table, dict) or table.get("kind") not in SERVICE_TIME_SAMPLERS:
        raise InvalidInputError(f"{where} needs a service with a kind: {', '.join(SERVICE_TIME_SAMPLERS)}")
    _require_known_keys(f"service of {where}", table, {"kind", "mean"})
    return ServiceTime(table["kind"], clean_number(f"mean service of {where}", table.get("mean", 1.0), 1e-6, 86_400))


def _require_known_keys(where: str, table: Mapping[str, Any], known: AbstractSet[str]) -> None:
    if not isinstance(table, dict):
        raise InvalidInputError(f"{where} must be a table")
    unknown = sorted(set(table) - known)
    if unknown:
        raise InvalidInputError(f"{where} knows {', '.join(sorted(known))}, not {', '.join(unknown)}")


def _require_int(name: str, value: Any, lowest: int, highest: int) -> int:
    if type(value) is not int or not lowest <= value <= highest:
        raise InvalidInputError(f"{name} must be a whole number from {lowest} to {highest}, not {value!r}")
    return value


__all__ = [
    "Arrival",
    "Group",
    "Scenario",
    "ServiceTime",
    "built_in_scenarios",
    "generate_arrivals",
    "load_scenario",
    "parse_scenario",
]

"""Arrival processes: each draws (second, customer number) from a seeded source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import cos, pi
from random import Random
from typing import Any, ClassVar, Final, Protocol, Self

from inturn.errors import InvalidInputError
from inturn.values import clean_number

MAX_VALUE: Final = 1e9
DAY_SECONDS: Final = 86_400.0


class ArrivalProcess(Protocol):
    """An arrival process."""

    kind: ClassVar[str]

    def draw(self, random: Random, customers: int, capacity: float) -> Iterator[tuple[float, int]]:
        """Yield second and customer of each document; `capacity` is what all workers can process in a second."""
        ...

    @classmethod
    def from_toml(cls, where: str, table: Mapping[str, Any]) -> Self:
        """Read the arrivals from a TOML table."""
        ...


class _TomlReader:
    """Reads the numeric fields of an arrival process."""

    @classmethod
    def from_toml(cls, where: str, table: Mapping[str, Any]) -> Self:
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # every kind is a dataclass
        unknown = sorted(set(table) - set(known))
        if unknown:
            raise InvalidInputError(f"{where} know {', '.join(known)}, not {', '.join(unknown)}")
        return cls(**{name: clean_number(f"{name} in {where}", value, 0, MAX_VALUE) for name, value in table.items()})


@dataclass(frozen=True, slots=True)
class Burst(_TomlReader):
    """Each customer submits a batch at once, once or at an interval. The first batch comes within `spread` of `at`."""

    kind: ClassVar[str] = "burst"
    documents: float = 1
    at: float = 0
    every: float = 0
    until: float = 0
    spread: float = 0

    def draw(self, random: Random, customers: int, capacity: float) -> Iterator[tuple[float, int]]:
        """Yield second and customer of each document."""
        del capacity
        for customer in range(customers):
            at = self.at + random.random() * self.spread
            while True:
                for _ in range(int(self.documents)):
                    yield at, customer
                at += self.every
                if not self.every or at > self.until:
                    break


@dataclass(frozen=True, slots=True)
class Poisson(_TomlReader):
    """A Poisson process: `rate` documents a second for each customer, or a `load` of the workers for all together."""

    kind: ClassVar[str] = "poisson"
    rate: float = 0
    load: float = 0
    at: float = 0
    until: float = 3600

    def draw(self, random: Random, customers: int, capacity: float) -> Iterator[tuple[float, int]]:
        """Yield second and customer of each document."""
        rate = self.rate or self.load * capacity / customers
        for customer in range(customers):
            yield from ((at, customer) for at in _poisson_times(random, rate, self.at, self.until))


@dataclass(frozen=True, slots=True)
class Newcomers(_TomlReader):
    """Every document, or `documents` at once, comes from a customer never seen before."""

    kind: ClassVar[str] = "newcomers"
    rate: float = 0
    load: float = 0
    at: float = 0
    until: float = 3600
    documents: float = 1

    def draw(self, random: Random, customers: int, capacity: float) -> Iterator[tuple[float, int]]:
        """Yield second and customer of each document."""
        del customers
        rate = (self.rate or self.load * capacity) / self.documents
        for number, at in enumerate(_poisson_times(random, rate, self.at, self.until), start=1):
            for _ in range(int(self.documents)):
                yield at, number


@dataclass(frozen=True, slots=True)
class Daily(_TomlReader):
    """Customers of Pareto-distributed size, each day with one peak, together this `load` of the workers on average."""

    kind: ClassVar[str] = "daily"
    load: float = 0.7
    shape: float = 1.2
    swing: float = 0.6
    days: float = 1
    batch: float = 5

    def draw(self, random: Random, customers: int, capacity: float) -> Iterator[tuple[float, int]]:
        """Yield second and customer of each document: batches of a random size, more of them around noon."""
        sizes = [random.paretovariate(self.shape) for _ in range(customers)]
        whole = sum(sizes)
        for customer, size in enumerate(sizes):
            rate = self.load * capacity * size / whole / self.batch
            for at in _poisson_times(random, rate * (1 + self.swing), 0, self.days * DAY_SECONDS):
                if random.random() * (1 + self.swing) <= 1 - self.swing * cos(2 * pi * at / DAY_SECONDS):
                    for _ in range(1 + int(random.expovariate(1 / (self.batch - 0.5)))):
                        yield at, customer


def _poisson_times(random: Random, rate: float, at: float, until: float) -> Iterator[float]:
    if rate <= 0:
        raise InvalidInputError("arrivals need a rate or a load above 0")
    while (at := at + random.expovariate(rate)) <= until:
        yield at


ARRIVAL_PROCESSES: Final[Mapping[str, type[ArrivalProcess]]] = {
    item.kind: item for item in (Burst, Poisson, Newcomers, Daily)
}

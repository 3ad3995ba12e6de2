"""Define what a side of `bench fleet` offers: a module with `setup`, `fill` and a `Claimer`."""

from typing import NamedTuple, Protocol


class Step(NamedTuple):
    """Count the documents that one call claimed, and those whose results it stored."""

    claimed: int
    finished: int


class Claimer(Protocol):
    """One worker process's connection to a queue."""

    def step(self) -> Step:
        """Claim documents and store results durably; nothing is left to claim once `claimed` is 0."""

    def finish(self) -> int:
        """Store the results of all documents that are still claimed; return how many."""

    def close(self) -> None: ...

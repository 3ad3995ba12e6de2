"""Inturn on PostgreSQL, from the side of whoever submits and of whoever claims. The fair order is on."""

import time
from collections.abc import Callable

import inturn
from inturn import NewDocument, Queue

NAME = "Inturn"
CUSTOMERS = 50
CHOICES = (100, 200, 400)
"""Documents of one exchange, which finishes what the last one claimed."""


def settings(choice: int) -> str:
    return f"psycopg, exchanges of {choice}, {CUSTOMERS} customers, fair order; claims alone commit asynchronously"


def setup(url: str) -> None:
    inturn.migrate(url)


class Submitter:
    """One process that takes documents in."""

    def __init__(self, url: str) -> None:
        self.queue: Queue = inturn.open(url)
        self._calls = 0

    def singles(self, payloads: list[str]) -> None:
        for payload in payloads:
            self.bulk([payload])

    def bulk(self, payloads: list[str]) -> None:
        self._calls += 1
        documents = [NewDocument("document.pdf", metadata={"payload": payload}) for payload in payloads]
        self.queue.submit(f"customer {self._calls % CUSTOMERS}", documents)

    def close(self) -> None:
        self.queue.close()


def drain(url: str, choice: int, on_ready: Callable[[], object]) -> int:
    """Claim and finish until nothing is left; how many."""
    done, outcomes = 0, []
    with inturn.open(url) as queue:
        on_ready()
        while True:
            claimed = queue.ack_and_claim(outcomes, "bench", choice).claimed
            outcomes = [queue.done(claim, {"pages": 3}) for claim in claimed]
            done += len(claimed)
            if not claimed:
                return done


def serve(url: str, on_started: Callable[[str, float], object], on_ready: Callable[[], object]) -> None:
    """Claim whatever comes, one by one, and tell when; until a payload says that it is over."""
    with inturn.open(url) as queue:
        queue.claim("bench")
        queue.store.wait(0.0)
        on_ready()
        while True:
            claimed = queue.claim("bench", 10)
            now = time.monotonic()
            if not claimed:
                queue.store.wait(1.0)
            for claim in claimed:
                payload = claim.document.spec.metadata["payload"]
                on_started(payload, now)
                queue.finish(claim)
                if payload == "over":
                    return

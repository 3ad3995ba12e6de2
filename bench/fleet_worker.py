"""Run one worker process of `python -m bench fleet`: a command on a line of stdin, an answer on a line of stdout.

`open` connects and warms up; the line `drain` is the barrier, which the benchmark lifts once all processes are open.
"""

import importlib
import io
import itertools
import json
import os
import select
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.peers.claimer import Claimer

MODULES = {
    "inturn-postgres": "bench.peers.fleet_inturn",
    "pgqueuer": "bench.peers.postgres_pgqueuer",
    "bare-postgres": "bench.peers.postgres_bare",
    "inturn-sqlite": "bench.peers.fleet_inturn",
    "huey-sqlite": "bench.peers.sqlite_huey",
}
"""The sides, each with the module that has its `setup`, `fill` and `Claimer`."""
BEFORE = "-before"
"""Ends the name of a side that runs another checkout of Inturn."""


class FleetWorker:
    """Carry out the commands of the benchmark; methods without an underscore are the commands."""

    def __init__(self, side: str, commands: io.FileIO) -> None:
        self._commands = commands
        self._module: Any = importlib.import_module(MODULES[side.removesuffix(BEFORE)])
        self._claimer: Any = None

    def setup(self, target: str) -> dict[str, Any]:
        self._module.setup(target)
        return {"source": getattr(self._module, "SOURCE", "")}

    def fill(self, target: str, documents: int, customers: int) -> dict[str, Any]:
        self._module.fill(target, documents, customers)
        return {}

    def open(self, target: str, limit: int, warm_up: int) -> dict[str, Any]:
        """Connect, then claim and finish so many times, until statements are prepared and caches are filled."""
        claimer: Claimer = self._module.Claimer(target, f"worker-{os.getpid()}", limit)
        self._claimer = claimer
        times, finished = [time.monotonic()], 0
        for _ in range(warm_up):
            finished += claimer.step().finished
            times.append(time.monotonic())
        calls = [after - before for before, after in itertools.pairwise(times)]
        return {"finished": finished + claimer.finish(), "calls": calls}

    def drain(self) -> dict[str, Any]:
        """Claim and finish until nothing is left; report times of the clock that all processes share."""
        claimer: Claimer = self._claimer
        calls: list[float] = []
        finished = 0
        used = time.process_time()
        begun = before = ended = time.monotonic()
        while True:
            step = claimer.step()
            after = time.monotonic()
            if step.finished:
                finished, ended = finished + step.finished, after
            if not step.claimed:
                break
            calls.append(after - before)
            before = after
        used = time.process_time() - used
        claimer.close()
        return {"begun": begun, "ended": ended, "finished": finished, "calls": calls, "cpu": used}

    def serve(self, seconds: float, watched: str) -> dict[str, Any]:
        """Claim and sleep so long for every document until another line comes; report starts of watched customers."""
        claimer = self._claimer
        calls: list[float] = []
        while not select.select([self._commands], [], [], 0)[0]:
            before = time.monotonic()
            step = claimer.step()
            calls.append(time.monotonic() - before)
            for claim in claimer.claims:
                if claim.document.customer.startswith(watched):
                    reply({"started": claim.document.customer, "at": time.monotonic()})
                time.sleep(seconds)
            if not step.claimed:
                time.sleep(seconds)
        self._commands.readline()
        claimer.finish()
        return {"calls": calls}

    def submit(self, customer: str) -> dict[str, Any]:
        """Submit one document on the open connection."""
        before = time.monotonic()
        self._module.submit(self._claimer.queue, customer)
        return {"before": before, "after": time.monotonic()}

    def close(self) -> dict[str, Any]:
        self._claimer.close()
        return {}


def reply(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    commands = io.FileIO(0)  # unbuffered, so that select sees every line
    worker = FleetWorker(sys.argv[1], commands)
    while line := commands.readline():
        command: dict[str, Any] = json.loads(line)
        method: Callable[..., dict[str, Any]] = getattr(worker, command.pop("command"))
        reply(method(**command))


if __name__ == "__main__":
    main()

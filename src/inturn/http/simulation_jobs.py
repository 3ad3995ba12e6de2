"""Run simulations and replays, each in a process of its own: `python -m inturn.http.simulation_jobs`.

The process reads one line of JSON from stdin and writes `{"done": n, "total": n}` lines as it goes. The last line is
the result or `{"error": text}`. The server streams these lines and stores nothing: a caller that disconnects ends its
job. `{"kind": "simulate"}` is described at `run_scenario`, the other kinds in `inturn.analysis.jobs`.

This module imports nothing of FastAPI, which would add most of a second to the start of each job.
"""

import asyncio
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil
from statistics import fmean
from typing import Any, Final

from inturn.analysis.arrival_processes import ArrivalProcess, Burst, Daily, Newcomers, Poisson
from inturn.analysis.charges import with_sharing
from inturn.analysis.engine import Discipline, Run, simulate_scenario
from inturn.analysis.jobs import run_job
from inturn.analysis.metrics import build_report, percentile
from inturn.analysis.scenario import Scenario, load_scenario
from inturn.errors import InturnError, InvalidInputError
from inturn.policy import Policy
from inturn.values import SECOND

MAX_CONCURRENT_JOBS: Final = 2
"""Each job keeps one CPU core busy."""
JOB_TIMEOUT_SECONDS: Final = 60.0
MAX_JOB_DOCUMENTS: Final = 50_000
MAX_LINE_BYTES: Final = 1 << 20
PROGRESS_PREFIX: Final = b'{"done"'
MAX_LISTED_CUSTOMERS: Final = 12
CURVE_STEPS: Final = 50
"""Steps of a spread and of a history."""

Send = Callable[[dict[str, Any]], None]


class SimulationJobs:
    """The jobs of one server. `store_url` is None, or in memory, where no other process can open the store."""

    def __init__(self, store_url: str | None) -> None:
        self._store_url = store_url
        self._running = 0

    @property
    def has_capacity(self) -> bool:
        """Whether another job may start now."""
        return self._running < MAX_CONCURRENT_JOBS

    def require_readable_history(self) -> None:
        """Refuse a job that reads the store if its process could not open it."""
        if self._store_url is None or self._store_url.startswith("memory:"):
            raise InvalidInputError("the queue is in memory, so its history cannot be replayed by another process")

    def simulate(self, request: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """Stream the reports of a scenario."""
        return self._stream("simulate", **request)

    def preview_policy(self, policy: Policy, since: int) -> AsyncIterator[bytes]:
        """Stream the comparison of a policy with the one in force."""
        return self._stream("policy", store=self._store_url, policy=policy.to_dict(), since=since)

    def evaluate_version(self, version: int, now: int) -> AsyncIterator[bytes]:
        """Stream the evaluation of a policy version."""
        return self._stream("judge", store=self._store_url, version=version, now=now)

    def replay(self, plan: Mapping[str, Any], since: int, until: int | None) -> AsyncIterator[bytes]:
        """Stream the comparison of a plan with the history as it was."""
        return self._stream("replay", store=self._store_url, plan=plan, since=since, until=until)

    async def _stream(self, kind: str, **request: Any) -> AsyncIterator[bytes]:
        self._running += 1
        try:
            async for line in _stream_process({"kind": kind, "most": MAX_JOB_DOCUMENTS, **request}):
                yield line
        finally:
            self._running -= 1


async def _stream_process(request: Mapping[str, Any]) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inturn.http.simulation_jobs"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        limit=MAX_LINE_BYTES,
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError("a process with pipes has pipes")
    has_ended = False
    try:
        async with asyncio.timeout(JOB_TIMEOUT_SECONDS):
            process.stdin.write(json.dumps(request).encode() + b"\n")
            while line := await process.stdout.readline():
                has_ended = not line.startswith(PROGRESS_PREFIX)
                yield line
        if not has_ended:
            yield _error_line("the job ended without a result; look at the log of the server's machine")
    except TimeoutError:
        yield _error_line(f"the job took longer than {JOB_TIMEOUT_SECONDS:g} seconds; ask for less")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _error_line(text: str) -> bytes:
    return json.dumps({"error": text}).encode() + b"\n"


def run_scenario(request: Mapping[str, Any], send: Send) -> None:
    """Simulate a scenario in each requested order, and send a report for each.

        {"scenario": name, "orders": ["fair", …], "workers": n, "load": x, "seed": n,
         "charge": "documents", "max_share": x, "most": n}

    A number that is null is that of the scenario. A report is that of `inturn simulate --json` with three more keys.
    `customers` has those with the most documents. `spread` has the mean waits of all customers, shortest first.
    `history` has the part of all workers' time that each group had.
    """
    scenario = apply_overrides(load_scenario(request["scenario"]), request)
    disciplines, runs = [Discipline(order) for order in request["orders"]], []
    for index, discipline in enumerate(disciplines):

        def progress(done: int, total: int, index: int = index) -> None:
            send({"done": index * total + done, "total": len(disciplines) * total})

        runs.append(simulate_scenario(scenario, discipline, progress=progress, max_documents=request["most"]))
        documents = len(runs[-1].arrivals)
        if not documents:
            raise InvalidInputError("these settings give no document at all; ask for more load")
        progress(documents, documents)
    ends_at = max(finished for run in runs for finished in run.finished)
    send({"reports": [_serialize_run(run, ends_at) for run in runs]})


def apply_overrides(scenario: Scenario, overrides: Mapping[str, Any]) -> Scenario:
    """Change a scenario's workers, seed and sharing, and multiply its documents by `load`."""
    changes = {name: overrides[name] for name in ("workers", "seed") if overrides.get(name) is not None}
    load = overrides.get("load") or 1.0
    groups = tuple(replace(group, arrivals=_scale_arrivals(group.arrivals, load)) for group in scenario.groups)
    policy = with_sharing(scenario.policy, overrides.get("charge"), overrides.get("max_share"))
    return replace(scenario, groups=groups, policy=policy, **changes)


def _scale_arrivals(arrivals: ArrivalProcess, factor: float) -> ArrivalProcess:
    match arrivals:
        case Burst():
            return replace(arrivals, documents=max(1.0, arrivals.documents * factor))
        case Poisson() | Newcomers():
            return replace(arrivals, rate=arrivals.rate * factor, load=arrivals.load * factor)
        case Daily():
            return replace(arrivals, load=arrivals.load * factor)
    raise AssertionError(f"there are no arrivals of kind {arrivals.kind}")


def _serialize_run(run: Run, ends_at: int) -> dict[str, Any]:
    waits: dict[tuple[str, int], list[float]] = defaultdict(list)
    for arrival, started in zip(run.arrivals, run.started, strict=True):
        waits[arrival.customer, arrival.group].append((started - arrival.at) / SECOND)
    groups = [group.name for group in run.scenario.groups]
    listed = sorted(waits.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:MAX_LISTED_CUSTOMERS]
    return {
        **build_report(run).to_dict(),
        "customers": [
            {"customer": name, "group": groups[group], "documents": len(own), **_wait_summary(own)}
            for (name, group), own in listed
        ],
        "spread": _wait_distribution([fmean(own) for own in waits.values()]),
        "history": _share_history(run, groups, ends_at),
    }


def _wait_summary(waits: Sequence[float]) -> dict[str, float]:
    ordered = sorted(waits)
    figures = {"mean": fmean(ordered), "p95": percentile(ordered, 0.95), "worst": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def _wait_distribution(means: Sequence[float]) -> list[float]:
    ordered = sorted(means)
    return [round(percentile(ordered, step / CURVE_STEPS), 3) for step in range(CURVE_STEPS + 1)]


def _share_history(run: Run, groups: Sequence[str], ends_at: int) -> dict[str, Any]:
    begins_at = run.arrivals[0].at
    step = ceil((ends_at - begins_at) / CURVE_STEPS)
    served = [[0] * CURVE_STEPS for _ in groups]
    for arrival, started in zip(run.arrivals, run.started, strict=True):
        ended = started + arrival.service
        for index in range((started - begins_at) // step, min(CURVE_STEPS, (ended - begins_at) // step + 1)):
            until = begins_at + (index + 1) * step
            served[arrival.group][index] += min(ended, until) - max(started, until - step)
    available = step * run.scenario.workers
    shares = {name: [round(time / available, 4) for time in times] for name, times in zip(groups, served, strict=True)}
    return {"step": step / SECOND, "groups": shares}


def main() -> int:
    """Run the job that stdin asks for."""
    request = json.loads(sys.stdin.readline())
    try:
        (run_scenario if request["kind"] == "simulate" else run_job)(request, _print_line)
    except InturnError as error:
        _print_line({"error": str(error)})
        return 1
    return 0


def _print_line(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - stdout is the protocol


if __name__ == "__main__":
    sys.exit(main())

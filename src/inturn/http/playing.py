"""Scenarios for screens: `python -m inturn.http.playing` plays one in several orders, asked by one line on stdin.

    {"scenario": name, "orders": ["fair", …], "workers": n, "load": x, "seed": n, "most": n}

Numbers may be null: as the scenario says. It tells `{"done": n, "total": n}` as it goes, and `{"reports": [{…}]}` or
`{"error": text}` at the end, a line each. A report is that of `inturn simulate --json`, with `customers` (those with
the most documents), `spread` (the mean waits of all customers, from the shortest to the longest) and `history` (the
part of all workers' time that each group had).
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean
from typing import Any, Final

from inturn.analysis.arrival_processes import ArrivalProcess, Burst, Daily, Newcomers, Poisson
from inturn.analysis.engine import Discipline, Run, simulate_scenario
from inturn.analysis.metrics import build_report, percentile
from inturn.analysis.scenario import Scenario, load_scenario
from inturn.errors import InturnError, InvalidInputError
from inturn.model import SECOND

MAX_LISTED_CUSTOMERS: Final = 12
"""Customers whose own figures are told."""
CURVE_STEPS: Final = 50
"""Steps of a spread and of a history."""

Emit = Callable[[dict[str, Any]], None]


def main() -> int:
    """Do what the line says."""
    try:
        run_scenario(json.loads(sys.stdin.readline()), _emit_line)
    except InturnError as error:
        _emit_line({"error": str(error)})
        return 1
    return 0


def run_scenario(request: Mapping[str, Any], emit: Emit) -> None:
    """Play a scenario in all orders asked for."""
    scenario = apply_overrides(load_scenario(request["scenario"]), request)
    plays, runs = [Discipline(item) for item in request["orders"]], []
    for before, discipline in enumerate(plays):

        def progress(done: int, total: int, before: int = before) -> None:
            emit({"done": before * total + done, "total": len(plays) * total})

        runs.append(simulate_scenario(scenario, discipline, progress=progress, max_documents=request["most"]))
        documents = len(runs[-1].arrivals)
        if not documents:
            raise InvalidInputError("not one document comes with these settings; give more load")
        progress(documents, documents)
    ends_at = max(finished for run in runs for finished in run.finished)
    emit({"reports": [_serialize_run(run, ends_at) for run in runs]})


def apply_overrides(scenario: Scenario, overrides: Mapping[str, Any]) -> Scenario:
    """The scenario with other workers, another seed, and so many times its documents."""
    result, factor = scenario, overrides.get("load") or 1.0
    for name in ("workers", "seed"):
        if overrides.get(name) is not None:
            result = replace(result, **{name: overrides[name]})
    return replace(
        result,
        groups=tuple(replace(group, arrivals=_scale_arrivals(group.arrivals, factor)) for group in result.groups),
    )


def _scale_arrivals(arrivals: ArrivalProcess, factor: float) -> ArrivalProcess:
    match arrivals:
        case Burst():
            return replace(arrivals, documents=max(1.0, arrivals.documents * factor))
        case Poisson() | Newcomers():
            return replace(arrivals, rate=arrivals.rate * factor, load=arrivals.load * factor)
        case Daily():
            return replace(arrivals, load=arrivals.load * factor)
    raise AssertionError(f"there are no arrivals of kind {arrivals.kind}")


def _serialize_run(result: Run, ends_at: int) -> dict[str, Any]:
    waits: dict[tuple[str, int], list[float]] = defaultdict(list)
    for arrival, started in zip(result.arrivals, result.started, strict=True):
        waits[arrival.customer, arrival.group].append((started - arrival.at) / SECOND)
    groups = [group.name for group in result.scenario.groups]
    named = sorted(waits.items(), key=lambda item: (-len(item[1]), item[0]))[:MAX_LISTED_CUSTOMERS]
    return {
        **build_report(result).to_dict(),
        "customers": [
            {"customer": name, "group": groups[group], "documents": len(own), **_wait_summary(own)}
            for (name, group), own in named
        ],
        "spread": _wait_distribution([fmean(wait) for wait in waits.values()]),
        "history": _share_history(result, groups, ends_at),
    }


def _wait_summary(waits: Sequence[float]) -> dict[str, float]:
    ordered = sorted(waits)
    figures = {"mean": fmean(ordered), "p95": percentile(ordered, 0.95), "worst": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def _wait_distribution(means: Sequence[float]) -> list[float]:
    ordered = sorted(means)
    return [round(percentile(ordered, step / CURVE_STEPS), 3) for step in range(CURVE_STEPS + 1)]


def _share_history(result: Run, groups: Sequence[str], ends_at: int) -> dict[str, Any]:
    begins_at = result.arrivals[0].at
    step = ceil((ends_at - begins_at) / CURVE_STEPS)
    served = [[0] * CURVE_STEPS for _ in groups]
    for arrival, started in zip(result.arrivals, result.started, strict=True):
        ended = started + arrival.service
        for place in range((started - begins_at) // step, min(CURVE_STEPS, (ended - begins_at) // step + 1)):
            until = begins_at + (place + 1) * step
            served[arrival.group][place] += min(ended, until) - max(started, until - step)
    whole = step * result.scenario.workers
    shares = {name: [round(item / whole, 4) for item in served[place]] for place, name in enumerate(groups)}
    return {"step": step / SECOND, "groups": shares}


def _emit_line(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - this is how it speaks


if __name__ == "__main__":
    sys.exit(main())

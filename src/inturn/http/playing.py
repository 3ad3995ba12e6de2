"""Scenarios for screens: `python -m inturn.http.playing` plays one in several orders, asked by one line on stdin.

    {"scenario": name, "orders": ["fair", …], "workers": n, "load": x, "seed": n, "most": n}

Numbers may be null: as the scenario says. It tells `{"done": n, "total": n}` as it goes, and `{"reports": [{…}]}` or
`{"error": text}` at the end, a line each. A report is that of `inturn simulate --json`, with `customers` (those with
the most documents), `spread` (the mean waits of all customers, from the shortest to the longest) and `course` (the part
of all workers' time that each group had).
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from statistics import fmean
from typing import Any, Final

from inturn.errors import InturnError, InvalidInputError
from inturn.model import SECOND
from inturn.simulate.arrivals import Arrivals, Burst, Daily, Newcomers, Poisson
from inturn.simulate.engine import Play, Run, run
from inturn.simulate.report import percentile, report
from inturn.simulate.scenario import Scenario, load

NAMED: Final = 12
"""Customers whose own figures are told."""
POINTS: Final = 50
"""Steps of a spread and of a course."""

Tell = Callable[[dict[str, Any]], None]


def main() -> int:
    """Do what the line says."""
    try:
        play(json.loads(sys.stdin.readline()), _tell)
    except InturnError as wrong:
        _tell({"error": str(wrong)})
        return 1
    return 0


def play(asked: Mapping[str, Any], tell: Tell) -> None:
    """Play a scenario in all orders asked for."""
    scenario = changed(load(asked["scenario"]), asked)
    plays, runs = [Play(each) for each in asked["orders"]], []
    for before, each in enumerate(plays):

        def progress(done: int, total: int, before: int = before) -> None:
            tell({"done": before * total + done, "total": len(plays) * total})

        runs.append(run(scenario, each, progress=progress, most=asked["most"]))
        documents = len(runs[-1].arrivals)
        if not documents:
            raise InvalidInputError("not one document comes with these settings; give more load")
        progress(documents, documents)
    ends_at = max(finished for each in runs for finished in each.finished)
    tell({"reports": [_told(each, ends_at) for each in runs]})


def changed(scenario: Scenario, asked: Mapping[str, Any]) -> Scenario:
    """The scenario with other workers, another seed, and so many times its documents."""
    found, factor = scenario, asked.get("load") or 1.0
    for name in ("workers", "seed"):
        if asked.get(name) is not None:
            found = replace(found, **{name: asked[name]})
    return replace(found, groups=tuple(replace(each, arrivals=_more(each.arrivals, factor)) for each in found.groups))


def _more(arrivals: Arrivals, factor: float) -> Arrivals:
    match arrivals:
        case Burst():
            return replace(arrivals, documents=max(1.0, arrivals.documents * factor))
        case Poisson() | Newcomers():
            return replace(arrivals, rate=arrivals.rate * factor, load=arrivals.load * factor)
        case Daily():
            return replace(arrivals, load=arrivals.load * factor)
    raise AssertionError(f"there are no arrivals of kind {arrivals.kind}")


def _told(played: Run, ends_at: int) -> dict[str, Any]:
    waits: dict[tuple[str, int], list[float]] = defaultdict(list)
    for arrival, started in zip(played.arrivals, played.started, strict=True):
        waits[arrival.customer, arrival.group].append((started - arrival.at) / SECOND)
    groups = [each.name for each in played.scenario.groups]
    named = sorted(waits.items(), key=lambda each: (-len(each[1]), each[0]))[:NAMED]
    return {
        **report(played).plain(),
        "customers": [
            {"customer": name, "group": groups[group], "documents": len(own), **_figures(own)}
            for (name, group), own in named
        ],
        "spread": _spread([fmean(each) for each in waits.values()]),
        "course": _course(played, groups, ends_at),
    }


def _figures(waits: Sequence[float]) -> dict[str, float]:
    ordered = sorted(waits)
    figures = {"mean": fmean(ordered), "p95": percentile(ordered, 0.95), "worst": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def _spread(means: Sequence[float]) -> list[float]:
    ordered = sorted(means)
    return [round(percentile(ordered, step / POINTS), 3) for step in range(POINTS + 1)]


def _course(played: Run, groups: Sequence[str], ends_at: int) -> dict[str, Any]:
    begins_at = played.arrivals[0].at
    step = ceil((ends_at - begins_at) / POINTS)
    served = [[0] * POINTS for _ in groups]
    for arrival, started in zip(played.arrivals, played.started, strict=True):
        ended = started + arrival.service
        for place in range((started - begins_at) // step, min(POINTS, (ended - begins_at) // step + 1)):
            until = begins_at + (place + 1) * step
            served[arrival.group][place] += min(ended, until) - max(started, until - step)
    whole = step * played.scenario.workers
    shares = {name: [round(each / whole, 4) for each in served[place]] for place, name in enumerate(groups)}
    return {"step": step / SECOND, "groups": shares}


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - this is how it speaks


if __name__ == "__main__":
    sys.exit(main())

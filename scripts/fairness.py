"""Write the tables of docs/fairness.md anew from the simulator.

python scripts/fairness.py              all tables
python scripts/fairness.py two-bulk     only these

`ranges` plays the scenarios that the page's text speaks of with eight seeds; `erlang` is the comparison with theory.
Either takes some minutes, all other tables together about as long.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from math import factorial
from pathlib import Path
from typing import NamedTuple

from inturn.analysis import Scenario, build_report, load_scenario, simulate_scenario
from inturn.analysis.arrival_processes import Poisson
from inturn.analysis.engine import Discipline
from inturn.analysis.metrics import GroupReport
from inturn.analysis.scenario import Group, ServiceTime

PAGE = Path(__file__).resolve().parent.parent / "docs" / "fairness.md"
TABLE = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEADINGS = (
    "order",
    "customers",
    "documents",
    "mean",
    "p95",
    "worst",
    "slowdown",
    "behind ideal",
    "longest gap",
    "Jain",
)
SEEDS = range(1, 9)
MEAN_OVER_CLASSIC = "mean wait over classic"
RANGE_HEADINGS = ("scenario", "order", "customers", "figure", "lowest", "highest")


class Figure(NamedTuple):
    """A figure that the page's text states: of which group, in which order."""

    scenario: str
    discipline: Discipline
    group: str
    figure: str


FIGURES = (
    Figure("flood", Discipline.FAIR, "small", "worst wait, s"),
    Figure("flood", Discipline.FIFO, "small", "mean wait, s"),
    Figure("two-bulk", Discipline.FAIR, "bulk B", "mean wait, s"),
    Figure("two-bulk", Discipline.CLASSIC, "bulk B", "mean wait, s"),
    Figure("two-bulk", Discipline.FAIR, "bulk A", "behind ideal, s"),
    Figure("two-bulk", Discipline.FAIR, "bulk B", "behind ideal, s"),
    Figure("two-bulk", Discipline.CLASSIC, "bulk B", "behind ideal, s"),
    Figure("trickler", Discipline.FAIR, "trickler", "mean wait, s"),
    Figure("trickler", Discipline.CLASSIC, "trickler", "mean wait, s"),
    Figure("trickler-long", Discipline.FAIR, "trickler", "mean wait, s"),
    Figure("trickler-long", Discipline.CLASSIC, "trickler", "mean wait, s"),
    Figure("starving-102", Discipline.FAIR, "level 9", "worst wait, s"),
    Figure("starving-102", Discipline.CLASSIC, "level 9", "worst wait, s"),
    Figure("starving-102", Discipline.FAIR, "newcomers", MEAN_OVER_CLASSIC),
    Figure("starving-105", Discipline.FAIR, "level 9", "worst wait, s"),
    Figure("starving-105", Discipline.CLASSIC, "level 9", "worst wait, s"),
    Figure("starving-105", Discipline.FAIR, "newcomers", MEAN_OVER_CLASSIC),
    Figure("newcomers", Discipline.FAIR, "regular", "worst wait, s"),
    Figure("newcomers", Discipline.CLASSIC, "regular", "worst wait, s"),
)


@cache
def group_reports(scenario: str, discipline: Discipline, seed: int) -> dict[str, GroupReport]:
    """Play a scenario with a seed; its groups by name."""
    return {
        group.group: group
        for group in build_report(simulate_scenario(replace(load_scenario(scenario), seed=seed), discipline)).groups
    }


def values(figure: Figure) -> Iterator[float]:
    """Yield the figure for each seed."""
    for seed in SEEDS:
        group = group_reports(figure.scenario, figure.discipline, seed)[figure.group]
        if figure.figure == MEAN_OVER_CLASSIC:
            yield 100 * (group.mean / group_reports(figure.scenario, Discipline.CLASSIC, seed)[figure.group].mean - 1)
        else:
            yield {"mean": group.mean, "worst": group.worst, "behind": group.behind_ideal}[figure.figure.split()[0]]


def range_row(figure: Figure) -> tuple[str, ...]:
    """Return the row of a figure: its lowest and highest value over the seeds."""
    measured = list(values(figure))
    ends = min(measured), max(measured)
    shown = (f"{round(end):+d} %" if figure.figure == MEAN_OVER_CLASSIC else f"{end:,.1f}" for end in ends)
    return f"`{figure.scenario}`", f"`{figure.discipline}`", figure.group, figure.figure, *shown


def ranges_table() -> str:
    """Return what the page's text states, over all seeds."""
    title = f"Lowest and highest of seeds {SEEDS[0]} to {SEEDS[-1]}."
    return f"{title}\n\n{markdown(RANGE_HEADINGS, [range_row(figure) for figure in FIGURES])}"


def scenario_table(name: str) -> str:
    """One scenario in every order."""
    scenario = load_scenario(name)
    rows = []
    for play in Discipline:
        result = build_report(simulate_scenario(scenario, play))
        for number, group in enumerate(result.groups):
            jain = result.jain if number == 0 else None
            rows.append(
                (
                    f"`{play}`" if number == 0 else "",
                    f"{group.group} ({group.customers:,})",
                    f"{group.documents:,}",
                    *(f"{value:,.1f}" for value in (group.mean, group.p95, group.worst)),
                    *(f"{value:,.1f}" for value in (group.slowdown, group.behind_ideal, group.longest_gap)),
                    "" if jain is None else f"{jain:.3f}",
                )
            )
    title = f"{scenario.title}; {scenario.workers} workers, seed {scenario.seed}."
    return f"{title}\n\n{markdown(HEADINGS, rows)}"


def erlang_table() -> str:
    """Mean waits of M/M/k through the real queue, against Erlang's formula."""
    rows = []
    for workers, load_ in ((1, 0.5), (2, 0.5), (4, 0.6), (8, 0.7)):
        arrivals = Poisson(load=load_, until=100_000 / workers / load_)
        group = Group("all", arrivals, ServiceTime("exponential", 1.0), customers=20)
        waits: list[int] = []
        for seed in range(8):
            played = simulate_scenario(Scenario("erlang", "M/M/k", workers, (group,), seed=seed))
            waits += [start - arrival.at for start, arrival in zip(played.started, played.arrivals, strict=True)]
        mean = sum(waits) / len(waits) / 1e6
        expected = erlang_c(workers, load_) / (workers * (1 - load_))
        rows.append(
            (
                str(workers),
                str(load_),
                f"{len(waits):,}",
                f"{mean:.4f}",
                f"{expected:.4f}",
                f"{mean / expected - 1:+.1%}",
            )
        )
    return markdown(("workers", "load", "documents", "mean wait, s", "Erlang C, s", "difference"), rows)


def erlang_c(workers: int, load: float) -> float:
    """The chance that an arrival finds all workers busy."""
    offered = workers * load
    busy = offered**workers / factorial(workers) / (1 - load)
    return busy / (sum(offered**n / factorial(n) for n in range(workers)) + busy)


def markdown(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; figures stand on the right."""
    words = {"order", "customers", "scenario", "figure"}
    sides = ["---" if heading in words else "---:" for heading in headings]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, tuple(sides), *rows]) + "\n"


TABLES = {"erlang": erlang_table, "ranges": ranges_table}
"""Tables of more than one scenario."""


def regenerate(page: str, is_selected: Callable[[str], bool]) -> str:
    """The page with the wanted tables made anew."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        if not is_selected(name):
            return match[0]
        print(f"fairness: {name}", file=sys.stderr, flush=True)
        made = TABLES[name]() if name in TABLES else scenario_table(name)
        return f"{match[1]}{made}{match[3]}"

    return TABLE.sub(table, page)


def main() -> None:
    """Write the page."""
    names = set(sys.argv[1:])
    page = PAGE.read_text(encoding="utf-8")
    known = {match["name"] for match in TABLE.finditer(page)}
    if names - known:
        sys.exit(f"the page has no table {', '.join(sorted(names - known))}; it has {', '.join(sorted(known))}")
    PAGE.write_text(regenerate(page, lambda name: not names or name in names), encoding="utf-8")


if __name__ == "__main__":
    main()

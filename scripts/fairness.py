"""Writes the tables of docs/fairness.md anew from the simulator.

python scripts/fairness.py              all tables
python scripts/fairness.py two-bulk     only these; `erlang` is the comparison with theory
"""

import re
import sys
from collections.abc import Callable
from math import factorial
from pathlib import Path

from inturn.simulate import Scenario, load, report, run
from inturn.simulate.arrivals import Poisson
from inturn.simulate.engine import Play
from inturn.simulate.scenario import Group, Service

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


def scenario_table(name: str) -> str:
    """One scenario in every order."""
    scenario = load(name)
    rows = []
    for play in Play:
        result = report(run(scenario, play))
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
        group = Group("all", arrivals, Service("exponential", 1.0), customers=20)
        waits: list[int] = []
        for seed in range(8):
            played = run(Scenario("erlang", "M/M/k", workers, (group,), seed=seed))
            waits += [start - each.at for start, each in zip(played.started, played.arrivals, strict=True)]
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
    sides = ["---" if heading in {"order", "customers"} else "---:" for heading in headings]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, tuple(sides), *rows]) + "\n"


def regenerated(page: str, wanted: Callable[[str], bool]) -> str:
    """The page with the wanted tables made anew."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        if not wanted(name):
            return match[0]
        print(f"fairness: {name}", file=sys.stderr, flush=True)
        return f"{match[1]}{erlang_table() if name == 'erlang' else scenario_table(name)}{match[3]}"

    return TABLE.sub(table, page)


def main() -> None:
    """Write the page."""
    names = set(sys.argv[1:])
    page = PAGE.read_text(encoding="utf-8")
    known = {match["name"] for match in TABLE.finditer(page)}
    if names - known:
        sys.exit(f"the page has no table {', '.join(sorted(names - known))}; it has {', '.join(sorted(known))}")
    PAGE.write_text(regenerated(page, lambda name: not names or name in names), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write the tables of docs/fairness.md anew from the simulator.

python scripts/fairness.py              all tables
python scripts/fairness.py two-bulk     only these

`ranges` plays the scenarios that the page's text speaks of with eight seeds; `erlang` is the comparison with theory;
`charges` and `slots` compare what turns are charged, over eight seeds. Each takes some minutes, all other tables
together about as long.

The tables of one scenario show one rule each: they charge documents, and no customer's share of the slots is limited.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from math import factorial
from pathlib import Path
from typing import NamedTuple

from inturn.analysis import Report, Scenario, build_report, load_scenario, simulate_scenario
from inturn.analysis.arrival_processes import Poisson
from inturn.analysis.charges import ChargeUnit
from inturn.analysis.engine import Discipline
from inturn.analysis.metrics import GroupReport
from inturn.analysis.scenario import Group, ServiceTime
from inturn.values import seconds

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


class Rule(NamedTuple):
    """A way to charge turns and to limit shares: its name on the page, and its policy."""

    name: str
    unit: ChargeUnit
    max_share: float = 1.0
    share_idle_after: float = 0.0

    def apply_to(self, scenario: Scenario) -> Scenario:
        """Return the scenario under this rule."""
        policy = scenario.policy
        turns = replace(policy.turns, max_share=self.max_share, share_idle_after=seconds(self.share_idle_after))
        return replace(scenario, policy=self.unit.apply_to(replace(policy, turns=turns)))


BY_DOCUMENTS = Rule("documents", ChargeUnit.DOCUMENTS)
RULES = (
    BY_DOCUMENTS,
    Rule("pages", ChargeUnit.PAGES),
    Rule("time", ChargeUnit.TIME),
    Rule("time, 7/8 of the slots", ChargeUnit.TIME, 7 / 8),
)
SLOT_RULES = (
    Rule("no limit", ChargeUnit.TIME),
    Rule("7/8", ChargeUnit.TIME, 7 / 8),
    Rule("7/8, for 3,600 s at least", ChargeUnit.TIME, 7 / 8, 3_600),
)
CHARGED_SCENARIOS = (
    "long-beside-short", "ten-bulk-pareto", "huge-against-tiny", "cancel-and-resubmit", "unknown-pages", "splitting",
    "failing", "newcomers-beside-regulars",
)  # fmt: skip
CHARGE_HEADINGS = (
    "scenario", "charge", "Jain by seconds", "in windows", "Jain by documents", "in windows", "share of the first",
    "behind ideal", "light: mean", "p95", "worst",
)  # fmt: skip
SLOT_HEADINGS = ("share", "light: mean", "p95", "worst", "long: mean", "finished after")
LIGHT_GROUPS = {"light", "newcomers"}
PROCESSES = 2


def play_rule(task: tuple[str, Rule, int]) -> Report:
    """Play a scenario under a rule with a seed."""
    name, rule, seed = task
    return build_report(simulate_scenario(rule.apply_to(replace(load_scenario(name), seed=seed))))


def play_seeds(name: str, rule: Rule) -> list[Report]:
    """Play a scenario under a rule with each seed."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        return list(pool.map(play_rule, [(name, rule, seed) for seed in SEEDS]))


def span(values: Sequence[float | None], digits: int) -> str:
    """Return the lowest and the highest of these values."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = f"{min(known):,.{digits}f}", f"{max(known):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def charges_table() -> str:
    """Return what customers get when turns are charged documents, pages or time."""
    rows = []
    for name in CHARGED_SCENARIOS:
        for rule in RULES:
            print(f"fairness: {name}, {rule.name}", file=sys.stderr, flush=True)
            reports = play_seeds(name, rule)
            light = [group for report in reports for group in report.groups if group.group in LIGHT_GROUPS]
            rows.append(
                (
                    f"`{name}`" if rule is RULES[0] else "",
                    rule.name,
                    span([report.shares.seconds.run for report in reports], 3),
                    span([report.shares.seconds.windows for report in reports], 3),
                    span([report.shares.documents.run for report in reports], 3),
                    span([report.shares.documents.windows for report in reports], 3),
                    span([report.groups[0].work_share for report in reports], 2),
                    span([max(group.behind_ideal for group in report.groups) for report in reports], 1),
                    *(span([getattr(group, figure) for group in light], 1) for figure in ("mean", "p95", "worst")),
                )
            )
    return markdown(CHARGE_HEADINGS, rows)


def slots_table() -> str:
    """Return the waits beside an account whose long documents fill all slots."""
    rows = []
    for rule in SLOT_RULES:
        reports = play_seeds("slots-held", rule)
        groups = [report.groups for report in reports]
        rows.append(
            (
                rule.name,
                *(span([getattr(light, figure) for _, light in groups], 1) for figure in ("mean", "p95", "worst")),
                span([long.mean for long, _ in groups], 0),
                span([report.seconds for report in reports], 0),
            )
        )
    return markdown(SLOT_HEADINGS, rows)


@cache
def group_reports(scenario: str, discipline: Discipline, seed: int) -> dict[str, GroupReport]:
    """Play a scenario with a seed; its groups by name."""
    return {
        group.group: group
        for group in build_report(
            simulate_scenario(BY_DOCUMENTS.apply_to(replace(load_scenario(scenario), seed=seed)), discipline)
        ).groups
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
    scenario = BY_DOCUMENTS.apply_to(load_scenario(name))
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
            played = simulate_scenario(BY_DOCUMENTS.apply_to(Scenario("erlang", "M/M/k", workers, (group,), seed=seed)))
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
    words = {"order", "customers", "scenario", "figure", "charge", "share"}
    sides = ["---" if heading in words else "---:" for heading in headings]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, tuple(sides), *rows]) + "\n"


TABLES = {"erlang": erlang_table, "ranges": ranges_table, "charges": charges_table, "slots": slots_table}
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

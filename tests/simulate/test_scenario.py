"""Scenarios: those that come with Inturn, and mistakes in one's own."""

from pathlib import Path

import pytest

from inturn import InvalidInputError
from inturn.analysis import built_in_scenarios, load_scenario
from inturn.analysis.scenario import generate_arrivals, parse_scenario

GOOD = """
title = "mine"
workers = 2
[policy]
reset_interval = 60
overdue_after = 5
[[group]]
name = "a"
customers = 3
arrivals = { kind = "poisson", rate = 0.1, until = 100 }
service = { kind = "fixed", mean = 2.0 }
"""


def test_the_scenarios_of_the_design_are_there() -> None:
    assert set(built_in_scenarios()) >= {
        "flood",
        "two-bulk",
        "day-70",
        "day-90",
        "day-120",
        "trickler",
        "trickler-long",
        "gamer",
        "identities",
        "huge",
        "starving-102",
        "starving-105",
        "newcomers",
    }


@pytest.mark.parametrize("name", sorted(built_in_scenarios()))
def test_every_built_in_scenario_has_documents_in_order(name: str) -> None:
    arrivals = generate_arrivals(load_scenario(name))
    assert 1_000 < len(arrivals) < 100_000
    by_themselves = [arrival.at for arrival in arrivals if arrival.follows is None]
    assert by_themselves == sorted(by_themselves)
    assert all(arrival.service > 0 for arrival in arrivals)


@pytest.mark.parametrize(("name", "load_wanted"), [("day-70", 0.7), ("day-90", 0.9), ("day-120", 1.2)])
def test_a_day_has_the_load_it_says(name: str, load_wanted: float) -> None:
    scenario = load_scenario(name)
    work = sum(generate_arrival.service for generate_arrival in generate_arrivals(scenario)) / 1_000_000
    assert work / scenario.workers / 86_400 == pytest.approx(load_wanted, rel=0.1)


def test_a_scenario_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    scenario = load_scenario(str(path))
    assert (scenario.name, scenario.title, scenario.workers) == ("mine", "mine", 2)
    assert scenario.policy.priority.reset_interval == 60_000_000
    assert {generate_arrival.customer for generate_arrival in generate_arrivals(scenario)} == {
        "a-0000",
        "a-0001",
        "a-0002",
    }


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ('title = "mine"', 'title = "mine', "no TOML"),
        ("workers = 2", "workers = 0", "workers"),
        ("workers = 2", "wrkers = 2", "not wrkers"),
        ('kind = "poisson"', 'kind = "posson"', "burst, poisson"),
        ('kind = "fixed"', 'kind = "slow"', "fixed, exponential"),
        ("rate = 0.1", "rate = -0.1", "rate"),
        ("rate = 0.1", "rat = 0.1", "not rat"),
        ("mean = 2.0", "mean = 0", "mean"),
        ("customers = 3", "customers = 2.5", "customers"),
        ('name = "a"', 'name = ""', "name"),
        ('name = "a"', 'name = "a"\nweight = 0', "weight"),
        ('name = "a"', 'name = "a"\ncap = 0', "cap"),
        ('name = "a"', 'name = "a"\nfailing = 1.5', "failing"),
        ("reset_interval = 60", "reset_interval = -1", "reset_interval"),
        ("reset_interval = 60", "thresholds = [-4, -2]", "must go down"),
    ],
)
def test_mistakes_are_refused_with_advice(old: str, new: str, advice: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInputError, match=advice):
        parse_scenario("mine", GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("text", "advice"),
    [("", "at least one"), (GOOD + GOOD[GOOD.index("[[group]]") :], "two groups"), ("group = 3", "at least one")],
)
def test_groups_are_needed_and_have_names_of_their_own(text: str, advice: str) -> None:
    with pytest.raises(InvalidInputError, match=advice):
        parse_scenario("mine", text)


def test_an_endless_scenario_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="more than 1000 documents"):
        generate_arrivals(
            parse_scenario("mine", GOOD.replace("rate = 0.1, until = 100", "rate = 1e6, until = 1e6")),
            max_documents=1_000,
        )


@pytest.mark.parametrize("name", ["nothing", "missing.toml"])
def test_a_scenario_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        load_scenario(name)

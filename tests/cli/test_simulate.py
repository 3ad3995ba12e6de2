"""`inturn simulate` as a person runs it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Inturn = Callable[..., Any]

SMALL = """
title = "Small"
workers = 2
[[group]]
name = "bulk"
arrivals = { kind = "burst", documents = 50 }
service = { kind = "fixed", mean = 1.0 }
[[group]]
name = "quiet"
arrivals = { kind = "burst", documents = 1, at = 5 }
service = { kind = "fixed", mean = 1.0 }
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def test_it_lists_the_scenarios(inturn: Inturn) -> None:
    shown = inturn("simulate")
    assert shown.returncode == 0
    assert "two-bulk" in shown.stdout
    listed = [json.loads(line)["scenario"] for line in inturn("simulate", "--json").stdout.splitlines()]
    assert "flood" in listed


def test_it_shows_a_table_of_the_orders(inturn: Inturn, small: str) -> None:
    shown = inturn("simulate", small)
    assert shown.returncode == 0
    assert shown.stderr == ""
    for word in ("Small", "51 documents", "fair", "classic", "fifo", "bulk", "quiet"):
        assert word in shown.stdout


def test_json_is_one_object_a_run(inturn: Inturn, small: str) -> None:
    shown = inturn("simulate", small, "--order", "fifo,fair", "--json", "--seed", "7")
    runs = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [run["order"] for run in runs] == ["fifo", "fair"]
    assert all(run["seed"] == 7 for run in runs)
    assert [run["groups"][1]["mean"] for run in runs] == [20.0, 1.0]


def test_charges_and_shares_are_compared(inturn: Inturn, small: str) -> None:
    options = ("--order", "fair,fifo", "--charge", "documents,time", "--max-share", "1")
    shown = inturn("simulate", small, *options, "--json")
    runs = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(run["order"], run["charge"]) for run in runs][:2] == [("fair", "documents"), ("fair", "time")]
    assert [run["order"] for run in runs] == ["fair", "fair", "fifo"]
    assert {run["max_share"] for run in runs} == {1.0}
    assert set(runs[0]["shares"]["seconds"]) == {"run", "windows"}
    assert "fair, time" in inturn("simulate", small, *options).stdout


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["simulate", "nothing"], "no scenario"),
        (["simulate", "flood", "--charge", "bytes"], "documents, pages, time"),
        (["simulate", "flood", "--order", "best"], "fair, classic, fifo"),
        (["simulate", "missing.toml"], "missing.toml"),
        (["simulate", "flood", "--seed", "-1"], "seed"),
        (["simulat"], "No such command"),
    ],
)
def test_mistakes_end_with_2_and_advice_not_with_a_traceback(inturn_here: Inturn, args: list[str], advice: str) -> None:
    shown = inturn_here(*args)
    assert shown.returncode == 2
    assert advice in shown.stderr
    assert "Traceback" not in shown.stderr


def test_it_tells_its_version(inturn_alone: Inturn) -> None:
    assert inturn_alone("--version").stdout.startswith("inturn 0.")

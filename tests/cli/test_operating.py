"""Commands that change something say what they changed, and who did it is kept."""

import os
import pty
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked_cli
from inturn import open as open_queue
from inturn.model import NewDocument
from inturn.store_types import EventKind
from inturn.worker_report import WorkerReport

Inturn = Callable[..., Any]


def submit(inturn_here: Inturn, n: int = 1) -> list[str]:
    names = [f"a://{number}" for number in range(n)]
    return [record["id"] for record in inturn_here("submit", "--customer", "acme", *names, "--json").records]


def test_the_queue_is_paused_and_goes_on(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    (paused,) = inturn_here("pause", "--by", "anna", "--why", "moving house", "--json").records
    assert paused == {"customer": None, "setting": "paused", "before": False, "after": True}
    assert inturn_here("status", "--json").records[0]["paused"] == {"name": "anna", "why": "moving house"}
    assert "paused by anna (reason: moving house)" in inturn_here("status").stdout
    assert inturn_here("resume").stdout == "Queue resumed.\n"
    assert inturn_here("status", "--json").records[0]["paused"] is None


def test_old_commands_change_one_setting(inturn_here: Inturn) -> None:
    submit(inturn_here)
    assert inturn_here("weight", "acme", "2.5").stdout == "acme: Weight 1 → 2.5\n"
    assert inturn_here("cap", "acme", "3").stdout == "acme: Concurrency limit - → 3\n"
    assert inturn_here("rate", "acme", "100/60").stdout == "acme: Rate limit - → 100/60 s\n"
    assert inturn_here("pause", "acme").returncode == 0
    (customer,) = inturn_here("customers", "--json").records
    assert (customer["weight"], customer["cap"], customer["rate"], customer["paused"]) == (
        *(2.5, 3),
        [100, 60_000_000],
        True,
    )
    inturn_here("cap", "acme", "none")
    (change,) = inturn_here("rate", "acme", "none", "--json").records
    assert change == {"customer": "acme", "setting": "rate", "before": [100, 60_000_000], "after": None}
    assert inturn_here("customers", "--json").records[0]["cap"] is None


def test_customer_set_changes_several_settings_at_once(inturn_here: Inturn, tmp_path: Path) -> None:
    submit(inturn_here)
    options = ("--weight", "2.5", "--max-running", "3", "--rate", "100/1m", "--retention", "90", "--paused")
    assert inturn_here("customer", "set", "acme", *options).stdout.splitlines() == [
        "acme: Weight 1 → 2.5",
        "acme: Concurrency limit - → 3",
        "acme: Rate limit - → 100/60 s",
        "acme: Retention - → 90 days",
        "acme: Paused no → yes",
    ]
    options = ("--max-running", "none", "--rate", "none", "--retention", "default", "--no-paused", "--json")
    assert inturn_here("customer", "set", "acme", *options).records == [
        {
            "customer": "acme",
            "changes": {
                "cap": [3, None],
                "rate": [[100, 60_000_000], None],
                "keep": [90 * 86_400_000_000, None],
                "paused": [True, False],
            },
        }
    ]
    with open_queue(str(tmp_path / "inturn.db")) as queue:
        kinds = [event.kind for event in queue.events()]
    assert kinds.count(EventKind.CUSTOMER_CHANGED) == 2


def test_customer_set_changes_nothing_if_one_setting_is_out_of_range(inturn_here: Inturn) -> None:
    submit(inturn_here)
    assert inturn_here("customer", "set", "acme", "--weight", "2", "--max-running", "0").returncode == 2
    assert inturn_here("customer", "show", "acme", "--json").records[0]["weight"] == 1


def test_customer_show_has_counter_settings_and_lanes(inturn_here: Inturn) -> None:
    submit(inturn_here, 4)
    inturn_here("customer", "set", "acme", "--paused")
    shown = [" ".join(line.split()) for line in inturn_here("customer", "show", "acme").stdout.splitlines()]
    assert shown[:4] == ["Customer: acme", "Counter: -3", "Waiting: 4", "Running: 0"]
    assert shown[4] == "Share of worker time: Unknown: workers processed no documents in the last 10 minutes."
    assert shown[5:] == [
        *("Weight: 1", "Concurrency limit: -", "Rate limit: -", "Retention: -", "Paused: yes"),
        *("Level Waiting Can start", "1 3 on hold", "2 1 on hold"),
    ]
    (record,) = inturn_here("customer", "show", "acme", "--json").records
    assert record.pop("share") is None
    assert [record] == inturn_here("customers", "--json").records
    assert inturn_here("customer", "show", "acem").returncode == 1


def test_customer_set_points_out_an_unknown_customer(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    assert "acem has not submitted anything yet" in inturn_here("customer", "set", "acem", "--weight", "2").stdout


def test_a_document_is_expedited_once(inturn_here: Inturn) -> None:
    id_ = submit(inturn_here, 5)[4]
    assert inturn_here("expedite", id_).stdout == f"{id_} moved to the front of the queue.\n"
    assert inturn_here("why", id_, "--json").records[0]["place"] == 0
    again = inturn_here("expedite", id_)
    assert again.returncode == 1
    assert "expedited already" in again.stderr


def test_the_policy_is_changed_with_its_difference_shown(inturn_here: Inturn) -> None:
    done = inturn_here(
        "policy", "set", "--reset-interval", "60", "--thresholds", "-1,-3", "--by", "anna", "--why", "trial"
    )
    assert "1,500 s (25 minutes)" in done.stdout
    assert "Version 2 is now active." in done.stdout
    (shown,) = inturn_here("policy", "show", "--json").records
    assert (shown["version"], shown["reset_interval"], shown["thresholds"]) == (2, 60_000_000, [-1, -3])
    assert "No changes." in inturn_here("policy", "set", "--reset-interval", "60").stdout
    (change,) = inturn_here("policy", "set", "--order", "classic", "--expect", "2", "--json").records
    assert change == {"version": 3, "changes": {"order": ["fair", "classic"]}}
    conflict = inturn_here("policy", "set", "--overdue-after", "5", "--overdue-every", "4", "--expect", "2")
    assert conflict.returncode == 1
    history = inturn_here("policy", "history", "--json").records
    assert [(item["version"], item["operator"], item["why"]) for item in history[1:]] == [
        (2, "anna", "trial"),
        (1, "inturn", "the defaults of a new queue"),
    ]
    assert "trial" in inturn_here("policy", "history").stdout
    assert "classic" in inturn_here("policy", "show").stdout


def test_what_customers_share_is_one_option(inturn_here: Inturn) -> None:
    def settings() -> tuple[object, ...]:
        (shown,) = inturn_here("policy", "show", "--json").records
        return shown["charge"], shown["per_document"], shown["per_page"]

    inturn_here("check", "acme")
    assert settings() == ("time", 0, 1)
    changed = inturn_here("policy", "set", "--cost", "documents").stdout
    assert re.search(r"cost +time +documents", changed)
    assert settings() == ("cost", 1, 0)
    assert re.search(r"cost +documents\b", inturn_here("policy", "show").stdout)
    inturn_here("policy", "set", "--cost", "pages")
    assert settings() == ("cost", 0, 1)
    inturn_here("policy", "set", "--per-document", "0.6", "--per-page", "0.4")
    inturn_here("policy", "set", "--cost", "time")
    assert settings() == ("time", 0.6, 0.4)
    inturn_here("policy", "set", "--cost", "pages", "--per-document", "0")
    assert settings() == ("cost", 0, 0.4)
    assert "No changes." in inturn_here("policy", "set", "--cost", "pages").stdout


@pytest.mark.parametrize(("typed", "part"), [("3/4", 0.75), ("0.6", 0.6), ("87.5%", 0.875), ("1", 1), (" 2/3 ", 2 / 3)])
def test_the_share_of_one_customer_is_a_part(inturn_here: Inturn, typed: str, part: float) -> None:
    inturn_here("check", "acme")
    assert inturn_here("policy", "set", "--max-share", typed, "--share-idle-after", "0").returncode == 0
    (shown,) = inturn_here("policy", "show", "--json").records
    assert (shown["max_share"], shown["share_idle_after"]) == (part, 0)


def test_the_share_is_shown_as_a_fraction(inturn_here: Inturn) -> None:
    inturn_here("check", "acme")
    assert re.search(r"max_share +0\.875 \(7/8\)", inturn_here("policy", "show").stdout)


def test_a_customer_at_its_share_is_shown_as_such(inturn_here: Inturn, tmp_path: Path) -> None:
    with open_queue(str(tmp_path / "inturn.db")) as queue:
        queue.store.record_worker(WorkerReport("w", "host", 1, 8, 8, "p", time.time_ns() // 1_000))
        queue.submit("quick", [NewDocument("a")])
        queue.claim("w")
        receipts = queue.submit("acme", [NewDocument("b")] * 9)
        assert len(queue.claim("w", 20)) == 7
    shown = inturn_here("customer", "show", "acme").stdout
    assert re.search(r"4 +2 +on hold: uses its share of the slots", shown)
    assert inturn_here("customer", "show", "acme", "--json").records[0]["at_slot_limit"]
    (why,) = inturn_here("why", receipts[-1].id, "--json").records
    assert (why["closed_by"], why["slot_use"]) == (["share"], {"running": 7, "slots": 8})
    assert "acme nutzt schon 7 von 8 Slots" in inturn_here("why", receipts[-1].id, "--lang", "de").stdout
    (top,) = inturn_here("top", "--json").records
    assert {item["customer"]: item["at_slot_limit"] for item in top["customers"]}["acme"]


def test_a_purge_without_a_terminal_needs_yes(inturn_here: Inturn) -> None:
    submit(inturn_here, 3)
    refused = inturn_here("purge", "acme")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert inturn_here("purge", "acme", "--yes", "--json").records == [
        {"customer": "acme", "documents": 3, "keys": 0, "blobs": 0}
    ]
    assert inturn_here("purge", "acme", "--yes", LANG="pl_PL").stdout.startswith("Usunięto 0 dokumentów klienta acme.")
    assert inturn_here("purge", "nobody", "--yes").returncode == 1


@pytest.mark.parametrize(("typed", "code", "left"), [("acme", 0, 0), ("amce", 1, 1)])
def test_a_purge_asks_for_the_customers_name(
    inturn_here: Inturn, environment: dict[str, str], tmp_path: Path, typed: str, code: int, left: int
) -> None:
    submit(inturn_here)
    ours, theirs = pty.openpty()
    command = forked_cli.command("purge", "acme")
    os.write(ours, f"{typed}\n".encode())
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=tmp_path, env=environment, stdin=theirs, capture_output=True, text=True, check=False, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert "Type the customer's name" in done.stderr
    assert len(inturn_here("documents", "--json").records) == left


def test_the_operator_is_the_flag_then_the_setting_then_the_login(inturn_here: Inturn) -> None:
    inturn_here("policy", "set", "--reset-interval", "1", LOGNAME="login")
    inturn_here("policy", "set", "--reset-interval", "2", LOGNAME="login", INTURN_OPERATOR="setting")
    inturn_here("policy", "set", "--reset-interval", "3", "--by", "flag", INTURN_OPERATOR="setting")
    history = inturn_here("policy", "history", "--json").records
    assert [item["operator"] for item in history] == ["flag", "setting", "login", "inturn"]


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["customer", "set", "acme"], "at least one"),
        (["customer", "set", "acme", "--weight", "0"], "0.001 to 1000"),
        (["customer", "set", "acme", "--max-running", "many"], "whole number"),
        (["customer", "set", "acme", "--rate", "1/0"], "span"),
        (["customer", "set", "acme", "--retention", "long"], "days to keep"),
        (["weight", "acme", "0"], "0.001 to 1000"),
        (["cap", "acme", "many"], "whole number"),
        (["cap", "acme", "0"], "from 1"),
        (["rate", "acme", "fast"], "100/60"),
        (["rate", "acme", "1/0"], "span"),
        (["rate", "acme", "1/nan"], "100/60"),
        (["policy", "set"], "at least one"),
        (["policy", "set", "--thresholds", "2,x"], "-2,-4"),
        (["policy", "set", "--thresholds", "-4,-2"], "go down"),
        (["policy", "set", "--overdue-every", "1"], "2 to 1000"),
        (["policy", "set", "--order", "random"], "fair"),
        (["policy", "set", "--cost", "seconds"], "documents"),
        (["policy", "set", "--cost", "documents", "--per-page", "1"], "every document costs 1"),
        (["policy", "set", "--cost", "pages", "--per-page", "0"], "more than 0"),
        (["policy", "set", "--max-share", "0.4"], "0.5 to 1"),
        (["policy", "set", "--max-share", "7/0"], "7/8, 0.875 or 87.5%"),
        (["policy", "set", "--max-share", "1e9"], "7/8, 0.875 or 87.5%"),
        (["policy", "set", "--share-idle-after", "soon"], "90s, 15m"),
        (["pause", "--by", "a\tb"], "control"),
    ],
)
def test_bad_input_changes_nothing(inturn_here: Inturn, args: list[str], advice: str) -> None:
    done = inturn_here(*args, "--store", "memory://")
    assert (done.returncode, done.stdout) == (2, "")
    assert advice in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("typed", "microseconds"),
    [("1500", 1_500), ("25m", 1_500), ("90s", 90), ("1.5h", 5_400), ("1d", 86_400), (" 2w ", 1_209_600)],
)
def test_lengths_of_time_have_units_everywhere(inturn_here: Inturn, typed: str, microseconds: int) -> None:
    inturn_here("check", "acme")
    inturn_here("policy", "set", "--reset-interval", typed, "--overdue-after", typed)
    shown = inturn_here("policy", "show", "--json").records[0]
    assert (shown["reset_interval"], shown["overdue_after"]) == (microseconds * 1_000_000,) * 2


def test_other_lengths_take_units_too(inturn_here: Inturn) -> None:
    inturn_here("check", "acme")
    assert inturn_here("rate", "acme", "100/1m", "--json").records[0]["after"] == [100, 60_000_000]
    assert inturn_here("keep", "acme", "12h", "--json").records[0]["after"] == 43_200_000_000
    assert inturn_here("keep", "acme", "2", "--json").records[0]["after"] == 2 * 86_400_000_000
    assert inturn_here("worker", "--until-empty", "--lease", "2m", "--timeout", "1h", "--keep", "1w").returncode == 0
    refused = inturn_here("worker", "--until-empty", "--lease", "2d")
    assert (refused.returncode, "from 0.1 to 86400" in refused.stderr) == (2, True)


@pytest.mark.parametrize("typed", ["-5m", "25 minutes", "", "m", "1e9", "9" * 400, "nan", "inf"])
def test_a_length_that_is_none_is_refused_with_examples(inturn_here: Inturn, typed: str) -> None:
    inturn_here("check", "acme")
    for option in ("--reset-interval", "--overdue-after"):
        refused = inturn_here("policy", "set", f"{option}={typed}")
        assert refused.returncode == 2
        assert f"{option} takes a time such as 90s, 15m, 24h or 7d" in refused.stderr
    lease = inturn_here("worker", "--until-empty", f"--lease={typed}")
    assert lease.returncode == 2
    assert inturn_here("policy", "show", "--json").records[0]["version"] == 1

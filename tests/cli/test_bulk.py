"""`inturn retry`, `cancel` and `keep`: by id or by filter, with a number and a question."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked_cli

Inturn = Callable[..., Any]
UNKNOWN = "018f3c5e-0000-7000-8000-000000000000"


@pytest.fixture
def ids(inturn_here: Inturn) -> list[str]:
    result = inturn_here("submit", "--customer", "acme", "a://1", "a://2", "a://3", "--batch", "b", "--json").records
    return [item["id"] for item in result]


def states(inturn_here: Inturn) -> dict[str, int]:
    result: dict[str, int] = inturn_here("status", "--json").records[0]["states"]
    return result


def test_one_document_is_cancelled_and_tried_again(inturn_here: Inturn, ids: list[str]) -> None:
    assert inturn_here("cancel", ids[0]).stdout == "1 document cancelled.\n"
    again = inturn_here("cancel", ids[0])
    assert (again.returncode, again.stdout) == (1, "")
    assert "is cancelled; cancel is for those that are" in again.stderr
    assert inturn_here("retry", ids[0].upper(), "--json").records == [{"documents": 1, "done": True}]
    assert states(inturn_here) == {"waiting": 3}
    assert "no document" in inturn_here("retry", UNKNOWN).stderr


def test_several_ids_are_asked_about_and_what_was_passed_over_is_told(inturn_here: Inturn, ids: list[str]) -> None:
    refused = inturn_here("cancel", *ids)
    assert refused.returncode == 2
    assert "3 documents, and there is no terminal" in refused.stderr
    done = inturn_here("cancel", ids[0], ids[0], UNKNOWN, "--yes")
    assert (done.returncode, done.stdout) == (1, "1 document cancelled.\n")
    assert UNKNOWN in done.stderr


@pytest.mark.usefixtures("ids")
def test_a_filter_takes_all_that_match(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "bob", "a://4")
    assert inturn_here("cancel", "--customer", "acme", "--dry-run").stdout == "3 documents would be cancelled.\n"
    assert inturn_here("cancel", "--batch", "b", "--dry-run", "--json").records == [{"documents": 3, "done": False}]
    assert inturn_here("cancel", "--text", "2", "--yes").stdout == "1 document cancelled.\n"
    assert inturn_here("cancel", "--batch", "b", "--state", "waiting", "--yes").stdout == "2 documents cancelled.\n"
    assert states(inturn_here) == {"cancelled": 3, "waiting": 1}
    assert inturn_here("retry", "--customer", "acme", "--yes").stdout == "0 documents queued for retry.\n"
    (done,) = inturn_here("retry", "--customer", "acme", "--state", "cancelled", "--yes", "--json").records
    assert done == {"documents": 3, "done": True}


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(("typed", "language", "left"), [("tak", "pl", {"cancelled": 3}), ("", "en", {"waiting": 3})])
def test_a_terminal_is_asked(
    inturn_here: Inturn, environment: dict[str, str], tmp_path: Path, typed: str, language: str, left: dict[str, int]
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, f"{typed}\n".encode())
    command = forked_cli.command("cancel", "--customer", "acme", "--lang", language)
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=tmp_path, env=environment, stdin=theirs, capture_output=True, text=True, check=False, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == (0 if typed else 1), done.stderr
    assert ("Anulować 3 dokumenty? (tak/nie)" if language == "pl" else "Cancel 3 documents? (yes/no)") in done.stderr
    assert states(inturn_here) == left


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["cancel"], "--customer"),
        (["cancel", UNKNOWN, "--customer", "acme"], "not both"),
        (["retry", "--state", "done", "--customer", "acme"], "cancelled, expired, failed"),
        (["cancel", "--state", "failed"], "delayed, running, split, waiting"),
        (["cancel", "nonsense"], "UUID"),
        (["keep", "acme", "soon"], "from 0 to 36500"),
        (["keep", "acme", "-1"], ""),
    ],
)
def test_what_makes_no_sense_is_refused(inturn_here: Inturn, args: list[str], advice: str) -> None:
    inturn_here("migrate")
    done = inturn_here(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert advice in done.stderr


@pytest.mark.usefixtures("ids")
def test_a_customers_history_is_kept_as_long_as_told(inturn_here: Inturn) -> None:
    assert inturn_here("keep", "acme", "1").stdout == "acme: Retention - → 1 day\n"
    assert inturn_here("customers", "--json").records[0]["keep"] == 86_400_000_000
    assert inturn_here("keep", "acme", "default", "--lang", "pl").stdout == "acme: Przechowywanie 1 dzień → -\n"


def test_groups_are_submitted_listed_and_cancelled(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "acme", "a://1", "a://2", "--group", "archive")
    inturn_here("submit", "--customer", "acme", "a://3", "--group", "reception")
    (only,) = inturn_here("documents", "--group", "reception", "--json").records
    assert (only["name"], only["group"]) == ("a://3", "reception")
    assert inturn_here("cancel", "--group", "archive", "--yes").stdout == "2 documents cancelled.\n"
    assert (
        inturn_here("retry", "--group", "archive", "--state", "cancelled", "--yes", "--json").records[0]["documents"]
        == 2
    )


@pytest.mark.usefixtures("ids")
def test_a_range_of_time_chooses_what_is_listed_and_retried(inturn_here: Inturn) -> None:
    assert len(inturn_here("documents", "--since", "1h", "--json").records) == 3
    assert inturn_here("documents", "--until", "1h ago", "--json").records == []
    assert inturn_here("documents", "--since", "1h", "--time", "ended", "--json").records == []
    assert inturn_here("cancel", "--until", "1h", "--yes").stdout == "0 documents cancelled.\n"
    assert inturn_here("cancel", "--since", "2h ago", "--text", "1", "--yes").stdout == "1 document cancelled.\n"
    retry = ("retry", "--customer", "acme", "--state", "cancelled")
    for option, n in (("--until", 0), ("--since", 1)):
        assert inturn_here(*retry, option, "1d", "--dry-run", "--json").records == [{"documents": n, "done": False}]
    assert inturn_here(*retry, "--since", "1d", "--yes", "--json").records == [{"documents": 1, "done": True}]
    refused = inturn_here("documents", "--since", "1h", "--until", "2h")
    assert (refused.returncode, "since must be before until" in refused.stderr) == (2, True)
    assert "--since takes a date or time" in inturn_here("documents", "--since", "yesterday").stderr

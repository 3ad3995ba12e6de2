"""`inturn failures` and `inturn retry --error`."""

from collections.abc import Callable
from typing import Any

from inturn import open as open_queue
from inturn.model import NewDocument
from inturn.store_types import DocumentFilter

Inturn = Callable[..., Any]


def fail(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    with open_queue("inturn.db") as queue:
        for number, error in enumerate(["page 1 is broken", "page 2 is broken", "no disk"]):
            queue.submit("acme", [NewDocument(f"{number}.pdf")])
            (claim,) = queue.claim("w")
            queue.fail(claim, error, final=True)


def test_failures_are_listed_by_kind_and_retried(inturn_here: Inturn) -> None:
    fail(inturn_here)
    broken, disk = inturn_here("failures", "--json").records
    assert (broken["kind"], broken["count"], broken["customers"]) == ("page <n> is broken", 2, ["acme"])
    assert (disk["kind"], disk["count"]) == ("no disk", 1)
    assert "page <n> is broken" in inturn_here("failures").stdout
    assert inturn_here("retry", "--error", broken["id"], "--dry-run", "--json").records == [
        {"documents": 2, "done": False}
    ]
    assert inturn_here("retry", "--error", broken["id"], "--yes", "--json").records == [{"documents": 2, "done": True}]
    with open_queue("inturn.db") as queue:
        assert queue.counts(DocumentFilter()).states == {"waiting": 2, "failed": 1}


def test_a_retry_asks_before_it_changes_and_takes_a_part_of_the_error(inturn_here: Inturn) -> None:
    fail(inturn_here)
    refused = inturn_here("retry", "--error", "broken")
    assert (refused.returncode, "2 documents" in refused.stderr) == (2, True)
    assert "no document failed" in inturn_here("retry", "--error", "nothing like it", "--yes").stderr
    assert "alone" in inturn_here("retry", "--error", "disk", "--customer", "acme", "--yes").stderr
    assert inturn_here("retry", "--error", "NO DISK", "--yes").returncode == 0


def test_no_failure_is_said_so(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    assert inturn_here("failures").stdout == "No document failed in this time.\n"

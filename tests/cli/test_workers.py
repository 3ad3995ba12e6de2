"""`inturn workers`: what workers do, and the switch that lets one take no more documents."""

from collections.abc import Callable
from typing import Any

from inturn import open as open_queue
from inturn.model import NewDocument
from inturn.worker_report import WorkerReport

Inturn = Callable[..., Any]


def report(inturn_here: Inturn, name: str = "scan-1") -> None:
    inturn_here("migrate")
    with open_queue("inturn.db") as queue:
        queue.submit("acme", [NewDocument("a.pdf")] * 2)
        claims = queue.claim(name)
        at_work = {claim.document.id: 1 for claim in claims}
        queue.record_worker(WorkerReport(name, "host", 7, 4, 1, "x:y", 5, at_work=at_work, version="1.2.3"))


def test_workers_are_listed_with_their_documents(inturn_here: Inturn) -> None:
    report(inturn_here)
    (record,) = inturn_here("workers", "--json").records
    assert (record["name"], record["slots"], record["paused"], record["silent"]) == ("scan-1", 4, None, False)
    assert len(record["documents"]) == 1
    shown = inturn_here("workers").stdout
    assert "acme: a.pdf" in shown
    assert "takes documents" in shown
    assert "1.2.3" in shown


def test_no_worker_is_said_so(inturn_here: Inturn) -> None:
    inturn_here("migrate")
    assert "inturn worker" in inturn_here("workers").stdout


def test_a_worker_is_paused_and_resumed(inturn_here: Inturn) -> None:
    report(inturn_here)
    (paused,) = inturn_here("workers", "pause", "scan-1", "--by", "anna", "--why", "new disk", "--json").records
    assert paused == {"worker": "scan-1", "paused": True}
    assert "paused by anna (reason: new disk)" in inturn_here("workers").stdout
    with open_queue("inturn.db") as queue:
        assert queue.claim("scan-1") == ()
        assert queue.audit(limit=1)[0].detail == {"worker": "scan-1"}
    assert inturn_here("workers", "resume", "scan-1").stdout == "scan-1 takes documents again.\n"
    assert inturn_here("workers", "--json").records[0]["paused"] is None
    assert "takes no more" in inturn_here("workers", "stop", "scan-1").stdout


def test_options_before_the_command_are_refused(inturn_here: Inturn) -> None:
    """They would be those of the list, and another queue than meant would be changed."""
    report(inturn_here)
    refused = inturn_here("workers", "--store", "inturn.db", "pause", "scan-1")
    assert refused.returncode == 2
    assert "after the command: inturn workers pause" in refused.stderr

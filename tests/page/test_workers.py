"""The page for workers: slots, what runs, and the switch that lets one take no more documents."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import EventKind, Operator
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport
from page_checks import HOSTILE, problems

Visit = Callable[..., Page]


@pytest.fixture
def server(filled: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    shutil.copy(filled, tmp_path / "inturn.db")
    server = ServerProcess(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[Queue]:
    """The queue of the server, with one live worker that runs a document, and none else."""
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        queue.forget_worker("host-1")
        (claim,) = queue.claim("scan-1", lease=3_600 * SECOND)
        report(queue, "scan-1", claim.document.id)
        yield queue


def report(queue: Queue, name: str, id_: str, *, seconds_ago: int = 0) -> None:
    now = time.time_ns() // 1_000
    progress, at_work = {id_: Progress(1, 4)}, {id_: 5 * SECOND}
    facts = ("scan.example", 4711, 4, 1, "extract", now - 3_600 * SECOND)
    queue.record_worker(
        WorkerReport(name, *facts, progress=progress, at_work=at_work, version="1.2.3"), now=now - seconds_ago * SECOND
    )


def test_a_worker_is_shown_with_what_it_runs(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit(f"{server.url}/workers")
    card = page.locator(".worker-card")
    expect(card.get_by_role("heading")).to_have_text("scan-1")
    expect(card).to_contain_text("1 of 4 slots busy")
    expect(card).to_contain_text("Takes documents")
    expect(card.locator(".worker-card-doing")).to_contain_text("25%")
    for fact in ("scan.example", "4711", "1.2.3"):
        expect(card.locator(".worker-facts")).to_contain_text(fact)
    document = queue.document(next(iter(queue.workers()[0].report.at_work or {})))
    card.get_by_role("link", name=document.spec.name).click()
    page.wait_for_url(f"**/documents/{document.id}")


def test_a_worker_is_paused_in_two_clicks_and_resumed_in_one(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit(f"{server.url}/workers")
    page.get_by_role("button", name="Pause worker: scan-1").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("a new disk")
    page.get_by_role("dialog").get_by_role("button", name="Pause worker").click()
    card = page.locator(".worker-card")
    expect(card).to_contain_text("It finishes its documents and takes no more.")
    expect(card).to_contain_text("Reason: a new disk")
    assert queue.claim("scan-1") == ()
    paused = queue.audit(limit=1)[0]
    assert (paused.kind, paused.operator and paused.operator.why) == (EventKind.WORKER_PAUSED, "a new disk")
    page.get_by_role("button", name="Resume worker: scan-1").click()
    expect(card.locator(".worker-card-head .badge")).to_have_text("Takes documents")
    assert len(queue.claim("scan-1")) == 1
    page.goto(f"{server.url}/audit")
    expect(page.locator(".audit-did").first).to_have_text("Resumed worker scan-1")


def test_a_pause_by_somebody_else_appears(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit(f"{server.url}/workers")
    expect(page.locator(".live")).to_have_text("Live")
    queue.pause_worker("scan-1", Operator(HOSTILE, HOSTILE))
    expect(page.locator(".worker-card")).to_contain_text(f"Paused by {HOSTILE}")


def test_a_silent_worker_says_what_becomes_of_its_documents(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("last", [NewDocument("last chance.pdf", max_attempts=1)])
    queue.expedite(queue.documents(inturn.DocumentFilter(customer="last")).items[0].id, Operator("anna", ""))
    (claim,) = queue.claim("gone-1", lease=3_600 * SECOND)
    report(queue, "gone-1", claim.document.id, seconds_ago=90)
    report(queue, "scan-1", next(iter(queue.workers()[1].report.at_work or {})), seconds_ago=90)
    page = visit(f"{server.url}/workers")
    expect(page.locator(".worker-card")).to_have_count(2)
    expect(page.locator(".page-workers > p").first).to_have_text("2 not responding")  # their slots take nothing
    gone, scan = page.locator(".worker-card").all()
    for card in (gone, scan):
        expect(card.locator(".worker-card-head .badge")).to_have_text("Not responding")
        expect(card).to_contain_text("go to other workers when their leases end")
    expect(scan.locator(".worker-card-doing")).to_contain_text("starts again at another worker (attempt 2 of 3)")
    expect(gone.locator(".worker-card-doing")).to_contain_text("fails, since this was the last of 1 attempts")


def test_no_worker_says_how_to_start_one(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    page = visit(f"{serve(empty=True).url}/workers")
    expect(page.get_by_text("No worker reports")).to_be_visible()
    expect(page.get_by_text("inturn serve --workers 2")).to_be_visible()
    assert problems(page, "en") == []


def test_a_worker_that_starts_anew_under_its_name_shows_its_new_version(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    page = visit(f"{server.url}/workers")
    facts = page.locator(".worker-card", has_text="scan-1").locator(".worker-facts")
    expect(facts).to_contain_text("1.2.3")
    now = time.time_ns() // 1_000
    queue.record_worker(WorkerReport("scan-1", "other.example", 12, 4, 0, "extract", now, version="1.3.0"), now=now)
    expect(facts).to_contain_text("1.3.0")
    expect(facts).to_contain_text("other.example")

"""The strip above every page: what needs attention, and where it is mended."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import DocumentState, NewDocument
from inturn.queue import Queue
from inturn.store_types import DocumentFilter, Operator
from inturn.stores import open_store
from inturn.worker_report import WorkerReport
from page_checks import HOSTILE, PAGES, axe_violations, languages, problems

Visit = Callable[..., Page]
BEN = Operator("ben", "the disk is full")


@pytest.fixture
def server(filled: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    shutil.copy(filled, tmp_path / "inturn.db")
    server = ServerProcess(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[Queue]:
    """The queue of the server, with one live worker."""
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        queue.forget_worker("host-1")
        queue.cancel_all(DocumentFilter(frozenset({DocumentState.RUNNING})), BEN)  # a claim is a worker for its lease
        queue.record_worker(WorkerReport("scan-1", "host", 1, 4, 0, "x:y", time.time_ns() // 1_000))
        yield queue


def test_a_paused_queue_is_named_on_every_page_and_resumed_from_there(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    queue.pause(BEN)
    page = visit(f"{server.url}/simulator")
    notice = page.locator(".notice[data-kind=queue_paused]")
    expect(notice).to_contain_text("The queue is paused: nothing starts. By ben,")
    expect(notice).to_contain_text("Reason: the disk is full")
    for name in ("customers", "documents", "policy", "audit", "keys", "workers", "failures"):
        page.locator(f'.nav a[data-page="{name}"]').click()
        page.wait_for_url(f"**{PAGES[name].partition('?')[0]}*")
        expect(notice).to_be_visible()
    notice.get_by_role("button", name="Resume").click()
    expect(notice).to_have_count(0)
    assert queue.paused() is None


def test_queues_that_are_paused_or_unserved_are_named(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    (receipt,) = queue.submit("Customer 001", [NewDocument("a.txt", queue="ocr")])
    page = visit(f"{server.url}/documents/{receipt.id}")
    notice = page.locator(".notice[data-kind=queues_unserved]")
    expect(notice).to_contain_text("1 document is waiting in queues that no worker serves: ocr.")
    expect(page.locator("main")).to_contain_text("Waiting: no worker serves the queue ocr")
    queue.pause(BEN, queue="ocr")
    expect(page.locator("main")).to_contain_text("On hold: the queue ocr is paused")
    expect(page.locator(".notice[data-kind=queues_paused]")).to_contain_text(
        "Paused queues, with documents waiting: ocr. By ben,"
    )
    queue.change_queue("ocr", BEN, weight=2.0, description="reads scans")
    page = visit(f"{server.url}/audit")
    expect(page.locator(".audit-did").first).to_have_text(
        "Changed settings of the queue ocr: weight: 2, description: reads scans"
    )
    expect(page.locator(".audit-did").nth(1)).to_have_text("Paused the queue ocr")
    queue.submit("Several", [NewDocument("a.txt"), *[NewDocument("a.txt", queue="ocr")] * 2])
    page = visit(f"{server.url}/customers/Several")
    expect(page.locator(".lane-waiting .bar-number")).to_have_text(["3"])  # a level has one row for all queues


def test_a_paused_customer_is_resumed_and_a_paused_worker_leads_to_its_page(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    queue.pause(BEN, "Customer 001")
    queue.claim("scan-1")
    queue.pause_worker("scan-1", BEN)
    page = visit(f"{server.url}/customers")
    customer = page.locator(".notice[data-kind=customers_paused]")
    expect(customer).to_contain_text("Customer 001. By ben,")
    expect(page.locator(".notice[data-kind=no_workers]")).to_contain_text("no worker takes documents")
    customer.get_by_role("button", name="Resume").click()
    expect(customer).to_have_count(0)
    assert not queue.customer("Customer 001").settings.paused
    worker = page.locator(".notice[data-kind=workers_paused]")
    expect(worker).to_contain_text("scan-1")
    worker.get_by_role("link", name="Workers").click()
    page.wait_for_url("**/workers")


@pytest.mark.parametrize("language", languages("de", "pl"))
def test_the_strip_fits_a_phone_and_has_no_barriers(
    server: ServerProcess, queue: Queue, visit: Visit, language: str
) -> None:
    queue.pause(Operator(HOSTILE, HOSTILE))
    page = visit(f"{server.url}/audit", language=language, theme="dark", width="phone")
    expect(page.locator(".notice[data-kind=queue_paused]")).to_be_visible()
    assert problems(page, language) == []
    assert axe_violations(page) == []


def test_a_customer_reads_its_own_words_and_a_reader_has_no_button(
    tmp_path: Path, serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve("--auth", "keys")
    store = open_store(str(tmp_path / "inturn.db"))
    own = create_api_key(store, "portal", "Customer 001", None)
    reader = create_api_key(store, "reader", None, ApiKeyScope.READ_ONLY)
    store.pause(BEN)
    store.close()
    for key, words in ((own, "Your documents keep their places"), (reader, "By ben,")):
        page = visit(server.url)
        page.get_by_label("API key", exact=True).fill(key)
        page.keyboard.press("Enter")
        notice = page.locator(".notice[data-kind=queue_paused]")
        expect(notice).to_contain_text(words)
        assert page.locator(".notice button").count() == 0
        if key == own:
            assert "ben" not in notice.inner_text()


def test_the_first_page_does_not_wait_for_the_strip(server: ServerProcess, visit: Visit) -> None:
    """Of a large queue the notices take longest to read, and would share the server's processor with the page."""
    asked: list[str] = []
    page = visit("about:blank", alone=True)
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfinished", lambda request: asked.append(f"done {request.url}"))
    with page.expect_response("**/v1/status"):
        page.goto(f"{server.url}/customers")
    order = [line for line in asked if "/v1/" in line and "events" not in line]
    assert "/v1/customers?" in order[0]
    assert order[1] == f"done {order[0]}"
    assert order[2].endswith("/v1/status")

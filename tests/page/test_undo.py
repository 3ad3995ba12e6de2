"""Undo in toasts: a pause, settings and an expedite are taken back in one click, unless another operator was there."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ServerProcess
from inturn.model import NewDocument, RateLimit
from inturn.queue import Queue
from inturn.store_types import Operator
from waiting import wait_until

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
ANNA = Operator("anna", "because the test says so")


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for this file; each test uses its own customers."""
    folder = tmp_path_factory.mktemp("undo")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[Queue]:
    with inturn.open(str(server.folder / "inturn.db")) as opened:
        yield opened


def customer_page(server: ServerProcess, visit: Visit, name: str) -> Page:
    return visit(f"{server.url}/customers/{quote(name, safe='')}")


def act(page: Page, button: str, *, scope: Locator | None = None) -> None:
    """Press a button and confirm."""
    (scope or page).get_by_role("button", name=button, exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()


def undo(page: Page) -> None:
    page.locator(".toast").get_by_role("button", name="Undo").click()


def expect_undone(page: Page) -> None:
    expect(page.locator(".toast").last).to_contain_text("Undone")


def test_a_pause_of_a_customer_is_undone(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("halted", [NewDocument("x")])
    page = customer_page(server, visit, "halted")
    act(page, "Pause")
    expect(page.locator(".customer-status h2")).to_contain_text("Paused")
    undo(page)
    expect_undone(page)
    expect(page.locator(".customer-status h2")).to_have_text("1 document waiting")
    assert not queue.customer("halted").settings.paused


def test_settings_are_undone_together(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("weighed", [NewDocument("x")])
    queue.change_customer("weighed", ANNA, weight=2, rate=RateLimit(9, 60_000_000))
    page = customer_page(server, visit, "weighed")
    page.get_by_role("button", name="Edit settings").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Weight").fill("5")
    dialog.get_by_label("Concurrency limit").fill("3")
    dialog.get_by_label("Starts").fill("20")
    dialog.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Settings saved.")
    assert queue.customer("weighed").settings.weight == 5
    undo(page)
    expect_undone(page)
    settings = queue.customer("weighed").settings
    assert (settings.weight, settings.cap, settings.rate) == (2, None, RateLimit(9, 60_000_000))


def test_what_another_operator_changed_since_is_not_undone(
    server: ServerProcess, queue: Queue, visit: Visit, console_errors: ConsoleErrors
) -> None:
    queue.submit("shared", [NewDocument("x")])
    page = customer_page(server, visit, "shared")
    page.get_by_role("button", name="Edit settings").click()
    page.get_by_role("dialog").get_by_label("Weight").fill("5")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("Settings saved.")
    queue.change_customer("shared", ANNA, weight=7)
    undo(page)
    expect(page.locator(".toast-error")).to_contain_text("Someone else changed this in the meantime.")
    assert ["409" in message for message in console_errors.messages] == [True]
    console_errors.messages.clear()
    assert queue.customer("shared").settings.weight == 7


def test_an_expedite_is_undone_and_keeps_its_place(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("hasty", [NewDocument(f"{n}.pdf") for n in range(30)])
    last = queue.documents(inturn.DocumentFilter(customer="hasty")).items[0]
    page = visit(f"{server.url}/documents/{last.id}")
    act(page, "Move to front")
    expect(page.locator(".toast")).to_contain_text("Document moved to the front.")
    assert queue.document(last.id).expedited
    undo(page)
    expect_undone(page)
    document = queue.document(last.id)
    assert (document.expedited, document.level) == (False, last.level)
    expect(page.locator(".page-document")).to_contain_text("Moved back to its place")


def test_several_expedited_documents_are_undone(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("hurried", [NewDocument(f"{n}.pdf") for n in range(4)])
    page = visit(f"{server.url}/documents?customer=hurried")
    page.get_by_role("checkbox", name="Select all rows").check()
    act(page, "Move to front")
    expect(page.locator(".toast")).to_contain_text("4 documents moved to the front.")
    undo(page)
    expect_undone(page)
    documents = queue.documents(inturn.DocumentFilter(customer="hurried")).items
    assert [document.expedited for document in documents] == [False] * 4


def test_a_pause_of_the_queue_and_a_resume_from_the_strip_are_undone(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    page = visit(f"{server.url}/settings")
    act(page, "Pause queue")
    wait_until(lambda: queue.paused() is not None, timeout=60)
    undo(page)
    expect_undone(page)
    assert queue.paused() is None
    queue.pause(Operator("ben", "the disk is full"))
    page = visit(f"{server.url}/customers")
    notice = page.locator(".notice[data-kind=queue_paused]", has_text="the disk is full")
    notice.get_by_role("button", name="Resume").click()
    wait_until(lambda: queue.paused() is None, timeout=60)
    undo(page)
    expect_undone(page)
    again = queue.paused()
    assert again is not None
    assert again.why == "the disk is full"
    queue.resume(ANNA)

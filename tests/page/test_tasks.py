"""Tasks: people take documents, fill in a form, and finish, hand back or reject them."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

import inturn
import pipeline_queue
from http_server import ANNA, ServerProcess
from inturn.model import Claim, Document, DocumentState, NewDocument
from inturn.queue import Queue
from inturn.store_types import DocumentFilter
from page_checks import axe_violations, problems

from .conftest import ConsoleErrors

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tasks")
    pipeline_queue.write(folder, time.time_ns() // 1_000)
    server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[Queue]:
    """The queue of the server. What a test has taken goes back after it."""
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        yield queue
        for document in running(queue):
            queue.ack([queue.released(Claim(document, document.fence))])


def running(queue: Queue, name: str = "approval") -> list[Document]:
    where = DocumentFilter(frozenset({DocumentState.RUNNING}), queue=name)
    return list(queue.documents(where, limit=100).items)


def take(page: Page, server: ServerProcess, queue: str = "approval") -> None:
    page.goto(f"{server.url}/tasks?queue={queue}")
    page.get_by_role("button", name="Take next", exact=True).click()
    page.wait_for_selector(".task-form")


def test_a_document_is_taken_filled_in_and_finished_by_keyboard(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    """Given three documents that wait, when a person fills in the first, it is done and the next one is there."""
    queue.submit("acme", [NewDocument(f"more-{number}.txt", steps=("approval", "export")) for number in range(2)])
    page = visit(f"{server.url}/tasks")
    expect(page.locator("tbody tr").first).to_contain_text("invoice-4711.txt")
    page.get_by_role("button", name="Take next", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("invoice-4711.txt")
    expect(page.locator(".document-preview")).to_contain_text("Total EUR 1,292.50")
    expect(page.locator(".task-lease")).to_contain_text("Reserved for you until")
    expect(page.get_by_label("Approved")).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Total")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Total")).to_be_focused()
    page.keyboard.type("1292.5")
    page.get_by_label("Currency").select_option("EUR")
    page.get_by_label("Due").fill("2026-12-31")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("invoice-4712.txt")
    (held,) = running(queue)
    assert held.spec.name == "invoice-4712.txt"
    done = queue.search("invoice-4711").documents[0]
    assert done.state is DocumentState.DONE
    expected = {"approved": True, "total": 1292.5, "currency": "EUR", "due": "2026-12-31"}
    assert json.loads(queue.result_json(done.id)) == expected


def test_unsaved_input_is_asked_about_and_kept(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit("about:blank")
    take(page, server)
    page.get_by_label("Note").fill("call them first")
    page.locator(".nav").get_by_role("link", name="Workers").click()
    page.get_by_role("dialog").get_by_role("button", name="Stay").click()
    expect(page.get_by_label("Note")).to_have_value("call them first")
    page.go_back()
    page.get_by_role("dialog").get_by_role("button", name="Stay").click()
    expect(page.locator(".task-form")).to_be_visible()
    page.locator(".nav").get_by_role("link", name="Tasks").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(page.locator("tbody tr").first).to_contain_text("You")
    page.get_by_role("link", name="Continue").click()
    expect(page.get_by_label("Note")).to_have_value("call them first")
    page.get_by_role("button", name="Hand back").click()
    page.get_by_role("dialog").get_by_role("button", name="Hand back").click()
    expect(page.get_by_role("button", name="Take next", exact=True)).to_be_visible()
    assert running(queue) == []


def test_a_rejected_document_fails_with_the_reason(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit("about:blank")
    take(page, server)
    (held,) = running(queue)
    page.get_by_role("button", name="Reject").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Reject").click()
    expect(dialog.get_by_text("This is required.")).to_be_visible()
    dialog.get_by_label("Reason").fill("it is not an invoice")
    dialog.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("button", name="Take next", exact=True)).to_be_visible()
    rejected = queue.document(held.id)
    assert (rejected.state, rejected.error) == (DocumentState.FAILED, "it is not an invoice")


def test_a_lost_document_says_so_and_keeps_what_was_typed(
    server: ServerProcess, queue: Queue, visit: Visit, console_errors: ConsoleErrors
) -> None:
    """Given a document taken by a person, when it goes back meanwhile, nothing can be saved, and the input stays."""
    page = visit("about:blank")
    take(page, server)
    page.get_by_label("Note").fill("nearly done")
    (held,) = running(queue)
    queue.ack([queue.released(Claim(held, held.fence))])
    expect(page.locator(".task-lease")).to_contain_text("no longer reserved for you")
    expect(page.get_by_role("button", name="Finish", exact=True)).to_be_disabled()
    expect(page.get_by_label("Note")).to_have_value("nearly done")
    page.locator(".task-lease").get_by_role("link", name="Tasks").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(page.get_by_role("button", name="Take next", exact=True)).to_be_visible()
    assert [message for message in console_errors.messages if "409" not in message] == []
    console_errors.messages.clear()


def test_without_a_form_any_json_will_do(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    """The document goes where the person sends it."""
    queue.change_queue("by-hand", ANNA, manual=True)
    (receipt,) = queue.submit("acme", [NewDocument("odd.txt", queue="by-hand")])
    page = visit("about:blank")
    take(page, server, "by-hand")
    page.get_by_label("Result as JSON").fill("{total: 1}")
    page.get_by_role("button", name="Finish", exact=True).click()
    expect(page.locator(".task-form")).to_contain_text("This is not JSON")
    page.get_by_label("Result as JSON").fill('{"total": 1}')
    page.get_by_label("Then").select_option("export")
    page.get_by_role("button", name="Finish", exact=True).click()
    expect(page.get_by_role("button", name="Take next", exact=True)).to_be_visible()
    assert (queue.document(receipt.id).queue, queue.document(receipt.id).step) == ("export", 1)
    assert json.loads(queue.results(receipt.id)[0].result) == {"total": 1}
    page.get_by_role("button", name="Take next", exact=True).click()
    expect(page.locator(".toast").last).to_contain_text("No documents waiting")


@pytest.mark.parametrize(("language", "theme", "width"), [("de", "dark", "phone"), ("pt", "light", "wide")])
def test_a_task_fits_in_every_language(
    server: ServerProcess, queue: Queue, visit: Visit, language: str, theme: str, width: str
) -> None:
    page = visit(f"{server.url}/tasks?queue=approval", language=language, theme=theme, width=width)
    page.locator(".tasks-head button").click()
    page.wait_for_selector(".task-form")
    assert problems(page, language) + axe_violations(page) == []
    page.goto(f"{server.url}/tasks?queue=approval")
    page.wait_for_selector(".page-tasks")
    assert problems(page, language) + axe_violations(page) == []
    assert running(queue)

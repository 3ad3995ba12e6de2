"""Documents that pass through steps: the queues, what a document shows of its steps, and where a retry begins."""

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
import pipeline_queue
from http_server import ANNA, ServerProcess, create_api_key
from inturn.model import DocumentState, QueueSettings, RateLimit
from inturn.queue import Queue
from page_checks import axe_violations, problems, wait_until_ready

Visit = Callable[..., Page]


class Place(NamedTuple):
    """A server of this file, its queue and its documents."""

    server: ServerProcess
    queue: Queue
    documents: pipeline_queue.Pipeline

    def url(self, path: str) -> str:
        return self.server.url + path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("pipeline")
    documents = pipeline_queue.write(folder, time.time_ns() // 1_000)
    server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    with inturn.open(str(folder / "inturn.db")) as queue:
        yield Place(server, queue, documents)
    server.stop()


def row(page: Page, name: str) -> Locator:
    return page.locator("main tbody tr").filter(
        has=page.get_by_role("rowheader", name=re.compile(rf"^{re.escape(name)}"))
    )


def settings(place: Place, name: str) -> QueueSettings:
    return place.queue.queue_status(name).settings


def test_the_queues_are_shown_with_what_serves_and_limits_them(place: Place, visit: Visit) -> None:
    page = visit(place.url("/queues"))
    expect(row(page, "ocr")).to_contain_text("Text of scanned documents")
    expect(row(page, "ocr")).to_contain_text("of 4 max.")
    expect(row(page, "classify")).to_contain_text("600 starts within 1 minute")
    expect(row(page, "approval").get_by_role("link", name="People")).to_be_visible()
    expect(row(page, "page").get_by_role("link", name="1 worker")).to_be_visible()
    row(page, "page").get_by_role("link", name="4 documents waiting in page").click()
    expect(page).to_have_url(place.url("/documents?queue=page&state=waiting&parts=include"))
    expect(page.locator("tbody tr")).to_have_count(4)


def test_a_queue_is_paused_and_resumed_with_a_reason(place: Place, visit: Visit) -> None:
    page = visit(place.url("/queues"))
    page.get_by_role("button", name="Pause: export").click()
    page.get_by_label("Reason").fill("the ledger is closed")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row(page, "export")).to_contain_text("the ledger is closed")
    assert place.queue.queue_status("export").paused
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Pause: export")).to_be_visible()
    assert not place.queue.queue_status("export").paused


def test_settings_and_form_of_a_queue_are_changed(place: Place, visit: Visit) -> None:
    """Given a queue of workers, when an operator gives it a limit and a form, the store has them until undo."""
    page = visit(place.url("/queues"))
    page.get_by_role("button", name="Settings: classify").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Concurrency limit").fill("3")
    dialog.get_by_label("Starts").fill("")
    dialog.get_by_label("People serve this queue").check()
    dialog.get_by_role("button", name="Add field").click()
    dialog.get_by_label("Label").fill("Kind of document")
    dialog.get_by_label("Type").select_option("choice")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Enter at least one option.")).to_be_visible()
    assert settings(place, "classify").cap is None
    dialog.get_by_label("Options").fill("invoice\n\nletter")
    dialog.get_by_role("button", name="Save").click()
    expect(row(page, "classify")).to_contain_text("of 3 max.")
    changed = settings(place, "classify")
    assert (changed.cap, changed.rate, changed.manual) == (3, None, True)
    assert '"name": "kind_of_document"' in (changed.form or "")
    assert '["invoice", "letter"]' in (changed.form or "")
    page.get_by_role("button", name="Undo").click()
    expect(row(page, "classify")).to_contain_text("600 starts within 1 minute")
    undone = settings(place, "classify")
    assert (undone.cap, undone.rate, undone.manual, undone.form) == (None, RateLimit(600, 60_000_000), False, None)


def test_a_new_queue_is_made(place: Place, visit: Visit) -> None:
    page = visit(place.url("/queues"))
    page.get_by_role("button", name="New queue").click()
    page.get_by_role("dialog").get_by_label("Queue", exact=True).fill("archive")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(row(page, "archive")).to_contain_text("No worker")


def test_the_list_filters_by_queue_and_leaves_parts_out(place: Place, visit: Visit) -> None:
    page = visit(place.url("/documents"))
    expect(row(page, "bundle.pdf")).to_contain_text("Split")
    expect(row(page, "bundle.pdf")).to_contain_text("2 of 3")
    expect(page.get_by_role("link", name="page 1 of")).to_have_count(0)
    page.get_by_label("Include parts").check()
    expect(page.get_by_role("link", name="page 1 of")).to_have_count(2)
    page.get_by_role("search").get_by_label("Queue").select_option("classify")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_label("Include parts")).not_to_be_checked()


def test_a_document_shows_its_steps_and_where_their_time_went(place: Place, visit: Visit) -> None:
    """Given a document split after OCR, failed once and now exported, its page tells all of it."""
    page = visit(place.url(f"/documents/{place.documents.exporting}"))
    expect(page.locator(".document-trail li")).to_have_text(["ocr (done)", "classify (done)", "export (now)"])
    bars = page.locator(".step-track")
    expect(bars.nth(0)).to_have_attribute(
        "aria-label", "ocr: Waiting 22\u00a0s, Attempt 1 34\u00a0s, Waiting for parts 2\u00a0min 6\u00a0s"
    )
    expect(bars.nth(1)).to_have_attribute(
        "aria-label",
        "classify: Waiting 8\u00a0s, Attempt 1, failed 9\u00a0s, Pause before a retry 31\u00a0s, Attempt 2 14\u00a0s",
    )
    expect(bars.nth(2)).to_have_attribute("aria-label", re.compile("^export: Waiting 25\u00a0s, Attempt 1 "))
    page.get_by_text("Show as a table").click()
    expect(page.locator(".step-table tbody tr")).to_have_count(9)
    result = page.locator(".document-result")
    expect(result).to_contain_text('"kind": "contract"')
    result.get_by_role("tab", name="ocr").click()
    expect(result).to_contain_text('"pages": 7')


def test_a_split_document_lists_its_parts_and_a_part_its_whole(place: Place, visit: Visit) -> None:
    page = visit(place.url(f"/documents/{place.documents.split}"))
    expect(page.locator(".status-answer")).to_have_text("Split: 5 parts have not finished")
    expect(page.locator(".document-trail li")).to_have_text(
        ["ocr (done)", "Parts (now)", "classify (planned)", "export (planned)"]
    )
    parts = page.locator(".document-split")
    expect(parts.locator("tbody tr")).to_have_count(pipeline_queue.PAGES)
    expect(parts.locator("tbody tr").nth(1)).to_contain_text("the page is blank")
    parts.get_by_role("link", name="1. page 1 of bundle.pdf").click()
    expect(page.locator(".status-part")).to_have_text("Part 1 of bundle.pdf")
    page.locator(".status-part").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("bundle.pdf")
    page.locator(".parts-count").filter(has_text="Failed").click()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_retry_begins_with_the_failed_step_or_the_first(place: Place, visit: Visit) -> None:
    id_ = place.documents.failed
    page = visit(place.url(f"/documents/{id_}"))
    expect(page.locator(".document-trail [aria-current=step]")).to_have_text("classify (stopped here)")
    page.get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("The step that stopped (classify)")).to_be_checked()
    dialog.get_by_role("button", name="Retry").click()
    expect(page.locator(".status-badges")).to_contain_text("Waiting")
    assert (place.queue.document(id_).queue, place.queue.document(id_).step) == ("classify", 1)
    place.queue.cancel(id_, ANNA)
    page.get_by_role("button", name="Retry").click()
    dialog.get_by_label("The first step").check()
    dialog.get_by_role("button", name="Retry").click()
    expect(page.locator(".document-trail [aria-current=step]")).to_have_text("ocr (now)")
    assert (place.queue.document(id_).queue, place.queue.document(id_).step) == ("ocr", 0)
    assert place.queue.document(id_).state is DocumentState.WAITING


def test_the_overview_has_the_queues(place: Place, visit: Visit) -> None:
    page = visit(place.url("/"))
    panel = page.locator("section").filter(has=page.get_by_role("heading", name="Queues"))
    panel.get_by_role("link", name="View all queues").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")


def test_step_checks_are_a_setting_of_the_policy(place: Place, visit: Visit) -> None:
    page = visit(place.url("/policy"))
    page.get_by_label("New level at each step").check()
    page.get_by_role("button", name="Apply changes").click()
    difference = page.get_by_role("dialog").locator("tbody tr")
    expect(difference).to_have_text(["Documents with several stepssame level in all stepsnew level at each step"])
    page.get_by_label("Reason").fill("steps are heavy")
    page.get_by_role("dialog").get_by_role("button", name="Apply changes").click()
    expect(page.locator(".words")).to_contain_text("Each step of a document counts as a document of its own")
    assert place.queue.policy().policy.check_each_step


def test_a_customer_sees_steps_and_parts_of_its_own(place: Place, visit: Visit) -> None:
    key = create_api_key(place.queue.store, "porto", "Porto Logistics")
    server = ServerProcess(place.server.folder, "--auth", "keys")
    try:
        page = visit(f"{server.url}/signin")
        page.get_by_label("API key", exact=True).fill(key)
        page.keyboard.press("Enter")
        expect(page.locator(".nav")).to_be_visible()
        for name in ("Queues", "Tasks"):
            expect(page.locator(".nav").get_by_role("link", name=name)).to_have_count(0)
        page.locator(".nav").get_by_role("link", name="Documents").click()
        expect(row(page, "bundle.pdf")).to_contain_text("2 of 3")
        page.get_by_role("link", name="bundle.pdf").click()
        expect(page.locator(".document-split tbody tr")).to_have_count(pipeline_queue.PAGES)
        expect(page.locator(".step-track")).to_have_count(2)
        page.goto("about:blank")
    finally:
        server.stop()


@pytest.mark.parametrize(("language", "theme", "width"), [("de", "dark", "phone"), ("pl", "light", "wide")])
def test_steps_fit_in_every_language(place: Place, visit: Visit, language: str, theme: str, width: str) -> None:
    page = visit(place.url(f"/documents/{place.documents.exporting}"), language=language, theme=theme, width=width)
    wait_until_ready(page, "document")
    assert problems(page, language) + axe_violations(page) == []
    page.goto(place.url("/queues"))
    page.locator(".queue-actions button").nth(-1).click()
    page.locator("dialog .check input").first.check()
    page.locator("dialog fieldset button").last.click()
    assert problems(page, language) + axe_violations(page) == []

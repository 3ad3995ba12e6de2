"""The list of documents and the page of one: filters, live updates, actions, and hostile names."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ANNA, ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.blobs import open_blobs
from inturn.model import Claim, NewDocument, ResultFile
from inturn.queue import Queue
from inturn.store_types import Outcome, OutcomeKind
from inturn.worker_report import Progress, WorkerReport
from page_checks import HOSTILE, HOSTILE_DOCUMENT

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
EVIL = "<img src=x onerror=alert(1)>"
LONG = "Dear Sir or Madam, " * 200


class Harness:
    """A server for this file, and its queue."""

    def __init__(self, folder: Path) -> None:
        self.server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
        self.url = self.server.url
        self.queue: Queue = inturn.open(str(folder / "inturn.db"))
        self.blobs = open_blobs(str(folder / "inturn.db.blobs"))

    def submit(self, customer: str, n: int = 1, **more: Any) -> list[str]:
        """Submit documents of a customer; return their ids."""
        documents = [NewDocument(f"{customer.lower()}-{number:03}.pdf", **more) for number in range(n)]
        return [receipt.id for receipt in self.queue.submit(customer, documents)]

    def claim(self, id_: str) -> Claim:
        """Claim this document, by expediting it first."""
        if not self.queue.document(id_).expedited:
            self.queue.expedite(id_, ANNA)
        (claimed,) = self.queue.claim("host-1", 1)
        assert claimed.document.id == id_
        return claimed

    def state(self, id_: str) -> str:
        return str(self.queue.document(id_).state)


@pytest.fixture(scope="module")
def harness(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Started once; each test uses its own customers."""
    folder = tmp_path_factory.mktemp("harness")
    shutil.copy(filled, folder / "inturn.db")
    harness = Harness(folder)
    yield harness
    harness.queue.close()
    harness.server.stop()


def rows(page: Page) -> Locator:
    return page.locator("tbody tr")


def box(page: Page, name: str) -> Locator:
    return page.get_by_role("checkbox", name=f"Select {name}", exact=True)


def agree(page: Page, words: str, why: str = "") -> None:
    """Confirm the dialog with this name."""
    dialog = page.get_by_role("dialog", name=words)
    if why:
        dialog.get_by_label("Reason").fill(why)
    dialog.locator("button[type=submit]").click()


# -- the list


def test_filters_live_in_the_address_and_back_takes_them_away(harness: Harness, visit: Visit) -> None:
    harness.submit("Filtered", 30, batch="may")
    done = harness.submit("Filtered", 1)[0]
    harness.queue.finish(harness.claim(done))
    page = visit(f"{harness.url}/documents?customer=Filtered")
    expect(rows(page)).to_have_count(31)
    page.get_by_role("button", name=re.compile("^Done")).click()
    expect(rows(page)).to_have_count(1)
    assert page.url.endswith("?customer=Filtered&state=done")
    page.get_by_role("button", name=re.compile("^Waiting")).click()
    expect(rows(page)).to_have_count(31)
    expect(page.get_by_role("button", name=re.compile("^Done"))).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Batch").fill("may")
    page.get_by_label("Batch").press("Enter")
    expect(rows(page)).to_have_count(30)
    page.get_by_role("combobox", name="Level").select_option("9")
    expect(rows(page)).to_have_count(9)
    page.get_by_role("searchbox", name="Search by name").fill("filtered-02")
    expect(rows(page)).to_have_count(9)
    page.get_by_role("searchbox", name="Search by name").fill("FILTERED-029")
    expect(rows(page)).to_have_count(1)
    assert "q=FILTERED-029" in page.url
    page.reload()
    expect(rows(page)).to_have_count(1)
    page.go_back()
    expect(page.get_by_role("combobox", name="Level")).to_have_value("")
    expect(rows(page)).to_have_count(30)
    page.get_by_role("button", name="Clear filters").click()
    assert page.url == f"{harness.url}/documents"


def test_a_customer_is_chosen_by_typing_a_part_of_its_name(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents")
    customer = page.get_by_role("combobox", name="Customer")
    customer.type("omer 00")
    expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(8)
    customer.press("ArrowDown")
    customer.press("ArrowDown")
    expect(page.get_by_role("option", name="Customer 001")).to_have_attribute("aria-selected", "true")
    customer.press("Enter")
    expect(page.get_by_role("listbox")).to_be_hidden()
    page.wait_for_url("**/documents?customer=Customer+001")
    expect(page.locator(".documents-count")).to_contain_text("200 documents")


def test_the_list_goes_on_as_one_scrolls_and_back_returns_to_the_place(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents?customer=Customer%20000")
    expect(rows(page)).to_have_count(100)
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(rows(page)).to_have_count(200)
    wanted = rows(page).nth(150)
    wanted.scroll_into_view_if_needed()
    name, before = wanted.get_by_role("link").first.inner_text(), page.evaluate("window.scrollY")
    wanted.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name.split("\n")[0])
    page.go_back()
    expect(rows(page)).to_have_count(200)
    page.wait_for_function("(wanted) => Math.abs(window.scrollY - wanted) < 3", arg=before)


def test_rows_change_in_place_and_new_documents_wait_behind_a_bar(harness: Harness, visit: Visit) -> None:
    ids = harness.submit("Lively", 60)
    page = visit(f"{harness.url}/documents?customer=Lively&state=waiting&state=running")
    expect(rows(page)).to_have_count(60)
    expect(page.locator(".live")).to_have_text("Live")
    box(page, "lively-040.pdf").check()
    page.evaluate("window.scrollTo(0, 500)")
    field = page.get_by_role("searchbox", name="Search by name")
    field.evaluate("node => { node.focus({ preventScroll: true }); node.setRangeText('half a wo'); }")
    page.evaluate("window.firstRow = document.querySelector('tbody tr')")
    row = page.get_by_role("row", name=re.compile("lively-045"))
    place, scroll = row.bounding_box(), page.evaluate("window.scrollY")
    assert scroll > 400
    claimed = harness.claim(ids[45])
    expect(row.locator(".state-running")).to_be_visible()
    harness.queue.finish(claimed)
    expect(row.locator(".is-gone .state-done")).to_be_visible()
    harness.submit("Lively", 3, batch="new ones")
    bar = page.locator(".documents-new")
    expect(bar).to_contain_text("3 new documents")
    expect(rows(page)).to_have_count(60)
    assert (page.evaluate("window.scrollY"), row.bounding_box()) == (scroll, place)
    assert page.evaluate("document.querySelector('tbody tr') === window.firstRow")
    expect(field).to_be_focused()
    expect(field).to_have_value("half a wo")
    expect(box(page, "lively-040.pdf")).to_be_checked()
    bar.get_by_role("button", name="Show").click()
    expect(rows(page)).to_have_count(62)  # three more, and the one that is done has gone
    expect(bar).to_be_hidden()
    assert page.evaluate("window.scrollY") == 0


def test_oldest_first_rows_change_in_place_and_new_documents_come_at_the_end(harness: Harness, visit: Visit) -> None:
    """Scroll, filters and sort stay as they are while the queue goes on."""
    ids = harness.submit("Elder", 130)
    page = visit(f"{harness.url}/documents?customer=Elder&state=waiting&state=running")
    expect(rows(page).first).to_contain_text("elder-129")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Submitted")
    page.locator("thead").get_by_role("button", name="Submitted").click()
    page.wait_for_url("**/documents?customer=Elder&state=waiting&state=running&sort=oldest")
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Submitted")
    expect(page.locator("thead").get_by_role("button", name="Submitted")).to_be_focused()
    expect(rows(page).first).to_contain_text("elder-000")
    expect(page.locator(".live")).to_have_text("Live")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(rows(page)).to_have_count(130)
    page.evaluate("window.scrollTo(0, 500)")
    page.evaluate("window.firstRow = document.querySelector('tbody tr')")
    row = page.get_by_role("row", name=re.compile("elder-012"))
    place, scroll = row.bounding_box(), page.evaluate("window.scrollY")
    claimed = harness.claim(ids[12])
    expect(row.locator(".state-running")).to_be_visible()
    harness.queue.finish(claimed)
    expect(row.locator(".is-gone .state-done")).to_be_visible()
    harness.submit("Elder", 2, batch="new ones")
    expect(page.get_by_role("button", name="Show more")).to_be_visible()
    expect(rows(page)).to_have_count(130)
    expect(page.locator(".documents-new")).to_be_hidden()
    assert (page.evaluate("window.scrollY"), row.bounding_box()) == (scroll, place)
    assert page.evaluate("document.querySelector('tbody tr') === window.firstRow")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(rows(page)).to_have_count(132)
    expect(rows(page).last).to_contain_text("elder-001")
    page.reload()
    expect(rows(page).first).to_contain_text("elder-000")
    page.get_by_role("button", name=re.compile("^Done")).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Submitted")
    page.go_back()
    page.go_back()
    expect(rows(page).first).to_contain_text("elder-001")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Submitted")


def test_on_a_phone_a_field_sorts(harness: Harness, visit: Visit) -> None:
    harness.submit("Pocket", 3)
    page = visit(f"{harness.url}/documents?customer=Pocket", width="phone")
    expect(rows(page).first).to_contain_text("pocket-002")
    page.get_by_label("Sort").select_option("Oldest first")
    page.wait_for_url("**/documents?customer=Pocket&sort=oldest")
    expect(rows(page).first).to_contain_text("pocket-000")
    page.get_by_label("Sort").select_option("Newest first")
    page.wait_for_url("**/documents?customer=Pocket")
    expect(rows(page).first).to_contain_text("pocket-002")


def test_the_chosen_ones_are_cancelled_tried_again_and_expedited(harness: Harness, visit: Visit) -> None:
    ids = harness.submit("Chosen", 5)
    page = visit(f"{harness.url}/documents?customer=Chosen")
    box(page, "chosen-001.pdf").check()
    box(page, "chosen-003.pdf").check()
    page.get_by_role("button", name="Cancel documents").click()
    agree(page, "Cancel 2 documents?", why="sent twice")
    expect(page.locator(".toast")).to_contain_text("2 documents cancelled.")
    assert [harness.state(item) for item in ids] == ["waiting", "cancelled", "waiting", "cancelled", "waiting"]
    assert harness.queue.store.audit(limit=1)[0].operator == ("local", "sent twice")
    expect(page.locator("tbody .state-cancelled")).to_have_count(2)
    expect(page.get_by_text("selected", exact=False)).to_have_count(0)
    page.get_by_role("checkbox", name="Select all rows").check()
    page.get_by_role("button", name="Retry", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("3 selected documents will be skipped")
    agree(page, "Retry 2 documents?")
    expect(page.locator(".toast").last).to_contain_text("2 documents queued for retry.")
    assert {harness.state(item) for item in ids} == {"waiting"}
    box(page, "chosen-004.pdf").check()
    page.get_by_role("button", name="Move to front").click()
    agree(page, "Move 1 document to the front of the queue?")
    expect(page.get_by_role("row", name=re.compile("chosen-004"))).to_contain_text("Front of queue")
    assert harness.queue.document(ids[4]).expedited
    box(page, "chosen-004.pdf").check()
    page.get_by_role("button", name="Move to front").click()
    expect(page.locator(".toast").last).to_have_text("None of the selected documents can be moved to the front.")
    harness.queue.cancel(ids[4], ANNA)


def test_all_that_match_are_cancelled_after_a_question_that_names_them(harness: Harness, visit: Visit) -> None:
    ids = harness.submit("Flood", 130, batch="wrong")
    stored = harness.submit("Flood", 2)
    page = visit(f"{harness.url}/documents?customer=Flood&batch=wrong&q=flood")
    expect(rows(page)).to_have_count(100)
    page.get_by_role("checkbox", name="Select all rows").check()
    page.get_by_role("button", name="Select all 130 matching documents").click()
    expect(page.get_by_text("All 130 matching documents are selected")).to_be_visible()
    expect(page.get_by_role("button", name="Move to front")).to_have_count(0)
    page.get_by_role("button", name="Cancel documents").click()
    dialog = page.get_by_role("dialog", name="Cancel 130 documents?")
    expect(dialog).to_contain_text("Customer: Flood · Batch: wrong · Name contains: flood")
    yes = dialog.get_by_role("button", name="Cancel documents")
    expect(yes).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert {harness.state(item) for item in ids} == {"waiting"}
    page.get_by_role("button", name="Cancel documents").click()
    dialog.get_by_label("Type 130 to confirm").fill("130")
    yes.click()
    expect(page.locator(".toast")).to_contain_text("130 documents cancelled.")
    assert {harness.state(item) for item in ids} == {"cancelled"}
    assert {harness.state(item) for item in stored} == {"waiting"}
    page.goto(f"{harness.url}/documents?customer=Flood&state=cancelled")
    page.get_by_role("checkbox", name="Select all rows").check()
    page.get_by_role("button", name="Select all 130 matching documents").click()
    page.get_by_role("button", name="Retry", exact=True).click()
    agree(page, "Retry 130 documents?")
    expect(page.locator(".toast")).to_contain_text("130 documents queued for retry.")
    assert {harness.state(item) for item in ids} == {"waiting"}


def test_nothing_found_and_a_server_that_fails_are_told(
    harness: Harness, visit: Visit, console_errors: ConsoleErrors
) -> None:
    page = visit(f"{harness.url}/documents?q=there-is-no-such-name")
    expect(page.get_by_text("No documents match")).to_be_visible()
    page.route(re.compile(r"/v1/documents\?"), lambda route: route.abort())
    page.get_by_role("button", name=re.compile("^Failed")).click()
    trouble = page.locator(".documents-error")
    expect(trouble).to_contain_text("Can’t reach the server.")
    page.unroute_all()
    console_errors.messages.clear()
    page.locator(".documents-filters").get_by_role("button", name="Clear filters").click()
    expect(trouble).to_be_empty()
    expect(rows(page)).to_have_count(100)


# -- one document


def test_a_waiting_document_says_why_it_waits_and_how_its_level_came(harness: Harness, visit: Visit) -> None:
    ids = harness.submit("Waits", 5)
    page = visit(f"{harness.url}/documents/{ids[4]}", language="de")
    now = page.locator(".document-status")
    expect(now).to_contain_text(re.compile(r"\d+ Dokumente davor: .*, 1 von diesem Kunden auf derselben Stufe"))
    expect(page.get_by_text("Stufe 2: Der Zähler des Kunden stand beim Einreichen auf -4")).to_be_visible()
    expect(page.get_by_text("unter -2, aber nicht unter -4")).to_be_visible()
    expect(page.locator(".level-scale .is-here")).to_have_text("2")
    harness.queue.pause(ANNA, "Waits")
    expect(now).to_contain_text("der Kunde ist pausiert")
    harness.queue.resume(ANNA, "Waits")
    expect(now).not_to_contain_text("pausiert")


def test_a_documents_life_is_told_as_it_happens(harness: Harness, visit: Visit) -> None:
    (id_,) = harness.submit("Life", 1, max_attempts=2)
    page = visit(f"{harness.url}/documents/{id_}")
    steps = page.locator(".timeline-what")
    expect(steps).to_have_text(["Submitted"])
    page.get_by_role("button", name="Move to front").click()
    agree(page, "Move this document to the front of the queue?", why=EVIL)
    expect(steps).to_have_text(["Submitted", "Moved to the front of the queue"])
    expect(page.locator(".timeline-by")).to_have_text(f"By local: {EVIL}")
    claimed = harness.claim(id_)
    held = {id_: Progress(1, 4)}
    now = time.time_ns() // 1_000
    harness.queue.store.record_worker(WorkerReport("host-1", "host.example", 1, 10, 1, "extract", now, progress=held))
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "25")
    expect(page.locator(".document-status")).to_contain_text("Processing on host-1 (attempt 1 of 2).")
    harness.queue.fail(claimed, f"{EVIL}\nat page 3", retry_in=0)
    expect(page.locator(".timeline-step .document-error:visible")).to_have_text(EVIL)
    harness.queue.store.sweep()
    expect(steps.last).to_have_text("Back in the queue")
    harness.queue.fail(harness.claim(id_), "broken for good")
    expect(steps.last).to_have_text("Failed permanently")
    expect(page.locator(".document-status")).to_contain_text("Failed permanently on attempt 2 of 2.")
    errors = page.locator(".timeline-step .document-error:visible")
    expect(errors).to_have_text([EVIL, "broken for good"])
    errors.first.click()
    expect(page.locator(".timeline-error pre")).to_have_text("at page 3")
    errors.first.click()
    page.get_by_role("button", name="Retry", exact=True).click()
    agree(page, "Retry this document?")
    expect(steps.last).to_have_text("Retried by hand, with a new level")
    page.get_by_role("button", name="Cancel document").click()
    agree(page, "Cancel this document?")
    expect(steps.last).to_have_text("Cancelled")
    expect(page.get_by_role("button", name="Cancel document")).to_have_count(0)
    assert harness.state(id_) == "cancelled"
    expect(errors).to_have_text([EVIL, "broken for good"])
    wanted = ["Started (attempt 1 of 2)", "Attempt 1 failed, retry scheduled", "Back in the queue"]
    assert steps.all_inner_texts()[2:7] == [*wanted, "Started (attempt 2 of 2)", "Failed permanently"]


def test_the_list_says_why_a_document_failed(harness: Harness, visit: Visit) -> None:
    first, second = harness.submit("Reasons", 2, max_attempts=2)
    page = visit(f"{harness.url}/documents?customer=Reasons")
    reasons = page.locator(".documents-reason:visible")
    expect(rows(page)).to_have_count(2)
    expect(reasons).to_have_count(0)
    harness.queue.fail(harness.claim(first), f"{EVIL} in it\nat page 3", final=True)
    expect(reasons).to_have_text([f"{EVIL} in it"])
    expect(reasons.first).to_have_attribute("title", f"{EVIL} in it")
    harness.queue.fail(harness.claim(second), "no answer", retry_in=10**9)
    expect(reasons).to_have_text(["no answer", f"{EVIL} in it"])
    expect(box(page, "reasons-000.pdf")).to_be_visible()
    harness.queue.retry(first, ANNA)
    expect(reasons).to_have_text(["no answer"])
    harness.queue.fail(harness.claim(first), "no total", final=True)
    page.goto(f"{harness.url}/documents/{first}")
    expect(page.locator(".document-status")).to_contain_text("Rejected on attempt 1 of 2")
    expect(page.locator(".document-status")).not_to_contain_text("Fix the cause")


def test_a_result_is_shown_as_text_and_downloaded(harness: Harness, visit: Visit) -> None:
    with harness.blobs.begin() as writing:
        writing.write(f"<script>alert(2)</script>{LONG}".encode())
        blob = writing.commit()
    given = {"blob": blob.key, "size": blob.size, "sha256": blob.sha256, "metadata": {EVIL: EVIL, "order": 7}}
    (id_,) = harness.submit("Result", 1, **given)
    claimed = harness.claim(id_)
    files = (ResultFile(f"tables/{EVIL}.csv", blob.key, blob.size, blob.sha256, "text/csv"),)
    result = json.dumps({"text": f"{EVIL} {LONG}", "pages": 3})
    harness.queue.store.ack_and_claim((Outcome(id_, claimed.fence, OutcomeKind.DONE, result, files=files),), None)
    page = visit(f"{harness.url}/documents/{id_}")
    text = page.get_by_role("region", name="Extracted text")
    expect(text).to_contain_text(EVIL)
    assert len(text.inner_text()) < 1_600
    page.get_by_role("button", name=re.compile(r"Show full text \(3,\d+ characters\)")).click()
    assert text.inner_text().strip() == f"{EVIL} {LONG}".strip()
    page.get_by_text("More fields").click()
    expect(page.get_by_role("region", name="More fields")).to_contain_text('"pages": 3')
    expect(page.locator(".details").last).to_contain_text(EVIL)
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("csv$")).click()
    assert download.value.path().read_bytes().startswith(b"<script>alert(2)</script>Dear")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download", exact=True).click()
    assert download.value.path().stat().st_size == blob.size
    with page.expect_download() as download:
        page.get_by_role("link", name="Download JSON").click()
    assert b'"pages":3' in download.value.path().read_bytes().replace(b" ", b"")


def test_hostile_names_are_shown_as_what_they_are(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents?customer={quote(HOSTILE)}")
    link = rows(page).first.get_by_role("link", name=HOSTILE_DOCUMENT)
    expect(link).to_be_visible()
    expect(page.get_by_role("combobox", name="Customer")).to_have_value(HOSTILE)
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE_DOCUMENT)
    for place in (page.locator(".details"), page.get_by_role("navigation", name="Breadcrumbs")):
        expect(place.get_by_role("link", name=HOSTILE, exact=True)).to_be_visible()
    (id_,) = harness.submit("Refers", 1, uri="javascript:alert(3)")
    page.goto(f"{harness.url}/documents/{id_}")
    expect(page.get_by_text("javascript:alert(3)")).to_be_visible()
    expect(page.locator("a[href^='javascript']")).to_have_count(0)


def test_a_document_that_is_deleted_says_so(harness: Harness, visit: Visit, console_errors: ConsoleErrors) -> None:
    (id_,) = harness.submit("Purged")
    page = visit(f"{harness.url}/documents/{id_}")
    expect(page.get_by_role("button", name="Cancel document")).to_be_visible()
    harness.queue.purge("Purged", ANNA)
    expect(page.get_by_text("This document has been deleted")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel document")).to_have_count(0)
    page.close()
    assert [item for item in console_errors.messages if "404" not in item] == []
    console_errors.messages.clear()


# -- who sees what


class Visitors(NamedTuple):
    """A read-only key, a customer's key, a document of its own and another's."""

    eyes: str
    own: str
    mine: str
    other: str


@pytest.fixture
def visitors(locked: ServerProcess) -> Visitors:
    """At a server that asks for keys."""
    with inturn.open(str(locked.folder / "inturn.db")) as queue:
        return Visitors(
            create_api_key(queue.store, "eyes", scope=ApiKeyScope.READ_ONLY),
            create_api_key(queue.store, "portal", "Customer 005"),
            queue.submit("Customer 005", [NewDocument("mine.pdf")])[0].id,
            queue.submit("Customer 006", [NewDocument("other.pdf")])[0].id,
        )


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key", exact=True).fill(key)
    page.keyboard.press("Enter")


def test_a_read_only_key_acts_on_nothing(locked: ServerProcess, visitors: Visitors, visit: Visit) -> None:
    page = visit(f"{locked.url}/signin?to={quote(f'/documents/{visitors.mine}')}")
    sign_in(page, visitors.eyes)
    expect(page.get_by_role("heading", level=1)).to_have_text("mine.pdf")
    expect(page.locator(".title-actions button")).to_have_count(0)
    page.get_by_role("navigation", name="Breadcrumbs").get_by_role("link", name="Documents").click()
    expect(rows(page)).to_have_count(100)
    expect(page.locator("main table input[type=checkbox]")).to_have_count(0)
    expect(page.get_by_role("link", name="Upload files")).to_have_count(0)


def test_a_customer_sees_and_acts_on_its_own(
    locked: ServerProcess, visitors: Visitors, visit: Visit, console_errors: ConsoleErrors
) -> None:
    page = visit(f"{locked.url}/signin?to=/documents")
    sign_in(page, visitors.own)
    expect(page.locator("tbody th").first).to_have_text("mine.pdf")
    expect(page.get_by_role("combobox", name="Customer")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="Customer")).to_have_count(0)
    page.get_by_role("link", name="mine.pdf").first.click()
    expect(page.locator(".document-status")).to_contain_text(re.compile("About [0-9,]+ documents ahead"))
    expect(page.get_by_role("button", name="Move to front")).to_have_count(0)
    page.get_by_role("button", name="Cancel document").click()
    agree(page, "Cancel this document?")
    expect(page.locator(".timeline-what").last).to_have_text("Cancelled")
    page.goto(f"{locked.url}/documents/{visitors.other}")
    expect(page.get_by_role("alert")).to_contain_text("Not found.")
    page.close()
    assert [item for item in console_errors.messages if "404" not in item] == []
    console_errors.messages.clear()

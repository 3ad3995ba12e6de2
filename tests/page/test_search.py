"""One search on every page; ranges of time, retries of what failed, sorting, columns and saved views of the list."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ANNA, ServerProcess, create_api_key
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import DocumentFilter

Visit = Callable[..., Page]
FAILED = "the page tree is broken"


class Harness:
    """A server, and its queue with documents of two customers."""

    def __init__(self, folder: Path) -> None:
        self.server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
        self.url = self.server.url
        self.queue: Queue = inturn.open(str(folder / "inturn.db"))
        self.queue.pause(ANNA)
        self.ids = [
            self.submit("searcher", f"order {n}.pdf", metadata={"invoice": f"PL-2024-{1810 + n}"}) for n in range(5)
        ]
        self.submit("neighbour", "other.pdf", batch="july 2026")
        self.queue.change_customer("searcher", ANNA, display_name="Searchers Ltd")

    def submit(self, customer: str, name: str, **more: object) -> str:
        return self.queue.submit(customer, [NewDocument(name, **more)])[0].id  # type: ignore[arg-type]

    def fail(self, *ids: str) -> None:
        """Let these documents fail."""
        self.queue.resume(ANNA)
        for id_ in ids:
            self.queue.expedite(id_, ANNA)
            (claimed,) = self.queue.claim("host-1", 1)
            self.queue.fail(claimed, FAILED, final=True)
        self.queue.pause(ANNA)


@pytest.fixture(scope="module")
def harness(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("search")
    shutil.copy(filled, folder / "inturn.db")
    harness = Harness(folder)
    yield harness
    harness.queue.close()
    harness.server.stop()


def search_field(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search", exact=True)


def search_for(page: Page, text: str) -> Locator:
    search_field(page).fill(text)
    return page.get_by_role("listbox", name="Search").get_by_role("option")


def test_slash_and_control_k_lead_to_the_search_from_everywhere(harness: Harness, visit: Visit) -> None:
    for path in ("/", "/policy"):
        page = visit(harness.url + path)
        expect(search_field(page)).to_be_visible()
        page.keyboard.press("/")
        expect(search_field(page)).to_be_focused()
        page.keyboard.press("Escape")
        page.get_by_role("heading", level=1).focus()
        page.keyboard.press("Control+k")
        expect(search_field(page)).to_be_focused()
        page.keyboard.type("a/b")
        expect(search_field(page)).to_have_value("a/b")


def test_the_search_leads_to_documents_by_metadata_and_keyboard(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/customers")
    options = search_for(page, "invoice:PL-2024-1812")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("order 2.pdf")
    expect(search_field(page)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options).to_have_attribute("aria-selected", "true")
    assert search_field(page).get_attribute("aria-activedescendant") == options.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{harness.url}/documents/{harness.ids[2]}")
    expect(search_field(page)).to_have_value("")
    expect(search_for(page, "nothing of this kind")).to_have_count(0)
    expect(page.get_by_text("Nothing matches.").first).to_be_visible()


def test_the_search_groups_customers_batches_errors_and_pages(harness: Harness, visit: Visit) -> None:
    failed = harness.submit("breaker", "broken.pdf")
    harness.fail(failed)
    page = visit(f"{harness.url}/documents")
    for text, group, name, address in (
        ("searchers", "Customers", "Searchers Ltd", "/customers/searcher"),
        ("july", "Batches", "july 2026", "/documents?batch=july+2026"),
        ("page tree", "Errors", FAILED, f"/documents/{failed}"),
        ("audit", "Pages", "Audit log", "/audit"),
        (harness.ids[3][:30], "Documents", "order", "/documents/"),
    ):
        search_for(page, text)
        option = page.get_by_role("group", name=group).get_by_role("option").first
        expect(option).to_contain_text(name)
        option.click()
        expect(page).to_have_url(re.compile(re.escape(harness.url + address)))


def test_a_customers_key_finds_only_its_own(harness: Harness, visit: Visit) -> None:
    server = ServerProcess(Path(str(harness.queue.store_path)).parent, "--auth", "keys")
    try:
        key = create_api_key(harness.queue.store, "portal", "neighbour")
        page = visit(f"{server.url}/signin")
        page.get_by_label("API key", exact=True).fill(key)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("neighbour")
        expect(search_for(page, "other")).to_have_count(1)
        expect(search_for(page, "invoice:PL")).to_have_count(0)
        expect(page.get_by_text("Nothing matches.").first).to_be_visible()
        page.goto("about:blank")
    finally:
        server.stop()


def test_a_range_of_time_is_kept_in_the_address(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents?customer=searcher")
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_label("Time", exact=True).select_option("1h")
    expect(page).to_have_url(re.compile(r"range=1h"))
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_label("Time of").select_option("ended")
    expect(page).to_have_url(re.compile(r"time=ended"))
    expect(page.locator("tbody tr")).to_have_count(0)
    page.get_by_label("Time of").select_option("submitted")
    page.get_by_label("Time", exact=True).select_option("exact")
    expect(page).to_have_url(re.compile(r"since=\d{4}-\d\d-\d\dT\d\d%3A\d\dZ"))
    page.get_by_label("From", exact=True).fill("2025-12-31T08:00")
    page.get_by_label("To", exact=True).fill("2026-01-01T08:00")
    expect(page.locator("tbody tr")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("From", exact=True)).to_have_value("2025-12-31T08:00")
    page.get_by_role("button", name="Clear filters").first.click()
    expect(page).to_have_url(f"{harness.url}/documents")


def test_the_audit_log_takes_a_range_of_time(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/audit?until=2020-01-01T00:00Z")
    expect(page.get_by_label("To", exact=True)).to_be_visible()
    expect(page.locator(".audit-entry")).to_have_count(0)
    page.get_by_label("Time", exact=True).select_option("15m")
    expect(page.locator(".audit-entry").first).to_be_visible()
    expect(page).to_have_url(f"{harness.url}/audit?range=15m")


def test_what_failed_since_yesterday_is_retried_in_three_clicks(harness: Harness, visit: Visit) -> None:
    ids = [harness.submit("unlucky", f"{n}.pdf") for n in range(3)]
    other = harness.submit("lucky", "1.pdf")
    harness.fail(*ids, other)
    page = visit(f"{harness.url}/documents?customer=unlucky")
    page.get_by_role("button", name="Retry failed…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("3 failed documents")).to_be_visible()
    dialog.get_by_role("button", name="Retry 3 documents").click()
    expect(page.get_by_role("row").filter(has_text=re.compile("waiting", re.IGNORECASE))).to_have_count(3)
    states = harness.queue.counts(DocumentFilter(customer="lucky")).states
    assert list(states) == ["failed"]


def test_the_customer_typed_last_does_not_take_the_click_away(harness: Harness, visit: Visit) -> None:
    """The field lost the focus while the button was pressed, and counted again: that disabled the button."""
    harness.fail(harness.submit("hapless", "1.pdf"))
    page = visit(f"{harness.url}/documents")
    page.get_by_role("button", name="Retry failed…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("combobox", name="Customer").fill("hapless")
    button = dialog.get_by_role("button", name="Retry 1 document")
    box = button.bounding_box()
    assert box is not None
    page.route(
        "**/v1/documents/retry*",
        lambda route: None if "dry_run" in (route.request.post_data or "") else route.continue_(),
    )
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.wait_for_timeout(50)
    page.mouse.up()
    expect(page.locator(".toast")).to_contain_text("1 document queued for retry.")


def test_the_list_is_sorted_by_processing_time(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents?sort=work")
    rows = page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    expect(page.get_by_role("columnheader", name="Processing")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_text("Sorted: the newest 1,000 documents that match")).to_be_visible()
    page.get_by_role("columnheader", name="Wait").get_by_role("button").click()
    expect(page).to_have_url(re.compile("sort=wait"))


def test_columns_and_views_are_kept_in_the_browser(harness: Harness, visit: Visit) -> None:
    page = visit(f"{harness.url}/documents?customer=searcher&range=24h")
    header = page.get_by_role("columnheader", name="Level")
    expect(header).to_be_visible()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="Level").uncheck()
    expect(header).to_be_hidden()
    page.get_by_text("Saved views", exact=True).click()
    page.get_by_role("button", name="Save this view…").click()
    page.get_by_label("Name of the view").fill("mine")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.goto(f"{harness.url}/documents")
    expect(header).to_be_hidden()
    page.get_by_text("Saved views", exact=True).click()
    page.get_by_role("link", name="mine").click()
    expect(page).to_have_url(f"{harness.url}/documents?customer=searcher&range=24h")
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_text("Saved views", exact=True).click()
    page.get_by_role("button", name="Delete the view mine").click()
    expect(page.get_by_role("link", name="mine")).to_have_count(0)

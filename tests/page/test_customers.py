"""The list of customers and the page of one: sorting, search, live updates, actions."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import NewDocument, RateLimit
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.worker_report import WorkerReport
from page_checks import HOSTILE, axe_violations, problems, wait_until_ready

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
ANNA = Operator("anna", "because the test says so")
NASTY = (
    "<img src=x onerror=alert('name')>",
    '"><script>alert(1)</script>',
    "\u202eltr\u202c \u0645\u0631\u062d\u0628\u0627",
    "n" * 255,
    "a/b?c=d&e#f%2F",
)


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for this file; each test uses its own customers."""
    folder = tmp_path_factory.mktemp("customers")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[Queue]:
    with inturn.open(str(server.folder / "inturn.db")) as opened:
        yield opened


def address(server: ServerProcess, name: str) -> str:
    return f"{server.url}/customers/{quote(name, safe='')}"


def names(page: Page) -> list[str]:
    return page.locator("tbody th bdi:first-child").all_inner_texts()


def row_of(page: Page, name: str) -> Locator:
    return page.locator("tbody tr").filter(has=page.locator(f'th a[href$="/{quote(name, safe="")}"]'))


def fact(page: Page, label: str) -> Locator:
    """The value beside a label."""
    return page.locator("dl > div").filter(has=page.locator("dt", has_text=re.compile(f"^{label}$"))).locator("dd")


# -- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_begins_with_those_who_wait_most(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/customers")
    expect(page.locator("tbody tr")).to_have_count(50)
    first = page.locator("tbody tr").first
    expect(first).to_contain_text("Level 9")
    expect(first).to_contain_text("-199")
    expect(first.locator(".customers-clock")).to_have_text(re.compile(r"^2\d:\d\d$"))
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Waiting")
    sums = [int(text) for text in page.locator(".stacked-bar-sum").all_inner_texts()]
    assert sums == sorted(sums, reverse=True)


def test_a_clock_counts_down_and_then_the_level_is_the_first_again(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    for seconds in (5, 20, 55):  # a busy machine may show the first one too late
        name = f"clock {seconds}"
        queue.store.check(name, 30, now=time.time_ns() // 1_000 - (1_500 - seconds) * 1_000_000)
        page = visit(f"{server.url}/customers?q={quote(name)}")
        row = row_of(page, name)
        before = row.inner_text()
        if "Reset" not in before:
            break
    assert re.search(r"\b0:[0-5]\d\b", before)
    assert "Level 9" in before
    expect(row.locator(".customers-clock")).to_have_text("Reset")
    expect(row).to_contain_text("Level 1")


def test_sort_filter_search_and_page_live_in_the_address(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.change_customer("Customer 017", ANNA, paused=True, display_name="Zoë & Partners")
    page = visit(f"{server.url}/customers")
    page.get_by_role("button", name="Customer", exact=True).click()
    page.wait_for_url("**/customers?sort=name")
    expect(page.get_by_role("button", name="Customer", exact=True)).to_be_focused()
    page.get_by_role("button", name="Next page").click()
    page.wait_for_url("**/customers?sort=name&page=2")
    expect(page.locator(".pager")).to_contain_text("51\u2013100 of")
    page.go_back()
    expect(page.locator(".pager")).to_contain_text("1\u201350 of")
    page.get_by_label("Filter customers").select_option("paused")
    page.wait_for_url("**/customers?sort=name&paused=true")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("Zoë & Partners")
    expect(page.locator("tbody tr")).to_contain_text("Paused")
    page.get_by_label("Filter customers").select_option("all")
    page.get_by_role("searchbox").fill("zoë")
    page.wait_for_url("**/customers?sort=name&q=zo%C3%AB")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator(".customers-count")).to_have_text("1 customer")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("zoë")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("searchbox").fill("nobody at all")
    expect(page.get_by_text("No customers match")).to_be_visible()


def test_every_heading_sorts_and_sorts_back(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/customers?sort=nonsense&page=999")
    expect(page.locator("tbody tr")).to_have_count(50)
    assert "page=" not in page.url  # there are fewer pages
    heads = {
        "Next level": "level",
        "Resets in": "updated",
        "Running": "running",
        "Wait p50": "wait",
        "Share": "share",
    }
    for head, key in heads.items():
        button = page.locator("thead").get_by_role("button", name=head)
        for sort, way in ((f"-{key}", "descending"), (key, "ascending")):
            with page.expect_response(lambda answer, key=key: f"sort={key}&" in answer.url) as answered:  # type: ignore[misc]
                button.click()
            assert answered.value.status == 200
            page.wait_for_url(f"**/customers?sort={sort}")
            expect(page.locator(f"th[aria-sort={way}]")).to_contain_text(head)
            expect(page.locator("tbody tr")).to_have_count(50)


def test_a_change_is_shown_in_place_and_scroll_focus_and_typed_text_stay(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    page = visit(f"{server.url}/customers?sort=name&q=Customer 2")
    expect(page.locator("tbody tr")).to_have_count(50)
    row = row_of(page, "Customer 240")
    row.scroll_into_view_if_needed()
    page.evaluate("scrollBy(0, 200)")  # at once; a turn of the wheel scrolls over several frames
    page.evaluate("document.querySelectorAll('tbody tr').forEach((row) => { row.isSame = true; })")
    row.locator("a").focus()
    scrolled = page.evaluate("scrollY")
    before = int(row.locator(".stacked-bar-sum").inner_text())
    page.evaluate("document.querySelector('input[type=search]').value = 'Customer 2 half typ'")
    queue.submit("Customer 240", [NewDocument("x")] * 3)
    expect(row.locator(".stacked-bar-sum")).to_have_text(str(before + 3))
    expect(row.locator("a")).to_be_focused()
    assert page.evaluate("scrollY") == scrolled > 0
    assert page.evaluate("[...document.querySelectorAll('tbody tr')].every((row) => row.isSame)")
    expect(page.get_by_role("searchbox")).to_have_value("Customer 2 half typ")


def test_a_row_moves_to_its_new_place_with_its_focus(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("mover one", [NewDocument("x")] * 2)
    queue.submit("mover two", [NewDocument("x")])
    page = visit(f"{server.url}/customers?q=mover")
    expect(page.locator("tbody th bdi:first-child")).to_have_text(["mover one", "mover two"])
    row_of(page, "mover two").locator("a").focus()
    queue.submit("mover two", [NewDocument("x")] * 4)
    expect(page.locator("tbody th bdi:first-child")).to_have_text(["mover two", "mover one"])
    expect(row_of(page, "mover two").locator("a")).to_be_focused()


def test_a_search_that_fails_is_told_and_tried_again(
    server: ServerProcess, visit: Visit, console_errors: ConsoleErrors
) -> None:
    page = visit(f"{server.url}/customers")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.route("**/v1/customers?*", lambda route: route.abort())
    page.get_by_role("searchbox").fill("Customer 11")
    expect(page.get_by_text("Can’t reach the server.")).to_be_visible()
    page.unroute("**/v1/customers?*")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("tbody tr")).to_have_count(10)
    assert [item for item in console_errors.messages if "ERR_FAILED" not in item] == []
    console_errors.messages.clear()


def test_an_empty_queue_says_so(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    page = visit(f"{serve(empty=True).url}/customers")
    expect(page.get_by_text("No customers match")).to_be_visible()
    assert problems(page, "en") == []


# -- hostile names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY, ids=["image", "script", "right-to-left", "long", "address"])
def test_hostile_names_are_text_everywhere(server: ServerProcess, queue: Queue, visit: Visit, name: str) -> None:
    queue.submit(name, [NewDocument(name[:200])] * 4)
    queue.change_customer(name, Operator(name, name), display_name=name)
    page = visit(f"{server.url}/customers?q={quote(name, safe='')}", width="phone")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert names(page) == [name]
    assert problems(page, "en") == []
    page.locator("tbody th a").click()
    wait_until_ready(page, "customer")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    assert problems(page, "en") == []
    page.get_by_role("button", name="Delete all data").click()
    expect(page.get_by_role("dialog")).to_contain_text(name)
    assert problems(page, "en") == []


# -- one customer -----------------------------------------------------------------------------------------------------


def test_a_customer_is_shown_with_counter_lines_and_history(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("shown", [NewDocument("first.pdf")])
    queue.submit("shown", [NewDocument(f"letter-{n}.pdf") for n in range(6)])
    page = visit(address(server, "shown"))
    expect(page.get_by_role("heading", level=1)).to_have_text("shown")
    expect(fact(page, "Counter")).to_have_text("-6")
    expect(fact(page, "Next level")).to_have_text("Level 4")
    expect(fact(page, "Resets in")).to_have_text(re.compile(r"^2\d:\d\d$"))
    expect(page.locator(".counter-chart")).to_have_attribute(
        "aria-label", re.compile("level 4 for 2 documents, level 5 for 2 documents, .*, level 9 for 10 documents")
    )
    expect(page.locator(".counter-column")).to_have_count(24)
    lines = page.locator("tbody tr")
    expect(lines).to_have_count(3)
    expect(lines.nth(0)).to_contain_text("Level 1")
    expect(lines.nth(0).locator(".bar-number")).to_have_text("3")
    moments = page.locator(".history li")
    expect(moments).to_have_count(2)
    expect(moments.nth(0)).to_contain_text("6 documents")
    expect(moments.nth(1).get_by_role("link")).to_have_text("first.pdf")
    lines.nth(2).get_by_role("link").click()
    page.wait_for_url("**/documents?customer=shown&state=waiting&level=3")


def test_a_customers_page_follows_what_happens(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("living", [NewDocument("x")])
    page = visit(address(server, "living"))
    expect(fact(page, "Waiting")).to_have_text("1")
    queue.submit("living", [NewDocument("x")] * 2)
    expect(fact(page, "Waiting")).to_have_text("3")
    expect(fact(page, "Counter")).to_have_text("-2")
    expect(page.locator(".history li").first).to_contain_text("2 documents")


def test_more_than_the_interval_later_the_next_document_starts_at_zero(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    queue.store.check("rested", 30, now=1_000_000)
    page = visit(address(server, "rested"))
    expect(fact(page, "Counter")).to_have_text("0")
    expect(fact(page, "Resets in")).to_have_text("Reset")
    expect(fact(page, "Next level")).to_have_text("Level 1")
    expect(page.locator(".counter-chart")).to_have_attribute("aria-label", re.compile("level 1 for 3 documents"))
    expect(page.get_by_text("No documents waiting")).to_be_visible()
    page = visit(address(server, "rested"), language="de", width="phone")
    value = page.get_by_role("timer")
    expect(value).to_be_visible()
    assert value.evaluate(
        "(node) => node.getBoundingClientRect().right < node.closest('.card').getBoundingClientRect().right"
    )


def test_somebody_is_paused_and_resumed_with_a_reason(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("halted", [NewDocument("x")])
    page = visit(address(server, "halted"))
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_label("Reason").fill("a complaint")
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    status = page.locator(".customer-status")
    expect(status.locator("h2")).to_have_text("Paused \xb7 1 document waiting")
    expect(status.locator(".status-reason")).to_contain_text("Paused by local: a complaint")
    expect(status.locator("time")).to_have_attribute("data-tip", re.compile(r"20\d\d.*\d+:\d\d:\d\d"))
    expect(page.locator("tbody tr")).to_contain_text("On hold")
    expect(page.locator(".history li").first).to_contain_text("by local: a complaint")
    assert queue.customer("halted").settings.paused
    status.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(status.locator("h2")).to_have_text("1 document waiting")
    expect(status.locator(".status-cause")).to_contain_text("The next document would get level 1.")
    expect(status.locator(".status-reason")).to_be_hidden()
    assert not queue.customer("halted").settings.paused


@pytest.mark.parametrize("limit", ["cap", "rate"])
def test_a_customer_at_a_limit_says_which(serve: Callable[..., ServerProcess], visit: Visit, limit: str) -> None:
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        queue.submit("limited", [NewDocument("x")] * 3)
        if limit == "cap":
            queue.change_customer("limited", ANNA, cap=1)
        else:
            queue.change_customer("limited", ANNA, rate=RateLimit(1, 3_600_000_000))
        (claim,) = queue.claim("host-1", 1)
        if limit == "rate":
            queue.finish(claim, {})
        assert queue.claim("host-1", 5) == ()
        page = visit(address(server, "limited"))
        status = page.locator(".customer-status")
        if limit == "cap":
            expect(status.locator("h2")).to_have_text(
                "On hold: at the concurrency limit \xb7 2 documents waiting \xb7 1 running"
            )
        else:
            expect(status.locator("h2")).to_have_text("On hold: at the rate limit \xb7 2 documents waiting")
            expect(status).to_contain_text("At most 1 document may start within 1 hour.")
        queue.pause(ANNA)
        expect(status.locator("h2")).to_contain_text("On hold")


def test_the_page_begins_with_the_status_and_ends_with_what_cannot_be_undone(
    server: ServerProcess, queue: Queue, visit: Visit
) -> None:
    queue.submit("ordered", [NewDocument("x")])
    page = visit(address(server, "ordered"))
    sections = page.locator(".page-customer section")
    expect(sections.first.locator("h2")).to_have_text("1 document waiting")
    expect(sections.first.get_by_role("button", name="Copy ordered")).to_be_visible()
    expect(sections.last.locator("h2")).to_have_text("Danger zone")
    expect(sections.last.get_by_role("button", name="Delete all data")).to_be_visible()
    expect(page.get_by_role("button", name="Delete all data")).to_have_count(1)


def test_settings_are_changed_and_only_those_that_were(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("settled", [NewDocument("x")])
    page = visit(address(server, "settled"))
    page.get_by_role("button", name="Edit settings").click()
    dialog = page.get_by_role("dialog")
    assert axe_violations(page) == []
    dialog.get_by_label("Weight").fill("2.5")
    dialog.get_by_label("Concurrency limit").fill("7")
    dialog.get_by_label("Starts").fill("100")
    dialog.get_by_label("per (seconds)").fill("60")
    dialog.get_by_label("Keep finished documents").fill("30")
    dialog.get_by_label("Display name").fill("Settled & Sons")
    dialog.get_by_label("Reason").fill("the new contract")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settled & Sons")
    settings = queue.customer("settled").settings
    assert (settings.weight, settings.cap, settings.rate) == (2.5, 7, RateLimit(100, 60_000_000))
    assert settings.keep == 30 * 86_400_000_000
    expect(fact(page, "Rate limit")).to_have_text("100 starts within 1 minute")
    page.get_by_role("button", name="Edit settings").click()
    dialog.get_by_label("Concurrency limit").fill("")
    dialog.get_by_label("Starts").fill("")
    dialog.get_by_label("Keep finished documents").fill("")
    queue.change_customer("settled", ANNA, weight=4)  # somebody else, meanwhile: it must stay
    dialog.get_by_role("button", name="Save").click()
    expect(fact(page, "Concurrency limit")).to_have_text("None")
    settings = queue.customer("settled").settings
    assert (settings.cap, settings.rate, settings.keep, settings.weight) == (None, None, None, 4)


def test_settings_that_are_refused_stay_in_the_form(
    server: ServerProcess, queue: Queue, visit: Visit, console_errors: ConsoleErrors
) -> None:
    queue.submit("refused", [NewDocument("x")])
    page = visit(address(server, "refused"))
    page.get_by_role("button", name="Edit settings").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Starts").fill("1000000")
    dialog.get_by_label("per (seconds)").fill("0.001")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Check your input and try again.")
    expect(dialog.get_by_label("Starts")).to_have_value("1000000")
    assert queue.customer("refused").settings.rate is None
    assert [item for item in console_errors.messages if "422" not in item] == []
    console_errors.messages.clear()


def test_everything_is_deleted_only_after_the_name_was_typed(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    queue.submit("leaving", [NewDocument("x")] * 4)
    page = visit(address(server, "leaving"))
    page.get_by_role("button", name="Delete all data").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete all data of this customer (4 documents)?")
    go = dialog.get_by_role("button", name="Delete all data")
    expect(go).to_be_disabled()
    dialog.get_by_label("to confirm").fill("leavin")
    expect(go).to_be_disabled()
    dialog.get_by_label("to confirm").fill("leaving")
    dialog.get_by_label("Reason").fill("the contract ended")
    go.click()
    expect(page.get_by_text("4 documents deleted.")).to_be_visible()
    expect(fact(page, "Waiting")).to_have_text("0")
    assert queue.customer("leaving").waiting == 0
    assert queue.customer("leaving").count == -3


def test_a_customer_that_is_not_there_is_told(
    server: ServerProcess, visit: Visit, console_errors: ConsoleErrors
) -> None:
    page = visit(address(server, "never seen"))
    expect(page.get_by_text("Not found. It may have been deleted.")).to_be_visible()
    assert [item for item in console_errors.messages if "404" not in item] == []
    console_errors.messages.clear()


@pytest.mark.parametrize("scope", [ApiKeyScope.READ_ONLY, ApiKeyScope.CUSTOMER])
def test_who_may_not_act_sees_no_button_and_a_customer_nothing_of_others(
    locked: ServerProcess, visit: Visit, scope: ApiKeyScope
) -> None:
    store = open_store(str(locked.folder / "inturn.db"))
    key = create_api_key(store, "who", HOSTILE if scope is ApiKeyScope.CUSTOMER else None, scope)
    store.close()
    page = visit(address(locked, HOSTILE))
    page.get_by_label("API key", exact=True).fill(key)
    page.get_by_label("API key", exact=True).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.get_by_role("link", name="Documents").last).to_be_visible()
    for action in ("Pause", "Edit settings", "Delete all data"):
        expect(page.get_by_role("button", name=action)).to_have_count(0)
    is_own = scope is ApiKeyScope.CUSTOMER
    expect(
        page.get_by_role("heading", name="Wait times" if is_own else "Wait times and share", exact=True)
    ).to_be_visible()
    expect(page.locator(".customer-share")).to_have_count(0 if is_own else 1)
    assert problems(page, "en") == []


def test_a_customer_at_its_share_is_marked_and_its_documents_say_so(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        queue.store.record_worker(WorkerReport("host-1", "host", 1, 8, 8, "extract", time.time_ns() // 1_000))
        queue.submit("quick", [NewDocument("a.pdf")])
        queue.claim("host-1")
        queue.submit("acme", [NewDocument(f"scan-{n}.pdf") for n in range(9)])
        held = {claim.document.id for claim in queue.claim("host-1", 20)}
        waiting = next(document.id for document in queue.documents().items if document.id not in held)
        assert queue.customer("acme").at_slot_limit
    page = visit(server.url + "/customers", width="phone", language="de")
    expect(page.locator("tbody tr").filter(has_text="acme").locator(".badge").first).to_have_text("Anteil ausgeschöpft")
    expect(page.locator("tbody tr").filter(has_text="quick")).not_to_contain_text("Anteil")
    page = visit(address(server, "acme"))
    status = page.locator(".customer-status")
    expect(status).to_contain_text("This customer uses its share of the slots")
    expect(status.locator("h2")).to_have_text(re.compile("^On hold: uses its share of the slots .* 7 running$"))
    page = visit(f"{server.url}/documents/{waiting}", theme="dark")
    expect(page.get_by_text("the customer already uses 7 of 8 slots while others have documents too")).to_be_visible()
    assert axe_violations(page) == []

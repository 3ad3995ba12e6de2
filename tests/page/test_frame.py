"""What every page has in common: the menu of the top bar, breadcrumbs, exact times, copying, tables."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from http_server import ServerProcess
from page_checks import HOSTILE, axe_violations, problems

Visit = Callable[..., Page]


@pytest.mark.parametrize("width", ["wide", "phone"])
def test_language_and_theme_are_chosen_in_a_menu_with_the_keyboard(
    shared: ServerProcess, visit: Visit, width: str
) -> None:
    page = visit(f"{shared.url}/settings", width=width)
    opener = page.get_by_role("banner").get_by_role("button", name="Language and theme")
    opener.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menu")).to_be_visible()
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("menuitemradio", name="English", checked=True)).to_be_focused()
    assert problems(page, "en") + axe_violations(page) == []
    page.keyboard.press("End")
    expect(page.get_by_role("menuitemradio", name="Dark")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitemradio", name="English")).to_be_focused()
    page.keyboard.type("d")
    expect(page.get_by_role("menuitemradio", name="Deutsch")).to_be_focused()
    page.keyboard.type("d")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menu")).to_be_hidden()
    expect(opener).to_be_focused()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitemradio", name="Dark", checked=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_be_hidden()
    expect(opener).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Tab")
    expect(page.get_by_role("menu")).to_be_hidden()


def test_the_menu_closes_at_a_click_elsewhere(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/settings")
    opener = page.get_by_role("button", name="Language and theme")
    opener.click()
    expect(page.get_by_role("menu")).to_be_visible()
    page.get_by_role("heading", level=1).click()
    expect(page.get_by_role("menu")).to_be_hidden()
    opener.click()
    opener.click()
    expect(page.get_by_role("menu")).to_be_hidden()


def test_breadcrumbs_lead_back_to_the_list_as_it_was_left(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/customers?show=waiting&sort=name")
    page.locator("tbody tr a").first.click()
    expect(page.locator(".page-customer")).to_be_visible()
    trail = page.get_by_role("navigation", name="Breadcrumbs")
    expect(trail.locator("[aria-current=page]")).to_have_text(page.get_by_role("heading", level=1).inner_text())
    trail.get_by_role("link", name="Customers").click()
    expect(page.locator(".page-customers")).to_be_visible()
    assert page.url.endswith("/customers?show=waiting&sort=name")
    expect(trail).to_be_hidden()


def test_a_document_is_below_its_customers_documents(shared: ServerProcess, visit: Visit) -> None:
    with shared.client() as client:
        query = {"customer": HOSTILE, "limit": 1}
        (document,) = client.get("/v1/documents", params=query).json()["documents"]
    page = visit(f"{shared.url}/documents/{document['id']}", language="pl", width="phone")
    trail = page.get_by_role("navigation", name="Ścieżka")
    expect(trail.get_by_role("link", name="Dokumenty", exact=True)).to_have_attribute("href", "/documents")
    trail.get_by_role("link", name=HOSTILE).click()
    expect(page.locator(".page-documents")).to_be_visible()
    assert quote(HOSTILE, safe="") in page.url.replace("+", "%20")


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_a_relative_time_says_the_exact_time_and_its_zone(shared: ServerProcess, visit: Visit, by: str) -> None:
    page = visit(f"{shared.url}/policy?tab=versions")
    moment = page.locator("time[data-tip]").first
    if by == "pointer":
        moment.hover()
    else:
        moment.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_have_text(re.compile(r"\w{3} \d+, 20\d\d, \d+:\d\d:\d\d [AP]M \S+"))
    expect(moment).to_have_attribute("aria-describedby", re.compile("tip"))
    assert problems(page, "en") + axe_violations(page) == []
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_the_link_of_a_row_shows_the_exact_time_of_the_row(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/documents")
    page.locator("tbody tr a").first.focus()
    expect(page.get_by_role("tooltip")).to_have_text(re.compile(r"20\d\d, \d+:\d\d:\d\d"))
    page.locator("h1").focus()
    expect(page.get_by_role("tooltip")).to_have_count(0)


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_command_is_copied_also_where_the_browser_keeps_the_clipboard_to_itself(
    locked: ServerProcess, visit: Visit, *, is_allowed: bool
) -> None:
    page = visit(f"{locked.url}/signin")
    if is_allowed:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    page.get_by_text("No API key?").click()
    command = "inturn keys create --operator --name anna"
    page.get_by_role("button", name=f"Copy {command}").click()
    expect(page.get_by_role("status").get_by_text("Copied")).to_have_count(1)
    page.get_by_label("API key", exact=True).focus()
    page.keyboard.press("Control+V")
    expect(page.get_by_label("API key", exact=True)).to_have_value(command)


@pytest.mark.parametrize(
    ("width", "path"), [("wide", "/customers"), ("phone", "/customers"), ("phone", "/policy?tab=versions")]
)
def test_the_head_of_a_long_table_stays_in_sight(shared: ServerProcess, visit: Visit, width: str, path: str) -> None:
    page = visit(f"{shared.url}{path}", width=width)
    head, last = page.locator("thead th").first, page.locator("tbody tr").last
    expect(last).to_be_visible()
    last.scroll_into_view_if_needed()
    box = head.bounding_box()
    bar = page.get_by_role("banner").bounding_box()
    assert box is not None
    assert bar is not None
    assert bar["y"] == 0
    assert box["y"] >= bar["height"] - 1
    assert box["y"] + box["height"] <= page.evaluate("innerHeight")
    covered = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).closest('thead') !== null",
        [box["x"] + 12, box["y"] + box["height"] / 2],
    )
    assert covered


@pytest.mark.parametrize("path", ["/customers", "/documents?state=waiting"])
def test_rows_of_one_line_are_36_pixels_high(shared: ServerProcess, visit: Visit, path: str) -> None:
    page = visit(f"{shared.url}{path}")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50 if path == "/customers" else 100)
    short = rows.filter(has_text=re.compile("Customer|letter-"))  # the hostile name takes two lines
    heights = short.evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
    assert {round(height) for height in heights} == {36}

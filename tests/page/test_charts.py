"""Charts over time: ranges, zoom, cursor and legend, by pointer and keyboard; times in the reader's zone."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from http_server import ServerProcess
from inturn.clock import ManualClock, SystemClock
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores.sqlite import SqliteStore
from inturn.values import seconds
from page_checks import axe_violations
from waiting import wait_until

Visit = Callable[..., Page]
HOUR = 3_600
CUSTOMERS = ("Acme", "Beta", "Gamma")


def write_history(path: Path, hours: float) -> None:
    """Fill a queue whose history is this long: three customers, a round of them each minute."""
    clock = ManualClock(SystemClock().now() - seconds(hours * HOUR))
    store = SqliteStore(path, clock)
    queue = Queue(store, clock=clock)
    for minute in range(int(hours * 60)):
        for number, customer in enumerate(CUSTOMERS):
            queue.submit(customer, [NewDocument("letter.pdf")] * (number + 1))
        clock.advance(seconds(20))
        for claim in queue.claim("loop", 5, lease=seconds(60)):
            if minute % 10 == 0:
                queue.fail(claim, "the file is damaged", final=True)
            else:
                queue.finish(claim, {})
        clock.advance(seconds(30))
        queue.fold_history(limit=1_000)
        clock.advance(seconds(10))
    store.close()


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a queue with two hours of history."""
    folder = tmp_path_factory.mktemp("eventful")
    write_history(folder / "inturn.db", 2)
    server = ServerProcess(folder)
    yield server
    server.stop()


def handle(page: Page) -> Locator:
    return page.locator(".history-panel .chart-handle")


def points(page: Page) -> int:
    """The number of points in the chart's first line."""
    path = page.locator(".history-panel :is(.chart-line, .chart-area)").first.get_attribute("d") or ""
    return len(re.findall("[ML]", path))


def opened(visit: Visit, server: ServerProcess, query: str = "", **options: Any) -> Page:
    page = visit(f"{server.url}/{query}", **options)
    expect(page.locator(".history-panel :is(.chart-line, .chart-area)").first).to_have_attribute("d", re.compile("^M"))
    return page


def test_ranges_are_shown_and_kept_in_the_address(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful)
    assert 58 <= points(page) <= 61
    page.get_by_role("tab", name="15 min").click()
    page.wait_for_url("**/?range=15m")
    expect(page.get_by_role("tab", name="15 min")).to_have_attribute("aria-selected", "true")
    wait_until(lambda: 0 < points(page) < 20, timeout=60)
    page.get_by_role("tab", name="24 h").press("ArrowRight")
    page.wait_for_url("**/?range=7d")
    page.reload()
    expect(page.get_by_role("tab", name="7 d")).to_have_attribute("aria-selected", "true")


def test_a_customers_page_has_charts_of_its_own(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful, "customers/Gamma")
    assert 58 <= points(page) <= 61
    page.get_by_role("tab", name="Documents/min").click()
    page.wait_for_url("**/customers/Gamma?tab=documents")
    legend = page.locator(".history-panel .legend")
    expect(legend).to_have_text(re.compile("Submitted.*Done.*Failed"))
    slider = page.get_by_role("slider", name="Documents/min")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("Submitted 3,"))  # Beta sent 2 a minute, Acme 1
    page.get_by_role("tab", name="15 min").click()
    page.wait_for_url("**/customers/Gamma?tab=documents&range=15m")
    page.get_by_role("tab", name="Waiting", exact=True).click()
    expect(page.locator(".history-panel .chart-area")).to_have_count(1)


def test_times_on_the_axis_are_round_in_the_readers_zone(eventful: ServerProcess, browser: Browser) -> None:
    for zone in ("UTC", "Asia/Kathmandu"):  # 5:45 hours ahead
        with browser.new_context(locale="de", timezone_id=zone) as context:
            page = context.new_page()
            page.goto(eventful.url)
            marks = page.locator(".history-panel .chart-mark[text-anchor=middle]")
            expect(marks.first).to_be_visible()
            texts = marks.all_text_contents()
            assert len(texts) >= 3
            times = [text for text in texts if re.fullmatch(r"\d\d:[0-5]0", text)]
            days = [text for text in texts if re.fullmatch(r"\d\d?\. \w+\.?", text)]  # midnight has the new day
            assert len(days) <= 1, texts
            assert sorted(times + days) == sorted(texts)


def test_arrow_keys_move_a_cursor_that_reads_out_the_values(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful)
    slider = page.get_by_role("slider", name="Wait time")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "0")
    first = slider.get_attribute("aria-valuetext") or ""
    assert re.search(r"p50 .+, p95 .+", first)
    expect(page.locator(".chart-readout")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuenow", "1")
    assert slider.get_attribute("aria-valuetext") != first
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")


def test_zoom_with_the_keyboard_and_back(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful)
    handle(page).focus()
    page.keyboard.press("Home")
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".chart-brush")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))
    wait_until(lambda: 0 < points(page) < 20, timeout=60)
    expect(page.locator(".history-span")).not_to_be_empty()
    handle(page).focus()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/$"))
    wait_until(lambda: points(page) > 50, timeout=60)


def test_zoom_with_the_pointer_and_back(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful)
    box = handle(page).bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.4 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=\d+&to=\d+"))
    page.get_by_role("button", name="Show the whole range").click()
    page.wait_for_url(re.compile(r"/$"))
    page.mouse.click(box["x"] + 0.5 * box["width"], y)  # a click is no zoom
    assert "from=" not in page.url


def test_legend_hides_series_and_the_address_keeps_them(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful)
    lines = page.locator(".history-panel .chart-line")
    expect(lines).to_have_count(2)
    page.get_by_role("button", name="p95", exact=True).click()
    expect(lines).to_have_count(1)
    page.wait_for_url("**/?hide=p95")
    page.reload()
    expect(page.get_by_role("button", name="p95", exact=True)).to_have_attribute("aria-pressed", "false")
    expect(lines).to_have_count(1)


def test_throughput_is_stacked_by_customer(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful, "?tab=throughput")
    expect(page.locator(".history-panel .chart-area")).to_have_count(len(CUSTOMERS))
    expect(page.locator(".history-legend")).to_contain_text("Gamma")
    handle(page).focus()
    page.keyboard.press("Home")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    text = page.get_by_role("slider").get_attribute("aria-valuetext") or ""
    assert all(customer in text for customer in CUSTOMERS)
    page.get_by_role("tab", name="Waiting by level").click()
    expect(page.locator(".history-panel .chart-area.series-level").first).to_have_attribute("d", re.compile("^M"))


def test_time_before_the_history_is_a_gap(eventful: ServerProcess, visit: Visit) -> None:
    page = opened(visit, eventful, "?range=24h&tab=throughput")
    path = page.locator(".history-panel .chart-area").first.get_attribute("d") or ""
    first_x = float(re.findall(r"M([\d.]+)", path)[0])
    width = float(page.locator(".history-panel .chart").get_attribute("width") or 0)
    assert first_x > 0.8 * width  # nothing is drawn, least of all a zero, for the 22 hours before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_chart_is_accessible(eventful: ServerProcess, visit: Visit, theme: str) -> None:
    page = opened(visit, eventful, "?tab=levels", theme=theme)
    assert axe_violations(page) == []

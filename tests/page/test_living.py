"""Pages stay correct while open: servers restart, two servers share a store, the tab is hidden."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Request, expect

import inturn
from http_server import ServerProcess
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator
from page_checks import wait_until_ready
from tcp_proxy import Proxy
from waiting import wait_until

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
Serve = Callable[..., ServerProcess]
SOAK = os.environ.get("INTURN_SOAK") == "1"
TURN = (
    "() => new Promise((done) => { const { port1, port2 } = new MessageChannel();"
    " port1.onmessage = () => done(); port2.postMessage(0); })"
)
"""One turn of the page's event loop; its timers stand still."""
HIDE = 'Object.defineProperty(document, "hidden", { get: () => window.isHidden ?? false });'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def store_of(server: ServerProcess) -> Iterator[Queue]:
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        yield queue


def figure(page: Page, place: int = 0) -> int:
    text = page.locator(".card-value").nth(place).inner_text()
    return int("".join(item for item in text if item.isdigit()))


def place(page: Page, what: str) -> int:
    """The distance from the top of the window, in pixels."""
    float_rect = page.locator(what).bounding_box()
    assert float_rect is not None
    return round(float_rect["y"])


def only_lost_connections(console_errors: ConsoleErrors) -> None:
    """Accept the console errors of a lost connection, and no others."""
    expected = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED", "503")
    assert [item for item in console_errors.messages if not any(word in item for word in expected)] == []
    console_errors.messages.clear()


def test_pages_outlive_a_restart_with_what_was_typed_filtered_and_scrolled(
    serve: Serve, visit: Visit, console_errors: ConsoleErrors
) -> None:
    port = free_port()
    server = serve("--port", str(port))
    overview = visit(server.url)
    wait_until_ready(overview, "overview")
    overview.get_by_role("searchbox").fill("Customer 00")
    overview.wait_for_url("**/?q=Customer+00")
    overview.evaluate("scrollTo(0, 300)")
    before = place(overview, ".overview-charts")
    audit = visit(f"{server.url}/audit?kind=queue_paused")
    settings = visit(f"{server.url}/settings")
    documents = visit(f"{server.url}/documents?state=failed")
    tabs = (overview, audit, settings, documents)
    for tab in tabs:
        expect(tab.locator(".live")).to_have_text("Live")
        tab.evaluate("window.isSame = true")
    with store_of(server) as queue:  # all have heard something: they will ask for what comes behind it
        queue.pause(Operator("maria", "for a moment"))
        expect(settings.get_by_text("Paused by maria: for a moment")).to_be_visible()
        queue.resume(Operator("maria", ""))
    expect(settings.get_by_text("Running. Documents start")).to_be_visible()
    waiting = figure(overview)
    assert server.stop() == 0
    for tab in tabs:
        expect(tab.locator(".live")).to_have_text("Reconnecting…")
    with store_of(server) as queue:
        queue.submit("Customer 001", [NewDocument("late.pdf")] * 25)
        queue.pause(Operator("maria", "while nobody served"))
    serve("--port", str(port))
    for tab in tabs:
        expect(tab.locator(".live")).to_have_text("Live")
    expect(settings.get_by_text("Paused by maria: while nobody served")).to_be_visible()
    expect(audit.locator(".audit-entry")).to_have_count(3)
    expect(overview.locator(".status-strip")).to_contain_text("while nobody served")
    wait_until(lambda: figure(overview) == waiting + 25)
    expect(overview.get_by_role("searchbox")).to_have_value("Customer 00")
    assert place(overview, ".overview-charts") == before  # though there is a strip above it now
    assert documents.url.endswith("/documents?state=failed")
    assert all(tab.evaluate("window.isSame") for tab in tabs)
    only_lost_connections(console_errors)


def test_two_servers_of_one_store_are_one_page(serve: Serve, visit: Visit, console_errors: ConsoleErrors) -> None:
    first, second = serve(), serve()
    ports = [int(server_process.url.rpartition(":")[2]) for server_process in (first, second)]
    with Proxy(ports[0]) as proxy:
        page = visit(f"http://127.0.0.1:{proxy.port}/settings")
        expect(page.locator(".live")).to_have_text("Live")
        with second.client() as client:
            client.post("/v1/queue/pause", params={"why": "at the other one"})
        expect(page.get_by_text("Paused by local: at the other one")).to_be_visible()
        proxy.target_port = ports[1]
        proxy.cut()  # whatever comes now reaches the second server
        first.stop()
        with store_of(second) as queue:
            queue.resume(Operator("maria", ""))
        expect(page.get_by_text("Running. Documents start")).to_be_visible()
        page.get_by_role("link", name="Overview").click()
        wait_until_ready(page, "overview")
        page.close()
    only_lost_connections(console_errors)


@pytest.mark.parametrize("path", ["/", "/audit", "/settings"] if SOAK else ["/"])
def test_a_hidden_tab_asks_for_nothing(serve: Serve, visit: Visit, path: str) -> None:
    server = serve()
    page = visit("about:blank", alone=True)
    page.add_init_script(HIDE)
    page.clock.install()
    page.goto(server.url + path)
    expect(page.locator(".live")).to_have_text("Live")
    _hide(page, hidden=True)
    page.clock.fast_forward(6_000)
    expect(page.locator(".live")).to_have_text("Idle")
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    with store_of(server) as queue:
        queue.submit("Customer 001", [NewDocument("more.pdf")])
        queue.pause(Operator("maria", "at night"))
    for _ in range(3):
        page.clock.fast_forward(200_000)  # ten minutes
    for _ in range(20):
        page.evaluate(TURN)
    assert asked == []
    _hide(page, hidden=False)
    page.clock.resume()
    expect(page.locator(".live")).to_have_text("Live")
    expect(page.locator("main")).to_contain_text("at night")
    assert asked


def _hide(page: Page, *, hidden: bool) -> None:
    page.evaluate(
        "(isHidden) => { window.isHidden = isHidden; document.dispatchEvent(new Event('visibilitychange')); }", hidden
    )

"""A server goes away and comes back: pages say what is so, keep their style, and recover by themselves."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from http_server import ServerProcess
from page_checks import wait_until_ready

from .conftest import ConsoleErrors
from .test_living import free_port, only_lost_connections

Visit = Callable[..., Page]
Serve = Callable[..., ServerProcess]


def test_pages_first_opened_in_an_outage_say_so_and_come_by_themselves(
    serve: Serve, visit: Visit, console_errors: ConsoleErrors
) -> None:
    port = free_port()
    server = serve("--port", str(port))
    page = visit(server.url, alone=True)
    wait_until_ready(page, "overview")
    assert server.stop() == 0
    page.get_by_role("link", name="Customers", exact=True).click()
    expect(page.get_by_text("Can’t reach the server.")).to_be_visible()
    expect(page.get_by_text("Something went wrong")).to_have_count(0)
    serve("--port", str(port))
    expect(page.locator(".page-customers tbody tr").first).to_be_visible()  # nobody pressed anything
    assert page.evaluate("[...document.styleSheets].some((sheet) => sheet.href.endsWith('/pages/customers.css'))")
    page.get_by_role("link", name="Policy", exact=True).click()
    wait_until_ready(page, "policy")
    assert page.locator(".policy-sides").evaluate("(node) => getComputedStyle(node).display") == "grid"
    only_lost_connections(console_errors)


@pytest.mark.parametrize("language", ["en", "pl"])
def test_unknown_addresses_are_a_page_for_browsers(
    shared: ServerProcess, visit: Visit, console_errors: ConsoleErrors, language: str
) -> None:
    page = visit(f"{shared.url}/reports/2024", language=language)
    expect(page.locator(".nav")).to_be_visible()
    expect(page.locator(".outlet .state .button")).to_be_visible()
    assert [message for message in console_errors.messages if "404" not in message] == []
    console_errors.messages.clear()


def test_programs_still_get_a_problem_at_unknown_addresses(shared: ServerProcess) -> None:
    with shared.client() as client:
        for path, accepted in (("/reports/2024", "application/json"), ("/v1/reports", "text/html"), ("/x", "*/*")):
            answer = client.get(path, headers={"Accept": accepted})
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")

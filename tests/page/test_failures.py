"""The page for failures: groups by kind of error, and the retry of one in two clicks."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import DocumentFilter, EventKind

Visit = Callable[..., Page]


@pytest.fixture
def server(filled: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    shutil.copy(filled, tmp_path / "inturn.db")
    server = ServerProcess(tmp_path)
    yield server
    server.stop()


def fail(queue: Queue, customer: str, *errors: str) -> None:
    for error in errors:
        (receipt,) = queue.submit(customer, [NewDocument(f"scan of {customer}.pdf")])
        queue.expedite(receipt.id, inturn.Operator("anna", ""))
        (claim,) = queue.claim("host-1")
        queue.fail(claim, error, final=True)


def test_a_group_is_retried_in_two_clicks_with_its_count_shown_before(server: ServerProcess, visit: Visit) -> None:
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        fail(queue, "acme", *(f"page {number} of 'a{number}.pdf' is broken" for number in range(7)))
        fail(queue, "bolt", "page 4 of 'b.pdf' is broken")
        page = visit(f"{server.url}/failures")
        group = page.locator(".failure-group").first
        expect(group.locator(".failure-error")).to_have_text("page <n> of <name> is broken")
        expect(group.locator(".failure-count")).to_have_text("8")
        expect(group).to_contain_text("2 customers: acme, bolt")
        expect(group).to_contain_text("page 4 of 'b.pdf' is broken")
        group.get_by_role("button", name="Retry 8 documents").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Retry 8 documents?")
        dialog.get_by_role("button", name="Retry 8 documents").click()
        expect(page.get_by_text("8 documents are waiting again")).to_be_visible()
        expect(page.get_by_text("page <n> of <name> is broken")).to_have_count(0)
        assert queue.counts(DocumentFilter(customer="acme")).states == {"waiting": 7}
        retried = [event for event in queue.audit(limit=2) if event.kind is EventKind.RETRIED]
        assert {event.customer for event in retried} == {"acme", "bolt"}


def test_the_range_is_in_the_address_and_an_example_is_opened(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/failures")
    page.get_by_label("Time").select_option("hour")
    page.wait_for_url("**/failures?range=hour")
    page.goto(f"{server.url}/failures?range=all")
    expect(page.get_by_label("Time")).to_have_value("all")
    group = page.locator(".failure-group")
    expect(group.locator(".failure-error")).to_have_text("the file is broken")
    group.get_by_role("link", name="letter-").click()
    page.wait_for_url("**/documents/*")


def test_new_failures_appear_by_themselves(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/failures")
    expect(page.locator(".live")).to_have_text("Live")
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        fail(queue, "acme", "no disk")
    expect(page.get_by_text("no disk").first).to_be_visible()

"""The overview: four figures, what needs attention, and failures that operators acknowledge."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess
from inturn.i18n import page_entries
from inturn.model import NewDocument
from inturn.store_types import Operator

from .test_charts import write_history

Visit = Callable[..., Page]


@pytest.fixture
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a queue with two hours of history, failures among them, and no worker."""
    folder = tmp_path_factory.mktemp("failing")
    write_history(folder / "inturn.db", 1.5)
    server = ServerProcess(folder)
    yield server
    server.stop()


def test_fits_one_and_a_half_screens(failing: ServerProcess, visit: Visit) -> None:
    page = visit(failing.url, width="wide")
    expect(page.locator(".attention li").first).to_be_visible()
    page.set_viewport_size({"width": 1400, "height": 900})
    expect(page.locator(".share, .shares + *, .muted").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") <= 1_350


def test_figures_have_their_change_against_an_hour_ago(failing: ServerProcess, visit: Visit) -> None:
    page = visit(failing.url)
    cards = page.locator(".card")
    expect(cards).to_have_count(4)
    expect(cards.nth(0)).to_contain_text(re.compile(r"\W[\d,]+ against an hour ago"))
    expect(cards.nth(2)).to_contain_text(re.compile(r"\W[\d.,]+ against an hour ago"))


def test_failures_of_the_last_hour_are_acknowledged_for_all_operators(failing: ServerProcess, visit: Visit) -> None:
    page, other = visit(failing.url), visit(failing.url)
    failed = page.get_by_role("link", name=re.compile(r"documents failed in the last hour"))
    expect(failed).to_be_visible()
    assert re.search(r"state=failed&time=ended&since=", failed.get_attribute("href") or "")
    expect(page.get_by_role("link", name=re.compile("Gamma: .* failed"))).to_be_visible()
    page.get_by_role("button", name="Acknowledge").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the supplier knows")
    dialog.get_by_role("button", name="Acknowledge").click()
    for screen in (page, other):
        expect(screen.locator(".attention-known")).to_contain_text("Failures acknowledged by")
        expect(screen.get_by_role("link", name=re.compile("documents? failed"))).to_have_count(0)
    page.goto(f"{failing.url}/audit")
    expect(page.get_by_text("Acknowledged the failures so far")).to_be_visible()
    with inturn.open(str(failing.folder / "inturn.db")) as queue:
        (claim,) = queue.claim("loop", 1)
        queue.fail(claim, "again", final=True)
        queue.fold_history(limit=1_000)
    expect(other.get_by_role("link", name=re.compile(r"1 document failed since"))).to_be_visible()


def test_what_needs_attention_is_a_link(failing: ServerProcess, visit: Visit) -> None:
    with inturn.open(str(failing.folder / "inturn.db")) as queue:
        queue.submit("Paused", [NewDocument("letter.pdf")] * 3)
        queue.change_customer("Paused", Operator("anna", ""), paused=True)
    page = visit(failing.url)
    for text, target in (
        ("no workers are connected", "/workers"),
        ("is paused or at a limit", "/customers?waiting=true"),
    ):
        link = page.locator(".attention a", has_text=text)
        expect(link).to_be_visible()
        expect(link).to_have_attribute("href", target)


@pytest.mark.parametrize("language", ["de", "pl"])
def test_a_queue_without_trouble_says_so(serve: Callable[..., ServerProcess], visit: Visit, language: str) -> None:
    page, texts = visit(serve(empty=True).url, language=language), page_entries(language)
    expect(page.locator(".page-overview")).to_contain_text(str(texts["overview.attention_none"]))
    expect(page.locator(".attention li")).to_have_count(0)

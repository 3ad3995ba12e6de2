"""Figures and drawings of the page say what is so: nothing left out, nothing larger than it is."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

import inturn
from http_server import ServerProcess
from inturn.i18n import page_entries
from inturn.model import NewDocument
from inturn.store_types import Operator
from inturn.values import SECOND

Visit = Callable[..., Page]
Serve = Callable[..., ServerProcess]
NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")
TOP, BOTTOM = 2.0, 27.0
"""Of a sparkline, in its own units."""


def points_of(path: str) -> list[list[tuple[float, float]]]:
    """The points of each piece of a line."""
    pieces = []
    for piece in path.split("M")[1:]:
        numbers = [float(number) for number in NUMBERS.findall(piece.split("h")[0])]
        pieces.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return pieces


def spark(page: Page, card: int) -> list[list[tuple[float, float]]]:
    line = page.locator(".card").nth(card).locator(".spark-line")
    expect(line).to_have_attribute("d", re.compile("^M"))
    return points_of(line.get_attribute("d") or "")


@pytest.fixture
def drawn(shared: ServerProcess, visit: Visit) -> Callable[..., Page]:
    """Open the overview with a history of one's own: drawn({"at": seconds, "waiting": numbers})."""

    def open_page(**columns: list[Any]) -> Page:
        def answer(route: Route) -> None:
            overview = route.fetch().json()
            at = columns["at"]
            history = {name: columns.get(name, [0] * len(at)) for name in overview["history"]}
            history["at"] = [overview["at"] - (at[-1] - second) * SECOND for second in at]
            route.fulfill(json=overview | {"history": history})

        page = visit(f"{shared.url}/settings")
        page.route("**/v1/overview*", answer)  # from here on the browser loads everything anew
        page.get_by_role("link", name="Overview").click()
        return page

    return open_page


def test_sparklines_begin_at_zero(drawn: Callable[..., Page]) -> None:
    page = drawn(at=[0, 5, 10], waiting=[20_000, 19_900, 19_812], running=[0, 0, 0])
    (waiting,) = spark(page, 0)
    assert all(y < TOP + 1 for _, y in waiting)  # a fall by one in a hundred is no fall to zero
    (running,) = spark(page, 1)
    assert {y for _, y in running} == {BOTTOM}  # and nothing is drawn as nothing


def test_sparklines_run_over_time_and_gaps_stay_gaps(drawn: Callable[..., Page]) -> None:
    page = drawn(at=[0, 5, 10, 310, 315, 320, 400], waiting=[1, 2, 3, 3, 2, 1, 1], p95=[None, 5, None, 5, 5, None, 5])
    pieces = spark(page, 0)
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    assert pieces[0][0][0] == 0
    assert pieces[1][0][0] == pytest.approx(77.5, abs=0.1)
    assert pieces[2][0][0] == 100
    assert [len(piece) for piece in spark(page, 3)] == [1, 2, 1]


@pytest.fixture
def held(serve: Serve) -> ServerProcess:
    """Four customers with waiting documents: two are free, one is paused, one runs as many as it may."""
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        queue.submit("capped", [NewDocument(f"c{n}.pdf") for n in range(31)])
        queue.change_customer("capped", Operator("anna", ""), cap=1)
        assert len(queue.claim("loop", 3, lease=3_600 * SECOND)) == 1
        queue.submit("paused", [NewDocument(f"p{n}.pdf") for n in range(3)])
        queue.change_customer("paused", Operator("anna", ""), paused=True)
        for name in ("free", "other"):
            queue.submit(name, [NewDocument("f.pdf")] * 2)
    return server


def test_held_customers_and_documents_are_counted_and_named(held: ServerProcess, visit: Visit) -> None:
    page = visit(held.url)
    cards = page.locator(".card")
    expect(cards.nth(0)).to_contain_text("37")
    expect(cards.nth(0)).to_contain_text("33 on hold")
    expect(page.locator(".attention")).to_contain_text("2 customers are paused or at a limit: 33 documents on hold")
    rows = page.locator(".panel", has_text="Light and heavy customers").locator("tbody tr")
    expect(rows.nth(0).locator("td").nth(0)).to_have_text("4 (2 on hold)")
    expect(rows.nth(0).locator("td").nth(1)).to_have_text("27 (23 on hold)")
    expect(rows.nth(1).locator("td").nth(0)).to_have_text("1 (1 on hold)")
    expect(rows.nth(1).locator("td").nth(1)).to_have_text("10 (10 on hold)")


@pytest.mark.parametrize("name", ["paused", "capped"])
def test_longest_wait_of_a_held_customer_is_shown(held: ServerProcess, visit: Visit, name: str) -> None:
    page = visit(f"{held.url}/customers/{name}")
    waits = page.locator(".page-customer tbody tr td.cell-end:nth-last-child(2)")
    expect(waits.first).to_have_text(re.compile(r"^[\d.]+\ss$"))
    assert all(text.strip() != "\N{EN DASH}" for text in waits.all_inner_texts())


@pytest.mark.parametrize("language", ["en", "de"])
def test_an_empty_search_does_not_say_that_nobody_waits(shared: ServerProcess, visit: Visit, language: str) -> None:
    page, texts = visit(f"{shared.url}/?q=nosuchname", language=language), page_entries(language)
    expect(page.get_by_text(str(texts["overview.no_match"]).replace("{q}", "nosuchname"))).to_be_visible()
    expect(page.get_by_text(str(texts["overview.no_customers"]), exact=True)).to_have_count(0)


def test_a_retried_document_has_waited_since_it_was_submitted(serve: Serve, visit: Visit) -> None:
    server = serve(empty=True)
    now = time.time_ns() // 1_000
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a.pdf")], now=now - 600 * SECOND)
        (claim,) = queue.claim("loop", 1, now=now - 500 * SECOND)
        queue.fail(claim, "the network was away", retry_in=300 * SECOND, now=now - 400 * SECOND)
        queue.sweep(now=now - 5 * SECOND)
    page = visit(f"{server.url}/documents/{receipt.id}")
    expect(page.locator(".status-clock")).to_have_text(
        re.compile(
            r"^Submitted 10 minutes.* ago; earlier attempts and the pauses between them took \d+ minutes.* of that\.$"
        )
    )


def test_download_is_offered_only_where_there_is_a_file(serve: Serve, visit: Visit) -> None:
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a.pdf", size=1_234)])
    page = visit(f"{server.url}/documents/{receipt.id}")
    expect(page.get_by_role("button", name="Cancel document")).to_be_visible()
    expect(page.get_by_role("link", name="Download")).to_have_count(0)


def test_a_limit_is_the_same_on_every_page(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/upload")
    expect(page.get_by_text("Up to 50 MB per file.")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    expect(page.locator(".page-settings").get_by_text("50 MB", exact=True)).to_be_visible()


def test_policy_edits_outlive_navigation(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/policy")
    interval = page.get_by_label("Reset interval")
    interval.fill("777")
    page.get_by_role("link", name="Customers", exact=True).click()
    expect(page.locator(".page-customers")).to_be_visible()
    page.get_by_role("link", name="Policy", exact=True).click()
    expect(interval).to_have_value("777")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("link", name="Customers", exact=True).click()
    page.get_by_role("link", name="Policy", exact=True).click()
    expect(interval).to_have_value("1500")


def test_simulator_marks_a_result_of_other_choices(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/simulator?scenario=two-bulk&load=10")
    page.get_by_role("button", name="Run simulation").click()
    expect(page.locator(".simulator-result .panel").nth(1)).to_be_visible()
    note = page.get_by_text("The setup has changed since this run.")
    expect(note).to_be_hidden()
    page.get_by_label("Random seed").fill("2")
    expect(note).to_be_visible()
    page.get_by_label("Random seed").fill("1")
    expect(note).to_be_hidden()


def test_a_better_result_than_expected_is_not_judged_as_a_failure(past: ServerProcess, visit: Visit) -> None:
    def answer(route: Route) -> None:
        *before, last = route.fetch().text().strip().split("\n")
        judgement = json.loads(last)["judgement"]
        judged = [group for group in judgement["groups"] if group["verdict"] != "unknown"]
        for group in judged:
            group |= {"expected": "longer", "happened": "shorter", "verdict": "did_not"}
        assert judged
        route.fulfill(
            body="\n".join([*before, json.dumps({"judgement": judgement})]), content_type="application/x-ndjson"
        )

    page = visit(f"{past.url}/policy?tab=versions")
    page.route("**/judgement", answer)
    page.get_by_role("button", name="Outcome of version 4").click()
    badge = page.locator(".evaluation .badge:not(.verdict-unknown)").first
    expect(badge).to_have_text("better than expected")
    assert badge.evaluate("(node) => getComputedStyle(node).getPropertyValue('--level')") == page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--good')"
    )
    expect(page.locator(".evaluation-verdict")).to_contain_text("Better than expected")


def test_a_preview_of_the_past_ends_by_now(past: ServerProcess, visit: Visit) -> None:
    def answer(route: Route) -> None:
        *before, last = route.fetch().text().strip().split("\n")
        played = json.loads(last)
        played["comparison"]["until"] += 40 * 365 * 86_400 * SECOND  # a document that is due in forty years
        route.fulfill(body="\n".join([*before, json.dumps(played)]), content_type="application/x-ndjson")

    page = visit(f"{past.url}/policy?tab=try")
    page.route("**/v1/policy/preview", answer)
    page.get_by_role("button", name="Run preview").click()
    summary = page.locator(".preview-result > p").first
    expect(summary).to_have_text(re.compile(rf"\u2013 \w+ \d+, {time.gmtime().tm_year}"))

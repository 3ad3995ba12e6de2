"""The simulator, a tab of the policy: scenarios, orders side by side, replays, progress, cancelling."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from http_server import ServerProcess, create_api_key
from inturn.analysis import built_in_scenarios
from inturn.api_keys import ApiKeyScope
from inturn.i18n import LANGUAGES, page_entries
from inturn.stores import open_store
from page_checks import axe_violations, languages, problems

Visit = Callable[..., Page]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_built_in_scenario_and_group_has_a_name(language: str) -> None:
    texts = page_entries(language)
    for scenario in built_in_scenarios().values():
        assert f"simulator.scenario_{scenario.name}" in texts
        for group in scenario.groups:
            assert f"simulator.group_{group.name.lower().replace(' ', '_')}" in texts


def test_orders_are_compared_side_by_side(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy?tab=simulator&load=10")
    expect(page.get_by_label("Scenario")).to_have_value("two-bulk")
    expect(page.get_by_label("Load (%)")).to_have_value("10")
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_text("444 documents, 4 at a time")).to_be_visible()
    expect(page.locator(".share-chart")).to_have_count(3)
    expect(page.locator(".share-chart path")).to_have_count(6)
    expect(page.locator(".wait-bars li")).to_have_count(2 * 3 * 3)
    expect(page.get_by_role("table", name="All metrics").get_by_role("row")).to_have_count(7)
    rows = page.get_by_role("table", name="Customers with the most documents").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("Heavy A")


def test_what_is_chosen_stands_in_the_address(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy?tab=simulator", width="phone", theme="dark")
    page.get_by_label("Scenario").select_option("flood")
    expect(page.get_by_text("Burst (1 customer) · Small (50 customers)")).to_be_visible()
    page.get_by_label("No levels").uncheck()
    page.get_by_label("Workers").fill("6")
    page.get_by_label("Workers").blur()
    page.wait_for_url("**/policy?tab=simulator&scenario=flood&workers=6&order=fair&order=classic")
    page.reload()
    expect(page.get_by_label("Workers")).to_have_value("6")
    expect(page.get_by_label("No levels")).not_to_be_checked()
    page.get_by_label("Scenario").select_option("two-bulk")
    expect(page.get_by_label("Workers")).to_have_value("4")
    page.go_back()
    expect(page.get_by_label("Scenario")).to_have_value("flood")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_impossible_settings_are_told(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy?tab=simulator")
    page.get_by_label("Workers").fill("1001")
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_label("Workers")).to_be_focused()
    expect(page.get_by_text("Enter a number from 1 to 1,000.")).to_be_visible()
    page.get_by_label("Workers").fill("4")
    for order in ("Fair", "Classic", "No levels"):
        page.get_by_role("checkbox", name=order).uncheck()
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_text("Select at least one.")).to_be_visible()
    page.get_by_role("checkbox", name="Fair").check()
    page.get_by_label("Load (%)").fill("1000")
    page.get_by_label("Scenario").select_option("flood")
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text=re.compile("more than 50000 documents"))).to_be_visible()


def test_it_can_be_cancelled_and_played_again(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy?tab=simulator&scenario=starving-105")
    play = page.get_by_role("button", name="Run simulation", exact=True)
    play.click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(play).to_be_enabled()
    expect(page.get_by_text("No results yet")).to_be_visible()


def test_what_really_came_is_played_beside_what_was(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy?tab=simulator")
    page.get_by_label("Documents", exact=True).select_option("week")
    page.wait_for_url("**/policy?tab=simulator&source=week")
    expect(page.get_by_label("Scenario")).to_have_count(0)
    page.get_by_label("Order").select_option("fifo")
    page.get_by_label("Workers").fill("2")
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="312 documents of 25 customers, 1 at a time")).to_contain_text(
        "With changes: 2 at a time."
    )
    assert page.url.endswith("?tab=simulator&source=week&order=fifo&workers=2")
    expect(page.locator(".wait-bars li")).to_have_count(2 * 3 * 3)
    waits = page.locator(".wait-group").first.locator(".wait-bars").first.locator(".wait-number").all_inner_texts()
    measured, as_it_was, chosen = (int(wait.split("\u00a0")[0]) for wait in waits)
    assert abs(measured - as_it_was) <= 3 < measured - chosen
    expect(page.get_by_role("link", name="flood")).to_be_visible()
    expect(page.get_by_role("table", name="All metrics").get_by_role("row")).to_have_count(7)
    expect(page.get_by_text("Only the newest 50,000 documents")).to_have_count(0)
    assert axe_violations(page) == []
    page.get_by_label("Order").select_option("")
    page.get_by_label("Workers").fill("")
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_role("table", name="All metrics").get_by_role("row")).to_have_count(5)
    expect(page.get_by_role("heading", name="Who benefits, who waits longer")).to_have_count(0)
    assert page.url.endswith("/policy?tab=simulator&source=week")
    page.go_back()
    expect(page.get_by_label("Scenario")).to_have_value("two-bulk")


@pytest.mark.parametrize("language", languages("pl", "pt"))
def test_a_replay_in_every_language(past: ServerProcess, visit: Visit, language: str) -> None:
    place = LANGUAGES.index(language)
    look = {"width": ("phone", "wide")[place % 2], "theme": ("dark", "light")[place % 2]}
    page = visit(past.url + "/policy?tab=simulator&source=day&order=classic", language=language, **look)
    page.locator(".simulator button[type=submit]").click()
    expect(page.locator(".wait-group")).to_have_count(2)
    assert problems(page, language) + axe_violations(page) == []


def test_a_replay_of_nothing_says_so_and_wrong_workers_are_told(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    page = visit(serve(empty=True).url + "/policy?tab=simulator&source=day&workers=0")
    play = page.get_by_role("button", name="Run simulation", exact=True)
    play.click()
    expect(page.get_by_text("Enter a number from 1 to 1,000.")).to_be_visible()
    expect(page.get_by_label("Workers")).to_be_focused()
    page.get_by_label("Workers").fill("")
    play.click()
    expect(page.get_by_text("No documents to replay in this time range")).to_be_visible()


def test_a_replay_can_be_cancelled_and_says_when_there_was_more(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy?tab=simulator&source=day")
    page.route("**/v1/replays", lambda _: None)  # it never comes
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("No results yet")).to_be_visible()
    page.unroute("**/v1/replays")
    page.route("**/v1/replays", cut)
    page.get_by_role("button", name="Run simulation", exact=True).click()
    expect(page.get_by_text("Only the newest 50,000 documents")).to_be_visible()


def cut(route: Route) -> None:
    """Mark the replay as cut."""
    answer = route.fetch()
    route.fulfill(response=answer, body=answer.text().replace('"is_cut": false', '"is_cut": true'))


def test_a_read_only_key_reads_what_there_is_and_plays_nothing(locked: ServerProcess, visit: Visit) -> None:
    store = open_store(str(locked.folder / "inturn.db"))
    key = create_api_key(store, "maria", scope=ApiKeyScope.READ_ONLY)
    store.close()
    page = visit(locked.url + "/policy?tab=simulator")
    page.get_by_label("API key", exact=True).fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your API key is read-only.")).to_be_visible()
    expect(page.get_by_label("Scenario")).to_be_visible()
    expect(page.locator("main button:visible")).to_have_count(0)

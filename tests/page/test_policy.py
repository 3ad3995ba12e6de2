"""The policy page: its description, the form and its validation, previews, versions, concurrent changes."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from http_server import ANNA, ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.i18n import LANGUAGES, page_entries
from inturn.policy import Charge, CostPolicy, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import SECOND
from page_checks import HOSTILE, axe_violations, languages, problems

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
SHORT = Policy(PriorityPolicy(600 * SECOND, (-2, -4)))


def put(server: ServerProcess, policy: Policy, operator: Operator = ANNA) -> int:
    """Set a policy in the store, as another operator would."""
    store = open_store(str(server.folder / "inturn.db"))
    result = store.set_policy(policy, operator).number
    store.close()
    return result


def in_force(server: ServerProcess) -> Policy:
    store = open_store(str(server.folder / "inturn.db"))
    policy = store.policy().policy
    store.close()
    return policy


def open_tab(page: Page, name: str) -> None:
    """Open a tab of the policy."""
    page.get_by_role("navigation", name="Policy").get_by_role("link", name=name, exact=True).click()


@pytest.mark.parametrize("language", languages("en", "pl"))
def test_the_policy_is_told_in_plain_words(shared: ServerProcess, visit: Visit, language: str) -> None:
    page, texts = visit(shared.url + "/policy", language=language, width="tablet"), page_entries(language)
    expect(page.get_by_role("heading", level=1)).to_have_text(str(texts["policy.title"]))
    words = page.locator(".words li")
    expect(words).to_have_count(6)
    expect(words.nth(0)).to_contain_text("25")
    expect(words.nth(1)).to_contain_text("22")
    expect(words.nth(2)).to_have_text(str(texts["policy.words_fair_time"]))
    expect(words.nth(3)).to_contain_text(str(texts["policy.words_cost_time"]))
    expect(words.nth(4)).to_have_text(re.compile(r"87[.,]5.*7.*8"))
    expect(words.nth(5)).to_contain_text("15")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_drawing_follows_and_impossible_settings_are_told(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    drawing = page.locator(".counter-chart")
    expect(page.locator(".counter-column")).to_have_count(27)
    save = page.get_by_role("button", name="Apply changes")
    expect(save).to_be_disabled()
    second = page.get_by_label("Level 3: below")
    second.fill("-2")
    expect(page.get_by_text("Enter a number below -2, the threshold of the previous level.")).to_be_visible()
    open_tab(page, "Preview on real traffic")
    expect(page.get_by_role("button", name="Run preview")).to_be_disabled()
    expect(page.locator(".preview-typed")).to_contain_text("Correct the marked fields.")
    page.get_by_role("link", name="Change the settings").click()
    save.click()
    expect(second).to_be_focused()
    second.fill("-4")
    expect(save).to_be_disabled()
    page.get_by_label("Reset interval").fill("0")
    expect(page.get_by_text("Enter more than 0 seconds")).to_be_visible()
    page.get_by_label("Reset interval").fill("90")
    expect(page.get_by_text("(1 minute 30 seconds)")).to_be_visible()
    expect(drawing).to_have_attribute("aria-label", page_summary("1 minute 30 seconds"))
    page.get_by_label("Base cost per document").fill("2")
    page.get_by_label("Cost per page", exact=True).fill("0")
    expect(page.get_by_text("Must be 1 when pages cost nothing.")).to_be_visible()
    page.get_by_label("Slots of one customer").fill("40")
    expect(page.get_by_text("Enter a number from 50 to 100.")).to_be_visible()
    page.get_by_label("All slots to one customer after").fill("-1")
    expect(page.get_by_text("Enter 0 seconds or more")).to_be_visible()
    page.get_by_label("Classic").check()
    expect(page.get_by_label("Base cost per document")).to_be_hidden()
    expect(save).to_be_enabled()
    for _ in range(7):
        page.get_by_role("button", name="Remove last level").click()
    expect(page.get_by_role("button", name="Remove last level")).to_be_disabled()
    expect(page.locator(".counter-column")).to_have_count(9)
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Level 9: below")).to_have_value("-20")
    expect(page.get_by_label("Reset interval")).to_have_value("1500")


def test_the_unit_that_customers_share_fills_in_the_costs(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    document, per_page = page.get_by_label("Base cost per document"), page.get_by_label("Cost per page", exact=True)
    save = page.get_by_role("button", name="Apply changes")
    time, pages, documents = (
        page.get_by_role("radio", name=re.compile(f"^{unit}")) for unit in ("Processing time", "Pages", "Documents")
    )
    expect(time).to_be_checked()
    expect(page.get_by_text("Only for the expected time")).to_be_visible()
    pages.check()
    expect(page.get_by_text("Only for the expected time")).to_be_hidden()
    expect(save).to_be_enabled()
    document.fill("0.5")
    documents.check()
    expect(document).to_be_hidden()
    pages.check()
    assert (document.input_value(), per_page.input_value()) == ("0", "1")
    per_page.fill("3")
    time.check()
    assert (document.input_value(), per_page.input_value()) == ("0", "1")
    expect(save).to_be_disabled()  # as it was: nothing to put in force
    page.get_by_label("Slots of one customer").fill("75")
    expect(page.get_by_text("while others have documents too: 6 of 8")).to_be_visible()
    page.get_by_label("Slots of one customer").fill("87.5")
    expect(save).to_be_disabled()


def test_charge_and_share_are_put_in_force_and_told(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    server = serve(empty=True)
    put(server, Policy(turns=TurnPolicy(max_share=2 / 3)))
    page = visit(server.url + "/policy")
    expect(page.get_by_role("button", name="Apply changes")).to_be_disabled()  # the rounded share is no change
    page.get_by_role("radio", name=re.compile("^Documents")).check()
    page.get_by_label("All slots to one customer after").fill("90")
    page.get_by_role("button", name="Apply changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="What is shared fairly")).to_contain_text("Processing timeDocuments")
    dialog.get_by_label("Reason").fill("as it was before")
    dialog.get_by_role("button", name="Apply changes").click()
    expect(page.get_by_text("Version 3 is now active.")).to_be_visible()
    turns = TurnPolicy(charge=Charge.COST, max_share=2 / 3, share_idle_after=90 * SECOND)
    assert in_force(server) == Policy(turns=turns, costs=CostPolicy(1, 0))
    expect(page.locator(".words")).to_contain_text("Every document costs one turn")
    expect(page.locator(".words")).to_contain_text("for 1 minute 30 seconds, or for as long as")
    put(server, Policy(turns=replace(turns, max_share=1), costs=CostPolicy(0, 2)))
    expect(page.locator(".words")).to_contain_text("A document costs 2 per page")
    expect(page.locator(".words")).to_contain_text("One customer may take all slots")
    expect(page.get_by_role("radio", name=re.compile("^Pages"))).to_be_checked()
    expect(page.get_by_label("Slots of one customer")).to_have_value("100")


def page_summary(interval: str) -> str:
    """The chart's label for screen readers."""
    forms = page_entries("en")["policy.drawing_summary"]
    assert not isinstance(forms, str)
    return forms["other"].format(n=3, last=9, interval=interval, **{"from": 22})


def test_a_preview_tells_who_gains_and_grows_old(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    page.get_by_label("Level 2: below").fill("-3")
    page.get_by_role("link", name="Try it first").click()
    row = page.locator(".preview-typed").get_by_role("row", name="Thresholds")
    expect(row).to_contain_text("-3")
    page.get_by_role("button", name="Run preview").click()
    expect(page.get_by_role("heading", name="Shorter waits")).to_be_visible()
    expect(page.get_by_text("documents of 301 customers")).to_be_visible()
    expect(page.locator(".preview-level")).to_have_count(9)
    outdated = page.get_by_text("The settings have changed since this preview.")
    expect(outdated).to_be_hidden()
    open_tab(page, "Settings")
    page.get_by_label("Level 2: below").fill("-2")
    page.go_back()
    expect(page.get_by_text("Nothing has been changed yet")).to_be_visible()
    expect(outdated).to_be_visible()


def test_a_preview_can_be_cancelled(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy?tab=try")
    run = page.get_by_role("button", name="Run preview")
    run.click()
    expect(run).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    expect(run).to_be_enabled()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    expect(page.locator(".preview-result")).to_be_empty()


def test_whether_a_version_came_true_is_told_by_group(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy?tab=versions")
    page.get_by_role("button", name="Outcome of version 3").focus()
    expect(page.get_by_role("button", name="Outcome of version 1")).to_have_count(0)
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", name="Outcome of version 3")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    table, locator = page.get_by_role("table", name="Wait time by customer size"), page.locator(".evaluation-verdict")
    expect(locator).to_contain_text("As expected: wait times moved")
    rows = table.locator("tbody tr")
    expect(rows.nth(0)).to_have_text(re.compile(r"1.20.*as expected.*shorter.*min.*→.*shorter.*min.*→ ?[01]\ss"))
    expect(rows.nth(1)).to_have_text(re.compile("21.200.*as expected.*longer.*longer"))
    expect(page.get_by_text("Based on 144 documents of the day before, and 144 from")).to_be_visible()
    assert axe_violations(page) == []
    page.get_by_role("button", name="Outcome of version 4").click()
    expect(locator).to_contain_text("Better than expected")
    expect(rows.nth(0)).to_have_text(re.compile("better than expected.*longer.*no change"))
    expect(rows.nth(1)).to_have_text(re.compile("no data.*shorter.*no data"))
    page.get_by_role("button", name="Outcome of version 2").click()
    expect(locator).to_contain_text("nothing was processed on the day before the change")
    expect(rows.locator(".badge")).to_have_text(["no data", "no data"])


@pytest.mark.parametrize("language", languages("de", "es"))
def test_what_became_of_a_version_is_told_in_every_language(past: ServerProcess, visit: Visit, language: str) -> None:
    place = LANGUAGES.index(language)
    page = visit(
        past.url + "/policy?tab=versions", language=language, width="phone", theme=("light", "dark")[place % 2]
    )
    texts = page_entries(language)
    name = str(texts["policy.judge_version"]).format(version=4)
    page.get_by_role("button", name=name).click()
    expect(page.locator(".evaluation-verdict")).to_have_text(str(texts["policy.judged_better"]))
    page.evaluate("scrollTo(0, 0)")  # the bar at the top covers what is scrolled beneath it
    assert problems(page, language) + axe_violations(page) == []


def test_a_version_with_nothing_before_and_since_cannot_be_judged(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve(empty=True)
    put(server, SHORT)
    page = visit(server.url + "/policy?tab=versions", width="phone", theme="dark")
    page.get_by_role("button", name="Outcome of version 2").click()
    expect(page.get_by_text("Not enough data")).to_be_visible()
    assert axe_violations(page) == []


def test_a_judgement_can_be_cancelled(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy?tab=versions")
    page.route("**/judgement", lambda _: None)  # it never comes
    page.get_by_role("button", name="Outcome of version 3").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Outcome of version 3")).to_be_hidden()


def test_saving_needs_a_reason_and_an_old_version_can_be_had_again(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve()
    page = visit(server.url + "/policy")
    page.get_by_label("Reset interval").fill("600")
    page.get_by_role("button", name="Apply changes").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="Reset interval")).to_contain_text("10 minutes")
    dialog.get_by_role("button", name="Apply changes").click()
    expect(dialog.get_by_text("Enter a reason.")).to_be_visible()
    dialog.get_by_label("Reason").fill("Mondays <b>are</b> slow")
    dialog.get_by_role("button", name="Apply changes").click()
    expect(page.get_by_text("Version 2 is now active.")).to_be_visible()
    expect(page.locator(".words-about")).to_contain_text("Mondays <b>are</b> slow")
    expect(page.get_by_role("button", name="Apply changes")).to_be_disabled()
    assert in_force(server).priority.reset_interval == 600 * SECOND
    open_tab(page, "Versions")
    page.get_by_role("button", name="Restore version 1").click()
    dialog.get_by_label("Reason").fill("it did not help")
    dialog.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Version 3 is now active.")).to_be_visible()
    open_tab(page, "Settings")
    expect(page.get_by_label("Reset interval")).to_have_value("1500")
    assert in_force(server) == Policy()
    page.goto(f"{server.url}/policy?from=1&to=2")  # as it was before there were tabs
    page.get_by_label("From", exact=True).select_option("2")
    page.get_by_label("To", exact=True).select_option("3")
    page.wait_for_url("**/policy?from=2&to=3")
    expect(page.locator(".policy-versions .difference")).to_contain_text("10 minutes25 minutes")
    page.get_by_label("From", exact=True).select_option("1")
    expect(page.get_by_text("No differences.")).to_be_visible()


def test_what_somebody_else_puts_in_force_is_shown_beside_what_one_typed(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve()
    page = visit(server.url + "/policy")
    expect(page.locator(".live")).to_have_text("Live")
    put(server, replace(Policy(), turns=TurnPolicy(Order.CLASSIC)))
    expect(page.get_by_label("Classic")).to_be_checked()  # nothing was typed: the form follows
    page.get_by_label("Reset interval").fill("777")
    put(server, SHORT, Operator(HOSTILE, "because"))
    locator = page.get_by_text(f"{HOSTILE} applied version 3 while you were editing.")
    expect(locator).to_be_visible()
    expect(page.get_by_label("Reset interval")).to_have_value("777")
    row = page.locator(".difference").first.get_by_role("row", name="Reset interval")
    assert row.locator("td").all_text_contents() == ["25 minutes", "10 minutes", "12 minutes 57 seconds"]
    page.get_by_role("button", name="Keep my changes").click()
    expect(locator).to_be_hidden()
    expect(page.get_by_label("Reset interval")).to_have_value("777")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Reset interval")).to_have_value("600")


def test_saving_over_what_one_has_not_seen_is_refused(
    serve: Callable[..., ServerProcess], visit: Visit, console_errors: ConsoleErrors
) -> None:
    server = serve()
    page = visit(server.url + "/policy")
    page.get_by_label("Reset interval").fill("777")
    page.get_by_role("button", name="Apply changes").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("mine")
    put(server, SHORT)
    page.get_by_role("dialog").get_by_role("button", name="Apply changes").click()
    expect(page.get_by_text(str(page_entries("en")["errors.version_conflict"]))).to_be_visible()
    expect(page.get_by_text("anna applied version 2 while you were editing.")).to_be_visible()
    assert in_force(server) == SHORT
    page.get_by_role("button", name="Use the active version").click()
    expect(page.get_by_label("Reset interval")).to_have_value("600")
    assert [item for item in console_errors.messages if "409" not in item] == []
    console_errors.messages.clear()


def test_a_read_only_key_sees_everything_and_no_action(locked: ServerProcess, visit: Visit) -> None:
    put(locked, Policy())
    store = open_store(str(locked.folder / "inturn.db"))
    key = create_api_key(store, "maria", scope=ApiKeyScope.READ_ONLY)
    store.close()
    page = visit(locked.url + "/policy")
    page.get_by_label("API key", exact=True).fill(key)
    page.keyboard.press("Enter")
    expect(page.locator(".words li")).to_have_count(6)
    expect(page.locator(".counter-column")).to_have_count(27)
    tabs = page.get_by_role("navigation", name="Policy").get_by_role("link")
    expect(tabs).to_have_text(["Settings", "Simulator", "Versions"])
    open_tab(page, "Versions")
    expect(page.locator(".policy-versions tbody tr").nth(1)).to_be_visible()
    expect(page.locator("main button:visible")).to_have_count(0)
    expect(page.locator("main input")).to_have_count(0)


def test_tabs_are_addresses_and_keep_what_was_chosen(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    page.evaluate("window.isSame = true")
    page.get_by_label("Reset interval").fill("700")
    open_tab(page, "Simulator")
    page.wait_for_url("**/policy?tab=simulator")
    page.get_by_label("Scenario").select_option("flood")
    page.get_by_label("Seed").fill("5")
    page.get_by_label("Seed").blur()
    page.wait_for_url("**/policy?tab=simulator&scenario=flood&seed=5")
    open_tab(page, "Versions")
    expect(page.get_by_label("From", exact=True)).to_be_visible()
    expect(page.get_by_label("Seed")).to_be_hidden()
    open_tab(page, "Simulator")
    page.wait_for_url("**/policy?tab=simulator&scenario=flood&seed=5")
    expect(page.get_by_label("Seed")).to_have_value("5")
    open_tab(page, "Settings")
    expect(page.get_by_label("Reset interval")).to_have_value("700")
    page.get_by_role("button", name="Discard").click()
    page.go_back()
    expect(page.get_by_label("Seed")).to_have_value("5")
    current = page.get_by_role("navigation", name="Policy").locator("[aria-current=page]")
    expect(current).to_have_text("Simulator")
    assert page.evaluate("window.isSame")


def test_the_old_address_of_the_simulator_leads_to_its_tab(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/simulator?scenario=flood&order=fair&order=classic&seed=3")
    page.wait_for_url("**/policy?tab=simulator&scenario=flood&order=fair&order=classic&seed=3")
    expect(page.get_by_label("Seed")).to_have_value("3")
    expect(page.get_by_label("No levels")).not_to_be_checked()
    expect(page.get_by_role("navigation", name="Main navigation").get_by_role("link", name="Policy")).to_have_attribute(
        "aria-current", "page"
    )
    page.go_back()
    expect(page.get_by_label("Seed")).to_have_count(0)

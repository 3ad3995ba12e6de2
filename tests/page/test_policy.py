"""The policy page: its description, the form and its validation, previews, versions, concurrent changes."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from http_server import ANNA, ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.i18n import LANGUAGES, page_entries
from inturn.model import SECOND
from inturn.policy import Charge, CostPolicy, Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store import Operator
from inturn.stores import open_store
from page_checks import HOSTILE, axe_violations, problems

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


@pytest.mark.parametrize("language", LANGUAGES)
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
    save = page.get_by_role("button", name="Put in force")
    expect(save).to_be_disabled()
    second = page.get_by_label("Level 3 below")
    second.fill("-2")
    expect(page.get_by_text("It must be less than -2, the one before it.")).to_be_visible()
    expect(page.get_by_role("button", name="Show who waits less")).to_be_disabled()
    save.click()
    expect(second).to_be_focused()
    second.fill("-4")
    expect(save).to_be_disabled()
    page.get_by_label("Reset interval").fill("0")
    expect(page.get_by_text("Give more than 0 seconds")).to_be_visible()
    page.get_by_label("Reset interval").fill("90")
    expect(page.get_by_text("this is 1 minute 30 seconds")).to_be_visible()
    expect(drawing).to_have_attribute("aria-label", page_summary("1 minute 30 seconds"))
    page.get_by_label("Cost of a document").fill("2")
    page.get_by_label("Cost of a page").fill("0")
    expect(page.get_by_text("Without a cost by page it must be 1.")).to_be_visible()
    page.get_by_label("Slots of one customer").fill("40")
    expect(page.get_by_text("Give a number from 50 to 100.")).to_be_visible()
    page.get_by_label("All slots to one customer after").fill("-1")
    expect(page.get_by_text("Give 0 seconds or more")).to_be_visible()
    page.get_by_label("Classic").check()
    expect(page.get_by_label("Cost of a document")).to_be_hidden()
    expect(save).to_be_enabled()
    for _ in range(7):
        page.get_by_role("button", name="Remove the last level").click()
    expect(page.get_by_role("button", name="Remove the last level")).to_be_disabled()
    expect(page.locator(".counter-column")).to_have_count(9)
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Level 9 below")).to_have_value("-20")
    expect(page.get_by_label("Reset interval")).to_have_value("1500")


def test_the_unit_that_customers_share_fills_in_the_costs(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    document, per_page = page.get_by_label("Cost of a document"), page.get_by_label("Cost of a page")
    save = page.get_by_role("button", name="Put in force")
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
    expect(page.get_by_text("while others come too: 6 of 8")).to_be_visible()
    page.get_by_label("Slots of one customer").fill("87.5")
    expect(save).to_be_disabled()


def test_charge_and_share_are_put_in_force_and_told(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    server = serve(empty=True)
    put(server, Policy(turns=TurnPolicy(max_share=2 / 3)))
    page = visit(server.url + "/policy")
    expect(page.get_by_role("button", name="Put in force")).to_be_disabled()  # the rounded share is no change
    page.get_by_role("radio", name=re.compile("^Documents")).check()
    page.get_by_label("All slots to one customer after").fill("90")
    page.get_by_role("button", name="Put in force").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="What is shared fairly")).to_contain_text("Processing timeDocuments")
    dialog.get_by_label("Why").fill("as it was before")
    dialog.get_by_role("button", name="Put in force").click()
    expect(page.get_by_text("Version 3 is in force.")).to_be_visible()
    turns = TurnPolicy(charge=Charge.COST, max_share=2 / 3, share_idle_after=90 * SECOND)
    assert in_force(server) == Policy(turns=turns, costs=CostPolicy(1, 0))
    expect(page.locator(".words")).to_contain_text("Every document costs one turn")
    expect(page.locator(".words")).to_contain_text("for 1 minute 30 seconds, or for as long as")
    put(server, Policy(turns=replace(turns, max_share=1), costs=CostPolicy(0, 2)))
    expect(page.locator(".words")).to_contain_text("A document costs 2 for each of its pages")
    expect(page.locator(".words")).to_contain_text("One customer may hold all slots")
    expect(page.get_by_role("radio", name=re.compile("^Pages"))).to_be_checked()
    expect(page.get_by_label("Slots of one customer")).to_have_value("100")


def page_summary(interval: str) -> str:
    """The chart's label for screen readers."""
    forms = page_entries("en")["policy.drawing_summary"]
    assert not isinstance(forms, str)
    return forms["other"].format(n=3, last=9, interval=interval, **{"from": 22})


def test_a_preview_tells_who_gains_and_grows_old(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    page.get_by_label("Level 2 below").fill("-3")
    page.get_by_role("button", name="Show who waits less").click()
    expect(page.get_by_role("heading", name="Who waits less")).to_be_visible()
    expect(page.get_by_text("documents of 301 customers")).to_be_visible()
    expect(page.locator(".preview-level")).to_have_count(9)
    outdated = page.get_by_text("The settings were changed since.")
    expect(outdated).to_be_hidden()
    page.get_by_label("Level 2 below").fill("-2")
    expect(outdated).to_be_visible()


def test_a_preview_can_be_cancelled(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/policy")
    run = page.get_by_role("button", name="Show who waits less")
    run.click()
    expect(run).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    expect(run).to_be_enabled()
    expect(page.get_by_role("progressbar")).to_be_hidden()
    expect(page.locator(".preview-result")).to_be_empty()


def test_whether_a_version_came_true_is_told_by_group(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy")
    page.get_by_role("button", name="Did version 3 come true?").focus()
    expect(page.get_by_role("button", name="Did version 1 come true?")).to_have_count(0)
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", name="Did version 3 come true?")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    table, locator = page.get_by_role("table", name="Waits by size of customers"), page.locator(".evaluation-verdict")
    expect(locator).to_contain_text("It came true: in every group")
    rows = table.locator("tbody tr")
    expect(rows.nth(0)).to_have_text(re.compile(r"1.20.*came true.*shorter.*min.*→.*shorter.*min.*→ ?[01]\ss"))
    expect(rows.nth(1)).to_have_text(re.compile("21.200.*came true.*longer.*longer"))
    expect(page.get_by_text("Documents looked at: 144 of the day before, 144 from")).to_be_visible()
    assert axe_violations(page) == []
    page.get_by_role("button", name="Did version 4 come true?").click()
    expect(locator).to_contain_text("It did not come true")
    expect(rows.nth(0)).to_have_text(re.compile("did not.*longer.*about as long"))
    expect(rows.nth(1)).to_have_text(re.compile("unknown.*shorter.*no documents"))
    page.get_by_role("button", name="Did version 2 come true?").click()
    expect(locator).to_contain_text("nothing was processed in the day before it")
    expect(rows.locator(".badge")).to_have_text(["unknown", "unknown"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_became_of_a_version_is_told_in_every_language(past: ServerProcess, visit: Visit, language: str) -> None:
    place = LANGUAGES.index(language)
    page = visit(past.url + "/policy", language=language, width="phone", theme=("light", "dark")[place % 2])
    texts = page_entries(language)
    name = str(texts["policy.judge_version"]).format(version=4)
    page.get_by_role("button", name=name).click()
    expect(page.locator(".evaluation-verdict")).to_have_text(str(texts["policy.judged_did_not"]))
    assert problems(page, language) + axe_violations(page) == []


def test_a_version_with_nothing_before_and_since_cannot_be_judged(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve(empty=True)
    put(server, SHORT)
    page = visit(server.url + "/policy", width="phone", theme="dark")
    page.get_by_role("button", name="Did version 2 come true?").click()
    expect(page.get_by_text("There is nothing to judge by")).to_be_visible()
    assert axe_violations(page) == []


def test_a_judgement_can_be_cancelled(past: ServerProcess, visit: Visit) -> None:
    page = visit(past.url + "/policy")
    page.route("**/judgement", lambda _: None)  # it never comes
    page.get_by_role("button", name="Did version 3 come true?").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Did version 3 come true?")).to_be_hidden()


def test_saving_needs_a_reason_and_an_old_version_can_be_had_again(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve()
    page = visit(server.url + "/policy")
    page.get_by_label("Reset interval").fill("600")
    page.get_by_role("button", name="Put in force").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="Reset interval")).to_contain_text("10 minutes")
    dialog.get_by_role("button", name="Put in force").click()
    expect(dialog.get_by_text("Say why")).to_be_visible()
    dialog.get_by_label("Why").fill("Mondays <b>are</b> slow")
    dialog.get_by_role("button", name="Put in force").click()
    expect(page.get_by_text("Version 2 is in force.")).to_be_visible()
    expect(page.locator(".words-about")).to_contain_text("Mondays <b>are</b> slow")
    expect(page.get_by_role("button", name="Put in force")).to_be_disabled()
    assert in_force(server).priority.reset_interval == 600 * SECOND
    page.get_by_role("button", name="Roll back to version 1").click()
    dialog.get_by_label("Why").fill("it did not help")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("Version 3 is in force.")).to_be_visible()
    expect(page.get_by_label("Reset interval")).to_have_value("1500")
    assert in_force(server) == Policy()
    page.get_by_label("From", exact=True).select_option("2")
    page.wait_for_url("**/policy?from=2&to=3")
    expect(page.locator(".policy-versions .difference")).to_contain_text("10 minutes25 minutes")
    page.get_by_label("From", exact=True).select_option("1")
    expect(page.get_by_text("There is no difference.")).to_be_visible()


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
    locator = page.get_by_text(f"{HOSTILE} put version 3 in force while you were editing.")
    expect(locator).to_be_visible()
    expect(page.get_by_label("Reset interval")).to_have_value("777")
    row = page.locator(".difference").first.get_by_role("row", name="Reset interval")
    assert row.locator("td").all_text_contents() == ["25 minutes", "10 minutes", "12 minutes 57 seconds"]
    page.get_by_role("button", name="Keep what I typed").click()
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
    page.get_by_role("button", name="Put in force").click()
    page.get_by_role("dialog").get_by_label("Why").fill("mine")
    put(server, SHORT)
    page.get_by_role("dialog").get_by_role("button", name="Put in force").click()
    expect(page.get_by_text(str(page_entries("en")["errors.version_conflict"]))).to_be_visible()
    expect(page.get_by_text("anna put version 2 in force while you were editing.")).to_be_visible()
    assert in_force(server) == SHORT
    page.get_by_role("button", name="Begin again with theirs").click()
    expect(page.get_by_label("Reset interval")).to_have_value("600")
    assert [item for item in console_errors.messages if "409" not in item] == []
    console_errors.messages.clear()


def test_a_read_only_key_sees_everything_and_no_action(locked: ServerProcess, visit: Visit) -> None:
    put(locked, Policy())
    store = open_store(str(locked.folder / "inturn.db"))
    key = create_api_key(store, "maria", scope=ApiKeyScope.READ_ONLY)
    store.close()
    page = visit(locked.url + "/policy")
    page.get_by_label("Key", exact=True).fill(key)
    page.keyboard.press("Enter")
    expect(page.locator(".words li")).to_have_count(6)
    expect(page.locator(".counter-column")).to_have_count(27)
    expect(page.locator(".policy-versions tbody tr").nth(1)).to_be_visible()
    expect(page.locator("main button:visible")).to_have_count(0)
    expect(page.locator("main input")).to_have_count(0)

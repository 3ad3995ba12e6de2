"""The priority page: the table in force, and a counter with the same arithmetic as the queue."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from http_server import ANNA, ServerProcess, create_api_key
from inturn.i18n import LANGUAGES, page_entries
from inturn.policy import Counter, Policy, PriorityPolicy
from inturn.stores import open_store
from inturn.values import SECOND

Visit = Callable[..., Page]
PLAY = """async ([policies, sequences]) => {
  const build = document.documentElement.dataset.build;
  const { check } = await import(`/static/${build}/priority.js`);
  return sequences.map(([place, times]) => {
    let counter = null;
    return times.map((now) => {
      const found = check(counter, now, policies[place]);
      counter = found.counter;
      return [counter.count, counter.updatedAt, found.level];
    });
  });
}"""


def test_the_counter_in_the_browser_counts_as_the_queue_does(shared: ServerProcess, visit: Visit) -> None:
    """Pauses around the interval, bursts, and clocks that run backwards."""
    seeded = random.Random(42)
    policies = [PriorityPolicy(), PriorityPolicy(1, (-1,)), PriorityPolicy(60 * SECOND, (-3, -4, -50))]
    sequences: list[tuple[int, list[int]]] = []
    for number in range(300):
        interval, now = policies[number % 3].reset_interval, 1_700_000_000 * SECOND
        times = []
        for _ in range(40):
            near = seeded.choice((interval - 1, interval, interval + 1, 2 * interval, -1, -interval, -interval - 1))
            now += seeded.choice((0, 0, 0, 1, seeded.randrange(interval), near))
            times.append(now)
        sequences.append((number % 3, times))
    given = [{"reset_interval": policy.reset_interval, "thresholds": list(policy.thresholds)} for policy in policies]
    result: list[Any] = visit(shared.url + "/priority").evaluate(PLAY, [given, sequences])
    for (place, times), answers in zip(sequences, result, strict=True):
        counter: Counter | None = None
        for now, answer in zip(times, answers, strict=True):
            counter, level = policies[place].check(counter, now)
            assert answer == [counter.count, counter.updated_at, level]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_is_the_specs(shared: ServerProcess, visit: Visit, language: str) -> None:
    page, texts = visit(shared.url + "/priority", language=language, width="phone"), page_entries(language)
    rows = page.locator(".priority-levels tbody tr")
    expect(rows).to_have_count(9)
    thresholds = [-20, -14, -12, -10, -8, -6, -4, -2]
    below = [str(texts["priority.count_below"]).replace("{threshold}", str(threshold)) for threshold in thresholds]
    assert rows.locator("td:nth-child(2)").all_text_contents() == [
        *below,
        str(texts["priority.count_at_least"]).replace("{threshold}", "-2"),
    ]
    assert re.findall(r"\d+", rows.locator("td:nth-child(3)").first.inner_text()) == ["22"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_submitting_counts_down_and_a_long_enough_pause_resets(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/priority")
    count, level = page.locator(".playground-figures .card-value").first, page.locator(".playground-level")
    button = page.get_by_role("button", name="Submit 1", exact=True)
    page.get_by_role("button", name="Stop clock").click()
    seen = []
    for _ in range(5):
        button.click()
        seen.append((count.inner_text(), level.inner_text()))
    assert seen == [("0", "Level 1"), ("-1", "Level 1"), ("-2", "Level 1"), ("-3", "Level 2"), ("-4", "Level 2")]
    page.get_by_role("button", name=re.compile("full interval")).click()
    expect(page.get_by_text("Exactly at the interval: no reset yet")).to_be_visible()
    button.click()
    assert count.inner_text() == "-5"
    page.get_by_role("button", name=re.compile("full interval")).click()
    page.get_by_role("button", name="+ 1 s", exact=True).click()
    expect(page.get_by_text("Next document: level 1")).to_be_visible()
    button.click()
    expect(page.get_by_role("status").filter(has_text="counter reset to 0, level 1")).to_be_visible()
    page.get_by_role("button", name="Submit 10").click()
    expect(count).to_have_text("-10")
    expect(page.locator(".counter-column")).to_have_count(17)
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("status").filter(has_text="No documents submitted yet.")).to_be_visible()


def test_the_clock_runs_by_itself_and_each_document_sets_it_back(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url + "/priority")
    timer = page.get_by_role("timer")
    page.get_by_role("button", name="Submit 1", exact=True).press("Enter")
    assert timer.inner_text() in {"25:00", "24:59"}
    page.get_by_role("button", name="+ 10 min").click()
    expect(timer).to_have_text(re.compile("^14:5"))
    page.get_by_role("button", name="Submit 1", exact=True).press("Enter")
    expect(timer).to_have_text(re.compile("^2[45]:"))


def test_other_thresholds_are_shown_as_soon_as_they_are_in_force(
    serve: Callable[..., ServerProcess], visit: Visit
) -> None:
    server = serve()
    page = visit(server.url + "/priority")
    expect(page.locator(".live")).to_have_text("Live")
    page.get_by_role("button", name="Submit 10").click()
    store = open_store(str(server.folder / "inturn.db"))
    store.set_policy(Policy(PriorityPolicy(60 * SECOND, (-1, -5))), ANNA)
    store.close()
    expect(page.locator(".priority-levels tbody tr")).to_have_count(3)
    expect(page.locator(".playground-level")).to_have_text("Level 3")
    expect(page.get_by_text("This queue has its own settings.")).to_be_visible()


def test_a_customers_key_sees_the_thresholds(locked: ServerProcess, visit: Visit) -> None:
    store = open_store(str(locked.folder / "inturn.db"))
    key = create_api_key(store, "acme", "acme")
    store.close()
    page = visit(locked.url + "/priority")
    page.get_by_label("API key", exact=True).fill(key)
    page.keyboard.press("Enter")
    expect(page.locator(".priority-levels tbody tr")).to_have_count(9)
    expect(page.get_by_role("link", name="Policy")).to_have_count(0)

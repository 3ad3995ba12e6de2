"""The keyboard reaches every control, and hostile names stay text."""

import os
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import NewDocument
from inturn.store_types import Operator
from page_checks import PAGES, RECORD_CSP_VIOLATIONS, go, problems, wait_until_ready

Visit = Callable[..., Page]
SOAK = os.environ.get("INTURN_SOAK") == "1"
WALKED = tuple(page for page in PAGES if page not in {"document", "task"}) if SOAK else ("overview", "keys", "policy")
MAX_ITEMS = 600
FOCUSABLE = """() => {
  const all = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])";
  const chosen = (each) => document.querySelector(`[name="${each.name}"]:checked`);
  const isOther = (each) => each.type === "radio" && !each.checked && chosen(each);
  const isSeen = (each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest("[inert]");
  return [...document.querySelectorAll(all)].filter(
    (each) => !each.disabled && each.tabIndex >= 0 && isSeen(each) && !isOther(each),
  ).length;
}"""
FOCUSED = """async () => {
  await Promise.all(document.getAnimations().map((each) => each.finished));
  const node = document.activeElement;
  if (node === document.body || node === null) return null;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  window.walked ??= new Set();
  const isNew = !window.walked.has(node);
  window.walked.add(node);
  const isMarked = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  const isInSight = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return { isNew, name: `${node.tagName} ${node.className} ${node.textContent.slice(0, 30)}`, isMarked, isInSight };
}"""
HOSTILE_NAMES = (
    '"><img src=x onerror=alert(1)>',
    "<svg/onload=alert(2)>",
    "javascript:alert(3)",
    "'-alert(4)-'",
    "{{constructor.constructor('alert(5)')()}}",
    "</script><script>alert(6)</script>",
    "\u202egnp.exe",
    "../../etc/passwd",
    "W" * 255,
    "a?b#c&d=e%2F/f",
)


@pytest.mark.parametrize("name", WALKED)
def test_the_keyboard_reaches_everything_and_shows_where_it_is(shared: ServerProcess, visit: Visit, name: str) -> None:
    page = visit(shared.url + PAGES[name])
    wait_until_ready(page, name)
    reached, unseen = 0, []
    for _ in range(MAX_ITEMS):
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at is None or not at["isNew"]:
            break
        reached += 1
        if not (at["isMarked"] and at["isInSight"]):
            unseen.append(at["name"])
    assert unseen == []
    assert reached == page.evaluate(FOCUSABLE)


def test_a_dialog_keeps_the_focus_and_gives_it_back(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/keys")
    opener = page.get_by_role("button", name="Create API key")
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        )
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()


def test_the_skip_link_leads_past_the_navigation(shared: ServerProcess, visit: Visit) -> None:
    page = visit(f"{shared.url}/settings")
    wait_until_ready(page, "settings")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_hostile_names_stay_text_on_every_page(serve: Callable[..., ServerProcess], visit: Visit) -> None:
    server = serve(empty=True)
    with inturn.open(str(server.folder / "inturn.db")) as queue:
        ids = {}
        for name in HOSTILE_NAMES:
            n = 6 if name in HOSTILE_NAMES[:5] else 3  # the overview lists the five customers with the most waiting
            receipts = queue.submit(name, [NewDocument(name, batch=name, metadata={name: name})] * n)
            ids[name] = receipts[0].id
            queue.change_customer(name, Operator(name, name), display_name=name)
            create_api_key(queue.store, name, name, ApiKeyScope.READ_ONLY)
        (claimed, *_) = queue.claim(HOSTILE_NAMES[0], 2)
        queue.fail(claimed, HOSTILE_NAMES[0] + "\n" + HOSTILE_NAMES[1], final=True)
    page = visit("about:blank", width="phone", alone=True)
    page.add_init_script(RECORD_CSP_VIOLATIONS)
    result: list[str] = []
    places = [
        (name, path if "tab=" in path else path.split("?")[0])
        for name, path in PAGES.items()
        if name not in {"customer", "document", "task"}
    ]
    places += [
        ("customer", f"/customers/{quote(hostile_name, safe='')}")
        for hostile_name in HOSTILE_NAMES[:2] + HOSTILE_NAMES[-2:]
    ]
    places += [
        ("document", f"/documents/{ids[hostile_name]}") for hostile_name in HOSTILE_NAMES[:2] + HOSTILE_NAMES[-2:-1]
    ]
    places.append(("task", f"/tasks/{ids[HOSTILE_NAMES[0]]}"))
    for name, path in reversed(places):  # the overview last: its server may have looked a moment before
        go(page, server.url + path)
        wait_until_ready(page, name)
        result += [f"{name}: {problem}" for problem in problems(page, "en")]
        if name in {"overview", "customers", "documents", "audit", "keys"}:
            shown = page.locator("main").inner_text()
            result += [
                f"{name}: {hostile_name!r} is not shown as it is"
                for hostile_name in HOSTILE_NAMES[:5]
                if hostile_name not in shown
            ]
    assert not result, "\n".join(result)  # and `visit` fails if any of them spoke up

"""Every page in every language, both themes and three widths: layout, translation and accessibility.

By default each page is shown in each language, and themes and widths are chosen pairwise. With INTURN_SOAK=1 all
combinations are shown.
"""

import os
import re
from itertools import combinations, product
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.http.routes.static_files import load_bundle
from inturn.i18n import LANGUAGES, page_entries
from inturn.stores import open_store
from page_checks import PAGES, RECORD_CSP_VIOLATIONS, axe_violations, go, problems, wait_until_ready

from .conftest import WIDTHS, ConsoleErrors

SOAK = os.environ.get("INTURN_SOAK") == "1"
THEMES = ("light", "dark")
BARRIERS_IN = LANGUAGES if SOAK else ("en", "de")
"""Languages that are checked with axe too; between them every page has both themes."""

ACTS = re.compile(
    r"(customers?|documents?)\.do_\w+|customer\.(pause|resume|change|purge|save|edit)\w*|keys\.(new|rotate|revoke)|workers\.(pause|resume)|queues\.(new|pause|resume|edit)|tasks\.take|task\.(finish|hand_back|reject)|failures\.retry|shell\.resume"
    r"|settings\.(pause|resume)|policy\.(save|roll_back)"
)
"""Text keys of buttons that change something."""


class Showing(NamedTuple):
    """A page with its language, theme and width."""

    page: str
    language: str
    theme: str
    width: str


def showings() -> list[Showing]:
    """All combinations in a soak, else a pairwise selection."""
    if SOAK:
        return [Showing(*item) for item in product(PAGES, LANGUAGES, THEMES, WIDTHS)]
    result = []
    for (page, name), (place, language) in product(enumerate(PAGES), enumerate(LANGUAGES)):
        theme, width = THEMES[(page + place) % 2], list(WIDTHS)[(page + place) % 3]
        result.append(Showing(name, language, theme, width))
    return result


def test_every_page_is_looked_at() -> None:
    routes = load_bundle().files["routes.js"].body.decode()
    assert set(re.findall(r'page: "(\w+)"', routes)) == {*(name.partition("-")[0] for name in PAGES), "signin"}


def test_any_two_choices_meet() -> None:
    choices = (tuple(PAGES), LANGUAGES, THEMES, tuple(WIDTHS))
    for one, other in combinations(range(4), 2):
        assert {(showing[one], showing[other]) for showing in showings()} == set(product(choices[one], choices[other]))


@pytest.fixture(scope="session")
def document(shared: ServerProcess) -> str:
    """The id of a waiting document."""
    with shared.client() as client:
        result = client.get("/v1/documents", params={"state": "waiting", "limit": 1}).json()
    return str(result["documents"][0]["id"])


def shown(page: Page, showing: Showing, url: str) -> list[str]:
    """Open a page in one combination and list its problems."""
    across, down = WIDTHS[showing.width]
    page.set_viewport_size({"width": across, "height": down})
    page.emulate_media(color_scheme="dark" if showing.theme == "dark" else "light", reduced_motion="reduce")
    go(page, url)
    wait_until_ready(page, showing.page)
    result = problems(page, showing.language)
    if showing.language in BARRIERS_IN:
        result += axe_violations(page)
    title = page.get_by_role("heading", level=1).inner_text()
    place = showing.page.partition("-")[0]
    if place not in {"customer", "document", "task"} and title != page_entries(showing.language)[f"{place}.title"]:
        result.append(f"the title is {title!r}")
    return [f"{'/'.join(showing)}: {item}" for item in result]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_in_this_language(
    shared: ServerProcess,
    locked: ServerProcess,
    document: str,
    browser: Browser,
    console_errors: ConsoleErrors,
    language: str,
) -> None:
    result: list[str] = []
    with browser.new_context(locale=language, reduced_motion="reduce") as context:
        context.add_init_script(RECORD_CSP_VIOLATIONS)
        page = context.new_page()
        page.on("console", console_errors.record)
        page.on("pageerror", lambda error: console_errors.messages.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: console_errors.messages.append(f"dialog: {dialog.message}"))
        for showing in showings():
            if showing.language == language:
                result += shown(page, showing, shared.url + PAGES[showing.page].format(id=document))
        for theme, width in product(THEMES, WIDTHS) if SOAK else zip(THEMES, ("phone", "wide"), strict=True):
            result += shown(page, Showing("signin", language, theme, width), f"{locked.url}/signin")
    assert not result + console_errors.messages, "\n".join(result + console_errors.messages)


MISTAKES = {
    "wider than the window": "document.querySelector('.page').style.width = '1200px'",
    "is cut at the side": "const [, panel] = all('.panel'); panel.firstChild.style.overflow = 'hidden'; "
    "panel.querySelector('h2').style.whiteSpace = 'nowrap'; panel.querySelector('h2').textContent = 'x'.repeat(400)",
    "is cut:": "all('.settings-details dd')[0].style.cssText = 'height: 4px; overflow: hidden'",
    "overlap": "all('.panel')[3].style.marginTop = '-120px'",
    "scrolls sideways": "const [panel] = all('.panel'); panel.style.overflow = 'auto'; "
    "panel.firstChild.style.width = '3000px'",
    "shows a key": "all('h2')[0].textContent = 'settings.look'",
    "is not translated": "all('h2')[2].textContent = 'Your access'",
    "says": "all('h2')[3].textContent = 'undefined'",
    "has no room for": "all('.page select')[0].style.width = '40px'",
    "moves": "all('h2')[0].animate([{ opacity: 0.2 }, { opacity: 1 }], 60_000)",
    "forbidden by the policy": "const reported = new Promise((done) => "
    "document.addEventListener('securitypolicyviolation', done)); "
    "all('main')[0].append(Object.assign(new Image(), { src: 'https://a.example/x.png' })); await reported",
    "target-size": "for (const name of 'ab') { const button = document.createElement('button'); "
    "button.textContent = name; button.style.cssText = 'all: unset; font: 9px/10px serif'; "
    "all('main')[0].prepend(button); }",
    "image-alt": "document.querySelector('main').append(new Image())",
}
"""A script for each kind of mistake, run on the settings page."""


def test_the_checks_see_what_they_look_for(shared: ServerProcess, browser: Browser) -> None:
    with browser.new_context(locale="de", reduced_motion="reduce") as context:
        context.add_init_script(RECORD_CSP_VIOLATIONS)
        page = context.new_page()
        page.goto(f"{shared.url}/settings")
        wait_until_ready(page, "settings")
        assert problems(page, "de") + axe_violations(page) == []
        for mistake in MISTAKES.values():
            page.evaluate(f"async () => {{ const all = (what) => [...document.querySelectorAll(what)]; {mistake}; }}")
        result = problems(page, "de") + axe_violations(page)
    assert [words for words in MISTAKES if not any(words in item for item in result)] == [], "\n".join(result)


def test_the_language_is_the_browsers_and_then_the_chosen_one(shared: ServerProcess, browser: Browser) -> None:
    for accepted, expected in (("pt-BR", "pt"), ("de-AT", "de"), ("fr-FR", "en")):
        with browser.new_context(locale=accepted) as context:
            page = context.new_page()
            page.goto(f"{shared.url}/settings")
            wait_until_ready(page, "settings")
            assert page.evaluate("document.documentElement.lang") == expected
            if accepted != "fr-FR":
                continue
            page.locator(".page [data-choice=language]").select_option("pl")
            expect(page.locator("html")).to_have_attribute("lang", "pl")
            page.reload()
            wait_until_ready(page, "settings")
            assert page.evaluate("document.documentElement.lang") == "pl"


def test_a_read_only_key_sees_no_button_that_acts(locked: ServerProcess, browser: Browser, document: str) -> None:
    """Every button in the content that is not listed here changes something."""
    store = open_store(str(locked.folder / "inturn.db"))
    text = create_api_key(store, "eyes", scope=ApiKeyScope.READ_ONLY)
    store.close()
    words = page_entries("en")
    acting = {str(text) for key, text in words.items() if ACTS.fullmatch(key)}
    assert len(acting) > 6
    with browser.new_context(locale="en", reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(f"{locked.url}/signin")
        page.get_by_label("API key", exact=True).fill(text)
        page.keyboard.press("Enter")
        wait_until_ready(page, "overview")
        for name, path in PAGES.items():
            if name in {"upload", "policy-try"}:
                continue
            go(page, locked.url + path.format(id=document))
            wait_until_ready(page, name)
            buttons = page.locator("main button").all_inner_texts()
            assert [button for button in buttons if button.strip() in acting] == [], name
        page.goto(f"{locked.url}/upload")
        page.get_by_text(str(words["shell.not_found"])).first.wait_for()

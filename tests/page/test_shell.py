"""The shell: loading, five languages, theme, navigation, sign-in."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.i18n import page_entries
from inturn.stores import open_store
from page_checks import HOSTILE, languages

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
NUMBER = re.compile(r"\d[\d.,\s]*")


@pytest.mark.parametrize("language", languages("en", "pl"))
def test_the_overview_shows_figures_in_the_browsers_language(
    shared: ServerProcess, visit: Visit, language: str
) -> None:
    page, texts = visit(shared.url, language=language), page_entries(language)
    expect(page.get_by_role("heading", level=1)).to_have_text(str(texts["overview.title"]))
    expect(page.locator(".card-value").first).to_have_text(NUMBER)
    expect(page.locator(".live")).to_have_text(str(texts["shell.live_live"]))
    expect(page.get_by_role("link", name=HOSTILE, exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == language
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_another_language_and_theme_are_chosen_and_kept(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("button", name="Language and theme").click()
    page.get_by_role("menuitemradio", name="Deutsch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Übersicht")
    page.get_by_role("button", name="Sprache und Design").click()
    page.get_by_role("menuitemradio", name="Dunkel").click()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Übersicht")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_pages_open_without_loading_anew_and_the_title_gets_the_focus(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url)
    page.evaluate("window.isSame = true")
    page.get_by_role("navigation").get_by_role("link", name="Documents").click()
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Documents")
    expect(title).to_be_focused()
    page.go_back()
    expect(title).to_have_text("Overview")
    assert page.evaluate("window.isSame")


def test_on_a_phone_the_menu_opens_and_closes(shared: ServerProcess, visit: Visit) -> None:
    page = visit(shared.url, width="phone")
    documents = page.get_by_role("navigation").get_by_role("link", name="Documents")
    expect(documents).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(documents).to_be_visible()
    page.keyboard.press("Escape")
    expect(documents).to_be_hidden()
    expect(page.get_by_role("button", name="Menu")).to_be_focused()


def test_a_key_opens_the_page_and_signing_out_closes_it(
    serve: Callable[..., ServerProcess], visit: Visit, console_errors: ConsoleErrors
) -> None:
    server = _with_keys(serve)
    page = visit(f"{server.url}/documents?state=failed")
    key = page.get_by_label("API key", exact=True)
    expect(key).to_be_focused()
    key.fill("inturn_wrong")
    key.press("Enter")
    expect(page.locator(".field-error")).to_have_text(str(page_entries("en")["errors.unauthorized"]))
    assert [item for item in console_errors.messages if "401" not in item] == []
    console_errors.messages.clear()
    store = open_store(str(server.folder / "inturn.db"))
    key.fill(create_api_key(store, "maria", scope=ApiKeyScope.READ_ONLY))
    store.close()
    key.press("Enter")
    page.wait_for_url("**/documents?state=failed")
    expect(page.get_by_text("Read-only")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Upload")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def _with_keys(serve: Callable[..., ServerProcess]) -> ServerProcess:
    """Start a server that needs keys. A key must exist before, so a first start creates the store."""
    first = serve()
    first.stop()
    store = open_store(str(first.folder / "inturn.db"))
    create_api_key(store, "anna")
    store.close()
    return serve("--auth", "keys")

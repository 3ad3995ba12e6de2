"""The pages for the audit log, keys and settings."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.i18n import page_entries
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from page_checks import HOSTILE, languages, problems

from .conftest import ConsoleErrors

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for this file; each test checks its own changes."""
    folder = tmp_path_factory.mktemp("operating")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder)
    yield server
    server.stop()


def store_of(server: ServerProcess) -> Queue:
    return inturn.open(str(server.folder / "inturn.db"))


def entries(page: Page) -> list[str]:
    return page.locator(".audit-did").all_inner_texts()


# -- the audit log ----------------------------------------------------------------------------------------------------


def test_the_audit_log_tells_who_did_what_and_why_in_plain_words(server: ServerProcess, visit: Visit) -> None:
    with store_of(server) as queue:
        ids = [document.id for document in queue.documents(limit=5).items]
        queue.cancel(ids[0], Operator("maria", "a mistake"))
        queue.change_customer("Customer 001", Operator("anna", ""), weight=2.5, cap=3, paused=True)
        queue.change_customer("Customer 001", Operator("anna", ""), cap=None, paused=False)
    page = visit(f"{server.url}/audit")
    first = page.locator(".audit-entry").first
    expect(first).to_contain_text("Changed customer settings: concurrency limit removed, resumed")
    assert entries(page)[:3] == [
        "Changed customer settings: concurrency limit removed, resumed",
        "Changed customer settings: weight: 2.5, concurrency limit: 3, paused",
        "Cancelled 1 document",
    ]
    cancelled = page.locator(".audit-entry").nth(2)
    expect(cancelled).to_contain_text("maria")
    expect(cancelled).to_contain_text("Reason: a mistake")
    cancelled.get_by_role("link", name=ids[0][-12:]).click()
    page.wait_for_url(f"**/documents/{ids[0]}")


def test_filters_of_the_audit_log_are_in_the_address(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/audit")
    page.get_by_label("Action", exact=True).select_option("queue_paused")
    page.wait_for_url("**/audit?kind=queue_paused")
    page.get_by_label("By", exact=True).fill("SCRIPT")
    page.wait_for_url("**/audit?kind=queue_paused&operator=SCRIPT")
    expect(page.locator(".audit-entry")).to_have_count(1)
    expect(page.locator(".audit-who")).to_have_text(HOSTILE)
    page.get_by_label("By", exact=True).fill("nobody at all")
    expect(page.get_by_text("No matching entries")).to_be_visible()
    page.goto(f"{server.url}/audit?kind=key_made&customer=script")
    expect(page.locator(".audit-entry")).to_have_count(1)
    expect(page.get_by_label("Action", exact=True)).to_have_value("key_made")
    expect(page.get_by_label("Customer")).to_have_value("script")


def test_the_audit_log_goes_on_in_pages_and_grows_at_the_top(server: ServerProcess, visit: Visit) -> None:
    with store_of(server) as queue:
        for number in range(120):
            queue.change_customer("Customer 007", Operator("anna", f"for the {number}th time"), weight=1 + number)
        page = visit(f"{server.url}/audit?customer=customer+007")
        expect(page.locator(".audit-entry")).to_have_count(50)
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".audit-entry")).to_have_count(100)
        expect(page.locator(".live")).to_have_text("Live")
        page.evaluate("scrollTo(0, 900)")
        queue.pause(Operator("maria", "now"), "Customer 007")
        expect(page.locator(".audit-did").first).to_have_text("Changed customer settings: paused")
        expect(page.locator(".audit-entry")).to_have_count(101)
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".audit-entry")).to_have_count(121)
        expect(page.get_by_role("button", name="Show more")).to_be_hidden()


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_made_shown_once_copied_rotated_and_revoked(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/keys")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page.get_by_role("button", name="Create API key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("scanner")
    dialog.get_by_label("Access").select_option("customer")
    dialog.get_by_label("Customer").fill("Customer 001")
    dialog.get_by_label("Expires").select_option(label="30 days")
    dialog.get_by_label("Reason").fill("a new scanner")
    dialog.get_by_role("button", name="Create API key").click()
    shown = page.get_by_label("scanner", exact=True)
    expect(shown).to_have_value(re.compile(r"^inturn_[0-9a-f]{12}_[0-9a-f]{64}$"))
    text = shown.input_value()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == text
    page.mouse.click(5, 5)  # beside it: what cannot be seen again is not closed by chance
    expect(shown).to_be_visible()
    page.get_by_role("button", name="I have saved it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert text.split("_")[2] not in page.content()
    with server.client(text) as client:
        assert client.get("/v1/customers/Customer 001").status_code == 200
    row = page.get_by_role("row").filter(has_text="scanner")
    expect(row).to_contain_text("in 30 days")
    row.get_by_role("button", name="Rotate: scanner").click()
    page.get_by_role("dialog").get_by_label("The old key keeps working for").select_option("0")
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    assert page.get_by_label("scanner", exact=True).input_value() != text
    page.get_by_role("button", name="I have saved it").click()
    expect(row).to_have_count(1)  # the old one has ended
    row.get_by_role("button", name="Revoke: scanner").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("lost")
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("scanner revoked.")).to_be_visible()
    expect(row).to_have_count(0)
    page.get_by_label("Show expired and revoked keys").check()
    expect(row).to_have_count(2)
    expect(row.get_by_role("button")).to_have_count(0)
    with store_of(server) as queue:
        done = [(event.kind, event.operator) for event in queue.store.audit(limit=4)]
    assert [str(kind) for kind, _ in done] == ["key_ended", "key_ended", "key_made", "key_made"]
    assert (done[0][1], done[3][1]) == (("local", "lost"), ("local", "a new scanner"))


def test_what_is_wrong_with_a_key_is_told_in_the_dialog(
    server: ServerProcess, visit: Visit, console_errors: ConsoleErrors
) -> None:
    page = visit(f"{server.url}/keys", language="de")
    texts = page_entries("de")
    page.get_by_role("button", name=str(texts["keys.new"])).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(str(texts["keys.field_name"])).fill("x")
    page.route("**/v1/keys*", lambda route: route.abort())
    dialog.get_by_label(str(texts["keys.field_scope"])).select_option("operator")
    dialog.get_by_role("button", name=str(texts["keys.create"])).click()
    expect(dialog.locator(".field-error[role=alert]")).to_have_text(str(texts["errors.offline"]))
    expect(dialog.get_by_label(str(texts["keys.field_name"]))).to_have_value("x")
    console_errors.messages.clear()


@pytest.mark.parametrize("language", languages("de", "pl"))
def test_dialogs_fit_on_a_phone(shared: ServerProcess, visit: Visit, language: str) -> None:
    page, texts = visit(f"{shared.url}/keys", language=language, width="phone"), page_entries(language)
    for name in ("keys.new", "keys.rotate", "keys.revoke"):
        page.get_by_role("button", name=str(texts[name])).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert problems(page, language) == [], name
        page.keyboard.press("Escape")


def test_revoking_ones_own_key_is_told_before_and_signs_out(
    locked: ServerProcess, visit: Visit, console_errors: ConsoleErrors
) -> None:
    store = open_store(str(locked.folder / "inturn.db"))
    text = create_api_key(store, "me")
    store.close()
    page = visit(f"{locked.url}/keys")
    page.get_by_label("API key", exact=True).fill(text)
    page.keyboard.press("Enter")
    row = page.get_by_role("row").filter(has_text="This session")
    row.get_by_role("button", name="Revoke: me").click()
    expect(page.get_by_role("dialog")).to_contain_text("You are signed in with this API key and will be signed out.")
    console_errors.expected = "401"  # a request that was under way may be answered after the page has signed out
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_somebody_who_only_reads_sees_keys_and_settings_but_no_button(locked: ServerProcess, visit: Visit) -> None:
    store = open_store(str(locked.folder / "inturn.db"))
    text = create_api_key(store, "wall", scope=ApiKeyScope.READ_ONLY)
    store.close()
    page = visit(f"{locked.url}/keys")
    page.get_by_label("Show API key").check()
    expect(page.get_by_label("API key", exact=True)).to_have_attribute("type", "text")
    page.get_by_label("API key", exact=True).fill(f"  {text} ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="wall")).to_contain_text("Read-only")
    expect(page.locator("main button")).to_have_count(0)
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_text("Running. Documents start as workers become free.")).to_be_visible()
    expect(page.locator("main button")).to_have_count(0)
    expect(page.locator(".page").get_by_text("Read-only", exact=True)).to_be_visible()


# -- settings ---------------------------------------------------------------------------------------------------------


def test_the_queue_is_paused_and_resumed_and_everybody_sees_it(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/settings")
    other = visit(f"{server.url}/settings", language="es")
    expect(other.locator(".live")).to_have_text(str(page_entries("es")["shell.live_live"]))
    page.get_by_role("button", name="Pause queue").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the disk is full")
    page.get_by_role("dialog").get_by_role("button", name="Pause queue").click()
    expect(page.get_by_text("Paused by local: the disk is full")).to_be_visible()
    expect(other.get_by_text("En pausa por orden de local: the disk is full")).to_be_visible()
    with store_of(server) as queue:
        assert queue.store.paused() == ("local", "the disk is full")
    page.get_by_role("button", name="Resume queue").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume queue").click()
    expect(page.get_by_text("Running. Documents start")).to_be_visible()
    expect(other.get_by_text(str(page_entries("es")["settings.runs"]))).to_be_visible()


def test_settings_tell_who_and_what_the_server_is(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/settings")
    expect(page.locator(".settings-details").first).to_contain_text("local")
    for fact in (inturn.__version__, server.url, "50 MB", "100 MB", "5 GB", "10,000"):
        expect(page.locator(".page").get_by_text(fact, exact=True)).to_be_visible()
    page.locator(".page [data-choice=theme]").select_option("dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Language and theme").click()
    expect(page.get_by_role("menuitemradio", name="Dark", checked=True)).to_be_visible()
    page.keyboard.press("Escape")
    page.locator(".page [data-choice=language]").select_option("pt")
    expect(page.get_by_role("heading", level=1)).to_have_text("Configurações")
    expect(page.locator(".page [data-choice=language]")).to_be_focused()

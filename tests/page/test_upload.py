"""The upload page: keyboard and drag and drop, failing files, receipts."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import inturn
from http_server import ServerProcess, create_api_key
from inturn.queue import Queue

from .conftest import ConsoleErrors

Visit = Callable[..., Page]
EVIL = "<img src=x onerror=alert(1)>.txt"
DROP = """
(zone, [name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name, { type: "text/plain" }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
    if (kind === "dragover") window.wasOver = zone.classList.contains("is-over");
  }
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's folder."""
    return tmp_path_factory.mktemp("upload")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A server that takes 0.1 MB a file and twelve waiting documents a customer."""
    limits = {"INTURN_MAX_FILE": "0.1", "INTURN_MAX_WAITING": "12"}
    made = ServerProcess(folder, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000", **limits)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def queue(server: ServerProcess) -> Iterator[Queue]:
    """The server's queue."""
    with inturn.open(str(server.folder / "inturn.db")) as opened:
        yield opened


def files(tmp_path: Path, n: int, size: int = 20) -> list[Path]:
    made = [tmp_path / f"letter-{number}.txt" for number in range(n)]
    for number, path in enumerate(made):
        path.write_text(f"letter {number} ".ljust(size, "."))
    return made


def uploads(page: Page) -> Locator:
    return page.locator(".upload")


def drop(page: Page, name: str, text: str) -> None:
    page.locator(".upload-zone").evaluate(DROP, [name, text])


def test_files_are_chosen_and_submitted_with_the_keyboard_and_the_receipt_explains_itself(
    server: ServerProcess, queue: Queue, visit: Visit, tmp_path: Path
) -> None:
    page = visit(f"{server.url}/upload")
    submit = page.locator("form button[type=submit]")
    expect(submit).to_be_disabled()
    page.get_by_role("combobox", name="Customer").focus()
    page.keyboard.type("acme")
    page.keyboard.press("Tab")
    page.keyboard.type("march")
    page.keyboard.press("Tab")
    chosen = page.locator("#upload-files")
    expect(chosen).to_be_focused()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    chooser.value.set_files(files(tmp_path, 4))
    expect(uploads(page)).to_have_count(4)
    expect(uploads(page).first).to_contain_text("Ready")
    page.get_by_role("button", name="Remove: letter-3.txt").press("Enter")
    expect(submit).to_have_text("Upload 3 files")
    submit.press("Enter")
    expect(page.locator(".upload-mark .badge").first).to_have_text("Level 1")
    receipt = page.locator(".upload-receipt")
    expect(receipt).to_contain_text("3 files accepted for acme.")
    expect(receipt).to_contain_text("3 files at level 1 (counter 0 to -2).")
    expect(receipt).to_contain_text("Counter now: -2.")
    documents = queue.documents().items
    assert sorted((document.customer, document.spec.name, document.spec.batch) for document in documents) == [
        ("acme", f"letter-{number}.txt", "march") for number in range(3)
    ]
    with page.expect_file_chooser() as chooser:
        chosen.press("Space")
    chooser.value.set_files(files(tmp_path, 1))
    submit.click()
    expect(receipt).to_contain_text(
        "Level 2: the customer’s counter was -3 when this document was submitted, below -2 but not below -4."
    )
    (claimed,) = queue.claim("worker", 1)
    queue.finish(claimed)
    expect(page.locator(".upload .state-done")).to_have_count(1)
    page.get_by_role("link", name="letter-0.txt").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("letter-0.txt")
    page.go_back()
    expect(uploads(page)).to_have_count(4)  # the list outlives the page
    page.get_by_role("button", name="Clear list").click()
    expect(uploads(page)).to_have_count(0)


def test_files_are_dropped_and_hostile_names_are_names(server: ServerProcess, queue: Queue, visit: Visit) -> None:
    page = visit(f"{server.url}/upload?customer=dropper")
    expect(page.locator(".upload-zone")).to_be_visible()
    drop(page, EVIL, "hello")
    assert page.evaluate("window.wasOver")
    expect(uploads(page)).to_contain_text(EVIL)
    page.get_by_role("button", name="Upload 1 file").click()
    link = page.get_by_role("link", name=EVIL)
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    (document,) = (document for document in queue.documents().items if document.customer == "dropper")
    assert (document.spec.name, document.spec.size) == (EVIL, 5)


def test_a_customer_must_be_named(server: ServerProcess, visit: Visit) -> None:
    page = visit(f"{server.url}/upload")
    drop(page, "a.txt", "hello")
    page.get_by_role("button", name="Upload 1 file").click()
    expect(page.locator(".field-error").first).to_have_text("Choose a customer.")
    expect(page.get_by_role("combobox", name="Customer")).to_be_focused()
    expect(uploads(page)).to_contain_text("Ready")


def test_each_file_says_in_plain_words_what_is_wrong_with_it(
    server: ServerProcess, queue: Queue, visit: Visit, console_errors: ConsoleErrors, tmp_path: Path
) -> None:
    large = tmp_path / "large.txt"
    large.write_text("x" * 200_000)
    page = visit(f"{server.url}/upload?customer=greedy", language="de")
    page.set_input_files("#upload-files", [large, *files(tmp_path, 14)])
    error = uploads(page).first.locator(".upload-error")
    expect(error).to_have_text("195,3 kB überschreitet das Limit von 102,4 kB.")
    page.get_by_role("button", name="14 Dateien hochladen").click()
    quota = page.get_by_text("Dieser Kunde hat sein Limit an Dokumenten in der Warteschlange erreicht.")
    expect(page.get_by_role("button", name=re.compile("^Upload abbrechen"))).to_have_count(0)
    expect(page.locator(".upload .upload-meter:visible")).to_have_count(0)
    refused = quota.count()  # what comes at the same time is counted together, so one or the other may slip in
    assert refused >= 1
    expect(page.locator(".upload .badge.state-waiting")).to_have_count(14 - refused)
    assert all("429" in item for item in console_errors.messages)
    console_errors.messages.clear()
    for claim in queue.claim("worker", 2):
        queue.finish(claim)
    page.route("**/v1/documents", lambda route: route.abort())
    again = page.get_by_role("button", name=re.compile("Erneut versuchen"))
    again.first.click()
    expect(page.get_by_text("Server nicht erreichbar.")).to_have_count(1)
    page.unroute_all()
    console_errors.messages.clear()


def test_an_upload_is_stopped_and_sent_again_once(
    server: ServerProcess, queue: Queue, visit: Visit, console_errors: ConsoleErrors, tmp_path: Path
) -> None:
    page = visit(f"{server.url}/upload?customer=stopper", alone=True)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 20_000}
    session.send("Network.emulateNetworkConditions", slow)
    page.set_input_files("#upload-files", files(tmp_path, 1, 100_000))
    page.get_by_role("button", name="Upload 1 file").click()
    meter = page.get_by_role("progressbar", name="letter-0.txt")
    expect(meter).to_be_visible()
    page.get_by_role("button", name="Cancel upload: letter-0.txt").click()
    expect(uploads(page)).to_contain_text("Cancelled")
    expect(meter).to_be_hidden()
    session.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    page.get_by_role("button", name="Retry: letter-0.txt").click()
    expect(page.locator(".upload .badge").first).to_have_text("Level 1")
    assert len([document for document in queue.documents().items if document.customer == "stopper"]) == 1
    console_errors.messages.clear()


def test_a_customers_key_uploads_for_itself(locked: ServerProcess, visit: Visit) -> None:
    with inturn.open(str(locked.folder / "inturn.db")) as queue:
        key = create_api_key(queue.store, "portal", "acme")
    page = visit(f"{locked.url}/signin?to=/upload")
    page.get_by_label("API key", exact=True).fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Uploading for acme.")).to_be_visible()
    expect(page.get_by_role("combobox", name="Customer")).to_have_count(0)
    drop(page, "mine.txt", "hello")
    page.get_by_role("button", name="Upload 1 file").click()
    expect(page.locator(".upload-receipt")).to_contain_text("Level 1, the highest: the customer’s counter was 0")
    page.get_by_role("link", name="View this customer’s documents").click()
    expect(page.locator("tbody th")).to_have_text(["mine.txt"])

"""The page in a real browser, before a real server on a filled store.

Sessions of Playwright end with their module: while one is open, its event loop runs on this thread, and tests of other
rooms could not run theirs.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

import changed_past
import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import SECOND, NewDocument, Progress, WorkerReport
from inturn.queue import Queue
from inturn.store import Operator

FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CUSTOMERS = 300
HOSTILE = "<script>alert('customer')</script>"
HOSTILE_DOCUMENT = "<img src=x onerror=alert('document')>.pdf"
WIDTHS = {"phone": (390, 844), "tablet": (900, 1100), "wide": (1440, 900)}


def fill(queue: Queue) -> None:
    """300 customers, three of them floods, one with a hostile name; some documents done, failed and in work; keys."""
    seeded = random.Random(7)
    for number in range(CUSTOMERS):
        amount = 200 if number < 3 else seeded.choice((1, 2, 3, 5, 8, 24))
        queue.submit(f"Customer {number:03}", [NewDocument(f"letter-{n}.pdf") for n in range(amount)])
    queue.submit(HOSTILE, [NewDocument(HOSTILE_DOCUMENT)] * 30)
    claimed = queue.claim("host-1", 60)
    for number, claim in enumerate(claimed[:50]):
        if number % 10 == 9:
            queue.fail(claim, "the file is broken", final=True)
        else:
            queue.finish(claim, {"text": "Dear Sir or Madam"})
    held = {claim.document.id: Progress(1, 2) for claim in claimed[50:]}
    now = time.time_ns() // 1_000
    queue.store.record_worker(WorkerReport("host-1", "host.example", 1, 10, 10, "extract", now, progress=held))
    for name, customer, scope in (
        ("anna", None, None),
        ("portal", HOSTILE, None),
        (HOSTILE, None, ApiKeyScope.READ_ONLY),
    ):
        create_api_key(queue.store, name, customer, scope)
    queue.pause(Operator(HOSTILE, HOSTILE))
    queue.resume(Operator("anna", "there is room again"))


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where the browser is; without one tests are skipped at home and fail in CI."""
    # The same engine without a browser's own windows, which take five times as long to open as our pages.
    result = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if result is None:
        if os.environ.get("CI") == "true":
            pytest.fail("a browser is missing: apt-get install chromium-headless-shell")
        pytest.skip("neither chromium-headless-shell nor chromium is installed")
    return result


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with everything in it, made once; servers get copies."""
    path = tmp_path_factory.mktemp("filled") / "inturn.db"
    with inturn.open(str(path)) as queue:
        fill(queue)
        queue.store.backup(path.with_name("copy.db"))
    return path.with_name("copy.db")


@pytest.fixture
def serve(filled: Path, tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers on a copy of the filled store: serve(), serve("--auth", "keys"), serve(empty=True)."""
    made: list[ServerProcess] = []

    def one(*flags: str, empty: bool = False) -> ServerProcess:
        if not empty and not (tmp_path / "inturn.db").exists():
            shutil.copy(filled, tmp_path / "inturn.db")
        made.append(ServerProcess(tmp_path, *flags, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000"))
        return made[-1]

    yield one
    for server_process in made:
        server_process.stop()


@pytest.fixture(scope="session")
def shared(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for tests that only look."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def locked(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that asks for keys; tests make their own, and end only those."""
    folder = tmp_path_factory.mktemp("locked")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder, "--auth", "keys", INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a queue whose policy was changed three times within the last hour, while documents came."""
    folder = tmp_path_factory.mktemp("past")
    changed_past.write(folder / "inturn.db", time.time_ns() // 1_000 - 3_600 * SECOND)
    server = ServerProcess(folder)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        yield opened
        opened.close()


@dataclass
class Wrong:
    """What a page complained about; a test that expects something clears it."""

    said: list[str] = field(default_factory=list)

    def hear(self, message: ConsoleMessage) -> None:
        """Keep errors and warnings."""
        if message.type in {"error", "warning"}:
            self.said.append(f"{message.type}: {message.text}")


@pytest.fixture
def wrong() -> Wrong:
    """Errors in the console, and exceptions; the test fails if any is left."""
    return Wrong()


@pytest.fixture
def visit(browser: Browser, wrong: Wrong) -> Iterator[Callable[..., Page]]:
    """Open an address: visit(server.url + "/documents", language="de", theme="dark", width="phone")."""
    contexts = []

    def one(url: str, *, language: str = "en", theme: str = "light", width: str = "wide") -> Page:
        across, down = WIDTHS[width]
        context = browser.new_context(
            viewport={"width": across, "height": down},
            color_scheme="dark" if theme == "dark" else "light",
            locale=language,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", wrong.hear)
        page.on("pageerror", lambda error: wrong.said.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: wrong.said.append(f"dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield one
    for context in contexts:
        context.close()
    assert wrong.said == []

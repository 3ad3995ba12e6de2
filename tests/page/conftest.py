"""Fixtures for tests of the page: a filled store, real servers, and a real browser.

A Playwright session ends with its test module. While one is open its event loop runs on this thread, and asyncio
tests of other folders could not run.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

import changed_past
import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import SECOND, NewDocument, Progress, WorkerReport
from inturn.queue import Queue
from inturn.store import Operator
from page_checks import HOSTILE, HOSTILE_DOCUMENT

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
EXPECT_TIMEOUT_MS = 60_000
"""Playwright's own 5 seconds are too few while other tests keep the machine busy; nothing is measured by it."""
expect.set_options(timeout=EXPECT_TIMEOUT_MS)
WIDTHS = {"phone": (390, 844), "tablet": (900, 1100), "wide": (1440, 900)}


def fill(queue: Queue) -> None:
    """Fill a queue: 300 customers, three of them large, one with a hostile name; documents in all states; keys."""
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
    progress = {claim.document.id: Progress(1, 2) for claim in claimed[50:]}
    now = time.time_ns() // 1_000
    queue.store.record_worker(WorkerReport("host-1", "host.example", 1, 10, 10, "extract", now, progress=progress))
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
    """The browser's path. Without a browser tests are skipped locally and fail in CI."""
    # The headless shell is the same engine and starts five times as fast.
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("a browser is missing: apt-get install chromium-headless-shell")
        pytest.skip("neither chromium-headless-shell nor chromium is installed")
    return path


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled store, made once; each server gets a copy."""
    path = tmp_path_factory.mktemp("filled") / "inturn.db"
    with inturn.open(str(path)) as queue:
        fill(queue)
        queue.store.backup(path.with_name("copy.db"))
    return path.with_name("copy.db")


@pytest.fixture
def serve(filled: Path, tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers on a copy of the filled store: serve(), serve("--auth", "keys"), serve(empty=True)."""
    servers: list[ServerProcess] = []

    def start(*flags: str, empty: bool = False) -> ServerProcess:
        if not empty and not (tmp_path / "inturn.db").exists():
            shutil.copy(filled, tmp_path / "inturn.db")
        servers.append(ServerProcess(tmp_path, *flags, INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000"))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def shared(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server for tests that change nothing."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def locked(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that needs keys. Tests create their own keys, and revoke only those."""
    folder = tmp_path_factory.mktemp("locked")
    shutil.copy(filled, folder / "inturn.db")
    server = ServerProcess(folder, "--auth", "keys", INTURN_BURST="1000000", INTURN_REQUESTS_PER_SECOND="100000")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a queue whose policy changed three times within the last hour, between documents."""
    folder = tmp_path_factory.mktemp("past")
    changed_past.write(folder / "inturn.db", time.time_ns() // 1_000 - 3_600 * SECOND)
    server = ServerProcess(folder)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        yield opened
        opened.close()


@dataclass
class ConsoleErrors:
    """Errors and warnings of the console. A test that expects some clears the list."""

    messages: list[str] = field(default_factory=list)

    def record(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.messages.append(f"{message.type}: {message.text}")


@pytest.fixture
def console_errors() -> ConsoleErrors:
    """Errors and exceptions of the pages; the test fails if any is left."""
    return ConsoleErrors()


@pytest.fixture
def visit(browser: Browser, console_errors: ConsoleErrors) -> Iterator[Callable[..., Page]]:
    """Open an address: visit(server.url + "/documents", language="de", theme="dark", width="phone")."""
    contexts = []

    def open_page(url: str, *, language: str = "en", theme: str = "light", width: str = "wide") -> Page:
        across, down = WIDTHS[width]
        context = browser.new_context(
            viewport={"width": across, "height": down},
            color_scheme="dark" if theme == "dark" else "light",
            locale=language,
            reduced_motion="reduce",
        )
        contexts.append(context)
        context.set_default_timeout(EXPECT_TIMEOUT_MS)
        page = context.new_page()
        page.on("console", console_errors.record)
        page.on("pageerror", lambda error: console_errors.messages.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: console_errors.messages.append(f"dialog: {dialog.message}"))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert console_errors.messages == []

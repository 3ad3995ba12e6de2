"""Fixtures for tests of the page: a filled store, real servers, and a real browser.

One browser serves the files of this folder that follow one another. While a Playwright session is open its event loop
runs on this thread, and asyncio tests of other folders could not run: it ends before the first test of another folder.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

import changed_past
import inturn
from http_server import ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport
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
    queue.change_queue("approval", Operator("anna", ""), description=HOSTILE, manual=True)
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


@dataclass
class ConsoleErrors:
    """Errors and warnings of the console. A test that expects some clears the list, or names them before they come."""

    messages: list[str] = field(default_factory=list)
    expected: str | None = None
    """What an expected message contains; one may come at any time until the test ends."""

    def record(self, message: ConsoleMessage) -> None:
        is_expected = self.expected is not None and self.expected in message.text
        if message.type in {"error", "warning"} and not is_expected:
            self.messages.append(f"{message.type}: {message.text}")


@pytest.fixture
def console_errors() -> ConsoleErrors:
    """Errors and exceptions of the pages; the test fails if any is left."""
    return ConsoleErrors()


class OpenPage:
    """A page in a context of its own. Its console is recorded for the test that has it."""

    def __init__(self, browser: Browser, language: str) -> None:
        self.errors = ConsoleErrors()
        self.context = browser.new_context(locale=language, reduced_motion="reduce")
        self.context.set_default_timeout(EXPECT_TIMEOUT_MS)
        self.page = self.context.new_page()
        self.page.on("console", self._record)
        self.page.on("pageerror", lambda error: self.errors.messages.append(f"exception: {error}"))
        self.page.on("dialog", lambda dialog: self.errors.messages.append(f"dialog: {dialog.message}"))

    def _record(self, message: ConsoleMessage) -> None:
        self.errors.record(message)

    def show(self, url: str, *, theme: str, width: str) -> None:
        across, down = WIDTHS[width]
        self.page.set_viewport_size({"width": across, "height": down})
        scheme: Literal["dark", "light"] = "dark" if theme == "dark" else "light"
        self.page.emulate_media(color_scheme=scheme, forced_colors="none")
        self.page.goto(url)

    def forget(self) -> None:
        """Leave nothing of a test behind but the cache of the browser."""
        self.page.unroute_all()
        if self.page.url.startswith("http"):
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.goto("about:blank")
        self.context.clear_cookies()
        self.context.clear_permissions()


class OpenBrowser:
    """A headless Chromium, and its pages that no test has now, by language.

    Such a page opens an address for less than half of a new one's CPU.
    """

    def __init__(self, path: str) -> None:
        self._stack = ExitStack()
        playwright = self._stack.enter_context(sync_playwright())
        self.browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        self._stack.callback(self.browser.close)
        self.idle_pages: dict[str, OpenPage] = {}

    def close(self) -> None:
        self._stack.close()


OPEN_BROWSERS: list[OpenBrowser] = []
"""None or one."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser before the first test of another folder."""
    yield
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        while OPEN_BROWSERS:
            OPEN_BROWSERS.pop().close()


@pytest.fixture
def open_browser(chromium: str) -> OpenBrowser:
    if not OPEN_BROWSERS:
        OPEN_BROWSERS.append(OpenBrowser(chromium))
    return OPEN_BROWSERS[0]


@pytest.fixture
def browser(open_browser: OpenBrowser) -> Browser:
    return open_browser.browser


@pytest.fixture
def visit(open_browser: OpenBrowser, console_errors: ConsoleErrors) -> Iterator[Callable[..., Page]]:
    """Open an address: visit(server.url + "/documents", language="de", theme="dark", width="phone").

    `alone`: in a context that no test has had, nor will have: for tests that change what `forget` does not undo.
    """
    visits: list[tuple[str, OpenPage]] = []
    idle_pages = open_browser.idle_pages

    def open_page(
        url: str, *, language: str = "en", theme: str = "light", width: str = "wide", alone: bool = False
    ) -> Page:
        idle = None if alone else idle_pages.pop(language, None)
        opened = idle or OpenPage(open_browser.browser, language)
        opened.errors = console_errors
        visits.append(("" if alone else language, opened))
        opened.show(url, theme=theme, width=width)
        return opened.page

    yield open_page
    for language, opened in visits:
        if language and language not in idle_pages and not opened.page.is_closed():
            opened.forget()
            opened.errors = ConsoleErrors()
            idle_pages[language] = opened
        else:
            opened.context.close()
    assert console_errors.messages == []

"""Take the screenshots of the web page for the README, docs/support.md and docs/web.md: docs/pictures/*.png.

    python scripts/screenshots.py [NAME …]      only those whose name contains one of the words

Ten minutes of a queue are simulated on a real store, in a few seconds and with a fixed seed. A real server shows them
to Chromium. The pictures of support tasks (`support-…`) end the steps that tests take, on the queue of these tests;
`steps` shows a document of the pipeline that tests of steps use.
"""

import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from inturn.clock import ManualClock
from inturn.http.app import create_app
from inturn.http.metrics import WaitSample
from inturn.http.server import Server, bind
from inturn.http.settings import ServerSettings
from inturn.http.state import AppState
from inturn.model import Claim, DocumentState, NewDocument
from inturn.queue import Queue
from inturn.store_types import DocumentFilter
from inturn.stores import open_store
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import pipeline_queue
import support_queue
from http_server import ServerProcess
from support_tasks import TASKS, Task, User

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = ROOT / "docs" / "pictures"
MAX_PICTURE_BYTES: Final = 200_000
FLAGS: Final = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MINUTES: Final = 10
STEP_DURATION: Final = 5 * SECOND
SLOTS: Final = 8
DOCUMENTS_PER_STEP: Final = 42
"""Documents finished in a step."""
BULK_CUSTOMERS: Final = {"Nordlicht Archive": (4, 1_500), "Helix Insurance": (45, 900), "Porto Logistics": (114, 160)}
"""Customers that submit many documents at once: (step, documents)."""
ROUNDS: Final = {"Nordlicht Archive": 6}
"""How many times as long as others' the documents of a customer take."""
WORKERS: Final = ("scan-1", "scan-2")
TRADES: Final = (
    "Bakery",
    "Clinic",
    "Dental",
    "Estudio",
    "Farmácia",
    "Gärtnerei",
    "Hotel",
    "Kanzlei",
    "Notary",
    "Optik",
    "Vet",
)
PLACES: Final = (
    *(
        "Abel",
        "Blum",
        "Costa",
        "Duarte",
        "Ebner",
        "Ferrer",
        "Green",
        "Haas",
        "Ibarra",
        "Jansen",
        "Kowalska",
        "Lindqvist",
    ),
    *(
        "Miramar",
        "Nowak",
        "Oliveira",
        "Petersen",
        "Quint",
        "Reuter",
        "Sol",
        "Torres",
        "Urban",
        "Vega",
        "Weiß",
        "Zielińska",
    ),
)
SMALL_CUSTOMERS_PER_STEP: Final = 8
"""Small customers that submit something in a step."""


class Picture(NamedTuple):
    """A screenshot: path, language, theme, size, and actions before it is taken."""

    name: str
    page: str
    path: str
    language: str = "en"
    theme: str = "light"
    size: tuple[int, int] = (1440, 900)
    scale: float = 1
    before: Callable[[Page], None] = lambda _: None


class DemoTraffic:
    """Simulate ten minutes of a queue: three bulk customers, and some hundred small ones."""

    def __init__(self, queue: Queue, clock: ManualClock, on_started: Callable[[WaitSample], None]) -> None:
        self._queue = queue
        self._clock = clock
        self._on_started = on_started
        self._random = random.Random(11)  # noqa: S311 - the same each time
        self._claims: dict[str, list[tuple[Claim, int]]] = {worker: [] for worker in WORKERS}
        """By worker, with the rounds of work that are left."""
        self._small_customers = [f"{trade} {place}" for place in PLACES for trade in TRADES]

    def step(self, number: int) -> None:
        """Simulate five seconds."""
        for customer, (at, amount) in BULK_CUSTOMERS.items():
            if number == at:
                self._submit(customer, amount)
        for customer in self._random.sample(self._small_customers, SMALL_CUSTOMERS_PER_STEP):
            self._submit(customer, self._random.randint(1, 5))
        for _ in range(DOCUMENTS_PER_STEP // SLOTS):
            self._work()
        self._report()

    def end(self) -> None:
        """Prepare the moment of the screenshots: some customers have just submitted a batch."""
        for customer, amount in zip(
            self._random.sample(self._small_customers, 9), (3, 5, 7, 9, 12, 14, 17, 21, 26), strict=True
        ):
            self._submit(customer, amount)

    def _submit(self, customer: str, amount: int) -> None:
        kinds = ("invoice", "contract", "letter", "scan", "report")
        names = [f"{self._random.choice(kinds)}-{self._random.randint(1_000, 9_999)}.pdf" for _ in range(amount)]
        self._queue.submit(customer, [NewDocument(name, pages=2) for name in names], now=self._clock.now())

    def _work(self) -> None:
        """Work for a round: finish what is done, and fill the free slots."""
        now = self._clock.advance(STEP_DURATION * SLOTS // DOCUMENTS_PER_STEP)
        for worker, claims in self._claims.items():
            for claim, _ in [item for item in claims if item[1] <= 1]:
                if self._random.random() < 0.004:
                    self._queue.fail(claim, "the file is broken", final=True, now=now)
                else:
                    self._queue.finish(claim, {"text": "Dear Sir or Madam"}, now=now)
            running = [(claim, left - 1) for claim, left in claims if left > 1]
            free = SLOTS // 2 - len(running)
            new = self._queue.claim(worker, free, lease=3_600 * SECOND, now=now) if free else ()
            self._claims[worker] = running + [(claim, ROUNDS.get(claim.document.customer, 1)) for claim in new]
            for claim in new:
                document = claim.document
                self._on_started(WaitSample(now, document.level, now - document.ready_at, document.customer))

    def _report(self) -> None:
        now = self._clock.now()
        for worker, claims in self._claims.items():
            ids = [claim.document.id for claim, _ in claims]
            report = WorkerReport(
                worker,
                "office.example",
                1,
                SLOTS // 2,
                len(ids),
                "extract",
                now,
                progress={id_: Progress(self._random.randint(1, 9), 10) for id_ in ids},
                at_work=dict.fromkeys(ids, SECOND),
            )
            self._queue.record_worker(report, now=now)


@contextmanager
def serving_tasks(folder: Path) -> Iterator[str]:
    """Run a server with the queue of the support tasks."""
    support_queue.write(folder / "inturn.db")
    server = ServerProcess(folder)
    try:
        yield server.url
    finally:
        server.stop()


@contextmanager
def serving_pipeline(folder: Path) -> Iterator[tuple[str, str]]:
    """Run a server with documents that pass through steps; yield its address and the document that has seen most."""
    document = pipeline_queue.write(folder, time.time_ns() // 1_000).exporting
    server = ServerProcess(folder)
    try:
        yield server.url, document
    finally:
        server.stop()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, Queue]]:
    """Run a server with the history of the ten minutes."""
    store, steps = str(folder / "inturn.db"), MINUTES * 60 * SECOND // STEP_DURATION
    clock = ManualClock(time.time_ns() // 1_000 - steps * STEP_DURATION)
    with Queue(open_store(store, clock), clock=clock) as queue:
        service = AppState(queue, None, ServerSettings(store=store), clock=clock)
        listening = bind("127.0.0.1", 0)
        server = Server(create_app(service), service, grace=1)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            service.metrics.wait_listeners.clear()  # it would look at fifty starts of a real second: these come faster
            play = DemoTraffic(queue, clock, service.history.add_wait)
            while not server.started:
                time.sleep(0.01)
            for number in range(steps):
                play.step(number)
                _catch_up(service)
            play.end()
            clock.advance(STEP_DURATION + SECOND)  # so that the server looks again
            _catch_up(service)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", queue
        finally:
            server.should_exit = True
            thread.join()
            listening.close()


def _catch_up(service: AppState) -> None:
    """Wait until the server has read all events and its statistics."""
    while service.event_poller.last_event_number < service.queue.last_event():
        time.sleep(0.005)
    service.history.refresh_if_due()


def preview(page: Page) -> None:
    """Run the preview of the classic order and wait for its result."""
    page.get_by_label("Classic").check()
    page.locator(".policy-buttons a").click()
    page.locator(".preview-tools button").first.click()
    page.wait_for_selector(".preview-less", timeout=120_000)
    page.locator(".preview-tools").evaluate("(node) => node.closest('section').scrollIntoView()")


def pictures(document: str) -> list[Picture]:
    """All screenshots."""
    return [
        Picture("overview", "overview", "/"),
        Picture("overview-dark-de", "overview", "/", language="de", theme="dark"),
        Picture("overview-phone", "overview", "/", size=(390, 844), scale=2),
        Picture("why", "document", f"/documents/{document}", size=(1200, 640)),
        Picture("policy-preview", "policy", "/policy", size=(1200, 820), before=preview),
    ]


def take_picture(browser: Browser, url: str, picture: Picture) -> Path:
    """Take a screenshot, small enough for a README."""
    across, down = picture.size
    with browser.new_context(
        viewport={"width": across, "height": down},
        device_scale_factor=picture.scale,
        is_mobile=picture.scale > 1,
        locale=picture.language,
        color_scheme="dark" if picture.theme == "dark" else "light",
        reduced_motion="reduce",
    ) as context:
        page = context.new_page()
        page.goto(url + picture.path)
        page.wait_for_selector(f".page-{picture.page}")
        picture.before(page)
        page.mouse.move(0, 0)
        page.wait_for_selector(".live-live")
        return save(page, picture.name)


def take_task(browser: Browser, url: str, task: Task) -> Path:
    """Do a support task, and take a picture where it looks at the answer."""
    size = {"width": 1200, "height": 760}
    with browser.new_context(viewport=size, locale="en", color_scheme="light", reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector(".page-overview")
        name = f"support-{task.name}"
        task.run(User(page, lambda: save(page, name)))
        return PICTURES / f"{name}.png"


def save(page: Page, name: str) -> Path:
    """Save a picture small enough for a page of the docs."""
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    if path.stat().st_size > MAX_PICTURE_BYTES:
        sys.exit(f"screenshots: {path.name} has {path.stat().st_size:,} bytes, and may have {MAX_PICTURE_BYTES:,}")
    return path


def main() -> None:
    """Take the screenshots named on the command line, or all."""
    chromium, words = shutil.which("chromium-headless-shell") or shutil.which("chromium"), sys.argv[1:]
    if chromium is None:
        sys.exit("screenshots: needs a browser (Debian: apt-get install chromium-headless-shell)")
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        for path in _take_all(browser, words):
            print(f"{path.relative_to(ROOT)} {path.stat().st_size:,} bytes")
        browser.close()


def _take_all(browser: Browser, words: list[str]) -> Iterator[Path]:
    def is_wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    tasks = [task for task in TASKS if is_wanted(f"support-{task.name}")]
    if tasks:
        with tempfile.TemporaryDirectory(prefix="inturn-tasks-") as folder, serving_tasks(Path(folder)) as url:
            yield from (take_task(browser, url, task) for task in tasks)
    if is_wanted("steps"):
        with (
            tempfile.TemporaryDirectory(prefix="inturn-steps-") as folder,
            serving_pipeline(Path(folder)) as (url, document),
        ):
            yield take_picture(browser, url, Picture("steps", "document", f"/documents/{document}", size=(1200, 760)))
    if any(is_wanted(picture.name) for picture in pictures("")):
        with tempfile.TemporaryDirectory(prefix="inturn-pictures-") as folder, serving(Path(folder)) as (url, queue):
            last = DocumentFilter(frozenset({DocumentState.WAITING}), "Porto Logistics", level=9)
            shown = pictures(queue.documents(last, limit=60).items[-1].id)
            yield from (take_picture(browser, url, picture) for picture in shown if is_wanted(picture.name))


if __name__ == "__main__":
    main()

"""The web page: an overview of 5,000 customers in Debian's Chromium, from a real server on loopback.

Beside it, as a reference and without a target: Flower, of a Celery worker on Redis. It knows no customers, so its rows
are 5,000 tasks; that list stands still, so its updates are those of its list of workers, while as many tasks are done.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

import inturn
from bench.http import is_up, serving
from bench.measure import check_limit
from bench.peers.flower_app import app
from bench.services import folder, free_port, kill, redis, start_process, wait_until
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.worker_report import WorkerReport

CUSTOMERS = 5_000
LOADS = 7
CHANGES_PER_SECOND = 200
"""Rows that change in a second."""
MEASURE_SECONDS = 30.0
STEP_SECONDS = 0.05
FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FIRST_ROW = """
window.firstRow = null;
new MutationObserver((_, watching) => {
  const row = document.querySelector(SELECTOR);
  if (row === null || row.getClientRects().length === 0) return;
  window.firstRow = performance.now();
  watching.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


class PageLoad(NamedTuple):
    """One opening of a page with an empty cache."""

    first_row: float
    """Seconds from the beginning of the navigation."""
    transferred_bytes: int
    """Bytes on the wire, headers included, until a second after the first row."""


class UpdateCost(NamedTuple):
    """What a page did while rows changed: milliseconds for each update."""

    updates: int
    script: float
    layout: float
    longest_task: float
    """The longest task of 50 ms or more, 0 without any."""


class PageUnderTest(NamedTuple):
    """A page to measure: where and the selector of its rows, the same of a page that is live, and what changes rows."""

    name: str
    listed: tuple[str, str]
    live: tuple[str, str]
    update: str
    """Part of the address that is asked for each update."""
    change: Callable[[int], None]


# -- measuring --------------------------------------------------------------------------------------------------------


def measure_load(browser: Browser, side: PageUnderTest) -> PageLoad:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        sent = [0]
        network = context.new_cdp_session(page)
        network.on("Network.dataReceived", lambda event: sent.append(event["encodedDataLength"]))
        network.on("Network.responseReceived", lambda event: sent.append(event["response"]["encodedDataLength"]))
        network.send("Network.enable")
        url, row = side.listed
        page.add_init_script(FIRST_ROW.replace("SELECTOR", f'"{row}"'))
        page.goto(url)
        page.wait_for_selector(row, timeout=60_000)
        page.wait_for_timeout(1_000)
        return PageLoad(page.evaluate("window.firstRow") / 1_000, sum(sent))


def measure_updates(browser: Browser, side: PageUnderTest) -> UpdateCost:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context, changing_rows(side.change):
        page = context.new_page()
        url, row = side.live
        page.goto(url)
        page.wait_for_selector(row, timeout=60_000)
        page.wait_for_timeout(5_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if side.update in request.url else None)
        page.evaluate(
            "window.longest = 0; new PerformanceObserver((list) => { for (const each of list.getEntries())"
            " window.longest = Math.max(window.longest, each.duration); }).observe({ entryTypes: ['longtask'] })"
        )
        metrics = context.new_cdp_session(page)
        metrics.send("Performance.enable")
        before = _metrics(metrics)
        page.wait_for_timeout(MEASURE_SECONDS * 1_000)
        after = _metrics(metrics)
        return _update_cost(page, len(asked), before, after)


def _metrics(session: CDPSession) -> dict[str, float]:
    result: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return {item["name"]: item["value"] for item in result}


def _update_cost(page: Page, updates: int, before: dict[str, float], after: dict[str, float]) -> UpdateCost:
    def per_update(*names: str) -> float:
        return 1_000 * sum(after[name] - before[name] for name in names) / max(1, updates)

    return UpdateCost(
        updates,
        per_update("ScriptDuration"),
        per_update("LayoutDuration", "RecalcStyleDuration"),
        page.evaluate("window.longest"),
    )


@contextmanager
def changing_rows(change: Callable[[int], None]) -> Iterator[None]:
    """So many changes a second, in small steps, from a thread."""
    over, at_once = threading.Event(), round(CHANGES_PER_SECOND * STEP_SECONDS)

    def run() -> None:
        due = time.monotonic()
        while not over.is_set():
            change(at_once)
            due += STEP_SECONDS
            over.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# -- ours -------------------------------------------------------------------------------------------------------------


def fill(queue: Queue) -> None:
    """5,000 customers with one to eight documents each; fifty of them with many more, so that they are the busiest."""
    seeded = random.Random(8)
    for number in range(CUSTOMERS):
        amount = 300 + number if number < 50 else seeded.randint(1, 8)
        queue.submit(name_of(number), [NewDocument(f"letter-{n}.pdf") for n in range(amount)])
    now = time.time_ns() // 1_000
    queue.store.record_worker(WorkerReport("host-1", "host", 1, 8, 0, "extract", now))


def name_of(number: int) -> str:
    return f"Customer {number:04}"


@contextmanager
def inturn_page(path: Path) -> Iterator[PageUnderTest]:
    store, port = path / "inturn.db", free_port()
    with inturn.open(str(store)) as queue:
        fill(queue)
        command = [sys.executable, "-m", "inturn.cli", "serve", "--port", str(port), "--store", str(store)]
        with serving(command, path, port):
            seeded = random.Random(9)

            def change(n: int) -> None:
                """Half of them come in, half are taken and finished: all of customers that are shown."""
                for number in seeded.sample(range(50), n // 2):
                    queue.submit(name_of(number), [NewDocument("more.pdf")])
                for claimed in queue.claim("host-1", n - n // 2):
                    queue.finish(claimed)

            where = (f"http://127.0.0.1:{port}/", ".page-overview .table-box .table tbody tr")
            yield PageUnderTest("Inturn", where, where, "/v1/overview", change)


# -- Flower -----------------------------------------------------------------------------------------------------------


@contextmanager
def flower_page(path: Path) -> Iterator[PageUnderTest]:
    with redis(path) as broker:
        port, given = free_port(), {"BENCH_BROKER": f"{broker}/0"}
        celery = [sys.executable, "-m", "celery", "-A", "bench.peers.flower_app"]
        worker = start_process([*celery, "worker", "-E", "--pool=solo", "--loglevel=ERROR"], path, given)
        page = start_process(
            [*celery, "flower", f"--port={port}", "--address=127.0.0.1", "--max_tasks=100000"], path, given
        )
        try:
            if not wait_until(lambda: is_up(port), 60):
                raise RuntimeError((path / "said.txt").read_text(encoding="utf-8")[-2000:])
            app.conf.update(broker_url=f"{broker}/0", result_backend=f"{broker}/0")
            task = app.tasks["noop"]

            def change(n: int) -> None:
                for number in range(n):
                    task.delay(name_of(number))

            for _ in range(CUSTOMERS // 100):
                change(100)
            wait_until(lambda: False, 20)  # until the worker has done them and Flower has heard of it
            url = f"http://127.0.0.1:{port}"
            tasks = (f"{url}/tasks", "#tasks-table tbody tr td:nth-child(2)")
            workers = (f"{url}/workers", "#workers-table tbody tr td:nth-child(2)")
            yield PageUnderTest("Flower", tasks, workers, "/workers?", change)
        finally:
            kill([worker, page])


# -- both -------------------------------------------------------------------------------------------------------------


def measure_page(browser: Browser, side: PageUnderTest) -> tuple[list[PageLoad], UpdateCost]:
    measure_load(browser, side)  # imports and first reads are behind it
    loads = [measure_load(browser, side) for _ in range(LOADS)]
    pace = measure_updates(browser, side)
    rows = [load.first_row for load in loads]
    print(
        f"{side.name}: first row {statistics.median(rows):.2f} s ({min(rows):.2f} to {max(rows):.2f}),"
        f" {statistics.median(load.transferred_bytes for load in loads) / 1_000:,.0f} KB;"
        f" {CHANGES_PER_SECOND} changes a second: {pace.updates} updates in {MEASURE_SECONDS:g} s, each "
        f"{pace.script:.1f} ms of script and"
        f" {pace.layout:.1f} ms of style and layout, {_describe_longest_task(pace.longest_task)}",
        flush=True,
    )
    return loads, pace


def _describe_longest_task(worst: float) -> str:
    return f"longest task {worst:.0f} ms" if worst else "no task of 50 ms or more"  # browsers tell of no others


def print_environment(chromium: str) -> None:
    asked = [chromium, "--version", "--no-sandbox"]
    version = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603 - Debian's
    print(f"{version.strip()}, headless, {os.cpu_count()} cores, empty cache for each load, 1440 × 900")  # noqa: RUF001
    print(f"Inturn: inturn serve, SQLite, {CUSTOMERS:,} customers with lines, overview, 50 rows, live")
    print(
        "Flower: celery flower --max_tasks=100000, Celery on Redis, worker --pool=solo -E, task_send_sent_event;"
        f" {CUSTOMERS:,} tasks; loaded: its list of tasks; live: its list of workers, one row, asked for each second"
    )


def main() -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("bench page: needs chromium on the PATH (Debian: apt-get install chromium)")
    print_environment(chromium)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        with folder() as path, inturn_page(path) as side:
            loads, pace = measure_page(browser, side)
        with folder() as path, flower_page(path) as side:
            measure_page(browser, side)
        browser.close()
    missed = check_limit(
        "seconds to the first row", statistics.median(load.first_row for load in loads), 1, at_most=True
    )
    missed += check_limit(
        "kilobytes transferred", max(load.transferred_bytes for load in loads) / 1_000, 200, at_most=True
    )
    return missed + check_limit("ms of script for an update", pace.script, 16, at_most=True)

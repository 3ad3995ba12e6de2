"""100,000 customers: the first list in a browser after a server start, and the processor of an open overview.

Each start is a new server process, and each load a browser context with an empty cache. While the overview is open,
this process submits and claims: ten events a second. Processor times are the kernel's, which a busy machine changes
less than wall times.
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

import inturn
from bench.http import is_up
from bench.measure import check_limit, spread
from bench.page import FIRST_ROW, FLAGS
from bench.services import free_port, kill, start_process, wait_until
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.worker_report import WorkerReport

CUSTOMERS: Final = 100_000
STARTS: Final = 5
EVENTS_PER_SECOND: Final = 10
MEASURE_SECONDS: Final = 40
MEMORY: Final = "/dev/shm"  # noqa: S108 - in memory, or filling would be 100,000 syncs of a disk
LISTS: Final = {"customers": ".page-customers tbody tr", "": ".page-overview .table-box .table tbody tr"}
"""Selectors of a first row, by path."""


def fill(queue: Queue) -> None:
    """One or two waiting documents of each customer, 60 of the first fifty; the lane log is folded by a claim."""
    seeded = random.Random(3)
    for number in range(CUSTOMERS):
        amount = 60 if number < 50 else seeded.choice((1, 1, 2))
        queue.submit(name_of(number), [NewDocument(f"letter-{n}.pdf") for n in range(amount)])
    for claim in queue.claim("host-1", 8):
        queue.finish(claim)
    queue.record_worker(WorkerReport("host-1", "host", 1, 8, 0, "extract", time.time_ns() // 1_000))


def name_of(number: int) -> str:
    return f"Customer {number:06}"


@contextmanager
def started(path: Path) -> Iterator[tuple[int, int]]:
    """A server on the store: its process and its port."""
    port = free_port()
    store = str(path / "inturn.db")
    server = start_process([sys.executable, "-m", "inturn.cli", "serve", "--port", str(port), "--store", store], path)
    try:
        if not wait_until(lambda: is_up(port), 60):
            raise RuntimeError((path / "said.txt").read_text(encoding="utf-8"))
        yield server.pid, port
    finally:
        kill([server])


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text(encoding="ascii").split()
    ]
    return [pid, *(member for child in children for member in tree(child))]


def processor_seconds(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure_first_list(browser: Browser, path: Path, page_path: str) -> tuple[float, float]:
    """Seconds to the first row, and the processor seconds of the server until then."""
    row = LISTS[page_path]
    with started(path) as (server, port), browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        before = processor_seconds([server])
        page = context.new_page()
        page.add_init_script(FIRST_ROW.replace("SELECTOR", f'"{row}"'))
        page.goto(f"http://127.0.0.1:{port}/{page_path}")
        page.wait_for_selector(row, timeout=120_000)
        return page.evaluate("window.firstRow") / 1_000, processor_seconds([server]) - before


def measure_overview(browser: Browser, path: Path) -> tuple[float, float]:
    """Processor time of the browser and of the server while the overview is open, as parts of a core in percent."""
    with started(path) as (server, port), browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector(LISTS[""], timeout=120_000)
        with inturn.open(str(path / "inturn.db")) as queue, repeating(lambda n: change(queue, n)):
            page.wait_for_timeout(5_000)
            chromium = [pid for pid in tree(os.getpid()) if b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            sides = (chromium, [server])
            began, before = time.monotonic(), [processor_seconds(side) for side in sides]
            page.wait_for_timeout(MEASURE_SECONDS * 1_000)
            parts = [processor_seconds(side) - used for side, used in zip(sides, before, strict=True)]
            browser_part, server_part = (100 * part / (time.monotonic() - began) for part in parts)
    return browser_part, server_part


def change(queue: Queue, number: int) -> None:
    """One event: a submit or a start, in turns."""
    if number % 2:
        queue.claim("host-1", 1)
    else:
        queue.submit(name_of(number % 50), [NewDocument("more.pdf")])


@contextmanager
def repeating(call: Callable[[int], None]) -> Iterator[None]:
    """Call ten times a second, from a thread."""
    over = threading.Event()

    def run() -> None:
        number, due = 0, time.monotonic()
        while not over.is_set():
            call(number)
            number, due = number + 1, due + 1 / EVENTS_PER_SECOND
            over.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> int:
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        sys.exit("bench many: needs chromium on the PATH (Debian: apt-get install chromium-headless-shell)")
    print(
        f"{CUSTOMERS:,} customers on SQLite, inturn serve, Chromium headless, load {os.getloadavg()[0]:.0f}", flush=True
    )
    missed = 0
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=MEMORY) as name:
        path = Path(name)
        with inturn.open(str(path / "inturn.db")) as queue:
            fill(queue)
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(FLAGS))
        for page_path in LISTS:
            loads = [measure_first_list(browser, path, page_path) for _ in range(STARTS)]
            seconds, used = zip(*loads, strict=True)
            print(f"/{page_path}: first row {spread(seconds)} s, server {spread(used)} s of processor", flush=True)
            if page_path:
                missed += check_limit("seconds to the first list", statistics.median(seconds), 1.5, at_most=True)
        browser_part, server_part = measure_overview(browser, path)
        print(f"overview at {EVENTS_PER_SECOND} events/s: server {server_part:.1f} % of a core", flush=True)
        missed += check_limit("overview tab, % of a core", browser_part, 5, at_most=True)
        browser.close()
    return missed

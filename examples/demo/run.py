"""The demo from beginning to end: six customers, one of them a flood, on the embedded store with two workers."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from rich.console import Console

from demo import chart, summary
from demo.display import ProgressDisplay, progress_by_customer
from demo.processes import DemoError, PageServer, Workers
from demo.submitter import Submitter, prepare
from demo.timings import RunReport, all_documents, build_report
from demo.timings import summarize as rows_of
from demo.verify import find_problems
from demo.workload import CUSTOMERS, MIN_DOCUMENTS, plan_submissions
from inturn.blobs import Blobs, open_blobs
from inturn.errors import InturnError
from inturn.queue import Queue
from inturn.stores import open_store

WORKER_COUNT: Final = 2
POLL_INTERVAL_SECONDS: Final = 0.25
STALL_TIMEOUT_SECONDS: Final = 180.0
"""Seconds in which not one document ends before the demo gives up."""
MAX_DOCUMENTS: Final = 10_000
MAX_PROBLEMS_SHOWN: Final = 10
EXIT_INTERRUPTED: Final = 130
ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOCAL_OPERATOR: Final = "local"
"""Who paused the queue, if it was somebody at the page: that is no fault, and can be undone there."""


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 if every document came out as it must."""
    options = _parse_options(argv)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1_000)
    try:
        with _interrupt_on_signals(), _work_folder(options.folder) as folder, _start_services(folder) as stage:
            console.print(f"the page: {stage.page.url}", style="bold", soft_wrap=True)
            story = run_demo(console, stage, options.documents)
            _write_results(console, story, options, folder)
            if console.is_terminal and sys.stdin.isatty():
                _keep_running(console, stage)
    except KeyboardInterrupt:
        console.print("demo: stopped; the workers and the page have ended", style="bold")
        return EXIT_INTERRUPTED
    except (InturnError, OSError) as error:
        Console(stderr=True, highlight=False).print(f"demo: {error}", markup=False, style="bold", soft_wrap=True)
        return 1
    return 0


class DemoServices(NamedTuple):
    """A queue, the files of its documents, and who works and shows: all up while the demo runs."""

    queue: Queue
    blobs: Blobs
    workers: Workers
    page: PageServer


@contextmanager
def _start_services(folder: Path) -> Iterator[DemoServices]:
    store, blobs = folder / "inturn.db", folder / "blobs"
    with (
        Queue(open_store(str(store))) as queue,
        PageServer(folder, store, blobs) as page,
        Workers(folder, store, blobs, WORKER_COUNT) as workers,
    ):
        yield DemoServices(queue, open_blobs(str(blobs)), workers, page)


def run_demo(console: Console, services: DemoServices, document_count: int) -> RunReport:
    """Make documents, submit them as planned, have them processed, check everything; what happened."""
    coming = plan_submissions(document_count)
    totals = Counter(planned_submission.customer for planned_submission in coming)
    console.print(
        f"{document_count} documents of {len(totals)} customers, {WORKER_COUNT} workers, SQLite", style="bold"
    )
    queue, blobs = services.queue, services.blobs
    with ProgressDisplay(console) as screen:
        ready = prepare(coming, blobs, lambda made: screen.show_preparing(made, document_count))
        services.workers.wait_until_started(lambda: len(queue.workers()))
        submitter = Submitter(queue, ready)
        submitter.start()
        try:
            _wait_until_done(services, submitter, screen, {customer: totals[customer] for customer in CUSTOMERS})
        finally:
            submitter.stop()
    documents = [document for document in all_documents(queue) if document.id in submitter.by_id]
    require_no_problems(find_problems(queue, blobs, documents, submitter.by_id, document_count))
    return build_report(documents, WORKER_COUNT)


def _keep_running(console: Console, services: DemoServices) -> None:
    """Leave page and workers up until somebody has seen enough."""
    with _noted_signals() as received:
        console.print()
        console.print(f"The page stays at {services.page.url}, and its workers go on; Ctrl-C ends them.", style="bold")
        while not received:
            services.workers.check()
            services.page.check()
            time.sleep(POLL_INTERVAL_SECONDS)
        console.print("demo: ended")


def _wait_until_done(
    services: DemoServices, submitter: Submitter, screen: ProgressDisplay, totals: dict[str, int]
) -> None:
    """Show how it goes until every document has ended."""
    queue = services.queue
    screen.start_clock()
    done, at = -1, time.monotonic()
    while done < sum(totals.values()):
        services.workers.check()
        services.page.check()
        submitter.check()
        paused = queue.paused()
        if paused is not None and paused.name != LOCAL_OPERATOR:
            raise DemoError(f"the queue was paused by {paused.name}: {paused.why}")
        now = progress_by_customer(queue, totals, submitter.levels)
        screen.show(now)
        before, done = done, sum(customer_progress.done for customer_progress in now)
        if done > before or paused is not None:
            at = time.monotonic()
        elif time.monotonic() > at + STALL_TIMEOUT_SECONDS:
            raise DemoError(f"not one document has ended for {STALL_TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_INTERVAL_SECONDS)


def require_no_problems(messages: Sequence[str]) -> None:
    """Raise DemoError if the check of the results has found anything."""
    if messages:
        listed = "\n".join(f"  {message}" for message in messages[:MAX_PROBLEMS_SHOWN])
        raise DemoError(f"not as it must be:\n{listed}")


def _write_results(console: Console, report: RunReport, options: argparse.Namespace, folder: Path) -> None:
    """Table, meaning, chart, JSON."""
    rows = rows_of(report, CUSTOMERS)
    last = max(record.finished for record in report.records)
    console.print(
        f"{len(report.records)} documents done in {(last - report.began) / 1e6:.1f} s; every result is there and every"
        " SHA-256 matches."
    )
    console.print()
    summary.print_summary(console, report, rows)
    console.print()
    path = _chart_path(options, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(chart.render_svg(report, CUSTOMERS), encoding="utf-8")
    console.print(f"chart: {path}", markup=False, soft_wrap=True)
    if options.json is not None:
        options.json.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
        console.print(f"arrivals, services and waits: {options.json}", markup=False, soft_wrap=True)
    if options.folder is not None:
        console.print(f"store and blobs: {options.folder}", markup=False, soft_wrap=True)


def _chart_path(options: argparse.Namespace, folder: Path) -> Path:
    if options.chart is not None:
        return Path(options.chart)
    if options.folder is not None:
        return folder / "waits.svg"
    file, name = tempfile.mkstemp(prefix="inturn-demo-", suffix=".svg")
    os.close(file)
    return Path(name)


@contextmanager
def _work_folder(requested: Path | None) -> Iterator[Path]:
    """A temporary folder, or the one that was asked for: new or empty, and kept."""
    if requested is None:
        with tempfile.TemporaryDirectory(prefix="inturn-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    requested.mkdir(parents=True, exist_ok=True)
    if any(requested.iterdir()):
        raise DemoError(f"{requested} is not empty: name a new folder, or an empty one")
    yield requested


@contextmanager
def _interrupt_on_signals() -> Iterator[None]:
    """Being told to end is as good as a Ctrl-C: either way everything is cleaned up."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _signal_handlers(interrupt):
        yield


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """Note signals instead of raising: an exception that comes up inside `Popen.poll` leaves its lock held."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        received.append(number)

    with _signal_handlers(note):
        yield received


@contextmanager
def _signal_handlers(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle the signals that end the demo."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread: then signals are somebody else's
        before = {number: signal.signal(number, handler) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _parse_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="inturn demo", description=__doc__)
    parser.add_argument(
        "--documents", type=_parse_document_count, default=400, metavar="N", help="how many (default: 400)"
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="work there and keep everything; new or empty")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where the chart goes (SVG)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write arrivals, services and waits")
    return parser.parse_args(argv)


def _parse_document_count(text: str) -> int:
    if not text.isdecimal() or not MIN_DOCUMENTS <= int(text) <= MAX_DOCUMENTS:
        raise argparse.ArgumentTypeError(f"a whole number from {MIN_DOCUMENTS} to {MAX_DOCUMENTS}, not {text!r}")
    return int(text)

"""The demo from beginning to end: six customers, one of them a flood, on the embedded store with two workers."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from rich.console import Console

from inturn.blobs import Blobs, open_blobs
from inturn.demo import chart, summary
from inturn.demo.intake import Submitter, prepare
from inturn.demo.plan import CUSTOMERS, FEWEST, arrivals
from inturn.demo.proof import problems
from inturn.demo.record import Story, all_documents, tell
from inturn.demo.record import summary as rows_of
from inturn.demo.screen import Screen, standings
from inturn.demo.workers import DemoError, PageServer, Workers
from inturn.errors import InturnError
from inturn.queue import Queue
from inturn.stores import open_store

WORKERS: Final = 2
LOOK_EVERY: Final = 0.25
STUCK: Final = 180.0
"""Seconds in which not one document ends before the demo gives up."""
MOST: Final = 10_000
SHOWN_PROBLEMS: Final = 10
INTERRUPTED: Final = 130
BY_HAND: Final = "local"
"""Who paused the queue, if it was somebody at the page: that is no fault, and can be undone there."""


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 if every document came out as it must."""
    options = _parse(argv)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1_000)
    try:
        with _interruptible(), _folder(options.folder) as folder, _stage(folder) as stage:
            console.print(f"the page: {stage.page.url}", style="bold", soft_wrap=True)
            story = play(console, stage, options.documents)
            _finish(console, story, options, folder)
            if console.is_terminal and sys.stdin.isatty():
                _stay(console, stage)
    except KeyboardInterrupt:
        console.print("demo: stopped; the workers and the page have ended", style="bold")
        return INTERRUPTED
    except (InturnError, OSError) as wrong:
        Console(stderr=True, highlight=False).print(f"demo: {wrong}", markup=False, style="bold", soft_wrap=True)
        return 1
    return 0


class Stage(NamedTuple):
    """A queue, the files of its documents, and who works and shows: all up while the demo runs."""

    queue: Queue
    blobs: Blobs
    workers: Workers
    page: PageServer


@contextmanager
def _stage(folder: Path) -> Iterator[Stage]:
    store, blobs = folder / "inturn.db", folder / "blobs"
    with (
        Queue(open_store(str(store))) as queue,
        PageServer(folder, store, blobs) as page,
        Workers(folder, store, blobs, WORKERS) as workers,
    ):
        yield Stage(queue, open_blobs(str(blobs)), workers, page)


def play(console: Console, stage: Stage, number: int) -> Story:
    """Make documents, submit them as planned, have them processed, check everything; what happened."""
    coming = arrivals(number)
    totals = Counter(each.customer for each in coming)
    console.print(f"{number} documents of {len(totals)} customers, {WORKERS} workers, SQLite", style="bold")
    queue, blobs = stage.queue, stage.blobs
    with Screen(console) as screen:
        ready = prepare(coming, blobs, lambda made: screen.making(made, number))
        stage.workers.wait_until(lambda: len(queue.store.workers()))
        submitter = Submitter(queue, ready)
        submitter.start()
        try:
            _watch(stage, submitter, screen, {each: totals[each] for each in CUSTOMERS})
        finally:
            submitter.stop()
    documents = [each for each in all_documents(queue) if each.id in submitter.by_id]
    _insist(problems(queue, blobs, documents, submitter.by_id, number))
    return tell(documents, WORKERS)


def _stay(console: Console, stage: Stage) -> None:
    """Leave page and workers up until somebody has seen enough."""
    console.print()
    console.print(f"The page stays at {stage.page.url}, and its workers go on; Ctrl-C ends them.", style="bold")
    try:
        while True:
            stage.workers.check()
            stage.page.check()
            time.sleep(LOOK_EVERY)
    except KeyboardInterrupt:
        console.print("demo: ended")


def _watch(stage: Stage, submitter: Submitter, screen: Screen, totals: dict[str, int]) -> None:
    """Show how it goes until every document has ended."""
    queue = stage.queue
    screen.begin()
    done, at = -1, time.monotonic()
    while done < sum(totals.values()):
        stage.workers.check()
        stage.page.check()
        submitter.check()
        paused = queue.store.paused()
        if paused is not None and paused.name != BY_HAND:
            raise DemoError(f"the queue was paused by {paused.name}: {paused.why}")
        now = standings(queue, totals, submitter.levels)
        screen.show(now)
        before, done = done, sum(each.done for each in now)
        if done > before or paused is not None:
            at = time.monotonic()
        elif time.monotonic() > at + STUCK:
            raise DemoError(f"not one document has ended for {STUCK:g} s")
        time.sleep(LOOK_EVERY)


def _insist(wrong: Sequence[str]) -> None:
    if wrong:
        listed = "\n".join(f"  {each}" for each in wrong[:SHOWN_PROBLEMS])
        raise DemoError(f"not as it must be:\n{listed}")


def _finish(console: Console, story: Story, options: argparse.Namespace, folder: Path) -> None:
    """Table, meaning, chart, JSON."""
    rows = rows_of(story, CUSTOMERS)
    last = max(each.finished for each in story.records)
    console.print(
        f"{len(story.records)} documents done in {(last - story.began) / 1e6:.1f} s; every result is there and every"
        " SHA-256 matches."
    )
    console.print()
    summary.show(console, story, rows)
    console.print()
    path = _chart_path(options, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(chart.draw(story, CUSTOMERS), encoding="utf-8")
    console.print(f"chart: {path}", markup=False, soft_wrap=True)
    if options.json is not None:
        options.json.write_text(json.dumps(story.plain(), indent=1) + "\n", encoding="utf-8")
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
def _folder(wanted: Path | None) -> Iterator[Path]:
    """A temporary folder, or the one that was asked for: new or empty, and kept."""
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="inturn-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    wanted.mkdir(parents=True, exist_ok=True)
    if any(wanted.iterdir()):
        raise DemoError(f"{wanted} is not empty: name a new folder, or an empty one")
    yield wanted


@contextmanager
def _interruptible() -> Iterator[None]:
    """Being told to end is as good as a Ctrl-C: either way everything is cleaned up."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before: dict[int, object] = {}
    with suppress(ValueError):  # not the main thread: then signals are somebody else's
        before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]  # what signal.signal gave


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="inturn demo", description=__doc__)
    parser.add_argument("--documents", type=_number, default=400, metavar="N", help="how many (default: 400)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="work there and keep everything; new or empty")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where the chart goes (SVG)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write arrivals, services and waits")
    return parser.parse_args(argv)


def _number(text: str) -> int:
    if not text.isdecimal() or not FEWEST <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"a whole number from {FEWEST} to {MOST}, not {text!r}")
    return int(text)

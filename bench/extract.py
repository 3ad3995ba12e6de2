"""Extraction: the whole worker with its sandbox against kreuzberg in a bare process pool; an idle worker's memory.

Both sides read the same files with the same settings of kreuzberg and two processes, and hand back text, metadata and
language. The bare pool keeps nothing, guards nothing and never replaces a process; ours is `inturn worker`, keeps
documents, blobs and results durably, checks every file, runs it in the sandbox and forks a new child for every 20.

Both stay up and take turns of two seconds or so, since these machines change their pace by a third within a minute: a
turn of ours is held against the pool's beside it. Times run from the first finished document of a turn to the last.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import inturn
from bench.measure import median, pss_of_tree, spread, verdict
from inturn import NewDocument, Operator
from inturn.blobs import FolderBlobs
from inturn.demo.documents import KINDS, Made, bind, make
from inturn.processing import parser, sandbox

TURNS = 30
BENCH = Operator("bench", "the other side's turn")
PATIENCE = 120


def bare(path: str, media_type: str) -> tuple[str, dict[str, Any], Any]:
    """What a process of the bare pool does."""
    parsed = parser.parse(Path(path).read_bytes(), media_type)
    return parsed.content, dict(parsed.metadata), parsed.detected_languages


class BarePool:
    """Two processes, and files to read."""

    def __init__(self, pool: ProcessPoolExecutor, folder: Path) -> None:
        self._pool = pool
        self._folder = folder

    @classmethod
    @contextmanager
    def up(cls, folder: Path) -> Iterator["BarePool"]:
        """As one would use it, with the environment that our children have."""
        before = dict(os.environ)
        os.environ.update({**sandbox.ENVIRONMENT, "TMPDIR": str(folder / "library"), "PATH": before["PATH"]})
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            for _ in as_completed([pool.submit(time.sleep, 0.5) for _ in range(2)]):
                pass  # both are there
            os.environ.clear()
            os.environ.update(before)
            yield cls(pool, folder)

    def turn(self, made: Sequence[Made]) -> float:
        """Documents a second."""
        files = [(str(self._folder / str(number)), each.media_type) for number, each in enumerate(made)]
        for (path, _), each in zip(files, made, strict=True):
            Path(path).write_bytes(each.data)
        done = [time.perf_counter() for _ in as_completed([self._pool.submit(bare, *each) for each in files])]
        return (len(made) - 1) / (done[-1] - done[0])


class OurWorker:
    """`inturn worker`, and a queue that is paused while the other side has its turn."""

    def __init__(self, folder: Path) -> None:
        self._queue = inturn.open(str(folder / "queue.db"))
        self._blobs = FolderBlobs(folder / "blobs")

    @classmethod
    @contextmanager
    def up(cls, folder: Path) -> Iterator["OurWorker"]:
        """Started as its user would."""
        command = [sys.executable, "-m", "inturn.cli", "worker", "--store", str(folder / "queue.db"), "--slots", "2"]
        worker = subprocess.Popen([*command, "--blobs", str(folder / "blobs")], stderr=subprocess.DEVNULL)  # noqa: S603 - ours
        try:
            yield cls(folder)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)

    def turn(self, made: Sequence[Made]) -> float:
        """Documents a second."""
        self._queue.pause(BENCH)
        ids = [self._submit(number, each) for number, each in enumerate(made)]
        self._queue.resume(BENCH)
        until = time.monotonic() + PATIENCE
        while any(self._queue.document(each).finished_at is None for each in ids[-2:]) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.1)
        documents = [self._queue.document(each) for each in ids]
        if any(each.state != "done" for each in documents):
            raise RuntimeError(f"not all were extracted: {[each.error for each in documents if each.error]}")
        ends = sorted(each.finished_at or 0 for each in documents)
        return (len(made) - 1) / ((ends[-1] - ends[0]) / 1e6)

    def _submit(self, number: int, each: Made) -> str:
        blob = self._blobs.put(io.BytesIO(each.data))
        given = NewDocument(
            each.name, blob=blob.key, sha256=blob.sha256, size=blob.size, media_type=each.media_type, pages=each.pages
        )
        return self._queue.submit(f"customer {number % 6}", [given])[0].id


def throughput(what: str, made: Sequence[Made], at_once: int, limit: float | None) -> int:
    """Turns of so many documents."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=Path.cwd()) as name, ExitStack() as stack:
        folder = Path(name)
        parser.prepare(folder / "library")
        pool, worker = stack.enter_context(BarePool.up(folder)), stack.enter_context(OurWorker.up(folder))
        for turn in range(-2, TURNS):
            start = turn * at_once % len(made)
            part = made[start : start + at_once]
            sides: list[tuple[OurWorker | BarePool, list[float]]] = [(worker, ours), (pool, theirs)]
            for side, found in sides if turn % 2 else reversed(sides):
                found.append(side.turn(part))
    ours, theirs = ours[2:], theirs[2:]  # both warm up in two
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    print(f"{what}: documents/s {spread(ours)}, bare pool {spread(theirs)}; side by side {spread(ratios)}")
    ratio = median(ratios)
    if limit is None:
        print(f"     {what} against the bare pool: {ratio:.2f}")
        return 0
    return verdict(f"{what} against the bare pool", ratio, limit, at_most=False)


def idle() -> int:
    """A worker that has nothing to do and has not loaded its processor."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=Path.cwd()) as name:
        worker = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "inturn.cli", "worker", "--store", f"{name}/queue.db", "--slots", "2"],
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(4)
            held = pss_of_tree(worker.pid)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)
    print(f"idle worker: {held / 1e6:.0f} MB")
    return verdict("PSS of an idle worker, MB", held / 1e6, 150, at_most=True)


def main() -> int:
    binders = [bind(seed, 40 + seed % 41) for seed in range(240)]
    pages = sum(each.pages for each in binders)
    print(f"{len(binders)} PDFs of 40 to 80 pages ({pages} in all); 540 small documents of {len(KINDS)} kinds")
    small = [make(KINDS[seed % len(KINDS)], seed) for seed in range(540)]
    return (
        throughput("PDFs of 40 to 80 pages", binders, 60, 0.9)
        + throughput("small documents", small, 540, None)
        + idle()
    )


if __name__ == "__main__":
    sys.exit(main())

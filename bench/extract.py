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
from bench.measure import check_limit, median, pss_of_tree, spread
from demo.documents import KINDS, SampleDocument, make_binder, make_document
from inturn import NewDocument, Operator
from inturn.blobs import FolderBlobs
from inturn.extract import parser
from inturn.sandbox import confinement

TURNS = 30
OPERATOR = Operator("bench", "the other side's turn")
TIMEOUT_SECONDS = 120


def parse_bare(path: str, media_type: str) -> tuple[str, dict[str, Any], Any]:
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
    def running(cls, folder: Path) -> Iterator["BarePool"]:
        """As one would use it, with the environment that our children have."""
        before = dict(os.environ)
        os.environ.update({**confinement.CHILD_ENVIRONMENT, "TMPDIR": str(folder / "library"), "PATH": before["PATH"]})
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            for _ in as_completed([pool.submit(time.sleep, 0.5) for _ in range(2)]):
                pass  # both are there
            os.environ.clear()
            os.environ.update(before)
            yield cls(pool, folder)

    def run_batch(self, samples: Sequence[SampleDocument]) -> float:
        """Documents a second."""
        files = [
            (str(self._folder / str(number)), sample_document.media_type)
            for number, sample_document in enumerate(samples)
        ]
        for (path, _), sample_document in zip(files, samples, strict=True):
            Path(path).write_bytes(sample_document.data)
        done = [time.perf_counter() for _ in as_completed([self._pool.submit(parse_bare, *file) for file in files])]
        return (len(samples) - 1) / (done[-1] - done[0])


class InturnWorker:
    """`inturn worker`, and a queue that is paused while the other side has its turn."""

    def __init__(self, folder: Path) -> None:
        self._queue = inturn.open(str(folder / "queue.db"))
        self._blobs = FolderBlobs(folder / "blobs")

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator["InturnWorker"]:
        """Started as its user would."""
        command = [sys.executable, "-m", "inturn.cli", "worker", "--store", str(folder / "queue.db"), "--slots", "2"]
        worker = subprocess.Popen([*command, "--blobs", str(folder / "blobs")], stderr=subprocess.DEVNULL)  # noqa: S603 - ours
        try:
            yield cls(folder)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)

    def run_batch(self, samples: Sequence[SampleDocument]) -> float:
        """Documents a second."""
        self._queue.pause(OPERATOR)
        ids = [self._submit(number, sample_document) for number, sample_document in enumerate(samples)]
        self._queue.resume(OPERATOR)
        until = time.monotonic() + TIMEOUT_SECONDS
        while any(self._queue.document(item).finished_at is None for item in ids[-2:]) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.1)
        documents = [self._queue.document(item) for item in ids]
        if any(document.state != "done" for document in documents):
            raise RuntimeError(
                f"not all were extracted: {[document.error for document in documents if document.error]}"
            )
        ends = sorted(document.finished_at or 0 for document in documents)
        return (len(samples) - 1) / ((ends[-1] - ends[0]) / 1e6)

    def _submit(self, number: int, sample: SampleDocument) -> str:
        blob = self._blobs.put(io.BytesIO(sample.data))
        given = NewDocument(
            sample.name,
            blob=blob.key,
            sha256=blob.sha256,
            size=blob.size,
            media_type=sample.media_type,
            pages=sample.pages,
        )
        return self._queue.submit(f"customer {number % 6}", [given])[0].id


def throughput(label: str, samples: Sequence[SampleDocument], batch_size: int, limit: float | None) -> int:
    """Turns of so many documents."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=Path.cwd()) as name, ExitStack() as stack:
        folder = Path(name)
        parser.prepare(folder / "library")
        pool, worker = stack.enter_context(BarePool.running(folder)), stack.enter_context(InturnWorker.running(folder))
        for turn in range(-2, TURNS):
            start = turn * batch_size % len(samples)
            part = samples[start : start + batch_size]
            sides: list[tuple[InturnWorker | BarePool, list[float]]] = [(worker, ours), (pool, theirs)]
            for side, result in sides if turn % 2 else reversed(sides):
                result.append(side.run_batch(part))
    ours, theirs = ours[2:], theirs[2:]  # both warm up in two
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    print(f"{label}: documents/s {spread(ours)}, bare pool {spread(theirs)}; side by side {spread(ratios)}")
    ratio = median(ratios)
    if limit is None:
        print(f"     {label} against the bare pool: {ratio:.2f}")
        return 0
    return check_limit(f"{label} against the bare pool", ratio, limit, at_most=False)


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
    return check_limit("PSS of an idle worker, MB", held / 1e6, 150, at_most=True)


def main() -> int:
    binders = [make_binder(seed, 40 + seed % 41) for seed in range(240)]
    pages = sum(binder.pages for binder in binders)
    print(f"{len(binders)} PDFs of 40 to 80 pages ({pages} in all); 540 small documents of {len(KINDS)} kinds")
    small = [make_document(KINDS[seed % len(KINDS)], seed) for seed in range(540)]
    return (
        throughput("PDFs of 40 to 80 pages", binders, 60, 0.9)
        + throughput("small documents", small, 540, None)
        + idle()
    )


if __name__ == "__main__":
    sys.exit(main())

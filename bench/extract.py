"""Extraction: the whole worker with its sandbox against kreuzberg in a bare process pool; an idle worker's memory.

Both sides read the same files with the same settings of kreuzberg and two processes, and hand back text, metadata and
language. The bare pool keeps nothing, guards nothing and never replaces a process; ours keeps documents, blobs and
results durably, checks every file, runs it in the sandbox and forks a new child for every 20 documents. Times run from
the first finished document to the last. The two sides take turns, and each turn of ours is held against the bare pool's
beside it: these machines change their pace by half within a minute.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import inturn
from bench.measure import median, pss_of_tree, spread, verdict
from inturn import NewDocument, Worker, WorkerOptions
from inturn.blobs import FolderBlobs
from inturn.demo.documents import KINDS, Made, bind, make
from inturn.processing import parser, sandbox
from inturn.store import DocumentFilter

ROUNDS = 9


def bare(path: str, media_type: str) -> tuple[str, dict[str, Any], Any]:
    """What a process of the bare pool does."""
    parsed = parser.parse(Path(path).read_bytes(), media_type)
    return parsed.content, dict(parsed.metadata), parsed.detected_languages


def _bare_pool(files: Sequence[tuple[str, str]], folder: Path) -> float:
    context, before = multiprocessing.get_context("spawn"), dict(os.environ)
    os.environ.update({**sandbox.ENVIRONMENT, "TMPDIR": str(folder), "PATH": before["PATH"]})
    try:
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            done = [time.perf_counter() for _ in as_completed([pool.submit(bare, *each) for each in files])]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return (len(files) - 1) / (done[-1] - done[0])


def _ours(made: Sequence[Made], folder: Path) -> float:
    queue, blobs = inturn.open(str(folder / "queue.db")), FolderBlobs(folder / "blobs")
    for number, each in enumerate(made):
        blob = blobs.put(io.BytesIO(each.data))
        given = NewDocument(
            each.name, blob=blob.key, sha256=blob.sha256, size=blob.size, media_type=each.media_type, pages=each.pages
        )
        queue.submit(f"customer {number % 6}", [given])
    tally = Worker(queue, blobs=blobs, options=WorkerOptions(slots=2, until_empty=True)).run()
    ends = sorted(each.finished_at or 0 for each in queue.documents(DocumentFilter(), limit=10_000).items)
    queue.close()
    if tally.done != len(made):
        raise RuntimeError(f"not all were extracted: {tally}")
    return (len(made) - 1) / ((ends[-1] - ends[0]) / 1e6)


def throughput(what: str, made: Sequence[Made], limit: float | None) -> int:
    ours, theirs = [], []
    for turn in range(ROUNDS):
        with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=Path.cwd()) as name:
            folder = Path(name)
            files = [(str(folder / str(number)), each.media_type) for number, each in enumerate(made)]
            for (path, _), each in zip(files, made, strict=True):
                Path(path).write_bytes(each.data)
            parser.prepare(folder / "library")
            if turn % 2:
                ours.append(_ours(made, folder))
            theirs.append(_bare_pool(files, folder / "library"))
            if turn % 2 == 0:
                ours.append(_ours(made, folder))
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
    return throughput("PDFs of 40 to 80 pages", binders, 0.9) + throughput("small documents", small, None) + idle()


if __name__ == "__main__":
    sys.exit(main())

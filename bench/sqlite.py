"""SQLite: against a plain executemany, against ourselves at other sizes, and against Huey on SQLite.

Huey runs at its defaults: WAL, synchronous=FULL as SQLite's own default, so it is as durable as we are. One of its
dequeues removes one task; it has no batches. Both sides write to the same folder.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
from huey.storage import SqliteStorage

import inturn
from bench.measure import check_limit, interleaved, median, spread
from inturn import NewDocument, Queue
from inturn.stores.sqlite import SqliteStore

PAYLOAD = b"x" * 200
BATCH_SIZE = 500


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk that the repository is on, not in memory."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-", dir=Path.cwd()) as name:
        yield Path(name)


def make_documents(n: int = BATCH_SIZE) -> list[NewDocument]:
    return [
        NewDocument(f"document {number:06}.pdf", uri=f"s3://bucket/incoming/{number:06}.pdf") for number in range(n)
    ]


def submits() -> int:
    """Batches of 500, each one durable commit."""
    given = make_documents()
    with folder() as path:
        queue = inturn.open(str(path / "ours.db"))
        plain = apsw.Connection(str(path / "plain.db"))
        plain.execute("PRAGMA journal_mode = WAL")
        plain.execute("PRAGMA synchronous = FULL")
        row = _sample_row(queue, given)
        columns = ", ".join(f"c{number}" for number in range(1, len(row) + 1))
        plain.execute(f"CREATE TABLE plain (c0 INTEGER PRIMARY KEY, {columns})")
        insert = f"INSERT INTO plain VALUES ({', '.join('?' * (len(row) + 1))})"  # noqa: S608 - question marks

        def ours() -> None:
            for n in range(20):
                queue.submit(f"customer {n}", given)

        def theirs() -> None:
            for _ in range(20):
                with plain:
                    plain.executemany(insert, ((None, *row) for _ in range(BATCH_SIZE)))

        mine, other = interleaved([ours, theirs], 7)
        rows = 20 * BATCH_SIZE
        print(f"documents/s {rows / median(mine):,.0f}, rows/s of executemany {rows / median(other):,.0f}")
        queue.close()
        return check_limit("submits against executemany", median(other) / median(mine), 0.5, at_most=False)


def _sample_row(queue: Queue, specs: list[NewDocument]) -> tuple[Any, ...]:
    queue.submit("width", specs[:1])
    store = queue.store
    assert isinstance(store, SqliteStore)  # noqa: S101 - opened above
    (row,) = store._queries.connection.execute("SELECT * FROM document LIMIT 1").fetchall()  # noqa: SLF001
    return tuple(row[1:])


def _drain(queue: Queue, n: int, batch: int) -> None:
    outcomes: list[Any] = []
    done = 0
    while done < n:
        claimed = queue.ack_and_claim(outcomes, "bench", batch).claimed
        outcomes = [queue.done(claim, {"pages": 3}) for claim in claimed]
        done += len(claimed)
    if outcomes:
        queue.store.ack_and_claim(outcomes, None)


def claims() -> int:
    """Claim and finish in the fair order, against Huey's dequeue of one task at a time.

    How many customers take turns matters: a batch that takes a few documents of each touches fewer pages than one that
    takes one of each, and SQLite writes whole pages.
    """
    missed = 0
    with folder() as path:
        huey = SqliteStorage("bench", str(path / "huey.db"))
        with huey.db(commit=True) as cursor:
            cursor.executemany("insert into task (queue, data) values (?, ?)", [("bench", PAYLOAD)] * 60_000)
        for customers in (10, 50):
            queue = inturn.open(str(path / f"{customers}.db"))
            for n in range(200):
                queue.submit(f"customer {n % customers}", make_documents())
            for batch in (200, 100, 50, 1):
                missed += _against_huey(queue, huey, customers, batch)
            queue.close()
    return missed


def _against_huey(queue: Queue, huey: Any, customers: int, batch: int) -> int:
    n = 2_000 if batch > 1 else 400

    def dequeue() -> None:
        for _ in range(400):
            huey.dequeue()

    mine, other = interleaved([lambda: _drain(queue, n, batch), dequeue], 7)
    ratio = median(other) / 400 / (median(mine) / n)
    print(f"{customers} customers, batches of {batch}: documents/s {n / median(mine):,.0f},"
          f" Huey's {400 / median(other):,.0f}; seconds {spread(mine)} against {spread(other)}")  # fmt: skip
    return check_limit(
        f"claim and finish by {batch}, {customers} customers, against Huey",
        ratio,
        3.0 if batch > 1 else 0.7,
        at_most=False,
    )


def vm_steps(store: SqliteStore, function: Callable[[], object]) -> int:
    """SQLite's own count of the steps of its virtual machine."""
    total = 0

    def traced(event: dict[str, Any]) -> None:
        nonlocal total
        total += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connection = store._queries.connection  # noqa: SLF001
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, traced)
    function()
    connection.trace_v2(0, None)
    return total


def _vm_steps_at(path: Path, waiting: int, customers: int) -> float:
    queue = inturn.open(str(path))
    store = queue.store
    assert isinstance(store, SqliteStore)  # noqa: S101
    store._queries.connection.execute("PRAGMA synchronous = OFF")  # noqa: SLF001 - filling, not measuring
    share = max(1, waiting // customers)
    given = make_documents(min(share, BATCH_SIZE))
    for number in range(customers):
        left = share
        while left > 0:
            queue.submit(f"customer {number:06}", given[: min(left, BATCH_SIZE)])
            left -= BATCH_SIZE
    _drain(queue, 50, 10)
    counts = [vm_steps(store, lambda: queue.claim("bench", 10)) for _ in range(40)]
    queue.close()
    return median(counts)


def steps() -> int:
    with folder() as path:
        small = _vm_steps_at(path / "small.db", 1_000, 10)
        large = _vm_steps_at(path / "large.db", 1_000_000, 10)
        many = _vm_steps_at(path / "many.db", 100_000, 100_000)
    print(f"VM steps of a claim of 10: {small:,.0f} with 1,000 waiting, {large:,.0f} with 1,000,000,"
          f" {many:,.0f} with 100,000 customers")  # fmt: skip
    return check_limit("steps, 1M waiting against 1k", large / small, 1.5, at_most=True) + check_limit(
        "steps, 100k customers against 10", many / small, 2, at_most=True
    )


def _inturn_worker(path: str, answers: "multiprocessing.Queue[float]", count: int) -> None:
    queue = inturn.open(path)
    answers.put(0.0)
    seen = 0
    while seen < count:
        claimed = queue.claim("bench", 10)
        now = time.monotonic()
        if not claimed:
            queue.store.wait(1.0)
            continue
        for claim in claimed:
            answers.put(now - claim.document.spec.metadata["sent"])
            seen += 1


def _huey_worker(path: str, answers: "multiprocessing.Queue[float]", count: int) -> None:
    huey = SqliteStorage("bench", path)
    answers.put(0.0)
    seen = 0
    while seen < count:
        data = huey.dequeue()
        if data is None:
            time.sleep(0.010)
            continue
        answers.put(time.monotonic() - float(bytes(data)))
        seen += 1


def _latency(target: Callable[..., None], path: Path, send: Callable[[], None], count: int) -> list[float]:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=target, args=(str(path), answers, count))
    process.start()
    answers.get()
    result = []
    for number in range(count):
        time.sleep(0.013 + number % 7 / 1000)
        send()
        result.append(answers.get())
    process.join()
    return result


def latency() -> int:
    """From before a submit in one process to the claim in another; Huey polls every 10 ms."""
    with folder() as path:
        queue = inturn.open(str(path / "ours.db"))
        huey = SqliteStorage("bench", str(path / "huey.db"))

        def submit() -> None:
            queue.submit("acme", [NewDocument("a", metadata={"sent": time.monotonic()})])

        ours = _latency(_inturn_worker, path / "ours.db", submit, 150)
        theirs = _latency(_huey_worker, path / "huey.db", lambda: huey.enqueue(repr(time.monotonic()).encode()), 150)
        queue.close()
    print(f"submit to claim, ms: p50 {median(ours) * 1e3:.2f}, p99 {sorted(ours)[-2] * 1e3:.1f};"
          f" Huey p50 {median(theirs) * 1e3:.2f}, p99 {sorted(theirs)[-2] * 1e3:.1f}")  # fmt: skip
    return check_limit("latency p50 against Huey's", median(ours) / median(theirs), 1, at_most=True)


def _idle_inturn(path: str, answers: "multiprocessing.Queue[float]", span: float) -> None:
    queue = inturn.open(path)
    before, end = time.process_time(), time.monotonic() + span
    while time.monotonic() < end:
        queue.claim("bench")
        queue.store.wait(end - time.monotonic())
    answers.put((time.process_time() - before) / span)


def _idle_huey(path: str, answers: "multiprocessing.Queue[float]", span: float) -> None:
    huey = SqliteStorage("bench", path)
    before, end = time.process_time(), time.monotonic() + span
    while time.monotonic() < end:
        huey.dequeue()
        time.sleep(0.010)
    answers.put((time.process_time() - before) / span)


def idle() -> int:
    """CPU of a process that waits, side by side for twenty seconds."""
    context = multiprocessing.get_context("spawn")
    with folder() as path:
        answers: list[Any] = []
        processes = []
        for target, name in ((_idle_inturn, "ours.db"), (_idle_huey, "huey.db")):
            answers.append(context.Queue())
            processes.append(context.Process(target=target, args=(str(path / name), answers[-1], 20.0)))
            processes[-1].start()
        ours, theirs = (answer.get() for answer in answers)
        for process in processes:
            process.join()
    print(f"idle CPU: {ours:.2%}, Huey at a 10 ms poll {theirs:.2%}")
    return check_limit("idle CPU against Huey's", ours / theirs, 1, at_most=True)


def main() -> int:
    print(f"SQLite {apsw.sqlite_lib_version()} (ours), {os.cpu_count()} cores; synchronous=FULL on both sides")
    return submits() + claims() + latency() + idle() + steps()

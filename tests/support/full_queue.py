"""A queue in which there is something of everything, for those who take it elsewhere; and all that it holds."""

import io
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import forked_cli
import inturn
from inturn.blobs import Blobs
from inturn.cli import app
from inturn.clock import ManualClock, SystemClock
from inturn.errors import StoreBusyError
from inturn.insights import Insights
from inturn.model import ENDED, NewDocument, ResultFile
from inturn.policy import Policy
from inturn.store import Store
from inturn.store_types import Claim, Operator, Outcome, OutcomeKind, Work
from inturn.stores import open_store, open_transfer_endpoint
from inturn.stores.transfer import Transfer
from inturn.values import SECOND

BEGIN = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND
ANNA = Operator("anna", "because the test says so")
GROUPS = ("Büro 1", "Büro 1", None, "office 2", "Büro 1")


def fill(url: str, blobs: Blobs, clock: ManualClock) -> None:
    """Several customers, levels, batches and groups, limits of all kinds, and documents in every state but running."""
    with inturn.open(url, clock=clock) as queue:
        store = queue.store
        store.set_policy(Policy.from_dict({**Policy().to_dict(), "overdue_every": 4}), ANNA)
        for customer, n in (("acme", 30), ("Büro Süd", 12), ("trickle", 2), ("paused", 6), ("capped", 5), ("rated", 5)):
            documents = [
                document(blobs, f"{customer} Nr. {i}.pdf", batch=f"batch {n}", group=GROUPS[i % len(GROUPS)])
                for i in range(n)
            ]
            queue.submit(customer, documents, key=f"first of {customer}")
            clock.advance(SECOND)
        queue.change_customer("acme", ANNA, weight=2.5)
        queue.change_customer("capped", ANNA, cap=1, keep=90 * 24 * 60 * MINUTE)
        queue.change_customer("rated", ANNA, rate=inturn.RateLimit(3, 60 * MINUTE))
        queue.pause(ANNA, "paused")
        queue.check("elsewhere", 4, key="a check alone")
        queue.submit("trickle", [NewDocument("later", delay=10 * MINUTE), NewDocument("soon", delay=SECOND)])
        queue.submit(
            "late", [NewDocument("too late", start_by=clock.now() + SECOND), NewDocument("x", metadata={"ü": 1})]
        )
        clock.advance(2 * SECOND)
        work(store, blobs, clock)
        waiting = [document.id for document in queue.documents(inturn.DocumentFilter(customer="Büro Süd")).items]
        queue.cancel(waiting[0], ANNA)
        queue.expedite(waiting[1], ANNA)
        queue.retry(waiting[0], ANNA)
        queue.cancel(waiting[2], ANNA)
        store.set_policy(store.policy().policy, ANNA)
        queue.submit("acme", [NewDocument("after all the others", start_by=clock.now() + 3 * MINUTE)] * 2)


def document(blobs: Blobs, name: str, **fields: Any) -> NewDocument:
    blob = blobs.put(io.BytesIO(name.encode()))
    return NewDocument(name, blob=blob.key, sha256=blob.sha256, size=blob.size, media_type="application/pdf", **fields)


def work(store: Store, blobs: Blobs, clock: ManualClock) -> None:
    """Claim some, and let them end in every way there is."""
    for round_ in range(5):
        claimed = inturn.Queue(store).claim("worker", limit=4)
        outcomes = [outcome(claim, number + round_, blobs) for number, claim in enumerate(claimed)]
        store.ack_and_claim(outcomes, None)
        clock.advance(SECOND)


def outcome(claim: Claim, number: int, blobs: Blobs) -> Outcome:
    id_, fence = claim.document.id, claim.fence
    if number % 4 == 0:
        blob = blobs.put(io.BytesIO(id_.encode()))
        files = (ResultFile("page-1.png", blob.key, blob.size, blob.sha256, "image/png"),)
        text = '{"pages": 1, "text": "\\u0000ü"}'
        return Outcome(id_, fence, OutcomeKind.DONE, result=text, files=files, work=Work(0, 0))
    if number % 4 == 1:
        return Outcome(id_, fence, OutcomeKind.FAILED, error="no good: ü", retry_in=None)
    if number % 4 == 2:
        return Outcome(id_, fence, OutcomeKind.FAILED, error="not now", retry_in=5 * MINUTE)
    return Outcome(id_, fence, OutcomeKind.RELEASED)


def contents(url: str) -> dict[str, Any]:
    """All rows of all tables, whatever the order of their columns, and the queue's own row."""
    endpoint = open_transfer_endpoint(url)
    try:
        with endpoint.open_reader() as reader:
            rows: dict[str, Any] = {
                table: [row for batch in reader.rows(table, sorted(columns)) for row in map(list, batch)]
                for table, columns in reader.catalog().items()
            }
            return {**rows, "queue": reader.queue(), "blobs": sorted(reader.blobs())}
    finally:
        endpoint.disconnect()


def transfer(source: str, target: str, **options: Any) -> dict[str, int] | None:
    """Move as the command does; None when nothing was left to do."""
    leaving, arriving = open_transfer_endpoint(source), open_transfer_endpoint(target)
    try:
        running_transfer = Transfer(leaving, arriving, **options)
        if not running_transfer.check():
            return None
        running_transfer.begin()
        return running_transfer.load(lambda _: None)
    finally:
        leaving.disconnect()
        arriving.disconnect()


def drain(url: str, now: int) -> list[Any]:
    """What comes of a queue from here on: every claim until nothing is left, with fences and what they say of it."""
    clock = ManualClock(now)
    reported: list[Any] = []
    with inturn.Queue(open_store(url, clock), clock=clock) as queue:
        queue.resume(ANNA, "paused")
        insights = Insights(queue, clock)
        reported += [insights.why(document.id) for document in queue.documents(limit=500).items]
        for round_ in range(200):
            claimed = queue.claim("another", limit=1 + round_ % 3)
            reported += claimed
            for claim in claimed:
                queue.finish(claim, {"round": round_})
            clock.advance(MINUTE)
        reported.append(queue.check("acme"))
        reported.append(queue.counts())
        reported.append(queue.events(limit=10_000))
        reported.append([queue.result(document.id) for document in queue.documents(limit=500).items])
        reported.append([queue.files(document.id) for document in queue.documents(limit=500).items])
        attempts = [queue.attempts(document.id) for document in queue.documents(limit=500).items]
        assert {attempt.ended for tried in attempts for attempt in tried} >= {"delayed", "handed_back"}
        reported.append(attempts)
    return reported


def command(*args: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `inturn` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(inturn.__file__).parents[1])}
    run = forked_cli.command(*args)
    return subprocess.run(run, env=environment, cwd=cwd, check=False, capture_output=True, timeout=120, **options)  # noqa: S603


def import_until_killed(path: Path, target: str, writes: int) -> None:
    """Import in a process that kills itself after so many batches of 40 rows."""
    program = f"""
import os, signal, sys
import inturn.stores.transfer, inturn.stores.stream
from inturn.stores.transfer import Load
from inturn.cli import main
inturn.stores.stream.BATCH_ROWS = 40
fill = Load.fill
def fill_until_killed(load, header, batches, on_progress):
    def some():
        for number, batch in enumerate(batches):
            if number == {writes}:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch
    fill(load, header, some(), on_progress)
Load.fill = fill_until_killed
main()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(inturn.__file__).parents[1])}
    run = [sys.executable, "-c", program, "import", str(path), "--to", target]
    killed = subprocess.run(run, env=environment, check=False, timeout=120)  # noqa: S603 - our own
    assert killed.returncode == -signal.SIGKILL


def check_live_export(source: str, target: str, folder: Path) -> None:
    """Export while documents come, run and end; the import has each of them once, and each can be claimed."""
    before, accepted = export_under_load(source, folder)
    app(["import", str(folder / "live.jsonl"), "--to", target], standalone_mode=False)
    clock = ManualClock(SystemClock().now() + 24 * 60 * MINUTE)
    with inturn.open(target, clock=clock) as queue:
        assert queue.store.recount(repair=False) == ()
        documents = list(pages(queue))
        ids = [document.id for document in documents]
        assert set(before) <= set(ids) <= set(accepted)
        assert len(ids) == len(set(ids))
        assert {document.state for document in documents} == {"waiting", "running", "done"}
        left = sorted(document.id for document in documents if document.state not in ENDED)
        claimed: list[str] = []
        queue.store.sweep()
        while len(claimed) < len(left):
            claims = queue.claim("another", limit=20)
            assert claims
            claimed += [claim.document.id for claim in claims]
            outcomes = [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result="1") for claim in claims]
            queue.store.ack_and_claim(outcomes, None)
        assert (sorted(claimed), queue.claim("another")) == (left, ())
        assert queue.store.recount(repair=False) == ()
        numbers = [event.number for event in queue.events(limit=10_000)]
        assert numbers == list(range(1, len(numbers) + 1))


def export_under_load(source: str, folder: Path) -> tuple[list[str], list[str]]:
    """Write live.jsonl; the documents accepted before it began, and all of them."""
    accepted: list[str] = []
    stop = threading.Event()
    documents = [NewDocument("x", group=group) for group in GROUPS]

    def submit() -> None:
        with inturn.open(source) as queue:
            for number in itertools.count():
                receipts = queue.submit(f"customer {number % 3}", documents, key=f"submit {number}")
                accepted.extend(receipt.id for receipt in receipts)
                if stop.wait(0.02):
                    return

    def work() -> None:
        with inturn.open(source) as queue:
            while not stop.wait(0.02):
                for claim in queue.claim("worker", limit=4):
                    if claim.fence % 4:  # the others stay running
                        queue.finish(claim)

    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(submit), pool.submit(work)]
        try:
            while len(accepted) < 100 and not threads[0].done():
                time.sleep(0.01)
            before = list(accepted)
            export = ["export", "--store", source, "--out", str(folder / "live.jsonl")]
            with pytest.raises(StoreBusyError, match="are running"):
                app(export, standalone_mode=False)
            app([*export, "--live"], standalone_mode=False)
        finally:
            stop.set()
        for thread in threads:
            thread.result(60)
    return before, accepted


def pages(queue: inturn.Queue) -> Iterator[inturn.Document]:
    """All documents."""
    after = None
    while True:
        page = queue.documents(limit=500, after=after)
        yield from page.items
        after = page.next
        if after is None:
            return

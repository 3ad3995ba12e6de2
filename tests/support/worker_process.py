"""What the processes of these tests do, one line of JSON for each message.

work(folder, options)    a worker; sends "ready" when it can be seen, its counts of outcomes at the end
walk(url, blobs, options)  the same, for documents with a plan of steps
submit(folder, seed)     submits without end; sends the ids of each call once it has returned
tidy(folder)             maintenance, round after round without end; sends how many rounds
"""

import itertools
import json
import random
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from inturn.blobs import FolderBlobs
from inturn.model import NewDocument
from inturn.policy import RetryPolicy
from inturn.queue import Queue
from inturn.store_types import Submission
from inturn.stores import open_store
from inturn.stores.sqlite import SqliteStore
from inturn.worker.maintenance import Maintenance
from inturn.worker.worker import Worker, WorkerOptions

LARGE_CALLS = 8
"""What is submitted has to be processed in the end: after these, a submitter submits one document at a time."""
CUSTOMERS = ("acme", "böhm", "cruz", "dąbek")
MAX_ATTEMPTS = 100
FAST_RETRIES = RetryPolicy(first_delay=1_000, longest_delay=8_000)


def emit(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def open_queue(folder: str) -> tuple[Queue, FolderBlobs]:
    return Queue(SqliteStore(Path(folder, "queue.db")), retries=FAST_RETRIES), FolderBlobs(Path(folder, "blobs"))


def work(folder: str, options: str) -> None:
    run(*open_queue(folder), "processors:act", options)


def walk(url: str, blobs: str, options: str) -> None:
    run(Queue(open_store(url), retries=FAST_RETRIES), FolderBlobs(Path(blobs)), "step_processors:walk", options)


def run(queue: Queue, blobs: FolderBlobs, processor: str, options: str) -> None:
    worker = Worker(queue, processor, blobs=blobs, options=WorkerOptions(**json.loads(options)))

    def wait_until_seen() -> None:
        while not any(item.report.name == worker.name for item in queue.store.workers()):
            time.sleep(0.01)
        emit("ready")

    threading.Thread(target=wait_until_seen, daemon=True).start()
    emit(worker.run()._asdict())
    queue.close()


def submit(folder: str, seed: str) -> None:
    queue, blobs = open_queue(folder)
    chance = random.Random(seed)
    emit("ready")
    for call in itertools.count():
        customer = chance.choice(CUSTOMERS)
        n = chance.choice([1, 8, 30]) if call < LARGE_CALLS else 1
        ids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(n)]
        emit(["may be", customer, ids])
        with blobs.begin() as writing:
            writing.write(ids[0].encode())
            blob = writing.commit()
        stored = {"blob": blob.key, "sha256": blob.sha256, "size": blob.size}
        # A lost lease is an attempt; here every document may lose many.
        given = [
            NewDocument("with bytes", metadata={"do": "read_once"}, max_attempts=MAX_ATTEMPTS, **stored),
            *(NewDocument("without", metadata={"do": "echo"}, max_attempts=MAX_ATTEMPTS) for _ in ids[1:]),
        ]
        queue.store.submit(Submission(customer, ids, given))
        emit(["are", customer, ids])
        time.sleep(0.01 if call < LARGE_CALLS else 0.05)


def tidy(folder: str) -> None:
    queue, blobs = open_queue(folder)
    maintenance_run = Maintenance(queue, blobs)
    emit("ready")
    for rounds in range(10**9):
        maintenance_run.run_round()
        emit(rounds)
        time.sleep(0.05)

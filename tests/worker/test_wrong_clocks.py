"""G14: a wrong clock destroys nothing. Real processes under libfaketime, on SQLite and PostgreSQL.

Workers, maintenance and a server run with a clock that is a day or ten years off. Then the clock is right again:
nothing was deleted early, and no lease, rate or delay is held longer than its own length.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import inturn as package
from forked_cli import command
from http_server import ServerProcess
from inturn.blobs import FolderBlobs
from inturn.clock import SystemClock, Uptime, machine_uptime
from inturn.model import DocumentState, NewDocument, RateLimit
from inturn.policy.retention import MIN_SETTLED_UPTIME
from inturn.queue import Queue
from inturn.store_answers import AheadOfClock
from inturn.store_types import DocumentFilter, Operator
from inturn.stores import open_store
from inturn.values import SECOND
from inturn.worker.maintenance import Maintenance
from services import FAKETIME, drop_schema, needs_faketime, needs_postgres, new_schema

pytestmark = needs_faketime

ANNA = Operator("anna", "because the test says so")
SOAK = os.environ.get("INTURN_SOAK") == "1"
DAY = 86_400 * SECOND
LENGTH = 60 * SECOND
"""Of every lease, delay and rate here."""
JUMPS = ("+1d", "-1d", "+3650d")
MORE_JUMPS = ("-3650d", "+2d", "-2d", "+400d")
PAIRS = [
    *(pytest.param("sqlite", jump, id=f"sqlite {jump}") for jump in (*JUMPS, *MORE_JUMPS * SOAK)),
    *(
        pytest.param("postgres", jump, id=f"postgres {jump}", marks=needs_postgres)
        for jump in (*JUMPS[2:], *(*JUMPS[:2], *MORE_JUMPS) * SOAK)
    ),
]
PROCESSOR = "def process(document):\n    return {'text': document.name}\n"
DYING_WORKER = """
import os, sys
from inturn.model import NewDocument
from inturn.worker_report import WorkerReport
from inturn.queue import Queue
from inturn.stores import open_store
length = 60_000_000
queue = Queue(open_store(sys.argv[1]))
queue.store.record_worker(WorkerReport("dying", "host", os.getpid(), 1, 1, "p", 0))
claimed = queue.claim("dying", 3, lease=length)
assert len(claimed) == 3, claimed
queue.heartbeat(claimed[:1], lease=length)
queue.store.fail(claimed[1].document.id, claimed[1].fence, "busy", length)
queue.submit("late", [NewDocument("delayed", delay=length)])
os.kill(os.getpid(), 9)
"""


class SkewedClock:
    """Programs whose clock is wrong."""

    def __init__(self, jump: str, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        (folder / "wrong_clock_processor.py").write_text(PROCESSOR)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("INTURN_")},
            "PYTHONPATH": f"{Path(package.__file__).parents[1]}{os.pathsep}{folder}",
            "LANG": "C.UTF-8",
            "INTURN_STORE": url,
            "INTURN_BLOBS": str(folder / "blobs"),
            "INTURN_PROCESSOR": "wrong_clock_processor:process",
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME": jump,
            "NO_FAKE_STAT": "1",
        }

    def dying_worker(self) -> None:
        """Hold a document, delay another, submit one with a delay, and be killed."""
        done = self._run([sys.executable, "-c", DYING_WORKER, self._url])
        assert done.returncode == -signal.SIGKILL, done.stderr

    def worker(self) -> None:
        """Process what waits."""
        done = self._run(self._command("worker", "--until-empty"))
        assert done.returncode == 0, done.stderr

    def round(self) -> subprocess.CompletedProcess[str]:
        return self._run(self._command("upkeep", "--once"))

    def automatic_maintenance(self) -> str:
        """Run maintenance until it is stopped; return its log."""
        process = subprocess.Popen(  # noqa: S603 - our own
            self._command("upkeep"),
            cwd=self._folder,
            env=self._environment,
            stderr=subprocess.PIPE,
            bufsize=0,  # what a buffer held behind the first line, `communicate` would not return
        )
        assert process.stderr is not None
        reported = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        return (reported + process.communicate(timeout=60)[1]).decode()

    def server(self) -> None:
        """Submit through a server, and read a list from it."""
        server = ServerProcess(self._folder, **self._environment)
        with server.client() as client:
            answer = client.post("/v1/documents", json={"customer": "web", "documents": [{"name": "by a server"}]})
            assert answer.status_code == 202, answer.text
            assert client.get("/v1/documents").status_code == 200
        assert server.stop() == 0

    def _command(self, *arguments: str) -> list[str]:
        """Forked from a process that has this clock too."""
        return command(*arguments, environment=self._environment)

    def _run(self, program: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own
            program,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield str(tmp_path / "queue.db")
        return
    address = new_schema()
    yield address
    drop_schema(address)


@pytest.fixture
def queue(url: str) -> Iterator[Queue]:
    with Queue(open_store(url)) as queue:
        yield queue


def end(queue: Queue, customer: str, n: int, ago: int = 0) -> list[str]:
    """So many documents were processed so long ago."""
    then = SystemClock().now() - ago
    ids = [receipt.id for receipt in queue.submit(customer, [NewDocument("n")] * n, now=then)]
    for claimed in queue.claim("w", n, now=then):
        queue.finish(claimed, {"text": "kept"}, now=then)
    return ids


def states(queue: Queue) -> dict[DocumentState, int]:
    return dict(queue.store.counts(DocumentFilter()).states)


def settled_uptime() -> Uptime | None:
    """Of this boot, and an hour or more: rounds soon after a boot are no reference for later ones."""
    uptime = machine_uptime()
    return uptime and uptime._replace(microseconds=max(uptime.microseconds, MIN_SETTLED_UPTIME))


@pytest.mark.parametrize(("kind", "jump"), PAIRS)
def test_g14_a_wrong_clock_destroys_nothing(kind: str, jump: str, url: str, queue: Queue, tmp_path: Path) -> None:
    blobs, error = FolderBlobs(tmp_path / "blobs"), SkewedClock(jump, url, tmp_path)
    old, stored = end(queue, "acme", 3, 40 * DAY), end(queue, "acme", 12, 20 * DAY) + end(queue, "beta", 8)
    on_its_way = blobs.put(io.BytesIO(b"bytes of a document that is submitted in a moment"))

    # Maintenance with a wrong clock: where the database has a clock of its own, that one rules.
    first = error.round()
    present = {document.id for document in queue.documents(DocumentFilter(), limit=100).items}
    assert present >= set(stored)
    if kind == "postgres":
        assert first.returncode == 0, first.stderr
        assert not present & set(old)
    elif jump == "+3650d":
        assert (first.returncode, present & set(old)) == (1, set(old))
        assert "23 of 23 ended documents" in first.stderr
        assert "WARNING" in error.automatic_maintenance().upper()
    # The clock is right, and the round before changed nothing.
    assert Maintenance(queue, blobs, uptime=settled_uptime).run_round().refusal is None

    # Workers and a server with a wrong clock: one is killed in the middle of its work.
    stored += [receipt.id for receipt in queue.submit("work", [NewDocument("n")] * 2)]
    error.server()
    error.worker()
    queue.change_customer("rated", ANNA, rate=RateLimit(1, LENGTH))
    stored += [receipt.id for receipt in queue.submit("rated", [NewDocument("n")] * 2)]
    stored += [receipt.id for receipt in queue.submit("gamma", [NewDocument("n")] * 2)]
    error.dying_worker()
    error.automatic_maintenance()
    assert error.round().returncode == (1 if kind == "sqlite" and jump == "+3650d" else 0)

    # The clock is right again.
    now = queue.store.now()
    queue.store.sweep(now=now)
    queue.store.sweep(now=now + LENGTH)
    assert DocumentState.RUNNING not in states(queue)
    assert DocumentState.DELAYED not in states(queue)
    assert queue.store.ahead_of_clock(now=now + LENGTH) == AheadOfClock()
    for later in range(1, 4):
        for claimed in queue.claim("w", 10, now=now + later * LENGTH):
            queue.finish(claimed, now=now + later * LENGTH)
    assert Maintenance(queue, blobs).run_round().refusal is None
    documents = {document.id: document for document in queue.documents(DocumentFilter(), limit=100).items}
    assert set(stored) <= set(documents)
    assert {document.state for document in documents.values()} == {DocumentState.DONE}
    assert len(documents) == len(stored) + 2  # one came by the server, one from the worker that died
    assert all(queue.result(id_) is not None for id_ in stored[:22])
    blobs.check(on_its_way.key, on_its_way.sha256)
    assert queue.store.recount(repair=False) == ()

"""G1, G3, G4 and G10 with real workers: killed, paused and rolled over, they lose nothing and record all of it once."""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw

import processors
from inturn.model import DocumentState
from inturn.store_types import EventKind
from waiting import TIMEOUT_SECONDS
from worker_harness import (
    SECOND,
    ScriptProcess,
    WorkerHarness,
    children_of,
    descendants_of,
    eventually,
    is_alive,
    proc_stat,
)

Start = Callable[..., ScriptProcess]
SOAK = os.environ.get("INTURN_SOAK") == "1"
KILLS = 75 if SOAK else 25
DOCUMENTS = 1_900 if SOAK else 600
PAUSES = 10 if SOAK else 3
ROLES = ("work", "work", "submit", "tidy")
LEASE = SECOND


def options(**given: object) -> str:
    return json.dumps({"lease": LEASE, **given})


def is_sound(harness: WorkerHarness) -> None:
    """The file is whole, and every kept count agrees with the documents."""
    connection = apsw.Connection(str(harness.path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    finally:
        connection.close()
    assert harness.store.recount(repair=False) == ()


class Books:
    """What submitters said: documents that were accepted, and those of a call that was under way when they died."""

    def __init__(self) -> None:
        self.accepted: dict[str, str] = {}
        self.may_be: list[set[str]] = []

    def enter(self, reported: list[list[object]]) -> None:
        lines = [line for line in reported if line != "ready"]
        for word, customer, ids in lines:  # type: ignore[misc]
            if word == "are":
                self.accepted.update(dict.fromkeys(ids, customer))  # type: ignore[arg-type]
        self.may_be += [set(ids) for word, _, ids in lines if word == "may be" and ids[0] not in self.accepted]  # type: ignore[misc,index]


def test_g1_g4_workers_submitters_and_upkeep_killed_at_any_moment_lose_nothing(
    harness: WorkerHarness, start: Start, tmp_path: Path
) -> None:
    chance, books, killed, orphans = random.Random(1), Books(), Counter[str](), []
    runs = 0

    def begin(role: str) -> tuple[str, ScriptProcess]:
        nonlocal runs
        runs += 1
        last = {"work": options(slots=2), "submit": f"run {runs}", "tidy": None}[role]
        return role, start(role, harness.folder, *([] if last is None else [last]))

    running = [begin(role) for role in ROLES]
    while killed.total() < KILLS or len(books.accepted) < DOCUMENTS:
        ready = eventually(lambda: [at for at, (_, process) in enumerate(running) if process.has_message()])
        time.sleep(chance.uniform(0.01, 0.05))  # a random moment; nothing waits for it
        at = chance.choice(ready)
        role, process = running[at]
        children = descendants_of(process.pid)
        process.kill()
        orphans += children
        killed[role] += 1
        if role == "submit":
            books.enter(process.messages)
        running[at] = begin(role)
    for role, process in running:
        process.kill()
        killed[role] += 1
        if role == "submit":
            books.enter(process.messages)
    assert len(orphans) >= killed["work"] // 2
    eventually(lambda: not any(is_alive(*child) for child in orphans), "a killed worker's child lives on")
    scratch = str(tmp_path / "scratch").encode()
    commands = [path for path in Path("/proc").glob("[0-9]*/cmdline") if scratch in _bytes_of(path)]
    assert commands == []

    present = {document.id: document.customer for document in harness.all_documents()}
    assert books.accepted.keys() - present.keys() == set()  # lost
    in_flight = present.keys() - books.accepted.keys()
    assert in_flight - set().union(*books.may_be) == set()  # unexpected
    for call in books.may_be:
        assert call & in_flight in (set(), call)
    harness.run_until_empty(lease=LEASE)
    assert harness.states() == {"done": len(present)}
    assert harness.count_events(EventKind.FINISHED) == Counter(present.keys())
    for document in harness.all_documents():
        result = harness.queue.result(document.id)
        match = harness.store.document(document.id).spec.blob
        if match is not None:
            with harness.blobs.open(match) as source:
                assert source.read().decode() == result
        else:
            assert result["id"] == document.id
    for customer, n in Counter(present.values()).items():
        assert harness.queue.customer(customer).count == 1 - n
    is_sound(harness)
    assert killed.total() >= KILLS
    assert len(present) >= DOCUMENTS
    assert min(killed[role] for role in ROLES) >= KILLS // 15


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_g1_no_child_outlives_a_killed_worker(harness: WorkerHarness, start: Start, marker_dir: Path) -> None:
    harness.submit_many(2, "sleep", place=str(marker_dir))
    worker = start("work", harness.folder, options(slots=2))
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*") == 2)
    children = descendants_of(worker.pid)
    worker.signal(signal.SIGKILL)  # and not `kill`, which would wait for whoever still has its standard output
    try:
        assert len(children) == 2
        eventually(lambda: not any(is_alive(*child) for child in children))
    finally:
        for child in children:
            if is_alive(*child):
                os.kill(child[0], signal.SIGKILL)


def fall_asleep(process: ScriptProcess) -> None:
    process.signal(signal.SIGSTOP)
    eventually(lambda: (proc_stat(process.pid) or " ")[0] == "T")


def test_g3_a_worker_that_slept_longer_than_its_lease_records_nothing(
    harness: WorkerHarness, start: Start, marker_dir: Path
) -> None:
    sleeper = start("work", harness.folder, options(slots=1))
    assert sleeper.receive() == "ready"
    ids, probes = [], []
    for pause in range(PAUSES):
        id_ = harness.submit("wait", place=str(marker_dir), sign=f"go-{pause}-ATTEMPT")
        ids.append(id_)
        eventually(lambda id_=id_: processors.count_files(str(marker_dir), f"begun-{id_}-1"))
        harness.store.write(lambda _: fall_asleep(sleeper))  # not while it holds the lock of the store
        # Its child works on and is done before the lease is over; the sleeper has not heard of it.
        (marker_dir / f"go-{pause}-1").touch()
        eventually(lambda id_=id_: processors.count_files(str(marker_dir), f"ended-{id_}-1"))
        other = harness.start_worker(slots=1, lease=LEASE)
        eventually(lambda id_=id_: processors.count_files(str(marker_dir), f"begun-{id_}-2"))
        sleeper.signal(signal.SIGCONT)
        # The other is busy: once the sleeper has done this one, it has also said what it knew of the first.
        probes.append(harness.submit("sign", "probe", place=str(marker_dir)))
        eventually(lambda: harness.state(probes[-1]) is DocumentState.DONE)
        assert (harness.state(id_), harness.queue.result(id_)) == (DocumentState.RUNNING, None)
        (marker_dir / f"go-{pause}-2").touch()
        eventually(lambda id_=id_: harness.state(id_) is DocumentState.DONE)
        assert other.stop().done == 1
    sleeper.signal(signal.SIGTERM)
    assert sleeper.wait() == 0, sleeper.stderr_text()
    tally = sleeper.messages[-1]
    assert (tally["done"], tally["retried"], tally["failed"]) == (PAUSES, 0, 0)  # the probes
    assert tally["stale"] >= 1
    assert harness.count_events(EventKind.FINISHED) == Counter([*ids, *probes])
    assert harness.count_events(EventKind.LEASE_LOST) == Counter(ids)
    for id_ in ids:
        assert (harness.queue.document(id_).attempt, harness.queue.result(id_)) == (2, 2)
    is_sound(harness)


def test_g10_rollouts_lose_nothing_and_burn_no_attempt(harness: WorkerHarness, start: Start, tmp_path: Path) -> None:
    def pair() -> list[ScriptProcess]:
        both = [start("work", harness.folder, options(slots=2, lease=60 * SECOND)) for _ in range(2)]
        for script_process in both:
            assert script_process.receive() == "ready"
        return both

    log, ids = tmp_path / "log", []
    old = pair()
    for _ in range(2):
        for n in range(4):
            ids += harness.submit_many(40, "overlap", f"customer {n}", log=str(log), seconds=0.01)
        done = harness.states().get("done", 0)
        eventually(lambda done=done: harness.states().get("done", 0) > done + 10)
        new = pair()
        for script_process in old:
            script_process.signal(signal.SIGTERM)
        assert [script_process.wait() for script_process in old] == [0, 0], old[0].stderr_text() + old[1].stderr_text()
        old = new
    eventually(lambda: harness.states() == {"done": len(ids)})
    for script_process in old:
        script_process.signal(signal.SIGTERM)
    assert [script_process.wait() for script_process in old] == [0, 0]
    assert [harness.queue.document(id_).attempt for id_ in ids] == [1] * len(ids)
    assert harness.count_events(EventKind.FINISHED) == Counter(ids)
    assert harness.count_events(EventKind.LEASE_LOST) == {}
    # A child may begin its next document in the moment in which it is taken back; that run's outcome is refused.
    stopped_children = 2 * 2 * 2
    assert 0 <= log.read_text(encoding="ascii").count("+") - len(ids) <= stopped_children
    assert harness.store.workers() == ()
    is_sound(harness)


def test_g10_what_does_not_end_within_the_grace_is_handed_back(
    harness: WorkerHarness, start: Start, marker_dir: Path
) -> None:
    ids = harness.submit_many(2, "sleep", place=str(marker_dir), max_attempts=1)
    worker = start("work", harness.folder, options(slots=2, grace=SECOND // 2))
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*") == 2)
    children = children_of(worker.pid)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.stderr_text()
    assert worker.messages[-1]["handed_back"] == 2
    for id_ in ids:
        document = harness.queue.document(id_)
        assert (document.state, document.attempt) == (DocumentState.WAITING, 0)
    assert not any(is_alive(*child) for child in children)


def test_g10_a_second_sigterm_ends_at_once_and_hands_back(
    harness: WorkerHarness, start: Start, marker_dir: Path
) -> None:
    ids = harness.submit_many(3, "sleep", place=str(marker_dir), max_attempts=1)
    worker = start("work", harness.folder, options(slots=2, grace=3_600 * SECOND))
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*") == 2)
    worker.signal(signal.SIGTERM)
    eventually(lambda: [worker for worker in harness.store.workers() if worker.report.stopping])
    assert harness.states() == {"running": 2, "waiting": 1}
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.stderr_text()
    assert [harness.queue.document(id_).attempt for id_ in ids] == [0] * 3
    assert harness.states() == {"waiting": 3}
    assert harness.store.workers() == ()


def test_g10_impatient_operators_do_no_harm(harness: WorkerHarness, start: Start, marker_dir: Path) -> None:
    """SIGTERM again and again, and Ctrl-C too: what runs is handed back all the same."""
    ids = harness.submit_many(2, "sleep", place=str(marker_dir), max_attempts=1)
    worker = start("work", harness.folder, options(slots=2, grace=3_600 * SECOND))
    eventually(lambda: processors.count_files(str(marker_dir), "begun-*") == 2)
    until = time.monotonic() + TIMEOUT_SECONDS
    began = (proc_stat(worker.pid) or [""] * 20)[19]
    while is_alive(worker.pid, began) and time.monotonic() < until:
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)
        time.sleep(0.001)
    worker.wait()  # the last one may have come after the worker, and ended the program that ran it
    assert [harness.queue.document(id_).attempt for id_ in ids] == [0] * 2
    assert harness.states() == {"waiting": 2}
    assert harness.store.workers() == ()

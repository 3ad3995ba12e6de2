"""A worker goes on after any error of its store, whatever its class: it logs, backs off and tries again."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inturn.errors import StoreBusyError
from inturn.model import DocumentState
from inturn.stores.sqlite import SqliteStore
from inturn.values import seconds
from inturn.worker import store_errors
from inturn.worker.maintenance import Maintenance
from inturn.worker.store_errors import Backoff, log_store_error
from worker_harness import WorkerHarness, eventually

CALLS = ("ack_and_claim", "heartbeat", "record_worker", "next_due", "wait", "sweep", "forget_worker")
ERRORS = (StoreBusyError("locked"), AssertionError("a lane has no head"), RuntimeError("a bug"), OSError("an old disk"))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Every method that a worker calls fails at its first calls, each time with another error."""
    failures: dict[str, int] = dict.fromkeys(CALLS, 0)
    lock = threading.Lock()
    monkeypatch.setattr(store_errors, "FIRST_PAUSE_SECONDS", 0.01)

    def failing_at_first(name: str) -> Any:
        method = getattr(SqliteStore, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with lock:
                turn = failures[name]
                failures[name] += turn < len(ERRORS)
            if turn < len(ERRORS):
                raise ERRORS[turn]
            return method(*args, **kwargs)

        return call

    for name in CALLS:
        monkeypatch.setattr(SqliteStore, name, failing_at_first(name))
    return failures


def test_worker_survives_every_error_of_its_store(
    harness: WorkerHarness,
    marker_dir: Path,
    failing: dict[str, int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inturn.worker.maintenance.SWEEP_INTERVAL_SECONDS", 0.01)
    harness.submit_many(5, do="echo")
    harness.submit("wait", place=str(marker_dir), sign="go")
    running = harness.start_worker(slots=2, lease=seconds(4), maintenance=Maintenance(harness.queue, harness.blobs))
    for name in ("ack_and_claim", "heartbeat", "record_worker", "sweep"):
        eventually(lambda name=name: failing[name] == len(ERRORS), f"{name} was not called again")
    (marker_dir / "go").touch()
    eventually(lambda: harness.states().get("done") == 6)
    assert running.stop().done == 6
    assert "a lane has no head" in caplog.text


def test_an_outcome_that_is_always_refused_stops_nothing_else(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_errors, "FIRST_PAUSE_SECONDS", 0.01)
    refused = harness.submit("echo", max_attempts=1)
    ids = harness.submit_many(20, "echo")
    exchange = SqliteStore.ack_and_claim

    def refusing(store: SqliteStore, outcomes: Any, *args: Any, **kwargs: Any) -> Any:
        if any(outcome.id == refused for outcome in outcomes):
            raise OverflowError("too large for the column")
        return exchange(store, outcomes, *args, **kwargs)

    monkeypatch.setattr(SqliteStore, "ack_and_claim", refusing)
    running = harness.start_worker(slots=1, lease=seconds(2))
    eventually(lambda: all(harness.state(id_) is DocumentState.DONE for id_ in ids))
    eventually(lambda: harness.store.sweep() and harness.state(refused) is DocumentState.FAILED)
    assert running.stop().done == len(ids)
    assert f"document {refused}: its outcome cannot be recorded" in caplog.text


def test_pauses_grow_and_begin_again() -> None:
    backoff = Backoff()
    assert [backoff.next_pause() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    backoff.reset()
    assert backoff.next_pause() == 1


def test_unexpected_errors_are_logged_with_their_traceback(caplog: pytest.LogCaptureFixture) -> None:
    log_store_error("the store cannot be used", StoreBusyError("locked"))
    log_store_error("the store cannot be used", RuntimeError("a bug"))
    expected, unexpected = caplog.records
    assert (expected.levelno, expected.exc_info) == (logging.WARNING, None)
    assert unexpected.levelno == logging.ERROR
    assert unexpected.exc_info is not None

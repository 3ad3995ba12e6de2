"""The event poller goes on after errors of any kind: all streams and long polls of a server depend on it."""

import threading

import pytest

from inturn.errors import StoreError
from inturn.http import event_poller
from inturn.http.event_poller import EventPoller
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Event
from inturn.stores import open_store

TIMEOUT_SECONDS = 30


class FailingQueue(Queue):
    """A queue whose next wait raises an error, once."""

    error: Exception | None = None

    def wait(self, timeout: float) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        super().wait(timeout)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poller, "RETRY_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(event_poller, "POLL_INTERVAL_SECONDS", 0.05)


@pytest.mark.parametrize("error", [StoreError("the disk is away"), ZeroDivisionError("a defect")])
@pytest.mark.parametrize("where", ["wait", "periodic task"])
def test_poller_goes_on_after_an_error(error: Exception, where: str) -> None:
    queue = FailingQueue(open_store("memory://"))
    poller = EventPoller(queue, max_waiters=1)
    received, failed = threading.Event(), threading.Event()

    def receive(events: object) -> None:
        assert isinstance(events, tuple | list)
        assert all(isinstance(event, Event) for event in events)
        received.set()

    def fail_once() -> None:
        if not failed.is_set():
            failed.set()
            raise error

    poller.listeners.append(receive)
    if where == "wait":
        queue.error = error
    else:
        poller.periodic_tasks.append(fail_once)
    poller.start()
    try:
        if where == "periodic task":
            assert failed.wait(TIMEOUT_SECONDS)
        queue.submit("acme", [NewDocument("a document")])
        assert received.wait(TIMEOUT_SECONDS)
    finally:
        poller.stop()
        queue.close()

"""A worker logs each change of a document's state, and no text of a document."""

import logging

import pytest

from worker_harness import DONE, WorkerHarness, eventually

TEXT = "the text of a document"


def test_each_state_change_of_a_document_is_logged(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "inturn.worker")
    good = harness.submit("echo", content=TEXT.encode(), value=TEXT)
    bad = harness.submit("fail", message=TEXT, max_attempts=2)
    harness.run_until_empty()
    messages = [record.getMessage() for record in caplog.records if record.name == "inturn.worker"]

    def of(id_: str) -> list[str]:
        return [message for message in messages if message.startswith(f"document {id_}")]

    assert [message.split(": ", 1)[1].split(" in child")[0] for message in of(good)] == [
        "claimed, attempt 1",
        "started",
        "finished",
    ]
    assert [len(of(bad)), "to be tried again" in of(bad)[2], "for good" in of(bad)[5]] == [6, True, True]
    assert TEXT not in caplog.text


def test_start_and_end_of_a_worker_are_logged(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "inturn.worker")
    running = harness.start_worker(name="mill", slots=1)
    id_ = harness.submit("echo")
    eventually(lambda: harness.state(id_) is DONE)
    running.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "worker mill is ready: 1 slot, processor processors:act",
        "worker mill stops: running documents have 30 s to finish",
        "worker mill ended: 1 done, 0 retried, 0 failed, 0 handed back, 0 stale",
    ]

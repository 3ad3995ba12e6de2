"""What boxed children print: in the worker's log, as theirs, and never as the worker's own words."""

import logging

import pytest

from inturn.sandbox.confinement import SandboxLimits
from inturn.worker.child_output import MAX_LINE_BYTES, MAX_LINES_PER_SECOND
from worker_harness import WorkerHarness


@pytest.fixture(autouse=True)
def _worker_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "inturn.worker")


def printed(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "print" in record.getMessage()]


def test_what_a_boxed_child_prints_is_logged_as_its_own(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = ["one\ntwo\n\n", "\x1b]0;a title\x07\n", "half", " a line\n", "\xff\x00\n"]
    harness.submit("shout", texts=texts)
    harness.run_until_empty(box=SandboxLimits(), slots=1)
    assert printed(caplog) == [
        "a child printed: one",
        "a child printed: two",
        "a child printed:  ]0;a title",
        "a child printed: half a line",
        "a child printed: ÿ",
        "a child printed: and an error",
    ]
    assert capfd.readouterr() == ("", "")


def test_a_child_that_prints_without_end_fills_no_log(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    id_ = harness.submit("shout", texts=["x", "\n", "y\n"], times=50_000)
    harness.run_until_empty(box=SandboxLimits(), slots=1)
    assert harness.queue.document(id_).error is None
    lines = printed(caplog)
    assert lines[0] == f"a child printed: {'x' * MAX_LINE_BYTES}"
    assert 0 < lines.count("a child printed: y") <= 20 * MAX_LINES_PER_SECOND
    assert any("the rest is not logged" in line for line in lines)


def test_outside_the_sandbox_a_processor_prints_where_the_worker_does(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    harness.submit("shout", texts=["hello\n"], flushes=True)
    harness.run_until_empty(slots=1)
    assert printed(caplog) == []
    assert capfd.readouterr() == ("hello\n", "and an error\n")

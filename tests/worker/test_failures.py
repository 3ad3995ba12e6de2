"""Failed attempts: what is logged of them, what a reference that is not fetched says, and what the fuse counts."""

import logging
from typing import Any

import pytest

from inturn.model import DocumentState
from inturn.processor_api import describe_unfetched
from inturn.worker.circuit_breaker import TRIP_CUSTOMERS, TRIP_FAILURES, CircuitBreaker
from inturn.worker.inflight import MAX_LOGGED_CHARS, describe_failure
from inturn.worker.worker import OutcomeCounts
from worker_harness import WorkerHarness

QUOTED = "IBAN DE89 3704 0044 0532 0130 00"


def failures(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """Each line on a failed attempt, with its facts."""
    records = [record for record in caplog.records if "failed" in record.getMessage()]
    return [(record.getMessage(), getattr(record, "facts", {})) for record in records]


def test_each_failed_attempt_is_a_line_in_the_log(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    id_ = harness.submit("fail", "globex", message=QUOTED, max_attempts=2)
    with caplog.at_level(logging.WARNING, "inturn.worker"):
        assert harness.run_until_empty() == OutcomeCounts(retried=1, failed=1)
    (first, facts), (second, _) = failures(caplog)
    assert first.startswith(f"document {id_} of customer globex: attempt 1 of 2 failed, to be tried again: LookupError")
    assert second.startswith(f"document {id_} of customer globex: attempt 2 of 2 failed, for good: LookupError at")
    assert "processors.py:" in second
    assert facts == {
        "document": id_,
        "customer": "globex",
        "attempt": 1,
        "max_attempts": 2,
        "again": True,
        "reason": facts["reason"],
    }
    assert facts["reason"].endswith("in fail")
    assert QUOTED not in caplog.text
    assert QUOTED in (harness.queue.document(id_).error or "")


def test_a_reason_in_the_processors_own_words_is_logged(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.submit("reject", reason="no total on page 3\nand more")
    with caplog.at_level(logging.WARNING, "inturn.worker"):
        assert harness.run_until_empty() == OutcomeCounts(failed=1)
    ((line, _),) = failures(caplog)
    assert line.endswith("attempt 1 of 3 failed, for good: no total on page 3")


@pytest.mark.parametrize(
    ("error", "output"),
    [
        ("", ""),
        ("it took longer than 5 s", "it took longer than 5 s"),
        ("x" * 999, "x" * MAX_LOGGED_CHARS),
        ('KeyError: 1\n\n  File "/srv/read.py", line 3, in total', "KeyError at read.py:3 in total"),
        ('a.B: x\n  File "/a.py", line 1, in f\n    x\n  File "/b.py", line 2, in g\n', "a.B at b.py:2 in g"),
        ('?? secret\n  File "/a.py", line 1, in f', "an exception at a.py:1 in f"),
    ],
)
def test_a_reason_is_shortened_for_the_log(error: str, output: str) -> None:
    assert describe_failure(error) == output


# -- references -----------------------------------------------------------------------------------------------------


def test_a_reference_that_is_not_fetched_says_which_option_allows_it(harness: WorkerHarness) -> None:
    id_ = harness.submit("read", uri="https://files.example.com/a.pdf?token=sesame")
    assert harness.run_until_empty() == OutcomeCounts(failed=1)
    error = harness.queue.document(id_).error or ""
    assert "--fetch files.example.com" in error
    assert 'fetch = "files.example.com"' in error
    assert "sesame" not in error


@pytest.mark.parametrize("uri", ["s3://bucket/sesame", "https://[sesame", "sesame", "http://files.example.com/sesame"])
def test_what_no_option_allows_is_said_to_be_so(uri: str) -> None:
    reported = describe_unfetched(uri)
    assert "--fetch" not in reported
    assert "https: alone" in reported
    assert "sesame" not in reported


# -- the fuse -------------------------------------------------------------------------------------------------------


def test_the_fuse_counts_documents_not_attempts() -> None:
    fuse = CircuitBreaker()
    for _ in range(10):
        assert not any(
            fuse.record_failure(f"document {n}", f"customer {n % TRIP_CUSTOMERS}") for n in range(TRIP_FAILURES - 1)
        )
    assert fuse.record_failure("another document", "customer 1")
    assert not fuse.record_failure("the next document", "customer 1")


def test_the_fuse_wants_several_customers_and_forgets_with_a_success() -> None:
    fuse = CircuitBreaker()
    assert not any(
        fuse.record_failure(f"document {n}", f"customer {n % (TRIP_CUSTOMERS - 1)}") for n in range(9 * TRIP_FAILURES)
    )
    assert fuse.record_failure("one more", "one more customer")
    assert not any(fuse.record_failure(f"document {n}", f"customer {n}") for n in range(TRIP_FAILURES - 1))
    fuse.record_success()
    assert not fuse.record_failure("after a success", "customer 99")


def test_a_few_documents_that_use_up_their_attempts_pause_nothing(harness: WorkerHarness) -> None:
    ids = [harness.submit("fail", f"customer {n}", max_attempts=5) for n in range(6)]
    tally = harness.run_until_empty(slots=2)
    assert (tally.retried, tally.failed) == (24, 6)
    assert harness.store.paused() is None
    assert {harness.state(id_) for id_ in ids} == {DocumentState.FAILED}

"""What becomes of a document by what its processor returns or raises, or by how its child ends."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from inturn.policy import RetryPolicy
from inturn.queue import Queue
from inturn.sandbox.confinement import SandboxLimits
from inturn.store_types import EventKind
from inturn.worker.content import RESULT_FILE, read_result
from inturn.worker.worker import OutcomeCounts
from worker_harness import (
    DONE,
    FAILED,
    PROCESSORS,
    SECOND,
    WorkerHarness,
    eventually,
    sha256,
)

SMALL_BOX = SandboxLimits(memory_bytes=400 << 20, cpu_seconds=10, wall_seconds=30.0)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_gets_the_document_and_its_result_is_recorded(harness: WorkerHarness, processor: str) -> None:
    content = b"some bytes"
    id_ = harness.submit("echo", "Böhm", content, name="Straße.txt", extra=[1, None, "é"])
    read = harness.submit("read", "acme", content)
    assert harness.run_until_empty(processor) == OutcomeCounts(done=2)
    seen = harness.queue.result(id_)
    del seen["pid"]
    assert seen == {
        "id": id_,
        "customer": "Böhm",
        "name": "Straße.txt",
        "media_type": None,
        "size": len(content),
        "uri": None,
        "attempt": 1,
        "metadata": {"do": "echo", "extra": [1, None, "é"]},
    }
    assert harness.queue.result(read) == [sha256(content)] * 3
    assert harness.states() == {"done": 2}


def test_any_json_is_a_result(harness: WorkerHarness) -> None:
    values: list[Any] = [None, True, 0, -1.5, "é\n", [], {}, [{"a": [1, 2.0, None]}, "x"], "\x01" * 100]
    ids = [harness.submit("value", value=value) for value in values]
    harness.run_until_empty()
    assert {harness.state(id_) for id_ in ids} == {DONE}
    assert [harness.queue.result(id_) for id_ in ids] == values


def test_files_of_a_result_are_kept_in_the_blobs(harness: WorkerHarness, marker_dir: Path) -> None:
    id_ = harness.submit("files", place=str(marker_dir))
    assert harness.run_until_empty() == OutcomeCounts(done=1)
    stored = {file.name: file for file in harness.queue.files(id_)}
    expected = {"empty": b"", "page 1.txt": "é".encode() * 10, "page 2.bin": bytes(range(256)) * 2_000}
    assert list(stored) == sorted(expected)
    for name, data in expected.items():
        assert (stored[name].size, stored[name].sha256) == (len(data), sha256(data))
        with harness.blobs.open(stored[name].blob) as source:
            assert source.read() == data
    assert read_result(harness.queue, harness.blobs, id_) == {"pages": 2}


def test_files_of_a_result_are_kept_from_inside_the_box(harness: WorkerHarness) -> None:
    content = b"bytes" * 99
    id_ = harness.submit("read", "acme", content)
    harness.run_until_empty(box=SMALL_BOX)
    assert harness.queue.result(id_) == [sha256(content)] * 3


def test_a_large_result_is_kept_in_the_blobs_and_read_back(harness: WorkerHarness) -> None:
    sizes = [("x", 262_142), ("x", 262_143), ("é", 200_000), ("x", 5_000_000)]
    ids = [harness.submit("repeat", text=text, times=times) for text, times in sizes]
    harness.run_until_empty()
    for id_, (text, times) in zip(ids, sizes, strict=True):
        assert harness.state(id_) is DONE
        assert read_result(harness.queue, harness.blobs, id_) == text * times
        fits = len(json.dumps(text * times, ensure_ascii=False).encode()) <= 256 * 1024
        assert [file.name for file in harness.queue.files(id_)] == ([] if fits else [RESULT_FILE])


def test_a_result_that_is_no_json_fails_with_words(harness: WorkerHarness) -> None:
    ids = [harness.submit("no_json", kind=kind, max_attempts=2) for kind in ("set", "nan", "bytes", "decimal")]
    assert harness.run_until_empty() == OutcomeCounts(retried=4, failed=4)
    for id_ in ids:
        assert "a result is JSON" in (harness.queue.document(id_).error or "")


def test_files_that_cannot_be_kept_fail_the_document_alone(harness: WorkerHarness) -> None:
    kinds = ("missing", "text", "control", "empty name", "result.json")
    bad = [harness.submit("bad_files", kind=kind, max_attempts=1) for kind in kinds]
    good = harness.submit_many(len(kinds), "echo", "other")
    harness.run_until_empty()
    for id_ in bad:
        assert (harness.state(id_), bool(harness.queue.document(id_).error)) == (FAILED, True)
    assert {harness.state(id_) for id_ in good} == {DONE}


def test_a_failure_is_tried_again_with_a_growing_delay_and_then_failed_with_its_error(harness: WorkerHarness) -> None:
    id_ = harness.submit("fail", max_attempts=4)
    delays = RetryPolicy(first_delay=20_000, longest_delay=SECOND, jitter=0.0)
    queue = Queue(harness.store, retries=delays)
    assert harness.run_until_empty(queue=queue) == OutcomeCounts(retried=3, failed=1)
    document = harness.queue.document(id_)
    assert (document.state, document.attempt) == (FAILED, 4)
    head, _, trace = (document.error or "").partition("\n\n")
    assert head == "LookupError: no such page"
    assert 'raise LookupError(document.metadata.get("message", "no such page"))' in trace
    assert "perform.py" not in trace
    began = [event.at for event in harness.events() if event.kind is EventKind.STARTED]
    failed = [event.at for event in harness.events() if event.kind is EventKind.DELAYED]
    waits = [next_ - last for last, next_ in zip(failed, began[1:], strict=True)]
    assert [wait >= least for wait, least in zip(waits, (20_000, 40_000, 80_000), strict=True)] == [True] * 3


def test_retry_means_again_after_so_long(harness: WorkerHarness) -> None:
    soon = harness.submit("retry", until=3, after=0)
    usual = harness.submit("retry", "other", until=2)
    later = harness.submit("retry", "third", until=2, after=3_600)
    ended = harness.submit("retry", "fourth", until=9, after=0.001, max_attempts=2)
    running = harness.start_worker()
    eventually(lambda: harness.states() == {"done": 2, "delayed": 1, "failed": 1})
    assert running.stop() == OutcomeCounts(done=2, retried=5, failed=1)
    assert (harness.queue.result(soon), harness.queue.result(usual)) == (3, 2)
    document = harness.queue.document(later)
    assert document.due_at is not None
    assert document.due_at > time.time() * SECOND + 3_000 * SECOND
    assert (harness.queue.document(ended).error, harness.queue.document(ended).attempt) == ("not yet", 2)


def test_reject_fails_at_once_with_its_reason(harness: WorkerHarness) -> None:
    id_ = harness.submit("reject", reason="This is a menu,\nnot an invoice")
    assert harness.run_until_empty() == OutcomeCounts(failed=1)
    document = harness.queue.document(id_)
    assert (document.state, document.attempt, document.error) == (FAILED, 1, "This is a menu,\nnot an invoice")


ENDS = {
    "leave": "SystemExit: 3",
    "leave_now": "ended itself with status 0",
    "crash": "SIGSEGV",
    "kill_itself": "SIGKILL",
}


def test_a_child_that_dies_costs_an_attempt_and_hurts_nobody_else(harness: WorkerHarness) -> None:
    bad = {harness.submit(do, f"bad {do}", max_attempts=2): words for do, words in ENDS.items()}
    good = [id_ for n in range(4) for id_ in harness.submit_many(5, "echo", f"good {n}")]
    assert harness.run_until_empty() == OutcomeCounts(done=len(good), retried=len(ENDS), failed=len(ENDS))
    for id_, words in bad.items():
        document = harness.queue.document(id_)
        assert (document.state, document.attempt) == (FAILED, 2)
        assert words in (document.error or "")
    assert all(harness.queue.document(id_).attempt == 1 for id_ in good)


def test_a_child_that_takes_all_memory_stays_in_its_box(harness: WorkerHarness) -> None:
    bad, good = harness.submit("eat", max_attempts=2), harness.submit_many(5, "echo", "other")
    harness.run_until_empty(box=SMALL_BOX)
    document = harness.queue.document(bad)
    assert (document.state, document.attempt, document.error) == (FAILED, 2, "the processor ran out of memory")
    assert [harness.state(id_) for id_ in good] == [DONE] * 5


def test_a_child_that_uses_all_its_cpu_time_stays_in_its_box(harness: WorkerHarness) -> None:
    bad, good = harness.submit("spin", max_attempts=1), harness.submit("echo", "other")
    harness.run_until_empty(box=SandboxLimits(cpu_seconds=1, wall_seconds=25.0))
    assert "more CPU time than one document may" in (harness.queue.document(bad).error or "")
    assert (harness.state(bad), harness.state(good)) == (FAILED, DONE)


def test_a_processor_that_hangs_is_ended_and_costs_an_attempt(harness: WorkerHarness, marker_dir: Path) -> None:
    bad, good = harness.submit("sleep", max_attempts=2, place=str(marker_dir)), harness.submit_many(5, "echo", "other")
    tally = harness.run_until_empty(timeout=SECOND // 2)
    assert tally == OutcomeCounts(done=5, retried=1, failed=1)
    assert harness.queue.document(bad).error == "it took longer than 0.5 s"
    assert [harness.queue.document(id_).attempt for id_ in good] == [1] * 5

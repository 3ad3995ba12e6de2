"""Documents that pass through steps: what a processor returns, and what that of the next step sees."""

import hashlib
import re
from pathlib import Path

import pytest

from inturn.errors import InvalidInputError
from inturn.model import DocumentState, NewDocument
from inturn.sandbox.confinement import SandboxLimits
from inturn.store_types import EventKind, OutcomeKind
from inturn.worker.content import RESULT_FILE, stored_text
from inturn.worker.marked import find_processors
from inturn.worker.options import QueueOptions
from inturn.worker.worker import OutcomeCounts
from step_harness import BOX, PROCESSORS, WAYS, make_queues, run, submit
from worker_harness import DONE, FAILED, SECOND, TEST_OPERATOR, WorkerHarness, eventually


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


@pytest.mark.parametrize(("processor", "box"), WAYS)
def test_plain_value_moves_a_document_on_while_there_are_steps(
    harness: WorkerHarness, processor: str, box: SandboxLimits | None
) -> None:
    id_ = submit(harness, "plain", "plain", "plain")
    assert run(harness, processor, box=box) == OutcomeCounts(done=1, moved_on=2)
    assert harness.queue.result(id_) == {"step": 2, "queue": "plain"}
    assert [result.step for result in harness.queue.results(id_)] == [0, 1, 2]


@pytest.mark.parametrize(("processor", "box"), WAYS)
def test_next_step_sees_results_and_files_of_those_before(
    harness: WorkerHarness, processor: str, box: SandboxLimits | None
) -> None:
    make_queues(harness, "large")
    id_ = submit(harness, "named", "look", content=b"bytes", to="large")
    assert run(harness, processor, box=box) == OutcomeCounts(done=1, moved_on=2)
    seen = harness.queue.result(id_)
    files = {
        "named": {"page.txt": digest(b"page"), "other.bin": digest(bytes(5))},
        "large": {"a.txt": digest(b"beside")},
    }
    assert seen == {
        "step": 2,
        "queue": "look",
        "size": 5,
        "results": {"named": {"text": "é\n"}, "large": "x * 300000"},
        "opened": files,
        "copied": files,
        "parts": [],
    }


def test_result_of_a_step_that_is_too_large_for_its_row_is_kept_in_the_blobs(harness: WorkerHarness) -> None:
    id_ = submit(harness, "large", "plain")
    run(harness)
    first, _ = harness.queue.results(id_)
    assert (first.result, [file.name for file in first.files]) == ("null", ["a.txt", RESULT_FILE])
    assert stored_text(first.result, first.files, harness.blobs) == '"' + "x" * 300_000 + '"'


@pytest.mark.parametrize("processor", PROCESSORS)
def test_threads_of_a_processor_may_look_back_at_once(harness: WorkerHarness, processor: str) -> None:
    id_ = submit(harness, "named", "look-in-threads", to="look-in-threads")
    assert run(harness, processor) == OutcomeCounts(done=1, moved_on=1), harness.queue.document(id_).error
    assert harness.queue.result(id_)["results"] == {"named": {"text": "é\n"}}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_several_documents_look_back_at_once(harness: WorkerHarness, processor: str) -> None:
    ids = [submit(harness, "named", "look", to="look") for _ in range(12)]
    assert run(harness, processor, slots=4) == OutcomeCounts(done=12, moved_on=12)
    assert {harness.queue.result(id_)["opened"]["named"]["page.txt"] for id_ in ids} == {digest(b"page")}


def test_step_in_a_queue_again_hides_the_one_before(harness: WorkerHarness) -> None:
    id_ = submit(harness, "plain", "plain", "look")
    run(harness)
    assert harness.queue.result(id_)["results"] == {"plain": {"step": 1, "queue": "plain"}}


def test_queue_without_a_step_is_an_error_of_the_processor(harness: WorkerHarness) -> None:
    id_ = submit(harness, "plain", "missing")
    run(harness)
    assert "KeyError: 'no-such-queue'" in (harness.queue.document(id_).error or "")


def test_document_without_earlier_steps_sees_none_and_asks_nothing(harness: WorkerHarness) -> None:
    id_ = submit(harness, "look", content=b"")
    run(harness)
    assert (harness.queue.result(id_)["results"], harness.queue.result(id_)["parts"]) == ({}, [])


def test_file_of_an_earlier_step_that_is_damaged_fails_with_words(harness: WorkerHarness) -> None:
    id_ = submit(harness, "named", to="later")
    run(harness)
    (file, _) = sorted(harness.queue.results(id_)[0].files)
    next(harness.blobs.folder.glob(f"*/{file.blob}")).write_bytes(b"other")
    (claimed,) = harness.queue.claim("someone", queues=["later"])
    harness.queue.ack([harness.queue.next_step(claimed, "look")])
    assert run(harness, PROCESSORS[0], "look") == OutcomeCounts(failed=1)
    assert "damaged" in (harness.queue.document(id_).error or "")


def test_retry_by_hand_sees_the_earlier_steps_alone(harness: WorkerHarness) -> None:
    id_ = submit(harness, "plain", "bad", "look", kind="queue")
    run(harness)
    assert harness.state(id_) is FAILED
    harness.queue.retry(id_, TEST_OPERATOR)
    (claimed,) = harness.queue.claim("someone", queues=["bad"])
    harness.queue.ack([harness.queue.next_step(claimed, "look")])
    run(harness)
    assert list(harness.queue.result(id_)["results"]) == ["plain", "bad"]


# -- what cannot be -------------------------------------------------------------------------------------------------

REASONS = {
    "queue": "a queue's name has",
    "no text": "a queue's name has",
    "no list": "parts are a list of Part",
    "no part": "parts are Part or NewDocument, not dict",
    "none": "the number of parts must be a whole number from 1 to 10000, not 0",
    "too many": "the number of parts must be a whole number from 1 to 10000, not 10001",
    "no steps": "part 1: it has no steps",
    "text steps": "part 1: steps must be a list",
    "then": "a queue's name has",
    "name": "part 1: a document's name may not contain control characters",
    "metadata": "part 1: metadata may have 16384 characters",
    "pages": "part 1: pages must be a whole number",
    "media type": "part 1: media_type may not contain control characters",
    "content": "the content of a part is bytes or a path, not str",
    "content file": "No such file or directory",
    "result": "a result is JSON",
    "file": "a result's files are bytes or paths",
}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_what_cannot_be_fails_its_document_alone_with_a_reason(harness: WorkerHarness, processor: str) -> None:
    ids = {kind: submit(harness, "bad", kind=kind) for kind in REASONS}
    good = submit(harness, "plain")
    assert run(harness, processor) == OutcomeCounts(done=1, failed=len(ids))
    for kind, id_ in ids.items():
        assert REASONS[kind] in (harness.queue.document(id_).error or ""), kind
    assert harness.state(good) is DONE
    assert harness.count_events(EventKind.SPLIT) == {}


def test_outcome_that_the_store_refuses_fails_its_document_at_once(harness: WorkerHarness) -> None:
    """One queue too many. Its attempts are not used up, and what else was to be recorded is recorded."""
    known = {status.name for status in harness.queue.queues()} | {"named", "plain"}
    make_queues(harness, *(f"q{n}" for n in range(100 - len(known))))
    refused, others = submit(harness, "named", to="one-too-many"), [submit(harness, "plain") for _ in range(3)]
    assert run(harness, PROCESSORS[0], "named", "plain") == OutcomeCounts(done=3, failed=1)
    assert harness.queue.document(refused).error == "a store has at most 100 queues; use one that exists"
    assert harness.queue.document(refused).attempt == 1
    assert {harness.state(id_) for id_ in others} == {DONE}
    assert harness.count_events(EventKind.LEASE_LOST) == {}


def test_circle_ends_with_a_reason(harness: WorkerHarness) -> None:
    id_ = submit(harness, "named", to="named")
    assert run(harness) == OutcomeCounts(moved_on=99, failed=1)
    assert "sending it in circles" in (harness.queue.document(id_).error or "")


def test_sandboxed_processor_makes_no_queues(harness: WorkerHarness) -> None:
    make_queues(harness, "there")
    ids = {to: submit(harness, "named", to=to) for to in ("new", "there")}
    ids |= {"ahead": submit(harness, "named", "ahead", to="ahead")}
    parts = submit(harness, "split", n=1)
    run(harness, PROCESSORS[0], "named", "split", box=BOX)
    assert "there is no queue 'new'" in (harness.queue.document(ids["new"]).error or "")
    assert "inturn queues set new" in (harness.queue.document(ids["new"]).error or "")
    assert [harness.queue.document(ids[to]).queue for to in ("there", "ahead")] == ["there", "ahead"]
    assert "there is no queue 'merge'" in (harness.queue.document(parts).error or "")


# -- options of a queue ---------------------------------------------------------------------------------------------


def test_queue_has_a_timeout_of_its_own(harness: WorkerHarness) -> None:
    hanging = NewDocument("a", queue="slow", max_attempts=1, metadata={"sleeps": True})
    (receipt,) = harness.queue.submit("acme", [hanging])
    queues = {"slow": "step_processors:write_marked", "plain": "step_processors:act"}
    options = {"slow": QueueOptions(timeout=SECOND // 4)}
    assert harness.run_until_empty(queues=queues, per_queue=options) == OutcomeCounts(failed=1)
    assert harness.queue.document(receipt.id).error == "it took longer than 0.25 s"


def test_queue_has_attempts_of_its_own(harness: WorkerHarness) -> None:
    few, many = (
        harness.queue.submit("acme", [NewDocument("a", queue=queue, max_attempts=3, metadata={"do": "fail"})])[0].id
        for queue in ("few", "many")
    )
    own = {"few": QueueOptions(max_attempts=1), "many": QueueOptions(max_attempts=5)}
    tally = harness.run_until_empty(queues=dict.fromkeys(own), per_queue=own)
    assert tally == OutcomeCounts(retried=4, failed=2)
    assert [harness.queue.document(id_).attempt for id_ in (few, many)] == [1, 5]


def test_each_queue_has_a_circuit_breaker(harness: WorkerHarness) -> None:
    """The queue whose documents all fail is paused, though others of the same worker are done in between."""
    for n in range(60):
        failing = NewDocument("a", queue="new-model", metadata={"do": "fail"}, max_attempts=1)
        harness.queue.submit(f"customer {n % 10}", [failing])
        harness.queue.submit(f"customer {n % 10}", [NewDocument("b", queue="export", metadata={"do": "echo"})])
    worker = harness.start_worker(queues={"new-model": None, "export": None})
    eventually(lambda: harness.queue.paused("new-model") is not None)
    eventually(lambda: {s.name: s.waiting + s.running for s in harness.queue.queues()}["export"] == 0)
    assert (harness.queue.paused("export"), harness.queue.paused()) == (None, None)
    worker.stop()
    assert DocumentState.WAITING in {document.state for document in harness.all_documents()}


def test_step_is_counted_by_its_own_name() -> None:
    assert {"moved_on", "split"} <= set(OutcomeCounts._fields)
    assert {OutcomeKind.NEXT, OutcomeKind.SPLIT} < set(OutcomeKind)


# -- a module that has no processors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ("mypackage.pipe:ocr", "write mypackage.pipe, or --processor mypackage.pipe:ocr for one function"),
        ("mypackage/pipe.py", "write mypackage.pipe, or --processor mypackage.pipe:FUNCTION for one function"),
        ("./mypackage/pipe.py:ocr", "write mypackage.pipe, or --processor mypackage.pipe:ocr for one function"),
        ("mypackage/__init__.py", "write mypackage, or"),
        ("step_processors.py", "write step_processors, or"),
    ],
)
def test_path_of_a_file_or_function_is_refused_with_the_module_to_write(given: str, instead: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(instead)):
        find_processors(given)


def test_package_without_marked_functions_names_a_module_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").touch()
    (tmp_path / "mypackage" / "pipe.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"import its modules in __init__\.py, or name mypackage\.pipe$"):
        find_processors("mypackage")

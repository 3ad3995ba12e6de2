"""Workers serve queues: they get documents of these alone, each for the processor of its queue."""

from typing import Any

import pytest

from inturn.errors import InvalidInputError
from inturn.model import DocumentState, NewDocument
from inturn.worker.circuit_breaker import TRIP_CUSTOMERS, TRIP_FAILURES
from inturn.worker.options import WorkerOptions, parse_queues
from inturn.worker.routing import processor_paths, processor_spec
from worker_harness import DONE, WorkerHarness, eventually


def submit(harness: WorkerHarness, queue: str, customer: str = "acme", do: str = "echo", **options: Any) -> str:
    document = NewDocument("a document", queue=queue, metadata={"do": do}, **options)
    return harness.queue.submit(customer, [document])[0].id


def test_worker_processes_documents_of_its_queues_alone(harness: WorkerHarness) -> None:
    ids = {queue: submit(harness, queue) for queue in ("default", "ocr", "export")}
    harness.run_until_empty("processors:queue_name", queues={"ocr": None, "export": None})
    assert [harness.queue.result(ids[queue]) for queue in ("ocr", "export")] == ["ocr", "export"]
    assert harness.state(ids["default"]) is DocumentState.WAITING


def test_each_queue_has_its_own_processor(harness: WorkerHarness) -> None:
    ids = {queue: submit(harness, queue) for queue in ("ocr", "export", "other")}
    queues = {"ocr": "processors:queue_name", "export": "processors:own_name", "other": None}
    harness.run_until_empty("processors:act", queues=queues)
    results = {queue: harness.queue.result(id_) for queue, id_ in ids.items()}
    assert (results["ocr"], results["export"]) == ("ocr", "a document")
    assert harness.state(ids["other"]) is DONE


def test_worker_reports_the_queues_that_it_serves(harness: WorkerHarness) -> None:
    worker = harness.start_worker("processors:queue_name", queues={"ocr": None, "export": None})
    assert worker.worker.report().queues == ("ocr", "export")
    worker.stop()


def test_coroutines_are_routed_too(harness: WorkerHarness) -> None:
    ids = {queue: submit(harness, queue) for queue in ("ocr", "export")}
    queues = {"ocr": "processors:act_in_loop", "export": "processors:name_in_loop"}
    harness.run_until_empty("processors:act", queues=queues)
    assert harness.queue.result(ids["export"]) == "export"
    assert harness.state(ids["ocr"]) is DONE


def test_processors_that_run_in_different_ways_are_refused(harness: WorkerHarness) -> None:
    queues = {"ocr": "processors:act", "export": "processors:name_in_loop"}
    with pytest.raises(Exception, match="that of ocr in processes, that of export in loop; start a worker for each"):
        harness.run_until_empty("processors:act", queues=queues)


def test_built_in_processor_is_not_taken_out_of_its_sandbox(harness: WorkerHarness) -> None:
    with pytest.raises(InvalidInputError, match="the built-in processor runs in a sandbox"):
        harness.run_default_processor(queues={"default": None, "export": "processors:act"})


def test_tripped_breaker_pauses_the_queues_of_its_worker(harness: WorkerHarness) -> None:
    for number in range(2 * TRIP_FAILURES):
        submit(harness, "ocr", f"customer {number % (2 * TRIP_CUSTOMERS)}", do="fail", max_attempts=1)
    worker = harness.start_worker(queues={"ocr": None})
    try:
        eventually(lambda: harness.queue.paused("ocr") is not None)
        assert harness.queue.paused() is None
    finally:
        worker.stop(at_once=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a b"], "a queue's name has"),
        (["ocr", "ocr=x:y"], "given twice"),
        (["ocr="], "names no processor"),
        ([""], "a queue's name has"),
    ],
)
def test_queues_that_cannot_be_served_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_queues(texts)


def test_a_worker_without_queues_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one queue"):
        WorkerOptions(queues={})


def test_what_a_child_loads() -> None:
    assert processor_spec({"a": None, "b": None}, "x:y") == "x:y"
    spec = processor_spec(parse_queues(["a=p:f", "b"]), "x:y")
    assert processor_paths(spec) == {"a": "p:f", "b": "x:y"}
    assert processor_paths("x:y") == {None: "x:y"}

"""Documents that are split into parts, and the step after it."""

from pathlib import Path
from typing import Any

import pytest

from inturn.model import DocumentState, NewDocument
from inturn.sandbox.confinement import SandboxLimits
from inturn.store_types import DocumentFilter, EventKind
from inturn.worker import part_listing
from inturn.worker.worker import OutcomeCounts
from step_harness import BOX, PROCESSORS, QUEUES, WAYS, make_queues, run, submit
from worker_harness import DONE, FAILED, WorkerHarness, eventually


def parts_of(harness: WorkerHarness, id_: str) -> list[Any]:
    where = DocumentFilter(parent=id_)
    return sorted(harness.queue.documents(where, limit=100).items, key=lambda part: part.part or 0)


@pytest.mark.parametrize(("processor", "box"), WAYS)
def test_parts_are_processed_and_their_document_sees_what_became_of_them(
    harness: WorkerHarness, processor: str, box: SandboxLimits | None
) -> None:
    make_queues(harness, "page", "merge")
    id_ = submit(harness, "split", content=b"whole", n=5)
    tally = run(harness, processor, box=box)
    assert tally == OutcomeCounts(done=5, failed=1, split=1), harness.queue.document(id_).error
    texts = [f"page {number}" for number in (0, 1, 2, 4)]
    assert harness.queue.result(id_) == {"texts": texts, "files": texts, "failed": ["page 4"], "of": {"n": 5}}
    parts = parts_of(harness, id_)
    assert [(part.spec.name, part.spec.media_type, part.spec.size, part.spec.pages) for part in parts] == [
        (f"page {number}", "text/plain", 6, 1) for number in range(1, 6)
    ]
    assert {(part.customer, part.level, part.count, part.spec.max_attempts) for part in parts} == {("acme", 1, 0, 1)}
    assert harness.queue.customer("acme").count == 0


@pytest.mark.parametrize("box", [None, BOX])
def test_content_of_a_part_may_be_a_file(harness: WorkerHarness, marker_dir: Path, box: SandboxLimits | None) -> None:
    make_queues(harness, "page", "merge")
    place = {} if box else {"place": str(marker_dir)}
    id_ = submit(harness, "split", n=3, kind="path", **place)
    run(harness, box=box)
    assert harness.queue.result(id_)["texts"] == ["page 0", "page 1", "page 2"]


def test_part_without_content_shares_that_of_its_document_and_counts_it_once(harness: WorkerHarness) -> None:
    id_ = submit(harness, "split", content=b"whole", n=4, kind="shared")
    before = harness.queue.stored_bytes("acme")
    run(harness)
    parts = parts_of(harness, id_)
    whole = harness.queue.document(id_).spec
    assert {(part.spec.blob, part.spec.sha256, part.spec.size) for part in parts} == {(whole.blob, whole.sha256, None)}
    assert harness.queue.result(parts[0].id) == {"text": "whole", "media_type": None, "size": 5}
    assert before == harness.queue.stored_bytes("acme") == 5
    removed = harness.queue.prune(harness.queue.now() + 1, limit=3)
    assert whole.blob not in removed.blobs
    assert whole.blob in harness.queue.prune(harness.queue.now() + 1, limit=9).blobs


def test_part_may_be_a_new_document_of_its_own(harness: WorkerHarness) -> None:
    id_ = submit(harness, "split", n=2, kind="document")
    run(harness, PROCESSORS[0], "split")
    assert [(part.queue, part.spec.metadata["number"]) for part in parts_of(harness, id_)] == [("page", 0), ("page", 1)]


def test_sandboxed_part_is_no_document_of_its_own(harness: WorkerHarness) -> None:
    """It could name the blob of another customer."""
    make_queues(harness, "page", "merge")
    id_ = submit(harness, "split", n=2, kind="document")
    run(harness, box=BOX)
    assert "part 1: in the sandbox a part is a Part" in (harness.queue.document(id_).error or "")


def test_ten_thousand_parts(harness: WorkerHarness) -> None:
    """More than the files that a sandboxed child may leave."""
    make_queues(harness, "count", "count-all")
    id_ = submit(harness, "split-many", n=10_000)
    queues = dict.fromkeys(("split-many", "count", "count-all"))
    tally = harness.run_until_empty(PROCESSORS[0], queues=queues, box=SandboxLimits(documents_per_child=20_000))
    assert tally == OutcomeCounts(done=10_001, split=1)
    assert harness.queue.result(id_) == {"parts": 10_000, "sum": sum(range(10_000))}
    assert harness.store.recount(repair=False) == ()


def test_thousands_of_contents(harness: WorkerHarness) -> None:
    """A stored content each, from inside the sandbox, and nothing is left behind in the child's folder."""
    make_queues(harness, "page", "merge")
    id_ = submit(harness, "split", n=2_000)
    worker = harness.start_worker(PROCESSORS[0], queues={"split": None}, box=BOX)
    eventually(lambda: harness.state(id_) in {DocumentState.SPLIT, FAILED})
    assert harness.state(id_) is DocumentState.SPLIT, harness.queue.document(id_).error
    left = [path.name for child in worker.worker._pool.children for path in child.scratch.iterdir()]  # noqa: SLF001
    assert [name for name in left if name.startswith(("parts-", "pack-"))] == []
    worker.stop()
    assert harness.queue.counts(DocumentFilter(parent=id_)).states == {DocumentState.WAITING: 2_000}
    assert harness.queue.stored_bytes("acme") == sum(len(f"page {number}") for number in range(2_000))


def test_contents_of_parts_are_limited_together(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_listing, "MAX_CONTENT_BYTES", 20)
    id_ = submit(harness, "split", n=4)
    run(harness)
    assert "part 4: the contents of all parts may have" in (harness.queue.document(id_).error or "")


def test_parts_of_a_worker_without_blobs_fail_with_words(harness: WorkerHarness) -> None:
    from inturn.worker.worker import Worker, WorkerOptions  # noqa: PLC0415 - without the blobs of the harness

    id_ = submit(harness, "split", n=1)
    options = WorkerOptions(queues={"split": None}, until_empty=True)
    Worker(harness.queue, PROCESSORS[0], options=options).run()
    assert "needs a worker with --blobs" in (harness.queue.document(id_).error or "")


# -- a child in hostile hands -----------------------------------------------------------------------------------------

LISTED = '{"name": "a", "metadata": {}, "media_type": null, "pages": null, "steps": ["page"], "content": CONTENT}\n'
SPLIT = ["split", "NUMBER", 0.0, "", [], "merge", "listing"]
MALFORMED = "malformed message"


def left(text: str, times: int = 1, **files: str) -> dict[str, Any]:
    """A list of parts, and further files."""
    return {
        "files": {"listing": [text, times], **{name: [content, 1] for name, content in files.items()}},
        "message": SPLIT,
    }


def listed(content: str, **files: str) -> dict[str, Any]:
    return left(LISTED.replace("CONTENT", content), **files)


def sent(*message: Any, times: int = 1) -> dict[str, Any]:
    return {"message": [message[0], "NUMBER", *message[1:]], "times": times}


FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "no listing": ({"message": SPLIT}, "No such file"),
    "outside": ({"message": [*SPLIT[:6], "/etc/passwd"]}, "No such file"),
    "an odd document": (left('{"document": {"name": "a", "blob": "x"}}'), "in the sandbox a part is a Part"),
    "too many": (left(LISTED.replace("CONTENT", "null"), 10_001), "not 10001"),
    "a pack outside": (listed('["/etc/passwd", 0, 5]'), "No such file"),
    "beyond the end": (listed('["pack", 3, 9]', pack="short"), "not complete"),
    "no file name": ({"message": [*SPLIT[:6], ["x"]]}, "expected str"),
    "no queue": (sent("next", 0.0, "", [], {"a": 1}), "a queue's name has"),
    "nowhere": (sent("next", 0.0, "", []), MALFORMED),
    "too much": (sent("done", 0.0, "", [], "merge"), MALFORMED),
    "no question": (sent("ask", 1, ["blob", 0, None]), MALFORMED),
    "a long question": (sent("ask", 1, ["step_file", 0, "x" * 999]), MALFORMED),
    "an odd number": (sent("ask", [], ["parts", 0, None]), MALFORMED),
    "too many questions": (sent("ask", 1, ["parts", 0, None], times=20_000), MALFORMED),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_reply_fails_its_document_alone(harness: WorkerHarness, kind: str) -> None:
    make_queues(harness, "page", "merge")
    metadata, reason = FORGED[kind]
    forged = NewDocument("a", queue="forge", metadata=metadata, max_attempts=1)
    (receipt,) = harness.queue.submit("hostile", [forged])
    honest = submit(harness, "plain")
    running = harness.start_worker(PROCESSORS[0], queues=dict.fromkeys(QUEUES), slots=1, box=BOX)
    eventually(lambda: {harness.state(receipt.id), harness.state(honest)} == {FAILED, DONE} or not running.is_alive())
    assert running.is_alive(), "the worker died of what a child said"
    assert reason in (harness.queue.document(receipt.id).error or "")
    assert harness.count_events(EventKind.SPLIT) == {}
    running.stop()


def test_child_gets_files_of_its_own_document_alone(harness: WorkerHarness) -> None:
    """What it may name are steps, parts and files of the document that it processes."""
    make_queues(harness, "named", "look", "ask-around")
    submit(harness, "named", to="look")
    run(harness, PROCESSORS[0], "named")
    id_ = submit(harness, "plain", "ask-around")
    run(harness, PROCESSORS[0], "plain", "ask-around", box=BOX)
    assert harness.queue.result(id_) == ["there is no such file of an earlier step"] * 4

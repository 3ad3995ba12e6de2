"""A whole pipeline in the process of a test."""

import sys
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn import DocumentState, NewDocument, OpenDocument, Part, Parts
from inturn.blobs import FolderBlobs
from inturn.errors import InvalidInputError
from inturn.testing import GivenDocument, GivenPart, ManualClock, memory_queue, run_inline, run_pipeline

THIS = sys.modules[__name__]


@inturn.processor(queue="split")
def split(document: OpenDocument) -> Parts:
    pages = document.metadata["pages"]
    parts = [Part(f"page {n}", text.encode(), {"n": n}) for n, text in enumerate(pages, start=1)]
    return Parts(parts, then="merge", steps=["page"], result={"pages": len(pages)}, files={"log.txt": b"split"})


@inturn.processor(queue="page", retries=1)
async def page(document: OpenDocument) -> inturn.Result:
    with document.open() as file:
        text = file.read().decode()
    if text == "torn":
        raise ValueError(text)
    return inturn.Result(text.upper(), {"page.txt": text.encode()})


@inturn.processor(queue="merge")
def merge(document: OpenDocument) -> dict[str, Any]:
    done = [part for part in document.parts if part.state is DocumentState.DONE]
    return {
        "text": " ".join(part.result for part in done),
        "files": [part.files["page.txt"].path().read_text() for part in done],
        "missing": {part.name: part.error for part in document.parts if part.error},
        "of": document.results["split"]["pages"],
        "log": document.result_files("split")["log.txt"].open().read().decode(),
    }


@inturn.processor(queue="lost")
def lost(_: OpenDocument) -> inturn.Next:
    return inturn.Next("no queue")


def test_pipeline_runs_to_its_end(tmp_path: Path) -> None:
    queue, blobs = memory_queue(), FolderBlobs(tmp_path / "blobs")
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="split", metadata={"pages": ["one", "two"]})])
    documents = run_pipeline(queue, THIS, blobs=blobs)
    assert [(document.spec.name, document.state) for document in documents] == [
        ("a", "done"), ("page 1", "done"), ("page 2", "done"),
    ]  # fmt: skip
    assert queue.result(receipt.id) == {
        "text": "ONE TWO", "files": ["one", "two"], "missing": {}, "of": 2, "log": "split",
    }  # fmt: skip


def test_failed_part_is_tried_as_often_as_its_queue_says(tmp_path: Path) -> None:
    clock = ManualClock()
    queue, blobs = memory_queue(clock), FolderBlobs(tmp_path / "blobs")
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="split", metadata={"pages": ["one", "torn"]})])
    run_pipeline(queue, THIS, blobs=blobs)
    assert queue.document(receipt.id).state is DocumentState.SPLIT
    clock.advance(inturn.seconds(3_600))
    run_pipeline(queue, THIS, blobs=blobs)
    assert queue.result(receipt.id)["text"] == "ONE"
    assert list(queue.result(receipt.id)["missing"]) == ["page 2"]


def test_what_cannot_be_fails_its_document() -> None:
    queue = memory_queue()
    queue.submit("acme", [NewDocument("a", queue="lost")])
    (document,) = run_pipeline(queue, THIS)
    assert (document.state, "a queue's name has" in (document.error or "")) == (DocumentState.FAILED, True)


def test_marked_processor_alone_gets_the_documents_of_its_queue() -> None:
    queue = memory_queue()
    queue.submit("acme", [NewDocument("a", queue="lost"), NewDocument("b")])
    assert [document.spec.name for document in run_inline(queue, lost)] == ["a"]


def test_module_without_processors_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no function marked"):
        run_pipeline(memory_queue(), inturn)


def test_step_is_tested_alone_with_given_results() -> None:
    parts = [
        GivenPart("1", "ONE", files={"page.txt": b"one"}),
        GivenPart("2", state=DocumentState.FAILED, error="torn"),
    ]
    document = GivenDocument(
        queue="merge",
        step=1,
        results={"split": {"pages": 2}},
        result_files={"split": {"log.txt": b"split"}},
        parts=parts,
    )
    assert merge(document) == {"text": "ONE", "files": ["one"], "missing": {"2": "torn"}, "of": 2, "log": "split"}
    assert [part.number for part in document.parts] == [1, 2]
    with pytest.raises(KeyError):
        document.result_files("merge")
    document.close()

"""What users have for the tests of their processors."""

import io
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn import DocumentState, NewDocument, OpenDocument, Reject, Result, Retry, seconds
from inturn.blobs import FolderBlobs
from inturn.testing import GivenDocument, ManualClock, memory_queue, run_inline
from inturn.worker_report import Progress


def count_words(document: OpenDocument) -> dict[str, Any]:
    with document.open() as file:
        words = len(file.read().split())
    document.progress(1, 1)
    return {"words": words, "name": document.name, "attempt": document.attempt}


def test_a_processor_is_called_with_a_document_made_up() -> None:
    document = GivenDocument(b"one two three", name="three.txt", metadata={"a": 1})
    assert count_words(document)["words"] == 3
    assert document.progress_reports == [Progress(1, 1)]
    assert document.path().read_bytes() == b"one two three"
    document.close()


def test_what_waits_is_processed_in_turn(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "blobs")
    blob = blobs.put(io.BytesIO(b"one two"))
    queue = memory_queue()
    queue.submit("a", [NewDocument("1", blob=blob.key, sha256=blob.sha256, size=blob.size)])
    queue.submit("b", [NewDocument("2")])
    first, second = run_inline(queue, count_words, blobs=blobs)
    assert queue.result(first.id) == {"words": 2, "name": "1", "attempt": 1}
    assert (first.state, second.customer) == (DocumentState.DONE, "b")
    assert second.state is DocumentState.DONE


async def slow(document: OpenDocument) -> str:
    return document.name


def test_async_processors_are_awaited() -> None:
    queue = memory_queue()
    queue.submit("a", [NewDocument("1")])
    (document,) = run_inline(queue, slow)
    assert queue.result(document.id) == "1"


def with_files(_: OpenDocument) -> Result:
    return Result({"ok": True}, files={"a.txt": b"hello"})


def test_files_of_a_result_are_kept(tmp_path: Path) -> None:
    queue, blobs = memory_queue(), FolderBlobs(tmp_path / "blobs")
    queue.submit("a", [NewDocument("1")])
    (document,) = run_inline(queue, with_files, blobs=blobs)
    (file,) = queue.files(document.id)
    with blobs.open(file.blob) as binary_io:
        assert (file.name, binary_io.read()) == ("a.txt", b"hello")


def fails(document: OpenDocument) -> None:
    if document.name == "reject":
        raise Reject("never")
    if document.name == "retry":
        raise Retry("later", after=7)
    raise KeyError(document.name)


@pytest.mark.parametrize(
    ("name", "state", "error"),
    [
        ("reject", DocumentState.FAILED, "never"),
        ("retry", DocumentState.DELAYED, "later"),
        ("other", DocumentState.DELAYED, "KeyError: 'other'"),
    ],
)
def test_failures_mean_what_they_say(name: str, state: DocumentState, error: str) -> None:
    clock = ManualClock()
    queue = memory_queue(clock)
    queue.submit("a", [NewDocument(name)])
    (document,) = run_inline(queue, fails)
    assert document.state is state
    assert (document.error or "").startswith(error)
    if name == "retry":
        assert document.due_at == seconds(7)


def test_the_package_offers_workers_without_loading_them() -> None:
    assert inturn.Worker.__name__ == "Worker"
    assert inturn.runs_in("threads")(fails).__name__ == "fails"
    with pytest.raises(AttributeError, match="nonsense"):
        _ = inturn.nonsense

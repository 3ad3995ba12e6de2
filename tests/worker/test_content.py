"""What a worker opens for its child, and what it takes from the child's folder."""

import hashlib
import os
from pathlib import Path

import pytest

from fetch_harness import FetchHarness, plain
from inturn.blobs import Blobs, open_blobs
from inturn.errors import BlobError
from inturn.model import NewDocument
from inturn.processor_api import Reject, Retry
from inturn.worker import content
from inturn.worker.content import MAX_FILES, RESULT_FILE, ContentIO, StoredResult
from inturn.worker.scratch import ScratchDir


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return open_blobs(str(tmp_path / "blobs"))


def document_at(port: int, sha256: str | None = None) -> NewDocument:
    return NewDocument("a.txt", uri=f"https://files.example.com:{port}/a.txt", sha256=sha256)


@pytest.mark.parametrize("announced", [None, hashlib.sha256(b"Dear customer").hexdigest().upper()])
def test_a_document_is_fetched_into_a_copy_that_goes_with_it(
    fetch_harness: FetchHarness, announced: str | None
) -> None:
    server = fetch_harness.serve(plain(b"Dear customer"))
    scratch = ScratchDir()
    try:
        opened = ContentIO(None, fetch_harness.fetcher(), scratch).prepare(document_at(server.port, announced))
        assert opened.path.parent == scratch.path
        assert os.read(opened.fd, 100) == b"Dear customer"
        opened.close()
        assert not opened.path.exists()
    finally:
        scratch.close()


def test_a_document_with_other_bytes_than_announced_is_rejected(fetch_harness: FetchHarness) -> None:
    server = fetch_harness.serve(plain(b"Dear customer"))
    with pytest.raises(Reject, match="other bytes than were announced"):
        ContentIO(None, fetch_harness.fetcher()).prepare(document_at(server.port, "0" * 64))


def test_a_host_that_may_not_be_fetched_from_is_rejected(fetch_harness: FetchHarness) -> None:
    fetch_harness.serve()
    with pytest.raises(Reject):
        ContentIO(None, fetch_harness.fetcher()).prepare(NewDocument("a.txt", uri="https://elsewhere.example/a.txt"))


def test_a_blob_is_tried_again_by_a_worker_that_has_blobs(blobs: Blobs, tmp_path: Path) -> None:
    spec = NewDocument("a.txt", blob="0" * 64)
    with pytest.raises(Retry, match="start it with the --blobs"):
        ContentIO(None, None).prepare(spec)
    with pytest.raises(BlobError, match="needs a worker with --blobs"):
        ContentIO(None, None).store_result('"' + "x" * 300_000 + '"', (), tmp_path)
    assert ContentIO(blobs, None).store_result("1", (), tmp_path) == StoredResult("1")


def test_files_of_a_result_are_moved_to_the_blobs(blobs: Blobs, tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / name).write_text(f"table {name}")
    text, files, *_ = ContentIO(blobs, None).store_result("1", [("b.csv", "1"), ("a.csv", "0")], tmp_path)
    assert (text, [file.name for file in files]) == ("1", ["a.csv", "b.csv"])
    for number, file in enumerate(files):
        with blobs.open(file.blob) as source:
            assert source.read() == f"table {number}".encode()
    assert list(tmp_path.glob("[01]")) == []


@pytest.mark.parametrize("name", ["../0", "/etc/passwd/0"])
def test_a_file_is_taken_from_the_childs_folder_alone(blobs: Blobs, tmp_path: Path, name: str) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "0").write_text("another's")
    with pytest.raises(FileNotFoundError):
        ContentIO(blobs, None).store_result("1", [("a.csv", name)], tmp_path / "scratch")


def test_a_link_and_a_pipe_are_no_files(blobs: Blobs, tmp_path: Path) -> None:
    (tmp_path / "0").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        ContentIO(blobs, None).store_result("1", [("a.csv", "0")], tmp_path)


def test_a_result_has_files_of_different_names_and_not_too_many(
    blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Reject, match=f"may have {MAX_FILES} files, not {MAX_FILES + 1}"):
        ContentIO(blobs, None).store_result("1", [("a.csv", "0")] * (MAX_FILES + 1), tmp_path)
    for names in (("a.csv", "a.csv"), (RESULT_FILE, "b.csv")):
        for number in range(2):
            (tmp_path / str(number)).write_text("a table")
        large = '"' + "x" * 300_000 + '"'  # has a file of its own
        with pytest.raises(Reject, match="two files of one name"):
            ContentIO(blobs, None).store_result(large, [(names[0], "0"), (names[1], "1")], tmp_path)
    monkeypatch.setattr(content, "MAX_FILES_BYTES", 10)
    for number in range(2):
        (tmp_path / str(number)).write_text("a table")
    with pytest.raises(Reject, match="together"):
        ContentIO(blobs, None).store_result("1", [("a.csv", "0"), ("b.csv", "1")], tmp_path)

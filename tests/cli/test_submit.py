"""`inturn submit` with real files: what is taken in, what is refused, and what is left behind."""

import hashlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inturn as package
from inturn.cli import submit as module
from inturn.errors import StoreFullError
from inturn.media_types import media_type_of
from inturn.queue import Queue

Inturn = Callable[..., Any]


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    (folder / "more").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("b.txt", "a.txt", "more/c.md", ".secret", ".hidden/d.txt"):
        (folder / name).write_text(f"Dear {name}")
    return folder


def names(inturn_here: Inturn, *arguments: str) -> list[str]:
    return [record["name"] for record in inturn_here("submit", "--customer", "acme", "--json", *arguments).records]


def blobs(folder: Path) -> list[Path]:
    return [path for path in (folder / "inturn.db.blobs").rglob("*") if path.is_file()]


def test_a_files_bytes_are_kept_with_what_is_known_of_them(inturn_here: Inturn, tmp_path: Path) -> None:
    content = b"%PDF-1.4 four"
    (tmp_path / "a letter").write_bytes(content)
    arguments = ("a letter", "https://example.org/x/scan.png?key=1", "--batch", "july", "--metadata", '{"n": 3}')
    assert names(inturn_here, *arguments) == ["a letter", "scan.png"]
    newest, oldest = inturn_here("documents", "--batch", "july", "--json").records
    assert (newest["uri"], newest["size"]) == ("https://example.org/x/scan.png?key=1", None)
    assert (oldest["uri"], oldest["size"], oldest["metadata"]) == (None, len(content), {"n": 3})
    assert oldest["media_type"] == "application/pdf"
    with package.open(str(tmp_path / "inturn.db")) as queue:
        given = queue.document(oldest["id"]).spec
    assert given.sha256 == hashlib.sha256(content).hexdigest()
    assert [path.read_bytes() for path in blobs(tmp_path)] == [content]


def test_a_folder_gives_its_files_by_name_without_hidden_ones_and_our_own(
    inturn_here: Inturn, letters: Path, tmp_path: Path
) -> None:
    expected = ["a.txt", "b.txt", "more/c.md"]
    assert names(inturn_here, str(letters)) == expected
    inside = letters / "queue.db"
    assert names(inturn_here, "letters", "--store", str(inside)) == expected
    assert names(inturn_here, "letters", "--store", str(inside)) == expected
    assert len(blobs(tmp_path)) == 3


def test_patterns_and_lists_name_each_file_once(
    inturn_here: Inturn, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names(inturn_here, "letters/*.txt", "letters/a.txt", "letters/**/*.md") == ["a.txt", "b.txt", "c.md"]
    (letters / "we[i]rd.txt").write_text("x")
    assert names(inturn_here, "letters/we[i]rd.txt") == ["we[i]rd.txt"]
    for listed in (b"letters/b.txt\nletters/a.txt\r\n\na://b/c\n", b"letters/b.txt\0letters/a.txt\0a://b/c"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed)))
        assert names(inturn_here, "-") == ["b.txt", "a.txt", "c"]


def test_names_that_are_no_files_are_addresses_only_if_told_so(inturn_here: Inturn) -> None:
    assert names(inturn_here, "--uri", "urn:isbn:1", "inbox/7") == ["urn:isbn:1", "7"]
    assert names(inturn_here, "http://[", "a://b/c/") == ["http://[", "c"]
    assert inturn_here("submit", "--customer", "acme", "inbox/7").returncode == 2
    assert inturn_here("submit", "--customer", "acme", "").returncode == 2


def test_one_unreadable_file_stops_all_or_is_left_out(inturn_here: Inturn, letters: Path, tmp_path: Path) -> None:
    (letters / "pipe").symlink_to("nowhere")
    done = inturn_here("submit", "--customer", "acme", "letters/a.txt", "letters/none.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'letters/none.txt'" in done.stderr
    assert "--skip-unreadable" in done.stderr
    assert not (tmp_path / "inturn.db").exists()
    done = inturn_here("submit", "--customer", "acme", "letters/a.txt", "letters/none.txt", "--skip-unreadable")
    assert done.returncode == 0
    assert done.stderr.startswith("Skipped: there is no file 'letters/none.txt'")
    assert "a.txt" in done.stdout


def test_a_file_that_is_too_large_is_named_and_nothing_stays(
    inturn_here: Inturn, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 1 << 20)
    (letters / "z.bin").write_bytes(bytes((1 << 20) + 1))
    done = inturn_here("submit", "--customer", "acme", "letters")
    assert done.returncode == 2
    assert "'letters/z.bin' is larger than 1 MB" in done.stderr
    assert blobs(tmp_path) == []
    assert inturn_here("submit", "--customer", "acme", "letters/z.bin", "--skip-unreadable").returncode == 2
    assert names(inturn_here, "letters", "--skip-unreadable") == ["a.txt", "b.txt", "more/c.md"]


def test_a_commit_that_fails_leaves_no_bytes(
    inturn_here: Inturn, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Queue.submit
    calls: list[int] = []

    def fail_later(self: Queue, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise StoreFullError("the disk is full")
        return submit(self, *args, **options)

    monkeypatch.setattr(module, "SUBMIT_BATCH_SIZE", 2)
    monkeypatch.setattr(Queue, "submit", fail_later)
    done = inturn_here("submit", "--customer", "acme", str(letters), "--json")
    assert done.returncode == 1
    assert "2 documents were submitted before this" in done.stderr
    assert len(done.stdout.splitlines()) == len(blobs(tmp_path)) == 2


@pytest.mark.usefixtures("letters")
def test_groups_share_a_key_and_a_repeat_leaves_no_second_bytes(
    inturn_here: Inturn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SUBMIT_BATCH_SIZE", 2)
    first, again = (
        inturn_here("submit", "--customer", "acme", "letters", "--key", "k", "--json").records for _ in range(2)
    )
    assert first == again
    assert [item["count"] for item in first] == [0, -1, -2]
    assert len(blobs(tmp_path)) == 3
    assert inturn_here("submit", "--customer", "acme", "letters/b.txt", "--key", "k").returncode == 1
    assert len(blobs(tmp_path)) == 3


def test_a_queue_without_a_place_for_bytes_says_so(inturn_here: Inturn, letters: Path) -> None:
    done = inturn_here("submit", "--customer", "acme", str(letters), "--store", "memory://")
    assert done.returncode == 2
    assert "--blobs" in done.stderr
    assert names(inturn_here, str(letters), "--store", "memory://", "--blobs", "elsewhere") != []


def test_names_that_the_queue_does_not_take_are_mended(inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "a\nb\x1b.txt").write_text("x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")).write_text("x")
    deep = tmp_path / "d" / ("e" * 200) / ("f" * 200)
    deep.mkdir(parents=True)
    (deep / "g.txt").write_text("x")
    assert names(inturn_here, "a\nb\x1b.txt", os.fsdecode(b"\xff.txt")) == ["a\ufffdb\ufffd.txt", "\ufffd.txt"]
    (long,) = names(inturn_here, "d")
    assert len(long) == 255
    assert long.endswith("f/g.txt")


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        (b"%PDF-1.7", "a.txt", "application/pdf"),
        (b"PK\x03\x04", "a.odt", "application/vnd.oasis.opendocument.text"),
        (b"PK\x03\x04", "a.epub", "application/epub+zip"),
        (b"PK\x03\x04", "a.pdf", "application/zip"),
        (b"a,b\n1,2\n", "a.csv", "text/csv"),
        (b"plain words", "a.pdf", "text/plain"),
        (b"\0\1\2", "a.mp3", "audio/mpeg"),
        (b"\0\1\2", "a", None),
    ],
)
def test_the_type_is_told_by_the_bytes_and_then_by_the_name(head: bytes, name: str, expected: str | None) -> None:
    assert media_type_of(head, name) == expected

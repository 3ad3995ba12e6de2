"""What a child leaves for its worker: parts, or anything else if it is in hostile hands."""

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.blobs import FolderBlobs
from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.processor_api import Part, Parts
from inturn.values import MAX_TIME
from inturn.worker.part_listing import PartListing
from inturn.worker.part_writer import MAX_PACK_BYTES, write_parts

PART = {"name": "a", "metadata": {}, "media_type": None, "pages": None, "steps": ["page"], "content": None}
WHOLE: Any = SimpleNamespace(spec=NewDocument("whole", blob="018f3c5e-0000-7000-8000-000000000000", size=5))


def read(folder: Path, name: Any = "listing", *, is_sandboxed: bool = True) -> tuple[NewDocument, ...]:
    blobs = FolderBlobs(folder.parent / "blobs")
    return PartListing(name, folder, WHOLE, lambda: blobs).read(is_sandboxed=is_sandboxed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("of another customer")
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def leave(folder: Path, *records: Any) -> None:
    (folder / "listing").write_text("".join(json.dumps(record) + "\n" for record in records))


def with_pack(folder: Path, *content: Any) -> None:
    (folder / "pack").write_text("short")
    leave(folder, {**PART, "content": content})


LEFT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link": (lambda folder: (folder / "listing").symlink_to(folder.parent / "secret"), "symbolic links"),
    "a pipe": (lambda folder: os.mkfifo(folder / "listing"), "not a file"),
    "a folder": (lambda folder: (folder / "listing").mkdir(), "not a file"),
    "nothing": (lambda folder: folder, "No such file"),
    "an empty file": (lambda folder: (folder / "listing").touch(), "not 0"),
    "no JSON": (lambda folder: (folder / "listing").write_text("no"), "part 1 cannot be read"),
    "deep JSON": (lambda folder: (folder / "listing").write_text("[" * 90_000), "part 1 cannot be read"),
    "a number": (lambda folder: leave(folder, 5), "part 1 cannot be read"),
    "a list": (lambda folder: leave(folder, ["name"]), "part 1 cannot be read"),
    "a long line": (lambda folder: leave(folder, {**PART, "name": "x" * (2 << 20)}), "part 1 cannot be read"),
    "too many": (lambda folder: leave(folder, *[PART] * 10_001), "not 10001"),
    "another blob": (lambda folder: leave(folder, {"document": {"name": "a", "blob": "x"}}), "in the sandbox"),
    "a blob by the way": (lambda folder: leave(folder, PART, {**PART, "name": ""}), "part 2: a document's name"),
    "a linked pack": (
        lambda folder: (with_pack(folder, "other", 0, 5), (folder / "other").symlink_to(folder.parent / "secret")),
        "symbolic links",
    ),
    "a pack outside": (lambda folder: with_pack(folder, "../secret", 0, 5), "No such file"),
    "beyond the end": (lambda folder: with_pack(folder, "pack", 3, 9), "not complete"),
    "before the start": (lambda folder: with_pack(folder, "pack", -1, 9), "part 1 cannot be read"),
    "a negative size": (lambda folder: with_pack(folder, "pack", 3, -1), "part 1 cannot be read"),
    "too large": (lambda folder: with_pack(folder, "pack", 0, 2 << 30), "may have 1,024 MB together"),
    "no place": (lambda folder: with_pack(folder, "pack"), "part 1 cannot be read"),
    "no number": (lambda folder: with_pack(folder, "pack", True, 1.5), "part 1 cannot be read"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_is_no_list_of_parts_is_refused(folder: Path, kind: str) -> None:
    make, reason = LEFT[kind]
    make(folder)
    with pytest.raises((InvalidInputError, OSError), match=reason):
        read(folder)
    assert list(FolderBlobs(folder.parent / "blobs").keys(MAX_TIME)) == []


def test_name_leads_into_the_folder_alone(folder: Path) -> None:
    leave(folder, PART)
    assert len(read(folder, "/etc/../listing")) == 1
    with pytest.raises(OSError, match="No such file"):
        read(folder, "../secret")


@given(
    record=st.dictionaries(
        st.sampled_from([*PART, "document"]),
        st.none() | st.integers() | st.text(max_size=9) | st.lists(st.sampled_from(["pack", 0, 1, "page"]), max_size=4),
    )
)
def test_any_record_is_a_part_or_an_error(tmp_path_factory: pytest.TempPathFactory, record: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("left")
    with_pack(folder, "pack", 0, 1)
    leave(folder, {**PART, **record})
    try:
        (part,) = read(folder)
    except (InvalidInputError, OSError):
        return
    assert part.blob == WHOLE.spec.blob or part.size == 1


def test_parts_come_out_as_they_were_written(folder: Path) -> None:
    (folder.parent / "file").write_bytes(b"from a file")
    parts = [
        Part("é", b"bytes", {"n": 1}, "text/plain", 3),
        Part("b", folder.parent / "file", steps=["other", "page"]),
        Part("c"),
        NewDocument("d", metadata={"n": 2}),
        NewDocument("e", queue="own", uri="s3://a/b"),
    ]
    name = write_parts(Parts(parts, "merge", ["page"]), folder, count())
    first, second, third, fourth, fifth = read(folder, name, is_sandboxed=False)
    assert (first.name, first.metadata, first.media_type, first.pages, first.steps) == (
        "é", {"n": 1}, "text/plain", 3, ("page",),
    )  # fmt: skip
    assert [(part.size, part.steps) for part in (second, third)] == [(11, ("other", "page")), (None, ("page",))]
    assert third.blob == WHOLE.spec.blob
    assert [(part.queue, part.uri) for part in (fourth, fifth)] == [("page", None), ("own", "s3://a/b")]
    blobs = FolderBlobs(folder.parent / "blobs")
    contents = []
    for part in (first, second):
        with blobs.open(part.blob or "") as source:
            contents.append(source.read())
    assert contents == [b"bytes", b"from a file"]
    assert list(folder.iterdir()) == []


def test_contents_are_packed_into_few_files(folder: Path) -> None:
    half = bytes(MAX_PACK_BYTES // 2)
    write_parts(
        Parts([Part(str(n), content) for n, content in enumerate([half, half, b"x", *[b"y"] * 99])], "m"),
        folder,
        count(),
    )
    assert sorted(path.stat().st_size for path in folder.glob("pack-*")) == [100, MAX_PACK_BYTES]

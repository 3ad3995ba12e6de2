"""Pages are counted for every kind, and nothing that is submitted can break the count."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo import KINDS, make_document
from hostile_files import HOSTILE_FILES, HostileFile, tiff
from inturn.extract.page_count import count_pages
from inturn.media_types import MAGIC

STARTS = [b"", b"%PDF-1.7\n", b"RIFF1234WEBP", *(magic for magic, _ in MAGIC)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"html", "md", "eml"}])
def test_the_count_is_right(kind: str) -> None:
    for seed in range(10):
        made = make_document(kind, seed)
        assert count_pages(made.data, made.media_type) == made.pages


def test_text_counts_by_its_length() -> None:
    assert count_pages(b"word " * 2_000) == 4
    assert count_pages(b"x") == 1
    assert count_pages(b"") is None


def test_a_tiff_counts_its_pages_once() -> None:
    assert count_pages(tiff(10, 10, next_ifd=8)) == 1


def test_a_file_counts_like_its_bytes(tmp_path: Path) -> None:
    made = make_document("pdf", 3)
    (tmp_path / "a.pdf").write_bytes(made.data)
    assert count_pages(tmp_path / "a.pdf") == made.pages
    assert count_pages(tmp_path / "missing.pdf") is None


@pytest.mark.parametrize("hostile", HOSTILE_FILES, ids=lambda hostile: hostile.name)
def test_hostile_files_are_counted_or_not(hostile: HostileFile) -> None:
    counted = count_pages(hostile.make())
    assert counted is None or counted > 0


@given(st.sampled_from(STARTS), st.binary(max_size=3_000))
def test_no_bytes_raise(start: bytes, rest: bytes) -> None:
    counted = count_pages(start + rest)
    assert counted is None or counted > 0


@given(st.sampled_from(KINDS), st.integers(0, 20), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255))))
def test_damaged_documents_do_not_raise(kind: str, seed: int, damage: list[tuple[int, int]]) -> None:
    data = bytearray(make_document(kind, seed).data)
    for place, value in damage:
        data[place % len(data)] = value
    counted = count_pages(bytes(data))
    assert counted is None or counted > 0

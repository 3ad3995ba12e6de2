"""The guarantees of every blob store, as inturn.blobs.base numbers them."""

import hashlib
import io
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn.blobs import Blobs
from inturn.errors import (
    BlobDamagedError,
    BlobError,
    BlobNotFoundError,
    BlobTooLargeError,
    InvalidInputError,
)

HOUR = 3_600_000_000
UNKNOWN = "018f3c5e-0000-7000-8000-0000000000ff"
HOSTILE = ["", "x", "../../etc/passwd", "/etc/passwd", "..", UNKNOWN + "/..", f"../{UNKNOWN}", UNKNOWN + "\0", "tmp/x"]

several_parts = b"0123456789abcdef" * (11 * 65_536)  # 11 MiB: an upload of two parts


def now() -> int:
    return time.time_ns() // 1_000


def content(blobs: Blobs, key: str) -> bytes:
    with blobs.open(key) as source:
        return source.read()


@pytest.mark.parametrize("data", [b"", b"\0", b"abc", several_parts], ids=["empty", "zero", "small", "large"])
def test_what_was_put_is_there(harness: Any, data: bytes) -> None:
    blob = harness.blobs.put(io.BytesIO(data))
    assert blob[1:] == (hashlib.sha256(data).hexdigest(), len(data))
    assert content(harness.blobs, blob.key) == data
    harness.blobs.check(blob.key, blob.sha256)
    with harness.blobs.local(blob.key, sha256=blob.sha256) as path:
        assert path.read_bytes() == data
    assert harness.names() == [f"{blob.key[-2:]}/{blob.key}"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(chunks=st.lists(st.binary(max_size=200), max_size=10), kind=st.sampled_from([bytes, bytearray, memoryview]))
def test_any_bytes_in_any_chunks_come_back(harness: Any, chunks: list[bytes], kind: Any) -> None:
    data = b"".join(chunks)
    with harness.blobs.begin(limit=len(data)) as writer:
        for chunk in chunks:
            writer.write(kind(chunk))
        blob = writer.commit()
    assert blob == (writer.key, hashlib.sha256(data).hexdigest(), len(data))
    assert content(harness.blobs, blob.key) == data


def test_whether_a_blob_is_there(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(b"abc"))
    assert (harness.blobs.has(blob.key), harness.blobs.has(UNKNOWN)) == (True, False)
    harness.blobs.delete([blob.key])
    assert not harness.blobs.has(blob.key)


def test_a_chunk_may_be_used_again_by_its_owner(harness: Any) -> None:
    chunk, summed = bytearray(5_000_000), hashlib.sha256()
    with harness.blobs.begin() as writer:
        for number in range(5):
            chunk[:] = bytes([number]) * len(chunk)
            summed.update(chunk)
            writer.write(chunk)
        blob = writer.commit()
    assert blob.sha256 == summed.hexdigest()
    harness.blobs.check(blob.key, blob.sha256)


def test_the_same_bytes_twice_are_two_blobs(harness: Any) -> None:
    first, second = (harness.blobs.put(io.BytesIO(b"same")) for _ in range(2))
    assert first.key != second.key
    assert first.sha256 == second.sha256
    assert len(harness.names()) == 2


@pytest.mark.parametrize("size", [1, 1000, len(several_parts)])
def test_a_limit_is_met_exactly_and_leaves_nothing_behind(harness: Any, size: int) -> None:
    data = several_parts[:size]
    assert harness.blobs.put(io.BytesIO(data), limit=size).size == size
    stored = harness.names()
    with pytest.raises(BlobTooLargeError, match=f"{size - 1:,} bytes") as refused:
        harness.blobs.put(io.BytesIO(data), limit=size - 1)
    assert isinstance(refused.value, InvalidInputError)
    assert harness.names() == stored


@pytest.mark.parametrize("limit", [-1, 1.5, True, "10"])
def test_a_limit_is_a_number_of_bytes(harness: Any, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="whole number of bytes"):
        harness.blobs.put(io.BytesIO(b""), limit=limit)
    assert harness.names() == []


def test_before_the_commit_there_is_nothing_to_see(harness: Any) -> None:
    with harness.blobs.begin() as writer:
        writer.write(several_parts)
        assert list(harness.blobs.keys(now() + HOUR)) == []
        with pytest.raises(BlobNotFoundError):
            harness.blobs.open(writer.key)
        writer.commit()
        assert list(harness.blobs.keys(now() + HOUR)) == [writer.key]


@pytest.mark.parametrize("data", [b"", b"abc", several_parts], ids=["empty", "small", "large"])
def test_what_is_not_committed_leaves_nothing(harness: Any, data: bytes) -> None:
    with harness.blobs.begin() as writer:
        writer.write(data)
    assert harness.names() == []
    writer.abort()
    with pytest.raises(BlobError, match="already committed or aborted"):
        writer.write(b"x")
    with pytest.raises(BlobError, match="already committed or aborted"):
        writer.commit()
    assert harness.names() == []


def test_an_abort_after_the_commit_changes_nothing(harness: Any) -> None:
    writer = harness.blobs.begin()
    blob = writer.commit()
    writer.abort()
    harness.blobs.check(blob.key, blob.sha256)


def test_a_source_that_breaks_off_leaves_nothing(harness: Any) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() == len(several_parts):
                raise ConnectionResetError
            return super().read(size)

    with pytest.raises(ConnectionResetError):
        harness.blobs.put(Broken(several_parts))
    assert harness.names() == []


def test_a_blob_can_be_read_in_pieces(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(several_parts))
    with harness.blobs.open(blob.key) as source:
        assert source.seek(-16, io.SEEK_END) == len(several_parts) - 16
        assert source.read() == several_parts[-16:]
        assert source.seek(5) == 5
        assert source.tell() == 5
        assert source.read(3) == several_parts[5:8]


def test_deleting_is_no_error_when_there_is_nothing(harness: Any) -> None:
    keys = [harness.blobs.put(io.BytesIO(b"x")).key for _ in range(4)]
    harness.blobs.delete([])
    harness.blobs.delete([keys[0], UNKNOWN, keys[0], keys[2]])
    harness.blobs.delete(keys[:1])
    assert set(harness.blobs.keys(now() + HOUR)) == {keys[1], keys[3]}


def test_a_missing_blob_is_not_found(harness: Any) -> None:
    with pytest.raises(BlobNotFoundError, match=UNKNOWN):
        harness.blobs.open(UNKNOWN)
    with pytest.raises(BlobNotFoundError, match=UNKNOWN):
        harness.blobs.check(UNKNOWN, "0" * 64)
    with pytest.raises(BlobNotFoundError, match=UNKNOWN), harness.blobs.local(UNKNOWN):
        pass
    assert harness.names() == []


@pytest.mark.parametrize("key", HOSTILE)
def test_only_a_uuid_is_a_key(harness: Any, key: str) -> None:
    stored = harness.blobs.put(io.BytesIO(b"x")).key
    with pytest.raises(InvalidInputError, match="an id is a UUID"):
        harness.blobs.open(key)
    with pytest.raises(InvalidInputError, match="an id is a UUID"):
        harness.blobs.check(key, "0" * 64)
    with pytest.raises(InvalidInputError, match="an id is a UUID"), harness.blobs.local(key):
        pass
    with pytest.raises(InvalidInputError, match="an id is a UUID"):
        harness.blobs.delete([stored, key])
    assert list(harness.blobs.keys(now() + HOUR)) == [stored]


@pytest.mark.parametrize("damaged", [b"", b"contenT", b"content more"])
def test_damage_is_seen_when_asked_for(harness: Any, damaged: bytes) -> None:
    blob = harness.blobs.put(io.BytesIO(b"content"))
    harness.replace(blob.key, damaged)
    with pytest.raises(BlobDamagedError, match=blob.key):
        harness.blobs.check(blob.key, blob.sha256)
    with pytest.raises(BlobDamagedError, match=blob.key), harness.blobs.local(blob.key, sha256=blob.sha256):
        pass
    with harness.blobs.local(blob.key) as path:
        assert path.read_bytes() == damaged


def test_a_hash_may_be_in_capitals(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(b"content"))
    harness.blobs.check(blob.key, blob.sha256.upper())


def test_keys_lists_only_what_is_older(harness: Any) -> None:
    keys = {harness.blobs.put(io.BytesIO(b"x")).key for _ in range(20)}
    assert list(harness.blobs.keys(now() - HOUR)) == []
    assert set(harness.blobs.keys(now() + HOUR)) == keys
    for key in harness.blobs.keys(now() + HOUR):
        harness.blobs.delete([key])
    assert harness.names() == []


def test_tidying_leaves_finished_and_fresh_ones_alone(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(b"x"))
    with harness.blobs.begin() as writer:
        writer.write(b"y")
        assert harness.blobs.remove_unfinished(now() - HOUR) == 0
        other = writer.commit()
    assert harness.blobs.remove_unfinished(now() + HOUR) == 0
    assert set(harness.blobs.keys(now() + HOUR)) == {blob.key, other.key}


def test_an_error_inside_local_is_the_callers_own(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(b"x"))
    with pytest.raises(OSError, match="mine"), harness.blobs.local(blob.key, sha256=blob.sha256):
        raise OSError("mine")

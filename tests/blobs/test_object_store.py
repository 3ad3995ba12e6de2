"""Object stores: addresses, credentials, and errors of the service."""

import io
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from moto.s3.responses import S3Response
from obstore.store import LocalStore, MemoryStore

import inturn
from inturn.backup import Backup, Restore
from inturn.blobs import object_store, open_blobs
from inturn.blobs.object_store import PART_BYTES, ObjectBlobs
from inturn.cli.missing_files import find_missing
from inturn.errors import BlobError, BlobFullError, InvalidInputError
from inturn.stores import restore_target, snapshot_file, snapshot_source

FAR = 2**62
UNKNOWN = "018f3c5e-0000-7000-8000-0000000000ff"


@pytest.fixture
def without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_RETRY", {"max_retries": 0, "retry_timeout": timedelta(seconds=1)})


def test_endpoint_and_region_may_come_from_the_environment(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    blobs = open_blobs(f"s3://{bucket.name}")
    key = blobs.put(io.BytesIO(b"x")).key
    (result,) = bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]
    assert result["Key"] == f"{key[-2:]}/{key}"


@pytest.mark.usefixtures("without_retries")
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_endpoint_in_the_address_overrides_the_environment(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "https://127.0.0.1:9")
    blobs = open_blobs(f"s3://{bucket.name}/?endpoint={bucket.endpoint}")
    assert blobs.put(io.BytesIO(b"x")).size == 1


def test_reading_an_object_to_its_end_sends_a_request_for_each_part(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = open_blobs(f"s3://{bucket.name}/?endpoint={bucket.endpoint}")
    key, requests, get_object = blobs.put(io.BytesIO(bytes(PART_BYTES + 1))).key, [], S3Response.get_object

    def counted(response: S3Response) -> Any:
        requests.append(response)
        return get_object(response)

    monkeypatch.setattr(S3Response, "get_object", counted)
    with blobs.open(key) as source:
        assert len(source.read()) == PART_BYTES + 1
    assert len(requests) == 2


def test_a_backup_takes_objects_along_and_a_restore_puts_them_back(bucket: Any, tmp_path: Path) -> None:
    here, there = (f"s3://{bucket.name}/{name}?endpoint={bucket.endpoint}&region=us-east-1" for name in ("a", "b"))
    blobs = open_blobs(here)
    stored = [blobs.put(io.BytesIO(f"object {n}".encode())) for n in range(205)]
    with inturn.open(str(tmp_path / "queue.db")) as queue:
        queue.submit("acme", [inturn.NewDocument("x", blob=blob.key, sha256=blob.sha256) for blob in stored])
        assert find_missing(queue, blobs, is_configured=True).missing == 0
    manifest = Backup(snapshot_source(str(tmp_path / "queue.db")), snapshot_file, blobs, tmp_path / "copy").run(
        lambda _: None, with_blobs=True, force=False
    )
    assert (manifest.files, manifest.missing) == (205, [])
    job = Restore(tmp_path / "copy", snapshot_file, restore_target(str(tmp_path / "new.db")))
    job.check()
    assert job.run(open_blobs(there), lambda _: None).lost == []
    open_blobs(there).delete([stored[0].key, stored[204].key])
    with inturn.open(str(tmp_path / "new.db")) as queue:
        assert find_missing(queue, open_blobs(there), is_configured=True) == (205, {"acme": 2}, False)


def test_two_prefixes_do_not_see_each_other(bucket: Any) -> None:
    one, two = (open_blobs(f"s3://{bucket.name}/{prefix}?endpoint={bucket.endpoint}") for prefix in ("one", "one/two"))
    key = two.put(io.BytesIO(b"x")).key
    assert list(one.keys(FAR)) == []
    assert list(two.keys(FAR)) == [key]


def test_objects_that_are_not_ours_are_not_listed(s3_harness: Any, bucket: Any) -> None:
    for name in ("notes", "ab/notes", f"00/{UNKNOWN}", UNKNOWN, f"x/ff/{UNKNOWN}"):
        bucket.client.put_object(Bucket=bucket.name, Key=f"some/where/{name}", Body=b"mine")
    assert list(s3_harness.blobs.keys(FAR)) == []


def test_more_than_a_page_is_listed_and_deleted(s3_harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_LIST_PAGE_SIZE", 7)
    keys = {s3_harness.blobs.put(io.BytesIO(b"x")).key for _ in range(30)}
    assert set(s3_harness.blobs.keys(FAR)) == keys
    s3_harness.blobs.delete(s3_harness.blobs.keys(FAR))
    assert s3_harness.names() == []


def test_a_local_copy_is_read_only_and_goes_away(s3_harness: Any, tmp_path: Path) -> None:
    blob = s3_harness.blobs.put(io.BytesIO(b"x"))
    with s3_harness.blobs.local(blob.key, folder=tmp_path) as path:
        assert path.is_relative_to(tmp_path)
        assert path.stat().st_mode & 0o777 == 0o400
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_a_local_copy_is_reported(s3_harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = s3_harness.blobs.put(io.BytesIO(b"x"))
    with pytest.raises(BlobError, match="TMPDIR"), s3_harness.blobs.local(blob.key, folder=tmp_path / "missing"):
        pass

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(BlobFullError, match="make room"), s3_harness.blobs.local(blob.key, folder=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_retries")
@pytest.mark.parametrize("size", [1, 20_000_000])
def test_missing_bucket_is_reported(bucket: Any, size: int) -> None:
    blobs = open_blobs(f"s3://no-such-bucket/?endpoint={bucket.endpoint}")
    for attempt in (
        lambda: blobs.put(io.BytesIO(bytes(size))),
        lambda: blobs.open(UNKNOWN),
        lambda: list(blobs.keys(FAR)),
    ):
        with pytest.raises(BlobError, match="no-such-bucket") as exception_info:
            attempt()
        assert "\n" not in str(exception_info.value)


@pytest.mark.usefixtures("without_retries", "bucket")
def test_unreachable_service_is_reported() -> None:
    blobs = open_blobs("s3://bucket/?endpoint=http://127.0.0.1:9")
    attempts = (
        lambda: blobs.put(io.BytesIO(b"x")),
        lambda: blobs.put(io.BytesIO(bytes(20_000_000))),
        lambda: blobs.open(UNKNOWN),
        lambda: blobs.check(UNKNOWN, "0" * 64),
        lambda: list(blobs.keys(FAR)),
        lambda: blobs.delete([UNKNOWN]),
    )
    for attempt in attempts:
        with pytest.raises(BlobError, match="check the address, the network and the credentials"):
            attempt()


def test_service_failing_during_a_read_is_reported(s3_harness: Any) -> None:
    blob = s3_harness.blobs.put(io.BytesIO(bytes(5_000_000)))
    with s3_harness.blobs.open(blob.key) as source:
        source.read(10)
        s3_harness.blobs.delete([blob.key])
        with pytest.raises(BlobError, match=blob.key):
            source.read()


@pytest.mark.parametrize(
    "address",
    [
        "s3://AKIA:hunter2@bucket/prefix",
        "s3://AKIA@bucket",
        "s3://bucket/?access_key_id=hunter2",
        "s3://bucket/?aws_secret_access_key=hunter2",
        "s3://bucket/?session_token=hunter2",
        "s3://bucket/?endpoint=https://me:hunter2@s3.example.com",
        "gs://bucket/?service_account_key=hunter2",
    ],
)
def test_credentials_in_the_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidInputError, match="AWS_SECRET_ACCESS_KEY in the environment") as exception_info:
        open_blobs(address)
    assert "hunter2" not in str(exception_info.value)


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///prefix",
        "s3://bucket:80/",
        "s3://bucket/#x",
        "s3://bucket/a//b",
        "s3://bucket/../b",
        "s3://bucket/%2e%2e/b",
        "s3://bucket/?speed=high",
        "s3://bucket/?region=",
        "s3://bucket/?region=a&region=b",
        "s3://bucket/?endpoint=ftp://x",
        "s3://bucket/?endpoint=x",
        "gs://bucket/?region=x",
    ],
)
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(InvalidInputError):
        open_blobs(address)


def test_without_obstore_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "inturn.blobs.object_store")
    monkeypatch.delattr(sys.modules["inturn.blobs"], "object_store")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(BlobError, match=r"pip install 'inturn\[s3\]'"):
        open_blobs("s3://bucket")


def test_other_clouds_open_from_their_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert isinstance(open_blobs("gs://bucket/prefix"), ObjectBlobs)
    assert isinstance(open_blobs("az://container/prefix"), ObjectBlobs)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(BlobError, match="Account must be specified"):
        open_blobs("az://container/prefix")


def test_delete_ignores_missing_objects_on_services_that_raise(tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path), MemoryStore()):
        blobs = ObjectBlobs(store, "test")
        keys = [blobs.put(io.BytesIO(b"x")).key for _ in range(3)]
        blobs.delete([UNKNOWN, keys[0], UNKNOWN, keys[1]])
        assert list(blobs.keys(FAR)) == keys[2:]

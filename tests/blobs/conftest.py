"""Harnesses of every kind of blob store: a folder, and a real S3 server on this machine."""

import itertools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from moto.server import ThreadedMotoServer

from inturn.blobs import Blobs, open_blobs

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class BlobHarness(NamedTuple):
    """A blob store, and direct access to its files or objects."""

    blobs: Blobs
    names: Callable[[], list[str]]
    """Lists all files or objects, finished or not."""
    replace: Callable[[str, bytes], None]
    """Overwrites a blob as a bad disk would."""


class Bucket(NamedTuple):
    endpoint: str
    name: str
    client: Any


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


_numbers = itertools.count()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server)
    made = Bucket(server, f"bucket-{next(_numbers)}", client)
    client.create_bucket(Bucket=made.name)
    yield made
    client.close()


@pytest.fixture
def folder_harness(tmp_path: Path) -> BlobHarness:
    top = tmp_path / "blobs"

    def replace(key: str, content: bytes) -> None:
        (top / key[-2:] / key).write_bytes(content)

    def names() -> list[str]:
        return [str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()]

    return BlobHarness(open_blobs(str(top)), names, replace)


@pytest.fixture
def s3_harness(bucket: Bucket) -> BlobHarness:
    def replace(key: str, content: bytes) -> None:
        bucket.client.put_object(Bucket=bucket.name, Key=f"some/where/{key[-2:]}/{key}", Body=content)

    def names() -> list[str]:
        objects = bucket.client.list_objects_v2(Bucket=bucket.name).get("Contents", [])
        uploads = bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
        return [item["Key"].removeprefix("some/where/") for item in (*objects, *uploads)]

    address = f"s3://{bucket.name}/some/where?endpoint={bucket.endpoint}&region=us-east-1"
    return BlobHarness(open_blobs(address), names, replace)


@pytest.fixture(params=["folder", "s3"])
def harness(request: pytest.FixtureRequest) -> BlobHarness:
    made: BlobHarness = request.getfixturevalue(f"{request.param}_harness")
    return made

"""G8 over HTTP: a full or broken disk is an error, never a false 202."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn.errors import StoreError, StoreFullError

from .conftest import Harness, ServerProcess


def test_full_disk_accepts_nothing(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = serve()
    # No file of this process may grow further than this: the kernel answers as it does on a full disk.
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    accepted, refused = [], []
    with server.client() as client:
        for number in range(250):
            size = 700_000 if number % 25 == 24 else 500
            answer = client.post("/v1/documents", files=[("file", ("a", b"x" * size))], data={"customer": "acme"})
            reported = answer.json()
            if answer.status_code == 202:
                accepted += [item["id"] for item in reported["receipts"]]
            else:
                assert answer.status_code in {503, 507}, reported
                assert reported["code"] in {"store_full", "store_error", "blob_full", "blob"}
                refused.append(reported["code"])
        assert "blob_full" in refused
        assert set(refused) - {"blob_full"}, "the database was never full"
        assert accepted
        assert client.get(f"/v1/documents/{accepted[0]}").status_code == 200
        assert client.get("/healthz").status_code == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = client.post("/v1/documents", files=[("file", ("a", b"x"))], data={"customer": "acme"})
        assert after.status_code == 202
        accepted += [item["id"] for item in after.json()["receipts"]]
    assert server.stop() == 0
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        stored = {document.id for document in queue.documents(limit=1_000).items}
        assert stored == set(accepted)
        blobs = inturn.open_blobs(str(tmp_path / "inturn.db.blobs"))
        for id_ in accepted:
            given = queue.document(id_).spec
            blobs.check(given.blob or "", given.sha256 or "")
        assert len([path for path in (tmp_path / "inturn.db.blobs").rglob("*-*")]) == len(accepted)  # noqa: C416


@pytest.mark.parametrize("failing", ["write", "fsync", "rename", "commit"])
def test_failed_upload_returns_its_error_and_leaves_no_blob(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    client = harness.client_as(harness.create_api_key("acme"))

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def full(*_: Any, **__: Any) -> Any:
        raise StoreFullError("the disk of /our/own/path is full")

    with monkeypatch.context() as patch:
        if failing == "commit":
            patch.setattr(harness.queue.store, "submit_all", full)
        elif failing == "rename":
            patch.setattr(Path, "rename", broken)
        else:
            patch.setattr(os, failing, broken)
        answer = client.post("/v1/documents", files=[("file", ("a", b"x" * 1_000))])
    assert answer.status_code in {503, 507}
    assert answer.json()["code"] == ("store_full" if failing == "commit" else "blob")
    assert "/our/own/path" not in answer.text
    assert harness.queue.documents().items == ()
    assert harness.stored_blobs() == set()
    assert client.post("/v1/documents", files=[("file", ("a", b"x"))]).status_code == 202


def test_commit_with_a_lost_reply_keeps_its_blobs(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client, submit = harness.client_as(harness.create_api_key("acme")), harness.queue.store.submit_all

    def lost(*args: Any, **more: Any) -> Any:
        submit(*args, **more)
        raise StoreError("the connection broke after the commit")

    with monkeypatch.context() as patch:
        patch.setattr(harness.queue.store, "submit_all", lost)
        assert client.post("/v1/documents", files=[("file", ("a", b"x"))]).status_code == 503
    (document,) = harness.queue.documents().items
    assert harness.stored_blobs() == {document.spec.blob}

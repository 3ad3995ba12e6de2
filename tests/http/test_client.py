"""inturn.Client against a real server."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import inturn
from inturn.client import Client, RemoteError
from inturn.errors import IllegalTransitionError, InvalidInputError, KeyConflictError, NotFoundError
from inturn.model import NewDocument
from inturn.values import SECOND

from .conftest import ServerProcess

MISSING = "018f3c5e-0000-7000-8000-000000000000"


@pytest.fixture
def key(keys_at: Callable[..., list[str]], tmp_path: Path) -> str:
    """A key of acme."""
    return keys_at(tmp_path, "acme")[0]


@pytest.fixture
def server(serve: Callable[..., ServerProcess], key: str) -> ServerProcess:
    del key  # a server that needs keys does not start without one
    return serve("--auth", "keys")


@pytest.fixture
def client(server: ServerProcess, key: str) -> Iterator[Client]:
    with inturn.Client(server.url, key) as made:
        yield made


def test_a_client_does_what_the_library_does(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello")
    (receipt,) = client.submit([tmp_path / "a.txt"], batch="b/1", metadata={"x": 1})
    assert (receipt.level, receipt.count) == (1, 0)
    document = client.document(receipt.id)
    assert (document["customer"], document["batch"], document["metadata"]) == ("acme", "b/1", {"x": 1})
    assert client.content(receipt.id) == b"Hello"
    more = client.submit_all([{"name": f"{n}", "text": "x"} for n in range(120)])
    assert [document["id"] for document in client.documents(limit=50)] == [receipt.id for receipt in (receipt, *more)][
        ::-1
    ]
    assert [document["id"] for document in client.documents(limit=50, sort="oldest")] == [
        receipt.id for receipt in (receipt, *more)
    ]
    assert len(list(client.documents(state=["waiting"], batch="b/1"))) == 1
    assert client.batch("b/1")["documents"] == 1
    assert "Stufe" in client.why(receipt.id, "de")["sentence"]
    assert client.wait(receipt.id, 0.1)["state"] == "waiting"
    assert client.cancel(receipt.id)["state"] == "cancelled"
    assert client.wait(receipt.id, 30)["state"] == "cancelled"
    assert client.retry(receipt.id).id == receipt.id
    assert [item["kind"] for item in client.timeline(receipt.id)["moments"]] == ["submitted", "cancelled", "retried"]
    assert [check.count for check in client.check(count=2)] == [-122, -123]


def test_errors_are_those_of_the_library(server: ServerProcess, client: Client) -> None:
    with pytest.raises(NotFoundError, match="no such document"):
        client.document(MISSING)
    with pytest.raises(InvalidInputError):
        client.submit_all([{"name": ""}])
    (receipt,) = client.submit_all([{"name": "a"}], idempotency_key="k")
    assert client.submit_all([{"name": "a"}], idempotency_key="k") == [receipt]
    with pytest.raises(KeyConflictError):
        client.submit_all([{"name": "b"}], idempotency_key="k")
    with pytest.raises(IllegalTransitionError):
        client.result(receipt.id)
    with pytest.raises(NotFoundError):
        client.check("beta")
    error = Client(server.url, "inturn_wrong")
    with pytest.raises(RemoteError) as refused:
        error.document(MISSING)
    assert (refused.value.status, refused.value.remote_code) == (401, "unauthorized")
    error.close()


def test_interrupted_submission_is_repeated_and_stored_once(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2  # noqa: PLC0415 - only here

    (tmp_path / "a.txt").write_text("Hello")
    post, cut = httpx2.Client.post, 2

    def broken(*args: Any, **more: Any) -> object:
        nonlocal cut
        answer = post(*args, **more)
        if cut:
            cut -= 1
            raise httpx2.ReadError("the connection broke after all was sent")
        return answer

    monkeypatch.setattr(httpx2.Client, "post", broken)
    (receipt,) = client.submit([tmp_path / "a.txt"])
    assert cut == 0
    assert [document["id"] for document in client.documents()] == [receipt.id]


def test_unreachable_server_raises_remote_error() -> None:
    with Client("http://127.0.0.1:1") as stranger, pytest.raises(RemoteError, match="did not respond"):
        stranger.cancel(MISSING)


def test_client_without_httpx2_names_the_extra_to_install() -> None:
    code = "import sys; sys.modules['httpx2'] = None; import inturn; inturn.Client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: inturn.Client needs httpx2, which is not installed: pip install 'inturn[client]'"
    )


def test_client_reads_the_history_of_its_customer(client: Client, tmp_path: Path) -> None:
    client.submit_all([{"name": "a", "text": "x"}] * 3)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        queue.submit("beta", [NewDocument("b")] * 5)
        queue.fold_history(limit=100)
        since = queue.now() - 600 * SECOND
    answer = client.history(by="customer", since=since)
    assert [one["customer"] for one in answer["series"]] == ["acme"]
    assert sum(n or 0 for n in answer["total"]["submitted"]) == 3
    with pytest.raises(InvalidInputError, match="of all customers"):
        client.history(by="level")


def test_files_given_in_another_way_are_refused_before_anything_is_sent() -> None:
    with inturn.Client("http://127.0.0.1:1") as client:
        with pytest.raises(InvalidInputError, match=r"given as \['letter.txt'\]"):
            client.submit("letter.txt", customer="acme")
        with pytest.raises(InvalidInputError, match="files is empty"):
            client.submit([], customer="acme")


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="begins with http"):
        inturn.Client("127.0.0.1:8000")


def test_client_works_with_queues(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path
) -> None:
    anna, acme = keys_at(tmp_path, None, "acme")
    server = serve("--auth", "keys")
    (tmp_path / "a.txt").write_text("Hello")
    with inturn.Client(server.url, anna) as operator, inturn.Client(server.url, acme) as customer:
        with pytest.raises(InvalidInputError, match="no queue 'ocr'"):
            customer.submit([tmp_path / "a.txt"], queue="ocr")
        made = operator.change_queue("ocr", description="reads scans", weight=2, why="more scans")
        assert (made["name"], made["description"], made["weight"]) == ("ocr", "reads scans", 2.0)
        (receipt,) = customer.submit([tmp_path / "a.txt"], queue="ocr")
        customer.submit([tmp_path / "a.txt"])
        assert customer.document(receipt.id)["queue"] == "ocr"
        assert [document["id"] for document in customer.documents(queue="ocr")] == [receipt.id]
        assert [(queue["name"], queue["waiting"]) for queue in operator.queues()] == [("default", 1), ("ocr", 1)]
        operator.pause_queue("ocr", "new scanner")
        assert operator.queues()[1]["paused"] == {"operator": "anna", "why": "new scanner"}
        assert customer.why(receipt.id)["closed_by"] == ["own_queue_paused"]
        operator.resume_queue("ocr")
        assert operator.queues()[1]["paused"] is None
        with pytest.raises(NotFoundError):
            customer.queues()
        with pytest.raises(NotFoundError, match="nowhere"):
            operator.pause_queue("nowhere")

"""inturn.Client and steps: what one program submits, and another takes, against a real server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import inturn
from inturn.blobs import open_blobs
from inturn.client import Client
from inturn.errors import IllegalTransitionError, InvalidInputError, StaleFenceError
from inturn.model import Claim, NewDocument, ResultFile
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import seconds

from .conftest import ServerProcess

STEPS = ["ocr", "classify"]


@pytest.fixture
def client(serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path) -> Iterator[Client]:
    """An operator's client."""
    (key,) = keys_at(tmp_path, None)
    with inturn.Client(serve("--auth", "keys").url, key) as made:
        yield made


@pytest.fixture
def queue(client: Client, tmp_path: Path) -> Iterator[Queue]:
    """The server's queue, for a worker of the test."""
    del client
    with Queue(open_store(str(tmp_path / "inturn.db"))) as opened:
        yield opened


def claim(queue: Queue, name: str) -> Claim:
    (claimed,) = queue.claim("w1", queues=[name])
    return claimed


def test_client_submits_steps_and_reads_their_results(client: Client, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello")
    (receipt,) = client.submit([tmp_path / "a.txt"], customer="acme", steps=STEPS)
    document = client.document(receipt.id)
    assert (document["queue"], document["step"], document["steps"], document["ahead"]) == ("ocr", 0, STEPS, STEPS[1:])
    with pytest.raises(InvalidInputError, match=r"\['ocr'\]"):
        client.submit([tmp_path / "a.txt"], customer="acme", steps="ocr")
    with open_blobs(str(tmp_path / "inturn.db.blobs")).begin() as writing:
        writing.write(b"scan")
        blob = writing.commit()
    file = ResultFile("a b.txt", blob.key, blob.size, blob.sha256)
    queue.ack([queue.done(claim(queue, "ocr"), {"pages": 1})._replace(files=(file,))])
    queue.fail(claim(queue, "classify"), "torn", final=True)
    (step,) = client.results(receipt.id)
    assert (step["step"], step["queue"], step["result"]) == (0, "ocr", {"pages": 1})
    assert client.step_file(receipt.id, 0, "a b.txt") == b"scan"
    assert client.retry(receipt.id).id == receipt.id
    assert client.document(receipt.id)["queue"] == "classify"
    queue.fail(claim(queue, "classify"), "torn", final=True)
    assert client.retry_all(customer="acme", from_start=True) == 1
    assert client.document(receipt.id)["queue"] == "ocr"


def test_client_iterates_over_parts(client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.client.PARTS_PAGE", 2)
    (receipt,) = client.submit_all([{"name": "a", "text": "x", "queue": "split", "batch": "b"}], customer="acme")
    pages = [NewDocument(f"page {number}", queue="pages") for number in range(5)]
    queue.ack([queue.split(claim(queue, "split"), pages, "merge")])
    assert [part["part"] for part in client.parts(receipt.id)] == [1, 2, 3, 4, 5]
    assert [document["id"] for document in client.documents()] == [receipt.id]
    assert len(list(client.documents(parent=receipt.id))) == len(list(client.documents(parts="only"))) == 5
    assert client.batch("b")["documents"] == 1
    with pytest.raises(IllegalTransitionError, match="split"):
        client.result(receipt.id)
    queue.index_documents(limit=100)
    assert client.search("page")["documents"] == []
    assert len(client.search("page", parts="include")["documents"]) == 5


def test_client_takes_and_finishes_by_hand(client: Client) -> None:
    form = [{"name": "total", "kind": "number"}]
    rate = {"documents": 100, "per": 60_000_000}
    changed = client.change_queue("check", manual=True, form=form, cap=3, rate=rate)
    assert (changed["manual"], changed["cap"], changed["rate"]) == (True, 3, rate)
    assert client.take("check") is None
    (receipt,) = client.submit_all([{"name": "a", "text": "x", "queue": "check"}], customer="acme")
    assert [item["place"] for item in client.queue_documents("check")["waiting"]] == [0]
    taken = client.take("check", lease=seconds(60))
    assert taken is not None
    assert client.extend(receipt.id, taken["fence"])["lease_until"] > taken["lease_until"]
    assert client.release(receipt.id, taken["fence"])["state"] == "waiting"
    with pytest.raises(StaleFenceError, match="no longer holds"):
        client.finish(receipt.id, taken["fence"], {"total": 1})
    again = client.take("check")
    assert again is not None
    with pytest.raises(InvalidInputError, match="must be a number"):
        client.finish(receipt.id, again["fence"], {"total": "1"})
    assert client.finish(receipt.id, again["fence"], {"total": 1}, next="default")["queue"] == "default"
    (other,) = client.submit_all([{"name": "a", "text": "x", "queue": "check"}], customer="acme")
    third = client.take("check")
    assert third is not None
    assert client.reject(other.id, third["fence"], "no invoice")["error"] == "no invoice"

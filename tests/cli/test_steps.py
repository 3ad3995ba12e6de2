"""Steps and parts on the command line: submit, lists, results, retries, batches."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inturn.blobs import open_blobs
from inturn.errors import IllegalTransitionError
from inturn.model import Claim, NewDocument, ResultFile
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store

Inturn = Callable[..., Any]


@pytest.fixture
def queue(inturn_here: Inturn, tmp_path: Path) -> Iterator[Queue]:
    """The queue that the commands use."""
    inturn_here("migrate")
    with Queue(open_store(str(tmp_path / "inturn.db"))) as opened:
        yield opened


def claim(queue: Queue, name: str) -> Claim:
    (claimed,) = queue.claim("w1", queues=[name])
    return claimed


def submit(inturn_here: Inturn, *steps: str, batch: str | None = None) -> str:
    """Submit a document of acme; return its id."""
    options = [option for step in steps for option in ("--step", step)]
    options += [] if batch is None else ["--batch", batch]
    return str(inturn_here("submit", "--customer", "acme", "--name", "a", *options, "--json").records[0]["id"])


def split(inturn_here: Inturn, queue: Queue, n: int, batch: str | None = None) -> str:
    """Submit a document and split it into pages; return its id."""
    id_ = submit(inturn_here, "split", batch=batch)
    pages = [NewDocument(f"page {number}", queue="pages", batch=batch) for number in range(1, n + 1)]
    queue.ack([queue.split(claim(queue, "split"), pages, "merge", {"pages": n})])
    return id_


def names(inturn_here: Inturn, *options: str) -> list[str]:
    return [record["name"] for record in inturn_here("documents", "--sort", "oldest", *options, "--json").records]


def test_documents_are_submitted_with_steps(inturn_here: Inturn, queue: Queue) -> None:
    id_ = submit(inturn_here, "ocr", "classify")
    (record,) = inturn_here("documents", "--json").records
    assert (record["queue"], record["step"], record["steps"], record["ahead"]) == (
        "ocr", 0, ["ocr", "classify"], ["classify"],
    )  # fmt: skip
    queue.finish(claim(queue, "ocr"))
    assert inturn_here("documents", "--queue", "classify", "--json").records[0]["id"] == id_
    assert inturn_here("why", id_, "--json").records[0]["queue"] == "classify"
    assert "classify" in inturn_here("documents").stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("submit", "--customer", "acme", "--name", "x", "--step", "a b"), "a queue's name has"),
        (("submit", "--customer", "acme", "--name", "x", "--step", "a", "--queue", "b"), "the first of the steps"),
        (("result", "018f3c5e-0000-7000-8000-000000000000", "--all", "--text"), "leave out --text"),
        (("result", "018f3c5e-0000-7000-8000-000000000000", "--step", "0"), "give --file too"),
        (("documents", "--parent", "nonsense"), "UUID"),
        (("documents", "--parts", "some"), "--parts"),
        (("parts", "018f3c5e-0000-7000-8000-000000000000"), "there is no document"),
    ],
)
@pytest.mark.usefixtures("queue")
def test_bad_input_is_refused_with_words(inturn_here: Inturn, command: tuple[str, ...], message: str) -> None:
    refused = inturn_here(*command)
    assert refused.returncode in {1, 2}
    assert message in " ".join(refused.stderr.split())


def test_results_of_all_steps(inturn_here: Inturn, queue: Queue, tmp_path: Path) -> None:
    id_ = submit(inturn_here, "ocr", "classify")
    blobs = open_blobs(str(tmp_path / "inturn-blobs"))
    with blobs.begin() as writing:
        writing.write(b"scan")
        blob = writing.commit()
    file = ResultFile("scan.txt", blob.key, blob.size, blob.sha256)
    queue.ack([queue.done(claim(queue, "ocr"), {"pages": 1})._replace(files=(file,))])
    queue.finish(claim(queue, "classify"), "invoice")
    place = ("--blobs", str(tmp_path / "inturn-blobs"))
    results = json.loads(inturn_here("result", id_, "--all", *place).stdout)
    assert [(step["step"], step["queue"], step["result"]) for step in results] == [
        (0, "ocr", {"pages": 1}), (1, "classify", "invoice"),
    ]  # fmt: skip
    assert results[0]["files"][0]["name"] == "scan.txt"
    assert json.loads(inturn_here("result", id_, *place).stdout) == "invoice"
    inturn_here("result", id_, "--step", "0", "--file", "scan.txt", "--out", "copy.txt", *place)
    assert (tmp_path / "copy.txt").read_bytes() == b"scan"
    missing = inturn_here("result", id_, "--step", "7", "--file", "scan.txt", *place)
    assert (missing.returncode, "no result of step 7" in missing.stderr) == (1, True)


def test_parts_are_listed_apart_from_documents(inturn_here: Inturn, queue: Queue) -> None:
    id_ = split(inturn_here, queue, 3)
    queue.finish(claim(queue, "pages"), {"text": "one"})
    queue.fail(claim(queue, "pages"), "torn", final=True)
    assert names(inturn_here) == ["a"]
    assert (
        names(inturn_here, "--parent", id_)
        == names(inturn_here, "--parts", "only")
        == names(inturn_here, "--queue", "pages")
    )
    assert names(inturn_here, "--state", "split") == ["a"]
    records = inturn_here("parts", id_, "--json").records
    assert [(record["part"], record["state"], record["result"], record["error"]) for record in records] == [
        (1, "done", {"text": "one"}, None), (2, "failed", None, "torn"), (3, "waiting", None, None),
    ]  # fmt: skip
    shown = inturn_here("parts", id_).stdout
    assert '{"text": "one"}' in shown
    assert "torn" in shown
    page = inturn_here("parts", id_, "--limit", "1", "--after", "1", "--json")
    assert [record["part"] for record in page.records] == [2]
    assert "--after 2" in page.stderr
    assert "no parts" in inturn_here("parts", records[0]["id"]).stdout
    refused = inturn_here("result", id_)
    assert (refused.returncode, f"inturn parts {id_}" in refused.stderr) == (1, True)
    assert "1 part has not finished" in inturn_here("why", id_).stdout


def test_search_leaves_parts_out(inturn_here: Inturn, queue: Queue) -> None:
    split(inturn_here, queue, 2)
    queue.index_documents(limit=100)
    assert inturn_here("search", "page", "--json").records[0]["documents"] == []
    assert len(inturn_here("search", "page", "--parts", "only", "--json").records[0]["documents"]) == 2


def test_batch_and_wait_count_documents_alone(inturn_here: Inturn, queue: Queue) -> None:
    split(inturn_here, queue, 2, batch="march")
    for _ in range(2):
        queue.finish(claim(queue, "pages"))
    record = inturn_here("batch", "march", "--json").records[0]
    assert (record["documents"], record["states"]) == (1, {"split": 1})
    queue.finish(claim(queue, "merge"))
    assert inturn_here("batch", "march", "--wait", "--json").records[0]["states"] == {"done": 1}


def test_done_document_is_submitted_again_not_retried(inturn_here: Inturn, queue: Queue) -> None:
    id_ = submit(inturn_here, "ocr")
    queue.finish(claim(queue, "ocr"))
    for options in ((), ("--from-start",)):
        refused = inturn_here("retry", id_, *options)
        assert (refused.returncode, "submit it again" in refused.stderr) == (1, True)
    with pytest.raises(IllegalTransitionError, match="submit it again"):
        queue.retry(id_, Operator("anna", ""))


def test_why_names_queue_and_step(inturn_here: Inturn, queue: Queue) -> None:
    id_ = submit(inturn_here, "ocr", "classify", "export")
    queue.fail(claim(queue, "ocr"), "torn", retry_in=0)
    shown = inturn_here("why", id_).stdout
    assert "Queue: ocr (step 1 of 3)\n" in shown
    assert re.search(r"^.*Queue.*Error", shown, re.MULTILINE)
    queue.finish(claim(queue, "ocr"))
    assert "Queue: classify (step 2 of 3)\n" in inturn_here("why", id_).stdout
    assert "Queue: pages\n" in inturn_here("why", submit(inturn_here, "pages")).stdout


def test_retry_from_the_start(inturn_here: Inturn, queue: Queue) -> None:
    id_ = submit(inturn_here, "ocr", "classify")
    queue.finish(claim(queue, "ocr"))

    def queue_after(*options: str) -> str:
        queue.fail(claim(queue, queue.document(id_).queue), "torn", final=True)
        assert inturn_here("retry", *options, "--yes").returncode == 0
        return queue.document(id_).queue

    assert queue_after(id_) == "classify"
    assert queue_after("--customer", "acme") == "classify"
    assert queue_after("--customer", "acme", "--from-start") == "ocr"
    queue.finish(claim(queue, "ocr"))
    assert queue_after("--error", "torn", "--from-start") == "ocr"
    queue.finish(claim(queue, "ocr"))
    assert queue_after(id_, "--from-start") == "ocr"


def test_bulk_actions_concern_what_the_list_shows(inturn_here: Inturn, queue: Queue) -> None:
    id_ = split(inturn_here, queue, 3)
    count = ("--dry-run", "--json")
    assert inturn_here("cancel", "--customer", "acme", *count).records[0]["documents"] == 1
    assert inturn_here("cancel", "--parts", "include", *count).records[0]["documents"] == 4
    assert inturn_here("cancel", "--queue", "pages", *count).records[0]["documents"] == 3
    assert inturn_here("cancel", "--parent", id_, "--yes", "--json").records[0]["documents"] == 3
    assert queue.document(id_).state == "split"
    queue.sweep()
    part = queue.parts(id_)[0].id
    queue.finish(claim(queue, "merge"))
    refused = inturn_here("retry", part)
    assert (refused.returncode, f"is a part of {id_}" in refused.stderr) == (1, True)


def test_policy_checks_each_step(inturn_here: Inturn, queue: Queue) -> None:
    assert "check_each_step" in inturn_here("policy", "show").stdout
    changed = inturn_here("policy", "set", "--check-each-step", "--json").records[0]["changes"]
    assert changed == {"check_each_step": [False, True]}
    assert queue.policy().policy.check_each_step
    words = " ".join(inturn_here("policy", "set", "--no-check-each-step").stdout.split())
    assert "check_each_step yes no" in words
    assert not queue.policy().policy.check_each_step

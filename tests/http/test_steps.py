"""Documents that pass through steps, and documents that are split into parts, over HTTP."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.api_keys import ApiKeyScope
from inturn.model import Claim, NewDocument, ResultFile
from inturn.testing.contract.harness import UNKNOWN_ID
from inturn.worker.content import RESULT_FILE
from waiting import wait_until

from .conftest import ANNA, Harness

STEPS = ["ocr", "classify", "export"]


def submit(client: TestClient, **fields: Any) -> str:
    """Submit one text of acme; return its id."""
    answer = client.post("/v1/documents", json={"customer": "acme", "documents": [{"name": "a", "text": "x"} | fields]})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["receipts"][0]["id"])


def store(harness: Harness, name: str, content: bytes) -> ResultFile:
    """Store a file of a result."""
    with harness.blobs.begin() as writing:
        writing.write(content)
        blob = writing.commit()
    return ResultFile(name, blob.key, blob.size, blob.sha256)


def claim(harness: Harness, queue: str) -> Claim:
    """Claim one document of a queue."""
    (claimed,) = harness.queue.claim("w1", queues=[queue])
    return claimed


def split(harness: Harness, anna: TestClient, n: int = 3, **fields: Any) -> str:
    """Submit a document and split it into pages; return its id."""
    id_ = submit(anna, queue="split", **fields)
    pages = [NewDocument(f"page {number}", queue="pages") for number in range(1, n + 1)]
    harness.queue.ack([harness.queue.split(claim(harness, "split"), pages, "merge", {"pages": n})])
    return id_


def listed(client: TestClient, **where: Any) -> list[str]:
    """List documents; return their names, oldest first."""
    answer = client.get("/v1/documents", params={"sort": "oldest", **where})
    assert answer.status_code == 200, answer.text
    return [document["name"] for document in answer.json()["documents"]]


def test_document_shows_where_it_is_and_what_is_ahead(harness: Harness, anna: TestClient) -> None:
    id_ = submit(anna, steps=STEPS)
    document = anna.get(f"/v1/documents/{id_}").json()
    assert (document["queue"], document["step"], document["steps"], document["ahead"]) == ("ocr", 0, STEPS, STEPS[1:])
    harness.queue.finish(claim(harness, "ocr"), "text")
    document = anna.get(f"/v1/documents/{id_}").json()
    assert (document["queue"], document["step"], document["steps"], document["ahead"]) == (
        "classify", 1, STEPS, ["export"],
    )  # fmt: skip
    assert (document["parent"], document["part"]) == (None, None)
    assert listed(anna, queue="classify") == ["a"]
    assert listed(anna, queue="ocr") == []
    assert anna.get(f"/v1/documents/{id_}/why").json()["queue"] == "classify"


def test_form_has_steps_with_commas(harness: Harness, anna: TestClient) -> None:
    data = {"customer": "acme", "steps": "ocr, classify"}
    answer = anna.post("/v1/documents", files={"file": ("b.txt", b"x")}, data=data)
    assert answer.status_code == 202, answer.text
    assert claim(harness, "ocr").document.ahead == ("classify",)


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": ["a b"]},
        {"steps": "ocr"},
        {"steps": ["ocr"] * 101},
        {"steps": ["ocr", "classify"], "queue": "classify"},
    ],
)
def test_wrong_steps_are_refused(anna: TestClient, fields: dict[str, Any]) -> None:
    answer = anna.post("/v1/documents", json={"customer": "acme", "documents": [{"name": "a", **fields}]})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert [queue["name"] for queue in anna.get("/v1/queues").json()["queues"]] == ["default"]


def test_wrong_steps_of_a_form_are_refused(anna: TestClient) -> None:
    for steps in ("", "ocr,", "a b"):
        data = {"customer": "acme", "steps": steps}
        assert anna.post("/v1/documents", files={"file": ("b.txt", b"x")}, data=data).status_code == 422


def test_customer_makes_no_queue_by_its_steps(harness: Harness, acme: TestClient) -> None:
    harness.queue.change_queue("ocr", ANNA)
    body = {"documents": [{"name": "a", "steps": ["ocr", "classify"]}]}
    refused = acme.post("/v1/documents", json=body)
    assert refused.status_code == 422
    assert "no queue 'classify'" in refused.json()["detail"]
    harness.queue.change_queue("classify", ANNA)
    assert acme.post("/v1/documents", json=body).status_code == 202


def test_results_of_all_steps_have_their_files(harness: Harness, anna: TestClient) -> None:
    id_ = submit(anna, steps=STEPS)
    image, huge = store(harness, "page 1.png", b"image"), store(harness, RESULT_FILE, b'["x"]')
    first = harness.queue.done(claim(harness, "ocr"), {"pages": 1})._replace(files=(image,))
    harness.queue.ack([first])
    second = harness.queue.done(claim(harness, "classify"), None)._replace(result="null", files=(huge,))
    harness.queue.ack([second])
    harness.queue.finish(claim(harness, "export"), "sent")
    answer = anna.get(f"/v1/documents/{id_}/results").json()
    assert answer["id"] == id_
    assert [(step["step"], step["queue"], step["result"]) for step in answer["results"]] == [
        (0, "ocr", {"pages": 1}), (1, "classify", None), (2, "export", "sent"),
    ]  # fmt: skip
    assert [[file["name"] for file in step["files"]] for step in answer["results"]] == [["page 1.png"], [], []]
    assert anna.get(f"/v1/documents/{id_}/results/0/files/page%201.png").content == b"image"
    large = [
        step["result_file"] and (step["result_file"]["name"], step["result_file"]["size"]) for step in answer["results"]
    ]
    assert large == [None, (RESULT_FILE, 5), None]
    assert anna.get(f"/v1/documents/{id_}/results/1/files/{RESULT_FILE}").json() == ["x"]
    for path in ("1/files/page%201.png", f"0/files/{RESULT_FILE}", "7/files/page%201.png"):
        assert anna.get(f"/v1/documents/{id_}/results/{path}").status_code == 404
    assert anna.get(f"/v1/documents/{id_}/result").json()["result"] == "sent"


def test_document_without_steps_has_one_result_when_it_is_done(harness: Harness, anna: TestClient) -> None:
    id_ = submit(anna)
    assert anna.get(f"/v1/documents/{id_}/results").json() == {"id": id_, "results": []}
    harness.process_documents({"a": 1})
    (step,) = anna.get(f"/v1/documents/{id_}/results").json()["results"]
    assert (step["step"], step["queue"], step["result"], step["files"]) == (0, "default", {"a": 1}, [])


def test_parts_are_listed_by_number_in_pages(harness: Harness, anna: TestClient) -> None:
    id_ = split(harness, anna, 5)
    harness.queue.finish(claim(harness, "pages"), {"text": "one"})
    harness.queue.fail(claim(harness, "pages"), "torn\ntrace", final=True)
    page = anna.get(f"/v1/documents/{id_}/parts", params={"limit": 2}).json()
    assert [(part["part"], part["name"], part["state"], part["result"], part["error"]) for part in page["parts"]] == [
        (1, "page 1", "done", {"text": "one"}, None), (2, "page 2", "failed", None, "torn\ntrace"),
    ]  # fmt: skip
    assert (page["documents"], page["states"]["waiting"], page["states"]["done"], page["next"]) == (5, 3, 1, 2)
    second = anna.get(f"/v1/documents/{id_}/parts", params={"limit": 3, "after": page["next"]}).json()
    assert ([part["part"] for part in second["parts"]], second["next"]) == ([3, 4, 5], None)
    part = anna.get(f"/v1/documents/{page['parts'][0]['id']}").json()
    assert (part["parent"], part["part"], part["queue"]) == (id_, 1, "pages")
    assert anna.get(f"/v1/documents/{submit(anna)}/parts").json()["parts"] == []


def test_large_results_of_parts_are_not_read_for_the_list(harness: Harness, anna: TestClient) -> None:
    """Results of up to 64 MB each would fill the memory."""
    id_ = split(harness, anna, 2)
    done = harness.queue.done(claim(harness, "pages"), None)
    harness.queue.ack([done._replace(result="null", files=(store(harness, RESULT_FILE, b'["x"]'),))])
    first, second = anna.get(f"/v1/documents/{id_}/parts").json()["parts"]
    assert (first["result"], first["files"], second["result_file"]) == (None, [], None)
    assert (first["result_file"]["name"], first["result_file"]["size"]) == (RESULT_FILE, 5)
    assert anna.get(f"/v1/documents/{first['id']}/result").json()["result"] == ["x"]


@pytest.mark.parametrize(("size", "pages"), [(1, [[1], [2], [3], [4], [5]]), (250, [[1, 2], [3, 4], [5]])])
def test_page_of_parts_ends_when_its_results_are_large(
    harness: Harness, anna: TestClient, monkeypatch: pytest.MonkeyPatch, size: int, pages: list[list[int]]
) -> None:
    monkeypatch.setattr("inturn.http.routes.steps.MAX_PAGE_BYTES", size)
    monkeypatch.setattr("inturn.http.routes.steps.PARTS_PER_READ", 2)
    id_, after, listed_parts = split(harness, anna, 5), 0, []
    for _ in range(5):
        harness.queue.finish(claim(harness, "pages"), "x" * 100)
    while after is not None:
        page = anna.get(f"/v1/documents/{id_}/parts", params={"limit": 1_000, "after": after}).json()
        listed_parts.append([part["part"] for part in page["parts"]])
        after = page["next"]
    assert listed_parts == pages


def test_customer_sees_one_document_and_not_its_parts(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    """Who uploads one file finds one document in lists, counts, searches and the batch."""
    id_ = split(harness, anna, 4, batch="march")
    harness.queue.index_documents(limit=100)
    assert listed(acme) == ["a"]
    assert acme.get("/v1/documents/counts").json()["documents"] == 1
    assert acme.get("/v1/documents/counts").json()["states"]["split"] == 1
    assert acme.get("/v1/batches/march").json()["documents"] == 1
    assert [row["name"] for row in acme.get("/v1/search", params={"q": "page"}).json()["documents"]] == []
    assert listed(acme, parts="include") == ["a", "page 1", "page 2", "page 3", "page 4"]
    assert listed(acme, parts="only") == listed(acme, parent=id_) == listed(acme, queue="pages")
    assert listed(acme, parent=id_.upper()) == ["page 1", "page 2", "page 3", "page 4"]
    assert listed(acme, queue="pages", parts="exclude") == []
    assert acme.get("/v1/documents/counts", params={"parent": id_}).json()["states"]["waiting"] == 4
    assert listed(acme, parent=UNKNOWN_ID) == []
    assert acme.get("/v1/documents", params={"parent": "nonsense"}).status_code == 422
    assert acme.get("/v1/documents", params={"parts": "some"}).status_code == 422


def test_search_finds_parts_by_id_or_if_they_are_asked_for(harness: Harness, anna: TestClient) -> None:
    """Parts do not push documents out of a short list."""
    invoice = submit(anna, name="page of an invoice")
    id_ = split(harness, anna, 30)
    harness.queue.index_documents(limit=100)
    matches = anna.get("/v1/search", params={"q": "page", "limit": 3}).json()
    assert ([row["id"] for row in matches["documents"]], matches["is_complete"]) == ([invoice], True)
    only = anna.get("/v1/search", params={"q": "page", "limit": 3, "parts": "only"}).json()
    assert (len(only["documents"]), only["is_complete"]) == (3, False)
    part = anna.get(f"/v1/documents/{id_}/parts").json()["parts"][0]["id"]
    assert [row["id"] for row in anna.get("/v1/search", params={"q": part}).json()["documents"]] == [part]
    assert len(anna.get("/v1/search", params={"q": "page", "limit": 50, "parts": "include"}).json()["documents"]) == 31


def test_batch_is_complete_when_its_documents_are(harness: Harness, anna: TestClient) -> None:
    """Parts that carry the batch too count neither as documents nor as ended."""
    submit(anna, queue="split", batch="march")
    parts = [NewDocument("p", queue="pages", batch="march")] * 2
    harness.queue.ack([harness.queue.split(claim(harness, "split"), parts, "merge")])
    for _ in range(2):
        harness.queue.finish(claim(harness, "pages"))
    batch = anna.get("/v1/batches/march").json()
    assert (batch["documents"], batch["ended"], batch["states"]) == (1, 0, {"split": 1})
    harness.queue.finish(claim(harness, "merge"))
    batch = anna.get("/v1/batches/march").json()
    assert (batch["documents"], batch["ended"], batch["states"]) == (1, 1, {"done": 1})


def test_split_document_has_no_result_but_says_where_it_is(harness: Harness, anna: TestClient) -> None:
    id_ = split(harness, anna, 3)
    refused = anna.get(f"/v1/documents/{id_}/result", params={"wait": 0})
    assert (refused.status_code, refused.json()["code"]) == (409, "illegal_move")
    assert "its parts" in refused.json()["detail"]
    harness.queue.finish(claim(harness, "pages"))
    why = anna.get(f"/v1/documents/{id_}/why").json()
    assert (why["state"], why["unended_parts"], why["no_place"]) == ("split", 2, "split")
    assert "2 parts have not finished" in why["sentence"]
    assert anna.get(f"/v1/documents/{id_}/results").json()["results"][0]["result"] == {"pages": 3}


@pytest.mark.parametrize("where", [{}, {"queue": "pages"}, {"parts": "only"}, {"parts": "include"}, {"parent": ""}])
def test_bulk_actions_concern_what_the_list_shows(harness: Harness, anna: TestClient, where: dict[str, str]) -> None:
    id_ = split(harness, anna, 3)
    if "parent" in where:
        where = {"parent": id_}
    shown = anna.get("/v1/documents", params={"customer": "acme", **where}).json()["documents"]
    body = {"customer": "acme", **where}
    assert anna.post("/v1/documents/cancel", json={**body, "dry_run": True}).json()["documents"] == len(shown)
    anna.post("/v1/documents/cancel", json=body)
    whole = anna.get(f"/v1/documents/{id_}").json()
    assert (whole["state"] == "cancelled") is (id_ in {document["id"] for document in shown})
    parts = anna.get(f"/v1/documents/{id_}/parts").json()
    assert parts["states"]["cancelled"] == 3  # a cancelled document takes its parts along
    left = anna.post("/v1/documents/retry", json={**body, "state": ["cancelled"], "dry_run": True}).json()["documents"]
    again = anna.get("/v1/documents", params={"state": "cancelled", **body}).json()["documents"]
    assert left == len(again)


def test_retry_begins_where_it_stopped_or_at_the_start(harness: Harness, anna: TestClient) -> None:
    id_ = submit(anna, steps=STEPS)

    def fail_at_classify() -> None:
        harness.queue.fail(claim(harness, "classify"), "torn", final=True)

    harness.queue.finish(claim(harness, "ocr"))
    fail_at_classify()
    assert anna.post(f"/v1/documents/{id_}/retry").status_code == 202
    assert anna.get(f"/v1/documents/{id_}").json()["queue"] == "classify"
    fail_at_classify()
    assert anna.post(f"/v1/documents/{id_}/retry", params={"from_start": True}).status_code == 202
    document = anna.get(f"/v1/documents/{id_}").json()
    assert (document["queue"], document["step"], document["ahead"]) == ("ocr", 0, STEPS[1:])
    assert anna.get(f"/v1/documents/{id_}/results").json()["results"] == []


@pytest.mark.parametrize("by", ["ids", "filter", "failures"])
def test_bulk_retry_begins_at_the_start_if_asked(harness: Harness, anna: TestClient, by: str) -> None:
    ids = [submit(anna, steps=STEPS) for _ in range(2)]
    for _ in ids:
        harness.queue.finish(claim(harness, "ocr"))
        harness.queue.fail(claim(harness, "classify"), "torn", final=True)
    if by == "failures":
        group = anna.get("/v1/failures").json()["groups"][0]["id"]
        answer = anna.post(f"/v1/failures/{group}/retry", json={"from_start": True})
    else:
        where: dict[str, Any] = {"ids": ids} if by == "ids" else {"customer": "acme"}
        answer = anna.post("/v1/documents/retry", json={**where, "from_start": True})
    assert answer.json() == {"documents": 2, "done": True}
    assert {anna.get(f"/v1/documents/{id_}").json()["queue"] for id_ in ids} == {"ocr"}


def test_part_of_a_document_that_has_gone_on_is_not_retried(harness: Harness, anna: TestClient) -> None:
    id_ = split(harness, anna, 1)
    harness.queue.fail(claim(harness, "pages"), "torn", final=True)
    harness.queue.finish(claim(harness, "merge"))
    part = anna.get(f"/v1/documents/{id_}/parts").json()["parts"][0]["id"]
    refused = anna.post(f"/v1/documents/{part}/retry")
    assert refused.status_code == 409
    assert f"is a part of {id_}" in refused.json()["detail"]


def test_customer_sees_steps_and_parts_of_its_own_documents_alone(
    harness: Harness, anna: TestClient, acme: TestClient
) -> None:
    id_ = split(harness, anna, 2)
    file = store(harness, "a.txt", b"secret")
    done = harness.queue.done(claim(harness, "pages"), "secret")._replace(files=(file,))
    harness.queue.ack([done])
    harness.queue.fail(claim(harness, "pages"), "torn\ntrace with secrets", final=True)
    part, failed = acme.get(f"/v1/documents/{id_}/parts").json()["parts"]
    assert (part["result"], failed["error"]) == ("secret", "torn")
    assert acme.get(f"/v1/documents/{part['id']}/files/a.txt").content == b"secret"
    beta = harness.client_as(harness.create_api_key("beta"))
    for path in ("results", "parts", "results/0/files/a.txt", "files/a.txt"):
        for own in (id_, part["id"]):
            assert beta.get(f"/v1/documents/{own}/{path}").status_code == 404
    assert listed(beta, parent=id_) == []
    assert beta.get("/v1/documents/counts", params={"parent": id_}).json()["documents"] == 0
    assert beta.post("/v1/documents/cancel", json={"parent": id_, "dry_run": True}).json()["documents"] == 0


def test_steps_are_checked_each_if_the_policy_says_so(harness: Harness, anna: TestClient) -> None:
    policy = anna.get("/v1/policy").json()["policy"]
    assert policy["check_each_step"] is False
    changed = anna.put("/v1/policy", json={"policy": {**policy, "check_each_step": True}}).json()
    assert changed["policy"]["check_each_step"] is True
    older = {name: value for name, value in policy.items() if name not in {"check_each_step", "charge"}}
    assert anna.put("/v1/policy", json={"policy": older}).json()["policy"]["check_each_step"] is True
    assert anna.put("/v1/policy", json={"policy": {**policy, "check_each_step": 1}}).status_code == 422
    id_ = submit(anna, steps=STEPS)
    harness.queue.finish(claim(harness, "ocr"))
    assert anna.get(f"/v1/documents/{id_}").json()["count"] == -1


def test_metrics_count_steps(harness: Harness, anna: TestClient) -> None:
    submit(anna, steps=STEPS)
    harness.queue.finish(claim(harness, "ocr"))
    split(harness, anna, 3)
    for line in ('inturn_steps_done_total{queue="ocr"} 1.0', "inturn_splits_total 1.0", "inturn_parts_total 3.0"):
        wait_until(lambda line=line: f"\n{line}\n" in anna.get("/metrics").text)
    harness.queue.change_queue("ocr", ANNA, cap=7)
    assert '\ninturn_queue_cap{queue="ocr"} 7.0\n' in anna.get("/metrics").text


def test_operators_alone_may_read_the_queue_of_people(harness: Harness, acme: TestClient) -> None:
    harness.queue.change_queue("check", ANNA, manual=True)
    reader = harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    assert reader.get("/v1/queues/check/documents").status_code == 200
    assert reader.post("/v1/queues/check/take").status_code == 403
    assert acme.get("/v1/queues/check/documents").content == acme.get("/v1/nowhere").content
    assert acme.post("/v1/queues/check/take").status_code == 404

"""Documents over HTTP: submit, read, change, results."""

import json
import threading
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.http.state import PAGE_PRICING_TTL
from inturn.model import DocumentState, ResultFile
from inturn.policy import CostPolicy, Policy
from inturn.store_types import DocumentFilter, Operator, Outcome, OutcomeKind
from inturn.values import SECOND

from .conftest import ANNA, Harness

MISSING = "018f3c5e-0000-7000-8000-000000000000"


def submit(client: TestClient, n: int = 1, customer: str | None = None, **more: Any) -> list[str]:
    documents = [{"name": f"{number}.txt", "text": f"text {number}", **more} for number in range(n)]
    body = {"documents": documents} | ({} if customer is None else {"customer": customer})
    answer = client.post("/v1/documents", json=body)
    assert answer.status_code == 202, answer.text
    return [item["id"] for item in answer.json()["receipts"]]


def code(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    reported = answer.json()
    assert reported["status"] == status
    assert reported["type"].endswith(reported["code"])
    return str(reported["code"])


# -- in ---------------------------------------------------------------------------------------------------------------


def test_form_submits_files_with_their_fields(harness: Harness, acme: TestClient) -> None:
    files = [("file", ("a.pdf", b"%PDF-1.4 not much")), ("file", ("../b.bin", b"\x89PNG\r\n\x1a\nxyz"))]
    answer = acme.post("/v1/documents", files=files, data={"batch": "march", "metadata": '{"order": 7}'})
    assert answer.status_code == 202
    first, second = answer.json()["receipts"]
    assert (first["level"], first["count"], second["count"]) == (1, 0, -1)
    document = harness.queue.document(first["id"])
    assert (document.customer, document.spec.batch, dict(document.spec.metadata)) == ("acme", "march", {"order": 7})
    assert (document.spec.name, document.spec.media_type, document.spec.size) == ("a.pdf", "application/pdf", 17)
    other = harness.queue.document(second["id"])
    assert (other.spec.name, other.spec.media_type) == ("../b.bin", "image/png")
    assert harness.stored_blobs() == {document.spec.blob, other.spec.blob}
    with harness.blobs.open(document.spec.blob or "") as binary_io:
        assert binary_io.read() == b"%PDF-1.4 not much"


def test_json_submits_texts_and_references(harness: Harness, acme: TestClient) -> None:
    documents = [
        {"name": "a.txt", "text": "Grüße"},
        {"name": "b.pdf", "uri": "https://example.com/b.pdf", "metadata": {"x": [1, None]}},
        {"name": "c"},
    ]
    answer = acme.post("/v1/documents", json={"documents": documents})
    ids = [item["id"] for item in answer.json()["receipts"]]
    text, reference, bare = (harness.queue.document(item).spec for item in ids)
    assert (text.size, text.media_type) == (7, "text/plain")
    assert (reference.uri, reference.blob, dict(reference.metadata)) == (
        "https://example.com/b.pdf",
        None,
        {"x": [1, None]},
    )
    assert (bare.uri, bare.blob) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        {"documents": []},
        {"documents": [{"name": ""}]},
        {"documents": [{"name": "a", "text": "x", "uri": "https://example.com"}]},
        {"documents": [{"name": "a", "colour": "red"}]},
        {"documents": [{"name": "a\u0000b"}]},
        {"documents": [{"name": "a", "metadata": {"x": "y" * 20_000}}]},
        {"documents": [{"name": "a", "delay": 5}]},
        {"documents": [{"name": "a", "cost": 2}]},
        {"documents": [{"name": "a"}], "customer": ""},
        [],
        "text",
    ],
)
def test_invalid_submission_is_refused_and_leaves_no_blob(harness: Harness, acme: TestClient, body: Any) -> None:
    assert code(acme.post("/v1/documents", json=body), 422) == "invalid_input"
    assert harness.queue.documents().items == ()
    assert harness.stored_blobs() == set()


def test_what_is_no_json_is_told_without_a_field(acme: TestClient) -> None:
    answer = acme.post("/v1/documents", content=b"{bad", headers={"Content-Type": "application/json"})
    assert code(answer, 422) == "invalid_input"
    assert answer.json()["detail"].startswith("Invalid JSON: ")


def test_operator_names_the_customer_and_sets_delay_start_by_and_cost(harness: Harness, anna: TestClient) -> None:
    assert code(anna.post("/v1/documents", json={"documents": [{"name": "a"}]}), 422) == "invalid_input"
    (delayed,) = submit(anna, customer="acme", delay=60_000_000, cost=2.5, start_by=2**60)
    document = harness.queue.document(delayed)
    assert (document.state, document.spec.cost, document.spec.start_by) == ("delayed", 2.5, 2**60)
    form = {"customer": "beta", "delay": "60000000", "cost": "3"}
    answer = anna.post("/v1/documents", files=[("file", ("a.txt", b"x"))], data=form)
    document = harness.queue.document(answer.json()["receipts"][0]["id"])
    assert (document.customer, document.state, document.spec.cost) == ("beta", "delayed", 3)


def test_repeat_with_idempotency_key_returns_the_first_receipts(harness: Harness, acme: TestClient) -> None:
    headers = {"Idempotency-Key": "order-7"}
    answers = [acme.post("/v1/documents", files=[("file", ("a.txt", b"the same"))], headers=headers) for _ in range(3)]
    assert len({answer.text for answer in answers}) == 1
    assert len(harness.queue.documents().items) == len(harness.stored_blobs()) == 1
    other = acme.post("/v1/documents", files=[("file", ("a.txt", b"another"))], headers=headers)
    assert code(other, 409) == "key_conflict"
    assert len(harness.stored_blobs()) == 1


def test_pages_are_counted_if_the_policy_charges_for_them(harness: Harness, acme: TestClient) -> None:
    harness.queue.set_policy(Policy(costs=CostPolicy(1, 0)), ANNA)
    harness.clock.advance(PAGE_PRICING_TTL)
    (free,) = submit(acme)
    harness.queue.set_policy(Policy(costs=CostPolicy(per_document=1, per_page=0.5)), ANNA)
    harness.clock.advance(PAGE_PRICING_TTL)
    answer = acme.post("/v1/documents", files=[("file", ("a.txt", b"x" * 7_000))])
    assert harness.queue.document(free).spec.pages is None
    counted = harness.queue.document(answer.json()["receipts"][0]["id"]).spec
    assert (counted.pages, counted.cost) == (3, 2.5)
    answer = acme.post("/v1/documents", files=[("file", ("a.bin", b"\0" * 3_000_001))])
    unknown = harness.queue.document(answer.json()["receipts"][0]["id"]).spec
    assert (unknown.pages, unknown.cost) == (None, 3)


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"hello", 415),
        ("multipart/form-data", b"hello", 422),
        ("multipart/form-data; boundary=x", b"hello", 422),
        ("multipart/form-data; boundary=" + "x" * 300, b"hello", 422),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nab',
            422,
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="batch"\r\n\r\na\r\n--x--\r\n',
            422,
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="hue"\r\n\r\na\r\n--x--\r\n',
            422,
        ),
        ("application/json", b"{", 422),
        ("application/json", b'{"documents": [{"name": "\\ud800"}]}', 422),
        ("application/json", b"[" * 100_000, 422),
    ],
)
def test_unsupported_media_types_are_refused(
    harness: Harness, acme: TestClient, content_type: str, body: bytes, status: int
) -> None:
    code(acme.post("/v1/documents", content=body, headers={"Content-Type": content_type}), status)
    assert harness.stored_blobs() == set()
    assert harness.queue.documents().items == ()


# -- seen -------------------------------------------------------------------------------------------------------------


def test_documents_are_listed_by_state_level_batch_and_text_in_pages(
    harness: Harness, acme: TestClient, anna: TestClient
) -> None:
    ids = submit(acme, 5, batch="one")
    submit(anna, 3, customer="beta", batch="two")
    harness.process_documents(n=1)
    for sort, wanted in (({}, ids[::-1]), ({"sort": "newest"}, ids[::-1]), ({"sort": "oldest"}, ids)):
        seen: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = acme.get("/v1/documents", params={"limit": 2, **sort, **after}).json()
            seen += [item["id"] for item in page["documents"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert seen == wanted

    def matches(client: TestClient, **where: Any) -> int:
        return len(client.get("/v1/documents", params=where).json()["documents"])

    assert [matches(anna), matches(acme)] == [8, 5]
    assert [matches(anna, state="done"), matches(anna, state=["done", "waiting"]), matches(anna, level=2)] == [1, 8, 2]
    assert [matches(anna, batch="two"), matches(anna, text="0.T"), matches(anna, customer="beta")] == [3, 2, 3]
    assert [matches(acme, batch="two"), matches(acme, text="0.T"), matches(acme, customer="acme")] == [0, 1, 5]
    for error in ({"state": "lost"}, {"level": 10}, {"limit": 0}, {"after": MISSING}, {"text": "\x00"}, {"batch": ""}):
        assert code(anna.get("/v1/documents", params=error), 422) == "invalid_input"
    assert code(anna.get("/v1/documents", params={"sort": "name"}), 422) == "invalid_input"


def test_customer_sees_a_document_without_worker_and_traceback(
    harness: Harness, acme: TestClient, anna: TestClient
) -> None:
    (id_,) = submit(acme)
    (claimed,) = harness.queue.claim("worker of ours")
    full, own = (test_client.get(f"/v1/documents/{id_}").json() for test_client in (anna, acme))
    assert [(item["state"], item["worker"]) for item in (full, own)] == [
        ("running", "worker of ours"),
        ("running", None),
    ]
    harness.queue.fail(claimed, "it broke\nin /our/own/file.py", final=True)
    full, own = (test_client.get(f"/v1/documents/{id_}").json() for test_client in (anna, acme))
    assert (full["error"], own["error"]) == ("it broke\nin /our/own/file.py", "it broke")
    assert code(acme.get(f"/v1/documents/{MISSING}"), 404) == "not_found"


def test_results_files_and_content_come_back(harness: Harness, acme: TestClient) -> None:
    answer = acme.post("/v1/documents", files=[("file", ('a "ü".html', b"<script>alert(1)</script>"))])
    id_ = answer.json()["receipts"][0]["id"]
    assert code(acme.get(f"/v1/documents/{id_}/result"), 409) == "illegal_move"
    (claimed,) = harness.queue.claim("worker")
    with harness.blobs.begin() as writing:
        writing.write(b"a table")
        blob = writing.commit()
    files = (ResultFile("a/table.csv", blob.key, blob.size, blob.sha256, "text/csv"),)
    done = Outcome(id_, claimed.fence, OutcomeKind.DONE, result='{"text": "x"}', files=files)
    harness.queue.store.ack_and_claim((done,), None)
    result = acme.get(f"/v1/documents/{id_}/result").json()
    assert result["result"] == {"text": "x"}
    assert [item["name"] for item in result["files"]] == ["a/table.csv"]
    table = acme.get(f"/v1/documents/{id_}/files/a/table.csv")
    content = acme.get(f"/v1/documents/{id_}/content")
    assert (table.content, content.content) == (b"a table", b"<script>alert(1)</script>")
    for response in (table, content):
        assert response.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-type"] == "application/octet-stream"
    assert code(acme.get(f"/v1/documents/{id_}/files/other"), 404) == "not_found"


def test_why_is_in_the_callers_language_and_rounded_for_customers(
    harness: Harness, acme: TestClient, anna: TestClient
) -> None:
    submit(anna, 13, customer="beta")
    (id_,) = submit(acme)
    full = anna.get(f"/v1/documents/{id_}/why", headers={"Accept-Language": "fr, de;q=0.8, en;q=0.5"}).json()
    own = acme.get(f"/v1/documents/{id_}/why", headers={"Accept-Language": "pl"}).json()
    assert full["place"] == full["ahead"]["same_level"] == 1
    assert "Stufe" in full["sentence"]
    assert (own["place"], own["ahead"]) == (1, None)
    assert "Poziom" in own["sentence"]
    assert "beta" not in json.dumps(own)
    (last,) = submit(anna, 1, customer="beta")
    exact = anna.get(f"/v1/documents/{last}/why").json()["place"]
    shown = harness.client_as(harness.create_api_key("beta")).get(f"/v1/documents/{last}/why").json()
    assert exact == 14
    assert shown["place"] == 20
    assert "20 documents" in shown["sentence"]


def test_a_long_poll_ends_when_its_document_does(harness: Harness, acme: TestClient) -> None:
    (id_,) = submit(acme)
    began = time.monotonic()
    assert acme.get(f"/v1/documents/{id_}", params={"wait": 0.3}).json()["state"] == "waiting"
    assert time.monotonic() - began >= 0.3
    timer = threading.Timer(0.3, harness.process_documents, ("the result",))
    timer.start()
    answer = acme.get(f"/v1/documents/{id_}/result", params={"wait": 50})
    timer.join()
    assert answer.json()["result"] == "the result"
    assert time.monotonic() - began < 40
    assert acme.get(f"/v1/documents/{id_}", params={"wait": 50}).json()["state"] == "done"
    assert code(acme.get(f"/v1/documents/{id_}", params={"wait": 61}), 422) == "invalid_input"
    assert harness.app_state.event_poller.waiter_count == 0


def test_groups_are_given_shown_and_filtered(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    files = [("file", ("letter.txt", b"text"))]
    in_form = acme.post("/v1/documents", files=files, data={"group": "reception"}).json()["receipts"][0]["id"]
    documents = [{"name": "a", "text": "a", "group": "archive"}, {"name": "b", "text": "b"}]
    acme.post("/v1/documents", json={"documents": documents})
    submit(anna, 1, customer="beta", group="reception")
    assert acme.get(f"/v1/documents/{in_form}").json()["group"] == "reception"
    assert [row["group"] for row in acme.get("/v1/documents?sort=oldest").json()["documents"]] == [
        "reception", "archive", None,
    ]  # fmt: skip
    assert [row["id"] for row in acme.get("/v1/documents?group=reception").json()["documents"]] == [in_form]
    assert acme.get("/v1/documents/counts?group=archive").json()["documents"] == 1
    assert code(acme.post("/v1/documents", files=files, data={"group": "a\x00b"}), 422) == "invalid_input"
    assert acme.post("/v1/documents/cancel", json={"group": "reception"}).json() == {"documents": 1, "done": True}
    assert harness.queue.document(in_form).state == "cancelled"


def test_batch_progress_counts_only_own_documents(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    submit(acme, 3, batch="a/b")
    submit(anna, 2, customer="beta", batch="a/b")
    harness.process_documents(n=1)
    assert acme.get("/v1/batches/a/b").json() == {
        "batch": "a/b",
        "documents": 3,
        "ended": 1,
        "states": {"done": 1, "waiting": 2},
    }
    assert anna.get("/v1/batches/a/b").json()["documents"] == 5
    assert code(acme.get("/v1/batches/none"), 404) == "not_found"


# -- changed ----------------------------------------------------------------------------------------------------------


def test_cancel_retry_and_expedite_one(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    first, second = submit(acme, 2)
    assert acme.delete(f"/v1/documents/{first}").json()["state"] == "cancelled"
    assert code(acme.delete(f"/v1/documents/{first}"), 409) == "illegal_move"
    retried = acme.post(f"/v1/documents/{first}/retry")
    assert (retried.status_code, retried.json()) == (202, {"id": first, "level": 1, "count": -2})
    assert code(acme.post(f"/v1/documents/{first}/retry"), 409) == "illegal_move"
    assert code(acme.post(f"/v1/documents/{second}/expedite"), 404) == "not_found"
    assert anna.post(f"/v1/documents/{second}/expedite", params={"why": "a promise"}).json()["expedited"] is True
    assert harness.queue.store.audit(limit=1)[0].operator == Operator("anna", "a promise")


def test_bulk_cancel_and_retry_support_dry_run_and_skip_others(acme: TestClient, anna: TestClient) -> None:
    submit(acme, 4, batch="one")
    submit(acme, 2)
    submit(anna, 3, customer="beta", batch="one")
    dry = acme.post("/v1/documents/cancel", json={"batch": "one", "dry_run": True})
    assert dry.json() == {"documents": 4, "done": False}
    assert acme.post("/v1/documents/cancel", json={"batch": "one"}).json() == {"documents": 4, "done": True}
    assert anna.post("/v1/documents/cancel", json={"batch": "one"}).json() == {"documents": 3, "done": True}
    assert acme.post("/v1/documents/retry", json={"batch": "one"}).json() == {"documents": 0, "done": True}
    again = acme.post("/v1/documents/retry", json={"batch": "one", "state": ["cancelled"]})
    assert again.json() == {"documents": 4, "done": True}
    assert code(anna.post("/v1/documents/cancel", json={}), 422) == "invalid_input"
    assert code(anna.post("/v1/documents/cancel", json={"state": ["done"]}), 422) == "invalid_input"
    assert code(anna.post("/v1/documents/retry", json={"dry_run": True}), 422) == "invalid_input"
    assert code(acme.post("/v1/documents/cancel", json={"customer": "beta"}), 404) == "not_found"


def test_lists_and_counts_take_a_range_of_time(harness: Harness, acme: TestClient) -> None:
    ids = []
    for _ in range(3):
        ids += submit(acme)
        harness.clock.advance(10 * SECOND)
    times = [harness.queue.document(id_).submitted_at for id_ in ids]
    (claimed,) = harness.queue.claim("worker")
    harness.queue.finish(claimed)
    ended = harness.queue.document(ids[0]).finished_at

    def listed(**query: Any) -> list[str]:
        answer = acme.get("/v1/documents", params=query)
        assert answer.status_code == 200, answer.text
        counted = acme.get("/v1/documents/counts", params=query).json()["documents"]
        assert counted == len(answer.json()["documents"])
        return [item["id"] for item in answer.json()["documents"]]

    assert listed(since=times[1]) == [ids[2], ids[1]]
    assert listed(until=times[1]) == [ids[0]]
    assert listed(since=times[1], until=times[2]) == [ids[1]]
    assert listed(since=ended, time="ended") == [ids[0]]
    assert listed(until=ended, time="ended") == []
    assert code(acme.get("/v1/documents", params={"since": 5, "until": 5}), 422) == "invalid_input"
    assert acme.get("/v1/documents", params={"since": "yesterday"}).status_code == 422
    assert acme.get("/v1/documents", params={"since": 5, "time": "started"}).status_code == 422


def test_what_failed_since_a_time_is_counted_and_retried(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    submit(acme, 4)
    submit(anna, customer="beta")
    failed = harness.queue.claim("worker", 5)
    for claimed in failed:
        harness.queue.fail(claimed, "no", final=True)
    since = harness.queue.document(failed[3].document.id).finished_at
    body = {"customer": "acme", "state": ["failed"], "since": since}
    n = anna.post("/v1/documents/retry", json={**body, "dry_run": True}).json()["documents"]
    everything = anna.post("/v1/documents/retry", json={"state": ["failed"], "dry_run": True}).json()["documents"]
    assert (everything, n) == (5, [claim.document.customer for claim in failed[3:]].count("acme"))
    assert anna.post("/v1/documents/retry", json={**body, "time": "submitted"}).json()["documents"] == 0
    assert n > 0
    assert anna.post("/v1/documents/retry", json=body).json() == {"documents": n, "done": True}
    assert harness.queue.counts(DocumentFilter(customer="acme")).states[DocumentState.WAITING] == n
    assert code(anna.post("/v1/documents/retry", json={**body, "until": since}), 422) == "invalid_input"


def test_search_returns_matches_by_kind(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    (id_,) = submit(anna, customer="acme", metadata={"invoice": "PL-2024-1812"}, batch="march")
    harness.queue.change_customer("acme", ANNA, display_name="Acme Ltd")
    (claimed,) = harness.queue.claim("worker")
    harness.queue.fail(claimed, "the file is broken\nTraceback", final=True)

    def matches(client: TestClient, text: str) -> dict[str, Any]:
        answer = client.get("/v1/search", params={"q": text})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        assert result.pop("is_complete")
        return {kind: items for kind, items in result.items() if items}

    (document,) = matches(acme, "invoice:pl-2024-1812")["documents"]
    assert (document["id"], document["error"], document["metadata"]) == (
        id_,
        "the file is broken",
        {"invoice": "PL-2024-1812"},
    )
    assert matches(anna, id_[:13])["documents"][0]["id"] == id_
    assert matches(anna, "MARCH")["batches"] == ["march"]
    assert matches(anna, "ltd") == {"customers": [{"customer": "acme", "display_name": "Acme Ltd"}]}
    assert matches(acme, "is broken") == {"errors": [{"line": "the file is broken", "documents": 1, "newest": id_}]}
    assert matches(anna, "Traceback") == matches(anna, " ") == matches(anna, "*") == {}
    assert anna.get("/v1/search").json()["documents"] == []
    assert code(anna.get("/v1/search", params={"q": "x" * 256}), 422) == "invalid_input"
    assert anna.get("/v1/search", params={"q": "a\x00b"}).status_code == 422

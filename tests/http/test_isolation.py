"""G6: a customer never sees another's documents, on every route, with every method and kind of id."""

import asyncio
import json
import os
from itertools import product
from typing import Any

import httpx2

from inturn.api_keys import ApiKeyScope
from inturn.model import CANCELLABLE, RETRYABLE, NewDocument, ResultFile
from inturn.store_types import DocumentFilter, Outcome, OutcomeKind

from .conftest import Harness

CUSTOMERS = ("acme", "beta", "gamma")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
UNKNOWN = "018f3c5e-0000-7000-8000-000000000000"
FREE = {"/healthz", "/readyz"}
BODIES: dict[str, Any] = {
    "/v1/documents": {"documents": [{"name": "a"}]},
    "/v1/documents/cancel": {"text": "a", "dry_run": True},
    "/v1/documents/retry": {"text": "a", "dry_run": True},
    "/v1/documents/expedite": {"ids": [UNKNOWN]},
    "/v1/checks": {},
    "/v1/customers/{name}": {"paused": True},
    "/v1/policy": {"policy": {}},
    "/v1/queues/{name}": {"weight": 2},
    **{f"/v1/documents/{{id}}/{verb}": {"fence": 1} for verb in ("extend", "finish", "release")},
    "/v1/documents/{id}/reject": {"fence": 1, "reason": "no"},
}
SCOPES = (ApiKeyScope.CUSTOMER, ApiKeyScope.READ_ONLY)
SOAK = os.environ.get("INTURN_SOAK") == "1"
PROBES = 3_000 if SOAK else 1_500


def fill(harness: Harness) -> dict[str, dict[str, list[str]]]:
    """Documents of three customers in every state, with secret words; their ids, blobs and batches."""
    made: dict[str, dict[str, list[str]]] = {}
    for customer in CUSTOMERS:
        with harness.blobs.begin() as writing:
            writing.write(f"secret of {customer}".encode())
            blob = writing.commit()
        given = NewDocument(f"secret of {customer}.txt", blob=blob.key, size=blob.size, batch=f"batch of {customer}")
        receipts = harness.queue.submit(customer, [given] * 4)
        for n in range(2):
            (claimed,) = harness.queue.claim("worker")
            files = (ResultFile("secret.csv", blob.key, blob.size, blob.sha256),)
            kinds = (OutcomeKind.DONE, OutcomeKind.FAILED)
            said = Outcome(
                claimed.document.id, claimed.fence, kinds[n], '{"a": 1}' if n == 0 else None, "no", None, files
            )
            harness.queue.store.ack_and_claim((said,), None)
        made[customer] = {"id": [receipt.id for receipt in receipts], "batch": [given.batch or ""], "blob": [blob.key]}
        made[customer]["queue"] = [f"queue-of-{customer}"]
        harness.queue.submit(customer, [given._replace(queue=f"queue-of-{customer}")])
        made[customer]["id"] += split(harness, customer, given._replace(queue=f"split-of-{customer}"), files)
    return made


def split(harness: Harness, customer: str, given: NewDocument, files: tuple[ResultFile, ...]) -> list[str]:
    """A document that is split, whose first step has a result, and its two parts, of which one is done."""
    (receipt,) = harness.queue.submit(customer, [given])
    (claimed,) = harness.queue.claim("worker", queues=[given.queue])
    part = given._replace(name=f"part, secret of {customer}", queue=given.queue)
    outcome = harness.queue.split(claimed, [part, part], f"merge-of-{customer}", f"secret of {customer}")
    harness.queue.ack([outcome._replace(files=files)])
    (claimed,) = harness.queue.claim("worker", queues=[given.queue])
    harness.queue.ack([harness.queue.done(claimed, f"secret of {customer}")._replace(files=files)])
    parts = harness.queue.parts(receipt.id)
    return [receipt.id, *(part.id for part in parts)]


def routes(harness: Harness) -> list[tuple[str, str]]:
    """Every path of the API's description with every method, whether it takes it or not."""
    paths = harness.app.openapi()["paths"]
    return [(path, method) for path, method in product(paths, METHODS)]


def paths_to(path: str, customer: str, made: dict[str, list[str]]) -> list[str]:
    """The path with everything of a customer that could be put into it."""
    if "{id}" in path:
        values = [*made["id"], *(item.upper() for item in made["id"][:1]), *made["blob"]]
        path = path.replace("{step}", "0")
        return [path.replace("{id}", value).replace("{name}", "secret.csv") for value in values]
    if "/batches/" in path:
        return [path.replace("{name}", item) for item in made["batch"]]
    if "/queues/" in path:
        return [path.replace("{name}", item) for item in (*made["queue"], "default")]
    return [path.replace("{name}", customer)] if "{name}" in path else []


async def ask(client: httpx2.AsyncClient, method: str, path: str, template: str) -> tuple[Any, ...]:
    """What comes back, without the id of the request."""
    body = BODIES.get(template)
    if template.endswith("/purge"):
        body = {"confirm": path.split("/")[-2]}
    answer = await client.request(method, path, json=body if method in {"POST", "PUT", "PATCH"} else None)
    headers = {name: value for name, value in answer.headers.items() if name not in {"x-request-id", "date"}}
    return answer.status_code, answer.content, tuple(sorted(headers.items()))


async def probe(
    harness: Harness, made: dict[str, dict[str, list[str]]], customer: str, others: set[str], scope: ApiKeyScope
) -> int:
    """Ask for everything of other customers, by everything that is known of it; how often."""
    probes, allowed = 0, {404, 405} if scope is ApiKeyScope.CUSTOMER else {403, 404, 405}
    headers = {"Authorization": f"Bearer {harness.create_api_key(customer, scope)}"}
    transport = httpx2.ASGITransport(harness.app, client=("192.0.2.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://server", headers=headers) as client:
        for path, method in routes(harness):
            nothing = path.replace("{step}", "0").replace("{id}", UNKNOWN)
            nothing = nothing.replace("{name}", "secret.csv" if "{id}" in path else "nobody")
            unknown = await ask(client, method, nothing, path) if "{" in path else ()
            for other in others:
                for probed in paths_to(path, other, made[other]):
                    result = await ask(client, method, probed, path)
                    assert result == unknown, f"{method} {probed} as {customer}"
                    assert result[0] in allowed, f"{method} {probed} as {customer}: {result}"
                    probes += 1
    return probes


def test_documents_of_others_get_the_same_404_as_unknown_ones(harness: Harness) -> None:
    made = fill(harness)
    before = [(document.id, document.state) for document in harness.queue.documents(limit=100).items]
    probes = 0
    for (at, customer), (turn, scope) in product(enumerate(CUSTOMERS), enumerate(SCOPES)):
        # With one scope it asks for the next customer's, with the other for those of the one after that.
        others = set(CUSTOMERS) - {customer} if SOAK else {CUSTOMERS[(at + 1 + turn) % len(CUSTOMERS)]}
        probes += asyncio.run(probe(harness, made, customer, others, scope))
    assert probes >= PROBES
    assert [(document.id, document.state) for document in harness.queue.documents(limit=100).items] == before
    assert {customer.name for customer in harness.queue.customers().items} == set(CUSTOMERS)


def test_lists_counts_and_filters_omit_documents_of_others(harness: Harness) -> None:
    made = fill(harness)
    for customer in CUSTOMERS:
        client = harness.client_as(harness.create_api_key(customer))
        others = [item for item in CUSTOMERS if item != customer]
        words = {word for other in others for word in (f"secret of {other}", *made[other]["id"], *made[other]["queue"])}
        for path, operations in harness.app.openapi()["paths"].items():
            if (
                "get" not in operations
                or "{" in path
                or path in FREE
                or "event-stream" in json.dumps(operations["get"])
            ):
                continue
            answer = client.get(path)
            assert not {word for word in words if word in answer.text}, path
        for other in others:
            assert client.get("/v1/documents", params={"customer": other}).status_code == 404
            parent = made[other]["id"][-3]
            for where in (
                {"batch": f"batch of {other}"},
                {"text": other},
                {"queue": f"queue-of-{other}"},
                {"parent": parent},
                {"text": other, "parts": "include"},
                {"text": other, "parts": "only"},
            ):
                assert client.get("/v1/documents", params=where).json()["documents"] == []
                assert client.get("/v1/documents/counts", params=where).json()["documents"] == 0
                assert client.post("/v1/documents/cancel", json={**where, "dry_run": True}).json()["documents"] == 0
            own_parts = client.get("/v1/documents", params={"parts": "only"}).json()["documents"]
            assert [document["id"] for document in own_parts] == made[customer]["id"][:-3:-1]
            for text in (f"secret of {other}", f"of:{other}", f"batch of {other}", other, *made[other]["id"]):
                result = client.get("/v1/search", params={"q": text, "parts": "include"}).json()
                assert (result["batches"], result["customers"], result["errors"]) == ([], [], []), text
                assert {document["customer"] for document in result["documents"]} <= {customer}, text
                assert made[other]["id"][0] not in json.dumps(result), text
            matches = client.get("/v1/search", params={"q": "no"}).json()["errors"]
            assert [match["newest"] in made[customer]["id"] for match in matches] in ([], [True])
            cursor = client.get("/v1/documents", params={"after": made[other]["id"][0]})
            assert cursor.content == client.get("/v1/documents", params={"after": UNKNOWN}).content
            for verb, states in (("cancel", CANCELLABLE), ("retry", RETRYABLE)):
                counted = client.post(f"/v1/documents/{verb}", json={"text": "secret", "dry_run": True})
                own = harness.queue.counts(DocumentFilter(states, customer, parts=False)).states
                assert counted.json()["documents"] == sum(own.values())
            body = {"customer": other, "documents": [{"name": "a"}]}
            assert client.post("/v1/documents", json=body).status_code == 404
            assert client.post("/v1/checks", json={"customer": other}).status_code == 404
        own = client.get(f"/v1/documents/{made[customer]['id'][-3]}/why").json()
        assert (own["state"], own["unended_parts"]) == ("split", 1)
        own = client.get(f"/v1/documents/{made[customer]['id'][3]}/why").json()
        assert not {word for other in others for word in (other,) if word in json.dumps(own)}
        assert own["ahead"] is None
        assert client.get(f"/v1/customers/{customer}").json()["share"] is None


def test_operator_routes_are_404_for_customers(harness: Harness) -> None:
    acme = harness.client_as(harness.create_api_key("acme"))
    nowhere = acme.get("/v1/nowhere")
    operator_routes = (
        "/v1/customers", "/v1/policy", "/v1/policy/versions", "/v1/audit", "/v1/workers", "/v1/estimates", "/v1/queues",
    )  # fmt: skip
    for path in operator_routes:
        answer = acme.get(path)
        assert (answer.status_code, answer.content) == (404, nowhere.content), path
    assert acme.get("/metrics").status_code == 404
    assert harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)).get("/v1/audit").status_code == 200

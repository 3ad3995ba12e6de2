"""The OpenAPI document is true: every request that it allows gets a described response."""

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from .conftest import Harness, ServerProcess

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SOAK = os.environ.get("INTURN_SOAK") == "1"
EXAMPLES = {None: 50 if SOAK else 3, "acme": 50 if SOAK else 2}
"""Cases of each operation, right ones and wrong ones each, by customer; most refuse a customer in the same words."""
OPERATIONS = """
    GET /healthz getHealth
    GET /metrics getMetrics
    GET /readyz getReadiness
    GET /v1/audit listAuditEvents
    GET /v1/batches/{name} getBatch
    POST /v1/checks checkPriority
    GET /v1/customers listCustomers
    GET /v1/customers/{name} getCustomer
    PATCH /v1/customers/{name} updateCustomer
    POST /v1/customers/{name}/purge purgeCustomer
    GET /v1/documents listDocuments
    POST /v1/documents submitDocuments
    POST /v1/documents/cancel cancelDocuments
    GET /v1/documents/counts countDocuments
    POST /v1/documents/expedite expediteDocuments
    POST /v1/documents/retry retryDocuments
    DELETE /v1/documents/{id} cancelDocument
    GET /v1/documents/{id} getDocument
    GET /v1/documents/{id}/content getDocumentContent
    POST /v1/documents/{id}/expedite expediteDocument
    POST /v1/documents/{id}/extend extendDocument
    GET /v1/documents/{id}/files/{name} getDocumentResultFile
    POST /v1/documents/{id}/finish finishDocument
    GET /v1/documents/{id}/parts listDocumentParts
    POST /v1/documents/{id}/reject rejectDocument
    POST /v1/documents/{id}/release releaseDocument
    GET /v1/documents/{id}/result getDocumentResult
    GET /v1/documents/{id}/results getDocumentStepResults
    GET /v1/documents/{id}/results/{step}/files/{name} getDocumentStepFile
    POST /v1/documents/{id}/retry retryDocument
    GET /v1/documents/{id}/timeline getDocumentTimeline
    GET /v1/documents/{id}/why explainDocument
    GET /v1/estimates getEstimates
    GET /v1/events streamEvents
    GET /v1/failures listFailures
    POST /v1/failures/acknowledge acknowledgeFailures
    POST /v1/failures/{group}/retry retryFailures
    GET /v1/history getHistory
    GET /v1/keys listApiKeys
    POST /v1/keys createApiKey
    DELETE /v1/keys/{id} revokeApiKey
    POST /v1/keys/{id}/rotate rotateApiKey
    GET /v1/limits getUploadLimits
    GET /v1/overview getOverview
    GET /v1/policy getPolicy
    PUT /v1/policy setPolicy
    POST /v1/policy/preview previewPolicy
    GET /v1/policy/versions listPolicyVersions
    POST /v1/policy/versions/{version}/judgement evaluatePolicyVersion
    GET /v1/priority getPriorityRules
    GET /v1/queue getQueue
    POST /v1/queue/pause pauseQueue
    POST /v1/queue/resume resumeQueue
    GET /v1/queues listQueues
    PATCH /v1/queues/{name} updateQueue
    GET /v1/queues/{name}/documents listQueueDocuments
    POST /v1/queues/{name}/pause pauseNamedQueue
    POST /v1/queues/{name}/resume resumeNamedQueue
    POST /v1/queues/{name}/take takeDocument
    POST /v1/replays runReplay
    GET /v1/search search
    GET /v1/server getServer
    GET /v1/simulations listScenarios
    POST /v1/simulations runSimulation
    GET /v1/status getStatus
    GET /v1/workers listWorkers
    POST /v1/workers/{name}/pause pauseWorker
    POST /v1/workers/{name}/resume resumeWorker
"""
REQUIRED = {
    "CheckRequest": set(),
    "BulkExpedite": {"ids"},
    "CustomerChange": set(),
    "CustomerSettings": set(),
    "BulkFilter": set(),
    "BulkRetry": set(),
    "Fence": {"fence"},
    "Finish": {"fence"},
    "FormFieldSpec": {"name"},
    "Rejection": {"fence", "reason"},
    "DocumentSpec": {"name"},
    "ApiKeySpec": {"name", "scope"},
    "PolicyChange": {"policy"},
    "PolicyInput": {
        "reset_interval",
        "thresholds",
        "order",
        "overdue_after",
        "overdue_every",
        "per_document",
        "per_page",
        "bytes_per_page",
    },
    "PolicyPreview": {"policy"},
    "Purge": {"confirm"},
    "QueueChange": set(),
    "FailureRange": set(),
    "Replay": set(),
    "ApiKeyRotation": set(),
    "Simulation": {"scenario"},
    "Submission": {"documents"},
}
"""The fields that a request must have, by schema."""


@pytest.mark.parametrize("customer", EXAMPLES)
def test_every_operation_answers_as_it_is_described(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path, customer: str | None
) -> None:
    (key,) = keys_at(tmp_path, customer)
    server = serve("--auth", "keys", INTURN_REQUESTS_PER_SECOND="100000", INTURN_BURST="1000000")
    with server.client(key) as client, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {key}"
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        body = {"documents": [{"name": "a", "text": "x", "batch": "b"}], "customer": "acme"}
        known = client.post("/v1/documents", json=body).json()["receipts"][0]["id"]
        asked: Counter[int] = Counter()

        def ask(case: schemathesis.Case) -> None:
            if asked.total() % 2 and case.path_parameters.get("id"):
                case.path_parameters["id"] = known
            if case.query and "wait" in case.query:
                case.query["wait"] = 0
            if operation.path == "/v1/documents" and isinstance(case.body, dict) and "documents" in case.body:
                case.body.setdefault("customer", "acme")  # an operator must name one, and draws seldom do
            answer = case.call_and_validate(base_url=server.url, session=session, checks=CHECKS)
            asked[answer.status_code] += 1

        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path != "/v1/events":  # a stream has no end
                for mode in schemathesis.GenerationMode:
                    _try(ask, operation.as_strategy(generation_mode=mode), EXAMPLES[customer])
    assert asked.total() > 40 * EXAMPLES[customer]
    assert {200, 202, 404, 422} <= asked.keys()


def _try(ask: Callable[[schemathesis.Case], None], strategy: Any, examples: int) -> None:
    """Draw some cases; an operation that takes nothing has nothing to draw wrongly."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case: schemathesis.Case) -> None:
        ask(case)

    with suppress(Unsatisfiable):
        run()


def test_errors_are_described_as_problems_and_there_are_examples(harness: Harness) -> None:
    described = harness.app.openapi()
    assert {"HTTPValidationError", "ValidationError"}.isdisjoint(described["components"]["schemas"])
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            assert operation.get("summary"), f"{method} {path}"
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"], f"{method} {path} {status}"
    text = json.dumps(described)
    references = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert references <= described["components"]["schemas"].keys()
    assert "examples" in text


def test_operations_have_the_names_that_programs_call_them_by(harness: Harness) -> None:
    described = [
        f"{method.upper()} {path} {operation['operationId']}"
        for path, operations in harness.app.openapi()["paths"].items()
        for method, operation in operations.items()
    ]
    listed = [line.strip() for line in OPERATIONS.strip().splitlines()]
    assert sorted(described, key=lambda line: line.split()[1::-1]) == listed
    names = [line.split()[2] for line in described]
    assert len(set(names)) == len(names)


def test_what_may_be_left_out_of_a_request_is_optional_for_generators_of_types(harness: Harness) -> None:
    schemas = harness.app.openapi()["components"]["schemas"]
    taken = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    assert taken - {"Policy", "Rate"} == REQUIRED.keys()  # these two are told as well, whole
    for name, required in REQUIRED.items():
        assert set(schemas[name].get("required", ())) == required, name
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            assert "default" not in described, f"{name}.{field}: openapi-typescript takes it for required"

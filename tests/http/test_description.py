"""The API's description is true: whatever it allows is answered as it says, and never with a server error."""

import json
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

from .conftest import Process, Rig

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 5


@pytest.mark.parametrize("customer", [None, "acme"])
def test_every_operation_answers_as_it_is_described(
    serve: Callable[..., Process], keys_at: Callable[..., list[str]], tmp_path: Path, customer: str | None
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
            answer = case.call_and_validate(base_url=server.url, session=session, checks=CHECKS)
            asked[answer.status_code] += 1

        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path != "/v1/events":  # a stream has no end
                for mode in schemathesis.GenerationMode:
                    _try(ask, operation.as_strategy(generation_mode=mode))
    assert asked.total() > 200
    assert {200, 202, 404, 422} <= asked.keys()


def _try(ask: Callable[[schemathesis.Case], None], strategy: Any) -> None:
    """Draw some cases; an operation that takes nothing has nothing to draw wrongly."""

    @settings(
        max_examples=EXAMPLES,
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


def test_errors_are_described_as_problems_and_there_are_examples(rig: Rig) -> None:
    described = rig.app.openapi()
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

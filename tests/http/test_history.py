"""`/v1/history` and `Client.history`."""

from typing import Any

from starlette.testclient import TestClient

from inturn.model import NewDocument
from inturn.store_types import Operator
from inturn.values import SECOND
from waiting import wait_until

from .conftest import Harness


def fill(harness: Harness) -> None:
    harness.queue.submit("acme", [NewDocument("a")] * 3)
    harness.queue.submit("beta", [NewDocument("b")] * 5)
    harness.process_documents(n=2)
    harness.queue.fold_history(limit=1_000)


def test_history_of_the_last_hour_by_minute(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    answer = anna.get("/v1/history").json()
    assert (answer["by"], answer["step"], answer["series"]) == ("state", 60 * SECOND, [])
    assert len(answer["at"]) in {60, 61}
    total = answer["total"]
    assert (sum(n or 0 for n in total["submitted"]), sum(n or 0 for n in total["done"])) == (8, 2)
    assert [n for n in total["waiting"] if n is not None][-1:] == [6]
    assert total["submitted"][0] is None, "nothing is known of the time before"
    assert any(total["wait_p95"])
    assert answer["known_until"] >= answer["began_at"]


def test_history_by_level_and_customer(harness: Harness, anna: TestClient) -> None:
    fill(harness)

    def series(by: str, name: str) -> dict[Any, int]:
        answer = anna.get("/v1/history", params={"by": by, "top": 1}).json()
        return {one[name]: sum(n or 0 for n in one["submitted"]) for one in answer["series"]}

    assert series("level", "level") == {1: 6, 2: 2}
    assert series("queue", "queue") == {"default": 8}
    assert series("customer", "customer") == {"beta": 5, None: 3}


def test_a_customers_key_gets_its_own_alone(harness: Harness, acme: TestClient) -> None:
    fill(harness)
    answer = acme.get("/v1/history", params={"by": "customer"}).json()
    assert [one["customer"] for one in answer["series"]] == ["acme"]
    assert sum(n or 0 for n in answer["total"]["submitted"]) == 3
    assert acme.get("/v1/history", params={"customer": "beta"}).status_code == 404
    for params in ({"by": "level"}, {"by": "queue"}, {"queue": "default"}):
        refused = acme.get("/v1/history", params=params)
        assert (refused.status_code, "all customers" in refused.json()["detail"]) == (422, True)


def test_history_of_one_queue_counts_its_steps_and_parts(harness: Harness, anna: TestClient) -> None:
    queue = harness.queue
    queue.submit("acme", [NewDocument("a", queue="split")])
    (claimed,) = queue.claim("worker", 1, queues=["split"])
    queue.ack([queue.split(claimed, [NewDocument("page", queue="page")] * 2, "merge")])
    queue.fold_history(limit=1_000)

    def total(**params: str) -> dict[str, int]:
        columns = anna.get("/v1/history", params=params).json()["total"]
        return {name: sum(n or 0 for n in columns[name]) for name in ("submitted", "parts", "steps", "waiting")}

    assert total() == {"submitted": 1, "parts": 2, "steps": 1, "waiting": 2}
    assert total(queue="split") == {"submitted": 1, "parts": 0, "steps": 1, "waiting": 0}
    assert total(queue="page") == {"submitted": 0, "parts": 2, "steps": 0, "waiting": 2}


def test_bad_times_and_steps_are_refused_with_what_is_allowed(harness: Harness, anna: TestClient) -> None:
    now = harness.queue.now()
    for params, detail in (
        ({"from": now, "to": now}, "`from` must be before `to`"),
        ({"from": 0}, "at most 90 days"),
        ({"step": 7}, "a step is one of"),
        ({"by": "colour"}, "by"),
    ):
        answer = anna.get("/v1/history", params=params)
        assert answer.status_code == 422
        assert detail in answer.json()["detail"]


def test_a_server_folds_by_itself(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a")])
    wait_until(lambda: any(anna.get("/v1/history").json()["total"]["submitted"]), timeout=20)


def test_failures_are_counted_until_they_are_acknowledged(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    def failures() -> dict[str, Any]:
        answer: dict[str, Any] = anna.get("/v1/overview").json()["failures"]
        return answer

    def fail(n: int) -> None:
        harness.queue.submit("acme", [NewDocument("a")] * n)
        for claim in harness.queue.claim("worker", n):
            harness.queue.fail(claim, "no", final=True)
        harness.queue.fold_history(limit=1_000)
        harness.app_state.failures.reset()

    assert (failures()["failed"], failures()["acknowledged"]) == (0, None)
    fail(3)
    assert (failures()["failed"], failures()["customers"]) == (3, [{"customer": "acme", "failed": 3}])
    assert acme.post("/v1/failures/acknowledge").status_code == 404
    answer = anna.post("/v1/failures/acknowledge", params={"why": "known"}).json()
    assert (answer["failed"], answer["acknowledged"]["operator"], answer["acknowledged"]["why"]) == (0, "anna", "known")
    fail(2)  # within the same minute
    assert failures()["failed"] == 2
    assert anna.get("/v1/audit").json()["events"][0]["kind"] == "failures_acknowledged"


def test_an_acknowledgement_by_a_clock_that_was_ahead_hides_no_failures(harness: Harness, anna: TestClient) -> None:
    clock_is_right = harness.clock.now()
    harness.queue.acknowledge_failures(Operator("ben", "by a clock a day ahead"), now=clock_is_right + 86_400 * SECOND)
    harness.queue.submit("acme", [NewDocument("a")])
    harness.queue.fail(harness.queue.claim("w1")[0], "no", final=True)
    harness.queue.fold_history(limit=100)
    failures = anna.get("/v1/overview").json()["failures"]
    assert (failures["failed"], failures["acknowledged"]) == (1, None)

"""Lists of customers: sorted by live figures, searched, counted, page by page."""

import time
from collections.abc import Callable

from starlette.testclient import TestClient

from inturn.model import NewDocument
from waiting import wait_until

from .conftest import ANNA, Harness


def listed(client: TestClient, **query: object) -> list[str]:
    answer = client.get("/v1/customers", params=query)
    assert answer.status_code == 200, answer.text
    return [item["customer"] for item in answer.json()["customers"]]


def soon(call: Callable[[], object], expected: object) -> None:
    """Events are heard of within a moment."""
    wait_until(lambda: call() == expected, message=call)


def fill(harness: Harness) -> None:
    for name, n in (("beta", 3), ("acme", 30), ("gamma", 1)):
        harness.queue.submit(name, [NewDocument("x")] * n)


def test_customers_are_sorted_by_live_figures(harness: Harness, anna: TestClient) -> None:
    harness.app_state.event_poller.last_event_number = harness.queue.store.last_event()
    fill(harness)
    assert listed(anna, sort="waiting", down=True) == ["acme", "beta", "gamma"]
    assert listed(anna, sort="waiting") == ["gamma", "beta", "acme"]
    assert listed(anna, sort="name") == ["acme", "beta", "gamma"]
    assert listed(anna, sort="name", down=True) == ["gamma", "beta", "acme"]
    assert listed(anna, sort="level", down=True) == ["acme", "beta", "gamma"]
    assert listed(anna, sort="updated", down=True) == ["gamma", "acme", "beta"]
    harness.queue.claim("w", 5)  # level 1 in turn: beta, acme, gamma, beta, acme
    soon(lambda: listed(anna, sort="running", down=True), ["acme", "beta", "gamma"])
    soon(lambda: set(listed(anna, sort="wait")), {"acme", "beta", "gamma"})


def test_listed_customers_have_waits(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    harness.queue.change_customer("acme", ANNA, weight=3)
    harness.queue.claim("w", 4)
    soon(lambda: anna.get("/v1/customers", params={"sort": "name"}).json()["customers"][0]["waits"] is not None, True)
    rows = {item["customer"]: item for item in anna.get("/v1/customers", params={"sort": "name"}).json()["customers"]}
    waits = rows["acme"]["waits"]
    assert 0 < waits["p50"] <= waits["p95"] <= waits["p99"]
    one = anna.get("/v1/customers/acme").json()
    assert one["waits"] == waits
    assert abs(one["at"] - time.time_ns() // 1_000) < 60_000_000
    own = harness.client_as(harness.create_api_key("acme")).get("/v1/customers/acme").json()
    assert (own["share"], own["waits"]) == (None, waits)


def test_sorted_lists_are_searched_filtered_and_counted(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    harness.queue.change_customer("gamma", ANNA, paused=True, display_name="Zoë")
    for query, expected in (
        ({"text": "ZOË"}, ["gamma"]),
        ({"text": "AM"}, ["gamma"]),
        ({"waiting": True, "paused": False}, ["acme", "beta"]),
        ({"paused": True}, ["gamma"]),
        ({"text": "nobody"}, []),
    ):
        result = anna.get("/v1/customers", params={"sort": "name", **query}).json()
        assert [item["customer"] for item in result["customers"]] == expected, query
        assert result["total"] == len(expected)


def test_pages_of_a_sorted_list_follow_each_other(harness: Harness, anna: TestClient) -> None:
    for number in range(7):
        harness.queue.submit(f"c{number}", [NewDocument("x")] * (number + 1))
    result, after = [], None
    for _ in range(3):
        query = {"sort": "waiting", "down": True, "limit": 3} | ({} if after is None else {"after": after})
        page = anna.get("/v1/customers", params=query).json()
        assert page["total"] == 7
        result += [item["customer"] for item in page["customers"]]
        after = page["next"]
    assert (result, after) == ([f"c{number}" for number in range(6, -1, -1)], None)
    assert listed(anna, sort="name", after="100") == []


def test_list_without_sort_comes_from_the_store(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    page = anna.get("/v1/customers", params={"limit": 2}).json()
    assert (page["next"], page["total"]) == ("beta", None)


def test_unknown_sort_or_offset_is_refused(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    for error in (
        {"sort": "size"},
        *({"sort": "name", "after": item} for item in ("acme", "-1", "1.5", "٣", "9" * 30)),
    ):
        assert anna.get("/v1/customers", params=error).status_code == 422, error


def test_changed_customer_moves_in_the_order_within_a_moment(harness: Harness, anna: TestClient) -> None:
    fill(harness)
    assert listed(anna, sort="waiting", down=True)[0] == "acme"
    harness.queue.submit("delta", [NewDocument("x")] * 40)
    soon(lambda: listed(anna, sort="waiting", down=True)[0], "delta")
    anna.patch("/v1/customers/beta", json={"paused": True})
    soon(lambda: listed(anna, sort="name", paused=True), ["beta"])

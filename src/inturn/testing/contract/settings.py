"""Customer settings, pauses and policies."""

from collections import Counter as Tally
from typing import Any

import pytest

from inturn.errors import (
    InvalidInputError,
    VersionConflictError,
)
from inturn.model import RateLimit
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store_types import EventKind, Operator
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, START, StoreHarness, guarantee
from inturn.values import seconds


class TestChangeCustomer:
    """Test `Store.change_customer`."""

    @guarantee("S19")
    def test_changes_settings_one_by_one_and_writes_events(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, weight=2.5)
        harness.queue.change_customer("acme", ANNA, rate=(5, seconds(1)), display_name="Acme GmbH")
        settings = harness.store.customer("acme").settings
        assert (settings.weight, settings.rate, settings.display_name) == (
            2.5,
            RateLimit(5, seconds(1)),
            "Acme GmbH",
        )
        assert (settings.cap, settings.paused) == (None, False)
        event = harness.store.events(0, limit=100)[-1]
        assert (event.kind, event.operator, event.detail["rate"]) == (
            EventKind.CUSTOMER_CHANGED,
            ANNA,
            [5, seconds(1)],
        )

    @guarantee("S19", "A2")
    @pytest.mark.parametrize(
        "bad",
        [
            {"weight": 0},
            {"weight": 1001},
            {"weight": float("nan")},
            {"cap": 0},
            {"cap": 1.5},
            {"rate": (0, 1_000_000)},
            {"rate": (5, 1)},
            {"display_name": "a\0b"},
            {"colour": "red"},
        ],
    )
    def test_refuses_bad_settings_and_changes_nothing(self, harness: StoreHarness, bad: dict[str, Any]) -> None:
        harness.submit("acme")
        before = harness.store.customer("acme"), harness.store.events(0, limit=100)
        with pytest.raises(InvalidInputError):
            harness.queue.change_customer("acme", ANNA, **bad)
        assert (harness.store.customer("acme"), harness.store.events(0, limit=100)) == before

    @guarantee("S19")
    def test_reopened_lane_has_no_credit(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("acme", 50)
        harness.submit("beta", 50)
        harness.queue.pause(ANNA, "acme")
        assert set(harness.claim_customers(30)) == {"beta"}
        harness.queue.resume(ANNA, "acme")
        assert Tally(harness.claim_customers(10)) == {"acme": 5, "beta": 5}

    @guarantee("S19")
    def test_weights_share_also_for_documents_that_wait(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("acme", 100)
        harness.submit("beta", 100)
        harness.queue.change_customer("acme", ANNA, weight=3)
        assert Tally(harness.claim_customers(40)) == {"acme": 30, "beta": 10}
        harness.queue.change_customer("acme", ANNA, weight=1)
        assert Tally(harness.claim_customers(20))["acme"] in {9, 10, 11}

    @guarantee("S12", "S19")
    def test_cap_lowered_below_the_running_documents_waits_for_them(self, harness: StoreHarness) -> None:
        harness.submit("acme", 6)
        claimed = harness.claim(3)
        harness.queue.change_customer("acme", ANNA, cap=1)
        assert harness.claim(5) == ()
        for claim in claimed[:2]:
            harness.queue.finish(claim)
            assert harness.claim(5) == ()
        harness.queue.finish(claimed[2])
        assert len(harness.claim(5)) == 1
        harness.queue.change_customer("acme", ANNA, cap=None)
        assert len(harness.claim(5)) == 2

    @guarantee("S12", "S19")
    def test_removed_rate_limit_opens_the_lane_at_once(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, rate=RateLimit(1, seconds(60)))
        harness.submit("acme", 3)
        assert len(harness.claim(3)) == 1
        harness.queue.change_customer("acme", ANNA, rate=None)
        assert len(harness.claim(3)) == 2


class TestPause:
    """Test `Store.pause`, `Store.resume` and `Store.paused`; pauses of one customer."""

    @guarantee("S12", "S19")
    def test_paused_customer_waits_and_others_pass(self, harness: StoreHarness) -> None:
        ids = [receipt.id for receipt in harness.submit("acme", 4)]
        harness.submit("beta", 2)
        harness.queue.pause(ANNA, "acme")
        assert harness.claim_customers() == ["beta", "beta"]
        assert not any(lane.is_open for lane in harness.store.customer("acme").lanes)
        harness.queue.resume(ANNA, "acme")
        assert [claimed.document.id for claimed in harness.claim(10)] == ids

    @guarantee("S21")
    def test_lanes_keep_their_virtual_time_through_a_pause_of_the_queue(self, harness: StoreHarness) -> None:
        harness.submit("acme", 30)
        harness.submit("beta", 30)
        harness.claim(45)
        before = harness.store.scheduler_snapshot()
        harness.queue.pause(ANNA)
        harness.advance(5)
        assert harness.claim() == ()
        harness.queue.resume(ANNA)
        assert harness.store.scheduler_snapshot() == before
        assert harness.claim_customers(4) in (["acme", "beta"] * 2, ["beta", "acme"] * 2)

    @guarantee("S12", "S20")
    def test_paused_queue_starts_nothing(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2)
        running = harness.claim_one()
        harness.queue.pause(ANNA)
        assert harness.store.paused() == ANNA
        assert harness.claim() == ()
        harness.queue.finish(running)
        harness.submit("beta")
        harness.queue.resume(ANNA)
        assert harness.store.paused() is None
        assert sorted(harness.claim_customers()) == ["acme", "beta"]


class TestSetPolicy:
    """Test `Store.set_policy`, `Store.policy` and `Store.policies`."""

    @guarantee("S22")
    def test_versions_record_operator_time_and_reason(self, harness: StoreHarness) -> None:
        assert harness.store.policy().number == 1
        assert harness.store.policy().policy == Policy()
        harness.advance(5)
        changed = Policy(PriorityPolicy(seconds(60), (-1, -2)), TurnPolicy(Order.CLASSIC, seconds(30), 4))
        version = harness.store.set_policy(changed, Operator("bob", "trying"), expected=1)
        assert version == harness.store.policy()
        assert (version.number, version.policy, version.at, version.operator) == (
            2,
            changed,
            START + seconds(5),
            Operator("bob", "trying"),
        )
        assert [policy.number for policy in harness.store.policies()] == [2, 1]
        event = harness.store.events(0, limit=10)[-1]
        assert (event.kind, event.detail["version"]) == (EventKind.POLICY_SET, 2)

    @guarantee("S22")
    def test_refuses_a_change_of_an_outdated_version(self, harness: StoreHarness) -> None:
        harness.store.set_policy(Policy(), ANNA, expected=1)
        with pytest.raises(VersionConflictError, match="version 2"):
            harness.store.set_policy(Policy(), ANNA, expected=1)
        assert harness.store.policy().number == 2

    @guarantee("S22")
    def test_new_order_applies_to_waiting_documents(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("a", 20)
        harness.submit("b", 20)
        assert harness.claim_customers(4) == ["a", "b", "a", "b"]
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(Order.CLASSIC)))
        assert harness.claim_customers(4) == ["a"] * 4
        harness.set_policy(SINGLE_LEVEL_POLICY)
        assert Tally(harness.claim_customers(4)) == {"a": 2, "b": 2}

    @guarantee("S22")
    def test_new_levels_apply_to_new_checks(self, harness: StoreHarness) -> None:
        old = harness.submit("acme", 3)
        harness.set_policy(Policy(PriorityPolicy(thresholds=(-1,))))
        assert harness.submit("acme")[0].level == 2
        assert harness.document(old[2].id).level == 1

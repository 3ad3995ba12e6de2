"""Checks, on the counters of a store or on separate counters."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from inturn.clock import Clock, ManualClock
from inturn.counters import Counters
from inturn.errors import InvalidInputError, KeyConflictError
from inturn.policy import Counter, PriorityPolicy
from inturn.store_types import IDEMPOTENCY_KEY_RETENTION
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.values import seconds

BURST_LEVELS: Final = [1] * 3 + [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7] + [8] * 6 + [9] * 4
RESET_INTERVAL: Final = seconds(1500)


class CheckTests:
    """Test checks on any counters. Needs the fixtures `counters` and `clock`."""

    @guarantee("S1")
    def test_equals_the_policy(self, counters: Counters) -> None:
        checks = counters.check("acme", 25)
        assert [check.level for check in checks] == BURST_LEVELS
        assert [check.count for check in checks] == list(range(0, -25, -1))

    @guarantee("S1")
    def test_any_sequence_equals_the_policy(self, counters: Counters, clock: ManualClock) -> None:
        policy, counter = PriorityPolicy(), None
        for step in range(60):
            clock.advance(seconds((step * 397) % 1800))
            n = 1 + step % 4
            checks = counters.check("acme", n)
            checked = policy.check_many(counter, clock.now(), n)
            assert [tuple(check) for check in checks] == list(checked.per_document())
            counter = checked.counter
            assert counters.counter("acme") == counter

    @guarantee("S1")
    def test_counter_resets_when_the_interval_is_exceeded(self, counters: Counters, clock: ManualClock) -> None:
        """Exactly 1500 s do not; a microsecond more does."""
        counters.check("acme", 5)
        clock.advance(RESET_INTERVAL)
        assert counters.check("acme")[0] == (3, -5)
        clock.advance(RESET_INTERVAL + 1)
        assert counters.check("acme")[0] == (1, 0)

    @guarantee("S1")
    def test_clock_that_runs_backwards_resets_no_counter(self, counters: Counters, clock: ManualClock) -> None:
        counters.check("acme", 2)
        clock.advance(-100)
        assert counters.check("acme")[0].count == -2
        assert counters.counter("acme") == Counter(-2, START)
        clock.set(START - RESET_INTERVAL)
        counters.check("acme")
        assert counters.counter("acme") == Counter(-3, START)
        clock.advance(-1)
        counters.check("acme")
        assert counters.counter("acme") == Counter(-4, START - RESET_INTERVAL - 1)

    @guarantee("S1")
    def test_similar_names_have_separate_counters(self, counters: Counters) -> None:
        names = ["acme", "Acme", "{acme}", "}", "{", "{}", "a}b", "%7B", "%", "ąćmę", "a b", "a:counter", "x" * 255]
        for name in names:
            assert counters.check(name, 3, key="k")[-1].count == -2
        assert [counters.check(name, 3, key="k")[0].count for name in names] == [0] * len(names)

    @guarantee("S1")
    def test_customer_never_checked_has_no_counter(self, counters: Counters) -> None:
        assert counters.counter("acme") is None
        assert counters.counter("acme") is None
        assert counters.check("acme")[0].count == 0

    @guarantee("S1")
    def test_another_policy_applies_to_new_checks(self, counters: Counters, clock: ManualClock) -> None:
        counters.check("acme", 3)
        counters.set_policy(PriorityPolicy(seconds(10), (-1, -5)), ANNA)
        assert counters.policy() == PriorityPolicy(seconds(10), (-1, -5))
        assert [check.level for check in counters.check("acme", 4)] == [2, 2, 2, 3]
        clock.advance(seconds(10) + 1)
        assert counters.check("acme")[0] == (1, 0)
        counters.set_policy(PriorityPolicy(), ANNA)
        clock.advance(RESET_INTERVAL)
        assert counters.check("acme")[0] == (1, -1)

    @guarantee("S3")
    def test_repeat_under_a_key_counts_once(self, counters: Counters, clock: ManualClock) -> None:
        first = counters.check("acme", 2, key="k")
        clock.advance(seconds(10))
        assert counters.check("acme", 2, key="k") == first
        assert counters.check("beta", 2, key="k") == first
        with pytest.raises(KeyConflictError):
            counters.check("acme", 3, key="k")
        assert counters.check("acme")[0].count == -2

    @guarantee("S3")
    def test_repeat_under_a_key_returns_the_first_answer(self, counters: Counters) -> None:
        first = counters.check("acme", 5, key="k")
        counters.set_policy(PriorityPolicy(thresholds=(-1,)), ANNA)
        assert counters.check("acme", 5, key="k") == first

    @guarantee("S3")
    def test_key_is_forgotten_after_seven_days(self, counters: Counters, clock: ManualClock) -> None:
        first = counters.check("acme", 2, key="k")
        clock.advance(IDEMPOTENCY_KEY_RETENTION)
        assert counters.check("acme", 2, key="k") == first
        counters.check("acme")
        clock.advance(1)
        assert counters.check("acme", 1, key="k")[0].count == -1
        with pytest.raises(KeyConflictError):
            counters.check("acme", 2, key="k")

    @guarantee("A1")
    def test_accepts_a_time(self, counters: Counters) -> None:
        counters.check("acme", now=5)
        assert counters.counter("acme") == Counter(0, 5)
        assert counters.check("acme", now=5 + RESET_INTERVAL)[0].count == -1

    @guarantee("A2")
    @pytest.mark.parametrize("n", [0, -1, True, 1.0, 10_001])
    def test_refuses_invalid_arguments(self, counters: Counters, n: Any) -> None:
        with pytest.raises(InvalidInputError):
            counters.check("acme", n)
        with pytest.raises(InvalidInputError):
            counters.check("", 1)
        with pytest.raises(InvalidInputError):
            counters.check("acme", 1, now=-1)
        assert counters.counter("acme") is None


class TestCheck(CheckTests):
    """Test `Store.check`, also beside documents."""

    @guarantee("S1")
    def test_shares_its_counter_with_submit(self, harness: StoreHarness) -> None:
        harness.store.check("acme", 3)
        assert [receipt.count for receipt in harness.submit("acme", 2)] == [-3, -4]
        assert harness.store.check("acme", 1)[0].count == -5

    @guarantee("S2")
    def test_creates_no_document_and_no_lane(self, harness: StoreHarness) -> None:
        harness.store.check("acme", 5)
        assert harness.claim() == ()
        assert harness.all_documents() == ()
        assert harness.store.customer("acme").lanes == ()


class CountersContract:
    """All tests of counters without a queue."""

    TestCheck = CheckTests

    def make_counters(self, clock: Clock) -> Counters:
        """Create empty counters that use this clock where `now` is left out."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(START)

    @pytest.fixture
    def counters(self, clock: ManualClock) -> Iterator[Counters]:
        with self.make_counters(clock) as made:
            yield made

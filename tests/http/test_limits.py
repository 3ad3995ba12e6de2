"""Limits keep their tables small, whoever asks: an entry for each key, address or customer would fill the memory."""

import pytest

from inturn.clock import ManualClock
from inturn.http import limits
from inturn.http.errors import TooManyError
from inturn.http.limits import FailedLogins, Quotas, RateLimiter
from inturn.http.settings import Limits
from inturn.model import NewDocument
from inturn.values import SECOND

from .conftest import Harness


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000 * SECOND)


@pytest.fixture(autouse=True)
def _two_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TRACKED", 2)


def test_the_key_that_asked_longest_ago_is_forgotten(clock: ManualClock) -> None:
    limiter = RateLimiter(Limits(per_second=1, burst=1), clock)
    for key in ("a", "b"):
        limiter.take(key)
    with pytest.raises(TooManyError):
        limiter.take("a")  # and was seen last now
    limiter.take("c")
    limiter.take("b")
    with pytest.raises(TooManyError):
        limiter.take("c")


def test_the_address_that_failed_longest_ago_is_forgotten(clock: ManualClock) -> None:
    failed = FailedLogins(Limits(failed_logins=1), clock)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        failed.record_failure(address, "key")
    failed.check("192.0.2.1", "key")
    for address in ("192.0.2.2", "192.0.2.3"):
        with pytest.raises(TooManyError):
            failed.check(address, "key")


def test_a_customer_that_is_forgotten_is_counted_anew(harness: Harness, clock: ManualClock) -> None:
    quotas = Quotas(Limits(waiting=3), harness.queue, clock)
    harness.queue.submit("acme", [NewDocument("a")] * 2)
    for customer in ("acme", "beta", "cruz"):
        quotas.check(customer, 1, 0)
    quotas.add("acme", 1, 0)  # nothing to add it to
    quotas.check("acme", 1, 0)
    quotas.add("acme", 1, 0)
    with pytest.raises(TooManyError):
        quotas.check("acme", 1, 0)

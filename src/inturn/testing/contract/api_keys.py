"""API keys."""

import pytest

from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key, parse_api_key_id, verify_api_key
from inturn.errors import NotFoundError
from inturn.store_types import EventKind
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee
from inturn.values import seconds


def new_api_key(customer: str | None = "acme", *, made_at: int = START) -> tuple[str, ApiKey]:
    """Generate a key; return its text and its record."""
    scope = ApiKeyScope.OPERATOR if customer is None else ApiKeyScope.CUSTOMER
    return generate_api_key(ApiKey("", "", scope, "a key", customer, made_at))


class TestApiKeys:
    """Test `Store.api_keys`."""

    @guarantee("S38")
    def test_added_key_is_found_by_id_and_its_event_has_no_hash(self, harness: StoreHarness) -> None:
        text, key = new_api_key()
        other_text, other = new_api_key(None, made_at=START + 1)
        harness.store.api_keys.add(key, ANNA)
        harness.store.api_keys.add(other, ANNA)
        assert harness.store.api_keys.find(parse_api_key_id(text) or "") == key
        assert harness.store.api_keys.all() == (key, other)
        assert verify_api_key(key, text)
        assert not verify_api_key(key, other_text)
        made, _ = harness.store.events(0, limit=10)
        assert (made.kind, made.customer, made.operator) == (EventKind.KEY_MADE, "acme", ANNA)
        assert made.detail == {"key": key.id, "scope": "customer", "name": "a key"}
        with pytest.raises(NotFoundError):
            harness.store.api_keys.find("000000000000")

    @guarantee("S39")
    def test_expiry_never_moves_later(self, harness: StoreHarness) -> None:
        _, key = new_api_key()
        harness.store.api_keys.add(key, ANNA)
        later = harness.store.api_keys.revoke(key.id, START + seconds(60), ANNA)
        assert later.is_live(START + seconds(60) - 1)
        assert not later.is_live(START + seconds(60))
        assert harness.store.api_keys.revoke(key.id, START + seconds(90), ANNA) == later
        assert harness.store.api_keys.revoke(key.id, START, ANNA).expires_at == START
        assert harness.store.api_keys.find(key.id).expires_at == START
        assert [event.kind for event in harness.store.events(1, limit=10)] == [EventKind.KEY_ENDED] * 3
        with pytest.raises(NotFoundError):
            harness.store.api_keys.revoke("000000000000", START, ANNA)

    @guarantee("S40")
    def test_last_use_of_a_key_does_not_go_back(self, harness: StoreHarness) -> None:
        (_, one), (_, two) = new_api_key(), new_api_key("beta", made_at=START + 1)
        for key in (one, two):
            harness.store.api_keys.add(key, ANNA)
        harness.store.api_keys.record_use({one.id: START + 5, two.id: START + 6, "000000000000": START})
        harness.store.api_keys.record_use({one.id: START + 4})
        assert [api_key.used_at for api_key in harness.store.api_keys.all()] == [START + 5, START + 6]
        harness.store.api_keys.record_use({})

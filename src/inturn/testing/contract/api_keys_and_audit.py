"""S18, S38 to S43: API keys, the audit log, stored bytes."""

from pathlib import Path

import pytest

from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key, parse_api_key_id, verify_api_key
from inturn.errors import NotFoundError
from inturn.model import seconds
from inturn.store import EventKind
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite


def new_api_key(customer: str | None = "acme", *, made_at: int = START) -> tuple[str, ApiKey]:
    """Generate a key; return its text and its record."""
    scope = ApiKeyScope.OPERATOR if customer is None else ApiKeyScope.CUSTOMER
    return generate_api_key(ApiKey("", "", scope, "a key", customer, made_at))


class ApiKeyAndAuditTests(StoreSuite):
    """Test API keys, the audit log and stored bytes."""

    def test_s38_a_key_is_found_by_id_and_its_event_has_no_hash(self, harness: StoreHarness) -> None:
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

    def test_s39_an_expiry_never_moves_later(self, harness: StoreHarness) -> None:
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

    def test_s40_the_last_use_of_a_key_does_not_go_back(self, harness: StoreHarness) -> None:
        (_, one), (_, two) = new_api_key(), new_api_key("beta", made_at=START + 1)
        for key in (one, two):
            harness.store.api_keys.add(key, ANNA)
        harness.store.api_keys.record_use({one.id: START + 5, two.id: START + 6, "000000000000": START})
        harness.store.api_keys.record_use({one.id: START + 4})
        assert [api_key.used_at for api_key in harness.store.api_keys.all()] == [START + 5, START + 6]
        harness.store.api_keys.record_use({})

    def test_s18_a_purge_takes_the_customers_keys_with_it(self, harness: StoreHarness) -> None:
        (_, own), (_, others) = new_api_key(), new_api_key("beta")
        for key in (own, others):
            harness.store.api_keys.add(key, ANNA)
        harness.submit_one("acme")
        harness.queue.purge("acme", ANNA)
        assert harness.store.api_keys.all() == (others,)

    def test_s41_events_after_the_newest_are_only_new_ones(self, harness: StoreHarness) -> None:
        assert harness.store.last_event() == 0
        harness.submit_one("acme")
        last = harness.store.last_event()
        assert harness.store.events(last, limit=10) == ()
        harness.submit_one("acme")
        assert [event.kind for event in harness.store.events(last, limit=10)] == [EventKind.SUBMITTED]

    def test_s42_the_audit_log_of_one_customer(self, harness: StoreHarness) -> None:
        ids = [harness.submit_one(customer) for customer in ("acme", "beta", "acme")]
        harness.queue.pause(ANNA)
        harness.store.cancel(ids, ANNA)
        harness.queue.pause(ANNA, "acme")
        newest, oldest = harness.store.audit(limit=10, customer="acme")
        assert (newest.kind, oldest.documents) == (EventKind.CUSTOMER_CHANGED, (ids[0], ids[2]))
        assert harness.store.audit(limit=1, customer="acme") == (newest,)
        assert harness.store.audit(limit=10, before=newest.number, customer="acme") == (oldest,)
        assert harness.store.audit(limit=10, before=oldest.number, customer="acme") == ()
        assert harness.store.audit(limit=10, customer="unknown") == ()

    def test_s42_the_audit_log_has_what_was_done_by_hand_newest_first(self, harness: StoreHarness) -> None:
        harness.submit_one("acme")
        harness.queue.pause(ANNA)
        harness.submit_one("acme")
        harness.queue.resume(ANNA)
        newest, oldest = harness.store.audit(limit=10)
        assert (newest.kind, oldest.kind) == (EventKind.QUEUE_RESUMED, EventKind.QUEUE_PAUSED)
        assert harness.store.audit(limit=1) == (newest,)
        assert harness.store.audit(limit=10, before=newest.number) == (oldest,)
        harness.store.prune(START + seconds(1), limit=100)
        assert harness.store.audit(limit=10) == (newest, oldest)
        assert {event.operator for event in harness.store.events(0, limit=10)} == {ANNA}

    def test_s43_bytes_are_counted_for_each_customer(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2, size=100)
        harness.submit_one("acme", uri="https://example.com/a")
        harness.submit_one("beta", size=7)
        harness.finish_all()
        harness.submit_one("acme", size=1)
        assert [harness.store.stored_bytes(customer) for customer in ("acme", "beta", "unknown")] == [201, 7, 0]

    def test_s29_keys_are_in_a_backup(self, harness: StoreHarness, tmp_path: Path) -> None:
        _, key = new_api_key()
        harness.store.api_keys.add(key, ANNA)
        harness.store.backup(tmp_path / "copy")
        copy = self.reopen(tmp_path / "copy", harness.clock)
        assert copy.api_keys.all() == (key,)
        copy.close()

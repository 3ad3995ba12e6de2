"""S18, S38 to S43: what servers ask of a store: keys, the audit log, bytes kept."""

from pathlib import Path

import pytest

from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key, parse_api_key_id, verify_api_key
from inturn.errors import NotFoundError
from inturn.model import seconds
from inturn.store import EventKind
from inturn.testing.contract.harness import ANNA, START, StoreHarness, StoreSuite


def new_api_key(customer: str | None = "acme", *, made_at: int = START) -> tuple[str, ApiKey]:
    """A key's text and the key."""
    scope = ApiKeyScope.OPERATOR if customer is None else ApiKeyScope.CUSTOMER
    return generate_api_key(ApiKey("", "", scope, "a key", customer, made_at))


class ApiKeyAndAuditTests(StoreSuite):
    """Keys and audit."""

    def test_s38_a_key_is_found_by_its_id_and_told_without_its_hash(self, rig: StoreHarness) -> None:
        """What is kept opens only for the text that was given out."""
        text, key = new_api_key()
        other_text, other = new_api_key(None, made_at=START + 1)
        rig.store.api_keys.add(key, ANNA)
        rig.store.api_keys.add(other, ANNA)
        assert rig.store.api_keys.find(parse_api_key_id(text) or "") == key
        assert rig.store.api_keys.all() == (key, other)
        assert verify_api_key(key, text)
        assert not verify_api_key(key, other_text)
        made, _ = rig.store.events(0, limit=10)
        assert (made.kind, made.customer, made.operator) == (EventKind.KEY_MADE, "acme", ANNA)
        assert made.detail == {"key": key.id, "scope": "customer", "name": "a key"}
        with pytest.raises(NotFoundError):
            rig.store.api_keys.find("000000000000")

    def test_s39_the_end_of_a_key_is_never_put_off(self, rig: StoreHarness) -> None:
        """It lives until then, and not at that time."""
        _, key = new_api_key()
        rig.store.api_keys.add(key, ANNA)
        later = rig.store.api_keys.revoke(key.id, START + seconds(60), ANNA)
        assert later.is_live(START + seconds(60) - 1)
        assert not later.is_live(START + seconds(60))
        assert rig.store.api_keys.revoke(key.id, START + seconds(90), ANNA) == later
        assert rig.store.api_keys.revoke(key.id, START, ANNA).expires_at == START
        assert rig.store.api_keys.find(key.id).expires_at == START
        assert [event.kind for event in rig.store.events(1, limit=10)] == [EventKind.KEY_ENDED] * 3
        with pytest.raises(NotFoundError):
            rig.store.api_keys.revoke("000000000000", START, ANNA)

    def test_s40_the_last_use_of_a_key_does_not_go_back(self, rig: StoreHarness) -> None:
        """Of several at once, and whatever else is asked for."""
        (_, one), (_, two) = new_api_key(), new_api_key("beta", made_at=START + 1)
        for key in (one, two):
            rig.store.api_keys.add(key, ANNA)
        rig.store.api_keys.record_use({one.id: START + 5, two.id: START + 6, "000000000000": START})
        rig.store.api_keys.record_use({one.id: START + 4})
        assert [api_key.used_at for api_key in rig.store.api_keys.all()] == [START + 5, START + 6]
        rig.store.api_keys.record_use({})

    def test_s18_a_purge_takes_the_customers_keys_with_it(self, rig: StoreHarness) -> None:
        """And nobody else's."""
        (_, own), (_, others) = new_api_key(), new_api_key("beta")
        for key in (own, others):
            rig.store.api_keys.add(key, ANNA)
        rig.submit_one("acme")
        rig.queue.purge("acme", ANNA)
        assert rig.store.api_keys.all() == (others,)

    def test_s41_the_newest_event_is_where_the_future_begins(self, rig: StoreHarness) -> None:
        """Nothing before it is told again."""
        assert rig.store.last_event() == 0
        rig.submit_one("acme")
        last = rig.store.last_event()
        assert rig.store.events(last, limit=10) == ()
        rig.submit_one("acme")
        assert [event.kind for event in rig.store.events(last, limit=10)] == [EventKind.SUBMITTED]

    def test_s42_the_audit_log_of_one_customer(self, rig: StoreHarness) -> None:
        """What was done to it or its documents, and nothing else."""
        ids = [rig.submit_one(customer) for customer in ("acme", "beta", "acme")]
        rig.queue.pause(ANNA)
        rig.store.cancel(ids, ANNA)
        rig.queue.pause(ANNA, "acme")
        newest, oldest = rig.store.audit(limit=10, customer="acme")
        assert (newest.kind, oldest.documents) == (EventKind.CUSTOMER_CHANGED, (ids[0], ids[2]))
        assert rig.store.audit(limit=1, customer="acme") == (newest,)
        assert rig.store.audit(limit=10, before=newest.number, customer="acme") == (oldest,)
        assert rig.store.audit(limit=10, before=oldest.number, customer="acme") == ()
        assert rig.store.audit(limit=10, customer="nobody") == ()

    def test_s42_the_audit_log_has_what_was_done_by_hand_newest_first(self, rig: StoreHarness) -> None:
        """It outlives everything else."""
        rig.submit_one("acme")
        rig.queue.pause(ANNA)
        rig.submit_one("acme")
        rig.queue.resume(ANNA)
        newest, oldest = rig.store.audit(limit=10)
        assert (newest.kind, oldest.kind) == (EventKind.QUEUE_RESUMED, EventKind.QUEUE_PAUSED)
        assert rig.store.audit(limit=1) == (newest,)
        assert rig.store.audit(limit=10, before=newest.number) == (oldest,)
        rig.store.prune(START + seconds(1), limit=100)
        assert rig.store.audit(limit=10) == (newest, oldest)
        assert {event.operator for event in rig.store.events(0, limit=10)} == {ANNA}

    def test_s43_bytes_are_counted_for_each_customer(self, rig: StoreHarness) -> None:
        """In any state; what is unknown has none."""
        rig.submit("acme", 2, size=100)
        rig.submit_one("acme", uri="https://example.com/a")
        rig.submit_one("beta", size=7)
        rig.finish_all()
        rig.submit_one("acme", size=1)
        assert [rig.store.stored_bytes(item) for item in ("acme", "beta", "nobody")] == [201, 7, 0]

    def test_s29_keys_are_in_a_backup(self, rig: StoreHarness, tmp_path: Path) -> None:
        """A restored queue lets in the same people."""
        _, key = new_api_key()
        rig.store.api_keys.add(key, ANNA)
        rig.store.backup(tmp_path / "copy")
        copy = self.reopen(tmp_path / "copy", rig.clock)
        assert copy.api_keys.all() == (key,)
        copy.close()

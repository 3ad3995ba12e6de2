"""Queues: documents of one store that different workers process."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.clock import Clock
from inturn.errors import InvalidInputError, KeyConflictError, NotFoundError
from inturn.model import Claim, DocumentState, NewDocument, QueueSettings, QueueStatus, RateLimit
from inturn.policy import Charge, Policy, TurnPolicy
from inturn.policy.scheduler import MAX_QUEUES
from inturn.store import Store
from inturn.store_types import DocumentFilter, DocumentSort, EventKind, OutcomeKind
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, StoreHarness, guarantee
from inturn.values import seconds
from inturn.worker_report import WorkerReport

BY_COST = Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(charge=Charge.COST, max_share=1.0))
"""One level, and every document is charged its cost."""
OCR, EXPORT = "ocr", "export"


class TestQueues:
    """Test `queue` of documents, `queues` of claims, and `change_queue`."""

    @guarantee("S73")
    def test_claim_gets_documents_of_its_queues_alone(self, harness: StoreHarness) -> None:
        ids = {queue: harness.submit_one("acme", queue=queue) for queue in ("default", OCR, EXPORT)}
        assert claimed_ids(harness, 10) == [ids["default"]]
        assert claimed_ids(harness, 10, "unknown") == []
        assert set(claimed_ids(harness, 10, OCR, EXPORT)) == {ids[OCR], ids[EXPORT]}

    @guarantee("S73")
    def test_counter_is_one_for_all_queues(self, harness: StoreHarness) -> None:
        receipts = [harness.submit("acme", queue=queue)[0] for queue in ("default", OCR, EXPORT, OCR, "default")]
        assert [receipt.count for receipt in receipts] == [0, -1, -2, -3, -4]
        assert [receipt.level for receipt in receipts] == [1, 1, 1, 2, 2]

    @guarantee("S73")
    def test_queue_orders_its_documents_as_if_it_were_alone(self, harness: StoreHarness) -> None:
        """A pile in one queue changes nothing in another."""
        harness.set_policy(BY_COST)
        harness.submit("acme", 50)
        harness.submit("acme", 3, queue=OCR)
        harness.submit("beta", 3, queue=OCR)
        harness.claim(20)
        assert [claimed.document.customer for claimed in claim(harness, 6, OCR)] == ["acme", "beta"] * 3

    @guarantee("S12", "S73")
    def test_cap_counts_over_all_queues(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=2)
        for queue in ("default", OCR, EXPORT):
            harness.submit("acme", 2, queue=queue)
        first, _ = harness.claim(10)
        assert claimed_ids(harness, 10, OCR, EXPORT) == []
        harness.queue.finish(first)
        assert len(claimed_ids(harness, 10, OCR)) == 1
        assert claimed_ids(harness, 10, EXPORT) == []

    @guarantee("S12", "S73")
    def test_pause_of_a_customer_holds_in_all_queues(self, harness: StoreHarness) -> None:
        for queue in ("default", OCR):
            harness.submit("acme", queue=queue)
        harness.queue.pause(ANNA, "acme")
        assert claimed_ids(harness, 10, "default", OCR) == []
        harness.queue.resume(ANNA, "acme")
        assert len(claimed_ids(harness, 10, "default", OCR)) == 2

    @guarantee("S55", "S73")
    def test_share_of_the_slots_is_one_of_each_queue(self, harness: StoreHarness) -> None:
        turns = TurnPolicy(max_share=0.5, share_idle_after=seconds(60))
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, turns))
        for name, slots, queues in (("w1", 2, ("default",)), ("w2", 8, (OCR,))):
            harness.store.record_worker(WorkerReport(name, "host", 1, slots, 0, "p", 0, queues=queues))
        for queue in ("default", OCR):
            harness.submit("light", queue=queue)
            harness.submit("flood", 9, queue=queue)
        assert [claimed.document.customer for claimed in claim(harness, 9, "default")] == ["light", "flood"]
        assert [claimed.document.customer for claimed in claim(harness, 9, OCR)] == ["light", *["flood"] * 4]

    @guarantee("S20", "S21")
    def test_paused_queue_starts_nothing_and_others_go_on(self, harness: StoreHarness) -> None:
        ids = {queue: harness.submit_one("acme", queue=queue) for queue in ("default", OCR)}
        harness.store.pause(ANNA, queue=OCR)
        assert harness.store.paused(OCR) == ANNA
        assert harness.store.paused() is None
        assert claimed_ids(harness, 10, OCR) == []
        assert claimed_ids(harness, 10, OCR, "default") == [ids["default"]]
        harness.store.pause(ANNA)
        harness.store.resume(ANNA, queue=OCR)
        assert claimed_ids(harness, 10, OCR) == []
        harness.store.resume(ANNA)
        assert claimed_ids(harness, 10, OCR) == [ids[OCR]]
        with pytest.raises(NotFoundError, match="no queue 'nowhere'"):
            harness.store.pause(ANNA, queue="nowhere")

    @guarantee("S10", "S73")
    def test_claim_of_several_queues_takes_turns_by_weight(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for name, weight in ((OCR, 2.0), (EXPORT, 1.0)):
            harness.queue.change_queue(name, ANNA, weight=weight)
            harness.submit("acme", 60, queue=name)
        served = Counter(claimed.document.spec.queue for claimed in claim(harness, 30, OCR, EXPORT))
        assert served == {OCR: 20, EXPORT: 10}
        served = Counter(claimed.document.spec.queue for _ in range(30) for claimed in claim(harness, 1, OCR, EXPORT))
        assert served == {OCR: 20, EXPORT: 10}

    @guarantee("S73")
    def test_idle_queue_earns_no_credit(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        harness.queue.change_queue(EXPORT, ANNA, description="ends it")
        harness.submit("acme", 80, queue=OCR)
        claim(harness, 40, OCR, EXPORT)
        harness.submit("acme", 40, queue=EXPORT)
        served = Counter(claimed.document.spec.queue for claimed in claim(harness, 20, OCR, EXPORT))
        assert abs(served[OCR] - served[EXPORT]) <= 2

    @guarantee("S8", "S16", "S17")
    def test_document_stays_in_its_queue(self, harness: StoreHarness) -> None:
        """Whatever comes back: a release, an automatic retry, a retry by hand, an expedite."""
        id_ = harness.submit_one("acme", queue=OCR, max_attempts=2)

        def claim_again(kind: OutcomeKind, **fields: object) -> None:
            assert harness.claim(10) == ()
            (claimed,) = claim(harness, 10, OCR)
            assert claimed.document.id == id_
            harness.ack(claimed, kind, **fields)

        claim_again(OutcomeKind.RELEASED)
        claim_again(OutcomeKind.FAILED, error="no", retry_in=seconds(1))
        harness.advance(2)
        claim_again(OutcomeKind.FAILED, error="no")
        harness.store.retry([id_], ANNA)
        harness.store.expedite(id_, ANNA)
        claim_again(OutcomeKind.RELEASED)
        harness.store.expedite(id_, ANNA, undo=True)
        claim_again(OutcomeKind.DONE, result="1")

    @guarantee("S72")
    def test_queue_is_made_by_its_first_document_and_stays(self, harness: StoreHarness) -> None:
        assert harness.queue.queues() == (QueueStatus("default", QueueSettings(), False, 0, 0),)
        id_ = harness.submit_one("acme", queue=OCR)
        harness.submit("acme", 2, queue=EXPORT)
        claim(harness, 1, EXPORT)
        assert [status[0::3] for status in harness.queue.queues()] == [("default", 0), (OCR, 1), (EXPORT, 1)]
        assert [status.running for status in harness.queue.queues()] == [0, 0, 1]
        harness.store.cancel([id_], ANNA)
        assert [status.name for status in harness.queue.queues()] == ["default", OCR, EXPORT]

    @guarantee("S72")
    def test_settings_of_a_queue(self, harness: StoreHarness) -> None:
        settings = harness.queue.change_queue(OCR, ANNA, description="reads pages", weight=3)
        assert settings == QueueSettings("reads pages", 3)
        assert harness.queue.change_queue(OCR, ANNA, weight=0.5) == QueueSettings("reads pages", 0.5)
        settings = harness.queue.change_queue(OCR, ANNA, cap=20, rate=RateLimit(100, seconds(60)), manual=True)
        assert settings == QueueSettings("reads pages", 0.5, 20, RateLimit(100, seconds(60)), manual=True)
        assert harness.queue.queues()[1].settings == settings
        settings = harness.queue.change_queue(OCR, ANNA, cap=None, rate=None, manual=False)
        assert settings == QueueSettings("reads pages", 0.5)
        event = harness.store.events(0, limit=10)[-1]
        assert (event.kind, event.operator, event.detail) == (
            EventKind.QUEUE_CHANGED, ANNA, {"queue": OCR, "cap": None, "rate": None, "manual": False},
        )  # fmt: skip
        for changes in ({"weight": 0}, {"description": ""}, {"colour": "blue"}):
            with pytest.raises(InvalidInputError):
                harness.queue.change_queue(OCR, ANNA, **changes)
        with pytest.raises(InvalidInputError, match="a queue's name has"):
            harness.queue.change_queue("not this", ANNA, weight=1)
        with pytest.raises(InvalidInputError, match="a queue's name has"):
            NewDocument("x", queue="a/b")

    @guarantee("S6")
    def test_refused_submit_makes_no_queue(self, harness: StoreHarness) -> None:
        harness.submit("acme", key="k")
        with pytest.raises(KeyConflictError):
            harness.submit("acme", key="k", queue=OCR)
        assert [status.name for status in harness.queue.queues()] == ["default"]

    @guarantee("S6", "S72")
    def test_one_queue_too_many_is_refused_and_changes_nothing(self, harness: StoreHarness) -> None:
        for number in range(MAX_QUEUES - 1):
            harness.submit("acme", queue=f"queue-{number}")
        before = harness.store.customer("acme"), harness.queue.queues()
        documents = [NewDocument("x", queue=queue) for queue in ("queue-1", "one-more")]
        with pytest.raises(InvalidInputError, match=f"at most {MAX_QUEUES} queues"):
            harness.queue.submit("acme", documents)
        with pytest.raises(InvalidInputError, match=f"at most {MAX_QUEUES} queues"):
            harness.queue.change_queue("one-more", ANNA, weight=2)
        assert (harness.store.customer("acme"), harness.queue.queues()) == before

    @guarantee("S23", "S24")
    def test_lists_show_and_filter_queues(self, harness: StoreHarness) -> None:
        for n, queue in enumerate((OCR, "default", EXPORT, OCR)):
            harness.submit("acme", name=str(n), queue=queue)
        harness.submit("beta", name="other", queue=OCR)

        def names(**where: str) -> list[str]:
            page = harness.store.documents(DocumentFilter(**where), limit=10, sort=DocumentSort.OLDEST)  # type: ignore[arg-type]
            return [document.spec.name for document in page.items]

        assert names(queue=OCR) == ["0", "3", "other"]
        assert names(queue=OCR, customer="acme") == ["0", "3"]
        assert names(customer="acme") == ["0", "1", "2", "3"]
        assert names(queue="unknown") == []
        assert harness.store.counts(DocumentFilter(queue=OCR)).states == {DocumentState.WAITING: 3}
        assert [(lane.queue, lane.waiting) for lane in harness.store.customer("acme").lanes] == [
            ("default", 1), (OCR, 1), (OCR, 1), (EXPORT, 1),
        ]  # fmt: skip

    @guarantee("S18", "S30", "S73")
    def test_purge_and_recount_know_queues(self, harness: StoreHarness) -> None:
        for queue in ("default", OCR):
            harness.submit("acme", 3, queue=queue, group="team")
            harness.submit("beta", 1, queue=queue)
        claim(harness, 2, OCR)
        assert harness.store.recount(repair=True) == ()
        assert harness.store.purge("acme", ANNA).documents == 6
        assert harness.store.recount(repair=False) == ()
        assert {claimed.document.customer for claimed in claim(harness, 9, OCR, "default")} <= {"beta"}

    @guarantee("S29")
    def test_backup_keeps_queues(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
        harness.set_policy(BY_COST)
        harness.queue.change_queue(OCR, ANNA, weight=2.0)
        for customer in ("acme", "beta"):
            harness.submit(customer, 3, queue=OCR)
            harness.submit(customer, 3)
        claim(harness, 3, OCR, "default")
        harness.store.pause(ANNA, queue="default")
        harness.store.backup(tmp_path / "backup")
        restored = StoreHarness(open_backup(tmp_path / "backup", harness.clock), harness.clock)
        assert restored.queue.queues() == harness.queue.queues()
        assert claimed_ids(restored, 9, OCR, "default") == claimed_ids(harness, 9, OCR, "default")
        assert restored.store.scheduler_snapshot(OCR) == harness.store.scheduler_snapshot(OCR)
        restored.store.close()


def claim(harness: StoreHarness, limit: int, *queues: str) -> tuple[Claim, ...]:
    """Claim documents of these queues, by default of `default`."""
    return harness.queue.claim("worker", limit, queues=queues or ("default",))


def claimed_ids(harness: StoreHarness, limit: int, *queues: str) -> list[str]:
    """Claim documents of these queues; return their ids."""
    return [claimed.document.id for claimed in claim(harness, limit, *queues)]

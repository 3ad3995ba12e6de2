"""Parts: documents that are split, and go on when all of their parts have ended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.clock import Clock
from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from inturn.model import Claim, DocumentState, NewDocument, ResultFile
from inturn.policy import Policy
from inturn.store import Store
from inturn.store_types import AckStatus, DocumentFilter, EventKind, PartResult, StepResult
from inturn.testing.contract.harness import ANNA, UNKNOWN_ID, StoreHarness, guarantee
from inturn.testing.contract.queues import claim, claimed_ids
from inturn.testing.contract.steps import claim_one
from inturn.values import seconds

SPLIT, PAGE, MERGE = "split", "page", "merge"
FILE = ResultFile("page.txt", "blobs/page", 3, "ab" * 32)


def pages(n: int, **fields: object) -> list[NewDocument]:
    """Return parts that are pages."""
    return [NewDocument(f"page {number}", queue=PAGE, **fields) for number in range(1, n + 1)]  # type: ignore[arg-type]


def split(harness: StoreHarness, n: int = 3, customer: str = "acme", **fields: object) -> tuple[str, Claim]:
    """Submit a document and split it into parts; return its id, and the claim that ended."""
    id_ = harness.submit_one(customer, queue=SPLIT)
    claimed = claim_one(harness, SPLIT)
    assert claimed.document.id == id_
    outcome = harness.queue.split(claimed, pages(n, **fields), MERGE, {"pages": n})
    assert harness.queue.ack([outcome]) == (AckStatus.RECORDED,)
    return id_, claimed


class TestParts:
    """Test outcomes that split a document, and `parts`."""

    @guarantee("S75")
    def test_parts_are_documents_of_the_same_customer_and_level(self, harness: StoreHarness) -> None:
        harness.submit("acme", 7)
        id_, _ = split(harness)
        document = harness.document(id_)
        assert (document.state, document.queue, document.step) == (DocumentState.SPLIT, MERGE, 1)
        assert (document.worker, document.lease_until, document.attempt) == (None, None, 0)
        parts = claim(harness, 9, PAGE)
        assert [(part.document.parent, part.document.part) for part in parts] == [(id_, 1), (id_, 2), (id_, 3)]
        assert {(part.document.customer, part.document.level, part.document.count) for part in parts} == {
            ("acme", document.level, document.count)
        }
        assert harness.store.customer("acme").count == document.count
        assert harness.store.results(id_) == (StepResult(0, SPLIT, '{"pages": 3}'),)

    @guarantee("S76")
    def test_document_goes_on_when_all_parts_have_ended(self, harness: StoreHarness) -> None:
        id_, _ = split(harness)
        first, second, third = claim(harness, 3, PAGE)
        harness.queue.finish(first, "one")
        harness.queue.fail(second, "torn", final=True)
        assert claimed_ids(harness, 9, MERGE) == []
        harness.advance(5)
        harness.queue.finish(third, "three")
        merged = claim_one(harness, MERGE)
        assert (merged.document.id, merged.document.step, merged.document.attempt) == (id_, 1, 1)
        assert merged.document.ready_at == harness.clock.now()
        assert harness.store.parts(id_, limit=9) == (
            PartResult(first.document.id, 1, "page 1", DocumentState.DONE, '"one"', None),
            PartResult(second.document.id, 2, "page 2", DocumentState.FAILED, None, "torn"),
            PartResult(third.document.id, 3, "page 3", DocumentState.DONE, '"three"', None),
        )
        harness.queue.finish(merged, "all")
        assert harness.store.result(id_) == '"all"'
        assert harness.store.recount(repair=False) == ()

    @guarantee("S76")
    def test_sweep_moves_it_on_too(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        harness.queue.finish(claim_one(harness, PAGE))
        harness.store.sweep()
        assert harness.state(id_) is DocumentState.WAITING
        assert harness.store.events(0, limit=99)[-1].kind is EventKind.PARTS_ENDED
        assert claimed_ids(harness, 2, MERGE) == [id_]

    @guarantee("S30", "S76")
    def test_recount_forgets_no_end_of_a_part(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        harness.queue.finish(claim_one(harness, PAGE))
        assert harness.store.recount(repair=True) == ()
        harness.set_policy(Policy())
        assert claimed_ids(harness, 2, MERGE) == [id_]

    @guarantee("S76")
    def test_every_end_of_a_part_counts(self, harness: StoreHarness) -> None:
        """Done, failed, out of attempts, cancelled and expired parts have ended."""
        late = harness.clock.now() + seconds(100)
        id_, _ = split(harness, 5, start_by=late, max_attempts=1)
        done, failed, cancelled, _ = claim(harness, 4, PAGE)
        harness.queue.finish(done)
        harness.queue.fail(failed, "torn")
        harness.queue.cancel(cancelled.document.id, ANNA)
        harness.advance(61)
        harness.store.sweep()
        assert harness.state(id_) is DocumentState.SPLIT
        harness.advance(40)
        assert claimed_ids(harness, 2, MERGE) == [id_]
        states = [part.state for part in harness.store.parts(id_, limit=9)]
        assert states == ["done", "failed", "cancelled", "failed", "expired"]

    @guarantee("S76", "S79")
    def test_document_goes_on_when_its_last_part_is_cancelled(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        harness.queue.finish(claim_one(harness, PAGE))
        assert claimed_ids(harness, 9, MERGE) == []
        waits = harness.store.documents(DocumentFilter(parent=id_), limit=1).items[0]
        harness.queue.cancel(waits.id, ANNA)
        assert claimed_ids(harness, 9, MERGE) == [id_]

    @guarantee("S76")
    def test_parts_pass_through_steps_of_their_own(self, harness: StoreHarness) -> None:
        id_ = harness.submit_one("acme", queue=SPLIT)
        parts = [NewDocument("page", steps=[PAGE, "language"])]
        harness.queue.ack([harness.queue.split(claim_one(harness, SPLIT), parts, MERGE)])
        harness.queue.finish(claim_one(harness, PAGE), "text")
        assert claimed_ids(harness, 9, MERGE) == []
        harness.queue.finish(claim_one(harness, "language"), "en")
        assert claimed_ids(harness, 9, MERGE) == [id_]
        assert harness.store.parts(id_, limit=1)[0].result == '"en"'

    @guarantee("S75")
    def test_part_may_be_split_again(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        part = claim_one(harness, PAGE)
        harness.queue.ack([harness.queue.split(part, [NewDocument("line", queue="line")], "lines")])
        assert claimed_ids(harness, 9, MERGE) == []
        harness.queue.finish(claim_one(harness, "line"))
        harness.queue.finish(claim_one(harness, "lines"))
        assert claimed_ids(harness, 9, MERGE) == [id_]

    @guarantee("S75", "S77")
    def test_document_may_be_split_twice(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        for part in claim(harness, 2, PAGE):
            harness.queue.finish(part, "first")
        outcome = harness.queue.split(claim_one(harness, MERGE), pages(1), MERGE)
        harness.queue.ack([outcome])
        harness.queue.finish(claim_one(harness, PAGE), "second")
        merged = claim_one(harness, MERGE)
        assert merged.document.step == 2
        assert [part.result for part in harness.store.parts(id_, limit=9)] == ['"second"']

    @guarantee("S75")
    def test_parts_have_the_group_of_their_document(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", queue=SPLIT, group="a")
        outcome = harness.queue.split(claim_one(harness, SPLIT), pages(2), MERGE)
        harness.queue.ack([outcome])
        assert [part.document.spec.group for part in claim(harness, 2, PAGE)] == ["a", "a"]

    @guarantee("S12", "S75")
    def test_parts_count_for_the_limits_of_their_customer(self, harness: StoreHarness) -> None:
        harness.queue.change_customer("acme", ANNA, cap=2)
        split(harness, 5)
        assert len(claimed_ids(harness, 9, PAGE)) == 2

    @guarantee("S10", "S75")
    def test_parts_take_turns_with_other_customers(self, harness: StoreHarness) -> None:
        split(harness, 50)
        harness.submit("beta", 5, queue=PAGE)
        customers = [claimed.document.customer for claimed in claim(harness, 6, PAGE)]
        assert customers.count("beta") == 3

    @guarantee("S75")
    def test_check_of_each_step_checks_parts(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(check_each_step=True))
        split(harness, 5)
        assert [part.document.count for part in claim(harness, 9, PAGE)] == [-1, -2, -3, -4, -5]
        assert harness.store.customer("acme").count == -5

    @guarantee("S7", "S75")
    def test_split_is_recorded_once(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", queue=SPLIT)
        claimed = claim_one(harness, SPLIT)
        outcome = harness.queue.split(claimed, pages(2), MERGE)
        assert harness.queue.ack([outcome, outcome]) == (AckStatus.RECORDED, AckStatus.REPEATED)
        again = harness.queue.split(claimed, pages(2), MERGE)
        assert harness.queue.ack([again, harness.queue.done(claimed)]) == (AckStatus.REPEATED, AckStatus.STALE)
        assert len(claimed_ids(harness, 9, PAGE)) == 2

    @guarantee("S75")
    def test_delayed_parts_wait(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2, delay=seconds(30))
        assert claimed_ids(harness, 9, PAGE) == []
        harness.advance(30)
        for part in claim(harness, 2, PAGE):
            harness.queue.finish(part)
        assert claimed_ids(harness, 9, MERGE) == [id_]

    @guarantee("S75")
    def test_number_of_parts_has_bounds(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", queue=SPLIT)
        claimed = claim_one(harness, SPLIT)
        for n in (0, 10_001):
            with pytest.raises(InvalidInputError, match="number of parts"):
                harness.queue.split(claimed, pages(1) * n, MERGE)

    @guarantee("S75", "S76")
    def test_many_parts(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1_000)
        for _ in range(10):
            claims = claim(harness, 100, PAGE)
            harness.queue.ack([harness.queue.done(part) for part in claims])
        assert claimed_ids(harness, 9, MERGE) == [id_]
        assert len(harness.store.parts(id_, limit=400, after=700)) == 300

    @guarantee("S77")
    def test_parts_of_unknown_and_unsplit_documents(self, harness: StoreHarness) -> None:
        assert harness.store.parts(harness.submit_one("acme"), limit=9) == ()
        with pytest.raises(NotFoundError):
            harness.store.parts(UNKNOWN_ID, limit=9)
        with pytest.raises(NotFoundError):
            harness.store.results(UNKNOWN_ID)

    @guarantee("S77")
    def test_parts_have_files(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        harness.queue.ack([harness.queue.done(claim_one(harness, PAGE))._replace(files=(FILE,))])
        assert harness.store.parts(id_, limit=9)[0].files == (FILE,)

    @guarantee("S23", "S75")
    def test_lists_filter_by_parts(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)

        def listed(**where: object) -> int:
            return len(harness.store.documents(DocumentFilter(**where), limit=9).items)  # type: ignore[arg-type]

        assert (listed(), listed(parts=False), listed(parts=True), listed(parent=id_)) == (3, 1, 2, 2)
        assert listed(parent=UNKNOWN_ID) == 0
        assert harness.store.counts(DocumentFilter(parent=id_)).states == {DocumentState.WAITING: 2}
        split_documents = DocumentFilter(states=frozenset({DocumentState.SPLIT}))
        assert [row.id for row in harness.store.documents(split_documents, limit=9).items] == [id_]

    @guarantee("A3", "S75", "S76")
    def test_events(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        part = claim_one(harness, PAGE)
        harness.queue.finish(part)
        claim_one(harness, MERGE)
        kinds = [(event.kind, event.documents) for event in harness.store.events(0, limit=99)][2:]
        assert kinds == [
            (EventKind.SPLIT, (id_,)),
            (EventKind.PART_ADDED, (part.document.id,)),
            (EventKind.STARTED, (part.document.id,)),
            (EventKind.FINISHED, (part.document.id,)),
            (EventKind.PARTS_ENDED, (id_,)),
            (EventKind.STARTED, (id_,)),
        ]

    @guarantee("S79")
    def test_cancel_cancels_the_parts(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 3)
        done, running = claim(harness, 2, PAGE)
        harness.queue.finish(done)
        nested = harness.queue.split(claim_one(harness, PAGE), [NewDocument("line", queue="line")], "lines")
        harness.queue.ack([nested])
        assert harness.store.cancel([id_, running.document.id], ANNA) == (id_, running.document.id)
        assert harness.state(id_) is DocumentState.CANCELLED
        states = [part.state for part in harness.store.parts(id_, limit=9)]
        assert states == ["done", "cancelled", "cancelled"]
        assert claimed_ids(harness, 9, PAGE, MERGE, "line", "lines") == []
        assert harness.queue.ack([harness.queue.done(running)]) == (AckStatus.STALE,)
        assert harness.store.recount(repair=False) == ()

    @guarantee("S16", "S78")
    def test_failed_part_may_be_retried_while_its_document_waits_for_it(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        first, second = claim(harness, 2, PAGE)
        harness.queue.fail(first, "torn", final=True)
        harness.queue.retry(first.document.id, ANNA)
        harness.queue.finish(second)
        assert claimed_ids(harness, 9, MERGE) == []
        harness.queue.finish(claim_one(harness, PAGE))
        assert claimed_ids(harness, 9, MERGE) == [id_]
        assert [part.state for part in harness.store.parts(id_, limit=9)] == ["done", "done"]

    @guarantee("S78")
    def test_part_of_a_done_document_is_not_retried(self, harness: StoreHarness) -> None:
        split(harness, 1)
        part = claim_one(harness, PAGE)
        harness.queue.fail(part, "torn", final=True)
        harness.queue.finish(claim_one(harness, MERGE))
        with pytest.raises(IllegalTransitionError):
            harness.queue.retry(part.document.id, ANNA)

    @guarantee("S78")
    def test_document_with_retried_parts_waits_for_them_again(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        first, second = claim(harness, 2, PAGE)
        harness.queue.fail(first, "torn", final=True)
        harness.queue.finish(second)
        harness.queue.fail(claim_one(harness, MERGE), "a page is missing", final=True)
        harness.queue.retry(first.document.id, ANNA)
        harness.queue.retry(id_, ANNA)
        assert harness.state(id_) is DocumentState.SPLIT
        assert claimed_ids(harness, 9, MERGE) == []
        harness.queue.finish(claim_one(harness, PAGE))
        assert claim_one(harness, MERGE).document.id == id_
        assert [part.state for part in harness.store.parts(id_, limit=9)] == ["done", "done"]
        assert harness.store.recount(repair=False) == ()

    @guarantee("S78")
    def test_retry_of_the_merge_alone_leaves_the_parts(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        harness.queue.finish(claim_one(harness, PAGE))
        harness.queue.fail(claim_one(harness, MERGE), "no disk", final=True)
        harness.queue.retry(id_, ANNA)
        assert claimed_ids(harness, 9, PAGE, MERGE) == [id_]

    @guarantee("S78")
    def test_retry_from_the_start_deletes_the_parts(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        first, second = claim(harness, 2, PAGE)
        harness.queue.fail(first, "torn", final=True)
        nested = harness.queue.split(second, [NewDocument("line", queue="line")], "lines")
        harness.queue.ack([nested])
        harness.queue.finish(claim_one(harness, "line"))
        harness.queue.finish(claim_one(harness, "lines"))
        harness.queue.fail(claim_one(harness, MERGE), "a page is missing", final=True)
        harness.queue.retry(first.document.id, ANNA)
        assert claimed_ids(harness, 1, PAGE) == [first.document.id]
        harness.queue.retry(id_, ANNA, from_start=True)
        assert [row.id for row in harness.all_documents()] == [id_]
        assert harness.store.parts(id_, limit=9) == ()
        assert harness.state(id_) is DocumentState.WAITING
        assert harness.store.recount(repair=False) == ()
        harness.queue.ack([harness.queue.split(claim_one(harness, SPLIT), pages(1), MERGE)])
        assert len(harness.store.parts(id_, limit=9)) == 1

    @guarantee("S78")
    def test_parts_of_parts_are_retried_together(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 1)
        part = claim_one(harness, PAGE)
        harness.queue.ack([harness.queue.split(part, [NewDocument("line", queue="line")], "lines")])
        line = claim_one(harness, "line").document.id
        harness.queue.cancel(id_, ANNA)
        assert harness.queue.retry_in_chunks([id_, part.document.id, line], ANNA) == 3
        states = [harness.state(retried) for retried in (id_, part.document.id, line)]
        assert states == [DocumentState.SPLIT, DocumentState.SPLIT, DocumentState.WAITING]

    @guarantee("S80")
    def test_parts_are_not_pruned_before_their_document(self, harness: StoreHarness) -> None:
        """A merge that fails late may be retried, with its parts."""
        id_, _ = split(harness, 1)
        harness.queue.finish(claim_one(harness, PAGE), "text")
        before = harness.advance(1_000)
        harness.queue.fail(claim_one(harness, MERGE), "no disk", final=True)
        assert harness.store.prune(before, limit=9).documents == 0
        harness.queue.retry(id_, ANNA)
        claim_one(harness, MERGE)
        assert [part.result for part in harness.store.parts(id_, limit=9)] == ['"text"']

    @guarantee("S80")
    def test_parts_stay_until_their_document_has_ended(self, harness: StoreHarness) -> None:
        id_, _ = split(harness, 2)
        first, second = claim(harness, 2, PAGE)
        harness.queue.finish(first)
        before = harness.advance(100)
        assert harness.store.prunable(before) == 0
        assert harness.store.prune(before, limit=10).documents == 0
        harness.queue.finish(second)
        merged = claim_one(harness, MERGE)
        assert harness.store.prune(harness.advance(10), limit=10).documents == 0
        harness.queue.finish(merged)
        before = harness.advance(10)
        assert harness.store.prunable(before) == 3
        assert harness.store.prune(before, limit=10).documents == 3
        with pytest.raises(NotFoundError):
            harness.store.document(id_)

    @guarantee("S18")
    def test_purge_deletes_documents_that_are_split(self, harness: StoreHarness) -> None:
        split(harness, 3)
        claimed_ids(harness, 1, PAGE)
        assert harness.store.purge("acme", ANNA).documents == 4
        assert claimed_ids(harness, 9, PAGE, MERGE) == []
        assert harness.store.recount(repair=False) == ()

    @guarantee("S28", "S75")
    def test_blob_that_parts_share_is_deleted_with_the_last_of_them(self, harness: StoreHarness) -> None:
        harness.submit_one("acme", queue=SPLIT, blob="blobs/whole")
        outcome = harness.queue.split(claim_one(harness, SPLIT), pages(2, blob="blobs/whole"), MERGE)
        harness.queue.ack([outcome])
        for part in claim(harness, 2, PAGE):
            harness.queue.finish(part)
        harness.queue.finish(claim_one(harness, MERGE))
        before = harness.advance(10)
        assert harness.queue.prune(before, limit=2).blobs == ()
        assert harness.queue.prune(before, limit=2).blobs == ("blobs/whole",)

    @guarantee("S29", "S75", "S76")
    def test_backup_has_parts(
        self, harness: StoreHarness, tmp_path: Path, open_backup: Callable[[Path, Clock], Store]
    ) -> None:
        id_, _ = split(harness, 2)
        ended, waits = split(harness, 1, customer="beta")[0], split(harness, 1, customer="gamma")[0]
        parts = {part.document.customer: part for part in claim(harness, 3, PAGE)}
        harness.queue.finish(parts["beta"])
        harness.store.backup(tmp_path / "copy")
        copy = open_backup(tmp_path / "copy", harness.clock)
        try:
            other = StoreHarness(copy, harness.clock)
            assert [copy.document(id_) for id_ in (id_, waits)] == [harness.document(id_) for id_ in (id_, waits)]
            assert copy.parts(id_, limit=9) == harness.store.parts(id_, limit=9)
            assert claimed_ids(other, 9, MERGE) == [ended]
            assert copy.recount(repair=False) == ()
        finally:
            copy.close()

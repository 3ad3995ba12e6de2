"""The history: events folded into minutes and hours."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from inturn.model import NewDocument
from inturn.policy.history import MAX_NAMED_CUSTOMERS, MAX_OPEN_CUSTOMERS, Figures, HistorySpan, sum_figures
from inturn.store_history import HISTORY_INTERVAL, FoldResult, HistoryRow, HistoryScope
from inturn.store_types import EventKind, Operator, Work
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, START, StoreHarness, guarantee
from inturn.testing.contract.queues import claim
from inturn.values import seconds

MINUTE, HOUR = HistorySpan.MINUTE, HistorySpan.HOUR
QUEUE, NAMED_QUEUE, LEVEL, CUSTOMER = HistoryScope
STEPS = ("ocr", "export")
DAY = seconds(86_400)
BEN = Operator("ben", "seen, the supplier knows")
FIRST_MINUTE = MINUTE.begin(START)


def fold(harness: StoreHarness) -> None:
    """Fold everything."""
    while not harness.store.history.fold(limit=1_000).is_complete:
        pass


def rows(
    harness: StoreHarness, span: HistorySpan, scope: HistoryScope, key: str | None = None
) -> tuple[HistoryRow, ...]:
    """Return all rows of a scope."""
    return harness.store.history.rows(span, scope, 0, START + 1_000 * DAY, key=key)


def total(harness: StoreHarness, span: HistorySpan = MINUTE, scope: HistoryScope = QUEUE) -> Figures:
    """Sum all rows of a scope."""
    return sum_figures(row.figures for row in rows(harness, span, scope))


def process(harness: StoreHarness, wait: float, worked: float, **outcome: object) -> None:
    """Let the next document wait, and process it."""
    harness.advance(wait)
    claimed = harness.claim_one()
    harness.advance(worked)
    if outcome:
        harness.queue.fail(claimed, "no", retry_in=None, final=True)
    else:
        harness.queue.finish(claimed)


class TestHistory:
    """Test `Store.history`."""

    @guarantee("S58")
    @pytest.mark.parametrize("span", HistorySpan)
    def test_counts_documents_waits_and_processing_times(self, harness: StoreHarness, span: HistorySpan) -> None:
        harness.submit("acme", 2)
        harness.submit("beta")
        process(harness, 4, 3)
        process(harness, 1, 2, final=True)
        harness.store.cancel([document.id for document in harness.all_documents()], ANNA)
        harness.submit("acme", start_by=harness.clock.now() + seconds(1))
        harness.advance(2)
        harness.store.sweep()
        fold(harness)
        figures = total(harness, span)
        assert (figures.submitted, figures.started, figures.done, figures.failed) == (4, 2, 1, 1)
        assert (figures.cancelled, figures.expired) == (1, 1)
        assert (figures.waits, figures.waited, figures.worked) == (2, seconds(4 + 8), seconds(5))
        assert sum(figures.buckets.values()) == 2
        acme = sum_figures(row.figures for row in rows(harness, span, CUSTOMER, "acme"))
        beta = sum_figures(row.figures for row in rows(harness, span, CUSTOMER, "beta"))
        assert (acme.submitted, beta.submitted, acme.worked + beta.worked) == (3, 1, seconds(5))

    @guarantee("S58")
    def test_each_event_counts_in_its_minute_and_its_hour(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.advance(60)
        harness.submit("acme", 2)
        harness.advance(3_600)
        harness.submit("acme", 3)
        fold(harness)
        assert [(row.at - FIRST_MINUTE, row.figures.submitted) for row in rows(harness, MINUTE, QUEUE)] == [
            (0, 1),
            (seconds(60), 2),
            (seconds(3_660), 3),
        ]
        assert [row.figures.submitted for row in rows(harness, HOUR, QUEUE)] == [3, 3]

    @guarantee("S58")
    def test_levels_and_customers_add_up_to_the_queue(self, harness: StoreHarness) -> None:
        harness.submit("acme", 5)
        harness.submit("beta", 3)
        for _ in range(4):
            process(harness, 1, 1)
        harness.claim_one()
        fold(harness)
        assert total(harness, scope=CUSTOMER) == total(harness, scope=LEVEL) == total(harness)
        levels = {row.key: row.figures.submitted for row in rows(harness, MINUTE, LEVEL)}
        assert levels == {"1": 6, "2": 2}

    @guarantee("S58")
    def test_attempts_that_are_retried_count_their_times_once(self, harness: StoreHarness) -> None:
        harness.submit("acme", max_attempts=3)
        claimed = harness.claim_one()
        harness.advance(5)
        harness.queue.fail(claimed, "no", retry_in=seconds(30))
        fold(harness)
        harness.advance(30)
        claimed = harness.claim_one()
        harness.advance(2)
        harness.ack(claimed, result="1", work=Work(0, seconds(1)))
        fold(harness)
        figures = total(harness)
        assert (figures.started, figures.done, figures.failed, figures.worked) == (2, 1, 0, seconds(6))
        assert (figures.waits, figures.waited) == (2, 0)

    @guarantee("S58")
    def test_wait_is_that_of_its_attempt_although_the_document_waits_again(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.advance(3)
        harness.queue.fail(harness.claim_one(), "no", retry_in=0)
        harness.advance(5)
        harness.claim_one()
        fold(harness)
        assert (total(harness).started, total(harness).waits, total(harness).waited) == (2, 2, seconds(3))

    @guarantee("S58")
    def test_wait_before_a_lost_lease_is_known(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.advance(3)
        harness.claim_one()
        harness.advance(60)
        harness.store.sweep()
        harness.advance(5)
        harness.claim_one()
        fold(harness)
        assert (total(harness).started, total(harness).waits, total(harness).waited) == (2, 2, seconds(8))

    @guarantee("S58")
    @pytest.mark.parametrize("is_folded_late", [False, True])
    def test_each_queue_has_the_waits_and_the_work_of_its_steps(
        self, harness: StoreHarness, *, is_folded_late: bool
    ) -> None:
        harness.submit("acme", queue="ocr", steps=["ocr", "export"])
        for queue, wait, worked in (("ocr", 4, 3), ("export", 7, 2)):
            harness.advance(wait)
            (claimed,) = claim(harness, 1, queue)
            harness.advance(worked)
            harness.queue.finish(claimed)
            if not is_folded_late:
                fold(harness)
        fold(harness)
        ocr, export = (sum_figures(row.figures for row in rows(harness, HOUR, NAMED_QUEUE, name)) for name in STEPS)
        assert (ocr.submitted, ocr.started, ocr.steps, ocr.done) == (1, 1, 1, 0)
        assert (export.submitted, export.started, export.steps, export.done) == (0, 1, 0, 1)
        assert (ocr.waited, ocr.worked, export.waited, export.worked) == tuple(map(seconds, (4, 3, 7, 2)))
        assert (ocr.waits, export.waits) == (1, 1)
        assert total(harness, scope=NAMED_QUEUE) == total(harness, scope=CUSTOMER) == total(harness)

    @guarantee("S58", "S59")
    def test_parts_are_no_documents_submitted_and_a_split_one_does_not_wait(self, harness: StoreHarness) -> None:
        harness.submit("acme", queue="split")
        parts = [NewDocument(f"page {n}", queue="page") for n in range(3)]
        harness.queue.ack([harness.queue.split(claim(harness, 1, "split")[0], parts, "merge")])
        harness.queue.finish(claim(harness, 1, "page")[0])
        fold(harness)
        figures = total(harness)
        assert (figures.submitted, figures.parts, figures.started, figures.steps, figures.done) == (1, 3, 2, 1, 1)
        assert (figures.waiting, figures.running) == (2, 0)
        by_queue = {row.key: row.figures for row in rows(harness, MINUTE, NAMED_QUEUE)}
        assert {name: (row.parts, row.waiting, row.done) for name, row in by_queue.items()} == {
            "split": (0, 0, 0), "page": (3, 2, 1),
        }  # fmt: skip
        assert by_queue["split"].steps == 1

    @guarantee("S58")
    def test_no_event_is_added_twice(self, harness: StoreHarness) -> None:
        harness.submit("acme", 5)
        harness.submit("beta", 5)
        harness.finish_all()
        with ThreadPoolExecutor(4) as pool:
            folds = [pool.submit(harness.store.history.fold, limit=3) for _ in range(20)]
        added = sum(done.result().events for done in folds)
        assert added == harness.store.history.cursor().event
        fold(harness)
        assert (total(harness).submitted, total(harness).done) == (10, 10)
        assert harness.store.history.cursor().event == harness.store.last_event()

    @guarantee("S58")
    def test_purged_documents_count_for_the_queue_and_their_customer(self, harness: StoreHarness) -> None:
        harness.submit("acme", 2)
        harness.store.purge("acme", ANNA)
        fold(harness)
        assert total(harness).submitted == total(harness, scope=CUSTOMER).submitted == 2

    @guarantee("S59")
    def test_records_what_waits_and_runs(self, harness: StoreHarness) -> None:
        harness.submit("acme", 3)
        harness.submit("beta")
        harness.claim(2)
        fold(harness)
        for scope in HistoryScope:
            assert (total(harness, scope=scope).waiting, total(harness, scope=scope).running) == (2, 2)
        harness.finish_all()
        fold(harness)
        assert (total(harness).waiting, total(harness).running) == (0, 2)
        assert {row.figures.waiting for row in rows(harness, MINUTE, CUSTOMER)} == {0}

    @guarantee("S59")
    def test_a_minute_that_nobody_looked_at_has_no_sample(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        harness.advance(120)
        fold(harness)
        assert [row.figures.waiting for row in rows(harness, MINUTE, QUEUE)] == [None, 1]

    @guarantee("S59")
    def test_cursor_says_how_far_it_reaches_and_when_the_next_fold_is_due(self, harness: StoreHarness) -> None:
        history = harness.store.history
        assert history.cursor()[:2] == (0, None)
        for n in range(3):
            harness.submit("acme")
            harness.advance(n + 1)
        assert history.fold(limit=2, pause=7) == FoldResult(2, is_complete=False)
        assert history.cursor() == (2, START + seconds(1), START + seconds(1), START + seconds(6) + 7)
        assert history.fold(limit=2, pause=7) == FoldResult(1, is_complete=True)
        now = harness.clock.now()
        assert history.cursor() == (3, START + seconds(1), now, now + HISTORY_INTERVAL)

    @guarantee("S59")
    def test_a_clock_that_was_ahead_does_not_say_that_the_future_is_known(self, harness: StoreHarness) -> None:
        history = harness.store.history
        history.fold(limit=9, now=START + DAY)
        harness.submit("acme")
        assert history.fold(limit=9, now=START + 5) == FoldResult(1, is_complete=True)
        assert history.cursor().until == START + 5

    @guarantee("S58")
    def test_a_fold_reads_no_more_documents_than_it_may(self, harness: StoreHarness) -> None:
        history = harness.store.history
        for _ in range(3):
            harness.submit("acme", 400)
        assert [history.fold(limit=50) for _ in range(3)] == [
            FoldResult(1, is_complete=False),
            FoldResult(1, is_complete=False),
            FoldResult(1, is_complete=True),
        ]
        harness.submit("acme", 700)
        assert history.fold(limit=50) == FoldResult(1, is_complete=True)
        assert total(harness).submitted == 1_900

    @guarantee("S58")
    def test_a_fold_changes_a_bounded_number_of_minutes(self, harness: StoreHarness) -> None:
        for _ in range(35):
            harness.submit("acme")
            harness.advance(60)
        assert harness.store.history.fold(limit=1_000) == FoldResult(30, is_complete=False)
        assert harness.store.history.fold(limit=1_000) == FoldResult(5, is_complete=True)
        assert len(rows(harness, MINUTE, QUEUE)) == 36

    @guarantee("S60")
    def test_customers_beyond_the_busiest_are_summed(self, harness: StoreHarness) -> None:
        harness.set_policy(SINGLE_LEVEL_POLICY)
        harness.submit("busy", 3)
        for n in range(MAX_OPEN_CUSTOMERS + 5):
            harness.submit(f"c{n:04}")
        fold(harness)
        named = {row.key: row.figures.submitted for row in rows(harness, MINUTE, CUSTOMER)}
        assert len(named) == MAX_OPEN_CUSTOMERS + 1
        assert (named["busy"], named[""]) == (3, 6)
        harness.advance(60)
        fold(harness)
        over = [row for row in rows(harness, MINUTE, CUSTOMER) if row.at == FIRST_MINUTE]
        assert len(over) == MAX_NAMED_CUSTOMERS + 1
        assert sum(row.figures.submitted for row in over) == MAX_OPEN_CUSTOMERS + 8
        assert next(row.figures.submitted for row in over if row.key == "busy") == 3

    @guarantee("S66")
    def test_failures_are_acknowledged_with_who_and_when(self, harness: StoreHarness) -> None:
        history = harness.store.history
        assert history.acknowledged() is None
        harness.submit("acme", 3)
        process(harness, 0, 0, final=True)
        history.acknowledge_failures(ANNA)
        process(harness, 0, 0, final=True)
        fold(harness)
        history.acknowledge_failures(BEN)
        event = history.acknowledged()
        assert event is not None
        assert (event.kind, event.at, event.operator) == (EventKind.FAILURES_ACKNOWLEDGED, harness.clock.now(), BEN)
        assert event.detail == {"counted": 2}
        assert [seen.operator for seen in harness.store.audit(limit=9)] == [BEN, ANNA]

    @guarantee("S61")
    def test_old_rows_are_forgotten(self, harness: StoreHarness) -> None:
        harness.submit("acme")
        fold(harness)
        harness.clock.advance(FIRST_MINUTE + MINUTE.retention - START)
        assert harness.store.history.forget_old() == 0
        harness.advance(60)
        assert harness.store.history.forget_old() == 4
        assert (len(rows(harness, MINUTE, QUEUE)), len(rows(harness, HOUR, QUEUE))) == (0, 1)
        harness.clock.advance(HOUR.retention)  # more than is left of it
        assert harness.store.history.forget_old() == 4
        assert rows(harness, HOUR, CUSTOMER) == ()

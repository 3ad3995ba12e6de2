"""The history as series of equal steps."""

import pytest

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.insights import HistoryBy, HistoryQuery, HistoryView, read_history
from inturn.model import NewDocument
from inturn.policy.history import MAX_OPEN_CUSTOMERS
from inturn.queue import Queue
from inturn.store_history import HistoryScope
from inturn.stores import open_store
from inturn.values import seconds

START = seconds(1_700_000_040)  # on the minute
MINUTE, HOUR = seconds(60), seconds(3_600)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    return Queue(open_store("memory://", clock), clock=clock)


def submit(queue: Queue, customer: str, n: int = 1) -> None:
    queue.submit(customer, [NewDocument("a document")] * n)


def submitted(view: HistoryView) -> list[int | None]:
    return [None if point.figures is None else point.figures.submitted for point in view.total]


def last_minutes(queue: Queue, n: int, named: str | None = None, **fields: object) -> HistoryView:
    times = queue.now() - n * MINUTE, queue.now()
    return read_history(queue, HistoryQuery(*times, queue=named, **fields))  # type: ignore[arg-type]


def test_unknown_steps_are_none_and_quiet_ones_are_zero(queue: Queue, clock: ManualClock) -> None:
    submit(queue, "acme", 2)
    queue.fold_history(limit=10)
    clock.advance(3 * MINUTE)
    queue.fold_history(limit=10)
    clock.advance(2 * MINUTE)
    view = last_minutes(queue, 7)
    assert submitted(view) == [None, None, 2, 0, 0, 0, None]
    assert [point.at - START for point in view.total] == [minute * MINUTE for minute in range(-2, 5)]


def test_nothing_is_known_before_the_first_fold(queue: Queue) -> None:
    assert submitted(last_minutes(queue, 2)) == [None, None]


def test_a_longer_time_has_longer_steps(queue: Queue, clock: ManualClock) -> None:
    submit(queue, "acme")
    queue.fold_history(limit=10)
    clock.advance(HOUR)
    submit(queue, "acme", 4)
    queue.fold_history(limit=10)
    clock.advance(1)
    for minutes, step in ((60, MINUTE), (24 * 60, 5 * MINUTE), (7 * 24 * 60, HOUR), (90 * 24 * 60, 12 * HOUR)):
        view = last_minutes(queue, minutes)
        assert view.step == step
        assert len(view.total) <= 301
    view = last_minutes(queue, 24 * 60)
    assert sum(n or 0 for n in submitted(view)) == 5
    assert view.total[-1].figures is not None
    assert view.total[-1].figures.waiting == 5


def test_levels_and_the_busiest_customers_have_series(queue: Queue, clock: ManualClock) -> None:
    for n, customer in enumerate(("acme", "beta", "gamma"), start=1):
        submit(queue, customer, 3 * n)
    clock.advance(1)
    queue.fold_history(limit=10)
    clock.advance(MINUTE)
    by_level = last_minutes(queue, 2, by=HistoryBy.LEVEL)
    assert [series.key for series in by_level.series] == ["1", "2", "3", "4"]
    by_customer = last_minutes(queue, 2, by=HistoryBy.CUSTOMER, top=1)
    assert [series.key for series in by_customer.series] == ["gamma", ""]
    counts = [point.figures.submitted for series in by_customer.series for point in series.points if point.figures]
    assert sum(counts) == sum(n or 0 for n in submitted(by_customer)) == 18


def test_queues_have_series_and_a_history_of_their_own(queue: Queue, clock: ManualClock) -> None:
    queue.submit("acme", [NewDocument("a document", queue=name) for name in ("ocr", "ocr", "ocr", "export")])
    for claimed in queue.claim("worker", 2, queues=["ocr"]):
        queue.ack([queue.next_step(claimed, "export", 1)])
    clock.advance(1)
    queue.fold_history(limit=10)
    clock.advance(MINUTE)
    view = last_minutes(queue, 2, by=HistoryBy.QUEUE)
    figures = {series.key: next(point.figures for point in series.points if point.figures) for series in view.series}
    assert {name: (one.submitted, one.steps, one.waiting) for name, one in figures.items()} == {
        "export": (1, 0, 3),
        "ocr": (3, 2, 1),
    }
    busiest = last_minutes(queue, 2, by=HistoryBy.QUEUE, top=1)
    assert [series.key for series in busiest.series] == ["ocr", ""]
    alone = last_minutes(queue, 2, by=HistoryBy.QUEUE, named="ocr")
    assert submitted(alone) == [None, 3, None]
    assert [series.key for series in alone.series] == ["ocr"]


def test_a_queue_is_unknown_where_an_older_version_kept_no_queues(queue: Queue, clock: ManualClock) -> None:
    for _ in range(2):
        submit(queue, "acme")
        queue.fold_history(limit=10)
        clock.advance(MINUTE)
    rows = queue.store.history._rows  # type: ignore[attr-defined]  # noqa: SLF001 - rows as an older version left them
    for (_, at), series in rows.items():
        if at == START:
            series.pop((HistoryScope.NAMED_QUEUE, "default"))
    assert submitted(last_minutes(queue, 2, named="default")) == [None, 1]
    (series,) = last_minutes(queue, 2, by=HistoryBy.QUEUE).series
    assert [point.figures is None for point in series.points] == [True, False]


def test_a_customer_has_its_own_history_alone(queue: Queue, clock: ManualClock) -> None:
    submit(queue, "acme", 2)
    submit(queue, "beta", 5)
    queue.fold_history(limit=10)
    clock.advance(1)
    view = last_minutes(queue, 1, customer="acme", by=HistoryBy.CUSTOMER)
    assert sum(n or 0 for n in submitted(view)) == 2
    assert [series.key for series in view.series] == ["acme"]


def test_a_customer_among_the_others_is_unknown_not_zero(queue: Queue, clock: ManualClock) -> None:
    for n in range(MAX_OPEN_CUSTOMERS + 1):
        submit(queue, f"busy{n}", 2)
    submit(queue, "small")
    queue.fold_history(limit=1_000)
    clock.advance(1)
    assert submitted(last_minutes(queue, 1, customer="small"))[-1] is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"until": START - 1}, "`from` must be before `to`"),
        ({"until": START + 91 * 24 * HOUR}, "at most 90 days"),
        ({"customer": "acme", "by": HistoryBy.LEVEL}, "is of all customers"),
        ({"customer": "acme", "by": HistoryBy.QUEUE}, "is of all customers"),
        ({"queue": "ocr", "by": HistoryBy.CUSTOMER}, "is of all queues"),
        ({"queue": "ocr", "customer": "acme"}, "a queue or a customer, not both"),
        ({"step": 7}, "a step is one of 1, 5, 15, 30, 60"),
        ({"step": MINUTE, "until": START + 60 * 24 * HOUR}, "too many steps"),
    ],
)
def test_what_has_no_answer_is_refused(queue: Queue, fields: dict[str, object], message: str) -> None:
    query = HistoryQuery(START, START + HOUR)._replace(**fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=message):
        read_history(queue, query)


def test_customers_with_series_are_those_of_which_most_was_processed(queue: Queue, clock: ManualClock) -> None:
    submit(queue, "done", 2)
    for claim in queue.claim("worker", 2):
        queue.finish(claim, {})
    submit(queue, "waits", 50)
    queue.fold_history(limit=10)
    clock.advance(1)
    view = last_minutes(queue, 2, by=HistoryBy.CUSTOMER, top=1)
    assert [series.key for series in view.series] == ["done", ""]

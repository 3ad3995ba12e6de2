"""One document for the next: the exchange of whoever takes one at a time, in as few steps as there can be.

It does what `SqliteStore._exchange` does and leaves to that whatever is out of the ordinary. Between two commits a
processor forgets what it was doing, so that a step costs twice what it costs in a batch.
"""

from collections.abc import Sequence
from typing import Any, Final

from inturn.model import Claimed
from inturn.store import ClaimRequest, EventKind, Outcome, OutcomeKind, Verdict
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.tables import QUERIES, Row, Tables, document_of, packed

FINISH: Final = QUERIES["finish_document"]
START: Final = QUERIES["start_document"]
ADD_EVENT: Final = QUERIES["add_event"]
NOTHING_TO_SETTLE: Final[tuple[Verdict, ...]] = ()
RECORDED: Final = (Verdict.RECORDED,)
FINISHED: Final = str(EventKind.FINISHED)
STARTED: Final = str(EventKind.STARTED)
Done = tuple[tuple[Verdict, ...], tuple[Claimed, ...]]


def is_single(outcomes: Sequence[Outcome], request: ClaimRequest) -> bool:
    """Whether one success at most is exchanged for one document."""
    if request.limit != 1 or len(outcomes) > 1:
        return False
    return not outcomes or (outcomes[0].kind is OutcomeKind.DONE and not outcomes[0].files)


def exchange(tables: Tables, book: Book, outcomes: Sequence[Outcome], request: ClaimRequest, now: int) -> Done | None:
    """The verdict and the next document; None, and nothing is done, where the long way has to be gone."""
    if book.next_due <= now or book.paused_by is not None or book.has_returned:
        return None
    execute = tables.connection.execute
    events: list[tuple[Any, ...]] = []
    verdicts = NOTHING_TO_SETTLE
    if outcomes:
        outcome = outcomes[0]
        id_ = packed(outcome.id)
        done: list[Row] = execute(FINISH, (id_, outcome.fence, now, outcome.result)).fetchall()
        if not done:
            return None
        _, _, owner, capped, _ = done[0]
        if capped:
            book.stopped(owner)
        events.append((book.give_events(1), now, FINISHED, tables.name(owner), id_, None, None, None))
        verdicts = RECORDED
    claimed: tuple[Claimed, ...] = ()
    book.reach(1)
    found = book.take(now)
    if found is not None:
        line, head = found
        book.fence = fence = book.fence + 1
        customer, until = tables.name(line.owner), now + request.lease
        rows: list[Row] = execute(START, (head.seq, customer, now, until, fence, request.worker)).fetchall()
        if not rows:
            raise AssertionError(f"document {head.seq} stands in a line and does not wait")
        book.next_due = min(book.next_due, until)
        events.append((book.give_events(1), now, STARTED, customer, rows[0][0], None, None, None))
        claimed = (Claimed(document_of(rows[0]), fence),)
    if events:
        tables.connection.executemany(ADD_EVENT, events)
    book.save()
    return verdicts, claimed

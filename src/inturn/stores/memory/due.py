"""What is due in the memory store: leases, delays, `start_by`, rate limits, and documents whose parts have ended."""

from inturn.model import DocumentState
from inturn.policy import rates
from inturn.policy.clock_skew import Term, review_term
from inturn.store_answers import AheadOfClock, SweepResult
from inturn.store_types import LEASE_LOST_ERROR, EventKind
from inturn.stores.memory.rows import Row
from inturn.stores.memory.state import State

EMPTY_SWEEP = SweepResult()


def review(state: State, now: int) -> None:
    """Review leases, delays and rate limits that a clock ahead of this one has set (S46)."""
    state.lanes.clamp_rates(now)
    for queue in state.queues.values():
        if queue.settings.rate is not None:
            queue.tat = rates.clamped_tat(queue.settings.rate, queue.tat, now)
    for row in state.leases.rows():
        if (term := review_term(_lease(row), now)) != _lease(row):
            _, row.lease_until, row.doubted_at = term
            state.leases.add(term.ends_at, row)
    for row in state.delays.rows():
        if (term := review_term(_delay(row), now)) != _delay(row):
            _, row.due_at, row.doubted_at = term
            state.delays.add(term.ends_at, row)


def ahead_of_clock(state: State, now: int) -> AheadOfClock:
    """Count what `review` would change (S48)."""
    leases = sum(_lease(row).began_at > now for row in state.leases.rows())
    delays = sum(_delay(row).began_at > now for row in state.delays.rows())
    queues = sum(
        queue.settings.rate is not None and rates.clamped_tat(queue.settings.rate, queue.tat, now) < queue.tat
        for queue in state.queues.values()
    )
    return AheadOfClock(leases, delays, state.lanes.rates_ahead(now) + queues)


def process_due(state: State, now: int) -> SweepResult:
    """Process due `start_by` times, leases, delays, parts that have ended and rate limits, in this order (S9)."""
    nothing_timed = state.leases.earliest > now and state.delays.earliest > now and state.start_bys.earliest > now
    if nothing_timed and not state.lanes.has_openings and not state.steps.may_be_due:
        return EMPTY_SWEEP
    expired, lost, due = [], [], []
    for row in state.start_bys.due(now):
        state.end(row, DocumentState.EXPIRED, now)
        expired.append(row)
    for row in state.leases.due(now):
        _lose_lease(state, row, now)
        lost.append(row)
    for row in state.delays.due(now):
        state.requeue(row, now)
        due.append(row)
    merged = state.steps.take_due(state.documents)
    for row in merged:
        state.enter_queue(row, now)
    if expired or lost or due or merged:
        _log_due(state, expired, lost, due, merged, now)
    return SweepResult(len(expired), len(lost), len(due), state.lanes.reopen_due(now))


def _lose_lease(state: State, row: Row, now: int) -> None:
    if row.attempt >= row.spec.max_attempts:
        row.error = LEASE_LOST_ERROR
        state.end(row, DocumentState.FAILED, now)
    else:
        state.end_attempt(row, EventKind.LEASE_LOST, None, now)
        state.requeue(row, now)


def next_due(state: State, now: int) -> int | None:
    """Return when the next of them is due, or a rate limit of a queue opens (S26)."""
    times = (state.leases.next(), state.delays.next(), state.lanes.next_opening(), state.lanes.share_opens_at())
    openings = (at for queue in state.queues.values() if (at := queue.opens_at()) is not None and at > now)
    return min((at for at in (*times, *openings) if at is not None), default=None)


def _log_due(state: State, expired: list[Row], lost: list[Row], due: list[Row], merged: list[Row], now: int) -> None:
    failed = [row for row in lost if row.state is DocumentState.FAILED]
    lost = [row for row in lost if row.state is not DocumentState.FAILED]
    for kind, rows in (
        (EventKind.EXPIRED, expired),
        (EventKind.LEASE_LOST, lost),
        (EventKind.FAILED, failed),
        (EventKind.DUE, due),
        (EventKind.PARTS_ENDED, merged),
    ):
        state.journal.append_grouped(kind, now, rows)


def _lease(row: Row) -> Term:
    return Term(row.leased_at or 0, row.lease_until or 0, row.doubted_at)


def _delay(row: Row) -> Term:
    return Term(row.delayed_at or 0, row.due_at or 0, row.doubted_at)

"""Turn insights into sentences of a language."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from inturn.i18n import Texts
from inturn.insights import (
    MIN_FINISHES,
    SHARE_WINDOW,
    THROUGHPUT_WINDOW,
    ClosedBy,
    CustomerShare,
    NoPlace,
    NoStart,
    Why,
)
from inturn.model import DEFAULT_QUEUE, Document, DocumentState
from inturn.policy.forecasts import HeldCounts
from inturn.policy.position import Ahead
from inturn.values import SECOND

MIN_HELD: Final = 20
"""Forecasts of the last day from which on their accuracy is shown."""
RANGE_STEPS: Final = (
    (120 * SECOND, 10 * SECOND),
    (1_800 * SECOND, 60 * SECOND),
    (10_800 * SECOND, 300 * SECOND),
    (86_400 * SECOND, 1_800 * SECOND),
    (604_800 * SECOND, 3_600 * SECOND),
)
"""Up to which wait a range is rounded to which step."""

STATE_TEXT_KEYS: Final = {
    DocumentState.WAITING: "state_waiting",
    DocumentState.RUNNING: "state_running",
    DocumentState.DELAYED: "state_delayed",
    DocumentState.SPLIT: "state_split",
    DocumentState.DONE: "state_done",
    DocumentState.FAILED: "state_failed",
    DocumentState.CANCELLED: "state_cancelled",
    DocumentState.EXPIRED: "state_expired",
}
CLOSED_BY_TEXT_KEYS: Final = {
    ClosedBy.QUEUE_PAUSED: "closed_by_queue_paused",
    ClosedBy.OWN_QUEUE_PAUSED: "closed_by_own_queue_paused",
    ClosedBy.CUSTOMER_PAUSED: "closed_by_customer_paused",
    ClosedBy.CAP: "closed_by_cap",
    ClosedBy.RATE: "closed_by_rate",
    ClosedBy.SHARE: "closed_by_share_only",
    ClosedBy.OWN_QUEUE_CAP: "closed_by_own_queue_cap",
    ClosedBy.OWN_QUEUE_RATE: "closed_by_own_queue_rate",
}


def explain(why: Why, texts: Texts, share: CustomerShare | None = None) -> Iterator[tuple[str, str]]:
    """Yield labels and sentences, from what the document is to when it should start.

    `share` is its customer's share of worker seconds, where workers did any.
    """
    document = why.document
    yield texts.text("label_document"), f"{document.id} ({document.spec.name})"
    yield texts.text("label_customer"), document.customer
    if has_steps(document) or document.queue != DEFAULT_QUEUE:
        yield texts.text("head_queue"), _queue(document, texts)
    yield texts.text("label_state"), _state(why, texts)
    yield texts.text("label_level"), _level(why, texts)
    if why.counter is not None:
        key = "counter_now" if why.counter.resets_after >= why.at else "counter_reset"
        moment = texts.time(why.counter.resets_after)
        yield texts.text("label_counter"), texts.text(key, count=why.counter.count, time=moment)
    if why.unended_parts is not None:
        yield texts.text("label_parts"), _parts(why.unended_parts, why, texts)
    if document.state is not DocumentState.WAITING:
        return
    yield texts.text("label_line"), _lane(why, texts)
    if share is not None:
        yield texts.text("label_share"), describe_share(share, texts)
    if why.ahead is not None:
        yield texts.text("label_before"), _ahead(why.ahead, texts)
    if why.no_place is NoPlace.MOVED:
        yield texts.text("label_before"), texts.text("moved")
    else:
        yield texts.text("label_start"), _start(why, texts)


def has_steps(document: Document) -> bool:
    """Return whether a document passes through more than one queue."""
    return bool(document.step or document.ahead)


def describe_share(share: CustomerShare | None, texts: Texts) -> str:
    """Describe a customer's actual share against its fair share; None if workers did nothing."""
    window = texts.duration(SHARE_WINDOW)
    if share is None:
        return texts.text("share_none", window=window)
    received, due = format_percent(share.received, texts), format_percent(share.due, texts)
    shares = texts.text("share_now", received=received, due=due, time=texts.duration(share.worked), window=window)
    documents = texts.text("share_documents", n=share.documents)
    return f"{shares}; {documents}. {texts.text('share_over') if share.is_over else ''}".strip()


def format_percent(part: float, texts: Texts) -> str:
    """Format a part of 1 in percent."""
    return f"{texts.number(round(part * 100, 1))} %"


def _queue(document: Document, texts: Texts) -> str:
    if not has_steps(document):
        return document.queue
    total = document.step + 1 + len(document.ahead)
    return texts.text("queue_step", queue=document.queue, step=document.step + 1, total=total)


def _state(why: Why, texts: Texts) -> str:
    document = why.document
    state = texts.text(STATE_TEXT_KEYS[document.state])
    if document.state is DocumentState.RUNNING and document.started_at is not None:
        since = texts.time(document.started_at)
        return texts.text("running_since", state=state, time=since, worker=document.worker, attempt=document.attempt)
    if document.state is DocumentState.DELAYED and document.due_at is not None:
        return texts.text("delayed_until", state=state, time=texts.time(document.due_at))
    if document.finished_at is not None:
        state = texts.text("ended_at", state=state, time=texts.time(document.finished_at))
    return f"{state}: {document.error}" if document.error else state


def _level(why: Why, texts: Texts) -> str:
    document, bounds = why.document, why.bounds
    below, not_below = bounds or (None, None)
    if below is not None and not_below is not None:
        key = "level_between"
    elif below is not None:
        key = "level_last"
    else:
        key = "level_first" if not_below is not None else "level_alone"
    sentence = texts.text(key, count=document.count, level=document.level, below=below, not_below=not_below)
    return f"{sentence} {texts.text('moved_to_front')}" if document.expedited else sentence


def _lane(why: Why, texts: Texts) -> str:
    if not why.closed_by:
        return texts.text("line_open")
    reasons = "; ".join(_closed_by(closed_by, why, texts) for closed_by in why.closed_by)
    return texts.text("line_closed", reasons=reasons)


def _closed_by(closed_by: ClosedBy, why: Why, texts: Texts) -> str:
    if closed_by is ClosedBy.SHARE and why.slot_use is not None:
        return texts.text("closed_by_share", customer=why.document.customer, **why.slot_use._asdict())
    return texts.text(CLOSED_BY_TEXT_KEYS[closed_by], queue=why.document.queue)


def _parts(unended: int, why: Why, texts: Texts) -> str:
    queue = why.document.queue
    return texts.text("parts_left", n=unended, queue=queue) if unended else texts.text("parts_none_left", queue=queue)


def _ahead(ahead: Ahead, texts: Texts) -> str:
    if ahead.place == 0:
        return texts.text("before_none")
    parts = [
        texts.text(key, n=n)
        for key, n in (
            ("before_better", ahead.better_levels),
            ("before_same", ahead.same_level),
            ("before_own", ahead.own_line),
        )
        if n
    ]
    return texts.text("before_all", n=ahead.place, parts=", ".join(parts))


def _start(why: Why, texts: Texts) -> str:
    if why.start is None:
        if why.no_start is NoStart.CLOSED:
            return texts.text("start_when_open")
        if why.no_start is NoStart.NO_WORKER:
            return texts.text("start_no_worker")
        if why.no_start is NoStart.QUEUE_UNSERVED:
            return texts.text("start_queue_unserved", queue=why.document.queue)
        if why.no_start is NoStart.BY_HAND:
            return texts.text("start_by_hand", queue=why.document.queue)
        return texts.text("start_too_few", fewest=MIN_FINISHES, span=texts.duration(THROUGHPUT_WINDOW))
    shortest, longest = rounded_range(why.start.earliest - why.at, why.start.latest - why.at)
    start = texts.text("start_about", shortest=texts.duration(shortest), longest=texts.duration(longest))
    tenths = held_tenths(why.held)
    return start if tenths is None else f"{start} {texts.text('start_held', n=tenths)}"


def rounded_range(shortest: int, longest: int) -> tuple[int, int]:
    """Round a range of waits outwards to what is known of it: to 10 seconds, minutes, and so on with its length."""
    step = next((step for limit, step in RANGE_STEPS if longest < limit), RANGE_STEPS[-1][1])
    return shortest // step * step, -(-longest // step) * step


def held_tenths(held: HeldCounts | None) -> int | None:
    """Return of how many out of ten forecasts the document started within the span; None if that says little."""
    if held is None or held.total < MIN_HELD:
        return None
    return held.held * 10 // held.total


def explain_to_customer(why: Why, texts: Texts, place: int | None) -> Iterator[str]:
    """Yield the sentences that a customer may see: level, rounded `place` and start.

    They contain neither other customers nor the number of slots.
    """
    yield f"{texts.text('label_level')}: {_level(why, texts)}"
    if why.unended_parts is not None:
        yield _parts(why.unended_parts, why, texts)
    if why.document.state is not DocumentState.WAITING:
        return
    if why.closed_by:
        yield _lane(replace(why, slot_use=None), texts)
    elif place is not None:
        yield texts.text("before_none") if place == 0 else texts.text("before_about", n=place)
    yield texts.text("moved") if why.no_place is NoPlace.MOVED else _start(why, texts)

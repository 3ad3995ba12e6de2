"""Operator and maintenance actions, each in one transaction at one time."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from inturn.errors import NotFoundError, VersionConflictError
from inturn.model import (
    CANCELLABLE,
    EXPEDITABLE,
    EXPEDITED_LEVEL,
    RETRYABLE,
    CustomerSettings,
    DocumentState,
    QueueSettings,
    Receipt,
    changed_queue_settings,
    changed_settings,
    join_steps,
    settings_to_dict,
    split_steps,
)
from inturn.policy import Policy
from inturn.policy.forecasts import ForecastLog, ForecastOutcome
from inturn.store_answers import PruneResult
from inturn.store_types import IDEMPOTENCY_KEY_RETENTION, EventKind, Operator, PolicyVersion, deepest_first
from inturn.stores.sql.lane_log import lane_track, level_of, queue_of
from inturn.stores.sql.queries import Queries, scalar
from inturn.stores.sql.rows import Row, parse_settings, queue_settings_from_row
from inturn.stores.sql.submit import Submitter
from inturn.stores.sql.transitions import DocumentFacts, StartOfSteps, Transitions

SETTINGS_COLUMN: Final = 4
"""The first column of a queue's settings in `named_queues`."""


def cancel(transitions: Transitions, ids: Sequence[str], operator: Operator) -> tuple[str, ...]:
    """Cancel documents that have not ended, with their parts."""
    locked = transitions.lock_documents(ids, CANCELLABLE)
    cancelled: set[str] = set()
    for _, facts in locked:
        if facts.id in cancelled:  # as a part of a document before it
            continue
        for other in (facts, *transitions.unended_parts(facts)):
            if other.id not in cancelled:
                transitions.cancel(other)
                transitions.record_event(EventKind.CANCELLED, other)
                cancelled.add(other.id)
    transitions.add_grouped_events((EventKind.CANCELLED,), operator)
    return tuple(id_ for id_, _ in locked)


def retry(
    transitions: Transitions, submitter: Submitter, ids: Sequence[str], operator: Operator, *, from_start: bool
) -> tuple[Receipt, ...]:
    """Queue ended documents again, by a new check each. Their customers are locked before any document.

    Parts go first, so that a document which is retried with them waits for them. A part is retried only while its
    document has not gone on; to write that one's row, though nothing in it changes, makes a claim that moves it on fail
    and look again.
    """
    counters, receipts, queries = submitter.lock_owners(ids), [], transitions.queries
    version = scalar(queries, "policy_number")
    locked = transitions.lock_documents(ids, RETRYABLE)
    for id_, facts in deepest_first(locked, {facts.id: facts.parent for _, facts in locked}, lambda item: item[1].id):
        if facts.is_part and queries.fetch_one("touch_whole", seq=facts.seq) is None:
            continue
        if from_start:
            transitions.delete_parts(facts)
        start = _start_of_steps(queries, submitter, facts) if from_start else None
        checked = submitter.apply_checks(facts.owner, counters[facts.owner], 1, transitions.now, version)
        counters[facts.owner] = checked.counter
        receipts.append(transitions.retry(facts, id_, checked.levels[0][0], checked.counter.count, start))
        transitions.record_event(EventKind.RETRIED, facts if start is None else facts._replace(queue=start.queue))
    transitions.add_grouped_events((EventKind.RETRIED,), operator)
    return tuple(receipts)


def _start_of_steps(queries: Queries, submitter: Submitter, facts: DocumentFacts) -> StartOfSteps:
    """Return where a document began."""
    queue, steps = queries.fetch_one("submitted_steps", seq=facts.seq) or (facts.queue, None)
    return StartOfSteps(queue, submitter.queue_number(queue), join_steps(split_steps(steps)[1:]))


def expedite(transitions: Transitions, id_: str, operator: Operator, *, undo: bool) -> bool:
    """Move a document ahead of all levels, or back to its own."""
    locked = transitions.lock_documents((id_,), frozenset(DocumentState))
    if not locked:
        raise NotFoundError(f"there is no document {id_}")
    _, facts = locked[0]
    is_expedited = level_of(facts.lane) == EXPEDITED_LEVEL
    if is_expedited is not undo or facts.state not in EXPEDITABLE:
        return False
    kind = EventKind.EXPEDITE_UNDONE if undo else EventKind.EXPEDITED
    transitions.expedite(facts, undo=undo)
    transitions.record_event(kind, facts)
    transitions.add_grouped_events((kind,), operator)
    return True


def change_customer(
    transitions: Transitions,
    submitter: Submitter,
    name: str,
    changes: Mapping[str, Any],
    expected: Mapping[str, Any],
    operator: Operator,
) -> CustomerSettings:
    """Change settings while no document is claimed and no run ends, so that running documents can be counted."""
    queries = transitions.queries
    (*_, before) = queries.fetch_one("customer", name=name) or (None,)
    changed_settings(parse_settings(before), changes, expected)  # refused changes must not make the customer known
    owner, _ = submitter.lock_or_add_customer(name)
    queries.execute("lock_claims")
    queries.execute("lock_caps")
    (*_, before) = queries.fetch_one("customer", name=name) or (None,)
    settings = changed_settings(parse_settings(before), changes, expected)
    running: dict[int, int] = dict(queries.fetch_all("running_counts"))
    transitions.lane_log.settings_changed(owner, settings, running.get(owner, 0))
    queries.execute(
        "set_settings",
        id=owner,
        settings=json.dumps(settings_to_dict(settings._asdict())),
        paused=settings.paused,
        capped=settings.cap is not None,
        keeps=settings.keep is not None,
    )
    transitions.add_event(EventKind.CUSTOMER_CHANGED, name, operator, settings_to_dict(changes))
    return settings


def set_paused(transitions: Transitions, kind: EventKind, operator: Operator, queue: str | None) -> None:
    """Pause all queues or one of them, or resume."""
    by, why = operator if kind is EventKind.QUEUE_PAUSED else (None, None)
    if queue is None:
        transitions.queries.execute("pause", by=by, why=why)
        transitions.add_event(kind, None, operator)
    else:
        number, *_ = require_queue(transitions.queries, queue)
        transitions.queries.execute("pause_queue", number=number, by=by, why=why)
        transitions.add_event(kind, None, operator, {"queue": queue})


def require_queue(queries: Queries, name: str) -> Row:
    """Return number, name, who paused it and why, and the settings; NotFoundError for an unknown name."""
    row = next((row for row in queries.fetch_all("named_queues") if row[1] == name), None)
    if row is None:
        raise NotFoundError(f"there is no queue {name!r}; a queue is made with its first document")
    return row


def change_queue(
    transitions: Transitions, submitter: Submitter, name: str, changes: Mapping[str, Any], operator: Operator
) -> QueueSettings:
    """Change the settings of a queue, known or new."""
    queries = transitions.queries
    queries.execute("lock_queues")
    row = next((row for row in queries.fetch_all("named_queues") if row[1] == name), None)
    before = QueueSettings() if row is None else queue_settings_from_row(row[SETTINGS_COLUMN:])
    settings = changed_queue_settings(before, changes)
    documents, per = settings.rate or (None, None)
    number = submitter.queue_number(name)
    queries.execute(
        "set_queue",
        number=number,
        description=settings.description,
        weight=float(settings.weight),
        cap=settings.cap,
        documents=documents,
        per=per,
        manual=int(settings.manual),
        form=settings.form,
    )
    if settings.rate != before.rate:
        queries.execute("forget_rate", number=number)
    transitions.add_event(EventKind.QUEUE_CHANGED, None, operator, {"queue": name, **settings_to_dict(changes)})
    return settings


def pause_worker(transitions: Transitions, name: str, operator: Operator) -> None:
    """Stop one worker from claiming."""
    by, why = operator
    _set_worker_pause(transitions, name, by=by, why=why, at=transitions.now)
    transitions.add_event(EventKind.WORKER_PAUSED, None, operator, {"worker": name})


def resume_worker(transitions: Transitions, name: str, operator: Operator) -> None:
    """Let a paused worker claim again."""
    _set_worker_pause(transitions, name, by=None, why=None, at=None)
    transitions.add_event(EventKind.WORKER_RESUMED, None, operator, {"worker": name})


def _set_worker_pause(transitions: Transitions, name: str, **values: object) -> None:
    if not transitions.queries.execute("pause_worker", name=name, **values):
        raise NotFoundError(f"there is no worker {name!r}")


def set_policy(transitions: Transitions, policy: Policy, operator: Operator, expected: int | None) -> PolicyVersion:
    """Put a policy in force. The lane log must have been applied: releases are refunded by the order before."""
    queries = transitions.queries
    current = scalar(queries, "lock_policy")
    if expected is not None and expected != current:
        raise VersionConflictError(
            f"the active policy is version {current}, not {expected}; read it again and repeat your change",
        )
    version = PolicyVersion(current + 1, policy, transitions.now, operator)
    text = json.dumps(policy.to_dict())
    queries.execute(
        "add_policy", number=version.number, settings=text, at=version.at, by=operator.name, why=operator.why
    )
    queries.execute("use_policy", number=version.number)
    transitions.add_event(EventKind.POLICY_SET, None, operator, {"version": version.number})
    return version


def read_forecast_log(queries: Queries) -> ForecastLog:
    """Read what became of the newest forecasts."""
    text = scalar(queries, "forecasts")
    return ForecastLog.from_json(text) if text else ForecastLog()


def add_forecasts(queries: Queries, outcomes: Sequence[ForecastOutcome]) -> None:
    """Add outcomes to the log, under the lock of the queue's row."""
    queries.fetch_one("lock_policy")
    queries.execute("save_forecasts", log=read_forecast_log(queries).add(outcomes).to_json())


def purge(transitions: Transitions, customer: str, operator: Operator) -> PruneResult:
    """Delete all documents of a customer, whose row is locked: none of its submits is in flight."""
    queries, lane_log = transitions.queries, transitions.lane_log
    row = queries.fetch_one("lock_customer", name=customer)
    if row is None:
        raise NotFoundError(f"there is no customer {customer!r}")
    owner = row[0]
    is_capped = bool(queries.fetch_many("capped_of", ("id",), [(owner,)]))
    locked = -1
    while (unended := len(queries.fetch_all("lock_unended_documents", customer=owner))) > locked:
        locked = unended  # until then, outcomes may have added parts and files
    blobs = tuple(blob for (blob,) in queries.fetch_all("blobs_of", customer=owner))
    queries.execute("purge_files", customer=owner)
    removed = queries.fetch_all("purge_documents", customer=owner)
    documents = 0
    # Running documents go last, so that no lane opens for a document that is deleted as well.
    for state, lane, n in sorted(removed, key=lambda row: (row[0] == DocumentState.RUNNING, row[1])):
        documents += n
        if state == DocumentState.WAITING:
            lane_log.emptied(owner, lane, n)
        elif state == DocumentState.RUNNING and is_capped:
            for _ in range(n):
                lane_log.stopped(owner)
    for queue in sorted({queue_of(lane_track(lane)) for state, lane, _ in removed if state == DocumentState.RUNNING}):
        lane_log.in_flight(owner, queue, 0)
    queries.execute("purge_attempts", customer=owner)
    queries.execute("purge_groups", customer=owner)
    keys = queries.execute("purge_idempotency_keys", customer=owner)
    queries.execute("purge_api_keys", customer=customer)
    transitions.add_event(EventKind.PURGED, customer, operator, {"documents": documents})
    return PruneResult(documents, 0, keys, blobs)


def prune(queries: Queries, before: int, up_to: int, limit: int, now: int) -> PruneResult:
    """Delete what ended long ago: documents, events, keys."""
    removed = _delete_documents(queries, queries.fetch_all("ended_before", before=before, up_to=up_to, limit=limit))
    events = queries.execute("forget_events", before=before, limit=limit)
    keys = queries.execute("forget_idempotency_keys", before=now - IDEMPOTENCY_KEY_RETENTION)
    return removed._replace(events=events, keys=keys)


def prune_customer(queries: Queries, customer: str, before: int, up_to: int, limit: int) -> PruneResult:
    """Delete what ended long ago of one customer's documents."""
    where = {"customer": customer_id(queries, customer), "before": before, "up_to": up_to, "limit": limit}
    return _delete_documents(queries, queries.fetch_all("ended_before_of", **where))


def _delete_documents(queries: Queries, rows: Sequence[Row]) -> PruneResult:
    """Delete these documents, given as seq and blob, with their attempts and the files of their results."""
    if not rows:
        return PruneResult(0, 0, 0, ())
    seqs = [(seq,) for seq, _ in rows]
    files = sorted(queries.fetch_many("forget_files", ("seq",), seqs))
    queries.execute_many("forget_attempts", ("seq",), seqs)
    queries.execute_many("forget_documents", ("seq",), seqs)
    blobs = [blob for _, blob in rows if blob is not None]
    return PruneResult(len(rows), 0, 0, (*blobs, *(blob for _, blob in files)))


def customer_id(queries: Queries, name: str) -> int:
    """Return the id of a customer; NotFoundError if there is none of this name."""
    row = queries.fetch_one("customer", name=name)
    if row is None:
        raise NotFoundError(f"there is no customer {name!r}")
    return int(row[0])

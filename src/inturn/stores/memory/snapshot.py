"""Write the memory store to a JSON file and read it back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.errors import StoreError
from inturn.files import write_private
from inturn.model import (
    DEFAULT_QUEUE,
    DOCUMENT_COLUMNS,
    DocumentState,
    NewDocument,
    QueueSettings,
    Receipt,
    ResultFile,
    settings_from_dict,
    settings_to_dict,
)
from inturn.policy import Counter, Policy
from inturn.policy.groups import Groups
from inturn.policy.scheduler import FIRST_QUEUE, LEVELS, Scheduler, VirtualTime
from inturn.policy.slot_share import SlotShares
from inturn.store_types import Attempt, Event, EventKind, Operator, OutcomeKind, PolicyVersion, StepResult
from inturn.stores.memory.lanes import Lanes
from inturn.stores.memory.rows import CustomerRow, MemoryLane, Row
from inturn.stores.memory.state import IdempotencyRecord, State

FORMAT_VERSION = 1
SPEC_FIELDS = DOCUMENT_COLUMNS
ROW_FIELDS = [field.name for field in fields(Row) if field.name not in {"spec", "track"}]


def write(state: State, path: Path) -> None:
    """Write the state to a file atomically."""
    text = json.dumps(
        {
            "format": FORMAT_VERSION,
            "seq": state.seq,
            "fence": state.fence,
            "paused": state.paused,
            "policies": [[*version[:1], version.policy.to_dict(), *version[2:]] for version in state.policies],
            "documents": [_row_to_json(row) for row in state.documents.values()],
            "customers": [_customer_to_json(customer) for customer in state.lanes.customers.values()],
            "keys": [[*key, *record] for key, record in state.idempotency_keys.items()],
            "events": [_event_to_json(*event) for event in state.journal.events],
            "last_event": state.journal.last,
            "queues": [[name, row.settings.to_dict(), row.paused, row.tat] for name, row in state.queues.items()],
            "turns": _scheduler_to_json(state.lanes.schedulers[FIRST_QUEUE]),
            "more_turns": [_scheduler_to_json(scheduler) for scheduler in state.lanes.schedulers[1:]],
            "access": list(state.api_keys.values()),
            "steps": [[id_, *result] for id_, results in state.steps.results.items() for result in results],
            "attempts": [[id_, *attempt] for id_, by_fence in state.attempts.items() for attempt in by_fence.values()],
        }
    )
    part = path.with_name(path.name + ".part")
    with write_private(part) as file:
        file.write(text.encode())
    part.replace(path)


def read(path: Path) -> State:
    """Read a file that `write` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is not a backup of a memory store: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT_VERSION:
        raise StoreError(f"{path} is not a backup of a memory store that this version can read")
    return state_from_json(data)


def state_from_json(data: Mapping[str, Any]) -> State:
    """Build the state from parsed JSON."""
    versions = [
        PolicyVersion(number, Policy.from_dict(policy), at, Operator(*operator))
        for number, policy, at, operator in data["policies"]
    ]
    state = State(versions[-1])
    state.policies = versions
    state.seq, state.fence = data["seq"], data["fence"]
    state.paused = None if data["paused"] is None else Operator(*data["paused"])
    state.idempotency_keys = {
        (customer, key): IdempotencyRecord(fingerprint, at, tuple(Receipt(*receipt) for receipt in answer))
        for customer, key, fingerprint, at, answer in data["keys"]
    }
    state.journal.events = [_event(*event) for event in data["events"]]
    state.journal.last = data["last_event"]
    for name, settings, paused, *tat in data.get("queues", ()):
        queue = state.queue(name)
        older = dict(zip(QueueSettings._fields, settings, strict=False)) if isinstance(settings, list) else settings
        queue.settings, queue.paused = QueueSettings.from_dict(older), paused and Operator(*paused)
        queue.tat = tat[0] if tat else 0
    for customer in data["customers"]:
        _read_customer(state.lanes, customer)
    for number, turns in enumerate([data["turns"], *data.get("more_turns", ())]):
        _read_scheduler(state.lanes, number, turns)
    _read_documents(state, data["documents"])
    for id_, step, name, result, files in data.get("steps", ()):
        own = StepResult(step, name, result, tuple(ResultFile(*file) for file in files))
        state.steps.results.setdefault(id_, []).append(own)
    for id_, sha256, scope, *rest in data.get("access", ()):
        state.api_keys[id_] = ApiKey(id_, sha256, ApiKeyScope(scope), *rest)
    for id_, *attempt in data.get("attempts", ()):
        _read_attempt(state.attempts.setdefault(id_, {}), *attempt)
    return state


def _row_to_json(row: Row) -> list[Any]:
    return [row.spec.to_dict(), *(getattr(row, name) for name in ROW_FIELDS)]


def _customer_to_json(customer: CustomerRow) -> list[Any]:
    lanes = [
        [lane.track, lane.turn, lane.stamp, lane.out_of_turn_at, _groups_to_json(lane.groups)]
        for lane in customer.lanes.values()
    ]
    return [
        customer.name,
        customer.counter,
        settings_to_dict(customer.settings._asdict()),
        customer.tat,
        customer.rate_closed_until,
        lanes,
        {queue: work.unit_time for queue, work in customer.work.items()},
    ]


def _groups_to_json(groups: Groups[MemoryLane] | None) -> list[Any] | None:
    if groups is None:
        return None
    return [groups.virtual_turn, [[name, group.turn, group.stamp] for name, group in groups.members.items()]]


def _scheduler_to_json(scheduler: Scheduler[MemoryLane]) -> list[Any]:
    levels = [[*level.virtual_time, level.max_turn, level.overdue_uses] for level in scheduler.levels]
    shares = scheduler.shares
    return [
        scheduler.next_stamp,
        scheduler.dispatched,
        scheduler.rotation,
        levels,
        scheduler.mean_unit_time,
        [shares.last_customer, shares.last_at, shares.other_at, shares.at_limit],
        [scheduler.queue_turn, scheduler.last_queue_turn],
    ]


def _event_to_json(*event: Any) -> list[Any]:
    *rest, detail, queue = event
    return [*rest, dict(detail), queue]


def _event(number: int, at: int, kind: str, customer: str | None, documents: list[str], *rest: Any) -> Event:
    operator, detail, *queue = rest
    event = Event(number, at, EventKind(kind), customer, tuple(documents), operator and Operator(*operator), detail)
    older = DEFAULT_QUEUE if documents else None
    return event._replace(queue=queue[0] if queue else older)


def _read_customer(lanes: Lanes, data: list[Any]) -> None:
    name, counter, settings, tat, rate_closed_until, lane_times, *unit_time = data
    customer = lanes.customer(name)
    customer.counter = None if counter is None else Counter(*counter)
    customer.settings = settings_from_dict(settings)
    customer.tat = tat
    for times in unit_time:  # older backups have none
        by_queue = times if isinstance(times, dict) else {FIRST_QUEUE: times}  # or one of their only queue
        for queue, expected in by_queue.items():
            customer.work_in(int(queue)).unit_time = expected
    lanes.restore(customer, rate_closed_until, lane_times)


def _read_documents(state: State, data: Iterable[list[Any]]) -> None:
    for spec, *rest in sorted(data, key=lambda row: row[1 + ROW_FIELDS.index("seq")]):
        values = dict(zip(ROW_FIELDS, rest, strict=False))  # an older backup has fewer
        values["state"] = DocumentState(values["state"])
        values["files"] = tuple(ResultFile(*value) for value in values["files"])
        values["last_outcome"] = values["last_outcome"] and OutcomeKind(values["last_outcome"])
        values["ahead"] = tuple(values.get("ahead", ()))
        values.setdefault("queue", spec.get("queue", DEFAULT_QUEUE))
        state.restore_row(Row(spec=NewDocument(**spec), **values))
    state.steps.restore(state.documents)
    state.lanes.schedule_all()


def _read_attempt(attempts: dict[int, Attempt], fence: int, *rest: Any) -> None:
    number, started_at, ended_at, ended, error, worker, *work = rest
    attempts[fence] = Attempt(fence, number, started_at, ended_at, EventKind(ended), error, worker, *work)


def _read_scheduler(lanes: Lanes, queue: int, data: list[Any]) -> None:
    scheduler = lanes.schedulers[queue]
    scheduler.next_stamp, scheduler.dispatched, scheduler.rotation, levels, *work = data
    if work:  # older backups have none
        scheduler.mean_unit_time, shares, *turns = work
        scheduler.shares = SlotShares(0, *shares)
        for name, opens_at in scheduler.shares.at_limit.items():
            if opens_at is not None:
                lanes.customer(name).at_slot_limit.add(queue)
        for turn in turns:  # older backups have none
            scheduler.queue_turn, scheduler.last_queue_turn = turn
    for number, (turn, stamp, max_turn, overdue_uses) in zip(LEVELS, levels, strict=True):
        level = scheduler.levels[number]
        level.virtual_time, level.max_turn, level.overdue_uses = VirtualTime(turn, stamp), max_turn, overdue_uses

"""The memory store written to a JSON file and read back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from inturn.access import AccessKey, KeyScope
from inturn.errors import StoreError
from inturn.files import write_private
from inturn.model import DocumentState, NewDocument, Receipt, ResultFile, plain, settings_of
from inturn.policy import Counter, Policy
from inturn.policy.turns import LEVELS, Standing
from inturn.store import Attempt, Event, EventKind, Operator, OutcomeKind, PolicyVersion
from inturn.stores.memory.lines import Lines
from inturn.stores.memory.rows import CustomerRow, Row
from inturn.stores.memory.state import KeyRecord, State

FORMAT = 1
GIVEN = NewDocument._fields
ROW = [each.name for each in fields(Row) if each.name not in {"given", "line_level"}]


def write(state: State, path: Path) -> None:
    """All of it, or no file."""
    text = json.dumps(
        {
            "format": FORMAT,
            "seq": state.seq,
            "fence": state.fence,
            "paused": state.paused,
            "policies": [[*version[:1], version.policy.plain(), *version[2:]] for version in state.policies],
            "documents": [_plain_row(row) for row in state.documents.values()],
            "customers": [_plain_customer(each) for each in state.lines.customers.values()],
            "keys": [[*key, *record] for key, record in state.keys.items()],
            "events": [[*event[:-1], dict(event[-1])] for event in state.journal.events],
            "last_event": state.journal.last,
            "turns": _plain_turns(state.lines),
            "access": list(state.access.values()),
            "attempts": [[id_, *each] for id_, kept in state.attempts.items() for each in kept.values()],
        }
    )
    part = path.with_name(path.name + ".part")
    with write_private(part) as file:
        file.write(text.encode())
    part.replace(path)


def read(path: Path) -> State:
    """The state as it was written."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as wrong:
        raise StoreError(f"{path} is not a backup of a memory store: {wrong}") from wrong
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        raise StoreError(f"{path} is not a backup of a memory store that this version can read")
    return state_of(kept)


def state_of(kept: Mapping[str, Any]) -> State:
    """The state from what JSON makes of it."""
    versions = [
        PolicyVersion(number, Policy.of(policy), at, Operator(*operator))
        for number, policy, at, operator in kept["policies"]
    ]
    state = State(versions[-1])
    state.policies = versions
    state.seq, state.fence = kept["seq"], kept["fence"]
    state.paused = None if kept["paused"] is None else Operator(*kept["paused"])
    state.keys = {
        (customer, key): KeyRecord(fingerprint, at, tuple(Receipt(*each) for each in answer))
        for customer, key, fingerprint, at, answer in kept["keys"]
    }
    state.journal.events = [_event(*each) for each in kept["events"]]
    state.journal.last = kept["last_event"]
    for each in kept["customers"]:
        _read_customer(state.lines, each)
    _read_turns(state.lines, kept["turns"])
    _read_documents(state, kept["documents"])
    for id_, sha256, scope, *rest in kept.get("access", ()):
        state.access[id_] = AccessKey(id_, sha256, KeyScope(scope), *rest)
    for id_, *attempt in kept.get("attempts", ()):
        _read_attempt(state.attempts.setdefault(id_, {}), *attempt)
    return state


def _plain_row(row: Row) -> list[Any]:
    given = {name: getattr(row.given, name) for name in GIVEN}
    given["metadata"] = dict(row.given.metadata)
    return [given, *(getattr(row, name) for name in ROW)]


def _plain_customer(customer: CustomerRow) -> list[Any]:
    lines = [[line.level, line.turn, line.stamp, line.out_of_turn_at] for line in customer.lines.values()]
    return [
        customer.name,
        customer.counter,
        plain(customer.settings._asdict()),
        customer.whole_at,
        customer.rate_closed_until,
        lines,
    ]


def _plain_turns(lines: Lines) -> list[Any]:
    turns = lines.turns
    levels = [[*level.v, level.highest, level.overdue_uses] for level in turns.levels]
    return [turns.next_stamp, turns.dispatched, turns.rotation, levels]


def _event(number: int, at: int, kind: str, customer: str | None, documents: list[str], *rest: Any) -> Event:
    operator, detail = rest
    return Event(number, at, EventKind(kind), customer, tuple(documents), operator and Operator(*operator), detail)


def _read_customer(lines: Lines, kept: list[Any]) -> None:
    name, counter, settings, whole_at, rate_closed_until, stood = kept
    customer = lines.customer(name)
    customer.counter = None if counter is None else Counter(*counter)
    customer.settings = settings_of(settings)
    customer.whole_at = whole_at
    lines.restore(customer, rate_closed_until, stood)


def _read_documents(state: State, kept: Iterable[list[Any]]) -> None:
    for given, *rest in sorted(kept, key=lambda each: each[1 + ROW.index("seq")]):
        values = dict(zip(ROW, rest, strict=False))  # an older backup knows fewer
        values["state"] = DocumentState(values["state"])
        values["files"] = tuple(ResultFile(*each) for each in values["files"])
        values["settled"] = values["settled"] and OutcomeKind(values["settled"])
        state.resume(Row(given=NewDocument(**given), **values))
    state.lines.file_all()


def _read_attempt(kept: dict[int, Attempt], fence: int, *rest: Any) -> None:
    number, started_at, ended_at, ended, error, worker, *work = rest
    kept[fence] = Attempt(fence, number, started_at, ended_at, EventKind(ended), error, worker, *work)


def _read_turns(lines: Lines, kept: list[Any]) -> None:
    turns = lines.turns
    turns.next_stamp, turns.dispatched, turns.rotation, levels = kept
    for number, (turn, stamp, highest, uses) in zip(LEVELS, levels, strict=True):
        level = turns.levels[number]
        level.v, level.highest, level.overdue_uses = Standing(turn, stamp), highest, uses

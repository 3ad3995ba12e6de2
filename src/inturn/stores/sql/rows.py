"""Rows turned into values."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.model import (
    DEFAULT_QUEUE,
    NO_METADATA,
    CustomerSettings,
    Document,
    DocumentState,
    NewDocument,
    QueueSettings,
    RateLimit,
    settings_from_dict,
    split_steps,
)
from inturn.policy import Policy
from inturn.store_types import Attempt, Event, EventKind, Operator, PolicyVersion

Row = tuple[Any, ...]
STATES: Final = {str(state): state for state in DocumentState}
NEVER: Final = 2**63 - 1
NO_ID: Final = str(UUID(int=0))
_NORMALIZED_ID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def normalize_id(text: str) -> str:
    """An id as it is stored; for what is no UUID, one that no document has."""
    if _NORMALIZED_ID.fullmatch(text):
        return text
    try:
        return str(UUID(text))
    except ValueError:
        return NO_ID


def text_id(stored: str | bytes) -> str:
    """An id as text: PostgreSQL gives text, SQLite the 16 bytes."""
    if isinstance(stored, str):
        return stored
    text = stored.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def text_ids(stored: Sequence[str] | bytes) -> list[str]:
    """Several ids as text: PostgreSQL gives a list, SQLite 16 bytes for each."""
    if isinstance(stored, bytes):
        return [text_id(stored[start : start + 16]) for start in range(0, len(stored), 16)]
    return list(stored)


def document_from_row(row: Row, customer: str | None = None) -> Document:
    """A document from a row of `document_view`; `customer` replaces the column where a query has none."""
    (
        id_, name_of, seq, level, count, state, submitted_at, ready_at, due_at, started_at, finished_at, attempt,
        fence, worker, lease_until, lane, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost,
        delay, start_by, max_attempts, pages, began_at, worked, group, queue, steps, first_queue, step, ahead, parent,
        part, *_,
    ) = row  # fmt: skip
    given = NewDocument._make(
        (
            name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by, max_attempts, pages,
            group, first_queue or queue, steps,
        )
    )  # fmt: skip
    return Document(
        text_id(id_), customer or name_of, seq, given, level, count, STATES[state], submitted_at, ready_at, due_at,
        started_at, finished_at, attempt, fence, worker, lease_until, lane % 10 == 0, error, began_at, worked, queue,
        step, split_steps(ahead), None if parent is None else text_id(parent), part,
    )  # fmt: skip


def policy_from_row(row: Row) -> PolicyVersion:
    """A version from its row."""
    number, settings, at, operator, why = row
    return PolicyVersion(number, Policy.from_dict(json.loads(settings)), at, Operator(operator, why))


def event_from_row(row: Row) -> Event:
    """An event from its row."""
    number, at, kind, customer, documents, operator, why, detail, queue = row
    return Event(
        number,
        at,
        EventKind(kind),
        customer,
        tuple(text_ids(documents)),
        None if operator is None else Operator(operator, why),
        json.loads(detail) if detail else NO_METADATA,
        queue or (DEFAULT_QUEUE if documents else None),
    )


def attempt_from_row(row: Row) -> Attempt:
    """An attempt from its row."""
    fence, number, started_at, ended_at, ended, *more = row
    return Attempt(fence, number, started_at, ended_at, EventKind(ended), *more)


def api_key_from_row(row: Row) -> ApiKey:
    """An API key from its row."""
    id_, sha256, scope, *rest = row
    return ApiKey(id_, sha256, ApiKeyScope(scope), *rest)


def parse_settings(text: str | None) -> CustomerSettings:
    """A customer's settings from their column."""
    return CustomerSettings() if text is None else settings_from_dict(json.loads(text))


def queue_settings_from_row(row: Sequence[Any]) -> QueueSettings:
    """A queue's settings from description, weight, cap, documents and span of the rate limit, manual and form."""
    description, weight, cap, documents, per, manual, form = row
    rate = None if documents is None else RateLimit(documents, per)
    return QueueSettings(description, weight, cap, rate, bool(manual), form)

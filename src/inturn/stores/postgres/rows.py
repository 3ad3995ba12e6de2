"""Rows turned into values, and values into what PostgreSQL takes."""

import json
from typing import Final
from uuid import UUID

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from inturn.model import NO_METADATA, CustomerSettings, Document, DocumentState, NewDocument, settings_from_dict
from inturn.policy import Policy
from inturn.store import Attempt, Event, EventKind, Operator, PolicyVersion
from inturn.stores.postgres.queries import Row

STATES: Final = {str(state): state for state in DocumentState}
NO_ID: Final = str(UUID(int=0))


class IdLoader(Loader):
    """Loads UUIDs as text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        """Text from 16 bytes."""
        text = bytes(data).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def adapt(context: AdaptContext) -> None:
    """Every whole number is a bigint, so that a statement is planned once; ids are text."""
    context.adapters.register_dumper(int, Int8Dumper)
    context.adapters.register_dumper(int, Int8BinaryDumper)
    context.adapters.register_loader("uuid", IdLoader)


def normalize_id(text: str) -> str:
    """An id as the database takes it; for what is no UUID, one that no document has."""
    try:
        return str(UUID(text))
    except ValueError:
        return NO_ID


def search_name(name: str) -> str | None:
    """What a search looks into, by Python's idea of lower case; None where the name itself will do."""
    lower = name.lower()
    return None if lower == name else lower


def document_from_row(row: Row, customer: str | None = None) -> Document:
    """A document from a row of `serialize_document`."""
    (
        id_, name_of, seq, level, count, state, submitted_at, ready_at, due_at, started_at, finished_at, attempt,
        fence, worker, lease_until, lane, error, name, uri, blob, sha256, size, media_type, batch, metadata, cost,
        delay, start_by, max_attempts, pages, began_at, worked, _, _,
    ) = row  # fmt: skip
    given = NewDocument._make(
        (name, uri, blob, sha256, size, media_type, batch, metadata, cost, delay, start_by, max_attempts, pages)
    )
    return Document(
        id_, customer or name_of, seq, given, level, count, STATES[state], submitted_at, ready_at, due_at,
        started_at, finished_at, attempt, fence, worker, lease_until, lane == 0, error, began_at, worked,
    )  # fmt: skip


def policy_from_row(row: Row) -> PolicyVersion:
    """A version from its row."""
    number, settings, at, operator, why = row
    return PolicyVersion(number, Policy.from_dict(json.loads(settings)), at, Operator(operator, why))


def event_from_row(row: Row) -> Event:
    """An event from its row."""
    number, at, kind, customer, documents, operator, why, detail = row
    return Event(
        number,
        at,
        EventKind(kind),
        customer,
        tuple(documents),
        None if operator is None else Operator(operator, why),
        json.loads(detail) if detail else NO_METADATA,
    )


def attempt_from_row(row: Row) -> Attempt:
    """An attempt from its row."""
    fence, number, started_at, ended_at, ended, error, worker, began_at, worked = row
    return Attempt(fence, number, started_at, ended_at, EventKind(ended), error, worker, began_at, worked)


def parse_settings(text: str | None) -> CustomerSettings:
    """A customer's settings from their column."""
    return CustomerSettings() if text is None else settings_from_dict(json.loads(text))
